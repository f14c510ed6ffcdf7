/* detokenizer.c - token ids to text, as a stream: each character comes out as soon as it is complete.
 *
 * The bytes of all tokens go through one function, pass(). It holds back an incomplete character, replaces invalid
 * bytes by U+FFFD (one per maximal subpart, Unicode 3.9, as browsers do), turns the vocabulary's blank into a space,
 * and drops the blank that the tokenizer puts in front of a text. The tokenizer also puts one after every special
 * token, so it is dropped after each special token that is shown, too: text that was shown and is read again gives
 * the same ids.
 *
 * Nothing is allocated per token. */
#include "internal.h"

#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */
enum { REPLACEMENT_BYTES = 3, CHARACTER_LIMIT = 4 };

struct hearth_detokenizer {
    const tokenizer *tokenizer;
    unsigned flags;
    span blank;
    bool at_begin; /* a blank that comes next was added by the tokenizer */
    char *in;      /* [CHARACTER_LIMIT + longest piece]: bytes held back, then those of the token */
    size_t held;
    char *out; /* [REPLACEMENT_BYTES * (CHARACTER_LIMIT + longest piece)]: every byte may become U+FFFD */
    size_t size;
};

/* Resets the state to the beginning of a text. */
static void begin_text(detokenizer *d)
{
    d->held = 0;
    d->at_begin = d->tokenizer->vocabulary.adds_space_prefix && !(d->flags & HEARTH_DETOKENIZE_CONTINUE);
}

hearth_status detokenizer_create(detokenizer **out, const tokenizer *t, unsigned flags, hearth_error *error)
{
    /* The longest piece is at most PIECE_LIMIT. */
    size_t room = CHARACTER_LIMIT + t->vocabulary.longest;
    size_t total = sizeof(detokenizer) + room + REPLACEMENT_BYTES * room;
    detokenizer *d = mem_new(total);
    if (!d)
        return fail_memory(error, "detokenizer", total);
    d->tokenizer = t;
    d->flags = flags;
    d->blank = t->vocabulary.blank;
    d->in = (char *)(d + 1);
    d->out = d->in + room;
    begin_text(d);
    *out = d;
    return HEARTH_OK;
}

void detokenizer_destroy(detokenizer *d)
{
    mem_free(d);
}

static void put(detokenizer *d, const char *text, size_t size)
{
    memcpy(d->out + d->size, text, size);
    d->size += size;
}

/* Writes a whole character of ordinary text: a blank as a space, or not at all where the tokenizer added it. */
static void put_character(detokenizer *d, span character)
{
    bool is_blank = span_equal(character, d->blank);
    if (!(is_blank && d->at_begin)) {
        if (is_blank)
            put(d, " ", 1);
        else
            put(d, character.data, character.size);
    }
    d->at_begin = false;
}

static void put_replacement(detokenizer *d)
{
    put(d, REPLACEMENT, REPLACEMENT_BYTES);
    d->at_begin = false;
}

/* Returns how many bytes of an invalid sequence one U+FFFD replaces: the longest start of a character, at least 1. */
static size_t maximal_subpart(const char *text, size_t size)
{
    size_t length = 1;
    while (length < size && utf8_is_partial(text, length + 1))
        length++;
    return length;
}

/* Writes the complete characters of in[0..size) to out and holds back the rest. `literally`: blanks are written as
 * they are, so that control tokens are shown as they are spelled. */
static void pass(detokenizer *d, size_t size, bool literally)
{
    size_t i = 0;
    while (i < size) {
        const char *text = d->in + i;
        size_t length = utf8_length(text, size - i);
        if (length == 0 && utf8_is_partial(text, size - i))
            break;
        if (length == 0) {
            put_replacement(d);
            i += maximal_subpart(text, size - i);
            continue;
        }
        if (literally)
            put(d, text, length);
        else
            put_character(d, (span){text, length});
        i += length;
    }
    d->held = size - i;
    memmove(d->in, d->in + i, d->held);
}

/* Replaces the bytes held back: no later token can complete them. */
static void give_up_held(detokenizer *d)
{
    if (d->held > 0)
        put_replacement(d); /* an incomplete character is a single maximal subpart */
    d->held = 0;
}

/* Writes the text of a special token, which is always complete in itself. */
static void push_special(detokenizer *d, span text, bool literally)
{
    memcpy(d->in, text.data, text.size);
    /* A blank of the token itself is text, not one that the tokenizer added. */
    d->at_begin = false;
    pass(d, text.size, literally);
    give_up_held(d);
    d->at_begin = d->tokenizer->vocabulary.adds_space_prefix;
}

hearth_status detokenizer_push(detokenizer *d, int32_t id, span *text, hearth_error *error)
{
    const vocabulary *v = &d->tokenizer->vocabulary;
    uint32_t id_count = d->tokenizer->id_count;
    if (id < 0 || (uint32_t)id >= id_count)
        return fail(error, HEARTH_INVALID, "token %d: the vocabulary has %u tokens", id, id_count);
    d->size = 0;
    bool is_padding = (uint32_t)id >= v->count;
    uint8_t type = is_padding ? TOKEN_CONTROL : v->tokens[id].type;
    if (type == TOKEN_CONTROL || type == TOKEN_UNKNOWN) {
        give_up_held(d);
        if (!is_padding && (d->flags & HEARTH_DETOKENIZE_CONTROL))
            push_special(d, v->tokens[id].text, true);
    } else if (type == TOKEN_USER_DEFINED) {
        give_up_held(d);
        push_special(d, v->tokens[id].text, false);
    } else {
        pass(d, d->held + d->tokenizer->kind->spell(v, id, d->in + d->held), false);
    }
    *text = (span){d->out, d->size};
    return HEARTH_OK;
}

void detokenizer_finish(detokenizer *d, span *text)
{
    d->size = 0;
    give_up_held(d);
    begin_text(d);
    *text = (span){d->out, d->size};
}
