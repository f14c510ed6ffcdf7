/* layer.h - a layer as data: its shape, which says what is computed, and its weights.
 *
 * The CPU, devices, placements, profiles and evaluations read the shape of the layer that they work on. What all layers
 * have in common is in hyperparameters (model.h). A family (family.h) is a way to fill in these fields. */
#ifndef MODEL_LAYER_H
#define MODEL_LAYER_H

#include "family.h"

// clang-format off

/* ------------------------------------------------------------------ attention */

/* Rotary positions: how far each pair of values of a head is rotated. */
typedef struct rotary {
    rope_pairing pairing;
    uint32_t pairs;                     /* rotated pairs of a head; its other values stay as they are          */
    uint32_t first;                     /* pairs of the model's rotaries before this one: where its angles lie */
    uint32_t back;                      /* a token has the angles of the position so far before its own        */
    bool last;                          /* the rotated values are the last of a head, not its first            */
    float magnitude;                    /* yarn's factor on cosine and sine; 1                                 */
    const double *frequencies;          /* [pairs] radians per position, scaling included; double, so that angles at
                                           large positions stay accurate */
    const double *long_frequencies;     /* [pairs] in sessions of more than long_from positions; NULL: the same ones */
    uint32_t long_from;
} rotary;

/* How a layer scores the positions that it chooses among (attention_shape.chosen). */
typedef struct index_shape {
    uint32_t head_count;                /* J                                                      */
    uint32_t head_length;               /* I                                                      */
    const rotary *rotary;               /* of its queries and keys: the angles of attention       */
    bool plain;                         /* heads weigh the same, and queries are made of the layer's input and normed; keys of
                                           pools are plain means, which are normed and turned ... */
    bool by_head;                       /* ... or there are none, as each head of keys sees what a head of its own chooses */
    const rotary *pool_rotary;          /* of means, by the last token of a pool: the angles of its first          */
} index_shape;

/* Summaries of neighbouring positions (compressed attention of DeepSeek V4). Beside the positions in its window a token sees keys
 * that stand for so many positions each, counted from the first: those of all whole groups of them. With v and g, products of
 * the input of each position, and b, a bias by its place in the group, the key's column i is
 *
 *   sum over positions of v_i exp(g_i + b_i) / sum over positions of exp(g_i + b_i)
 *
 * normed, and turned to the group's first position. Where summaries overlap, v, g and b have two parts, and the sums go over the
 * first part of the group before (of the first group: nothing) and the second part of their own. */
typedef struct summary_shape {
    uint32_t together;                  /* positions of a summary, which divide KV_PAGE; 0: there are none */
    uint32_t parts;                     /* 2 where summaries overlap, else 1                      */
    const rotary *rotary;               /* by the last token of a group the angles of its first   */
} summary_shape;

/* What attention computes: out = softmax(scale * q . k) v, by heads. */
typedef struct attention_shape {
    uint32_t head_count;
    uint32_t kv_head_count;             /* divides head_count; heads of keys and values, shared by groups of queries */
    uint32_t head_length;               /* values of a query or key                               */
    uint32_t window;                    /* positions seen, itself included; 0: all                */
    bool chunked;                       /* of the positions it sees those from the last multiple of window on     */
    bool grows;                         /* scores grow with the position (hyperparameters.score_growth)           */
    float scale;                        /* on q . k                                               */
    float value_scale;                  /* on what heads read                                     */
    float softcap;                      /* scores s become softcap * tanh(s / softcap); 0: they stay as they are */
    bool norm_whole;                    /* norms of query and key take all heads together; false: each head alone */
    bool norm_values;                   /* values are normed, each head alone, without weights    */
    bool norm_plain;                    /* and so are queries and keys                            */
    bool norm_queries;                  /* queries are, and keys by norms of their own            */
    bool one_key;                       /* keys are the values, too: one matrix makes both        */
    bool norm_turned;                   /* queries and keys are normed after the rotation. Keys then have no weights, and lie so in
                                           the cache; those of queries are the products of both    */
    uint32_t keys_back;                 /* it reads the keys and values of the layer so many layers before it; 0: its own */
    uint32_t gate_length;               /* the result is multiplied with the logistic function of gates, so many for a head: one for
                                           each of its V values, of attention_gate or without that of every other head of q, or 1
                                           for all of them; 0: it is not */
    bool gate_softplus;                 /* with log(1 + exp(gate)) in place of the logistic function */
    /* Latent attention (arXiv 2405.04434): C values of a position hold the keys and values of all heads. What is cached is
     * one key of head_length = r + C values, r that rotate and then those C, which are the value too. A head's query has n
     * values that a matrix (key_up) makes C of, and r; another matrix (value_up) makes the head's V values of the result. */
    uint32_t compressed;                /* C; 0: heads have keys and values of their own          */
    uint32_t unrotated;                 /* n                                                      */
    uint32_t value_length;              /* V; without latent attention the values of a value, at most those of a key */
    uint32_t query_rank;                /* values between two matrices that make the queries; 0: one matrix makes them */
    const rotary *rotary;               /* of queries and keys; NULL: they are not rotated        */
    const rotary *back_rotary;          /* turns what heads have read by the opposite angles; NULL: nothing does */
    /* Between what heads have read and the output matrix lies one matrix for each of so many groups of neighbouring heads, which
     * makes so many values of it; 0: none does. */
    uint32_t output_groups, output_rank;
    summary_shape summary;
    /* Chosen positions (DeepSeek Sparse Attention, arXiv 2512.02556). Of more positions than `chosen` a token sees those with the
     * highest scores, of equal ones the first. Heads of their own score them: each has a query, made of what makes those of
     * latent attention, and a weight; they share one key, which is cached as those of attention are:
     *
     *   score = sum over heads of weight * max(0, query . key)
     *
     * Where `pool` positions, counted from the first, share a score, their key is a mean of theirs, column by column, with weights
     * softmax(gate + bias) over them. Those after the last whole pool are seen, too. In some models (Qwen Sparse Attention) the mean
     * is plain, and is normed and turned to the pool's first position; then heads weigh the same, and their queries are made of the
     * layer's input (index_shape.plain).
     *
     * In others (MiniMax Sparse Attention) each head of keys sees what a head of its own chooses (index_shape.by_head): there the score of
     * a pool is the best query . key of its positions, which may be below 0, and keys are normed and turned as queries are. The last
     * `last_pools` pools, with that of the token, are seen in any case.
     *
     * Where there are summaries, a pool is a summary, and these are chosen: of keys so many `chosen / pool`. What scores them are
     * summaries, too, with keys of the length of index_shape. */
    uint32_t chosen;                    /* 0: all                                                 */
    uint32_t last_pools;                /* 0: those after the last whole pool are seen            */
    uint32_t pool;                      /* positions that share a score, and are chosen together; 1 */
    uint32_t chosen_back;               /* the layer so many layers before has chosen them; 0: this one does */
    index_shape index;                  /* all zero where it does not                             */
} attention_shape;

