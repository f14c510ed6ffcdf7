/* text_tokenizer.c - text to ids: the reference vocabularies, the rules that they do not show, and a second,
 * slow tokenizer that can be seen to be right. */
#include "../src/base/json.h"
#include "../src/file/sentencepiece.h"

#include "text_helpers.h"

#include <stdlib.h>

/* ------------------------------------------------------------- references */

/* Every text of NAME.inp against the same line of NAME.out; returns how many there were. */
static size_t compare_file(const tokenizer *t, const char *input, const char *output, unsigned flags)
{
    char path[512];
    snprintf(path, sizeof path, HEARTH_DATA "/golden/tokenizers/%s", input);
    span texts = read_whole(path), rest = texts;
    snprintf(path, sizeof path, HEARTH_DATA "/golden/tokenizers/%s", output);
    span lines = read_whole(path), lines_rest = lines;
    size_t count = 0;
    while (lines_rest.size > 0) {
        span text = next_part(&rest, TEXT_SEPARATOR), line = next_part(&lines_rest, "\n");
        while (line.size > 0 && line.data[0] == ' ')
            line = (span){line.data + 1, line.size - 1};
        char *expected = mem_copy_text(line.data, line.size);
        assert_non_null(expected);
        expect_ids(t, text, flags, expected);
        mem_free(expected);
        count++;
    }
    assert_int_equal(rest.size, 0); /* as many lines as texts */
    mem_free((void *)texts.data);
    mem_free((void *)lines.data);
    return count;
}

/* The names of the reference vocabularies, and how many texts llama.cpp's own tests and ours with special tokens have. */
static const struct {
    const char *name;
    size_t texts, special_texts;
} references[] = {
    {"llama-spm", 46, 20},         {"phi-3-trimmed", 46, 45},          {"gpt-2", 46, 7},
    {"command-r-trimmed", 46, 45}, {"deepseek-coder-trimmed", 46, 45}, {"deepseek-llm-trimmed", 46, 45},
    {"falcon-trimmed", 46, 45},    {"llama-bpe-trimmed", 46, 45},      {"mpt-trimmed", 46, 45},
    {"qwen2-trimmed", 46, 45},     {"qwen35-trimmed", 50, 45},         {"refact-trimmed", 46, 45},
    {"starcoder-trimmed", 46, 45},
};

static void matches_llama_cpp(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(references); i++) {
        const char *name = references[i].name;
        char input[64], output[64];
        tokenizer *t = golden_tokenizer(name);
        snprintf(input, sizeof input, "%s.inp", name);
        snprintf(output, sizeof output, "%s.out", name);
        assert_int_equal(compare_file(t, input, output, 0), references[i].texts);
        snprintf(output, sizeof output, "%s.extra.out", name);
        assert_int_equal(compare_file(t, "extra.inp", output, 0), 55);
        snprintf(input, sizeof input, "%s.special.inp", name);
        snprintf(output, sizeof output, "%s.special.out", name);
        assert_int_equal(compare_file(t, input, output, HEARTH_TEXT_SPECIAL | HEARTH_TEXT_PARSE_CONTROL),
                         references[i].special_texts);
        tokenizer_destroy(t);
    }
}

