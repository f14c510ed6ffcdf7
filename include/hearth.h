/* hearth.h - the public interface: runs a large language model and skips the neurons that are zero.
 *
 * There are four main kinds of object. Each uses the ones above it:
 *
 *   runtime   the thread pool and the devices
 *   model     an open file: weights, hyperparameters, vocabulary and tune data; read-only
 *   engine    a model under a placement on a runtime, with the weights it uploaded or transposed
 *   session   sequences with their key/value state; used by one thread at a time
 *
 * Smaller ones: a placement says what an engine computes where; a sampler chooses tokens; an answer and a detokenizer
 * (each of a model) turn tokens into text; a checkpoint is a saved sequence of a session. examples/generate.c is a whole
 * program. This one file is the whole interface, hence its length.
 *
 * Threads may share a runtime, a model and an engine once it is created. A session, a sampler and an answer belong to
 * one thread at a time. Objects are destroyed in the reverse order of their creation. Engines of one runtime take turns
 * on its threads.
 *
 * Functions that can fail return a status and, where they have an error parameter, fill in the caller's error record.
 * Out-parameters are written only on HEARTH_OK unless their description says otherwise. `error` may be NULL. `destroy` and `close` accept NULL; no other
 * pointer may be NULL unless its description says so. Numbers may have any value: one that is out of range gives
 * HEARTH_INVALID or has the effect described. The library never prints and never exits. All text is UTF-8; all sizes
 * are in bytes unless a name says otherwise.
 *
 * What precedes the section "experimental" and is not called so is stable: a compiled program works with every later
 * library of the same major version. Enumerators keep their numbers, except those that end in _COUNT. Some structs will get more members at their end. A function that takes
 * or fills such a struct has a form whose name ends in _sized, which is also given the size of the caller's struct; the
 * plain name is an inline function that passes sizeof. Members that the caller's struct lacks count as zero and are not
 * written. Members that the library does not know must be zero (else HEARTH_UNSUPPORTED), and are set to zero. Bindings
 * for other languages call the _sized forms. All other structs stay as they are, except that those which the library
 * passes to callbacks may grow. */
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

/* Returns the version of the library that is linked; HEARTH_VERSION is that of the header a program was compiled
 * with. */
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

/* Says in one line why a call failed, for people: "FILE: thing: reason". The record belongs to the caller. */
typedef struct hearth_error {
    hearth_status status;
    char text[1024];
} hearth_error;

/* Returns "success", "out of memory" ...; "unknown status" for any other number. */
const char *hearth_status_text(hearth_status status);

/* A callback for long work: `done` of `total` units of `what` are finished. Returning false cancels the work. A zeroed
 * record receives no reports. */
typedef struct hearth_progress {
    bool (*report)(void *user, const char *what, uint64_t done, uint64_t total);
    void *user;
} hearth_progress;

typedef enum hearth_log_level {
    HEARTH_LOG_WARNING, /* something the caller may have expected was not done, and why */
    HEARTH_LOG_INFO     /* what was opened, made and taken, with sizes and times        */
} hearth_log_level;

/* A callback for single lines of text without a line break, for people. It is called by the thread that called the
 * library and must not call back into it. A zeroed record receives no lines. */
typedef struct hearth_log {
    void (*line)(void *user, hearth_log_level level, const char *text);
    void *user;
} hearth_log;

/* Frees memory that a function of this header handed to the caller. */
void hearth_free(void *memory);

/* ----------------------------------------------------------------- runtime */

typedef struct hearth_runtime hearth_runtime;

typedef struct hearth_runtime_options {
    unsigned threads;      /* 0: one per physical core                                                           */
    const char *cpu_level; /* "scalar", "avx2" ...: a set of CPU features; NULL: chosen by HEARTH_CPU, see below */
    const char *device;    /* "host", "opencl", "cuda:1,memory=8G" ...: side device0 of placements; NULL: none   */
    /* An existing folder that stores whether each driver answers, and how it fails if not; NULL: nothing is stored.
     * Drivers are first tried in a child process, since some end the program that calls them. With a folder this
     * happens once per machine start, without one once per process. */
    const char *cache_folder;
    uint64_t memory_bytes; /* main memory that copies of an engine and a session may take; 0: all of it */
    hearth_log log;        /* receives the lines of the runtime, its engines and its sessions           */
} hearth_runtime_options;

/* options may be NULL. The environment variable HEARTH_CPU names the level to use where none is given. If it is unset
 * or empty, the best level of this CPU is used. Results of different levels differ by rounding.
 * HEARTH_INVALID: the level is unknown or this CPU lacks it (the error lists the available ones), or the device is
 * unknown.
 * HEARTH_DEVICE: the device is missing or its driver is broken. */
hearth_status hearth_runtime_create_sized(hearth_runtime **out, const hearth_runtime_options *options,
                                          size_t options_size, hearth_error *error);
static inline hearth_status hearth_runtime_create(hearth_runtime **out, const hearth_runtime_options *options,
                                                  hearth_error *error)
{
    return hearth_runtime_create_sized(out, options, sizeof *options, error);
}
void hearth_runtime_destroy(hearth_runtime *runtime);
unsigned hearth_runtime_threads(const hearth_runtime *runtime);
const char *hearth_runtime_cpu_level(const hearth_runtime *runtime);

/* A device besides the CPU. All sizes are of its own memory. used_bytes is what engines and sessions take of the budget
 * now, peak_bytes the most they ever took. */
typedef struct hearth_device_info {
    const char *driver, *name; /* owned by the runtime */
    uint64_t memory_bytes, budget_bytes, used_bytes, peak_bytes;
} hearth_device_info;

/* Describes the runtime's device; returns false if it has none. Must not be called while another thread creates or
 * destroys engines or sessions on it. */
bool hearth_runtime_device_sized(const hearth_runtime *runtime, hearth_device_info *out, size_t out_size);
static inline bool hearth_runtime_device(const hearth_runtime *runtime, hearth_device_info *out)
{
    return hearth_runtime_device_sized(runtime, out, sizeof *out);
}

/* The devices of this machine, found without a runtime. */
typedef struct hearth_device_list hearth_device_list;

/* A device that a runtime can be created with, or a driver that has none. */
typedef struct hearth_device_entry {
    const char *device;  /* for hearth_runtime_options: "host", "opencl:0", "cuda:1"; owned by the list */
    const char *name;    /* "NVIDIA H200"; empty if the driver is missing; owned by the list            */
    const char *problem; /* why it cannot be used; NULL: it can; owned by the list                      */
    bool is_gpu;         /* false: it runs on the cores of the CPU                                      */
    uint64_t memory_bytes;
} hearth_device_entry;

/* Asks every driver which devices it has; a broken driver is an entry with its problem, not an error. cache_folder: as
 * in hearth_runtime_options. */
hearth_status hearth_device_list_create(hearth_device_list **out, const char *cache_folder, hearth_error *error);
void hearth_device_list_destroy(hearth_device_list *list);
size_t hearth_device_list_count(const hearth_device_list *list);
/* Describes an entry; returns false if there is no such index. */
bool hearth_device_list_get_sized(const hearth_device_list *list, size_t index, hearth_device_entry *out,
                                  size_t out_size);
static inline bool hearth_device_list_get(const hearth_device_list *list, size_t index, hearth_device_entry *out)
{
    return hearth_device_list_get_sized(list, index, out, sizeof *out);
}

/* ------------------------------------------------------------------- model */

typedef struct hearth_model hearth_model;

typedef struct hearth_model_options {
    /* Replaces the activation of the file: "silu", "relu", "fatrelu" (whose threshold the file must have); NULL: the
     * file's. */
    const char *ffn_activation;
    const char *tune; /* the tune file; NULL: PATH.tune if it exists; "": none                 */
    hearth_progress progress;
    hearth_log log;
} hearth_model_options;

