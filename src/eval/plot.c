/* plot.c - bars into SVG.
 *
 * Nothing here can ask how wide a text will be, since the viewer chooses the font: widths are estimated for a wide one,
 * and everything is placed so that even that one overlaps nothing. */
#include "plot.h"

#include "../base/file.h"
#include "../base/text.h"

#include <math.h>
#include <string.h>

/* All lengths in pixels. */
#define WIDTH        840
#define MARGIN       22
#define GAP          26 /* between columns                                */
#define BAR          15
#define PITCH        22  /* from bar to bar                                */
#define GROUP        30  /* from the last bar of a group to the next one's heading */
#define LABEL_WIDTH  150 /* the longest label of a bar                     */
#define LEAST_BAR    40  /* of the longest bar of a panel                  */
#define MAX_BARS     200
#define MAX_PANELS   4
#define NOTE_LINES   4
#define LINE         17 /* from line to line of the note                  */
#define HEADING_SIZE 18
#define TEXT_SIZE    13
#define NOTE_SIZE    11.5
#define BOLD         1.15 /* times as wide as plain text of its size        */

static const char style[] =
    "<style>\n"
    ".ground{fill:#fff;stroke:#d0d7de}text{fill:#1f2328;font:13px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,"
    "sans-serif}\n"
    ".heading{font-size:18px;font-weight:600}.group{font-weight:600}.muted{fill:#59636e}.note{fill:#59636e;"
    "font-size:11.5px}\n"
    ".axis{stroke:#8c959f}.halo{stroke:#fff;stroke-width:5}.mark{stroke:#1f2328;stroke-width:2}\n"
    ".c0{fill:#8c959f}.c1{fill:#0969da}.c2{fill:#c4570c}.c3{fill:#1a7f37}.c4{fill:#8250df}\n"
    "@media (prefers-color-scheme:dark){\n"
    ".ground{fill:#0d1117;stroke:#3d444d}text{fill:#f0f6fc}.muted,.note{fill:#9198a1}\n"
    ".axis{stroke:#656c76}.halo{stroke:#0d1117}.mark{stroke:#f0f6fc}\n"
    ".c0{fill:#7d8590}.c1{fill:#4493f8}.c2{fill:#e6873a}.c3{fill:#3fb950}.c4{fill:#ab7df8}}\n"
    "</style>\n";

typedef struct canvas {
    buffer out;
    bool ok; /* false: some text found no memory */
} canvas;

#define PRINT(c, ...) ((c)->ok = (c)->ok && buffer_print(&(c)->out, __VA_ARGS__))

/* ------------------------------------------------------------------ text */

/* Bytes of the character at text, and its width in a wide sans-serif font, as a share of the font's size. */
static size_t measure_character(const char *text, size_t size, double *width)
{
    size_t length = utf8_length(text, size);
    char c = *text;
    if (length != 1)
        *width = 1.1;
    else if (strchr("mwMW@%", c))
        *width = 1;
    else if (c >= 'A' && c <= 'Z')
        *width = 0.78;
    else
        *width = strchr(" .,:;'|!()[]il/-", c) ? 0.4 : 0.65;
    return length > 0 ? length : 1;
}

static double text_width(const char *text, double font_size)
{
    double sum = 0, width;
    for (size_t at = 0, size = strlen(text); at < size;) {
        at += measure_character(text + at, size - at, &width);
        sum += width * font_size;
    }
    return sum;
}

/* How many bytes of text fit. */
static size_t fitting(const char *text, double font_size, double room)
{
    size_t at = 0, size = strlen(text);
    while (at < size) {
        double width;
        size_t length = measure_character(text + at, size - at, &width);
        room -= width * font_size;
        if (room < 0)
            break;
        at += length;
    }
    return at;
}

/* What XML 1.0 cannot hold, and what turns the direction of text around. */
static bool is_forbidden(const char *c, size_t length)
{
    const unsigned char *u = (const unsigned char *)c;
    if (length <= 1)
        return length == 0 || u[0] < 0x20 || u[0] == 0x7f;
    if (length == 2)
        return u[0] == 0xc2 && u[1] < 0xa0;
    if (length == 3 && u[0] == 0xe2)
        return (u[1] == 0x80 && (u[2] == 0x8e || u[2] == 0x8f || (u[2] >= 0xa8 && u[2] <= 0xae))) ||
               (u[1] == 0x81 && u[2] >= 0xa6 && u[2] <= 0xa9);
    return length == 3 && u[0] == 0xef && u[1] == 0xbf && u[2] >= 0xbe;
}

