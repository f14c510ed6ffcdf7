/* model_pwri - PowerInfer's files, packed files and whatever spoils them.
 *
 * The goldens were written by another program from shapes that their README tells; llama/plain-f16.gguf is the model
 * of llama/f16.gguf once more, not transposed. */
#include "model_build.h"

#include "../src/file/gguf.h"

#include <math.h>

#define PWRI HEARTH_DATA "/golden/pwri/"

/* golden/pwri/README.md */
enum { D = 64, F = 1056, LAYERS = 2, HEADS = 4, KV = 32, VOCABULARY = 320, RANK = 64 };

static hearth_model *open_golden(const char *file)
{
    char path[512];
    hearth_error error;
    hearth_model *m;
    snprintf(path, sizeof path, PWRI "%s", file);
    must(hearth_model_open(&m, path, NULL, &error), &error);
    return m;
}

/* ----------------------------------------------------------------- goldens */

typedef struct golden_type {
    const char *name;
    number_format matrices, down_t, head;
} golden_type;

static const golden_type golden_types[] = {
    {"f32", FORMAT_F32, FORMAT_F16, FORMAT_F32},
    {"f16", FORMAT_F16, FORMAT_F16, FORMAT_F16},
    {"q4_0", FORMAT_Q4_0, FORMAT_Q4_0, FORMAT_Q8_0},
};

static double golden_threshold(const char *folder, const char *file)
{
    char path[512];
    json_t *cases;
    double threshold = NAN;
    snprintf(path, sizeof path, PWRI "%s/cases.json", folder);
    assert_int_equal(json_parse_file(&cases, path, NULL), HEARTH_OK);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i);
        if (strcmp(json_string_value(json_object_get(c, "file")), file) == 0)
            threshold = json_number_value(json_object_get(c, "threshold"));
    }
    json_decref(cases);
    assert_true(threshold == threshold);
    return threshold;
}

/* A matrix is the tensor of that name, where it lies. */
static void expect_matrix(const hearth_model *m, const matrix *got, const char *name, uint32_t layer, uint32_t rows,
                          uint32_t columns, number_format format)
{
    char full[64];
    snprintf(full, sizeof full, name, layer);
    const stored_tensor *t = checkpoint_find_tensor(m->source, full);
    assert_non_null(t);
    assert_ptr_equal(got->data, t->data);
    assert_int_equal(got->rows, rows);
    assert_int_equal(got->columns, columns);
    assert_int_equal(got->format, format);
    assert_int_equal(got->row_bytes * rows, t->size_bytes);
}

static void expect_layer(const hearth_model *m, uint32_t i, const golden_type *type)
{
    const model_layer *l = &m->layers[i];
    expect_matrix(m, &l->q, "blk.%u.attn_q.weight", i, D, D, type->matrices);
    expect_matrix(m, &l->k, "blk.%u.attn_k.weight", i, KV, D, type->matrices);
    expect_matrix(m, &l->gate, "blk.%u.ffn_gate.weight", i, F, D, type->matrices);
    expect_matrix(m, &l->up, "blk.%u.ffn_up.weight", i, F, D, type->matrices);
    expect_matrix(m, &l->down_t, "blk.%u.ffn_down_t.weight", i, F, D, type->down_t);
    expect_matrix(m, &l->fc1, "blk.%u.fc1.weight", i, RANK, D, type->matrices);
    expect_matrix(m, &l->fc2, "blk.%u.fc2.weight", i, F, RANK, type->matrices);
    assert_null(l->down.data);
    assert_null(l->order);
    assert_null(l->gate_bias);
    assert_null(l->up_bias);
    assert_null(l->down_bias);
}

static void expect_golden(const char *folder, ffn_gating gating, const golden_type *type)
{
    char file[64], path[96];
    snprintf(file, sizeof file, "%s.gguf", type->name);
    snprintf(path, sizeof path, "%s/%s", folder, file);
    hearth_model *m = open_golden(path);
    hearth_model_info info;
    hearth_model_describe(m, &info);
    assert_string_equal(info.family, folder);
    assert_string_equal(info.activation, "relu");
    assert_true(info.powerinfer && info.neuron_major && info.predictors);
    assert_false(m->requantised);
    assert_true((double)info.predictor_threshold == golden_threshold(folder, file));
    assert_int_equal(m->layers[0].ffn.gating, gating);
    assert_int_equal(info.layer_count, LAYERS);
    assert_int_equal(info.embedding_length, D);
    assert_int_equal(info.neuron_count, F);
    assert_int_equal(info.head_count, HEADS);
    assert_int_equal(info.kv_head_count * info.head_length, KV);
    assert_int_equal(info.vocabulary_size, VOCABULARY);
    assert_int_equal(info.parameter_count,
                     LAYERS * (2 * D + 2 * D * D + 2 * KV * D + 3 * D * F) + D + 2 * D * VOCABULARY);
    uint64_t bytes = 0;
    for (size_t i = 0; i < m->source->tensor_count; i++)
        bytes += m->source->tensors[i].size_bytes;
    assert_int_equal(info.weight_bytes, bytes);
    for (uint32_t i = 0; i < LAYERS; i++)
        expect_layer(m, i, type);
    expect_matrix(m, &m->head, "output.weight", 0, VOCABULARY, D, type->head);
    hearth_model_close(m);
}

