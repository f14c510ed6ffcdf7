/* kcheck_device_summaries.c - the kernels of devices for summaries of positions: what is kept of one until it is whole, against double
 * precision, and keys that are brought together, which must be copied bit by bit (attention to them is checked with other attention). */
#include "kcheck_device_cache.h"
#include "kcheck_device_places.h"

#include <float.h>
#include <stdio.h>

/* ------------------------------------------------------------------ summarise */

/* What is kept of a column, in double precision. The largest gate is that of floats. slip: what the sums may be off, as a share of
 * them, or of the magnitude of the values. */
typedef struct column {
    float most;
    double sum, total, magnitude, slip;
} column;

static const column no_column = {.most = -FLT_MAX};

/* One value more: its weight, or that of all before it, is an exp of a difference that is rounded. Beyond 110 that is nothing. */
static column with(column c, float value, float gate)
{
    float most = fmaxf(c.most, gate);
    double apart = fabs((double)gate - (double)c.most), less = exp(-apart);
    double old = gate > c.most ? less : 1, own = gate > c.most ? 1 : less;
    return (column){most, c.sum * old + own, c.total * old + own * (double)value,
                    c.magnitude * old + own * fabs((double)value),
                    c.slip + EXP_ERROR + EPSILON * (fmin(apart, 110) + 3)};
}

/* A case: parts of a summary, and rows of sequences with what is kept. */
typedef struct summarising {
    places p;
    size_t length, together, parts, stride;
    float *values, *gates, *bias;
    column *kept; /* [2 * sequences][parts][length] */
} summarising;

/* Returns where the floats of a column of a place lie: most, then `length` further sum, and total. */
static float *floats_of(const summarising *w, float *states, size_t place, size_t part, size_t i)
{
    return states + place * w->p.length + part * 3 * w->length + i;
}

static summarising summarising_new(size_t s, uint64_t *rng)
{
    static const size_t lengths[] = {1, 7, 64, 255, 256, 257, 600}, together[] = {4, 128, 1, 2};
    summarising w = {.length = lengths[s % COUNT_OF(lengths)],
                     .together = together[s % COUNT_OF(together)],
                     .parts = 1 + random_below(rng, 2)};
    size_t each = w.parts * w.length;
    w.p = places_new(3 * each + random_below(rng, 9), rng);
    w.stride = each + random_below(rng, 9);
    w.values = rough_array(w.p.step.count * w.stride, rng), w.gates = rough_array(w.p.step.count * w.stride, rng);
    w.bias = rough_array(w.together * each, rng);
    w.kept = array_new(2 * w.p.sequences * each, sizeof *w.kept);
    for (size_t t = 0; t < w.p.step.count; t++)
        w.p.step.row[t].position = (uint32_t)random_below(rng, 3 * w.together);
    for (size_t i = 0; i < 2 * w.p.sequences * each; i++) {
        column c = no_column;
        if (random_below(rng, 5) > 0) /* otherwise nothing is kept yet */
            c = with(with(c, random_rough(rng), random_rough(rng)), random_rough(rng), random_rough(rng));
        float *at = floats_of(&w, w.p.before, i / each, i / w.length % w.parts, i % w.length);
        at[0] = c.most, at[w.length] = (float)c.sum, at[2 * w.length] = (float)c.total;
        w.kept[i] = (column){c.most, (double)at[w.length], (double)at[2 * w.length], c.magnitude, 0};
    }
    return w;
}

/* One row of a column: the last part is of the group of the row; the first of two is what the next group takes over. */
static void take_row(check *c, const summarising *w, size_t t, size_t i, float pooled)
{
    const step_row *row = &w->p.step.row[t];
    size_t each = w->parts * w->length, last = w->parts - 1, place = row->position % w->together;
    column parts[2] = {no_column, no_column};
    for (size_t k = 0; row->state_from != NO_STATE && k < w->parts; k++)
        parts[k] = w->kept[row->state_from * each + k * w->length + i];
    /* As they are kept: the whole first, then what is for the next one. */
    column whole = parts[0], next = parts[1];
    if (place == 0)
        whole = w->parts > 1 ? next : no_column, next = no_column;
    const float *bias = w->bias + place * each, *value = w->values + t * w->stride, *gate = w->gates + t * w->stride;
    size_t at = last * w->length + i;
    next = with(next, value[i], gate[i] + bias[i]);
    whole = with(whole, value[at], gate[at] + bias[at]);
    double size = whole.magnitude / whole.sum;
    expect_close(c, t * w->length + i, whole.total / whole.sum, pooled, size * 2 * (whole.slip + EPSILON) + TINY);
    w->kept[row->state_to * each + i] = whole;
    if (w->parts > 1)
        w->kept[row->state_to * each + w->length + i] = next;
}

