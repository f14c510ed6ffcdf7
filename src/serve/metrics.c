/* metrics.c - counters, gauges and histograms. */
#include "metrics.h"

static const double bounds[METRICS_BOUNDS] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                              0.25,  0.5,    1,     2.5,  5,     10,   30};

static const struct row {
    const char *name, *kind, *help;
} rows[METRIC_COUNT] = {
#define X(id, name, kind, help) {name, kind, help},
    METRICS(X)
#undef X
};

static const struct row histogram_rows[HISTOGRAM_COUNT] = {
#define X(id, name, help) {name, "histogram", help},
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

static bool print_head(buffer *out, const struct row *r)
{
    return buffer_print(out, "# HELP %s %s.\n# TYPE %s %s\n", r->name, r->help, r->name, r->kind);
}

static bool print_histogram(const histogram *h, const struct row *r, buffer *out)
{
    unsigned long long sum = 0;
    bool ok = print_head(out, r);
    for (size_t i = 0; i < METRICS_BOUNDS; i++) {
        sum += atomic_load_explicit(&h->counts[i], memory_order_relaxed);
        ok = ok && buffer_print(out, "%s_bucket{le=\"%g\"} %llu\n", r->name, bounds[i], sum);
    }
    sum += atomic_load_explicit(&h->counts[METRICS_BOUNDS], memory_order_relaxed);
    double seconds = 1e-6 * (double)atomic_load_explicit(&h->microseconds, memory_order_relaxed);
    return ok && buffer_print(out, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum %.6f\n%s_count %llu\n", r->name, sum, r->name,
                              seconds, r->name, sum);
}

bool metrics_print(metrics *m, buffer *out)
{
    bool ok = true;
    for (int i = 0; i < METRIC_COUNT; i++)
        ok = ok && print_head(out, &rows[i]) &&
             buffer_print(out, "%s %llu\n", rows[i].name, (unsigned long long)metrics_get(m, (metric)i));
    for (int i = 0; i < HISTOGRAM_COUNT; i++)
        ok = ok && print_histogram(&m->histograms[i], &histogram_rows[i], out);
    return ok;
}
