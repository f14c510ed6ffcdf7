/* token_trie.c - makes the tree by sorting: in sorted order a token shares with the one before it exactly the nodes
 * that it shares with any other before. */
#include "token_trie.h"

#include "../base/memory.h"

#include <stdlib.h>
#include <string.h>

void token_trie_destroy(token_trie *t)
{
    if (!t)
        return;
    mem_free(t->nodes);
    mem_free(t->ids);
    mem_free(t->begins);
    mem_free(t->bytes);
    mem_free(t->ends);
    mem_free(t);
}

/* The bytes of a token that there is. */
static span bytes_of(const token_trie *t, int32_t id)
{
    return (span){(const char *)t->bytes + t->begins[id], t->begins[id + 1] - t->begins[id]};
}

span token_trie_bytes(const token_trie *t, int32_t id)
{
    return id >= 0 && (uint32_t)id < t->vocabulary_size ? bytes_of(t, id) : (span){NULL, 0};
}

bool token_trie_ends(const token_trie *t, int32_t id)
{
    return id >= 0 && (uint32_t)id < t->vocabulary_size && (t->ends[id / 64] >> (id % 64) & 1);
}

/* By bytes; equal ones by id, so that the order is defined. */
static int compare(const void *a, const void *b, void *trie)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    span s = bytes_of(trie, x), t = bytes_of(trie, y);
    int order = memcmp(s.data, t.data, s.size < t.size ? s.size : t.size);
    if (order == 0)
        order = (s.size > t.size) - (s.size < t.size);
    return order != 0 ? order : (x > y) - (x < y);
}

static size_t shared_bytes(span a, span b)
{
    size_t n = 0;
    while (n < a.size && n < b.size && a.data[n] == b.data[n])
        n++;
    return n;
}

/* Copies the texts, and lists in `ids` the tokens that have one. */
static hearth_status copy_texts(token_trie *t, const span *texts, const bool *ends, hearth_error *error)
{
    uint32_t count = t->vocabulary_size;
    size_t total = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (texts[i].size > UINT16_MAX || total + texts[i].size >= UINT32_MAX)
            return fail(error, HEARTH_UNSUPPORTED,
                        "token %u: %zu bytes of text, in all %zu; expected at most %d and 4 GB", i, texts[i].size,
                        total + texts[i].size, UINT16_MAX);
        total += ends[i] ? 0 : texts[i].size;
    }
    size_t words = ((size_t)count + 63) / 64;
    t->bytes = mem_new(total);
    t->begins = mem_new_array((size_t)count + 1, sizeof *t->begins);
    t->ids = mem_new_array(count, sizeof *t->ids);
    t->ends = mem_new_array(words, sizeof *t->ends);
    if (!t->bytes || !t->begins || !t->ids || !t->ends)
        return fail_memory(error, "tokens of a grammar", total + (size_t)count * 8);
    uint32_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        t->begins[i] = at;
        if (ends[i]) {
            t->ends[i / 64] |= (uint64_t)1 << (i % 64);
        } else if (texts[i].size > 0) {
            memcpy(t->bytes + at, texts[i].data, texts[i].size);
            at += (uint32_t)texts[i].size;
            t->ids[t->id_count++] = (int32_t)i;
            t->longest = texts[i].size > t->longest ? (uint32_t)texts[i].size : t->longest;
        }
    }
    t->begins[count] = at;
    return HEARTH_OK;
}

/* Fills in the nodes' `plain`, from the last to the first: children come behind their parents. */
static void measure_plain(token_trie *t)
{
    for (uint32_t i = t->node_count; i-- > 0;) {
        trie_node *n = &t->nodes[i];
        n->plain = 0;
        for (uint32_t k = i + 1; k < n->skip && n->plain != TRIE_NOT_PLAIN; k = t->nodes[k].skip) {
            const trie_node *child = &t->nodes[k];
            if (!trie_is_plain(child->byte) || child->plain >= TRIE_NOT_PLAIN - 1)
                n->plain = TRIE_NOT_PLAIN;
            else if (child->plain + 1 > n->plain)
                n->plain = (uint16_t)(child->plain + 1);
        }
    }
}

