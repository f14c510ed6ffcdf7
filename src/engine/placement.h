/* placement.h - the placement as a data structure: what lies and runs where.
 *
 * The engine obeys it and never asks why. Neuron numbers are the original ones of the model. */
#ifndef ENGINE_PLACEMENT_H
#define ENGINE_PLACEMENT_H

#include "../model/model.h"

/* How a layer is laid over the sides (docs/hybrid.md): host, neurons and attention on the CPU; ffn-host, neurons
 * on the CPU, attention on the device; split, some neurons on each side; device, all of them there. */
typedef enum layer_form { FORM_HOST, FORM_FFN_HOST, FORM_SPLIT, FORM_DEVICE, FORM_COUNT } layer_form;

/* What decides which neurons are worked on (docs/design.md), from the strictest to the loosest claim. */
typedef enum selector_kind {
    SELECTOR_ALL,       /* every neuron                                                               */
    SELECTOR_SIGN,      /* those whose activation is not zero, which the first matrix tells           */
    SELECTOR_COARSE,    /* those that a coarse copy of the first matrix lets through, if they fire    */
    SELECTOR_LOW_RANK,  /* those that a predictor lets through, if they fire                          */
    SELECTOR_MAGNITUDE, /* those whose activation, before it meets up, exceeds the threshold in size  */
    SELECTOR_COUNT
} selector_kind;

typedef struct neuron_range {
    uint32_t begin, end; /* [begin, end) */
} neuron_range;

/* The neurons of one layer that one side works on. */
typedef struct placement_part {
    uint32_t side;
    uint32_t range_count;
    neuron_range *ranges; /* [range_count] ascending */
} placement_part;

typedef struct layer_placement {
    layer_form form;
    selector_kind selector;
    float threshold; /* of the selector, where it has one */
    uint32_t part_count;
    placement_part *parts; /* [part_count]; together they cover every neuron once, those of nobody included */
} layer_placement;

/* The sides there are so far. Nobody works on the neurons of PLACEMENT_NOBODY, which is not a side but may stand in parts:
 * they count as zero whatever they would have been. */
#define PLACEMENT_CPU    0
#define PLACEMENT_DEVICE 1
#define PLACEMENT_SIDES  2
#define PLACEMENT_NOBODY PLACEMENT_SIDES

struct hearth_placement {
    uint32_t side_count; /* 1: the CPU alone                                                           */
    const char **sides;  /* [side_count] "cpu", "device0"                                              */
    /* Sides. kv: where the cache of layers lies that are not of form host; theirs always lies on the CPU. It is the
     * device exactly where there are such layers. embedding: the device only where layer 0 is not of form host. */
    uint32_t kv, embedding, head;
    uint32_t layer_count, neuron_count;
    layer_placement *layers; /* [layer_count] */
    hearth_pruning pruning;
    arena memory;
};

/* Whether anything runs or lies on the device, and whether anything of a layer does. */
bool placement_needs_device(const hearth_placement *placement);
bool layer_uses_device(const layer_placement *layer);
/* How many neurons of a layer a side works on. */
uint32_t layer_neurons(const layer_placement *layer, uint32_t side);
const char *layer_form_name(layer_form form);

struct tune;
/* The highest level of a tune file that leaves out more than zeros and costs at most so many nats; false: none does. */
bool placement_find_level(const struct tune *t, double most_loss, uint32_t *level);

/* What HEARTH_MODE_AUTO stands for: exact where the activation is often exactly zero, else dense. */
hearth_mode placement_auto_mode(const hearth_model *model);

/* Whether what a layer does is decided on the device as well: not yet for coarse copies and magnitudes. */
bool selector_runs_on_device(selector_kind selector);

/* HEARTH_UNSUPPORTED: this model gives the selector of a layer nothing to decide by. */
hearth_status placement_check_selector(selector_kind selector, const hearth_model *model, uint32_t layer,
                                       hearth_error *error);

hearth_status placement_copy(hearth_placement **out, const hearth_placement *from, hearth_error *error);

#endif
