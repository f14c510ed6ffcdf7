/* tally.h - what the tokens of a run took, beside what its plan predicted. */
#ifndef PLAN_TALLY_H
#define PLAN_TALLY_H

#include "planned.h"

/* Parts that a run can tell apart: name in JSON, for people. */
// clang-format off
#define TALLY_PART_LIST(X)                                                                                        \
    X(TALLY_MIXERS,  "mixers",  "attention")             /* both sides                                           */ \
    X(TALLY_NEURONS, "neurons", "neurons")               /* of each layer, of the later side                     */ \
    X(TALLY_REST,    "rest",    "exchange, head and rest")
// clang-format on

typedef enum tally_part {
#define X(id, name, text) id,
    TALLY_PART_LIST(X)
#undef X
        TALLY_PARTS
} tally_part;

/* Sums the spans of a traced session. A zeroed record has seen nothing. */
typedef struct tally {
    hearth_tracer next;     /* receives all spans as well; zeroed: nobody does */
    double mixers, neurons; /* seconds                              */
    uint32_t layer;         /* that the last span was of            */
    double latest;          /* its neurons, of the later side so far */
} tally;

/* Returns the tracer of a session whose spans are counted. */
hearth_tracer tally_to(tally *t);
/* Forgets what was counted. */
void tally_reset(tally *t);

/* Seconds of a token, of a part and in all. */
typedef struct tally_row {
    double achieved, predicted;
} tally_row;

typedef struct tally_report {
    tally_row all;
    tally_row parts[TALLY_PARTS];
    bool has_parts; /* false: what runs is not the plan, but what was faster, of which only the whole is predicted */
} tally_report;

/* Compares a run of the engine that is used: `tokens` that were read took so many seconds, with so many positions cached on average. */
tally_report tally_compare(const tally *t, const planned *p, size_t tokens, double seconds, double cached);

/* Prints the comparison in a line. Returns false if memory is out. */
bool tally_print(buffer *out, const tally_report *r);
/* Returns it as JSON. NULL: no memory. */
json_t *tally_json(const tally_report *r);

#endif
