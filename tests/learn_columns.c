/* learn_columns.c - importance matrices of a corpus: their sums are those of what observers saw, under the names of the
 * model's tensors; in one go or in many, at any number of threads; and quantizing with one serves its purpose. Where
 * observers see nothing, engine_inputs.c has a forward pass to compare with. */
#include "../src/base/memory.h"
#include "../src/file/gguf.h"
#include "../src/file/importance.h"
#include "../src/learn/columns.h"
#include "../src/learn/profile.h"
#include "../src/model/convert.h"

#include "learn_watch.h"
#include "model_weigh.h"

#define RELU  HEARTH_DATA "/models/stories260K-relu"
#define SILU  HEARTH_DATA "/models/stories260K"
#define WHOLE GOLDEN "/llama-256/model.gguf"

static void check(hearth_status status, const hearth_error *error)
{
    if (status != HEARTH_OK)
        fail_msg("%s", error->text);
}

/* Adds up the inputs of a corpus. */
static input_sums add_up(const dense *d, const corpus *c)
{
    input_sums sums;
    profile p;
    hearth_error error = {0};
    check(inputs_create(&sums, d->model, &error), &error);
    check(profile_take(&p, d->engine, c, &(profile_options){.inputs = &sums}, &error), &error);
    profile_free(&p);
    return sums;
}

static void expect_equal_sums(const input_sums *a, const input_sums *b)
{
    assert_int_equal(a->block_bytes, b->block_bytes);
    assert_memory_equal(a->block, b->block, a->block_bytes);
}

/* ------------------------------------------------------------------ the sums */

/* What observers saw of a layer, squared and added in the same order, is the same bit by bit. */
static void check_layer(const watched *w, const input_sums *sums, size_t layer)
{
    const input_squares *network = &sums->layers[layer][INPUT_NETWORK], *down = &sums->layers[layer][INPUT_DOWN];
    assert_int_equal(network->columns, w->d);
    assert_int_equal(down->columns, w->f);
    for (size_t k = 0; k < w->d; k++) {
        double sum = 0;
        for (size_t t = 0; t < w->tokens; t++) {
            double x = (double)w->input[(layer * w->tokens + t) * w->d + k];
            sum += x * x;
        }
        assert_true(sum == network->sums[k]);
    }
    for (size_t n = 0; n < w->f; n++) {
        double sum = 0;
        for (size_t t = 0; t < w->tokens; t++) {
            double h = (double)w->activations[(layer * w->tokens + t) * w->f + n];
            sum += h * h;
        }
        assert_true(sum == down->sums[n]);
    }
}

static void sums_are_what_observers_see(void **state)
{
    (void)state;
    static const char *const paths[] = {RELU, SILU, GOLDEN "/bamboo"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        dense d = dense_open(paths[i], 2);
        corpus c = random_corpus(&d, 150, 40);
        watched w = watch(&d, &c);
        input_sums sums = add_up(&d, &c);
        for (uint32_t layer = 0; layer < w.layers; layer++) {
            check_layer(&w, &sums, layer);
            for (size_t k = 0; k < INPUT_PLACES; k++) {
                const input_squares *place = &sums.layers[layer][k];
                assert_true(place->columns > 0 ? place->rows[0] == 150 : !place->rows);
                assert_true((place->columns > 0) == (k == INPUT_ATTENTION || k == INPUT_ATTENTION_OUTPUT ||
                                                     k == INPUT_NETWORK || k == INPUT_DOWN));
            }
        }
        assert_true(sums.head.rows[0] == 150);
        inputs_free(&sums);
        watched_free(&w);
        corpus_free(&c);
        dense_close(&d);
    }
}

static void threads_change_nothing(void **state)
{
    (void)state;
    static const char *const paths[] = {SILU, GOLDEN "/mixtral/model.gguf"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        input_sums first = {0}, sums;
        for (unsigned threads = 1; threads <= 3; threads++) {
            dense d = dense_open(paths[i], threads);
            corpus c = random_corpus(&d, 300, 100);
            sums = add_up(&d, &c);
            if (threads == 1) {
                first = sums;
            } else {
                expect_equal_sums(&first, &sums);
                inputs_free(&sums);
            }
            corpus_free(&c);
            dense_close(&d);
        }
        inputs_free(&first);
    }
}

