/* model_file.c - see model_file.h. */
#include "model_file.h"

#include "../src/base/clock.h"
#include "../src/base/memory.h"
#include "../src/file/gguf.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PIECE_BYTES ((size_t)8 << 20) /* that are made at once and then written */
#define NAME_SIZE   64
#define EPSILON     1e-5f /* of the norms */
#define BYTES_FIRST 3     /* id of the token of byte 0, behind <unk>, <s>, </s> */
#define WORDS_FIRST (BYTES_FIRST + 256)

/* -------------------------------------------------------------------- tensors */

#define COUNT(table) (sizeof(table) / sizeof(table)[0])

/* One tensor of the file. */
typedef struct planned {
    model_matrix which;
    uint32_t layer;
    bool begins_layer; /* its layer's plan has to be made first */
} planned;

typedef struct work {
    const model_design *m;
    const model_file_options *options;
    arena memory;
    stored_tensor *tensors; /* [count] */
    planned *plans;         /* [count] */
    size_t count;
    uint64_t size_bytes, done_bytes;
    model_layer_plan layer;
    gguf_writer *file;
    pool *threads;
    char *scratch; /* [threads][model_band_scratch] */
    char *piece;   /* [PIECE_BYTES] or one band */
    double start;
} work;

static number_format format_of(const work *w, model_matrix which)
{
    if (model_matrix_is_exact(w->m, which))
        return FORMAT_F32;
    number_format format = w->m->format;
    bool is_head = which == MATRIX_HEAD || (which == MATRIX_EMBEDDING && w->m->shape.family->tied);
    const number_traits *given = &number_formats[format], *least = &number_formats[FORMAT_Q6_K];
    if (is_head && w->options->head != FORMAT_COUNT)
        format = w->options->head;
    else if (is_head && given->block_bytes * least->block_values < least->block_bytes * given->block_values)
        format = FORMAT_Q6_K;
    return model_format(format, model_matrix_columns(w->m, which));
}

static hearth_status add_tensor(work *w, const tensor_row *row, uint32_t layer, bool begins_layer, hearth_error *error)
{
    char name[NAME_SIZE];
    snprintf(name, sizeof name, row->name, layer);
    stored_tensor t = {.name = arena_copy_text(&w->memory, name, strlen(name)), .shape = {0, 1, 1, 1}};
    if (!t.name)
        return fail_memory(error, name, sizeof name);
    uint32_t rows = model_matrix_rows(w->m, row->which);
    bool stacked = model_matrix_of_experts(w->m, row->which);
    t.format = format_of(w, row->which);
    t.rank = rows == 1 ? 1 : stacked ? 3 : 2;
    t.shape[0] = model_matrix_columns(w->m, row->which);
    t.shape[2] = stacked ? w->m->shape.experts : 1;
    t.shape[1] = rows / t.shape[2];
    size_t row_bytes;
    if (!number_row_bytes(t.format, t.shape[0], &row_bytes))
        return fail(error, HEARTH_INVALID, "%s: rows of %llu values in %s", name, (unsigned long long)t.shape[0],
                    number_formats[t.format].name);
    t.size_bytes = row_bytes * rows;
    w->size_bytes += t.size_bytes;
    w->plans[w->count] = (planned){row->which, layer, begins_layer};
    w->tensors[w->count++] = t;
    return HEARTH_OK;
}

static bool is_present(tensor_presence layout, const tensor_row *row)
{
    return row->where == ALWAYS || row->where == layout || (row->where == IN_NEURON_MAJOR && layout == IN_POWERINFER);
}

/* Weights of these tensors in the stock file. */
static double count_weights(const model_design *m, const tensor_row *rows, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        if (is_present(IN_STOCK, &rows[i]))
            sum += (double)model_matrix_rows(m, rows[i].which) * model_matrix_columns(m, rows[i].which);
    return sum;
}

double model_file_parameters(const model_design *m)
{
    const model_family *f = m->shape.family;
    double sum = count_weights(m, f->of_model, f->of_model_count);
    for (uint32_t layer = 0; layer < m->shape.layers; layer++) {
        const layer_kind *kind = model_kind(&m->shape, layer);
        sum += count_weights(m, kind->rows, kind->count);
    }
    return sum;
}

