/* hearth.h - run a large language model by not reading what is zero.
 *
 * Four things, each owning less than the one before:
 *
 *   runtime   the thread pool and the devices
 *   model     an open file: weights, hyperparameters, vocabulary, what was learnt about it; read-only
 *   engine    a model under a placement on a runtime; what was uploaded or transposed
 *   session   sequences with their key/value state; one thread at a time
 *
 * A runtime, a model and an engine may be shared between threads once created; a
 * session, a sampler and an answer belong to one thread at a time. Whatever was
 * created first is destroyed last. Engines of one runtime take turns on its threads.
 *
 * Functions that can fail return a status and, where they take one, fill the caller's
 * error record; out-parameters are written only on HEARTH_OK. `error` may be NULL.
 * `destroy` and `close` accept NULL; other pointers must not be NULL where it is not said that they may. Numbers may be
 * any: one that is out of range is HEARTH_INVALID, or does what is said. The library never prints and never exits.
 * All text is UTF-8; all sizes are bytes unless a name says otherwise. */
#ifndef HEARTH_H
#define HEARTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define HEARTH_VERSION "0.1.0"

/* HEARTH_VERSION of the library, where that of this header is what a program was compiled with. */
const char *hearth_version(void);

/* ------------------------------------------------------------------ errors */

// clang-format off
#define HEARTH_STATUSES(X)                                            \
    X(HEARTH_OK,          0, "success")                               \
    X(HEARTH_NO_MEMORY,   1, "out of memory")                         \
    X(HEARTH_IO,          2, "read or write failed")                  \
    X(HEARTH_FORMAT,      3, "malformed input")                       \
    X(HEARTH_UNSUPPORTED, 4, "valid but not supported")               \
    X(HEARTH_INVALID,     5, "bad argument")                          \
    X(HEARTH_FULL,        6, "no room left in the context")           \
    X(HEARTH_CANCELLED,   7, "cancelled")                             \
    X(HEARTH_DEVICE,      8, "device failed")
// clang-format on

typedef enum hearth_status {
#define X(name, value, text) name = value,
    HEARTH_STATUSES(X)
#undef X
} hearth_status;

/* Why a call failed, for a person: one line "FILE: thing: reason". The caller's. */
typedef struct hearth_error {
    hearth_status status;
    char text[1024];
} hearth_error;

/* "success", "out of memory" ...; "unknown status" for any other number. */
const char *hearth_status_text(hearth_status status);

/* Called now and then during long work: `done` of `total` units of `what`.
 * Return false to cancel. A zeroed record reports to nobody. */
typedef struct hearth_progress {
    bool (*report)(void *user, const char *what, uint64_t done, uint64_t total);
    void *user;
} hearth_progress;

/* Frees memory that a function of this header handed to the caller. */
void hearth_free(void *memory);

/* ----------------------------------------------------------------- runtime */

typedef struct hearth_runtime hearth_runtime;

typedef struct hearth_runtime_options {
    unsigned threads;      /* 0: one per physical core                               */
    const char *cpu_level; /* "scalar", "avx2" ...: a set of the CPU's features; NULL: as HEARTH_CPU says, see below */
    const char *device;    /* "host", "opencl", "cuda:1,memory=8G" ...: side device0 of placements; NULL: none */
    /* A folder that exists, where it is remembered that a driver answers, or what it does instead; NULL: nowhere.
     * Drivers are first asked in a child process, since some end the program that asks them: once per machine start
     * with a folder, else once per process. */
    const char *cache_folder;
    uint64_t memory_bytes; /* main memory that an engine's copies and a session may take; 0: the machine's     */
} hearth_runtime_options;

/* options may be NULL. The environment variable HEARTH_CPU names the level of whatever computes without being given one;
 * where it is not set or empty that is the best this CPU has. Results of different levels differ by rounding.
 * HEARTH_INVALID: unknown level, or one this CPU lacks (the error lists what there is); unknown device.
 * HEARTH_DEVICE: the device is not there, or its driver is broken. */