/* ------------------------------------------------------------------ recurrent mixers */

/* Most tokens that a convolution sees. */
#define CONVOLUTION_LIMIT 16

/* The epsilon of the norm of RWKV-7's heads. */
#define RWKV_HEAD_EPSILON 64e-5f

/* What of an RWKV-7 layer is made by two matrices of low rank each: the decay of its state's columns, the rate at which it learns,
 * the share that the first layer's values have in its own, and the gate on its result. KDA has the first and the last. */
typedef enum low_rank_use { MAP_DECAY, MAP_RATE, MAP_VALUE, MAP_GATE, LOW_RANK_MAPS } low_rank_use;

/* What its matrices read: each another mixture of a token's input and the one before, in the order of files. */
typedef enum rwkv_input {
    RWKV_IN_QUERY, RWKV_IN_DECAY, RWKV_IN_KEY, RWKV_IN_VALUE, RWKV_IN_RATE, RWKV_IN_GATE, RWKV_INPUTS
} rwkv_input;

/* What a recurrent mixer computes. MAMBA2 and DELTA: each of its heads has a state S [value_length][key_length], which is all that remains of
 * the tokens before. For every token with its key k, query q and value v:
 *
 *   S = decay S + gain (v - answer) k',   out = S q
 *
 * MAMBA2:  decay = exp(-exp(A) gain), gain = softplus(step + bias), answer = 0 (arXiv 2405.21060).
 * DELTA:   decay likewise, gain = sigmoid(beta), answer = S k after the decay (gated delta rule, arXiv 2412.06464).
 *
 * Keys, queries and values come out of a product and pass a causal convolution over the last tokens of each channel, and
 * silu. Heads share keys and queries in groups.
 *
 * RWKV7 (arXiv 2503.14456): each column of the state has its own decay, w, and what is taken out of the state is asked for, and
 * lies, elsewhere than what is added to it. With c = k * removal_scale, scaled to a length of 1 by heads, and a rate a:
 *
 *   S = S diag(w) - (S c) (a * c)' + v (k * (1 + (a - 1) * rate_share))',   out = S q
 *
 * Here q, k and v come out of products of their own, without a convolution: each product reads x + mix * (before - x), of its
 * input x and that of the token before. w = exp(-exp(-1/2) sigmoid(.)) and a = sigmoid(.) of what two matrices of low rank make. In
 * all layers but the first, v moves towards the first layer's by a share that is made likewise. The result is normed by heads
 * (mean and deviation); of each head its value is added, times the sum of q * k * bonus; and a gate of low rank multiplies it.
 *
 * KDA (Kimi Delta Attention, arXiv 2510.26692): DELTA with a decay for each column of the state, w = exp(-exp(A) softplus(.)) of what
 * two matrices of low rank make of the input and a bias:
 *
 *   S = S diag(w),   S = S + sigmoid(beta) (v - S k) k',   out = S q
 *
 * Every head has a key and a query; queries, keys and values come out of three products. The gate on its result, out of two
 * matrices of low rank, goes through the logistic function. In later models w = exp(floor sigmoid(exp(A) .)), which no input brings
 * below exp(floor); and in some one matrix [V][d] is in the place of two of low rank, where their rank is 0 (low_rank_map.in).
 *
 * SHORT: there is no state but the inputs of the convolution, and no silu. Values are multiplied with an input gate before it
 * and with a gate behind it, both out of products. It has one head with all values, and keys of no values. */
