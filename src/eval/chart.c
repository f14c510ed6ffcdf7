/* chart.c - curves into SVG: computes the layout first, then draws; labels of points come last, because they go where
 * nothing else is. */
#include "chart.h"

#include "chart_axis.h"
#include "svg.h"

#include <math.h>
#include <string.h>

#define MAX_PANELS  6
#define MAX_SERIES  600
#define MAX_POINTS  100000
#define MAX_CELLS   65536
#define MAX_ENTRIES 16  /* of the legend                          */
#define MAX_LABELS  128 /* of a panel                             */
#define MAX_VALUE   1e30
#define SAID_POINTS 64 /* of a series at most, in the description */

/* All lengths in pixels. */
#define GAP         36  /* between panels side by side */
#define PLOT_HEIGHT 230 /* of panels with series */
#define HEAT_ROW    16  /* of a heat map with few rows            */
#define HEAT_LEAST  64
#define ABOVE       42 /* from a panel's top to its plot: two lines */
#define BELOW       58 /* from a plot to the next panel's top     */
#define ENTRY_PITCH 20 /* lines of the legend                     */
#define SAMPLE      22 /* width of a series' sample in the legend */
#define HEAT_STEP   12 /* width of one colour in the scale */
#define MARK_RADIUS 5
#define TAG_HEIGHT  12

typedef struct box {
    double left, top, right, bottom;
} box;

/* A panel with its position. */
typedef struct view {
    const chart_panel *panel;
    axis x, y;
    chart_axis rows;         /* the y axis of a heat map */
    double left, top, width; /* of the panel                       */
    box plot;
} view;

typedef struct layout {
    const chart_series *entries[MAX_ENTRIES]; /* the legend, in order of appearance */
    size_t entry_count;
    view views[MAX_PANELS];
    double note, height;
} layout;

/* ------------------------------------------------------------------ where things go */

static bool has_marks(const chart_series *s)
{
    return s->style == CHART_MARKED || s->style == CHART_MARKS;
}

static bool is_drawn(const chart_point *p)
{
    return isfinite(p->x) && isfinite(p->y);
}

/* Converts values to pixels. */
static double place_x(const view *v, double x)
{
    return v->plot.left + axis_place(&v->x, x) * (v->plot.right - v->plot.left);
}

static double place_y(const view *v, double y)
{
    return v->plot.bottom - axis_place(&v->y, y) * (v->plot.bottom - v->plot.top);
}

static void fit_axes(view *v, double height)
{
    const chart_panel *p = v->panel;
    axis_range x = AXIS_NOTHING, y = AXIS_NOTHING;
    for (size_t s = 0; s < p->series_count; s++)
        for (size_t i = 0; i < p->series[s].count; i++) {
            const chart_point *at = &p->series[s].points[i];
            if (!is_drawn(at))
                continue;
            bool bar = p->series[s].style == CHART_BARS;
            axis_see(&x, &p->x, bar ? at->x - 0.5 : at->x);
            axis_see(&x, &p->x, bar ? at->x + 0.5 : at->x);
            axis_see(&y, &p->y, at->y);
            if (bar)
                axis_see(&y, &p->y, 0);
        }
    if (p->heat.cells) /* half a row beyond the first and the last */
        v->rows = (chart_axis){.title = p->y.title, .whole = true, .least = -0.5, .most = (double)p->heat.rows - 0.5};
    axis_fit(&v->x, &p->x, &x, (int)(v->width / 60));
    axis_fit(&v->y, p->heat.cells ? &v->rows : &p->y, &y, (int)fmax(2, height / (p->heat.cells ? 20 : 42)));
}

/* Returns the width of the widest tick label. */
static double widest_mark(const axis *a)
{
    double widest = 0;
    for (size_t i = 0; i < a->mark_count; i++) {
        char text[32];
        axis_text(text, a, i);
        widest = fmax(widest, svg_text_width(text, SVG_NOTE_SIZE));
    }
    return widest;
}

static double plot_height(const chart_panel *p)
{
    if (!p->heat.cells)
        return PLOT_HEIGHT;
    return fmin(fmax((double)p->heat.rows * HEAT_ROW, HEAT_LEAST), PLOT_HEIGHT);
}

