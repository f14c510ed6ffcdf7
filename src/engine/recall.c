/* recall.c - holds the recall of predictors (see recall.h). */
#include "recall.h"

#include "ffn_job.h"

#include <math.h>

/* Share of a relative difference of 1 by which a threshold moves with each row, in its units. With scores that are normally
 * distributed about one active neuron in ten lies within a unit of the threshold, so a difference fades with a time constant
 * of 100 rows, and chance moves the recall of a layer with 60 active neurons by less than one per cent. */
#define GAIN 0.1
/* At first a threshold moves more: FIRST_ROWS / (FIRST_ROWS + rows). */
#define FIRST_ROWS 32
/* Rows of one feed that count: more are one measurement, after which a larger step would overshoot. */
#define MOST_ROWS 64
/* Rows over which the mean number of active neurons and the unit are taken. */
#define MEAN_ROWS 256
/* Returns which of RECALL_EVERY neurons a row probes: the upper bits of multiples of the golden ratio, which meet all alike,
 * and those of rows that are any number of rows apart as well, so that no period of the text hides a neuron. */
static size_t turn_of(uint64_t row)
{
    _Static_assert(RECALL_EVERY == 1 << 5, "five bits");
    return (uint32_t)(row * 2654435769U) >> 27;
}

void recall_probe(const ffn_job *job, const ffn_part *v, float *scores)
{
    for (size_t t = 0; t < job->count; t++) {
        size_t turn = turn_of(job->recall->rows + t);
        float *row = scores + t * job->neuron_count + v->begin;
        for (size_t i = (turn + RECALL_EVERY - v->begin % RECALL_EVERY) % RECALL_EVERY; i < v->count; i += RECALL_EVERY)
            if (row[i] < job->passes)
                row[i] = INFINITY;
    }
}

void recall_count(const ffn_job *job)
{
    const scratch *b = &job->s->scratch;
    recall_layer *r = job->recall;
    for (const ffn_part *v = b->parts; v < b->parts + b->part_count; v++)
        for (size_t t = 0; t < job->count; t++) {
            const float *h = job->h + t * job->neuron_count + v->begin, *score = b->score + t * job->neuron_count;
            for (size_t i = 0; i < v->count; i++) {
                if (h[i] == 0)
                    continue;
                float reached = score[neuron_at(v, i)];
                bool probed = reached == INFINITY;
                r->missed_now += probed;
                r->found_now += !probed;
                r->distance += isfinite(reached) ? (double)reached - (double)job->passes : 0;
            }
        }
}

/* Mean that begins with the first value and then forgets with MEAN_ROWS. */
static double mean(double before, double value, uint64_t rows_before, size_t rows)
{
    double all = (double)(rows_before + rows);
    return before + (value - before) * (double)rows / (all < MEAN_ROWS ? all : fmax(MEAN_ROWS, (double)rows));
}

void recall_learn(recall_layer *r, size_t rows)
{
    double found = (double)r->found_now, missed = RECALL_EVERY * (double)r->missed_now;
    r->active = mean(r->active, (found + missed) / (double)rows, r->rows, rows);
    if (!r->widens && found > 0 && r->distance > 0)
        r->unit = r->found > 0 ? mean(r->unit, r->distance / found, r->rows, rows) : r->distance / found;
    if (r->active > 0) {
        /* as a share of the active neurons of a row, summed over the rows that count */
        double surplus = ((1 - r->target) * found - r->target * missed) / r->active * fmin(1, MOST_ROWS / (double)rows);
        double gain = fmax(GAIN, FIRST_ROWS / (FIRST_ROWS + (double)r->rows));
        double move = fmin(fmax(gain * surplus, -1), 1) * r->unit;
        r->threshold += (float)(r->widens ? -move : move);
    }
    r->found += r->found_now;
    r->missed += r->missed_now;
    r->rows += rows;
    r->found_now = r->missed_now = 0;
    r->distance = 0;
}
