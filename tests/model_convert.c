/* model_convert - what is written can be read back and is what it should be.
 *
 * A converted folder is held against the golden GGUF beside it (another program's), quantised files
 * against those of llama.cpp's quantiser: same bytes where a format has one rule, no larger error where it has
 * a search. Every failure leaves no file behind. */
#include "model_build.h"

#include "file_build.h"

#include "../src/base/pool.h"
#include "../src/model/convert.h"

#include <math.h>

#define GOLDEN HEARTH_DATA "/golden/"
#define MODELS HEARTH_DATA "/models/"

static pool *threads;
static char folder[256], out_path[300];

/* What a conversion said while it worked. */
typedef struct log_book {
    convert_step steps[128];
    char names[128][64], reasons[128][64];
    size_t count, notes;
    char note[256];
    uint64_t done, total, calls, cancel_at;
} log_book;

static void see_step(void *user, const convert_step *step)
{
    log_book *l = user;
    assert_true(l->count < 128);
    l->steps[l->count] = *step;
    snprintf(l->names[l->count], 64, "%s", step->name);
    snprintf(l->reasons[l->count], 64, "%s", step->reason);
    l->count++;
}

static void see_note(void *user, const char *text)
{
    log_book *l = user;
    l->notes++;
    snprintf(l->note, sizeof l->note, "%s", text);
}

static bool see_progress(void *user, const char *what, uint64_t done, uint64_t total)
{
    log_book *l = user;
    assert_string_equal(what, "converting");
    assert_true(done > l->done && done <= total);
    l->done = done;
    l->total = total;
    return ++l->calls != l->cancel_at;
}

static hearth_status convert(const char *source, convert_options options, log_book *l, hearth_error *error)
{
    options.step = see_step;
    options.note = see_note;
    options.user = l;
    options.progress = (hearth_progress){see_progress, l};
    return convert_write(source, out_path, &options, threads, error);
}

static checkpoint *converted(const char *source, convert_options options, log_book *l)
{
    hearth_error error;
    hearth_model *m;
    checkpoint *c;
    memset(l, 0, sizeof *l);
    must(convert(source, options, l, &error), &error);
    assert_int_equal(l->done, l->total);
    must(hearth_model_open(&m, out_path, NULL, &error), &error);
    hearth_model_close(m);
    must(gguf_open(&c, out_path, &error), &error);
    assert_int_equal(c->tensor_count, l->count);
    return c;
}

static checkpoint *open_golden(const char *name)
{
    char path[512];
    checkpoint *c;
    hearth_error error;
    snprintf(path, sizeof path, GOLDEN "%s/model.gguf", name);
    must(gguf_open(&c, path, &error), &error);
    return c;
}

static float *decoded(const stored_tensor *t, size_t *count)
{
    *count = (size_t)(t->shape[0] * t->shape[1]);
    float *values = malloc(*count * sizeof *values);
    size_t row_bytes;
    assert_true(number_row_bytes(t->format, t->shape[0], &row_bytes));
    for (size_t row = 0; row < t->shape[1]; row++)
        number_formats[t->format].decode((const char *)t->data + row * row_bytes, values + row * t->shape[0],
                                         (size_t)t->shape[0]);
    return values;
}

/* |a - b| / |b| of two tensors of one shape. */
static double difference(const stored_tensor *a, const stored_tensor *b)
{
    size_t n, m;
    float *x = decoded(a, &n), *y = decoded(b, &m);
    double distance = 0, size = 0;
    assert_int_equal(n, m);
    for (size_t i = 0; i < n; i++) {
        distance += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
        size += (double)y[i] * (double)y[i];
    }
    free(x);
    free(y);
    return sqrt(distance / size);
}

/* ------------------------------------------------------------- conversion */

static bool expected_key(const char *key)
{
    return strncmp(key, "llama.", 6) == 0 || strcmp(key, "general.architecture") == 0 ||
           strcmp(key, "general.name") == 0;
}

static void expect_same_keys(const checkpoint *a, const checkpoint *b)
{
    size_t count_a = 0, count_b = 0;
    for (size_t i = 0; i < a->entry_count; i++)
        count_a += expected_key(a->entries[i].key);
    for (size_t i = 0; i < b->entry_count; i++) {
        const key_value *x = &b->entries[i], *y = checkpoint_find(a, x->key);
        if (!expected_key(x->key))
            continue;
        count_b++;
        if (!y || y->type != x->type) {
            fail_msg("%s", x->key);
            return;
        }
        if (x->type == VALUE_STRING)
            assert_true(span_equal(x->as.string, y->as.string));
        else
            assert_true(x->as.u == y->as.u);
    }
    assert_int_equal(count_a, count_b);
}

