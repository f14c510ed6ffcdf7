/* divergence.c - compares an engine's rows with the rows of a file. */
#include "divergence.h"

#include "../base/memory.h"
#include "windows.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* How far from 1 the probabilities of a file's row may add up, besides the tokens that were clipped, each of which has
 * at most e^-KL_RANGE. */
#define ROUNDING 1e-3

/* ------------------------------------------------------------------ writing */

static hearth_status write_rows(void *user, size_t first, size_t count, const float *logits, hearth_error *error)
{
    (void)first;
    return kl_writer_add(user, logits, count, error);
}

static hearth_status check_ids(const windows_reader *w, const divergence_material *from, hearth_error *error)
{
    TRY(halves_check(w, from->id_count, from->name, error));
    for (size_t i = 0; i < from->id_count; i++)
        if (from->ids[i] < 0 || (uint32_t)from->ids[i] >= w->info.vocabulary_size)
            return fail(error, HEARTH_INVALID, "%s: token %zu: is %d, the vocabulary has %u", from->name, i,
                        from->ids[i], w->info.vocabulary_size);
    return HEARTH_OK;
}

/* Adds to a cancelled status the name of what was cancelled. */
static hearth_status cancelled(hearth_status status, const char *name, hearth_error *error)
{
    return status == HEARTH_CANCELLED ? fail(error, status, "%s: divergence: cancelled", name) : status;
}

static hearth_status write_windows(const char *path, windows_reader *w, const int32_t *ids, size_t count, uint32_t most,
                                   hearth_error *error)
{
    kl_writer *writer;
    size_t n = count / w->context;
    if (most > 0 && n > most)
        n = most;
    if (n > INT32_MAX)
        n = INT32_MAX;
    TRY(kl_writer_open(&writer, path, w->context, w->info.vocabulary_size, ids, (uint32_t)n, error));
    hearth_status status = halves_read(w, ids, n * w->context, write_rows, writer, error);
    if (status == HEARTH_OK)
        return kl_writer_commit(writer, error);
    kl_writer_discard(writer);
    return status;
}

static hearth_status open_for_writing(windows_reader *w, const hearth_engine *engine, const divergence_options *o,
                                      hearth_error *error)
{
    hearth_model_info info;
    hearth_model_describe(hearth_engine_model(engine), &info);
    uint32_t context = o->context;
    if (!context && info.context_length > DIVERGENCE_CONTEXT)
        context = DIVERGENCE_CONTEXT;
    return windows_open(w, engine, context, o->kv, &o->progress, "logits", error);
}

static hearth_status write_material(const char *path, windows_reader *w, const divergence_material *from,
                                    const divergence_options *options, hearth_error *error)
{
    int32_t *ids;
    size_t count;
    if (from->ids) {
        TRY(check_ids(w, from, error));
        return write_windows(path, w, from->ids, from->id_count, options->windows, error);
    }
    TRY(halves_tokenize(w, from->text, from->name, options->separator, &ids, &count, error));
    hearth_status status = write_windows(path, w, ids, count, options->windows, error);
    hearth_free(ids);
    return status;
}

hearth_status divergence_write(const char *path, const hearth_engine *engine, const divergence_material *from,
                               const divergence_options *options, hearth_error *error)
{
    windows_reader w;
    TRY(open_for_writing(&w, engine, options, error));
    hearth_status status = cancelled(write_material(path, &w, from, options, error), from->name, error);
    windows_close(&w);
    return status;
}

/* Makes a random path in the folder for temporary files; nobody can guess it and put something there. mem_free. */
static hearth_status temporary_path(char **out, hearth_error *error)
{
    const char *folder = getenv("TMPDIR");
    uint64_t noise;
    char name[40];
    if (!folder || !*folder)
        folder = "/tmp";
    if (getrandom(&noise, sizeof noise, 0) != (ssize_t)sizeof noise)
        return fail_errno(error, folder, "getrandom");
    snprintf(name, sizeof name, "hearth-kl-%016" PRIx64, noise);
    *out = file_join(folder, name);
    return *out ? HEARTH_OK : fail_memory(error, folder, strlen(folder) + sizeof name);
}

hearth_status divergence_write_temporary(kl_file *out, const hearth_engine *engine, const divergence_material *from,
                                         const divergence_options *options, hearth_error *error)
{
    char *path;
    TRY(temporary_path(&path, error));
    hearth_status status = divergence_write(path, engine, from, options, error);
    if (status == HEARTH_OK) {
        status = kl_file_open(out, path, error);
        unlink(path);
    }
    if (status == HEARTH_OK)
        out->path = from->name;
    mem_free(path);
    return status;
}