static hearth_status plan_tensors(work *w, hearth_error *error)
{
    const model_family *f = w->m->shape.family;
    size_t most = f->of_model_count;
    for (uint32_t layer = 0; layer < w->m->shape.layers; layer++)
        most += model_kind(&w->m->shape, layer)->count;
    w->tensors = arena_new_array(&w->memory, most, sizeof *w->tensors);
    w->plans = arena_new_array(&w->memory, most, sizeof *w->plans);
    if (!w->tensors || !w->plans)
        return fail_memory(error, "tensors", most * (sizeof *w->tensors + sizeof *w->plans));
    for (size_t i = 0; i < f->of_model_count; i++)
        if (is_present(w->options->layout, &f->of_model[i]))
            TRY(add_tensor(w, &f->of_model[i], 0, false, error));
    for (uint32_t layer = 0; layer < w->m->shape.layers; layer++) {
        const layer_kind *kind = model_kind(&w->m->shape, layer);
        for (size_t i = 0; i < kind->count; i++)
            if (is_present(w->options->layout, &kind->rows[i]))
                TRY(add_tensor(w, &kind->rows[i], layer, i == 0, error));
    }
    return HEARTH_OK;
}

/* ----------------------------------------------------------------------- keys */

/* A vocabulary of the SentencePiece kind: control tokens, a token for every byte, and words that mean nothing. */
static hearth_status set_vocabulary(work *w, checkpoint *keys, hearth_error *error)
{
    enum { NORMAL = 1, UNKNOWN, CONTROL, BYTE = 6 };
    static const char *const control[BYTES_FIRST] = {"<unk>", "<s>", "</s>"};
    uint32_t n = w->m->shape.vocabulary;
    span *tokens = arena_new_array(&w->memory, n, sizeof *tokens);
    float *scores = arena_new_array(&w->memory, n, sizeof *scores);
    int32_t *types = arena_new_array(&w->memory, n, sizeof *types);
    if (!tokens || !scores || !types)
        return fail_memory(error, "vocabulary", n * (sizeof *tokens + sizeof *scores + sizeof *types));
    for (uint32_t i = 0; i < n; i++) {
        char text[32];
        bool is_byte = i >= BYTES_FIRST && i < WORDS_FIRST;
        if (i < BYTES_FIRST)
            snprintf(text, sizeof text, "%s", control[i]);
        else
            snprintf(text, sizeof text, is_byte ? "<0x%02X>" : "\u2581w%u", is_byte ? i - BYTES_FIRST : i);
        tokens[i] = (span){arena_copy_text(&w->memory, text, strlen(text)), strlen(text)};
        if (!tokens[i].data)
            return fail_memory(error, "vocabulary", sizeof text);
        scores[i] = i < WORDS_FIRST ? 0.0f : -(float)(i - WORDS_FIRST);
        types[i] = i == 0 ? UNKNOWN : i < BYTES_FIRST ? CONTROL : is_byte ? BYTE : NORMAL;
    }
    TRY(checkpoint_set_string(keys, "tokenizer.ggml.model", span_of("llama"), error));
    TRY(checkpoint_set_strings(keys, "tokenizer.ggml.tokens", tokens, n, error));
    TRY(checkpoint_set_numbers(keys, "tokenizer.ggml.scores", VALUE_F32, scores, n, error));
    TRY(checkpoint_set_numbers(keys, "tokenizer.ggml.token_type", VALUE_I32, types, n, error));
    TRY(checkpoint_set_u32(keys, "tokenizer.ggml.bos_token_id", 1, error));
    TRY(checkpoint_set_u32(keys, "tokenizer.ggml.eos_token_id", 2, error));
    return checkpoint_set_u32(keys, "tokenizer.ggml.unknown_token_id", 0, error);
}

/* A key of the family: "opt.block_count". */
static const char *family_key(const work *w, char out[NAME_SIZE], const char *name)
{
    snprintf(out, NAME_SIZE, "%s.%s", w->m->shape.family->architecture, name);
    return out;
}

/* Keys of the sizes. PowerInfer's files of families with learned positions say how many rows the table has. */
static hearth_status set_sizes(const work *w, checkpoint *keys, hearth_error *error)
{
    const model_shape *s = &w->m->shape;
    const model_family *f = s->family;
    bool mixed = s->experts > 1, wide = s->head_length * s->heads != s->width, blocks = f->mixers == MIXERS_BLOCKS;
    bool recurrent = s->recurrent.heads > 0;
    const struct {
        const char *name;
        uint32_t value;
        bool present;
    } sizes[] = {
        {"context_length", f->positions ? s->positions : w->options->context, true},
        {"embedding_length", s->width, true},
        {"block_count", s->layers, true},
        {"feed_forward_length", s->neurons, !blocks},
        {"attention.head_count", s->heads, true},
        {"attention.head_count_kv", s->kv_heads, !blocks},
        {"rope.dimension_count", s->rotated > 0 ? s->rotated : s->head_length, !f->positions},
        {"attention.key_length", s->head_length, wide},
        {"attention.value_length", s->head_length, wide},
        {"expert_count", s->experts, mixed},
        {"expert_used_count", s->used, mixed},
        {"expert_feed_forward_length", s->neurons, mixed},
        {"attention.sliding_window", s->window, s->window > 0},
        {"expert_gating_func", s->gating, s->gating > 0},
        {"expert_shared_count", 1, s->shared_neurons > 0},
        {"expert_shared_feed_forward_length", s->shared_neurons, s->shared_neurons > 0},
        {"full_attention_interval", s->pattern ? (uint32_t)strlen(s->pattern) : 0, f->mixers == MIXERS_LISTED},
        {"ssm.conv_kernel", s->recurrent.window, recurrent},
        {"ssm.state_size", s->recurrent.state, recurrent},
        {"ssm.group_count", s->recurrent.groups, recurrent},
        {"ssm.time_step_rank", s->recurrent.heads, recurrent},
        {"ssm.inner_size", s->recurrent.heads * s->recurrent.head_length, recurrent},
    };
    char key[NAME_SIZE];
    for (size_t i = 0; i < COUNT(sizes); i++)
        if (sizes[i].present)
            TRY(checkpoint_set_u32(keys, family_key(w, key, sizes[i].name), sizes[i].value, error));
    TRY(checkpoint_set_u32(keys, "general.file_type", number_formats[w->m->format].file_type, error));
    return checkpoint_set_u32(keys, "general.quantization_version", 2, error);
}

