/* floor.h - the least time that a token takes: that in which memory brings what it reads.
 *
 * Layers follow one another, so their times add up. Where both sides have neurons of a layer they read at the same time, and the
 * slower one counts. Main memory has one rate, the device's memory another. */
#ifndef EVAL_FLOOR_H
#define EVAL_FLOOR_H

#include "../engine/engine.h"

typedef struct floor_question {
    const hearth_engine *engine;
    const hearth_counts *counts, *device_counts; /* [layer_count] of the tokens, and of these the device's own     */
    double scale;     /* of weights: below 1 where several sequences share what is read             */
    double positions; /* cached, whose keys and values the token reads                              */
    hearth_kv kv;
    double cpu_rate, device_rate; /* bytes per second; device_rate 0: not known                                 */
} floor_question;

typedef struct floor_answer {
    double seconds;      /* NAN: something lies on the device, whose rate is not known */
    double device_bytes; /* that a token reads from the device's memory                */
} floor_answer;

floor_answer floor_find(const floor_question *q);

#endif
