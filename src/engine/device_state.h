/* device_state.h - what a session has on a device; shared by device_session.c, device_buffers.c, device_step.c, device_pages.c and
 * those that record programs. */
#ifndef ENGINE_DEVICE_STATE_H
#define ENGINE_DEVICE_STATE_H

#include "choice.h"
#include "device_session.h"
#include "device_stream.h"
#include "engine.h"

/* Buffers in the memory of the device. R = device_rows(session), the most rows of a step; n: the most neurons of a
 * layer that a token can use (device_layer.width); E: the most experts; d, Q, K as in scratch; P = rope_pairs. */
typedef struct device_vectors {
    device_buffer *step; /* step_record, then cosine and sine [R][P]: device_step_layout  */
    device_buffer *x;    /* [R][d]  the residual stream                               */
    device_buffer
        *streams; /* [S][R][d]  of the residual, where there are several: device_stream_bytes apart; x is what the
                             * layer works on */
    device_buffer *stream_weights,
        *laurel_in; /* [R][S] or [R][M], [R][r]  as in scratch; the weights before their tanh */
    device_buffer *stream_norms, *stream_gates, *stream_low, *block_read; /* as in scratch */
    device_buffer *ngram_keys, *ngram_values; /* [R][S][d], [R][d]  what the CPU makes of n-grams (ngrams_project) */
    device_buffer *normed;                    /* [R][d]                                                    */
    device_buffer *added; /* [R][d]  what a block adds to x, where its result is not added at once; else empty */
    device_buffer *q8, *q8_scales, *q8_sums; /* [R][widest], / 32: input of the current product in 8 bits */
    device_buffer *projected;                /* [R][stride]  what a mixer's matrices make of its input: mixer_row */
    device_buffer *query, *key;              /* [R][Q], [R][K]  of latent attention, with letters as in scratch */
    device_buffer *query_in, *short_query;   /* [R][query_rank], [R][H * (n + r)]                          */
    device_buffer *head_in, *head_out;       /* [H][R][n or C], [H][R][C or V]                             */
    device_buffer *mixtures,
        *low_rank;              /* of RWKV-7: [RWKV_INPUTS][R][d] mixtures of inputs; hidden units of its maps */
    device_buffer *first_value; /* [R][d]  the first layer's values                          */
    /* Chosen positions, with letters as in index_shape: [R][J * I]; [device_attend_rows][choosers][context] in whole
     * splits; [R][choosers][choice_words] */
    device_buffer *index_query, *position_scores, *seen;
    device_buffer *pooled,
        *gathered; /* [R][K]  summaries; [device_attend_rows] keys of windows and summaries, in whole splits */
    device_buffer *partial,
        *mixed; /* [device_attend_rows][heads][splits][value + 2], of at most head_length, [R][read_width or V] */
    device_buffer *states;                  /* those of `recurrent` below                                */
    device_buffer *per_layer;               /* inputs of the layers' own: device_own_input               */
    device_buffer *per_layer_gate;          /* [R][p]                                                    */
    device_buffer *hidden, *score;          /* [R][H], [R][n]  H: the most hidden units of a predictor, or of the
                                              * masks of the experts that a token chooses */
    device_buffer *mask_list, *mask_listed; /* [R][H], [R]  rows of those masks                          */
    device_buffer *first, *second;          /* [R][n]  first becomes the activations; it has room for both results of
                                              * one token, each rounded up to STACK_ROWS */
    device_buffer *lists[TOTALS];           /* [R][n]  let through, fired, active                  */
    device_buffer *listed[TOTALS];          /* [R]                                                 */
    device_buffer *shared_listed[TOTALS];   /* [R]  of the shared expert, where that is apart       */
    device_buffer *apart;           /* [R][latent or d]  what experts read where the shared one reads something else,
                                            * then a sum: of theirs in their width, or of the network that they lie beside */
    device_buffer *router, *shares; /* [R][E], [R][E + 1]  the last share is that of the shared expert     */
    device_buffer *shared_gate;     /* [R]  what the gate of the shared expert makes of its input          */
    device_buffer *chosen, *chosen_shares; /* [R][E + 1]  experts with a share, ascending, and their shares       */
    device_buffer *chosen_count;           /* [R]                                                 */
    device_buffer *sums; /* [rows of the step][device_parts][d], device_sums rows in all                 */
    device_buffer *answer, *shared_answer; /* [R][d]  sum of the neurons of the CPU; where experts lie beside a network
                                            * that of its experts, and that of the network         */
    device_buffer *squares, *answer_squares; /* [R]  of the activations of both sides, where a norm joins them */
    device_buffer *totals; /* [layers][rows of the step][TOTALS], only ever added to (they wrap): device_totals_at */
    device_buffer *logits; /* [STEP_ROWS][vocabulary]                                     */
    device_buffer
        *stream[STREAM_BUFFERS]; /* session.stream_bytes each: parts of the CPU's neurons (device_stream.h)   */
    /* [page][device layers][keys, values][kv_head][positions of a page][length]: a page is one piece, so that it is copied
     * at once (device_page_layer) */
    device_buffer *cache;
    device_buffer *pages; /* [sequences][pages of each], as kv_pages.table                   */
} device_vectors;

