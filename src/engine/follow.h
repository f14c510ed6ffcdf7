/* follow.h - hot sets that live: counts which neurons are active on both sides of an engine, and which experts are chosen, and
 * lets the ones that became hot and the ones that became cold change sides (hot_set.h, swap.h) while it computes.
 *
 * The device counts its own neurons by a kernel per layer, the CPU in its lists; experts are counted by what the router chose,
 * which the CPU knows. Every FOLLOW_TOKENS tokens all is put together, and each layer lists who should change; in this and the
 * next steps they do, at most so many a layer and token, after the step, while the device is idle and locked. All is decided by counts, so that the same tokens in the same steps give
 * the same sets. */
#ifndef ENGINE_FOLLOW_H
#define ENGINE_FOLLOW_H

#include "engine.h"
#include "hot_set.h"

#define FOLLOW_TOKENS 16

typedef struct hot_follower hot_follower;
struct ffn_job;

void follow_destroy(hot_follower *f);

/* Of sessions whose steps count (device_step_tallies): counts the activations of the CPU's neurons in a layer that both sides computed. */
void follow_count(const hearth_engine *e, uint32_t layer, const struct ffn_job *job);
/* Counts the experts that `count` tokens chose in such a layer. shares [count][expert_count]: 0 of those that one did not. */
void follow_count_experts(const hearth_engine *e, uint32_t layer, const float *shares, size_t count);

/* Ends a step of both sides: looks, and lets neurons change sides within the budget. reads_prompt: some of its rows were those
 * of a prompt. A device that fails is left to the next step to tell; from then on nothing changes. */
void follow_step(const hearth_engine *e, size_t count, bool reads_prompt);

/* Ends a step that was given up, in which the device has counted what means nothing: nobody counts what was seen since the last
 * look. */
void follow_give_up(const hearth_engine *e);

#endif
