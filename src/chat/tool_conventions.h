/* tool_conventions.h - how families of models write calls of tools: a row for each, read by tool_calls.c. */
#ifndef CHAT_TOOL_CONVENTIONS_H
#define CHAT_TOOL_CONVENTIONS_H

#include "../base/json.h"

#define TOOL_MARK_COUNT 4

/* Where a mark counts. */
typedef enum tool_mark_place {
    TOOL_MARK_NONE,
    TOOL_MARK_ANYWHERE,
    TOOL_MARK_AT_START,   /* nothing but white space came before                 */
    TOOL_MARK_AFTER_CALL, /* nothing but white space since a call: it is dropped */
} tool_mark_place;

typedef struct tool_mark {
    const char *text; /* a space stands for up to TOOL_MARK_WHITE bytes of white space, or none */
    tool_mark_place place;
    bool in_body; /* the call's own text begins with it, not behind it */
} tool_mark;

#define TOOL_MARK_WHITE 8

typedef enum tool_end {
    TOOL_END_MARK,    /* a call ends with `close`                   */
    TOOL_END_BRACKET, /* with the bracket that closes its first one */
    TOOL_END_ANSWER,  /* with the answer                            */
} tool_end;

typedef enum tool_reading { TOOL_READ, TOOL_BROKEN, TOOL_NO_MEMORY } tool_reading;

struct tool_convention;

/* Appends the calls in a text, without its marks, to a list of {"name", "arguments"}. tools: what the request offers; NULL:
 * nothing is known of it. BROKEN: the text is no call, or one of several is none; what was appended counts for nothing. */
typedef tool_reading tool_reader(const struct tool_convention *c, span body, const json_t *tools, json_t *out);

/* Marks of calls whose arguments stand one by one: NAME key_open KEY key_close ... value_open VALUE value_close ... */
typedef struct tool_tags {
    const char *key_open, *key_close, *value_open, *value_close;
    bool is_padded; /* a line break before and behind each value is not part of it */
} tool_tags;

/* How a call is demanded of a model (tool_demand.h): what stands before it, and then JSON: an object with a name and a member
 * `arguments`, or a list of one; or the name, json_open and the arguments alone. open NULL: it cannot be. */
typedef struct tool_demand_form {
    const char *open, *arguments;
    bool is_list;
} tool_demand_form;

typedef struct tool_convention {
    const char *name;
    const char *evidence[2]; /* what all stands in the source of its templates */
    tool_mark marks[TOOL_MARK_COUNT];
    tool_end end;
    const char *close; /* of TOOL_END_MARK; does not count within quotes */
    tool_reader *read;
    const char *json_open; /* between a name and its arguments in JSON; NULL: all is JSON, or there is none */
    const tool_tags *tags; /* NULL: arguments are an object                                                */
    const char *quote;     /* before and behind a string; NULL: strings are JSON's                          */
    bool in_thoughts;      /* its marks count within thoughts, too                                          */
    tool_demand_form demand;
} tool_convention;

/* Readers, in tool_bodies.c: objects in JSON or a list of them; a name and an object; a name and tags; a name and elements that
 * may have elements, whose marks have the key, too: key_open KEY key_close VALUE value_close KEY key_close; a name and an object whose
 * keys are bare. */
tool_reader tool_read_objects, tool_read_named, tool_read_tagged, tool_read_nested, tool_read_bare;

/* Returns true for bytes of names of tools. */
bool tool_name_byte(char c);

#endif