/* The router of a token, in double precision: adds 1 for every expert that is chosen. */
static void count_chosen(const model_layer *l, const float *x, double *rows)
{
    const router_shape *r = &l->ffn.router;
    double score[64];
    float row[256];
    for (uint32_t e = 0; e < r->expert_count; e++) {
        score[e] = 0;
        number_formats[l->router.format].decode(matrix_row(&l->router, e), row, l->router.columns);
        for (size_t k = 0; k < l->router.columns; k++)
            score[e] += (double)row[k] * (double)x[k];
    }
    for (uint32_t used = 0; used < r->used; used++) {
        uint32_t best = 0;
        for (uint32_t e = 1; e < r->expert_count; e++)
            best = score[e] > score[best] ? e : best;
        score[best] = -INFINITY;
        rows[best]++;
    }
}

/* The counts of experts are the choices of the router, for gate and up and for down. */
static void experts_count_their_tokens(void **state)
{
    (void)state;
    dense d = dense_open(GOLDEN "/mixtral/model.gguf", 2);
    corpus c = random_corpus(&d, 120, 31);
    watched w = watch(&d, &c);
    input_sums sums = add_up(&d, &c);
    for (uint32_t layer = 0; layer < w.layers; layer++) {
        const model_layer *l = &d.model->layers[layer];
        double rows[64] = {0};
        for (size_t t = 0; t < w.tokens; t++)
            count_chosen(l, w.input + (layer * w.tokens + t) * w.d, rows);
        assert_int_equal(sums.layers[layer][INPUT_NETWORK].matrices, l->ffn.router.expert_count);
        for (uint32_t e = 0; e < l->ffn.router.expert_count; e++) {
            assert_true(sums.layers[layer][INPUT_NETWORK].rows[e] == rows[e]);
            assert_true(sums.layers[layer][INPUT_DOWN].rows[e] == rows[e]);
        }
    }
    inputs_free(&sums);
    watched_free(&w);
    corpus_free(&c);
    dense_close(&d);
}

/* What makes queries of values of a norm has inputs whose squares, over those of the norm's weights, are as many as values; the groups
 * of heads read as many inputs of each token as there are groups. */
static void queries_and_groups_read_inputs_of_their_own(void **state)
{
    (void)state;
    dense d = dense_open(GOLDEN "/deepseek4/model.gguf", 2);
    corpus c = random_corpus(&d, 120, 31);
    input_sums sums = add_up(&d, &c);
    for (uint32_t layer = 0; layer < d.model->hyper.layer_count; layer++) {
        const model_layer *l = &d.model->layers[layer];
        const input_squares *queries = &sums.layers[layer][INPUT_QUERIES], *groups = &sums.layers[layer][INPUT_GROUPS];
        double squares = 0;
        assert_int_equal(queries->columns, l->attention.query_rank);
        for (uint32_t k = 0; k < queries->columns; k++)
            squares += queries->sums[k] / pow((double)l->query_in_norm.weight[k], 2);
        double want = 120.0 * queries->columns;
        assert_true(queries->rows[0] == 120 && squares > 0.999 * want && squares <= 1.0001 * want);
        assert_int_equal(groups->columns, read_width(&l->attention) / l->attention.output_groups);
        assert_true(groups->rows[0] == 120.0 * l->attention.output_groups);
    }
    inputs_free(&sums);
    corpus_free(&c);
    dense_close(&d);
}

/* ------------------------------------------------------------------ going on */

typedef struct stopper {
    int calls, stop_at;
} stopper;

static bool stop_after(void *user, const char *what, uint64_t done, uint64_t total)
{
    stopper *s = user;
    (void)what, (void)done, (void)total;
    return ++s->calls < s->stop_at;
}

