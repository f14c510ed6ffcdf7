/* hyper_summaries.c - reads what attention computes with summaries of positions (see hyper_reader.h; attention_shape.summary). */
#include "hyper_reader.h"

/* Most positions of a summary that overlaps; longer ones do not. */
#define OVERLAPPING 4

/* Reads the matrices that lie before those of queries, and before that of the output. */
static hearth_status read_ranks(const hyper_reader *r, attention_shape *a)
{
    static const char groups_key[] = "attention.output_group_count", rank_key[] = "attention.output_lora_rank",
                      query_key[] = "attention.q_lora_rank";
    TRY(hyper_size(r, query_key, &a->query_rank, NULL));
    TRY(hyper_size(r, groups_key, &a->output_groups, NULL));
    TRY(hyper_size(r, rank_key, &a->output_rank, NULL));
    if (a->query_rank == 0 || a->query_rank > HEAD_LIMIT)
        return hyper_fail(r, HEARTH_FORMAT, query_key, "is 0 or too large");
    if (a->output_groups == 0 || a->head_count % a->output_groups != 0)
        return hyper_fail(r, HEARTH_FORMAT, groups_key, "does not divide attention.head_count");
    if (a->output_rank == 0 || (uint64_t)a->output_groups * a->output_rank > HYPER_WIDTH_LIMIT)
        return hyper_fail(r, HEARTH_FORMAT, rank_key, "is 0 or too large");
    return HEARTH_OK;
}

/* Reads which summaries a token sees, and what scores them. */
static hearth_status read_choice(const hyper_reader *r, attention_shape *a)
{
    static const char count_key[] = "attention.indexer.top_k";
    uint32_t count = 0;
    TRY(hyper_size(r, count_key, &count, NULL));
    TRY(hyper_read_scorers(r, &a->index));
    if (count == 0 || (uint64_t)count * a->summary.together > HYPER_WIDTH_LIMIT)
        return hyper_fail(r, HEARTH_FORMAT, count_key, "is 0 or too large");
    a->pool = a->summary.together;
    a->chosen = count * a->pool;
    return HEARTH_OK;
}

hearth_status hyper_read_summaries(const hyper_reader *r, uint32_t layer)
{
    static const char ratio_key[] = "attention.compress_ratios";
    attention_shape *a = &r->model->layers[layer].attention;
    summary_shape *s = &a->summary;
    char key[KEY_SIZE];
    const key_value *list;
    a->one_key = a->norm_queries = true;
    if (a->kv_head_count != 1)
        return hyper_fail(r, HEARTH_UNSUPPORTED, "attention.head_count_kv", "is not 1");
    if (a->window == 0)
        return hyper_fail(r, HEARTH_FORMAT, "attention.sliding_window", "is missing or 0");
    TRY(read_ranks(r, a));
    hyper_key(key, r->family, ratio_key);
    list = checkpoint_find(r->source, key);
    if (!list || list->type != VALUE_ARRAY || (list->item_type != VALUE_U32 && list->item_type != VALUE_I32) ||
        list->count < r->hyper->layer_count) /* there may be more, of blocks that guess ahead */
        return hyper_fail(r, HEARTH_FORMAT, ratio_key, "is not an array of one number per layer");
    s->together = ((const uint32_t *)list->as.items)[layer];
    if (s->together == 0)
        return HEARTH_OK;
    if (s->together < 2 || s->together > KV_PAGE || KV_PAGE % s->together != 0)
        return hyper_fail(r, HEARTH_UNSUPPORTED, ratio_key,
                          "has a number that is no power of two from 2 to 128, nor 0");
    s->parts = s->together == OVERLAPPING ? 2 : 1;
    if (s->parts > 1)
        TRY(read_choice(r, a));
    uint32_t kept = summary_floats(a, a->head_length) + summary_floats(a, a->index.head_length);
    r->model->layers[layer].recurrent = (recurrent_shape){.window = 1, .more = kept};
    return HEARTH_OK;
}