typedef struct hearth_model_info {
    const char *path, *name, *family, *activation; /* owned by the model */
    uint32_t layer_count;
    uint32_t embedding_length; /* d */
    uint32_t neuron_count;     /* f: neurons of the feed-forward network of a layer; where layers differ, the most */
    uint32_t head_count, kv_head_count, head_length;
    uint32_t vocabulary_size;
    uint32_t context_length; /* positions the model was trained for */
    uint64_t parameter_count;
    uint64_t weight_bytes; /* all tensors as stored */
    bool has_tokenizer;
    int32_t bos, eos;          /* token ids; -1: none                                                   */
    bool powerinfer;           /* a PowerInfer file (its magic is PWRI)                                 */
    bool neuron_major;         /* stores down transposed: a row per neuron                              */
    bool predictors;           /* mode predicted can run: at least one layer has a predictor            */
    bool tuned;                /* a tune file is in use                                                 */
    float predictor_threshold; /* of the file: neurons with a lower score are skipped; 0: no predictors */
    const char *tune_problem;  /* why the tune file beside the model was ignored; NULL: it was not      */
} hearth_model_info;

/* Opens a GGUF file or a Hugging Face folder, and its tune file with it. options may be NULL.
 * HEARTH_INVALID: path is NULL or empty.
 * HEARTH_FORMAT: not a model, damaged, or a tensor is missing, extra or misshapen (named).
 * HEARTH_UNSUPPORTED: a family, format or setting that hearth does not run. A tune file named in options must be
 * usable: HEARTH_FORMAT if it is damaged or of another model, HEARTH_IO if it is missing. One that merely lies beside
 * the model and cannot be used is ignored; hearth_model_info.tune_problem says why. */
hearth_status hearth_model_open_sized(hearth_model **out, const char *path, const hearth_model_options *options,
                                      size_t options_size, hearth_error *error);
static inline hearth_status hearth_model_open(hearth_model **out, const char *path, const hearth_model_options *options,
                                              hearth_error *error)
{
    return hearth_model_open_sized(out, path, options, sizeof *options, error);
}
/* Opens the same model with another tune file (path NULL: none): its predictors, its thresholds for pruning and its
 * order of hot neurons. Everything else is shared with `of`, which does not change and must be closed last. Engines of
 * both may run at the same time. Tune file errors are those of hearth_model_open. */
hearth_status hearth_model_with_tune(hearth_model **out, const hearth_model *of, const char *path, hearth_error *error);
void hearth_model_close(hearth_model *model);
/* Fills in *out; its strings stay valid until the model is closed. */
void hearth_model_describe_sized(const hearth_model *model, hearth_model_info *out, size_t out_size);
static inline void hearth_model_describe(const hearth_model *model, hearth_model_info *out)
{
    hearth_model_describe_sized(model, out, sizeof *out);
}

/* Returns how many keys describe the model: those of its GGUF file ("general.name", "llama.block_count"); for a Hugging
 * Face folder the same keys are made. */
size_t hearth_model_key_count(const hearth_model *model);
/* Returns a key's name, valid while the model is open; NULL if there is no such index. */
const char *hearth_model_key(const hearth_model *model, size_t index);
/* Returns the value of a key as JSON: a number, text, true or false, or an array of these. *json is terminated and
 * freed with hearth_free. Bytes that are not UTF-8 become U+FFFD, numbers that are not finite null.
 * HEARTH_INVALID: there is no such key. */
hearth_status hearth_model_value(const hearth_model *model, const char *key, char **json, hearth_error *error);
/* Returns the chat template of the model (Jinja), not terminated, valid while the model is open; NULL: it has none. */
const char *hearth_model_chat_template(const hearth_model *model, size_t *size);

/* -------------------------------------------------------------------- text */

enum hearth_text_flags {
    HEARTH_TEXT_SPECIAL = 1,      /* add BOS and EOS if the model wants them      */
    HEARTH_TEXT_PARSE_CONTROL = 2 /* recognise control tokens written in the text */
};

/* Turns `size` bytes of text (NULL if size is 0) into token ids. *ids is freed with hearth_free; it is NULL if *count
 * is 0. Invalid UTF-8 becomes byte tokens or the unknown token.
 * HEARTH_UNSUPPORTED: the model has no tokenizer. */
hearth_status hearth_tokenize(const hearth_model *model, const char *text, size_t size, unsigned flags, int32_t **ids,
                              size_t *count, hearth_error *error);

/* Turns ids into text, piece by piece, and never returns half a UTF-8 character. Each text needs its own detokenizer,
 * which belongs to one thread at a time. */
typedef struct hearth_detokenizer hearth_detokenizer;

enum hearth_detokenize_flags {
    HEARTH_DETOKENIZE_CONTROL = 1, /* show the text of control tokens; otherwise they give no text */
    HEARTH_DETOKENIZE_CONTINUE = 2 /* the text continues another: keep the blank before the first word */
};

hearth_status hearth_detokenizer_create(hearth_detokenizer **out, const hearth_model *model, unsigned flags,
                                        hearth_error *error);
void hearth_detokenizer_destroy(hearth_detokenizer *detokenizer);

/* Adds an id and returns the text that it completed: *text has *size bytes (possibly 0), is not terminated and is valid
 * until the next call.
 * HEARTH_INVALID: there is no such id. */
hearth_status hearth_detokenizer_push(hearth_detokenizer *detokenizer, int32_t id, const char **text, size_t *size,
                                      hearth_error *error);

/* Returns the text that is still held back; bytes that never became a character come out as U+FFFD. Afterwards the
 * detokenizer is as new. */
void hearth_detokenizer_finish(hearth_detokenizer *detokenizer, const char **text, size_t *size);

enum hearth_token_attributes {
    HEARTH_TOKEN_CONTROL = 1,      /* <s>, <|im_end|> ...: never part of plain text           */
    HEARTH_TOKEN_USER_DEFINED = 2, /* always one token, wherever its text occurs              */
    HEARTH_TOKEN_UNKNOWN = 4,      /* stands for text that has no token                       */
    HEARTH_TOKEN_BYTE = 8,         /* stands for one byte                                     */
    HEARTH_TOKEN_UNUSED = 16,      /* never produced from text                                */
    HEARTH_TOKEN_ENDS_ANSWER = 32  /* hearth_token_ends_answer is true                        */
};

/* Returns the token as the vocabulary spells it (for SentencePiece with U+2581 for a blank), not terminated, valid while
 * the model is open; NULL if there is no such token or no tokenizer. A detokenizer gives the text of an answer. */
const char *hearth_token_text(const hearth_model *model, int32_t id, size_t *size);
/* Returns the attributes of a token; 0 for a normal and for an unknown one. */
unsigned hearth_token_attributes(const hearth_model *model, int32_t id);
/* Returns true if the id ends an answer: EOS, end of turn, or BOS (a new text begins). False for unknown ids. */
bool hearth_token_ends_answer(const hearth_model *model, int32_t id);

/* --------------------------------------------------------------- placement */

/* The modes, from the most accurate on. Each defines its result at every position, prompt included. */
// clang-format off
#define HEARTH_MODES(X)                   \
    X(HEARTH_MODE_DENSE,     "dense")     /* computes every neuron                                                  */ \
    X(HEARTH_MODE_EXACT,     "exact")     /* skips neurons that are zero; the answer is that of dense               */ \
    X(HEARTH_MODE_PREDICTED, "predicted") /* skips also what predictors reject: lossy, or within a margin           */ \
    X(HEARTH_MODE_PRUNED,    "pruned")    /* treats small activations as zero: lossy */
// clang-format on

typedef enum hearth_mode {
    HEARTH_MODE_AUTO, /* exact if the activation is often exactly zero (ReLU and similar), else dense */
#define X(mode, name) mode,
    HEARTH_MODES(X)
#undef X
        HEARTH_MODE_COUNT
} hearth_mode;

/* Returns "auto", "dense", "exact", "predicted" or "pruned"; "unknown" for any other number. */
const char *hearth_mode_name(hearth_mode mode);

/* Says as data what lies and runs where: for every layer its form, its selector and the neuron ranges of each side; and
 * the sides of the KV cache, the embedding and the head. A function that changes a placement leaves it as it was if it
 * fails. */
