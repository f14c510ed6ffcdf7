/* FILE.part: known hashes, and what is left where any read, write, sync, rename or allocation fails. */
#include "../src/base/file.h"
#include "../src/base/memory.h"
#include "../src/pull/http_values.h"
#include "../src/pull/part.h"
#include "../src/pull/retry.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void waits(void **state)
{
    (void)state;
    retry r = {0};
    assert_true(retry_seconds(&r, 1, 0) == 1);
    r.used = 3;
    assert_true(retry_seconds(&r, 1, 0) == 8);
    assert_true(retry_seconds(&r, 1, 20) == 20);
    assert_true(retry_seconds(&r, 0, 0) == 0);
    r.used = 1000;
    assert_true(retry_seconds(&r, 1, 0) == 60);
    assert_true(retry_seconds(&r, 1, 600) == 600);
    assert_true(retry_seconds(&r, 1, 601) < 0);
    assert_true(retry_is_for_status(503) && retry_is_for_status(429) && retry_is_for_status(599));
    assert_false(retry_is_for_status(404) || retry_is_for_status(501) || retry_is_for_status(505) ||
                 retry_is_for_status(600));
}

#ifdef HEARTH_HAVE_CURL

static const char text[] = "what is written";

/* Of the text, by sha256sum; and by git hash-object. */
#define TEXT_SHA256 "3a22db05ac4a8b9677dcb36b3fef59f4c10fa49ba57be3005e79a3040674e11d"
#define TEXT_SHA1   "9343a5e4ca550d2e8e41a48dd62eff3a9aeb2d8d"

static char target[PATH_MAX], part_name[PATH_MAX], sidecar[PATH_MAX];

static part_options options_for(digest_kind kind, const char *hex)
{
    part_options o = {.target = target, .url = "http://a/b", .size = SIZE_UNKNOWN, .checking = "hashing"};
    assert_true(!hex || digest_parse(&o.digest, kind, hex));
    o.digest.kind = kind;
    if (kind == DIGEST_GIT_BLOB)
        o.size = strlen(text);
    return o;
}

static void remove_all(void)
{
    unlink(target);
    unlink(part_name);
    unlink(sidecar);
}

/* Writes the text, in two pieces, behind what is there of it; then names it. */
static hearth_status write_whole(const part_options *o, digest *got, hearth_error *error)
{
    part *p;
    TRY(part_open(&p, o, error));
    size_t there = (size_t)part_size(p), half = there + (strlen(text) - there) / 2;
    if (there == 0)
        part_remember(p, "\"tag\"", strlen(text));
    hearth_status status = part_put(p, text + there, half - there, error);
    if (status == HEARTH_OK)
        status = part_put(p, text + half, strlen(text) - half, error);
    if (status == HEARTH_OK)
        status = part_digest(p, got, error);
    if (status == HEARTH_OK)
        status = part_commit(p, false, error);
    part_close(p);
    return status;
}

static void assert_content(const char *path, const char *expected)
{
    char *data;
    size_t size;
    hearth_error error;
    assert_int_equal(file_read(&data, &size, path, 1000, &error), HEARTH_OK);
    assert_string_equal(data, expected);
    mem_free(data);
}

static void known_hashes(void **state)
{
    (void)state;
    hearth_error error;
    digest got;
    static const char *const expected[DIGEST_KIND_COUNT] = {TEXT_SHA256, TEXT_SHA1};
    for (digest_kind kind = 0; kind < DIGEST_KIND_COUNT; kind++) {
        const part_options o = options_for(kind, NULL);
        assert_int_equal(write_whole(&o, &got, &error), HEARTH_OK);
        assert_string_equal(got.hex, expected[kind]);
        assert_int_equal(part_hash_file(target, kind, (hearth_progress){0}, "text", &got, &error), HEARTH_OK);
        assert_string_equal(got.hex, expected[kind]);
        assert_content(target, text);
        assert_false(file_exists(part_name) || file_exists(sidecar));
        remove_all();
    }
    assert_int_equal(mem_live(), 0);
}

