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
    if (b.device > 0)
        there = q->device_rate > 0 ? b.device / q->device_rate : (double)NAN;
    a->device_bytes += b.device;
    a->seconds += !together || isnan(there) ? here + there : fmax(here, there);
}

static side_bytes on_one_side(double bytes, bool on_device)
{
    return (side_bytes){.cpu = on_device ? 0 : bytes, .device = on_device ? bytes : 0};
}

/* Divides what a layer reads of its neurons between the sides: of the first matrix by those that each computed, of the others by
 * those that were active there. */
static side_bytes divide_neurons(const floor_question *q, uint32_t layer, layer_reads r)
{
    const hearth_counts *all = &q->counts[layer], *device_own = &q->device_counts[layer];
    double there = 0;
    if (all->computed > 0)
        there += r.first * (double)device_own->computed / (double)all->computed;
    if (all->active > 0)
        there += r.others * (double)device_own->active / (double)all->active;
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
        double kept = engine_side_reads_kept(e, q->kv, q->positions, there);
        add(&a, q, on_one_side(kept, there), false);
    }
    add(&a, q, on_one_side(q->scale * engine_last_reads(e), p->head == PLACEMENT_DEVICE), false);
    return a;
}