typedef struct hearth_placement hearth_placement;

/* Places everything on the CPU, in one mode. In mode predicted, layers without a predictor that is worth its bytes are
 * exact. Mode pruned works with any activation: its threshold is 0, so only zeros are skipped, until one of
 * hearth_placement_set_threshold, _prune and _prune_within sets another; its guarantee is lossy all the same.
 * HEARTH_UNSUPPORTED: exact for an activation that is never zero; predicted for a model without predictors, or for one
 * whose tune file was ignored, as that file may have held others.
 * HEARTH_INVALID: there is no such mode. */
hearth_status hearth_placement_create(hearth_placement **out, const hearth_model *model, hearth_mode mode,
                                      hearth_error *error);
void hearth_placement_destroy(hearth_placement *placement);

/* ------------------------------------------------------------------ engine */

typedef struct hearth_engine hearth_engine;

typedef enum hearth_activations {
    HEARTH_ACTIVATIONS_AUTO, /* float32 for float weights, 8 bits for block weights */
    HEARTH_ACTIVATIONS_F32,  /* float32 everywhere: slow, for checks                */
    /* As auto, but on the CPU, many tokens and weights in F16 or BF16 are both rounded to bfloat16 and multiplied so: prompts are read
     * about twice as fast, with about three digits of each factor. For CPU levels that have such products. */
    HEARTH_ACTIVATIONS_BF16,
    HEARTH_ACTIVATIONS_COUNT
} hearth_activations;

/* Experimental: whether, while a long prompt is read, neurons that the placement gives to the CPU are copied to the device part by
 * part and computed there, in layers whose attention is on the device. The answer is that of the placement; sums may round
 * differently. */
typedef enum hearth_stream {
    HEARTH_STREAM_AUTO, /* where it is measured to be faster; on a device that computes with the CPU's cores it is not used */
    HEARTH_STREAM_ON, /* in all steps of more than eight rows */
    HEARTH_STREAM_OFF,
    HEARTH_STREAM_COUNT
} hearth_stream;

typedef struct hearth_engine_options {
    const hearth_placement *placement; /* copied; NULL: mode auto */
    hearth_activations activations;
    hearth_progress progress; /* bytes of down matrices transposed, bytes uploaded to the device */
    hearth_stream stream;     /* experimental. Sessions log what they decide, and why, as HEARTH_LOG_INFO */
    /* Experimental: the most bytes of each of the two buffers for that, of the device and of main memory; 0: 8 MB. They are
     * smaller or left out where they do not fit. */
    uint64_t stream_bytes;
} hearth_engine_options;

/* options may be NULL. The library does not measure whether skipping pays: mode auto skips wherever there are zeros, also
 * where that is slower, as with models that fit into the cache; the program's guard measures and chooses.
 *
 * If any layer skips neurons or leaves some out, and the file stores its down matrices in the
 * stock layout, the engine makes transposed copies of all of them. For each layer with a coarse predictor it makes a
 * copy of the gate matrix (up in plain networks) in few bits. These copies take most of the time and nearly all of the
 * memory.
 *
 * HEARTH_INVALID: the placement is of another model, or needs a device and the runtime has none; or `activations` is
 * not a hearth_activations, or `stream` not a hearth_stream.
 * HEARTH_UNSUPPORTED: devices have no kernels for the format of a matrix that the placement puts there; or it puts
 * experts there that choose their neurons by themselves, or whose shared expert has another format; or a part of the
 * neurons of a layer that cannot be split; or the CPU level multiplies no bfloat16, which `activations` asks for.
 * HEARTH_NO_MEMORY: of main memory or of the device's budget; the text says which, and for the device how many layers
 * would fit. Transposed copies that main memory cannot hold are refused before any of it is taken.
 * HEARTH_DEVICE: the device failed. The progress callback must not call back into this runtime. */
hearth_status hearth_engine_create_sized(hearth_engine **out, hearth_runtime *runtime, const hearth_model *model,
                                         const hearth_engine_options *options, size_t options_size,
                                         hearth_error *error);
static inline hearth_status hearth_engine_create(hearth_engine **out, hearth_runtime *runtime,
                                                 const hearth_model *model, const hearth_engine_options *options,
                                                 hearth_error *error)
{
    return hearth_engine_create_sized(out, runtime, model, options, sizeof *options, error);
}
void hearth_engine_destroy(hearth_engine *engine);
const hearth_model *hearth_engine_model(const hearth_engine *engine);

/* What a run guarantees about its answer, compared with that of dense; the strongest guarantee first. */
typedef enum hearth_guarantee {
    HEARTH_GUARANTEE_BITWISE,     /* the same bytes as dense on the same file                              */
    HEARTH_GUARANTEE_EXACT,       /* only zeros are skipped; sums may round differently                    */
    HEARTH_GUARANTEE_REQUANTISED, /* exact, but down matrices were rounded once more                       */
    HEARTH_GUARANTEE_MARGIN,      /* also skips what a coarse copy of the first matrix puts far below zero */
    HEARTH_GUARANTEE_LOSSY,       /* may skip neurons that are not zero                                    */
    HEARTH_GUARANTEE_COUNT
} hearth_guarantee;

/* Returns "bitwise", "exact", "requantised", "margin" or "lossy"; "unknown" for any other number. */
const char *hearth_guarantee_name(hearth_guarantee guarantee);

/* Return the mode and the guarantee of a run: those of its weakest layer. Coarse predictors have the guarantee margin
 * at the margin that they were tuned with or a larger one; at a smaller one, or below 0, they are lossy. */
hearth_mode hearth_engine_mode(const hearth_engine *engine);
hearth_guarantee hearth_engine_guarantee(const hearth_engine *engine);

/* Returns the weight bytes that decoding one token reads if no neuron is skipped. The KV cache comes on top. */
uint64_t hearth_engine_token_bytes(const hearth_engine *engine);

/* Returns the bytes of the transposed and coarse copies that the engine computes with. */
uint64_t hearth_engine_own_bytes(const hearth_engine *engine);

/* ----------------------------------------------------------------- session
 *
 * Sequences. A session has a fixed number of sequences, 0 to sequences - 1, all empty at first. hearth_session_feed appends
 * tokens, of one or of many at a time; a sequence is as long as what was fed to it, and no longer than the context.
 *
 *     truncate   forgets the end of a sequence; with length 0 it is empty and free for another text
 *     fork       makes one a copy of another: for several answers to one prompt, or for a beginning that many texts share.
 *                Both share the memory of what they have read, and neither notices what is done to the other
 *     save       copies a sequence out of the session (a checkpoint); restore brings it back, there or elsewhere
 *
 * Their keys and values lie in pages of up to 128 positions. A sequence takes a page when it grows into it, and returns it
 * when it is truncated, forked to or restored to, unless another sequence has the page, too. Where a copy goes on in the
 * middle of a shared page it gets its own copy of that one: at most 128 positions. By default there are pages for
 * `context` positions of every sequence. cache_positions of the options sets fewer, for sequences that are seldom long at a
 * time or share their beginnings; then hearth_session_free_positions says what is left, and a feed that needs more gives
 * HEARTH_FULL and changes nothing, so that the caller can truncate a sequence and feed again.
 * Recurrent layers keep a state in place of keys and values, which is copied whole, and kept of a few lengths only. */

typedef struct hearth_session hearth_session;

/* Q8_0: blocks of 32 values with a scale, 8.5 bits for each; heads must be made of whole blocks. */
typedef enum hearth_kv { HEARTH_KV_F16, HEARTH_KV_F32, HEARTH_KV_Q8_0, HEARTH_KV_COUNT } hearth_kv;

/* What one side did with a layer, and when. On a device: "attention"; "neurons", its own, which begins when the CPU may
 * begin with its neurons; "join", adding up the sums of both sides once that of the CPU has arrived. On the CPU:
 * "attention", "neurons" and "wait". Where the CPU's neurons are streamed (hearth_stream): "stream" of the CPU, which packs them;
 * of each part "copy" of the bus, and "streamed" of the device, which computes it. */