hearth_status hearth_runtime_create(hearth_runtime **out, const hearth_runtime_options *options, hearth_error *error);
void hearth_runtime_destroy(hearth_runtime *runtime);
unsigned hearth_runtime_threads(const hearth_runtime *runtime);
const char *hearth_runtime_cpu_level(const hearth_runtime *runtime);

/* A device besides the CPU. Bytes are of its own memory; used and peak: what engines and sessions took of the budget,
 * now and at most. */
typedef struct hearth_device_info {
    const char *driver, *name; /* owned by the runtime */
    uint64_t memory_bytes, budget_bytes, used_bytes, peak_bytes;
} hearth_device_info;

/* false: the runtime has no device. Not while another thread creates or destroys engines or sessions on it. */
bool hearth_runtime_device(const hearth_runtime *runtime, hearth_device_info *out);

/* ------------------------------------------------------------------- model */

typedef struct hearth_model hearth_model;

typedef struct hearth_model_options {
    const char *ffn_activation; /* overrides what the file says: "silu", "relu"; NULL: the file's */
    const char *tune;           /* what was learnt about it; NULL: PATH.tune where there is one; "": nothing */
    hearth_progress progress;
} hearth_model_options;

typedef struct hearth_model_info {
    const char *path, *name, *family, *activation; /* owned by the model */
    uint32_t layer_count;
    uint32_t embedding_length; /* d */
    uint32_t neuron_count;     /* f: neurons of one layer's feed-forward network */
    uint32_t head_count, kv_head_count, head_length;
    uint32_t vocabulary_size;
    uint32_t context_length; /* positions the model was trained for */
    uint64_t parameter_count;
    uint64_t weight_bytes; /* all tensors as stored */
    bool has_tokenizer;
    int32_t bos, eos;          /* token ids; -1: none */
    bool powerinfer;           /* a PowerInfer file (its magic is PWRI)                            */
    bool neuron_major;         /* stores down transposed: a row per neuron                         */
    bool predictors;           /* mode predicted can run: some layers, or all, have one        */
    bool tuned;                /* a tune file belongs to it                                        */
    const char *tune_problem;  /* why the tune file beside it was ignored; NULL: it was not        */
    float predictor_threshold; /* the file's: a neuron with a score below it is skipped; 0 without */
} hearth_model_info;

/* Opens a GGUF file or a Hugging Face folder. options may be NULL. HEARTH_INVALID: path is NULL or empty.
 * HEARTH_FORMAT: not a model, damaged, or a tensor is missing, extra or misshapen (named).
 * HEARTH_UNSUPPORTED: a family, format or setting that hearth does not run. Its tune file is opened with it. One that
 * options name and that is damaged, or of another model, is HEARTH_FORMAT too, one that is not there HEARTH_IO. One that
 * merely lies beside the model and cannot be used is ignored: hearth_model_info.tune_problem says why. */
hearth_status hearth_model_open(hearth_model **out, const char *path, const hearth_model_options *options,
                                hearth_error *error);
/* The same model with what another tune file says of it (path NULL: none): its predictors, thresholds for pruning, which
 * neurons are hot. Everything else is shared with `of`, which does not change and is closed last; engines of both may run
 * at the same time. Errors as of the tune file in hearth_model_open. */
hearth_status hearth_model_with_tune(hearth_model **out, const hearth_model *of, const char *path, hearth_error *error);
void hearth_model_close(hearth_model *model);
void hearth_model_describe(const hearth_model *model, hearth_model_info *out);

/* -------------------------------------------------------------------- text */

enum hearth_text_flags {
    HEARTH_TEXT_SPECIAL = 1,      /* add BOS and EOS where the model wants them        */
    HEARTH_TEXT_PARSE_CONTROL = 2 /* control tokens written in the text are recognised */
};

/* Token ids of size bytes of text (NULL where size is 0); *ids is freed with hearth_free (NULL when *count is 0).
 * HEARTH_UNSUPPORTED: the model has no tokenizer. Invalid UTF-8 becomes byte tokens
 * or the unknown token. */