typedef struct recurrent_shape {
    recurrence rule;
    uint32_t head_count;                /* H                                                      */
    uint32_t value_length;              /* P: values of a head, rows of its state                 */
    uint32_t key_count;                 /* G: keys, and queries; divides head_count               */
    uint32_t neighbours;                /* 1: heads that use the same key are neighbours: head h uses key h / (H / G); 0: h % G */
    uint32_t key_length;                /* N: values of a key, columns of the state               */
    uint32_t window;                    /* W: tokens that the convolution sees, itself included; of RWKV7 2 */
    uint32_t ranks[LOW_RANK_MAPS];      /* of RWKV7, where that of the value is 0 in the first layer, and of KDA, where
                                           0 is a whole matrix                           */
    float decay_floor;                  /* of KDA, below 0: see above; 0: none                    */
    bool gate_logistic;                 /* of DELTA: the gate on the result goes through the logistic function, not silu */
    uint32_t more;                      /* values that the layer's n-grams (ngram_shape) or summaries keep of a sequence */
} recurrent_shape;

/* Returns the values of all heads of a token. */
static inline uint32_t recurrent_width(const recurrent_shape *r)
{
    return r->head_count * r->value_length;
}
/* Returns the channels of the convolution: all values, keys and queries of a token. RWKV7: its two inputs, of the mixer and of
 * the network, which are kept as those of a convolution are. */
static inline uint32_t recurrent_channels(const recurrent_shape *r)
{
    if (r->rule == RECURRENCE_RWKV7)
        return 2 * recurrent_width(r);
    return recurrent_width(r) + 2 * r->key_count * r->key_length;
}

/* Returns whether the columns of a state have decays of their own. */
static inline bool recurrent_by_columns(const recurrent_shape *r)
{
    return r->rule == RECURRENCE_RWKV7 || r->rule == RECURRENCE_KDA;
}

/* ------------------------------------------------------------------ feed-forward network */

/* Most experts of a layer. */
#define EXPERT_LIMIT 1024

/* How a layer chooses among its experts, and what it multiplies their results with: their scores, or the scores'
 * shares of the sum over the chosen ones, times a factor. */
typedef struct router_shape {
    uint32_t expert_count;              /* 0: the layer has one network, which is always used     */
    uint32_t used;                      /* experts that a token uses                              */
    uint32_t group_count, group_used;   /* neighbouring experts form groups; only so many groups with the best two
                                           experts stay; 0 or 1: no groups                        */
    router_scoring scoring;
    bool by_token;                      /* each token has its experts, whatever their scores (model_layer.token_experts) */
    bool shares;                        /* divided by the sum of the chosen ones                  */
    bool early;                         /* it reads what enters the layer; false: what its experts read, or, where it has
                                           a norm of its own, the residual stream normed by that */
    bool weighs_input;                  /* an expert's share multiplies what it reads, in place of what it gives  */
    float input_scale;                  /* of the router's products, 1                            */
    float shared_scale;                 /* of what the shared expert gives, 1                     */
    float scale;
} router_shape;

/* What a feed-forward network computes: down . h + bias, where h is the activation of each neuron. Experts are ranges of
 * neurons: expert e has neurons [e * expert_neurons, (e + 1) * expert_neurons). */
typedef struct ffn_shape {
    uint32_t neuron_count;              /* f, those of all experts and of the shared one; 0: the layer has no network */
    uint32_t expert_neurons;            /* of one expert; without experts: f                      */
    uint32_t shared_neurons;            /* of the expert that every token uses; they come last    */
    uint32_t latent;                    /* width of what experts read and write: a matrix leads there and one back;
                                           0: they read and write d values, like the router and the shared expert */
    router_shape router;
    ffn_gating gating;
    ffn_activation activation;
    float threshold;                    /* FATReLU; 0 for ReLU; the limit of activations that have one, 0: none */
    activation_curve curve;             /* of FFN_XIELU, else zero */
    float shared_threshold;             /* that of the shared expert: the same, unless it is another limit */
    bool cuts;                          /* before the activation every first value loses m + cut * s, of the mean m and the
                                           deviation s of those of all neurons; what is below that becomes zero */
    float cut;
} ffn_shape;

/* Returns what the activation of a layer depends on; that of a shared expert may have another threshold. */
static inline activation_terms ffn_terms(const ffn_shape *f)
{
    return (activation_terms){f->threshold, f->curve};
}

/* Returns how many matrices lie one after another in each of the layer's: one per expert; 1 without experts. */
static inline uint32_t ffn_experts(const ffn_shape *f)
{
    return f->router.expert_count > 0 ? f->router.expert_count : 1;
}

/* Returns the neurons of the layer's own matrices: all but those of the shared expert. */
static inline uint32_t ffn_routed(const ffn_shape *f)
{
    return f->neuron_count - f->shared_neurons;
}

