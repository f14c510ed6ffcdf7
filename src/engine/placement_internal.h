/* placement_internal.h - what placement.c, placement_json.c and placement_prune.c share: names, and functions that
 * build a placement. For these three files only. */
#ifndef ENGINE_PLACEMENT_INTERNAL_H
#define ENGINE_PLACEMENT_INTERNAL_H

#include "placement.h"

typedef struct selector_row {
    const char *name;
    bool has_threshold, on_device; /* on_device: devices can run it */
} selector_row;

extern const char *const placement_forms[FORM_COUNT];
extern const char *const placement_sides[PLACEMENT_SIDES];
extern const selector_row placement_selectors[SELECTOR_COUNT];
#define PLACEMENT_NOBODY_NAME "nobody"

/* Returns whether the layer and neuron counts are those of the model. */
bool placement_is_of(const hearth_placement *p, const hearth_model *model);
hearth_status placement_no_memory(hearth_error *error);
/* Creates a placement whose sides and layers are not yet filled in. */
hearth_status placement_new(hearth_placement **out, uint32_t side_count, uint32_t layer_count, uint32_t neuron_count,
                            hearth_error *error);
/* Gives a layer part_count parts without ranges; returns false if memory is out. */
bool placement_add_parts(hearth_placement *p, layer_placement *layer, uint32_t part_count);
/* Gives a part room for range_count ranges; returns false if memory is out. */
bool placement_add_ranges(hearth_placement *p, placement_part *part, uint32_t range_count);
bool placement_has_device_layer(const hearth_placement *p);

#endif