/* A folder in float32 is the golden file: same tensors, values and keys. */
static void test_folders(void **state)
{
    (void)state;
    static const char *const names[] = {"llama",
                                        "llama-gqa",
                                        "llama-relu",
                                        "llama-relu-gqa",
                                        "llama-fatrelu",
                                        "llama-rope-linear",
                                        "llama-rope-llama3",
                                        "llama-rope-yarn",
                                        "llama-256",
                                        "mistral"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        log_book l;
        char path[512];
        snprintf(path, sizeof path, GOLDEN "%s", names[i]);
        checkpoint *c = converted(path, (convert_options){.format = FORMAT_F32}, &l), *wanted = open_golden(names[i]);
        expect_same_keys(c, wanted);
        assert_int_equal(c->tensor_count, wanted->tensor_count);
        for (size_t k = 0; k < c->tensor_count; k++) {
            const stored_tensor *t = &c->tensors[k], *w = checkpoint_find_tensor(wanted, t->name);
            assert_non_null(w);
            assert_int_equal(t->format, FORMAT_F32);
            assert_int_equal(t->rank, w->rank);
            assert_memory_equal(t->shape, w->shape, sizeof t->shape);
            assert_true(difference(t, w) <= (strcmp(t->name, "rope_freqs.weight") ? 0 : 1e-7));
        }
        assert_int_equal(checkpoint_find(c, "general.file_type")->as.u, 0);
        assert_int_equal(checkpoint_find(c, "general.quantization_version")->as.u, 2);
        assert_int_equal(l.notes, 1);
        assert_string_equal(l.note, "the folder has no tokenizer.model, tokenizer.json, vocab.json, "
                                    "rwkv_vocab_v20230424.txt, or tiktoken.model");
        checkpoint_close(c);
        checkpoint_close(wanted);
    }
}

/* Without a format nothing is decoded: a file's bytes go through, a folder's do but for the order of rows. */
static void test_unchanged(void **state)
{
    (void)state;
    log_book l;
    checkpoint *c = converted(GOLDEN "llama-256-q4_k_m/model.gguf", (convert_options){.format = FORMAT_COUNT}, &l);
    checkpoint *wanted = open_golden("llama-256-q4_k_m");
    assert_int_equal(l.notes, 0);
    for (size_t i = 0; i < c->tensor_count; i++) {
        const stored_tensor *w = checkpoint_find_tensor(wanted, c->tensors[i].name);
        assert_int_equal(c->tensors[i].format, w->format);
        assert_int_equal(c->tensors[i].size_bytes, w->size_bytes);
        assert_memory_equal(c->tensors[i].data, w->data, w->size_bytes);
    }
    assert_int_equal(checkpoint_find(c, "general.file_type")->as.u, 15);
    checkpoint_close(c);
    checkpoint_close(wanted);

    c = converted(GOLDEN "llama-gqa", (convert_options){.format = FORMAT_COUNT}, &l);
    wanted = open_golden("llama-gqa");
    for (size_t i = 0; i < c->tensor_count; i++) {
        const stored_tensor *t = &c->tensors[i];
        assert_int_equal(t->format, t->rank > 1 ? FORMAT_BF16 : FORMAT_F32);
        assert_true(difference(t, checkpoint_find_tensor(wanted, t->name)) == 0);
        assert_string_equal(l.reasons[i], t->rank > 1 ? "as stored" : "norm");
    }
    assert_int_equal(checkpoint_find(c, "general.file_type")->as.u, 32);
    checkpoint_close(c);
    checkpoint_close(wanted);
}

static void test_tokenizer(void **state)
{
    (void)state;
    log_book l;
    checkpoint *c = converted(MODELS "stories260K", (convert_options){.format = FORMAT_F16}, &l);
    assert_int_equal(l.notes, 0);
    assert_int_equal(checkpoint_find(c, "tokenizer.ggml.tokens")->count, 512);
    assert_int_equal(checkpoint_find(c, "tokenizer.ggml.bos_token_id")->as.u, 1);
    assert_int_equal(checkpoint_find(c, "tokenizer.ggml.eos_token_id")->as.u, 2);
    assert_int_equal(checkpoint_find(c, "tokenizer.ggml.add_bos_token")->as.u, 1);
    assert_int_equal(checkpoint_find(c, "tokenizer.ggml.add_eos_token")->as.u, 0);
    checkpoint_close(c);
}

