/* chart_axis.c - chooses ranges that end at round numbers, and the round numbers between. */
#include "chart_axis.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* If the lower end is below this share of the upper one, the axis begins at 0. */
#define NEAR_ZERO 0.4
/* Relative rounding error of products of round numbers. */
#define TINY 1e-9

/* Round numbers are these times powers of ten. */
static const double round_digits[] = {1, 2, 5};

/* Returns the next of 1, 2, 5, 10, 20 ... at or above a positive value. */
static double round_up(double value)
{
    double power = pow(10, floor(log10(value) + TINY));
    for (size_t i = 0; i < 3; i++)
        if (round_digits[i] * power >= value * (1 - TINY))
            return round_digits[i] * power;
    return 10 * power;
}

/* Returns the next of them at or below it. */
static double round_down(double value)
{
    return 1 / round_up(1 / value);
}

void axis_see(axis_range *range, const chart_axis *wish, double value)
{
    double floor_value = wish->least < wish->most ? wish->least : wish->floor;
    if (!isfinite(value))
        return;
    if (wish->log && (value <= 0 || value < floor_value)) {
        range->cut = true;
        value = floor_value;
    }
    if (wish->log && value <= 0)
        return;
    range->least = fmin(range->least, value);
    range->most = fmax(range->most, value);
}

static void add_mark(axis *a, double value)
{
    double slack = TINY * (fabs(a->most - a->least) + fabs(a->most));
    if (a->mark_count < AXIS_MARKS && value >= a->least - slack && value <= a->most + slack)
        a->marks[a->mark_count++] = value;
}

/* Marks multiples of a round spacing; a range that the caller did not set is extended to two of them. */
static void mark_evenly(axis *a, int marks)
{
    double unit = a->wish->percent ? 100 : 1;
    double spacing = round_up((a->most - a->least) / marks * unit) / unit;
    if (a->wish->whole)
        spacing = fmax(ceil(spacing), 1);
    if (a->wish->least >= a->wish->most && !a->wish->log) {
        a->least = floor(a->least / spacing + TINY) * spacing;
        a->most = ceil(a->most / spacing - TINY) * spacing;
    }
    a->decimals = (int)fmax(0, ceil(-log10(spacing * unit) - TINY));
    for (double n = ceil(a->least / spacing - TINY);
         n * spacing <= a->most + TINY * spacing && a->mark_count < AXIS_MARKS; n++)
        add_mark(a, n * spacing == 0 ? 0 : n * spacing); /* no -0 */
}

/* Marks powers of ten; also 2 and 5 times these where they are few; even spacing where the ends differ by less than a
 * factor of five. */
static void mark_powers(axis *a, int marks)
{
    if (a->wish->least >= a->wish->most) {
        a->least = round_down(a->least);
        a->most = round_up(a->most);
    }
    double decades = log10(a->most / a->least);
    if (decades < 0.7) {
        mark_evenly(a, marks);
        return;
    }
    size_t within = decades * 3 <= 2 * marks ? 3 : 1; /* labels that would overlap are left out */
    int every = within == 3 ? 1 : (int)fmax(1, ceil(decades / marks));
    int first = (int)floor(log10(a->least) + TINY);
    for (int power = first; pow(10, power) <= a->most * (1 + TINY); power += every)
        for (size_t i = 0; i < within; i++)
            add_mark(a, round_digits[i] * pow(10, power));
}

void axis_fit(axis *out, const chart_axis *wish, const axis_range *range, int marks)
{
    *out = (axis){.wish = wish, .least = range->least, .most = range->most, .cut = range->cut};
    if (wish->least < wish->most) {
        out->least = wish->least;
        out->most = wish->most;
    } else if (!(out->least <= out->most)) { /* there were no values */
        out->least = wish->log ? 0.1 : 0;
        out->most = 1;
    } else if (!wish->log && out->least > 0 && out->least < NEAR_ZERO * out->most) {
        out->least = 0;
    }
    if (!(out->most - out->least > TINY * fabs(out->most))) { /* a single value: some room around it */
        double room = out->most != 0 ? 0.1 * fabs(out->most) : 1;
        out->least = wish->log ? out->least / 1.2 : out->most != 0 ? out->least - room : 0;
        out->most = wish->log ? out->most * 1.2 : out->most + room;
    }
    if (wish->log)
        mark_powers(out, marks);
    else
        mark_evenly(out, marks);
}

double axis_place(const axis *a, double value)
{
    double place =
        a->wish->log ? log(value / a->least) / log(a->most / a->least) : (value - a->least) / (a->most - a->least);
    return place >= 0 ? fmin(place, 1) : 0; /* NAN, from a value without a logarithm: 0 */
}

void axis_text(char out[32], const axis *a, size_t n)
{
    double value = a->marks[n] * (a->wish->percent ? 100 : 1), size = fabs(value);
    const char *unit = a->wish->percent ? " %" : "";
    const char *cut = a->cut && n == 0 && a->marks[0] <= a->least * (1 + TINY) ? "\xe2\x89\xa4" : ""; /* at most */
    char number[24];
    if (size >= 1e6 || (size > 0 && size < 1e-3)) {
        snprintf(number, sizeof number, "%.0e", value);
        char *sign = strchr(number, 'e') + 1; /* "1e-05" becomes "1e-5", "1e+07" "1e7" */
        char *digits = sign + (*sign == '-');
        const char *rest = sign + 1 + strspn(sign + 1, "0");
        memmove(digits, rest, strlen(rest) + 1);
    } else if (a->wish->log && a->decimals == 0) {
        snprintf(number, sizeof number, "%g", value);
    } else {
        snprintf(number, sizeof number, "%.*f", a->decimals < 9 ? a->decimals : 9, value);
    }
    snprintf(out, 32, "%s%s%s", cut, number, unit);
}
