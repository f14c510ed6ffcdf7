/* chart.h - draws curves as SVG: lines, points, bars and heat maps over axes, in panels beside and below each other.
 *
 * What svg.h says of all pictures holds. No text overlaps another: a point's label that finds no free place is left out
 * of the drawing; the description still lists the marked points, up to 64 of each series. Knows nothing of what was
 * measured. */
#ifndef EVAL_CHART_H
#define EVAL_CHART_H

#include "../base/error.h"

#include <stddef.h>

/* Texts may come from anywhere, as in plot.h. A zeroed axis takes its range from the data. */
typedef struct chart_axis {
    const char *title;
    bool log;           /* logarithmic; values that are not positive are drawn at the lower end */
    bool percent;       /* values are shares, printed as percentages */
    bool whole;         /* marked at whole numbers only, as for layers */
    double least, most; /* the range, where the two differ; positive on a logarithmic axis */
    double floor;       /* without a range, on a logarithmic axis: smaller values are drawn here; 0: no floor */
} chart_axis;

typedef struct chart_point {
    double x, y;       /* a point that is not finite is left out and interrupts its line */
    const char *label; /* drawn beside the mark; NULL: none */
} chart_point;

typedef enum chart_style {
    CHART_MARKED, /* a mark at each point, joined in order       */
    CHART_MARKS,  /* only the marks                              */
    CHART_LINE,   /* only the line                               */
    CHART_HAIR,   /* a thin grey line: one of many               */
    CHART_BARS    /* from 0 up, as wide as 1 on the x axis allows */
} chart_style;

/* The first series is drawn on top. Series of the same name and style share one legend entry, also across panels. */
typedef struct chart_series {
    const char *name; /* NULL: not in the legend */
    chart_style style;
    unsigned color; /* below SVG_COLORS; also chooses the shape of marks */
    const chart_point *points;
    size_t count;
} chart_series;

/* Rows run from top to bottom; the x axis spans the columns. Of the y axis only the title is used: rows are numbered
 * from 0. */
typedef struct chart_heat {
    const float *cells; /* [rows][columns]; NAN: no value; NULL: the panel has series instead */
    size_t rows, columns;
    chart_axis value; /* how values become colours; needs a title and a range */
} chart_heat;

typedef struct chart_panel {
    const char *title;
    const char *says; /* for the description: what lines and heat maps show, in words; NULL: nothing */
    chart_axis x, y;
    const chart_series *series;
    size_t series_count;
    chart_heat heat;
} chart_panel;

typedef struct chart {
    const char *title;
    const char *note; /* below all panels, broken into lines */
    const chart_panel *panels;
    size_t panel_count;
    size_t columns; /* panels side by side: 1 or 2; the last one takes the full width where it would stand alone */
} chart;

/* Writes the picture; the file appears only once it is complete. HEARTH_INVALID: nothing to draw, or more than a
 * picture holds. */
hearth_status chart_write(const char *path, const chart *c, hearth_error *error);

#endif
