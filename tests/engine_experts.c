/* engine_experts.c - the forms in which files hold experts. The golden models' experts are rewritten into another form:
 * the logits, and the GGUF that is made of the file, keep every byte. Half-rewritten files are refused by name. */
#include "../src/base/pool.h"
#include "../src/model/convert.h"

#include "file_build.h"
#include "golden.h"

#include <ctype.h>
#include <limits.h>
#include <sys/stat.h>

static const hearth_session_options all_rows = {.context = 64, .output_rows = 64, .kv = HEARTH_KV_F32};
static pool *threads;
static char scratch[256]; /* a folder of our own */

/* A golden folder with a tensor per expert. */
typedef struct folder_case {
    const char *model, *experts; /* where they are in a layer */
    const char *gate, *up, *down;
    const char *router, *stacked_router; /* names in both forms */
} folder_case;

static const folder_case folder_cases[] = {
    {"mixtral", "block_sparse_moe", "w1", "w3", "w2", "block_sparse_moe.gate.weight", "mlp.gate.weight"},
    {"qwen3-moe", "mlp", "gate_proj", "up_proj", "down_proj", "mlp.gate.weight", "mlp.gate.weight"},
    {"glm4-moe", "mlp", "gate_proj", "up_proj", "down_proj", "mlp.gate.weight", "mlp.gate.weight"},
};
#define FOLDER_CASES (sizeof folder_cases / sizeof *folder_cases)

/* ------------------------------------------------------------------- files */

/* Writes tensors whose data is in memory as model.safetensors. */
static void write_tensors(const char *folder, const checkpoint *c)
{
    char path[600];
    buffer file = {0};
    json_t *head = json_object();
    size_t at = 0;
    for (size_t i = 0; i < c->tensor_count; i++) {
        const stored_tensor *t = &c->tensors[i];
        char type[8] = "";
        for (size_t k = 0; number_formats[t->format].name[k]; k++)
            type[k] = (char)toupper((unsigned char)number_formats[t->format].name[k]);
        json_t *shape = json_array();
        for (uint32_t k = t->rank; k-- > 0;)
            json_array_append_new(shape, json_integer((json_int_t)t->shape[k]));
        json_int_t begin = (json_int_t)at, end = begin + (json_int_t)t->size_bytes;
        json_object_set_new(
            head, t->name,
            json_pack("{s:s, s:o, s:[I, I]}", "dtype", type, "shape", shape, "data_offsets", begin, end));
        at += t->size_bytes;
    }
    char *text = json_dumps(head, JSON_COMPACT);
    put_u64(&file, strlen(text));
    put(&file, text, strlen(text));
    for (size_t i = 0; i < c->tensor_count; i++)
        put(&file, c->tensors[i].data, c->tensors[i].size_bytes);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    write_file(path, file.data, file.size);
    buffer_free(&file);
    free(text);
    json_decref(head);
}

/* Reads the whole text and returns its logits, to be freed. */
static float *logits_of(const char *path, const golden *g)
{
    stack s;
    float *logits = malloc(g->total * g->vocabulary * sizeof *logits);
    stack_open(&s, path, 2, HEARTH_ACTIVATIONS_AUTO, all_rows);
    stack_feed(&s, 0, g->ids, g->total, logits);
    stack_close(&s);
    return logits;
}

/* Returns the bytes of the GGUF that is made of a file, to be freed. */
static uint8_t *converted(const char *path, bool neuron_major, size_t *size)
{
    char out[600];
    hearth_error error;
    const convert_options options = {.format = FORMAT_COUNT, .down_format = FORMAT_COUNT, .neuron_major = neuron_major};
    snprintf(out, sizeof out, "%s/converted.gguf", scratch);
    stack_check(convert_write(path, out, &options, threads, &error), &error);
    uint8_t *bytes = load_file(out, size);
    unlink(out);
    return bytes;
}

/* Two files are of the same model: not one byte differs. */
static void check_same(const char *original, const char *rewritten, const golden *g)
{
    float *want = logits_of(original, g), *got = logits_of(rewritten, g);
    assert_memory_equal(got, want, g->total * g->vocabulary * sizeof *want);
    free(want);
    free(got);
    for (int neuron_major = 0; neuron_major < 2; neuron_major++) {
        size_t want_size, got_size;
        uint8_t *want_bytes = converted(original, neuron_major, &want_size);
        uint8_t *got_bytes = converted(rewritten, neuron_major, &got_size);
        assert_int_equal(got_size, want_size);
        assert_memory_equal(got_bytes, want_bytes, want_size);
        free(want_bytes);
        free(got_bytes);
    }
}

