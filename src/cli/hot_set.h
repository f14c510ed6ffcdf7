/* hot_set.h - hot sets that live, as commands show and store them. */
#ifndef CLI_HOT_SET_H
#define CLI_HOT_SET_H

#include "common.h"

#include <jansson.h>

/* Lets the hot sets of an engine live as the options say; says so where nothing can change. */
hearth_status hot_set_follow(loaded *l, const engine_options *o, hearth_error *error);

/* Prints to stderr what came of it: "hot set: 74.0 % of the active neurons were on the device, 539 changed places (1.2 MB,
 * 3.1 ms)" and a line end. Nothing where it was not asked for. */
void hot_set_say(const loaded *l, const engine_options *o);

/* Returns it as JSON; null where it was not asked for, NULL without memory. */
json_t *hot_set_json(const loaded *l, const engine_options *o);

/* Writes the placement with the neurons that the device has now, for --place. HEARTH_IO: cannot be written. */
hearth_status hot_set_save(const loaded *l, const char *path, hearth_error *error);

#endif
