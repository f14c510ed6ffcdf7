/* race.h - engines of one model by turns: what the feed-forward network of each layer takes. The text is the corpus's own,
 * for made-up tokens would fire other neurons. */
#ifndef LEARN_RACE_H
#define LEARN_RACE_H

#include "../base/error.h"

#include <stddef.h>
#include <stdint.h>

/* Tokens that count, at most; a run ends sooner after RACE_SECONDS, but not before RACE_LEAST. */
#define RACE_TOKENS  64
#define RACE_LEAST   9
#define RACE_SECONDS 3.0

/* Decodes ids [count] one by one on all engines in turns, so that a neighbour of the machine disturbs them alike.
 * seconds [engines][layers]: medians. HEARTH_CANCELLED through progress. */
hearth_status race_measure(double *seconds, const hearth_engine *const *engines, size_t engine_count,
                           const int32_t *ids, size_t count, hearth_progress progress, hearth_error *error);

#endif
