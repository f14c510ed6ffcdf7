/* plan_build.h - small models and machines for tests of the planner. */
#ifndef TESTS_PLAN_BUILD_H
#define TESTS_PLAN_BUILD_H

#include "../src/base/random.h"
#include "../src/plan/plan.h"

#include <math.h>
#include <string.h>

#include "skip.h"

/* Returns a number from `least` to `most`. */
static inline double between(uint64_t *seed, double least, double most)
{
    return least + (most - least) * (double)(random_next(seed) >> 11) / 9007199254740992.0;
}

/* A machine with one device: bytes per second of both sides, and what handing over costs. */
static inline machine made_machine(double cpu, double device, double exchange)
{
    machine m = {.threads = 4, .memory_bytes = {1e12, FIGURE_STATED}, .device_count = 1};
    m.rates.whole = (figure){cpu, FIGURE_STATED};
    m.devices[0].rates.whole = (figure){device, FIGURE_STATED};
    for (int i = 0; i < MACHINE_ROWS; i++) {
        m.rates.listed[i] = (figure){cpu / 2, FIGURE_STATED};
        m.devices[0].rates.listed[i] = (figure){device / 2, FIGURE_STATED};
    }
    m.devices[0].memory_bytes = m.devices[0].budget_bytes = (figure){1e12, FIGURE_STATED};
    m.devices[0].to_device_rate = m.devices[0].from_device_rate = (figure){1e15, FIGURE_STATED};
    m.devices[0].exchange_seconds = (figure){exchange, FIGURE_STATED};
    m.devices[0].start_seconds = (figure){exchange / 4, FIGURE_STATED};
    return m;
}

/* Sets a layer whose neurons fire with falling chances. */
static inline void make_layer(model_load *m, uint32_t i, uint32_t neurons, double density, double mixer_bytes,
                              double row_bytes)
{
    layer_load *l = &m->layers[i];
    float *needs = arena_new_array(&m->memory, neurons, sizeof *needs);
    float *fires = arena_new_array(&m->memory, neurons, sizeof *fires);
    assert_non_null(needs);
    assert_non_null(fires);
    *l = (layer_load){.kind = i,
                      .has_mixer = true,
                      .has_network = true,
                      .splits = true,
                      .mixer_bytes = mixer_bytes,
                      .kv_bytes = mixer_bytes / 1e4,
                      .kv_read_bytes = mixer_bytes / 1e4,
                      .neurons = neurons,
                      .first_bytes = row_bytes,
                      .other_bytes = 2 * row_bytes,
                      .row_bytes = row_bytes,
                      .lists = true,
                      .in_use = 1,
                      .need = 1,
                      .needs = needs,
                      .fires = fires,
                      .device_bytes = mixer_bytes,
                      .device_neuron_bytes = 3 * row_bytes};
    load_hotness(fires, neurons, density, 0.26, 0.8);
    for (uint32_t n = 0; n < neurons; n++) {
        needs[n] = 1;
        l->fire += (double)fires[n] / neurons;
    }
}

static inline void make_load(model_load *m, uint32_t layers, double head_bytes)
{
    *m = (model_load){.layer_count = layers,
                      .head_bytes = head_bytes,
                      .embedding_bytes = head_bytes,
                      .head_on_device = true,
                      .row_values = 64,
                      .density_source = "made"};
    m->layers = arena_new_array(&m->memory, layers, sizeof *m->layers);
    assert_non_null(m->layers);
}

static inline plan_request free_request(double device_bytes)
{
    return (plan_request){.device_bytes = device_bytes,
                          .host_bytes = 1e15,
                          .context = 100,
                          .cached = 50,
                          .sequences = 1,
                          .states = 1,
                          .layers = PLAN_FREE,
                          .neurons = PLAN_FREE};
}

#endif