hearth_status hearth_tokenize(const hearth_model *model, const char *text, size_t size, unsigned flags, int32_t **ids,
                              size_t *count, hearth_error *error);

/* Turns ids into text, piece by piece, never handing out half a UTF-8 character.
 * One per text; belongs to one thread at a time. */
typedef struct hearth_detokenizer hearth_detokenizer;

enum hearth_detokenize_flags {
    HEARTH_DETOKENIZE_CONTROL = 1, /* control tokens appear as their text, not as nothing   */
    HEARTH_DETOKENIZE_CONTINUE = 2 /* the text goes on: keep the blank before the first word */
};

hearth_status hearth_detokenizer_create(hearth_detokenizer **out, const hearth_model *model, unsigned flags,
                                        hearth_error *error);
void hearth_detokenizer_destroy(hearth_detokenizer *detokenizer);

/* The text that became complete with this id: *text (not terminated, *size bytes, maybe
 * none), valid until the next call. HEARTH_INVALID: no such id. */
hearth_status hearth_detokenizer_push(hearth_detokenizer *detokenizer, int32_t id, const char **text, size_t *size,
                                      hearth_error *error);

/* What is still held back; bytes that never became a character come out as U+FFFD.
 * Afterwards the detokenizer is as new. */
void hearth_detokenizer_finish(hearth_detokenizer *detokenizer, const char **text, size_t *size);

/* True where the id ends an answer: EOS, end of turn, or BOS (a new text begins). False for ids that there are not. */
bool hearth_token_ends_answer(const hearth_model *model, int32_t id);

/* --------------------------------------------------------------- placement */

/* Quality against speed, step by step. Each defines its result at every position, prompt included. */
// clang-format off
#define HEARTH_MODES(X)                   \
    X(HEARTH_MODE_DENSE,     "dense")     /* every neuron                                                           */ \
    X(HEARTH_MODE_EXACT,     "exact")     /* neurons that are zero are skipped; the answer is that of dense         */ \
    X(HEARTH_MODE_PREDICTED, "predicted") /* and those that predictors do not let through: lossy, or by a margin    */ \
    X(HEARTH_MODE_PRUNED,    "pruned")    /* neurons whose activation is small count as zero: lossy                 */
// clang-format on

typedef enum hearth_mode {
    HEARTH_MODE_AUTO, /* exact where the activation is often exactly zero (ReLU and its kin), else dense */
#define X(mode, name) mode,
    HEARTH_MODES(X)
#undef X
        HEARTH_MODE_COUNT
} hearth_mode;

/* "auto", "dense", "exact", "predicted", "pruned"; "unknown" for any other number. */
const char *hearth_mode_name(hearth_mode mode);

/* What lies and runs where, as data: for every layer its form, selector and the ranges
 * of neurons of each side; the sides of KV cache, embedding and head. */
typedef struct hearth_placement hearth_placement;

/* Everything on the CPU, in one mode. Predicted: layers for which no predictor is worth its bytes are exact. Pruned, for
 * any activation: the threshold is 0 and only what is zero is skipped, until one of the next three gives others. The
 * guarantee is lossy all the same. HEARTH_UNSUPPORTED: exact for an activation that is never zero, predicted for a model
 * without predictors, or one whose tune file was ignored: it may have held others. HEARTH_INVALID: no such mode. */
hearth_status hearth_placement_create(hearth_placement **out, const hearth_model *model, hearth_mode mode,
                                      hearth_error *error);
/* The threshold of the selector in every layer that has one; until then it is what the file or the tune file says.
 * One that is not finite changes nothing. Of low-rank predictors, the score from which on they let a neuron through; of
 * coarse ones the margin, in standard deviations of their error; of pruned layers the size that an activation has to
 * exceed. */
