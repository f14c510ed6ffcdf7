/* scratch.h - the buffers of a session: how large each is, and where it lies in the one block that holds them all. */
#ifndef ENGINE_SCRATCH_H
#define ENGINE_SCRATCH_H

#include "engine.h"

/* Returns the columns of the widest matrix, masks of experts included; predictors are counted apart, in
 * widest_hidden. */
uint32_t scratch_widest_input(const hearth_model *m);

/* Returns the hidden units of the widest predictor; 0 if there is none. */
uint32_t scratch_widest_hidden(const hearth_engine *e);

/* Lists everything that a session allocates besides its cache and returns the bytes. If block is given, sets the
 * pointers into it. */
size_t scratch_lay_out(hearth_session *s, size_t threads, void *block);

#endif