/* A model that cannot be opened for this reason. */
static void check_refused(const char *path, const char *text)
{
    hearth_model *m;
    hearth_error error = {0};
    hearth_status status = hearth_model_open(&m, path, NULL, &error);
    check_refusal(text, status, &error, HEARTH_FORMAT, path, text);
}

/* ----------------------------------------------------------------- folders */

/* Adds a tensor in which each expert's matrices of these names lie one after another. */
static void add_stacked(checkpoint *to, const checkpoint *from, const folder_case *f, unsigned layer,
                        const char *const *names, const char *stacked)
{
    char name[128];
    hearth_error error;
    buffer all = {0};
    stored_tensor t = {0};
    size_t matrices = names[1] ? 2 : 1;
    for (unsigned expert = 0;; expert++) {
        const stored_tensor *one = NULL;
        for (size_t i = 0; i < matrices; i++) {
            snprintf(name, sizeof name, "model.layers.%u.%s.experts.%u.%s.weight", layer, f->experts, expert, names[i]);
            one = checkpoint_find_tensor(from, name);
            if (one)
                put(&all, one->data, one->size_bytes);
            t = one ? *one : t;
        }
        if (!one)
            break;
        t.shape[2] = expert + 1;
    }
    snprintf(name, sizeof name, "model.layers.%u.mlp.experts.%s", layer, stacked);
    t.name = name;
    t.rank = 3;
    t.shape[1] *= matrices;
    t.size_bytes = all.size;
    t.data = arena_new(&to->memory, all.size);
    assert_non_null(t.data);
    memcpy((void *)(uintptr_t)t.data, all.data, all.size);
    buffer_free(&all);
    stack_check(checkpoint_add_tensor(to, &t, &error), &error);
}

/* Adds a golden folder's tensor in the new form. Those of the other experts come with those of the first. */
static void add_rewritten(checkpoint *to, const checkpoint *from, const folder_case *f, const stored_tensor *t)
{
    const char *const gate_up[] = {f->gate, f->up}, *const down[] = {f->down, NULL};
    unsigned layer, expert;
    char format[96], which[32], name[128];
    hearth_error error;
    snprintf(format, sizeof format, "model.layers.%%u.%s.experts.%%u.%%31[^.]", f->experts);
    if (sscanf(t->name, format, &layer, &expert, which) == 3) {
        if (expert == 0 && strcmp(which, f->gate) == 0)
            add_stacked(to, from, f, layer, gate_up, "gate_up_proj");
        if (expert == 0 && strcmp(which, f->down) == 0)
            add_stacked(to, from, f, layer, down, "down_proj");
        return;
    }
    stored_tensor same = *t;
    const char *end = strstr(t->name, f->router);
    if (end) {
        snprintf(name, sizeof name, "%.*s%s", (int)(end - t->name), t->name, f->stacked_router);
        same.name = name;
    }
    stack_check(checkpoint_add_tensor(to, &same, &error), &error);
}

/* Writes the folder with layers below `layers` in the new form, without the tensor `without` (NULL: with all). Its last
 * name is that of the golden, which gives the model its name. */
static void write_folder(char *out, size_t size, const folder_case *f, unsigned layers, const char *without)
{
    char path[600];
    size_t config_size;
    hearth_error error;
    checkpoint *from, *to;
    golden_path(path, sizeof path, f->model, "");
    stack_check(checkpoint_create(&from, path, &error), &error);
    stack_check(checkpoint_create(&to, path, &error), &error);
    stack_check(weights_add_folder(from, path, &error), &error);
    for (size_t i = 0; i < from->tensor_count; i++) {
        const stored_tensor *t = &from->tensors[i];
        unsigned layer;
        if (sscanf(t->name, "model.layers.%u", &layer) == 1 && layer < layers)
            add_rewritten(to, from, f, t);
        else
            stack_check(checkpoint_add_tensor(to, t, &error), &error);
    }
    for (size_t i = 0; without && i < to->tensor_count; i++)
        if (strcmp(to->tensors[i].name, without) == 0)
            to->tensors[i] = to->tensors[--to->tensor_count];
    snprintf(out, size, "%s/%s", scratch, f->model);
    mkdir(out, 0700);
    write_tensors(out, to);
    uint8_t *config = load_file(golden_path(path, sizeof path, f->model, "config.json"), &config_size);
    snprintf(path, sizeof path, "%s/config.json", out);
    write_file(path, config, config_size);
    free(config);
    checkpoint_close(to);
    checkpoint_close(from);
}