/* Returns the values that an expert reads and writes. */
static inline uint32_t ffn_expert_width(const ffn_shape *f, uint32_t embedding_length)
{
    return f->latent > 0 ? f->latent : embedding_length;
}

/* Returns true where the activations of neurons are often exactly zero, so that they can be skipped without loss. */
static inline bool ffn_skippable(const ffn_shape *f)
{
    return f->neuron_count > 0 && (ffn_has_zeros(f->activation) || f->cuts);
}

/* Returns true where a predictor can tell which of them are zero: where first values are cut that depends on all. */
static inline bool ffn_predictable(const ffn_shape *f)
{
    return ffn_skippable(f) && !f->cuts;
}

/* ------------------------------------------------------------------ predictors */

/* Largest rank of a predictor. The largest known ones have 4096; the engine stores rank float32 values per row. */
#define PREDICTOR_RANK_LIMIT 65536

/* The kinds of predictors: how the neurons of a layer that may fire are found before they are computed. */
typedef enum predictor_kind {
    PREDICTOR_NONE,
    PREDICTOR_LOW_RANK,                 /* score = fc2 . relu(fc1 . input); a neuron is computed where its score is at
                                           least the threshold */
    PREDICTOR_COARSE,                   /* a low-bit copy of the first matrix, made with the engine; a neuron is
                                           computed where the copy's product with the input, plus `threshold` standard
                                           deviations of its rounding error, reaches the value at which the neuron
                                           fires */
    PREDICTOR_KINDS
} predictor_kind;

/* A predictor. Those of a PowerInfer file read the residual stream and share the file's threshold. */
typedef struct learned_predictor {
    predictor_kind kind;
    bool reads_normed;                  /* low-rank: true: the input is the normed input of the FFN; false: the
                                           residual stream before the norm. Coarse ones always read the normed input */
    number_format coarse_format;
    float threshold;
    matrix fc1;                         /* [rank][d]  low-rank                            */
    matrix fc2;                         /* [f][rank]  a row per row of gate               */
} learned_predictor;

/* ------------------------------------------------------------------ layer */

/* A norm: out = (x - mean) / deviation * weight + bias, or without mean and bias (hyperparameters.norm). */
typedef struct norm_weights {
    const float *weight;                /* NULL: there is no norm at this place           */
    const float *bias;                  /* NULL: none                                     */
} norm_weights;

/* A network without biases and router, beside the layer's own. s: its neurons. */
typedef struct ffn_network {
    matrix gate, up;                    /* [s][d]                                         */
    matrix down;                        /* [d][s], or ...                                 */
    matrix down_t;                      /* [s][d]                                         */
} ffn_network;

/* Most streams of the residual. */
#define STREAM_LIMIT 8

/* What a layer with several streams of the residual has for them. S: streams. */
typedef struct stream_weights {
    norm_weights router_norm;           /* [d]                                            */
    matrix router;                      /* [S][d]  its results, through tanh, weigh the following */
    const float *predict;               /* [S * S][S]                                     */
    const float *correct;               /* [S][S]                                         */
    const float *correct_scale;         /* [d] of what the layer's own input sees; NULL: nothing */
    matrix laurel_in, laurel_out;       /* [r][d], [d][r]  beside attention (LAuReL, arXiv 2411.07501) */
    norm_weights laurel_norm;           /* [d]                                            */
} stream_weights;

/* Most scales of a stream_connection. */
#define CONNECTION_SCALES 3

/* What connects a block of a layer with S streams h of the residual (manifold-constrained hyper-connections, arXiv 2512.24880), in
 * WIRING_CONNECTED. m = weights rms(h) of all streams of a token, one after the other; then, with the parts of m, scale and base:
 *
 *   before = sigmoid(scale[0] m[0 .. S] + base) + epsilon             x = sum before_i h_i   what the block reads
 *   after  = magnitude sigmoid(scale[1] m[S .. 2S] + base)            magnitude 2
 *   mix    = softmax(scale[2] m[2S .. 2S + S * S] + base) + epsilon   by rows [from][to], whose rows and columns are then divided
 *                                                                     by their sums, plus epsilon, in turns: connection_steps
 *   h_i    = after_i block(x) + sum_j mix_ji h_j
 *
 * In some models (Hy4) streams are not mixed: M is 2 S, to `after` epsilon is added as to `before`, and h_i = after_i block(x) + h_i. */
typedef struct stream_connection {
    matrix weights;                     /* [M][S * d]  M = 2 S + S * S                    */
    const float *base;                  /* [M]                                            */
    const float *scale;                 /* [CONNECTION_SCALES], or 2 where nothing is mixed */
} stream_connection;

/* In some models of WIRING_CONNECTED streams are gated, value by value, by two matrices of low rank R in place of that (Qwen3.8):
 * with n, all streams of a token, each normed by its root mean square and the norm's weights,
 *
 *   x = 1 / S sum sigmoid(up silu(down n / S))_i n_i   what the block reads, without another norm
 *   h_i = h_i + 2 sigmoid(inject n / S)_i block(x) */
