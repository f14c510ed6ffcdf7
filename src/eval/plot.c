/* plot.c - bars into SVG, laid out so that even a wide font overlaps nothing. */
#include "plot.h"

#include "svg.h"

#include <math.h>
#include <string.h>

/* All lengths in pixels. */
#define GAP         26 /* between columns                                */
#define BAR         15
#define PITCH       22  /* from bar to bar                                */
#define GROUP       30  /* from the last bar of a group to the next one's heading */
#define LABEL_WIDTH 150 /* the longest label of a bar                     */
#define LEAST_BAR   40  /* minimum length of the longest bar of a panel */
#define MAX_BARS    200
#define MAX_PANELS  4

/* ------------------------------------------------------------------ where things go */

typedef struct panel {
    double x, width;
    double scale; /* pixels per unit */
} panel;

typedef struct layout {
    panel panels[MAX_PANELS];
    double first; /* y of the first group's heading */
    double note;  /* y of the note's first line     */
    double height;
} layout;

static double longer(double a, double b)
{
    return a > b ? a : b;
}

/* Finds a panel's longest bar or mark and its widest text. */
static void measure_panel(const plot *p, size_t number, double *longest, double *widest)
{
    *longest = *widest = 0;
    for (size_t g = 0; g < p->group_count; g++)
        for (size_t i = 0; i < p->groups[g].bar_count; i++) {
            const plot_value *v = &p->groups[g].bars[i].values[number];
            *longest = longer(*longest, longer(v->length, v->mark));
            *widest = longer(*widest, svg_text_width(v->text, SVG_TEXT_SIZE));
        }
}

static double widest_label(const plot *p)
{
    double widest = 0;
    for (size_t g = 0; g < p->group_count; g++)
        for (size_t i = 0; i < p->groups[g].bar_count; i++)
            widest = longer(widest, svg_text_width(p->groups[g].bars[i].label, SVG_TEXT_SIZE));
    return widest < LABEL_WIDTH ? widest : LABEL_WIDTH;
}

static void lay_out(layout *l, const plot *p)
{
    double x = SVG_MARGIN + widest_label(p) + GAP / 2.0;
    double width = (SVG_WIDTH - SVG_MARGIN - x - GAP * (double)(p->panel_count - 1)) / (double)p->panel_count;
    for (size_t i = 0; i < p->panel_count; i++, x += width + GAP) {
        double longest, widest;
        measure_panel(p, i, &longest, &widest);
        double room = longer(width - widest - 8, LEAST_BAR);
        l->panels[i] = (panel){x, width, longest > 0 ? room / longest : 0};
    }
    double y = l->first = p->mark ? 118 : 94;
    for (size_t g = 0; g < p->group_count; g++)
        y += (double)p->groups[g].bar_count * PITCH + GROUP;
    l->note = y + 6;
    l->height = l->note + (double)svg_note_lines(p->note) * SVG_NOTE_PITCH;
}

/* ------------------------------------------------------------------ drawing */

/* Writes everything that the bars show in words. */
static void put_description(svg *s, const plot *p)
{
    for (size_t g = 0; g < p->group_count; g++) {
        svg_put_escaped(s, p->groups[g].label, strlen(p->groups[g].label));
        for (size_t i = 0; i < p->groups[g].bar_count; i++) {
            const plot_bar *bar = &p->groups[g].bars[i];
            SVG_PRINT(s, i ? "; " : ": ");
            svg_put_escaped(s, bar->label, strlen(bar->label));
            for (size_t n = 0; n < p->panel_count; n++) {
                SVG_PRINT(s, n ? ", " : " ");
                svg_put_escaped(s, p->panels[n], strlen(p->panels[n]));
                SVG_PRINT(s, " ");
                svg_put_escaped(s, bar->values[n].text, strlen(bar->values[n].text));
            }
        }
        SVG_PRINT(s, ".\n");
    }
    if (p->mark)
        svg_put_escaped(s, p->mark, strlen(p->mark));
}

static void put_mark(svg *s, double x, double top, double bottom)
{
    static const char *const classes[] = {"halo", "mark"};
    for (size_t i = 0; i < 2; i++)
        SVG_PRINT(s, "<line class=\"%s\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>\n", classes[i], x, x, top,
                  bottom);
}

