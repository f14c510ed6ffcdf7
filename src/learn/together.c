/* together.c - see together.h. */
#include "together.h"

#include "../base/memory.h"
#include "states.h"

#include <string.h>

/* Tokens of a word of a neuron's set. */
#define WORD 64

/* ------------------------------------------------------------------ recording */

static uint64_t count_neurons(const hearth_model *model)
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < model->hyper.layer_count; i++)
        all += model->layers[i].ffn.neuron_count;
    return all;
}

hearth_status together_create(together *out, const hearth_model *model, const corpus *texts, uint64_t most_bytes,
                              hearth_error *error)
{
    uint32_t layers = model->hyper.layer_count;
    uint64_t neurons = count_neurons(model), words = TOGETHER_TOKENS / WORD;
    while (words > 1 && words * sizeof(uint64_t) * neurons > most_bytes)
        words--;
    uint64_t most = words * WORD;
    *out = (together){.layer_count = layers, .every = texts->id_count > most ? (texts->id_count - 1) / most + 1 : 1};
    out->tokens = texts->id_count > 0 ? (texts->id_count - 1) / out->every + 1 : 0;
    out->words = bits_words(out->tokens);
    out->learnt = out->tokens >= TOGETHER_LEAST_MEASURED ? out->tokens - out->tokens / 8 : out->tokens;
    out->neuron_counts = mem_new_array(layers, sizeof *out->neuron_counts);
    out->sets = mem_new_array(layers, sizeof *out->sets);
    uint64_t *all = mem_new_array(neurons * out->words + 1, sizeof *all);
    if (out->sets)
        out->sets[0] = all;
    else
        mem_free(all);
    if (!out->neuron_counts || !out->sets || !all) {
        together_free(out);
        return fail_memory(error, "neurons that fire together", neurons * out->words * sizeof *all);
    }
    for (uint32_t i = 0; i < layers; i++) {
        out->neuron_counts[i] = model->layers[i].ffn.neuron_count;
        if (i > 0)
            out->sets[i] = out->sets[i - 1] + out->neuron_counts[i - 1] * out->words;
    }
    return HEARTH_OK;
}

void together_free(together *t)
{
    if (t->sets)
        mem_free(t->sets[0]);
    mem_free(t->sets);
    mem_free(t->neuron_counts);
    *t = (together){0};
}

void together_see(together *t, const hearth_observation *seen, uint64_t token)
{
    if (token % t->every != 0)
        return;
    size_t at = (size_t)(token / t->every);
    uint64_t *word = t->sets[seen->layer] + at / WORD, bit = (uint64_t)1 << (at % WORD);
    for (size_t i = 0; i < seen->neuron_count; i++)
        if (seen->activations[i] != 0)
            word[i * t->words] |= bit;
}

/* ------------------------------------------------------------------ sets */

static const uint64_t *set_of(const together *t, uint32_t layer, uint32_t neuron)
{
    return t->sets[layer] + (size_t)neuron * t->words;
}

/* Counts, of the tokens [begin, end), those for which both neurons fired. */
static uint32_t count_shared(const together *t, uint32_t layer, uint32_t a, uint32_t b, size_t begin, size_t end)
{
    const uint64_t *x = set_of(t, layer, a), *y = set_of(t, layer, b);
    uint32_t count = 0;
    if (begin == end)
        return 0;
    size_t first = begin / WORD, last = (end - 1) / WORD;
    uint64_t from = ~(uint64_t)0 << begin % WORD, to = ~(uint64_t)0 >> (WORD - 1 - (end - 1) % WORD);
    if (first == last)
        return bits_count_common(x + first, y + first, 1, from & to);
    count += bits_count_common(x + first, y + first, 1, from);
    count += bits_count_common(x + first + 1, y + first + 1, last - first - 1, ~(uint64_t)0);
    return count + bits_count_common(x + last, y + last, 1, to);
}

/* ------------------------------------------------------------------ the order */

#define NONE UINT32_MAX

/* What a thread works with: [most neurons] each. */
typedef struct chaining {
    uint32_t *counts; /* by neuron */
    uint32_t *next;   /* by neuron: the next of those that are left, by descending count */
} chaining;

