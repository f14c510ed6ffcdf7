/* placement_internal.h - what placement.c, placement_json.c and placement_prune.c share: names, and functions that
 * build a placement. For these three files only. */
#ifndef ENGINE_PLACEMENT_INTERNAL_H
#define ENGINE_PLACEMENT_INTERNAL_H

#include "placement.h"

extern const char *const placement_forms[FORM_COUNT];
extern const char *const placement_sides[PLACEMENT_SIDES];
#define PLACEMENT_NOBODY_NAME "nobody"

hearth_status placement_no_memory(hearth_error *error);
/* Creates a placement of the model's layers, which have their neuron counts; the sides and the rest of the layers are
 * not yet filled in. */
hearth_status placement_of_model(hearth_placement **out, uint32_t side_count, const hearth_model *model,
                                 hearth_error *error);
/* Gives a layer assignment_count assignments without ranges; returns false if memory is out. */
bool placement_add_assignments(hearth_placement *p, layer_placement *layer, uint32_t assignment_count);
/* Gives an assignment room for range_count ranges; returns false if memory is out. */
bool placement_add_ranges(hearth_placement *p, neuron_assignment *a, uint32_t range_count);
bool placement_has_device_layer(const hearth_placement *p);

#endif
