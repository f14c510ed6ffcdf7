/* bench.c - `hearth bench`: speed, and its share of what the memory gives. */
#include "common.h"

#include "../base/file.h"
#include "../eval/bench.h"
#include "../kernel/topology.h"
#include "output.h"

#include <string.h>

#define MAX_PROMPTS_BYTES ((size_t)64 << 20)
/* One row for each pair of them. */
#define MAX_LENGTHS 64

typedef struct bench_values {
    engine_options engine;
    number_list prompt_lengths;
    number_list contexts;
    uint32_t decode_tokens;
    uint32_t repeats;
    const char *prompts;
    number_list ids;
    bool json, csv;
} bench_values;

static const option rows[] = {
    {OPTION_ROW(0, "prompt-lengths", LIST, bench_values, prompt_lengths, "64,512", "tokens of the timed prompt"),
     .least = 1, .most = 1 << 24},
    {OPTION_ROW(0, "contexts", LIST, bench_values, contexts, "0,1024", "tokens that were read before the prompt"),
     .least = 0, .most = 1 << 24},
    {OPTION_ROW('n', "predict", COUNT, bench_values, decode_tokens, "N", "tokens decoded behind the prompt; 32"),
     .alias = "n-predict", .least = 1, .most = 1 << 20},
    {OPTION_ROW('r', "repeat", COUNT, bench_values, repeats, "R", "timed runs of each row; the median counts; 7"),
     .alias = "repetitions", .least = 1, .most = 10000},
    {OPTION_ROW(0, "prompts", TEXT, bench_values, prompts, "FILE",
                "text to read instead of made-up tokens; run r begins at line r")},
    {OPTION_ROW(0, "ids", LIST, bench_values, ids, "1,2,3", "tokens to read, over and over; @FILE: from a file"),
     .least = 0, .most = INT32_MAX},
    {OPTION_ROW(0, "json", FLAG, bench_values, json, NULL, "one object with machine, threads, read_bandwidth, rows")},
    {OPTION_ROW(0, "csv", FLAG, bench_values, csv, NULL, "a table for other programs")},
};

/* ------------------------------------------------------------------ what to measure */

/* What the rows must fit: -c, else the model's context. */
static uint32_t context_limit(const bench_values *v, const hearth_model_info *info)
{
    return v->engine.context ? v->engine.context : info->context_length;
}

/* The usual lengths, as far as the context holds them. */
static hearth_status choose_lengths(bench_values *v, const hearth_model_info *info, arena *memory, hearth_error *error)
{
    static const int32_t usual[] = {64, 512};
    int32_t *numbers = arena_new_array(memory, 3, sizeof *numbers);
    if (!numbers)
        return fail_memory(error, "lengths", 3 * sizeof *numbers);
    if (v->contexts.count == 0)
        v->contexts = (number_list){numbers + 2, 1};
    if (v->prompt_lengths.count > 0)
        return HEARTH_OK;
    int64_t before = 0;
    for (size_t i = 0; i < v->contexts.count; i++)
        before = v->contexts.items[i] > before ? v->contexts.items[i] : before;
    int64_t room = (int64_t)context_limit(v, info) - before - v->decode_tokens;
    v->prompt_lengths.items = numbers;
    for (size_t i = 0; i < 2; i++)
        if (usual[i] <= room)
            numbers[v->prompt_lengths.count++] = usual[i];
    if (v->prompt_lengths.count < 2 && room > 0) /* a short context: as long as it can be */
        numbers[v->prompt_lengths.count++] = (int32_t)room;
    return HEARTH_OK;
}

/* The tokens of a file's lines, one after another, and where each line begins. */
typedef struct token_source {
    int32_t *ids;
    size_t *starts;
    size_t id_count, start_count;
} token_source;

static hearth_status add_line(token_source *s, const hearth_model *model, span line, hearth_error *error)
{
    int32_t *ids;
    size_t count;
    TRY(hearth_tokenize(model, line.data, line.size, HEARTH_TEXT_SPECIAL, &ids, &count, error));
    int32_t *all = s->ids ? mem_resize(s->ids, (s->id_count + count) * sizeof *all) : mem_new_array(count, sizeof *all);
    if (all) {
        memcpy(all + s->id_count, ids, count * sizeof *ids);
        s->starts[s->start_count++] = s->id_count;
        s->ids = all;
        s->id_count += count;
    }
    hearth_free(ids);
    return all ? HEARTH_OK : fail_memory(error, "prompts", (s->id_count + count) * sizeof *all);
}

