/* hyper.h - reads hyperparameters from keys.
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

typedef struct size_setting {
    const char *key;         /* in GGUF, without the family's prefix                   */
    const char *config_key;  /* in config.json                                         */
    size_t field;            /* offset of a uint32_t in hyperparameters                */
    uint32_t limit;          /* largest value; the smallest is 1                       */
    bool in_file, in_folder; /* the key is required; else the size is derived from others */
} size_setting;

extern const size_setting size_settings[];
extern const size_t size_setting_count;

/* Checks a size against its limits. HEARTH_FORMAT: "WHERE: KEY: is 0, expected 1 to 4096". `what` is "key " for GGUF,
 * "" for a config. */
hearth_status hyper_check_size(const size_setting *s, uint32_t value, const char *where, const char *what,
                               const char *key, hearth_error *error);

/* Reads and checks everything but the rope frequencies. activation: overrides the file's; NULL: the file's is
 * used. */
hearth_status hyper_read(hyperparameters *out, const family *f, const checkpoint *c, const char *activation,
                         hearth_error *error);

/* Returns the value of a dimension; 1 for DIMENSION_NONE, 0 for DIMENSION_RANK, which no key gives. */
uint64_t hyper_dimension(const hyperparameters *h, dimension d);

#endif