typedef struct gated_connection {
    const float *norm;                  /* [S * d]                                        */
    matrix down, up;                    /* [R][S * d], [S * d][R]                         */
    matrix inject;                      /* [S][S * d]; of the end of all layers, whose x is the result, none */
} gated_connection;

/* ------------------------------------------------------------------ n-grams */

#define NGRAM_LIMIT 8        /* most tokens of an n-gram        */
#define NGRAM_HEAD_LIMIT 64  /* most rows that a token reads    */

/* Embeddings of the last tokens, which some layers add to the streams (Qwen3.8). Of each length from 2 to `longest` several heads have a
 * row for n-grams whose hashes agree: with the multipliers m, tokens t of which t_0 is the last, and xor,
 *
 *   row = (t_0 m_0 ^ t_1 m_1 ^ ...) mod rows_h + first_h
 *
 * Before the first token, and at and before a token `end` that is not the last, there are tokens `end`. The rows of all heads, one
 * after the other, are e. */
typedef struct ngram_shape {
    uint32_t longest;                   /* 0: there are none                                      */
    uint32_t heads;                     /* of each length                                         */
    uint32_t window;                    /* tokens that the convolution sees, each `longest` apart from the next */
    uint32_t end;
    uint32_t row_length, row_count;     /* of the tables of all heads together                    */
    uint64_t multipliers[NGRAM_LIMIT];
    uint64_t first[NGRAM_HEAD_LIMIT], rows[NGRAM_HEAD_LIMIT];
} ngram_shape;
/* Returns how many rows a token reads. */
static inline uint32_t ngram_heads(const ngram_shape *n)
{
    return n->longest > 0 ? (n->longest - 1) * n->heads : 0;
}

/* How a layer adds them to the streams h, before anything else. The norms are of each stream alone, by root mean square:
 *
 *   s_i = norm(key e)_i . norm(h)_i / sqrt(d)      g_i = sigmoid(sign(s_i) sqrt(max(|s_i|, 1e-6))) (value e)
 *   h_i = h_i + g_i + silu(convolution(norm(g)))_i */
typedef struct ngram_weights {
    matrix key, value;                  /* [S * d][d], [d][d]  e has d values             */
    const float *key_norm, *stream_norm, *convolved_norm; /* [S * d]                      */
    const float *convolution;           /* [S * d][window]  the last weight is the token's own */
} ngram_weights;

/* Two matrices of low rank r, with an activation between in RWKV-7: bias + out . act(in . x). V as in model_layer. Where the rank is
 * 0 in KDA, `in` is one of [V][d], and there is no `out`. */
typedef struct low_rank_map {
    matrix in, out;                     /* [r][d], [V][r]; without data: there is none    */
    const float *bias;                  /* [V], or NULL                                   */
} low_rank_map;

/* One layer. Every weight matrix is [out][in]: one row per output. NULL data: the model has no such matrix.
 * Q = head_count * head_length, K = kv_head_count * head_length; of values, which may be shorter, R = head_count * value_length and
 * E = kv_head_count * value_length. */
