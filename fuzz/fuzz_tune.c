/* fuzz_tune.c - any bytes as the tune file of a tiny llama: of one with ReLU whose neurons are in another order, or of
 * one with SiLU.
 *
 * Covers: src/model/tune.c src/model/tune_read.c src/model/tune_check.c
 *
 * 32 question marks in the input become the first one's fingerprint, which chance would never find, 32 exclamation marks
 * the other's. What is accepted is looked at in whole, and then given to the model. */
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

static hearth_status add_tensors(checkpoint *c, bool in_order)
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
    stored_tensor numbers = {
        .format = FORMAT_I32, .rank = 1, .shape = {F, 1, 1, 1}, .data = order, .size_bytes = sizeof(order)};
    for (int layer = 0; in_order && layer < LAYERS; layer++) {
        numbers.name = layer ? "blk.1.ffn_order" : "blk.0.ffn_order";
        TRY(checkpoint_add_tensor(c, &numbers, NULL));
    }
    return HEARTH_OK;
}

static hearth_status add_keys(checkpoint *c, const char *activation)
{
    static const struct {
        const char *key;
        uint32_t value;
    } sizes[] = {{"llama.block_count", LAYERS},     {"llama.context_length", 64},
                 {"llama.embedding_length", D},     {"llama.feed_forward_length", F},
                 {"llama.attention.head_count", 2}, {"llama.attention.head_count_kv", 2},
                 {"llama.rope.dimension_count", 16}};
    TRY(checkpoint_set_string(c, "general.architecture", span_of("llama"), NULL));
    TRY(checkpoint_set_string(c, "llama.hidden_activation", span_of(activation), NULL));
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        TRY(checkpoint_set_u32(c, sizes[i].key, sizes[i].value, NULL));
    return checkpoint_set_f32(c, "llama.attention.layer_norm_rms_epsilon", 1e-5f, NULL);
}

typedef struct subject {
    const char *marks, *activation;
    bool in_order;
    hearth_model *model; /* made when it is first needed */
} subject;

static subject subjects[] = {{"????????????????????????????????", "relu", true, NULL},
                             {"!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!", "silu", false, NULL}};

static void make_model(subject *s)
{
    checkpoint *c;
    if (checkpoint_create(&c, "fuzz", NULL) != HEARTH_OK || add_tensors(c, s->in_order) != HEARTH_OK ||
        add_keys(c, s->activation) != HEARTH_OK || model_bind(&s->model, c, NULL, NULL) != HEARTH_OK)
        abort();
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
        if (i > 0 && l->counts[l->order[i]] > l->counts[l->order[i - 1]])
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
    size_t stored = p->fc1.rows * p->fc1.row_bytes + p->fc2.rows * p->fc2.row_bytes;
    bool low_rank = p->kind == PREDICTOR_LOW_RANK;
    if (p->kind >= PREDICTOR_KINDS || !isfinite(p->threshold) || low_rank != (p->fc1.data != NULL) ||
        low_rank != (p->fc2.data != NULL) || (p->kind == PREDICTOR_COARSE && p->coarse_format >= FORMAT_COUNT))
        abort();
    if (low_rank && (p->fc1.columns != D || p->fc2.rows != F || p->fc1.rows != p->fc2.columns))
        abort();
    if (predictor_bytes(p, F, D) < stored || (predictor_bytes(p, F, D) == 0) != (p->kind == PREDICTOR_NONE))
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

/* A bound record gives the model what it says, rows of fc2 in the model's order. */
static void touch_bound(const tune *t, const hearth_model *m)
{
    for (uint32_t i = 0; t->has_predictors && i < LAYERS; i++) {
        const learned_predictor *said = &t->layers[i].predictor, has = tune_predictor(t, m, i);
        if (!predictor_kind_name(said->kind) || (said->kind != PREDICTOR_NONE && !tune_predicts(t, m)))
            abort();
        if (has.kind != said->kind || (has.kind != PREDICTOR_NONE && !ffn_skippable(&m->layers[i].ffn)))
            abort();
        touch_predictor(&has);
        for (uint32_t row = 0; row < has.fc2.rows; row++) {
            size_t number = m->layers[i].order ? (size_t)m->layers[i].order[row] : row;
            if (memcmp(matrix_row(&has.fc2, row), matrix_row(&said->fc2, number), said->fc2.row_bytes) != 0)
                abort();
        }
    }
}

/* Puts the fingerprint where its marks are; the model that they are of, else the first one. */
static hearth_model *fill_in(uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < sizeof(subjects) / sizeof(*subjects); i++) {
        char fingerprint[FINGERPRINT_SIZE];
        size_t count = strlen(subjects[i].marks);
        uint8_t *at = memmem(bytes, size, subjects[i].marks, count);
        if (!subjects[i].model)
            make_model(&subjects[i]);
        if (!at)
            continue;
        model_fingerprint(fingerprint, subjects[i].model);
        memcpy(at, fingerprint, count);
        return subjects[i].model;
    }
    return subjects[0].model;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tune *t;
    hearth_error error = {0};
    size_t skew = size / 32 % 2; /* every other file lies at an odd address: nobody has aligned it */
    uint8_t *block = malloc(skew + (size ? size : 1)), *bytes = block + skew;
    if (!block)
        abort();
    if (size)
        memcpy(bytes, data, size);
    hearth_model *m = fill_in(bytes, size);
    long before = mem_live();
    hearth_status status = tune_parse(&t, bytes, size, "fuzz.tune", m, &error);
    if (status == HEARTH_OK) {
        touch_tune(t);
        if (tune_attach(m, t, &error) != HEARTH_OK)
            abort();
        touch_bound(t, m);
        if (tune_attach(m, NULL, &error) != HEARTH_OK || tune_predicts(NULL, m))
            abort();
        if (tune_predictor(NULL, m, 0).kind != PREDICTOR_NONE) /* neither model's file has predictors */
            abort();
    }
    free(block);
    check_end(status, &error, before);
    return 0;
}
