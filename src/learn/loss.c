/* loss.c - feeds the same windows to two sessions, block by block, and compares their logits row by row. */
#include "loss.h"

#include "../base/memory.h"
#include "../eval/windows.h"

#include <math.h>

/* Index of the exact and of the lossy engine. */
enum { EXACT, LOSSY, SIDES };

typedef struct comparison {
    hearth_session *sessions[SIDES];
    float *logits[SIDES]; /* [block][vocabulary] */
    hearth_row *rows;     /* [block]             */
    size_t vocabulary, block;
    loss *out;
} comparison;

static void comparison_close(comparison *c)
{
    for (int side = 0; side < SIDES; side++) {
        hearth_session_destroy(c->sessions[side]);
        mem_free(c->logits[side]);
    }
    mem_free(c->rows);
}

/* Opens both sessions. On failure comparison_close frees what was opened. */
static hearth_status comparison_open(comparison *c, const hearth_engine *const engines[SIDES], uint32_t context,
                                     loss *out, hearth_error *error)
{
    hearth_model_info info;
    hearth_model_describe(hearth_engine_model(engines[EXACT]), &info);
    *c = (comparison){.vocabulary = info.vocabulary_size, .block = rows_block(info.vocabulary_size), .out = out};
    hearth_session_options options = {.context = context, .output_rows = (uint32_t)c->block};
    c->rows = mem_new_array(c->block, sizeof *c->rows);
    if (!c->rows)
        return fail_memory(error, "loss", c->block * sizeof *c->rows);
    for (int side = 0; side < SIDES; side++) {
        c->logits[side] = mem_new_array(c->block, c->vocabulary * sizeof(float));
        if (!c->logits[side])
            return fail_memory(error, "loss", c->block * c->vocabulary * sizeof(float));
        TRY(hearth_session_create(&c->sessions[side], engines[side], &options, error));
    }
    return HEARTH_OK;
}

/* Adds the divergence of one row, and whether both have the same most likely token. */
static void compare_row(loss *out, const float *exact, const float *lossy, size_t n)
{
    size_t wanted, got;
    double exact_sum = rows_log_sum(exact, n, &wanted), lossy_sum = rows_log_sum(lossy, n, &got), divergence = 0;
    for (size_t i = 0; i < n; i++) {
        double p = exact[i] - exact_sum, q = lossy[i] - lossy_sum;
        divergence += exp(p) * (p - q);
    }
    out->divergence += divergence;
    out->same_top += wanted == got;
    out->tokens++;
}

/* Feeds ids from position 0 to both sessions and compares every row. */
static hearth_status read_window(comparison *c, const int32_t *ids, size_t count, hearth_error *error)
{
    for (int side = 0; side < SIDES; side++)
        TRY(hearth_session_truncate(c->sessions[side], 0, 0, error));
    for (size_t at = 0; at < count; at += c->block) {
        size_t n = count - at < c->block ? count - at : c->block;
        for (size_t i = 0; i < n; i++)
            c->rows[i] = (hearth_row){ids[at + i], 0, true};
        for (int side = 0; side < SIDES; side++) {
            TRY(hearth_session_feed(c->sessions[side], c->rows, n, error));
            TRY(hearth_session_logits(c->sessions[side], 0, n, c->logits[side], error));
        }
        for (size_t i = 0; i < n; i++)
            compare_row(c->out, c->logits[EXACT] + i * c->vocabulary, c->logits[LOSSY] + i * c->vocabulary,
                        c->vocabulary);
    }
    return HEARTH_OK;
}

/* Returns where reading a window begins that is read from token `first` on; its end where it lies before that token. */
static uint64_t begin_of(const corpus *texts, size_t window, uint64_t first)
{
    uint64_t begin = texts->starts[window], end = texts->starts[window + 1];
    begin = begin < first ? first : begin;
    return begin < end ? begin : end;
}

static hearth_status read_all(comparison *c, const corpus *texts, uint64_t first, uint64_t tokens,
                              hearth_progress progress, hearth_error *error)
{
    uint64_t left = first < texts->id_count ? texts->id_count - first : 0;
    uint64_t total = tokens < left ? tokens : left;
    for (size_t w = 0; w < texts->window_count && c->out->tokens < tokens; w++) {
        uint64_t begin = begin_of(texts, w, first), size = texts->starts[w + 1] - begin;
        if (size == 0)
            continue;
        if (progress.report && !progress.report(progress.user, "comparing", c->out->tokens, total))
            return fail(error, HEARTH_CANCELLED, "loss: cancelled");
        uint64_t room = tokens - c->out->tokens;
        TRY(read_window(c, texts->ids + begin, (size_t)(size < room ? size : room), error));
    }
    return HEARTH_OK;
}

hearth_status loss_measure(loss *out, const hearth_engine *exact, const hearth_engine *lossy, const corpus *texts,
                           uint64_t first, uint64_t tokens, hearth_progress progress, hearth_error *error)
{
    comparison c;
    uint64_t widest = 1;
    const hearth_engine *const engines[SIDES] = {exact, lossy};
    *out = (loss){0};
    for (size_t w = 0; w < texts->window_count; w++) {
        uint64_t size = texts->starts[w + 1] - begin_of(texts, w, first);
        widest = size > widest ? size : widest;
    }
    hearth_status status = comparison_open(&c, engines, (uint32_t)widest, out, error);
    if (status == HEARTH_OK)
        status = read_all(&c, texts, first, tokens, progress, error);
    if (status == HEARTH_OK && out->tokens > 0) {
        out->divergence /= (double)out->tokens;
        out->same_top /= (double)out->tokens;
        out->exact_bytes = hearth_session_token_bytes(c.sessions[EXACT]);
        out->lossy_bytes = hearth_session_token_bytes(c.sessions[LOSSY]);
    }
    comparison_close(&c);
    return status;
}
