/* inspect_plot.h - what a model's tune file counted, as a picture. */
#ifndef CLI_INSPECT_PLOT_H
#define CLI_INSPECT_PLOT_H

#include "common.h"

/* Opens the model with its tune file and draws what that says of its neurons. HEARTH_UNSUPPORTED: there is none, or it
 * has no counts; the text says how to get it. */
hearth_status inspect_plot(const model_options *o, const char *path, hearth_error *error);

#endif
