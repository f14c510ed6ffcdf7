/* divergence.h - measures how far one model's output is from another's: KL(base || model), row by row.
 *
 * The base is a logits file (kl_file.h), written by hearth or by llama.cpp: write one with the engine that serves as
 * the reference, then measure any number of engines against it. Both follow llama.cpp's protocol (windows.h), so
 * the file holds everything that measuring needs, the text included.
 *
 * A row's divergence is sum p log(p / q) over the tokens that the file resolves; p are the file's probabilities, q the
 * model's. The file's 16-bit rounding makes p add up to slightly more or less than 1; this known error is subtracted,
 * so that an engine measured against its own file gives 1e-9 and not 1e-5. For tokens so far below the likeliest one
 * that the file clips them, only an upper bound of their total probability is known; what q gives them beyond that
 * bound is added. Differences from llama.cpp's figures are of that size. */
#ifndef EVAL_DIVERGENCE_H
#define EVAL_DIVERGENCE_H

#include "../base/text.h"
#include "kl_file.h"

/* The default of N where the model's context is that long, as in llama.cpp. */
#define DIVERGENCE_CONTEXT 512

typedef struct divergence_options {
    uint32_t
        context; /* N, for writing; 0: DIVERGENCE_CONTEXT, or the model's where that is less. A file has its own. */
    uint32_t windows; /* at most this many windows; 0: all */
    hearth_kv kv;
    const char *separator; /* between the documents of the text that is written (halves_tokenize); NULL: one document */
    hearth_progress progress;
} divergence_options;

enum { DIVERGENCE_P90, DIVERGENCE_P95, DIVERGENCE_P99, DIVERGENCE_P999, DIVERGENCE_PERCENTILES };

/* Over all scored positions; in nats, in double. Errors are standard errors of the mean. Percentiles that fall between
 * two values are interpolated linearly. */
typedef struct divergence {
    uint64_t tokens;
    uint32_t windows, context;
    double mean, mean_error;
    double median, percentiles[DIVERGENCE_PERCENTILES], least, most;
    double same_top, same_top_error; /* share of positions whose top token is a top token of the file too */
    double nll, base_nll;            /* mean -log p of the actual next tokens; exp of it is the perplexity */
    /* log of the ratio of the perplexities, model over base. Where the file clipped the actual token, which makes
     * base_nll too small, the model's value is clipped at the same level */
    double log_ratio;
    double cut;                   /* share of positions where the file clipped the actual token */
    double right_mean, right_rms; /* change of the probability of the actual token, model minus base */
} divergence;

/* What is read: a text, or ids as they are (BOS replaces the first id of each window where the vocabulary adds it). */
typedef struct divergence_material {
    const char *name; /* for messages */
    span text;
    const int32_t *ids; /* [id_count] used instead of the text; NULL: the text is used */
    size_t id_count;
} divergence_material;

/* Writes the engine's logits for the material to a file, which appears only once it is complete. HEARTH_FORMAT: less
 * than two windows. HEARTH_INVALID: an impossible context, or an id that is not in the vocabulary. */
hearth_status divergence_write(const char *path, const hearth_engine *engine, const divergence_material *from,
                               const divergence_options *options, hearth_error *error);
/* Does the same with a file in $TMPDIR, or in /tmp, that has already lost its name when this returns: however the
 * program ends, nothing is left on disk. *out is that file, open; close it with kl_file_close. Messages call it
 * from->name. */
hearth_status divergence_write_temporary(kl_file *out, const hearth_engine *engine, const divergence_material *from,
                                         const divergence_options *options, hearth_error *error);

/* Measures the engine against a file. HEARTH_FORMAT: not a logits file, or a damaged one. HEARTH_UNSUPPORTED: its
 * vocabulary differs, or its windows are longer than the model's context. */
hearth_status divergence_measure(divergence *out, const hearth_engine *engine, const char *path,
                                 const divergence_options *options, hearth_error *error);
/* Does the same with a file that is already open. */
hearth_status divergence_measure_file(divergence *out, const hearth_engine *engine, const kl_file *base,
                                      const divergence_options *options, hearth_error *error);

#endif
