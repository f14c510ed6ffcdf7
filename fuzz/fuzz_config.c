/* fuzz_config.c - any bytes as the config.json of a folder that holds the tensors of a tiny model, or as the
 * keys of a GGUF that does.
 *
 * Covers: src/model/bind_tensor.c
 * Covers: src/model/experts.c
 * Covers: src/model/factors.c
 * Covers: src/model/huggingface.c
 * Covers: src/model/huggingface_delta.c
 * Covers: src/model/huggingface_experts.c
 * Covers: src/model/huggingface_family.c
 * Covers: src/model/huggingface_float4.c
 * Covers: src/model/huggingface_latent.c
 * Covers: src/model/huggingface_layers.c
 * Covers: src/model/huggingface_mimo.c
 * Covers: src/model/huggingface_minimax.c
 * Covers: src/model/huggingface_ngrams.c
 * Covers: src/model/huggingface_packed.c
 * Covers: src/model/huggingface_recurrent.c
 * Covers: src/model/huggingface_rope.c
 * Covers: src/model/huggingface_rwkv.c
 * Covers: src/model/huggingface_scaled.c
 * Covers: src/model/huggingface_summaries.c
 * Covers: src/model/huggingface_tensor.c
 * Covers: src/model/huggingface_ternary.c
 * Covers: src/model/huggingface_xielu.c
 * Covers: src/model/hyper.c
 * Covers: src/model/hyper_attention.c
 * Covers: src/model/hyper_mixer.c
 * Covers: src/model/hyper_networks.c
 * Covers: src/model/hyper_ngrams.c
 * Covers: src/model/hyper_summaries.c
 * Covers: src/model/rope.c
 *
 * The bytes are JSON. An object with a member "general.architecture" stands for a GGUF: every member is a key, but
 * for "PWRI" (whether that is its magic), "tensors" (which there are, as is_there() reads it; also in a config) and
 * "order" (blk.N.ffn_order). The tensors are those of the family's rules. A config that is accepted must fit these
 * tensors, so what a hostile one can ask for is bounded; every weight of the model that comes out is read once. */
#include "touch.h"
#include "touch_model.h"

#include "../src/base/json.h"
#include "../src/model/huggingface.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The tiny model, whatever the config says: 2 layers, d 8, f 12, 2 heads of 4, 1 key/value head, 6 tokens, 16 positions,
 * 4 experts of 3 neurons, a shared one of 3, predictors of rank 4. Recurrent mixers: 4 heads of 2 values, 2 keys of 4, a
 * convolution over 3 tokens; of RWKV-7 2 heads of 4, maps of rank 4 and 2. Inputs of 4 values of a layer's own, 3 streams, 2 values beside attention.
 * Where there are summaries, they are of 4 positions in the first layer, and of 128 in the last; two groups of heads have matrices of rank 3. */
enum { LAYERS = 2, EXPERTS = 4, NGRAM_ROWS = 40 };
static const uint64_t sizes[DIMENSION_COUNT] = {[DIMENSION_NONE] = 1,
                                                [DIMENSION_EMBEDDING] = 8,
                                                [DIMENSION_NEURONS] = 12,
                                                [DIMENSION_GATE_UP] = 24,
                                                [DIMENSION_QUERY] = 8,
                                                [DIMENSION_KEY] = 4,
                                                [DIMENSION_VALUES] = 3,
                                                [DIMENSION_QKV] = 16,
                                                [DIMENSION_HEAD] = 4,
                                                [DIMENSION_VOCABULARY] = 6,
                                                [DIMENSION_POSITIONS] = 16,
                                                [DIMENSION_HEADS] = 2,
                                                [DIMENSION_GATES] = 8,
                                                [DIMENSION_RESULT] = 6,
                                                [DIMENSION_QUERY_RANK] = 4,
                                                [DIMENSION_SHORT_QUERY] = 8,
                                                [DIMENSION_COMPRESSED_KEY] = 6,
                                                [DIMENSION_COMPRESSED] = 4,
                                                [DIMENSION_UNROTATED] = 2,
                                                [DIMENSION_VALUE] = 3,
                                                [DIMENSION_KEY_VALUE_UP] = 10,
                                                [DIMENSION_INDEX_QUERY] = 8,
                                                [DIMENSION_INDEX_HEADS] = 2,
                                                [DIMENSION_INDEX_LENGTH] = 4,
                                                [DIMENSION_SUMMARY] = 4,
                                                [DIMENSION_TOGETHER] = 128,
                                                [DIMENSION_INDEX_SUMMARY] = 8,
                                                [DIMENSION_OUTPUT_GROUP] = 4,
                                                [DIMENSION_EXPERTS_USED] = 2,
                                                [DIMENSION_DELTA_IN] = 32,
                                                [DIMENSION_SHORT_IN] = 24,
                                                [DIMENSION_BETA_STEP] = 8,
                                                [DIMENSION_KV_HEADS] = 1,
                                                [DIMENSION_ROPE_PAIRS] = 2,
                                                [DIMENSION_WINDOW_PAIRS] = 2,
                                                [DIMENSION_RANK] = 4,
                                                [DIMENSION_EXPERTS] = EXPERTS,
                                                [DIMENSION_EXPERT_NEURONS] = 3,
                                                [DIMENSION_SHARED_NEURONS] = 3,
                                                [DIMENSION_GATED_QUERY] = 16,
                                                [DIMENSION_EXPERT_GATE_UP] = 6,
                                                [DIMENSION_LATENT] = 8,
                                                [DIMENSION_RECURRENT_WIDTH] = 8,
                                                [DIMENSION_RECURRENT_HEADS] = 4,
                                                [DIMENSION_RECURRENT_VALUE] = 2,
                                                [DIMENSION_RECURRENT_GROUPS] = 2,
                                                [DIMENSION_RECURRENT_GROUP] = 4,
                                                [DIMENSION_CHANNELS] = 24,
                                                [DIMENSION_RECURRENT_IN] = 36,
                                                [DIMENSION_CONVOLUTION] = 3,
                                                [DIMENSION_MIXTURES] = RWKV_INPUTS,
                                                [DIMENSION_DECAY_RANK] = 4,
                                                [DIMENSION_RATE_RANK] = 4,
                                                [DIMENSION_VALUE_RANK] = 2,
                                                [DIMENSION_GATE_RANK] = 4,
                                                [DIMENSION_PER_LAYER] = 4,
                                                [DIMENSION_PER_LAYERS] = LAYERS * 4,
                                                [DIMENSION_PER_LAYER_VOCABULARY] = 6,
                                                [DIMENSION_STREAMS] = 3,
                                                [DIMENSION_OTHER_STREAMS] = 2,
                                                [DIMENSION_STREAM_PAIRS] = 9,
                                                [DIMENSION_LAUREL] = 2,
                                                [DIMENSION_POOL] = 2,
                                                [DIMENSION_ALL_STREAMS] = 24,
                                                [DIMENSION_CONNECTIONS] = 15,
                                                [DIMENSION_CONNECTION_SCALES] = CONNECTION_SCALES,
                                                [DIMENSION_CONNECTION_RANK] = 2,
                                                [DIMENSION_NGRAM_ROWS] = NGRAM_ROWS,
                                                [DIMENSION_NGRAM_LENGTH] = 2,
                                                [DIMENSION_NGRAM_WINDOW] = 2};

