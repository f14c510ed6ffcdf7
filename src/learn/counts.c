/* counts.c - counts what fires, in loops that vectorise, computes the figures, and stores the counters in a file.
 *
 * The file is a header, the block of counters as in memory, what another module stores beside it, and a hash of them. */
#include "counts.h"

#include "../base/file.h"
#include "../base/memory.h"
#include "work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Increment when the layout of the counters changes: files of another version count as another run's. */
#define COUNTS_VERSION 2
static const char magic[16] = "hearth-profile\n";

/* Magnitudes are counted by exponent and the first 8 bits of the fraction: a bin is at most 0.4 percent wide. Exponents
 * run from -40 to 23; values outside are counted in the first or the last bin. */
#define FRACTION_BITS 8
#define EXPONENTS     64
#define LEAST         (-40)
#define BINS          (EXPONENTS << FRACTION_BITS)

/* ------------------------------------------------------------------ memory */

/* Returns the bytes of a layer's counters, in whole cache lines; sets the pointers where block is given. */
static size_t lay_out(tally *t, uint32_t f, uint32_t experts, char *block)
{
    struct piece {
        void **at;
        size_t bytes;
    } pieces[] = {
        {(void **)&t->sizes, BINS * sizeof *t->sizes},
        {(void **)&t->union_sums, (PROFILE_UNION + 1) * sizeof *t->union_sums},
        {(void **)&t->sampled, sizeof *t->sampled},
        {(void **)&t->above, sizeof *t->above},
        {(void **)&t->counts, f * sizeof *t->counts},
        {(void **)&t->chosen, experts * sizeof *t->chosen},
        {(void **)&t->by_fired, ((size_t)f + 1) * sizeof *t->by_fired},
    };
    size_t at = 0;
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        if (block)
            *pieces[i].at = block + at;
        at += (pieces[i].bytes + 63) / 64 * 64;
    }
    return at;
}

hearth_status tallies_create(tallies *t, uint32_t layers, uint32_t neurons, uint32_t experts, hearth_error *error)
{
    tally shape;
    size_t each = lay_out(&shape, neurons, experts, NULL), bytes = 0;
    *t = (tallies){.layer_count = layers,
                   .neuron_count = neurons,
                   .expert_count = experts,
                   .words = bits_words(neurons),
                   .layer_bytes = each};
    if (size_multiply(each, layers, &bytes)) {
        t->layers = mem_new_array(layers, sizeof *t->layers);
        t->block = mem_new(bytes);
        t->recent = mem_new_array((size_t)layers * PROFILE_UNION, t->words * sizeof *t->recent);
    }
    if (!t->layers || !t->block || !t->recent) {
        tallies_free(t);
        return fail_memory(error, "profile", bytes);
    }
    t->block_bytes = bytes;
    for (uint32_t i = 0; i < layers; i++) {
        lay_out(&t->layers[i], neurons, experts, (char *)t->block + i * each);
        t->layers[i].recent = t->recent + (size_t)i * PROFILE_UNION * t->words;
    }
    return HEARTH_OK;
}

void tallies_free(tallies *t)
{
    mem_free(t->layers);
    mem_free(t->block);
    mem_free(t->recent);
    *t = (tallies){0};
}

void tallies_clear(tallies *t)
{
    for (uint32_t i = 0; i < t->layer_count; i++) {
        tally *l = &t->layers[i];
        float above = *l->above;
        memset(l->sizes, 0, t->layer_bytes); /* the first piece of the layer's block */
        *l->above = above;
    }
}

void tallies_reset(tallies *t)
{
    memset(t->block, 0, t->block_bytes);
    if (t->beside)
        memset(t->beside, 0, t->beside_bytes);
}

/* ------------------------------------------------------------------ counting */

/* Returns the bin of a value's magnitude. */
static uint32_t bin_of(float value)
{
    const uint32_t base = (uint32_t)(127 + LEAST) << FRACTION_BITS;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t at = (bits & 0x7fffffff) >> (23 - FRACTION_BITS);
    return at < base ? 0 : at - base < BINS ? at - base : BINS - 1;
}

void tally_measure(tally *t, const float *values, size_t count)
{
    *t->sampled += count;
    for (size_t at = 0; at < count; at += 64) {
        uint64_t word;
        size_t n = count - at < 64 ? count - at : 64;
        bits_pack(values + at, n, 0, &word);
        for (; word; word &= word - 1)
            t->sizes[bin_of(values[at + (size_t)__builtin_ctzll(word)])]++;
    }
}

/* Adds the result of a comparison to each neuron's counter, without branches. */
static void add_counts(int32_t *restrict counts, const float *restrict values, size_t n, float above)
{
    if (above > 0)
        for (size_t i = 0; i < n; i++)
            counts[i] += !(fabsf(values[i]) <= above);
    else
        for (size_t i = 0; i < n; i++)
            counts[i] += values[i] != 0;
}

