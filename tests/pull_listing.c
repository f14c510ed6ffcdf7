/* Listings of the Hub, what is chosen of them, names, and values of headers; each also where the n-th allocation fails. */
#include "../src/base/memory.h"
#include "../src/pull/choose.h"
#include "../src/pull/http_values.h"
#include "../src/pull/remote_name.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LENGTH(array) (sizeof(array) / sizeof *(array))
#define SHA256        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789ABCDEF"
#define SHA1          "0123456789abcdef0123456789abcdef01234567"

/* A file as the Hub lists it, large or small. */
#define LARGE(path, size)                                                                                              \
    "{\"type\":\"file\",\"path\":\"" path "\",\"size\":" size ",\"oid\":\"" SHA1 "\",\"lfs\":{\"oid\":\"" SHA256 "\"}" \
    "}"
#define SMALL(path) "{\"type\":\"file\",\"path\":\"" path "\",\"size\":2,\"oid\":\"" SHA1 "\"}"

static hearth_status read(listing *l, const char *json, hearth_error *error)
{
    *l = (listing){0};
    return listing_add(l, span_of(json), "listing", error);
}

static void a_listing(void **state)
{
    (void)state;
    listing l;
    hearth_error error;
    assert_int_equal(
        read(&l,
             "[" LARGE("a/b.gguf", "9007199254740993") ",{\"type\":\"directory\",\"path\":\"../x\"}," SMALL(
                 "c.json") ",{\"type\":\"file\",\"path\":\"d\",\"size\":0,\"oid\":\"sha256:1\",\"lfs\":null}]",
             &error),
        HEARTH_OK);
    assert_int_equal(l.count, 3);
    assert_string_equal(l.files[0].path, "a/b.gguf");
    assert_true(l.files[0].size == 9007199254740993);
    assert_int_equal(l.files[0].digest.kind, DIGEST_SHA256);
    assert_string_equal(l.files[0].digest.hex, "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef");
    assert_int_equal(l.files[1].digest.kind, DIGEST_GIT_BLOB);
    assert_string_equal(l.files[1].digest.hex, SHA1);
    assert_false(digest_is_known(&l.files[2].digest)); /* a mirror's own form */
    assert_ptr_equal(listing_find(&l, "c.json"), &l.files[1]);
    assert_null(listing_find(&l, "c"));
    listing_free(&l);
    assert_int_equal(mem_live(), 0);
}

static void hostile_listings(void **state)
{
    (void)state;
    static const struct {
        const char *json, *text;
    } cases[] = {
        {"", "line 1"},
        {"[", "line 1"},
        {"{}", "is not a list of files"},
        {"[1]", "type: expected inside an object"},
        {"[{}]", "type: is missing"},
        {"[{\"type\":\"file\"}]", "path: is missing"},
        {"[{\"type\":\"file\",\"path\":\"a\"}]", "size of 'a': is not a size"},
        {"[{\"type\":\"file\",\"path\":\"a\",\"size\":-1}]", "size of 'a': is not a size"},
        {"[{\"type\":\"file\",\"path\":\"a\",\"size\":1.5}]", "size of 'a': is not a size"},
        {"[{\"type\":\"file\",\"path\":\"../a\",\"size\":1}]", "path '../a': is not safe"},
        {"[{\"type\":\"file\",\"path\":\"a\",\"size\":1,\"oid\":1}]", "oid: is not a string"},
        {"[{\"type\":\"file\",\"path\":\"a\",\"size\":1,\"lfs\":1}]", "oid: expected inside an object"},
        {"[{\"type\":\"file\",\"path\":\"a\",\"size\":1,\"lfs\":{}}]", "oid: is missing"},
        {"[{\"type\":\"file\",\"path\":\"a\",\"size\":1,\"lfs\":{\"oid\":\"" SHA1 "\"}}]", "lfs.oid: is no SHA-256"},
        {"[{\"type\":\"file\",\"path\":\"a\",\"size\":1,\"lfs\":{\"oid\":\"g" SHA256 "\"}}]", "lfs.oid: is no SHA-256"},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        listing l;
        hearth_error error = {0};
        assert_int_equal(read(&l, cases[i].json, &error), HEARTH_FORMAT);
        if (!strstr(error.text, cases[i].text) || strncmp(error.text, "listing: ", 9) != 0)
            fail_msg("%s: %s", cases[i].json, error.text);
        listing_free(&l);
    }
    assert_int_equal(mem_live(), 0);
}

