/* plan_plot.h - a plan as a picture. */
#ifndef CLI_PLAN_PLOT_H
#define CLI_PLAN_PLOT_H

#include "../plan/report.h"

/* Writes an SVG: weights and predicted time of each layer, and the speed by the device's memory. The file appears only once
 * it is complete. */
hearth_status plan_plot(const plan_view *v, const char *path, hearth_error *error);

#endif