void hearth_placement_set_threshold(hearth_placement *placement, float threshold);
/* Gives pruned layers the tune file's thresholds at which `share` of the activations of all layers together (zeros
 * included) count as zero: between its levels by interpolation, beyond the first and the last theirs.
 * HEARTH_UNSUPPORTED: there is no tune file, or it has no thresholds. HEARTH_INVALID: share is not within 0 and 1, or the
 * model is another one. */
hearth_status hearth_placement_prune(hearth_placement *placement, const hearth_model *model, double share,
                                     hearth_error *error);
/* The same at the highest of the tune file's levels that costs at most `most_loss`: nats of mean Kullback-Leibler
 * divergence per token from computing every activation, as measured while tuning. HEARTH_UNSUPPORTED: also where no level
 * that leaves out more than zeros costs so little, or none was measured; the text says what the gentlest costs. */
#define HEARTH_PRUNE_LOSS 0.01 /* what is a good choice where nobody says otherwise */
hearth_status hearth_placement_prune_within(hearth_placement *placement, const hearth_model *model, double most_loss,
                                            hearth_error *error);
/* Keeps of every layer's neurons only the hottest `share` (or the coldest; at least one), as the tune file counted them;
 * 1 keeps all. The others count as zero whatever they would have been: for finding out what they are worth.
 * HEARTH_UNSUPPORTED: there is no tune file, or it has no counts. HEARTH_INVALID: share is not above 0 and at most 1, the
 * placement uses a device, or the model is another one. HEARTH_NO_MEMORY: the placement is good for destroying only. */
hearth_status hearth_placement_keep(hearth_placement *placement, const hearth_model *model, double share, bool hottest,
                                    hearth_error *error);
/* Gives the last `layers` layers (at most all) to side device0: their attention, their part of the KV cache and the
 * first `neurons` neurons of each in the file's order, which are the hot ones where the file is ordered. None of the
 * neurons: form ffn-host; all: form device; else split. The head goes there with all layers of form device, if devices
 * have kernels for its format. HEARTH_UNSUPPORTED: one of these layers has a selector that devices do not run (coarse
 * predictors, pruned), or leaves neurons out; the placement is as before. HEARTH_NO_MEMORY: it is good for destroying
 * only. */
hearth_status hearth_placement_use_device(hearth_placement *placement, const hearth_model *model, uint32_t layers,
                                          uint32_t neurons, hearth_error *error);
/* JSON as docs/hybrid.md describes. HEARTH_FORMAT: not JSON, or it does not cover every neuron exactly once.
 * HEARTH_UNSUPPORTED: a side, form or selector that this build cannot run. */
hearth_status hearth_placement_parse(hearth_placement **out, const hearth_model *model, const char *json, size_t size,
                                     hearth_error *error);
/* *json is terminated; freed with hearth_free. */
hearth_status hearth_placement_print(const hearth_placement *placement, char **json, hearth_error *error);
void hearth_placement_destroy(hearth_placement *placement);

/* ------------------------------------------------------------------ engine */

typedef struct hearth_engine hearth_engine;

typedef enum hearth_activations {
    HEARTH_ACTIVATIONS_AUTO, /* float32 for float weights, 8 bits for block weights */
    HEARTH_ACTIVATIONS_F32   /* float32 everywhere: slow, for checks                */
} hearth_activations;

typedef struct hearth_engine_options {
    const hearth_placement *placement; /* copied; NULL: mode auto */
    hearth_activations activations;
    hearth_progress progress; /* bytes of down matrices transposed, bytes uploaded to the device */
} hearth_engine_options;

/* HEARTH_INVALID: the placement is of another model, or needs a device and the runtime has none; the activations are no
 * hearth_activations. HEARTH_UNSUPPORTED: devices have no kernels
 * for a format of a matrix that is to lie there. HEARTH_NO_MEMORY: also the device's budget, the text says which and how
 * many layers would fit; transposed copies that main memory does not hold are refused before any of it is taken.
 * HEARTH_DEVICE: the device failed. Its progress must not call back into this runtime.
 *
 * options may be NULL. Where any layer skips neurons, or leaves some out, and the file stores its down matrices the stock
 * way, the engine keeps transposed copies of all of them; where a layer is on a coarse predictor, a copy of its gate (up
 * in plain networks) in few bits. These are most of the time that it takes and nearly all of the memory. */
