/* ngrams.c - see ngrams.h.
 *
 * The convolution sees tokens far back, so its inputs are kept with the layer's recurrent state, where its own convolution's are. */
#include "ngrams.h"

#include "forward.h"
#include "products.h"
#include "recurrent.h"

#include <math.h>
#include <string.h>

/* Channels of the convolution per work item. */
#define CHANNELS 256

typedef struct adding {
    const hearth_session *s;
    const model_layer *l;
    const recurrent_layer *at; /* in the states */
} adding;

/* ------------------------------------------------------------------ embeddings */

void ngrams_rows(const ngram_shape *n, const int32_t *tokens, size_t position, uint32_t *rows)
{
    uint64_t mixed = (uint32_t)tokens[position] * n->multipliers[0];
    bool cut = false;
    for (size_t back = 1; back < n->longest; back++) {
        cut = cut || back > position || (uint32_t)tokens[position - back] == n->end;
        mixed ^= (cut ? n->end : (uint32_t)tokens[position - back]) * n->multipliers[back];
        for (size_t k = 0; k < n->heads; k++) {
            size_t head = (back - 1) * n->heads + k;
            rows[head] = (uint32_t)(mixed % n->rows[head] + n->first[head]);
        }
    }
}

/* Items are rows of the batch. */
static void embed_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const hearth_session *s = ((const adding *)context)->s;
    const hearth_model *m = s->engine->model;
    const ngram_shape *n = &m->hyper.ngrams;
    uint32_t rows[NGRAM_HEAD_LIMIT];
    float *to = s->scratch.ngrams + begin * m->hyper.embedding_length;
    for (size_t i = begin; i < end; i++) {
        ngrams_rows(n, session_tokens(s, s->scratch.sequence[i]), s->scratch.position[i], rows);
        for (size_t h = 0; h < ngram_heads(n); h++, to += n->row_length)
            number_formats[m->ngram_rows.format].decode(matrix_row(&m->ngram_rows, rows[h]), to, n->row_length);
    }
}

void ngrams_prepare(hearth_session *s, size_t count)
{
    pool_run(s->engine->runtime->threads, count, 1, embed_rows, &(adding){.s = s});
}

/* ------------------------------------------------------------------ gates */

/* Returns what the embeddings of a row are multiplied with for a stream: by how its key agrees with the stream. key: normed. */
static float gate_of(const adding *job, const float *key, const float *stream, const float *weights)
{
    const hyperparameters *h = &job->s->engine->model->hyper;
    size_t d = h->embedding_length;
    double squares = 0, sum = 0;
    for (size_t i = 0; i < d; i++) {
        squares += (double)stream[i] * (double)stream[i];
        sum += (double)key[i] * (double)stream[i] * (double)weights[i];
    }
    double score = sum / sqrt((squares / (double)d + (double)h->norm_epsilon) * (double)d);
    double root = score == 0 ? 0 : copysign(sqrt(fmax(fabs(score), 1e-6)), score);
    return (float)(1 / (1 + exp(-root)));
}

/* Items are rows. */
static void norm_keys(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const adding *job = context;
    const hyperparameters *h = &job->s->engine->model->hyper;
    size_t d = h->embedding_length, all = h->stream_count * d;
    for (size_t t = begin; t < end; t++)
        for (size_t at = 0; at < all; at += d) {
            float *key = job->s->scratch.stream_gates + t * all + at;
            job->s->engine->runtime->kernels.rms_norm(key, job->l->ngram.key_norm + at, h->norm_epsilon, d, key);
        }
}

void ngrams_project(hearth_session *s, uint32_t layer, size_t count)
{
    const scratch *b = &s->scratch;
    const model_layer *l = &s->engine->model->layers[layer];
    const product products[] = {{&l->ngram.key, b->stream_gates}, {&l->ngram.value, b->added}};
    multiply(s, b->ngrams, count, products, 2);
    pool_run(s->engine->runtime->threads, count, 1, norm_keys, &(adding){.s = s, .l = l});
}

