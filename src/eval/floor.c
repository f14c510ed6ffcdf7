/* floor.c - see floor.h. */
#include "floor.h"

#include <math.h>

/* Bytes by the side that reads them. */
typedef struct side_bytes {
    double cpu, device;
} side_bytes;

/* Adds what is read at one time: by one side after the other where `together` is false. */
static void add(floor_answer *a, const floor_question *q, side_bytes b, bool together)
{
    double here = b.cpu / q->cpu_rate, there = 0;
    if (b.device != 0) /* also where it is not known */
        there = q->device_rate > 0 ? b.device / q->device_rate : (double)NAN;
    a->device_bytes += b.device;
    a->seconds += !together || isnan(there) ? here + there : fmax(here, there);
}

static side_bytes on_one_side(double bytes, bool on_device)
{
    return on_device ? (side_bytes){.device = bytes} : (side_bytes){.cpu = bytes};
}

/* Returns which share of a layer's rows the device reads: of all neurons alike, or of those that were active. */
static double share_there(const floor_question *q, uint32_t layer, bool all)
{
    const layer_placement *p = &q->engine->placement->layers[layer];
    double there = layer_neurons(p, PLACEMENT_DEVICE), here = layer_neurons(p, PLACEMENT_CPU);
    if (there == 0 || here == 0)
        return there > 0;
    return all ? there / (there + here) : q->hot;
}

/* Divides what a layer reads of its neurons between the sides. */
static side_bytes divide_neurons(const floor_question *q, uint32_t layer, layer_reads r)
{
    const hearth_counts *c = &q->counts[layer];
    const ffn_shape *f = &q->engine->model->layers[layer].ffn;
    double all = (double)c->rows * f->neuron_count;
    bool computes_all = (double)c->computed >= all, reads_all = (double)c->active >= all;
    double there = r.first * share_there(q, layer, computes_all) + r.others * share_there(q, layer, reads_all);
    return (side_bytes){r.first + r.others - there, there};
}

floor_answer floor_find(const floor_question *q)
{
    floor_answer a = {0};
    const hearth_engine *e = q->engine;
    const hearth_placement *p = e->placement;
    add(&a, q, on_one_side(q->scale * engine_first_reads(e), p->embedding == PLACEMENT_DEVICE), false);
    for (uint32_t i = 0; i < p->layer_count; i++) {
        layer_reads r = engine_layer_reads(e, i, &q->counts[i]);
        side_bytes neurons = divide_neurons(q, i, r);
        add(&a, q, on_one_side(q->scale * r.mixer, layer_uses_device(&p->layers[i])), false);
        add(&a, q, (side_bytes){q->scale * neurons.cpu, q->scale * neurons.device}, true);
    }
    for (unsigned side = 0; side < PLACEMENT_SIDES; side++) {
        bool there = side == PLACEMENT_DEVICE;
        double kept = q->positions * (double)engine_side_position_bytes(e, q->kv, there) +
                      (double)engine_side_state_bytes(e, there);
        add(&a, q, on_one_side(kept, there), false);
    }
    add(&a, q, on_one_side(q->scale * engine_last_reads(e), p->head == PLACEMENT_DEVICE), false);
    return a;
}
