/* device_weights.h - what an engine stores in the memory of a device: the weights that its placement puts there. */
#ifndef ENGINE_DEVICE_WEIGHTS_H
#define ENGINE_DEVICE_WEIGHTS_H

#include "../device/device.h"
#include "../model/model.h"
#include "placement.h"

/* Rows of a matrix in the device's layout (device/kernels/kernels.h).
 *
 * Matrices of one format that are multiplied with the same input follow one another in the same buffers, a *stack*, so
 * that one launch can multiply them all. Each begins at a multiple of STACK_ROWS rows, which keeps its offset aligned
 * for kernel arguments; rows of zeros fill the gaps. The first matrix owns the buffers. */
typedef struct device_matrix {
    device_buffer *w, *scales; /* scales NULL: a float format; w NULL: no such matrix */
    size_t w_at, scales_at;    /* offsets of its rows there, in bytes                 */
    number_format format;
    uint32_t rows, columns;
    uint32_t stack_rows; /* rows of the stack if it is its first matrix (alone: its own rows), else 0 */
} device_matrix;

#define STACK_ROWS 8

/* Returns the rows that a matrix takes in a stack if another follows; their results are as far apart. */
static inline uint32_t stacked(uint32_t rows)
{
    return (rows + STACK_ROWS - 1) / STACK_ROWS * STACK_ROWS;
}

/* The weights of a norm, as norm_weights; NULL: none. */
typedef struct device_norm {
    device_buffer *weight, *bias;
} device_norm;

/* The matrices that read the input of a mixer, of attention and of a recurrent one. */
enum {
    MIXER_QUERY,
    MIXER_KEY,
    MIXER_VALUE,
    MIXER_GATE,
    MIXER_INDEX_WEIGHT,
    MIXER_INDEX_GATE,
    MIXER_SUMMARY_VALUE,
    MIXER_SUMMARY_GATE,
    MIXER_INPUTS
};
enum { MIXER_CONVOLVED, MIXER_RECURRENT_GATE, MIXER_STEP, MIXER_BETA, MIXER_INPUT_GATE = MIXER_STEP };
/* Of attention that chooses positions: if it is latent it has no values of its own, and if pools are plain there are no weights and
 * gates. */
enum { MIXER_INDEX_KEY = MIXER_VALUE, MIXER_PLAIN_KEY = MIXER_INDEX_WEIGHT, MIXER_PLAIN_QUERY = MIXER_INDEX_GATE };

/* One of them. The gate of gated attention may be every other head of the query's matrix; where keys are values, both have the
 * key's matrix, each a copy of its own. */
typedef struct mixer_input {
    const matrix *of;
    uint32_t rows; /* that it has there; 0: the layer has no such matrix */
    const char *what;
} mixer_input;
/* Lists those of a layer. */
void device_mixer_inputs(const model_layer *l, mixer_input out[MIXER_INPUTS]);

/* As in gated_connection. */
typedef struct device_gates {
    device_buffer *norm;
    device_matrix down, up, inject;
} device_gates;

