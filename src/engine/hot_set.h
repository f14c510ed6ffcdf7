/* hot_set.h - which units of a layer should be on the device, by how often they were active lately. A unit is a neuron, or an
 * expert, which is active where the router chooses it.
 *
 * A unit's score is the number of tokens in which it was active, where a token counts half after HOT_HALF_LIFE more. For a
 * unit that is active with probability p it lies around p * HOT_TOKENS, with a variance of at most half of that: so two
 * units change places only where their scores differ by more than HOT_DEVIATIONS standard deviations of the difference,
 * and chance alone seldom moves one. This is arithmetic alone and knows neither engines nor devices; the same counts give
 * the same swaps. */
#ifndef ENGINE_HOT_SET_H
#define ENGINE_HOT_SET_H

#include "../base/error.h"

/* Tokens after which one counts half; the sum of what all tokens count, 1 / (1 - 2^(-1 / HOT_HALF_LIFE)). */
#define HOT_HALF_LIFE 64
#define HOT_TOKENS    92.83F
/* Standard deviations that chance is allowed. */
#define HOT_DEVIATIONS 2.0F
/* Before so many tokens nothing is known. */
#define HOT_LEAST_TOKENS 32

typedef struct hot_set {
    uint32_t unit_count;
    float *score;           /* [unit_count]                                                     */
    uint32_t *fired;        /* [unit_count] tokens in which it was active since the last look    */
    uint8_t *moved;         /* [unit_count] 1: it changed sides since the last look             */
    uint64_t pending, seen; /* tokens since the last look; in all looks                    */
} hot_set;

/* HEARTH_NO_MEMORY. */
hearth_status hot_set_create(hot_set *h, uint32_t unit_count, hearth_error *error);
void hot_set_destroy(hot_set *h);

/* Adds what was seen since the last look to the scores. What was counted of a unit that changed sides meanwhile is in part
 * another one's, so its score stays as it is. */
void hot_set_look(hot_set *h);

/* Forgets what was seen since the last look. */
void hot_set_forget(hot_set *h);

/* Lists who should change places, the clearest case first: the coldest unit of the device with the hottest of the CPU, and
 * so on, while the difference is more than chance. device [device_count], cpu [cpu_count]: the units of each side, in any
 * order. leave, enter [most]: room for the units that leave the device, and for those that take their places; returns how
 * many change. */
size_t hot_set_choose(const hot_set *h, const uint32_t *device, size_t device_count, const uint32_t *cpu,
                      size_t cpu_count, size_t most, uint32_t *leave, uint32_t *enter);

#endif