static void test_goldens(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof golden_types / sizeof *golden_types; i++) {
        expect_golden("llama", FFN_GATED, &golden_types[i]);
        expect_golden("bamboo", FFN_GATED_BOTH, &golden_types[i]);
    }
}

/* down_t is what its name says. */
static void test_transposed(void **state)
{
    (void)state;
    hearth_model *pwri = open_golden("llama/f16.gguf"), *plain = open_golden("llama/plain-f16.gguf");
    assert_false(plain->powerinfer || plain->neuron_major || plain->predictors);
    assert_int_equal(plain->parameter_count, pwri->parameter_count);
    for (uint32_t i = 0; i < LAYERS; i++) {
        const model_layer *a = &pwri->layers[i], *b = &plain->layers[i];
        expect_same_matrix(&a->gate, &b->gate);
        expect_same_matrix(&a->up, &b->up);
        assert_int_equal(b->down.rows, D);
        assert_int_equal(b->down.columns, F);
        for (uint32_t n = 0; n < F; n++)
            for (uint32_t k = 0; k < D; k++)
                assert_memory_equal((const uint16_t *)matrix_row(&a->down_t, n) + k,
                                    (const uint16_t *)matrix_row(&b->down, k) + n, sizeof(uint16_t));
    }
    hearth_model_close(pwri);
    hearth_model_close(plain);
}

/* OPT's table of positions begins with two rows that no position uses, and there is no epsilon; falcon joins q, k and v. */
static void test_other_families(void **state)
{
    (void)state;
    hearth_model *opt = open_golden("opt/f16.gguf"), *falcon = open_golden("falcon/f16.gguf");
    assert_int_equal(opt->hyper.position_offset, 2);
    assert_int_equal(opt->hyper.context_length, 2048);
    assert_int_equal(opt->positions.rows, 2050);
    assert_true(opt->hyper.norm_epsilon == 0);
    assert_true(falcon->hyper.norm_epsilon == 1e-5f);
    for (uint32_t i = 0; i < LAYERS; i++) {
        const model_layer *o = &opt->layers[i], *f = &falcon->layers[i];
        assert_true(o->ffn.activation == FFN_RELU && f->ffn.activation == FFN_RELU);
        assert_true(o->ffn.gating == FFN_PLAIN && f->ffn.gating == FFN_PLAIN);
        assert_true(o->up_bias && o->down_bias && o->q_bias && o->attention_output_bias && !f->up_bias);
        assert_true(f->wiring == WIRING_PARALLEL && f->attention_norm.weight == f->ffn_norm.weight);
        assert_int_equal(f->q.rows + 2 * f->k.rows, f->qkv.rows);
        assert_ptr_equal(f->v.data, (const char *)f->k.data + f->k.rows * f->k.row_bytes);
    }
    hearth_model_close(opt);
    hearth_model_close(falcon);
}

/* -------------------------------------------------------------- tiny models */

enum { TINY_RANK = 5 };

/* A tiny model in the neuron-major layout is tiny_tensors with some of these in place of down. */
typedef enum extra { DOWN_T = 1, FC = 2, ORDER = 4, MAGIC = 8 } extra;

static const struct {
    extra set;
    tiny_tensor tensor;
} extra_tensors[] = {
    {DOWN_T, {"blk.%d.ffn_down_t.weight", NULL, 2, TINY_D, TINY_F}},
    {FC, {"blk.%d.fc1.weight", NULL, 2, TINY_D, TINY_RANK}},
    {FC, {"blk.%d.fc2.weight", NULL, 2, TINY_RANK, TINY_F}},
};

static int32_t tiny_order[TINY_LAYERS][TINY_F];