/* A layer of which at least the mixer is on the device. Vectors are float32; names as in model_layer. */
typedef struct device_layer {
    device_norm attention_norm, ffn_norm, attention_post_norm, ffn_post_norm; /* [d]                */
    device_norm query_norm, key_norm, attention_inner_norm;                   /* as in model_layer  */
    device_matrix per_layer_gate, per_layer_output;                           /* as in model_layer  */
    device_norm per_layer_post_norm;                                          /* [d]                */
    struct {
        device_norm router_norm, laurel_norm;
        device_matrix router, laurel_in, laurel_out;
        device_buffer *predict, *correct, *correct_scale;
    } streams; /* as in stream_weights */
    struct {
        device_matrix weights;
        device_buffer *base, *scale;
    } mixer_connection, network_connection; /* as in stream_connection */
    device_gates mixer_gates, network_gates;
    struct {
        device_buffer *stream_norm, *convolved_norm, *convolution;
    } ngram; /* as in ngram_weights, whose matrices the CPU multiplies with */
    device_matrix inputs[MIXER_INPUTS], mixer_output;
    /* Latent attention, names as in model_layer; query_up: q, where that reads what query_in makes, and is no input. */
    device_matrix query_up, key_up, value_up;
    device_matrix output_in; /* as in model_layer, like the next */
    device_buffer *summary_bias;
    device_norm summary_norm;
    device_norm query_in_norm, compressed_norm;
    device_matrix index_query; /* as in model_layer, like the next */
    device_norm index_key_norm, index_query_norm;
    device_buffer *index_gate_bias;
    device_buffer *qkv_bias;              /* all three, each as long as its matrix is in a stack; NULL: no biases */
    device_buffer *attention_output_bias; /* [d], or NULL                                                         */
    device_buffer *sinks;                 /* [head_count], or NULL                                                */
    device_buffer *convolution, *convolution_bias, *step_bias, *decay, *skip, *recurrent_norm; /* as in model_layer */
    struct {
        device_matrix in, out;
    } low_rank[LOW_RANK_MAPS]; /* as in model_layer, like the following; the parameters as P_WKV_PREPARE has them */
    device_buffer *input_mix, *network_mix, *wkv_parameters, *bonus, *recurrent_norm_bias;
    uint32_t neuron_count; /* n: neurons of the device; the matrices below have n rows */
    uint32_t *rows;        /* [n] rows of the model's matrices, ascending until some are replaced */
    device_buffer
        *fired;     /* [n] tokens that listed each neuron, where it skips neurons that are not experts'; else NULL */
    uint32_t width; /* values per row of lists and activations: n; of experts the most that a token uses */
    device_matrix router; /* [expert_count][d] where the layer has experts of which the device has neurons */
    device_buffer *router_bias, *router_correction, *expert_scales;             /* [expert_count], or NULL */
    device_buffer *token_experts;                                               /* as in model_layer, or NULL */
    device_norm router_norm, experts_norm, experts_post_norm, shared_post_norm; /* [d] as in model_layer   */
    /* Which places each expert's neurons have, the shared one's last: from the first up to, not including, the second; and for
     * the device, which expert the neuron of a place belongs to. */
    uint32_t *ranges;                             /* [expert_count + 1][2] */
    device_buffer *expert_ranges, *expert_owners; /* the same; [n]         */
    /* Where experts read and write vectors of another width, the matrices there and back. There, and wherever else the shared
     * expert is computed apart (device_apart), its neurons have matrices and lists of their own: `width` is that of both. */
    device_matrix latent_in, latent_out; /* as in model_layer                                          */
    struct {
        device_matrix gate, up, down_t, fc2; /* [shared_count] rows                                           */
        device_matrix down;                  /* [d][shared_neurons] in stock layout                           */
    } shared;
    uint32_t shared_count, own_width;             /* neurons of the device; the most others that a token uses      */
    size_t shared_at;                             /* where they begin in a row of lists and activations            */
    device_buffer *shared_ranges, *shared_owners; /* as those of the experts, with no neurons of the others       */
    device_matrix shared_gate;                    /* [1][d] where the shared expert has a gate                      */
    device_matrix mask_in;                        /* of experts that choose their own neurons: whole, ...           */
    device_matrix mask_out;                       /* ... [n][rank]; as in model_layer                               */
    device_buffer *mask_ranges;                   /* [expert_count + 1][2] rows of each expert's mask_in            */
    device_matrix gate, up;
    device_matrix down_t;               /* or, if the layer is in stock layout and no expert is split, ... */
    device_matrix down;                 /* ... [d][f], of experts [those here, by place][d][expert_neurons] */
    device_matrix fc1, fc2;             /* fc1 is always whole, fc2 has n rows                */
    device_buffer *gate_bias, *up_bias; /* [n], or NULL                                       */
    device_norm ffn_inner_norm;         /* [n]                                                */
    device_buffer *down_bias; /* [d], of experts [expert_count + 1][d] with zeros for the shared one; or NULL */
} device_layer;

/* What decides whether streaming the CPU's neurons pays (device_stream.h). */
typedef struct stream_figures {
    double pack_seconds, copy_seconds;  /* of a neuron: packing it, and copying it to the device */
    double cpu_seconds, device_seconds; /* of a neuron and a row of a step: computing it         */
} stream_figures;

