/* spec.h - how people name a device: NAME[:INDEX][,KEY=VALUE]... (device_open in device.h). */
#ifndef DEVICE_SPEC_H
#define DEVICE_SPEC_H

#include "driver.h"

#include "../base/text.h"

/* The name, within `spec`. */
span spec_name(const char *spec);
/* What comes behind it. HEARTH_INVALID: the text names the key or value at fault. */
hearth_status spec_options(const char *spec, device_options *out, hearth_error *error);

#endif
