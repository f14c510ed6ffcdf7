/* rope.h - computes rotary frequencies: plain, and scaled for longer contexts.
 *
 * Pair i of n is rotated by base^(-i / n) radians per position. linear: all frequencies are divided by one factor.
 * llama3: each is divided by its own factor, stored as rope_freqs.weight. yarn: fast pairs stay as they are, slow
 * ones are divided by the factor, with a ramp between them, and cosine and sine get a factor (arXiv:2309.00071,
 * section 3). */
#ifndef MODEL_ROPE_H
#define MODEL_ROPE_H

#include "model.h"

typedef enum rope_scaling { ROPE_PLAIN, ROPE_LINEAR, ROPE_YARN } rope_scaling;

typedef struct rope_settings {
    rope_scaling scaling;
    double base;
    double factor; /* 1: no scaling                                                  */
    uint32_t pairs;
    double original_context; /* context length before it was extended (yarn, longrope)         */
    double beta_fast;        /* yarn: pairs with more turns over that context stay as they are    */
    bool fractional;         /* yarn: the ends of the ramp are not rounded to whole pairs      */
    double beta_slow;        /* yarn: pairs with fewer turns are divided by the factor         */
    double extrapolation;    /* yarn: 1; 0 divides all pairs, as linear                        */
    double magnitude;        /* factor on cosine and sine                                      */
    bool backwards;          /* pairs turn the other way: all frequencies are negative         */
} rope_settings;

/* The key that says of each layer whether it rotates (family.rotation_listed). */
#define ROTATION_KEY "attention.rope_pattern"

/* A key of hearth's own, without the family's prefix, for what config.json calls "truncate": false. */
#define ROPE_FRACTIONAL_KEY "rope.scaling.yarn_fractional"

/* Reads the keys FAMILY.rope.*; of h only rope_pairs, window_rope_pairs and context_length are read. */
hearth_status rope_read(rope_settings *out, const family *f, const checkpoint *c, const hyperparameters *h,
                        hearth_error *error);

/* Reads the settings of layers with a window: base 0 where they are those of all layers. */
hearth_status rope_read_window(rope_settings *out, const family *f, const checkpoint *c, const hyperparameters *h,
                               hearth_error *error);

/* Reads a base under a key of its own; *out stays where there is none. */
hearth_status rope_read_base(double *out, const family *f, const checkpoint *c, const char *name, hearth_error *error);

/* Computes frequencies [pairs]. They are divided by factors [pairs] before any other scaling; NULL: no factors. */
void rope_frequencies(const rope_settings *s, const float *factors, double *frequencies);

/* The settings of llama3's scaling in config.json. */
typedef struct rope_llama3 {
    double factor, low, high; /* low_freq_factor < high_freq_factor, in turns over the original context */
    double original_context;
} rope_llama3;

/* Computes the factors [pairs] of rope_freqs.weight. */
void rope_llama3_factors(const rope_llama3 *s, double base, uint32_t pairs, float *factors);

/* Returns 0.1 m ln(factor) + 1, yarn's factor on cosine and sine (m = 1 by default); 1 where factor is at most 1. */
double rope_yarn_magnitude(double factor, double m);

/* Returns what yarn makes of queries and of keys that are compressed: mscale_all_dim's factor; 1 without it. */
hearth_status rope_yarn_growth(const family *f, const checkpoint *c, double *out, hearth_error *error);

#endif
