/* bpe.c - byte-pair encoding by ranks: the pair that was merged first in training is merged first.
 *
 * Sennrich, Haddow and Birch, 2016, with bytes for letters as GPT-2 does (Radford et al., 2019). The text is cut into
 * words (pre_tokenizers.h), the symbols of a word are its bytes, and the adjacent pair of the lowest rank merges until
 * no pair does. Two kinds of vocabulary work so:
 *
 *   gpt2     pieces are spelled in the alphabet of bytes (byte_alphabet.h)
 *   gemma4   pieces are plain text with U+2581 for a blank, symbols are characters, and characters without a piece
 *            become byte tokens; words are whole lines
 *
 * A heap holds the pairs, so a word of n symbols costs n log n however long it is. */
#include "byte_alphabet.h"
#include "kind.h"
#include "merges.h"
#include "pair_queue.h"
#include "splitting.h"
#include "word_cache.h"

#include <string.h>

/* ------------------------------------------------------------------ tables */

typedef struct bpe_tables {
    piece_table pieces;
    merge_table merges;
    uint32_t bytes[256]; /* ids of single bytes, or NOTHING */
    splitter *splitter;
    bool byte_level;     /* pieces are spelled in the alphabet of bytes */
    bool ignores_merges; /* a word that is a piece is that piece        */
} bpe_tables;

/* Returns true for pieces that merges may produce. */
static bool is_mergeable(const token *t)
{
    return (t->type == TOKEN_NORMAL || t->type == TOKEN_UNUSED || t->type == TOKEN_USER_DEFINED) && t->text.size > 0;
}

static void find_bytes(bpe_tables *table, const vocabulary *v)
{
    memset(table->bytes, 0xff, sizeof table->bytes);
    if (table->byte_level) {
        for (unsigned byte = 0; byte < 256; byte++) {
            char text[ALPHABET_BYTES];
            size_t size = alphabet_spell((uint8_t)byte, text);
            table->bytes[byte] = piece_table_find(&table->pieces, (span){text, size});
        }
        return;
    }
    for (uint32_t id = v->count; id-- > 0;)
        if (v->tokens[id].type == TOKEN_BYTE)
            table->bytes[v->tokens[id].byte] = id;
}

static hearth_status create(void **tables, vocabulary *v, const checkpoint *c, bool byte_level, hearth_error *error)
{
    bpe_tables *table = arena_new(&v->memory, sizeof *table);
    if (!table || !piece_table_fill(&table->pieces, v, is_mergeable))
        return fail_memory(error, "tokenizer", sizeof *table);
    table->byte_level = byte_level;
    find_bytes(table, v);
    TRY(merge_table_load(&table->merges, v, &table->pieces, c, error));
    TRY(splitting_load(&table->splitter, &table->ignores_merges, c, error));
    *tables = table;
    return HEARTH_OK;
}

hearth_status bpe_create_bytes(void **tables, vocabulary *v, const checkpoint *c, hearth_error *error)
{
    return create(tables, v, c, true, error);
}

hearth_status bpe_create_characters(void **tables, vocabulary *v, const checkpoint *c, hearth_error *error)
{
    return create(tables, v, c, false, error);
}

void bpe_destroy(void *tables)
{
    bpe_tables *table = tables;
    splitter_destroy(table->splitter);
}

/* ----------------------------------------------------------------- merging */

typedef struct symbol {
    uint32_t id;
    uint32_t size;           /* in bytes; a merged symbol has those of its parts              */
    uint32_t previous, next; /* neighbours, or NOTHING; next is its own index once it is gone */
} symbol;

typedef struct run {
    const bpe_tables *table;
    const vocabulary *v;
    encoding *out;
    word_cache *cache; /* NULL: the text is too short for one */
    symbol *symbols;   /* [count] */
    uint32_t count;
    pair_queue queue;
} run;

/* Queues a symbol and its successor where they merge. */
static void consider(run *r, uint32_t left)
{
    if (left == NOTHING || r->symbols[left].next == NOTHING)
        return;
    const symbol *a = &r->symbols[left], *b = &r->symbols[a->next];
    const merge *m = merge_table_find(&r->table->merges, a->id, b->id);
    if (m)
        pair_queue_push(&r->queue, (pair){-(float)m->rank, left, a->size + b->size});
}

/* Merges the best pair of the queue, unless one of its symbols has changed since it was queued: then the sum of their
 * sizes is another. */
static void merge_best(run *r)
{
    pair best = pair_queue_pop(&r->queue);
    symbol *left = &r->symbols[best.left];
    if (left->next == best.left || left->next == NOTHING)
        return;
    uint32_t other = left->next;
    symbol *right = &r->symbols[other];
    if (left->size + right->size != best.size)
        return;
    left->id = merge_table_find(&r->table->merges, left->id, right->id)->merged;
    left->size = best.size;
    left->next = right->next;
    if (left->next != NOTHING)
        r->symbols[left->next].previous = best.left;
    right->next = other;
    consider(r, left->previous);
    consider(r, best.left);
}

/* Adds a symbol for a byte. */
static hearth_status add_byte(run *r, uint8_t byte, hearth_error *error)
{
    uint32_t id = r->table->bytes[byte];
    if (id == NOTHING && r->v->unknown < 0)
        return fail(error, HEARTH_UNSUPPORTED, "text: the vocabulary has no token for the byte 0x%02x", byte);
    r->symbols[r->count] = (symbol){id == NOTHING ? (uint32_t)r->v->unknown : id, 1, r->count - 1, r->count + 1};
    r->count++;
    return HEARTH_OK;
}

