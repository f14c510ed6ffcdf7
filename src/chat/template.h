/* template.h - chat templates: renders a conversation as the text a model was trained on.
 *
 * Published templates are written in Jinja2 for transformers' apply_chat_template(); this is an interpreter of what they
 * use, with the output of Jinja2 3.1 in its settings: trim_blocks, lstrip_blocks, break and continue, tojson without HTML
 * escapes, raise_exception, strftime_now, and a sandbox in which nothing changes a value. What differs is listed in
 * docs/formats.md; what it cannot run is an error with its line, never another text. */
#ifndef CHAT_TEMPLATE_H
#define CHAT_TEMPLATE_H

#include "../base/json.h"

#include <time.h>

/* Bytes of the longest source. */
#define TEMPLATE_LIMIT ((size_t)1 << 20)

typedef struct template template;

/* Parses a template. name: begins its errors; copied. HEARTH_FORMAT: it is no template, with the line.
 * HEARTH_UNSUPPORTED: a statement that hearth lacks. HEARTH_NO_MEMORY. */
hearth_status template_create(template **out, span source, const char *name, hearth_error *error);
void template_destroy(template *t);

/* Renders with the members of a JSON object as variables, and appends the text (valid UTF-8) to `out`, unless it fails.
 * now: the local time that strftime_now gives. Any number of renderings may run at once.
 * HEARTH_INVALID: the template refuses the conversation (raise_exception) or cannot go on with it, or goes beyond the
 * bounds of rendering.h. HEARTH_UNSUPPORTED: a filter, test or number that hearth lacks. HEARTH_NO_MEMORY. */
hearth_status template_render(const template *t, const json_t *variables, const struct tm *now, buffer *out,
                              hearth_error *error);

#endif