/* As many as the largest tensor has: the biases of summaries of 128 positions. */
static const uint16_t values[128 * 8];
/* The experts of each of 6 tokens, as files and as folders have them. */
static const int32_t given[] = {0, 1, 1, 2, 2, 3, 3, 0, 0, 2, 1, 3};
static const int64_t given_long[] = {0, 1, 1, 2, 2, 3, 3, 0, 0, 2, 1, 3};

static bool has_letter(const char *sets, char letter)
{
    return strchr(sets, letter) != NULL;
}

/* Returns the size of a dimension where some letters say another one (is_there()). */
static uint64_t size_of(const family *f, const char *sets, uint32_t layer, dimension d)
{
    const bool last = layer == LAYERS - 1;
    const struct {
        dimension d;
        bool other;
        uint64_t size;
    } others[] = {{DIMENSION_LATENT, has_letter(sets, 'l'), 4},
                  {DIMENSION_SHARED_NEURONS, f->dense_beside, sizes[DIMENSION_NEURONS]},
                  {DIMENSION_NEURONS, last && has_letter(sets, 'w'), 2 * sizes[DIMENSION_NEURONS]},
                  {DIMENSION_HEAD, last && has_letter(sets, 'g'), 2 * sizes[DIMENSION_HEAD]},
                  {DIMENSION_QUERY, last && has_letter(sets, 'g'), 2 * sizes[DIMENSION_QUERY]},
                  {DIMENSION_KEY, last && has_letter(sets, 'g'), 2 * sizes[DIMENSION_KEY]},
                  {DIMENSION_ROPE_PAIRS, has_letter(sets, 'g'), 2 * sizes[DIMENSION_ROPE_PAIRS]},
                  {DIMENSION_CONNECTIONS, f->gated_connections, sizes[DIMENSION_STREAMS]},
                  {DIMENSION_CONNECTIONS, f->unmixed_streams, 2 * sizes[DIMENSION_STREAMS]},
                  {DIMENSION_CONNECTION_SCALES, f->unmixed_streams, 2},
                  {DIMENSION_SUMMARY, !last, 8},
                  {DIMENSION_TOGETHER, !last, 4},
                  {DIMENSION_GATES, has_letter(sets, 'a'), sizes[DIMENSION_HEADS]},
                  {DIMENSION_KEY, has_letter(sets, 'K'), 2 * sizes[DIMENSION_KEY]},
                  {DIMENSION_QKV, has_letter(sets, 'K'), sizes[DIMENSION_QUERY] + 4 * sizes[DIMENSION_KEY]},
                  {DIMENSION_CHANNELS, f->recurrence == RECURRENCE_SHORT, 8},
                  {DIMENSION_INDEX_QUERY, f->chooses_blocks, 4},
                  {DIMENSION_GATES, f->latent_attention, sizes[DIMENSION_RESULT]},
                  {DIMENSION_RECURRENT_HEADS, has_letter(sets, 'y'), 2},
                  {DIMENSION_RECURRENT_VALUE, has_letter(sets, 'y'), 4},
                  {DIMENSION_COMPRESSED_KEY, has_letter(sets, 'r'), 4},
                  {DIMENSION_SHORT_QUERY, has_letter(sets, 'r'), 4},
                  {DIMENSION_HEAD, last && has_letter(sets, 'h'), 2},
                  {DIMENSION_QUERY, last && has_letter(sets, 'h'), 2},
                  {DIMENSION_KEY, last && has_letter(sets, 'h'), 2}};
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        if (others[i].d == d && others[i].other)
            return others[i].size;
    return sizes[d];
}