static void check_summarise(check *c, device *d, uint64_t *rng)
{
    for (size_t s = 0; s < 56; s++) {
        summarising w = summarising_new(s, rng);
        size_t count = w.p.step.count, each = w.parts * w.length;
        snprintf(c->size, sizeof(c->size), "%zu columns of %zu parts, %zu together, %zu rows", w.length, w.parts,
                 w.together, count);
        room rooms[] = {step_room(d, &w.p),
                        float_room(d, w.values, count * w.stride),
                        float_room(d, w.gates, count * w.stride),
                        float_room(d, w.bias, w.together * each),
                        states_room(d, &w.p),
                        float_room(d, NULL, count * w.length)};
        DEVICE_DO(c, d, DEVICE_summarise, items_of(w.length, CONVOLVE_CHANNELS), room_of(&rooms[0]), room_of(&rooms[1]),
                  room_of(&rooms[2]), room_of(&rooms[3]), room_of(&rooms[4]), room_of(&rooms[5]), UINT(w.length),
                  UINT(w.together), UINT(w.parts), UINT(w.stride), UINT(w.p.length));
        float *after = content_of(c, &rooms[4]), *pooled = content_of(c, &rooms[5]);
        for (size_t t = 0; t < count; t++)
            for (size_t i = 0; i < w.length; i++)
                take_row(c, &w, t, i, pooled[t * w.length + i]);
        for (size_t i = 0; i < 2 * w.p.sequences * each; i++) {
            column k = w.kept[i];
            float *got = floats_of(&w, after, i / each, i / w.length % w.parts, i % w.length);
            float *want = floats_of(&w, w.p.before, i / each, i / w.length % w.parts, i % w.length);
            expect(c, "the largest gate", got[0] == k.most);
            expect_close(c, i, k.sum, got[w.length], k.sum * k.slip + TINY);
            expect_close(c, i, k.total, got[2 * w.length], k.magnitude * k.slip + TINY);
            want[0] = got[0], want[w.length] = got[w.length], want[2 * w.length] = got[2 * w.length];
        }
        expect_same(c, "what else is kept", w.p.before, after, 2 * w.p.sequences * w.p.length * sizeof *after);
        free_rooms(rooms, COUNT_OF(rooms));
        free(w.values), free(w.gates), free(w.bias), free(w.kept), free(w.p.before), free(after), free(pooled);
    }
}

/* ------------------------------------------------------------------ gather */

/* A case: positions and summaries in the same pages, and which summaries a row sees. */
typedef struct gathering {
    shape positions, summaries, to; /* to: a sequence for each row */
    uint32_t window, together, most, *seen;
} gathering;

/* Returns how many summaries there are at a row. */
static size_t whole_at(const gathering *g, size_t t)
{
    return g->together ? (g->positions.position[t] + (size_t)1) / g->together : 0;
}

static bool is_limited(const gathering *g, size_t t)
{
    return g->most > 0 && whole_at(g, t) > g->most;
}

static uint32_t *words_of(const gathering *g, size_t t)
{
    return g->seen + t * g->positions.table * SPLIT_WORDS;
}

/* Sets the bits of so many summaries of a limited row, and of the positions after the last one. */
static void choose_summaries(const gathering *g, size_t t, uint64_t *rng)
{
    uint32_t *seen = words_of(g, t);
    size_t whole = whole_at(g, t), left = g->most, end = g->positions.position[t] + (size_t)1;
    memset(seen, 0, g->positions.table * SPLIT_WORDS * sizeof *seen);
    for (size_t n = 0; n < whole; n++) {
        bool takes = random_below(rng, whole - n) < left;
        left -= takes;
        for (size_t i = n * g->together; takes && i < (n + 1) * g->together; i++)
            seen[i / 32] |= 1u << i % 32;
    }
    for (size_t i = whole * g->together; i < end; i++)
        seen[i / 32] |= 1u << i % 32;
}

