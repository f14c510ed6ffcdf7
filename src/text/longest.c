/* longest.c - RWKV's vocabulary: a text is cut into the longest piece at each place, from left to right. There are neither merges
 * nor words, and pieces are bytes: a file spells those that are not ASCII, and controls, by escapes as Python's bytes have them. */
#include "escapes.h"
#include "kind.h"
#include "sorted_pieces.h"

#include <string.h>

/* Lists the pieces that plain text can produce, by their bytes. */
static hearth_status list_pieces(sorted_pieces *p, const vocabulary *v, char *block, const checkpoint *c,
                                 hearth_error *error)
{
    bool single[256] = {false}, all = true;
    for (uint32_t id = 0; id < v->count; id++) {
        const token *t = &v->tokens[id];
        span bytes = {block, 0};
        if (t->type != TOKEN_NORMAL || t->text.size == 0)
            continue;
        if (!escapes_read(t->text, false, block, &bytes.size))
            return fail(error, HEARTH_FORMAT, "%s: token %u: has an escape that means no byte", c->path, id);
        block += bytes.size;
        p->items[p->count++] = (sorted_piece){bytes, id};
        if (bytes.size == 1)
            single[(uint8_t)bytes.data[0]] = true;
    }
    for (size_t i = 0; i < 256; i++)
        all = all && single[i];
    sorted_pieces_sort(p);
    return all || v->unknown >= 0
               ? HEARTH_OK
               : fail(error, HEARTH_FORMAT, "%s: key tokenizer.ggml.tokens: has neither an unknown token nor all bytes",
                      c->path);
}

hearth_status longest_create(void **tables, vocabulary *v, const checkpoint *c, hearth_error *error)
{
    size_t bytes = 1;
    for (uint32_t id = 0; id < v->count; id++)
        bytes += v->tokens[id].text.size;
    sorted_pieces *p = arena_new(&v->memory, sizeof *p);
    char *block = arena_new(&v->memory, bytes);
    if (p)
        p->items = arena_new_array(&v->memory, v->count, sizeof *p->items);
    if (!p || !block || !p->items)
        return fail_memory(error, "tokenizer", bytes + v->count * sizeof *p->items);
    *tables = p;
    return list_pieces(p, v, block, c, error);
}

/* Returns the longest piece with which a text begins; NULL: there is none. */
static const sorted_piece *longest_at(const sorted_pieces *p, span text)
{
    const sorted_piece *found = NULL;
    uint32_t low = 0, high = p->count;
    for (size_t at = 0; at < text.size; at++) {
        sorted_pieces_narrow(p, at, (uint8_t)text.data[at], &low, &high);
        if (low == high)
            break;
        if (p->items[low].text.size == at + 1)
            found = &p->items[low];
    }
    return found;
}

hearth_status longest_encode(const void *tables, const vocabulary *v, span text, encoding *e, hearth_error *error)
{
    while (text.size > 0) {
        const sorted_piece *piece = longest_at(tables, text);
        size_t taken = piece ? piece->text.size : 1;
        if (!encoding_add(e, piece ? (int32_t)piece->id : v->unknown))
            return fail_memory(error, "tokens", text.size);
        text = (span){text.data + taken, text.size - taken};
    }
    return HEARTH_OK;
}

size_t longest_spell(const vocabulary *v, int32_t id, char *out)
{
    const token *t = &v->tokens[id];
    size_t size;
    if (escapes_read(t->text, false, out, &size))
        return size;
    memcpy(out, t->text.data, t->text.size); /* of no plain piece: its spelling */
    return t->text.size;
}