/* Their counterparts in pinned main memory, for what crosses the bus. */
typedef struct device_mirror {
    device_buffer *step, *x, *streams, *normed, *hidden, *answer, *totals, *logits;
    device_buffer *stream[STREAM_BUFFERS];
    device_buffer *shared_answer;
    device_buffer *first_value;
    device_buffer *seen;
    device_buffer *entered; /* what entered a layer, for the CPU's router; else empty                   */
    device_buffer *squares, *answer_squares;
    device_buffer *per_layer;
    device_buffer *ngram_keys, *ngram_values;
    device_buffer *shares; /* what the device's router chose, where both sides have neurons of experts */
    device_buffer *first, *lists[TOTALS], *listed[TOTALS], *shared_listed[TOTALS]; /* for observers: STEP_ROWS rows */
} device_mirror;

typedef enum program_kind {
    PROGRAM_ONE,      /* a step of one row                   */
    PROGRAM_MANY,     /* a step of up to STEP_ROWS rows      */
    PROGRAM_PROMPT,   /* a step of up to device_rows() rows  */
    PROGRAM_STREAMED, /* the same, with layers streamed      */
    PROGRAM_OBSERVED, /* a step of up to STEP_ROWS rows that stops after every layer */
    PROGRAM_HEAD_ONE, /* the head for one row                */
    PROGRAM_HEAD_MANY,
    PROGRAM_STREAM_TIMED, /* one part of a streamed layer, to be timed */
    PROGRAM_KINDS
} program_kind;

struct device_session {
    device *device;
    hearth_runtime *runtime;
    device_buffer **buffers; /* [buffer_count] all that `vectors` and `mirror` name */
    size_t buffer_count;
    device_vectors vectors;
    device_mirror mirror;
    recurrent_states recurrent;
    device_program *programs[PROGRAM_KINDS];
    device_program *running; /* the step in progress, or the last one                     */
    size_t running_rows;     /* most rows of that step                                    */
    uint32_t *totals_seen;   /* what mirror.totals was after the last step                */
    uint32_t stream_least;   /* rows of a step from which on layers are streamed; 0: never */
    bool tallies;            /* its steps count which neurons fire (follow.h)             */
    uint32_t *pages_seen;    /* [sequences][pages of each] what vectors.pages has         */
};

/* Returns the rows of a session's buffers: those of a batch, rounded up to STEP_ROWS. If only the head lies on the
 * device, it is given STEP_ROWS at once, however many a batch of the CPU has. */
static inline size_t device_rows(const hearth_session *s)
{
    return s->engine->device_layers > 0 ? items_of(s->batch, STEP_ROWS) * STEP_ROWS : STEP_ROWS;
}

