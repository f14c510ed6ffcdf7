/* fields.h - reads the members of a JSON object by a table, which says of each what it may be.
 *
 * A request is hostile until it has been read: what is in the record afterwards has the type and the range that its row
 * says, and every refusal names the member. Members without a row are ignored, as clients send many that mean nothing
 * here; null counts as absent. */
#ifndef SERVE_FIELDS_H
#define SERVE_FIELDS_H

#include "problem.h"

typedef enum field_kind {
    FIELD_BOOL,   /* bool                                                                   */
    FIELD_COUNT,  /* uint32_t within [least, most]                                          */
    FIELD_MAYBE,  /* field_count: the same, and whether it was given                        */
    FIELD_SEED,   /* field_seed: any integer; a negative one counts as not given            */
    FIELD_NUMBER, /* float within [least, most]                                             */
    FIELD_TEXT,   /* span, owned by the object; data NULL: absent                           */
    FIELD_JSON,   /* json_t *, owned by the object, of one of `types`; NULL: absent         */
    FIELD_FIXED,  /* nothing is stored: a feature that hearth lacks, and its only value     */
    FIELD_KIND_COUNT
} field_kind;

typedef struct field_count {
    bool given;
    uint32_t value;
} field_count;

typedef struct field_seed {
    bool given;
    uint64_t value;
} field_seed;

typedef struct field {
    const char *name;
    field_kind kind;
    size_t target;      /* offset in the record         */
    double least, most; /* of numbers                   */
    unsigned types;     /* of FIELD_JSON: FIELD_LIST ... */
    const char *only;   /* of FIELD_FIXED: the value as JSON that is accepted; NULL: null alone */
} field;

enum field_types { FIELD_LIST = 1, FIELD_OBJECT = 2, FIELD_STRING = 4 };

/* The columns that every row has; set others by name. */
#define FIELD_ROW(name_, kind_, record, field_) \
    .name = (name_), .kind = FIELD_##kind_, .target = offsetof(record, field_)

/* A table of rows, as the functions below take it. */
#define FIELDS(rows) rows, sizeof(rows) / sizeof *(rows)

/* Reads object (JSON's null: nothing is there) into the record, which holds the defaults. path: what the name is put
 * behind in errors, "stream_options."; "": nothing. false: *p says which member is wrong. */
bool fields_read(const field *rows, size_t count, const json_t *object, const char *path, void *record, problem *p);

/* Refuses a value, `name` of a request, that would hold more than 2 MB of memory: for what stays while a request waits. */
bool fields_check_size(const json_t *value, const char *name, problem *p);

#endif
