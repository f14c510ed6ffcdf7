/* convert.c - writes a checkpoint as GGUF, tensor by tensor, rows in parallel.
 *
 * Nothing is held in memory but the rows that are being worked on: a source larger than memory streams from
 * its mapping through float32 into the file. Values that keep their format are copied, not decoded. */
#include "convert.h"

#include "hyper.h"

#include "../file/gguf.h"

#include <dirent.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Bytes written between two looks at progress; also the size of the buffer. */
static const size_t chunk_bytes = (size_t)4 << 20;
/* ggml's name for the layout of its blocks; all of ours are of version 2. */
static const uint32_t quantization_version = 2;

typedef struct converter {
    const convert_options *options;
    checkpoint *source;
    const family *family;
    pool *threads;
    hearth_error *error;
    convert_step *steps;        /* [count]: reasons are in the arena                  */
    const stored_tensor **from; /* [count]                                            */
    stored_tensor *to;          /* [count] what the file's head announces             */
    size_t count;
    gguf_writer *writer;
    uint64_t bytes_done, bytes_total;
    arena memory;
} converter;

/* ---------------------------------------------------------------- formats */

static double bits_per_weight(number_format f)
{
    return 8.0 * number_formats[f].block_bytes / number_formats[f].block_values;
}

/* The tensor that gives the logits: its own, or the embedding where there is none. */
static bool is_head(const converter *c, const tensor_rule *rule)
{
    if (!(rule->flags & TENSOR_EMBEDDING))
        return (rule->flags & TENSOR_HEAD) != 0;
    for (size_t i = 0; i < c->family->tensor_count; i++)
        if ((c->family->tensors[i].flags & TENSOR_HEAD) &&
            checkpoint_find_tensor(c->source, c->family->tensors[i].name))
            return false;
    return true;
}

/* The last override that matches; NULL: none does. */
static const convert_override *find_override(const convert_options *o, const char *name)
{
    const convert_override *last = NULL;
    for (size_t i = 0; i < o->override_count; i++)
        if (strcmp(o->overrides[i].pattern, name) == 0 || fnmatch(o->overrides[i].pattern, name, 0) == 0)
            last = &o->overrides[i];
    return last;
}

/* What the options want for a matrix, before it is asked whether its rows allow that. */
static number_format wanted_format(const converter *c, const tensor_rule *rule, const stored_tensor *t,
                                   const char **reason)
{
    const convert_options *o = c->options;
    const convert_override *override = find_override(o, t->name);
    *reason = override ? "override" : "asked for";
    if (override)
        return override->format;
    if (o->format != FORMAT_COUNT && o->head_apart && is_head(c, rule) &&
        bits_per_weight(o->format) < bits_per_weight(FORMAT_Q6_K)) {
        *reason = "head";
        return FORMAT_Q6_K;
    }
    if (o->format != FORMAT_COUNT)
        return o->format;
    *reason = "as stored";
    return t->format;
}

/* Chooses the format and says why; step->reason is in the converter's arena where it was made up. */
static hearth_status choose_format(converter *c, convert_step *step, const tensor_rule *rule, const stored_tensor *t)
{
    size_t bytes;
    if (t->rank == 1) { /* llama.cpp loads vectors in float32 only */
        step->to = FORMAT_F32;
        step->reason = rule->flags & TENSOR_CONSTANT ? "constant" : "norm";
        return HEARTH_OK;
    }
    number_format wanted = wanted_format(c, rule, t, &step->reason);
    step->to = wanted;
    if (number_row_bytes(wanted, step->columns, &bytes))
        return HEARTH_OK;
    step->to = number_row_bytes(FORMAT_Q8_0, step->columns, &bytes) ? FORMAT_Q8_0 : FORMAT_F16;
    char text[96];
    int length = snprintf(text, sizeof text, "%s needs rows of a multiple of %u", number_formats[wanted].name,
                          number_formats[wanted].block_values);
    step->reason = arena_copy_text(&c->memory, text, (size_t)length);
    return step->reason ? HEARTH_OK : fail_memory(c->error, "conversion", (size_t)length);
}

/* -------------------------------------------------------------------- plan */