typedef struct device_weights {
    device *device;
    uint32_t layer_count;          /* of the model                               */
    device_layer *layers;          /* [layer_count] zeroed for layers of the CPU */
    device_matrix embedding, head; /* if the placement puts them there           */
    device_matrix positions;       /* with the embedding, ...                    */
    device_norm embedding_norm;    /* ... like its norm                          */
    uint64_t bytes;                /* taken in the memory of the device          */
    stream_figures stream;         /* what sessions measured of streaming, ...   */
    bool stream_measured;          /* ... if one has                             */
    struct {
        bool is, expert;
        uint32_t layer, place, enter;
    } torn; /* a neuron or an expert of which only some rows could be overwritten by `enter`, and not be written back either */
} device_weights;

struct engine_layer;

/* Returns whether the shared expert of a layer is computed apart from the others: because these read other vectors, of another
 * width or with a norm of their own, or have another limit. */
static inline bool device_apart(const model_layer *l)
{
    bool limits = l->ffn.shared_neurons > 0 && l->ffn.shared_threshold != l->ffn.threshold;
    return l->ffn.latent > 0 || l->experts_norm.weight || limits;
}

/* Returns whether a device computes whole experts of a layer from `down` as it is stored, with all neurons of those that a token
 * chose: none is skipped, what each of them gives is a whole number of the blocks or floats that kernels read at once, and
 * devices have the format. Else, or if an expert is on both sides (layer_cuts_experts), they need a row per neuron. */
bool device_takes_stock_experts(const model_layer *l, selector_kind selector);

/* Returns what devices cannot do yet of a layer, "has normed values"; NULL: they can compute it. */
const char *device_lacks(const model_layer *l);

/* Uploads everything that the placement puts on the device. layers [layer_count]: those of the engine, of which it takes
 * down_t (where that has no data, the model's `down` is uploaded as it is) and the predictor.
 * HEARTH_UNSUPPORTED: a layer has what devices cannot compute yet (named); reads the keys of a layer on the other side; a
 * matrix has a format for which devices have no kernels (named); or a layer's shared expert has another format than the
 * others.
 * HEARTH_NO_MEMORY: the budget does not hold it; the text says how many layers it would hold. */
hearth_status device_weights_create(device_weights **out, device *d, const hearth_model *model,
                                    const hearth_placement *placement, const struct engine_layer *layers,
                                    const hearth_progress *progress, hearth_error *error);
void device_weights_destroy(device_weights *w);

/* Overwrites the neuron at a place of a layer that has `fired` with that of row `row`, of all its matrices and biases, which
 * `rows` tells from then on; *bytes grows by what was copied. No step may run. HEARTH_DEVICE, HEARTH_NO_MEMORY: the neuron that
 * was there stays, at the latest once device_weights_mend() succeeds. e: the engine's layer. */
hearth_status device_weights_replace(device_weights *w, const hearth_model *model, const struct engine_layer *e,
                                     uint32_t layer, uint32_t place, uint32_t row, uint64_t *bytes,
                                     hearth_error *error);

/* The same for the expert `leave`, all of whose neurons are on the device: `enter`, of which none is, takes their places, also in
 * `rows`, ranges and owners. Both are experts that the router chooses. */
hearth_status device_weights_replace_expert(device_weights *w, const hearth_model *model, const struct engine_layer *e,
                                            uint32_t layer, uint32_t leave, uint32_t enter, uint64_t *bytes,
                                            hearth_error *error);

/* Writes back what is torn; must succeed before a step begins. layers [layer_count]: the engine's. */
hearth_status device_weights_mend(device_weights *w, const hearth_model *model, const struct engine_layer *layers,
                                  hearth_error *error);

/* Counts the bytes that a layer takes on a device under a placement that puts it there, and uploads nothing. Arguments and
 * errors as above, except that no budget is asked. */
hearth_status device_weights_count(uint64_t *bytes, const hearth_model *model, const hearth_placement *placement,
                                   const struct engine_layer *layers, uint32_t layer, hearth_error *error);

#endif