/* What a test puts in the place of a tensor, or beside them. format FORMAT_STORED_COUNT: nothing. */
typedef struct change {
    const char *name;
    uint32_t rank;
    number_format format;
    uint64_t columns, rows;
    const void *data;
} change;

static void add(checkpoint *c, const char *pattern, int layer, const stored_tensor *like, const change *changes)
{
    char name[128];
    hearth_error error;
    snprintf(name, sizeof name, pattern, layer);
    for (; changes && changes->name; changes++)
        if (strcmp(name, changes->name) == 0)
            return;
    stored_tensor t = *like;
    t.name = name;
    size_t row_bytes;
    if (number_row_bytes(t.format, t.shape[0], &row_bytes))
        t.size_bytes = row_bytes * t.shape[1];
    must(checkpoint_add_tensor(c, &t, &error), &error);
}

static stored_tensor tensor_of(const tiny_tensor *w, const void *data)
{
    return (stored_tensor){.format = FORMAT_F32, .rank = w->rank, .shape = {w->columns, w->rows, 1, 1}, .data = data};
}

static checkpoint *tiny_pwri(unsigned extras, const change *changes)
{
    checkpoint *c;
    hearth_error error;
    must(checkpoint_create(&c, "tiny", &error), &error);
    c->powerinfer = (extras & MAGIC) != 0;
    tiny_keys(c);
    for (size_t i = 0; i < TINY_TENSORS; i++) {
        const tiny_tensor *w = &tiny_tensors[i];
        stored_tensor t = tensor_of(w, tiny_values + 100 * i);
        bool layers = strchr(w->name, '%'), down = strcmp(w->name, "blk.%d.ffn_down.weight") == 0;
        for (int layer = 0; !(down && (extras & DOWN_T)) && layer < (layers ? TINY_LAYERS : 1); layer++)
            add(c, w->name, layer, &t, changes);
    }
    for (int layer = 0; layer < TINY_LAYERS; layer++) {
        for (size_t i = 0; i < sizeof extra_tensors / sizeof *extra_tensors; i++) {
            const tiny_tensor *w = &extra_tensors[i].tensor;
            stored_tensor t = tensor_of(w, tiny_values + 100 * i);
            if (extras & extra_tensors[i].set)
                add(c, w->name, layer, &t, changes);
        }
        for (int32_t n = 0; n < TINY_F; n++) /* 5 and 24 have no common divisor */
            tiny_order[layer][n] = (n * 5 + layer) % TINY_F;
        stored_tensor order = {.format = FORMAT_I32, .rank = 1, .shape = {TINY_F, 1, 1, 1}, .data = tiny_order[layer]};
        if (extras & ORDER)
            add(c, "blk.%d.ffn_order", layer, &order, changes);
    }
    for (const change *k = changes; k && k->name; k++) {
        stored_tensor t = {.format = k->format,
                           .rank = k->rank,
                           .shape = {k->columns, k->rows, 1, 1},
                           .data = k->data ? k->data : tiny_values};
        if (k->format != FORMAT_STORED_COUNT)
            add(c, k->name, 0, &t, NULL);
    }
    return c;
}

static hearth_model *bind_tiny(unsigned extras, const change *changes)
{
    hearth_error error;
    hearth_model *m;
    must(model_bind(&m, tiny_pwri(extras, changes), NULL, &error), &error);
    return m;
}

/* Every mixture of layout, predictors and order that there may be, in plain GGUF. */
static void test_plain(void **state)
{
    (void)state;
    static const unsigned mixtures[] = {0, FC, DOWN_T, DOWN_T | FC, DOWN_T | ORDER, DOWN_T | FC | ORDER};
    uint64_t parameters = 0;
    for (size_t i = 0; i < sizeof mixtures / sizeof *mixtures; i++) {
        hearth_model *m = bind_tiny(mixtures[i], NULL);
        bool down_t = mixtures[i] & DOWN_T, fc = mixtures[i] & FC, order = mixtures[i] & ORDER;
        assert_false(m->powerinfer);
        assert_int_equal(m->neuron_major, down_t);
        assert_int_equal(m->predictors, fc);
        assert_int_equal(m->layers[0].ffn.activation, FFN_SILU);
        for (int layer = 0; layer < TINY_LAYERS; layer++) {
            const model_layer *l = &m->layers[layer];
            assert_int_equal(l->down_t.rows, down_t ? TINY_F : 0);
            assert_int_equal(l->down.rows, down_t ? 0 : TINY_D);
            assert_int_equal(l->fc1.rows, fc ? TINY_RANK : 0);
            assert_int_equal(l->fc2.columns, fc ? TINY_RANK : 0);
            assert_int_equal(l->order != NULL, order);
            if (order)
                assert_memory_equal(l->order, tiny_order[layer], sizeof tiny_order[layer]);
        }
        parameters = i ? parameters : m->parameter_count;
        assert_int_equal(m->parameter_count, parameters); /* neither predictors nor the order are any */
        hearth_model_close(m);
    }
}

