/* kcheck_recurrence.c - the step of recurrent states (kernel_recur) against double precision. */
#include "kcheck.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A row of a state in double precision, and how far float32 may be from it. */
typedef struct row_state {
    double *values, *errors; /* [columns] */
} row_state;

/* Takes a row through one token; returns its output and, in *slip, how far float32 may be from that. A sum of n products is
 * off by at most (n + 2) roundings of the sum of their sizes, besides what its terms are off; everything else is rounded
 * once or twice. */
static double step(const row_state *s, const recurrence_run *run, size_t token, size_t row, double *slip)
{
    size_t n = run->columns;
    const float *key = run->key + token * run->stride, *query = run->query + token * run->stride;
    double decay = run->decay[token * run->number_stride], gain = run->gain[token * run->number_stride];
    double value = run->value[token * run->stride + row], answer = 0, answer_error = 0, size = 0, out = 0;
    for (size_t i = 0; run->answers && i < n; i++) {
        answer += decay * s->values[i] * key[i];
        size += fabs(decay * s->values[i] * key[i]);
        answer_error += fabs(decay * key[i]) * s->errors[i];
    }
    answer_error += ((double)n + 4) * EPSILON * size;
    double factor = gain * (value - answer);
    double factor_error =
        fabs(gain) * (answer_error + EPSILON * (fabs(value) + fabs(answer))) + 2 * EPSILON * fabs(factor);
    *slip = size = 0;
    for (size_t i = 0; i < n; i++) {
        double kept = decay * s->values[i], added = factor * key[i];
        s->errors[i] = fabs(decay) * s->errors[i] + fabs((double)key[i]) * factor_error +
                       3 * EPSILON * (fabs(kept) + fabs(added)) + FLT_MIN;
        s->values[i] = kept + added;
        out += s->values[i] * query[i];
        size += fabs(s->values[i] * query[i]);
        *slip += fabs((double)query[i]) * s->errors[i];
    }
    *slip += ((double)n + 2) * EPSILON * size + FLT_MIN;
    return out;
}

/* The same with a decay for each column. */
static double step_columns(const row_state *s, const recurrence_run *run, size_t token, size_t row, double *slip)
{
    size_t n = run->columns, at = token * run->stride;
    const float *key = run->key + at, *query = run->query + at, *removed = run->removed + at;
    double value = run->value[at + row], answer = 0, answer_error = 0, size = 0, out = 0;
    for (size_t i = 0; i < n; i++) {
        answer += s->values[i] * run->asked[at + i];
        size += fabs(s->values[i] * run->asked[at + i]);
        answer_error += fabs((double)run->asked[at + i]) * s->errors[i];
    }
    answer_error += ((double)n + 4) * EPSILON * size;
    *slip = size = 0;
    for (size_t i = 0; i < n; i++) {
        double decay = run->decays[at + i], kept = decay * s->values[i], added = value * key[i],
               taken = answer * removed[i];
        s->errors[i] = fabs(decay) * s->errors[i] + fabs((double)removed[i]) * answer_error +
                       4 * EPSILON * (fabs(kept) + fabs(added) + fabs(taken)) + FLT_MIN;
        s->values[i] = kept + added - taken;
        out += s->values[i] * query[i];
        size += fabs(s->values[i] * query[i]);
        *slip += fabs((double)query[i]) * s->errors[i];
    }
    *slip += ((double)n + 2) * EPSILON * size + FLT_MIN;
    return out;
}

/* Checks all rows of a run that was computed. before: the state before it, which may have been overwritten; NULL: zero. */
static void compare(check *c, const recurrence_run *run, const float *before)
{
    size_t n = run->columns;
    row_state s = {calloc(n, sizeof(double)), calloc(n, sizeof(double))};
    for (size_t r = 0; r < run->rows; r++) {
        for (size_t i = 0; i < n; i++) {
            s.values[i] = before ? (double)before[r * n + i] : 0;
            s.errors[i] = 0;
        }
        for (size_t t = 0; t < run->tokens; t++) {
            double slip, want = run->decays ? step_columns(&s, run, t, r, &slip) : step(&s, run, t, r, &slip);
            expect_close(c, t, want, (double)run->out[t * run->out_stride + r], slip);
        }
        for (size_t i = 0; i < n; i++)
            expect_close(c, r * n + i, s.values[i], (double)run->after[r * n + i], s.errors[i]);
    }
    free(s.values);
    free(s.errors);
}

void check_recurrence(check *c, const kernels *k, const kernels *previous, uint64_t seed)
{
    static const size_t columns[] = {1, 7, 8, 16, 20, 28, 64, 128};
    uint64_t rng = seed * 41;
    if (k->recur == previous->recur)
        return;
    check_begin(c, "recur");
    for (size_t s = 0; s < 192; s++) {
        bool by_columns = s >= 96;
        size_t n = columns[s % 8], rows = 1 + random_below(&rng, 13), tokens = 1 + random_below(&rng, 5);
        size_t heads = 1 + random_below(&rng, 3), stride = 5 * n + rows;
        bool fresh = s % 3 == 0, in_place = s % 3 == 1;
        snprintf(c->size, sizeof(c->size), "%zu x %zu, %zu tokens%s%s", rows, n, tokens, fresh ? ", fresh" : "",
                 by_columns ? ", by columns"
                 : s % 2    ? ", answers"
                            : "");
        buffer_guarded state = guarded_new(rows * n * sizeof(float)), after = guarded_new(rows * n * sizeof(float));
        buffer_guarded inputs = guarded_new(tokens * stride * sizeof(float));
        buffer_guarded numbers = guarded_new(2 * tokens * heads * sizeof(float));
        buffer_guarded out = guarded_new(tokens * rows * sizeof(float));
        float *before = state.data, *input = inputs.data, *number = numbers.data;
        for (size_t i = 0; i < rows * n; i++)
            before[i] = random_value(&rng);
        for (size_t i = 0; i < tokens * stride; i++)
            input[i] = random_rough(&rng);
        for (size_t i = 0; i < 2 * tokens * heads; i++)
            number[i] = fabsf(random_value(&rng));
        float *copy = malloc(rows * n * sizeof(float));
        memcpy(copy, before, rows * n * sizeof(float));
        const recurrence_run run = {.before = fresh ? NULL : before,
                                    .after = in_place ? before : after.data,
                                    .rows = rows,
                                    .columns = n,
                                    .tokens = tokens,
                                    .key = input,
                                    .query = input + n,
                                    .value = input + 5 * n,
                                    .decays = by_columns ? input + 2 * n : NULL,
                                    .asked = input + 3 * n,
                                    .removed = input + 4 * n,
                                    .stride = stride,
                                    .decay = number,
                                    .gain = number + tokens * heads,
                                    .number_stride = heads,
                                    .out = out.data,
                                    .out_stride = rows,
                                    .answers = s % 2};
        k->recur(&run);
        compare(c, &run, fresh ? NULL : copy);
        expect(c, "wrote before the output", guarded_intact(&out) && guarded_intact(&after) && guarded_intact(&state));
        free(copy);
        buffer_guarded *all[] = {&state, &after, &inputs, &numbers, &out};
        for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
            guarded_free(all[i]);
    }
}