/* The tokenizer of models/NAME; skips the test where it is absent. */
static tokenizer *trained_tokenizer(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, HEARTH_DATA "/models/%s/tokenizer.model", name);
    checkpoint *c;
    hearth_error error = {0};
    assert_int_equal(checkpoint_create(&c, path, NULL), HEARTH_OK);
    if (sentencepiece_add(c, path, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    tokenizer *t = new_tokenizer(c);
    checkpoint_close(c);
    return t;
}

static size_t count_tokens(const tokenizer *t, span text)
{
    int32_t *ids;
    size_t count;
    assert_int_equal(tokenizer_encode(t, text, 0, &ids, &count, NULL), HEARTH_OK);
    mem_free(ids);
    return count;
}

static void compare_prompt(const tokenizer *t, const json_t *prompt)
{
    const char *text = json_string_value(json_object_get(prompt, "text"));
    int32_t ids[256] = {0};
    const json_t *list = json_object_get(prompt, "ids");
    for (size_t i = 0; i < json_array_size(list); i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    buffer expected = print_ids(ids, json_array_size(list));
    expect_ids(t, span_of(text), HEARTH_TEXT_SPECIAL, expected.data);
    buffer_free(&expected);

    list = json_object_get(prompt, "greedy_ids");
    for (size_t i = 0; i < json_array_size(list); i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    buffer answer = detokenize(t, ids, json_array_size(list), 0);
    assert_true(span_equal((span){answer.data, answer.size},
                           span_of(json_string_value(json_object_get(prompt, "greedy_text")))));
    buffer_free(&answer);
}

/* The first 60 held-out stories, stripped, 511 tokens of each at most. */
static size_t count_stories(const tokenizer *t)
{
    span stories = read_whole(HEARTH_MODELS "/stories-held.txt"), rest = stories;
    size_t total = 0;
    for (int i = 0; i < 60; i++) {
        span story = next_part(&rest, "<|endoftext|>");
        while (story.size > 0 && strchr(" \n", story.data[0]))
            story = (span){story.data + 1, story.size - 1};
        while (story.size > 0 && strchr(" \n", story.data[story.size - 1]))
            story.size--;
        size_t count = count_tokens(t, story);
        total += count < 511 ? count : 511;
    }
    mem_free((void *)stories.data);
    return total;
}

/* ids, token counts and texts by sentencepiece itself, on a vocabulary that removes extra blanks. */
static void matches_sentencepiece(void **state)
{
    (void)state;
    static const char *const models[] = {"stories-relu", "stories260K", "stories260K-relu"};
    for (size_t m = 0; m < COUNT(models); m++) {
        tokenizer *t = trained_tokenizer(models[m]);
        char path[512];
        snprintf(path, sizeof path, HEARTH_DATA "/golden/real/%s/golden.json", models[m]);
        json_t *golden;
        assert_int_equal(json_parse_file(&golden, path, NULL), HEARTH_OK);
        json_t *prompts = json_object_get(golden, "prompts");
        assert_true(json_array_size(prompts) > 0);
        for (size_t i = 0; i < json_array_size(prompts); i++)
            compare_prompt(t, json_array_get(prompts, i));

        span text = read_whole(HEARTH_DATA "/golden/real/nll-text.txt");
        json_t *nll = json_object_get(golden, "nll");
        assert_int_equal(count_tokens(t, text), json_integer_value(json_object_get(nll, "tokens")));
        mem_free((void *)text.data);
        json_t *stories = json_object_get(golden, "stories");
        assert_int_equal(count_stories(t), json_integer_value(json_object_get(stories, "tokens")));
        json_decref(golden);
        tokenizer_destroy(t);
    }
}

/* ------------------------------------------------------------------ rules */

static const piece letters[] = {
    // clang-format off
    {"<unk>", 0, UNKNOWN}, {"<s>", 0, CONTROL}, {"</s>", 0, CONTROL},
    {BLANK, -9, NORMAL}, {"a", -9, NORMAL}, {"b", -9, NORMAL}, {"c", -9, NORMAL},   /* 3 4 5 6 */
    {"ab", -1, NORMAL}, {"bc", -2, NORMAL}, {"aa", -1, NORMAL}, {BLANK "a", -5, NORMAL},  /* 7 8 9 10 */
    {"<", -9, NORMAL}, {"s", -9, NORMAL}, {">", -9, NORMAL},                        /* 11 12 13 */
    {"<s", -1, NORMAL}, {"\n", -9, NORMAL},                                         /* 14 15 */
    // clang-format on
};

static void best_score_then_leftmost(void **state)
{
    (void)state;
    checkpoint *c = new_checkpoint(letters, COUNT(letters));
    assert_int_equal(checkpoint_set_bool(c, "tokenizer.ggml.add_space_prefix", false, NULL), HEARTH_OK);
    tokenizer *t = new_tokenizer(c);
    expect_ids(t, span_of("abc"), 0, "7 6"); /* ab before bc */
    expect_ids(t, span_of("aaa"), 0, "9 4"); /* of two equal pairs the left one */
    expect_ids(t, span_of("aab"), 0, "9 5"); /* aa and ab score the same */
    expect_ids(t, span_of("bcab"), 0, "8 7");
    expect_ids(t, span_of(" a"), 0, "10");
    expect_ids(t, span_of(""), 0, "");
    /* A run of characters without a piece is one unknown token, as sentencepiece has it. */
    expect_ids(t, span_of("axyza"), 0, "4 0 4");
    expect_ids(t, span_of("x\xff\xe2\x96y"), 0, "0");
    expect_ids(t, span_of("xxax"), 0, "0 4 0");
    tokenizer_destroy(t);
    checkpoint_close(c);

    /* With tokens for some bytes only: a character is spelled in bytes where all of its bytes are there. */
    static const piece some[] = {
        {"<unk>", 0, UNKNOWN}, {"<0xC3>", 0, BYTE}, {"<0xA4>", 0, BYTE}, {"<0x78>", 0, BYTE}, {"<0xC3>", 0, BYTE}};
    c = new_checkpoint(some, COUNT(some));
    assert_int_equal(checkpoint_set_bool(c, "tokenizer.ggml.add_space_prefix", false, NULL), HEARTH_OK);
    t = new_tokenizer(c);
    expect_ids(t, span_of("\xc3\xa4x\xc3\xb6y\xa4y"), 0, "1 2 3 0 2 0");
    tokenizer_destroy(t);
    checkpoint_close(c);
}

static void bos_eos_and_control(void **state)
{
    (void)state;
    checkpoint *c = new_checkpoint(letters, COUNT(letters));
    tokenizer *t = new_tokenizer(c); /* nothing said: BOS 1, EOS 2, BOS added, a blank in front */
    assert_int_equal(tokenizer_bos(t), 1);
    assert_int_equal(tokenizer_eos(t), 2);
    assert_true(tokenizer_adds_bos(t));
    expect_ids(t, span_of("b"), 0, "3 5");
    expect_ids(t, span_of("b"), HEARTH_TEXT_SPECIAL, "1 3 5");
    expect_ids(t, span_of(""), HEARTH_TEXT_SPECIAL, "1");
    /* "<s" + ">" is spelled like BOS, but text never becomes a control token. */
    expect_ids(t, span_of("<s>"), 0, "3 14 13");
    expect_ids(t, span_of("<s>"), HEARTH_TEXT_PARSE_CONTROL, "1");
    expect_ids(t, span_of("b<s>b</s>"), HEARTH_TEXT_PARSE_CONTROL, "3 5 1 3 5 2");
    expect_ids(t, span_of("<unk>"), HEARTH_TEXT_PARSE_CONTROL, "0");
    tokenizer_destroy(t);

    assert_int_equal(checkpoint_set_bool(c, "tokenizer.ggml.add_bos_token", false, NULL), HEARTH_OK);
    assert_int_equal(checkpoint_set_bool(c, "tokenizer.ggml.add_eos_token", true, NULL), HEARTH_OK);
    t = new_tokenizer(c);
    assert_false(tokenizer_adds_bos(t));
    expect_ids(t, span_of("b"), HEARTH_TEXT_SPECIAL, "3 5 2");
    tokenizer_destroy(t);
    checkpoint_close(c);
}

/* What sentencepiece's normaliser does with each (normalizer.cc): U+0020 alone is a blank. */
static void extra_blanks(void **state)
{
    (void)state;
    checkpoint *c = new_checkpoint(letters, COUNT(letters));
    assert_int_equal(checkpoint_set_bool(c, "tokenizer.ggml.remove_extra_whitespaces", true, NULL), HEARTH_OK);
    tokenizer *t = new_tokenizer(c);
    expect_ids(t, span_of("b"), 0, "3 5");
    expect_ids(t, span_of("  b   c  "), 0, "3 5 3 6");
    expect_ids(t, span_of(""), 0, "");
    expect_ids(t, span_of("   "), 0, "");
    expect_ids(t, span_of("\nb"), 0, "3 15 5");
    expect_ids(t, span_of(" \n  b \n "), 0, "3 15 3 5 3 15");
    /* At the end whatever is spelled as a blank goes, the one in front too where nothing else is left. */
    expect_ids(t, span_of("b" BLANK), 0, "3 5");
    expect_ids(t, span_of(BLANK), 0, "");
    expect_ids(t, span_of(BLANK " b"), 0, "3 3 3 5");
    expect_ids(t, span_of("b <s> "), HEARTH_TEXT_PARSE_CONTROL, "3 5 1");
    tokenizer_destroy(t);

    assert_int_equal(checkpoint_set_bool(c, "tokenizer.ggml.add_space_prefix", false, NULL), HEARTH_OK);
    t = new_tokenizer(c);
    expect_ids(t, span_of("  b  c "), 0, "5 3 6");
    tokenizer_destroy(t);
    checkpoint_close(c);
}

static void user_defined(void **state)
{
    (void)state;
    static const piece pieces[] = {
        // clang-format off
        {"<unk>", 0, UNKNOWN}, {"<s>", 0, CONTROL}, {"</s>", 0, CONTROL}, {BLANK, -9, NORMAL}, {"a", -9, NORMAL},
        {"[A]", 0, USER_DEFINED}, {"[A][B]", 0, USER_DEFINED}, {BLANK BLANK, 0, USER_DEFINED},    /* 5 6 7 */
        {"[B][C][D]", 0, USER_DEFINED}, {"[C]", 0, USER_DEFINED},                                 /* 8 9 */
        // clang-format on
    };
    checkpoint *c = new_checkpoint(pieces, COUNT(pieces));
    tokenizer *t = new_tokenizer(c);
    expect_ids(t, span_of("[A]a[A]"), 0, "5 3 4 5");
    expect_ids(t, span_of("[A][B]"), 0, "6");
    expect_ids(t, span_of("[A][B][C][D]"), 0, "6 9 3 0"); /* leftmost, then longest */
    expect_ids(t, span_of("a  a   a"), 0, "3 4 7 3 4 7 3 3 4");
    tokenizer_destroy(t);
    checkpoint_close(c);
}

/* Unused pieces are steps on the way to others, and taken apart where they are left over. */
static void unused(void **state)
{
    (void)state;
    static const piece pieces[] = {
        // clang-format off
        {"<unk>", 0, UNKNOWN}, {"a", -9, NORMAL}, {"b", -9, NORMAL}, {"c", -9, NORMAL}, {"d", -9, NORMAL},
        {"ab", -1, UNUSED}, {"abc", -2, UNUSED}, {"abcd", -3, NORMAL}, {"cd", -8, NORMAL}, {"dd", -4, UNUSED}, /* 5-9 */
        {"abcdd", -4, UNUSED},
        // clang-format on
    };
    checkpoint *c = new_checkpoint(pieces, COUNT(pieces));
    assert_int_equal(checkpoint_set_bool(c, "tokenizer.ggml.add_space_prefix", false, NULL), HEARTH_OK);
    tokenizer *t = new_tokenizer(c);
    expect_ids(t, span_of("abcd"), 0, "7");
    expect_ids(t, span_of("abc"), 0, "1 2 3");
    expect_ids(t, span_of("dabcdabd"), 0, "4 7 1 2 4");
    expect_ids(t, span_of("dd"), 0, "4 4");
    expect_ids(t, span_of("abcdd"), 0, "7 4");
    expect_ids(t, span_of("abcddd"), 0, "7 4 4");
    tokenizer_destroy(t);
    checkpoint_close(c);
}

/* White space behind Phi-3's special tokens is swallowed, but for three of them. */
static void strips_blanks(void **state)
{
    (void)state;
    static const piece pieces[] = {
        {"<unk>", 0, UNKNOWN}, {"<s>", 0, CONTROL},      {"</s>", 0, CONTROL},     {BLANK, -9, NORMAL},
        {"a", -9, NORMAL},     {"<|user|>", 0, CONTROL}, {"<u>", 0, USER_DEFINED},
    };
    checkpoint *c = new_checkpoint(pieces, COUNT(pieces));
    tokenizer *t = new_tokenizer(c);
    expect_ids(t, span_of("<|user|> a"), HEARTH_TEXT_PARSE_CONTROL, "5 3 3 4");
    tokenizer_destroy(t);
    assert_int_equal(checkpoint_set_string(c, "general.architecture", span_of("phi3"), NULL), HEARTH_OK);
    t = new_tokenizer(c);
    expect_ids(t, span_of("<|user|> \t\r\n a"), HEARTH_TEXT_PARSE_CONTROL, "5 3 4");
    expect_ids(t, span_of("<s> a"), HEARTH_TEXT_PARSE_CONTROL, "1 3 3 4");
    expect_ids(t, span_of("a <u>  a <u> "), 0, "3 4 3 6 3 4 3 6");
    tokenizer_destroy(t);
    checkpoint_close(c);
}

/* ---------------------------------------------------- the second tokenizer */

/* Does what the definition says and nothing else: looks at all pairs, merges the best, starts again. */
typedef struct slow_tokenizer {
    const tokenizer *fast;
    const piece *pieces;  /* [count] */
    const piece **sorted; /* [mergeable] by text */
    size_t count, mergeable;
    int32_t bytes[256];
} slow_tokenizer;

static int compare_pieces(const void *a, const void *b)
{
    return strcmp((*(const piece *const *)a)->text, (*(const piece *const *)b)->text);
}

static void slow_begin(slow_tokenizer *s, const piece *pieces, size_t count)
{
    s->pieces = pieces;
    s->count = count;
    s->mergeable = 0;
    s->sorted = malloc(count * sizeof *s->sorted);
    for (size_t i = 0; i < 256; i++)
        s->bytes[i] = -1;
    for (size_t i = 0; i < count; i++) {
        if (pieces[i].type == NORMAL && *pieces[i].text)
            s->sorted[s->mergeable++] = &pieces[i];
        unsigned byte;
        if (pieces[i].type == BYTE && sscanf(pieces[i].text, "<0x%2X>", &byte) == 1)
            s->bytes[byte] = (int32_t)i;
    }
    qsort(s->sorted, s->mergeable, sizeof *s->sorted, compare_pieces);
}

static const piece *slow_find(const slow_tokenizer *s, const char *text, size_t size)
{
    char key[256];
    if (size >= sizeof key || memchr(text, 0, size))
        return NULL;
    memcpy(key, text, size);
    key[size] = 0;
    piece wanted = {.text = key};
    const piece *pointer = &wanted;
    const piece **found = bsearch(&pointer, s->sorted, s->mergeable, sizeof *s->sorted, compare_pieces);
    return found ? *found : NULL;
}

/* text: blanks written as U+2581 already. */
static size_t slow_encode(const slow_tokenizer *s, const char *text, size_t size, int32_t *ids)
{
    static size_t cuts[4096]; /* symbol i is [cuts[i], cuts[i + 1]) */
    size_t symbols = 0, count = 0;
    for (size_t i = 0; i<size; i += utf8_length(text + i, size - i)> 0 ? utf8_length(text + i, size - i) : 1)
        cuts[symbols++] = i;
    cuts[symbols] = size;
    for (;;) {
        size_t best = symbols;
        float score = 0;
        for (size_t i = 0; i + 2 <= symbols; i++) {
            const piece *p = slow_find(s, text + cuts[i], cuts[i + 2] - cuts[i]);
            if (p && (best == symbols || p->score > score)) {
                best = i;
                score = p->score;
            }
        }
        if (best == symbols)
            break;
        memmove(&cuts[best + 1], &cuts[best + 2], (symbols - best - 1) * sizeof *cuts);
        symbols--;
    }
    for (size_t i = 0; i < symbols; i++) {
        const piece *p = slow_find(s, text + cuts[i], cuts[i + 1] - cuts[i]);
        if (p)
            ids[count++] = (int32_t)(p - s->pieces);
        else
            for (size_t b = cuts[i]; b < cuts[i + 1]; b++)
                ids[count++] = s->bytes[(uint8_t)text[b]];
    }
    return count;
}

static void compare_slow(const slow_tokenizer *s, span text)
{
    buffer blanks = {0};
    assert_true(buffer_put(&blanks, BLANK, 3));
    for (size_t i = 0; i < text.size; i++)
        assert_true(text.data[i] == ' ' ? buffer_put(&blanks, BLANK, 3) : buffer_put(&blanks, text.data + i, 1));
    static int32_t ids[8192];
    size_t count = text.size > 0 ? slow_encode(s, blanks.data, blanks.size, ids) : 0;
    buffer expected = print_ids(ids, count);
    expect_ids(s->fast, text, 0, expected.data);
    buffer_free(&expected);
    buffer_free(&blanks);
}

/* Texts that are hard to merge: parts of pieces, blanks, repetitions, bytes of any kind. */
static size_t random_text(const slow_tokenizer *s, uint32_t *seed, char *out, size_t limit)
{
    size_t size = 0, wanted = 1 + draw(seed, (uint32_t)limit);
    while (size < wanted) {
        const char *text = s->pieces[draw(seed, (uint32_t)s->count)].text;
        size_t length = strlen(text), from = length > 1 ? draw(seed, (uint32_t)length) : 0;
        switch (draw(seed, 8)) {
        case 0:
            out[size++] = ' ';
            break;
        case 1:
            out[size++] = (char)draw(seed, 256);
            break;
        case 2:
            out[size] = size > 0 ? out[size - 1] : 'e';
            size++;
            break;
        default:
            for (size_t i = draw(seed, 2) ? 0 : from; i < length && size < wanted; i++)
                out[size++] = text[i];
        }
    }
    return size;
}

static void agrees_with_slow_one_on_llama(void **state)
{
    (void)state;
    checkpoint *c;
    assert_int_equal(gguf_open(&c, HEARTH_DATA "/golden/tokenizers/llama-spm.gguf", NULL), HEARTH_OK);
    const key_value *texts = checkpoint_find(c, "tokenizer.ggml.tokens");
    const key_value *scores = checkpoint_find(c, "tokenizer.ggml.scores");
    const key_value *types = checkpoint_find(c, "tokenizer.ggml.token_type");
    piece *pieces = malloc(texts->count * sizeof *pieces);
    for (size_t i = 0; i < texts->count; i++) {
        span text = texts->as.strings[i];
        pieces[i] = (piece){strndup(text.data, text.size), ((const float *)scores->as.items)[i],
                            ((const int32_t *)types->as.items)[i]};
    }
    slow_tokenizer s = {.fast = new_tokenizer(c)};
    slow_begin(&s, pieces, texts->count);
    uint32_t seed = 20240601;
    for (int i = 0; i < 400; i++) {
        char text[256];
        compare_slow(&s, (span){text, random_text(&s, &seed, text, 100)});
    }
    for (size_t i = 0; i < texts->count; i++)
        free((void *)pieces[i].text);
    tokenizer_destroy((tokenizer *)s.fast);
    free(pieces);
    free(s.sorted);
    checkpoint_close(c);
}

/* Appends one letter of a list; returns the new size. */
static size_t add_letter(char *text, size_t size, const char *letter)
{
    while (*letter)
        text[size++] = *letter++;
    return size;
}

static const char *const alphabet[] = {"a", "b", "c", "\xc3\xa4", BLANK, " ", "x", "\xc3"};
enum { SPELLED = 5, BYTES_FROM = 1, MADE_FROM = 257, MADE = 120 };

/* Bytes, the first letters, and pieces of two to four of them with few different scores. */
static void make_pieces(piece *pieces, uint32_t *seed)
{
    static char names[256][8], made[MADE][16];
    memset(made, 0, sizeof made);
    pieces[0] = (piece){"<unk>", 0, UNKNOWN};
    for (unsigned b = 0; b < 256; b++) {
        snprintf(names[b], sizeof names[b], "<0x%02X>", b);
        pieces[BYTES_FROM + b] = (piece){names[b], 0, BYTE};
    }
    for (uint32_t i = 0; i < MADE; i++) {
        size_t size = 0;
        if (i < SPELLED)
            size = add_letter(made[i], 0, alphabet[i]);
        for (uint32_t n = size > 0 ? 0 : 2 + draw(seed, 3); n > 0; n--)
            size = add_letter(made[i], size, alphabet[draw(seed, SPELLED)]);
        pieces[MADE_FROM + i] = (piece){made[i], -(float)draw(seed, 12), NORMAL};
        for (uint32_t j = 0; j < i; j++) /* the same text twice would leave the id open */
            if (strcmp(made[i], made[j]) == 0)
                pieces[MADE_FROM + i].text = "";
    }
}

/* Few letters, many pieces, few different scores: everything overlaps and ties are common. */
static void agrees_with_slow_one_on_small_ones(void **state)
{
    (void)state;
    static piece pieces[MADE_FROM + MADE];
    uint32_t seed = 7;
    for (int round = 0; round < 30; round++) {
        make_pieces(pieces, &seed);
        checkpoint *c = new_checkpoint(pieces, COUNT(pieces));
        slow_tokenizer s = {.fast = new_tokenizer(c)};
        slow_begin(&s, pieces, COUNT(pieces));
        for (int i = 0; i < 100; i++) {
            char text[256];
            size_t size = 0;
            for (uint32_t n = draw(&seed, 60); n > 0; n--)
                size = add_letter(text, size, alphabet[draw(&seed, draw(&seed, 4) ? 4 : COUNT(alphabet))]);
            compare_slow(&s, (span){text, size});
        }
        tokenizer_destroy((tokenizer *)s.fast);
        checkpoint_close(c);
        free(s.sorted);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_llama_cpp),
        cmocka_unit_test(matches_sentencepiece),
        cmocka_unit_test(best_score_then_leftmost),
        cmocka_unit_test(bos_eos_and_control),
        cmocka_unit_test(extra_blanks),
        cmocka_unit_test(user_defined),
        cmocka_unit_test(unused),
        cmocka_unit_test(strips_blanks),
        cmocka_unit_test(agrees_with_slow_one_on_llama),
        cmocka_unit_test(agrees_with_slow_one_on_small_ones),
    };
    return run_group(tests, NULL, NULL);
}
