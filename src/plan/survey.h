/* survey.h - measures on the model itself what its layers take on each side: a few tokens on the CPU, and a few more with
 * one layer of each kind on the device, whole and split in two. The figures take the place of those that cost_assume
 * derives from the machine alone, and are stored per machine, device and model. */
#ifndef PLAN_SURVEY_H
#define PLAN_SURVEY_H

#include "cost.h"

/* The seconds of one layer of a kind in one token; 0: not measured. */
typedef struct survey_layer {
    double cpu_mixer, cpu_network;       /* on the CPU, whole                            */
    double device_mixer, device_network; /* on the device, whole                         */
    double split_cpu, split_device;      /* with the hotter half of the neurons on the device */
    double exchange;                     /* of the split layer                           */
} survey_layer;

/* What ratios are believed: from a quarter to four. */
#define SURVEY_RATIO_MOST 4.0

/* What a plan took when it was tried for a few tokens. */
typedef struct survey_trial {
    uint64_t plan_hash;    /* of the plan (plan.h)                  */
    double predicted;      /* seconds of a token; 0: none was tried */
    double seconds;        /* achieved                              */
    double cpu_seconds;    /* by everything on the CPU, then        */
    double layers_seconds; /* by whole layers; 0: not tried      */
    double terms[COST_TERMS];
} survey_trial;

typedef struct survey {
    uint32_t layer_count;
    survey_layer *layers;    /* [layer_count] by kind; others are 0; owned                      */
    double head[COST_SIDES]; /* 0: not measured                                              */
    double token;            /* of a token, without layers and head                             */
    double crossing;      /* what a token takes longer because one layer is on the device: starting it, twice changing
                             sides */
    double scratch_bytes; /* of a session on the device, without keys, values and states     */
    double ratios[COST_TERMS]; /* as in cost_model, after trials                            */
    survey_trial trial;        /* of the last plan                                                */
    char key[33];              /* under which it is stored                                        */
    bool busy;                 /* the times scattered too much to be stored                       */
    bool remembered;           /* they are from an earlier run                                    */
} survey;

typedef struct survey_options {
    const char *folder; /* where surveys are stored; NULL: nowhere           */
    bool again;         /* measures even where one is stored                 */
    /* Of the sessions that will run, which decide what they take of the device; states: kept of each sequence. */
    uint32_t context, sequences, states;
    hearth_kv kv;
    hearth_progress progress;
} survey_options;

/* Measures with an engine that runs on the CPU, whose runtime has the device (or none). Layers of kinds that do not fit on
 * the device, or cannot be there alone, are not measured there. HEARTH_CANCELLED through progress. */
hearth_status survey_make(survey *out, const hearth_engine *engine, const model_load *load, const cost_model *cost,
                          const survey_options *options, hearth_error *error);
void survey_free(survey *s);

/* Runs a few tokens with the engine of a plan, and with the one on the CPU, and sets s->trial. */
hearth_status survey_try(survey *s, const hearth_engine *own, const hearth_engine *cpu, uint64_t plan_hash,
                         double predicted, const survey_options *options, hearth_error *error);
/* Measures the seconds of a token with an engine. */
hearth_status survey_time(double *seconds, const hearth_engine *engine, const survey_options *options,
                          hearth_error *error);
/* Corrects the ratios by what the terms of the plan that was tried came to. splits: it has layers with neurons on both sides,
 * which take about the same time, so that it is chance which of the two counts: both are corrected by their sum. */
void survey_fit(survey *s, const double terms[COST_TERMS], bool splits);

/* Puts what was measured in the place of what was assumed. */
void survey_apply(const survey *s, const model_load *load, cost_model *cost);

#endif