typedef struct model_layer {
    mixer_kind mixer;
    attention_shape attention;          /* of MIXER_ATTENTION, else zero                          */
    recurrent_shape recurrent;          /* of MIXER_RECURRENT; of others only `more`, where they keep something */
    ffn_shape ffn;
    layer_wiring wiring;

    norm_weights attention_norm;        /* [d]                                            */
    matrix q;                           /* [Q][d]; gated without attention_gate [2 Q][d]: of each head the query, then its gate */
    matrix k;                           /* [K][d]                                         */
    matrix v;                           /* [E][d]  without it, values are the keys before their norm */
    matrix attention_gate;              /* [head_count * gate_length][d]                  */
    matrix qkv;                         /* [Q + K + E][d]  all three, as some files have them: q, k and v are its rows */
    const float *q_bias, *k_bias, *v_bias;  /* [Q], [K], [E], or NULL                     */
    /* Latent attention, with letters as in attention_shape; H: heads. k is [C + r][d], without v; q is [H * (n + r)][d], or of
     * what query_in makes. */
    matrix query_in;                    /* [query_rank][d]                                */
    norm_weights query_in_norm;         /* [query_rank]                                   */
    norm_weights compressed_norm;       /* [C]                                            */
    matrix key_value_up;                /* [H * (n + V)][C]  of each head the rows that made its keys, then those of its
                                           values: where a file has both in one, of which the next two are made     */
    matrix key_up;                      /* [H * C][n]  of each head its C rows            */
    matrix value_up;                    /* [H * V][C]                                     */
    /* Without it, queries may be made by two matrices as well. */
    matrix output_in;                   /* [output_groups * output_rank][R / output_groups] */
    /* Summaries, with K as above and P parts: of values, and of gates. */
    matrix summary_value, summary_gate; /* [P * K][d]                                     */
    const float *summary_bias;          /* [together][P * K]  of gates                    */
    norm_weights summary_norm;          /* [K]                                            */
    /* Chosen positions, with letters as in index_shape. Of summaries I is P * I, but in the norm. */
    matrix index_query;                 /* [J * I][query_rank]  of what query_in makes; of plain pools [J * I][d] */
    matrix index_key;                   /* [I][d]                                         */
    norm_weights index_key_norm;        /* [I]  by mean and deviation, whatever the model's norms do, but of plain pools */
    norm_weights index_query_norm;      /* [I]  of plain pools                            */
    matrix index_weight;                /* [J][d]                                         */
    matrix index_gate;                  /* [I][d]  of pools                               */
    const float *index_gate_bias;       /* [pool][I]                                      */
    const float *qkv_bias;              /* [Q + K + E], or NULL: all three                */
    norm_weights query_norm, key_norm;  /* [head_length], or [Q] and [K] (attention.norm_whole); before the rotation */
    const float *sinks;                 /* [head_count] a score per head whose weight no value gets; NULL: none */
    norm_weights attention_inner_norm;  /* [R]  before the output matrix                  */
    matrix attention_output;            /* [d][R]                                         */
    const float *attention_output_bias; /* [d], or NULL                                   */
    norm_weights attention_post_norm;   /* [d]  of what attention adds                    */

    /* A recurrent mixer, with letters as in recurrent_shape: V = H * P, C = V + 2 * G * N. The norm before it is
     * attention_norm. */
    matrix recurrent_in;                /* [V + C + H][d]  three of the following, as Mamba-2's files have them */
    matrix short_in;                    /* [2 V + C][d]  three others, as files of SHORT have them */
    matrix input_gate;                  /* [V][d]  of SHORT                               */
    matrix recurrent_gate;              /* [V][d]  the result is multiplied with its silu; of SHORT with itself */
    matrix convolved;                   /* [C][d]  of MAMBA2 values, keys, queries; of DELTA queries, keys, values; of SHORT values */
    matrix step;                        /* [H][d]  what decay and, of MAMBA2, gain come from */
    matrix beta;                        /* [H][d]  what the gain of DELTA comes from      */
    matrix delta_in;                    /* [C + V][d]  of each key its query, itself, its heads' values and their gates, as some
                                           files have the rows of `convolved` and `recurrent_gate` */
    matrix beta_step;                   /* [2 H][d]  of each key its heads' beta, then their step */
    const float *convolution;           /* [C][W]  the last weight is the token's own     */
    const float *convolution_bias;      /* [C], or NULL                                   */
    const float *step_bias;             /* [H]                                            */
    const float *decay;                 /* [H]  -exp(A), of whole maps exp(A)             */
    const float *skip;                  /* [H]  v times this is added to the result; NULL: nothing */
    const float *recurrent_norm;        /* MAMBA2: [V], of each of G groups alone, after the gate; DELTA: [P] of each head,
                                           before it */
    matrix recurrent_output;            /* [d][V]                                         */

    /* RWKV7, whose V is d, and KDA: q, k, v above are [V][d]. */
    const float *query_convolution, *key_convolution, *value_convolution; /* [V][W] of KDA, of which `convolution` is made */
    const float *input_mix;             /* [RWKV_INPUTS][d]                               */
    low_rank_map low_rank[LOW_RANK_MAPS];
    const float *removal_scale;         /* [d]                                            */
    const float *rate_share;            /* [d]                                            */
    const float *bonus;                 /* [d]                                            */
    const float *recurrent_norm_bias;   /* [d]; recurrent_norm is [d], too                */
    const float *network_mix;           /* [d]  what the network reads is x + network_mix * (before - x), too; NULL: x */

    norm_weights ffn_norm;              /* [d]                                            */
    matrix router;                      /* [expert_count][d]                              */
    const int32_t *token_experts;       /* [vocabulary_size][used]  that a token uses, whatever their scores; NULL: they choose */
    const float *router_bias;           /* [expert_count] of its scores, or NULL          */
    const float *router_correction;     /* [expert_count] added to scores for choosing alone, or NULL */
    /* Of a layer with experts the matrices of all experts, one expert's rows after the other's. */
    matrix gate;                        /* [f][d] a row per neuron; none in plain networks */
    matrix up;                          /* [f][d]                                         */
    matrix gate_up;                     /* [2 f][d]  both, as some files have them: gate and up are its rows. Of experts
                                           each one's gate, then its up */
    uint32_t expert_stride;             /* rows of gate, and of up, from one expert's first to the next one's */
    const float *gate_bias, *up_bias;   /* [f], or NULL                                   */
    norm_weights ffn_inner_norm;        /* [f]  of the activations, before down           */
    matrix down;                        /* [d][f]  stock layout (of experts [expert_count * d][expert_neurons]), or ... */
    matrix down_t;                      /* [f][d] ... neuron-major, a row per neuron: exactly one of the two  */
    const float *down_bias;             /* [d], of experts [expert_count][d], or NULL     */
    /* Of some experts (TurboSparse-Mixtral): a neuron takes part only where mask_out . relu(mask_in . input) > 0. This is a
     * part of the model, in every mode. */
    matrix mask_in;                     /* [expert_count * rank][d]                       */
    matrix mask_out;                    /* [f][rank]                                      */
    ffn_network shared;                 /* of the expert that every token uses            */
    const float *shared_gate;           /* [d] its result is multiplied with sigmoid(shared_gate . input); NULL: it is not */
    matrix latent_in, latent_out;       /* [latent][d], [d][latent]  around the experts   */
    /* Where the expert that every token uses is a network of its own beside the others: norms of what the others read, of
     * their result and of its result, and of what the router reads. */
    norm_weights experts_norm, experts_post_norm, shared_post_norm; /* [d]                */
    norm_weights router_norm;           /* [d]                                            */
    const float *expert_scales;         /* [expert_count] of their results, or NULL       */
    norm_weights ffn_post_norm;         /* [d]  of what the network adds                  */
    matrix fc1, fc2;                    /* of a PowerInfer file, as in learned_predictor  */
    /* The layer's own input e [p] of a token, at its end: x += norm(out (act(gate x) * e)), then x is scaled. */
    matrix per_layer_gate;              /* [p][d]                                         */
    matrix per_layer_output;            /* [d][p]                                         */
    norm_weights per_layer_post_norm;   /* [d]                                            */
    const float *output_scale;          /* [1] of the residual stream, or NULL            */
    stream_weights streams;             /* of WIRING_STREAMS                              */
    stream_connection mixer_connection, network_connection; /* of WIRING_CONNECTED, or ... */
    gated_connection mixer_gates, network_gates; /* ... these (hyperparameters.connection_rank) */
    bool ngrams;                        /* it adds n-grams to the streams                 */
    ngram_weights ngram;
    const int32_t *order;               /* [f] the original number of the neuron in each row; NULL: the row's number */
} model_layer;

