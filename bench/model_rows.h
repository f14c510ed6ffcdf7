/* model_rows.h - what a planted model consists of, and the rows of its matrices.
 *
 * The residual stream. Its first 32 coordinates per domain are reserved: every token carries the constant `constant` in the
 * first of its domain's 32 and zeros in the others, and no matrix writes there. (32 apart, so that in block formats the
 * constants share a block with nothing.) The rest, the free coordinates, are standard normal numbers, another draw for
 * each token; every feed-forward network adds FFN_GROWTH / layers to their variance.
 *
 * The gate. A row is a vector of the free coordinates, and -t in the constants' coordinates, so scaled that the product
 * with a token is Z - t of plant.h. The vector is sqrt(together) times the direction of the neuron's cluster, some of
 * four other directions of the layer, and noise of its own; with weights that make all but the noise correlate by
 * rho with Z. Neurons of one cluster are neighbours in hotness and lie scattered in the file.
 *
 * Networks without a gate: activations are never negative, so each layer adds one vector to all tokens alike, besides
 * what differs. It moves the thresholds of later layers, up or down by chance: the mean density stays what it is, and
 * some neurons are hotter or colder than planned. So does the mean that layer norms subtract.
 *
 * The predictor. Row k of fc1 is direction k, and an offset, so that relu cuts nothing off: hidden unit k is
 * the stream's component there. Row i of fc2 holds the four or five weights of neuron i, and what makes the score
 * S - tau (all thresholds are 0). Directions are as many as the predictor is wide, less the constants.
 *
 * Biases. That of a neuron is a random number, and its threshold in the constants' coordinates makes up for it.
 *
 * Experts. Their neurons are numbered one expert after the other; each expert has an order of hotness of its own. The
 * router's rows are random: with one domain all experts are chosen alike, with several each has experts that it chooses
 * more often. The neurons of the shared expert follow, as if they were
 * those of some experts more; it and the chosen ones make half each of what a network adds to the stream.
 *
 * Recurrent mixers. Decays and step sizes are those that Mamba-2 begins its training with: A from 1 to 16 and steps from
 * 0.001 to 0.1 that a token changes by some factor; so a state remembers one to a thousand tokens. What is convolved has
 * variance 1 before and behind. Behind a norm, what a mixer adds to the stream is known, and thresholds take it into
 * account.
 *
 * Domains are ranges of token ids. Each has its own order of hotness, which a share of the neurons keep in all of them.
 *
 * Every matrix is a function of (seed, matrix, layer, row): rows can be made in any order by any thread. */
#ifndef BENCH_MODEL_ROWS_H
#define BENCH_MODEL_ROWS_H

#include "model_family.h"
#include "plant.h"

#include "../src/number/format.h"

#define MODEL_BAND 32 /* rows that are made at once: a block of every 32-value format in each column of a down matrix */

typedef struct model_shape {
    const char *name;
    const model_family *family;
    uint32_t width;   /* d */
    uint32_t neurons; /* f, of an expert where there are experts */
    uint32_t layers, heads, kv_heads, head_length, vocabulary;
    uint32_t rank;                 /* of the predictor, constants included */
    uint32_t experts, used;        /* networks of a layer, and those that a token is sent to; 1, 1: no mixture */
    uint32_t shared_neurons;       /* of the expert that every token uses, a multiple of f; 0: there is none */
    double density;                /* of the published models; of those that say none, a guess */
    float rope_base, routed_scale; /* routed_scale: of the chosen experts' outputs; 0: 1 */
    uint32_t rotated;              /* values of a head; 0: all */
    const char *pattern;           /* kinds of the layers, over and over; NULL: there is one */
    struct {
        uint32_t heads, head_length, groups, state, window;
    } recurrent;
    uint32_t window;    /* of attention; 0: none */
    uint32_t gating;    /* GGUF's expert_gating_func; 0: as the family has it */
    uint32_t positions; /* rows of the table of learned positions */
} model_shape;

/* Fixed before anything is made; then read-only. */
typedef struct model_design {
    model_shape shape;
    number_format format; /* of the matrices */
    uint64_t seed;
    uint32_t domains;
    double shared;   /* of the neurons, the share that is equally hot in every domain */
    double together; /* correlation of Z between two neurons of a cluster */
    bool squared;    /* the activation is the square of relu */
    plant_curve curve;
    normal_table normals;
    /* derived */
    uint32_t reserved;       /* coordinates, and hidden units of the predictor */
    double constant;         /* in the domain's coordinate */
    double embedding_square; /* mean square of a free coordinate of an embedding, as `format` stores it */
    double rounding_noise;   /* variance that `format` adds to normal numbers of variance 1 */
} model_design;

/* Returns the kind of a layer; the shape's pattern names kinds of its family. */
const layer_kind *model_kind(const model_shape *s, uint32_t layer);

/* Fills what is derived; shape, format, seed, domains, shared, together, squared and curve are set. */
hearth_status model_design_finish(model_design *m, hearth_error *error);

/* What is common to the neurons of one layer. */
typedef struct model_layer_plan {
    uint32_t layer;
    double stream;     /* standard deviation of the free coordinates where the network reads */
    double norm;       /* root mean square of the whole stream there */
    uint32_t *ranks;   /* [domains][all f] place in the order of hotness of its expert, 0 the hottest */
    float *directions; /* [rank - reserved][d] rows of fc1 as the file will give them */
} model_layer_plan;

/* The plan can be made for one layer after the other; zeroed at first. */
hearth_status model_layer_plan_make(model_layer_plan *p, const model_design *m, uint32_t layer, hearth_error *error);
void model_layer_plan_free(model_layer_plan *p);

/* A vector has one row. */
uint32_t model_matrix_rows(const model_design *m, model_matrix which);
uint32_t model_matrix_columns(const model_design *m, model_matrix which);
/* Returns whether a tensor has its rows once for each expert. */
bool model_matrix_of_experts(const model_design *m, model_matrix which);
/* Returns whether a tensor is float32 in every file: vectors, and what other programs want so. */
bool model_matrix_is_exact(const model_design *m, model_matrix which);
/* FORMAT, or what its blocks allow: Q8_0, then F16, where a row is not a whole number of blocks. */
number_format model_format(number_format wanted, uint32_t columns);

/* Bytes of scratch memory that model_band needs. */
size_t model_band_scratch(const model_design *m);
/* Writes rows first .. first + count - 1 (first a multiple of MODEL_BAND, count at most that) in `format`. plan: of the
 * layer; zeroed for what belongs to no layer. */
void model_band(const model_design *m, const model_layer_plan *plan, model_matrix which, number_format format,
                uint32_t first, uint32_t count, void *scratch, void *out);

#endif
