/* tiktoken.c - see tiktoken.h. */
#include "tiktoken.h"

#include "byte_alphabet.h"
#include "piece_table.h"

#include <stdio.h>
#include <string.h>

#define KEY(name) "tokenizer.ggml." name

/* Bytes of the longest piece: finding its merge takes the square of them. Real ones have at most a few hundred. */
#define LONGEST 1024

typedef struct listing {
    const char *name;
    hearth_error *error;
    vocabulary pieces; /* their texts are bytes; its memory holds what follows, too */
    piece_table table;
    span *spelled; /* [pieces.count] as GGUF spells them */
    span *merges;  /* [merge_count] ... and the two pieces that make one */
    size_t merge_count;
} listing;

/* ------------------------------------------------------------------ lines */

/* Returns the six bits of a character of base64 (RFC 4648); -1: it is none. */
static int bits_of(char c)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = memchr(alphabet, c, sizeof alphabet - 1);
    return at ? (int)(at - alphabet) : -1;
}

/* Decodes base64 with its padding to out [text.size / 4 * 3]; returns the bytes, 0: it is damaged or empty. */
static size_t decode(span text, char *out)
{
    if (text.size == 0 || text.size % 4 != 0)
        return 0;
    size_t padding = text.data[text.size - 1] != '=' ? 0 : text.data[text.size - 2] != '=' ? 1 : 2;
    for (size_t i = 0; i < text.size; i += 4) {
        uint32_t group = 0;
        for (size_t k = i; k < i + 4; k++) {
            int bits = k < text.size - padding ? bits_of(text.data[k]) : 0;
            if (bits < 0)
                return 0;
            group = group << 6 | (uint32_t)bits;
        }
        for (size_t k = 0; k < 3; k++)
            out[i / 4 * 3 + k] = (char)(group >> (16 - 8 * k) & 0xff);
    }
    return text.size / 4 * 3 - padding;
}

/* Adds the piece of a line. */
static hearth_status add_line(listing *l, span line, size_t number)
{
    char bytes[(LONGEST + 2) / 3 * 3], rank[16];
    const char *blank = memchr(line.data, ' ', line.size);
    size_t size = blank ? (size_t)(blank - line.data) : 0, digits = line.size - size - (blank ? 1 : 0);
    snprintf(rank, sizeof rank, "%u", l->pieces.count);
    if (!blank || digits != strlen(rank) || memcmp(blank + 1, rank, digits) != 0)
        return fail(l->error, HEARTH_FORMAT, "%s: line %zu: is not a piece and the rank %s", l->name, number, rank);
    size = size / 4 * 3 <= sizeof bytes ? decode((span){line.data, size}, bytes) : 0;
    if (size == 0 || size > LONGEST)
        return fail(l->error, HEARTH_FORMAT, "%s: line %zu: is not base64 of 1 to %d bytes", l->name, number, LONGEST);
    const char *copy = arena_copy_text(&l->pieces.memory, bytes, size);
    l->pieces.tokens[l->pieces.count++] = (token){.text = {copy, size}};
    return copy ? HEARTH_OK : fail_memory(l->error, l->name, size);
}

static hearth_status read_lines(listing *l, span text)
{
    size_t room = 1, number = 0;
    for (size_t i = 0; i < text.size; i++)
        room += text.data[i] == '\n';
    l->pieces.tokens = arena_new_array(&l->pieces.memory, room, sizeof *l->pieces.tokens);
    l->spelled = arena_new_array(&l->pieces.memory, room, sizeof *l->spelled);
    l->merges = arena_new_array(&l->pieces.memory, room, sizeof *l->merges);
    if (!l->pieces.tokens || !l->spelled || !l->merges)
        return fail_memory(l->error, l->name, room * sizeof *l->pieces.tokens);
    while (text.size > 0) {
        const char *end = memchr(text.data, '\n', text.size);
        span line = {text.data, end ? (size_t)(end - text.data) : text.size};
        text = (span){text.data + line.size + (end ? 1 : 0), text.size - line.size - (end ? 1 : 0)};
        number++;
        if (line.size > 0)
            TRY(add_line(l, line, number));
    }
    return HEARTH_OK;
}

static bool takes_all(const token *t)
{
    (void)t;
    return true;
}