/* Makes the nodes of the sorted ids. */
static hearth_status make_nodes(token_trie *t, hearth_error *error)
{
    size_t count = 0;
    span before = {NULL, 0};
    for (uint32_t i = 0; i < t->id_count; i++) {
        span text = bytes_of(t, t->ids[i]);
        count += text.size - shared_bytes(before, text);
        before = text;
    }
    t->nodes = mem_new_array(count + 1, sizeof *t->nodes);
    uint32_t *open = mem_new_array((size_t)t->longest + 1, sizeof *open); /* depth -> the node of the way so far */
    if (!t->nodes || !open) {
        mem_free(open);
        return fail_memory(error, "tokens of a grammar", count * sizeof *t->nodes);
    }
    uint32_t next = 0;
    before = (span){NULL, 0};
    for (uint32_t i = 0; i < t->id_count; i++) {
        span text = bytes_of(t, t->ids[i]);
        size_t shared = shared_bytes(before, text);
        for (size_t d = shared; d < before.size; d++)
            t->nodes[open[d]].skip = next;
        for (size_t d = shared; d < text.size; d++) {
            open[d] = next;
            /* Nodes on the way to a token have none of their own: it begins where the token's begin. */
            t->nodes[next++] = (trie_node){.tokens = i, .depth = (uint16_t)d, .byte = (uint8_t)text.data[d]};
        }
        before = text;
    }
    for (size_t d = 0; d < before.size; d++)
        t->nodes[open[d]].skip = next;
    t->nodes[next] = (trie_node){.skip = next, .tokens = t->id_count};
    t->node_count = next;
    measure_plain(t);
    mem_free(open);
    return HEARTH_OK;
}

hearth_status token_trie_create(token_trie **out, const span *texts, const bool *ends, uint32_t count,
                                hearth_error *error)
{
    token_trie *t = mem_new(sizeof *t);
    if (!t)
        return fail_memory(error, "tokens of a grammar", sizeof *t);
    t->vocabulary_size = count;
    hearth_status status = copy_texts(t, texts, ends, error);
    if (status == HEARTH_OK) {
        qsort_r(t->ids, t->id_count, sizeof *t->ids, compare, t);
        status = make_nodes(t, error);
    }
    if (status != HEARTH_OK) {
        token_trie_destroy(t);
        return status;
    }
    *out = t;
    return HEARTH_OK;
}

hearth_status token_trie_of(token_trie **out, const tokenizer *t, uint32_t id_count, hearth_error *error)
{
    uint32_t size = tokenizer_size(t), count = size > id_count ? size : id_count;
    span *texts = mem_new_array(count, sizeof *texts);
    bool *ends = mem_new_array(count, sizeof *ends);
    buffer bytes = {0};
    hearth_status status = HEARTH_OK;
    if (!texts || !ends)
        status = fail_memory(error, "tokens of a grammar", count * (sizeof *texts + sizeof *ends));
    for (uint32_t i = 0; i < size && status == HEARTH_OK; i++) {
        size_t begin = bytes.size;
        ends[i] = tokenizer_ends_answer(t, (int32_t)i);
        if (!tokenizer_bytes(t, (int32_t)i, &bytes))
            status = fail_memory(error, "tokens of a grammar", bytes.size);
        texts[i].size = bytes.size - begin;
    }
    size_t at = 0;
    for (uint32_t i = 0; i < size && status == HEARTH_OK; i++) { /* now that the buffer moves no more */
        texts[i].data = bytes.data + at;
        at += texts[i].size;
    }
    if (status == HEARTH_OK)
        status = token_trie_create(out, texts, ends, count, error);
    buffer_free(&bytes);
    mem_free(texts);
    mem_free(ends);
    return status;
}
