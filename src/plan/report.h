/* report.h - a plan in words and as JSON. */
#ifndef PLAN_REPORT_H
#define PLAN_REPORT_H

#include "planned.h"

/* What a report is about. */
typedef struct plan_view {
    const machine *machine;
    const model_load *load;
    const cost_model *cost;
    const plan_request *request;
    const plan *plan;
    const hearth_placement *placement; /* NULL: the model is not at hand          */
    const survey_trial *trial;         /* NULL: nothing was tried                 */
    planned_use use;                   /* as in planned                              */
    const char *problem;               /* as in planned; NULL: none               */
} plan_view;

/* Returns the view of a model that placed itself. */
plan_view plan_view_of(const planned *p);

/* Returns the plan as JSON, as docs/plan.md describes. NULL: no memory. */
json_t *plan_json(const plan_view *v);

/* Prints the plan in at most six lines: the machine, what lies where, memory, the predicted token, the alternatives and what
 * more memory would buy. Returns false if memory is out; out then has a part of it. */
bool plan_print(buffer *out, const plan_view *v);
/* Prints what lies where, without a line break: "20 of 32 layers on cuda:0 (8 whole, 12 split) and the head". */
bool plan_print_place(buffer *out, const plan_view *v);

#endif