/* Ranges into which the rows of down_t are cut for `accumulate`: enough groups to fill a large GPU with the columns of
 * a narrow model, few enough that adding their sums up is cheap. Long steps fill it with their rows, too: the more they have,
 * the fewer ranges do. */
#define DEVICE_PARTS 32
/* The most rows of sums: those of a step times the ranges. */
#define MOST_SUMS 2048
_Static_assert(PROMPT_ROWS <= MOST_SUMS, "at least one range");

static inline uint32_t device_parts(size_t rows)
{
    size_t parts = MOST_SUMS / rows;
    return (uint32_t)(parts < DEVICE_PARTS ? parts : DEVICE_PARTS);
}

/* Returns the rows of sums that steps of up to so many rows need. */
static inline size_t device_sums(size_t rows)
{
    return rows * DEVICE_PARTS < MOST_SUMS ? rows * DEVICE_PARTS : MOST_SUMS;
}

/* Whether the device says when it has passed a layer that is all its own: in long steps, which a slow device computes for many
 * seconds, so that it is not taken for one that hangs, and whoever waits is asked after each layer whether to go on. */
static inline bool device_tells_end(layer_form form, size_t rows)
{
    return form == FORM_DEVICE && rows > STEP_ROWS;
}

/* Slots of exchanges: the residual stream that changes sides before a layer; the input and the answer of the CPU's
 * neurons, or the end of a layer that has none; the stop for observers. Of streamed parts: the CPU answers when a part is packed; the device publishes when it is
 * copied, so that its pinned buffer may be filled again. Parts are counted over all layers. */
#define SLOT_STREAM(layer)        (3 * (layer))
#define SLOT_NEURONS(layer)       (3 * (layer) + 1)
#define SLOT_OBSERVED(layer)      (3 * (layer) + 2)
#define SLOT_PART(layers, part)   (3 * (layers) + (part))
#define SLOT_COUNT(layers, parts) SLOT_PART(layers, parts)

/* Events between the queues: a part is on the device; it is computed, so that its buffer may be filled again. */
#define EVENT_COPIED(part)   (2 * (part))
#define EVENT_COMPUTED(part) (2 * (part) + 1)

/* Moments of a layer on the device, for tracers: it begins, its neurons begin, its neurons are done, the CPU's sum has
 * arrived, it ends. */
enum { STAMP_BEGIN, STAMP_NEURONS, STAMP_OWN_END, STAMP_JOIN, STAMP_END, STAMPS };
#define STAMP(layer, moment) ((layer)*STAMPS + (moment))
/* And of a streamed part: its copy begins and ends; its computing does. */
enum { PART_STAMP_COPY, PART_STAMP_COPIED, PART_STAMP_BEGIN, PART_STAMP_END, PART_STAMPS };
#define STAMP_PART(layers, part, moment) ((layers)*STAMPS + (part)*PART_STAMPS + (moment))
#define STAMP_COUNT(layers, parts)       STAMP_PART(layers, parts, 0)
/* Of PROGRAM_STREAM_TIMED. */
enum { TIMED_COPY, TIMED_COMPUTE, TIMED_END, TIMED_STAMPS };

/* Where things lie in `step`, in a step of up to so many rows: first the record, then all cosines, then all sines,
 * those of a rotary [rows][pairs] behind those of the rotaries before it. All in bytes. */
typedef struct step_layout {
    size_t cosine, sine, end;
    size_t pair; /* from one pair to the next, of all rows */
} step_layout;

static inline step_layout device_step_layout(const hearth_model *m, size_t rows)
{
    size_t laid = items_of(rows, STEP_ROWS) * STEP_ROWS; /* so that everything is aligned */
    size_t record = offsetof(step_record, row) + laid * sizeof(step_row), pair = laid * sizeof(float);
    size_t cosine = items_of(record, ARGUMENT_ALIGNMENT) * ARGUMENT_ALIGNMENT;
    size_t sine = cosine + model_largest(m).rotated * pair;
    return (step_layout){cosine, sine, sine + (sine - cosine), pair};
}

