/* recall.c - counts scores by their rank in the order of all floats. It knows nothing of predictors. */
#include "recall.h"

#include "../base/memory.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* A place is a float's 32-bit rank: UPPER_BITS select the bin, LOWER_BITS the place within it. */
#define UPPER_BITS 18
#define LOWER_BITS (32 - UPPER_BITS)

/* Scores in one bin. */
typedef struct share_count {
    uint64_t all, fired;
} share_count;

typedef struct counting {
    const recall_task *task;
    bool lower; /* true: counts the scores in `bin` by their lower bits; false: all scores by their upper bits */
    uint32_t bin;
    size_t row_count, words;
    size_t bins;
    share_count *tallies; /* [threads][bins]                      */
    float *scores;        /* [threads][RECALL_ROWS][neuron_count] */
    uint64_t *fired;      /* [threads][RECALL_ROWS][words]        */
} counting;

/* Returns the place of a score, ascending with its value; NaN is above all, since selectors let it through. */
static uint32_t place_of(float score)
{
    uint32_t bits;
    if (isnan(score))
        return UINT32_MAX;
    score += 0.0f; /* makes -0 equal to 0 */
    memcpy(&bits, &score, sizeof bits);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

/* Returns the float at a place: the inverse of place_of. */
static float value_at(uint32_t place)
{
    uint32_t bits = place >> 31 ? place & 0x7fffffffu : ~place;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Counts the scores of one row. */
static void count_row(const counting *c, const float *scores, const uint64_t *fired, share_count *to)
{
    for (size_t i = 0; i < c->task->neuron_count; i++) {
        uint32_t place = place_of(scores[i]), upper = place >> LOWER_BITS;
        if (c->lower && upper != c->bin)
            continue;
        share_count *t = &to[c->lower ? place & ((1u << LOWER_BITS) - 1) : upper];
        t->all++;
        t->fired += fired[i / 64] >> (i % 64) & 1;
    }
}

/* Work items are the task's rows. */
static void count_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    const counting *c = context;
    const recall_task *t = c->task;
    float *scores = c->scores + (size_t)worker * RECALL_ROWS * t->neuron_count;
    uint64_t *fired = c->fired + (size_t)worker * RECALL_ROWS * c->words;
    for (size_t from = begin; from < end; from += RECALL_ROWS) {
        uint32_t rows[RECALL_ROWS];
        size_t n = end - from < RECALL_ROWS ? end - from : RECALL_ROWS;
        for (size_t i = 0; i < n; i++)
            rows[i] = (uint32_t)(t->first + (from + i) * t->step);
        states_read(t->rows, rows, n, false, NULL, fired);
        t->score(t->context, rows, n, worker, scores);
        for (size_t i = 0; i < n; i++)
            count_row(c, scores + i * t->neuron_count, fired + i * c->words, c->tallies + worker * c->bins);
    }
}

/* Counts all rows; the sums of all workers are in the first worker's tallies afterwards. */
static void count(counting *c)
{
    size_t threads = pool_threads(c->task->threads);
    memset(c->tallies, 0, threads * c->bins * sizeof *c->tallies);
    pool_run(c->task->threads, c->row_count, RECALL_ROWS, count_rows, c);
    for (size_t w = 1; w < threads; w++)
        for (size_t i = 0; i < c->bins; i++) {
            c->tallies[i].all += c->tallies[w * c->bins + i].all;
            c->tallies[i].fired += c->tallies[w * c->bins + i].fired;
        }
}

/* Allocates the buffers; end_counting frees them, after a failure too. */
static hearth_status begin_counting(counting *c, const recall_task *task, hearth_error *error)
{
    size_t threads = pool_threads(task->threads);
    *c = (counting){.task = task, .words = states_words(task->rows), .bins = (size_t)1 << UPPER_BITS};
    c->row_count = task->end > task->first ? (task->end - task->first + task->step - 1) / task->step : 0;
    c->tallies = mem_new_array(threads * c->bins, sizeof *c->tallies);
    c->scores = mem_new_array(threads * RECALL_ROWS * task->neuron_count, sizeof *c->scores);
    c->fired = mem_new_array(threads * RECALL_ROWS * c->words, sizeof *c->fired);
    if (c->tallies && c->scores && c->fired)
        return HEARTH_OK;
    return fail_memory(error, task->thing,
                       threads * (c->bins * sizeof(share_count) + RECALL_ROWS * task->neuron_count * 4));
}

static void end_counting(counting *c)
{
    mem_free(c->tallies);
    mem_free(c->scores);
    mem_free(c->fired);
}

/* Descends from the highest bin until at least `wanted` firing neurons are counted; returns the bin in which that
 * happens. *above: the sum of the bins above that one. */
static size_t descend(const share_count *tallies, size_t bins, uint64_t wanted, share_count *above)
{
    size_t at = bins - 1;
    while (at > 0 && above->fired + tallies[at].fired < wanted) {
        above->all += tallies[at].all;
        above->fired += tallies[at].fired;
        at--;
    }
    return at;
}

static share_count sum(const share_count *tallies, size_t from, size_t bins)
{
    share_count total = {0};
    for (size_t i = from; i < bins; i++) {
        total.all += tallies[i].all;
        total.fired += tallies[i].fired;
    }
    return total;
}

/* Computes the shares from the neurons let through and from all. */
static recall_result shares(float threshold, share_count through, share_count all)
{
    return (recall_result){
        .threshold = threshold,
        .recall = all.fired ? (double)through.fired / (double)all.fired : 1,
        .density = all.all ? (double)through.all / (double)all.all : 0,
        .fired = through.all ? (double)through.fired / (double)through.all : 0,
    };
}

uint64_t recall_bytes(size_t neuron_count, size_t words, size_t threads)
{
    uint64_t row = neuron_count * sizeof(float) + words * sizeof(uint64_t);
    return threads * (((uint64_t)sizeof(share_count) << UPPER_BITS) + RECALL_ROWS * row);
}

hearth_status recall_find(const recall_task *task, float recall, bool rough, recall_result *out, hearth_error *error)
{
    counting c;
    hearth_status status;
    TRY_OR(done, status, begin_counting(&c, task, error));
    count(&c);
    share_count all = sum(c.tallies, 0, c.bins), above = {0};
    if (all.fired == 0) {
        *out = shares(FLT_MAX, above, all);
        goto done;
    }
    uint64_t wanted = (uint64_t)ceil((double)recall * (double)all.fired - 1e-9);
    wanted = wanted < 1 ? 1 : wanted > all.fired ? all.fired : wanted;
    c.bin = (uint32_t)descend(c.tallies, c.bins, wanted, &above);
    uint32_t place = c.bin << LOWER_BITS;
    if (rough) {
        above.all += c.tallies[c.bin].all;
        above.fired += c.tallies[c.bin].fired;
    } else {
        c.lower = true;
        count(&c);
        size_t at = descend(c.tallies, (size_t)1 << LOWER_BITS, wanted, &above);
        above.all += c.tallies[at].all;
        above.fired += c.tallies[at].fired;
        place |= (uint32_t)at;
    }
    *out = shares(value_at(place), above, all);
    if (!isfinite(out->threshold))
        status = fail(error, HEARTH_FORMAT, "%s: its scores are not finite", task->thing);
done:
    end_counting(&c);
    return status;
}

hearth_status recall_at(const recall_task *task, float threshold, recall_result *out, hearth_error *error)
{
    counting c;
    hearth_status status;
    TRY_OR(done, status, begin_counting(&c, task, error));
    count(&c);
    uint32_t place = place_of(threshold), lower = place & ((1u << LOWER_BITS) - 1);
    c.bin = place >> LOWER_BITS;
    share_count all = sum(c.tallies, 0, c.bins), through = sum(c.tallies, c.bin + 1, c.bins);
    c.lower = true;
    count(&c);
    share_count of_bin = sum(c.tallies, lower, (size_t)1 << LOWER_BITS);
    through.all += of_bin.all;
    through.fired += of_bin.fired;
    *out = shares(threshold, through, all);
done:
    end_counting(&c);
    return status;
}