hearth_status hearth_engine_create(hearth_engine **out, hearth_runtime *runtime, const hearth_model *model,
                                   const hearth_engine_options *options, hearth_error *error);
void hearth_engine_destroy(hearth_engine *engine);
const hearth_model *hearth_engine_model(const hearth_engine *engine);

/* What a run may claim about its answer, compared with that of dense; the strongest claim first. */
typedef enum hearth_guarantee {
    HEARTH_GUARANTEE_BITWISE,     /* the same bytes as dense on the same file                                       */
    HEARTH_GUARANTEE_EXACT,       /* only zeros are skipped; sums may round differently                             */
    HEARTH_GUARANTEE_REQUANTISED, /* exact, but down matrices were rounded once more                                */
    HEARTH_GUARANTEE_MARGIN,      /* what a coarse copy of the first matrix puts far below zero is skipped as well  */
    HEARTH_GUARANTEE_LOSSY,       /* neurons that may not be zero are skipped                                       */
    HEARTH_GUARANTEE_COUNT
} hearth_guarantee;

/* "bitwise", "exact", "requantised", "margin", "lossy"; "unknown" for any other number. */
const char *hearth_guarantee_name(hearth_guarantee guarantee);

/* The mode of the run, and its guarantee: those of its weakest layer. Coarse predictors keep their margin where it is the
 * one that they were tuned with, or a larger one; below that, or below 0, they are lossy. */
hearth_mode hearth_engine_mode(const hearth_engine *engine);
hearth_guarantee hearth_engine_guarantee(const hearth_engine *engine);

/* Weight bytes that decoding one token reads if no neuron is skipped. The KV cache comes on top. */
uint64_t hearth_engine_token_bytes(const hearth_engine *engine);

/* What mode pruned leaves out by a tune file's levels, and what that costs: between two levels, no less than the one
 * and no more than the other as they were measured. */
typedef struct hearth_pruning {
    bool known;                   /* thresholds are those of levels; else all of this is 0 */
    double share;                 /* of all activations, zeros included, counts as zero    */
    bool loss_known;              /* it was measured while tuning                          */
    double least_loss, most_loss; /* nats, as hearth_placement_prune_within    */
} hearth_pruning;

hearth_pruning hearth_engine_pruning(const hearth_engine *engine);

/* Bytes of copies that the engine computes on: transposed, or coarse. */
uint64_t hearth_engine_own_bytes(const hearth_engine *engine);

/* ----------------------------------------------------------------- session */

typedef struct hearth_session hearth_session;

typedef enum hearth_kv { HEARTH_KV_F16, HEARTH_KV_F32 } hearth_kv;

/* What one side did with a layer, and when. On a device: "attention"; "neurons", its own, beginning when the CPU could
 * begin with its; "join", what the CPU's sum has to wait for. On the CPU: "attention", "neurons" and "wait". */
typedef struct hearth_span {
    const char *side; /* "cpu", "device0"                        */
    const char *what;
    uint32_t layer;
    double begin, end; /* seconds since some fixed moment        */
} hearth_span;

/* Sees the spans of each step once it is done, on the driving thread. A zeroed record traces nothing. */
typedef struct hearth_tracer {
    void (*see)(void *user, const hearth_span *span);
    void *user;
} hearth_tracer;

typedef struct hearth_session_options {
    uint32_t context;     /* positions of each sequence; 0: the model's context length     */
    uint32_t sequences;   /* 0: one                                                        */
    uint32_t batch;       /* rows computed at once, longer feeds are cut; 0: 512; with a device at most 8 */
    uint32_t output_rows; /* rows of one feed whose logits may be asked for; 0: sequences  */
    hearth_kv kv;
    hearth_progress progress; /* rows of a feed done so far, after each layer; false cancels the feed. With a device it
                                 must not call functions of this runtime's engines and sessions */
    hearth_tracer tracer;     /* costs a little time in every layer                                 */
} hearth_session_options;

