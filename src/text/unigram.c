/* unigram.c - SentencePiece's unigram: of all ways to cut a text into pieces the one whose scores have the largest sum
 * (Kudo, Subword regularization, 2018), by dynamic programming from left to right.
 *
 * A character without a piece of its own costs 10 more than the worst piece; several such in a row are one unknown token,
 * or byte tokens where the vocabulary has those. Where no piece has a blank but at its beginning, as is usual, the best
 * way through a text is that through each of its words, so that memory is needed for a word only. */
#include "kind.h"
#include "piece_table.h"
#include "sorted_pieces.h"

#include <string.h>

#define UNKNOWN_PENALTY 10

typedef struct unigram_tables {
    sorted_pieces pieces;
    float unknown_score;
    bool words; /* the text may be cut before every blank */
    uint32_t bytes[256];
    bool has_bytes; /* all of them */
} unigram_tables;

/* Collects the pieces that plain text can produce, and what follows from all of them. */
static void fill_tables(unigram_tables *table, const vocabulary *v)
{
    float least = 0;
    memset(table->bytes, 0xff, sizeof table->bytes);
    table->words = true;
    for (uint32_t id = 0; id < v->count; id++) {
        const token *t = &v->tokens[id];
        if (t->type == TOKEN_BYTE && table->bytes[t->byte] == NOTHING)
            table->bytes[t->byte] = id;
        if (t->type != TOKEN_NORMAL || t->text.size == 0)
            continue;
        if (table->pieces.count == 0 || t->score < least)
            least = t->score;
        table->pieces.items[table->pieces.count++] = (sorted_piece){t->text, id};
        if (memmem(t->text.data + 1, t->text.size - 1, v->blank.data, v->blank.size))
            table->words = false;
    }
    table->has_bytes = true;
    for (int byte = 0; byte < 256; byte++)
        table->has_bytes = table->has_bytes && table->bytes[byte] != NOTHING;
    table->unknown_score = least - UNKNOWN_PENALTY;
    sorted_pieces_sort(&table->pieces);
}

hearth_status unigram_create(void **tables, vocabulary *v, const checkpoint *c, hearth_error *error)
{
    unigram_tables *table = arena_new(&v->memory, sizeof *table);
    if (table)
        table->pieces.items = arena_new_array(&v->memory, v->count, sizeof *table->pieces.items);
    if (!table || !table->pieces.items)
        return fail_memory(error, "tokenizer", v->count * sizeof *table->pieces.items);
    fill_tables(table, v);
    if (v->unknown < 0 && !table->has_bytes)
        return fail(error, HEARTH_FORMAT,
                    "%s: key tokenizer.ggml.tokens: has neither an unknown token nor all byte tokens", c->path);
    *tables = table;
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ the best way */

/* The best way to a place of the text: its last piece, and where that begins. */
typedef struct step {
    float score; /* of the whole text up to here: rounded as in SentencePiece, since rounding decides between equals */
    uint32_t begin;
    uint32_t id; /* NOTHING: a character without a piece */
} step;

typedef struct path {
    const unigram_tables *table;
    const vocabulary *v;
    span text;
    step *steps; /* [text.size + 1] by the place they lead to */
    float score; /* of the best way to the beginning of the text */
} path;

/* Takes a piece for the best way to where it ends, if it is; of equal ones the first, that is the longest, stays. */
static void offer(path *p, size_t begin, size_t end, uint32_t id, float score)
{
    step *to = &p->steps[end];
    float sum = p->steps[begin].score + score;
    if (to->begin == NOTHING || sum > to->score)
        *to = (step){sum, (uint32_t)begin, id};
}

/* Offers all pieces that begin at a place; the character there, of `length` bytes, without a piece if it has none. */
static void offer_all(path *p, size_t begin, size_t length)
{
    uint32_t low = 0, high = p->table->pieces.count;
    bool has_single = false;
    for (size_t at = 0; begin + at < p->text.size; at++) {
        sorted_pieces_narrow(&p->table->pieces, at, (uint8_t)p->text.data[begin + at], &low, &high);
        if (low == high)
            break;
        const sorted_piece *piece = &p->table->pieces.items[low];
        if (piece->text.size != at + 1)
            continue;
        offer(p, begin, begin + at + 1, piece->id, p->v->tokens[piece->id].score);
        has_single = has_single || at + 1 == length;
    }
    if (!has_single)
        offer(p, begin, begin + length, NOTHING, p->table->unknown_score);
}

/* ------------------------------------------------------------------ output */

/* Adds a text without pieces. *again: the last id is the unknown token already. */
static bool add_unspelled(const path *p, span text, bool *again, encoding *e)
{
    if (!p->table->has_bytes) {
        bool was_unknown = *again;
        *again = true;
        return was_unknown || encoding_add(e, p->v->unknown);
    }
    for (size_t i = 0; i < text.size; i++)
        if (!encoding_add(e, (int32_t)p->table->bytes[(uint8_t)text.data[i]]))
            return false;
    return true;
}

/* Turns the way back into one forward: each step then says where its piece ends. */
static void reverse_path(path *p)
{
    size_t end = p->text.size, next = end;
    uint32_t id = NOTHING;
    for (;;) {
        step here = p->steps[end];
        p->steps[end] = (step){0, (uint32_t)next, id};
        if (end == 0)
            return;
        next = end;
        id = here.id;
        end = here.begin;
    }
}

/* Finds the best way through a text and adds its ids. */
static bool add_text(path *p, bool *again, encoding *e)
{
    p->steps = encoding_scratch(e, (p->text.size + 1) * sizeof *p->steps);
    if (!p->steps)
        return false;
    for (size_t i = 0; i <= p->text.size; i++)
        p->steps[i] = (step){p->score, NOTHING, NOTHING};
    for (size_t at = 0, length; at < p->text.size; at += length) {
        length = utf8_length(p->text.data + at, p->text.size - at);
        length = length ? length : 1;
        offer_all(p, at, length);
    }
    p->score = p->steps[p->text.size].score;
    reverse_path(p);
    for (size_t at = 0; at < p->text.size; at = p->steps[at].begin) {
        const step *s = &p->steps[at];
        bool ok;
        if (s->id == NOTHING)
            ok = add_unspelled(p, (span){p->text.data + at, s->begin - at}, again, e);
        else {
            *again = false;
            ok = encoding_add(e, (int32_t)s->id);
        }
        if (!ok)
            return false;
    }
    return true;
}

hearth_status unigram_encode(const void *tables, const vocabulary *v, span text, encoding *e, hearth_error *error)
{
    path p = {.table = tables, .v = v};
    bool again = false;
    if (text.size > UINT32_MAX / 4)
        return fail(error, HEARTH_INVALID, "text: has %zu bytes, more than fit in one encoding", text.size);
    bool ok = blanks_write(v, text, e);
    span rest = {e->text.data, e->text.size};
    while (ok && rest.size > 0) {
        const char *blank =
            p.table->words && rest.size > 1 ? memmem(rest.data + 1, rest.size - 1, v->blank.data, v->blank.size) : NULL;
        p.text = (span){rest.data, blank ? (size_t)(blank - rest.data) : rest.size};
        rest = (span){rest.data + p.text.size, rest.size - p.text.size};
        ok = add_text(&p, &again, e);
    }
    return ok ? HEARTH_OK : fail_memory(error, "tokens", text.size);
}