static void interrupted_and_gone_on(void **state)
{
    (void)state;
    static const char *const paths[] = {RELU, SILU};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        dense d = dense_open(paths[i], 2);
        corpus c = random_corpus(&d, 400, 20);
        input_sums whole = add_up(&d, &c);
        char *folder = scratch_folder();
        hearth_error error = {0};
        hearth_status status;
        profile p;
        int runs = 0;
        check(profile_take(&p, d.engine, &c, &(profile_options){.folder = folder}, &error), &error);
        profile_free(&p);
        do {
            input_sums sums;
            stopper s = {0, 2 + runs * 5 % (i == 0 ? 20 : 150)};
            profile_options o = {.folder = folder, .inputs = &sums, .progress = {stop_after, &s}};
            check(inputs_create(&sums, d.model, &error), &error);
            status = profile_take(&p, d.engine, &c, &o, &error);
            if (runs == 0) /* counts without sums are another run's */
                assert_non_null(strstr(p.note, "of other options, or of another corpus and were set aside"));
            if (status == HEARTH_OK)
                expect_equal_sums(&whole, &sums);
            profile_free(&p);
            inputs_free(&sums);
            assert_true(++runs < 200);
        } while (status == HEARTH_CANCELLED);
        assert_int_equal(status, HEARTH_OK);
        assert_true(runs > 4);
        inputs_free(&whole);
        scratch_remove(folder);
        corpus_free(&c);
        dense_close(&d);
    }
}

/* ------------------------------------------------------------------ the file */

static void write_matrix(const char *path, const dense *d, const corpus *c, const input_sums *sums)
{
    hearth_error error = {0};
    columns_result result;
    const span names[] = {span_of("a.txt"), span_of("b.txt")};
    check(columns_write(&result, path, sums, d->model, c, names, 2, &error), &error);
    assert_true(result.tensors > 0 && result.unused == 0);
}

/* A mean square is the sum over the count, as float32. */
static void expect_means(const checkpoint *c, const char *name, const input_squares *sums)
{
    const stored_tensor *t = checkpoint_find_tensor(c, name);
    if (!t)
        fail_msg("%s is absent", name);
    assert_int_equal(t->shape[0], sums->columns);
    assert_int_equal(t->shape[1], sums->matrices);
    for (size_t i = 0; i < (size_t)sums->columns * sums->matrices; i++)
        assert_true(((const float *)t->data)[i] == (float)sums->sums[i] / (float)sums->rows[i / sums->columns]);
}