static void lay_view(view *v, const chart_panel *p, double left, double top, double width)
{
    double height = plot_height(p);
    *v = (view){.panel = p, .left = left, .top = top, .width = width};
    fit_axes(v, height);
    v->plot.left = left + widest_mark(&v->y) + 8;
    v->plot.right = left + width - widest_mark(&v->x) / 2;
    v->plot.top = top + ABOVE;
    v->plot.bottom = v->plot.top + height;
}

static void collect_entries(layout *l, const chart *c)
{
    for (size_t p = 0; p < c->panel_count; p++)
        for (size_t s = 0; s < c->panels[p].series_count; s++) {
            const chart_series *series = &c->panels[p].series[s];
            size_t i = 0;
            while (i < l->entry_count && series->name &&
                   (strcmp(l->entries[i]->name, series->name) != 0 || l->entries[i]->style != series->style))
                i++;
            if (series->name && i == l->entry_count && i < MAX_ENTRIES)
                l->entries[l->entry_count++] = series;
        }
}

/* Returns the width of an entry including the gap to the next one. */
static double entry_width(const chart_series *s)
{
    return fmin(SAMPLE + 6 + svg_text_width(s->name, SVG_TEXT_SIZE) + 18, SVG_ROOM);
}

/* Draws the legend's entries and returns their number of lines; s NULL: only counts. */
static size_t put_legend(svg *s, const layout *l, double y);

static void lay_out(layout *l, const chart *c)
{
    memset(l, 0, sizeof *l);
    collect_entries(l, c);
    double y = 54 + (double)put_legend(NULL, l, 0) * ENTRY_PITCH, highest = 0;
    double width = (SVG_ROOM - GAP * (double)(c->columns - 1)) / (double)c->columns;
    for (size_t i = 0; i < c->panel_count; i++) {
        size_t column = i % c->columns;
        if (column == 0 && i > 0) {
            y += ABOVE + highest + BELOW;
            highest = 0;
        }
        bool alone = column == 0 && i + 1 == c->panel_count;
        lay_view(&l->views[i], &c->panels[i], SVG_MARGIN + (double)column * (width + GAP), y, alone ? SVG_ROOM : width);
        highest = fmax(highest, l->views[i].plot.bottom - l->views[i].plot.top);
    }
    l->note = y + ABOVE + highest + BELOW + 2;
    l->height = l->note + (double)svg_note_lines(c->note) * SVG_NOTE_PITCH;
}

/* ------------------------------------------------------------------ words */

static void say(svg *s, const char *text)
{
    svg_put_escaped(s, text, strlen(text));
}

static void say_value(svg *s, const chart_axis *a, double value)
{
    SVG_PRINT(s, " %.4g%s", a->percent ? 100 * value : value, a->percent ? " %" : "");
}

static void say_series(svg *s, const chart_panel *p, const chart_series *series)
{
    const char *before = series->name ? ": " : "";
    say(s, series->name ? series->name : "");
    for (size_t i = 0, said = 0; i < series->count && said < SAID_POINTS; i++) {
        const chart_point *at = &series->points[i];
        if (!is_drawn(at))
            continue;
        say(s, said++ ? "; " : before);
        if (at->label) {
            say(s, at->label);
            SVG_PRINT(s, ", ");
        }
        say(s, p->x.title);
        say_value(s, &p->x, at->x);
        SVG_PRINT(s, ", ");
        say(s, p->y.title);
        say_value(s, &p->y, at->y);
    }
    SVG_PRINT(s, ".\n");
}

static void put_description(svg *s, const chart *c)
{
    for (size_t i = 0; i < c->panel_count; i++) {
        const chart_panel *p = &c->panels[i];
        say(s, p->title);
        SVG_PRINT(s, ". ");
        if (p->says) {
            say(s, p->says);
            SVG_PRINT(s, "\n");
        }
        for (size_t n = 0; n < p->series_count; n++)
            if (has_marks(&p->series[n]) || p->series[n].style == CHART_BARS)
                say_series(s, p, &p->series[n]);
    }
}

/* ------------------------------------------------------------------ axes */