/* Returns the letter of the form of experts that has the tensor of a rule; 0: all forms, or it is not of experts. */
static char form_of(const tensor_rule *r)
{
    if (!(r->flags & TENSOR_EXPERTS))
        return 0;
    if (tensor_rule_is_single(r, false))
        return '1';
    return r->flags & TENSOR_ALIAS ? 'x' : tensor_rule_is_single(r, true) ? 'e' : 0;
}

/* What a layer is, by its letter, as flags of the tensors that only such layers have. */
#define NETWORK (TENSOR_OF_EXPERTS | TENSOR_OF_DENSE | TENSOR_OF_LATENT)
static const struct layer_letter {
    char letter;
    unsigned kinds;
} layer_letters[] = {
    {'A', TENSOR_OF_ATTENTION | NETWORK}, /* the usual one */
    {'R', TENSOR_OF_RECURRENT | NETWORK}, {'T', TENSOR_OF_ATTENTION}, {'M', TENSOR_OF_RECURRENT}, {'N', NETWORK},
};

/* Returns the flags of the kinds that a layer is not of. */
static unsigned other_kinds(const family *f, const char *sets, uint32_t layer)
{
    unsigned kinds = layer_letters[0].kinds;
    uint32_t at = 0;
    for (const char *s = sets; *s; s++)
        for (size_t i = 0; i < sizeof(layer_letters) / sizeof(*layer_letters); i++)
            if (layer_letters[i].letter == *s && at++ == layer)
                kinds = layer_letters[i].kinds;
    bool has_experts = strpbrk(sets, "ex1") && !(layer == 0 && has_letter(sets, 'd'));
    if (!has_experts || !has_letter(sets, 'l'))
        kinds &= ~(unsigned)TENSOR_OF_LATENT;
    if (!has_experts)
        kinds &= ~(unsigned)TENSOR_OF_EXPERTS;
    else if (!f->dense_beside)
        kinds &= ~(unsigned)TENSOR_OF_DENSE;
    return (TENSOR_OF_ATTENTION | TENSOR_OF_RECURRENT | NETWORK) & ~kinds;
}

/* Returns whether a layer has what the tensor of a rule needs. */
static bool meets_needs(const family *f, const tensor_rule *r, const char *sets, uint32_t layer)
{
    bool last = layer == LAYERS - 1;
    if (r->needs & (NEEDS_QUERY_RANK | NEEDS_NO_QUERY_RANK))
        return has_letter(sets, 'q') == ((r->needs & NEEDS_QUERY_RANK) != 0);
    if (r->needs & NEEDS_PER_LAYER)
        return has_letter(sets, 'i');
    if (r->needs & (NEEDS_NGRAMS | NEEDS_NGRAM_TABLES))
        return has_letter(sets, 'c') && layer == 0;
    if (r->needs & (NEEDS_TOKEN_EXPERTS | NEEDS_CHOSEN_EXPERTS))
        return (layer == 0) == ((r->needs & NEEDS_TOKEN_EXPERTS) != 0);
    bool sees_all = last ? has_letter(sets, 'z') : f->chooses_blocks;
    if ((r->needs & NEEDS_INDEX) && sees_all)
        return false;
    if ((r->needs & NEEDS_OWN_KEYS) && last && has_letter(sets, 'k'))
        return false;
    return !(r->needs & (NEEDS_WINDOW | NEEDS_NO_WINDOW)) || !last || !has_letter(sets, 'v');
}

/* Which tensors there are, as letters: s those of the stock layout, n neuron-major ones, p predictors, b biases of the
 * feed-forward network, o other optional ones, d no experts in layer 0; experts in one form or several: e as usual, x as
 * a folder of transformers 5 has them, 1 as early GGUF files do, l ones that read 4 values; i inputs of the layers' own;
 * u matrices of layers packed, as BitNet's, f as floats of 8 bits with scales of 2 rows and 4 columns, 2 likewise with powers of
 * two as scales and experts of 4 bits, m experts as blocks of 4 bits; as numbers of 8 bits in words, of which four columns share a
 * scale, 4 by rows, 5 by columns, 6 likewise with columns in another order, 7 four bits as AWQ has them, 8 bytes and a scale for each row; 9 as rows of one block of NVFP4 as ModelOpt has them, 0 as compressed-tensors has them; 3 with factors beside the matrices of a GGUF; q two matrices that make queries, where attention is latent; j what makes their keys and values in one; r nothing in it that rotates; a one gate for each
 * head; K as many keys as heads; c n-grams in the first layer; t mixtures of inputs one by one; y recurrent mixers of 2 heads of 4 values. The last layer has with k no keys and values,
 * with v no values, with z nothing that chooses positions, with w twice the neurons, with g heads of twice the length, with h one
 * head of 2 values. Capital letters say what each layer is, from
 * the first on: A attention and a network, as without a letter, R a recurrent mixer and a network, T attention alone, M a
 * recurrent mixer alone, N a network alone. */