/* Items are rows. Turns the keys in stream_gates into the gated values, adds them, and leaves them normed in stream_norms. */
static void gate_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const adding *job = context;
    const scratch *b = &job->s->scratch;
    const kernels *k = &job->s->engine->runtime->kernels;
    const hyperparameters *h = &job->s->engine->model->hyper;
    const ngram_weights *w = &job->l->ngram;
    size_t d = h->embedding_length, all = h->stream_count * d;
    for (size_t t = begin; t < end; t++)
        for (size_t at = 0; at < all; at += d) {
            float *gated = b->stream_gates + t * all + at, *stream = b->streams + t * all + at;
            float gate = gate_of(job, gated, stream, w->stream_norm + at);
            for (size_t i = 0; i < d; i++)
                gated[i] = gate * b->added[t * d + i];
            k->rms_norm(gated, w->convolved_norm + at, h->norm_epsilon, d, b->stream_norms + t * all + at);
            k->add(gated, d, stream);
        }
}

/* ------------------------------------------------------------------ convolution */

/* Returns the inputs of the convolution so many tokens before row t of a run, from channel `first` on: in the batch, or in what was
 * kept before the run; NULL: they are zero. */
static const float *inputs_before(const adding *job, const row_run *run, const float *kept, size_t t, size_t age)
{
    const hyperparameters *h = &job->s->engine->model->hyper;
    size_t all = (size_t)h->stream_count * h->embedding_length;
    size_t reach = (size_t)(h->ngrams.window - 1) * h->ngrams.longest;
    if (age <= t)
        return job->s->scratch.stream_norms + (run->first + t - age) * all;
    return kept ? kept + (reach + t - age) * all : NULL;
}

/* Adds the convolution of a run to `n` channels of the streams, from `first` on. */
static void convolve(const adding *job, const row_run *run, const float *kept, size_t first, size_t n)
{
    const hyperparameters *h = &job->s->engine->model->hyper;
    size_t all = (size_t)h->stream_count * h->embedding_length, window = h->ngrams.window;
    const kernels *k = &job->s->engine->runtime->kernels;
    float sum[CHANNELS];
    for (size_t t = 0; t < run->count; t++) {
        memset(sum, 0, n * sizeof *sum);
        for (size_t tap = 0; tap < window; tap++) {
            const float *x = inputs_before(job, run, kept, t, (window - 1 - tap) * h->ngrams.longest);
            for (size_t c = 0; x && c < n; c++)
                sum[c] += job->l->ngram.convolution[(first + c) * window + tap] * x[first + c];
        }
        k->activate[ACTIVATION_SILU](sum, NULL, no_terms, n, sum);
        k->add(sum, n, job->s->scratch.streams + (run->first + t) * all + first);
    }
}

/* Keeps the last inputs for the tokens after a run, oldest first. */
static void keep(const adding *job, const row_run *run, const float *kept, size_t first, size_t n, float *to)
{
    const hyperparameters *h = &job->s->engine->model->hyper;
    size_t all = (size_t)h->stream_count * h->embedding_length;
    size_t reach = (size_t)(h->ngrams.window - 1) * h->ngrams.longest;
    for (size_t i = 0; i < reach; i++) {
        const float *x = inputs_before(job, run, kept, run->count, reach - i);
        if (x)
            memmove(to + i * all + first, x + first, n * sizeof *to); /* `kept` may be `to` */
        else
            memset(to + i * all + first, 0, n * sizeof *to);
    }
}

/* Items are channels, in multiples of CHANNELS. */
static void convolve_channels(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const adding *job = context;
    const recurrent_states *states = &job->s->recurrent;
    size_t more = recurrent_more_at(&job->l->recurrent);
    for (size_t i = 0; i < job->s->scratch.run_count; i++) {
        const row_run *run = &job->s->scratch.runs[i];
        const float *before = recurrent_before(states, job->at, run), *kept = before ? before + more : NULL;
        convolve(job, run, kept, begin, end - begin);
        keep(job, run, kept, begin, end - begin, recurrent_after(states, job->at, run) + more);
    }
}

void ngrams_add(hearth_session *s, uint32_t layer, size_t count)
{
    const hyperparameters *h = &s->engine->model->hyper;
    adding job = {s, &s->engine->model->layers[layer], &s->recurrent.layers[s->engine->layers[layer].cache_index]};
    ngrams_project(s, layer, count);
    pool_run(s->engine->runtime->threads, count, 1, gate_rows, &job);
    pool_run(s->engine->runtime->threads, (size_t)h->stream_count * h->embedding_length, CHANNELS, convolve_channels,
             &job);
}
