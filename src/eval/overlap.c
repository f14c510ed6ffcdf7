/* overlap.c - makes samples from spans, and figures from samples. */
#include "overlap.h"

#include "../base/median.h"
#include "../base/memory.h"

#include <math.h>
#include <string.h>

enum { SEEN_CPU = 1, SEEN_DEVICE = 2, SEEN_JOIN = 4, SEEN_ALL = 7 };

/* The spans that count, and where each is stored in the layer. */
static const struct {
    bool cpu;
    const char *what;
    unsigned bit;
    size_t place;
} wanted[] = {
    {true, "neurons", SEEN_CPU, offsetof(overlap_layer, cpu)},
    {false, "neurons", SEEN_DEVICE, offsetof(overlap_layer, device)},
    {false, "join", SEEN_JOIN, offsetof(overlap_layer, join)},
};

hearth_status overlap_open(overlap *o, uint32_t layer_count, size_t capacity, hearth_error *error)
{
    *o = (overlap){.layer_count = layer_count, .capacity = capacity};
    o->layers = mem_new_array(layer_count, sizeof *o->layers);
    o->samples = mem_new_array(capacity, sizeof *o->samples);
    if (o->layers && o->samples)
        return HEARTH_OK;
    overlap_close(o);
    return fail_memory(error, "overlap", capacity);
}

void overlap_close(overlap *o)
{
    mem_free(o->layers);
    mem_free(o->samples);
    *o = (overlap){0};
}

void overlap_clear(overlap *o)
{
    o->count = 0;
    for (uint32_t i = 0; i < o->layer_count; i++)
        o->layers[i].seen = 0;
}

static overlap_sample make_sample(const overlap_layer *l)
{
    double cpu = l->cpu.end - l->cpu.begin, device = l->device.end - l->device.begin;
    double shorter = fmin(cpu, device);
    double common = fmin(l->cpu.end, l->device.end) - fmax(l->cpu.begin, l->device.begin);
    /* With nothing to do on one side, neither side had to wait. */
    double share = shorter > 0 ? fmax(common, 0) / shorter : 1;
    double exchange = l->cpu.begin - l->device.begin + l->join.begin - fmax(l->cpu.end, l->device.end);
    return (overlap_sample){share, exchange, cpu, device};
}

void overlap_see(overlap *o, const hearth_span *span)
{
    if (span->layer >= o->layer_count)
        return;
    overlap_layer *l = &o->layers[span->layer];
    bool cpu = strcmp(span->side, "cpu") == 0;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (wanted[i].cpu == cpu && strcmp(span->what, wanted[i].what) == 0) {
            memcpy((char *)l + wanted[i].place, span, sizeof *span);
            l->seen |= wanted[i].bit;
        }
    if (l->seen != SEEN_ALL)
        return;
    l->seen = 0;
    if (o->count < o->capacity)
        o->samples[o->count++] = make_sample(l);
}

/* ------------------------------------------------------------------ figures */

static double median_of(const overlap *o, size_t member, double *values)
{
    for (size_t i = 0; i < o->count; i++)
        memcpy(&values[i], (const char *)&o->samples[i] + member, sizeof *values);
    return median(values, o->count);
}

hearth_status overlap_conclude(const overlap *o, overlap_result *out, hearth_error *error)
{
    *out = (overlap_result){.samples = o->count};
    if (o->count == 0)
        return HEARTH_OK;
    double *values = mem_new_array(o->count, sizeof *values);
    if (!values)
        return fail_memory(error, "overlap", o->count * sizeof *values);
    out->exchange_seconds = median_of(o, offsetof(overlap_sample, exchange), values);
    out->cpu_seconds = median_of(o, offsetof(overlap_sample, cpu), values);
    out->device_seconds = median_of(o, offsetof(overlap_sample, device), values);
    out->overlap = median_of(o, offsetof(overlap_sample, overlap), values);
    out->overlap_least = values[o->count * 5 / 100]; /* sorted by the median */
    mem_free(values);
    return HEARTH_OK;
}
