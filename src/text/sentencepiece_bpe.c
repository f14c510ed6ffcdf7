/* sentencepiece_bpe.c - SentencePiece's BPE: the best-scored adjacent pair is merged until no pair is left.
 *
 * Two adjacent symbols may merge where their concatenation is a piece of the vocabulary; the score of the pair is the
 * score of that piece. The highest score goes first, the leftmost pair on ties (Kudo and Richardson, 2018, and the
 * SentencePiece program).
 *
 * For speed the text is cut into runs that cannot influence each other: where no piece contains the two characters at
 * a boundary side by side, no merge can span it. In a usual vocabulary every word begins at such a boundary, so the
 * queue holds one word at a time. A run without such a boundary costs n log n.
 *
 * Special tokens are not handled here. The input is plain text, and no merge produces a control token or a byte token
 * from it, even where it is spelled like one. */
#include "kind.h"
#include "pair_queue.h"
#include "piece_table.h"

#include <string.h>

/* log2 of the bits in the filter of character pairs. Llama 2 sets about 3000 of the 2^18 bits, so one boundary in
 * about 80 is missed (which costs time, not correctness). */
enum { PAIR_FILTER_BITS = 18 };

/* ------------------------------------------------------------------ tables */

typedef struct spm_tables {
    piece_table pieces;                          /* those that plain text can produce                    */
    uint64_t pairs[1 << (PAIR_FILTER_BITS - 6)]; /* bit set: a piece may have these characters in a row */
    uint32_t bytes[256];                         /* ids of the byte tokens, or NOTHING                  */
} spm_tables;

/* Returns the size of the first character in bytes; a byte that is not valid UTF-8 counts as a character. */
static size_t character_size(const char *text, size_t size)
{
    size_t length = utf8_length(text, size);
    return length > 0 ? length : 1;
}

/* Returns the bytes of a character as a number, unique for each character. */
static uint32_t character_code(const char *text, size_t size)
{
    uint32_t code = 0;
    for (size_t i = 0; i < size; i++)
        code = code << 8 | (uint8_t)text[i];
    return code;
}

