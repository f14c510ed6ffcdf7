/* fuzz_tune.c - any bytes as the tune file of a tiny llama, whose neurons are in another order.
 *
 * Covers: src/model/tune.c
 *
 * Half of tune_check.c is asked by the writer alone, so its share of lines would say little.
 * 32 question marks in the input become the model's fingerprint, which chance would never find. What is accepted is
 * looked at in whole, and then given to the model. */
#include "touch.h"

#include "../src/model/fingerprint.h"
#include "../src/model/tune.h"

#include <math.h>
#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { D = 32, F = 12, LAYERS = 2 };

/* 2 heads of 16, 6 tokens; all values are zero. */
static const struct {
    const char *name;
    uint32_t rank;
    uint64_t columns, rows;
} tensors[] = {
    {"token_embd.weight", 2, D, 6},       {"output_norm.weight", 1, D, 1},        {"output.weight", 2, D, 6},
    {"blk.%d.attn_norm.weight", 1, D, 1}, {"blk.%d.attn_q.weight", 2, D, D},      {"blk.%d.attn_k.weight", 2, D, D},
    {"blk.%d.attn_v.weight", 2, D, D},    {"blk.%d.attn_output.weight", 2, D, D}, {"blk.%d.ffn_norm.weight", 1, D, 1},
    {"blk.%d.ffn_gate.weight", 2, D, F},  {"blk.%d.ffn_up.weight", 2, D, F},      {"blk.%d.ffn_down_t.weight", 2, D, F},
};

static const float values[D * D];
static const int32_t order[F] = {11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0};

static hearth_status add_tensors(checkpoint *c)
{
    for (size_t i = 0; i < sizeof(tensors) / sizeof(*tensors); i++)
        for (int layer = 0; layer < (strchr(tensors[i].name, '%') ? LAYERS : 1); layer++) {
            char name[96];
            snprintf(name, sizeof(name), tensors[i].name, layer);
            stored_tensor t = {.name = name,
                               .format = FORMAT_F32,
                               .rank = tensors[i].rank,
                               .shape = {tensors[i].columns, tensors[i].rows, 1, 1},
                               .data = values,
                               .size_bytes = tensors[i].columns * tensors[i].rows * sizeof(*values)};
            TRY(checkpoint_add_tensor(c, &t, NULL));
        }
    stored_tensor numbers = {NULL, FORMAT_I32, 1, {F, 1, 1, 1}, order, sizeof(order), 0};
    for (int layer = 0; layer < LAYERS; layer++) {
        numbers.name = layer ? "blk.1.ffn_order" : "blk.0.ffn_order";
        TRY(checkpoint_add_tensor(c, &numbers, NULL));
    }
    return HEARTH_OK;
}

static hearth_status add_keys(checkpoint *c)
{
    static const struct {
        const char *key;
        uint32_t value;
    } sizes[] = {{"llama.block_count", LAYERS},     {"llama.context_length", 64},
                 {"llama.embedding_length", D},     {"llama.feed_forward_length", F},
                 {"llama.attention.head_count", 2}, {"llama.attention.head_count_kv", 2},
                 {"llama.rope.dimension_count", 16}};
    TRY(checkpoint_set_string(c, "general.architecture", span_of("llama"), NULL));
    TRY(checkpoint_set_string(c, "llama.hidden_activation", span_of("relu"), NULL));
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        TRY(checkpoint_set_u32(c, sizes[i].key, sizes[i].value, NULL));
    return checkpoint_set_f32(c, "llama.attention.layer_norm_rms_epsilon", 1e-5f, NULL);
}

static hearth_model *make_model(void)
{
    checkpoint *c;
    hearth_model *m;
    if (checkpoint_create(&c, "fuzz", NULL) != HEARTH_OK || add_tensors(c) != HEARTH_OK || add_keys(c) != HEARTH_OK ||
        model_bind(&m, c, NULL, NULL) != HEARTH_OK)
        abort();
    return m;
}

static void touch_matrix(const matrix *m)
{
    touch_bytes(m->data, m->data ? m->rows * m->row_bytes : 0);
}

static void touch_layer(const tune *t, const tune_layer *l)
{
    uint32_t seen = 0;
    for (uint32_t i = 0; l->counts && i < F; i++) {
        if (l->counts[i] < 0 || (uint64_t)l->counts[i] > t->tokens || l->order[i] >= F)
            abort();
        seen |= 1u << l->order[i];
    }
    if (l->counts && seen != (1u << F) - 1)
        abort();
    for (uint32_t i = 0; l->magnitudes && i < TUNE_QUANTILES; i++)
        if (!isfinite(l->magnitudes[i]))
            abort();
    for (uint32_t i = 0; i < t->level_count; i++)
        if (!isfinite(l->prune[i]))
            abort();
}

static void touch_predictor(const learned_predictor *p)
{
    bool low_rank = p->kind == PREDICTOR_LOW_RANK;
    if (p->kind >= PREDICTOR_KINDS || !isfinite(p->threshold) || low_rank != (p->fc1.data != NULL) ||
        low_rank != (p->fc2.data != NULL) || (p->kind == PREDICTOR_COARSE && p->coarse_format >= FORMAT_COUNT))
        abort();
    if (low_rank && (p->fc1.columns != D || p->fc2.rows != F || p->fc1.rows != p->fc2.columns))
        abort();
    touch_matrix(&p->fc1);
    touch_matrix(&p->fc2);
}

static void touch_tune(const tune *t)
{
    touch_bytes(t->report, strlen(t->report));
    for (uint32_t i = 0; i < LAYERS; i++) {
        touch_layer(t, &t->layers[i]);
        touch_predictor(&t->layers[i].predictor);
    }
}

/* A copy with the fingerprint in it. */
static uint8_t *fill_in(const uint8_t *data, size_t size, const hearth_model *m)
{
    static const char marks[] = "????????????????????????????????";
    char fingerprint[FINGERPRINT_SIZE];
    uint8_t *copy = malloc(size ? size : 1), *at;
    if (!copy)
        abort();
    if (size)
        memcpy(copy, data, size);
    model_fingerprint(fingerprint, m);
    if ((at = memmem(copy, size, marks, sizeof(marks) - 1)) != NULL)
        memcpy(at, fingerprint, sizeof(marks) - 1);
    return copy;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tune *t;
    hearth_error error = {0};
    hearth_model *m = make_model();
    long before = mem_live();
    uint8_t *bytes = fill_in(data, size, m);
    hearth_status status = tune_parse(&t, bytes, size, "fuzz.tune", m, &error);
    if (status == HEARTH_OK) {
        touch_tune(t);
        if (tune_attach(m, t, &error) != HEARTH_OK)
            abort();
        for (uint32_t i = 0; i < LAYERS; i++)
            touch_predictor(&m->layers[i].predictor);
        if (tune_attach(m, NULL, &error) != HEARTH_OK)
            abort();
    }
    free(bytes);
    check_end(status, &error, before);
    hearth_model_close(m);
    return 0;
}