/* A part that was left goes on: only with the same URL and digest. */
static void goes_on(void **state)
{
    (void)state;
    hearth_error error;
    digest got;
    part *p;
    const part_options o = options_for(DIGEST_SHA256, NULL);
    assert_int_equal(part_open(&p, &o, &error), HEARTH_OK);
    part_remember(p, "\"tag\"", strlen(text));
    assert_int_equal(part_put(p, text, 4, &error), HEARTH_OK);
    part *other;
    assert_int_equal(part_open(&other, &o, &error), HEARTH_IO);
    assert_non_null(strstr(error.text, "another process is writing it"));
    part_close(p);
    assert_int_equal(part_open(&p, &o, &error), HEARTH_OK);
    assert_int_equal(part_size(p), 4);
    assert_int_equal(part_total(p), strlen(text));
    assert_string_equal(part_validator(p), "\"tag\"");
    part_close(p);
    assert_int_equal(write_whole(&o, &got, &error), HEARTH_OK);
    assert_string_equal(got.hex, TEXT_SHA256);
    assert_content(target, text);
    unlink(target);
    for (int changed = 0; changed < 2; changed++) {
        assert_int_equal(part_open(&p, &o, &error), HEARTH_OK);
        part_remember(p, "\"tag\"", strlen(text));
        assert_int_equal(part_put(p, text, 4, &error), HEARTH_OK);
        part_close(p);
        part_options with = options_for(DIGEST_SHA256, changed ? TEXT_SHA256 : NULL);
        with.url = changed ? o.url : "http://a/c";
        assert_int_equal(part_open(&p, &with, &error), HEARTH_OK);
        assert_int_equal(part_size(p), 0);
        part_close(p);
        assert_false(file_exists(part_name) || file_exists(sidecar));
    }
    assert_int_equal(mem_live(), 0);
}

/* After any failure FILE is not there, or complete; and the next run makes it complete. */
static void every_operation_fails(void **state)
{
    (void)state;
    hearth_error error;
    digest got;
    const part_options o = options_for(DIGEST_SHA256, TEXT_SHA256);
    for (int memory = 0; memory < 2; memory++) {
        hearth_status status = HEARTH_IO;
        for (long n = 0; status != HEARTH_OK || n < 8; n++) {
            assert_true(n < 200);
            remove_all();
            void (*fail_at)(long n) = memory ? mem_fail_at : file_fail_at;
            fail_at(n);
            status = write_whole(&o, &got, &error);
            fail_at(-1);
            if (status == HEARTH_OK) {
                assert_content(target, text);
                continue;
            }
            assert_int_equal(status, memory ? HEARTH_NO_MEMORY : HEARTH_IO);
            assert_false(file_exists(target));
            assert_int_equal(write_whole(&o, &got, &error), HEARTH_OK);
            assert_string_equal(got.hex, TEXT_SHA256);
            assert_content(target, text);
        }
        assert_int_equal(mem_live(), 0);
    }
    remove_all();
}

static bool stop(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)what, (void)done, (void)total;
    return user != NULL;
}

/* Reading what is there again can be interrupted. */
static void hashing_is_interrupted(void **state)
{
    (void)state;
    hearth_error error;
    digest got;
    part *p;
    part_options o = options_for(DIGEST_SHA256, TEXT_SHA256);
    assert_int_equal(part_open(&p, &o, &error), HEARTH_OK);
    part_remember(p, NULL, SIZE_UNKNOWN);
    assert_int_equal(part_put(p, text, 4, &error), HEARTH_OK);
    part_close(p);
    o.progress = (hearth_progress){stop, NULL};
    assert_int_equal(part_open(&p, &o, &error), HEARTH_CANCELLED);
    o.progress.user = &o;
    assert_int_equal(write_whole(&o, &got, &error), HEARTH_OK);
    assert_string_equal(got.hex, TEXT_SHA256);
    assert_int_equal(part_hash_file(target, DIGEST_SHA256, (hearth_progress){stop, NULL}, "text", &got, &error),
                     HEARTH_CANCELLED);
    /* It is there now, and not replaced unasked. */
    assert_int_equal(write_whole(&o, &got, &error), HEARTH_IO);
    assert_non_null(strstr(error.text, "exists by now"));
    remove_all();
}

int main(void)
{
    char folder[] = "/tmp/hearth-part-XXXXXX";
    if (!mkdtemp(folder))
        return 1;
    snprintf(target, sizeof target, "%s/a", folder);
    snprintf(part_name, sizeof part_name, "%s/a.part", folder);
    snprintf(sidecar, sizeof sidecar, "%s/a.part.json", folder);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits),
        cmocka_unit_test(known_hashes),
        cmocka_unit_test(goes_on),
        cmocka_unit_test(every_operation_fails),
        cmocka_unit_test(hashing_is_interrupted),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove_all();
    rmdir(folder);
    return failed;
}

#else

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(waits)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    puts("skipped: libcurl is missing");
    return failed ? failed : 77;
}

#endif