typedef struct hearth_span {
    const char *side; /* "cpu", "device0", "bus" */
    const char *what;
    uint32_t layer;
    double begin, end; /* seconds since some fixed moment */
} hearth_span;

/* Experimental: a callback that receives the spans of each step once it is done, on the driving thread. A zeroed record
 * traces nothing. */
typedef struct hearth_tracer {
    void (*see)(void *user, const hearth_span *span);
    void *user;
} hearth_tracer;

typedef struct hearth_session_options {
    uint32_t context;     /* positions of each sequence; 0: the context length of the model, or what fits of it   */
    uint32_t sequences;   /* 0: one                                                                               */
    uint32_t batch;       /* rows computed at once; longer feeds are cut. 0: at most 512. With a device at most 128 */
    uint32_t output_rows; /* rows of one feed that may be outputs; 0: as many as sequences                        */
    hearth_kv kv;         /* format of keys and values; 0: F16                                                    */
    hearth_progress progress; /* rows of a feed done so far, after each layer; false cancels the feed. With a device it
                               * must not call functions of engines and sessions of this runtime */
    hearth_tracer tracer;     /* costs a little time in every layer */
    /* Of recurrent layers: states of earlier lengths that are kept of each sequence, at the beginning and the end of feeds
     * of several tokens, so that it can be truncated to these: the last two, and others spread over its length. 0: 4, at
     * most 1024. */
    uint64_t marks;
    /* Positions that all sequences together can hold: less than sequences x context where few are long at a time, or share a
     * beginning (hearth_session_fork). Rounded up to whole pages of at most 128 positions. 0: context x sequences */
    uint64_t cache_positions;
    /* Further sequences, for which no positions are added: with them a scheduler keeps more of what earlier requests have
     * read, and answers no more at once. Recurrent layers take memory for each. */
    uint64_t spare_sequences;
} hearth_session_options;

/* Memory of a session, known before it is taken. */
typedef struct hearth_memory {
    uint64_t weight_bytes;  /* mapped from the file, shared by all sessions                             */
    uint64_t own_bytes;     /* copies of the engine, shared by all sessions                             */
    uint64_t kv_bytes;      /* reserved; becomes resident as sequences grow                             */
    uint64_t scratch_bytes; /* includes what crosses the bus to a device                                */
    uint64_t device_bytes;  /* in the memory of the device: weights, and KV and scratch of this session */
} hearth_memory;

/* Counts the memory that such a session would take, and takes none of it. options may be NULL.
 * HEARTH_INVALID: as in hearth_session_create. */
hearth_status hearth_session_memory_sized(const hearth_engine *engine, const hearth_session_options *options,
                                          size_t options_size, hearth_memory *out, size_t out_size,
                                          hearth_error *error);
static inline hearth_status hearth_session_memory(const hearth_engine *engine, const hearth_session_options *options,
                                                  hearth_memory *out, hearth_error *error)
{
    return hearth_session_memory_sized(engine, options, sizeof *options, out, sizeof *out, error);
}

/* options may be NULL.
 * HEARTH_UNSUPPORTED: the KV format has blocks, and heads of the model are not made of whole ones.
 * HEARTH_INVALID: the KV format is unknown, the context is longer than that of the model, or the size of the cache
 * overflows.
 * HEARTH_NO_MEMORY: keys, values and scratch of the context that was asked for (or of any) do not fit into main memory or
 * the device's budget; nothing was taken, and the text says how much was wanted and the largest context that fits. */
hearth_status hearth_session_create_sized(hearth_session **out, const hearth_engine *engine,
                                          const hearth_session_options *options, size_t options_size,
                                          hearth_error *error);
static inline hearth_status hearth_session_create(hearth_session **out, const hearth_engine *engine,
                                                  const hearth_session_options *options, hearth_error *error)
{
    return hearth_session_create_sized(out, engine, options, sizeof *options, error);
}
void hearth_session_destroy(hearth_session *session);

/* One token appended to one sequence. */
typedef struct hearth_row {
    int32_t token;
    uint32_t sequence;
    bool output; /* its logits or its hidden state will be asked for */
} hearth_row;

/* Reads rows (NULL if count is 0): appends each to its sequence, in order. Rows of several sequences may be mixed. On
 * any error every sequence is as before.
 * HEARTH_FULL: a sequence would outgrow its context, or all of them the positions that they have together (nothing is
 * dropped silently); the text says how many are free.
 * HEARTH_INVALID: there is no such token or sequence, or there are more output rows than the session holds.
 * HEARTH_FORMAT: a layer computed an infinity or NaN; the text names the tensor that caused it, or the layer if every
 * weight is finite.
 * HEARTH_CANCELLED: see hearth_session_cancel.
 * HEARTH_DEVICE: the device failed; it is lost for all its users. */
hearth_status hearth_session_feed(hearth_session *session, const hearth_row *rows, size_t count, hearth_error *error);

/* Writes the logits of `count` output rows of the last feed, beginning with row `first`, to the caller's logits
 * [count][vocabulary_size].
 * HEARTH_INVALID: there are no such rows.
 * HEARTH_FORMAT: logits are not finite, as in a feed.
 * HEARTH_DEVICE: the head lies on a device that failed. */
hearth_status hearth_session_logits(hearth_session *session, size_t first, size_t count, float *logits,
                                    hearth_error *error);
/* Writes the final hidden states of `count` output rows of the last feed, beginning with row `first`, to the caller's
 * hidden [count][embedding_length]: what the last norm gives, which the head makes logits of. They are in main memory
 * wherever the layers lie, so this computes nothing.
 * HEARTH_INVALID: there are no such rows. */
hearth_status hearth_session_hidden(const hearth_session *session, size_t first, size_t count, float *hidden,
                                    hearth_error *error);
/* Returns the number of output rows of the last feed; 0 if it failed. */
size_t hearth_session_output_count(const hearth_session *session);

/* Returns the natural logarithm of the probability of a token under logits [vocabulary_size]. NaN counts as -INFINITY,
 * INFINITY as the largest finite float. Returns -INFINITY for an unknown token, and if every logit is -INFINITY. */
double hearth_log_probability(const float *logits, size_t vocabulary_size, int32_t token);

/* Returns the positions that each sequence can hold. */
uint32_t hearth_session_context(const hearth_session *session);
/* Returns the positions that no sequence takes, in whole pages. Beside them a sequence has the rest of its last page, unless
 * another one shares it. */
uint64_t hearth_session_free_positions(const hearth_session *session);
/* Returns the positions that a sequence has read; 0 for an unknown sequence. */
uint32_t hearth_session_length(const hearth_session *session, uint32_t sequence);
/* Returns the tokens [length] that a sequence has read, valid until it changes; NULL for an unknown sequence. */
const int32_t *hearth_session_tokens(const hearth_session *session, uint32_t sequence);

/* Returns the greatest length of at most `length` to which a sequence can be truncated: `length` itself, unless the model has
 * recurrent layers, whose states are kept of few lengths; 0 where there is no such sequence. */
uint32_t hearth_session_reach(const hearth_session *session, uint32_t sequence, uint32_t length);
/* Keeps the first `length` positions of a sequence and forgets the rest.
 * HEARTH_INVALID: there is no such sequence, or it is shorter.
 * HEARTH_UNSUPPORTED: no state of that length is kept (hearth_session_reach). */
hearth_status hearth_session_truncate(hearth_session *session, uint32_t sequence, uint32_t length, hearth_error *error);
/* Makes sequence `to` a copy of sequence `from`. Both share the memory of what they have read: of its positions only those
 * of a last page that is not full are copied, once one of them goes on (recurrent states are copied at once).
 * HEARTH_DEVICE: the device failed, and `to` is empty; the same holds for hearth_session_restore. */
hearth_status hearth_session_fork(hearth_session *session, uint32_t from, uint32_t to, hearth_error *error);

