/* bench_report.c - prints the results of `hearth bench` as a table, CSV or JSON. */
#include "bench_report.h"

#include "../base/median.h"
#include "../kernel/topology.h"
#include "output.h"

#include <math.h>
#include <string.h>

/* ------------------------------------------------------------------ JSON */

/* Returns the layers' shares; null for a layer without a feed-forward network. */
static json_t *layers_json(const bench_report *r, const bench_row *row)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < r->layer_count; i++) {
        const bench_layer *l = &row->layers[i];
        bool network = !isnan(l->active);
        json_array_append_new(list, network ? json_pack("{s:f, s:f, s:f}", "computed", l->computed, "fired", l->fired,
                                                        "active", l->active)
                                            : json_null());
    }
    return list;
}

static json_t *overlap_json(const overlap_result *o)
{
    if (o->samples == 0)
        return json_null();
    return json_pack("{s:I, s:f, s:f, s:f, s:f, s:f}", "samples", (json_int_t)o->samples, "median", o->overlap,
                     "fifth_percentile", o->overlap_least, "exchange_seconds", o->exchange_seconds, "cpu_seconds",
                     o->cpu_seconds, "device_seconds", o->device_seconds);
}

static json_t *row_json(const bench_report *r, const bench_row *row)
{
    return json_pack(
        "{s:s, s:s, s:i, s:i, s:i, s:f, s:f, s:f, s:o, s:o, s:o, s:f, s:f, s:f, s:f, s:f, s:o, s:o, s:o, s:o}", "mode",
        row->mode, "guarantee", row->guarantee, "prompt_length", (int)row->prompt_length, "context", (int)row->context,
        "batch", (int)row->batch, "prefill_tokens_per_second", row->prefill_tokens_per_second,
        "decode_tokens_per_second", row->decode_tokens_per_second, "bytes_per_token", row->bytes_per_token,
        "device_bytes_per_token", json_number(row->device_bytes_per_token), "share_of_bandwidth",
        json_number(row->share_of_bandwidth), "floor_tokens_per_second", json_number(row->floor_tokens_per_second),
        "relative_speed", row->relative_speed, "density", row->density, "let_through", row->let_through,
        "kv_bytes_per_token", row->kv_bytes_per_token, "read_bandwidth", row->read_bandwidth, "layers",
        layers_json(r, row), "overlap", overlap_json(&row->overlap), "on_device", json_number(row->on_device), "recall",
        json_number(row->recall));
}

/* Returns the weakest guarantee of the rows, which is all that the whole report may claim. */
static const char *weakest_guarantee(const bench_report *r)
{
    hearth_guarantee weakest = HEARTH_GUARANTEE_BITWISE;
    for (size_t row = 0; row < r->count; row++)
        for (hearth_guarantee g = weakest; g < HEARTH_GUARANTEE_COUNT; g++)
            if (strcmp(r->rows[row].guarantee, hearth_guarantee_name(g)) == 0)
                weakest = g;
    return hearth_guarantee_name(weakest);
}

hearth_status bench_report_json(const bench_report *r, hearth_error *error)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->count; i++)
        json_array_append_new(list, row_json(r, &r->rows[i]));
    json_t *object =
        json_pack("{s:o, s:o, s:s, s:i, s:s, s:f, s:o, s:O?, s:O?, s:O?, s:o}", "machine",
                  json_text(span_of(r->machine)), "model", json_text(span_of(r->model)), "cpu_level", r->cpu_level,
                  "threads", (int)r->threads, "guarantee", weakest_guarantee(r), "read_bandwidth", r->read_bandwidth,
                  "device_read_bandwidth", r->device_bandwidth > 0 ? json_real(r->device_bandwidth) : json_null(),
                  "guard", r->guard, "device", r->device, "placement", r->placement, "rows", list);
    return output_json(object, JSON_INDENT(1), error);
}

/* ------------------------------------------------------------------ CSV */

/* Prints the file's name, quoted, because it may contain anything. */
static void print_model(const char *path)
{
    const char *name = output_base_name(path);
    putchar('"');
    while (*name) {
        size_t plain = strcspn(name, "\"");
        output_safe(stdout, (span){name, plain}, plain);
        name += plain;
        if (*name == '"') {
            fputs("\"\"", stdout);
            name++;
        }
    }
    putchar('"');
}

void bench_report_csv(const bench_report *reports, size_t count)
{
    puts("model,mode,guarantee,context,prompt_length,prefill_tokens_per_second,decode_tokens_per_second,relative_speed,"
         "bytes_per_token,floor_tokens_per_second,share_of_bandwidth,density,let_through,kv_bytes_per_token,"
         "read_bandwidth,batch,device_bytes_per_token");
    for (size_t r = 0; r < count; r++)
        for (size_t i = 0; i < reports[r].count; i++) {
            const bench_row *row = &reports[r].rows[i];
            print_model(reports[r].model);
            printf(",%s,%s,%u,%u,%.3f,%.3f,%.4f,%.0f,%.3f,%.4f,%.4f,%.4f,%.0f,%.4e,%u\n", row->mode, row->guarantee,
                   row->context, row->prompt_length, row->prefill_tokens_per_second, row->decode_tokens_per_second,
                   row->relative_speed, row->bytes_per_token, row->floor_tokens_per_second, row->share_of_bandwidth,
                   row->density, row->let_through, row->kv_bytes_per_token, row->read_bandwidth, row->batch);
        }
}

