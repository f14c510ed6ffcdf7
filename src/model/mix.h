/* mix.h - llama.cpp's mixes: a number format for each matrix by its role and layer, under a common name such as q4_k_m.
 *
 * More bits go where rounding costs most: to values and down matrices, above all of the first and last layers. The
 * mixes are those of llama.cpp's quantiser (llama-quant.cpp, 0.5.0), so that files of a name are alike. */
#ifndef MODEL_MIX_H
#define MODEL_MIX_H

#include "model.h"

/* What a matrix is, as far as mixes tell matrices apart. */
typedef enum mix_role {
    MIX_OTHER,
    MIX_HEAD, /* gives the logits: the head, or where there is none all embeddings */
    MIX_VALUE, /* of attention; query, key and value in one, or both maps of latent attention, where a file has them so */
    MIX_KEY,
    MIX_ATTENTION_OUTPUT,
    MIX_DOWN,
    MIX_QUERY_MAP, /* one of two matrices that make queries */
    MIX_ROLES
} mix_role;

/* One matrix: its role, and the `index`-th of the `count` layers that have such a matrix. */
typedef struct mix_place {
    mix_role role;
    uint32_t index, count; /* of the layer, among those that have such a matrix */
    bool of_experts;       /* one matrix per expert, stacked */
} mix_place;

/* What mixes need to know of a model. */
typedef struct mix_traits {
    uint32_t layers;
    uint32_t expert_count;    /* 0: none */
    uint32_t queries_per_key; /* heads of queries that share keys and values */
    bool importance;          /* the error is weighted by importance */
    bool fine_queries;        /* GLM-5.3-Flash, whose queries bear no coarse format */
    bool falcon;              /* Falcon, for which llama.cpp has mixes of its own */
} mix_traits;

/* When a rule counts. Shares are of the layers that have such a matrix, rounded down to whole layers. */
typedef enum mix_condition {
    ALWAYS,
    FIRST_TWO,
    FIRST_FOUR,
    FIRST_SIXTEENTH,
    FIRST_EIGHTH,
    FIRST_EIGHTH_ALIKE,    /* ... without importance */
    FIRST_EIGHTH_WEIGHTED, /* ... with importance */
    OUTER_AND_THIRD,       /* the first and the last eighth, and every third layer between */
    FOUR_SHARE,            /* four or more heads of queries share a key */
    EIGHT_EXPERTS,         /* as in Mixtral: exactly eight */
    OTHER_EXPERTS,         /* none, or not eight */
    OF_EXPERTS,            /* the matrix is one of experts */
    FINE_QUERIES           /* mix_traits.fine_queries      */
} mix_condition;

/* A matrix of this role becomes `to` where the condition holds. */
typedef struct mix_rule {
    mix_role role; /* MIX_ROLES: any */
    mix_condition when;
    number_format to;
} mix_rule;

#define MIX_RULES 6
typedef struct quantize_mix {
    const char *name;          /* as llama.cpp's users write it; compared without regard to case */
    uint32_t file_type;        /* general.file_type */
    number_format base;        /* of matrices without a rule */
    mix_rule rules[MIX_RULES]; /* the first that applies counts; up to one whose format is that of zeroes, float32 */
} quantize_mix;

/* Returns the mix of that name; NULL: there is none. */
const quantize_mix *mix_by_name(const char *name);
/* Writes the names of all mixes: "q2_k, q3_k_s, ...". */
void mix_list(char *out, size_t size);

/* Returns why a matrix of that name in GGUF keeps its format in models of a family whatever is asked for, in a word for reports;
 * NULL: it does not. */
const char *mix_keeps(const char *family_name, const char *name);
/* Returns the format that the mix gives a matrix. */
number_format mix_format(const quantize_mix *mix, const mix_traits *traits, const mix_place *place);
/* Returns what takes the place of a format whose blocks do not divide a matrix's rows: the one of similar size with
 * blocks of 32; F16 where there is none. */
number_format mix_fallback(number_format wanted);

mix_traits mix_traits_of(const hearth_model *model, bool importance);
/* Returns the place of the tensor that a rule describes. is_head: it gives the logits. */
mix_place mix_place_of(const hearth_model *model, const tensor_rule *rule, uint32_t layer, bool is_head);

#endif