/* Ranks differ from layer to layer; the two tensors of a layer agree. */
static void test_ranks(void **state)
{
    (void)state;
    const change changes[] = {{"blk.1.fc1.weight", 2, FORMAT_F32, TINY_D, 3, NULL},
                              {"blk.1.fc2.weight", 2, FORMAT_F16, 3, TINY_F, NULL},
                              {0}};
    hearth_model *m = bind_tiny(DOWN_T | FC | MAGIC, changes);
    assert_int_equal(m->layers[0].fc1.rows, TINY_RANK);
    assert_int_equal(m->layers[0].fc2.columns, TINY_RANK);
    assert_int_equal(m->layers[1].fc1.rows, 3);
    assert_int_equal(m->layers[1].fc2.columns, 3);
    assert_int_equal(m->layers[1].fc2.format, FORMAT_F16);
    hearth_model_close(m);
}

/* Without a key the magic alone says ReLU; the key wins over the magic, the caller over both. */
static void test_magic(void **state)
{
    (void)state;
    hearth_error error;
    hearth_model *m = bind_tiny(DOWN_T | FC | MAGIC, NULL);
    assert_true(m->powerinfer);
    assert_int_equal(m->layers[0].ffn.activation, FFN_RELU);
    assert_true(m->hyper.predictor_threshold == 0);
    hearth_model_close(m);

    checkpoint *c = tiny_pwri(DOWN_T | FC | MAGIC, NULL);
    must(checkpoint_set_string(c, "llama.hidden_activation", span_of("silu"), &error), &error);
    must(checkpoint_set_f32(c, "powerinfer.sparse_threshold", -1e30f, &error), &error);
    must(checkpoint_set_u32(c, "hearth.pack.version", 1, &error), &error);
    must(checkpoint_set_bool(c, "hearth.pack.requantised", true, &error), &error);
    must(model_bind(&m, c, NULL, &error), &error);
    assert_int_equal(m->layers[0].ffn.activation, FFN_SILU);
    assert_true(m->hyper.predictor_threshold == -1e30f);
    assert_true(m->requantised);
    hearth_model_close(m);

    c = tiny_pwri(DOWN_T | FC | MAGIC, NULL);
    must(checkpoint_set_string(c, "llama.hidden_activation", span_of("relu"), &error), &error);
    hearth_model_options options = {.ffn_activation = "silu"};
    must(model_bind(&m, c, &options, &error), &error);
    assert_int_equal(m->layers[0].ffn.activation, FFN_SILU);
    hearth_model_close(m);
}

/* The bias of down has two names, and one value. */
static void test_down_bias(void **state)
{
    (void)state;
    static const char *const names[] = {"blk.%d.ffn_down.bias", "blk.%d.ffn_down_t.bias"};
    for (size_t i = 0; i < 2; i++) {
        hearth_error error;
        hearth_model *m;
        checkpoint *c = tiny_pwri(DOWN_T, NULL);
        stored_tensor t = {.format = FORMAT_F32, .rank = 1, .shape = {TINY_D, 1, 1, 1}, .data = tiny_values + 7};
        for (int layer = 0; layer < TINY_LAYERS; layer++)
            add(c, names[i], layer, &t, NULL);
        must(model_bind(&m, c, NULL, &error), &error);
        assert_ptr_equal(m->layers[1].down_bias, tiny_values + 7);
        hearth_model_close(m);
    }
}

/* ----------------------------------------------------------------- hostile */

#define NOTHING               0, FORMAT_STORED_COUNT, 0, 0, NULL
#define FLOATS(columns, rows) 2, FORMAT_F32, columns, rows, NULL
#define VECTOR(columns)       1, FORMAT_F32, columns, 1, NULL

static const int32_t twice[TINY_F] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 1};
static const int32_t above[TINY_F] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12,
                                      13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24};
static const int32_t below[TINY_F] = {-1, 0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                      11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22};

