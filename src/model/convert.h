/* convert.h - writes model files from model files: a folder to GGUF, a GGUF to smaller number formats, down matrices
 * neuron-major, neurons in another order, with predictors added.
 *
 * All of them share one writer: convert_plan.c decides what becomes of every tensor, convert_tensor.c writes one
 * tensor, convert.c opens the source and runs both. */
#ifndef MODEL_CONVERT_H
#define MODEL_CONVERT_H

#include "../base/pool.h"
#include "../number/format.h"

// clang-format off

/* What was done with one tensor; reported when it is written. */
typedef struct convert_step {
    const char *name;        /* name in the file that is written */
    number_format from, to;
    number_format down_t_format; /* what a transposed down gets where nothing else is asked for */
    uint64_t rows, columns;
    uint64_t from_bytes, to_bytes;
    bool is_down_t;          /* written as a down matrix with a row per neuron ... */
    bool transposed;         /* ... that had a row per output in the source ...  */
    bool requantised;        /* ... in blocks that ran across neurons, so that its values were rounded once more */
    double relative_error;   /* of a down_t that was rounded, or a scaled tensor: |written - exact| / |exact| over all
                                values; else 0 */
    bool weighed;            /* rounding errors were weighed by the importance of their columns */
    uint64_t unfit;          /* values that are not finite, or too large for `to`, and are written all the same */
    const char *reason;      /* why this format: "asked for", "as stored", "norm", "head", "override", "q4_K needs
                                rows of a multiple of 256" ...; valid during the call */
} convert_step;

/* "NAME=TYPE": tensors whose name is NAME, or matches it as a shell pattern, are written as TYPE. */
typedef struct convert_override {
    const char *pattern;
    number_format format;
} convert_override;

typedef struct convert_options {
    number_format format;                  /* of the matrices; FORMAT_COUNT: as they are stored        */
    bool head_apart;                       /* quantize: output.weight (or the tied embedding) in Q6_K, Q8_0 where
                                              its row is not a multiple of 256; never below `format`      */
    const struct quantize_mix *mix;        /* quantize: formats by role and layer (mix.h), in place of head_apart;
                                              `format` is then the mix's base. NULL: none                */
    const char *importance;                /* quantize: a file (importance.h) whose columns' weights rounding errors
                                              have; NULL: all alike                                    */
    const convert_override *overrides;     /* the last one that matches is used                        */
    size_t override_count;
    const char *ffn_activation;            /* NULL: as the source says                                 */
    const char *cpu_level;                 /* as in hearth_runtime_options                             */
    bool neuron_major;                     /* pack: blk.N.ffn_down_t in place of ffn_down, as GGUF, also
                                              from a PowerInfer file                                   */
    number_format down_format;             /* with neuron_major: of ffn_down_t; FORMAT_COUNT: `format`, or where that
                                              is FORMAT_COUNT too, what neuron_major_format() returns for a transposed
                                              down */
    const uint32_t *const *order;          /* with neuron_major: [layers][f], row r of the layer's matrices holds the
                                              neuron with original number order[layer][r]; NULL: as stored */
    const char *predictors;                /* a folder or a tune file (predictors.h): writes a PowerInfer file;
                                              NULL: none */
    bool allow_nonfinite;                  /* writes values that the new format cannot hold: NaN and infinity in float
                                              formats, 0 and the largest value in block formats; false: they are an
                                              error */
    void (*step)(void *user, const convert_step *step);   /* may be NULL */
    void (*note)(void *user, const char *text);           /* may be NULL: gets what the user should know, such as a
                                                             missing tokenizer */
    void *user;                            /* of step and note */
    hearth_progress progress;              /* bytes of source tensors */
} convert_options;

/* Writes source (any checkpoint) as GGUF v3; a PowerInfer file stays one unless neuron_major is set. One-dimensional
 * tensors become float32. Where the block of a format does not divide a row, the tensor falls back to Q8_0, then F16,
 * and the step says so. The source is first checked as a model, so that nothing is written from a file that could not
 * be read back. Memory: a few rows per thread, and one matrix where one is transposed. HEARTH_INVALID: the CPU lacks
 * the level, the source would be overwritten, an override matches no tensor, or an order is not a permutation or
 * given without neuron_major. HEARTH_FORMAT: the source is damaged, or a value that changes its format is NaN,
 * infinite, or larger than the new format holds (the text names tensor and value). HEARTH_UNSUPPORTED: predictors for
 * a model whose neurons are never zero, that has some already, or whose neurons are in another order.
 * HEARTH_INVALID also: the importance file has no matrix of the model; HEARTH_FORMAT: it has one of another size.
 * HEARTH_CANCELLED: progress asked for it. On failure no file is left. */
hearth_status convert_write(const char *source_path, const char *out_path, const convert_options *options,
                            pool *threads, hearth_error *error);

// clang-format on

#endif
