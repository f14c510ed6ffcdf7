/* bench_saved.c - reads back results of `hearth bench --json`, and draws results, whether saved or fresh. */
#include "bench_report.h"

#include "../base/json.h"
#include "../eval/plot.h"
#include "output.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* ------------------------------------------------------------------ reading */

/* A results file and the reader's position in it, for errors. */
typedef struct saved_reader {
    const char *path;
    char where[320]; /* "FILE: rows[3]" */
    arena *memory;
    hearth_error *error;
} saved_reader;

static hearth_status read_text(saved_reader *r, const json_t *object, const char *key, const char **out)
{
    const char *text;
    TRY(json_get_string(object, key, &text, NULL, r->where, r->error));
    *out = arena_copy_text(r->memory, text, strlen(text));
    return *out ? HEARTH_OK : fail_memory(r->error, r->path, strlen(text));
}

/* Reads the name of a mode, guarantee or CPU level: only a plain word, because it is printed as it is. */
static hearth_status read_word(saved_reader *r, const json_t *object, const char *key, const char **out)
{
    TRY(read_text(r, object, key, out));
    size_t size = strlen(*out);
    return size > 0 && size < 32 && strspn(*out, "abcdefghijklmnopqrstuvwxyz0123456789-_") == size
               ? HEARTH_OK
               : fail(r->error, HEARTH_FORMAT, "%s: %s: is not a word", r->where, key);
}

static hearth_status read_number(saved_reader *r, const json_t *object, const char *key, double *out)
{
    TRY(json_get_number(object, key, out, NULL, r->where, r->error));
    return isfinite(*out) && *out >= 0
               ? HEARTH_OK
               : fail(r->error, HEARTH_FORMAT, "%s: %s: is negative or not finite", r->where, key);
}

static hearth_status read_array(saved_reader *r, const json_t *object, const char *key, const json_t **out)
{
    *out = json_object_get(object, key);
    return json_is_array(*out) ? HEARTH_OK : fail(r->error, HEARTH_FORMAT, "%s: %s: is not a list", r->where, key);
}

#define ROW_NUMBER(field, may_lack)                  \
    {                                                \
#field, offsetof(bench_row, field), may_lack \
    }
static const struct {
    const char *key;
    size_t offset;
    bool may_lack; /* NAN where it is null, or was not written yet by an older version */
} row_numbers[] = {
    ROW_NUMBER(prefill_tokens_per_second, false),
    ROW_NUMBER(decode_tokens_per_second, false),
    ROW_NUMBER(read_bandwidth, false),
    ROW_NUMBER(bytes_per_token, false),
    ROW_NUMBER(kv_bytes_per_token, false),
    ROW_NUMBER(device_bytes_per_token, true),
    ROW_NUMBER(share_of_bandwidth, true),
    ROW_NUMBER(floor_tokens_per_second, true),
    ROW_NUMBER(density, false),
    ROW_NUMBER(let_through, false),
    ROW_NUMBER(relative_speed, false),
};

static hearth_status read_layers(saved_reader *r, const json_t *object, bench_report *report, bench_row *row)
{
    const json_t *list;
    TRY(read_array(r, object, "layers", &list));
    if (report->layer_count == 0)
        report->layer_count = (uint32_t)json_array_size(list);
    if (json_array_size(list) != report->layer_count)
        return fail(r->error, HEARTH_FORMAT, "%s: layers: there are %zu, but %u before", r->where,
                    json_array_size(list), report->layer_count);
    bench_layer *layers = arena_new_array(r->memory, report->layer_count + (size_t)1, sizeof *layers);
    if (!layers)
        return fail_memory(r->error, r->path, report->layer_count * sizeof *layers);
    for (uint32_t i = 0; i < report->layer_count; i++) {
        const json_t *layer = json_array_get(list, i);
        layers[i] = (bench_layer){NAN, NAN, NAN};
        if (json_is_null(layer)) /* it has no feed-forward network */
            continue;
        TRY(read_number(r, layer, "computed", &layers[i].computed));
        TRY(read_number(r, layer, "fired", &layers[i].fired));
        TRY(read_number(r, layer, "active", &layers[i].active));
    }
    row->layers = layers;
    return HEARTH_OK;
}

/* Reads the overlap, which results of older versions lack. */
static hearth_status read_overlap(saved_reader *r, const json_t *object, overlap_result *out)
{
    const json_t *o = json_object_get(object, "overlap");
    uint32_t samples;
    if (!o || json_is_null(o))
        return HEARTH_OK;
    TRY(json_get_uint(o, "samples", &samples, NULL, r->where, r->error));
    TRY(read_number(r, o, "median", &out->overlap));
    TRY(read_number(r, o, "fifth_percentile", &out->overlap_least));
    TRY(json_get_number(o, "exchange_seconds", &out->exchange_seconds, NULL, r->where, r->error));
    TRY(read_number(r, o, "cpu_seconds", &out->cpu_seconds));
    TRY(read_number(r, o, "device_seconds", &out->device_seconds));
    out->samples = samples;
    return HEARTH_OK;
}