static bool is_there(const family *f, const tensor_rule *r, const char *sets, uint32_t layer)
{
    const struct {
        unsigned flag;
        char letter;
    } needs[] = {{TENSOR_STOCK, 's'}, {TENSOR_NEURON_MAJOR, 'n'}, {TENSOR_PREDICTOR, 'p'}, {TENSOR_MLP_BIAS, 'b'}};
    char form = form_of(r);
    if ((r->flags & other_kinds(f, sets, layer)) || !meets_needs(f, r, sets, layer))
        return false;
    bool other = (r->flags & (TENSOR_ALIAS | TENSOR_INTEGERS | TENSOR_CONSTANT)) != 0;
    if (form ? !strchr(sets, form) : other && !(r->needs & NEEDS_TOKEN_EXPERTS))
        return false;
    for (size_t i = 0; i < sizeof(needs) / sizeof(*needs); i++)
        if ((r->flags & needs[i].flag) && !strchr(sets, needs[i].letter))
            return false;
    if ((r->flags & TENSOR_HEADS) || (r->rows == DIMENSION_KEY_VALUE_UP && (r->flags & TENSOR_OPTIONAL)))
        return has_letter(sets, 'j') == (r->rows == DIMENSION_KEY_VALUE_UP);
    bool network = r->field == offsetof(model_layer, gate) || r->field == offsetof(model_layer, up);
    bool named = (r->flags & (TENSOR_HEAD | TENSOR_MLP_BIAS)) || ((r->flags & TENSOR_EXPERTS) && network);
    return !(r->flags & TENSOR_OPTIONAL) || named || strchr(sets, 'o');
}

/* Makes a matrix one of packed numbers, and adds their size. */
static hearth_status pack(checkpoint *c, const tensor_rule *r, uint32_t layer, stored_tensor *t)
{
    static const float one = 1;
    char name[TENSOR_NAME_SIZE + 8];
    size_t used = (size_t)snprintf(name, TENSOR_NAME_SIZE, r->folder_name, layer, 0);
    memcpy(name + used, "_scale", sizeof("_scale"));
    t->format = FORMAT_STORED_COUNT;
    t->foreign = "U8";
    t->shape[1] /= 4;
    t->size_bytes = t->shape[0] * t->shape[1];
    stored_tensor scale = {
        .name = name, .format = FORMAT_F32, .rank = 1, .shape = {1, 1, 1, 1}, .data = &one, .size_bytes = sizeof(one)};
    return checkpoint_find_tensor(c, name) ? HEARTH_OK : checkpoint_add_tensor(c, &scale, NULL);
}

/* Copies of tensors, each as long as it is, so that a sanitizer sees what is read behind them. */
typedef struct copy {
    struct copy *next;
    char data[];
} copy;

static copy *copies;

static hearth_status add_copy(checkpoint *c, const stored_tensor *t)
{
    stored_tensor own = *t;
    copy *made = malloc(sizeof(*made) + t->size_bytes);
    if (!made)
        return HEARTH_NO_MEMORY;
    memcpy(made->data, t->data, t->size_bytes);
    made->next = copies;
    copies = made;
    own.data = made->data;
    return checkpoint_add_tensor(c, &own, NULL);
}

static void free_copies(void)
{
    for (copy *next; copies; copies = next) {
        next = copies->next;
        free(copies);
    }
}

/* Adds a matrix as floats of 8 bits, and their scales, as its config may say or not. */
static hearth_status add_f8(checkpoint *c, const stored_tensor *t)
{
    char name[TENSOR_NAME_SIZE + 16];
    snprintf(name, sizeof(name), "%s_scale_inv", t->name);
    stored_tensor codes = *t, scales = {.name = name, .format = FORMAT_BF16, .rank = 2, .data = values};
    codes.format = FORMAT_STORED_COUNT;
    codes.foreign = "F8_E4M3";
    codes.size_bytes = t->shape[0] * t->shape[1];
    scales.shape[0] = (t->shape[0] + 3) / 4;
    scales.shape[1] = (t->shape[1] + 1) / 2;
    scales.shape[2] = scales.shape[3] = 1;
    scales.size_bytes = scales.shape[0] * scales.shape[1] * sizeof(*values);
    TRY(add_copy(c, &codes));
    return add_copy(c, &scales);
}

/* Adds a matrix as DeepSeek V4's folders have it, with powers of two as scales: of an expert rows of one block of 4 bits, of others
 * floats of 8 bits. */
static hearth_status add_with_powers(checkpoint *c, const stored_tensor *t, bool expert)
{
    char name[TENSOR_NAME_SIZE + 16];
    size_t plain = strlen(t->name) - strlen("weight");
    snprintf(name, sizeof(name), "%.*sscale", (int)plain, t->name);
    stored_tensor codes = *t, scales = *t;
    codes.format = scales.format = FORMAT_STORED_COUNT;
    codes.foreign = expert ? "I8" : "F8_E4M3";
    codes.shape[0] = expert ? 16 : t->shape[0];
    codes.size_bytes = codes.shape[0] * codes.shape[1];
    scales.name = name;
    scales.foreign = "F8_E8M0";
    scales.shape[0] = expert ? 1 : (t->shape[0] + 3) / 4;
    scales.shape[1] = expert ? t->shape[1] : (t->shape[1] + 1) / 2;
    scales.size_bytes = scales.shape[0] * scales.shape[1];
    TRY(checkpoint_add_tensor(c, &codes, NULL));
    return checkpoint_find_tensor(c, name) ? HEARTH_OK : checkpoint_add_tensor(c, &scales, NULL);
}

