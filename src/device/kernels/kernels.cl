/* kernels.cl - all kernels as one text: what compilers for CUDA are given, what kernels_host.c includes, and, with its
 * parts put in place, what kernels_source.c hands to compilers at run time. */
#if defined(__OPENCL_VERSION__) || defined(__OPENCL_C_VERSION__) || defined(__CUDACC__) || defined(__CUDACC_RTC__) || defined(__CUDA__)
#define DEVICE_KERNEL_SOURCE
#endif
#include "kernels.h"

#include "portable.h"

#include "formats.cl"

#include "products.cl"

#include "accumulate.cl"

#include "vectors.cl"

#include "attention.cl"

#include "neurons.cl"