/* As transformers 5 writes them: all experts in one tensor, gate above up. */
static void stacked_folders(void **state)
{
    (void)state;
    for (size_t i = 0; i < FOLDER_CASES; i++) {
        golden g;
        char path[400];
        golden_load(&g, folder_cases[i].model);
        write_folder(path, sizeof path, &folder_cases[i], UINT_MAX, NULL);
        check_same(g.folder, path, &g);
        remove_folder(path);
        golden_free(&g);
    }
}

static void refused_folders(void **state)
{
    (void)state;
    const folder_case *mixtral = &folder_cases[0];
    char path[400];
    write_folder(path, sizeof path, mixtral, 1, NULL);
    check_refused(path, "tensor model.layers.0.mlp.experts.");
    check_refused(path, "holds all experts, and model.layers.1.block_sparse_moe.experts.");
    check_refused(path, ".weight holds one of them");
    write_folder(path, sizeof path, mixtral, UINT_MAX, "model.layers.1.mlp.experts.gate_up_proj");
    check_refused(path, "tensor blk.1.ffn_gate_exps.weight: is missing");
    write_folder(path, sizeof path, mixtral, UINT_MAX, "model.layers.0.mlp.experts.down_proj");
    check_refused(path, "tensor blk.0.ffn_down_exps.weight: is missing");
    write_folder(path, sizeof path, mixtral, UINT_MAX, "model.layers.0.mlp.gate.weight");
    check_refused(path, "tensor model.layers.0.block_sparse_moe.gate.weight: is missing");
    write_folder(path, sizeof path, mixtral, 0, "model.layers.1.block_sparse_moe.experts.2.w3.weight");
    check_refused(path, "tensor blk.1.ffn_up_exps.weight: that of expert 2 is missing");
    remove_folder(path);
}

/* -------------------------------------------------------------------- GGUF */

/* Adds the parts of a stacked tensor as early files have them: blk.0.ffn_gate_exps.weight becomes blk.0.ffn_gate.0.weight
 * and so on. Other tensors are added as they are. */
static void add_single(checkpoint *to, const stored_tensor *t)
{
    hearth_error error;
    stored_tensor one = *t;
    unsigned layer = 0;
    char name[128], which[32] = "";
    sscanf(t->name, "blk.%u.%31[a-z_]", &layer, which);
    char *end = strstr(which, "_exps");
    if (!end) {
        stack_check(checkpoint_add_tensor(to, t, &error), &error);
        return;
    }
    *end = 0;
    one.name = name;
    one.rank = 2;
    one.shape[2] = 1;
    one.size_bytes = t->size_bytes / t->shape[2];
    for (unsigned expert = 0; expert < t->shape[2]; expert++) {
        one.data = (const char *)t->data + expert * one.size_bytes;
        snprintf(name, sizeof name, "blk.%u.%s.%u.weight", layer, which, expert);
        stack_check(checkpoint_add_tensor(to, &one, &error), &error);
    }
}

