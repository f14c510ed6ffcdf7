/* schema_internal.h - what the files of the schema compiler share.
 *
 * A compiler walks a schema once. What $ref names becomes a rule, which is made after the walk that found it, so that a
 * long chain of references is no deep recursion. */
#ifndef GRAMMAR_SCHEMA_INTERNAL_H
#define GRAMMAR_SCHEMA_INTERNAL_H

#include "schema.h"

/* Types of JSON as bits. A number in a schema may be an integer; INTEGER alone means no other. */
enum {
    TYPE_NULL = 1,
    TYPE_BOOLEAN = 2,
    TYPE_INTEGER = 4,
    TYPE_NUMBER = 8,
    TYPE_STRING = 16,
    TYPE_ARRAY = 32,
    TYPE_OBJECT = 64,
    TYPE_ALL = 127
};

/* What a schema of somebody else's may have, as some of the work grows with the square of it. */
enum {
    SCHEMA_PATH_LIMIT = 512,         /* bytes of a place that is told in errors, and of a name in a $ref */
    SCHEMA_PROPERTY_LIMIT = 1024,    /* of an object, and of `required` */
    SCHEMA_REFERENCE_LIMIT = 4096,   /* different ones */
    SCHEMA_ALTERNATIVE_LIMIT = 32,   /* of oneOf; allOf may have as many, anyOf more */
    SCHEMA_COMPARISON_LIMIT = 65536, /* of values of two schemas, to know whether they exclude each other */
    SCHEMA_EFFORT_LIMIT = 1 << 21,   /* members that are copied or compared where schemas are combined    */
    SCHEMA_COPY_EFFORT = 64          /* so many does a copy count for, besides its members                */
};

/* A rule that a $ref asked for. */
typedef struct reference {
    const json_t *schema;
    uint32_t rule;
} reference;

typedef struct schema_compiler {
    grammar *g;
    const json_t *root;
    hearth_error *error;
    uint32_t depth;
    char path[SCHEMA_PATH_LIMIT]; /* a JSON pointer to the schema at hand, "#/properties/a" */
    reference *references;        /* [reference_count] */
    size_t reference_count, reference_capacity;
    size_t effort; /* so far, see SCHEMA_EFFORT_LIMIT */
    json_t *made;  /* an array of the schemas that were made by merging and are not compiled yet */
    /* Rules of JSON itself; GRAMMAR_NONE: not made yet. */
    uint32_t any, string, character, integer, number;
} schema_compiler;

/* Fails with the path, the keyword (NULL: none) and a text. */
hearth_status schema_fail(const schema_compiler *c, hearth_status status, const char *keyword, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Counts so many members that are copied or compared. HEARTH_UNSUPPORTED: they are too many in all. */
hearth_status schema_spend(schema_compiler *c, const char *keyword, size_t members);

/* Appends "/name", with ~ and / escaped, to the path; returns the size that it had, for schema_leave. What does not
 * fit is left out. */
size_t schema_enter(schema_compiler *c, const char *name);
size_t schema_enter_item(schema_compiler *c, size_t index);
void schema_leave(schema_compiler *c, size_t size);

/* Makes what a schema allows; in schema.c. */
hearth_status schema_value(schema_compiler *c, const json_t *schema, fragment *out);
/* Any JSON value. */
fragment schema_any(schema_compiler *c);
/* The text of a JSON value, written without blanks. */
hearth_status schema_constant(schema_compiler *c, const json_t *value, fragment *out);
/* Follows $ref to a schema that is none; NULL: it leads nowhere or in a circle. */
const json_t *schema_resolve(schema_compiler *c, const json_t *schema);
/* Reads a keyword's value, a count; *out is unchanged if the keyword is absent. */
hearth_status schema_count(const schema_compiler *c, const json_t *schema, const char *keyword, uint32_t *out);

/* A comma or colon with a blank behind it, or none. */
fragment schema_mark(schema_compiler *c, char mark);

/* Objects and arrays, in schema_containers.c. */
hearth_status schema_object(schema_compiler *c, const json_t *schema, fragment *out);
hearth_status schema_array(schema_compiler *c, const json_t *schema, fragment *out);
/* A string that is none of the keys [count]; without escapes, if there are any keys. In schema_keys.c. */
hearth_status schema_other_key(schema_compiler *c, const char *const *keys, size_t count, fragment *out);

/* Strings, in schema_string.c. */
hearth_status schema_string(schema_compiler *c, const json_t *schema, fragment *out);
/* One character of a string as JSON writes it, out of the ranges [count], which do not overlap; control characters only
 * where there is a short escape for them. */
fragment schema_characters(schema_compiler *c, const character_range *ranges, size_t count);
fragment schema_any_character(schema_compiler *c);
/* What stands between the quotes of a string that matches a regular expression; in schema_pattern.c. keyword: for
 * errors. */
hearth_status schema_pattern(schema_compiler *c, const char *keyword, span pattern, fragment *out);

/* Numbers, in schema_number.c; integers only, or all. */
hearth_status schema_number(schema_compiler *c, const json_t *schema, bool integer, fragment *out);

/* Whether no value that the grammar of one of two schemas allows is allowed by the other; false if it is not known.
 * In schema_combine.c. */
bool schema_excludes(schema_compiler *c, const json_t *a, const json_t *b);
/* Makes one schema that means that both hold; *out is owned by the compiler. */
hearth_status schema_merge(schema_compiler *c, const json_t *a, const json_t *b, json_t **out);
/* The types that a schema asks for, also by const, enum and by keywords that belong to types. */
unsigned schema_types(const json_t *schema);
/* Returns whether a member of a schema changes nothing: a title, or what nobody knows. */
bool schema_is_note(const char *name, const json_t *value);
/* Returns whether a format is a note: a name that stands for no pattern here, such as OpenAPI's int32. */
bool schema_format_is_note(const json_t *value);

#endif
