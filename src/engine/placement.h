/* placement.h - the placement as a data structure: what lies and runs where.
 *
 * The engine obeys a placement and does not know how it was chosen. Neurons have the original numbers of the model. */
#ifndef ENGINE_PLACEMENT_H
#define ENGINE_PLACEMENT_H

#include "../model/model.h"

/* How a layer is split over host and device (docs/hybrid.md). host: neurons and attention on the CPU; ffn-host: neurons
 * on the CPU, attention on the device; split: attention on the device, some neurons on each side; device: all there. */
typedef enum layer_form { FORM_HOST, FORM_FFN_HOST, FORM_SPLIT, FORM_DEVICE, FORM_COUNT } layer_form;

/* What decides which neurons are computed (docs/design.md), from the strongest guarantee to the weakest. */
typedef enum selector_kind {
    SELECTOR_ALL,       /* every neuron                                                                       */
    SELECTOR_SIGN,      /* those whose activation is not zero by the first matrix                             */
    SELECTOR_COARSE,    /* those that a coarse copy of the first matrix lets through, if they fire            */
    SELECTOR_LOW_RANK,  /* those that a predictor lets through, if they fire                                  */
    SELECTOR_MAGNITUDE, /* those with an activation, before it is multiplied by up, larger than the threshold */
    SELECTOR_COUNT
} selector_kind;

/* A selector: everything else asks this table. */
typedef struct selector_traits {
    const char *name;           /* in placements                                                             */
    hearth_mode mode;           /* that it belongs to                                                        */
    hearth_guarantee guarantee; /* the strongest that a layer with it can give                               */
    predictor_kind predictor;   /* what it needs, and asks before the first matrix is read; PREDICTOR_NONE:
                                 * the first matrix (gate, or up in plain networks) is read whole            */
    bool skips;                 /* neurons may be left out                                                   */
    bool has_threshold;
    bool on_device; /* devices have kernels for it */
} selector_traits;

extern const selector_traits selectors[SELECTOR_COUNT];

typedef struct neuron_range {
    uint32_t begin, end; /* [begin, end) */
} neuron_range;

/* The neurons of one layer that one side computes. */
typedef struct neuron_assignment {
    uint32_t side;
    uint32_t range_count;
    neuron_range *ranges; /* [range_count] ascending */
} neuron_assignment;

typedef struct layer_placement {
    layer_form form;
    selector_kind selector;
    float threshold; /* of the selector, if it has one */
    uint32_t neuron_count;
    uint32_t assignment_count;
    neuron_assignment
        *assignments; /* [assignment_count]; together they cover every neuron once, those of PLACEMENT_NOBODY too */
} layer_placement;

/* The sides of this version. PLACEMENT_NOBODY is not a side but may stand in assignments: its neurons are not computed and
 * count as zero whatever their value. */
#define PLACEMENT_CPU    0
#define PLACEMENT_DEVICE 1
#define PLACEMENT_SIDES  2
#define PLACEMENT_NOBODY PLACEMENT_SIDES

struct hearth_placement {
    uint32_t side_count; /* 1: only the CPU               */
    const char **sides;  /* [side_count] "cpu", "device0" */
    /* Sides. kv: that of the cache of all layers that are not of form host (theirs is always on the CPU); it is the
     * device exactly if there are such layers. embedding: the device only if layer 0 is not of form host. */
    uint32_t kv, embedding, head;
    uint32_t layer_count;
    layer_placement *layers; /* [layer_count] */
    hearth_pruning pruning;
    double recall; /* that predictors hold by moving their thresholds (recall.h); 0: they stay where they are */
    arena memory;
};

/* Return whether anything runs or lies on the device, and whether anything of a layer does. */
bool placement_needs_device(const hearth_placement *placement);
bool layer_uses_device(const layer_placement *layer);
/* Returns how many neurons of a layer a side computes. */
uint32_t layer_neurons(const layer_placement *layer, uint32_t side);
/* Lists the rows of the model's matrices that a side computes in a layer, ascending, in rows [neuron_count], and counts
 * them in *count. order: the original number of each row, or NULL. */
hearth_status layer_rows(const layer_placement *layer, uint32_t side, const int32_t *order, uint32_t neuron_count,
                         uint32_t *rows, uint32_t *count, hearth_error *error);
/* Finds the rows of each expert among ascending rows [count] of a layer: those of expert e are rows[begins[e]] up to, not
 * including, rows[begins[e + 1]]; the shared expert's follow. begins [expert_count + 2] */
void layer_expert_rows(const ffn_shape *shape, const uint32_t *rows, uint32_t count, uint32_t *begins);
/* Returns whether an expert of a layer has neurons on more than one side. */
bool layer_cuts_experts(const layer_placement *layer, const ffn_shape *shape);
const char *layer_form_name(layer_form form);

/* In the functions below, t is a tune record (model/tune.h) that was bound to the model; NULL: only what the model's own
 * file says counts. Those of hearth.h use the record that the model was opened with. */
struct tune;

/* As hearth_placement_create and hearth_placement_keep, with t in place of the model's record. */
hearth_status placement_create(hearth_placement **out, const hearth_model *model, const struct tune *t,
                               hearth_mode mode, hearth_error *error);
hearth_status placement_keep(hearth_placement *placement, const hearth_model *model, const struct tune *t, double share,
                             bool hottest, hearth_error *error);

/* Finds the highest level of a tune file that skips more than zeros and has a loss of at most most_loss nats; returns
 * false if there is none. */
bool placement_find_level(const struct tune *t, double most_loss, uint32_t *level);

/* Checks a recall to hold. HEARTH_INVALID: it is not between 0 and 1. HEARTH_UNSUPPORTED: no layer has a predictor, or a device
 * has neurons of one that has. */
hearth_status placement_check_recall(const hearth_placement *placement, double recall, hearth_error *error);

/* Returns the mode that HEARTH_MODE_AUTO stands for: exact if the activation is often exactly zero, else dense. */
hearth_mode placement_auto_mode(const hearth_model *model);

/* Checks whether the model with a tune record has what the selector of a layer needs. HEARTH_UNSUPPORTED: it has not. */
hearth_status placement_check_selector(selector_kind selector, const hearth_model *model, const struct tune *t,
                                       uint32_t layer, hearth_error *error);

/* What a device gets of a layer: its mixer with its state, and the first `neurons` (at most all) of `order`. */
typedef struct device_share {
    bool given; /* false: the layer stays as it is                    */
    uint32_t neurons;
    const uint32_t *order; /* [neuron_count] original numbers; NULL: first, first + 1 ... and on from 0 */
    uint32_t first;
} device_share;

/* Gives shares [layer_count] of layers to the device, and the head. Errors as in hearth_placement_use_device, which gives
 * the last layers. */
hearth_status placement_share(hearth_placement *placement, const hearth_model *model, const device_share *shares,
                              bool head, hearth_error *error);

/* Gives the device other neurons of a layer of form split, in which nobody's are none: rows [count] of the matrices; the CPU has
 * the rest. order: the original number of each row, or NULL. */
hearth_status placement_set_device(hearth_placement *placement, uint32_t layer, const uint32_t *rows, uint32_t count,
                                   const int32_t *order, hearth_error *error);

/* HEARTH_INVALID: the layers, or the neurons of one, are not as many as the model's. */
hearth_status placement_check_model(const hearth_placement *p, const hearth_model *model, hearth_error *error);

/* Makes a copy that shares nothing with `from`. */
hearth_status placement_copy(hearth_placement **out, const hearth_placement *from, hearth_error *error);

#endif