/* Returns the matrix that decides which neurons fire: gate, or up in plain networks. */
static inline const matrix *layer_first_matrix(const model_layer *l)
{
    return l->ffn.gating == FFN_PLAIN ? &l->up : &l->gate;
}
/* Returns the bias [f] of that matrix, or NULL. */
static inline const float *layer_first_bias(const model_layer *l)
{
    return l->ffn.gating == FFN_PLAIN ? l->up_bias : l->gate_bias;
}
/* The matrices of a mixer, of attention or a recurrent one. */
#define MIXER_MATRICES (21 + 2 * LOW_RANK_MAPS)
/* Lists them; those that the layer does not have have no data. */
static inline void layer_mixer_matrices(const model_layer *l, const matrix *out[MIXER_MATRICES])
{
    const matrix *const all[MIXER_MATRICES] = {&l->q,
                                               &l->k,
                                               &l->v,
                                               &l->attention_gate,
                                               &l->attention_output,
                                               &l->query_in,
                                               &l->key_up,
                                               &l->value_up,
                                               &l->output_in,
                                               &l->summary_value,
                                               &l->summary_gate,
                                               &l->index_query,
                                               &l->index_key,
                                               &l->index_weight,
                                               &l->index_gate,
                                               &l->input_gate,
                                               &l->convolved,
                                               &l->recurrent_gate,
                                               &l->step,
                                               &l->beta,
                                               &l->recurrent_output,
                                               &l->low_rank[MAP_DECAY].in,
                                               &l->low_rank[MAP_DECAY].out,
                                               &l->low_rank[MAP_RATE].in,
                                               &l->low_rank[MAP_RATE].out,
                                               &l->low_rank[MAP_VALUE].in,
                                               &l->low_rank[MAP_VALUE].out,
                                               &l->low_rank[MAP_GATE].in,
                                               &l->low_rank[MAP_GATE].out};
    for (size_t i = 0; i < MIXER_MATRICES; i++)
        out[i] = all[i];
}
/* Returns the bytes of them all. */
static inline size_t layer_mixer_bytes(const model_layer *l)
{
    const matrix *all[MIXER_MATRICES];
    size_t bytes = 0;
    layer_mixer_matrices(l, all);
    for (size_t i = 0; i < MIXER_MATRICES; i++)
        bytes += matrix_bytes(all[i]);
    return bytes;
}
static inline size_t gated_connection_bytes(const gated_connection *c)
{
    return matrix_bytes(&c->down) + matrix_bytes(&c->up) + matrix_bytes(&c->inject);
}
/* Returns the bytes of the matrices of streams of the residual. */
static inline size_t layer_stream_bytes(const model_layer *l)
{
    return matrix_bytes(&l->streams.router) + matrix_bytes(&l->streams.laurel_in) + matrix_bytes(&l->streams.laurel_out) +
           matrix_bytes(&l->mixer_connection.weights) + matrix_bytes(&l->network_connection.weights) +
           gated_connection_bytes(&l->mixer_gates) + gated_connection_bytes(&l->network_gates);
}
/* Returns the bytes of those that only score positions: they are not read where all are seen. */
static inline size_t layer_scoring_bytes(const model_layer *l)
{
    return matrix_bytes(&l->index_query) + matrix_bytes(&l->index_weight);
}
/* Returns whether gates and queries are rows of one matrix in turns, head by head. */
static inline bool layer_gates_in_query(const model_layer *l)
{
    return l->attention.gate_length > 0 && !l->attention_gate.data;
}
/* Returns the length of all heads of queries, or of keys (or values), of one position together. */
static inline uint32_t query_width(const attention_shape *a)
{
    return a->head_count * a->head_length;
}
static inline uint32_t key_width(const attention_shape *a)
{
    return a->kv_head_count * a->head_length;
}
/* Returns the gates of all heads of one position together. */
static inline uint32_t gate_width(const attention_shape *a)
{
    return a->head_count * a->gate_length;
}
/* Returns the values of all heads of values of one position together, without latent attention. */
static inline uint32_t value_width(const attention_shape *a)
{
    return a->kv_head_count * a->value_length;
}
/* Return whether what is cached of a position is one key for all; the values that a head reads, then all of a key; and those of
 * all heads together. */
