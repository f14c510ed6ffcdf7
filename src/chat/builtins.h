/* builtins.h - filters, tests, functions and methods: each a row of a table. */
#ifndef CHAT_BUILTINS_H
#define CHAT_BUILTINS_H

#include "evaluate.h"

#define PARAMETERS_LIMIT 6

/* A call with its arguments sorted out. */
typedef struct call {
    const char *name;                   /* of the function, for errors                              */
    value subject;                      /* of a filter, test or method                              */
    value parameters[PARAMETERS_LIMIT]; /* in the order of the row; VALUE_ABSENT where not given   */
    const arguments *all;               /* as they were given, for rows that take any               */
} call;

typedef struct function {
    const char *name;
    const char *parameters; /* names with blanks between; "?" behind those that may be left out; "*": takes any */
    hearth_status (*run)(rendering *r, const call *c, value *out);
} function;

/* A method with the value it is of. */
typedef struct method {
    const function *function;
    value self;
} method;

/* Return the row of a name; NULL: there is none. */
const function *filter_find(span name);
const function *test_find(span name);
const function *global_find(span name);
const function *method_find(const value *of, span name);

/* Return the rows one by one, for the documentation; NULL: no more. `kind` of a method: that of its values. */
const function *filter_at(size_t index);
const function *test_at(size_t index);
const function *global_at(size_t index);
const function *method_at(size_t index, value_kind *kind);

/* Calls a function. HEARTH_INVALID: the arguments are not those it takes; or as the function. */
hearth_status function_call(rendering *r, const function *f, const value *subject, const arguments *a, value *out);

/* Sort out one parameter. HEARTH_INVALID: it has another kind. */
hearth_status call_text(rendering *r, const call *c, size_t index, const char *fallback, span *out);
hearth_status call_integer(rendering *r, const call *c, size_t index, int64_t fallback, int64_t *out);
bool call_flag(const call *c, size_t index, bool fallback);

#endif
