/* neuron_avx512vbmi.c - adds up rows in Q6_K: VBMI widens their bytes with one instruction where BW needs two
 * (widen_part). Other formats gain nothing. */
#define WITH_VBMI
#include "neuron_avx512.h"

NEURON_KERNELS(avx512vbmi, Q6_K, q6_k, scales_q6_k)

const kernels avx512vbmi_neurons = {
    .accumulate = {[FORMAT_Q6_K] = accumulate_q6_k_avx512vbmi},
    .accumulate_many = {[FORMAT_Q6_K] = accumulate_many_q6_k_avx512vbmi},
};
