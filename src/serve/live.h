/* live.h - what the live view of the page shows: which share of each layer's neurons were active for the last tokens, where
 * they lie, what was read, and how fast that was. The thread that computes writes it, others read it. */
#ifndef SERVE_LIVE_H
#define SERVE_LIVE_H

#include "../base/error.h"
#include "../base/json.h"

typedef struct live live;

/* predicted: tokens per second of a single answer, by the plan; 0: there is none. NULL: no memory. */
live *live_create(const hearth_engine *engine, double predicted);
void live_destroy(live *l);

/* Takes what a session has counted since the last call. tokens: of all answers so far; answers: that are being written now.
 * Only the thread that feeds the session may call it. */
void live_note(live *l, const hearth_session *session, uint64_t tokens, size_t answers);

/* Returns how many neurons there were in layers that skip, counted for each token, and how many of these were active. */
void live_totals(live *l, uint64_t *neurons, uint64_t *active);

/* Returns the document that page/README.md describes. NULL: no memory. */
json_t *live_json(live *l);

#endif
