/* sweep_report.c - prints results of a sweep as a table, CSV, JSON and pictures. */
#include "sweep_report.h"

#include "../base/file.h"
#include "../base/memory.h"
#include "../eval/chart.h"
#include "output.h"

#include <math.h>
#include <string.h>

/* How each task's quality is called, and how its axis is drawn. */
static const struct {
    const char *column; /* of the table */
    chart_axis axis;
} tasks[SWEEP_TASKS] = {
    [SWEEP_PPL] = {"perplexity", {"perplexity (lower is better)", .log = true}},
    [SWEEP_KL] = {"KL (nats)", {"KL from dense, nats per token (lower is better)", .log = true, .floor = 1e-5}},
    [SWEEP_HUMANEVAL] = {"pass@1", {"pass@1 (higher is better)", .percent = true}},
};

/* ------------------------------------------------------------------ CSV and JSON */

/* Writes nothing where the value was not measured. */
static bool put_number(buffer *b, double value)
{
    return isnan(value) ? buffer_print(b, ",") : buffer_print(b, ",%.9g", value);
}

static bool put_line(buffer *b, const sweep_report *r, const sweep_row *row)
{
    char name[SWEEP_NAME];
    sweep_row_name(name, row);
    const double numbers[] = {row->quality,
                              row->quality_error,
                              row->perplexity,
                              row->same_top,
                              row->recall,
                              (double)row->scored,
                              row->activity.density,
                              row->activity.let_through,
                              row->activity.weight_bytes,
                              row->tokens_per_second,
                              row->relative_speed};
    bool ok = buffer_print(b, "%s,%s", name, sweep_kind_name(row->setting.kind)) && put_number(b, row->setting.value) &&
              buffer_print(b, ",%s,%s,%s", row->mode, row->guarantee, sweep_task_name(r->task));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        ok = ok && put_number(b, numbers[i]);
    return ok && buffer_print(b, "\n");
}

hearth_status sweep_report_csv(const sweep_report *r, const char *path, hearth_error *error)
{
    buffer b = {0};
    file_writer *file = NULL;
    bool ok = buffer_print(
        &b, "setting,kind,value,mode,guarantee,task,quality,quality_error,perplexity,same_top,recall,scored,density,"
            "let_through,bytes_per_token,tokens_per_second,relative_speed\n");
    for (size_t i = 0; i < r->count; i++)
        ok = ok && put_line(&b, r, &r->rows[i]);
    hearth_status status = ok ? file_writer_open(&file, path, error) : fail_memory(error, path, b.size);
    if (status == HEARTH_OK)
        status = file_writer_put(file, b.data, b.size, error);
    if (status == HEARTH_OK)
        status = file_writer_commit(file, error);
    else
        file_writer_discard(file);
    buffer_free(&b);
    return status;
}

/* Returns a number as JSON; null for NAN. */
static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *row_json(const sweep_row *row)
{
    char name[SWEEP_NAME];
    sweep_row_name(name, row);
    return json_pack(
        "{s:s, s:s, s:o, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:f, s:f, s:f, s:I, s:o, s:o}", "setting", name,
        "kind", sweep_kind_name(row->setting.kind), "value", number(row->setting.value), "mode", row->mode, "guarantee",
        row->guarantee, "quality", number(row->quality), "quality_error", number(row->quality_error), "perplexity",
        number(row->perplexity), "same_top", number(row->same_top), "recall", number(row->recall), "tune",
        row->tune ? json_text(span_of(row->tune)) : json_null(), "scored", (json_int_t)row->scored, "density",
        row->activity.density, "let_through", row->activity.let_through, "bytes_per_token", row->activity.weight_bytes,
        "activity_tokens", (json_int_t)row->activity.tokens, "tokens_per_second", number(row->tokens_per_second),
        "relative_speed", number(row->relative_speed));
}

