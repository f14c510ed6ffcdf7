/* recall.h - holds the recall of predictors while tokens are computed.
 *
 * Recall is the share of the active neurons that a predictor lets through. Its threshold was chosen on a corpus; on another
 * text it lets through more or less than that promised. So one in RECALL_EVERY of the neurons that it rejects is computed all
 * the same, another one with every token: what is found active there, RECALL_EVERY times, is what was missed on average.
 * After each feed the threshold of the layer moves by the difference to the target. The sum of all moves is the sum of all
 * differences, so over a long text the mean recall is the target wherever the threshold begins (an integral controller; with
 * a step of fixed size, stochastic approximation after Robbins and Monro, 1951).
 *
 * All of it belongs to a session and follows from counts alone: the same feeds give the same results. */
#ifndef ENGINE_RECALL_H
#define ENGINE_RECALL_H

#include "placement.h"

struct ffn_job;
struct ffn_part;

/* Neurons among which one is probed. */
#define RECALL_EVERY 32

typedef struct recall_layer {
    double target;
    float threshold; /* in force                                                                            */
    bool widens;     /* a larger threshold lets through more: that of a coarse copy                         */
    double unit;   /* what thresholds are measured in: 1 for coarse copies, whose margins are deviations of their error;
                             for others the mean distance of those let through rightly from the threshold */
    double active; /* mean number of active neurons of a row, by the same estimate                        */
    uint64_t rows; /* that were learnt from                                                               */
    uint64_t found, missed; /* in these: active neurons that were let through, and active ones among those probed */
    /* of the rows of the feed in progress: */
    uint64_t found_now, missed_now;
    double distance; /* sum over those found of the distance of their score from the threshold */
} recall_layer;

/* Lets those neurons pass that are probed: sets their scores to infinity. scores: of the neurons of a part, [count][f] as
 * multiply_part lays them out. */
void recall_probe(const struct ffn_job *job, const struct ffn_part *v, float *scores);

/* Counts what a job has found and missed; its activations must still be there. */
void recall_count(const struct ffn_job *job);

/* Moves the threshold after `rows` rows. */
void recall_learn(recall_layer *r, size_t rows);

#endif
