/* latent.c - see latent.h.
 *
 * A cached key has r values that rotate and C that are compressed. The matrix that would make the keys of a head of C values
 * is multiplied with its query instead, once for a token and not for every position: n values become C. Likewise what a head
 * has read of the compressed values becomes its V values afterwards. Both are products of one matrix per head with rows of
 * their own, head after head: all heads are one job. */
#include "latent.h"

#include "inputs_internal.h"
#include "products.h"

#include <string.h>

typedef struct latent_job {
    hearth_session *s;
    const attention_shape *a;
    const model_layer *l;
    uint32_t heads;      /* that have matrices of their own, or groups of them */
    size_t first, count; /* rows of the batch whose heads are multiplied now */
} latent_job;

static void norm_rows(const hearth_session *s, const norm_weights *w, size_t n, size_t count, float *x)
{
    for (size_t i = 0; i < count; i++)
        s->engine->runtime->kernels.rms_norm(x + i * n, w->weight, s->engine->model->hyper.latent_epsilon, n,
                                             x + i * n);
}

/* Returns the values of a key, and of a query, that rotate. */
static size_t rotated(const attention_shape *a)
{
    return a->head_length - a->compressed;
}

/* Items are rows. The file has the compressed values first; norms them, and copies what rotates of the queries. */
static void place_rotated(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const latent_job *job = context;
    const attention_shape *a = job->a;
    const scratch *b = &job->s->scratch;
    size_t r = rotated(a), bytes = r * sizeof(float);
    for (size_t i = begin; i < end; i++) {
        float *key = b->key + i * a->head_length;
        const float *from = b->short_key + i * a->head_length;
        memcpy(key, from + a->compressed, bytes);
        memcpy(key + r, from, a->compressed * sizeof *key);
        norm_rows(job->s, &job->l->compressed_norm, a->compressed, 1, key + r);
        for (size_t h = 0; h < a->head_count; h++)
            memcpy(b->query + (i * a->head_count + h) * a->head_length,
                   b->short_query + (i * a->head_count + h) * short_query(a) + a->unrotated, bytes);
    }
}

/* `length` values of each head of each row of `rows` [count][H][stride], which begin at value `at`. */
typedef struct head_values {
    float *rows;
    size_t stride, at, length;
} head_values;

typedef struct moving {
    const latent_job *job;
    head_values values;
    float *heads; /* [H][rows of the job][length] */
    bool collects;
} moving;

/* Items are heads. Copies the values of a head to those of its rows that lie together, or back. */
static void move_heads(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const moving *m = context;
    const latent_job *job = m->job;
    size_t n = m->values.length, bytes = n * sizeof(float);
    for (size_t h = begin; h < end; h++)
        for (size_t i = 0; i < job->count; i++) {
            float *together = m->heads + (h * job->count + i) * n;
            float *apart = m->values.rows + ((job->first + i) * job->heads + h) * m->values.stride + m->values.at;
            memcpy(m->collects ? together : apart, m->collects ? apart : together, bytes);
        }
}

/* Multiplies values of each head of the job's rows with the head's own matrix of w. */
static void multiply_heads(const latent_job *job, const matrix *w, head_values from, head_values to)
{
    hearth_session *s = job->s;
    const scratch *b = &s->scratch;
    pool *threads = s->engine->runtime->threads;
    size_t heads = job->heads;
    for (uint32_t h = 0; h < heads; h++)
        b->head_groups[h] = (expert_group){h, (uint32_t)(h * job->count), (uint32_t)job->count};
    pool_run(threads, heads, 1, move_heads, &(moving){job, from, b->head_in, true});
    kernel_input in = products_input(s, b->head_in, heads * job->count, from.length, &w, 1, &b->rounded);
    expert_product each = {w, b->head_out, (uint32_t)to.length, to.length};
    multiply_experts(s, &in, b->head_groups, heads, &each, 1);
    pool_run(threads, heads, 1, move_heads, &(moving){job, to, b->head_out, false});
}

/* Takes LATENT_ROWS rows at a time through the heads' matrices. */
static void multiply_all(latent_job *job, size_t count, const matrix *w, head_values from, head_values to)
{
    for (job->first = 0; job->first < count; job->first += job->count) {
        job->count = count - job->first < LATENT_ROWS ? count - job->first : LATENT_ROWS;
        multiply_heads(job, w, from, to);
    }
}

void latent_queries(hearth_session *s, uint32_t layer, size_t count, float *out)
{
    const model_layer *l = &s->engine->model->layers[layer];
    norm_rows(s, &l->query_in_norm, l->attention.query_rank, count, s->scratch.query_in);
    inputs_see(s, layer, INPUT_QUERIES, s->scratch.query_in, count);
    multiply(s, s->scratch.query_in, count, &(product){&l->q, out}, 1);
}

void latent_groups(hearth_session *s, uint32_t layer, size_t count)
{
    const model_layer *l = &s->engine->model->layers[layer];
    const attention_shape *a = &l->attention;
    latent_job job = {.s = s, .a = a, .l = l, .heads = a->output_groups};
    size_t length = read_width(a) / a->output_groups;
    inputs_see(s, layer, INPUT_GROUPS, s->scratch.mixed, count * a->output_groups);
    multiply_all(&job, count, &l->output_in, (head_values){s->scratch.mixed, length, 0, length},
                 (head_values){s->scratch.result, a->output_rank, 0, a->output_rank});
}

void latent_project(hearth_session *s, uint32_t layer, size_t count)
{
    const model_layer *l = &s->engine->model->layers[layer];
    const scratch *b = &s->scratch;
    const attention_shape *a = &l->attention;
    latent_job job = {.s = s, .a = a, .l = l, .heads = a->head_count};
    bool narrow = a->query_rank > 0;
    const product of_input[] = {narrow ? (product){&l->query_in, b->query_in} : (product){&l->q, b->short_query},
                                {&l->k, b->short_key},
                                {&l->attention_gate, b->gated_query}};
    multiply(s, b->normed, count, of_input, l->attention_gate.data ? 3 : 2);
    if (narrow)
        latent_queries(s, layer, count, b->short_query);
    pool_run(s->engine->runtime->threads, count, 1, place_rotated, &job);
    multiply_all(&job, count, &l->key_up, (head_values){b->short_query, short_query(a), 0, a->unrotated},
                 (head_values){b->query, a->head_length, rotated(a), a->compressed});
}

void latent_results(hearth_session *s, uint32_t layer, size_t count)
{
    const model_layer *l = &s->engine->model->layers[layer];
    const scratch *b = &s->scratch;
    const attention_shape *a = &l->attention;
    latent_job job = {.s = s, .a = a, .l = l, .heads = a->head_count};
    multiply_all(&job, count, &l->value_up, (head_values){b->mixed, a->head_length, rotated(a), a->compressed},
                 (head_values){b->result, a->value_length, 0, a->value_length});
}
