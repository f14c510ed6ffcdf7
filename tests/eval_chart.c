/* Charts: to scale, whole or not there, never more than text, and no text over another. */
#include "../src/eval/chart.h"
#include "../src/eval/chart_axis.h"

#include "own_folder.h"
#include "svg_look.h"

/* mem_free */
static char *draw(const chart *c)
{
    hearth_error error;
    if (chart_write(own_path, c, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    char *svg = look_read(own_path);
    look_is_well_formed(svg);
    assert_true(look_at_texts(svg) > 3);
    return svg;
}

/* ------------------------------------------------------------------ axes */

static axis fit(const chart_axis *wish, double least, double most)
{
    axis a;
    axis_range range = AXIS_NOTHING;
    axis_see(&range, wish, least);
    axis_see(&range, wish, most);
    axis_fit(&a, wish, &range, 5);
    return a;
}

/* Marks are round, within the axis, ascending, and the axis holds what was seen. */
static void axes_end_at_round_numbers(void **state)
{
    (void)state;
    static const struct {
        chart_axis wish;
        double least, most;
        double first, last;                 /* of the axis        */
        const char *first_text, *last_text; /* of its marks */
    } table[] = {
        {{.title = "x"}, 0, 0.83, 0, 1, "0.0", "1.0"},
        {{.title = "x"}, 3, 97, 0, 100, "0", "100"},
        {{.title = "x"}, 5.12, 5.31, 5.1, 5.35, "5.10", "5.35"},
        {{.title = "x"}, -7, 8, -10, 10, "-10", "10"},
        {{.title = "x", .percent = true}, 0.02, 0.41, 0, 0.5, "0 %", "50 %"},
        {{.title = "x", .percent = true, .least = 0, .most = 1}, 0.02, 0.41, 0, 1, "0 %", "100 %"},
        {{.title = "x", .log = true}, 3e-5, 0.7, 2e-5, 1, "1e-4", "1"},
        {{.title = "x", .log = true, .floor = 1e-6},
         0,
         0.01,
         1e-6,
         0.01,
         "\xe2\x89\xa4"
         "1e-6",
         "0.01"},
        {{.title = "x", .whole = true, .least = -0.5, .most = 31.5}, 0, 31, -0.5, 31.5, "0", "30"},
        {{.title = "x", .whole = true, .least = -0.5, .most = 1.5}, 0, 1, -0.5, 1.5, "0", "1"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        axis a = fit(&table[i].wish, table[i].least, table[i].most);
        char text[32];
        assert_true(fabs(a.least - table[i].first) <= 1e-9 * fabs(table[i].first));
        assert_true(fabs(a.most - table[i].last) <= 1e-9 * fabs(table[i].last));
        assert_true(a.mark_count >= 2 && a.mark_count <= AXIS_MARKS);
        for (size_t m = 1; m < a.mark_count; m++)
            assert_true(a.marks[m] > a.marks[m - 1]);
        axis_text(text, &a, 0);
        assert_string_equal(text, table[i].first_text);
        axis_text(text, &a, a.mark_count - 1);
        assert_string_equal(text, table[i].last_text);
    }
}

static void axes_place_values(void **state)
{
    (void)state;
    chart_axis plain = {.title = "x"}, log = {.title = "x", .log = true};
    axis a = fit(&plain, 0, 10), b = fit(&log, 0.01, 100);
    assert_true(fabs(axis_place(&a, 2.5) - 0.25) < 1e-12 && fabs(axis_place(&b, 1) - 0.5) < 1e-12);
    assert_true(axis_place(&a, -5) == 0 && axis_place(&a, 50) == 1);
    assert_true(axis_place(&b, 0) == 0 && axis_place(&b, -1) == 0);
    /* One value, none at all, numbers that no chart should meet: an axis all the same. */
    static const double ends[][2] = {{5, 5}, {0, 0}, {NAN, INFINITY}, {1e-30, 1e30}, {-1e30, 1e30}, {1, 1 + 1e-15}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const chart_axis *wishes[] = {&plain, &log};
        for (size_t w = 0; w < 2; w++) {
            axis c = fit(wishes[w], ends[i][0], ends[i][1]);
            assert_true(c.least < c.most && c.mark_count <= AXIS_MARKS);
            for (size_t m = 0; m < c.mark_count; m++)
                assert_true(isfinite(c.marks[m]));
        }
    }
}

/* ------------------------------------------------------------------ pictures */

/* Two panels of curves, one of them logarithmic. */
static const chart_point straight[] = {{0, 0, "zero"}, {50, 5, NULL}, {100, 10, "hundred"}},
                         steep[] = {{0, 1e-3, "a"}, {50, 1e-2, "b"}, {75, NAN, "never"}, {100, 1, "c"}};
static const chart_series left_series[] = {{"straight", CHART_MARKED, 1, straight, 3}},
                          right_series[] = {{"steep", CHART_MARKED, 2, steep, 4},
                                            {"straight", CHART_MARKED, 1, straight, 3}};
static const chart_panel two_panels[] = {
    {.title = "Left", .x = {.title = "across"}, .y = {.title = "up"}, .series = left_series, .series_count = 1},
    {.title = "Right",
     .says = "It grows.",
     .x = {.title = "across"},
     .y = {.title = "up", .log = true, .floor = 1e-3},
     .series = right_series,
     .series_count = 2},
};
static const chart two = {"A title", "A note of several words.", two_panels, 2, 2};

/* Where the n-th mark of a colour lies; the first is that of the legend. */
static void find_mark(const char *svg, unsigned color, size_t n, double *x, double *y)
{
    char class[16];
    snprintf(class, sizeof class, "c%u dot", color);
    const char *at = look_find(svg, class, n);
    assert_non_null(at);
    assert_int_equal(sscanf(strstr(at, " d=\"M") + 5, "%lf %lf", x, y), 2);
}

static void points_are_to_scale(void **state)
{
    (void)state;
    char *svg = draw(&two);
    double x[4], y[4];
    for (size_t i = 0; i < 3; i++)
        find_mark(svg, 1, 1 + i, &x[i], &y[i]);
    assert_true(x[2] - x[0] > 200 && y[0] - y[2] > 150);
    assert_true(fabs(x[1] - (x[0] + x[2]) / 2) < 0.11 && fabs(y[1] - (y[0] + y[2]) / 2) < 0.11);
    for (size_t i = 0; i < 3; i++)
        find_mark(svg, 2, 1 + i, &x[i], &y[i]);
    /* 1e-3, 1e-2, 1: a decade up, two decades up. The point without a value has no mark and cuts the line in two. */
    assert_true(fabs((y[0] - y[1]) * 2 - (y[1] - y[2])) < 0.3);
    assert_null(look_find(svg, "c2 dot", 4));
    const char *line = look_find(svg, "c2 line", 1);
    assert_non_null(line);
    size_t begins = 0;
    for (const char *c = strstr(line, " d=\"") + 4; *c != '"'; c++)
        begins += *c == 'M';
    assert_int_equal(begins, 2);
    /* In words; one entry for the series that is in both panels. */
    assert_non_null(strstr(svg, "<title id=\"name\">A title</title>"));
    assert_non_null(strstr(svg, "straight: zero, across 0, up 0; across 50, up 5; hundred, across 100, up 10."));
    assert_non_null(strstr(svg, "It grows."));
    assert_non_null(strstr(svg, "prefers-color-scheme:dark"));
    const char *entry = strstr(svg, ">straight</text>");
    assert_non_null(entry);
    assert_null(strstr(entry + 1, ">straight</text>"));
    mem_free(svg);
}

/* Bars begin at zero and are as long as their values; heat has a colour for each of its steps. */
static void bars_and_heat_are_to_scale(void **state)
{
    (void)state;
    static const chart_point bars[] = {{0, 0.1, NULL}, {1, 0.4, NULL}, {2, 0.2, NULL}};
    static const chart_series series = {NULL, CHART_BARS, 1, bars, 3};
    static const float cells[] = {1, 1, 0.5, 0, 0.05f, 0.05f, 0.95f, NAN};
    chart_panel panels[] = {
        {.title = "Bars",
         .x = {.title = "layer", .whole = true, .least = -0.5, .most = 2.5},
         .y = {.title = "density", .percent = true},
         .series = &series,
         .series_count = 1},
        {.title = "Heat",
         .says = "Hot on the left.",
         .x = {.title = "neurons", .percent = true, .least = 0, .most = 1},
         .y = {.title = "layer", .whole = true},
         .heat = {cells, 2, 4, {.title = "share", .percent = true, .least = 0, .most = 1}}},
    };
    chart c = {"Bars and heat", "", panels, 2, 2};
    char *svg = draw(&c);
    double height[3], bottom[3];
    for (size_t i = 0; i < 3; i++) {
        const char *bar = look_find(svg, "c1", i);
        height[i] = look_number(bar, "height");
        bottom[i] = height[i] + look_number(bar, "y");
    }
    assert_true(height[0] > 20 && fabs(height[1] / height[0] - 4) < 0.02 && fabs(height[2] / height[0] - 2) < 0.02);
    assert_true(fabs(bottom[0] - bottom[1]) < 0.2 && fabs(bottom[0] - bottom[2]) < 0.2);
    /* Each class once in the scale, then the cells: two of the first row are one rectangle. */
    const char *all = look_find(svg, "h9", 1), *half = look_find(svg, "h5", 1), *none = look_find(svg, "h0", 1);
    assert_true(all && half && none && look_find(svg, "h9", 2) && look_find(svg, "h0", 2));
    assert_true(fabs(look_number(all, "width") / look_number(half, "width") - 2) < 0.001);
    assert_true(look_number(all, "x") < look_number(half, "x") && look_number(half, "x") < look_number(none, "x"));
    assert_true(look_number(look_find(svg, "h0", 2), "y") > look_number(all, "y"));
    assert_null(look_find(svg, "h9", 3));
    mem_free(svg);
}

/* As crowded as it gets: labels that find no place are left out, but said. */
static void crowds_do_not_overlap(void **state)
{
    (void)state;
    static chart_point points[6][40];
    static char labels[40][24];
    static const char *const names[] = {"dense",
                                        "exact",
                                        "predicted by a predictor with a long name",
                                        "pruned",
                                        "the hottest neurons only",
                                        ("WWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWW"
                                         "WWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWW")};
    chart_series series[6];
    for (size_t s = 0; s < 6; s++) {
        for (size_t i = 0; i < 40; i++) {
            snprintf(labels[i], sizeof labels[i], "setting %zu", i);
            points[s][i] =
                (chart_point){(double)(i * (s + 1) % 17), 1e-7 * pow(1.7, (double)((i * 7 + s) % 23)), labels[i]};
        }
        series[s] = (chart_series){names[s], s % 2 ? CHART_MARKS : CHART_MARKED, (unsigned)s, points[s], 40};
    }
    chart_panel panels[6];
    for (size_t i = 0; i < 6; i++)
        panels[i] = (chart_panel){
            .title = "A panel with a title that goes on and on and on and on and on and on and on and on",
            .x = {.title = "a long title of an axis, which says more than there is room for, on and on"},
            .y = {.title = "a long title of an axis, which says more than there is room for, on and on", .log = i % 2},
            .series = series,
            .series_count = 6};
    for (size_t columns = 1; columns <= 2; columns++) {
        chart c = {names[5], names[5], panels, 6, columns};
        char *svg = draw(&c);
        size_t tags = 0;
        for (const char *tag = look_find(svg, "tag", 0); tag; tag = strstr(tag + 1, " class=\"tag\" "), tags++) {
            look_text place = look_place(tag - 5);
            for (const char *dot = strstr(svg, " dot\" d=\"M"); dot; dot = strstr(dot + 1, " dot\" d=\"M")) {
                double x, y;
                assert_int_equal(sscanf(dot + 10, "%lf %lf", &x, &y), 2);
                assert_false(x > place.from - 3 && x < place.to + 3 && y > place.y - 9 && y < place.y + 3);
            }
        }
        assert_true(tags > 0 && tags < 6 * 6 * 40);
        assert_non_null(strstr(svg, "setting 39, "));
        assert_non_null(strstr(svg, "\xe2\x80\xa6</text>")); /* cut */
        mem_free(svg);
    }
}

/* Whatever stands in a text, it stays a text. */
static void hostile_texts_stay_text(void **state)
{
    (void)state;
    const char *bad = "\"><script>&'a\x01\x1f\xff\xc3(\xe2\x80\xae]]>\xef\xbf\xbf\xc2\x85--></text>%s%n";
    chart_point points[] = {{1, 1, bad}, {2, 2, bad}};
    chart_series series = {bad, CHART_MARKED, 3, points, 2};
    static const float cells[] = {1};
    chart_panel panels[] = {
        {.title = bad, .says = bad, .x = {.title = bad}, .y = {.title = bad}, .series = &series, .series_count = 1},
        {.title = bad,
         .says = bad,
         .x = {.title = bad},
         .y = {.title = bad},
         .heat = {cells, 1, 1, {bad, .least = 0, .most = 1}}}};
    chart c = {bad, bad, panels, 2, 1};
    char *svg = draw(&c);
    assert_null(strstr(svg, "<script"));
    assert_null(strstr(svg, "\xe2\x80\xae"));
    assert_non_null(strstr(svg, "&quot;&gt;&lt;script&gt;&amp;&#39;"));
    assert_ptr_equal(strstr(svg, "</svg>"), svg + strlen(svg) - strlen("</svg>\n"));
    mem_free(svg);
}

static void refused_with(const chart *c, const char *text)
{
    hearth_error error;
    assert_int_equal(chart_write(own_path, c, &error), HEARTH_INVALID);
    assert_non_null(strstr(error.text, text));
}

static void nothing_and_too_much_are_refused(void **state)
{
    (void)state;
    chart_panel panel = two_panels[0];
    chart c = {"x", "", &panel, 0, 1};
    refused_with(&c, ": picture: holds from 1 to ");
    c.panel_count = SIZE_MAX;
    refused_with(&c, ": picture: holds from 1 to ");
    c.panel_count = 1;
    c.columns = 3;
    refused_with(&c, "side by side");
    c.columns = 1;
    panel.series_count = 0;
    refused_with(&c, "'Left' does not");
    chart_series series = {"x", CHART_LINE, 1, straight, SIZE_MAX}; /* nothing is read before it is counted */
    panel.series = &series;
    panel.series_count = 1;
    refused_with(&c, "'Left' does not");
    series = (chart_series){"x", CHART_LINE, 99, straight, 3};
    refused_with(&c, "no colour 99");
    static const chart_point endless[] = {{INFINITY, 0, "x"}, {0, NAN, "y"}}, huge[] = {{1e300, 0, "x"}};
    series = (chart_series){"x", CHART_LINE, 1, endless, 2};
    refused_with(&c, "'Left' does not");
    series = (chart_series){"x", CHART_LINE, 1, huge, 1};
    refused_with(&c, "too large");
    static const float cell = 1;
    panel.heat = (chart_heat){&cell, SIZE_MAX, SIZE_MAX, {.title = "", .least = 0, .most = 1}};
    refused_with(&c, "a heat map holds");
    panel.heat = (chart_heat){&cell, 1, 1, {.title = "", .log = true, .least = 0, .most = 1}};
    refused_with(&c, "has a scale");
    assert_int_equal(chart_write("/nonexistent/x.svg", &two, NULL), HEARTH_IO);
}

/* A picture that is there stays as it is while a new one finds no memory. */
static void faults_leave_the_old_file(void **state)
{
    (void)state;
    char *before = draw(&two);
    chart other = two;
    other.title = "Another";
    hearth_status status;
    long live = mem_live(), n = 0;
    do {
        mem_fail_at(n++);
        status = chart_write(own_path, &other, NULL);
        mem_fail_at(-1);
        assert_int_equal(mem_live(), live);
        char *now = look_read(own_path);
        if (status != HEARTH_OK)
            assert_string_equal(now, before);
        mem_free(now);
    } while (status != HEARTH_OK);
    assert_true(n > 3);
    mem_free(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(axes_end_at_round_numbers), cmocka_unit_test(axes_place_values),
        cmocka_unit_test(points_are_to_scale),       cmocka_unit_test(bars_and_heat_are_to_scale),
        cmocka_unit_test(hostile_texts_stay_text),   cmocka_unit_test(nothing_and_too_much_are_refused),
        cmocka_unit_test(faults_leave_the_old_file), cmocka_unit_test(crowds_do_not_overlap),
    };
    return run_group(tests, own_folder_make, own_folder_remove);
}