/* Memory, known before it is taken. */
typedef struct hearth_memory {
    uint64_t weight_bytes;  /* mapped from the file, shared by all sessions    */
    uint64_t own_bytes;     /* copies of the engine, shared by all sessions    */
    uint64_t kv_bytes;      /* reserved; becomes resident as sequences grow    */
    uint64_t scratch_bytes; /* what crosses the bus to a device included           */
    uint64_t device_bytes;  /* of the device's memory: weights there, this session's KV and scratch */
} hearth_memory;

hearth_status hearth_session_memory(const hearth_engine *engine, const hearth_session_options *options,
                                    hearth_memory *out, hearth_error *error);

/* options may be NULL. HEARTH_NO_MEMORY: keys, values and scratch of the whole context do not fit into main memory or the
 * device's budget; nothing was taken, and the text says how much was wanted and the largest context that fits. */
hearth_status hearth_session_create(hearth_session **out, const hearth_engine *engine,
                                    const hearth_session_options *options, hearth_error *error);
void hearth_session_destroy(hearth_session *session);

/* One token appended to one sequence. */
typedef struct hearth_row {
    int32_t token;
    uint32_t sequence;
    bool output; /* its logits will be asked for */
} hearth_row;

/* Reads rows (NULL where count is 0): each is appended to its sequence, in order; rows of several sequences may
 * be mixed. On any error every sequence is as before.
 * HEARTH_FULL: a sequence would outgrow its context (nothing is dropped silently).
 * HEARTH_INVALID: no such token or sequence, or more output rows than the session keeps.
 * HEARTH_FORMAT: what a layer computed is infinite or not a number; the text names the tensor that is to blame, or the
 * layer where every weight is finite.
 * HEARTH_CANCELLED: see hearth_session_cancel. HEARTH_DEVICE: the device failed; it is lost for all who use it. */
hearth_status hearth_session_feed(hearth_session *session, const hearth_row *rows, size_t count, hearth_error *error);

/* Logits of `count` output rows of the last feed, from the `first` on, into
 * logits [count][vocabulary_size]; the caller's. HEARTH_INVALID: there are no such rows. HEARTH_FORMAT: they are
 * not finite, as in a feed. HEARTH_DEVICE: the head lies on a device that failed. */
hearth_status hearth_session_logits(hearth_session *session, size_t first, size_t count, float *logits,
                                    hearth_error *error);
size_t hearth_session_output_count(const hearth_session *session);

/* Natural logarithm of a token's probability under logits [vocabulary_size]; NaN counts as -INFINITY, INFINITY as the
 * largest number. -INFINITY for a token that there is not, and where every logit is. */
double hearth_log_probability(const float *logits, size_t vocabulary_size, int32_t token);

uint32_t hearth_session_context(const hearth_session *session);
/* 0 for a sequence that there is not. */
uint32_t hearth_session_length(const hearth_session *session, uint32_t sequence);

/* Forgets what follows the first `length` positions. */
hearth_status hearth_session_truncate(hearth_session *session, uint32_t sequence, uint32_t length, hearth_error *error);
/* Makes `to` a copy of `from`. HEARTH_DEVICE: the device failed, and `to` is empty; so with restoring. */
hearth_status hearth_session_fork(hearth_session *session, uint32_t from, uint32_t to, hearth_error *error);

/* A sequence's state, kept apart; may be restored any number of times, into any sequence
 * of any session of the same engine and KV format with enough context. */
typedef struct hearth_checkpoint hearth_checkpoint;
hearth_status hearth_session_save(const hearth_session *session, uint32_t sequence, hearth_checkpoint **out,
                                  hearth_error *error);
hearth_status hearth_session_restore(hearth_session *session, uint32_t sequence, const hearth_checkpoint *checkpoint,
                                     hearth_error *error);