static hearth_status read_row(saved_reader *r, const json_t *object, bench_report *report, bench_row *row)
{
    TRY(read_word(r, object, "mode", &row->mode));
    TRY(read_word(r, object, "guarantee", &row->guarantee));
    TRY(json_get_uint(object, "prompt_length", &row->prompt_length, NULL, r->where, r->error));
    TRY(json_get_uint(object, "context", &row->context, NULL, r->where, r->error));
    row->on_device = row->recall = (double)NAN; /* no picture shows them */
    row->batch = 1;                             /* which results of older versions do not say */
    if (json_object_get(object, "batch"))
        TRY(json_get_uint(object, "batch", &row->batch, NULL, r->where, r->error));
    for (size_t i = 0; i < sizeof row_numbers / sizeof *row_numbers; i++) {
        const json_t *value = json_object_get(object, row_numbers[i].key);
        double number = (double)NAN;
        if (!row_numbers[i].may_lack || (value && !json_is_null(value)))
            TRY(read_number(r, object, row_numbers[i].key, &number));
        memcpy((char *)row + row_numbers[i].offset, &number, sizeof number);
    }
    TRY(read_overlap(r, object, &row->overlap));
    return read_layers(r, object, report, row);
}

static hearth_status read_object(saved_reader *r, const json_t *object, bench_report *out)
{
    const json_t *list;
    uint32_t threads;
    bool found; /* older versions lack it */
    TRY(read_text(r, object, "machine", &out->machine));
    TRY(read_text(r, object, "model", &out->model));
    TRY(read_word(r, object, "cpu_level", &out->cpu_level));
    TRY(json_get_uint(object, "threads", &threads, NULL, r->where, r->error));
    TRY(read_number(r, object, "read_bandwidth", &out->read_bandwidth));
    TRY(json_get_number(object, "device_read_bandwidth", &out->device_bandwidth, &found, r->where, r->error));
    TRY(read_array(r, object, "rows", &list));
    bench_row *rows = arena_new_array(r->memory, json_array_size(list) + 1, sizeof *rows);
    if (!rows)
        return fail_memory(r->error, r->path, json_array_size(list) * sizeof *rows);
    for (size_t i = 0; i < json_array_size(list); i++) {
        snprintf(r->where, sizeof r->where, "%.256s: rows[%zu]", r->path, i);
        TRY(read_row(r, json_array_get(list, i), out, &rows[i]));
    }
    out->threads = threads;
    out->rows = rows;
    out->count = json_array_size(list);
    return HEARTH_OK;
}

hearth_status bench_report_read(bench_report *out, const char *path, arena *memory, hearth_error *error)
{
    json_t *object;
    *out = (bench_report){0};
    TRY(json_parse_file(&object, path, error));
    saved_reader r = {.path = path, .memory = memory, .error = error};
    snprintf(r.where, sizeof r.where, "%.256s", path);
    hearth_status status = read_object(&r, object, out);
    json_decref(object);
    return status;
}

/* ------------------------------------------------------------------ the picture */

enum { SPEED, BYTES, PANELS };

/* Measuring errors do not explain a share of the bandwidth above this. */
#define PASSED 1.05

static const char *const panels[PANELS] = {"decoding, tokens per second", "bytes per token"};

/* One bar with its texts. */
typedef struct bar_texts {
    plot_value values[PANELS];
    char speed[48], bytes[16];
} bar_texts;

static unsigned color_of(const char *mode)
{
    hearth_mode m = HEARTH_MODE_DENSE;
    while (m < HEARTH_MODE_COUNT && strcmp(hearth_mode_name(m), mode) != 0)
        m++;
    return m - HEARTH_MODE_DENSE; /* unknown modes all get the colour after the last mode's */
}

/* Returns the decimals to print: "25.1", "4528". */
static int decimals(double value)
{
    return value < 100;
}

static void make_bar(plot_bar *bar, bar_texts *texts, const bench_row *row)
{
    double speed = row->decode_tokens_per_second, floor = row->floor_tokens_per_second;
    if (isnan(floor)) {
        snprintf(texts->speed, sizeof texts->speed, "%.*f", decimals(speed), speed);
        floor = 0;
    } else {
        snprintf(texts->speed, sizeof texts->speed, "%.*f of %.*f", decimals(speed), speed, decimals(floor), floor);
    }
    texts->values[SPEED] = (plot_value){speed, floor, texts->speed};
    texts->values[BYTES] = (plot_value){row->bytes_per_token, 0, output_size(texts->bytes, row->bytes_per_token)};
    *bar = (plot_bar){row->mode, color_of(row->mode), texts->values};
}