/* Sets up the symbols of a word, and memory for the queue behind them. */
static hearth_status begin_word(run *r, span word, hearth_error *error)
{
    size_t room;
    if (!size_multiply(word.size, sizeof(symbol) + 2 * sizeof(pair), &room) ||
        !(r->symbols = encoding_scratch(r->out, room)))
        return fail_memory(error, "text", word.size);
    r->queue = (pair_queue){(pair *)(r->symbols + word.size), 0};
    r->count = 0;
    for (size_t i = 0, length; i < word.size; i += length) {
        length = r->table->byte_level ? 0 : utf8_length(word.data + i, word.size - i);
        uint32_t id = length > 0 ? piece_table_find(&r->table->pieces, (span){word.data + i, length}) : NOTHING;
        if (id != NOTHING) {
            r->symbols[r->count] = (symbol){id, (uint32_t)length, r->count - 1, r->count + 1};
            r->count++;
            continue;
        }
        length = length > 0 ? length : 1;
        for (size_t j = 0; j < length; j++)
            TRY(add_byte(r, (uint8_t)word.data[i + j], error));
    }
    r->symbols[0].previous = NOTHING;
    r->symbols[r->count - 1].next = NOTHING;
    return HEARTH_OK;
}

/* Returns the piece that is the whole word, where the vocabulary looks for that first. */
static uint32_t whole_word(const run *r, span word)
{
    const bpe_tables *table = r->table;
    bool is_lines = !table->byte_level && word.data[0] == '\n'; /* files list no merges of line feeds */
    if (!(table->ignores_merges || is_lines) || word.size > table->pieces.longest)
        return NOTHING;
    if (!table->byte_level)
        return piece_table_find(&table->pieces, word);
    char spelled[ALPHABET_BYTES * PIECE_LIMIT];
    size_t size = 0;
    for (size_t i = 0; i < word.size; i++)
        size += alphabet_spell((uint8_t)word.data[i], spelled + size);
    return piece_table_find(&table->pieces, (span){spelled, size});
}

static hearth_status merge_word(run *r, span word, hearth_error *error)
{
    uint32_t whole = whole_word(r, word);
    if (whole != NOTHING)
        return encoding_add(r->out, (int32_t)whole) ? HEARTH_OK : fail_memory(error, "tokens", word.size);
    TRY(begin_word(r, word, error));
    for (uint32_t i = 0; i < r->count; i++)
        consider(r, i);
    while (r->queue.count > 0)
        merge_best(r);
    for (uint32_t i = 0; i != NOTHING; i = r->symbols[i].next)
        if (!encoding_add(r->out, (int32_t)r->symbols[i].id))
            return fail_memory(error, "tokens", word.size);
    return HEARTH_OK;
}

/* Adds the ids of a word: those of its last occurrence, or by merging. */
static hearth_status add_word(void *user, span word, hearth_error *error)
{
    run *r = user;
    encoding *out = r->out;
    if (!r->cache || word.size > WORD_CACHE_LONGEST)
        return merge_word(r, word, error);
    cached_word *place = word_cache_place(r->cache, word);
    if (word_cache_holds(place, word)) {
        for (uint32_t i = 0; i < place->id_count; i++)
            if (!encoding_add(out, out->ids[place->first_id + i]))
                return fail_memory(error, "tokens", word.size);
        return HEARTH_OK;
    }
    size_t first = out->count;
    TRY(merge_word(r, word, error));
    *place = (cached_word){word.data, first, (uint32_t)word.size, (uint32_t)(out->count - first)};
    return HEARTH_OK;
}

/* ---------------------------------------------------------------- interface */

/* Texts shorter than this have hardly a word twice. */
enum { CACHED_TEXT_BYTES = 4096 };

hearth_status bpe_adjust(vocabulary_defaults *defaults, const checkpoint *c, hearth_error *error)
{
    const pre_tokenizer *row;
    TRY(splitting_find(&row, c, error));
    if (row)
        defaults->adds_bos = row->adds_bos;
    return HEARTH_OK;
}

hearth_status bpe_encode(const void *tables, const vocabulary *v, span text, encoding *e, hearth_error *error)
{
    run r = {.table = tables, .v = v, .out = e};
    if (text.size > UINT32_MAX / 4) /* symbols have 32-bit indices, and a blank may grow from one byte to three */
        return fail(error, HEARTH_INVALID, "text: has %zu bytes, more than fit in one encoding", text.size);
    if (!r.table->byte_level || (v->adds_space_prefix && text.data[0] != ' ')) {
        bool written = r.table->byte_level ? (e->text.size = 0, buffer_put(&e->text, " ", 1) &&
                                                                    buffer_put(&e->text, text.data, text.size))
                                           : blanks_write(v, text, e);
        if (!written)
            return fail_memory(error, "text", text.size);
        text = (span){e->text.data, e->text.size};
    }
    if (text.size >= CACHED_TEXT_BYTES && r.table->byte_level && !(r.cache = mem_new(sizeof *r.cache)))
        return fail_memory(error, "text", sizeof *r.cache);
    hearth_status status = splitter_split(r.table->splitter, text, &e->split, add_word, &r, error);
    mem_free(r.cache);
    return status;
}

size_t bpe_spell_bytes(const vocabulary *v, int32_t id, char *out)
{
    return alphabet_read(v->tokens[id].text, out);
}
