/* planned.h - a model that places itself: opens it on the CPU (with the guard, where that chooses), measures its layers,
 * plans, and opens it again where the plan says. */
#ifndef PLAN_PLANNED_H
#define PLAN_PLANNED_H

#include "guard.h"
#include "plan.h"
#include "survey.h"

typedef struct planned_options {
    hearth_mode mode;
    hearth_activations activations;
    hearth_stream stream;
    bool no_guard;         /* exact in every layer of mode exact                                        */
    bool again;            /* measures even where findings are stored                                   */
    bool must_use_device;  /* the device was asked for: if it fails, so does this. false: the CPU goes on          */
    bool plan_only;        /* stops before the engine of the plan is made                               */
    uint64_t device_bytes; /* that may be taken of the device's memory; 0: its budget                   */
    uint64_t host_bytes;   /* likewise of main memory; 0: what is free                                  */
    uint32_t context;      /* positions of a session; 0: the model's, as plan_request_free says      */
    uint32_t sequences;    /* 0: 1                                                                      */
    hearth_kv kv;
    uint32_t layers, neurons;          /* as in plan_request                                                      */
    size_t cache_bytes;                /* as in guard_options                                                       */
    const char *folder;                /* where findings are stored; NULL: nowhere                                  */
    const hearth_placement *placement; /* on the CPU, of mode `mode`; NULL: that of the mode             */
    hearth_progress progress;
} planned_options;

/* What runs: the plan, or what was faster when both were tried. */
typedef enum planned_use {
    USES_PLAN,
    USES_CPU,    /* everything on the CPU                                            */
    USES_LAYERS, /* the last plan.whole_layers layers on the device, the others on the CPU */
    PLANNED_USES
} planned_use;

/* A zeroed record is closed. It refers to itself, and must stay where it was opened. */
typedef struct planned {
    hearth_engine *engine; /* under the plan: `own`, or that of the CPU */
    guarded base;          /* the engine on the CPU; own where no guard chose */
    bool is_guarded;
    hearth_engine *own;          /* with the device; NULL: the plan uses none, or plan_only */
    hearth_placement *placement; /* of the plan */
    planned_use use;
    char
        problem[512]; /* why everything is on the CPU although the plan says otherwise: the device failed; else empty */
    plan plan;
    plan_request request;
    model_load load;
    cost_model cost;
    survey survey;
    machine machine;
} planned;

/* Opens a model. on: this machine, with the runtime's device as its only one, or none; copied. HEARTH_NO_MEMORY,
 * HEARTH_UNSUPPORTED: as plan_make; HEARTH_CANCELLED through progress. On failure *out is closed. */
hearth_status planned_open(planned *out, hearth_runtime *runtime, const hearth_model *model, const machine *on,
                           const planned_options *options, hearth_error *error);
void planned_close(planned *p);
/* Returns whether the CPU can go on after such a failure beside a device: all but what it would fail at as well. */
bool planned_goes_on(hearth_status status);

/* Takes the seconds that a token of a run took on average, with so many positions cached. Where the plan was wrong by more than PLANNED_WRONG, its survey
 * is forgotten, so that the next run measures again, and true is returned. */
#define PLANNED_WRONG 0.25
bool planned_check(const planned *p, double seconds, double cached, const char *folder);
/* Returns what is predicted for a token of the engine that is used, with so many positions cached. */
double planned_seconds(const planned *p, double cached);

#endif
