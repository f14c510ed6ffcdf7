/* neuron_neon.c - neuron-major networks: adds up rows of neurons (neuron.h), with 32 columns in registers. Selecting
 * and transposing are left to the scalar kernels, for which compilers use NEON by themselves. */
#include "decode_neon.h"

#define TILE_COLUMNS 32
#define PAIRS        false

/* NaN is not zero. */
ALWAYS_INLINE unsigned not_zero(vector v)
{
    const uint32x4_t bits = {1, 2, 4, 8};
    uint32x4_t low = vbicq_u32(bits, vceqzq_f32(v.low)), high = vbicq_u32(bits, vceqzq_f32(v.high));
    return vaddvq_u32(low) | vaddvq_u32(high) << 4;
}

#include "neuron.h"

WEIGHT_DECODERS(NEURON_KERNELS, neon)

const kernels neon_neurons = {
    .accumulate = {WEIGHT_DECODERS(ACCUMULATE, neon)},
    .accumulate_many = {WEIGHT_DECODERS(ACCUMULATE_MANY, neon)},
};
