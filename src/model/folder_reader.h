/* folder_reader.h - what the files share that translate a Hugging Face folder: huggingface.c (family and settings),
 * huggingface_experts.c (experts), huggingface_rope.c (rotation), huggingface_recurrent.c (mixers by block),
 * huggingface_delta.c (lists of mixers), huggingface_parts.c (layers that lack parts), huggingface_layers.c (what
 * else differs between layers), huggingface_step.c, huggingface_mimo.c and huggingface_minimax.c (what Step 3.5,
 * MiMo V2 and MiniMax M3 say in their own way), huggingface_latent.c (latent attention), huggingface_summaries.c
 * (DeepSeek V4), huggingface_rwkv.c (RWKV-7), huggingface_xielu.c (Apertus), huggingface_ngrams.c (Qwen3.8-Flash-Next), huggingface_tensor.c
 * (tensors), huggingface_scaled.c and huggingface_float4.c (those with scales beside them), huggingface_packed.c (those of numbers in words),
 * huggingface_ternary.c (those of three values). */
#ifndef MODEL_FOLDER_READER_H
#define MODEL_FOLDER_READER_H

#include "../base/json.h"
#include "hyper.h"

/* How a folder stores matrices of -s, 0 and s: not at all; as floats that are to be rounded; packed, with s, with 1 / s. */
typedef enum folder_ternary { TERNARY_NONE, TERNARY_ONLINE, TERNARY_MULTIPLIED, TERNARY_DIVIDED } folder_ternary;

/* How a folder stores matrices whose scales lie beside them: not at all; as floats of 8 bits, or of 4, each tensor says which; as
 * gpt-oss stores blocks of floats of 4 bits; as numbers in words (file/packed.h). */
typedef enum folder_scaled { FOLDER_PLAIN, FOLDER_FLOATS, FOLDER_MXFP4, FOLDER_PACKED } folder_scaled;

/* Dtypes of safetensors that stored_tensor.foreign names. */
#define DTYPE_F8          "F8_E4M3"
#define DTYPE_POWER       "F8_E8M0" /* of two: a byte, the exponent plus 127; 255: NaN */
#define DTYPE_BYTE        "U8"
#define DTYPE_SIGNED_BYTE "I8"

/* How gpt-oss calls the two parts of an expert's matrix, and compressed-tensors numbers of 4 bits. */
#define FLOAT4_BLOCKS "_blocks"
#define FLOAT4_SCALES "_scales"
#define PACKED_WEIGHT ".weight_packed"

/* What changes more of a tensor than the order of its rows. */
#define FOLDER_CHANGES                                                                                  \
    (TENSOR_HEADS | TENSOR_BY_KEYS | TENSOR_TRANSPOSED | TENSOR_EVEN | TENSOR_ODD | TENSOR_FIRST_HALF | \
     TENSOR_SECOND_HALF | TENSOR_VALUE_ROWS | TENSOR_VALUE_COLUMNS | TENSOR_FLAT | TENSOR_LESS_ONE |    \
     TENSOR_NEGATED_EXPONENT)

typedef struct folder_reader {
    checkpoint *out;
    const checkpoint *folder;
    const json_t *config; /* of the text model                     */
    const json_t *whole;  /* of the whole one                      */
    bool nested;          /* it is a part of a larger one: text_config */
    bool pictures;        /* the folder has tensors for pictures or sound beside the text's */
    const char *name;     /* what errors about the config begin with */
    hearth_error *error;
    const family *family;
    folder_ternary ternary;
    folder_scaled scaled;
    uint32_t scale_block[2]; /* FOLDER_FLOATS: rows and columns that share a scale; 0: no blocks */
    packed_matrix packed;    /* FOLDER_PACKED: what is alike of all: order, bits, group, what is added to zeros */
    uint32_t draft_layers;   /* layers behind the last one that guess tokens ahead; they are left out */
    hyperparameters hyper;   /* the sizes                             */
    model_layer layer;       /* of every layer                        */
    double rope_base;
    const uint32_t
        *kv_heads; /* [layer_count] where some layers have attention, or all of it differs; NULL: all alike */
    const char *of_experts[2]; /* the first tensor of all experts of a layer, of a single one; NULL: none yet */
} folder_reader;

