/* device_stream_decide.c - decides whether a session streams, and from how many rows of a step on: by rules, by what the user
 * asked for, or by measuring (device_stream.h). */
#include "device_state.h"
#include "ffn.h"

#include "../base/clock.h"
#include "../base/random.h"
#include "../base/text.h"

#include <stdio.h>

/* Rows with which the CPU's neurons are timed: more than it lists neurons for (UNION_TOKENS), so that it computes all of them. */
#define TIMED_ROWS 64
/* Runs of what is timed; the first one warms up, the shortest counts. */
#define TIMED_RUNS 3

const char *device_stream_refusal(const hearth_session *s)
{
    const hearth_engine *e = s->engine;
    device_info info;
    if (e->stream == HEARTH_STREAM_OFF)
        return "as asked";
    if (!e->uploaded || device_stream_bytes_for(e, UINT32_MAX) == 0)
        return "no layer has neurons on the CPU that can be streamed";
    if (device_rows(s) <= STEP_ROWS)
        return "there are no long steps";
    device_lock(e->runtime);
    device_describe(e->uploaded->device, &info);
    device_unlock(e->runtime);
    return e->stream == HEARTH_STREAM_AUTO && !info.is_gpu ? "the device computes with the CPU's cores" : NULL;
}

/* ------------------------------------------------------------------ measuring */

static double shorter(double a, double b)
{
    return a < b ? a : b;
}

/* Times the CPU's neurons of a layer with rows of any values, in seconds of a neuron and a row; needs the device lock. */
static double time_cpu(hearth_session *s, uint32_t layer)
{
    const bool tallies = s->device->tallies;
    s->device->tallies = false; /* nobody's text: what is active says nothing */
    size_t rows = s->batch < TIMED_ROWS ? s->batch : TIMED_ROWS, d = s->engine->model->hyper.embedding_length;
    double best = 1e30;
    for (size_t i = 0; i < rows * d; i++)
        s->scratch.normed[i] = (float)(random_at(1, i) % 2048) / 1024 - 1;
    for (unsigned run = 0; run < TIMED_RUNS; run++) {
        double begin = clock_seconds();
        feed_forward_share(s, layer, rows, false);
        best = shorter(best, clock_seconds() - begin);
    }
    hearth_session_reset_counts(s);
    s->device->tallies = tallies;
    return best / (double)rows / device_stream_neurons(s->engine, layer);
}

/* Times packing, copying and computing the first part of a layer; needs the device lock. */
static hearth_status time_part(const hearth_session *s, uint32_t layer, stream_figures *out, hearth_error *error)
{
    device_session *ds = s->device;
    step_record *record = device_buffer_host(ds->mirror.step);
    size_t rows = device_rows(s), d = s->engine->model->hyper.embedding_length;
    double neurons = device_stream_part(s, layer, 0, NULL).count;
    TRY(device_need_program(s, ds, PROGRAM_STREAM_TIMED, error));
    const device_program *p = ds->programs[PROGRAM_STREAM_TIMED];
    record->count = (uint32_t)rows;
    float *normed = device_buffer_host(ds->mirror.normed);
    for (size_t i = 0; i < rows * d; i++)
        normed[i] = (float)(random_at(1, i) % 2048) / 1024 - 1;
    *out = (stream_figures){1e30, 1e30, 1e30, 1e30};
    for (unsigned run = 0; run < TIMED_RUNS; run++) {
        double begin = clock_seconds();
        device_stream_pack(s, layer, 0, device_buffer_host(ds->mirror.stream[0]));
        out->pack_seconds = shorter(out->pack_seconds, (clock_seconds() - begin) / neurons);
        TRY(device_start(ds->programs[PROGRAM_STREAM_TIMED], error));
        TRY(device_finish(ds->programs[PROGRAM_STREAM_TIMED], error));
        double copy = device_stamp_seconds(p, TIMED_COPY), compute = device_stamp_seconds(p, TIMED_COMPUTE),
               end = device_stamp_seconds(p, TIMED_END);
        out->copy_seconds = shorter(out->copy_seconds, (compute - copy) / neurons);
        out->device_seconds = shorter(out->device_seconds, (end - compute) / neurons / (double)rows);
    }
    return HEARTH_OK;
}

