/* tokenizer_json_internal.h - what is read of a tokenizer.json before it becomes keys; for tokenizer_json*.c. */
#ifndef TEXT_TOKENIZER_JSON_INTERNAL_H
#define TEXT_TOKENIZER_JSON_INTERNAL_H

#include "splitting.h"
#include "tokenizer_json.h"

#define KEY(name) "tokenizer.ggml." name

enum { JSON_RULES = SPLIT_RULES_LIMIT };

typedef struct tokenizer_json {
    checkpoint *out;
    const char *name; /* of the file: error texts begin with it */
    hearth_error *error;
    arena memory;

    /* The vocabulary: [count], indexed by id. */
    span *tokens;
    int32_t *types; /* 0: no token has this id */
    float *scores;  /* unigram only */
    size_t count;

    /* What becomes of a text before the model sees it. */
    const char *normalizer; /* NULL: none */
    split_rule rules[JSON_RULES];
    size_t rule_count;
    bool strips, byte_level, wide_blanks, adds_space_prefix, removes_extra_blanks, ignores_merges;
    bool prefix_once, prefix_unless_blank; /* as in vocabulary */
} tokenizer_json;

/* Read the members "normalizer" and "pre_tokenizer" into t. */
hearth_status tokenizer_json_normalizer(tokenizer_json *t, const json_t *normalizer);
hearth_status tokenizer_json_pre_tokenizer(tokenizer_json *t, const json_t *rules);
/* Reads "post_processor": sets the keys of BOS and EOS. */
hearth_status tokenizer_json_post_processor(tokenizer_json *t, const json_t *post_processor);

/* Reads a vocabulary, an object of ids by text, into tokens and types. */
hearth_status tokenizer_json_pieces(tokenizer_json *t, const json_t *pieces);
/* Sets the keys that all kinds have. */
hearth_status tokenizer_json_common(tokenizer_json *t);

/* Adds a rule whose expression lives as long as t. */
hearth_status tokenizer_json_rule(tokenizer_json *t, const char *pattern, split_behaviour behaviour, bool inverted);

#endif
