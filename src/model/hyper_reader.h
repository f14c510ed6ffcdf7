/* hyper_reader.h - what the files share that read hyperparameters: hyper.c, hyper_attention.c for attention,
 * hyper_mixer.c for other mixers, hyper_networks.c for networks and experts, hyper_ngrams.c for n-grams and
 * hyper_summaries.c for summaries. */
#ifndef MODEL_HYPER_READER_H
#define MODEL_HYPER_READER_H

#include "hyper.h"

/* Largest width of q, k and v: the engine multiplies widths by batch sizes in 64 bits, and by head counts in 32 bits. */
#define HYPER_WIDTH_LIMIT ((uint64_t)1 << 24)

typedef struct hyper_reader {
    const family *family;
    const checkpoint *source;
    hearth_model *model;
    hyperparameters *hyper; /* the model's */
    hearth_error *error;
} hyper_reader;

/* Read a value under the family's key `name`; *out is unchanged where the key is absent. found NULL: the key is required. */
hearth_status hyper_size(const hyper_reader *r, const char *name, uint32_t *out, bool *found);
/* Of one layer, where the file has an array over the layers. */
hearth_status hyper_layer_size(const hyper_reader *r, const char *name, uint32_t layer, uint32_t *out, bool *found);
/* A positive finite number. */
hearth_status hyper_positive(const hyper_reader *r, const char *name, float *out, bool *found);
/* A boolean of an array over the layers; *found is false where the file has no such array. */
hearth_status hyper_layer_bool(const hyper_reader *r, const char *name, uint32_t layer, bool *out, bool *found);
/* A soft cap; 0: there is none. known: where there is no key. */
hearth_status hyper_cap(const hyper_reader *r, const char *name, float known, float *out);
/* Returns a tensor of a layer; pattern: its name, with "%u" for the layer. NULL: the file has none. */
const stored_tensor *hyper_layer_tensor(const hyper_reader *r, const char *pattern, uint32_t layer);
/* Reports an error about the family's key `name`. */
hearth_status hyper_fail(const hyper_reader *r, hearth_status status, const char *name, const char *reason);

/* In hyper_attention.c. Derives the sizes of heads that the file left out, and checks that all fit together. */
hearth_status hyper_read_heads(const hyper_reader *r, uint32_t layer);
/* Reads what attention does with scores: the window, the scale on q . k, and the soft cap. */
hearth_status hyper_read_attention(const hyper_reader *r, uint32_t layer);
/* Reads the number and the length of the heads that score positions. */
hearth_status hyper_read_scorers(const hyper_reader *r, index_shape *index);
/* Reads how many positions it chooses, and by which heads (attention_shape.chosen). */
hearth_status hyper_read_choice(const hyper_reader *r, uint32_t layer);
/* Finds whose keys and values the last layers read: those of the last layer of their kind, with a window or without, that
 * has its own. */
hearth_status hyper_read_shared_keys(const hyper_reader *r);
/* Reads how many pairs of a head are rotated. The key of layers with a window is missing where it is that of all. */
hearth_status hyper_read_rotation(const hyper_reader *r);
/* Reads how scores grow with the position: by the logarithm of how often it contains the original context. */
hearth_status hyper_read_growth(const hyper_reader *r);

/* In hyper_networks.c. Reads the FFN activation. llama.cpp derives it from the architecture; files of ReLU models name it;
 * PowerInfer's files are all ReLU. */
hearth_status hyper_read_activation(const hyper_reader *r, ffn_shape *f, const char *override);
/* Gives layers their experts and limits of their activations. Refuses layers of a kind that the family does not have. */
hearth_status hyper_read_networks(const hyper_reader *r);

/* In hyper_summaries.c. Reads what DeepSeek V4's attention has that others have not: summaries, which of them are chosen, and matrices
 * of groups of heads. */
hearth_status hyper_read_summaries(const hyper_reader *r, uint32_t layer);

/* In hyper_ngrams.c. Reads the shape of n-grams, and which layers add them; nothing where there are none. */
hearth_status hyper_read_ngrams(const hyper_reader *r);

/* In hyper_mixer.c. Finds out which mixer a layer has, by the sizes that were read. */
hearth_status hyper_find_mixer(const hyper_reader *r, uint32_t layer);
/* Reads the shape of a recurrent mixer. */
hearth_status hyper_read_recurrent(const hyper_reader *r, uint32_t layer);

#endif
