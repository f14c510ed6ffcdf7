/* bench_ways_plot.c - see bench_ways_plot.h. */
#include "bench_ways_plot.h"

#include "../eval/chart.h"

#include <math.h>
#include <stdio.h>

#define MEGA 1e6
#define GIGA 1e9

enum { SPEED, HITS, PANELS };

typedef struct drawing {
    chart_point points[PANELS][PLOTTED_WAYS][PLOTTED_SIZES];
    chart_series series[PANELS][PLOTTED_WAYS];
    size_t series_count[PANELS];
} drawing;

void bench_ways_add(ways_picture *p, size_t way, const plotted_way *figures)
{
    plotted_way *of = p->ways[way].figures;
    size_t at = p->ways[way].count++;
    for (; at > 0 && of[at - 1].memory > figures->memory; at--)
        of[at] = of[at - 1];
    of[at] = *figures;
}

/* The most of each figure. */
static plotted_way most_of(const ways_picture *p)
{
    plotted_way most = {0};
    for (size_t w = 0; w < PLOTTED_WAYS; w++)
        for (size_t i = 0; i < p->ways[w].count; i++) {
            most.memory = fmax(most.memory, p->ways[w].figures[i].memory);
            most.tokens_per_second = fmax(most.tokens_per_second, p->ways[w].figures[i].tokens_per_second);
        }
    return most;
}

/* Adds a curve of a way to a panel, if something of it is known there. */
static void add_curve(drawing *d, size_t panel, const ways_picture *p, size_t way)
{
    size_t count = p->ways[way].count, known = 0;
    for (size_t i = 0; i < count; i++)
        known += isfinite(d->points[panel][way][i].y) ? 1 : 0;
    if (known > 0)
        d->series[panel][d->series_count[panel]++] =
            (chart_series){p->ways[way].name, CHART_MARKED, (unsigned)way, d->points[panel][way], count};
}

/* Makes a curve of each way in each panel. unit: bytes of memory that the axis counts in. */
static void make_curves(drawing *d, const ways_picture *p, double unit)
{
    for (size_t w = 0; w < PLOTTED_WAYS; w++) {
        for (size_t i = 0; i < p->ways[w].count; i++) {
            const plotted_way *f = &p->ways[w].figures[i];
            d->points[SPEED][w][i] = (chart_point){f->memory / unit, f->tokens_per_second, NULL};
            d->points[HITS][w][i] = (chart_point){f->memory / unit, f->on_device, NULL};
        }
        for (size_t k = 0; k < PANELS; k++)
            add_curve(d, k, p, w);
    }
}

hearth_status bench_ways_plot(const ways_picture *p, const char *path, hearth_error *error)
{
    drawing d = {.series_count = {0}};
    plotted_way most = most_of(p);
    bool large = most.memory >= GIGA;
    const chart_axis memory = {.title = large ? "GB of device memory" : "MB of device memory"};
    make_curves(&d, p, large ? GIGA : MEGA);
    const chart_panel panels[PANELS] = {
        [SPEED] = {.title = "Speed",
                   .x = memory,
                   .y = {.title = "tokens per second", .most = 1.1 * most.tokens_per_second},
                   .series = d.series[SPEED],
                   .series_count = d.series_count[SPEED]},
        [HITS] = {.title = "Active neurons that the device had",
                  .x = memory,
                  .y = {.title = "share", .percent = true, .most = 1},
                  .series = d.series[HITS],
                  .series_count = d.series_count[HITS]},
    };
    return chart_write(path, &(chart){p->title, p->note, panels, d.series_count[HITS] > 0 ? 2 : 1, 2}, error);
}