/* In huggingface_family.c. Finds the family by model_type. architectures must agree with it: a classifier has the model_type of its base
 * model. Of a nested config it names the whole model and says nothing about the text's. */
hearth_status folder_find_family(folder_reader *r);

/* Set a key of GGUF; name: without the family's prefix. */
hearth_status folder_set_size(folder_reader *r, const char *name, uint32_t value);
hearth_status folder_set_number(folder_reader *r, const char *name, double value);
hearth_status folder_set_string(folder_reader *r, const char *name, const char *value);

/* Reads a number above 0 that fits into float32; *out is unchanged where the key is absent. where: what errors begin
 * with. found NULL: the key is required. */
hearth_status folder_get_positive(const folder_reader *r, const json_t *object, const char *where, const char *key,
                                  double *out, bool *found);

/* Checks a list in the config, with a 0 for each layer that is an exception, against the family's pattern; it may be
 * absent. HEARTH_UNSUPPORTED: a layer differs. */
hearth_status folder_check_layers(const folder_reader *r, const char *key, layer_pattern pattern);

/* In huggingface_experts.c. Reads the experts, how they are chosen, and which layers have them; nothing where there are none, but the
 * neurons of a network that is called shared although there are no experts. */
hearth_status folder_read_experts(folder_reader *r);

/* The list of what each layer has, as objects, in config.json. */
#define BLOCK_CONFIGS "block_configs"

/* Returns how many blocks a config lists; 0 where it has no such list. */
uint32_t folder_listed_blocks(const json_t *config);
/* Returns whether a config names blocks with experts. */
bool folder_has_expert_blocks(const json_t *config);
/* Sets the neurons of a layer's experts, and how many a token uses, where a config says so for each block; found false: it does not. */
hearth_status folder_read_block_experts(folder_reader *r, bool *found);
/* Reads which mixer each layer has, and the shape of the recurrent ones; needs the sizes. */
hearth_status folder_read_mixers(folder_reader *r);
/* In huggingface_layers.c. Reads a size that the config has as a list of one number per layer. */
hearth_status folder_read_size_list(folder_reader *r, const size_setting *s, const char *key, const json_t *list);
/* Reads the length of heads in layers without a window, where it differs from that in the others: then the layer has it. */
hearth_status folder_read_global_heads(folder_reader *r);
/* Returns whether a list has an item for each layer; it may have more for those that guess tokens ahead, which folders of Step 3.5
 * may lack. */
bool folder_lists_layers(const folder_reader *r, const json_t *list);
/* Sets a key to a number per layer, or to one number where all are the same. */
hearth_status folder_set_sizes(folder_reader *r, const char *name, const uint32_t *sizes);
/* In huggingface_step.c. Reads what a config says in its own way (family.own_settings): heads and limits. */
hearth_status folder_read_step(folder_reader *r);
/* Sets a key to one number for layers that see all positions and another for those with a window. */
hearth_status folder_set_by_window(folder_reader *r, const char *name, uint32_t all, uint32_t windowed);
/* Reads a list of limits, one for each layer, 0 or null where there is none; nothing if it is missing. */
hearth_status folder_read_limits(folder_reader *r, const char *name, const char *key);
/* Reads one limit for all layers, of experts and, unless family.limits_experts, of other networks; null: there is none. Does nothing
 * where the family has no limits_first. */
hearth_status folder_read_one_limit(folder_reader *r);
/* Reads the shares of heads that are rotated where layers that see all positions turn half of what the others do (family.half_turns),
 * which alone has a key. */