/* Adds a matrix as rows of one block of NVFP4, its scales, and the factor. */
static hearth_status add_nvfp4(checkpoint *c, const stored_tensor *t, bool packed)
{
    static const float factor = 0.5f;
    const struct {
        const char *ending[2]; /* of ModelOpt, of compressed-tensors */
        const char *foreign;
        uint32_t rank;
        uint64_t shape[2];
        const void *data;
        size_t each;
    } parts[] = {{{"weight", "weight_packed"}, "U8", 2, {8, t->shape[1]}, values, 1},
                 {{"weight_scale", "weight_scale"}, "F8_E4M3", 2, {1, t->shape[1]}, values, 1},
                 {{"weight_scale_2", "weight_global_scale"}, NULL, 1, {1, 1}, &factor, sizeof(factor)}};
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        char name[TENSOR_NAME_SIZE + 32];
        snprintf(name, sizeof(name), "%.*s%s", (int)(strlen(t->name) - strlen("weight")), t->name,
                 parts[i].ending[packed]);
        stored_tensor part = {.name = name, .rank = parts[i].rank, .data = parts[i].data, .foreign = parts[i].foreign};
        uint64_t shape[4] = {parts[i].shape[0], parts[i].shape[1], 1, 1};
        memcpy(part.shape, shape, sizeof(shape));
        part.format = part.foreign ? FORMAT_STORED_COUNT : FORMAT_F32;
        part.size_bytes = (size_t)(shape[0] * shape[1]) * parts[i].each;
        if (!checkpoint_find_tensor(c, name))
            TRY(add_copy(c, &part));
    }
    return HEARTH_OK;
}

/* Adds a tensor of a GGUF, and where it is a matrix, or stacked ones, a factor of each. */
static hearth_status add_with_factors(checkpoint *c, const stored_tensor *t)
{
    static const float factors[EXPERTS] = {0.5f, 2, 3, 4};
    char name[TENSOR_NAME_SIZE + 16];
    const char *ending = strstr(t->name, ".weight");
    TRY(checkpoint_add_tensor(c, t, NULL));
    if (!ending || t->rank < 2 || t->shape[2] > EXPERTS)
        return HEARTH_OK;
    snprintf(name, sizeof(name), "%.*s.scale", (int)(ending - t->name), t->name);
    const stored_tensor each = {.name = name,
                                .format = FORMAT_F32,
                                .rank = 1,
                                .shape = {t->shape[2], 1, 1, 1},
                                .data = factors,
                                .size_bytes = (size_t)t->shape[2] * sizeof(*factors)};
    return checkpoint_find_tensor(c, name) ? HEARTH_OK : add_copy(c, &each);
}

/* Adds a matrix as numbers in words, with their scales and zeros, and where words go along columns the group of each. */
static hearth_status add_words(checkpoint *c, const stored_tensor *t, char form)
{
    static const int32_t in_order[] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2},
                         other[] = {1, 0, 1, 0, 1, 0, 1, 0, 0, 2, 2, 2};
    uint64_t columns = t->shape[0], rows = t->shape[1], groups = columns / 4, n = form == '7' ? 8 : 4;
    bool by_rows = form == '4', across = form == '7';
    uint64_t words[2] = {rows, columns / n}; /* the first dimension is the one in which neighbours lie together */
    if (by_rows)
        words[0] = columns / n, words[1] = rows;
    if (across)
        words[0] = rows / n, words[1] = columns;
    const struct {
        const char *ending[2]; /* by rows, else */
        number_format format;
        uint32_t rank;
        uint64_t shape[2];
        const void *data;
    } parts[] = {
        {{"weight_packed", "qweight"}, FORMAT_STORED_COUNT, 2, {words[0], words[1]}, values},
        {{"weight_scale", "scales"}, FORMAT_BF16, 2, {by_rows ? groups : rows, by_rows ? rows : groups}, values},
        {{"weight_zero_point", "qzeros"},
         FORMAT_STORED_COUNT,
         2,
         {by_rows ? groups : rows / n, by_rows ? rows / n : groups},
         values},
        {{"weight_g_idx", "g_idx"}, FORMAT_STORED_COUNT, 1, {columns, 1}, form == '6' ? other : in_order}};
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        char name[TENSOR_NAME_SIZE + 32];
        snprintf(name, sizeof(name), "%.*s%s", (int)(strlen(t->name) - strlen("weight")), t->name,
                 parts[i].ending[!by_rows]);
        stored_tensor part = {.name = name, .format = parts[i].format, .rank = parts[i].rank, .data = parts[i].data};
        uint64_t shape[4] = {parts[i].shape[0], parts[i].shape[1], 1, 1};
        memcpy(part.shape, shape, sizeof(shape));
        bool whole = part.format == FORMAT_STORED_COUNT;
        part.foreign = whole ? "I32" : NULL;
        part.size_bytes = (size_t)(shape[0] * shape[1]) * (whole ? sizeof(int32_t) : sizeof(*values));
        if (part.size_bytes > 0 && !checkpoint_find_tensor(c, name))
            TRY(add_copy(c, &part));
    }
    char name[TENSOR_NAME_SIZE + 32];
    const int64_t said[] = {(int64_t)rows, (int64_t)columns};
    snprintf(name, sizeof(name), "%s_shape", t->name);
    const stored_tensor shape = {.name = name,
                                 .format = FORMAT_STORED_COUNT,
                                 .foreign = "I64",
                                 .rank = 1,
                                 .shape = {2, 1, 1, 1},
                                 .data = said,
                                 .size_bytes = sizeof(said)};
    return by_rows && !checkpoint_find_tensor(c, name) ? add_copy(c, &shape) : HEARTH_OK;
}

/* Adds a matrix as bytes with a sign, and the scale of each row. */
static hearth_status add_bytes(checkpoint *c, const stored_tensor *t)
{
    char name[TENSOR_NAME_SIZE + 16];
    snprintf(name, sizeof(name), "%s_scale", t->name);
    stored_tensor codes = *t, scales = {.name = name, .format = FORMAT_BF16, .rank = 2, .data = values};
    uint64_t shape[4] = {1, t->shape[1], 1, 1};
    memcpy(scales.shape, shape, sizeof(shape));
    scales.size_bytes = (size_t)t->shape[1] * sizeof(*values);
    codes.format = FORMAT_STORED_COUNT;
    codes.foreign = "I8";
    codes.size_bytes = (size_t)(t->shape[0] * t->shape[1]);
    TRY(add_copy(c, &codes));
    return checkpoint_find_tensor(c, name) ? HEARTH_OK : add_copy(c, &scales);
}

