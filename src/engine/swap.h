/* swap.h - exchanges neurons between the sides of an engine that runs. */
#ifndef ENGINE_SWAP_H
#define ENGINE_SWAP_H

#include "engine.h"

/* Returns whether neurons of a layer can change sides one by one: both sides have some, it skips those that are not active, and
 * they belong to no experts. */
bool engine_swaps(const hearth_engine *e, uint32_t layer);

/* Where an expert's neurons are. */
typedef enum expert_side { EXPERT_ON_CPU, EXPERT_ON_DEVICE, EXPERT_ON_BOTH } expert_side;

/* Returns whether whole experts of a layer can change sides: each side has some. */
bool engine_swaps_experts(const hearth_engine *e, uint32_t layer);
/* Of such a layer. expert: one that the router chooses. */
expert_side engine_expert_side(const hearth_engine *e, uint32_t layer, uint32_t expert);

/* Puts the neuron of row `enter`, which the CPU computes, to `place` among the device's neurons; the one that was there becomes
 * the CPU's. The two change in one moment for all who compute: needs the device lock, which a step of both sides holds. Adds
 * the bytes copied to *bytes.
 * HEARTH_DEVICE, HEARTH_NO_MEMORY: both stay where they were. Where not even the old rows could be written back, the next step
 * tries it again, and fails if it cannot. */
hearth_status engine_swap(const hearth_engine *e, uint32_t layer, uint32_t place, uint32_t enter, uint64_t *bytes,
                          hearth_error *error);

/* The same for whole experts: `enter`, which is the CPU's, takes the places of `leave`, which is the device's. */
hearth_status engine_swap_expert(const hearth_engine *e, uint32_t layer, uint32_t leave, uint32_t enter,
                                 uint64_t *bytes, hearth_error *error);

#endif