/* Where a layer is one block, the sizes say of each layer which block it is. */
static hearth_status set_blocks(work *w, checkpoint *keys, hearth_error *error)
{
    const model_shape *s = &w->m->shape;
    int32_t *sizes = arena_new_array(&w->memory, 2 * (size_t)s->layers, sizeof *sizes);
    char key[NAME_SIZE];
    if (!sizes)
        return fail_memory(error, "blocks", 2 * s->layers * sizeof *sizes);
    int32_t *kv_heads = sizes + s->layers;
    for (uint32_t i = 0; i < s->layers; i++) {
        const layer_kind *kind = model_kind(s, i);
        sizes[i] = kind->network ? (int32_t)s->neurons : 0;
        kv_heads[i] = kind->network || kind->recurrent ? 0 : (int32_t)s->kv_heads;
    }
    TRY(checkpoint_set_numbers(keys, family_key(w, key, "feed_forward_length"), VALUE_I32, sizes, s->layers, error));
    return checkpoint_set_numbers(keys, family_key(w, key, "attention.head_count_kv"), VALUE_I32, kv_heads, s->layers,
                                  error);
}

/* Keys that some families have: llama.cpp wants them. */
static hearth_status set_others(work *w, checkpoint *keys, hearth_error *error)
{
    const model_shape *s = &w->m->shape;
    char key[NAME_SIZE];
    if (s->family->mixers == MIXERS_BLOCKS) {
        TRY(set_blocks(w, keys, error));
        TRY(checkpoint_set_f32(keys, family_key(w, key, "attention.layer_norm_epsilon"), EPSILON, error));
    }
    if (s->family->mixers == MIXERS_LISTED) {
        const int32_t thirds = (int32_t)(s->rotated / 2 / 3), pairs = (int32_t)(s->rotated / 2);
        const int32_t sections[4] = {pairs - 2 * thirds, thirds, thirds, 0}; /* no matter in text */
        TRY(checkpoint_set_numbers(keys, family_key(w, key, "rope.dimension_sections"), VALUE_I32, sections, 4, error));
    }
    if (s->routed_scale > 0) {
        TRY(checkpoint_set_f32(keys, family_key(w, key, "expert_weights_scale"), s->routed_scale, error));
        TRY(checkpoint_set_bool(keys, family_key(w, key, "expert_weights_norm"), true, error));
    }
    return HEARTH_OK;
}

static hearth_status set_keys(work *w, checkpoint *keys, hearth_error *error)
{
    const model_shape *s = &w->m->shape;
    const model_family *f = s->family;
    char name[NAME_SIZE], key[NAME_SIZE];
    snprintf(name, sizeof name, "planted %s, seed %llu", s->name, (unsigned long long)w->m->seed);
    TRY(checkpoint_set_string(keys, "general.architecture", span_of(f->architecture), error));
    TRY(checkpoint_set_string(keys, "general.name", span_of(name), error));
    TRY(set_sizes(w, keys, error));
    const char *epsilon = f->layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon";
    TRY(checkpoint_set_f32(keys, family_key(w, key, epsilon), EPSILON, error));
    TRY(set_others(w, keys, error));
    if (!f->positions)
        TRY(checkpoint_set_f32(keys, family_key(w, key, "rope.freq_base"), s->rope_base, error));
    TRY(checkpoint_set_string(keys, family_key(w, key, "hidden_activation"), span_of(w->options->activation), error));
    if (w->options->layout == IN_NEURON_MAJOR)
        TRY(checkpoint_set_u32(keys, "hearth.pack.version", 1, error));
    return set_vocabulary(w, keys, error);
}

