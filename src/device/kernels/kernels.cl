/* kernels.cl - all kernels as one text: what compilers for CUDA are given, what kernels_host.c includes, and, with its
 * parts put in place, what kernels_source.c hands to compilers at run time. */
#include "portable.h"

#include "kernels.h"

#include "for_opencl.h"

#include "for_cuda.h"

#include "for_host.h"

#include "sums.h"

#include "formats.cl"

#include "products.cl"

#include "accumulate.cl"

#include "vectors.cl"

#include "attention.cl"

#include "neurons.cl"