static hearth_status plan_tensor(converter *c, const tensor_rule *rule, uint32_t layer)
{
    char name[TENSOR_NAME_SIZE];
    tensor_rule_name(name, rule, layer, false);
    const stored_tensor *t = rule->flags & TENSOR_IGNORED ? NULL : checkpoint_find_tensor(c->source, name);
    if (!t) /* optional: the check has seen all others */
        return HEARTH_OK;
    convert_step *step = &c->steps[c->count];
    *step = (convert_step){.name = t->name,
                           .from = t->format,
                           .columns = t->shape[0],
                           .rows = t->rank > 1 ? t->shape[1] : 1,
                           .from_bytes = t->size_bytes};
    TRY(choose_format(c, step, rule, t));
    size_t row_bytes, size_bytes;
    if (!number_row_bytes(step->to, step->columns, &row_bytes) ||
        !size_multiply(row_bytes, (size_t)step->rows, &size_bytes))
        return fail(c->error, HEARTH_FORMAT, "%s: tensor %s: is too large for %s", c->source->path, t->name,
                    number_formats[step->to].name);
    step->to_bytes = size_bytes;
    c->from[c->count] = t;
    c->to[c->count] = *t;
    c->to[c->count].format = step->to;
    c->to[c->count].size_bytes = size_bytes;
    c->to[c->count].rotary_heads = 0;
    c->bytes_total += t->size_bytes;
    c->count++;
    return HEARTH_OK;
}

/* A pattern that matches nothing is a typing error, not a wish. */
static hearth_status check_overrides(const converter *c)
{
    for (size_t i = 0; i < c->options->override_count; i++) {
        const char *pattern = c->options->overrides[i].pattern;
        bool matches = false;
        for (size_t k = 0; k < c->count && !matches; k++)
            matches = strcmp(pattern, c->steps[k].name) == 0 || fnmatch(pattern, c->steps[k].name, 0) == 0;
        if (!matches)
            return fail(c->error, HEARTH_INVALID, "%s: override %s: matches no tensor", c->source->path, pattern);
    }
    return HEARTH_OK;
}

static hearth_status plan(converter *c, uint32_t layer_count)
{
    const family *f = c->family;
    size_t most = c->source->tensor_count;
    c->steps = arena_new_array(&c->memory, most, sizeof *c->steps);
    c->from = arena_new_array(&c->memory, most, sizeof *c->from);
    c->to = arena_new_array(&c->memory, most, sizeof *c->to);
    if (!c->steps || !c->from || !c->to)
        return fail_memory(c->error, "conversion", most * sizeof *c->to);
    for (size_t i = 0; i < f->tensor_count; i++)
        TRY(plan_tensor(c, &f->tensors[i], 0));
    for (uint32_t layer = 0; layer < layer_count; layer++)
        for (size_t i = 0; i < f->layer_tensor_count; i++)
            TRY(plan_tensor(c, &f->layer_tensors[i], layer));
    return check_overrides(c);
}

static hearth_status set_keys(converter *c)
{
    const convert_options *o = c->options;
    char key[KEY_SIZE];
    hyper_key(key, c->family, "hidden_activation");
    if (o->format != FORMAT_COUNT)
        TRY(checkpoint_set_u32(c->source, "general.file_type", number_formats[o->format].file_type, c->error));
    TRY(checkpoint_set_u32(c->source, "general.quantization_version", quantization_version, c->error));
    return o->ffn_activation ? checkpoint_set_string(c->source, key, span_of(o->ffn_activation), c->error) : HEARTH_OK;
}

/* -------------------------------------------------------------------- rows */

/* One chunk of a tensor on its way. */
typedef struct rows {
    const stored_tensor *from;
    number_format to;
    uint64_t first; /* row of the tensor that is row 0 here */
    size_t columns, from_row_bytes, to_row_bytes;
    float *values; /* [threads][columns]                   */
    char *out;     /* [rows][to_row_bytes]                 */
} rows;

static void convert_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    const rows *r = context;
    float *values = r->values + worker * r->columns;
    for (size_t i = begin; i < end; i++) {
        uint64_t stored = stored_tensor_row(r->from, r->first + i);
        const char *in = (const char *)r->from->data + stored * r->from_row_bytes;
        char *out = r->out + i * r->to_row_bytes;
        if (r->from->format == r->to) {
            memcpy(out, in, r->to_row_bytes);
            continue;
        }
        number_formats[r->from->format].decode(in, values, r->columns);
        number_formats[r->to].encode(values, out, r->columns);
    }
}

static hearth_status report(converter *c, uint64_t bytes)
{
    const hearth_progress *p = &c->options->progress;
    c->bytes_done += bytes;
    if (p->report && !p->report(p->user, "converting", c->bytes_done, c->bytes_total))
        return fail(c->error, HEARTH_CANCELLED, "%s: conversion was cancelled", c->source->path);
    return HEARTH_OK;
}

/* Bytes that need no work go from the mapping to the file. */
static hearth_status copy_tensor(converter *c, const stored_tensor *t)
{
    for (size_t at = 0; at < t->size_bytes; at += chunk_bytes) {
        size_t part = t->size_bytes - at < chunk_bytes ? t->size_bytes - at : chunk_bytes;
        TRY(gguf_writer_put(c->writer, (const char *)t->data + at, part, c->error));
        TRY(report(c, part));
    }
    return HEARTH_OK;
}