/* The names of the matrices of a layer in some families, and what they read; a name without "blk" is the model's. */
static const struct {
    const char *model;
    uint32_t layer;
    size_t tensors; /* of the whole file */
    struct {
        const char *name;
        input_place place;
    } names[8];
} cases[] = {
    {"llama",
     1,
     3 * 7 + 1,
     {{"blk.1.attn_q.weight", INPUT_ATTENTION},
      {"blk.1.attn_k.weight", INPUT_ATTENTION},
      {"blk.1.attn_v.weight", INPUT_ATTENTION},
      {"blk.1.attn_output.weight", INPUT_ATTENTION_OUTPUT},
      {"blk.1.ffn_gate.weight", INPUT_NETWORK},
      {"blk.1.ffn_up.weight", INPUT_NETWORK},
      {"blk.1.ffn_down.weight", INPUT_DOWN}}},
    {"phi3",
     2,
     3 * 4 + 1,
     {{"blk.2.attn_qkv.weight", INPUT_ATTENTION},
      {"blk.2.attn_output.weight", INPUT_ATTENTION_OUTPUT},
      {"blk.2.ffn_up.weight", INPUT_NETWORK},
      {"blk.2.ffn_down.weight", INPUT_DOWN}}},
    {"mixtral",
     0,
     2 * 7 + 1,
     {{"blk.0.attn_v.weight", INPUT_ATTENTION},
      {"blk.0.ffn_gate_exps.weight", INPUT_NETWORK},
      {"blk.0.ffn_up_exps.weight", INPUT_NETWORK},
      {"blk.0.ffn_down_exps.weight", INPUT_DOWN}}},
    {"glm4-moe",
     1,
     7 + 2 * 10 + 1,
     {{"blk.1.ffn_gate_exps.weight", INPUT_NETWORK},
      {"blk.1.ffn_down_exps.weight", INPUT_DOWN},
      {"blk.1.ffn_gate_shexp.weight", INPUT_SHARED},
      {"blk.1.ffn_up_shexp.weight", INPUT_SHARED},
      {"blk.1.ffn_down_shexp.weight", INPUT_SHARED_DOWN}}},
    {"afmoe",
     1,
     8 + 3 * 11 + 1,
     {{"blk.1.attn_gate.weight", INPUT_ATTENTION},
      {"blk.1.ffn_gate_exps.weight", INPUT_NETWORK},
      {"blk.1.ffn_up_shexp.weight", INPUT_SHARED}}},
    {"deepseek32",
     1,
     (7 + 3) + 2 * (7 + 6) + 1,
     {{"blk.1.attn_q_a.weight", INPUT_ATTENTION},
      {"blk.1.attn_q_b.weight", INPUT_QUERIES},
      {"blk.1.indexer.attn_q_b.weight", INPUT_QUERIES},
      {"blk.1.indexer.attn_k.weight", INPUT_ATTENTION}}},
    {"deepseek4", /* summaries of 4 positions in layers 1, 3 and 5, of 128 in 2 and 4 */
     3,
     6 * (5 + 3 + 3) + 5 * 2 + 3 * 4 + 1,
     {{"blk.3.attn_q_b.weight", INPUT_QUERIES},
      {"blk.3.indexer.attn_q_b.weight", INPUT_QUERIES},
      {"blk.3.attn_compressor_kv.weight", INPUT_ATTENTION},
      {"blk.3.attn_compressor_gate.weight", INPUT_ATTENTION},
      {"blk.3.indexer_compressor_kv.weight", INPUT_ATTENTION},
      {"blk.3.indexer_compressor_gate.weight", INPUT_ATTENTION},
      {"blk.3.attn_output_a.weight", INPUT_GROUPS},
      {"blk.3.attn_output_b.weight", INPUT_ATTENTION_OUTPUT}}},
    {"gpt2", 1, 2 * 4, {{"blk.1.attn_qkv.weight", INPUT_ATTENTION}, {"blk.1.ffn_down.weight", INPUT_DOWN}}},
};

static void expect_key(const char *path)
{
    checkpoint *c;
    hearth_error error = {0};
    const key_value *names;
    uint32_t number;
    span type;
    check(gguf_open(&c, path, &error), &error);
    check(checkpoint_get_string(c, "general.type", &type, NULL, &error), &error);
    assert_true(span_equal(type, span_of("imatrix")));
    check(checkpoint_get_array(c, "imatrix.datasets", VALUE_STRING, &names, NULL, &error), &error);
    assert_int_equal(names->count, 2);
    assert_true(span_equal(names->as.strings[1], span_of("b.txt")));
    check(checkpoint_get_u32(c, "imatrix.chunk_count", &number, NULL, &error), &error);
    assert_int_equal(number, 8);
    check(checkpoint_get_u32(c, "imatrix.chunk_size", &number, NULL, &error), &error);
    assert_int_equal(number, 50);
    checkpoint_close(c);
}

