/* family.h - the families of models, one row each: a family is data.
 *
 * A family that needs code adds a value to a column, never an `if` on its name. */
#ifndef MODEL_FAMILY_H
#define MODEL_FAMILY_H

#include "../kernel/kernel.h"

/* Names of FFN activations as files spell them. */
typedef struct ffn_activation_row {
    const char *name;               /* llama.hidden_activation, config.json's hidden_act   */
    kernel_activation kernel;
    bool has_threshold;             /* reads hidden_activation_param / hidden_act_param    */
    bool has_zeros;                 /* silences neurons exactly: the exact rung applies    */
} ffn_activation_row;

typedef enum ffn_activation {
    FFN_SILU, FFN_RELU, FFN_FATRELU,
    FFN_ACTIVATION_COUNT
} ffn_activation;

extern const ffn_activation_row ffn_activations[FFN_ACTIVATION_COUNT];
/* FFN_ACTIVATION_COUNT where there is none of that name. */
ffn_activation ffn_activation_by_name(const char *name, size_t size);

typedef enum rope_order {
    ROPE_NEIGHBOURS,     /* pairs (2i, 2i + 1), as GGUF stores llama */
} rope_order;

typedef struct family {
    const char *name;               /* general.architecture in GGUF, and the prefix of its keys  */
    const char *model_type;         /* config.json's model_type                                  */
    const char *architecture;       /* config.json's architectures[0]                            */
    rope_order rope;
    bool folder_window;             /* config.json's sliding_window counts (llama ignores it)    */
} family;

extern const family families[];
extern const size_t family_count;

#endif
