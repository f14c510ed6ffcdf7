/* load.h - a model as the planner sees it: what a token of it takes, layer by layer.
 *
 * It comes from an open model and what is known of its hotness (load_model.c), or from a file that describes a model which
 * is not at hand (load_shape.c). Sizes are bytes of weights as stored; what a token reads of a layer depends on which of
 * its neurons fire, and that on hotness.
 *
 * Neurons of a layer are given by *hotness*: neuron 0 here is the one whose place on the device saves most. A neuron i is
 * needed with chance needs[i] (its first row is read: 1, or that of its expert being chosen, or of its predictor letting it
 * through) and fires with chance fires[i] (its other rows are read). */
#ifndef PLAN_LOAD_H
#define PLAN_LOAD_H

#include "../base/json.h"
#include "../base/memory.h"

#include <stddef.h>

struct hearth_engine;

typedef struct layer_load {
    uint32_t kind; /* layers of one kind have equal shapes and formats, so that times of one hold for all */
    bool has_mixer, has_network;
    bool splits;            /* its neurons may lie on both sides                                                   */
    const char *lacks;      /* why it cannot be on a device; NULL: it can                                          */
    double mixer_bytes;     /* matrices of attention or of a recurrent mixer                                       */
    double score_bytes;     /* of these, what is read only where fewer positions are seen than there are           */
    double kv_bytes;        /* keys and values of one position, and the key by which it may be chosen              */
    double kv_read_bytes;   /* what is read of a position that is seen, in the layer's own cache or another one's  */
    double kv_score_bytes;  /* of that key, which is read of every position where fewer are seen; 0: there is none */
    uint32_t window;        /* positions that attention sees, the last ones or those that it chooses; 0: all       */
    double state_bytes;     /* of one recurrent state, which a token reads and writes                              */
    uint32_t neurons;       /* f, of all experts                                                                   */
    double first_bytes;     /* of a neuron: the row that says whether it fires                                     */
    double other_bytes;     /* its other rows                                                                      */
    double predictor_bytes; /* its row of the predictor; read of every neuron in use; 0: none                   */
    double network_bytes;   /* needed besides rows: router, fc1, matrices of a latent width                        */
    double row_bytes;       /* length of one listed row in memory                                                  */
    bool lists;             /* other rows are listed; false: all is read whole (dense)                             */
    /* [neurons] by hotness; the owner is the load. NULL: all alike (need, fire) but for `always`. */
    const float *needs, *fires;
    double need, fire;     /* means over the neurons                                                              */
    double in_use;         /* share of the neurons that a token uses: 1, of experts those of the chosen           */
    const uint32_t *order; /* [neurons] original numbers, the hottest first; NULL: first, first + 1 ... and on from 0 */
    uint32_t first;
    uint32_t always;    /* of a shared expert: the hottest ones, which every token needs                         */
    uint32_t unit;      /* neurons that stay on one side together, as all of `always` do; 1: each is by itself   */
    uint32_t keys_back; /* it reads the keys of the layer so many before it, and must be on its side; 0: its own */
    /* Bytes on the device, which pads rows and adds scales: without neurons, as soon as there are any, and of each. */
    double device_bytes, device_network_bytes, device_neuron_bytes;
} layer_load;

/* A model: its layers, what is around them, and where its hotness is known from. */
typedef struct model_load {
    char name[128];
    uint32_t layer_count;
    layer_load *layers;     /* [layer_count]                                                        */
    double embedding_bytes; /* the table; a token reads one row                                    */
    double head_bytes;      /* all of which a token reads                                          */
    double other_bytes;     /* in main memory whatever lies where: tables, copies of what is on the device */
    double table_bytes;     /* n-grams in a file, of which only pages with rows that were read come into main memory */
    bool tied;              /* the head is the embedding's table: it is counted once               */
    bool head_on_device;    /* devices have kernels for its format                                    */
    double row_values;      /* d: values of the vector that goes from side to side                 */
    const char *density_source; /* "counted by `hearth profile`", "measured on 8 tokens", "published" ... */
    arena memory;               /* owns all arrays and texts                                           */
} model_load;

/* Frees what it owns and zeroes it; a zeroed load is empty. */
void load_free(model_load *m);

/* Returns the most neurons, at most `wanted`, that may be on the device while the others are on the CPU. */
uint32_t load_neurons(const layer_load *l, uint32_t wanted);

/* ------------------------------------------------------------------ a model that is open (load_model.c) */

/* Describes the model of an engine that runs on the CPU, each layer with the selector that it has there, and with the
 * counts of the model's tune record. density: of layers that skip neurons and of which nothing is counted; from: where it
 * is known from. value_bytes: of a value of keys and values. The engine must outlive the load. */
hearth_status load_of_engine(model_load *out, const struct hearth_engine *engine, double density, const char *from,
                             double value_bytes, hearth_error *error);

/* ------------------------------------------------------------------ models in files (load_shape.c) */

typedef struct shape_options {
    const char *format; /* of the weights: "f16", "q4_0"; NULL: the file's, or f16                        */
    const char *mode;   /* "dense", "exact" or "predicted"; NULL: exact where it has zeros, else dense    */
    double density;     /* in place of the file's, of every network that has zeros; 0: the file's         */
} shape_options;

/* Reads a shape, docs/plan.md says of what form. path: a file, or the name of one that comes with hearth ("opt-30b"),
 * which is looked for in `folder` (NULL: nowhere). options NULL: zeros. On failure *out is zeroed. HEARTH_FORMAT: it is
 * not one; the text names the member. HEARTH_INVALID: no such format or mode, or a density that is not from 0 to 1.
 * HEARTH_UNSUPPORTED: the model has no such mode. HEARTH_IO: no such file. */
hearth_status load_read_shape(model_load *out, const char *path, const char *folder, const shape_options *options,
                              hearth_error *error);
/* As load_read_shape, of an object; name: for errors. */
hearth_status load_parse_shape(model_load *out, const json_t *object, const char *name, const shape_options *options,
                               hearth_error *error);

/* Fills chances [count], descending, with mean `density`, of which the first `hot` (a share of all) have `share` of the
 * sum: p(x) = density * g * (1 - x)^(g - 1) with g = ln(1 - share) / ln(1 - hot), cut at 1, where the rest grows until
 * the mean is kept. 0 < density <= 1, 0 < hot <= share < 1; hot = share: all alike. */
void load_hotness(float *chances, size_t count, double density, double hot, double share);

#endif