static void files_have_the_names_of_tensors(void **state)
{
    (void)state;
    char *folder = scratch_folder(), path[96], model[600];
    snprintf(path, sizeof path, "%s/imatrix.gguf", folder);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        checkpoint *read;
        hearth_error error = {0};
        dense d = dense_open(golden_path(model, sizeof model, cases[i].model, "model.gguf"), 2);
        corpus c = random_corpus(&d, 400, 50);
        input_sums sums = add_up(&d, &c);
        write_matrix(path, &d, &c, &sums);
        expect_key(path);
        check(importance_open(&read, path, &error), &error);
        assert_int_equal(read->tensor_count, cases[i].tensors);
        for (size_t k = 0; k < 8 && cases[i].names[k].name; k++)
            expect_means(read, cases[i].names[k].name, &sums.layers[cases[i].layer][cases[i].names[k].place]);
        if (d.model->head.data != d.model->embedding.data)
            expect_means(read, "output.weight", &sums.head);
        assert_null(checkpoint_find_tensor(read, "token_embd.weight"));
        checkpoint_close(read);
        inputs_free(&sums);
        corpus_free(&c);
        dense_close(&d);
    }
    scratch_remove(folder);
}

/* Returns |a - b| / |a|, with sums of magnitudes, over all columns of a place. */
static double relative_l1(const input_squares *a, const input_squares *b)
{
    double off = 0, all = 0;
    assert_int_equal(a->columns, b->columns);
    assert_int_equal(a->matrices, b->matrices);
    for (size_t i = 0; i < (size_t)a->columns * a->matrices; i++) {
        off += fabs(a->sums[i] - b->sums[i]);
        all += a->sums[i];
    }
    for (size_t i = 0; i < a->matrices; i++)
        assert_true(a->rows[i] == b->rows[i]);
    return off / all;
}

/* Packs a model, with its neurons in an order or, NULL, as they are, and compares the sums of both. They are added in another
 * order, after which keys and values may be rounded to the next float16 (2^-11 away), whose square is twice as far off. */
static void check_packed(const char *model, const uint32_t *const *order, const char *down)
{
    char *folder = scratch_folder(), path[96];
    snprintf(path, sizeof path, "%s/packed.gguf", folder);
    pool *threads;
    checkpoint *read;
    hearth_error error = {0};
    convert_options o = {.format = FORMAT_COUNT, .neuron_major = true, .down_format = FORMAT_F32, .order = order};
    check(pool_create(&threads, 2, &error), &error);
    check(convert_write(model, path, &o, threads, &error), &error);
    pool_destroy(threads);
    dense d = dense_open(model, 2), packed = dense_open(path, 2);
    corpus c = random_corpus(&d, 200, 50);
    input_sums a = add_up(&d, &c), b = add_up(&packed, &c);
    assert_int_equal(a.block_bytes, b.block_bytes);
    double worst = relative_l1(&a.head, &b.head);
    for (uint32_t layer = 0; layer < d.info.layer_count; layer++)
        for (size_t k = 0; k <= INPUT_DOWN; k++)
            worst = fmax(worst, relative_l1(&a.layers[layer][k], &b.layers[layer][k]));
    print_message("packed: %g off\n", worst);
    assert_true(worst < 0x1p-10);
    snprintf(path, sizeof path, "%s/imatrix.gguf", folder);
    write_matrix(path, &packed, &c, &b);
    check(importance_open(&read, path, &error), &error);
    expect_means(read, down, &b.layers[0][INPUT_DOWN]);
    checkpoint_close(read);
    inputs_free(&a);
    inputs_free(&b);
    corpus_free(&c);
    dense_close(&packed);
    dense_close(&d);
    scratch_remove(folder);
}

static void packed_models_give_the_same(void **state)
{
    (void)state;
    enum { MODEL_LAYERS = 5, MODEL_NEURONS = 172 };
    static uint32_t orders[MODEL_LAYERS][MODEL_NEURONS];
    const uint32_t *order[MODEL_LAYERS];
    for (uint32_t i = 0; i < MODEL_LAYERS; i++) {
        for (uint32_t n = 0; n < MODEL_NEURONS; n++)
            orders[i][n] = (n + 7 * (i + 1)) % MODEL_NEURONS;
        order[i] = orders[i];
    }
    check_packed(RELU, order, "blk.0.ffn_down.weight");
    check_packed(GOLDEN "/mixtral/model.gguf", NULL, "blk.0.ffn_down_exps.weight");
    check_packed(GOLDEN "/mixtral-drelu-predictor", NULL, "blk.0.ffn_down_exps.weight"); /* with masks */
}

