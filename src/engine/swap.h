/* swap.h - exchanges neurons between the sides of an engine that runs. */
#ifndef ENGINE_SWAP_H
#define ENGINE_SWAP_H

#include "engine.h"

/* Returns whether neurons of a layer can change sides: both sides have some, it skips those that are not active, and they belong
 * to no experts. */
bool engine_swaps(const hearth_engine *e, uint32_t layer);

/* Puts the neuron of row `enter`, which the CPU computes, to `place` among the device's neurons; the one that was there becomes
 * the CPU's. The two change in one moment for all who compute: needs the device lock, which a step of both sides holds. Adds
 * the bytes copied to *bytes.
 * HEARTH_DEVICE, HEARTH_NO_MEMORY: both stay where they were. Where not even the old rows could be written back, the next step
 * tries it again, and fails if it cannot. */
hearth_status engine_swap(const hearth_engine *e, uint32_t layer, uint32_t place, uint32_t enter, uint64_t *bytes,
                          hearth_error *error);

#endif
