/* kernels_host_avx2.c - kernels_host.c compiled with AVX2, FMA and F16C (CMakeLists.txt sets these flags for files with
 * this ending). */
#define HOST_TABLE      host_table_avx2
#define HOST_TABLE_NAME "AVX2"
#include "kernels_host.c"
