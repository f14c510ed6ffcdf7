/* scoring.c - allocates buffers for every thread, and multiplies. */
#include "scoring.h"

#include "../base/memory.h"
#include "recall.h"

/* Allocates the buffers of one thread. On failure some are missing; scoring_close frees the rest. */
static bool make_place(scoring_place *p, size_t input_width, size_t inner_width)
{
    size_t widest = input_width > inner_width ? input_width : inner_width;
    p->inputs = mem_new_array(RECALL_ROWS * input_width, sizeof *p->inputs);
    p->inner = mem_new_array(RECALL_ROWS * inner_width, sizeof *p->inner);
    p->q = mem_new_array(RECALL_ROWS, widest);
    p->scales = mem_new_array(RECALL_ROWS * (widest / Q8_BLOCK + 1), sizeof *p->scales);
    p->sums = mem_new_array(RECALL_ROWS * (widest / Q8_SUM + 1), sizeof *p->sums);
    return p->inputs && p->inner && p->q && p->scales && p->sums;
}

hearth_status scoring_open(scoring *s, const kernels *by, pool *threads, size_t input_width, size_t inner_width,
                           const char *thing, hearth_error *error)
{
    size_t level;
    *s = (scoring){.threads = threads, .kernels = by};
    TRY(kernel_level_choose(&level, NULL, error));
    if (!by) {
        kernels_for(level, &s->best);
        s->kernels = &s->best;
    }
    if (!threads) {
        TRY(pool_create(&s->own, 1, error));
        s->threads = s->own;
    }
    size_t count = pool_threads(s->threads);
    s->places = mem_new_array(count, sizeof *s->places);
    bool made = s->places != NULL;
    for (size_t i = 0; made && i < count; i++)
        made = make_place(&s->places[i], input_width, inner_width);
    if (made)
        return HEARTH_OK;
    scoring_close(s);
    return fail_memory(error, thing, count * RECALL_ROWS * (input_width + inner_width) * sizeof(float));
}

void scoring_close(scoring *s)
{
    for (size_t i = 0; s->places && i < pool_threads(s->threads); i++) {
        scoring_place *p = &s->places[i];
        mem_free(p->inputs);
        mem_free(p->inner);
        mem_free(p->q);
        mem_free(p->scales);
        mem_free(p->sums);
    }
    mem_free(s->places);
    pool_destroy(s->own);
    *s = (scoring){0};
}

void scoring_multiply(const scoring *s, const scoring_place *place, const matrix *w, const float *x, size_t count,
                      float *y)
{
    kernel_input in = {.count = count, .columns = w->columns, .values = x};
    if (number_is_block(w->format)) {
        s->kernels->quantize(x, count * w->columns, place->q, place->scales, place->sums);
        in.q = place->q;
        in.scales = place->scales;
        in.sums = place->sums;
    }
    s->kernels->product[w->format](w, NULL, 0, w->rows, &in, y, w->rows);
}