hearth_status sweep_report_json(const sweep_report *r, hearth_error *error)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->count; i++)
        if (json_array_append_new(list, row_json(&r->rows[i])) != 0) {
            json_decref(list); /* a missing row makes the whole list fail */
            return fail_memory(error, "JSON", 0);
        }
    json_t *object =
        json_pack("{s:o, s:s, s:i, s:o, s:o, s:s, s:o}", "machine", json_text(span_of(r->machine)), "cpu_level",
                  r->cpu_level, "threads", (int)r->threads, "model", json_text(span_of(r->model)), "text",
                  json_text(span_of(r->text)), "task", sweep_task_name(r->task), "rows", list);
    return output_json(object, JSON_INDENT(1), error);
}

/* ------------------------------------------------------------------ for people */

static bool any(const sweep_report *r, size_t member)
{
    for (size_t i = 0; i < r->count; i++)
        if (!isnan(*(const double *)(const void *)((const char *)&r->rows[i] + member)))
            return true;
    return false;
}

/* Prints a value right-aligned in `width`; a dash where it was not measured. */
static void print_cell(int width, int decimals, double value)
{
    if (isnan(value))
        printf("  %*s", width, "-");
    else
        printf("  %*.*f", width, decimals, value);
}

void sweep_report_table(const sweep_report *r)
{
    bool speed = any(r, offsetof(sweep_row, tokens_per_second)), top = any(r, offsetof(sweep_row, same_top));
    bool both = r->task != SWEEP_PPL && any(r, offsetof(sweep_row, perplexity));
    printf("%-16s %-11s %7s  %11s  %11s  %10s", "setting", "guarantee", "density", "let through", "bytes/token",
           tasks[r->task].column);
    printf("%s%s%s\n", top ? "  same top" : "", both ? "  perplexity" : "", speed ? "     tok/s  speed" : "");
    for (size_t i = 0; i < r->count; i++) {
        const sweep_row *row = &r->rows[i];
        char name[SWEEP_NAME], size[16];
        sweep_row_name(name, row);
        printf("%-16s %-11s %7.3f  %11.3f  %11s", name, row->guarantee, row->activity.density,
               row->activity.let_through, output_size(size, row->activity.weight_bytes));
        print_cell(10, r->task == SWEEP_KL ? 6 : 4, row->quality);
        if (top)
            print_cell(8, 4, row->same_top);
        if (both)
            print_cell(10, 4, row->perplexity);
        if (speed) {
            print_cell(8, 1, row->tokens_per_second);
            print_cell(5, 2, row->relative_speed);
        }
        putchar('\n');
    }
}

/* ------------------------------------------------------------------ the picture */

enum { DENSITY, BYTES, SPEED, PANELS };

typedef struct picture {
    arena memory;
    chart_series series[PANELS][SWEEP_KINDS];
    chart_panel panels[PANELS];
    size_t panel_count;
} picture;

/* Returns a point's label: "30 %", the recall of predictors, or "t=-0.5"; NULL where there is no label, or no
 * memory. */
static const char *label_of(picture *p, const sweep_row *row)
{
    char text[32];
    bool predicted = row->setting.kind == SWEEP_PREDICTED;
    double share = predicted ? row->recall : row->setting.value;
    if (!isnan(share))
        snprintf(text, sizeof text, "%.3g %%", 100 * share);
    else if (predicted && !isnan(row->setting.value))
        snprintf(text, sizeof text, "t=%.4g", row->setting.value);
    else
        return NULL;
    return arena_copy_text(&p->memory, text, strlen(text));
}

static double place_of(const sweep_row *row, size_t panel, double unit)
{
    switch (panel) {
    case DENSITY:
        return row->activity.density;
    case BYTES:
        return row->activity.weight_bytes / unit;
    default:
        return row->relative_speed;
    }
}

