/* file_sentencepiece.c - tokenizer.model files: the trained models', whose pieces tokenizer.json lists as well,
 * and protocol buffers made by hand. */
#include "file_build.h"

#include "../src/base/json.h"

#define PATH "tokenizer.model"

static hearth_status parse(const uint8_t *data, size_t size, hearth_error *error)
{
    checkpoint *c;
    TRY(checkpoint_create(&c, PATH, error));
    hearth_status status = sentencepiece_parse(c, data, size, PATH, error);
    checkpoint_close(c);
    return status;
}

static checkpoint *parse_good(const void *data, size_t size)
{
    checkpoint *c;
    hearth_error error = {0};
    assert_int_equal(checkpoint_create(&c, PATH, NULL), HEARTH_OK);
    if (sentencepiece_parse(c, data, size, PATH, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    return c;
}

static uint32_t get_u32(const checkpoint *c, const char *key)
{
    uint32_t value;
    assert_int_equal(checkpoint_get_u32(c, key, &value, NULL, NULL), HEARTH_OK);
    return value;
}

static bool get_bool(const checkpoint *c, const char *key)
{
    bool value;
    assert_int_equal(checkpoint_get_bool(c, key, &value, NULL, NULL), HEARTH_OK);
    return value;
}

static const key_value *get_array(const checkpoint *c, const char *key, value_type type, size_t count)
{
    const key_value *found;
    assert_int_equal(checkpoint_get_array(c, key, type, &found, NULL, NULL), HEARTH_OK);
    assert_int_equal(found->count, count);
    return found;
}

static void check_string(const checkpoint *c, const char *key, const char *expected)
{
    span found;
    assert_int_equal(checkpoint_get_string(c, key, &found, NULL, NULL), HEARTH_OK);
    assert_true(span_equal(found, span_of(expected)));
}

/* --------------------------------------------------------- trained models */

/* The folder's tokenizer.json, written by another program, gives every piece the same id. */
static void compare_with_json(const checkpoint *c, const char *path)
{
    json_t *root;
    const char *piece;
    json_t *id;
    assert_int_equal(json_parse_file(&root, path, NULL), HEARTH_OK);
    json_t *vocabulary = json_object_get(json_object_get(root, "model"), "vocab");
    assert_int_equal(json_object_size(vocabulary), 512);
    const key_value *tokens = get_array(c, "tokenizer.ggml.tokens", VALUE_STRING, 512);
    json_object_foreach(vocabulary, piece, id)
    {
        size_t at = (size_t)json_integer_value(id);
        assert_in_range(at, 0, 511);
        assert_true(span_equal(tokens->as.strings[at], span_of(piece)));
    }
    json_decref(root);
}

static void trained_models(void **state)
{
    (void)state;
    static const char *const names[] = {"stories260K", "stories260K-relu", "stories-relu"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        char path[1024];
        hearth_error error = {0};
        checkpoint *c;
        assert_int_equal(checkpoint_create(&c, names[i], NULL), HEARTH_OK);
        snprintf(path, sizeof(path), HEARTH_DATA "/models/%s/tokenizer.model", names[i]);
        if (sentencepiece_add(c, path, &error) != HEARTH_OK)
            fail_msg("%s", error.text);
        snprintf(path, sizeof(path), HEARTH_DATA "/models/%s/tokenizer.json", names[i]);
        compare_with_json(c, path);
        check_string(c, "tokenizer.ggml.model", "llama");
        check_string(c, "tokenizer.ggml.pre", "default");
        assert_int_equal(get_u32(c, "tokenizer.ggml.unknown_token_id"), 0);
        assert_int_equal(get_u32(c, "tokenizer.ggml.bos_token_id"), 1);
        assert_int_equal(get_u32(c, "tokenizer.ggml.eos_token_id"), 2);
        assert_null(checkpoint_find(c, "tokenizer.ggml.padding_token_id"));
        /* <unk>, two control pieces, 256 bytes, then merges whose score is minus their rank. */
        const float *scores = get_array(c, "tokenizer.ggml.scores", VALUE_F32, 512)->as.items;
        const int32_t *types = get_array(c, "tokenizer.ggml.token_type", VALUE_I32, 512)->as.items;
        for (int32_t id = 0; id < 512; id++) {
            assert_int_equal(types[id], id == 0 ? 2 : id < 3 ? 3 : id < 259 ? 6 : 1);
            assert_true(scores[id] == (id < 259 ? 0.0f : (float)(259 - id)));
        }
        checkpoint_close(c);
    }
}

/* ----------------------------------------------------- protocol buffers */

// clang-format off
/* Fields by their bytes: tag = number * 8 + wire type. */
#define PIECE(size, text) "\12" size text              /* field 1 of the model, with its length           */
#define TEXT(size, text) "\12" size text               /* field 1 of a piece                              */
#define BPE "\22\2\30\2"                               /* trainer_spec { model_type: BPE }                */
#define SCORE_2 "\25\0\0\0\xC0"                        /* field 2 of a piece: -2.0                        */
#define UNK PIECE("\11", TEXT("\5", "<unk>") "\30\2")
#define BOS PIECE("\7", TEXT("\3", "<s>") "\30\3")
#define EOS PIECE("\10", TEXT("\4", "</s>") "\30\3")
#define THREE UNK BOS EOS
// clang-format on

static void defaults(void **state)
{
    (void)state;
    static const char data[] = THREE PIECE("\10", TEXT("\1", "a") SCORE_2) BPE;
    checkpoint *c = parse_good(data, sizeof(data) - 1);
    const key_value *tokens = get_array(c, "tokenizer.ggml.tokens", VALUE_STRING, 4);
    assert_true(span_equal(tokens->as.strings[3], span_of("a")));
    assert_true(((const float *)get_array(c, "tokenizer.ggml.scores", VALUE_F32, 4)->as.items)[3] == -2.0f);
    assert_int_equal(((const int32_t *)get_array(c, "tokenizer.ggml.token_type", VALUE_I32, 4)->as.items)[3], 1);
    assert_int_equal(get_u32(c, "tokenizer.ggml.unknown_token_id"), 0);
    assert_int_equal(get_u32(c, "tokenizer.ggml.bos_token_id"), 1);
    assert_int_equal(get_u32(c, "tokenizer.ggml.eos_token_id"), 2);
    assert_null(checkpoint_find(c, "tokenizer.ggml.padding_token_id"));
    assert_true(get_bool(c, "tokenizer.ggml.add_space_prefix"));
    assert_true(get_bool(c, "tokenizer.ggml.remove_extra_whitespaces"));
    checkpoint_close(c);
}

/* ids 2, 1, none, 0; both switches off; a name without a table of characters is harmless. */
#define TRAINER    "\22\27\30\2\xC0\2\2\xC8\2\1\xD0\2\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\1\xD8\2\0"
#define NORMALIZER "\32\22\12\10identity\22\0\30\0\40\0\50\1"

static void given_values(void **state)
{
    (void)state;
    static const char data[] = NORMALIZER TRAINER THREE;
    checkpoint *c = parse_good(data, sizeof(data) - 1);
    assert_int_equal(get_u32(c, "tokenizer.ggml.unknown_token_id"), 2);
    assert_int_equal(get_u32(c, "tokenizer.ggml.bos_token_id"), 1);
    assert_null(checkpoint_find(c, "tokenizer.ggml.eos_token_id"));
    assert_int_equal(get_u32(c, "tokenizer.ggml.padding_token_id"), 0);
    assert_false(get_bool(c, "tokenizer.ggml.add_space_prefix"));
    assert_false(get_bool(c, "tokenizer.ggml.remove_extra_whitespaces"));
    checkpoint_close(c);
}

// clang-format off
/* Fields 100 of every wire type, in the model and in a piece; and a field given twice, of which the last counts. */
#define UNKNOWN_FIELDS "\xA0\6\5\xA1\6" "12345678" "\xA2\6\3abc\xA5\6" "1234"
// clang-format on

static void unknown_fields_are_skipped(void **state)
{
    (void)state;
    static const char data[] =
        UNKNOWN_FIELDS THREE PIECE("\37", UNKNOWN_FIELDS TEXT("\1", "x") TEXT("\1", "y")) BPE UNKNOWN_FIELDS;
    checkpoint *c = parse_good(data, sizeof(data) - 1);
    const key_value *tokens = get_array(c, "tokenizer.ggml.tokens", VALUE_STRING, 4);
    assert_true(span_equal(tokens->as.strings[3], span_of("y")));
    checkpoint_close(c);
}

// clang-format off
static const struct {
    const char *what, *data;
    size_t size;
    hearth_status status;
    const char *fragment;
} cases[] = {
    {"empty", BYTES(""), HEARTH_FORMAT, "pieces: there are none"},
    {"no pieces", BYTES(BPE), HEARTH_FORMAT, "pieces: there are none"},
    {"field 0", BYTES(THREE BPE "\0\0"), HEARTH_FORMAT, "byte 34: a field has an impossible number"},
    {"field 2^29", BYTES("\x80\x80\x80\x80\x10\0" THREE BPE), HEARTH_FORMAT,
     "byte 0: a field has an impossible number"},
    {"group", BYTES(THREE "\xA3\6\xA4\6" BPE), HEARTH_FORMAT, "byte 30: a field is of a kind that no"},
    {"group end", BYTES(THREE "\xA4\6" BPE), HEARTH_FORMAT, "byte 30: a field is of a kind that no"},
    {"wire 6", BYTES(THREE "\xA6\6" BPE), HEARTH_FORMAT, "byte 30: a field is of a kind that no"},
    {"wire 7", BYTES(THREE "\xA7\6" BPE), HEARTH_FORMAT, "byte 30: a field is of a kind that no"},
    {"long number", BYTES("\xA0\6\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\1" THREE BPE), HEARTH_FORMAT,
     "byte 2: a number has more than ten bytes"},
    {"cut number", BYTES(THREE BPE "\xA0\6\xFF"), HEARTH_FORMAT, "byte 37: the message ends within a field"},
    {"cut fixed64", BYTES(THREE BPE "\xA1\6" "1234567"), HEARTH_FORMAT, "byte 36: the message ends within a field"},
    {"cut fixed32", BYTES(THREE BPE "\xA5\6" "123"), HEARTH_FORMAT, "byte 36: the message ends within a field"},
    {"cut bytes", BYTES(THREE BPE "\xA2\6\4" "123"), HEARTH_FORMAT, "byte 36: a field is longer than the message"},
    {"huge bytes", BYTES(THREE BPE "\xA2\6\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\1"), HEARTH_FORMAT,
     "byte 36: a field is longer than the message"},
    /* The inner field fits the file, but not its piece. */
    {"inner", BYTES(PIECE("\5", "\12\4<unk>\30\2") THREE BPE), HEARTH_FORMAT,
     "byte 3: a field is longer than the message"},
    {"kind of piece", BYTES("\10\1" THREE BPE), HEARTH_FORMAT, "byte 0: field pieces is of the wrong kind"},
    {"kind of score", BYTES(PIECE("\5", TEXT("\1", "a") "\20\1") THREE BPE), HEARTH_FORMAT,
     "byte 5: field score is of"},
    {"kind of type", BYTES(PIECE("\5", TEXT("\1", "a") "\32\0") THREE BPE), HEARTH_FORMAT, "byte 5: field type is of"},
    {"empty piece", BYTES(THREE PIECE("\0", "") BPE), HEARTH_FORMAT, "piece 3: is empty"},
    {"empty text", BYTES(THREE PIECE("\2", TEXT("\0", "")) BPE), HEARTH_FORMAT, "piece 3: is empty"},
    {"no text", BYTES(THREE PIECE("\3", TEXT("\1", "\xFF")) BPE), HEARTH_FORMAT, "piece 3: is not valid UTF-8"},
    {"score", BYTES(THREE PIECE("\10", TEXT("\1", "a") "\25\0\0\xC0\x7F") BPE), HEARTH_FORMAT,
     "piece 3: has a score that is"},
    {"type 0", BYTES(THREE PIECE("\5", TEXT("\1", "a") "\30\0") BPE), HEARTH_FORMAT,
     "piece 3: is of a type that does not"},
    {"type 7", BYTES(THREE PIECE("\5", TEXT("\1", "a") "\30\7") BPE), HEARTH_FORMAT,
     "piece 3: is of a type that does not"},
    {"twice", BYTES(THREE BOS BPE), HEARTH_FORMAT, "piece 3: appears twice"},
    {"no trainer", BYTES(THREE), HEARTH_FORMAT, "trainer_spec: is missing"},
    {"word", BYTES(THREE "\22\2\30\3"), HEARTH_UNSUPPORTED, "model type word is not supported"},
    {"char", BYTES(THREE "\22\2\30\4"), HEARTH_UNSUPPORTED, "model type char is not supported"},
    {"type 5", BYTES(THREE "\22\2\30\5"), HEARTH_FORMAT, "model type 5 does not exist"},
    {"suffix", BYTES(THREE BPE "\22\3\xC0\1\1"), HEARTH_UNSUPPORTED, "treat_whitespace_as_suffix is not supported"},
    {"denormalizer", BYTES(THREE BPE "\52\10\12\3abc\22\1x"), HEARTH_UNSUPPORTED,
     "denormalizer_spec: normalisation \"abc\" is not supported"},
    {"escape", BYTES(THREE BPE "\32\2\50\0"), HEARTH_UNSUPPORTED, "escape_whitespaces false is not supported"},
    {"unk_id", BYTES(THREE BPE "\22\3\xC0\2\3"), HEARTH_FORMAT,
     "trainer_spec: unk_id is 3, but there are only 3 pieces"},
    {"bos_id", BYTES(UNK BPE), HEARTH_FORMAT, "trainer_spec: bos_id is 1, but there are only 1 pieces"},
    {"pad_id", BYTES(THREE BPE "\22\7\xD8\2\xFF\xFF\xFF\xFF\7"), HEARTH_FORMAT, "pad_id is 2147483647, but there are"},
};
// clang-format on

static void wrong_files_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        hearth_error error = {0};
        uint8_t *copy = exact_copy(cases[i].data, cases[i].size);
        hearth_status status = parse(copy, cases[i].size, &error);
        check_refusal(cases[i].what, status, &error, cases[i].status, PATH ": ", cases[i].fragment);
        free(copy);
    }
}

