/* plot.h - draws measured values as groups of bars in panels side by side, in a self-contained SVG.
 *
 * What svg.h says of all pictures holds; the description lists everything that the bars show. Knows nothing of what was
 * measured. */
#ifndef EVAL_PLOT_H
#define EVAL_PLOT_H

#include "../base/error.h"

#include <stddef.h>

typedef struct plot_value {
    double length;    /* of the bar; finite and not negative */
    double mark;      /* a line across at this length; 0: none */
    const char *text; /* after the bar */
} plot_value;

typedef struct plot_bar {
    const char *label;
    unsigned color;           /* below SVG_COLORS (svg.h)             */
    const plot_value *values; /* [panel_count]                        */
} plot_bar;

typedef struct plot_group {
    const char *label; /* above its bars                              */
    const plot_bar *bars;
    size_t bar_count;
} plot_group;

/* Texts may come from anywhere: they are escaped, what XML forbids is replaced, what is too long is cut. */
typedef struct plot {
    const char *title;
    const char *mark;          /* what the mark means, for the legend; NULL: there are no marks */
    const char *note;          /* below all groups, broken into lines */
    const char *const *panels; /* [panel_count] titles */
    size_t panel_count;
    const plot_group *groups;
    size_t group_count;
} plot;

/* Writes the picture; the file appears only once it is complete. Lengths within a panel share a scale that starts at
 * zero. HEARTH_INVALID: nothing to draw, or more than a picture holds. */
hearth_status plot_write(const char *path, const plot *p, hearth_error *error);

#endif
