/* tool_demand.h - how an answer is made to call a tool: what it begins with, and the JSON that follows. */
#ifndef CHAT_TOOL_DEMAND_H
#define CHAT_TOOL_DEMAND_H

#include "tool_calls.h"

/* A zeroed one demands nothing. */
typedef struct tool_demand {
    buffer open;    /* stands at the end of the prompt, and tool_calls_push_control is told of it; may be empty */
    json_t *schema; /* what the answer is, up to its end; NULL: nothing is demanded                            */
} tool_demand;

/* Returns the name of a tool, as OpenAI's chat has it; data NULL: it has none. */
span tool_name(const json_t *tool);

/* Demands a call of one of the tools, as OpenAI's chat has them, each with a name; or of the one of that name (data NULL: any).
 * convention: NULL: none. HEARTH_UNSUPPORTED: in this convention calls cannot be demanded, or only of a single tool. */
hearth_status tool_demand_make(tool_demand *out, const struct tool_convention *convention, const json_t *tools,
                               span name, hearth_error *error);
void tool_demand_free(tool_demand *d);

#endif
