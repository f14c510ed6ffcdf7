/* kernels_host_avx2.c - kernels_host.c once more, with AVX2, FMA and F16C (the build gives files of this name the
 * flags). */
#define HOST_TABLE      host_table_avx2
#define HOST_TABLE_NAME "AVX2"
#include "kernels_host.c"