static void put_line(svg *s, const char *class, double x1, double x2, double y1, double y2)
{
    SVG_PRINT(s, "<line class=\"%s\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>\n", class, x1, x2, y1, y2);
}

/* Returns the y of a value; the y axis of a heat map runs from top to bottom. */
static double mark_y(const view *v, double value)
{
    double y = place_y(v, value);
    return v->panel->heat.cells ? v->plot.top + v->plot.bottom - y : y;
}

static void put_x_axis(svg *s, const view *v)
{
    double taken = -INFINITY;
    for (size_t i = 0; i < v->x.mark_count; i++) {
        char text[32];
        double x = place_x(v, v->x.marks[i]);
        axis_text(text, &v->x, i);
        double half = svg_text_width(text, SVG_NOTE_SIZE) / 2;
        if (!v->panel->heat.cells)
            put_line(s, "grid", x, x, v->plot.top, v->plot.bottom);
        if (x - half < taken + 4)
            continue;
        svg_put_text(s, "tick", SVG_MIDDLE, x, v->plot.bottom + 18, SVG_NOTE_SIZE, 2 * half + 1, text);
        taken = x + half;
    }
    svg_put_text(s, "tick", SVG_END, v->plot.right, v->plot.bottom + 35, SVG_NOTE_SIZE, v->plot.right - v->left,
                 v->panel->x.title);
}

static void put_y_axis(svg *s, const view *v)
{
    double taken = INFINITY;
    for (size_t i = 0; i < v->y.mark_count; i++) {
        char text[32];
        double y = mark_y(v, v->y.marks[i]);
        axis_text(text, &v->y, i);
        if (!v->panel->heat.cells)
            put_line(s, "grid", v->plot.left, v->plot.right, y, y);
        if (fabs(taken - y) < 14)
            continue;
        svg_put_text(s, "tick", SVG_END, v->plot.left - 6, y + 4, SVG_NOTE_SIZE, v->plot.left - v->left, text);
        taken = y;
    }
}

/* Draws how values become colours, at the right end of the line above the plot. Returns where the scale begins. */
static double put_heat_scale(svg *s, const view *v, double base)
{
    const chart_axis *value = &v->panel->heat.value;
    axis_range ends = {value->least, value->most, false};
    axis a;
    char text[2][32];
    axis_fit(&a, value, &ends, 4);
    a.marks[0] = value->least;
    a.marks[1] = value->most;
    for (size_t i = 0; i < 2; i++)
        axis_text(text[i], &a, i);
    double right = v->plot.right - svg_text_width(text[1], SVG_NOTE_SIZE), left = right - 6 - SVG_HEATS * HEAT_STEP;
    svg_put_text(s, "tick", SVG_START, right, base, SVG_NOTE_SIZE, v->plot.right - right + 1, text[1]);
    for (int i = 0; i < SVG_HEATS; i++)
        SVG_PRINT(s, "<rect class=\"h%d\" x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"11\"/>\n", i,
                  left + i * HEAT_STEP, base - 9, HEAT_STEP);
    svg_put_text(s, "tick", SVG_END, left - 6, base, SVG_NOTE_SIZE, left - v->left, text[0]);
    return left - 6 - svg_text_width(text[0], SVG_NOTE_SIZE);
}

static void put_titles(svg *s, const view *v)
{
    const chart_panel *p = v->panel;
    double base = v->top + 32, end = v->left + v->width;
    svg_put_text(s, "group", SVG_START, v->left, v->top + 13, SVG_BOLD * SVG_TEXT_SIZE, v->width, p->title);
    if (p->heat.cells)
        end = put_heat_scale(s, v, base) - 12;
    svg_put_text(s, "tick", SVG_START, v->left, base, SVG_NOTE_SIZE, end - v->left, p->y.title);
}

/* ------------------------------------------------------------------ series */

/* Shapes by colour, relative to the centre of the mark. */
static const char *const shapes[SVG_COLORS] = {
    "m-4.5 -1.5h3v-3h3v3h3v3h-3v3h-3v-3h-3z",
    "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
    "m-3.6 -3.6h7.2v7.2h-7.2z",
    "m0 -5l5 5l-5 5l-5 -5z",
    "m0 -4.6l4.8 8.2h-9.6z",
    "m0 4.6l4.8 -8.2h-9.6z",
};

