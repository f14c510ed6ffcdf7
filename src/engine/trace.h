/* trace.h - when which side did what of a step, for tracers. */
#ifndef ENGINE_TRACE_H
#define ENGINE_TRACE_H

#include "engine.h"

/* Shows the session's tracer the batch that was computed last. */
void trace_batch(const hearth_session *s);

#endif