/* Adds matrices of all experts as blocks of 4 bits and their scales: of `rows` rows of one block. */
static hearth_status add_blocks(checkpoint *c, const char *plain, uint64_t rows)
{
    char names[2][TENSOR_NAME_SIZE + 16];
    for (int i = 0; i < 2; i++) {
        snprintf(names[i], sizeof(names[i]), "%s_%s", plain, i ? "scales" : "blocks");
        stored_tensor t = {.name = names[i], .format = FORMAT_STORED_COUNT, .foreign = "U8", .data = values};
        t.rank = i ? 3 : 4;
        uint64_t shape[] = {16, 1, rows, EXPERTS, 1};
        memcpy(t.shape, shape + i, sizeof(t.shape));
        t.size_bytes = t.shape[0] * t.shape[1] * t.shape[2] * t.shape[3];
        if (!checkpoint_find_tensor(c, names[i]))
            TRY(checkpoint_add_tensor(c, &t, NULL));
    }
    return HEARTH_OK;
}

/* Adds the mixtures of a layer one by one. */
static hearth_status add_mixtures(checkpoint *c, uint32_t layer)
{
    stored_tensor t = {.format = FORMAT_BF16, .rank = 3, .shape = {8, 1, 1, 1}, .data = values};
    t.size_bytes = 8 * sizeof(*values);
    for (const char *letter = "rwkvag"; *letter; letter++) {
        char name[TENSOR_NAME_SIZE];
        snprintf(name, sizeof(name), "model.layers.%u.attn.x_%c", layer, *letter);
        t.name = name;
        TRY(checkpoint_add_tensor(c, &t, NULL));
    }
    return HEARTH_OK;
}

/* Adds the tensor of a rule as it is stored in a folder or in a GGUF. */
static hearth_status add_tensor(checkpoint *c, const family *f, const tensor_rule *r, bool folder, const char *sets,
                                uint32_t layer)
{
    bool single = tensor_rule_is_single(r, folder), numbered = r->stack != DIMENSION_NONE;
    uint64_t count = r->flags & TENSOR_EXPERTS ? EXPERTS : sizes[r->stack];
    uint64_t columns = size_of(f, sets, layer, r->columns), rows = size_of(f, sets, layer, r->rows);
    if (folder && (!r->folder_name || (r->flags & (TENSOR_ODD | TENSOR_SECOND_HALF))))
        return HEARTH_OK; /* one tensor holds both */
    if (folder && r->rows == DIMENSION_MIXTURES && has_letter(sets, 't'))
        return add_mixtures(c, layer);
    if (folder && r->rows == DIMENSION_POSITIONS)
        rows += f->dropped_positions;
    if (folder && (r->flags & TENSOR_TRANSPOSED)) {
        columns = size_of(f, sets, layer, r->rows);
        rows = size_of(f, sets, layer, r->columns);
    }
    if (folder && (r->flags & TENSOR_EVEN))
        columns *= 2;
    if (folder && (r->flags & TENSOR_FIRST_HALF))
        *(r->flags & TENSOR_TRANSPOSED ? &columns : &rows) *= 2;
    if (folder && (r->flags & TENSOR_HEADS)) { /* two tensors of GGUF in one */
        columns = sizes[DIMENSION_COMPRESSED];
        rows = sizes[DIMENSION_HEADS] * (sizes[DIMENSION_UNROTATED] + sizes[DIMENSION_VALUE]);
    }
    if (folder && (r->flags & TENSOR_FUSED) && r->rows != DIMENSION_NONE)
        rows = size_of(f, sets, layer, DIMENSION_QKV);
    if (folder && (r->flags & TENSOR_BY_KEYS))
        rows = sizes[DIMENSION_DELTA_IN];
    if (folder && f->pools_plainly && (r->needs & NEEDS_INDEX) && r->rows != DIMENSION_NONE)
        rows = sizes[DIMENSION_INDEX_QUERY] + sizes[DIMENSION_INDEX_LENGTH]; /* one tensor holds both */
    stored_tensor t = {
        .format = FORMAT_BF16, .rank = r->rows == DIMENSION_NONE ? 1 : 2, .shape = {columns, rows, 1, 1}};
    if (folder && (r->flags & TENSOR_FLAT)) /* of any shape, there: as convolutions have it */
        t = (stored_tensor){.format = FORMAT_BF16, .rank = 3, .shape = {columns, 1, rows, 1}};
    else if (((r->flags & TENSOR_EXPERTS) || numbered) && !single)
        t.shape[t.rank++] = count;
    else if (!folder && (r->flags & TENSOR_HEADS))
        t.shape[t.rank++] = sizes[DIMENSION_HEADS];
    t.data = values;
    t.size_bytes = t.shape[0] * t.shape[1] * t.shape[2] * sizeof(*values);
    if (r->needs & NEEDS_TOKEN_EXPERTS) {
        t.format = folder ? FORMAT_STORED_COUNT : FORMAT_I32;
        t.foreign = folder ? "I64" : NULL;
        t.data = folder ? (const void *)given_long : given;
        t.size_bytes = folder ? sizeof(given_long) : sizeof(given);
    }
    if (folder && has_letter(sets, 'u') && t.rank == 2 && rows % 4 == 0 && strchr(r->folder_name, '%'))
        TRY(pack(c, r, layer, &t));
    for (uint32_t i = 0; i < (single ? count : 1); i++) {
        char name[TENSOR_NAME_SIZE];
        snprintf(name, sizeof(name), folder ? r->folder_name : r->name, numbered ? i : layer, i);
        t.name = name;
        bool of_layer = folder && t.rank == 2 && strchr(r->folder_name, '%');
        if (checkpoint_find_tensor(c, name)) /* two rules may have one name */
            continue;
        const char *words = strpbrk(sets, "4567");
        if (of_layer && words && strstr(name, ".weight") && columns <= 12)
            TRY(add_words(c, &t, *words));
        else if (of_layer && has_letter(sets, '8') && strstr(name, ".weight"))
            TRY(add_bytes(c, &t));
        else if (of_layer && strpbrk(sets, "90") && strstr(name, ".weight"))
            TRY(add_nvfp4(c, &t, has_letter(sets, '0')));
        else if (!folder && has_letter(sets, '3'))
            TRY(add_with_factors(c, &t));
        else if (of_layer && has_letter(sets, '2') && strstr(name, ".weight"))
            TRY(add_with_powers(c, &t, r->flags & TENSOR_EXPERTS));
        else if (folder && has_letter(sets, 'm') && (r->flags & TENSOR_EXPERTS) && t.rank == 3)
            TRY(add_blocks(c, name, r->flags & TENSOR_TRANSPOSED ? columns : rows));
        else
            TRY(of_layer && has_letter(sets, 'f') ? add_f8(c, &t) : checkpoint_add_tensor(c, &t, NULL));
    }
    return HEARTH_OK;
}