/* -------------------------------------------------------------- quantising */

/* llama.cpp quantised llama-256 with the same wishes, and some tensors more finely: those become overrides. */
static void quantize_like(const char *name, number_format format)
{
    log_book l;
    convert_override overrides[32];
    size_t count = 0;
    checkpoint *original = open_golden("llama-256"), *wanted = open_golden(name);
    for (size_t i = 0; i < wanted->tensor_count; i++) {
        const stored_tensor *w = &wanted->tensors[i];
        if (w->rank > 1 && w->format != format && strncmp(w->name, "blk.", 4) == 0)
            overrides[count++] = (convert_override){w->name, w->format};
    }
    convert_options o = {.format = format, .head_apart = true, .overrides = overrides, .override_count = count};
    checkpoint *c = converted(GOLDEN "llama-256", o, &l);
    for (size_t i = 0; i < c->tensor_count; i++) {
        const stored_tensor *t = &c->tensors[i], *w = checkpoint_find_tensor(wanted, t->name);
        const stored_tensor *from = checkpoint_find_tensor(original, t->name);
        assert_int_equal(t->format, w->format);
        if (t->format == FORMAT_F32 || t->format == FORMAT_Q4_0)
            assert_memory_equal(t->data, w->data, w->size_bytes);
        else
            assert_true(difference(t, from) <= 1.05 * difference(w, from));
        const char *reason = t->rank == 1                                ? "norm"
                             : strcmp(t->name, "token_embd.weight") == 0 ? "head"
                             : t->format != format                       ? "override"
                                                                         : "asked for";
        assert_string_equal(l.names[i], t->name);
        assert_string_equal(l.reasons[i], reason);
        assert_int_equal(l.steps[i].to_bytes, t->size_bytes);
    }
    assert_int_equal(checkpoint_find(c, "general.file_type")->as.u, number_formats[format].file_type);
    checkpoint_close(c);
    checkpoint_close(wanted);
    checkpoint_close(original);
}

static void test_quantize(void **state)
{
    (void)state;
    quantize_like("llama-256-q4_0", FORMAT_Q4_0);
    quantize_like("llama-256-q4_k_m", FORMAT_Q4_K);
}

/* The largest relative error of ggml's quantiser on the gaussian rows of golden/quants (the first four of eight);
 * float32 keeps everything, and so does bfloat16 here, since the goldens' weights are exact in it. */
static double known_error(number_format f)
{
    const char *name = number_formats[f].name;
    double most = 0;
    size_t i;
    json_t *index, *row;
    assert_int_equal(json_parse_file(&index, GOLDEN "quants/index.json", NULL), HEARTH_OK);
    json_array_foreach(json_object_get(index, "types"), i, row)
    {
        if (strcmp(json_string_value(json_object_get(row, "type")), name) != 0 || f == FORMAT_BF16)
            continue;
        for (size_t k = 0; k < 4; k++)
            most = fmax(most, json_number_value(json_array_get(json_object_get(row, "relative_rmse_rows"), k)));
    }
    json_decref(index);
    return most;
}

static void test_every_format(void **state)
{
    (void)state;
    checkpoint *original = open_golden("llama-256");
    for (int f = 0; f < FORMAT_COUNT; f++) {
        log_book l;
        if (!number_is_written((number_format)f)) {
            hearth_error error;
            assert_int_equal(
                convert(GOLDEN "llama-256/model.gguf", (convert_options){.format = (number_format)f}, &l, &error),
                HEARTH_UNSUPPORTED);
            assert_non_null(strstr(error.text, "can be read, not written"));
            assert_non_null(strstr(error.text, number_formats[f].name));
            continue;
        }
        double most = 1.05 * known_error((number_format)f);
        checkpoint *c = converted(GOLDEN "llama-256/model.gguf", (convert_options){.format = (number_format)f}, &l);
        for (size_t i = 0; i < c->tensor_count; i++) {
            const stored_tensor *t = &c->tensors[i];
            assert_int_equal(t->format, t->rank == 1 ? FORMAT_F32 : f);
            double d = difference(t, checkpoint_find_tensor(original, t->name));
            if (d > (t->rank == 1 ? 0 : most))
                fail_msg("%s in %s: error %g, known is %g", t->name, number_formats[f].name, d, most);
        }
        checkpoint_close(c);
    }
    checkpoint_close(original);
}

