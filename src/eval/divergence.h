/* divergence.h - how far what a model says is from what another one said: KL(base || model), row by row.
 *
 * The base is a logits file (kl_file.h), by hearth or by llama.cpp: write one with the engine that counts as the truth,
 * then measure as many engines against it as there are. Both go through llama.cpp's protocol (windows.h), so the file
 * has all that measuring needs, the text included.
 *
 * A row's divergence is sum p log(p / q) over the tokens that the file tells apart, p the file's probabilities and q
 * the model's. The file's 16 bits make it wrong by what p then adds up to beside 1; that is known and taken off again,
 * so that an engine against its own file gives 1e-9 and not 1e-5. Of the tokens that lie so far below the likeliest
 * that the file cuts them off, it is only known what they have at most together: what q gives them beyond that is
 * added. Differences from llama.cpp's figures are of that size. */
#ifndef EVAL_DIVERGENCE_H
#define EVAL_DIVERGENCE_H

#include "../base/text.h"
#include "kl_file.h"

/* N where none is wanted and the model has as much, as for llama.cpp. */
#define DIVERGENCE_CONTEXT 512

typedef struct divergence_options {
    uint32_t
        context; /* N, for writing; 0: DIVERGENCE_CONTEXT, or the model's where that is less. A file has its own. */
    uint32_t windows; /* at most so many of them; 0: all                                                          */
    hearth_kv kv;
    const char *separator; /* of the texts within the text that is written (halves_tokenize); NULL: it is one     */
    hearth_progress progress;
} divergence_options;

enum { DIVERGENCE_P90, DIVERGENCE_P95, DIVERGENCE_P99, DIVERGENCE_P999, DIVERGENCE_PERCENTILES };

/* Of all scored positions; in nats, in double. An error is the standard error of the mean. Percentiles lie between two
 * values where they have to, in proportion. */
typedef struct divergence {
    uint64_t tokens;
    uint32_t windows, context;
    double mean, mean_error;
    double median, percentiles[DIVERGENCE_PERCENTILES], least, most;
    double same_top, same_top_error; /* share of positions where the likeliest token is one of the file's likeliest  */
    double nll, base_nll; /* mean -log p of the tokens that came; exp of it is the perplexity                       */
    double log_ratio;     /* of the perplexities, model over base. Where the file cut off the token that came, which
                             makes base_nll too small, the model's is cut off at the same place                      */
    double cut;           /* share of positions where it did                                                         */
    double right_mean, right_rms; /* change of the probability of the token that came, model less base            */
} divergence;

/* What is read: a text, or ids as they stand (BOS takes the place of each window's first where the vocabulary adds
 * it). */
typedef struct divergence_material {
    const char *name; /* for messages */
    span text;
    const int32_t *ids; /* [id_count] in place of the text; NULL: the text */
    size_t id_count;
} divergence_material;

/* Writes what the engine says of it into a file that appears when it is whole. HEARTH_FORMAT: less than two windows.
 * HEARTH_INVALID: a context that cannot be, an id that is not in the vocabulary. */
hearth_status divergence_write(const char *path, const hearth_engine *engine, const divergence_material *from,
                               const divergence_options *options, hearth_error *error);
/* The same into a file of $TMPDIR, else of /tmp, which has no name any more when this returns: whatever ends the
 * program, nothing stays. *out is that file, open, for kl_file_close; in messages it is called from->name. */
hearth_status divergence_write_temporary(kl_file *out, const hearth_engine *engine, const divergence_material *from,
                                         const divergence_options *options, hearth_error *error);

/* Measures the engine against a file. HEARTH_FORMAT: no logits file, or a damaged one. HEARTH_UNSUPPORTED: one of
 * another vocabulary, or of windows longer than the model's context. */
hearth_status divergence_measure(divergence *out, const hearth_engine *engine, const char *path,
                                 const divergence_options *options, hearth_error *error);
/* The same of one that is open. */
hearth_status divergence_measure_file(divergence *out, const hearth_engine *engine, const kl_file *base,
                                      const divergence_options *options, hearth_error *error);

#endif
