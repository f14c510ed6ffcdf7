/* hyper.h - reads hyperparameters and the shapes of layers from keys.
 *
 * One table says for every size what GGUF and config.json call it and how large it may be. This module reads sizes
 * from a checkpoint's keys; huggingface.c writes those keys from a config.json. */
#ifndef MODEL_HYPER_H
#define MODEL_HYPER_H

#include "model.h"

/* Longest key with its family's prefix, terminator included. */
#define KEY_SIZE 128
/* Makes a key with the family's prefix: "llama.block_count" from "block_count". */
void hyper_key(char out[KEY_SIZE], const family *f, const char *name);

/* Most names that the config.json's of different families have for one size. */
#define CONFIG_NAMES 9

typedef struct size_setting {
    const char *key;                       /* in GGUF, without the family's prefix                   */
    const char *config_keys[CONFIG_NAMES]; /* in config.json, the commonest first                   */
    bool of_layer;                         /* may differ between layers                              */
    size_t field;            /* offset of a uint32_t in model_layer, if of_layer, else in hyperparameters */
    uint32_t limit;          /* largest value; the smallest is 1                       */
    bool in_file, in_folder; /* the key is required; else the size is derived from others */
} size_setting;

/* A key: an array of the number of standard deviations above the mean that first values must exceed, -infinity for none. */
#define ACTIVATION_CUTS "activation_sparsity_scale"
/* GGUF's keys of xielu's numbers, which have no name of an architecture: one for each layer, or one for all. */
#define XIELU_KEY "xielu.%s"
#define XIELU_NAMES                         \
    {                                       \
        "alpha_p", "alpha_n", "beta", "eps" \
    }
enum { XIELU_POSITIVE, XIELU_NEGATIVE, XIELU_LINEAR, XIELU_EPS, XIELU_TERMS };
/* Of each layer the limits of SiLU and of up (silu_limited): of experts; of the shared one, and of networks without experts. */
#define EXPERT_LIMITS_KEY "swiglu_clamp_exp"
#define SHARED_LIMITS_KEY "swiglu_clamp_shexp"
/* Whether queries and keys are normed without weights: hearth's own key, after the family's prefix. */
#define PLAIN_NORM_KEY "attention.plain_norm"
/* Whether attention and network are side by side (family.wiring_said); a config has the same name. */
#define PARALLEL_KEY "use_parallel_residual"
/* The epsilon of norms of what blocks add, where it is not the family's. */
#define POST_EPSILON_KEY "attention.post_norm_epsilon"
/* Tensors whose shapes give sizes that no key gives. */
#define PER_LAYER_TOKENS "per_layer_token_embd.weight"
#define FIRST_LAUREL     "blk.0.laurel_l.weight"

/* The number by which files call each way to make scores (expert_gating_func). */
extern const uint32_t hyper_gating_functions[ROUTER_SCORINGS];

/* Largest length of a head. */
#define HEAD_LIMIT (1u << 16)
/* Most neurons of a layer, of all its experts together. */
#define NEURON_LIMIT (1u << 24)

extern const size_setting size_settings[];
extern const size_t size_setting_count;

/* Returns the field of a size. */
uint32_t *size_field(const size_setting *s, hyperparameters *h, model_layer *l);

/* Returns whether a file, or a folder's config.json, must say the size: neurons need not be said where all layers have
 * experts, which have a width of their own. */
bool hyper_requires(const size_setting *s, const family *f, bool folder);

/* Checks a size against its limits. HEARTH_FORMAT: "WHERE: KEY: is 0, expected 1 to 4096". `what` is "key " for GGUF,
 * "" for a config. */
hearth_status hyper_check_size(const size_setting *s, uint32_t value, const char *where, const char *what,
                               const char *key, hearth_error *error);

/* Reads and checks the model's hyperparameters, makes its layers and fills in their shapes, all but the rotaries, which
 * need tensors. model: source, family and memory are set. activation: overrides the file's; NULL: the file's is
 * used. */
hearth_status hyper_read(hearth_model *model, const char *activation, hearth_error *error);

/* Returns whether a layer, and its model, have what a rule's tensor needs (layer_needs). */
bool hyper_meets_needs(const hyperparameters *h, const model_layer *l, unsigned needs);

/* Returns the value of a dimension for a layer; 1 for DIMENSION_NONE, 0 for DIMENSION_RANK, which no key gives. */
uint64_t hyper_dimension(const hyperparameters *h, const model_layer *l, dimension d);

#endif