static gathering gathering_new(check *c, number_format format, size_t s, uint64_t *rng)
{
    static const uint32_t windows[] = {8, 1, 128, 300}, together[] = {4, 0, 128, 2, 1, 64};
    size_t context = s % 3 ? 60 : 700;
    gathering g = {.positions = with_one_key_head(random_shape(c, format, s, context, false, rng), rng),
                   .window = windows[s % COUNT_OF(windows)],
                   .together = together[s % COUNT_OF(together)]};
    shape *p = &g.positions;
    g.most = (uint32_t)random_below(rng, 2) * (1 + (uint32_t)random_below(rng, p->context / 3));
    g.summaries = *p;
    g.summaries.together = g.together ? g.together : 1;
    g.summaries.positions = p->positions / g.summaries.together;
    g.seen = array_new(p->count * p->table * SPLIT_WORDS, sizeof *g.seen);
    for (size_t i = 0; i < p->count * p->table * SPLIT_WORDS; i++)
        g.seen[i] = (uint32_t)random_bits(rng);
    for (size_t t = 0; t < p->count; t++)
        if (is_limited(&g, t))
            choose_summaries(&g, t, rng);
    g.to = *p;
    lay_out_gathered(&g.to, g.window + (g.together ? p->context / g.together : 0), rng);
    return g;
}

/* What a row sees: first the positions of its window, then summaries. */
static void gather_row(const gathering *g, size_t t, const void *keys, const void *summaries, void *to)
{
    const shape *p = &g->positions;
    size_t end = p->position[t] + (size_t)1, n = 0;
    for (size_t i = end > g->window ? end - g->window : 0; i < end; i++)
        copy_key(&g->to, to, (key_place){t, 0, n++}, p, keys, (key_place){p->sequence[t], 0, i});
    for (size_t k = 0; k < whole_at(g, t); k++) {
        size_t i = k * g->together;
        if (!is_limited(g, t) || (words_of(g, t)[i / 32] >> i % 32 & 1))
            copy_key(&g->to, to, (key_place){t, 0, n++}, &g->summaries, summaries, (key_place){p->sequence[t], 0, i});
    }
}

static void check_gather(check *c, device *d, device_kernel kernel, number_format format, uint64_t *rng)
{
    for (size_t s = 0; s < 4 * HEAD_LENGTHS; s++) {
        gathering g = gathering_new(c, format, s, rng);
        const shape *p = &g.positions;
        size_t of_row = g.to.table * g.to.page;
        void *keys = random_cache(p, rng), *summaries = random_cache(&g.summaries, rng);
        char *want = random_cache(&g.to, rng);
        room rooms[] = {step_of(d, p), room_new(d, keys, p->cached), room_new(d, summaries, p->cached), pages_of(d, p),
                        word_room(d, g.seen, p->count * p->table * SPLIT_WORDS)};
        uint32_t most = s % 2 ? p->count : 1 + (p->count - 1) / 3;
        for (uint32_t first = 0; first < p->count; first += most) {
            size_t n = p->count - first < most ? p->count - first : most;
            room to = room_new(d, want + first * of_row, n * of_row);
            DEVICE_DO(c, d, kernel, most * p->table, room_of(&rooms[0]), room_of(&rooms[1]), room_of(&rooms[2]),
                      room_of(&rooms[3]), UINT(p->table), UINT(p->page), UINT(p->piece), UINT(p->positions),
                      room_of(&rooms[4]), room_of(&to), UINT(p->length), UINT(g.window), UINT(g.together), UINT(g.most),
                      UINT(p->table), UINT(g.to.table), UINT(first), UINT(most));
            for (size_t t = first; t < first + n; t++)
                gather_row(&g, t, keys, summaries, want);
            void *got = content_of(c, &to);
            expect_same(c, "keys brought together", want + first * of_row, got, n * of_row);
            room_free(&to);
            free(got);
        }
        free_rooms(rooms, COUNT_OF(rooms));
        free(keys), free(summaries), free(want), free(g.seen), free(p->pages), free(g.to.pages);
    }
}

void check_device_summaries(check *c, device *d, uint64_t *rng)
{
    static const cache_check all[] = {OF_ALL_FORMATS(gather, check_gather)};
    check_begin(c, "summarise");
    check_summarise(c, d, rng);
    run_cache_checks(c, d, all, COUNT_OF(all), rng);
}
