/* kernels_host.c - the kernels compiled as C for the host device, and the table of them.
 *
 * It is compiled twice: by itself for any CPU, and from kernels_host_avx2.c with AVX2. A group has one lane here; the
 * driver decides how many groups there are and which thread runs each. */
#include "host_table.h"

#ifndef HOST_TABLE
#define HOST_TABLE      host_table_c
#define HOST_TABLE_NAME "C"
#endif

/* Only functions that are always inlined pass vectors of eight floats, so their ABI does not matter. */
#pragma GCC diagnostic ignored "-Wpsabi"
#include "kernels.cl"

/* Returns the address of a buffer argument; NULL if it has no buffer. */
static void *address_of(const device_argument *argument)
{
    return argument->buffer ? (char *)argument->buffer->host + argument->offset : NULL;
}

/* Defines a wrapper for each kernel, which takes the arguments from the list one by one and passes them on. */
#define TAKE_B(type, name) type *name = address_of(argument++);
#define TAKE_V(name)       uint name = (argument++)->u;
#define TAKE_F(name)       float name = (argument++)->f;
#define PASS_B(type, name) name,
#define PASS_1(name)       name,
#define X(name, PARAMETERS, taker)                                                            \
    static void host_##name(const device_argument *argument, uint32_t group, uint32_t groups) \
    {                                                                                         \
        const step_record *step = address_of(argument++);                                     \
        PARAMETERS(TAKE_B, TAKE_V, TAKE_F)                                                    \
        kernel_##name(step, PARAMETERS(PASS_B, PASS_1, PASS_1) group, groups);                \
    }
DEVICE_KERNELS(X)
#undef X

const host_table HOST_TABLE = {
    .name = HOST_TABLE_NAME,
    .run =
        {
#define X(name, PARAMETERS, taker) [DEVICE_##name] = host_##name,
            DEVICE_KERNELS(X)
#undef X
        },
};