static void put_mark(svg *s, unsigned color, double x, double y)
{
    SVG_PRINT(s, "<path class=\"c%u dot\" d=\"M%.1f %.1f%s\"/>\n", color, x, y, shapes[color]);
}

static void begin_path(svg *s, const chart_series *series)
{
    if (series->style == CHART_HAIR)
        SVG_PRINT(s, "<path class=\"hair\" d=\"");
    else
        SVG_PRINT(s, "<path class=\"c%u line\" d=\"", series->color);
}

static void put_path(svg *s, const view *v, const chart_series *series)
{
    bool joined = false;
    begin_path(s, series);
    for (size_t i = 0; i < series->count; i++) {
        const chart_point *at = &series->points[i];
        if (is_drawn(at))
            SVG_PRINT(s, "%s%.1f %.1f", joined ? "L" : "M", place_x(v, at->x), place_y(v, at->y));
        joined = is_drawn(at);
    }
    SVG_PRINT(s, "\"/>\n");
}

static void put_bars(svg *s, const view *v, const chart_series *series)
{
    for (size_t i = 0; i < series->count; i++) {
        const chart_point *at = &series->points[i];
        if (!is_drawn(at))
            continue;
        double left = place_x(v, at->x - 0.38), right = place_x(v, at->x + 0.38), top = place_y(v, at->y);
        SVG_PRINT(s, "<rect class=\"c%u\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n", series->color,
                  left, top, right - left, v->plot.bottom - top);
    }
}

static void put_series(svg *s, const view *v, const chart_series *series)
{
    if (series->style == CHART_BARS)
        put_bars(s, v, series);
    else if (series->style != CHART_MARKS)
        put_path(s, v, series);
    for (size_t i = 0; has_marks(series) && i < series->count; i++)
        if (is_drawn(&series->points[i]))
            put_mark(s, series->color, place_x(v, series->points[i].x), place_y(v, series->points[i].y));
}

static size_t put_legend(svg *s, const layout *l, double y)
{
    double x = SVG_MARGIN;
    size_t lines = l->entry_count > 0;
    for (size_t i = 0; i < l->entry_count; i++) {
        const chart_series *e = l->entries[i];
        double width = entry_width(e);
        if (x > SVG_MARGIN && x + width > SVG_MARGIN + SVG_ROOM + 18) {
            x = SVG_MARGIN;
            y += ENTRY_PITCH;
            lines++;
        }
        if (s && e->style == CHART_BARS)
            SVG_PRINT(s, "<rect class=\"c%u\" x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"12\"/>\n", e->color, x + 5,
                      y - 10.5);
        if (s && e->style != CHART_BARS && e->style != CHART_MARKS) {
            begin_path(s, e);
            SVG_PRINT(s, "M%.1f %.1fh%d\"/>\n", x, y - 4.5, SAMPLE);
        }
        if (s && has_marks(e))
            put_mark(s, e->color, x + SAMPLE / 2.0, y - 4.5);
        if (s)
            svg_put_text(s, "muted", SVG_START, x + SAMPLE + 6, y, SVG_TEXT_SIZE, width - SAMPLE - 6, e->name);
        x += width;
    }
    return lines;
}

/* ------------------------------------------------------------------ heat */

static int heat_of(const axis *value, float cell)
{
    if (isnan(cell))
        return -1;
    int shade = (int)(axis_place(value, (double)cell) * SVG_HEATS);
    return shade < SVG_HEATS ? shade : SVG_HEATS - 1;
}