/* A saved copy of the state of a sequence. It may be restored any number of times, into any sequence of any session of
 * the same engine and KV format with enough context (otherwise HEARTH_INVALID, or HEARTH_FULL if the context is too
 * short, or too few positions are free: then nothing has changed). */
typedef struct hearth_checkpoint hearth_checkpoint;
hearth_status hearth_session_save(const hearth_session *session, uint32_t sequence, hearth_checkpoint **out,
                                  hearth_error *error);
hearth_status hearth_session_restore(hearth_session *session, uint32_t sequence, const hearth_checkpoint *checkpoint,
                                     hearth_error *error);
void hearth_checkpoint_destroy(hearth_checkpoint *checkpoint);

/* Save a sequence to a file, which appears whole or not at all, and bring it back, in this process or another: a long
 * beginning is then read once for all runs (docs/files.md describes the file). The session that restores has the same model,
 * with weights in the same formats, the same placement, activations and KV format; it gives the same logits as the one that
 * saved. Where restoring fails the sequence is as before, or empty if a device failed.
 * HEARTH_INVALID: another model, placement or KV format. HEARTH_FORMAT: the file is cut short or damaged.
 * HEARTH_UNSUPPORTED: it is of a later version. HEARTH_FULL: it has more tokens than the context, or than are free. */
hearth_status hearth_session_save_file(const hearth_session *session, uint32_t sequence, const char *path,
                                       hearth_error *error);
hearth_status hearth_session_restore_file(hearth_session *session, uint32_t sequence, const char *path,
                                          hearth_error *error);

/* Ends what the session is doing; may be called from any thread and from signal handlers. A feed returns
 * HEARTH_CANCELLED; hearth_generate stops with HEARTH_STOP_CANCELLED, also between two tokens. The request is checked
 * after each layer. It has no effect if neither runs: later calls are not cancelled by it. */
void hearth_session_cancel(hearth_session *session);

/* ---------------------------------------------------------------- sampling */

typedef struct hearth_logit_bias {
    int32_t token;
    float bias; /* added to the logit; -INFINITY forbids */
} hearth_logit_bias;

typedef struct hearth_sampling {
    float temperature;               /* 0: greedy                                                    */
    uint32_t top_k;                  /* 0: all                                                       */
    float top_p;                     /* 1: all; else the smallest set with at least this probability */
    float min_p;                     /* 0: all; else at least this share of the best probability     */
    float repeat_penalty;            /* 1: none; divides positive logits, multiplies negative        */
    float presence_penalty;          /* subtracted once from tokens seen                             */
    float frequency_penalty;         /* subtracted for each time a token was seen                    */
    uint32_t penalty_window;         /* number of latest tokens that count as seen; 0: none          */
    const hearth_logit_bias *biases; /* copied                                                       */
    size_t bias_count;
    uint64_t seed; /* the same seed gives the same choices; for different answers the caller draws one */
} hearth_sampling;

/* Returns temperature 0.8, top_k 40, top_p 0.95, min_p 0.05, no penalties (window 64), seed 0. */
void hearth_sampling_default_sized(hearth_sampling *out, size_t out_size);
static inline hearth_sampling hearth_sampling_default(void)
{
    hearth_sampling sampling;
    hearth_sampling_default_sized(&sampling, sizeof sampling);
    return sampling;
}

typedef struct hearth_sampler hearth_sampler;

/* options may be NULL: hearth_sampling_default. The same options, logits and history give the same choices.
 * HEARTH_INVALID: a value is out of range (named). */
hearth_status hearth_sampler_create_sized(hearth_sampler **out, const hearth_sampling *options, size_t options_size,
                                          uint32_t vocabulary_size, hearth_error *error);
static inline hearth_status hearth_sampler_create(hearth_sampler **out, const hearth_sampling *options,
                                                  uint32_t vocabulary_size, hearth_error *error)
{
    return hearth_sampler_create_sized(out, options, sizeof *options, vocabulary_size, error);
}
void hearth_sampler_destroy(hearth_sampler *sampler);
/* Adds a token (of the prompt or chosen) to the history for penalties; unknown tokens are ignored. */
void hearth_sampler_accept(hearth_sampler *sampler, int32_t token);
/* Clears the history and restarts the random sequence, so that the sampler is as new. */
void hearth_sampler_reset(hearth_sampler *sampler);
/* Chooses a token from logits [vocabulary_size], which are not changed, and does not accept it. NaN counts as
 * -INFINITY, INFINITY as the largest finite float. If no token is allowed, returns the lowest one that no bias
 * forbids. */
int32_t hearth_sampler_pick(hearth_sampler *sampler, const float *logits);

/* --------------------------------------------------------------- grammars */

/* What an answer may be: a language, of which every answer that ends by itself is one text. */
typedef enum hearth_grammar_form {
    HEARTH_GRAMMAR_GBNF,       /* rules in the notation of llama.cpp; the answer is its rule `root` */
    HEARTH_GRAMMAR_JSON_SCHEMA /* JSON that a schema allows, which is itself JSON                     */
} hearth_grammar_form;

/* A grammar does not change, and serves any number of answers on any threads; the model must outlive it. */
typedef struct hearth_grammar hearth_grammar;

/* behind: the grammar begins behind the first place where the answer has this text, a mark like "</think>" (at most 255
 * bytes); before it everything is allowed. NULL: it begins with the answer.
 * HEARTH_INVALID: `behind` is longer, or the form is not known. HEARTH_FORMAT: the text is no grammar, or no answer can fit it (named). HEARTH_UNSUPPORTED: the model has no tokenizer, or
 * the grammar has something that hearth does not know (named), or is too large. */
hearth_status hearth_grammar_create(hearth_grammar **out, const hearth_model *model, hearth_grammar_form form,
                                    const char *text, size_t size, const char *behind, hearth_error *error);
void hearth_grammar_destroy(hearth_grammar *grammar);

/* ---------------------------------------------------------------- answers */

/* Why an answer ended. */
// clang-format off
#define HEARTH_STOPS(X)                                     \
    X(HEARTH_STOP_NONE,      "none")        /* goes on */   \
    X(HEARTH_STOP_END,       "end")         /* a token that hearth_token_ends_answer is true of, or the end of a grammar */ \
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

/* Returns the name from the list above; "unknown" for any other number. */
const char *hearth_stop_text(hearth_stop stop);

typedef struct hearth_answer_options {
    const char *const *stops; /* strings that end the answer and are not part of it; copied */
    size_t stop_count;
    bool ignore_end;     /* tokens that end an answer do not end this one; with a grammar they do */
    uint32_t max_tokens; /* 0: until the context is full */
    /* Most tokens that are guessed in a step, from what followed the same words earlier in the sequence, and checked
     * together with the next one; at most 7. 0: none. The answer is the same, faster where text repeats itself; as many
     * are guessed as measured times make worth it. Of use only in sessions with more output rows than one per answer. */
    uint64_t draft_tokens;
    /* Guesses them, in its sequence 0: a session of a smaller model with the same vocabulary and no recurrent layers. It
     * belongs to the answer's thread and follows the text by itself; it may serve one answer after another. NULL: guesses
     * are taken from the text alone. With hearth_generate only. */
    struct hearth_session *draft;
    /* The answer is one of its texts: only tokens that fit are chosen, and where nothing more can follow it ends. It must
     * outlive the answer. NULL: any text. */
    const hearth_grammar *grammar;
} hearth_answer_options;

/* The growing text of one sequence: detokenizes it, holds back what may become a stop string, and knows when to stop.
 * For programs that drive many sequences themselves. */
typedef struct hearth_answer hearth_answer;

/* options may be NULL.
 * HEARTH_UNSUPPORTED: the model has no tokenizer.
 * HEARTH_INVALID: a stop string is empty or not UTF-8, or the grammar is another model's. */
hearth_status hearth_answer_create_sized(hearth_answer **out, const hearth_model *model,
                                         const hearth_answer_options *options, size_t options_size,
                                         hearth_error *error);