static const struct {
    unsigned extras;
    change changes[3]; /* ends with a name that is NULL, or at the third */
    const char *text;
} hostile[] = {
    /* shapes */
    {DOWN_T,
     {{"blk.1.ffn_down_t.weight", FLOATS(TINY_F, TINY_D)}},
     "blk.1.ffn_down_t.weight: is 24 x 16, expected 16 x 24"},
    {DOWN_T, {{"blk.0.ffn_down_t.weight", VECTOR(TINY_F)}}, "blk.0.ffn_down_t.weight: is 24, expected 16 x 24"},
    {FC, {{"blk.0.fc1.weight", FLOATS(TINY_D + 1, TINY_RANK)}}, "blk.0.fc1.weight: is 17 x 5, expected 16 x any"},
    {FC, {{"blk.0.fc1.weight", VECTOR(TINY_D)}}, "blk.0.fc1.weight: is 16, expected 16 x any"},
    {FC, {{"blk.1.fc2.weight", FLOATS(TINY_RANK, TINY_F - 1)}}, "blk.1.fc2.weight: is 5 x 23, expected 5 x 24"},
    {FC, {{"blk.1.fc2.weight", FLOATS(TINY_RANK + 1, TINY_F)}}, "blk.1.fc2.weight: is 6 x 24, expected 5 x 24"},
    {FC, {{"blk.1.fc1.weight", FLOATS(TINY_D, 4)}}, "blk.1.fc2.weight: is 5 x 24, expected 4 x 24"},
    {FC, {{"blk.0.fc1.weight", FLOATS(TINY_D, 0)}}, "blk.0.fc1.weight: has a rank of 0, expected 1 to 65536"},
    {FC, {{"blk.0.fc1.weight", FLOATS(TINY_D, 65537)}}, "blk.0.fc1.weight: has a rank of 65537, expected 1 to 65536"},
    {FC, {{"blk.0.fc1.weight", FLOATS(TINY_D, 1ull << 32 | 5)}}, "blk.0.fc1.weight: has a rank of 4294967301"},
    {FC,
     {{"blk.0.fc1.weight", FLOATS(TINY_D, 48)}, {"blk.0.fc2.weight", 2, FORMAT_Q4_0, 48, TINY_F, NULL}},
     "blk.0.fc2.weight: has rows that are not a whole number of blocks"},
    {DOWN_T,
     {{"blk.0.ffn_down_t.weight", 2, FORMAT_Q8_0, TINY_D, TINY_F, NULL}},
     "blk.0.ffn_down_t.weight: has rows that are not a whole number of blocks"},
    /* what is missing, and what is too much */
    {DOWN_T | FC | MAGIC, {{"blk.1.fc2.weight", NOTHING}}, "tiny: tensor blk.1.fc2.weight: is missing"},
    {DOWN_T | FC | MAGIC, {{"blk.0.fc1.weight", NOTHING}}, "tiny: tensor blk.0.fc1.weight: is missing"},
    {DOWN_T | FC | MAGIC, {{"blk.0.ffn_down_t.weight", NOTHING}}, "blk.0.ffn_down_t.weight: is missing"},
    {DOWN_T | MAGIC, {{0}}, "tensor blk.0.fc1.weight: is missing"},
    {FC | MAGIC, {{0}}, "blk.0.ffn_down.weight: is of the stock layout, the model is neuron-major"},
    {FC, {{"blk.0.fc1.weight", NOTHING}}, "tensor blk.0.fc1.weight: is missing"},
    {FC, {{"blk.1.fc1.weight", NOTHING}}, "tensor blk.1.fc1.weight: is missing"},
    {0,
     {{"blk.1.fc2.weight", FLOATS(TINY_RANK, TINY_F)}},
     "blk.1.fc2.weight: is part of a predictor, and layer 0 has none"},
    {0, {{"blk.0.ffn_down.weight", NOTHING}}, "tensor blk.0.ffn_down.weight: is missing"},
    {0,
     {{"blk.0.ffn_down_t.weight", FLOATS(TINY_D, TINY_F)}},
     "blk.0.ffn_down.weight: is of the stock layout, the model is neuron-major"},
    {0,
     {{"blk.1.ffn_down_t.weight", FLOATS(TINY_D, TINY_F)}, {"blk.1.ffn_down.weight", NOTHING}},
     "blk.1.ffn_down.weight: is missing"},
    {DOWN_T,
     {{"blk.1.ffn_down.weight", FLOATS(TINY_F, TINY_D)}, {"blk.1.ffn_down_t.weight", NOTHING}},
     "blk.1.ffn_down.weight: is of the stock layout"},
    {0,
     {{"blk.1.ffn_down_t.weight", FLOATS(TINY_D, TINY_F)}},
     "blk.1.ffn_down_t.weight: is of the neuron-major layout, the model is of the stock one"},
    {0, {{"blk.0.ffn_down_t.bias", VECTOR(TINY_D)}}, "blk.0.ffn_down_t.bias: is of the neuron-major layout"},
    {DOWN_T,
     {{"blk.0.ffn_down.bias", VECTOR(TINY_D)}, {"blk.0.ffn_down_t.bias", VECTOR(TINY_D)}},
     "blk.0.ffn_down_t.bias: is there under another name too"},
    {DOWN_T | FC,
     {{"blk.2.fc1.weight", FLOATS(TINY_D, TINY_RANK)}},
     "blk.2.fc1.weight: is not part of a model of 2 layers"},
    {DOWN_T | FC, {{"blk.0.fc1.bias", VECTOR(TINY_RANK)}}, "blk.0.fc1.bias: is not part of a llama model"},
    /* order and integers */
    {ORDER, {{0}}, "blk.0.ffn_order: is of the neuron-major layout"},
    {DOWN_T | ORDER, {{"blk.1.ffn_order", NOTHING}}, "blk.1.ffn_order: is missing, and layer 0 has one"},
    {DOWN_T | ORDER, {{"blk.0.ffn_order", NOTHING}}, "blk.1.ffn_order: is there, and layer 0 has none"},
    {DOWN_T | ORDER,
     {{"blk.0.ffn_order", VECTOR(TINY_F)}},
     "blk.0.ffn_order: is f32, numbers of neurons or experts must be i32"},
    {DOWN_T | ORDER, {{"blk.0.ffn_order", 1, FORMAT_I32, TINY_D, 1, NULL}}, "blk.0.ffn_order: is 16, expected 24"},
    {DOWN_T | ORDER,
     {{"blk.1.ffn_order", 1, FORMAT_I32, TINY_F, 1, twice}},
     "blk.1.ffn_order: does not hold the number of every neuron once"},
    {DOWN_T | ORDER, {{"blk.1.ffn_order", 1, FORMAT_I32, TINY_F, 1, above}}, "blk.1.ffn_order: does not hold"},
    {DOWN_T | ORDER, {{"blk.0.ffn_order", 1, FORMAT_I32, TINY_F, 1, below}}, "blk.0.ffn_order: does not hold"},
    {FC, {{"blk.0.fc2.weight", 2, FORMAT_I32, TINY_RANK, TINY_F, NULL}}, "blk.0.fc2.weight: is i32, weights must be"},
    {DOWN_T,
     {{"blk.0.ffn_down_t.weight", 2, FORMAT_I32, TINY_D, TINY_F, NULL}},
     "blk.0.ffn_down_t.weight: is i32, weights must be"},
};