/* Counts unions of the token at `position` with those before it in its window. */
static void add_unions(tally *t, uint32_t position, size_t words, unsigned fired)
{
    const uint64_t *now = t->recent + position % PROFILE_UNION * words;
    uint64_t sums[PROFILE_UNION + 1] = {0};
    uint32_t most = position + 1 < PROFILE_UNION ? position + 1 : PROFILE_UNION;
    for (size_t at = 0; at < words; at += 64) { /* in pieces that stay in registers and L1 */
        size_t n = words - at < 64 ? words - at : 64;
        uint64_t any[64];
        memcpy(any, now + at, n * sizeof *any);
        for (uint32_t k = 2; k <= most; k++) {
            const uint64_t *before = t->recent + (position - k + 1) % PROFILE_UNION * words + at;
            for (size_t i = 0; i < n; i++)
                any[i] |= before[i];
            sums[k] += bits_count(any, n);
        }
    }
    t->union_sums[1] += fired;
    for (uint32_t k = 2; k <= most; k++)
        t->union_sums[k] += sums[k];
}

void tally_see(tally *t, const hearth_observation *seen, bool measured)
{
    size_t n = seen->neuron_count, words = bits_words(n);
    uint64_t *now = t->recent + seen->position % PROFILE_UNION * words;
    bits_pack(seen->activations, n, *t->above, now);
    add_counts(t->counts, seen->activations, n, *t->above);
    unsigned fired = bits_count(now, words);
    t->by_fired[fired]++;
    add_unions(t, seen->position, words, fired);
    for (size_t i = 0; i < seen->expert_count; i++)
        t->chosen[seen->experts[i]]++;
    if (measured)
        tally_measure(t, seen->gates, n);
}

/* ------------------------------------------------------------------ reading off */

/* Returns the least value of a bin. */
static double bin_begin(uint32_t at)
{
    double fraction = 1 + (double)(at % (1u << FRACTION_BITS)) / (1u << FRACTION_BITS);
    return ldexp(fraction, (int)(at >> FRACTION_BITS) + LEAST);
}

/* Returns the number of magnitudes counted. */
static uint64_t measured(const tally *t)
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < BINS; i++)
        all += t->sizes[i];
    return all;
}

/* Returns value number `rank` (from 0), interpolated within its bin. Searches upwards from bin *at, below which *before
 * values lie, and updates both. */
static double value_at(const tally *t, double rank, uint32_t *at, uint64_t *before)
{
    while (*at + 1 < BINS && (double)(*before + t->sizes[*at]) <= rank)
        *before += t->sizes[(*at)++];
    double begin = bin_begin(*at), end = bin_begin(*at + 1);
    double fraction = t->sizes[*at] ? (rank - (double)*before + 0.5) / (double)t->sizes[*at] : 0;
    return begin + (end - begin) * (fraction < 1 ? fraction : 1);
}

double tally_quantile(const tally *t, double q)
{
    uint32_t at = 0;
    uint64_t before = 0, all = measured(t);
    return all > 0 ? value_at(t, q * (double)(all - 1), &at, &before) : 0;
}

/* Computes the quantiles of the magnitudes, each search starting where the previous one ended. */
static void read_magnitudes(const tally *t, profile_layer *out)
{
    uint32_t at = 0;
    uint64_t before = 0, all = measured(t);
    for (size_t q = 0; q < TUNE_QUANTILES; q++)
        out->magnitudes[q] =
            all > 0 ? (float)value_at(t, (double)q / (TUNE_QUANTILES - 1) * (double)(all - 1), &at, &before) : 0;
    out->gate_density = *t->sampled > 0 ? (double)all / (double)*t->sampled : 0;
}

/* Returns the share of neurons that fire for the token at quantile q of all tokens, sorted by that share. */
static double density_at(const tally *t, uint32_t f, uint64_t tokens, double q)
{
    uint64_t seen = 0;
    double rank = q * (double)(tokens - 1);
    for (uint32_t n = 0; n <= f; n++) {
        seen += t->by_fired[n];
        if ((double)seen > rank)
            return (double)n / f;
    }
    return 1;
}

/* Computes the histogram and the means of densities, and those of unions. */
static void read_densities(const tally *t, uint32_t f, const uint64_t *runs, profile_layer *out)
{
    uint64_t tokens = runs[1];
    for (uint32_t n = 0; n <= f; n++) {
        size_t bin = (size_t)((uint64_t)n * PROFILE_BINS / f);
        out->by_density[bin < PROFILE_BINS ? bin : PROFILE_BINS - 1] += t->by_fired[n];
    }
    for (size_t k = 1; k <= PROFILE_UNION; k++)
        out->union_density[k] = runs[k] > 0 ? (double)t->union_sums[k] / (double)runs[k] / f : 0;
    out->density = out->union_density[1];
    if (tokens == 0)
        return;
    out->least_density = density_at(t, f, tokens, 0);
    out->median_density = density_at(t, f, tokens, 0.5);
    out->high_density = density_at(t, f, tokens, 0.9);
}

void tally_finish(const tally *t, const uint64_t *runs, uint64_t *scratch, profile_layer *out)
{
    uint32_t neurons = out->neuron_count;
    memcpy(out->counts, t->counts, neurons * sizeof *out->counts);
    out->above = *t->above;
    read_magnitudes(t, out);
    read_densities(t, neurons, runs, out);
    out->hot_share[0] = profile_hot_share(out->counts, neurons, 0.8, scratch);
    out->hot_share[1] = profile_hot_share(out->counts, neurons, 0.95, scratch);
}