static inline hearth_status hearth_answer_create(hearth_answer **out, const hearth_model *model,
                                                 const hearth_answer_options *options, hearth_error *error)
{
    return hearth_answer_create_sized(out, model, options, sizeof *options, error);
}
void hearth_answer_destroy(hearth_answer *answer);
/* Chooses the next token as hearth_sampler_pick does, out of those that the answer's grammar allows.
 * HEARTH_UNSUPPORTED: it allows none, or is too ambiguous to be followed. */
hearth_status hearth_answer_pick(hearth_answer *answer, hearth_sampler *sampler, const float *logits, int32_t *token,
                                 hearth_error *error);
/* Adds a chosen token. *text and *size are what can be shown now, valid until the next call. *stop is HEARTH_STOP_NONE
 * while the answer goes on.
 * HEARTH_INVALID: there is no such token, it does not fit the grammar, or the answer has ended. */
hearth_status hearth_answer_push(hearth_answer *answer, int32_t token, const char **text, size_t *size,
                                 hearth_stop *stop, hearth_error *error);
/* Returns the text still held back once the answer has ended for any reason (after a stop string: nothing). */
void hearth_answer_finish(hearth_answer *answer, const char **text, size_t *size);

/* A callback that is called once for each token of the answer with the text that it completed (possibly none), and once
 * more with token -1 if held back text is left at the end. Returning false cancels. The token that ends an answer is
 * not reported. */
typedef bool hearth_on_text(void *user, int32_t token, const char *text, size_t size);

typedef struct hearth_result {
    hearth_stop stop;
    size_t prompt_tokens, answer_tokens;
    double prompt_seconds; /* reading the prompt                                                         */
    double answer_seconds; /* choosing and reading the tokens of the answer, without the time in on_text */
    size_t draft_tokens, accepted_tokens; /* guessed; of these, part of the answer                    */
} hearth_result;

/* Appends prompt [count] to what a sequence has read, then samples until something stops it. For a new text truncate the
 * sequence to 0 first; the BOS that HEARTH_TEXT_SPECIAL adds belongs only there. The sampler accepts exactly what the
 * session reads: the prompt and the answer, without the token at which a stop string, a full context or cancelling
 * ended it. options, on_text and result may be NULL; a result that is given is always filled in. A full context after
 * the prompt and cancelling are stop reasons, not errors.
 * HEARTH_INVALID: the prompt is empty, a token or sequence does not exist, or the sampler is for another vocabulary.
 * HEARTH_FULL: the prompt does not fit. */
hearth_status hearth_generate_sized(hearth_session *session, uint32_t sequence, const int32_t *prompt, size_t count,
                                    hearth_sampler *sampler, const hearth_answer_options *options, size_t options_size,
                                    hearth_on_text *on_text, void *user, hearth_result *result, size_t result_size,
                                    hearth_error *error);
static inline hearth_status hearth_generate(hearth_session *session, uint32_t sequence, const int32_t *prompt,
                                            size_t count, hearth_sampler *sampler, const hearth_answer_options *options,
                                            hearth_on_text *on_text, void *user, hearth_result *result,
                                            hearth_error *error)
{
    return hearth_generate_sized(session, sequence, prompt, count, sampler, options, sizeof *options, on_text, user,
                                 result, sizeof *result, error);
}

/* ---------------------------------------------------------- many requests */

/* Answers many requests at once, each in a sequence of one session. Requests join and leave between steps. A step reads the
 * next token of every answer together with a part of the prompts that are still being read, so that no answer waits for
 * a prompt longer than a part takes. What sequences have read is kept after their requests: a prompt that begins as one
 * of them does is read only from where they differ. A request that fails, ends or is cancelled does not affect others.
 *
 * A request begins when a sequence is free and the cache has room for its prompt and its whole answer (max_tokens; without a
 * limit the context), so that it never stops for want of room; what is kept of earlier ones is given up for it, the least
 * recently used first. Those that wait begin in the order in which they came.
 *
 * The session belongs to the scheduler until this is destroyed: nobody else feeds, cuts or copies its sequences. Both
 * belong to one thread at a time. */
typedef struct hearth_scheduler hearth_scheduler;

typedef struct hearth_scheduler_options {
    bool forget;          /* sequences are not kept for prompts that begin alike                         */
    uint32_t prompt_rows; /* tokens of prompts in a step; 0: 64, on a device up to 512 while nothing is answered */
    uint32_t waiting;     /* most requests that wait for a sequence; 0: 256                              */
} hearth_scheduler_options;

/* options may be NULL.
 * HEARTH_INVALID: a value is out of range (at most 65536). */
hearth_status hearth_scheduler_create_sized(hearth_scheduler **out, hearth_session *session,
                                            const hearth_scheduler_options *options, size_t options_size,
                                            hearth_error *error);
static inline hearth_status hearth_scheduler_create(hearth_scheduler **out, hearth_session *session,
                                                    const hearth_scheduler_options *options, hearth_error *error)
{
    return hearth_scheduler_create_sized(out, session, options, sizeof *options, error);
}
/* Requests that have not ended are dropped; none of their callbacks is called. */
void hearth_scheduler_destroy(hearth_scheduler *scheduler);

/* A token of an answer. */
typedef struct hearth_token {
    uint64_t request;
    int32_t token;    /* -1: held back text at the end                                        */
    const char *text; /* [size] what it completed, perhaps nothing                            */
    size_t size;
    const float *logits; /* [vocabulary_size] it was chosen by; NULL for held back text           */
} hearth_token;

/* What became of a request. */
typedef struct hearth_outcome {
    uint64_t request;
    hearth_status status; /* HEARTH_OK, also if it was cancelled                                */
    const char *error;    /* its text; "" without an error                                       */
    hearth_stop stop;
    size_t prompt_tokens, reused_tokens; /* of the prompt; of these, kept from an earlier request */
    size_t answer_tokens;
    size_t draft_tokens, accepted_tokens;
    double waited_seconds; /* from hearth_scheduler_add until its prompt was begun  */
    double prompt_seconds; /* from then until the first token was chosen            */
    double answer_seconds; /* from then until the last one was                      */
} hearth_outcome;

/* Callbacks are called by hearth_scheduler_step. They may add and cancel requests, but not destroy the scheduler. */
typedef struct hearth_request {
    const int32_t *prompt; /* [prompt_count], copied */
    size_t prompt_count;
    hearth_sampler *sampler; /* of this request alone, until it has ended; the caller destroys both */
    hearth_answer *answer;   /* new; likewise                                                        */
    bool (*on_token)(void *user, const hearth_token *token);   /* false cancels; NULL: none            */
    void (*on_end)(void *user, const hearth_outcome *outcome); /* once, the last call; NULL: none    */
    void *user;
} hearth_request;

/* Appends a request to those that wait, and stores its number, which is never 0, in *id unless that is NULL. The request
 * begins in a later step.
 * HEARTH_INVALID: the prompt is empty or has unknown tokens, or the sampler is for another vocabulary.
 * HEARTH_FULL: the prompt does not fit into the context of a sequence or into the cache, or too many requests wait. */
hearth_status hearth_scheduler_add_sized(hearth_scheduler *scheduler, const hearth_request *request,
                                         size_t request_size, uint64_t *id, hearth_error *error);
static inline hearth_status hearth_scheduler_add(hearth_scheduler *scheduler, const hearth_request *request,
                                                 uint64_t *id, hearth_error *error)
{
    return hearth_scheduler_add_sized(scheduler, request, sizeof *request, id, error);
}
/* Ends a request in the next step, with HEARTH_STOP_CANCELLED; a number that no request has any more is ignored. */
void hearth_scheduler_cancel(hearth_scheduler *scheduler, uint64_t id);

/* Does one step; *left, unless NULL, is the number of requests that have not ended. With none it does nothing. An error
 * that concerns one request ends that one alone, and is no error here.
 * HEARTH_CANCELLED: by hearth_session_cancel; all requests are as before, and may go on.
 * HEARTH_DEVICE: the device failed; all requests have ended with this status, but those that their callbacks added. */
