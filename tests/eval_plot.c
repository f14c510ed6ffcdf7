/* The picture: whole or not there, never more than text, and nothing drawn over anything else. */
#include "../src/eval/plot.h"

#include "own_folder.h"
#include "svg_look.h"

static const char *const panels[] = {"speed", "bytes"};
static const plot_value slow[] = {{10, 20, "10.0 of 20.0"}, {8, 0, "8 bytes"}},
                        fast[] = {{40, 30, "40.0 of 30.0"}, {2, 0, "2 bytes"}};
static const plot_bar bars[] = {{"dense", 0, slow}, {"exact", 1, fast}};

static plot two_groups(plot_group groups[2])
{
    groups[0] = (plot_group){"first", bars, 2};
    groups[1] = (plot_group){"second", bars + 1, 1};
    return (plot){.title = "A title",
                  .mark = "the floor",
                  .note = "A note of several words.",
                  .panels = panels,
                  .panel_count = 2,
                  .groups = groups,
                  .group_count = 2};
}

/* mem_free */
static char *draw(const plot *p)
{
    hearth_error error;
    if (plot_write(own_path, p, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    char *svg = look_read(own_path);
    look_is_well_formed(svg);
    return svg;
}

/* An attribute of the n-th element of a class. */
static double attribute(const char *svg, const char *class, size_t n, const char *name)
{
    const char *element = look_find(svg, class, n);
    assert_non_null(element);
    return look_number(element, name);
}

/* Lengths are to scale, marks lie where they should, and what a viewer cannot see is told. */
static void bars_are_to_scale(void **state)
{
    (void)state;
    plot_group groups[2];
    plot p = two_groups(groups);
    char *svg = draw(&p);
    double slow_width = attribute(svg, "c0", 0, "width"), start = attribute(svg, "c0", 0, "x");
    double fast_width = attribute(svg, "c1", 0, "width");
    assert_true(slow_width > 10 && fabs(fast_width / slow_width - 4) < 0.02);
    double slow_bytes = attribute(svg, "c0", 1, "width"), fast_bytes = attribute(svg, "c1", 1, "width");
    assert_true(fabs(slow_bytes / fast_bytes - 4) < 0.02);
    /* Mark 0 is that of the legend. */
    assert_true(fabs((attribute(svg, "mark", 1, "x1") - start) / slow_width - 2) < 0.02);
    assert_true(fabs((attribute(svg, "mark", 2, "x1") - start) / fast_width - 0.75) < 0.02);
    assert_non_null(strstr(svg, "<title id=\"name\">A title</title>"));
    assert_non_null(strstr(svg, "first: dense speed 10.0 of 20.0, bytes 8 bytes; exact speed 40.0 of 30.0"));
    assert_non_null(strstr(svg, "prefers-color-scheme:dark"));
    mem_free(svg);
}

/* Texts stand apart: no two share a line closer than a letter of 6 pixels times their length, none leaves the
 * ground. */
static void texts_do_not_overlap(void **state)
{
    (void)state;
    static const plot_value wide[] = {{1e9, 1e9, "123456789012 of 123456789012"}, {1e300, 0, "999999999999 GB"}};
    plot_bar long_bars[] = {{"a label that nobody would ever give a mode of a ladder", 0, wide}, {"exact", 1, slow}};
    plot_group groups[] = {{"a heading that goes on and on and on and on and on and on and on and on and on and on and "
                            "on and on and on and on and on and on and on and on and on and on and on and on",
                            long_bars, 2}};
    plot p = {
        .title = "WWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWW",
        .note = "word word word word word word word word word word word word word word word word word word word word "
                "word word word word word word word word word word word word word word word word word word word",
        .panels = panels,
        .panel_count = 2,
        .groups = groups,
        .group_count = 1};
    char *svg = draw(&p);
    struct place {
        double y, from, to;
    } places[32];
    size_t count = 0;
    double width = look_number(svg, "width"), height = look_number(svg, "height");
    for (const char *at = strstr(svg, "<text "); at; at = strstr(at + 1, "<text "), count++) {
        const char *text = strchr(at, '>') + 1;
        size_t letters = 0;
        for (const char *c = text; *c != '<'; c++)
            letters += ((unsigned char)*c & 0xc0) != 0x80;
        assert_true(count < 32);
        places[count] = (struct place){look_number(at, "y"), look_number(at, "x"), 0};
        places[count].to = places[count].from + 6.0 * (double)letters;
        assert_true(places[count].from > 0 && places[count].to < width);
        assert_true(places[count].y > 10 && places[count].y < height - 4);
        for (size_t i = 0; i < count; i++)
            assert_true(fabs(places[i].y - places[count].y) > 12 || places[i].to < places[count].from ||
                        places[count].to < places[i].from);
    }
    assert_true(count > 10);
    assert_non_null(strstr(svg, "\xe2\x80\xa6</text>")); /* cut */
    mem_free(svg);
}

/* Whatever stands in a text, it stays a text. */
static void hostile_texts_stay_text(void **state)
{
    (void)state;
    plot_bar bar = {"\"><script>&'", 4, slow};
    plot_group group = {"a\x01\x1f\xff\xc3(\xe2\x80\xae]]>\xef\xbf\xbf\xc2\x85-->", &bar, 1};
    plot p = {
        .title = "<!--", .note = "</svg>", .panels = panels, .panel_count = 2, .groups = &group, .group_count = 1};
    char *svg = draw(&p);
    assert_null(strstr(svg, "<script"));
    assert_null(strstr(svg, "<!--"));
    assert_null(strstr(svg, "]]>"));
    assert_null(strstr(svg, "\xe2\x80\xae"));
    assert_null(strstr(svg, "\xef\xbf\xbf"));
    for (const char *c = svg; *c; c++)
        assert_true((unsigned char)*c >= 0x20 || *c == '\n');
    assert_non_null(strstr(svg, "&quot;&gt;&lt;script&gt;&amp;&#39;"));
    assert_ptr_equal(strstr(svg, "</svg>"), svg + strlen(svg) - strlen("</svg>\n"));
    mem_free(svg);
}

static void nothing_and_too_much_are_refused(void **state)
{
    (void)state;
    hearth_error error;
    plot_group groups[2];
    plot p = two_groups(groups);
    p.group_count = 0;
    assert_int_equal(plot_write(own_path, &p, &error), HEARTH_INVALID);
    assert_non_null(strstr(error.text, ": picture: holds from 1 to "));
    p = two_groups(groups);
    groups[1].bar_count = SIZE_MAX; /* nothing is read before it is counted */
    assert_int_equal(plot_write(own_path, &p, &error), HEARTH_INVALID);
    const plot_value endless[] = {{INFINITY, 0, "x"}, {1, 0, "y"}};
    plot_bar bar = {"exact", 1, endless};
    groups[0] = (plot_group){"first", &bar, 1};
    p.group_count = 1;
    assert_int_equal(plot_write(own_path, &p, &error), HEARTH_INVALID);
    assert_non_null(strstr(error.text, "'speed' is not finite"));
    p = two_groups(groups);
    assert_int_equal(plot_write("/nonexistent/x.svg", &p, &error), HEARTH_IO);
    assert_non_null(strstr(error.text, "/nonexistent/x.svg: "));
}

/* A picture that is there stays as it is while a new one fails. */
static void faults_leave_the_old_file(void **state)
{
    (void)state;
    plot_group groups[2];
    plot p = two_groups(groups);
    char *before = draw(&p);
    p.title = "Another";
    hearth_status status = HEARTH_OK;
    long live = mem_live();
    for (int kind = 0; kind < 2; kind++)
        for (long n = 0; n == 0 || status != HEARTH_OK; n++) {
            if (kind == 0)
                mem_fail_at(n);
            else
                file_fail_at(n);
            status = plot_write(own_path, &p, NULL);
            mem_fail_at(-1);
            file_fail_at(-1);
            assert_int_equal(mem_live(), live);
            char *now = look_read(own_path);
            if (status != HEARTH_OK && kind == 0)
                assert_string_equal(now, before);
            assert_string_equal(now + strlen(now) - 7, "</svg>\n");
            mem_free(now);
        }
    mem_free(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bars_are_to_scale),         cmocka_unit_test(texts_do_not_overlap),
        cmocka_unit_test(hostile_texts_stay_text),   cmocka_unit_test(nothing_and_too_much_are_refused),
        cmocka_unit_test(faults_leave_the_old_file),
    };
    return run_group(tests, own_folder_make, own_folder_remove);
}
