/* svg.h - what all pictures share: the ground, fonts, colours for light and dark, texts that stay texts, and the file.
 *
 * A picture needs nothing else: no scripts, no fonts, no references; light or dark as the viewer prefers, on a ground
 * of its own, with a title and a description for those who do not see it. Nothing here can ask how wide a text will
 * be, since the viewer chooses the font: widths are estimated for a wide one. All lengths are in pixels. */
#ifndef EVAL_SVG_H
#define EVAL_SVG_H

#include "../base/error.h"
#include "../base/text.h"

#define SVG_WIDTH  840
#define SVG_MARGIN 22
#define SVG_ROOM   (SVG_WIDTH - 2 * SVG_MARGIN) /* between the margins            */
#define SVG_COLORS 6                            /* classes c0 .. c5, told apart in light and dark */
#define SVG_HEATS  10                           /* classes h0 .. h9, from next to nothing to all  */

/* Sizes of the fonts of class heading; of group and plain texts; of note, tick and tag. */
#define SVG_HEADING_SIZE 18
#define SVG_TEXT_SIZE    13
#define SVG_NOTE_SIZE    11.5
#define SVG_BOLD         1.15 /* times as wide as plain text of its size: classes heading and group */

#define SVG_NOTE_LINES 4
#define SVG_NOTE_PITCH 17 /* from line to line of the note */

/* A picture on its way; zeroed is empty but for `ok`. */
typedef struct svg {
    buffer out;
    bool ok; /* false: some text found no memory */
} svg;

#define SVG_PRINT(s, ...) ((s)->ok = (s)->ok && buffer_print(&(s)->out, __VA_ARGS__))

typedef enum svg_anchor { SVG_START, SVG_MIDDLE, SVG_END } svg_anchor;

/* ------------------------------------------------------------------ text */

double svg_text_width(const char *text, double font_size);
/* Text as content or attribute; what XML 1.0 cannot hold, and what turns the direction of text around, is replaced. */
void svg_put_escaped(svg *s, const char *text, size_t size);
/* One line, cut where it would be wider than room. */
void svg_put_text(svg *s, const char *class, svg_anchor anchor, double x, double y, double font_size, double room,
                  const char *text);
/* A text across the whole picture, broken into at most SVG_NOTE_LINES lines, the first at y. */
size_t svg_note_lines(const char *text);
void svg_put_note(svg *s, double y, const char *text);

/* ------------------------------------------------------------------ the picture */

/* Begins with the title and leaves the description open, which is text put with svg_put_escaped. */
void svg_begin(svg *s, double height, const char *title);
/* Ends the description; the ground and the title on it, its line at y = 36. */
void svg_put_ground(svg *s, double height, const char *title);

/* Ends the picture, writes it (the file appears when it is whole) and frees it, also on failure. */
hearth_status svg_write(svg *s, const char *path, hearth_error *error);

#endif