hearth_status hearth_scheduler_step(hearth_scheduler *scheduler, size_t *left, hearth_error *error);

/* How busy a scheduler is. */
typedef struct hearth_load {
    size_t running, waiting; /* requests                                                */
    uint64_t steps, rows;    /* done; rows of these                                     */
    uint64_t prompt_tokens;  /* read; without those that were kept                       */
    uint64_t reused_tokens, answer_tokens;
} hearth_load;
void hearth_scheduler_load_sized(const hearth_scheduler *scheduler, hearth_load *out, size_t out_size);
static inline hearth_load hearth_scheduler_load(const hearth_scheduler *scheduler)
{
    hearth_load load;
    hearth_scheduler_load_sized(scheduler, &load, sizeof load);
    return load;
}

/* -------------------------------------------------------------------- chat */

/* A zeroed record: the model's own template, and the text ends where the answer begins. */
typedef struct hearth_chat_options {
    bool no_answer;            /* the text ends with the last message                            */
    const char *template_text; /* Jinja, as transformers' apply_chat_template() understands it   */
    const char *template_name; /* without it: another template of the model, "chatml", "llama3" ...; NULL: its own */
    const char *tools;         /* JSON: a list of tools; NULL: none                              */
    const char *variables;     /* JSON: an object: {"enable_thinking": false}; NULL: none        */
} hearth_chat_options;

/* Renders messages (JSON: [{"role": "user", "content": "Hi"}, ...]) by a chat template. *text has *size bytes and a
 * terminating 0; *ids [*count] are its tokens, with BOS where the model wants one. Each of the two may be NULL if it is
 * not wanted; free them with hearth_free. options may be NULL.
 * HEARTH_INVALID: the messages are none, or the template refuses them (the error is its own).
 * HEARTH_FORMAT: JSON or template cannot be parsed. HEARTH_UNSUPPORTED: the model has no template (no tokenizer), or it
 * uses something that hearth lacks, which is named with its line. */
hearth_status hearth_chat_render_sized(const hearth_model *model, const char *messages,
                                       const hearth_chat_options *options, size_t options_size, char **text,
                                       size_t *size, int32_t **ids, size_t *count, hearth_error *error);
static inline hearth_status hearth_chat_render(const hearth_model *model, const char *messages,
                                               const hearth_chat_options *options, char **text, size_t *size,
                                               int32_t **ids, size_t *count, hearth_error *error)
{
    return hearth_chat_render_sized(model, messages, options, sizeof *options, text, size, ids, count, error);
}

/* ------------------------------------------------------------ experimental
 *
 * What follows may change in any version, its structs too. */

/* ------------------------------------------- experimental: placements in detail */

/* Sets the threshold of the selector in every layer that has one; before, it is that of the file or the tune file. A
 * threshold that is not finite changes none. For low-rank predictors it is the lowest score at which a neuron is
 * computed; for coarse ones the margin, in standard deviations of their error; for pruned layers the size that an
 * activation has to exceed. */
void hearth_placement_set_threshold(hearth_placement *placement, float threshold);
/* Lets predictors hold a recall, the share of the active neurons that they let through: while tokens are computed one in 32
 * of the neurons that they reject is computed all the same, and the thresholds, which begin where they are, move by what
 * was missed. Each session moves its own, so the same feeds to a new session give the same results. What is skipped is
 * then not as the file promises, and the guarantee is at most lossy.
 * HEARTH_INVALID: recall is not above 0 and below 1. HEARTH_UNSUPPORTED: no layer has a predictor in use, or the device has
 * neurons of one that has; an engine refuses that as well, if it came later. */
hearth_status hearth_placement_set_recall(hearth_placement *placement, double recall, hearth_error *error);

/* Gives pruned layers the tune file's thresholds at which `share` of the activations of all layers together (zeros
 * included) count as zero. Between two levels of the file thresholds are interpolated; outside its range those of the
 * first or last level are used.
 * HEARTH_UNSUPPORTED: there is no tune file, or it has no thresholds.
 * HEARTH_INVALID: share is not within 0 and 1, or the model is another one. */
hearth_status hearth_placement_prune(hearth_placement *placement, const hearth_model *model, double share,
                                     hearth_error *error);
/* Does the same at the highest level of the tune file whose loss is at most `most_loss`, in nats: the mean
 * Kullback-Leibler divergence per token from computing every activation, as measured while tuning.
 * HEARTH_UNSUPPORTED: also if no level that skips more than zeros has so small a loss, or no loss was measured; if it
 * was, the text says what the lowest such level loses. */
#define HEARTH_PRUNE_LOSS 0.01 /* a good choice by default */
hearth_status hearth_placement_prune_within(hearth_placement *placement, const hearth_model *model, double most_loss,
                                            hearth_error *error);
/* Keeps only the hottest `share` of the neurons of every layer (or the coldest), at least one, by the counts of the
 * tune file; 1 keeps all. The others count as zero whatever their value, which shows how much they contribute.
 * HEARTH_UNSUPPORTED: there is no tune file, or it has no counts.
 * HEARTH_INVALID: share is not above 0 and at most 1, the placement uses a device, or the model is another one. */
hearth_status hearth_placement_keep(hearth_placement *placement, const hearth_model *model, double share, bool hottest,
                                    hearth_error *error);
/* Gives the last `layers` layers (at most all) to side device0: their attention, their part of the KV cache and the
 * first `neurons` neurons of each in the order of the file; in an ordered file these are the hot ones. With 0 neurons
 * the form is ffn-host, with all of them device, else split. If all layers are of form device, the head goes there too,
 * provided that devices have kernels for its format.
 * HEARTH_UNSUPPORTED: one of these layers has a selector that devices do not run (coarse predictors, pruned), or leaves
 * neurons out. */
hearth_status hearth_placement_use_device(hearth_placement *placement, const hearth_model *model, uint32_t layers,
                                          uint32_t neurons, hearth_error *error);
/* Reads JSON as described in docs/hybrid.md.
 * HEARTH_FORMAT: not JSON, or it does not cover every neuron exactly once.
 * HEARTH_UNSUPPORTED: a side, form or selector that this build cannot run. */
hearth_status hearth_placement_parse(hearth_placement **out, const hearth_model *model, const char *json, size_t size,
                                     hearth_error *error);
/* Prints the placement as JSON. *json is terminated and freed with hearth_free. */
hearth_status hearth_placement_print(const hearth_placement *placement, char **json, hearth_error *error);

/* ------------------------------------------- experimental: hot sets that live */

/* Whether the neurons that a device has of a layer change while the engine computes, in layers of form split: one by one where the
 * layer skips neurons and has no experts; of experts those that lie whole on one side, where each side has some. Main memory has
 * the weights of all neurons, so a change copies one neuron or expert to the device. */
typedef enum hearth_hot_set {
    HEARTH_HOT_SET_STATIC,   /* those of the placement stay; they are only counted                         */
    HEARTH_HOT_SET_ADAPTIVE, /* neurons or experts that became active more often take the places of others */
    HEARTH_HOT_SET_FROZEN,   /* the same while a prompt is read; while an answer is made nothing changes   */
    HEARTH_HOT_SET_COUNT
} hearth_hot_set;

typedef struct hearth_hot_options {
    hearth_hot_set how;
    uint32_t most_swaps;   /* neurons of a layer that may change per token; 0: one in 1024, at least 4 */
    uint32_t most_experts; /* whole experts of a layer that may change per token; 0: 1                 */
} hearth_hot_options;

/* What came of it since hearth_engine_follow. */
typedef struct hearth_hot_report {
    uint64_t layers;    /* whose neurons or experts can change */
    uint64_t active;    /* neurons of theirs that were active, over all tokens; of experts, all of the chosen ones' */
    uint64_t on_device; /* of these the device's */
    uint64_t swaps, bytes; /* neurons or experts that changed places with another; copied for that */
    double seconds;        /* that looking and copying took */
} hearth_hot_report;