static hearth_status open_file(work *w, hearth_error *error)
{
    checkpoint *keys = NULL;
    TRY(checkpoint_create(&keys, w->options->path, error));
    hearth_status status = set_keys(w, keys, error);
    if (status == HEARTH_OK)
        status = gguf_writer_open(&w->file, w->options->path, w->options->layout == IN_POWERINFER, keys->entries,
                                  keys->entry_count, w->tensors, w->count, error);
    checkpoint_close(keys);
    return status;
}

/* ------------------------------------------------------------------- the loop */

static void show_progress(const work *w)
{
    double spent = clock_seconds() - w->start, share = (double)w->done_bytes / (double)w->size_bytes;
    if (isatty(STDERR_FILENO) && spent > 1)
        fprintf(stderr, "\r%3.0f %%, %.0f s left \033[K%s", 100 * share, spent / share - spent,
                share < 1 ? "" : "\r\033[K");
}

/* Bands of one piece; what a thread needs to make them. */
typedef struct piece_job {
    work *w;
    size_t tensor;
    uint32_t first, rows; /* of the piece */
    size_t row_bytes, scratch_bytes;
} piece_job;

static void make_bands(void *context, size_t begin, size_t end, unsigned worker)
{
    const piece_job *job = context;
    const planned *p = &job->w->plans[job->tensor];
    for (size_t band = begin; band < end; band++) {
        uint32_t first = (uint32_t)band * MODEL_BAND, left = job->rows - first;
        model_band(job->w->m, &job->w->layer, p->which, job->w->tensors[job->tensor].format, job->first + first,
                   left < MODEL_BAND ? left : MODEL_BAND, job->w->scratch + worker * job->scratch_bytes,
                   job->w->piece + first * job->row_bytes);
    }
}

static size_t piece_rows(size_t row_bytes)
{
    size_t rows = PIECE_BYTES / row_bytes / MODEL_BAND * MODEL_BAND;
    return rows ? rows : MODEL_BAND;
}

static hearth_status write_matrix(work *w, size_t tensor, hearth_error *error)
{
    const stored_tensor *t = &w->tensors[tensor];
    piece_job job = {.w = w,
                     .tensor = tensor,
                     .row_bytes = t->size_bytes / (t->shape[1] * t->shape[2]),
                     .scratch_bytes = model_band_scratch(w->m)};
    uint32_t total = (uint32_t)(t->shape[1] * t->shape[2]), most = (uint32_t)piece_rows(job.row_bytes);
    for (; job.first < total; job.first += job.rows) {
        job.rows = total - job.first < most ? total - job.first : most;
        pool_run(w->threads, (job.rows + MODEL_BAND - 1) / MODEL_BAND, 1, make_bands, &job);
        TRY(gguf_writer_put(w->file, w->piece, job.rows * job.row_bytes, error));
        w->done_bytes += job.rows * job.row_bytes;
        show_progress(w);
    }
    return HEARTH_OK;
}

static hearth_status write_tensors(work *w, hearth_error *error)
{
    size_t piece_bytes = PIECE_BYTES;
    for (size_t i = 0; i < w->count; i++) {
        size_t band = MODEL_BAND * (w->tensors[i].size_bytes / model_matrix_rows(w->m, w->plans[i].which));
        piece_bytes = band > piece_bytes ? band : piece_bytes;
    }
    size_t scratch_bytes = pool_threads(w->threads) * model_band_scratch(w->m);
    w->scratch = mem_new(scratch_bytes);
    w->piece = mem_new(piece_bytes);
    if (!w->scratch || !w->piece)
        return fail_memory(error, "a piece of a matrix", scratch_bytes + piece_bytes);
    for (size_t i = 0; i < w->count; i++) {
        if (w->plans[i].begins_layer)
            TRY(model_layer_plan_make(&w->layer, w->m, w->plans[i].layer, error));
        TRY(write_matrix(w, i, error));
    }
    return HEARTH_OK;
}

hearth_status model_file_write(const model_design *m, const model_file_options *options, pool *threads,
                               uint64_t *size_bytes, hearth_error *error)
{
    work w = {.m = m, .options = options, .threads = threads, .start = clock_seconds()};
    hearth_status status;
    TRY_OR(done, status, plan_tensors(&w, error));
    TRY_OR(done, status, open_file(&w, error));
    TRY_OR(done, status, write_tensors(&w, error));
    status = gguf_writer_commit(w.file, error);
    w.file = NULL;
    *size_bytes = w.size_bytes;
done:
    if (w.file)
        gguf_writer_discard(w.file);
    model_layer_plan_free(&w.layer);
    mem_free(w.scratch);
    mem_free(w.piece);
    arena_clear(&w.memory);
    return status;
}
