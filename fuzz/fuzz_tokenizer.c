/* fuzz_tokenizer.c - a vocabulary and a text, both out of the same bytes.
 *
 * Covers: src/text/vocabulary.c
 * Covers: src/text/specials.c
 * Covers: src/text/sentencepiece_bpe.c
 * Covers: src/text/detokenizer.c
 *
 * Layout: one byte of switches, one with the number of pieces n, n pieces of (type, score, length, text), with
 * SWITCH_IDS the ids of BOS and EOS in a byte each and one with what else is wrong, the text. Whatever they are: no
 * fault, ids within the vocabulary, valid UTF-8 back, and where nothing but plain text, bytes and the vocabulary's
 * own blank are involved, the very text back. */
#include "../src/text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

enum {
    PIECES_MAX = 256,
    SWITCH_PREFIX = 1,
    SWITCH_FOLD = 2,
    SWITCH_CONTROL = 4,
    SWITCH_BYTES = 8,
    SWITCH_PHI3 = 16,
    SWITCH_IDS = 32
};

/* Bits of what else is wrong. */
enum { ADD_EOS = 1, OTHER_KIND = 2, FEW_SCORES = 4 };

typedef struct input {
    const uint8_t *data;
    size_t size;
} input;

static uint8_t take(input *in)
{
    if (in->size == 0)
        return 0;
    in->size--;
    return *in->data++;
}

static void require(bool condition)
{
    if (!condition)
        abort();
}

/* false: the vocabulary has user-defined pieces, whose text may swallow what is behind it. */
static bool build(checkpoint *c, input *in, uint8_t switches)
{
    static char names[256][8];
    span texts[256 + PIECES_MAX];
    float scores[256 + PIECES_MAX];
    int32_t types[256 + PIECES_MAX];
    size_t count = 0;
    bool is_plain = true;
    for (size_t n = take(in); n > 0 && in->size > 0; n--) {
        types[count] = take(in) % 8;
        scores[count] = (float)(int8_t)take(in);
        size_t length = take(in) % 32;
        if (length > in->size)
            length = in->size;
        is_plain = is_plain && types[count] != 4;
        texts[count++] = (span){(const char *)in->data, length};
        in->data += length;
        in->size -= length;
    }
    for (unsigned b = 0; (switches & SWITCH_BYTES) && b < 256; b++) {
        static const char digits[] = "0123456789ABCDEF";
        memcpy(names[b], (char[]){'<', '0', 'x', digits[b >> 4], digits[b & 15], '>', 0}, 7);
        texts[count] = span_of(names[b]);
        scores[count] = 0;
        types[count++] = 6;
    }
    if (checkpoint_set_string(c, "tokenizer.ggml.model", span_of("llama"), NULL) ||
        checkpoint_set_strings(c, "tokenizer.ggml.tokens", texts, count, NULL) ||
        checkpoint_set_numbers(c, "tokenizer.ggml.scores", VALUE_F32, scores, count, NULL) ||
        checkpoint_set_numbers(c, "tokenizer.ggml.token_type", VALUE_I32, types, count, NULL) ||
        checkpoint_set_bool(c, "tokenizer.ggml.add_space_prefix", switches & SWITCH_PREFIX, NULL) ||
        checkpoint_set_bool(c, "tokenizer.ggml.remove_extra_whitespaces", switches & SWITCH_FOLD, NULL) ||
        ((switches & SWITCH_PHI3) && checkpoint_set_string(c, "general.architecture", span_of("phi3"), NULL)))
        abort();
    return is_plain;
}

