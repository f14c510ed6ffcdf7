/* svg.h - what all pictures share: background, fonts, colours for light and dark, escaped text, and the file.
 *
 * A picture is self-contained: no scripts, no fonts, no references. It follows the viewer's preference for light or
 * dark, draws its own background, and has a title and a description for readers who cannot see it. The viewer chooses
 * the font, so text widths are unknown here; they are estimated for a wide font. All lengths are in pixels. */
#ifndef EVAL_SVG_H
#define EVAL_SVG_H

#include "../base/error.h"
#include "../base/text.h"

#define SVG_WIDTH  840
#define SVG_MARGIN 22
#define SVG_ROOM   (SVG_WIDTH - 2 * SVG_MARGIN) /* between the margins */
#define SVG_COLORS 6                            /* classes c0 .. c5, distinguishable in light and dark */
#define SVG_HEATS  10                           /* classes h0 .. h9, from almost nothing to all */

/* Font sizes of the classes: heading; group and plain text; note, tick and tag. */
#define SVG_HEADING_SIZE 18
#define SVG_TEXT_SIZE    13
#define SVG_NOTE_SIZE    11.5
#define SVG_BOLD         1.15 /* width of bold text relative to plain text of its size: classes heading and group */

#define SVG_NOTE_LINES 4
#define SVG_NOTE_PITCH 17 /* line spacing of the note */

/* A picture under construction; start from zero with `ok` set to true. */
typedef struct svg {
    buffer out;
    bool ok; /* false: memory ran out */
} svg;

#define SVG_PRINT(s, ...) ((s)->ok = (s)->ok && buffer_print(&(s)->out, __VA_ARGS__))

typedef enum svg_anchor { SVG_START, SVG_MIDDLE, SVG_END } svg_anchor;

/* ------------------------------------------------------------------ text */

/* Estimates the width of a text in a wide font. */
double svg_text_width(const char *text, double font_size);
/* Writes text as content or attribute value; replaces what XML 1.0 cannot hold and characters that change the direction
 * of text. */
void svg_put_escaped(svg *s, const char *text, size_t size);
/* Writes one line, cut where it would be wider than `room`. */
void svg_put_text(svg *s, const char *class, svg_anchor anchor, double x, double y, double font_size, double room,
                  const char *text);
/* Count and write the lines of a text across the whole picture, broken into at most SVG_NOTE_LINES lines, the first at
 * y. */
size_t svg_note_lines(const char *text);
void svg_put_note(svg *s, double y, const char *text);

/* ------------------------------------------------------------------ the picture */

/* Begins the picture with its title and leaves the description open: write its text with svg_put_escaped. */
void svg_begin(svg *s, double height, const char *title);
/* Ends the description; draws the background and the title, whose baseline is at y = 36. */
void svg_put_ground(svg *s, double height, const char *title);

/* Ends the picture, writes it (the file appears only once it is complete) and frees it, also on failure. */
hearth_status svg_write(svg *s, const char *path, hearth_error *error);

#endif