/* Merges neighbours of one colour in a row into one rectangle. */
static void put_heat(svg *s, const view *v)
{
    const chart_heat *h = &v->panel->heat;
    axis_range ends = {h->value.least, h->value.most, false};
    axis value;
    axis_fit(&value, &h->value, &ends, 4);
    double width = (v->plot.right - v->plot.left) / (double)h->columns;
    double height = (v->plot.bottom - v->plot.top) / (double)h->rows;
    SVG_PRINT(s, "<g shape-rendering=\"crispEdges\">\n");
    for (size_t row = 0; row < h->rows; row++)
        for (size_t from = 0, to; from < h->columns; from = to) {
            const float *cells = h->cells + row * h->columns;
            int heat = heat_of(&value, cells[from]);
            for (to = from + 1; to < h->columns && heat_of(&value, cells[to]) == heat;)
                to++;
            if (heat >= 0)
                SVG_PRINT(s, "<rect class=\"h%d\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"/>\n", heat,
                          v->plot.left + (double)from * width, v->plot.top + (double)row * height,
                          (double)(to - from) * width, height);
        }
    SVG_PRINT(s, "</g>\n");
}

/* ------------------------------------------------------------------ labels */

/* Where a label may be placed relative to its mark, in order of preference. */
static const struct {
    double x, y;
    svg_anchor anchor;
} spots[] = {
    {8, 4, SVG_START},  {-8, 4, SVG_END},  {0, -9, SVG_MIDDLE}, {0, 17, SVG_MIDDLE}, {6, -7, SVG_START},
    {6, 15, SVG_START}, {-6, -7, SVG_END}, {-6, 15, SVG_END},   {14, 22, SVG_START}, {-14, -16, SVG_END},
};

static bool boxes_meet(const box *a, const box *b)
{
    return a->left < b->right && b->left < a->right && a->top < b->bottom && b->top < a->bottom;
}

/* Tests points of the line a few pixels apart. */
static bool line_meets(const box *b, double x1, double y1, double x2, double y2)
{
    int points = 1 + (int)(hypot(x2 - x1, y2 - y1) / 3);
    for (int i = 0; i <= points; i++) {
        double share = (double)i / points, x = x1 + share * (x2 - x1), y = y1 + share * (y2 - y1);
        if (x > b->left - 1 && x < b->right + 1 && y > b->top - 1 && y < b->bottom + 1)
            return true;
    }
    return false;
}

static bool meets_series(const view *v, const chart_series *series, const box *b)
{
    for (size_t i = 0; i < series->count; i++) {
        const chart_point *at = &series->points[i], *before = i ? at - 1 : NULL;
        if (!is_drawn(at))
            continue;
        double x = place_x(v, at->x), y = place_y(v, at->y);
        box mark = {x - MARK_RADIUS, y - MARK_RADIUS, x + MARK_RADIUS, y + MARK_RADIUS};
        if (has_marks(series) && boxes_meet(&mark, b))
            return true;
        if (series->style != CHART_MARKS && before && is_drawn(before) &&
            line_meets(b, place_x(v, before->x), place_y(v, before->y), x, y))
            return true;
    }
    return false;
}

/* Returns whether a label's box lies inside the panel and meets neither a series nor another label. */
static bool is_free(const view *v, const box *b, const box *taken, size_t taken_count)
{
    if (b->left < v->plot.left + 2 || b->right > v->left + v->width || b->top < v->plot.top ||
        b->bottom > v->plot.bottom - 1)
        return false;
    for (size_t i = 0; i < taken_count; i++)
        if (boxes_meet(&taken[i], b))
            return false;
    for (size_t i = 0; i < v->panel->series_count; i++)
        if (meets_series(v, &v->panel->series[i], b))
            return false;
    return true;
}

static void put_label(svg *s, const view *v, const chart_point *at, box *taken, size_t *taken_count)
{
    double width = svg_text_width(at->label, SVG_NOTE_SIZE), x = place_x(v, at->x), y = place_y(v, at->y);
    for (size_t i = 0; i < sizeof spots / sizeof *spots && *taken_count < MAX_LABELS; i++) {
        double shift = spots[i].anchor == SVG_START ? 0 : spots[i].anchor == SVG_END ? width : width / 2;
        double left = x + spots[i].x - shift, base = y + spots[i].y;
        box b = {left, base - TAG_HEIGHT + 3, left + width, base + 3};
        if (!is_free(v, &b, taken, *taken_count))
            continue;
        svg_put_text(s, "tag", spots[i].anchor, x + spots[i].x, base, SVG_NOTE_SIZE, width + 1, at->label);
        b.left -= 3; /* space between labels */
        b.right += 3;
        taken[(*taken_count)++] = b;
        return;
    }
}