/* Returns where the totals [rows][TOTALS] of a layer begin in `totals`, in numbers, in a step of so many rows. Every
 * number is only ever added to; steps of other kinds use the same numbers for other layers and rows. */
static inline size_t device_totals_at(uint32_t layer, size_t rows)
{
    return layer * items_of(rows, STEP_ROWS) * STEP_ROWS * TOTALS; /* so that every layer's are aligned */
}

/* Returns the most rows of a step whose results of all splits of the context are kept at once: as many as fit into
 * ATTEND_BYTES, and at least STEP_ROWS. */
#define ATTEND_BYTES ((size_t)16 << 20)
size_t device_attend_rows(const hearth_session *s);

/* Where the results of the matrices that read a mixer's input lie in a row of `projected`, each at a multiple of
 * STACK_ROWS, in the order of device_layer.inputs. */
typedef struct mixer_row {
    size_t at[MIXER_INPUTS], stride;
} mixer_row;
mixer_row device_mixer_row(const model_layer *l);

/* Returns the hidden units of all maps of low rank of a layer, of so many rows, each map's at a multiple of STACK_ROWS. */
size_t device_low_rank_values(const recurrent_shape *shape, size_t rows);

/* Returns the bytes from one stream of the residual to the next in `streams`, in a step of so many rows. */
static inline size_t device_stream_bytes(const hyperparameters *h, size_t rows)
{
    return items_of(rows * h->embedding_length * sizeof(float), ARGUMENT_ALIGNMENT) * ARGUMENT_ALIGNMENT;
}

/* Returns how many streams of the residual cross the bus beside x: all, where there are several; else 0. */
static inline uint32_t device_streams(const hyperparameters *h)
{
    return h->stream_count > 1 ? h->stream_count : 0;
}

/* Returns whether layers read the first one's values, which then cross the bus with the residual. */
static inline bool device_has_first_values(const hearth_model *m)
{
    return m->layers[0].recurrent.rule == RECURRENCE_RWKV7;
}

/* Returns whether layers see what others have chosen on the other side: that then crosses the bus with the residual. */
static inline bool device_shares_choice(const hearth_session *s)
{
    const layer_placement *at = s->engine->placement->layers;
    bool shares = false;
    for (uint32_t i = 0; i < s->engine->model->hyper.layer_count; i++)
        shares |=
            layer_uses_device(&at[i]) != layer_uses_device(&at[i - s->engine->model->layers[i].attention.chosen_back]);
    return shares && choice_matters(s, model_first_choice(s->engine->model));
}

/* Returns the layer on the device that adds n-grams; layer_count: there is none. */
static inline uint32_t device_ngram_layer(const hearth_session *s)
{
    uint32_t i = 0, layers = s->engine->model->hyper.layer_count;
    while (i < layers && (!s->engine->model->layers[i].ngrams || s->engine->layers[i].form == FORM_HOST))
        i++;
    return i;
}

/* Returns where the inputs of a layer's own, [rows][p], begin in `per_layer`, in bytes, in a step of so many rows. */
static inline size_t device_own_input(const hyperparameters *h, uint32_t layer, size_t rows)
{
    return layer * (items_of(rows * h->per_layer_length * sizeof(float), ARGUMENT_ALIGNMENT) * ARGUMENT_ALIGNMENT);
}

/* Returns whether the device computes the hidden units of a layer's predictor for both sides. With experts each side
 * computes them for itself: the CPU needs them by expert. */
static inline bool device_sends_hidden(const hearth_session *s, uint32_t layer)
{
    const device_layer *l = &s->engine->uploaded->layers[layer];
    return s->engine->layers[layer].selector == SELECTOR_LOW_RANK && l->neuron_count > 0 && !l->router.w;
}

