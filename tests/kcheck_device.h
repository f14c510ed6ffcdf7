/* kcheck_device.h - what the checks of devices' kernels share: buffers with guards, and running one kernel.
 *
 * Everything that goes wrong with the device itself (no memory, a lost device) ends the program: there is nothing to
 * compare then. */
#ifndef TESTS_KCHECK_DEVICE_H
#define TESTS_KCHECK_DEVICE_H

#include "../src/device/device.h"
#include "kcheck.h"

/* A piece of a device's memory with guard bytes around it. */
typedef struct room {
    device_buffer *buffer;
    size_t size, behind; /* bytes of the piece and of the guard behind it (every other room has none, so that what
                            reads beyond its end is seen by AddressSanitizer on the host device)               */
} room;

/* content: size bytes, or NULL for the guards' pattern (as floats: a NaN). size may be 0. */
room room_new(device *d, const void *content, size_t size);
void room_free(room *r);
/* The room as a kernel's argument. */
device_argument room_of(const room *r);
/* Copies the piece to out (NULL: only looks at the guards, which must be untouched). */
void room_read(check *c, const room *r, void *out);

/* Runs one kernel over its items and waits for it. arguments[0] must be the step. Counts the kernel as run. */
void device_do(check *c, device *d, device_kernel kernel, size_t items, const device_argument *arguments, size_t count);
#define DEVICE_DO(c, d, kernel, items, ...)                                \
    device_do(c, d, kernel, items, (const device_argument[]){__VA_ARGS__}, \
              sizeof((const device_argument[]){__VA_ARGS__}) / sizeof(device_argument))

/* count, sequence, position, token as given (NULL: zeros). */
room step_new(device *d, uint32_t count, const uint32_t *sequence, const uint32_t *position, const uint32_t *token);
/* What step_new makes of a row's position for its score_gain. */
float step_gain(uint32_t position);

/* calloc that does not fail. */
void *array_new(size_t count, size_t size);

/* Opens every device there is, holds all kernels against their definitions, and returns how many comparisons failed.
 * only: NULL, or the beginning of the spec of the devices to check. */
size_t check_devices(const char *only, uint64_t seed);

/* Parts: each checks some kernels of one device. */
void check_device_products(check *c, device *d, uint64_t seed);
void check_device_vectors(check *c, device *d, uint64_t seed);

/* The most rows of a step that is checked: some tiles of all kernels for long steps, and not PROMPT_ROWS, which would take longer
 * and show no more. */
#define CHECKED_ROWS 128
_Static_assert(CHECKED_ROWS <= PROMPT_ROWS && CHECKED_ROWS >= 4 * TILE_TOKENS, "a step of some tiles");

/* The rows of a step: of a short one, or in every fourth case of a long one. */
static inline uint32_t some_rows(uint64_t *rng)
{
    return 1 + (uint32_t)random_below(rng, random_below(rng, 4) ? STEP_ROWS : CHECKED_ROWS);
}

#endif