typedef struct ordering {
    const together *t;
    uint32_t *const *orders;
    chaining *places; /* [threads] */
} ordering;

/* Links the neurons of a layer by descending count, ties by number; returns the first. The counts are at most the tokens, so
 * they are sorted by counting: a list per count, filled from the last neuron on. */
static uint32_t link_by_count(const together *t, uint32_t layer, chaining *c)
{
    uint32_t heads[TOGETHER_TOKENS + 1], f = t->neuron_counts[layer], first = NONE;
    for (size_t n = 0; n <= t->learnt; n++)
        heads[n] = NONE;
    for (uint32_t i = f; i-- > 0;) {
        uint32_t count = c->counts[i] = count_shared(t, layer, i, i, 0, t->learnt);
        c->next[i] = heads[count];
        heads[count] = i;
    }
    for (size_t n = 0; n <= t->learnt; n++) { /* the list of count n, before those of lower counts */
        if (heads[n] == NONE)
            continue;
        uint32_t last = heads[n];
        while (c->next[last] != NONE)
            last = c->next[last];
        c->next[last] = first;
        first = heads[n];
    }
    return first;
}

/* Chains the neurons of a layer. No neuron can share more firings than it has, so a search ends where the counts are no
 * larger than what was found; ties go to the hotter one. */
static void chain(const together *t, uint32_t layer, chaining *c, uint32_t *order)
{
    uint32_t left = link_by_count(t, layer, c), f = t->neuron_counts[layer];
    for (uint32_t n = 0; n < f; n++) {
        uint32_t most = 0, chosen = left, before = NONE, previous = NONE;
        for (uint32_t i = left; n > 0 && i != NONE && c->counts[i] > most; previous = i, i = c->next[i]) {
            uint32_t shared = count_shared(t, layer, order[n - 1], i, 0, t->learnt);
            if (shared > most) {
                most = shared;
                chosen = i;
                before = previous;
            }
        }
        order[n] = chosen;
        if (before == NONE)
            left = c->next[chosen];
        else
            c->next[before] = c->next[chosen];
    }
}

/* Items are layers. */
static void chain_layers(void *context, size_t begin, size_t end, unsigned worker)
{
    const ordering *o = context;
    for (size_t i = begin; i < end; i++)
        chain(o->t, (uint32_t)i, &o->places[worker], o->orders[i]);
}

hearth_status together_order(const together *t, pool *threads, uint32_t *const *orders, hearth_error *error)
{
    unsigned workers = pool_threads(threads);
    size_t most = 0;
    for (uint32_t i = 0; i < t->layer_count; i++)
        most = t->neuron_counts[i] > most ? t->neuron_counts[i] : most;
    chaining *places = mem_new_array(workers, sizeof *places);
    uint32_t *numbers = mem_new_array((size_t)workers * 2 * most + 1, sizeof *numbers);
    bool ok = places && numbers;
    for (unsigned w = 0; ok && w < workers; w++)
        places[w] = (chaining){numbers + 2 * w * most, numbers + (2 * w + 1) * most};
    if (ok)
        pool_run(threads, t->layer_count, 1, chain_layers, &(ordering){t, orders, places});
    mem_free(numbers);
    mem_free(places);
    return ok ? HEARTH_OK : fail_memory(error, "order of neurons", workers * 2 * most * sizeof *numbers);
}

double together_mean_run(const together *t, const uint32_t *const *orders)
{
    uint64_t fired = 0, runs = 0;
    for (uint32_t layer = 0; layer < t->layer_count; layer++)
        for (uint32_t n = 0; n < t->neuron_counts[layer]; n++) {
            const uint32_t *here = orders[layer] + n;
            uint32_t own = count_shared(t, layer, *here, *here, t->learnt, t->tokens);
            fired += own;
            runs += own - (n > 0 ? count_shared(t, layer, here[-1], *here, t->learnt, t->tokens) : 0);
        }
    return runs > 0 ? (double)fired / (double)runs : 0;
}