static hearth_status add_tensors(checkpoint *c, const family *f, bool folder, const char *sets)
{
    for (size_t i = 0; i < f->tensor_count; i++)
        if (is_there(f, &f->tensors[i], sets, 0))
            TRY(add_tensor(c, f, &f->tensors[i], folder, sets, 0));
    for (uint32_t layer = 0; layer < LAYERS; layer++)
        for (size_t i = 0; i < f->layer_tensor_count; i++)
            if (is_there(f, &f->layer_tensors[i], sets, layer))
                TRY(add_tensor(c, f, &f->layer_tensors[i], folder, sets, layer));
    return HEARTH_OK;
}

/* Adds a folder's tables of n-grams in two parts, and the numbers of their hashes: how many rows the heads have is said by the
 * config. */
static hearth_status add_ngrams(checkpoint *c, const json_t *config)
{
    static const char *const names[] = {"layer_multipliers", "ngram_heads_offsets", "ngram_heads_vocab_sizes"};
    enum { HEADS = 4 };
    uint64_t *numbers = arena_new_array(&c->memory, 3 * HEADS, sizeof(*numbers));
    const json_t *rows = json_object_get(config, "ngram_rows");
    char name[TENSOR_NAME_SIZE];
    if (!numbers)
        return HEARTH_NO_MEMORY;
    for (size_t i = 0; i < HEADS; i++) {
        const json_t *said = json_array_get(rows, i);
        numbers[i] = 2 * i + 1;
        numbers[HEADS + i] = i * NGRAM_ROWS / HEADS;
        numbers[2 * HEADS + i] = said ? (uint64_t)json_integer_value(said) : NGRAM_ROWS / HEADS;
    }
    for (size_t i = 0; i < 5; i++) {
        stored_tensor t = {.name = name, .rank = 1, .shape = {HEADS, 1, 1, 1}, .data = numbers + i * HEADS};
        if (i < 3) {
            t.format = FORMAT_STORED_COUNT;
            t.foreign = "I64";
            t.size_bytes = HEADS * sizeof(*numbers);
            snprintf(name, sizeof(name), "model.layers.0.ple.ple_embedding.%s", names[i]);
        } else {
            uint64_t of_part = i == 3 ? NGRAM_ROWS / 2 + 1 : NGRAM_ROWS / 2 - 1;
            t = (stored_tensor){
                .name = name, .format = FORMAT_BF16, .rank = 2, .shape = {2, of_part, 1, 1}, .data = values};
            t.size_bytes = 2 * of_part * sizeof(*values);
            snprintf(name, sizeof(name), "model.layers.0.ple.ple_embedding.ngram_embedding.shard_%zu.weight", i - 3);
        }
        TRY(checkpoint_add_tensor(c, &t, NULL));
    }
    return HEARTH_OK;
}

/* Adds the four numbers of Apertus' activation in each layer. */
static hearth_status add_xielu(checkpoint *c)
{
    static const char *const names[] = {"alpha_p", "alpha_n", "beta", "eps"};
    for (uint32_t i = 0; i < 4 * LAYERS; i++) {
        char name[TENSOR_NAME_SIZE];
        snprintf(name, sizeof(name), "model.layers.%u.mlp.act_fn.%s", i / 4, names[i % 4]);
        const stored_tensor t = {.name = name,
                                 .format = FORMAT_BF16,
                                 .rank = 1,
                                 .shape = {1, 1, 1, 1},
                                 .data = values,
                                 .size_bytes = sizeof(*values)};
        TRY(checkpoint_add_tensor(c, &t, NULL));
    }
    return HEARTH_OK;
}

