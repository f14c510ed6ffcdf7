/* statement.h - runs the statements of a template. */
#ifndef CHAT_STATEMENT_H
#define CHAT_STATEMENT_H

#include "evaluate.h"

/* Runs a template's statements in a frame; what they print goes to r->out. HEARTH_INVALID: what the template cannot do
 * with these values, what it refuses by raise_exception, or a bound. HEARTH_UNSUPPORTED: a filter or test that is not
 * known, an integer of more than 64 bits. HEARTH_NO_MEMORY. */
hearth_status run_statements(rendering *r, frame *f, const node_list *body);

#endif
