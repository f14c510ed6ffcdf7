/* portable.h - what makes one text C for the host, OpenCL C, and CUDA C++ (nvcc, NVRTC, clang for NVPTX).
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
 * for_opencl.h, for_cuda.h and for_host.h say what these words mean where; each is empty for the other compilers. On
 * the host a group has one lane and barriers are nothing; what SIMD there is comes from float8 and from the wide sums
 * of sums.h, which hold eight values there and one elsewhere. Pointers carry GLOBAL or LOCAL; helpers are INLINE, and
 * what is constant where they are called (a format, a number of tokens) is folded away.
 *
 *     LANE LANES GROUP GROUPS    who am I            MOST_LANES      at most; for LOCAL_ARRAYs
 *     BARRIER()                  of a group          UNROLL          before a loop of constant length
 *     ONE_COPY                   like INLINE, kept    UNROLL_4        before another: on GPUs, four turns at once
 *                                small where that costs little       NO_UNROLL       never
 *     MANY_TOKENS                whose sums fit into registers, each with PRODUCT_ROWS rows
 *     EXP SQRT DIVIDE FMA RINT AS_UINT AS_FLOAT      arithmetic; DIVIDE and SQRT are correctly rounded
 *     half_value half_bits bfloat_value              16 bits to float and back (to nearest, ties to even)
 *     group_sums group_sum group_max group_sum_uint  over all lanes, the result in every lane */
#ifndef DEVICE_KERNELS_PORTABLE_H
#define DEVICE_KERNELS_PORTABLE_H

/* Who compiles this? */
#if defined(__OPENCL_VERSION__) || defined(__OPENCL_C_VERSION__)
#define ON_OPENCL 1
#elif defined(__CUDACC__) || defined(__CUDACC_RTC__) || defined(__CUDA__)
#define ON_CUDA 1
#else
#define ON_HOST 1
#endif

/* The others; and of kernels.h only what kernels need. */
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