static void safe_paths(void **state)
{
    (void)state;
    static const char *const good[] = {"a",      "a/b.gguf", ".gitattributes", "...", "a b", "\xc3\xa4/\xe6\xbc\xa2",
                                       "..a/b.."};
    static const char *const bad[] = {"",         "/",    "/a",    "a/",     "a//b",        "..",   "../a",
                                      "a/..",     "a/.",  "./a",   "a/../b", "a\\b",        "a\nb", "\x7f",
                                      "\xc2\x9b", "\xff", "a\x1b", "a/..//", "\xed\xa0\x80"};
    for (size_t i = 0; i < LENGTH(good); i++)
        assert_true(remote_path_is_safe(good[i]));
    for (size_t i = 0; i < LENGTH(bad); i++)
        if (remote_path_is_safe(bad[i]))
            fail_msg("bad path %zu", i);
    char text[1026];
    memset(text, 'a', sizeof text);
    text[1025] = 0;
    assert_false(remote_path_is_safe(text));
    text[1024] = 0;
    assert_true(remote_path_is_safe(text));
    assert_true(remote_name_is_safe("a"));
    assert_false(remote_name_is_safe("a/b"));
    assert_string_equal(remote_path_name("a/b/c"), "c");
    assert_string_equal(remote_path_name("c"), "c");
}

static void ranges(void **state)
{
    (void)state;
    content_range r;
    assert_true(content_range_parse(&r, "bytes 5-9/10"));
    assert_true(r.first == 5 && r.last == 9 && r.total == 10);
    assert_true(content_range_parse(&r, "Bytes 0-0/*"));
    assert_true(r.first == 0 && r.last == 0 && r.total == SIZE_UNKNOWN);
    assert_true(content_range_parse(&r, "bytes 0-18446744073709551613/18446744073709551614"));
    static const char *const bad[] = {"",
                                      "bytes",
                                      "bytes 5-9",
                                      "bytes 5-9/",
                                      "bytes 9-5/10",
                                      "bytes 5-10/10",
                                      "bytes */10",
                                      "bytes -9/10",
                                      "bytes 5-/10",
                                      "bytes 5-9/10 ",
                                      "items 5-9/10",
                                      "bytes=5-9/10",
                                      "bytes 5-9/**",
                                      "bytes 0x5-9/10",
                                      "bytes 5--9/10",
                                      "bytes 5-9/18446744073709551616",
                                      "bytes +5-9/10"};
    for (size_t i = 0; i < LENGTH(bad); i++)
        if (content_range_parse(&r, bad[i]))
            fail_msg("%s", bad[i]);
}

static void tags_and_links(void **state)
{
    (void)state;
    assert_true(etag_is_strong("\"a\""));
    assert_true(etag_is_strong("\"\""));
    assert_false(etag_is_strong("W/\"a\""));
    assert_false(etag_is_strong("a"));
    assert_false(etag_is_strong("\""));
    assert_false(etag_is_strong(""));
    span next;
    assert_true(link_next(&next, "<http://a/>; rel=\"prev\", <http://b/>; rel=\"next\""));
    assert_true(span_equal(next, span_of("http://b/")));
    assert_true(link_next(&next, "<>; rel=next"));
    assert_int_equal(next.size, 0);
    assert_false(link_next(&next, "<http://a/>; rel=\"prev\""));
    assert_false(link_next(&next, "<http://a/"));
    assert_false(link_next(&next, "rel=\"next\""));
    assert_false(link_next(&next, ""));
}

static void references(void **state)
{
    (void)state;
    static const struct {
        const char *text, *repository, *file, *quantization;
    } good[] = {
        {"a/b", "a/b", NULL, NULL},
        {"a/b:Q4_K_M", "a/b", NULL, "Q4_K_M"},
        {"a-1/b.c_d/e f/g.gguf", "a-1/b.c_d", "e f/g.gguf", NULL},
        {"a/b/c:d", "a/b", "c:d", NULL},
    };
    static const char *const bad[] = {"",     "a",    "a/",   "/b",    "a/b:",  "a/b/",    "a/b//c",  "a/b/../c", "./b",
                                      "a/..", "-a/b", "a/-b", "a b/c", "a/b c", "a/b:c d", "a/b:c/d", "a:b/c"};
    for (size_t i = 0; i < LENGTH(good) + LENGTH(bad); i++) {
        arena memory = {0};
        reference r = {0};
        hearth_error error;
        if (i < LENGTH(good)) {
            assert_int_equal(reference_parse(&r, good[i].text, &memory, &error), HEARTH_OK);
            assert_string_equal(r.repository, good[i].repository);
            assert_string_equal(r.file ? r.file : "", good[i].file ? good[i].file : "");
            assert_string_equal(r.quantization ? r.quantization : "", good[i].quantization ? good[i].quantization : "");
        } else if (reference_parse(&r, bad[i - LENGTH(good)], &memory, &error) != HEARTH_INVALID) {
            fail_msg("%s", bad[i - LENGTH(good)]);
        }
        arena_clear(&memory);
    }
    assert_true(reference_is_revision("refs/pr/1"));
    assert_false(reference_is_revision("../main"));
}