static void put_labels(svg *s, const view *v)
{
    box taken[MAX_LABELS];
    size_t count = 0;
    for (size_t n = 0; n < v->panel->series_count; n++)
        for (size_t i = 0; has_marks(&v->panel->series[n]) && i < v->panel->series[n].count; i++) {
            const chart_point *at = &v->panel->series[n].points[i];
            if (at->label && is_drawn(at))
                put_label(s, v, at, taken, &count);
        }
}

/* ------------------------------------------------------------------ the picture */

static void put_view(svg *s, const view *v)
{
    put_titles(s, v);
    if (v->panel->heat.cells)
        put_heat(s, v);
    put_x_axis(s, v);
    put_y_axis(s, v);
    put_line(s, "axis", v->plot.left, v->plot.left, v->plot.top, v->plot.bottom);
    put_line(s, "axis", v->plot.left, v->plot.right, v->plot.bottom, v->plot.bottom);
    for (size_t i = v->panel->series_count; i-- > 0;)
        put_series(s, v, &v->panel->series[i]);
    put_labels(s, v);
}

/* Checks that a panel has something to draw, within the limits, and that its axes and values can be drawn. */
static hearth_status check_panel(const char *path, const chart_panel *p, hearth_error *error)
{
    size_t points = 0, drawn = 0;
    const chart_heat *h = &p->heat;
    if (h->cells && (h->rows == 0 || h->columns == 0 || h->rows > MAX_CELLS || h->columns > MAX_CELLS / h->rows ||
                     !(h->value.least < h->value.most) || (h->value.log && h->value.least <= 0)))
        return fail(error, HEARTH_INVALID, "%s: picture: a heat map holds from 1 to %d cells and has a scale", path,
                    MAX_CELLS);
    if (p->series_count > MAX_SERIES || (p->x.log && p->x.least < p->x.most && p->x.least <= 0) ||
        (p->y.log && p->y.least < p->y.most && p->y.least <= 0))
        return fail(error, HEARTH_INVALID, "%s: picture: a panel holds %d series on axes that fit them", path,
                    MAX_SERIES);
    for (size_t s = 0; s < p->series_count && points <= MAX_POINTS; s++) {
        points += p->series[s].count > MAX_POINTS ? MAX_POINTS + 1 : p->series[s].count;
        if (p->series[s].color >= SVG_COLORS)
            return fail(error, HEARTH_INVALID, "%s: picture: there is no colour %u", path, p->series[s].color);
        for (size_t i = 0; i < p->series[s].count && points <= MAX_POINTS; i++) {
            const chart_point *at = &p->series[s].points[i];
            if (is_drawn(at) && (fabs(at->x) > MAX_VALUE || fabs(at->y) > MAX_VALUE))
                return fail(error, HEARTH_INVALID, "%s: picture: a value of '%s' is too large", path, p->title);
            drawn += is_drawn(at);
        }
    }
    if (points > MAX_POINTS || (drawn == 0 && !h->cells))
        return fail(error, HEARTH_INVALID, "%s: picture: a panel holds from 1 to %d points; '%s' does not", path,
                    MAX_POINTS, p->title);
    return HEARTH_OK;
}

hearth_status chart_write(const char *path, const chart *c, hearth_error *error)
{
    if (c->panel_count == 0 || c->panel_count > MAX_PANELS || c->columns == 0 || c->columns > 2)
        return fail(error, HEARTH_INVALID, "%s: picture: holds from 1 to %d panels, at most two side by side", path,
                    MAX_PANELS);
    for (size_t i = 0; i < c->panel_count; i++)
        TRY(check_panel(path, &c->panels[i], error));
    svg s = {.ok = true};
    layout l;
    lay_out(&l, c);
    svg_begin(&s, l.height, c->title);
    put_description(&s, c);
    svg_put_ground(&s, l.height, c->title);
    put_legend(&s, &l, 64);
    for (size_t i = 0; i < c->panel_count; i++)
        put_view(&s, &l.views[i]);
    svg_put_note(&s, l.note, c->note);
    return svg_write(&s, path, error);
}