/* ------------------------------------------------------------------ one row against one row */

/* Sums over positions, and every single divergence for the percentiles. */
typedef struct measuring {
    windows_reader windows;
    const kl_file *base;
    double *values; /* one per row of all windows that are measured */
    double *logs;   /* [vocabulary_size] log q of the current row */
    size_t count;   /* rows so far                                */
    size_t same_top;
    size_t cut;
    double nll, base_nll, log_ratio, right, right_squares;
} measuring;

/* Computes logs[i] = log q_i. false: not all logits are finite. */
static bool take_logarithms(double *logs, size_t *top, const float *logits, size_t n)
{
    double shift = rows_log_sum(logits, n, top);
    for (size_t i = 0; i < n; i++)
        logs[i] = logits[i] - shift;
    /* Any logit that is not finite makes the sum not finite, except -infinity. */
    bool finite = isfinite(shift);
    for (size_t i = 0; i < n; i++)
        finite = finite && isfinite(logs[i]);
    return finite;
}

/* Returns the divergence between a row of the file and one of the model. *total: sum of the file's probabilities
 * without those that were clipped; *cut: the number of clipped tokens. Each term is p log(p / q) - p + q, which is at
 * least zero; since p and q each add up to 1, the sum over all tokens is the divergence, without the error that
 * rounding made in the sum of p. */
static double row_divergence(const kl_row *row, const double *logs, size_t n, double *total, size_t *cut)
{
    double sum = 0, q_cut = 0;
    *total = 0;
    *cut = 0;
    for (size_t i = 0; i < n; i++) {
        double q = exp(logs[i]);
        if (row->clipped && row->values[i] == 0) {
            q_cut += q;
            ++*cut;
            continue;
        }
        double log_p = row->min + (double)row->scale * row->values[i];
        double p = exp(log_p);
        sum += p * (log_p - logs[i]) - p + q;
        *total += p;
    }
    /* If the file had given the clipped tokens exactly q, they would add nothing. It gave them at most this much. */
    double most = (double)*cut * exp(row->min);
    return sum + fmax(0, q_cut - most);
}

/* Adds one position to the sums; next: the actual next token. */
static hearth_status add_row(measuring *m, const kl_row *row, const float *logits, int32_t next, hearth_error *error)
{
    size_t n = m->base->vocabulary_size, top, cut;
    uint16_t largest = 0;
    double total;
    if (!take_logarithms(m->logs, &top, logits, n))
        return fail(error, HEARTH_INVALID, "%s: logits: are not all finite", m->windows.info.path);
    for (size_t i = 0; i < n; i++)
        if (row->values[i] > largest)
            largest = row->values[i];
    double value = row_divergence(row, m->logs, n, &total, &cut);
    if (fabs(total - 1) > ROUNDING + (double)cut * exp(row->min))
        return fail(error, HEARTH_FORMAT, "%s: row %zu: its probabilities add up to %g", m->base->path, m->count,
                    total);
    double log_p = row->min + (double)row->scale * row->values[next];
    double log_q = m->logs[next];
    double change = exp(log_q) - exp(log_p);
    bool is_cut = row->clipped && row->values[next] == 0;
    m->values[m->count++] = value;
    m->same_top += row->values[top] == largest;
    m->cut += is_cut;
    m->nll -= log_q;
    m->base_nll -= log_p;
    m->log_ratio += log_p - (is_cut ? fmax(log_q, log_p) : log_q);
    m->right += change;
    m->right_squares += change * change;
    return HEARTH_OK;
}