/* ------------------------------------------------------------------ choices */

static const char models[] =
    "[" LARGE("m-Q4_K_M.gguf", "4000") "," LARGE("m-Q4_K_S.gguf", "3000") "," LARGE("m-IQ4_XS.gguf", "2000") "," LARGE(
        "mmproj-m-f16.gguf",
        "9") "," LARGE("m.imatrix.gguf",
                       "9") "," LARGE("Q8_0/m-Q8_0-00002-of-00002.gguf",
                                      "5000") "," LARGE("Q8_0/m-Q8_0-00001-of-00002.gguf",
                                                        "6000") "," LARGE("cut-F16-00001-of-00002.gguf",
                                                                          "7000") "," LARGE("far-F32-00001-of-99999."
                                                                                            "gguf",
                                                                                            "8") "," LARGE("M_Q2_K."
                                                                                                           "GGUF",
                                                                                                           "1") "," SMALL("config.json") "]";

static const char folder[] =
    "[" SMALL("README.md") "," SMALL("config.json") "," LARGE("model-00001-of-00002.safetensors", "1") "," LARGE(
        "model-00002-of-00002.safetensors",
        "1") "," SMALL("model.safetensors.index.json") "," LARGE("consolidated.safetensors",
                                                                 "1") "," LARGE("onnx/model.safetensors",
                                                                                "1") "," LARGE("pytorch_model.bin",
                                                                                               "1") "," SMALL("toke"
                                                                                                              "nize"
                                                                                                              "r."
                                                                                                              "jso"
                                                                                                              "n") "," SMALL("merges.txt") "]";

static const struct choice {
    const char *json, *name, *chosen; /* names with commas, or a part of the error */
    hearth_status status;
} choices[] = {
    {models, "o/r:q4_k_m", "m-Q4_K_M.gguf,", HEARTH_OK},
    {models, "o/r:IQ4_XS", "m-IQ4_XS.gguf,", HEARTH_OK},
    {models, "o/r:Q2_K", "M_Q2_K.GGUF,", HEARTH_OK},
    {models, "o/r:Q8_0", "Q8_0/m-Q8_0-00001-of-00002.gguf,Q8_0/m-Q8_0-00002-of-00002.gguf,", HEARTH_OK},
    {models, "o/r/Q8_0/m-Q8_0-00002-of-00002.gguf", "Q8_0/m-Q8_0-00001-of-00002.gguf,Q8_0/m-Q8_0-00002-of-00002.gguf,",
     HEARTH_OK},
    {models, "o/r/mmproj-m-f16.gguf", "mmproj-m-f16.gguf,", HEARTH_OK},
    {models, "o/r/config.json", "config.json,", HEARTH_OK},
    {models, "o/r", "o/r: has several models; add :QUANT or /FILE: m-Q4_K_M.gguf (4.00 kB), m-Q4_K_S.gguf (3.00 kB), ",
     HEARTH_INVALID},
    {models, "o/r", "), Q8_0/m-Q8_0-00001-of-00002.gguf (11.0 kB), ", HEARTH_INVALID},
    {models, "o/r:m", "has several models of m: ", HEARTH_INVALID},
    {models, "o/r:Q4_K", "has no model of Q4_K: ", HEARTH_INVALID},
    {models, "o/r:Q4_XS", "has no model of Q4_XS: ", HEARTH_INVALID},
    {models, "o/r/x", "has no file x: ", HEARTH_INVALID},
    {models, "o/r:F16", "cut-F16-00001-of-00002.gguf: part 2 is missing", HEARTH_FORMAT},
    {models, "o/r:F32", "of its 99999 parts some are missing", HEARTH_FORMAT},
    {"[" LARGE("a.gguf", "1") "," SMALL("mmproj.gguf") "]", "o/r", "a.gguf,", HEARTH_OK},
    {folder, "o/r",
     "model.safetensors.index.json,model-00001-of-00002.safetensors,model-00002-of-00002.safetensors,config.json,"
     "tokenizer.json,merges.txt,",
     HEARTH_OK},
    {"[" SMALL("config.json") "," LARGE("model.safetensors", "1") "," LARGE("model-x.safetensors", "1") "]", "o/r",
     "model.safetensors,config.json,", HEARTH_OK},
    {"[" SMALL("config.json") "," SMALL("pytorch_model.bin") "]", "o/r", "pytorch_model.bin,config.json,", HEARTH_OK},
    {"[" SMALL("model.safetensors") "]", "o/r", "has neither a GGUF file nor a model folder", HEARTH_UNSUPPORTED},
    {"[" SMALL("config.json") "]", "o/r", "has neither a GGUF file nor a model folder", HEARTH_UNSUPPORTED},
    {folder, "o/r:Q8_0", "has no GGUF file, of Q8_0 or any other kind", HEARTH_INVALID},
    {"[]", "o/r", "has neither a GGUF file nor a model folder", HEARTH_UNSUPPORTED},
    {"[]", "o/r/x", "o/r: has no file x", HEARTH_INVALID},
};