static void put_bar(svg *s, const layout *l, const plot *p, const plot_bar *bar, double y)
{
    double base = y + BAR - 3.5;
    svg_put_text(s, "muted", SVG_START, SVG_MARGIN, base, SVG_TEXT_SIZE, LABEL_WIDTH, bar->label);
    for (size_t i = 0; i < p->panel_count; i++) {
        const panel *at = &l->panels[i];
        const plot_value *v = &bar->values[i];
        double end = at->x + longer(v->length, v->mark) * at->scale + 8;
        SVG_PRINT(s, "<rect class=\"c%u\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\"/>\n", bar->color, at->x, y,
                  v->length * at->scale, BAR);
        if (v->mark > 0)
            put_mark(s, at->x + v->mark * at->scale, y - 2, y + BAR + 2);
        svg_put_text(s, "value", SVG_START, end, base, SVG_TEXT_SIZE, at->x + at->width + GAP - end, v->text);
    }
}

static void put_group(svg *s, const layout *l, const plot *p, const plot_group *group, double y)
{
    svg_put_text(s, "group", SVG_START, SVG_MARGIN, y, SVG_BOLD * SVG_TEXT_SIZE, SVG_ROOM, group->label);
    y += 8;
    for (size_t i = 0; i < p->panel_count; i++)
        SVG_PRINT(s, "<line class=\"axis\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>\n", l->panels[i].x,
                  l->panels[i].x, y - 1, y + (double)group->bar_count * PITCH - (PITCH - BAR) + 1);
    for (size_t i = 0; i < group->bar_count; i++)
        put_bar(s, l, p, &group->bars[i], y + (double)i * PITCH);
}

static void put_heading(svg *s, const layout *l, const plot *p)
{
    double y = 62;
    if (p->mark) {
        put_mark(s, SVG_MARGIN + 2, y - 13, y + 3);
        svg_put_text(s, "muted", SVG_START, SVG_MARGIN + 12, y, SVG_TEXT_SIZE, SVG_ROOM - 12, p->mark);
        y += 24;
    }
    for (size_t i = 0; i < p->panel_count; i++)
        svg_put_text(s, "muted", SVG_START, l->panels[i].x, y, SVG_TEXT_SIZE, l->panels[i].width, p->panels[i]);
}

static void draw(svg *s, const plot *p)
{
    layout l;
    lay_out(&l, p);
    svg_begin(s, l.height, p->title);
    put_description(s, p);
    svg_put_ground(s, l.height, p->title);
    put_heading(s, &l, p);
    double y = l.first;
    for (size_t g = 0; g < p->group_count; g++) {
        put_group(s, &l, p, &p->groups[g], y);
        y += (double)p->groups[g].bar_count * PITCH + GROUP;
    }
    svg_put_note(s, l.note, p->note);
}

/* ------------------------------------------------------------------ the file */

static hearth_status check(const char *path, const plot *p, hearth_error *error)
{
    size_t bars = 0;
    for (size_t g = 0; g < p->group_count && bars <= MAX_BARS; g++)
        bars = p->groups[g].bar_count > MAX_BARS ? SIZE_MAX : bars + p->groups[g].bar_count;
    if (bars == 0 || p->panel_count == 0 || bars > MAX_BARS || p->panel_count > MAX_PANELS)
        return fail(error, HEARTH_INVALID, "%s: picture: holds from 1 to %d bars in 1 to %d panels", path, MAX_BARS,
                    MAX_PANELS);
    for (size_t n = 0; n < p->panel_count; n++) {
        double longest, widest;
        measure_panel(p, n, &longest, &widest);
        if (!isfinite(longest))
            return fail(error, HEARTH_INVALID, "%s: picture: a value of '%s' is not finite", path, p->panels[n]);
    }
    return HEARTH_OK;
}

hearth_status plot_write(const char *path, const plot *p, hearth_error *error)
{
    TRY(check(path, p, error));
    svg s = {.ok = true};
    draw(&s, p);
    return svg_write(&s, path, error);
}