/* What a file may claim: ids that do not exist, or are not special tokens; a kind that is not ours; too few scores. */
static void spoil(checkpoint *c, input *in)
{
    static const float few[1];
    uint32_t bos = take(in), eos = take(in);
    uint8_t wrong = take(in);
    if (checkpoint_set_u32(c, "tokenizer.ggml.bos_token_id", bos, NULL) ||
        checkpoint_set_u32(c, "tokenizer.ggml.eos_token_id", eos, NULL) ||
        checkpoint_set_bool(c, "tokenizer.ggml.add_eos_token", wrong & ADD_EOS, NULL) ||
        ((wrong & OTHER_KIND) && checkpoint_set_string(c, "tokenizer.ggml.model", span_of("gpt9"), NULL)) ||
        ((wrong & FEW_SCORES) && checkpoint_set_numbers(c, "tokenizer.ggml.scores", VALUE_F32, few, 1, NULL)))
        abort();
}

static buffer detokenize(const tokenizer *t, const int32_t *ids, size_t count, unsigned flags)
{
    detokenizer *d;
    buffer all = {0};
    require(detokenizer_create(&d, t, flags, NULL) == HEARTH_OK);
    for (size_t i = 0; i <= count; i++) {
        span text;
        if (i < count)
            require(detokenizer_push(d, ids[i], &text, NULL) == HEARTH_OK);
        else
            detokenizer_finish(d, &text);
        require(utf8_is_valid(text.data, text.size) && buffer_put(&all, text.data, text.size));
    }
    detokenizer_destroy(d);
    return all;
}

/* A special token is one of the vocabulary or none, and an id outside it is nothing. */
static void check_ids(const tokenizer *t)
{
    int32_t size = (int32_t)tokenizer_size(t), bos = tokenizer_bos(t), eos = tokenizer_eos(t);
    require(bos >= -1 && bos < size && eos >= -1 && eos < size);
    require(!tokenizer_adds_bos(t) || bos >= 0);
    require(eos < 0 || tokenizer_ends_answer(t, eos));
    require(!tokenizer_ends_answer(t, -1) && !tokenizer_ends_answer(t, size));
    require(tokenizer_piece(t, size).size == 0 && tokenizer_attributes(t, size) == 0);
    for (int32_t id = 0; id < size; id++)
        require(tokenizer_ends_answer(t, id) == ((tokenizer_attributes(t, id) & HEARTH_TOKEN_ENDS_ANSWER) != 0));
}

static void check(const tokenizer *t, span text, uint8_t switches, bool is_plain)
{
    unsigned flags = HEARTH_TEXT_SPECIAL | (switches & SWITCH_CONTROL ? HEARTH_TEXT_PARSE_CONTROL : 0);
    int32_t *ids;
    size_t count;
    require(tokenizer_encode(t, text, flags, &ids, &count, NULL) == HEARTH_OK);
    for (size_t i = 0; i < count; i++)
        require(ids[i] >= 0 && (uint32_t)ids[i] < tokenizer_size(t));
    buffer shown = detokenize(t, ids, count, HEARTH_DETOKENIZE_CONTROL), hidden = detokenize(t, ids, count, 0);
    if (is_plain && (switches & SWITCH_BYTES) && !(switches & (SWITCH_CONTROL | SWITCH_FOLD)) &&
        utf8_is_valid(text.data, text.size) && !memmem(text.data, text.size, "\xe2\x96\x81", 3))
        require(span_equal((span){hidden.data, hidden.size}, text));
    buffer_free(&shown);
    buffer_free(&hidden);
    mem_free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    checkpoint *c;
    require(checkpoint_create(&c, "fuzz", NULL) == HEARTH_OK);
    uint8_t switches = take(&in);
    bool is_plain = build(c, &in, switches) && !(switches & SWITCH_IDS);
    if (switches & SWITCH_IDS)
        spoil(c, &in);
    tokenizer *t;
    hearth_error error;
    hearth_status status = tokenizer_create(&t, c, &error);
    checkpoint_close(c);
    if (status == HEARTH_OK) {
        check_ids(t);
        check(t, (span){(const char *)in.data, in.size}, switches, is_plain);
        tokenizer_destroy(t);
    }
    return 0;
}