static inline bool keys_are_values(const attention_shape *a)
{
    return a->compressed > 0 || a->one_key;
}
static inline uint32_t read_length(const attention_shape *a)
{
    return keys_are_values(a) ? a->head_length : a->value_length;
}
static inline uint32_t read_width(const attention_shape *a)
{
    return a->head_count * read_length(a);
}
/* Returns the values of a position that the output matrix reads. */
static inline uint32_t result_width(const attention_shape *a)
{
    return a->output_groups > 0 ? a->output_groups * a->output_rank : a->head_count * a->value_length;
}
/* What a cache has of each position, or of so many positions together: so many heads with a key and a value; value_length 0: without,
 * where keys are values too or there is nothing else to read. */
typedef struct cached_keys {
    uint32_t heads, head_length, value_length, together;
} cached_keys;
/* Return those of attention; its summaries; and those by which a layer chooses positions, with the gates of pools as values. heads 0:
 * it has none. */
static inline cached_keys attention_keys(const attention_shape *a)
{
    return (cached_keys){a->kv_head_count, a->head_length, keys_are_values(a) ? 0 : a->value_length, 1};
}
static inline cached_keys summary_keys(const attention_shape *a)
{
    return (cached_keys){a->summary.together > 0, a->head_length, 0, a->summary.together};
}
/* Returns whether keys are made of those of pools, to score these by. */
static inline bool makes_pool_keys(const attention_shape *a)
{
    return a->pool > 1 && !a->index.by_head && a->summary.together == 0;
}
static inline cached_keys index_keys(const attention_shape *a)
{
    bool summaries = a->summary.together > 0, gates = makes_pool_keys(a) && !a->index.plain;
    return (cached_keys){a->index.head_count > 0, a->index.head_length, gates ? a->index.head_length : 0,
                         summaries ? a->summary.together : 1};
}
/* Returns what is read of those to score so many positions together. */
static inline cached_keys scored_keys(const attention_shape *a)
{
    return (cached_keys){a->index.head_count > 0, a->index.head_length, 0, a->index.by_head ? 1 : a->pool};
}
/* Returns the most positions that a token sees which chooses: the chosen ones, and those that it sees in any case. Tokens before that
 * position see everything. 0: they are not chosen. */
static inline uint32_t choice_limit(const attention_shape *a)
{
    return a->chosen > 0 ? a->chosen + (a->last_pools > 0 ? a->last_pools * a->pool : a->pool - 1) : 0;
}
/* Returns how many pools the token at a position chooses among. Needs chosen positions, and a position from choice_limit on. */
static inline uint32_t pools_scored(const attention_shape *a, uint32_t position)
{
    return a->last_pools > 0 ? position / a->pool + 1 - a->last_pools : (position + 1) / a->pool;
}
/* Returns how many choices a token makes. */
static inline uint32_t choosers(const attention_shape *a)
{
    return a->index.by_head ? a->index.head_count : 1;
}
/* Returns the most positions that a token sees; 0: all up to its own. */
static inline uint32_t attention_sees(const attention_shape *a)
{
    return a->window > 0 ? a->window : choice_limit(a);
}
/* Returns the floats that are kept of unfinished summaries whose keys have such a length: of each column, and of each part, the largest
 * gate, and two sums. Those of attention come first, then those that score them. */
static inline uint32_t summary_floats(const attention_shape *a, uint32_t length)
{
    return 3 * a->summary.parts * length;
}
/* Returns how many summaries a token at a position sees. */
static inline uint32_t summaries_seen(const attention_shape *a, uint32_t position)
{
    uint32_t whole = a->summary.together > 0 ? (position + 1) / a->summary.together : 0;
    return a->chosen > 0 && whole > a->chosen / a->pool ? a->chosen / a->pool : whole;
}
/* Returns the values of a position, or of those that are together. */
static inline uint32_t cached_width(cached_keys keys)
{
    return keys.heads * (keys.head_length + keys.value_length);
}
/* Returns the values of a head's query before a matrix makes more of them. */
static inline uint32_t short_query(const attention_shape *a)
{
    return a->unrotated + a->head_length - a->compressed;
}

// clang-format on

#endif