static void put_escaped(canvas *c, const char *text, size_t size)
{
    static const struct {
        char plain;
        const char *escaped;
    } table[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
    for (size_t at = 0; at < size;) {
        size_t length = utf8_length(text + at, size - at), i = 0;
        while (i < sizeof table / sizeof *table && table[i].plain != text[at])
            i++;
        if (i < sizeof table / sizeof *table)
            PRINT(c, "%s", table[i].escaped);
        else if (is_forbidden(text + at, length))
            PRINT(c, "\xef\xbf\xbd");
        else
            PRINT(c, "%.*s", (int)length, text + at);
        at += length > 0 ? length : 1;
    }
}

/* One line of text, cut where it would be wider than room. */
static void put_text(canvas *c, const char *class, double x, double y, double font_size, double room, const char *text)
{
    size_t size = strlen(text);
    bool cut = text_width(text, font_size) > room;
    if (cut)
        size = fitting(text, font_size, room - 1.1 * font_size);
    PRINT(c, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">", class, x, y);
    put_escaped(c, text, size);
    PRINT(c, "%s</text>\n", cut ? "\xe2\x80\xa6" : "");
}

/* The bytes of text that its next line takes: up to the last blank that fits. */
static size_t next_line(const char *text, double room)
{
    size_t fits = fitting(text, NOTE_SIZE, room);
    if (!text[fits])
        return fits;
    size_t end = fits;
    while (end > 0 && text[end] != ' ')
        end--;
    return end > 0 ? end : fits > 0 ? fits : 1;
}

static size_t note_lines(const char *text, double room)
{
    size_t lines = 0;
    for (; *text && lines < NOTE_LINES; lines++) {
        text += next_line(text, room);
        text += strspn(text, " ");
    }
    return lines;
}

static void put_note(canvas *c, double y, const char *text)
{
    double room = WIDTH - 2 * MARGIN;
    for (size_t line = 0; *text && line < NOTE_LINES; line++) {
        size_t size = line + 1 < NOTE_LINES ? next_line(text, room) : strlen(text);
        char part[512];
        size_t kept = size < sizeof part ? size : sizeof part - 1;
        memcpy(part, text, kept);
        part[kept] = 0;
        put_text(c, "note", MARGIN, y + (double)line * LINE, NOTE_SIZE, room, part);
        text += size;
        text += strspn(text, " ");
    }
}

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

/* Of one panel: the longest bar or mark, and the widest text. */
static void measure_panel(const plot *p, size_t number, double *longest, double *widest)
{
    *longest = *widest = 0;
    for (size_t g = 0; g < p->group_count; g++)
        for (size_t i = 0; i < p->groups[g].bar_count; i++) {
            const plot_value *v = &p->groups[g].bars[i].values[number];
            *longest = longer(*longest, longer(v->length, v->mark));
            *widest = longer(*widest, text_width(v->text, TEXT_SIZE));
        }
}

static double widest_label(const plot *p)
{
    double widest = 0;
    for (size_t g = 0; g < p->group_count; g++)
        for (size_t i = 0; i < p->groups[g].bar_count; i++)
            widest = longer(widest, text_width(p->groups[g].bars[i].label, TEXT_SIZE));
    return widest < LABEL_WIDTH ? widest : LABEL_WIDTH;
}

static void lay_out(layout *l, const plot *p)
{
    double x = MARGIN + widest_label(p) + GAP / 2.0;
    double width = (WIDTH - MARGIN - x - GAP * (double)(p->panel_count - 1)) / (double)p->panel_count;
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
    l->height = l->note + (double)note_lines(p->note, WIDTH - 2 * MARGIN) * LINE;
}

/* ------------------------------------------------------------------ drawing */

/* Everything that the bars show, in words. */
static void put_description(canvas *c, const plot *p)
{
    PRINT(c, "<desc id=\"what\">");
    for (size_t g = 0; g < p->group_count; g++) {
        put_escaped(c, p->groups[g].label, strlen(p->groups[g].label));
        for (size_t i = 0; i < p->groups[g].bar_count; i++) {
            const plot_bar *bar = &p->groups[g].bars[i];
            PRINT(c, i ? "; " : ": ");
            put_escaped(c, bar->label, strlen(bar->label));
            for (size_t n = 0; n < p->panel_count; n++) {
                PRINT(c, n ? ", " : " ");
                put_escaped(c, p->panels[n], strlen(p->panels[n]));
                PRINT(c, " ");
                put_escaped(c, bar->values[n].text, strlen(bar->values[n].text));
            }
        }
        PRINT(c, ".\n");
    }
    if (p->mark)
        put_escaped(c, p->mark, strlen(p->mark));
    PRINT(c, "</desc>\n");
}

static void put_mark(canvas *c, double x, double top, double bottom)
{
    static const char *const classes[] = {"halo", "mark"};
    for (size_t i = 0; i < 2; i++)
        PRINT(c, "<line class=\"%s\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>\n", classes[i], x, x, top,
              bottom);
}

static void put_bar(canvas *c, const layout *l, const plot *p, const plot_bar *bar, double y)
{
    double base = y + BAR - 3.5;
    put_text(c, "muted", MARGIN, base, TEXT_SIZE, LABEL_WIDTH, bar->label);
    for (size_t i = 0; i < p->panel_count; i++) {
        const panel *at = &l->panels[i];
        const plot_value *v = &bar->values[i];
        double end = at->x + longer(v->length, v->mark) * at->scale + 8;
        PRINT(c, "<rect class=\"c%u\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\"/>\n", bar->color, at->x, y,
              v->length * at->scale, BAR);
        if (v->mark > 0)
            put_mark(c, at->x + v->mark * at->scale, y - 2, y + BAR + 2);
        put_text(c, "value", end, base, TEXT_SIZE, at->x + at->width + GAP - end, v->text);
    }
}

static void put_group(canvas *c, const layout *l, const plot *p, const plot_group *group, double y)
{
    put_text(c, "group", MARGIN, y, BOLD * TEXT_SIZE, WIDTH - 2 * MARGIN, group->label);
    y += 8;
    for (size_t i = 0; i < p->panel_count; i++)
        PRINT(c, "<line class=\"axis\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>\n", l->panels[i].x,
              l->panels[i].x, y - 1, y + (double)group->bar_count * PITCH - (PITCH - BAR) + 1);
    for (size_t i = 0; i < group->bar_count; i++)
        put_bar(c, l, p, &group->bars[i], y + (double)i * PITCH);
}

static void put_heading(canvas *c, const layout *l, const plot *p)
{
    put_text(c, "heading", MARGIN, 36, BOLD * HEADING_SIZE, WIDTH - 2 * MARGIN, p->title);
    double y = 62;
    if (p->mark) {
        put_mark(c, MARGIN + 2, y - 13, y + 3);
        put_text(c, "muted", MARGIN + 12, y, TEXT_SIZE, WIDTH - 2 * MARGIN - 12, p->mark);
        y += 24;
    }
    for (size_t i = 0; i < p->panel_count; i++)
        put_text(c, "muted", l->panels[i].x, y, TEXT_SIZE, l->panels[i].width, p->panels[i]);
}

static void draw(canvas *c, const plot *p)
{
    layout l;
    lay_out(&l, p);
    PRINT(c,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" viewBox=\"0 0 %d %.0f\" role=\"img\" "
          "aria-labelledby=\"name what\">\n<title id=\"name\">",
          WIDTH, l.height, WIDTH, l.height);
    put_escaped(c, p->title, strlen(p->title));
    PRINT(c, "</title>\n");
    put_description(c, p);
    PRINT(c, "%s<rect class=\"ground\" x=\"0.5\" y=\"0.5\" width=\"%d\" height=\"%.0f\" rx=\"6\"/>\n", style, WIDTH - 1,
          l.height - 1);
    put_heading(c, &l, p);
    double y = l.first;
    for (size_t g = 0; g < p->group_count; g++) {
        put_group(c, &l, p, &p->groups[g], y);
        y += (double)p->groups[g].bar_count * PITCH + GROUP;
    }
    put_note(c, l.note, p->note);
    PRINT(c, "</svg>\n");
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
    canvas c = {.ok = true};
    draw(&c, p);
    hearth_status status = HEARTH_OK;
    file_writer *file = NULL;
    if (!c.ok)
        status = fail_memory(error, path, c.out.size);
    if (status == HEARTH_OK)
        status = file_writer_open(&file, path, error);
    if (status == HEARTH_OK)
        status = file_writer_put(file, c.out.data, c.out.size, error);
    if (status == HEARTH_OK)
        status = file_writer_commit(file, error);
    else
        file_writer_discard(file);
    buffer_free(&c.out);
    return status;
}
