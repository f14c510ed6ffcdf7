/* svg_look.h - looks at a picture as a strict reader does: well-formed, nothing but text and shapes, no text over
 * another or outside the picture. Comes behind the includes of a test, as skip.h does. */
#ifndef TESTS_SVG_LOOK_H
#define TESTS_SVG_LOOK_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../src/base/file.h"
#include "../src/base/memory.h"
#include "../src/base/text.h"

#include "skip.h"

#define LOOK_TEXTS 1024

/* The whole file; mem_free. */
static inline char *look_read(const char *path)
{
    struct {
        char *data;
        size_t size;
    } text = {0};
    assert_int_equal(file_read(&text.data, &text.size, path, 1 << 24, NULL), HEARTH_OK);
    assert_int_equal(strlen(text.data), text.size);
    assert_true(utf8_is_valid(text.data, text.size));
    return text.data;
}

static inline double look_number(const char *element, const char *name)
{
    char key[32];
    snprintf(key, sizeof key, " %s=\"", name);
    const char *at = strstr(element, key);
    assert_non_null(at);
    return strtod(at + strlen(key), NULL);
}

/* The n-th element whose class attribute is `class`; NULL: there are fewer. */
static inline const char *look_find(const char *svg, const char *class, size_t n)
{
    char key[48];
    snprintf(key, sizeof key, " class=\"%s\" ", class);
    const char *at = strstr(svg, key);
    for (; at && n > 0; n--)
        at = strstr(at + 1, key);
    return at;
}

/* Elements are closed in order, attributes quoted, names of those that pictures are made of. */
static inline void look_is_well_formed(const char *svg)
{
    static const char *const known[] = {"svg", "title", "desc", "style", "rect", "line", "path", "text", "g"};
    size_t open[8], depth = 0;
    for (const char *at = strchr(svg, '<'); at; at = strchr(at, '<')) {
        bool closing = at[1] == '/';
        const char *name = at + 1 + closing;
        size_t size = strcspn(name, " >/"), which = 0;
        while (which < 9 && (strlen(known[which]) != size || memcmp(known[which], name, size) != 0))
            which++;
        assert_true(which < 9);
        bool quoted = false;
        for (at = name + size; *at && (quoted || *at != '>'); at++) {
            quoted ^= *at == '"';
            assert_true(*at != '<');
        }
        assert_int_equal(*at, '>');
        if (closing) {
            assert_true(depth > 0);
            assert_int_equal(open[--depth], which);
        } else if (at[-1] != '/') {
            assert_true(depth < 8);
            open[depth++] = which;
        }
    }
    assert_int_equal(depth, 0);
    for (const char *c = svg; *c; c++) {
        assert_true((unsigned char)*c >= 0x20 || *c == '\n');
        if (*c == '&')
            assert_true(c[1] == '#' || !strncmp(c, "&amp;", 5) || !strncmp(c, "&lt;", 4) || !strncmp(c, "&gt;", 4) ||
                        !strncmp(c, "&quot;", 6));
    }
    assert_null(strstr(svg, "]]>"));
    assert_null(strstr(svg, "href"));
    assert_null(strstr(svg, "url("));
}

typedef struct look_text {
    double y, from, to;
} look_text;

/* A text element's place; a letter is taken to be half its size wide, which is narrow. */
static inline look_text look_place(const char *element)
{
    const char *text = strchr(element, '>') + 1;
    bool small = strncmp(element, "<text class=\"t", 14) == 0 || strncmp(element, "<text class=\"n", 14) == 0;
    size_t letters = 0;
    for (const char *c = text; *c != '<'; c++) {
        if (*c == '&')
            c = strchr(c, ';');
        letters += ((unsigned char)*c & 0xc0) != 0x80;
    }
    look_text t = {look_number(element, "y"), look_number(element, "x"), 0};
    double width = (small ? 5.4 : 6) * (double)letters;
    const char *anchor = strstr(element, "text-anchor=\"");
    if (anchor && anchor < text)
        t.from -= anchor[13] == 'm' ? width / 2 : width;
    t.to = t.from + width;
    return t;
}

/* Returns how many texts there are. */
static inline size_t look_at_texts(const char *svg)
{
    static look_text places[LOOK_TEXTS];
    size_t count = 0;
    double width = look_number(svg, "width"), height = look_number(svg, "height");
    for (const char *at = strstr(svg, "<text "); at; at = strstr(at + 1, "<text "), count++) {
        assert_true(count < LOOK_TEXTS);
        places[count] = look_place(at);
        if (places[count].from < 0 || places[count].to > width || places[count].y < 10 || places[count].y > height - 4)
            fail_msg("outside the picture: %.60s", at);
        for (size_t i = 0; i < count; i++)
            if (fabs(places[i].y - places[count].y) < 11 && places[i].to > places[count].from &&
                places[count].to > places[i].from)
                fail_msg("over another text: %.60s", at);
    }
    return count;
}

#endif