hearth_status device_stream_measure(hearth_session *s, stream_figures *out, hearth_error *error)
{
    uint32_t layer = device_stream_first_layer(s);
    device_lock(s->engine->runtime);
    hearth_status status = time_part(s, layer, out, error);
    if (status == HEARTH_OK) /* under the lock too: in a step of another session neurons may change sides */
        out->cpu_seconds = time_cpu(s, layer);
    device_unlock(s->engine->runtime);
    return status;
}

/* ------------------------------------------------------------------ deciding */

/* The streamed layers of a session, and their neurons: the device's own and those of the CPU. */
typedef struct streamed_neurons {
    uint32_t layers;
    double own, streamed, bytes;
} streamed_neurons;

static streamed_neurons count_neurons(const hearth_session *s)
{
    streamed_neurons n = {0};
    for (uint32_t i = 0; i < s->engine->model->hyper.layer_count; i++) {
        uint32_t parts = device_stream_parts(s, i);
        n.layers += parts > 0;
        n.own += parts > 0 ? s->engine->uploaded->layers[i].neuron_count : 0;
        n.streamed += parts > 0 ? device_stream_neurons(s->engine, i) : 0;
        for (uint32_t k = 0; k < parts; k++)
            n.bytes += (double)device_stream_part(s, i, k, NULL).bytes;
    }
    return n;
}

/* Finds what was measured for this engine, or measures it. Sessions of several threads may do so at once: all take what the
 * first one found. */
static hearth_status find_figures(hearth_session *s, stream_figures *out, hearth_error *error)
{
    device_weights *w = s->engine->uploaded;
    device_lock(s->engine->runtime);
    bool known = w->stream_measured;
    *out = w->stream;
    device_unlock(s->engine->runtime);
    if (known)
        return HEARTH_OK;
    TRY(device_stream_measure(s, out, error));
    device_lock(s->engine->runtime);
    if (!w->stream_measured)
        w->stream = *out;
    w->stream_measured = true;
    *out = w->stream;
    device_unlock(s->engine->runtime);
    return HEARTH_OK;
}

/* Says what was decided. why: what it follows from. */
static void say(const hearth_session *s, const streamed_neurons *n, const char *why)
{
    char bytes[16], each[16];
    if (s->device->stream_least == 0)
        log_line(&s->engine->runtime->log, HEARTH_LOG_INFO, "stream: off: faster on the CPU at any number of rows: %s",
                 why);
    else
        log_line(&s->engine->runtime->log, HEARTH_LOG_INFO,
                 "stream: in steps of %u rows or more the CPU's neurons of %u layers, %s, go to the device through two "
                 "buffers of %s: %s",
                 s->device->stream_least, n->layers, text_size(bytes, n->bytes),
                 text_size(each, (double)s->stream_bytes), why);
}

hearth_status device_stream_decide(hearth_session *s, hearth_error *error)
{
    const device_weights *w = s->engine->uploaded;
    if (s->stream_bytes == 0) {
        /* Nothing is said where nothing could be streamed by any option. */
        if (s->stream_refusal && w && device_stream_bytes_for(s->engine, UINT32_MAX) > 0)
            log_line(&s->engine->runtime->log, HEARTH_LOG_INFO, "stream: off: %s", s->stream_refusal);
        return HEARTH_OK;
    }
    streamed_neurons n = count_neurons(s);
    if (s->engine->stream == HEARTH_STREAM_ON) {
        s->device->stream_least = STEP_ROWS + 1;
        say(s, &n, "as asked");
        return HEARTH_OK;
    }
    stream_figures f;
    TRY(find_figures(s, &f, error));
    s->device->stream_least = device_stream_least_rows(&f, n.own, n.streamed);
    char why[160];
    snprintf(why, sizeof why,
             "packing %.2f GB/s, copying %.2f GB/s; a neuron of a row takes the CPU %.3g ns, the device %.3g ns",
             1e-9 * n.bytes / n.streamed / f.pack_seconds, 1e-9 * n.bytes / n.streamed / f.copy_seconds,
             1e9 * f.cpu_seconds, 1e9 * f.device_seconds);
    say(s, &n, why);
    return HEARTH_OK;
}
