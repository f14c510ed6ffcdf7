/* draft_session.h - a second, smaller model that guesses for the first (`--draft-model`). */
#ifndef CLI_DRAFT_SESSION_H
#define CLI_DRAFT_SESSION_H

#include "../base/error.h"

/* All NULL: there is none. */
typedef struct draft_session {
    hearth_model *model;
    hearth_engine *engine;
    hearth_session *session;
} draft_session;

/* Opens the model of a path on the CPU, with a session of one sequence. context: positions of the first model's; the
 * draft's is no longer than it was made for. After a failure draft_session_close frees what was opened. */
hearth_status draft_session_open(draft_session *out, hearth_runtime *runtime, const char *path, uint32_t context,
                                 hearth_error *error);
void draft_session_close(draft_session *d);

#endif
