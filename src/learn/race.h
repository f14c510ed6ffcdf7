/* race.h - times the feed-forward network of each layer on several engines of one model, in turns. The text is the
 * corpus's own: made-up tokens would fire other neurons. */
#ifndef LEARN_RACE_H
#define LEARN_RACE_H

#include "../base/error.h"

#include <stddef.h>
#include <stdint.h>

/* Most tokens that are timed; a run ends earlier after RACE_SECONDS, but not before RACE_LEAST tokens. */
#define RACE_TOKENS  64
#define RACE_LEAST   9
#define RACE_SECONDS 3.0

/* Decodes ids [count] one by one on all engines in turns, so that other load on the
 * machine disturbs them alike; the first token only warms up. seconds [engines][layers]:
 * medians; 0 where no token was timed. HEARTH_CANCELLED through progress. */
hearth_status race_measure(double *seconds, const hearth_engine *const *engines, size_t engine_count,
                           const int32_t *ids, size_t count, hearth_progress progress, hearth_error *error);

#endif
