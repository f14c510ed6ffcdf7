/* metrics.c - counters, gauges and histograms. */
#include "metrics.h"

#include <stdio.h>

static const double bounds[METRICS_BOUNDS] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                              0.25,  0.5,    1,     2.5,  5,     10,   30};

typedef struct row {
    metric id;
    const char *name, *kind, *help;
} row;

static const row server_rows[] = {
#define X(id, name, kind, help) {METRIC_##id, name, kind, help},
    SERVER_METRICS(X)
#undef X
};

static const row model_rows[] = {
#define X(id, name, kind, help) {METRIC_##id, name, kind, help},
    MODEL_METRICS(X)
#undef X
};

static const row histogram_rows[HISTOGRAM_COUNT] = {
#define X(id, name_, help_) {.name = (name_), .kind = "histogram", .help = (help_)},
    HISTOGRAMS(X)
#undef X
};

void metrics_observe(metrics *m, histogram_id which, double seconds)
{
    histogram *h = &m->histograms[which];
    size_t at = 0;
    while (at < METRICS_BOUNDS && seconds > bounds[at])
        at++;
    atomic_fetch_add_explicit(&h->counts[at], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->microseconds, (unsigned long long)(seconds > 0 ? 1e6 * seconds : 0),
                              memory_order_relaxed);
}

static bool print_head(buffer *out, const row *r)
{
    return buffer_print(out, "# HELP %s %s.\n# TYPE %s %s\n", r->name, r->help, r->name, r->kind);
}

/* Appends a label's value between quotes, as Prometheus escapes it. */
static bool put_value(buffer *out, const char *value)
{
    bool ok = buffer_put(out, "\"", 1);
    for (const char *c = value; *c && ok; c++) {
        char letter = *c == '\n' ? 'n' : *c;
        bool escaped = *c == '\n' || *c == '"' || *c == '\\';
        ok = (!escaped || buffer_put(out, "\\", 1)) && buffer_put(out, &letter, 1);
    }
    return ok && buffer_put(out, "\"", 1);
}

/* Begins a sample: `name_bucket{model="story",le="0.1"} `. model, bound: NULL: it has no such label. */
static bool put_name(buffer *out, const char *name, const char *ending, const char *model, const char *bound)
{
    bool ok = buffer_print(out, "%s%s%s", name, ending, model || bound ? "{" : "");
    if (model)
        ok = ok && buffer_print(out, "model=") && put_value(out, model);
    if (bound)
        ok = ok && buffer_print(out, "%sle=\"%s\"", model ? "," : "", bound);
    return ok && buffer_print(out, "%s ", model || bound ? "}" : "");
}

static bool put_count(buffer *out, const char *name, const char *ending, const char *model, const char *bound,
                      unsigned long long count)
{
    return put_name(out, name, ending, model, bound) && buffer_print(out, "%llu\n", count);
}

static bool print_histogram(const histogram *h, const char *name, const char *model, buffer *out)
{
    unsigned long long sum = 0;
    char bound[32];
    bool ok = true;
    for (size_t i = 0; i < METRICS_BOUNDS; i++) {
        sum += atomic_load_explicit(&h->counts[i], memory_order_relaxed);
        snprintf(bound, sizeof bound, "%g", bounds[i]);
        ok = ok && put_count(out, name, "_bucket", model, bound, sum);
    }
    sum += atomic_load_explicit(&h->counts[METRICS_BOUNDS], memory_order_relaxed);
    double seconds = 1e-6 * (double)atomic_load_explicit(&h->microseconds, memory_order_relaxed);
    return ok && put_count(out, name, "_bucket", model, "+Inf", sum) && put_name(out, name, "_sum", model, NULL) &&
           buffer_print(out, "%.6f\n", seconds) && put_count(out, name, "_count", model, NULL, sum);
}

/* All samples of a metric stand together. */
static bool print_metric(const row *r, const metrics_of *of, size_t count, buffer *out)
{
    bool ok = print_head(out, r);
    for (size_t i = 0; i < count && ok; i++)
        ok = put_count(out, r->name, "", of[i].model, NULL, metrics_get(of[i].metrics, r->id));
    return ok;
}

bool metrics_print(metrics *server, const metrics_of *models, size_t count, buffer *out)
{
    const metrics_of own = {.metrics = server};
    bool ok = true;
    for (size_t k = 0; k < sizeof server_rows / sizeof *server_rows; k++)
        ok = ok && print_metric(&server_rows[k], &own, 1, out);
    for (size_t k = 0; k < sizeof model_rows / sizeof *model_rows; k++)
        ok = ok && print_metric(&model_rows[k], models, count, out);
    for (size_t k = 0; k < HISTOGRAM_COUNT; k++) {
        ok = ok && print_head(out, &histogram_rows[k]);
        for (size_t i = 0; i < count; i++)
            ok = ok && print_histogram(&models[i].metrics->histograms[k], histogram_rows[k].name, models[i].model, out);
    }
    return ok;
}
