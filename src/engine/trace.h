/* trace.h - reports to tracers when each side did what in a step. */
#ifndef ENGINE_TRACE_H
#define ENGINE_TRACE_H

#include "engine.h"

/* Reports the last batch to the tracer of the session. */
void trace_batch(const hearth_session *s);

#endif