/* Collects the rows of a kind as points, the least dense first. */
static size_t collect_points(picture *p, const sweep_report *r, size_t panel, double unit, sweep_kind kind,
                             chart_point *points)
{
    size_t count = 0;
    for (double density = -1;;) {
        const sweep_row *next = NULL;
        for (size_t i = 0; i < r->count; i++) {
            const sweep_row *row = &r->rows[i];
            if (row->setting.kind == kind && row->activity.density > density &&
                (!next || row->activity.density < next->activity.density))
                next = row;
        }
        if (!next)
            return count;
        density = next->activity.density;
        for (size_t i = 0; i < r->count; i++) /* several may have the same density */
            if (r->rows[i].setting.kind == kind && r->rows[i].activity.density == density)
                points[count++] =
                    (chart_point){place_of(&r->rows[i], panel, unit), r->rows[i].quality, label_of(p, &r->rows[i])};
    }
}

/* Adds a series for each kind that has rows. */
static hearth_status add_panel(picture *p, const sweep_report *r, size_t which, double unit, chart_axis x,
                               const char *title, hearth_error *error)
{
    chart_panel *panel = &p->panels[p->panel_count++];
    *panel = (chart_panel){.title = title, .x = x, .y = tasks[r->task].axis, .series = p->series[which]};
    for (sweep_kind kind = 0; kind < SWEEP_KINDS; kind++) {
        chart_point *points = arena_new_array(&p->memory, r->count, sizeof *points);
        if (!points)
            return fail_memory(error, "picture", r->count * sizeof *points);
        size_t count = collect_points(p, r, which, unit, kind, points);
        if (count > 0)
            p->series[which][panel->series_count++] = (chart_series){
                sweep_kind_name(kind), count > 1 ? CHART_MARKED : CHART_MARKS, (unsigned)kind, points, count};
    }
    return HEARTH_OK;
}

/* Chooses a unit in which the largest number of bytes is short. */
static double choose_unit(const sweep_report *r, const char **title)
{
    static const struct {
        double bytes;
        const char *title;
    } units[] = {
        {1e9, "weights read per token, GB"}, {1e6, "weights read per token, MB"}, {1e3, "weights read per token, kB"}};
    double most = 0;
    size_t i = 0;
    for (size_t row = 0; row < r->count; row++)
        most = fmax(most, r->rows[row].activity.weight_bytes);
    while (i < 2 && most < units[i].bytes)
        i++;
    *title = units[i].title;
    return units[i].bytes;
}

static hearth_status add_panels(picture *p, const sweep_report *r, hearth_error *error)
{
    const char *bytes_title;
    double unit = choose_unit(r, &bytes_title);
    chart_axis density = {"density: neurons that are computed to the end", .log = true, .percent = true, .floor = 1e-3};
    TRY(add_panel(p, r, DENSITY, 1, density, "Against density", error));
    TRY(add_panel(p, r, BYTES, unit, (chart_axis){.title = bytes_title}, "Against bytes", error));
    if (any(r, offsetof(sweep_row, relative_speed))) /* compared run by run: steadier than tokens per second */
        TRY(add_panel(p, r, SPEED, 1, (chart_axis){.title = "decoding speed, times that of dense"}, "Against speed",
                      error));
    return HEARTH_OK;
}

hearth_status sweep_report_plot(const sweep_report *r, const char *path, hearth_error *error)
{
    char title[256], note[768];
    picture *p = mem_new(sizeof *p);
    if (!p)
        return fail_memory(error, "picture", sizeof *p);
    snprintf(title, sizeof title, "%.100s: what leaving neurons out costs", output_base_name(r->model));
    snprintf(
        note, sizeof note,
        "%.100s; %.100s, %u thread%s. Beside predicted: the share of what fires that is let through (t=: the "
        "threshold); beside pruned: the share of activations that count as zero; beside hot-only and cold-only: the "
        "share of each layer's neurons that is computed.",
        output_base_name(r->text), r->machine, r->threads, r->threads == 1 ? "" : "s");
    hearth_status status = add_panels(p, r, error);
    if (status == HEARTH_OK) {
        chart c = {title, note, p->panels, p->panel_count, 2};
        status = chart_write(path, &c, error);
    }
    arena_clear(&p->memory);
    mem_free(p);
    return status;
}
