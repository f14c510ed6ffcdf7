/* writing.c - writes one model file from another, with a report.
 *
 * The report is collected and printed once the file is complete, so that on failure only the one-line error is
 * printed. */
#include "writing.h"

#include "../base/clock.h"
#include "../kernel/topology.h"
#include "../model/family.h"
#include "output.h"
#include "progress.h"

#include <stdlib.h>
#include <string.h>

const option writing_option_rows[WRITING_OPTION_COUNT] = {
    {OPTION_ROW(0, "tensor-type", TEXTS, writing_options, overrides, "NAME=TYPE",
                "another format for tensors of this name or shell pattern; the last that fits wins; TYPE"),
     .list = writing_format_list},
    THREADS_ROW(writing_options, threads),
    CPU_ROW(writing_options, cpu),
    {OPTION_ROW(0, "ffn-activation", TEXT, writing_options, ffn_activation, "NAME",
                "activation of the neurons, whatever the source says; the file will say so"),
     .list = ffn_activation_list},
    {OPTION_ROW(0, "allow-nonfinite", FLAG, writing_options, allow_nonfinite, NULL,
                "writes values that are NaN, infinite or beyond the new format all the same (in block formats NaN "
                "becomes 0 and the rest the largest there is) and counts them; else the first one is an error")},
};

void writing_format_list(char *out, size_t size)
{
    out[0] = 0;
    for (size_t i = 0; i < FORMAT_COUNT; i++)
        if (number_is_written((number_format)i))
            append_name(out, size, number_formats[i].name);
}

hearth_status writing_format(const char *command_path, const char *name, number_format *out, hearth_error *error)
{
    *out = number_format_by_name(name);
    if (*out != FORMAT_COUNT && number_is_written(*out))
        return HEARTH_OK;
    char all[256];
    writing_format_list(all, sizeof all);
    return fail(error, HEARTH_INVALID, "%s: %s: %s; the formats are %s", command_path, name,
                *out == FORMAT_COUNT ? "cannot be written" : "can be read, not written", all);
}

/* Parses overrides NAME=TYPE, split at the last '='. */
static hearth_status parse_overrides(const char *command_path, const text_list *texts, convert_override **out,
                                     arena *memory, hearth_error *error)
{
    *out = arena_new_array(memory, texts->count + 1, sizeof **out);
    if (!*out)
        return fail_memory(error, "--tensor-type", texts->count * sizeof **out);
    for (size_t i = 0; i < texts->count; i++) {
        const char *equals = strrchr(texts->items[i], '=');
        if (!equals || equals == texts->items[i])
            return fail(error, HEARTH_INVALID, "%s: --tensor-type: '%s' is not NAME=TYPE", command_path,
                        texts->items[i]);
        (*out)[i].pattern = arena_copy_text(memory, texts->items[i], (size_t)(equals - texts->items[i]));
        if (!(*out)[i].pattern)
            return fail_memory(error, "--tensor-type", strlen(texts->items[i]));
        TRY(writing_format(command_path, equals + 1, &(*out)[i].format, error));
    }
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ the report */

typedef struct writing_report {
    FILE *lines; /* in memory; NULL: no memory for it */
    writing_result sums;
} writing_report;

/* Returns whether the change of a tensor needs no explanation: it was asked for, or there is none. */
static bool is_plain(const convert_step *s)
{
    return strcmp(s->reason, "asked for") == 0 || strcmp(s->reason, "as stored") == 0;
}

static void on_note(void *user, const char *text)
{
    writing_report *r = user;
    if (!r->lines)
        return;
    fputs("note: ", r->lines);
    output_safe(r->lines, span_of(text), 512);
    fputc('\n', r->lines);
}

static void add_step(writing_result *sums, const convert_step *s)
{
    sums->from_bytes += s->from_bytes;
    sums->to_bytes += s->to_bytes;
    sums->tensors++;
    sums->transposed += s->transposed;
    sums->weighed += s->weighed;
    if (s->is_down_t) {
        sums->down_count++;
        sums->down_format = s->to;
        sums->requantised |= s->requantised;
        sums->relative_error = s->relative_error > sums->relative_error ? s->relative_error : sums->relative_error;
    }
}

static void on_step(void *user, const convert_step *s)
{
    writing_report *r = user;
    add_step(&r->sums, s);
    if (!r->lines)
        return;
    char shape[48];
    snprintf(shape, sizeof shape, "%llu x %llu", (unsigned long long)s->rows, (unsigned long long)s->columns);
    output_safe(r->lines, span_of(s->name), 64);
    int blanks = 34 - (int)strlen(s->name);
    fprintf(r->lines, "%*s %14s  %s", blanks > 0 ? blanks : 0, "", shape, number_formats[s->from].name);
    if (s->from != s->to)
        fprintf(r->lines, " -> %s", number_formats[s->to].name);
    if (s->transposed)
        fprintf(r->lines, ", transposed");
    if (s->relative_error > 0)
        fprintf(r->lines, ", relative error %.2g", s->relative_error);
    if (s->unfit > 0)
        fprintf(r->lines, ", %llu value%s beyond %s or not finite", (unsigned long long)s->unfit,
                s->unfit == 1 ? "" : "s", number_formats[s->to].name);
    if (!is_plain(s))
        fprintf(r->lines, "  (%s)", s->reason);
    fputc('\n', r->lines);
}

static void print_summary(const writing_result *r, const char *to)
{
    char from_size[16], to_size[16];
    output_safe(stderr, span_of(to), 200);
    fprintf(stderr, ": %zu tensors, %s -> %s in %.1f s, %.0f MB/s\n", r->tensors,
            output_size(from_size, (double)r->from_bytes), output_size(to_size, (double)r->to_bytes), r->seconds,
            (double)r->from_bytes * 1e-6 / (r->seconds > 0 ? r->seconds : 1));
}

/* ------------------------------------------------------------------ writing */

static hearth_status write_file(const char *from, const char *to, convert_options *options, uint32_t threads,
                                hearth_error *error)
{
    progress p;
    pool *workers;
    TRY(pool_create(&workers, threads ? threads : topology_cores(), error));
    progress_init(&p);
    options->progress = progress_to(&p);
    hearth_status status = convert_write(from, to, options, workers, error);
    progress_clear(&p);
    pool_destroy(workers);
    return status;
}

hearth_status writing_run(const char *command_path, const char *from, const char *to, convert_options what,
                          const writing_options *o, writing_result *result, arena *memory, hearth_error *error)
{
    convert_override *overrides;
    TRY(parse_overrides(command_path, &o->overrides, &overrides, memory, error));
    char *text = NULL;
    size_t size = 0;
    writing_report report = {.lines = open_memstream(&text, &size)};
    what.overrides = overrides;
    what.override_count = o->overrides.count;
    what.ffn_activation = o->ffn_activation;
    what.allow_nonfinite = o->allow_nonfinite;
    what.cpu_level = o->cpu;
    what.step = on_step;
    what.note = on_note;
    what.user = &report;
    double start = clock_seconds();
    hearth_status status = write_file(from, to, &what, o->threads, error);
    report.sums.seconds = clock_seconds() - start;
    if (report.lines)
        fclose(report.lines);
    if (status == HEARTH_OK) {
        fwrite(text, 1, size, stderr);
        print_summary(&report.sums, to);
    }
    free(text);
    if (result)
        *result = report.sums;
    return status;
}