static stored_tensor *find(checkpoint *c, const char *name)
{
    for (size_t i = 0; i < c->tensor_count; i++)
        if (strcmp(c->tensors[i].name, name) == 0)
            return &c->tensors[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

/* Writes the tensors of `to` with the keys of `from`. */
static void write_gguf(const char *path, const checkpoint *from, const checkpoint *to)
{
    gguf_writer *w;
    hearth_error error;
    stack_check(
        gguf_writer_open(&w, path, false, from->entries, from->entry_count, to->tensors, to->tensor_count, &error),
        &error);
    for (size_t i = 0; i < to->tensor_count; i++)
        stack_check(gguf_writer_put(w, to->tensors[i].data, to->tensors[i].size_bytes, &error), &error);
    stack_check(gguf_writer_commit(w, &error), &error);
}

/* Opens a GGUF and makes one of the same tensors with one for each expert. */
static void rewrite_gguf(const char *path, checkpoint **from, checkpoint **to)
{
    hearth_error error;
    stack_check(gguf_open(from, path, &error), &error);
    stack_check(checkpoint_create(to, path, &error), &error);
    for (size_t i = 0; i < (*from)->tensor_count; i++)
        add_single(*to, &(*from)->tensors[i]);
    assert_true((*to)->tensor_count > (*from)->tensor_count);
}

/* As the first Mixtral files have them, in floats and in blocks. */
static void single_ggufs(void **state)
{
    (void)state;
    golden g;
    char original[600], quantised[400], path[400];
    hearth_error error;
    golden_load(&g, "mixtral");
    golden_path(original, sizeof original, "mixtral", "model.gguf");
    snprintf(quantised, sizeof quantised, "%s/q8_0.gguf", scratch);
    snprintf(path, sizeof path, "%s/single.gguf", scratch);
    const convert_options options = {.format = FORMAT_Q8_0, .down_format = FORMAT_COUNT};
    stack_check(convert_write(original, quantised, &options, threads, &error), &error);
    const char *const sources[] = {original, quantised};
    for (size_t i = 0; i < 2; i++) {
        checkpoint *from, *to;
        rewrite_gguf(sources[i], &from, &to);
        write_gguf(path, from, to);
        checkpoint_close(to);
        checkpoint_close(from);
        check_same(sources[i], path, &g);
    }
    unlink(path);
    unlink(quantised);
    golden_free(&g);
}

static void refused_ggufs(void **state)
{
    (void)state;
    static const struct {
        const char *tensor, *name; /* it gets this name, or is left out where that is empty */
        const char *text;
    } rows[] = {
        {"blk.1.ffn_up.2.weight", "", "tensor blk.1.ffn_up_exps.weight: that of expert 2 is missing"},
        {"blk.0.ffn_down.3.weight", "blk.0.ffn_down.8.weight", "tensor blk.0.ffn_down.8.weight: is of expert 8"},
        {"blk.0.ffn_down.3.weight", "blk.0.ffn_down.03.weight",
         "tensor blk.0.ffn_down_exps.weight: that of expert 3 is missing"},
        {"blk.0.ffn_gate_inp.weight", "blk.0.ffn_gate_exps.weight", "holds all experts, and blk.0.ffn_gate.0.weight"},
        {"output_norm.weight", "blk.7.ffn_up.1.weight", "tensor blk.7.ffn_up.1.weight: differs in shape"},
    };
    char original[600], path[400];
    golden_path(original, sizeof original, "mixtral", "model.gguf");
    snprintf(path, sizeof path, "%s/single.gguf", scratch);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        checkpoint *from, *to;
        rewrite_gguf(original, &from, &to);
        stored_tensor *t = find(to, rows[i].tensor);
        if (*rows[i].name)
            t->name = rows[i].name;
        else
            *t = to->tensors[--to->tensor_count];
        write_gguf(path, from, to);
        check_refused(path, rows[i].text);
        checkpoint_close(to);
        checkpoint_close(from);
    }
    unlink(path);
}

/* A file that tells of more experts than it has tensors is refused before memory is taken for them. */
static void refused_count(void **state)
{
    (void)state;
    char original[600], path[400];
    golden_path(original, sizeof original, "mixtral", "model.gguf");
    snprintf(path, sizeof path, "%s/many.gguf", scratch);
    checkpoint *from, *to;
    rewrite_gguf(original, &from, &to);
    assert_int_equal(checkpoint_set_u32(from, "llama.expert_count", 1024, NULL), HEARTH_OK);
    write_gguf(path, from, to);
    check_refused(path, "is of one of 1024 experts, the file has");
    checkpoint_close(to);
    checkpoint_close(from);
    unlink(path);
}

/* ------------------------------------------------------------------ memory */

/* Opens a file with the n-th allocation failing, for every n until all succeed. */
static void check_allocations(const char *path)
{
    long before = mem_live();
    for (long n = 0;; n++) {
        hearth_model *m;
        hearth_error error = {0};
        mem_fail_at(n);
        hearth_status status = hearth_model_open(&m, path, NULL, &error);
        mem_fail_at(-1);
        if (status == HEARTH_OK)
            hearth_model_close(m);
        assert_int_equal(mem_live(), before);
        if (status == HEARTH_OK)
            return;
        assert_int_equal(status, HEARTH_NO_MEMORY);
    }
}

static void failing_allocations(void **state)
{
    (void)state;
    char path[400];
    write_folder(path, sizeof path, &folder_cases[0], UINT_MAX, NULL);
    check_allocations(path);
    remove_folder(path);

    checkpoint *from, *to;
    char original[600];
    golden_path(original, sizeof original, "mixtral", "model.gguf");
    snprintf(path, sizeof path, "%s/single.gguf", scratch);
    rewrite_gguf(original, &from, &to);
    write_gguf(path, from, to);
    checkpoint_close(to);
    checkpoint_close(from);
    check_allocations(path);
    unlink(path);
}

static int begin(void **state)
{
    (void)state;
    make_folder(scratch, sizeof scratch);
    return pool_create(&threads, 2, NULL) != HEARTH_OK;
}

static int end(void **state)
{
    (void)state;
    pool_destroy(threads);
    return rmdir(scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(stacked_folders), cmocka_unit_test(refused_folders),
                                       cmocka_unit_test(single_ggufs),    cmocka_unit_test(refused_ggufs),
                                       cmocka_unit_test(refused_count),   cmocka_unit_test(failing_allocations)};
    return run_group(tests, begin, end);
}
