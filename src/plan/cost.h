/* cost.h - what a token takes on each side: the arithmetic of docs/design.md, with constants that are assumed from a
 * machine's description (cost_assume) or measured on the model itself (survey.h). */
#ifndef PLAN_COST_H
#define PLAN_COST_H

#include "load.h"
#include "machine.h"

/* What a predicted token is made of: name in JSON, for people. */
// clang-format off
#define COST_TERM_LIST(X)                                                                                \
    X(COST_CPU_MIXERS,     "cpu_mixers",     "attention on the CPU")                                 \
    X(COST_DEVICE_MIXERS,  "device_mixers",  "attention on the device")                              \
    X(COST_CPU_NEURONS,    "cpu_neurons",    "neurons of the CPU")    /* where that side is the later */ \
    X(COST_DEVICE_NEURONS, "device_neurons", "neurons of the device") /* likewise                    */ \
    X(COST_EXCHANGE,       "exchange",       "going between the sides")                              \
    X(COST_HEAD,           "head",           "head")                                                 \
    X(COST_REST,           "rest",           "rest")
// clang-format on

typedef enum cost_term {
#define X(id, name, text) id,
    COST_TERM_LIST(X)
#undef X
        COST_TERMS
} cost_term;

/* Return "cpu_mixers" and "attention on the CPU" and so on. */
const char *cost_term_name(cost_term term);
const char *cost_term_text(cost_term term);

/* The sides, in the order of placements. */
enum { SIDE_CPU, SIDE_DEVICE, COST_SIDES };

/* What the layers of one kind take on one side. */
typedef struct side_cost {
    figure mixer_seconds;   /* of its mixer while nothing is cached                                             */
    figure network_seconds; /* of its network without any neuron                                                */
    figure neuron_scale;    /* seconds that neurons take, as a multiple of their bytes over the side's rates    */
} side_cost;

typedef struct cost_model {
    const machine *on;
    const machine_device *device; /* NULL: there is none                                                      */
    side_cost *sides[COST_SIDES]; /* [layer_count], by layer_load.kind; other entries are not used            */
    figure head_seconds[COST_SIDES];
    figure token_seconds;      /* of every token, wherever its layers are: embedding, choosing the next one        */
    figure start_seconds;      /* of every token of which anything is on the device                               */
    figure change_seconds;     /* the residual stream goes from one side to the other                             */
    figure exchange_seconds;   /* a layer with neurons on the CPU: its input goes there, and their sum comes back */
    double ratios[COST_TERMS]; /* achieved over predicted, where a plan was tried on this machine; 1            */
    figure scratch_bytes;      /* of a session on the device, without keys, values and states                     */
} cost_model;

/* Fills a cost model for all layers of a load from a machine's figures. device: index into its devices; negative: none. The
 * model owns its arrays; on, load must outlive it. */
hearth_status cost_assume(cost_model *out, const machine *on, int device, const model_load *load, hearth_error *error);
void cost_free(cost_model *c);

/* Return the seconds of a layer's exchange, of the head on a side, of going between the sides once, and of starting the
 * device; ratios included. */
double cost_exchange(const cost_model *c);
double cost_head(const cost_model *c, int side);
double cost_change(const cost_model *c);
double cost_start(const cost_model *c);

/* What is read per token of some of the neurons of a layer. */
typedef struct neuron_work {
    double whole_bytes;  /* end to end   */
    double listed_bytes; /* scattered rows */
} neuron_work;

/* Returns the work of neurons [begin, end) by hotness. */
neuron_work cost_work(const layer_load *l, uint32_t begin, uint32_t end);

/* Return the seconds of a layer's mixer and of its network with that work on one side; 0 where it has none. context:
 * positions that are cached. leads: the side also reads what neurons share (layer_load.network_bytes): of a split layer the
 * device, which sends the CPU what comes out. */
double cost_mixer(const cost_model *c, const layer_load *l, int side, double context);
/* Returns how much longer the mixer takes with each further position that is cached. */
double cost_position(const cost_model *c, const layer_load *l, int side, double context);
double cost_network(const cost_model *c, const layer_load *l, int side, neuron_work work, bool leads);
/* Returns the seconds that reading all this takes by the side's rates, unscaled. */
double cost_reading(const cost_model *c, const layer_load *l, int side, neuron_work work, bool leads);

#endif
