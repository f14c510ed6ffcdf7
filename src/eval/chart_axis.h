/* chart_axis.h - from values to places on an axis, and where it is marked. */
#ifndef EVAL_CHART_AXIS_H
#define EVAL_CHART_AXIS_H

#include "chart.h"

#define AXIS_MARKS 16

typedef struct axis {
    const chart_axis *wish;
    double least, most; /* of what is drawn                                  */
    double marks[AXIS_MARKS];
    size_t mark_count;
    int decimals;
    bool cut; /* something smaller than `least` is drawn there               */
} axis;

/* The smallest and largest values that an axis has to hold; begin with AXIS_NOTHING. */
typedef struct axis_range {
    double least, most;
    bool cut; /* some values are too small for it */
} axis_range;

#define AXIS_NOTHING ((axis_range){INFINITY, -INFINITY, false})

void axis_see(axis_range *range, const chart_axis *wish, double value);

/* An axis for what was seen, with about `marks` marks. */
void axis_fit(axis *out, const chart_axis *wish, const axis_range *range, int marks);

/* 0 .. 1: where a value lies, at the nearest end where it lies outside. */
double axis_place(const axis *a, double value);

/* The text of mark number n. */
void axis_text(char out[32], const axis *a, size_t n);

#endif