hearth_status folder_read_halves(folder_reader *r);
/* Reads a list of the layers that have experts, which must be the last: how many come before. found: there is one. */
hearth_status folder_read_layers_with_experts(const folder_reader *r, uint32_t *dense, bool *found);
/* Returns whether a layer sees all positions: by layer_types, whose form huggingface.c checks, else by the family's pattern. */
bool folder_sees_all(const folder_reader *r, uint32_t layer);
/* Returns whether no layer has a window. */
bool folder_all_see_all(const folder_reader *r);
/* Reads what else differs between layers, and the streams of the residual. */
hearth_status folder_read_layers(folder_reader *r);
/* Keeps how many heads of keys each layer has. */
hearth_status folder_keep_heads(folder_reader *r, const uint32_t *kv_heads);
/* In huggingface_parts.c. Reads what each layer has of attention and of a network (MIXERS_PARTS). */
hearth_status folder_read_parts(folder_reader *r);
/* Reads which layers are recurrent, and the shape of those, where config.json lists the mixers (MIXERS_LISTED). */
hearth_status folder_read_listed_mixers(folder_reader *r);

/* Reads the rotation of queries and keys: its base and its scaling. */
hearth_status folder_read_rope(folder_reader *r);

/* In huggingface_delta.c. Reads the shape of Kimi Delta Attention, of the object KDA_CONFIG of the config. */
#define KDA_CONFIG "linear_attn_config"
hearth_status folder_read_kda(folder_reader *r);
/* Copies the rows of a rule from those of a matrix that has all of each key together. */
hearth_status folder_divide_keys(folder_reader *r, const tensor_rule *rule, stored_tensor *t);

/* In huggingface_minimax.c. Reads a list of 0 and 1 that says which layers have experts, the last ones; *found: there is one. */
hearth_status folder_read_expert_list(folder_reader *r, bool *found);
/* Reads which blocks of positions are seen (family.chooses_blocks). Needs which layers have experts. */
hearth_status folder_read_blocks(folder_reader *r);

/* In huggingface_mimo.c. Makes a copy of the config of MiMo V2 in which what its own keys say stands under those of others. *out is
 * freed with json_decref. */
hearth_status folder_translate_mimo(const json_t *config, const char *name, json_t **out, hearth_error *error);
/* Reads the length and the scale of values (family.short_values), and how many heads of keys layers with a window have. */
hearth_status folder_read_mimo(folder_reader *r);

/* In huggingface_rwkv.c. Reads the sizes of RWKV-7's mixers. */
hearth_status folder_read_rwkv(folder_reader *r);
/* Returns whether a tensor is one of the mixtures that GGUF has in one, or of what the first layer does not use. */
bool folder_leaves_to_rwkv(const folder_reader *r, const char *name);
/* Adds the mixtures, and what GGUF has besides, when all other tensors have been added. */
hearth_status folder_add_rwkv(folder_reader *r);

/* In huggingface_xielu.c. Returns whether a tensor is a number of Apertus' activation. */
bool folder_leaves_to_xielu(const folder_reader *r, const char *name);
/* Sets the keys that hold these. */
hearth_status folder_add_xielu(folder_reader *r);

/* In huggingface_ngrams.c. Reads how Qwen3.8-Flash-Next chooses positions, and its n-grams. */
hearth_status folder_read_ngrams(folder_reader *r);
/* Returns whether a tensor is of the tables of n-grams, or of what their hashes are made of. */
bool folder_leaves_to_ngrams(const folder_reader *r, const char *name);
/* Adds the tables, when all other tensors have been added. */
hearth_status folder_add_ngrams(folder_reader *r);
/* Takes the rows of a rule from those of a matrix that has what makes queries and keys that score positions. */
hearth_status folder_divide_scorer(folder_reader *r, const tensor_rule *rule, stored_tensor *t);

/* In huggingface_summaries.c. Reads what DeepSeek V4's config has besides: summaries, ranks, experts by token, limits. */
hearth_status folder_read_summaries(folder_reader *r);
/* Replaces numbers of 64 bits by such of 32, where a rule is of numbers. */
hearth_status folder_narrow_numbers(const folder_reader *r, const tensor_rule *rule, stored_tensor *t);

/* In huggingface_latent.c. Reads the sizes of latent attention, which replace those of heads. */
hearth_status folder_read_latent(folder_reader *r);
/* Makes key_up or value_up of the folder's matrix of both, where a rule is of one of them. */
hearth_status folder_divide_heads(folder_reader *r, const tensor_rule *rule, stored_tensor *t);