/* What it is for: the error that counts falls. */
static void quantizing_with_it_errs_less(void **state)
{
    (void)state;
    char *folder = scratch_folder(), path[96], out[96];
    snprintf(path, sizeof path, "%s/imatrix.gguf", folder);
    snprintf(out, sizeof out, "%s/out.gguf", folder);
    dense d = dense_open(WHOLE, 2);
    corpus c = random_corpus(&d, 400, 50);
    input_sums sums = add_up(&d, &c);
    write_matrix(path, &d, &c, &sums);
    pool *threads;
    checkpoint *weights;
    hearth_error error = {0};
    check(pool_create(&threads, 2, &error), &error);
    check(importance_open(&weights, path, &error), &error);
    static const number_format formats[] = {FORMAT_Q4_0, FORMAT_Q4_1, FORMAT_Q5_0,  FORMAT_Q5_1,
                                            FORMAT_Q2_K, FORMAT_Q4_K, FORMAT_IQ4_XS};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        double plain = error_of_format(WHOLE, out, formats[i], NULL, weights, threads);
        double weighed = error_of_format(WHOLE, out, formats[i], path, weights, threads);
        print_message("%-7s weighed error %.3f of that without\n", number_formats[formats[i]].name, weighed / plain);
        assert_true(weighed < plain);
    }
    pool_destroy(threads);
    checkpoint_close(weights);
    inputs_free(&sums);
    corpus_free(&c);
    dense_close(&d);
    scratch_remove(folder);
}

/* ------------------------------------------------------------------ faults */

/* Adds up and writes; on failure the file is not there. */
static hearth_status attempt(const dense *d, const corpus *c, const char *folder, const char *path, hearth_error *error)
{
    input_sums sums = {0};
    profile p = {0};
    columns_result result;
    const span name = span_of("a.txt");
    hearth_status status = inputs_create(&sums, d->model, error);
    if (status == HEARTH_OK)
        status = profile_take(&p, d->engine, c, &(profile_options){.folder = folder, .inputs = &sums}, error);
    if (status == HEARTH_OK)
        status = columns_write(&result, path, &sums, d->model, c, &name, 1, error);
    profile_free(&p);
    inputs_free(&sums);
    return status;
}

static void everything_may_fail(void **state)
{
    (void)state;
    dense d = dense_open(RELU, 1);
    corpus c = random_corpus(&d, 40, 20);
    char *folder = scratch_folder(), path[96];
    snprintf(path, sizeof path, "%s/imatrix.gguf", folder);
    for (int kind = 0; kind < 2; kind++) {
        long live = mem_live(), n = 0;
        hearth_status status;
        do {
            hearth_error error = {0};
            unlink(path);
            profile_forget(folder);
            kind ? file_fail_at(n++) : mem_fail_at(n++);
            status = attempt(&d, &c, folder, path, &error);
            mem_fail_at(-1);
            file_fail_at(-1);
            assert_true(status == HEARTH_OK || status == (kind ? HEARTH_IO : HEARTH_NO_MEMORY));
            assert_int_equal(status == HEARTH_OK, error.text[0] == 0);
            assert_int_equal(status == HEARTH_OK, access(path, F_OK) == 0);
            assert_int_equal(mem_live(), live);
        } while (status != HEARTH_OK);
        print_message("%ld %s failed\n", n - 1, kind ? "file operations" : "allocations");
    }
    corpus_free(&c);
    dense_close(&d);
    scratch_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_what_observers_see),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(experts_count_their_tokens),
        cmocka_unit_test(interrupted_and_gone_on),
        cmocka_unit_test(files_have_the_names_of_tensors),
        cmocka_unit_test(packed_models_give_the_same),
        cmocka_unit_test(quantizing_with_it_errs_less),
        cmocka_unit_test(everything_may_fail),
        cmocka_unit_test(queries_and_groups_read_inputs_of_their_own),
    };
    return run_group(tests, NULL, NULL);
}