static hearth_status read_lines(token_source *s, const hearth_model *model, span text, hearth_error *error)
{
    size_t lines = 1;
    for (size_t i = 0; i < text.size; i++)
        lines += text.data[i] == '\n';
    s->starts = mem_new_array(lines, sizeof *s->starts);
    if (!s->starts)
        return fail_memory(error, "prompts", lines * sizeof *s->starts);
    for (size_t at = 0; at < text.size;) {
        const char *end = memchr(text.data + at, '\n', text.size - at);
        size_t size = end ? (size_t)(end - text.data) - at : text.size - at;
        if (size > 0)
            TRY(add_line(s, model, (span){text.data + at, size}, error));
        at += size + 1;
    }
    return HEARTH_OK;
}

static hearth_status read_prompts(token_source *s, const hearth_model *model, const char *path, hearth_error *error)
{
    char *text;
    size_t size;
    TRY(file_read(&text, &size, path, MAX_PROMPTS_BYTES, error));
    hearth_status status = read_lines(s, model, (span){text, size}, error);
    mem_free(text);
    if (status == HEARTH_OK && s->start_count == 0)
        status = fail(error, HEARTH_FORMAT, "%s: prompts: there are none", path);
    return status;
}

/* ------------------------------------------------------------------ printing */

typedef struct report {
    const loaded *loaded;
    const bench_row *rows;
    size_t count;
    double read_bandwidth; /* mean of the rows' */
    char machine[256];
} report;

static hearth_status print_json(const report *r, hearth_error *error)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->count; i++) {
        const bench_row *row = &r->rows[i];
        json_array_append_new(list, json_pack("{s:s, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "rung",
                                              hearth_engine_rung(r->loaded->engine), "prompt_length",
                                              (int)row->prompt_length, "context", (int)row->context,
                                              "prefill_tokens_per_second", row->prefill_tokens_per_second,
                                              "decode_tokens_per_second", row->decode_tokens_per_second,
                                              "bytes_per_token", row->bytes_per_token, "share_of_bandwidth",
                                              row->share_of_bandwidth, "density", row->density, "kv_bytes_per_token",
                                              row->kv_bytes_per_token, "read_bandwidth", row->read_bandwidth));
    }
    json_t *object = json_pack(
        "{s:o, s:o, s:s, s:i, s:s, s:f, s:o}", "machine", output_json_text(span_of(r->machine)), "model",
        output_json_text(span_of(r->loaded->info.path)), "cpu_level", hearth_runtime_cpu_level(r->loaded->runtime),
        "threads", (int)hearth_runtime_threads(r->loaded->runtime), "class", hearth_engine_class(r->loaded->engine),
        "read_bandwidth", r->read_bandwidth, "rows", list);
    return output_json(object, JSON_INDENT(1), error);
}

static hearth_status print_csv(const report *r, hearth_error *error)
{
    (void)error;
    puts("rung,prompt_length,context,prefill_tokens_per_second,decode_tokens_per_second,bytes_per_token,"
         "share_of_bandwidth,density,kv_bytes_per_token,read_bandwidth");
    for (size_t i = 0; i < r->count; i++) {
        const bench_row *row = &r->rows[i];
        printf("%s,%u,%u,%.3f,%.3f,%.0f,%.4f,%.4f,%.0f,%.4e\n", hearth_engine_rung(r->loaded->engine),
               row->prompt_length, row->context, row->prefill_tokens_per_second, row->decode_tokens_per_second,
               row->bytes_per_token, row->share_of_bandwidth, row->density, row->kv_bytes_per_token,
               row->read_bandwidth);
    }
    return HEARTH_OK;
}