static hearth_status measure_rows(void *user, size_t first, size_t count, const float *logits, hearth_error *error)
{
    measuring *m = user;
    const kl_file *f = m->base;
    uint32_t window = (uint32_t)m->windows.number;
    for (size_t i = 0; i < count; i++) {
        kl_row row;
        size_t number = first + i - halves_first(f->context);
        TRY(kl_file_row(f, window, number, &row, error));
        TRY(add_row(m, &row, logits + i * f->vocabulary_size, m->windows.ids[first + i + 1], error));
        if (number + 1 == f->rows_per_window)
            kl_file_drop(f, window);
    }
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ all of them */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Interpolates in ascending values [n], at `share` of the way from the first to the last. */
static double percentile(const double *values, size_t n, double share)
{
    double place = share * (double)(n - 1);
    size_t at = (size_t)place;
    if (at + 1 >= n)
        return values[n - 1];
    return values[at] + (place - (double)at) * (values[at + 1] - values[at]);
}

/* Computes the results; sorts the values. */
static void summarize(measuring *m, divergence *out)
{
    static const double shares[DIVERGENCE_PERCENTILES] = {
        [DIVERGENCE_P90] = 0.9, [DIVERGENCE_P95] = 0.95, [DIVERGENCE_P99] = 0.99, [DIVERGENCE_P999] = 0.999};
    size_t n = m->count;
    double count = (double)n, sum = 0, squares = 0;
    qsort(m->values, n, sizeof *m->values, by_size);
    for (size_t i = 0; i < n; i++)
        sum += m->values[i];
    out->mean = sum / count;
    for (size_t i = 0; i < n; i++)
        squares += (m->values[i] - out->mean) * (m->values[i] - out->mean);
    out->mean_error = n > 1 ? sqrt(squares / count / (count - 1)) : 0;
    out->median = percentile(m->values, n, 0.5);
    for (size_t i = 0; i < DIVERGENCE_PERCENTILES; i++)
        out->percentiles[i] = percentile(m->values, n, shares[i]);
    out->least = m->values[0];
    out->most = m->values[n - 1];
    out->tokens = n;
    out->same_top = (double)m->same_top / count;
    out->same_top_error = n > 1 ? sqrt(out->same_top * (1 - out->same_top) / (count - 1)) : 0;
    out->nll = m->nll / count;
    out->base_nll = m->base_nll / count;
    out->log_ratio = m->log_ratio / count;
    out->cut = (double)m->cut / count;
    out->right_mean = m->right / count;
    out->right_rms = sqrt(m->right_squares / count);
}

/* Checks that file and model agree, and how many windows there are to measure. */
static hearth_status check_base(const kl_file *f, const hearth_engine *engine, hearth_error *error)
{
    hearth_model_info info;
    hearth_model_describe(hearth_engine_model(engine), &info);
    if (f->vocabulary_size != info.vocabulary_size)
        return fail(error, HEARTH_UNSUPPORTED, "%s: vocabulary: has %u tokens, that of %s has %u", f->path,
                    f->vocabulary_size, info.path, info.vocabulary_size);
    if (f->context > info.context_length)
        return fail(error, HEARTH_UNSUPPORTED, "%s: windows: have %u tokens, the context of %s is %u", f->path,
                    f->context, info.path, info.context_length);
    return HEARTH_OK;
}

/* Copies the tokens of all windows, one after another as in the file. NULL: no memory. */
static int32_t *copy_windows(const kl_file *f, uint32_t count)
{
    int32_t *ids = mem_new_array((size_t)count * f->context, sizeof *ids);
    for (uint32_t i = 0; ids && i < count; i++)
        kl_file_window(f, i, ids + (size_t)i * f->context);
    return ids;
}

static hearth_status measure_windows(measuring *m, uint32_t count, hearth_error *error)
{
    const kl_file *f = m->base;
    size_t wanted = count * f->rows_per_window;
    int32_t *ids = copy_windows(f, count);
    m->values = mem_new_array(wanted, sizeof *m->values);
    m->logs = mem_new_array(f->vocabulary_size, sizeof *m->logs);
    hearth_status status;
    if (ids && m->values && m->logs)
        status = halves_read(&m->windows, ids, (size_t)count * f->context, measure_rows, m, error);
    else
        status = fail_memory(error, f->path, wanted * sizeof *m->values);
    mem_free(ids);
    return cancelled(status, f->path, error);
}

hearth_status divergence_measure_file(divergence *out, const hearth_engine *engine, const kl_file *base,
                                      const divergence_options *options, hearth_error *error)
{
    measuring m = {.base = base};
    uint32_t count = base->window_count;
    if (options->windows > 0 && count > options->windows)
        count = options->windows;
    TRY(check_base(base, engine, error));
    TRY(windows_open(&m.windows, engine, base->context, options->kv, &options->progress, "divergence", error));
    hearth_status status = measure_windows(&m, count, error);
    if (status == HEARTH_OK) {
        *out = (divergence){.windows = count, .context = base->context};
        summarize(&m, out);
    }
    windows_close(&m.windows);
    mem_free(m.values);
    mem_free(m.logs);
    return status;
}

hearth_status divergence_measure(divergence *out, const hearth_engine *engine, const char *path,
                                 const divergence_options *options, hearth_error *error)
{
    kl_file base;
    TRY(kl_file_open(&base, path, error));
    hearth_status status = divergence_measure_file(out, engine, &base, options, error);
    kl_file_close(&base);
    return status;
}
