/* fake_ptx.h - runs PTX on the CPU, so that the kernels for NVIDIA's devices can be tested where there is none: warps of 32
 * lanes in lockstep, which part at branches and join again, barriers, shuffles, products of matrices by a warp, shared and local memory. It knows the
 * instructions that compilers make of hearth's kernels, and those that are written by hand; it says which it does not know.
 *
 * It reports what a device would leave undefined: shared memory that two lanes use with no barrier in between, shuffles with lanes
 * that are elsewhere, barriers that some lanes never reach. Memory of the device is the process's own, so AddressSanitizer sees
 * what lies beyond a buffer. ex2.approx is exp2f: what is said about its error is not tested here. */
#ifndef TESTS_FAKE_PTX_H
#define TESTS_FAKE_PTX_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ptx_module ptx_module;

enum { PTX_PROBLEM = 200 };

/* Parses a module. NULL: it cannot; the problem is said. Freed with ptx_free. */
ptx_module *ptx_parse(const char *text, char problem[PTX_PROBLEM]);
void ptx_free(ptx_module *m);

/* Returns where the memory is that a device's address means. */
typedef void *ptx_memory(uint64_t address);

/* Runs `groups` blocks of `lanes` threads of an entry, one after the other. parameters: one word each. Returns false if that has a
 * problem, which is said. Different threads may run the same module. */
bool ptx_run(ptx_module *m, const char *entry, unsigned groups, unsigned lanes, const uint64_t *parameters,
             ptx_memory *memory, char problem[PTX_PROBLEM]);

#endif