/* Chooses; *got: the paths with commas, or the error. */
static hearth_status choose(const struct choice *c, char *got, size_t size)
{
    arena memory = {0};
    listing l = {0};
    reference r;
    chosen files;
    hearth_error error = {0};
    got[0] = 0;
    hearth_status status = read(&l, c->json, &error);
    if (status == HEARTH_OK)
        status = reference_parse(&r, c->name, &memory, &error);
    if (status == HEARTH_OK)
        status = choose_files(&files, &l, &r, &memory, &error);
    for (size_t i = 0; status == HEARTH_OK && i < files.count; i++) {
        strncat(got, files.files[i]->path, size - strlen(got) - 1);
        strncat(got, ",", size - strlen(got) - 1);
    }
    if (status != HEARTH_OK)
        strncat(got, error.text, size - 1);
    listing_free(&l);
    arena_clear(&memory);
    return status;
}

static void what_is_chosen(void **state)
{
    (void)state;
    char got[2048];
    for (size_t i = 0; i < LENGTH(choices); i++) {
        hearth_status status = choose(&choices[i], got, sizeof got);
        bool same = status == HEARTH_OK ? strcmp(got, choices[i].chosen) == 0 : strstr(got, choices[i].chosen) != NULL;
        if (status != choices[i].status || !same)
            fail_msg("%s: %d, %s, expected %s", choices[i].name, (int)status, got, choices[i].chosen);
    }
    assert_int_equal(mem_live(), 0);
}

static void without_memory(void **state)
{
    (void)state;
    char got[2048];
    for (size_t i = 0; i < LENGTH(choices); i++) {
        hearth_status status = HEARTH_NO_MEMORY;
        for (long n = 0; status == HEARTH_NO_MEMORY; n++) {
            mem_fail_at(n);
            status = choose(&choices[i], got, sizeof got);
            mem_fail_at(-1);
            assert_int_equal(mem_live(), 0);
            assert_true(n < 100);
        }
        assert_int_equal(status, choices[i].status);
    }
}

/* More files than are allowed, and a hostile number of parts, end soon. */
static void many_files(void **state)
{
    (void)state;
    buffer json = {0};
    listing l = {0};
    hearth_error error;
    assert_true(buffer_put(&json, "[", 1));
    for (int i = 1; i <= 19999; i++)
        assert_true(buffer_print(&json, "%s{\"type\":\"file\",\"path\":\"a-%05d-of-19999.gguf\",\"size\":1}",
                                 i > 1 ? "," : "", i));
    assert_true(buffer_print(&json, ",%s]", SMALL("README.md")));
    assert_int_equal(listing_add(&l, (span){json.data, json.size}, "listing", &error), HEARTH_OK);
    arena memory = {0};
    chosen files;
    const reference r = {.repository = "o/r"};
    assert_int_equal(choose_files(&files, &l, &r, &memory, &error), HEARTH_OK);
    assert_int_equal(files.count, 19999);
    assert_int_equal(listing_add(&l, span_of("[" SMALL("x") "]"), "listing", &error), HEARTH_FORMAT);
    assert_non_null(strstr(error.text, "more than 20000 files"));
    arena_clear(&memory);
    listing_free(&l);
    buffer_free(&json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_listing),      cmocka_unit_test(hostile_listings), cmocka_unit_test(safe_paths),
        cmocka_unit_test(ranges),         cmocka_unit_test(tags_and_links),   cmocka_unit_test(references),
        cmocka_unit_test(what_is_chosen), cmocka_unit_test(without_memory),   cmocka_unit_test(many_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
