/* inspect_plot.h - draws the activation counts in a model's tune file. */
#ifndef CLI_INSPECT_PLOT_H
#define CLI_INSPECT_PLOT_H

#include "common.h"

/* Opens the model with its tune file and draws what the file says of its neurons. HEARTH_UNSUPPORTED: there is no such
 * file, or it has no counts; the error says how to get them. */
hearth_status inspect_plot(const model_options *o, const char *path, hearth_error *error);

#endif