void hearth_checkpoint_destroy(hearth_checkpoint *checkpoint);

/* Ends what the session is doing, from any thread and from signal handlers: a feed returns HEARTH_CANCELLED, an answer
 * of hearth_generate stops as cancelled (also between two of its tokens). Looked at after each layer. Without effect
 * where neither runs: what begins later is not cancelled by it. */
void hearth_session_cancel(hearth_session *session);

/* What an observer sees after each layer, for each row. Pointers are valid during the call. Neurons have their original
 * numbers, ascending: those that a predictor let through, or where none is on those that fire. */
typedef struct hearth_observation {
    uint32_t layer, sequence, position;
    const float *residual;    /* [embedding_length] before the feed-forward network's norm */
    const float *ffn_input;   /* [embedding_length] what the neurons read                  */
    const uint32_t *neurons;  /* [neuron_count]; NULL: all, in order                       */
    const float *activations; /* [neuron_count] activation of each                         */
    const float *gates; /* [neuron_count] that of the first matrix alone, before it meets up; NULL unless asked for */
    size_t neuron_count;
} hearth_observation;

typedef struct hearth_observer {
    void (*see)(void *user, const hearth_observation *observation);
    void *user;
    bool gates; /* wants them: only of layers of which the CPU computes all neurons and attention, in mode dense */
} hearth_observer;

/* On the driving thread. NULL: nobody observes. The record is copied. With a device, an observer must not call functions
 * of this runtime's engines and sessions other than this one: the device is in the middle of a step. */
void hearth_session_observe(hearth_session *session, const hearth_observer *observer);

/* What a layer did with the rows fed since the session was made or its counts were reset, also where a feed failed
 * later; sums over rows. Of a row, `computed` neurons were let through by a predictor (where there is none: all but those
 * that are left out) and had their first matrix (gate, or up in plain networks) read; of these `fired` made the second
 * necessary, and `active` the row of down. */
typedef struct hearth_counts {
    uint64_t rows, computed, fired, active; /* of both sides together */
} hearth_counts;

/* HEARTH_INVALID: no such layer. */
hearth_status hearth_session_counts(const hearth_session *session, uint32_t layer, hearth_counts *out,
                                    hearth_error *error);
void hearth_session_reset_counts(hearth_session *session);
/* Mean weight bytes that a row would need on its own, by these counts; those of all neurons where nothing was fed. */
double hearth_session_token_bytes(const hearth_session *session);

/* ---------------------------------------------------------------- sampling */

typedef struct hearth_logit_bias {
    int32_t token;
    float bias; /* added to the logit; -INFINITY forbids */
} hearth_logit_bias;

typedef struct hearth_sampling {
    float temperature;               /* 0: greedy                                              */
    uint32_t top_k;                  /* 0: all                                                 */
    float top_p;                     /* 1: all; smallest set with at least this probability    */
    float min_p;                     /* 0: all; at least this share of the best's probability  */
    float repeat_penalty;            /* 1: none; divides positive logits, multiplies negative  */
    float presence_penalty;          /* subtracted once from tokens seen                       */
    float frequency_penalty;         /* subtracted for each time a token was seen              */
    uint32_t penalty_window;         /* latest tokens that count as seen; 0: none              */
    const hearth_logit_bias *biases; /* copied */
    size_t bias_count;
    uint64_t seed;
} hearth_sampling;

/* temperature 0.8, top_k 40, top_p 0.95, min_p 0.05, no penalties (window 64), seed 0. */
hearth_sampling hearth_sampling_default(void);

typedef struct hearth_sampler hearth_sampler;

/* options may be NULL: hearth_sampling_default. HEARTH_INVALID: a value out of range (named). Same options, logits and history: same choices. */
hearth_status hearth_sampler_create(hearth_sampler **out, const hearth_sampling *options, uint32_t vocabulary_size,
                                    hearth_error *error);