/* The trainer's settings come last: without them a file is refused. */
static const char sample[] = UNKNOWN_FIELDS THREE PIECE("\10", TEXT("\1", "a") SCORE_2) NORMALIZER TRAINER;

static void every_truncation_is_refused(void **state)
{
    (void)state;
    checkpoint_close(parse_good(sample, sizeof(sample) - 1));
    check_truncations(parse, sample, sizeof(sample) - 1, PATH);
}

static void every_flip_is_survived(void **state)
{
    (void)state;
    assert_in_range(check_flips(parse, sample, sizeof(sample) - 1), sizeof(sample), sizeof(sample) * 10);
}

static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    long failed = check_allocation_failures(parse, (const uint8_t *)sample, sizeof(sample) - 1);
    assert_in_range(failed, 8, 100);
}

static void missing_files(void **state)
{
    (void)state;
    hearth_error error = {0};
    checkpoint *c;
    assert_int_equal(checkpoint_create(&c, "folder", NULL), HEARTH_OK);
    check_refusal("missing", sentencepiece_add(c, "/nonexistent/tokenizer.model", &error), &error, HEARTH_IO,
                  "/nonexistent/tokenizer.model", "");
    checkpoint_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trained_models),         cmocka_unit_test(defaults),
        cmocka_unit_test(given_values),           cmocka_unit_test(unknown_fields_are_skipped),
        cmocka_unit_test(wrong_files_are_named),  cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(every_flip_is_survived), cmocka_unit_test(every_failed_allocation_is_survived),
        cmocka_unit_test(missing_files),
    };
    return run_group(tests, NULL, NULL);
}