static bool same_place(const bench_row *a, const bench_row *b)
{
    return a->context == b->context && a->prompt_length == b->prompt_length && a->batch == b->batch;
}

/* Names a group: "1b-q4_0", and how many tokens were read before where the model has several groups. */
static hearth_status name_group(plot_group *group, const bench_report *r, const bench_row *row, arena *memory,
                                hearth_error *error)
{
    char text[320];
    const char *slash = strrchr(r->model, '/'), *name = slash && slash[1] ? slash + 1 : r->model;
    size_t size = strlen(name);
    if (size > 5 && strcmp(name + size - 5, ".gguf") == 0)
        size -= 5;
    snprintf(text, sizeof text, "%.*s", (int)(size < 240 ? size : 240), name);
    if (!same_place(&r->rows[0], &r->rows[r->count - 1]))
        snprintf(text + strlen(text), sizeof text - strlen(text), ", behind %llu tokens",
                 (unsigned long long)row->context + row->prompt_length);
    if (row->batch > 1)
        snprintf(text + strlen(text), sizeof text - strlen(text), ", %u sequences", row->batch);
    group->label = arena_copy_text(memory, text, strlen(text));
    return group->label ? HEARTH_OK : fail_memory(error, "picture", strlen(text));
}

/* Adds a group for each context and prompt length of a model, with a bar for each mode. */
static hearth_status add_report(plot *p, plot_group *groups, const bench_report *r, arena *memory, hearth_error *error)
{
    plot_bar *bars = arena_new_array(memory, r->count + 1, sizeof *bars);
    bar_texts *texts = arena_new_array(memory, r->count + 1, sizeof *texts);
    if (!bars || !texts)
        return fail_memory(error, "picture", r->count * sizeof *texts);
    for (size_t i = 0; i < r->count; i++) {
        make_bar(&bars[i], &texts[i], &r->rows[i]);
        if (i == 0 || !same_place(&r->rows[i - 1], &r->rows[i])) {
            plot_group *group = &groups[p->group_count++];
            *group = (plot_group){.bars = bars + i};
            TRY(name_group(group, r, &r->rows[i], memory, error));
        }
        groups[p->group_count - 1].bar_count++;
    }
    return HEARTH_OK;
}

/* Says where it was measured: the machine, and the range of its memory bandwidth. */
static hearth_status make_note(const char **out, const bench_report *reports, size_t count, arena *memory,
                               hearth_error *error)
{
    double least = INFINITY, most = 0;
    bool same = true, passed = false;
    for (size_t i = 0; i < count; i++) {
        same = same && strcmp(reports[i].machine, reports[0].machine) == 0 && reports[i].threads == reports[0].threads;
        for (size_t row = 0; row < reports[i].count; row++) {
            least = fmin(least, reports[i].rows[row].read_bandwidth);
            most = fmax(most, reports[i].rows[row].read_bandwidth);
            passed = passed || reports[i].rows[row].share_of_bandwidth > PASSED;
        }
    }
    char text[512];
    snprintf(
        text, sizeof text,
        "%.200s, %u thread%s%s, memory read at %.1f to %.1f GB/s. dense: every neuron is read; exact: neurons that "
        "are zero are not; predicted: only neurons that a predictor lets through (lossy).%s",
        reports[0].machine, reports[0].threads, reports[0].threads == 1 ? "" : "s",
        same ? "" : " (and other machines or thread counts)", least * 1e-9, most * 1e-9,
        passed ? " A model that is faster than the floor lies in the processor's cache." : "");
    *out = arena_copy_text(memory, text, strlen(text));
    return *out ? HEARTH_OK : fail_memory(error, "picture", strlen(text));
}

static hearth_status make_plot(plot *p, const bench_report *reports, size_t count, arena *memory, hearth_error *error)
{
    size_t rows = 0;
    for (size_t i = 0; i < count; i++)
        rows += reports[i].count;
    plot_group *groups = arena_new_array(memory, rows + 1, sizeof *groups);
    if (!groups)
        return fail_memory(error, "picture", rows * sizeof *groups);
    *p = (plot){
        .title = "Decoding, mode by mode: speed and bytes",
        .mark = "the floor, behind \"of\": as fast as memory can bring the bytes of a token",
        .panels = panels,
        .panel_count = PANELS,
        .groups = groups,
    };
    for (size_t i = 0; i < count; i++)
        TRY(add_report(p, groups, &reports[i], memory, error));
    return make_note(&p->note, reports, count, memory, error);
}

hearth_status bench_report_plot(const bench_report *reports, size_t count, const char *path, hearth_error *error)
{
    arena memory = {0};
    plot p;
    hearth_status status = make_plot(&p, reports, count, &memory, error);
    if (status == HEARTH_OK)
        status = plot_write(path, &p, error);
    arena_clear(&memory);
    return status;
}