static hearth_status convert_chunks(converter *c, rows *r, uint64_t count, size_t chunk)
{
    for (r->first = 0; r->first < count; r->first += chunk) {
        size_t part = count - r->first < chunk ? (size_t)(count - r->first) : chunk;
        pool_run(c->threads, part, 1, convert_rows, r);
        TRY(gguf_writer_put(c->writer, r->out, part * r->to_row_bytes, c->error));
        TRY(report(c, part * r->from_row_bytes));
    }
    return HEARTH_OK;
}

static hearth_status write_tensor(converter *c, size_t i)
{
    const convert_step *step = &c->steps[i];
    const stored_tensor *t = c->from[i];
    if (c->options->step)
        c->options->step(c->options->user, step);
    if (step->from == step->to && t->rotary_heads == 0)
        return copy_tensor(c, t);
    rows r = {.from = t, .to = step->to, .columns = (size_t)step->columns};
    r.from_row_bytes = t->size_bytes / (size_t)step->rows;
    r.to_row_bytes = (size_t)step->to_bytes / (size_t)step->rows;
    /* enough rows for every thread, then as many as make a worthwhile write */
    unsigned threads = pool_threads(c->threads);
    size_t chunk = chunk_bytes / r.to_row_bytes;
    chunk = chunk > threads ? chunk : threads;
    if (chunk > step->rows)
        chunk = (size_t)step->rows;
    r.values = mem_new_array(r.columns, threads * sizeof *r.values);
    r.out = mem_new_array(chunk, r.to_row_bytes);
    hearth_status status = r.values && r.out ? convert_chunks(c, &r, step->rows, chunk)
                                             : fail_memory(c->error, t->name, chunk * r.to_row_bytes);
    mem_free(r.out);
    mem_free(r.values);
    return status;
}

static hearth_status write_file(converter *c, const char *path)
{
    const checkpoint *s = c->source;
    TRY(gguf_writer_open(&c->writer, path, s->entries, s->entry_count, c->to, c->count, c->error));
    for (size_t i = 0; i < c->count; i++) {
        hearth_status status = write_tensor(c, i);
        if (status != HEARTH_OK) {
            gguf_writer_discard(c->writer);
            return status;
        }
        checkpoint_drop(s, c->from[i]);
    }
    return gguf_writer_commit(c->writer, c->error);
}

/* ------------------------------------------------------------------ source */

static bool same_file(const char *path, const struct stat *other)
{
    struct stat about;
    return stat(path, &about) == 0 && about.st_dev == other->st_dev && about.st_ino == other->st_ino;
}

/* True where `about` is a file of the folder that is no GGUF: its config, tokenizer or weights. */
static bool folder_holds(const char *folder, const struct stat *about)
{
    DIR *d = opendir(folder);
    bool holds = false;
    for (struct dirent *e; d && !holds && (e = readdir(d)) != NULL;) {
        const char *end = strrchr(e->d_name, '.');
        char *path = file_join(folder, e->d_name);
        holds = path && same_file(path, about) && !(end && strcmp(end, ".gguf") == 0);
        mem_free(path);
    }
    if (d)
        closedir(d);
    return holds;
}

/* The new file takes the name of the old one only when it is whole, but a source is not to be lost. */
static hearth_status check_paths(const char *source, const char *out, hearth_error *error)
{
    struct stat about;
    if (stat(out, &about) != 0 || !S_ISREG(about.st_mode))
        return HEARTH_OK;
    if (same_file(source, &about) || (file_is_folder(source) && folder_holds(source, &about)))
        return fail(error, HEARTH_INVALID, "%s: is what would be read: choose another name", out);
    return HEARTH_OK;
}

hearth_status convert_write(const char *source_path, const char *out_path, const convert_options *options,
                            pool *threads, hearth_error *error)
{
    converter c = {.options = options, .threads = threads, .error = error};
    hearth_model *checked = NULL;
    hearth_status status;
    TRY(check_paths(source_path, out_path, error));
    TRY(model_open_checkpoint(&c.source, source_path, error));
    hearth_model_options check = {.ffn_activation = options->ffn_activation};
    TRY_OR(done, status, model_check(&checked, c.source, &check, error));
    c.family = checked->family;
    TRY_OR(done, status, plan(&c, checked->hyper.layer_count));
    TRY_OR(done, status, set_keys(&c));
    if (options->note && !checkpoint_find(c.source, "tokenizer.ggml.model"))
        options->note(options->user, model_tokenizer_missing(source_path));
    status = write_file(&c, out_path);
done:
    hearth_model_close(checked);
    arena_clear(&c.memory);
    checkpoint_close(c.source);
    return status;
}