/* The same for both layers. */
static hearth_status add_order(checkpoint *c, const json_t *order)
{
    size_t count = json_array_size(order);
    if (count == 0)
        return HEARTH_OK;
    int32_t *numbers = arena_new_array(&c->memory, count, sizeof(*numbers));
    if (!numbers)
        return HEARTH_NO_MEMORY;
    for (size_t i = 0; i < count; i++)
        numbers[i] = (int32_t)json_integer_value(json_array_get(order, i));
    stored_tensor t = {.format = FORMAT_I32,
                       .rank = 1,
                       .shape = {count, 1, 1, 1},
                       .data = numbers,
                       .size_bytes = count * sizeof(*numbers)};
    for (int layer = 0; layer < 2; layer++) {
        t.name = layer ? "blk.1.ffn_order" : "blk.0.ffn_order";
        TRY(checkpoint_add_tensor(c, &t, NULL));
    }
    return HEARTH_OK;
}

/* A value of JSON as the key of GGUF that is most like it. */
static hearth_status set_key(checkpoint *c, const char *key, const json_t *value)
{
    uint32_t items[4] = {0};
    uint64_t long_items[4] = {0};
    float numbers[4] = {0};
    size_t count = json_array_size(value) < 4 ? json_array_size(value) : 4;
    for (size_t i = 0; i < count; i++) {
        items[i] = (uint32_t)json_integer_value(json_array_get(value, i));
        long_items[i] = (uint64_t)json_integer_value(json_array_get(value, i));
        numbers[i] = (float)json_number_value(json_array_get(value, i));
    }
    if (json_is_integer(value))
        return checkpoint_set_u32(c, key, (uint32_t)json_integer_value(value), NULL);
    if (json_is_real(value))
        return checkpoint_set_f32(c, key, (float)json_real_value(value), NULL);
    if (json_is_boolean(value))
        return checkpoint_set_bool(c, key, json_is_true(value), NULL);
    if (json_is_string(value))
        return checkpoint_set_string(c, key, span_of(json_string_value(value)), NULL);
    if (json_is_boolean(json_array_get(value, 0))) {
        uint8_t flags[4];
        for (size_t i = 0; i < count; i++)
            flags[i] = json_is_true(json_array_get(value, i));
        return checkpoint_set_numbers(c, key, VALUE_BOOL, flags, count, NULL);
    }
    if (json_is_real(json_array_get(value, 0)))
        return checkpoint_set_numbers(c, key, VALUE_F32, numbers, count, NULL);
    if (strstr(key, ".ple.head_") || strstr(key, "_multipliers"))
        return checkpoint_set_numbers(c, key, VALUE_U64, long_items, count, NULL);
    return checkpoint_set_numbers(c, key, VALUE_U32, items, count, NULL);
}

static hearth_status set_keys(checkpoint *c, json_t *keys)
{
    const char *key;
    json_t *value;
    c->powerinfer = json_is_true(json_object_get(keys, "PWRI"));
    const char *sets = json_string_value(json_object_get(keys, "tensors"));
    const char *architecture = json_string_value(json_object_get(keys, "general.architecture"));
    const family *f = architecture ? family_by_name(span_of(architecture)) : NULL;
    TRY(add_tensors(c, f ? f : &families[0], false, sets ? sets : "s"));
    TRY(add_order(c, json_object_get(keys, "order")));
    static const char *const members[] = {"PWRI", "tensors", "order"};
    for (size_t i = 0; i < sizeof(members) / sizeof(*members); i++)
        json_object_del(keys, members[i]);
    json_object_foreach(keys, key, value)
    {
        TRY(set_key(c, key, value));
    }
    return HEARTH_OK;
}

/* Adds the tensors of the family that the config, or the text's part of it, names; of a llama where it names none. */
static hearth_status add_folder(checkpoint *c, const json_t *config)
{
    const json_t *text = json_object_get(config, "text_config");
    const char *type = json_string_value(json_object_get(json_is_object(text) ? text : config, "model_type"));
    const char *sets = json_string_value(json_object_get(config, "tensors"));
    const family *f = &families[0];
    for (size_t i = 0; type && i < family_count; i++)
        if (strcmp(families[i].model_type, type) == 0)
            f = &families[i];
    if (!sets)
        sets = json_is_true(json_object_get(config, "mlp_bias")) ? "sb" : "s";
    TRY(f->ngrams && has_letter(sets, 'c') ? add_ngrams(c, config) : HEARTH_OK);
    TRY(f->activation == FFN_XIELU ? add_xielu(c) : HEARTH_OK);
    return add_tensors(c, f, true, sets);
}

static hearth_status open_model(hearth_model **out, const uint8_t *data, size_t size, hearth_error *error)
{
    json_t *config;
    checkpoint *stored = NULL, *c = NULL;
    TRY(json_parse(&config, (const char *)data, size, "config.json", error));
    hearth_status status;
    TRY_OR(done, status, checkpoint_create(&stored, "fuzzed", error));
    TRY_OR(done, status, checkpoint_create(&c, "fuzzed", error));
    if (json_object_get(config, "general.architecture"))
        status = set_keys(c, config);
    else if ((status = add_folder(stored, config)) == HEARTH_OK)
        status = huggingface_understand(c, stored, config, "config.json", error);
    if (status != HEARTH_OK)
        goto done;
    touch_checkpoint(c);
    status = model_bind(out, c, NULL, error);
    c = NULL;
done:
    checkpoint_close(c);
    checkpoint_close(stored);
    json_decref(config);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hearth_model *m;
    hearth_error error = {0};
    long before = mem_live();
    hearth_status status = open_model(&m, data, size, &error);
    if (status == HEARTH_OK) {
        touch_model(m);
        hearth_model_close(m);
    }
    free_copies();
    check_end(status, &error, before);
    return 0;
}