/* Returns the filter's bit for a pair, by Fibonacci hashing: the upper bits of a product with 2^64 / golden ratio. */
static size_t pair_bit(uint32_t left, uint32_t right)
{
    return (size_t)(((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u >> (64 - PAIR_FILTER_BITS));
}

/* Returns false only where no piece has the two characters side by side; true may be a hash collision. */
static bool may_merge(const spm_tables *table, uint32_t left, uint32_t right)
{
    size_t bit = pair_bit(left, right);
    return table->pairs[bit / 64] >> bit % 64 & 1;
}

/* Sets the filter's bits for all adjacent characters of a piece. */
static void note_pairs(spm_tables *table, span piece)
{
    uint32_t left = 0;
    for (size_t i = 0, length; i < piece.size; i += length) {
        length = character_size(piece.data + i, piece.size - i);
        uint32_t right = character_code(piece.data + i, length);
        if (i > 0) {
            size_t bit = pair_bit(left, right);
            table->pairs[bit / 64] |= (uint64_t)1 << bit % 64;
        }
        left = right;
    }
}

/* Returns true for pieces that plain text can produce. User-defined pieces do not count: they were already found in
 * the text, so only the blank put in front could still complete one, and the ids would not decode to the same
 * text. */
static bool is_mergeable(const token *t)
{
    return (t->type == TOKEN_NORMAL || t->type == TOKEN_UNUSED) && t->text.size > 0;
}

/* Fills the ids of the byte tokens and the filter of character pairs. */
static void fill_tables(spm_tables *table, const vocabulary *v)
{
    memset(table->bytes, 0xff, sizeof table->bytes);
    for (uint32_t id = 0; id < v->count; id++) {
        const token *t = &v->tokens[id];
        if (t->type == TOKEN_BYTE && table->bytes[t->byte] == NOTHING)
            table->bytes[t->byte] = id;
        if (is_mergeable(t))
            note_pairs(table, t->text);
    }
}

hearth_status sentencepiece_create(void **tables, vocabulary *v, const checkpoint *c, hearth_error *error)
{
    spm_tables *table = arena_new(&v->memory, sizeof *table);
    if (!table || !piece_table_fill(&table->pieces, v, is_mergeable))
        return fail_memory(error, "tokenizer", sizeof *table);
    fill_tables(table, v);
    for (int byte = 0; v->unknown < 0 && byte < 256; byte++)
        if (table->bytes[byte] == NOTHING)
            return fail(error, HEARTH_FORMAT,
                        "%s: key tokenizer.ggml.tokens: has neither an unknown token nor a token for byte %d", c->path,
                        byte);
    *tables = table;
    return HEARTH_OK;
}

/* ----------------------------------------------------------------- merging */

typedef struct symbol {
    uint32_t begin, size;     /* its bytes in the run                                            */
    uint32_t previous, next;  /* neighbours, or NOTHING; next is its own index once it is merged into another */
    uint32_t taken_in;        /* the symbol that was merged into this one last, or NOTHING       */
    uint32_t taken_in_before; /* of a merged symbol: the previous taken_in of the one it went into */
} symbol;

typedef struct merger {
    const spm_tables *table;
    const vocabulary *v;
    encoding *out;
    const char *text; /* of the run */
    symbol *symbols;  /* [count]    */
    pair_queue queue;
    uint32_t count;
    bool after_unknown; /* the last id is the unknown token */
} merger;

static span text_of(const merger *m, const symbol *s)
{
    return (span){m->text + s->begin, s->size};
}

/* Queues a symbol and its successor where their concatenation is a piece. */
static void consider(merger *m, uint32_t left)
{
    if (left == NOTHING || m->symbols[left].next == NOTHING)
        return;
    span text = text_of(m, &m->symbols[left]);
    text.size += m->symbols[m->symbols[left].next].size;
    uint32_t id = piece_table_find(&m->table->pieces, text);
    if (id != NOTHING)
        pair_queue_push(&m->queue, (pair){m->v->tokens[id].score, left, (uint32_t)text.size});
}

/* Returns true where a queued pair is still valid. Both symbols exist and are unchanged exactly where the sum of
 * their sizes is what it was when the pair was queued. */
static bool still_holds(const merger *m, const pair *p)
{
    const symbol *left = &m->symbols[p->left];
    return left->next != p->left && left->next != NOTHING && left->size + m->symbols[left->next].size == p->size;
}

/* Merges the successor of a symbol into it and remembers this, so that it can be undone. */
static void take_in(merger *m, uint32_t index)
{
    symbol *left = &m->symbols[index];
    uint32_t other = left->next;
    symbol *right = &m->symbols[other];
    left->size += right->size;
    left->next = right->next;
    if (left->next != NOTHING)
        m->symbols[left->next].previous = index;
    right->next = other;
    right->taken_in_before = left->taken_in;
    left->taken_in = other;
}

/* Undoes the last take_in of a symbol: the symbol merged last is its successor again. */
static void let_out(merger *m, uint32_t index)
{
    symbol *left = &m->symbols[index];
    uint32_t other = left->taken_in;
    symbol *right = &m->symbols[other];
    left->size = right->begin - left->begin;
    right->next = left->next;
    right->previous = index;
    if (right->next != NOTHING)
        m->symbols[right->next].previous = other;
    left->next = other;
    left->taken_in = right->taken_in_before;
}

/* Merges pairs of the run, best first, until no pair is left. */
static void merge(merger *m)
{
    m->queue.count = 0;
    for (uint32_t i = 0; i < m->count; i++)
        consider(m, i);
    while (m->queue.count > 0) {
        pair best = pair_queue_pop(&m->queue);
        if (!still_holds(m, &best))
            continue;
        take_in(m, best.left);
        consider(m, m->symbols[best.left].previous);
        consider(m, best.left);
    }
}

/* ------------------------------------------------------------------ output */

/* Adds text that has no piece: as its byte tokens, or as one unknown token for all such characters in a row. */
static bool add_unspelled(merger *m, span text)
{
    bool has_bytes = true;
    for (size_t i = 0; i < text.size; i++)
        has_bytes = has_bytes && m->table->bytes[(uint8_t)text.data[i]] != NOTHING;
    if (!has_bytes) {
        bool again = m->after_unknown;
        m->after_unknown = true;
        return again || encoding_add(m->out, m->v->unknown);
    }
    m->after_unknown = false;
    for (size_t i = 0; i < text.size; i++)
        if (!encoding_add(m->out, (int32_t)m->table->bytes[(uint8_t)text.data[i]]))
            return false;
    return true;
}

/* Adds the ids of the merged symbols. Unused pieces are split again into the pieces that they were merged from. */
static bool add_symbols(merger *m)
{
    for (uint32_t i = 0; i != NOTHING; i = m->symbols[i].next) {
        uint32_t id = piece_table_find(&m->table->pieces, text_of(m, &m->symbols[i]));
        while (id != NOTHING && m->v->tokens[id].type == TOKEN_UNUSED && m->symbols[i].taken_in != NOTHING) {
            let_out(m, i);
            id = piece_table_find(&m->table->pieces, text_of(m, &m->symbols[i]));
        }
        if (id == NOTHING) {
            if (!add_unspelled(m, text_of(m, &m->symbols[i])))
                return false;
            continue;
        }
        m->after_unknown = false;
        if (!encoding_add(m->out, (int32_t)id))
            return false;
    }
    return true;
}

/* Sets up a run: one symbol per character, and memory for the queue behind the symbols. */
static bool begin_run(merger *m, span run)
{
    size_t room;
    if (!size_multiply(m->count, sizeof(symbol) + 2 * sizeof(pair), &room))
        return false;
    m->symbols = encoding_scratch(m->out, room);
    if (!m->symbols)
        return false;
    m->queue.pairs = (pair *)(m->symbols + m->count);
    m->text = run.data;
    uint32_t begin = 0;
    for (uint32_t i = 0; i < m->count; i++) {
        uint32_t size = (uint32_t)character_size(run.data + begin, run.size - begin);
        m->symbols[i] =
            (symbol){begin, size, i > 0 ? i - 1 : NOTHING, i + 1 < m->count ? i + 1 : NOTHING, NOTHING, NOTHING};
        begin += size;
    }
    return true;
}

static bool add_run(merger *m, span run)
{
    if (!begin_run(m, run))
        return false;
    merge(m);
    return add_symbols(m);
}

/* Cuts the text into runs at boundaries that no merge can span, and adds the ids of each run. */
static bool add_runs(merger *m, span text)
{
    size_t begin = 0;
    uint32_t left = 0;
    m->count = 0;
    for (size_t i = 0, length; i < text.size; i += length) {
        length = character_size(text.data + i, text.size - i);
        uint32_t right = character_code(text.data + i, length);
        if (m->count > 0 && !may_merge(m->table, left, right)) {
            if (!add_run(m, (span){text.data + begin, i - begin}))
                return false;
            begin = i;
            m->count = 0;
        }
        left = right;
        m->count++;
    }
    return m->count == 0 || add_run(m, (span){text.data + begin, text.size - begin});
}

hearth_status sentencepiece_encode(const void *tables, const vocabulary *v, span text, encoding *e, hearth_error *error)
{
    /* Symbols have 32-bit indices, and a blank grows from one byte to three. */
    if (text.size > UINT32_MAX / 4)
        return fail(error, HEARTH_INVALID, "text: has %zu bytes, more than fit in one encoding", text.size);
    merger m = {.table = tables, .v = v, .out = e};
    if (!blanks_write(v, text, e) || !add_runs(&m, (span){e->text.data, e->text.size}))
        return fail_memory(error, "tokens", text.size);
    return HEARTH_OK;
}

size_t sentencepiece_spell(const vocabulary *v, int32_t id, char *out)
{
    const token *t = &v->tokens[id];
    if (t->type == TOKEN_BYTE) {
        out[0] = (char)t->byte;
        return 1;
    }
    if (t->text.size > 0)
        memcpy(out, t->text.data, t->text.size);
    return t->text.size;
}
