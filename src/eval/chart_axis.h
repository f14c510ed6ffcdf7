/* chart_axis.h - maps values to places on an axis and chooses its tick marks. */
#ifndef EVAL_CHART_AXIS_H
#define EVAL_CHART_AXIS_H

#include "chart.h"

#define AXIS_MARKS 16

typedef struct axis {
    const chart_axis *wish;
    double least, most; /* range that is drawn */
    double marks[AXIS_MARKS];
    size_t mark_count;
    int decimals;
    bool cut; /* something smaller than `least` is drawn at `least` */
} axis;

/* The smallest and largest values that an axis has to hold; start with AXIS_NOTHING. */
typedef struct axis_range {
    double least, most;
    bool cut; /* some values are too small for the axis */
} axis_range;

#define AXIS_NOTHING ((axis_range){INFINITY, -INFINITY, false})

/* Extends the range by a value; on a logarithmic axis values below the floor count as the floor and set `cut`. */
void axis_see(axis_range *range, const chart_axis *wish, double value);

/* Builds an axis for the range, with about `marks` marks. */
void axis_fit(axis *out, const chart_axis *wish, const axis_range *range, int marks);

/* Returns where a value lies, from 0 to 1; values outside go to the nearer end. */
double axis_place(const axis *a, double value);

/* Formats the text of mark number n. */
void axis_text(char out[32], const axis *a, size_t n);

#endif
