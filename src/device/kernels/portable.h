/* portable.h - lets one source compile as C for the host, OpenCL C, and CUDA C++ (nvcc, NVRTC, clang for NVPTX).
 *
 * A kernel is written for one *lane*. LANES lanes form a group and share its items; GROUPS groups share all items:
 *
 *     KERNEL(name, P_NAME)
 *     {
 *         LOCAL_ARRAY(float, scratch, GROUP_SCRATCH);            -- of the group; outermost scope of the kernel only
 *         for (uint item = GROUP; item < items; item += GROUPS)  -- the same for all lanes of a group
 *             for (uint i = LANE; i < n; i += LANES)
 *                 ...
 *     }
 *
 * for_opencl.h, for_cuda.h and for_host.h define these macros; each is empty for the other compilers. On the host a
 * group has one lane and barriers do nothing; SIMD there comes from float8 and from the wide sums of sums.h, which hold
 * eight values on the host and one elsewhere. Pointers carry GLOBAL or LOCAL. Helpers are INLINE, so that the compiler
 * folds their constant arguments (a format, a number of tokens).
 *
 *     LANE LANES GROUP GROUPS    the index and number of lanes and groups
 *     MOST_LANES                 an upper bound of LANES, for LOCAL_ARRAYs
 *     BARRIER()                  waits for all lanes of a group
 *     TEAM TEAMS TEAM_LANE TEAM_LANES                which team of a group, and lane of it (sums.h)
 *     ONE_COPY                   a function that is not inlined on CUDA, to keep the code small; else like INLINE
 *     UNROLL                     before a loop of constant length
 *     UNROLL_4                   before any other loop: unrolled four times on GPUs
 *     NO_UNROLL                  before a loop that shall not be unrolled
 *     MANY_TOKENS                tokens whose sums, for PRODUCT_ROWS rows each, fit into registers
 *     EXP SQRT DIVIDE FMA RINT AS_UINT AS_FLOAT      arithmetic; DIVIDE and SQRT are correctly rounded
 *     half_value half_bits bfloat_value              16 bits to float and back (to nearest, ties to even)
 *     group_sums group_sum group_max group_sum_uint  over all lanes; every lane gets the result */
#ifndef DEVICE_KERNELS_PORTABLE_H
#define DEVICE_KERNELS_PORTABLE_H

/* Finds out which compiler this is. */
#if defined(__OPENCL_VERSION__) || defined(__OPENCL_C_VERSION__)
#define ON_OPENCL 1
#elif defined(__CUDACC__) || defined(__CUDACC_RTC__) || defined(__CUDA__)
#define ON_CUDA 1
#else
#define ON_HOST 1
#endif

/* Defines the other two as 0. DEVICE_KERNEL_SOURCE hides the declarations of kernels.h that are for C code. */
#ifndef ON_OPENCL
#define ON_OPENCL 0
#endif
#ifndef ON_CUDA
#define ON_CUDA 0
#endif
#ifndef ON_HOST
#define ON_HOST 0
#define DEVICE_KERNEL_SOURCE
#endif

#endif
