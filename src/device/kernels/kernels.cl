/* kernels.cl - all kernels as one source. CUDA compilers compile it at build time, kernels_host.c includes it, and
 * kernels_source.c contains it with all includes expanded, for compilation at run time. */
#include "portable.h"

#include "kernels.h"

#include "for_opencl.h"

#include "for_cuda.h"

#include "for_host.h"

#include "sums.h"

#include "formats.cl"

#include "products.cl"

#include "accumulate.cl"

#include "tiles.cl"

#include "vectors.cl"

#include "attention.cl"

#include "recurrent.cl"

#include "columns.cl"

#include "streams.cl"

#include "neurons.cl"

#include "choice.cl"

#include "summaries.cl"

#include "experts.cl"
