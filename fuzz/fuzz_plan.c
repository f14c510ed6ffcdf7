/* fuzz_plan.c - any bytes as the description of a machine, and as the shape of a model.
 *
 * Covers: src/plan/load.c
 * Covers: src/plan/load_shape.c
 * Covers: src/plan/machine.c
 * Covers: src/plan/machine_file.c
 * Covers: src/plan/members.c
 *
 * A machine that is accepted is printed and read again, and is then the same. A shape is read in every mode: whatever a plan
 * computes with is finite, chances are from 0 to 1, a neuron saves at least what the next one does, and units stay whole. */
#include "../src/plan/load.h"
#include "../src/plan/machine.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(bool holds)
{
    if (!holds)
        abort();
}

static void check_rates(const machine_rates *r)
{
    need(r->whole.value > 0);
    for (double bytes = 1; bytes < 1e6; bytes *= 3)
        need(machine_listed_rate(r, bytes) > 0 && machine_listed_rate(r, bytes) < 1e17);
}

static void try_machine(const json_t *root)
{
    machine m, back;
    if (machine_parse(&m, root, "fuzz", NULL) != HEARTH_OK)
        return;
    check_rates(&m.rates);
    for (size_t i = 0; i < m.device_count; i++)
        check_rates(&m.devices[i].rates);
    json_t *first = machine_json(&m);
    need(machine_parse(&back, first, "fuzz", NULL) == HEARTH_OK);
    json_t *second = machine_json(&back);
    need(json_equal(first, second));
    json_decref(first);
    json_decref(second);
}

/* Sizes are far from where sums over layers overflow or lose bytes. */
static bool is_size(double value)
{
    return value >= 0 && value < 1e18;
}

static void check_layer(const layer_load *l)
{
    const double sizes[] = {l->mixer_bytes, l->kv_bytes,        l->state_bytes,   l->first_bytes,
                            l->other_bytes, l->predictor_bytes, l->network_bytes, l->row_bytes};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        need(is_size(sizes[i]));
    need(l->has_network == (l->neurons > 0));
    need(l->need >= 0 && l->need <= 1 && l->fire >= 0 && l->fire <= 1);
    need((l->needs != NULL) == (l->fires != NULL));
    double last = HUGE_VAL;
    for (uint32_t i = 0; l->needs && i < l->neurons; i++) {
        need(l->needs[i] >= 0 && l->needs[i] <= 1 && l->fires[i] >= 0 && l->fires[i] <= l->needs[i]);
        double saves = l->needs[i] * l->first_bytes + l->fires[i] * l->other_bytes;
        need(saves <= last * 1.0001);
        last = saves;
    }
}

/* Neurons that may be on the device are whole units behind those that every token needs, and as many as were wanted but for less
 * than a unit. */
static void check_units(layer_load l, uint32_t always, uint32_t unit)
{
    l.always = always < l.neurons ? always : l.neurons;
    l.unit = unit;
    for (uint64_t wanted = 0; wanted <= 2 * (uint64_t)l.neurons + 2; wanted = wanted * 2 + 1) {
        uint32_t got = load_neurons(&l, (uint32_t)wanted);
        need(got == l.neurons || got <= wanted);
        need(got == l.neurons || got == 0 || unit <= 1 || (got >= l.always && (got - l.always) % unit == 0));
        need(got + (uint64_t)unit > wanted || got == l.neurons || (unit > 1 && wanted < l.always));
    }
    l.splits = false;
    need(load_neurons(&l, l.neurons / 2) == (l.neurons / 2 == l.neurons ? l.neurons : 0));
}

static void try_shape(const json_t *root, const char *mode, double density)
{
    model_load m;
    const shape_options options = {.mode = mode, .density = density};
    if (load_parse_shape(&m, root, "fuzz", &options, NULL) == HEARTH_OK) {
        need(m.layer_count > 0 && m.row_values > 0 && is_size(m.embedding_bytes) && is_size(m.head_bytes));
        for (uint32_t i = 0; i < m.layer_count; i++)
            if (i == 0 || m.layers[i].kind != m.layers[i - 1].kind)
                check_layer(&m.layers[i]), check_units(m.layers[i], i, 1 + i % 5);
    }
    load_free(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *root;
    if (json_parse(&root, (const char *)data, size, "fuzz", NULL) != HEARTH_OK)
        return 0;
    try_machine(root);
    try_shape(root, NULL, 0);
    try_shape(root, "dense", 0);
    try_shape(root, "predicted", 0.3);
    json_decref(root);
    return 0;
}
