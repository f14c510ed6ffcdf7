/* machine.c - what the description of a machine is made of. */
#include "machine.h"

#include <math.h>

const size_t machine_row_bytes[MACHINE_ROWS] = {1024, 2048, 4096, 8192};

static const char *const source_names[FIGURE_SOURCES] = {
    [FIGURE_ASSUMED] = "assumed",
    [FIGURE_DERIVED] = "derived",
    [FIGURE_STATED] = "stated",
    [FIGURE_MEASURED] = "measured",
};

const char *figure_source_name(figure_source source)
{
    return source_names[source];
}

json_t *figure_json(figure f)
{
    return json_pack("{s:o, s:s}", "value", json_number(f.value), "source", figure_source_name(f.source));
}

/* A row costs a fixed delay and its bytes, and the delay is hidden the better the longer the row is: measured rates rise
 * about evenly with each doubling, so the line between two of them is drawn over the logarithm of the length. */
double machine_listed_rate(const machine_rates *r, double row_bytes)
{
    if (!(row_bytes > (double)machine_row_bytes[0]))
        return r->listed[0].value;
    for (size_t i = 1; i < MACHINE_ROWS; i++) {
        double below = (double)machine_row_bytes[i - 1], above = (double)machine_row_bytes[i];
        if (row_bytes < above) {
            double share = log(row_bytes / below) / log(above / below);
            return r->listed[i - 1].value + share * (r->listed[i].value - r->listed[i - 1].value);
        }
    }
    return r->listed[MACHINE_ROWS - 1].value;
}
