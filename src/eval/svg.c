/* svg.c - the frame of every picture, and the text in it. */
#include "svg.h"

#include "../base/file.h"

#include <string.h>

/* Classes c0 .. c5 fill; combined with class line they colour the stroke instead. */
static const char style[] =
    "<style>\n"
    ".ground{fill:#fff;stroke:#d0d7de}text{fill:#1f2328;font:13px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,"
    "sans-serif}\n"
    ".heading{font-size:18px;font-weight:600}.group{font-weight:600}.muted{fill:#59636e}.note,.tick{fill:#59636e;"
    "font-size:11.5px}\n"
    ".axis{stroke:#8c959f}.grid{stroke:#e4e9ee}.halo{stroke:#fff;stroke-width:5}.mark{stroke:#1f2328;stroke-width:2}\n"
    ".tag{font-size:11.5px;stroke:#fff;stroke-width:3px;paint-order:stroke}\n"
    ".c0{fill:#8c959f;color:#8c959f}.c1{fill:#0969da;color:#0969da}.c2{fill:#c4570c;color:#c4570c}"
    ".c3{fill:#1a7f37;color:#1a7f37}.c4{fill:#8250df;color:#8250df}.c5{fill:#bf3989;color:#bf3989}\n"
    ".line{fill:none;stroke:currentColor;stroke-width:2;stroke-linejoin:round}"
    ".hair{fill:none;stroke:#8c959f;opacity:.65}.dot{stroke:#fff}\n"
    ".h0{fill:#f0f4f8}.h1{fill:#d8eee0}.h2{fill:#b0dfca}.h3{fill:#7fcdbb}.h4{fill:#4fb8c0}"
    ".h5{fill:#2f9dc1}.h6{fill:#2879b4}.h7{fill:#2553a0}.h8{fill:#22357f}.h9{fill:#16204f}\n"
    "@media (prefers-color-scheme:dark){\n"
    ".ground{fill:#0d1117;stroke:#3d444d}text{fill:#f0f6fc}.muted,.note,.tick{fill:#9198a1}\n"
    ".axis{stroke:#656c76}.grid{stroke:#232a33}.halo{stroke:#0d1117}.mark{stroke:#f0f6fc}.tag{stroke:#0d1117}\n"
    ".c0{fill:#7d8590;color:#7d8590}.c1{fill:#4493f8;color:#4493f8}.c2{fill:#e6873a;color:#e6873a}"
    ".c3{fill:#3fb950;color:#3fb950}.c4{fill:#ab7df8;color:#ab7df8}.c5{fill:#f778ba;color:#f778ba}\n"
    ".line{fill:none}.hair{stroke:#7d8590}.dot{stroke:#0d1117}\n"
    ".h0{fill:#161d26}.h1{fill:#1d2f45}.h2{fill:#1c4466}.h3{fill:#185c86}.h4{fill:#1678a0}"
    ".h5{fill:#2397ae}.h6{fill:#45b5ae}.h7{fill:#7fd0a8}.h8{fill:#bde6a6}.h9{fill:#f4f7b0}}\n"
    "</style>\n";

/* ------------------------------------------------------------------ text */

/* Measures the character at text: returns its bytes and its width in a wide sans-serif font, relative to the font
 * size. */
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

double svg_text_width(const char *text, double font_size)
{
    double sum = 0, width;
    for (size_t at = 0, size = strlen(text); at < size;) {
        at += measure_character(text + at, size - at, &width);
        sum += width * font_size;
    }
    return sum;
}

/* Returns how many bytes of text fit. */
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

/* Returns whether XML 1.0 cannot hold the character, or it changes the direction of text. */
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

void svg_put_escaped(svg *s, const char *text, size_t size)
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
            SVG_PRINT(s, "%s", table[i].escaped);
        else if (is_forbidden(text + at, length))
            SVG_PRINT(s, "\xef\xbf\xbd");
        else
            SVG_PRINT(s, "%.*s", (int)length, text + at);
        at += length > 0 ? length : 1;
    }
}

void svg_put_text(svg *s, const char *class, svg_anchor anchor, double x, double y, double font_size, double room,
                  const char *text)
{
    static const char *const anchors[] = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};
    size_t size = strlen(text);
    bool cut = svg_text_width(text, font_size) > room;
    if (cut)
        /* 1.1 is the width of the ellipsis. */
        size = fitting(text, font_size, room - 1.1 * font_size);
    SVG_PRINT(s, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\"%s>", class, x, y, anchors[anchor]);
    svg_put_escaped(s, text, size);
    SVG_PRINT(s, "%s</text>\n", cut ? "\xe2\x80\xa6" : "");
}

/* Returns the bytes of text on its next line: up to the last blank that fits. */
static size_t next_line(const char *text)
{
    size_t fits = fitting(text, SVG_NOTE_SIZE, SVG_ROOM);
    if (!text[fits])
        return fits;
    size_t end = fits;
    while (end > 0 && text[end] != ' ')
        end--;
    return end > 0 ? end : fits > 0 ? fits : 1;
}

size_t svg_note_lines(const char *text)
{
    size_t lines = 0;
    for (; *text && lines < SVG_NOTE_LINES; lines++) {
        text += next_line(text);
        text += strspn(text, " ");
    }
    return lines;
}

void svg_put_note(svg *s, double y, const char *text)
{
    for (size_t line = 0; *text && line < SVG_NOTE_LINES; line++) {
        /* The last line takes all the rest, and svg_put_text cuts it. */
        size_t size = line + 1 < SVG_NOTE_LINES ? next_line(text) : strlen(text);
        char taken[512];
        size_t length = size < sizeof taken ? size : sizeof taken - 1;
        memcpy(taken, text, length);
        taken[length] = 0;
        svg_put_text(s, "note", SVG_START, SVG_MARGIN, y + (double)line * SVG_NOTE_PITCH, SVG_NOTE_SIZE, SVG_ROOM,
                     taken);
        text += size;
        text += strspn(text, " ");
    }
}

/* ------------------------------------------------------------------ the picture */

void svg_begin(svg *s, double height, const char *title)
{
    SVG_PRINT(s,
              "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" viewBox=\"0 0 %d %.0f\" "
              "role=\"img\" aria-labelledby=\"name what\">\n<title id=\"name\">",
              SVG_WIDTH, height, SVG_WIDTH, height);
    svg_put_escaped(s, title, strlen(title));
    SVG_PRINT(s, "</title>\n<desc id=\"what\">");
}

void svg_put_ground(svg *s, double height, const char *title)
{
    SVG_PRINT(s, "</desc>\n%s<rect class=\"ground\" x=\"0.5\" y=\"0.5\" width=\"%d\" height=\"%.0f\" rx=\"6\"/>\n",
              style, SVG_WIDTH - 1, height - 1);
    svg_put_text(s, "heading", SVG_START, SVG_MARGIN, 36, SVG_BOLD * SVG_HEADING_SIZE, SVG_ROOM, title);
}

hearth_status svg_write(svg *s, const char *path, hearth_error *error)
{
    hearth_status status = HEARTH_OK;
    file_writer *file = NULL;
    SVG_PRINT(s, "</svg>\n");
    if (!s->ok)
        status = fail_memory(error, path, s->out.size);
    if (status == HEARTH_OK)
        status = file_writer_open(&file, path, error);
    if (status == HEARTH_OK)
        status = file_writer_put(file, s->out.data, s->out.size, error);
    if (status == HEARTH_OK)
        status = file_writer_commit(file, error);
    else
        file_writer_discard(file);
    buffer_free(&s->out);
    return status;
}