/* In huggingface_scaled.c. Reads quantization_config. HEARTH_UNSUPPORTED: of a kind that is not read. */
hearth_status folder_read_quantization(folder_reader *r, const json_t *settings);
/* Returns whether a tensor of the folder is the scales of another, or of activations. */
bool folder_is_scale(const folder_reader *r, const char *name);
/* Writes the name of a tensor as its rule has it. */
void folder_plain_name(const folder_reader *r, const char *name, char out[2 * TENSOR_NAME_SIZE]);
/* Replaces rows that are made when they are read by what they are made, for what is to be done with their bytes. */
hearth_status folder_make_rows(folder_reader *r, stored_tensor *t);
/* Returns whether a tensor is one of those whose scales lie beside it. */
bool folder_has_scales(const folder_reader *r, const tensor_rule *rule, const stored_tensor *stored);
/* Turns such a tensor into one of rows that are made when they are read, or, where more of it is to be changed, of values. */
hearth_status folder_take_scaled(folder_reader *r, const tensor_rule *rule, const stored_tensor *stored,
                                 stored_tensor *t);

/* Makes the description of a tensor's rows, with room for the scales of so many matrices. */
hearth_status folder_new_rows(folder_reader *r, const stored_tensor *t, uint64_t matrices, scaled_rows **out);
/* Says what is wrong with a tensor of the folder: HEARTH_FORMAT. */
hearth_status folder_refuse_tensor(const folder_reader *r, const stored_tensor *t, const char *why);

/* In huggingface_float4.c. Returns whether a tensor is numbers of 4 bits with scales beside them. */
bool folder_is_float4(const folder_reader *r, const tensor_rule *rule, const stored_tensor *stored);
/* Turns such a tensor into one of rows that are made when they are read. */
hearth_status folder_take_float4(folder_reader *r, const tensor_rule *rule, const stored_tensor *stored,
                                 stored_tensor *t);

/* Returns the tensor whose name has another ending; NULL: there is none. */
const stored_tensor *folder_find_other(const folder_reader *r, const char *name, const char *ending, const char *other);
/* Returns whether there is a tensor, and of this dtype, one of those that only its name tells (stored_tensor.foreign). */
bool folder_is_of(const stored_tensor *t, const char *dtype);

/* In huggingface_packed.c. Reads the quantization_config of numbers in words; found false: it is another one. */
hearth_status folder_read_packed(folder_reader *r, const json_t *settings, bool *found);
/* Returns how long the ending of a name is that says that a tensor is words; 0: it has another one. */
size_t folder_packed_ending(const folder_reader *r, const char *name);
/* Returns whether a tensor is words, or bytes in their place. */
bool folder_is_packed(const folder_reader *r, const stored_tensor *t);
/* Returns whether a tensor is the scales, zeros or groups of words, or their shape. */
bool folder_is_of_packed(const folder_reader *r, const char *name);
/* Returns whether a tensor is a bias of zeros that the model need not have: AutoGPTQ gave all matrices one. */
bool folder_is_void_bias(const folder_reader *r, const stored_tensor *t, const tensor_rule *rule);
/* Turns words into a matrix whose rows are made when they are read: of blocks, where their zeros and groups allow it and floats are not
 * asked for. */
hearth_status folder_take_packed(folder_reader *r, const stored_tensor *stored, bool as_floats, stored_tensor *t);

/* In huggingface_ternary.c. Reads quantization_config: HEARTH_UNSUPPORTED, unless it is BitNet's. */
hearth_status folder_read_ternary(folder_reader *r, const json_t *settings);
/* Returns whether a tensor of the folder is the s of a packed matrix. */
bool folder_is_ternary_scale(const folder_reader *r, const char *name);
/* Replaces a matrix of a layer, in whatever form the folder has it, by its rows of -s, 0 and s. */
hearth_status folder_make_ternary(folder_reader *r, const stored_tensor *stored, stored_tensor *to);

/* Adds the folder's tensors under GGUF's names and with GGUF's shapes. tied: the embedding is the head. */
hearth_status folder_add_tensors(folder_reader *r, bool tied);

#endif