/* Lets the hot sets of an engine live from now on, for sessions that are created afterwards. Changes depend on counts alone: the
 * same tokens in the same steps give the same sets. Where no layer can change, nothing does.
 * HEARTH_INVALID: `how` is not a hearth_hot_set. HEARTH_NO_MEMORY, HEARTH_DEVICE. */
hearth_status hearth_engine_follow_sized(hearth_engine *engine, const hearth_hot_options *options, size_t options_size,
                                         hearth_error *error);
static inline hearth_status hearth_engine_follow(hearth_engine *engine, const hearth_hot_options *options,
                                                 hearth_error *error)
{
    return hearth_engine_follow_sized(engine, options, sizeof *options, error);
}

/* Reports it; zeros before hearth_engine_follow. Waits for a step that runs. HEARTH_DEVICE: the device failed. */
hearth_status hearth_engine_hot_set_sized(const hearth_engine *engine, hearth_hot_report *out, size_t out_size,
                                          hearth_error *error);
static inline hearth_status hearth_engine_hot_set(const hearth_engine *engine, hearth_hot_report *out,
                                                  hearth_error *error)
{
    return hearth_engine_hot_set_sized(engine, out, sizeof *out, error);
}

/* Makes the placement by which an engine computes now, for hearth_placement_print or another engine: that of its creation,
 * with the neurons that have changed sides. */
hearth_status hearth_engine_placement(hearth_placement **out, const hearth_engine *engine, hearth_error *error);

/* ------------------------------------------- experimental: a model that places itself */

/* A model placed by measurement: what a token takes on the CPU and on the runtime's device decides the form of every layer,
 * how many of its neurons are on the device, the hottest first, and the side of the head. docs/plan.md explains it. */
typedef struct hearth_plan hearth_plan;

typedef struct hearth_plan_options {
    hearth_mode mode; /* auto and exact: where skipping is slower, a layer computes every neuron */
    hearth_activations activations;
    hearth_kv kv;
    bool no_guard;            /* mode exact skips in every layer                                            */
    bool again;               /* measures even where findings are stored                                    */
    uint64_t device_bytes;    /* of the device's memory that may be taken; 0: its budget                    */
    uint64_t host_bytes;      /* likewise of main memory; 0: what is free                                   */
    uint32_t context;         /* positions of each sequence; 0: the model's, or as many as are usual                 */
    uint32_t sequences;       /* 0: one                                                                     */
    const char *cache_folder; /* an existing folder for what is measured, which takes seconds; NULL: not stored */
    hearth_progress progress;
} hearth_plan_options;

/* Measures, plans, tries the plan for a few tokens, and creates the engine that is faster: that of the plan, or one on the
 * CPU alone. options may be NULL. A runtime without a device gives an engine on the CPU, with the guard.
 * HEARTH_NO_MEMORY: the model fits nowhere; the text gives the sizes. HEARTH_CANCELLED through progress. Errors of
 * hearth_placement_create and hearth_engine_create. */
hearth_status hearth_plan_create(hearth_plan **out, hearth_runtime *runtime, const hearth_model *model,
                                 const hearth_plan_options *options, hearth_error *error);
/* Destroys the plan and its engine, whose sessions must be destroyed before. */
void hearth_plan_destroy(hearth_plan *plan);
/* Returns the engine, which belongs to the plan. */
const hearth_engine *hearth_plan_engine(const hearth_plan *plan);
/* Returns the seconds that a token is predicted to take with that engine, in the middle of a usual answer. */
double hearth_plan_seconds(const hearth_plan *plan);
/* Returns the plan for people, in at most six lines, and as JSON, as docs/plan.md describes it; each is freed with
 * hearth_free, and may be NULL if it is not wanted. */
hearth_status hearth_plan_describe(const hearth_plan *plan, char **text, char **json, hearth_error *error);
/* Takes the mean seconds of a token of a longer run, in which on average so many positions were cached. Returns true where the prediction was wrong by more than a quarter: what
 * is stored of this model is then removed, and the next plan measures again. */
bool hearth_plan_check(const hearth_plan *plan, double token_seconds, uint32_t cached);

/* ------------------------------------------- experimental: what was skipped */

/* What mode pruned skips, and its loss, by the levels of a tune file. Between two levels the loss lies between the
 * measured losses of both. */
typedef struct hearth_pruning {
    bool known;                   /* thresholds come from levels; otherwise all fields are 0      */
    double share;                 /* share of all activations, zeros included, that count as zero */
    bool loss_known;              /* the loss was measured while tuning                           */
    double least_loss, most_loss; /* nats, see hearth_placement_prune_within                      */
} hearth_pruning;

/* Returns what the placement of the engine prunes. */
hearth_pruning hearth_engine_pruning(const hearth_engine *engine);

/* What an observer sees of each layer, for each row. Pointers are valid during the call. Neurons have their original
 * numbers, in ascending order: those that a predictor let through or, without a predictor, those that fired. */
typedef struct hearth_observation {
    uint32_t layer, sequence, position;
    const float *residual;    /* [embedding_length] before the norm of the feed-forward network */
    const float *ffn_input;   /* [embedding_length] the input of the neurons                    */
    const uint32_t *neurons;  /* [neuron_count]; NULL: all, in order                            */
    const float *activations; /* [neuron_count] activation of each, of experts times their share */
    const float *gates; /* [neuron_count] activation of the first matrix alone, not times up; NULL unless asked for */
    size_t neuron_count;
    const uint32_t *experts; /* [expert_count] those that the router chose, ascending; NULL: the layer has none, or a
                                device chose them                                                            */
    size_t expert_count;
} hearth_observation;

typedef struct hearth_observer {
    void (*see)(void *user, const hearth_observation *observation);
    void *user;
    bool gates; /* asks for gates; given only for layers that the CPU computes whole, in mode dense */
} hearth_observer;

/* Sets the observer, which is called on the driving thread. NULL removes it. The record is copied. With a device, batches
 * have at most 8 rows while there is one, and an observer must not call functions of engines and sessions of this runtime other than this one, as the device is in the
 * middle of a step. */
void hearth_session_observe(hearth_session *session, const hearth_observer *observer);

/* What a layer did with the rows fed since the session was created or its counts were reset, summed over the rows; rows
 * of a feed that failed later are included. `computed` counts the neurons that a predictor let through (without a
 * predictor: all but those left out), whose row of the first matrix (gate, or up in plain networks) was read. `fired`
 * counts those of them that needed the row of the second matrix, `active` those that needed the row of down. */
typedef struct hearth_counts {
    uint64_t rows, computed, fired, active; /* of both sides together */
} hearth_counts;

/* Returns the counts of a layer. HEARTH_INVALID: there is no such layer. */
hearth_status hearth_session_counts(const hearth_session *session, uint32_t layer, hearth_counts *out,
                                    hearth_error *error);
void hearth_session_reset_counts(hearth_session *session);

/* The recall that a session holds in a layer, since it was created: found / (found + missed). */
typedef struct hearth_recall {
    double target;    /* 0: nothing is held here                                                 */
    double threshold; /* where it is now, as for hearth_placement_set_threshold                  */
    uint64_t rows;    /* that were fed                                                           */
    uint64_t found;   /* active neurons that were let through                                    */
    uint64_t missed;  /* active neurons that were not, by estimate: 32 for each that was probed  */
} hearth_recall;

/* HEARTH_INVALID: there is no such layer. */
hearth_status hearth_session_recall_sized(const hearth_session *session, uint32_t layer, hearth_recall *out,
                                          size_t out_size, hearth_error *error);
static inline hearth_status hearth_session_recall(const hearth_session *session, uint32_t layer, hearth_recall *out,
                                                  hearth_error *error)
{
    return hearth_session_recall_sized(session, layer, out, sizeof *out, error);
}

/* Returns the mean weight bytes that a row would need on its own, by these counts; if nothing was fed, those of all
 * neurons. */
double hearth_session_token_bytes(const hearth_session *session);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
