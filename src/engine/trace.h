/* trace.h - when which side did what of a step, for tracers. */
#ifndef ENGINE_TRACE_H
#define ENGINE_TRACE_H

#include "engine.h"

/* Shows the session's tracer the slice that was computed last. */
void trace_slice(const hearth_session *s);

#endif
