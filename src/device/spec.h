/* spec.h - parses the name of a device as users write it: NAME[:INDEX][,KEY=VALUE]... (device_open in device.h). */
#ifndef DEVICE_SPEC_H
#define DEVICE_SPEC_H

#include "driver.h"

#include "../base/text.h"

/* Returns the name of the driver, a part of `spec`. */
span spec_name(const char *spec);
/* Reads the index and options after the name. HEARTH_INVALID: the text names the bad key or value. */
hearth_status spec_options(const char *spec, device_options *out, hearth_error *error);

#endif
