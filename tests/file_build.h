/* file_build.h - small binary files made by hand, and the checks that every reader's tests share. */
#ifndef TESTS_FILE_BUILD_H
#define TESTS_FILE_BUILD_H

#include "../src/file/gguf.h"
#include "../src/file/safetensors.h"
#include "../src/file/sentencepiece.h"
#include "../src/file/weights.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "skip.h"

/* A string literal with zeros in it, and its size. */
#define BYTES(literal) (literal), sizeof(literal) - 1

static inline void put(buffer *b, const void *data, size_t size)
{
    assert_true(buffer_put(b, data, size));
}
static inline void put_u32(buffer *b, uint32_t value)
{
    put(b, &value, sizeof(value));
}
static inline void put_u64(buffer *b, uint64_t value)
{
    put(b, &value, sizeof(value));
}

static inline void put_zeros(buffer *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        put(b, "", 1);
}

/* Memory of exactly this size, so that AddressSanitizer sees the first byte behind it. */
static inline uint8_t *exact_copy(const void *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    if (size)
        memcpy(copy, data, size);
    return copy;
}

/* ------------------------------------------------------------------- files */

static inline void write_file(const char *path, const void *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    if (size)
        assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

static inline uint8_t *load_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    uint8_t *data = malloc(*size ? *size : 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *size, f), *size);
    fclose(f);
    return data;
}

static inline size_t count_files(const char *folder)
{
    size_t count = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    while (readdir(d))
        count++;
    closedir(d);
    return count - 2; /* . and .. */
}

static inline void make_folder(char *out, size_t size)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(out, size, "%s/hearth-test-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(out));
}

/* Removes a folder of plain files. */
static inline void remove_folder(const char *folder)
{
    char path[4096];
    struct dirent *entry;
    DIR *d = opendir(folder);
    assert_non_null(d);
    while ((entry = readdir(d))) {
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] != '.' || strlen(entry->d_name) > 2)
            unlink(path);
    }
    closedir(d);
    assert_int_equal(rmdir(folder), 0);
}

/* ------------------------------------------------------------------ checks */

/* A refusal has the status, begins with the file and says the fragment. */
static inline void check_refusal(const char *what, hearth_status status, const hearth_error *error,
                                 hearth_status expected, const char *path, const char *fragment)
{
    if (status != expected || error->status != expected || strncmp(error->text, path, strlen(path)) != 0 ||
        !strstr(error->text, fragment))
        fail_msg("%s: status %d, text \"%s\"; expected status %d and \"%s\"", what, (int)status, error->text,
                 (int)expected, fragment);
}

/* A reader's way in: parses bytes, and closes what it made. */
typedef hearth_status parse_bytes(const uint8_t *data, size_t size, hearth_error *error);

/* Every proper beginning of the file is refused without a leak. */
static inline void check_truncations(parse_bytes *parse, const void *data, size_t size, const char *path)
{
    long before = mem_live();
    for (size_t length = 0; length < size; length++) {
        hearth_error error = {0};
        uint8_t *cut = exact_copy(data, length);
        hearth_status status = parse(cut, length, &error);
        free(cut);
        if (status == HEARTH_OK || strncmp(error.text, path, strlen(path)) != 0)
            fail_msg("%zu of %zu bytes: status %d, text \"%s\"", length, size, (int)status, error.text);
        assert_int_not_equal(status, HEARTH_NO_MEMORY);
    }
    assert_int_equal(mem_live(), before);
}

/* Every byte is changed in ten ways; whatever comes of it, it comes with a text and without a leak. */
static inline size_t check_flips(parse_bytes *parse, const void *data, size_t size)
{
    static const uint8_t masks[] = {1, 2, 4, 8, 16, 32, 64, 128, 255, 127};
    size_t refused = 0;
    long before = mem_live();
    uint8_t *copy = exact_copy(data, size);
    for (size_t at = 0; at < size; at++) {
        for (size_t m = 0; m < sizeof(masks); m++) {
            hearth_error error = {0};
            copy[at] ^= masks[m];
            hearth_status status = parse(copy, size, &error);
            copy[at] ^= masks[m];
            assert_int_not_equal(status, HEARTH_NO_MEMORY);
            assert_int_equal(error.text[0] != 0, status != HEARTH_OK);
            refused += status != HEARTH_OK;
        }
    }
    free(copy);
    assert_int_equal(mem_live(), before);
    return refused;
}

/* The n-th allocation fails, for every n until all succeed. Returns how often it failed. */
static inline long check_allocation_failures(parse_bytes *parse, const void *data, size_t size)
{
    long before = mem_live();
    for (long n = 0;; n++) {
        hearth_error error = {0};
        mem_fail_at(n);
        hearth_status status = parse(data, size, &error);
        mem_fail_at(-1);
        assert_int_equal(mem_live(), before);
        if (status == HEARTH_OK)
            return n;
        if (status != HEARTH_NO_MEMORY || !strstr(error.text, "out of memory"))
            fail_msg("allocation %ld: status %d, text \"%s\"", n, (int)status, error.text);
    }
}

#endif