/* Fills the table; refuses pieces that are alike, and bytes without a piece. */
static hearth_status index_pieces(listing *l)
{
    if (!piece_table_fill(&l->table, &l->pieces, takes_all))
        return fail_memory(l->error, l->name, l->pieces.count * sizeof(piece_slot));
    for (uint32_t id = 0; id < l->pieces.count; id++) {
        uint32_t other = piece_table_find(&l->table, l->pieces.tokens[id].text);
        if (other != id)
            return fail(l->error, HEARTH_FORMAT, "%s: the pieces of ranks %u and %u are alike", l->name, other, id);
    }
    for (unsigned byte = 0; byte < 256; byte++)
        if (piece_table_find(&l->table, (span){&(char){(char)byte}, 1}) == NOTHING)
            return fail(l->error, HEARTH_FORMAT, "%s: has no piece for the byte 0x%02x", l->name, byte);
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ merges */

/* Parts of a piece, while they merge. */
typedef struct parts {
    uint16_t begins[LONGEST + 1]; /* [count + 1] the last one: where the piece ends */
    uint32_t ranks[LONGEST];      /* [count - 1] of the piece that a part and the next one are; NOTHING: of none */
    size_t count;
} parts;

static uint32_t rank_of_pair(const listing *l, span piece, const parts *p, size_t i)
{
    span pair = {piece.data + p->begins[i], (size_t)(p->begins[i + 2] - p->begins[i])};
    return piece_table_find(&l->table, pair);
}

/* Merges the bytes of a piece, pairs of the lowest rank first, the leftmost of equal ones, by pieces of lower rank than its own. */
static void merge_bytes(const listing *l, uint32_t id, parts *p)
{
    span piece = l->pieces.tokens[id].text;
    p->count = piece.size;
    for (size_t i = 0; i <= piece.size; i++)
        p->begins[i] = (uint16_t)i;
    for (size_t i = 0; i + 1 < p->count; i++)
        p->ranks[i] = rank_of_pair(l, piece, p, i);
    while (p->count > 2) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < p->count; i++)
            best = p->ranks[i] < p->ranks[best] ? i : best;
        if (p->ranks[best] >= id)
            return;
        memmove(p->begins + best + 1, p->begins + best + 2, (p->count - best - 1) * sizeof *p->begins);
        memmove(p->ranks + best, p->ranks + best + 1, (p->count - best - 2) * sizeof *p->ranks);
        p->count--;
        if (best > 0)
            p->ranks[best - 1] = rank_of_pair(l, piece, p, best - 1);
        if (best + 1 < p->count)
            p->ranks[best] = rank_of_pair(l, piece, p, best);
    }
}

/* Writes bytes as GGUF spells them to `to`; returns the length. */
static size_t spell(span bytes, char *to)
{
    size_t size = 0;
    for (size_t i = 0; i < bytes.size; i++)
        size += alphabet_spell((uint8_t)bytes.data[i], to + size);
    return size;
}

static hearth_status keep(listing *l, const char *text, size_t size, span *to)
{
    *to = (span){arena_copy_text(&l->pieces.memory, text, size), size};
    return to->data ? HEARTH_OK : fail_memory(l->error, l->name, size);
}

/* Spells all pieces, and finds which two make each. */
static hearth_status make_merges(listing *l)
{
    char text[ALPHABET_BYTES * LONGEST + 1];
    parts p;
    for (uint32_t id = 0; id < l->pieces.count; id++) {
        span piece = l->pieces.tokens[id].text;
        size_t size = spell(piece, text);
        TRY(keep(l, text, size, &l->spelled[id]));
        merge_bytes(l, id, &p);
        if (p.count != 2)
            continue;
        size_t half = p.begins[1];
        size = spell((span){piece.data, half}, text);
        text[size++] = ' ';
        size += spell((span){piece.data + half, piece.size - half}, text + size);
        TRY(keep(l, text, size, &l->merges[l->merge_count++]));
    }
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ keys */

static hearth_status set_keys(checkpoint *c, listing *l)
{
    size_t count = l->pieces.count;
    int32_t *types = arena_new_array(&l->pieces.memory, count, sizeof *types);
    if (!types)
        return fail_memory(l->error, l->name, count * sizeof *types);
    for (size_t i = 0; i < count; i++)
        types[i] = TOKEN_NORMAL;
    TRY(checkpoint_set_string(c, KEY("model"), span_of("gpt2"), l->error));
    TRY(checkpoint_set_string(c, KEY("pre"), span_of("kimi-k2"), l->error));
    TRY(checkpoint_set_strings(c, KEY("tokens"), l->spelled, count, l->error));
    TRY(checkpoint_set_numbers(c, KEY("token_type"), VALUE_I32, types, count, l->error));
    return checkpoint_set_strings(c, KEY("merges"), l->merges, l->merge_count, l->error);
}

hearth_status tiktoken_parse(checkpoint *c, span text, const char *name, hearth_error *error)
{
    listing l = {.name = name, .error = error};
    hearth_status status = read_lines(&l, text);
    if (status == HEARTH_OK)
        status = index_pieces(&l);
    if (status == HEARTH_OK)
        status = make_merges(&l);
    if (status == HEARTH_OK)
        status = set_keys(c, &l);
    arena_clear(&l.pieces.memory);
    return status;
}
