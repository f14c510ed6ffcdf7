/* rope.h - rotary frequencies: plain, and stretched to longer contexts.
 *
 * Pair i of n turns by base^(-i / n) radians per position. linear: all divided by a factor. llama3:
 * each divided by a factor of its own, stored as rope_freqs.weight. yarn: fast pairs as they are, slow ones
 * divided, a ramp between, and a factor on cosine and sine (arXiv:2309.00071, section 3). */
#ifndef MODEL_ROPE_H
#define MODEL_ROPE_H

#include "model.h"

typedef enum rope_scaling { ROPE_PLAIN, ROPE_LINEAR, ROPE_YARN } rope_scaling;

typedef struct rope_settings {
    rope_scaling scaling;
    double base;
    double factor; /* 1: nothing is stretched                                        */
    uint32_t pairs;
    double original_context; /* yarn: positions before stretching                              */
    double beta_fast;        /* yarn: pairs with more turns over those positions stay as they are */
    double beta_slow;        /* yarn: pairs with fewer are divided by the factor               */
    double extrapolation;    /* yarn: 1; 0 turns its ramp off                                  */
    double magnitude;        /* on cosine and sine                                             */
} rope_settings;

/* From the keys FAMILY.rope.*; h: rope_pairs and context_length are read. */
hearth_status rope_read(rope_settings *out, const family *f, const checkpoint *c, const hyperparameters *h,
                        hearth_error *error);

/* frequencies [pairs]; factors [pairs] divide them before anything else, NULL: none. */
void rope_frequencies(const rope_settings *s, const float *factors, double *frequencies);

typedef struct rope_llama3 {
    double factor, low, high; /* low_freq_factor < high_freq_factor, in turns over the original context */
    double original_context;
} rope_llama3;

/* The factors of rope_freqs.weight, [pairs]. */
void rope_llama3_factors(const rope_llama3 *s, double base, uint32_t pairs, float *factors);

/* 0.1 m ln(factor) + 1: yarn's factor on cosine and sine, with m = 1 where nothing else is said. */
double rope_yarn_magnitude(double factor, double m);

#endif