void hearth_sampler_destroy(hearth_sampler *sampler);
/* Remembers a token (of the prompt or chosen) for the penalties; one that there is not changes nothing. */
void hearth_sampler_accept(hearth_sampler *sampler, int32_t token);
/* Forgets them, and starts the random sequence afresh: as new. */
void hearth_sampler_reset(hearth_sampler *sampler);
/* Chooses a token from logits [vocabulary_size], which stay as they are. Does not accept it. NaN counts as -INFINITY,
 * INFINITY as the largest number; where nothing is allowed, the lowest token that no bias forbids. */
int32_t hearth_sampler_pick(hearth_sampler *sampler, const float *logits);

/* ---------------------------------------------------------------- answers */

/* Why an answer ended. */
// clang-format off
#define HEARTH_STOPS(X)                                     \
    X(HEARTH_STOP_NONE,      "none")        /* goes on */   \
    X(HEARTH_STOP_END,       "end")         /* EOS, BOS */  \
    X(HEARTH_STOP_STRING,    "string")                      \
    X(HEARTH_STOP_LENGTH,    "length")      /* max_tokens */\
    X(HEARTH_STOP_CONTEXT,   "context")     /* no room */   \
    X(HEARTH_STOP_CANCELLED, "cancelled")
// clang-format on

typedef enum hearth_stop {
#define X(name, text) name,
    HEARTH_STOPS(X)
#undef X
} hearth_stop;

/* "unknown" for any other number. */
const char *hearth_stop_text(hearth_stop stop);

typedef struct hearth_answer_options {
    const char *const *stops; /* strings that end the answer and are not part of it; copied */
    size_t stop_count;
    uint32_t max_tokens; /* 0: until the context is full */
    bool ignore_end;     /* EOS and BOS do not end it    */
} hearth_answer_options;

/* Text of one sequence while it grows: detokenizes, holds back what may become a stop
 * string, knows when to stop. For programs that drive many sequences themselves. */
typedef struct hearth_answer hearth_answer;

/* options may be NULL. */
hearth_status hearth_answer_create(hearth_answer **out, const hearth_model *model, const hearth_answer_options *options,
                                   hearth_error *error);
void hearth_answer_destroy(hearth_answer *answer);
/* Adds a chosen token. HEARTH_INVALID: no such token, or the answer has ended. *text, *size: what can be shown now, valid until the next call.
 * *stop: HEARTH_STOP_NONE while it goes on. */
hearth_status hearth_answer_push(hearth_answer *answer, int32_t token, const char **text, size_t *size,
                                 hearth_stop *stop, hearth_error *error);
/* What is still held back, once the answer has ended for whatever reason (a stop string: nothing). */
void hearth_answer_finish(hearth_answer *answer, const char **text, size_t *size);

/* Called once for each token of the answer with the text that became complete, maybe none, and once more with token
 * -1 where text that was held back is left at the end; false cancels. The mark that ends an answer is not a part of it. */
typedef bool hearth_on_text(void *user, int32_t token, const char *text, size_t size);

typedef struct hearth_result {
    hearth_stop stop;
    size_t prompt_tokens, answer_tokens;
    double prompt_seconds; /* reading the prompt                                                         */
    double answer_seconds; /* choosing and reading the answer's tokens, without the time inside on_text  */
} hearth_result;

/* The simple way: reads prompt [count] into a sequence, then samples until something stops it. The sampler has
 * accepted what the session has read: prompt and answer, but for the token at which a stop string, a full context
 * or cancelling ended it. options and on_text may be NULL, `result` too; else it is filled in any case. HEARTH_INVALID:
 * an empty prompt, a token or sequence that there is not, a sampler for another vocabulary. HEARTH_FULL: the prompt does not fit; a full context later is
 * a stop reason, and so is cancelling. */
hearth_status hearth_generate(hearth_session *session, uint32_t sequence, const int32_t *prompt, size_t count,
                              hearth_sampler *sampler, const hearth_answer_options *options, hearth_on_text *on_text,
                              void *user, hearth_result *result, hearth_error *error);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
