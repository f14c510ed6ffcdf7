/* schema.h - makes a grammar of a JSON schema: every text of the grammar is JSON that the schema allows.
 *
 * The reverse does not hold: of what a schema allows, the grammar has one way of writing, which is enough for who
 * writes. Objects have the properties that are listed, in that order, and others only where additionalProperties asks
 * for it; a blank may come behind , and : and nowhere else, so that an answer cannot go on with blanks; integers have
 * at most 18 digits, other numbers as many behind the point and an exponent of two; strings have no \u0000. README.md
 * lists the keywords. What is not understood is refused with its place in the schema (a JSON pointer) and its
 * keyword. */
#ifndef GRAMMAR_SCHEMA_H
#define GRAMMAR_SCHEMA_H

#include "../base/json.h"
#include "grammar.h"

/* HEARTH_FORMAT: not a schema, or none that any value fits. HEARTH_UNSUPPORTED: a keyword or combination that hearth
 * does not know, or too large or too deep. */
hearth_status schema_compile(grammar **out, const json_t *schema, hearth_error *error);
/* The same of a text. */
hearth_status schema_parse(grammar **out, span text, hearth_error *error);

#endif