/* Returns whether the CPU's neurons of a layer need the residual stream, beside the input of the network: their predictors
 * read it, or, where they lie beside a network, the experts and their router. */
static inline bool device_sends_stream(const hearth_session *s, uint32_t layer)
{
    const model_layer *l = &s->engine->model->layers[layer];
    bool predicts = s->engine->layers[layer].selector == SELECTOR_LOW_RANK && !device_sends_hidden(s, layer);
    return predicts || l->experts_norm.weight || l->router_norm.weight;
}

/* Returns whether the activations of a layer have a norm and neurons on both sides: then each side multiplies by the
 * weights of the norm alone, and their sum is divided (norm_joined). */
static inline bool device_joins_norm(const hearth_session *s, uint32_t layer)
{
    return s->engine->layers[layer].form == FORM_SPLIT && s->engine->model->layers[layer].ffn_inner_norm.weight;
}

/* Returns whether scores of a predictor, or of the experts' own masks, choose the neurons of a layer. */
static inline bool device_scores(const hearth_session *s, uint32_t layer)
{
    return s->engine->layers[layer].selector == SELECTOR_LOW_RANK || s->engine->uploaded->layers[layer].mask_in.w;
}

/* Returns the hidden units of the masks of the experts that a token chooses; 0: the device has none. */
static inline uint32_t device_mask_width(const hearth_session *s, uint32_t layer)
{
    const device_layer *l = &s->engine->uploaded->layers[layer];
    return l->mask_out.columns * s->engine->model->layers[layer].ffn.router.used;
}

/* Where the keys and values of a layer are in a page of the cache. */
typedef struct page_layer {
    size_t begin, values, end;     /* the keys begin, and the values: there, too, where keys are values */
    kv_half halves;                /* KV_HALVES, or KV_VALUES where keys are values too or there are none */
    size_t piece_bytes[KV_HALVES]; /* of a head, from one to the next                                  */
} page_layer;

/* Returns the place of a layer; index: among those of the device. That of the index after the last one begins where the
 * page ends. */
page_layer device_page_layer(const hearth_session *s, uint32_t index);
/* Returns the bytes of a page. */
size_t device_page_bytes(const hearth_session *s);
/* Returns the most keys that are brought together for a row, in layers of the device with one key for all heads; 0: there are none. */
size_t device_gathered_keys(const hearth_session *s);
/* In device_step.c. Writes to the mirror all data that differs from step to step, laid out for the rows of the running one, but the
 * residual stream. */
void device_describe_step(hearth_session *s, const hearth_row *rows, size_t count);

/* Tells the device which pages a sequence has, where it does not know: before a step with rows of it. A sequence gets a page
 * every KV_PAGE tokens. */
hearth_status device_pages_tell(const hearth_session *s, uint32_t sequence, hearth_error *error);

/* Returns the most rows of a step of a program. */
size_t device_program_rows(const hearth_session *s, program_kind kind);

/* In device_buffers.c. Creates all buffers that a session has on the device, and the pinned ones for the bus; what was created before a
 * failure is in ds->buffers. Needs the device lock. */
hearth_status device_buffers_create(const hearth_session *s, device_session *ds, hearth_error *error);
/* Returns the shapes of the device's recurrent layers. */
const recurrent_shape *const *device_recurrent_shapes(const hearth_session *s);

/* Records a program unless it exists already; needs the device lock. Those that every session needs are recorded at creation,
 * others on first use; their buffers exist from the beginning. */
hearth_status device_need_program(const hearth_session *s, device_session *ds, program_kind kind, hearth_error *error);

/* Measures what decides whether streaming pays, with a part of the first layer that is streamed. Uses scratch; resets the counts
 * of the session. In device_stream_decide.c. */
hearth_status device_stream_measure(hearth_session *s, stream_figures *out, hearth_error *error);

/* Records and seals a program of the session. */
hearth_status device_record(device_program **out, const hearth_session *s, const device_session *ds, program_kind kind,
                            hearth_error *error);

#endif