static hearth_status print_table(const report *r, hearth_error *error)
{
    (void)error;
    char size[16];
    unsigned threads = hearth_runtime_threads(r->loaded->runtime);
    printf("%s, %u thread%s, %s, reads %.1f GB/s\n", r->machine, threads, threads == 1 ? "" : "s",
           hearth_runtime_cpu_level(r->loaded->runtime), r->read_bandwidth * 1e-9);
    puts("rung    context  prompt  prefill tok/s  decode tok/s  bytes/token  share of bandwidth");
    bool cached = false;
    for (size_t i = 0; i < r->count; i++) {
        const bench_row *row = &r->rows[i];
        cached = cached || row->bytes_per_token < (double)topology_cache_bytes();
        printf("%-6s %8u  %6u  %13.1f  %12.1f  %11s  %18.2f\n", hearth_engine_rung(r->loaded->engine), row->context,
               row->prompt_length, row->prefill_tokens_per_second, row->decode_tokens_per_second,
               output_size(size, row->bytes_per_token), row->share_of_bandwidth);
    }
    if (cached)
        puts("(what a token reads fits into the processor's cache, so the share says little)");
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ the command */

static hearth_status measure(const loaded *l, const bench_values *v, const token_source *source, bench_row *results,
                             progress *p, hearth_error *error)
{
    bench_options options = {
        .prompt_lengths = v->prompt_lengths.items,
        .prompt_length_count = v->prompt_lengths.count,
        .contexts = v->contexts.items,
        .context_count = v->contexts.count,
        .decode_tokens = v->decode_tokens,
        .repeats = v->repeats,
        .ids = source->ids ? source->ids : v->ids.items,
        .id_count = source->ids ? source->id_count : v->ids.count,
        .starts = source->starts,
        .start_count = source->start_count,
        .context = v->engine.context,
        .kv = (hearth_kv)v->engine.kv,
        .progress = progress_to(p),
    };
    hearth_status status = bench_run(results, l->engine, hearth_runtime_threads(l->runtime),
                                     hearth_runtime_cpu_level(l->runtime), &options, error);
    progress_clear(p);
    return status;
}

static hearth_status print(const loaded *l, const bench_values *v, const bench_row *results, hearth_error *error)
{
    report r = {.loaded = l, .rows = results, .count = v->contexts.count * v->prompt_lengths.count};
    topology_cpu_name(r.machine, sizeof r.machine);
    for (size_t i = 0; i < r.count; i++)
        r.read_bandwidth += results[i].read_bandwidth / (double)r.count;
    return v->json ? print_json(&r, error) : v->csv ? print_csv(&r, error) : print_table(&r, error);
}

static hearth_status bench_loaded(const loaded *l, bench_values *v, progress *p, arena *memory, hearth_error *error)
{
    token_source source = {0};
    hearth_status status = choose_lengths(v, &l->info, memory, error);
    if (status == HEARTH_OK && v->prompts)
        status = read_prompts(&source, l->model, v->prompts, error);
    size_t count = v->contexts.count * v->prompt_lengths.count;
    if (status == HEARTH_OK && (v->contexts.count > MAX_LENGTHS || v->prompt_lengths.count > MAX_LENGTHS || count == 0))
        status = fail(error, HEARTH_INVALID,
                      "bench: lengths: between one and %d are possible, and they must fit the context of %u",
                      MAX_LENGTHS, context_limit(v, &l->info));
    if (status == HEARTH_OK) {
        bench_row *results = arena_new_array(memory, count, sizeof *results);
        status = results ? measure(l, v, &source, results, p, error) : fail_memory(error, "rows", count);
        if (status == HEARTH_OK)
            status = print(l, v, results, error);
    }
    mem_free(source.ids);
    mem_free(source.starts);
    return status;
}

static hearth_status run(void *values, operands *rest, hearth_error *error)
{
    bench_values *v = values;
    progress p;
    loaded l;
    if (v->json && v->csv)
        return fail(error, HEARTH_INVALID, "bench: --csv: --json was asked for as well");
    if (v->prompts && v->ids.count > 0)
        return fail(error, HEARTH_INVALID, "bench: --ids: the tokens come from --prompts already");
    TRY(common_take_model("bench", &v->engine.model, rest, 0, true, error));
    TRY(common_load(&l, &v->engine, &p, error));
    hearth_status status = bench_loaded(&l, v, &p, rest->memory, error);
    common_unload(&l);
    return status;
}

static void defaults(void *values)
{
    bench_values *v = values;
    v->decode_tokens = 32;
    v->repeats = 7;
}

const command command_bench = {
    .name = "bench",
    .path = "bench",
    .summary = "measure speed, and its share of the memory's bandwidth",
    .usage = "[MODEL] [options]",
    .about =
        "Times reading a prompt and decoding behind it. The machine's read bandwidth is measured immediately before "
        "and after each decoding; the share says how much of it decoding used for the bytes that a token must "
        "read (weights, and the cache at that position). Medians of all runs. Defaults that do not fit the model's "
        "context are shortened or left out.",
    .example = "  $ hearth bench llama-1b-q8_0.gguf\n"
               "  Intel(R) Xeon(R) Processor, 2 threads, avx512, reads 35.2 GB/s\n"
               "  rung    context  prompt  prefill tok/s  decode tok/s  bytes/token  share of bandwidth\n"
               "  dense         0      64          171.3          26.4      1.17 GB                0.88\n"
               "  dense         0     512          188.0          26.1      1.19 GB                0.88",
    .tables = {OPTION_TABLE("measuring", rows, 0), ENGINE_TABLES(offsetof(bench_values, engine))},
    .values_size = sizeof(bench_values),
    .defaults = defaults,
    .operands_most = 1,
    .run = run,
};
