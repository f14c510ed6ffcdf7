/* hyper_ngrams.c - reads the shape of n-grams whose embeddings some layers add to the streams of the residual (see hyper_reader.h). */
#include "hyper_reader.h"

/* Most tokens that the convolution sees. */
#define WINDOW_LIMIT 64

/* Reads `count` whole numbers below a limit of an array that may have more. */
static hearth_status read_numbers(const hyper_reader *r, const char *name, size_t count, uint64_t limit, uint64_t *out)
{
    char key[KEY_SIZE];
    hyper_key(key, r->family, name);
    const key_value *e;
    TRY(checkpoint_get_array(r->source, key, VALUE_U64, &e, NULL, r->error));
    if (e->count < count)
        return hyper_fail(r, HEARTH_FORMAT, name, "has too few numbers");
    for (size_t i = 0; i < count; i++) {
        out[i] = ((const uint64_t *)e->as.items)[i];
        if (out[i] >= limit)
            return hyper_fail(r, HEARTH_FORMAT, name, "has a number that is too large");
    }
    return HEARTH_OK;
}

/* Reads the sizes of n-grams. */
static hearth_status read_sizes(const hyper_reader *r, ngram_shape *n)
{
    const struct {
        const char *name;
        uint32_t *field, least, most;
    } sizes[] = {{"ple.ngram_size", &n->longest, 2, NGRAM_LIMIT},
                 {"ple.heads_per_ngram", &n->heads, 1, NGRAM_HEAD_LIMIT},
                 {"ple.conv_kernel", &n->window, 2, WINDOW_LIMIT},
                 {"embedding_length_per_layer_input", &n->row_length, 1, HEAD_LIMIT},
                 {"ple.eos_token_id", &n->end, 0, INT32_MAX}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        TRY(hyper_size(r, sizes[i].name, sizes[i].field, NULL));
        if (*sizes[i].field < sizes[i].least || *sizes[i].field > sizes[i].most)
            return hyper_fail(r, HEARTH_FORMAT, sizes[i].name, "is too small or too large");
    }
    if (n->end >= r->hyper->vocabulary_size)
        return hyper_fail(r, HEARTH_FORMAT, "ple.eos_token_id", "is no token of the vocabulary");
    if (ngram_heads(n) > NGRAM_HEAD_LIMIT)
        return hyper_fail(r, HEARTH_UNSUPPORTED, sizes[1].name, "makes more than 64 rows of a token");
    if ((uint64_t)ngram_heads(n) * n->row_length != r->hyper->embedding_length)
        return hyper_fail(r, HEARTH_UNSUPPORTED, sizes[3].name,
                          "does not make rows that are together as long as embeddings");
    return HEARTH_OK;
}

/* Reads where the rows of each head lie, and checks them against the table. */
static hearth_status read_heads(const hyper_reader *r, ngram_shape *n)
{
    static const char first_key[] = "ple.head_offsets", rows_key[] = "ple.head_vocab_sizes";
    const stored_tensor *t = checkpoint_find_tensor(r->source, PER_LAYER_TOKENS);
    size_t heads = ngram_heads(n);
    if (!t || t->rank < 2)
        return fail(r->error, HEARTH_FORMAT, "%s: tensor %s: is missing, or no matrix", r->source->path,
                    PER_LAYER_TOKENS);
    uint64_t rows = stored_tensor_rows(t);
    /* a product with a token stays below 2^63, as where the numbers are made */
    TRY(read_numbers(r, "ple.layer_multipliers", n->longest, (uint64_t)INT64_MAX / r->hyper->vocabulary_size,
                     n->multipliers));
    TRY(read_numbers(r, first_key, heads, UINT32_MAX, n->first));
    TRY(read_numbers(r, rows_key, heads, UINT32_MAX, n->rows));
    for (size_t i = 0; i < heads; i++)
        if (n->rows[i] == 0 || n->first[i] + n->rows[i] > rows)
            return hyper_fail(r, HEARTH_FORMAT, rows_key, "is 0 of a head, or there are fewer rows");
    n->row_count = (uint32_t)rows;
    return rows <= UINT32_MAX ? HEARTH_OK : hyper_fail(r, HEARTH_UNSUPPORTED, rows_key, "are too many");
}

/* Marks the layers that add n-grams: recurrent ones, with whose states the inputs of their convolution are kept. */
static hearth_status mark_layers(const hyper_reader *r, const key_value *list)
{
    static const char name[] = "ple.layers";
    const ngram_shape *n = &r->hyper->ngrams;
    uint64_t width = (uint64_t)r->hyper->stream_count * r->hyper->embedding_length;
    uint64_t kept = (n->window - 1) * (uint64_t)n->longest * width;
    if (kept > HYPER_WIDTH_LIMIT)
        return hyper_fail(r, HEARTH_FORMAT, "ple.conv_kernel", "makes too large a state");
    for (size_t i = 0; i < list->count; i++) {
        uint32_t layer = ((const uint32_t *)list->as.items)[i];
        if (layer >= r->hyper->layer_count)
            return hyper_fail(r, HEARTH_FORMAT, name, "has a number that is no layer's");
        model_layer *l = &r->model->layers[layer];
        if (l->mixer != MIXER_RECURRENT)
            return hyper_fail(r, HEARTH_UNSUPPORTED, name, "has a layer that is not recurrent");
        l->ngrams = true;
        l->recurrent.more = (uint32_t)kept;
    }
    return HEARTH_OK;
}

hearth_status hyper_read_ngrams(const hyper_reader *r)
{
    static const char name[] = "ple.layers";
    char key[KEY_SIZE];
    hyper_key(key, r->family, name);
    const key_value *list = checkpoint_find(r->source, key);
    if (!list)
        return HEARTH_OK;
    if (list->type != VALUE_ARRAY || (list->item_type != VALUE_I32 && list->item_type != VALUE_U32))
        return hyper_fail(r, HEARTH_FORMAT, name, "is not an array of numbers of layers");
    if (list->count == 0)
        return HEARTH_OK;
    if (list->count > 1)
        return hyper_fail(r, HEARTH_UNSUPPORTED, name, "has more than one layer, which share no table");
    TRY(read_sizes(r, &r->hyper->ngrams));
    TRY(read_heads(r, &r->hyper->ngrams));
    return mark_layers(r, list);
}