static const convert_step *find_step(const log_book *l, const char *name, const char **reason)
{
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->names[i], name) == 0) {
            *reason = l->reasons[i];
            return &l->steps[i];
        }
    fail_msg("no step %s", name);
    return NULL;
}

/* stories260K: rows of 64, and of 172 in down, which no block divides. */
static void test_fallback(void **state)
{
    (void)state;
    static const struct {
        number_format format;
        bool head_apart;
        const char *name;
        number_format to;
        const char *reason;
    } rows[] = {
        {FORMAT_Q4_K, false, "blk.2.ffn_down.weight", FORMAT_F16, "q4_K needs rows of a multiple of 256"},
        {FORMAT_Q4_K, false, "blk.2.ffn_up.weight", FORMAT_Q8_0, "q4_K needs rows of a multiple of 256"},
        {FORMAT_Q4_0, false, "blk.2.ffn_down.weight", FORMAT_F16, "q4_0 needs rows of a multiple of 32"},
        {FORMAT_Q4_0, true, "blk.2.ffn_up.weight", FORMAT_Q4_0, "asked for"},
        {FORMAT_Q4_0, true, "token_embd.weight", FORMAT_Q8_0, "q6_K needs rows of a multiple of 256"},
        {FORMAT_Q4_0, false, "token_embd.weight", FORMAT_Q4_0, "asked for"},
        {FORMAT_Q8_0, true, "token_embd.weight", FORMAT_Q8_0, "asked for"},
        {FORMAT_F16, true, "token_embd.weight", FORMAT_F16, "asked for"},
        {FORMAT_F16, true, "output_norm.weight", FORMAT_F32, "norm"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        log_book l;
        const char *reason = "";
        convert_options o = {.format = rows[i].format, .head_apart = rows[i].head_apart};
        checkpoint_close(converted(MODELS "stories260K", o, &l));
        assert_int_equal(find_step(&l, rows[i].name, &reason)->to, rows[i].to);
        assert_string_equal(reason, rows[i].reason);
    }
}

static void test_overrides(void **state)
{
    (void)state;
    static const convert_override overrides[] = {
        {"blk.*.ffn_*", FORMAT_Q8_0}, {"blk.1.ffn_up.weight", FORMAT_F16}, {"token_embd.weight", FORMAT_BF16}};
    static const convert_override typo[] = {{"blk.*.fnn_up.weight", FORMAT_Q8_0}};
    log_book l;
    const char *reason;
    convert_options o = {.format = FORMAT_Q4_0, .head_apart = true, .overrides = overrides, .override_count = 3};
    checkpoint_close(converted(GOLDEN "llama-256", o, &l));
    assert_int_equal(find_step(&l, "blk.0.ffn_up.weight", &reason)->to, FORMAT_Q8_0);
    assert_string_equal(reason, "override");
    assert_int_equal(find_step(&l, "blk.1.ffn_up.weight", &reason)->to, FORMAT_F16);
    assert_int_equal(find_step(&l, "blk.1.ffn_norm.weight", &reason)->to, FORMAT_F32);
    assert_int_equal(find_step(&l, "token_embd.weight", &reason)->to, FORMAT_BF16);
    assert_int_equal(find_step(&l, "blk.0.attn_q.weight", &reason)->to, FORMAT_Q4_0);
    hearth_error error;
    o.overrides = typo;
    o.override_count = 1;
    assert_int_equal(convert(GOLDEN "llama-256", o, &l, &error), HEARTH_INVALID);
    expect_text(&error, "override blk.*.fnn_up.weight: matches no tensor");
}

static void test_activation(void **state)
{
    (void)state;
    log_book l;
    hearth_error error;
    hearth_model *m;
    convert_options o = {.format = FORMAT_COUNT, .ffn_activation = "relu"};
    checkpoint_close(converted(GOLDEN "llama", o, &l));
    must(hearth_model_open(&m, out_path, NULL, &error), &error);
    assert_int_equal(m->layers[0].ffn.activation, FFN_RELU);
    hearth_model_close(m);
    o.ffn_activation = "softplus";
    assert_int_equal(convert(GOLDEN "llama", o, &l, &error), HEARTH_INVALID);
}

/* One thread and three write the same bytes. */
static void test_threads(void **state)
{
    (void)state;
    log_book l;
    size_t size[2];
    uint8_t *bytes[2];
    pool *all = threads;
    hearth_error error;
    for (int i = 0; i < 2; i++) {
        if (i == 1)
            must(pool_create(&threads, 1, &error), &error);
        checkpoint_close(converted(GOLDEN "llama-256", (convert_options){.format = FORMAT_Q4_K}, &l));
        bytes[i] = load_file(out_path, &size[i]);
    }
    pool_destroy(threads);
    threads = all;
    assert_int_equal(size[0], size[1]);
    assert_memory_equal(bytes[0], bytes[1], size[0]);
    free(bytes[0]);
    free(bytes[1]);
}

/* ----------------------------------------------------------------- failure */

static void test_cancel(void **state)
{
    (void)state;
    long live = mem_live();
    for (uint64_t at = 1; at < 20; at += 6) {
        log_book l = {.cancel_at = at};
        hearth_error error;
        unlink(out_path);
        assert_int_equal(convert(GOLDEN "llama", (convert_options){.format = FORMAT_Q8_0}, &l, &error),
                         HEARTH_CANCELLED);
        assert_int_equal(count_files(folder), 0);
        assert_int_equal(mem_live(), live);
    }
}

static void test_failures(void **state)
{
    (void)state;
    long live = mem_live();
    for (int memory = 0; memory < 2; memory++) {
        hearth_status status;
        long n = 0;
        do {
            log_book l = {0};
            hearth_error error = {0};
            unlink(out_path);
            (memory ? mem_fail_at : file_fail_at)(n++);
            status = convert(GOLDEN "llama-rope-llama3", (convert_options){.format = FORMAT_Q8_0}, &l, &error);
            mem_fail_at(-1);
            file_fail_at(-1);
            if (status != HEARTH_OK) {
                assert_int_equal(status, memory ? HEARTH_NO_MEMORY : HEARTH_IO);
                assert_true(error.text[0] != 0);
                assert_int_equal(count_files(folder), 0);
            }
            assert_int_equal(mem_live(), live);
            assert_true(n < 10000);
        } while (status != HEARTH_OK);
        assert_true(n > 3);
    }
}

/* The source is never written over, by whatever name it is called. */
static void test_same_file(void **state)
{
    (void)state;
    char source[300], link_path[300], path[400];
    size_t size;
    hearth_error error;
    uint8_t *data = load_file(GOLDEN "llama-gqa/model.gguf", &size);
    convert_options o = {.format = FORMAT_F16};
    unlink(out_path);
    snprintf(source, sizeof source, "%s/source.gguf", folder);
    snprintf(link_path, sizeof link_path, "%s/link.gguf", folder);
    write_file(source, data, size);
    free(data);
    assert_int_equal(symlink(source, link_path), 0);
    assert_int_equal(convert_write(source, source, &o, threads, &error), HEARTH_INVALID);
    expect_text(&error, "source.gguf: is what would be read: choose another name");
    assert_int_equal(convert_write(link_path, source, &o, threads, &error), HEARTH_INVALID);
    unlink(link_path);
    must(convert_write(source, out_path, &o, threads, &error), &error);
    unlink(source);

    static const char *const names[] = {"config.json", "model.safetensors"};
    for (int i = 0; i < 2; i++) { /* a folder: none of its files, but a GGUF beside them may be replaced */
        snprintf(path, sizeof path, GOLDEN "llama-gqa/%s", names[i]);
        data = load_file(path, &size);
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        write_file(path, data, size);
        free(data);
    }
    assert_int_equal(convert_write(folder, path, &o, threads, &error), HEARTH_INVALID);
    must(convert_write(folder, out_path, &o, threads, &error), &error);
    assert_int_equal(count_files(folder), 3);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
}

static int set_up(void **state)
{
    (void)state;
    make_folder(folder, sizeof folder);
    snprintf(out_path, sizeof out_path, "%s/out.gguf", folder);
    return pool_create(&threads, 3, NULL) != HEARTH_OK;
}

static int tear_down(void **state)
{
    (void)state;
    pool_destroy(threads);
    remove_folder(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folders),   cmocka_unit_test(test_unchanged),    cmocka_unit_test(test_tokenizer),
        cmocka_unit_test(test_quantize),  cmocka_unit_test(test_every_format), cmocka_unit_test(test_fallback),
        cmocka_unit_test(test_overrides), cmocka_unit_test(test_activation),   cmocka_unit_test(test_threads),
        cmocka_unit_test(test_cancel),    cmocka_unit_test(test_failures),     cmocka_unit_test(test_same_file),
    };
    return run_group(tests, set_up, tear_down);
}