static void test_hostile(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        long live = mem_live();
        hearth_error error = {0};
        hearth_model *m;
        hearth_status status = model_bind(&m, tiny_pwri(hostile[i].extras, hostile[i].changes), NULL, &error);
        if (status != HEARTH_FORMAT || !strstr(error.text, hostile[i].text))
            fail_msg("case %zu: status %d: \"%s\" in \"%s\"", i, (int)status, hostile[i].text, error.text);
        assert_int_equal(mem_live(), live);
    }
}

static void test_no_memory(void **state)
{
    (void)state;
    checkpoint *c = tiny_pwri(DOWN_T | FC | ORDER | MAGIC, NULL);
    long live = mem_live(), n = 0;
    hearth_status status;
    do {
        hearth_error error = {0};
        hearth_model *m;
        mem_fail_at(n++);
        status = model_check(&m, c, NULL, &error);
        mem_fail_at(-1);
        if (status == HEARTH_OK)
            hearth_model_close(m);
        else if (status != HEARTH_NO_MEMORY || !strstr(error.text, "out of memory"))
            fail_msg("allocation %ld: status %d: %s", n - 1, (int)status, error.text);
        assert_int_equal(mem_live(), live);
    } while (status != HEARTH_OK);
    assert_true(n > 4);
    checkpoint_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),   cmocka_unit_test(test_transposed), cmocka_unit_test(test_other_families),
        cmocka_unit_test(test_plain),     cmocka_unit_test(test_ranks),      cmocka_unit_test(test_magic),
        cmocka_unit_test(test_down_bias), cmocka_unit_test(test_hostile),    cmocka_unit_test(test_no_memory),
    };
    return run_group(tests, NULL, NULL);
}