/* ------------------------------------------------------------------ for people */

/* Returns whether several sequences decoded together; then tables have a column of how many. */
static bool has_batches(const bench_report *r)
{
    for (size_t i = 0; i < r->count; i++)
        if (r->rows[i].batch > 1)
            return true;
    return false;
}

static void print_speeds(const bench_report *r)
{
    char size[16], floor[32], batch[16] = "";
    bool cached = false, unknown = false, batches = has_batches(r);
    printf("mode       guarantee    context  prompt  %sprefill tok/s  decode tok/s  speed  bytes/token  floor tok/s  "
           "share\n",
           batches ? "batch  " : "");
    for (size_t i = 0; i < r->count; i++) {
        const bench_row *row = &r->rows[i];
        bool known = !isnan(row->floor_tokens_per_second);
        unknown = unknown || !known;
        cached = cached || row->bytes_per_token < (double)topology_cache_bytes();
        if (batches)
            snprintf(batch, sizeof batch, "%5u  ", row->batch);
        if (known)
            snprintf(floor, sizeof floor, "%11.1f  %5.2f", row->floor_tokens_per_second, row->share_of_bandwidth);
        printf("%-9s  %-11s  %7u  %6u  %s%13.1f  %12.1f  %5.2f  %11s  %s\n", row->mode, row->guarantee, row->context,
               row->prompt_length, batch, row->prefill_tokens_per_second, row->decode_tokens_per_second,
               row->relative_speed, output_size(size, row->bytes_per_token), known ? floor : "          -      -");
    }
    if (unknown)
        puts("(the device has too little memory to measure how fast it reads, so floor and share are not known)");
    else if (cached)
        puts("(what a token reads fits into the processor's cache, so floor and share say little)");
}

/* Finds the least, median and greatest density of the layers with a network. */
static void density_range(const bench_report *r, const bench_row *row, double out[3])
{
    double *values = mem_new_array(r->layer_count, sizeof *values);
    out[0] = out[1] = out[2] = row->density;
    if (values) {
        size_t count = 0;
        for (uint32_t i = 0; i < r->layer_count; i++)
            if (!isnan(row->layers[i].active))
                values[count++] = row->layers[i].active;
        if (count > 0) {
            out[1] = median(values, count); /* sorts */
            out[0] = values[0];
            out[2] = values[count - 1];
        }
    }
    mem_free(values);
}

/* Prints a line for each row that skipped neurons. */
static void print_densities(const bench_report *r)
{
    bool headed = false;
    for (size_t i = 0; i < r->count; i++) {
        const bench_row *row = &r->rows[i];
        double range[3];
        if (r->layer_count == 0 || (row->density >= 1 && row->let_through >= 1))
            continue;
        if (!headed)
            puts("\nmode       context  prompt  let through  density  of layers: least  median  most");
        headed = true;
        density_range(r, row, range);
        printf("%-9s  %7u  %6u  %11.3f  %7.3f  %16.3f  %6.3f  %.3f", row->mode, row->context, row->prompt_length,
               row->let_through, row->density, range[0], range[1], range[2]);
        if (!isnan(row->recall))
            printf("   recall %.3f by probes", row->recall);
        putchar('\n');
    }
}

/* Prints a line for each row with split layers. */
static void print_overlaps(const bench_report *r)
{
    bool headed = false;
    for (size_t i = 0; i < r->count; i++) {
        const bench_row *row = &r->rows[i];
        const overlap_result *o = &row->overlap;
        if (o->samples == 0)
            continue;
        if (!headed)
            puts("\nsplit layers                 overlap                 per layer, microseconds\n"
                 "mode       context  prompt   median  95 of 100 reach  exchange  CPU's neurons  device's neurons");
        headed = true;
        printf("%-9s  %7u  %6u   %6.2f  %15.2f  %8.1f  %13.1f  %16.1f\n", row->mode, row->context, row->prompt_length,
               o->overlap, o->overlap_least, o->exchange_seconds * 1e6, o->cpu_seconds * 1e6, o->device_seconds * 1e6);
    }
}

static void print_layers(const bench_report *r)
{
    puts("\nmode       context  prompt  layer  computed  fired  active");
    for (size_t i = 0; i < r->count; i++)
        for (uint32_t layer = 0; layer < r->layer_count; layer++) {
            const bench_layer *l = &r->rows[i].layers[layer];
            if (isnan(l->active)) {
                printf("%-9s  %7u  %6u  %5u  %8s  %5s  %6s\n", r->rows[i].mode, r->rows[i].context,
                       r->rows[i].prompt_length, layer, "-", "-", "-");
                continue;
            }
            printf("%-9s  %7u  %6u  %5u  %8.3f  %5.3f  %6.3f\n", r->rows[i].mode, r->rows[i].context,
                   r->rows[i].prompt_length, layer, l->computed, l->fired, l->active);
        }
}

void bench_report_table(const bench_report *r, bool layers)
{
    output_safe(stdout, span_of(r->machine), 200);
    printf(", %u thread%s, %s, reads %.1f GB/s", r->threads, r->threads == 1 ? "" : "s", r->cpu_level,
           r->read_bandwidth * 1e-9);
    if (r->device_bandwidth > 0)
        printf("; the device %.1f GB/s", r->device_bandwidth * 1e-9);
    putchar('\n');
    print_speeds(r);
    print_densities(r);
    print_overlaps(r);
    if (layers)
        print_layers(r);
}
