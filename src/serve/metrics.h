/* metrics.h - what the server counts, and its text for Prometheus. Any thread may add; nothing is locked. */
#ifndef SERVE_METRICS_H
#define SERVE_METRICS_H

#include "../base/text.h"

#include <stdatomic.h>

/* name, kind, help. Gauges are set when they are read. */
// clang-format off
#define SERVER_METRICS(X)                                                                                      \
    X(REQUESTS,       "hearth_requests_total",               "counter", "Requests that were answered")          \
    X(REFUSED,        "hearth_requests_refused_total",       "counter", "Requests answered with a status of 400 or more") \
    X(CONNECTIONS,    "hearth_connections",                  "gauge",   "Requests of HTTP that are being read or answered")

/* Of each model. */
#define MODEL_METRICS(X)                                                                                       \
    X(CANCELLED,      "hearth_requests_cancelled_total",     "counter", "Requests whose client went away")      \
    X(TOO_SLOW,       "hearth_requests_too_slow_total",      "counter", "Requests given up, for their client did not read") \
    X(PROMPT_TOKENS,  "hearth_prompt_tokens_total",          "counter", "Tokens of prompts, of answers that have ended") \
    X(REUSED_TOKENS,  "hearth_prompt_tokens_reused_total",   "counter", "Tokens of prompts kept from earlier requests")  \
    X(ANSWER_TOKENS,  "hearth_answer_tokens_total",          "counter", "Tokens of answers")                    \
    X(STEPS,          "hearth_steps",                        "gauge",   "Steps of the scheduler since the start") \
    X(TOKEN_BYTES,    "hearth_token_bytes",                  "gauge",   "Bytes of weights that a token would need on its own, on average") \
    X(NEURONS,        "hearth_neurons_total",                "counter", "Neurons of all layers that skip zeros, once for each token") \
    X(ACTIVE_NEURONS, "hearth_neurons_active_total",         "counter", "Of these, the neurons that were not zero") \
    X(HOT_ACTIVE,     "hearth_hot_set_active_total",         "counter", "Neurons that were not zero, or of experts that were chosen, of layers that both sides compute, with --hot-set") \
    X(HOT_ON_DEVICE,  "hearth_hot_set_on_device_total",      "counter", "Of these, the neurons that the device had") \
    X(HOT_SWAPS,      "hearth_hot_set_swaps_total",          "counter", "Pairs of neurons, or of experts, that changed sides")   \
    X(MAIN_MEMORY,    "hearth_main_memory_bytes",            "gauge",   "Main memory for weights, copies, keys, values and scratch, at most") \
    X(DEVICE_MEMORY,  "hearth_device_memory_bytes",          "gauge",   "The same of the device's memory") \
    X(RUNNING,        "hearth_answers_running",              "gauge",   "Answers that have a sequence")         \
    X(WAITING,        "hearth_answers_waiting",              "gauge",   "Answers that wait for one")
// clang-format on

typedef enum metric {
#define X(id, name, kind, help) METRIC_##id,
    SERVER_METRICS(X) MODEL_METRICS(X)
#undef X
        METRIC_COUNT
} metric;

// clang-format off
#define HISTOGRAMS(X)                                                                                      \
    X(FIRST_TOKEN, "hearth_time_to_first_token_seconds", "From when a request was read to its first token") \
    X(NEXT_TOKEN,  "hearth_time_between_tokens_seconds", "Between two tokens of an answer")
// clang-format on

typedef enum histogram_id {
#define X(id, name, help) HISTOGRAM_##id,
    HISTOGRAMS(X)
#undef X
        HISTOGRAM_COUNT
} histogram_id;

#define METRICS_BOUNDS 14

typedef struct histogram {
    atomic_ullong counts[METRICS_BOUNDS + 1]; /* of each bound; the last: above all */
    atomic_ullong microseconds;               /* their sum                          */
} histogram;

/* Of the server, or of a model; each uses its own. */
typedef struct metrics {
    atomic_ullong values[METRIC_COUNT];
    histogram histograms[HISTOGRAM_COUNT];
} metrics;

static inline void metrics_add(metrics *m, metric which, uint64_t amount)
{
    atomic_fetch_add_explicit(&m->values[which], amount, memory_order_relaxed);
}

static inline void metrics_set(metrics *m, metric which, uint64_t value)
{
    atomic_store_explicit(&m->values[which], value, memory_order_relaxed);
}

static inline uint64_t metrics_get(metrics *m, metric which)
{
    return atomic_load_explicit(&m->values[which], memory_order_relaxed);
}

void metrics_observe(metrics *m, histogram_id which, double seconds);

/* What a model counts. */
typedef struct metrics_of {
    const char *model; /* the label of its samples; NULL: they have none */
    metrics *metrics;
} metrics_of;

/* Appends the text form of Prometheus, version 0.0.4: what the server counts, and each of its models. false: no memory. */
bool metrics_print(metrics *server, const metrics_of *models, size_t count, buffer *out);

#endif