/* ------------------------------------------------------------------ the file */

/* Head of the file, hashed with its padding. */
typedef struct counts_header {
    char magic[16];
    uint32_t version, layers, neurons, experts;
    uint64_t block_bytes; /* with what lies beside it */
    counts_state state;
} counts_header;

static hash128 hash_of(const counts_header *header, const void *block, size_t block_bytes, const void *beside)
{
    hash128 h = hash_begin();
    hash_bytes(&h, header, sizeof *header);
    hash_bytes(&h, block, block_bytes);
    hash_bytes(&h, beside, (size_t)header->block_bytes - block_bytes);
    return h;
}

static counts_header header_of(const counts_state *s, const tallies *t)
{
    counts_header h;
    memset(&h, 0, sizeof h); /* zeroes the padding too, since it is hashed */
    memcpy(h.magic, magic, sizeof magic);
    h.version = COUNTS_VERSION;
    h.layers = t->layer_count;
    h.neurons = t->neuron_count;
    h.experts = t->expert_count;
    h.block_bytes = t->block_bytes + t->beside_bytes;
    memcpy(h.state.key, s->key, sizeof s->key);
    h.state.windows = s->windows;
    h.state.tokens = s->tokens;
    h.state.measured = s->measured;
    h.state.seconds = s->seconds;
    return h;
}

hearth_status counts_save(const char *folder, const counts_state *s, const tallies *t, hearth_error *error)
{
    counts_header h = header_of(s, t);
    hash128 sum = hash_of(&h, t->block, t->block_bytes, t->beside);
    const work_piece pieces[] = {
        {&h, sizeof h}, {t->block, t->block_bytes}, {t->beside, t->beside_bytes}, {&sum, sizeof sum}};
    return work_write(folder, COUNTS_NAME, pieces, sizeof pieces / sizeof *pieces, error);
}

/* Returns what is wrong with the mapped file; NULL: it belongs to this run. */
static const char *examine(const file_map *map, const counts_state *s, const tallies *t)
{
    counts_header h;
    hash128 sum;
    if (map->size_bytes < sizeof h + sizeof sum)
        return "damaged";
    memcpy(&h, map->data, sizeof h);
    if (memcmp(h.magic, magic, sizeof magic) != 0)
        return "damaged";
    if (h.version != COUNTS_VERSION)
        return "another version's";
    if (h.block_bytes != map->size_bytes - sizeof h - sizeof sum)
        return "damaged";
    hash128 seen = hash_of(&h, map->data + sizeof h, (size_t)h.block_bytes, NULL);
    memcpy(&sum, map->data + map->size_bytes - sizeof sum, sizeof sum);
    if (memcmp(&seen, &sum, sizeof sum) != 0)
        return "damaged";
    if (memcmp(h.state.key, s->key, sizeof s->key) != 0 || h.layers != t->layer_count || h.neurons != t->neuron_count ||
        h.experts != t->expert_count)
        return "another model's, of other options, or of another corpus";
    return h.block_bytes == t->block_bytes + t->beside_bytes ? NULL : "damaged";
}

/* Copies state and counters from a file that examine() accepted. */
static void take_over(const file_map *map, counts_state *s, tallies *t)
{
    counts_header h;
    memcpy(&h, map->data, sizeof h);
    *s = h.state;
    memcpy(t->block, map->data + sizeof h, t->block_bytes);
    if (t->beside)
        memcpy(t->beside, map->data + sizeof h + t->block_bytes, t->beside_bytes);
}

/* Renames the counters of another run, which must not be lost. Returns the words for the note. */
static const char *set_aside(const char *folder, const char *path)
{
    char *old = file_join(folder, COUNTS_OLD_NAME);
    bool moved = old && rename(path, old) == 0;
    mem_free(old);
    return moved ? " and were set aside as " COUNTS_OLD_NAME : "";
}

/* Takes over the counters of a file. Returns why not; NULL: they were taken over. */
static const char *try_file(const char *path, counts_state *s, tallies *t)
{
    file_map map;
    if (file_map_open(&map, path, NULL) != HEARTH_OK)
        return "unreadable";
    const char *why = examine(&map, s, t);
    if (!why)
        take_over(&map, s, t);
    file_map_close(&map);
    return why;
}

hearth_status counts_load(const char *folder, counts_state *s, tallies *t, char *note, size_t note_size,
                          hearth_error *error)
{
    char *path = file_join(folder, COUNTS_NAME);
    *note = 0;
    if (!path)
        return fail_memory(error, folder, sizeof COUNTS_NAME);
    const char *why = file_exists(path) ? try_file(path, s, t) : NULL;
    if (why)
        snprintf(note, note_size, "counts of an earlier run are %s%s; counting begins afresh", why,
                 strncmp(why, "another", 7) == 0 ? set_aside(folder, path) : "");
    mem_free(path);
    return HEARTH_OK;
}
