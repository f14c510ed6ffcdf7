/* bench_ways_plot.h - `hearth bench --simulate-vram --plot`: ways of using a device, by how much memory it has, as a picture. */
#ifndef CLI_BENCH_WAYS_PLOT_H
#define CLI_BENCH_WAYS_PLOT_H

#include "../base/error.h"

#include <stddef.h>

enum { PLOTTED_WAYS = 4, PLOTTED_SIZES = 16 };

/* What a way gave with one size of memory. */
typedef struct plotted_way {
    double memory; /* bytes */
    double tokens_per_second;
    double on_device; /* share of the active neurons that the device had; NAN: not known */
} plotted_way;

typedef struct ways_picture {
    struct {
        const char *name;
        plotted_way figures[PLOTTED_SIZES];
        size_t count;
    } ways[PLOTTED_WAYS]; /* those without figures are not drawn */
    char title[192], note[512];
} ways_picture;

/* Adds what a way gave; of each by growing memory. There are at most PLOTTED_SIZES. */
void bench_ways_add(ways_picture *p, size_t way, const plotted_way *figures);

/* Writes the picture as SVG; errors as in chart_write. */
hearth_status bench_ways_plot(const ways_picture *p, const char *path, hearth_error *error);

#endif
