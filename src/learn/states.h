/* states.h - hidden states of a corpus on disk: for chosen tokens and every layer, what a predictor could read and which
 * neurons fired.
 *
 * One file per layer in a work folder, rows of one size, written in the order of the corpus while it is profiled and
 * mapped for reading. Of a token: the root mean square of the residual stream before the FFN's norm (float32), the
 * stream divided by it (float16 [d], so that no size of it overflows), and a bit per neuron by its own number, set where
 * its activation is not zero. What the network reads is the norm of the former, so it needs no room. */
#ifndef LEARN_STATES_H
#define LEARN_STATES_H

#include "corpus.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct states_writer states_writer;

/* Keeps one of every n tokens of a corpus, n the least for which all layers fit into disk_bytes (0: no limit). Which
 * one of the n is drawn from a fixed seed, so that no place of the windows is favoured. The rows of the same model and
 * corpus that exist there already are gone on with (a run that was interrupted); others, and damaged ones, are replaced,
 * but not those that merely could not be read. The folder is made where it is missing.
 * HEARTH_INVALID: disk_bytes are less than one row of every layer. HEARTH_IO: also too little room on the disk, said
 * with both figures, before anything is written. */
hearth_status states_writer_open(states_writer **out, const char *folder, const hearth_model *model,
                                 const corpus *texts, uint64_t disk_bytes, hearth_error *error);
/* What became of rows that lay there and could not be gone on with, for people; "" where there were none. */
const char *states_writer_note(const states_writer *w);
/* Tokens of the corpus that were dealt with up to the last flush, of an earlier run too: going on may begin there. */
uint64_t states_writer_tokens(const states_writer *w);
/* Of how many tokens one is kept, and how many will be. */
uint64_t states_writer_stride(const states_writer *w);
uint64_t states_writer_rows(const states_writer *w);
/* Whether token number `token` of the corpus is one of those. */
bool states_writer_wants(const states_writer *w, uint64_t token);
/* Rows come by layer in the order of tokens; what lies there already is not written again. Activations of all neurons.
 * What fails is told by the next flush. */
void states_writer_add(states_writer *w, uint64_t token, const hearth_observation *seen);
/* Everything so far is on disk, so that going on from `tokens` tokens loses nothing. */
hearth_status states_writer_flush(states_writer *w, uint64_t tokens, hearth_error *error);
/* Closes; what was not flushed is lost. NULL is nothing. */
void states_writer_close(states_writer *w);

/* One layer's rows, mapped. Any number of threads may read. */
typedef struct states states;

/* HEARTH_IO: there are none. HEARTH_FORMAT: they are another model's, or damaged. */
hearth_status states_open(states **out, const char *folder, const hearth_model *model, uint32_t layer,
                          hearth_error *error);
void states_close(states *s);
size_t states_count(const states *s);
/* The first rows train, the last tenth validates: neighbours in a text are alike, so the cut is not by chance. */
size_t states_training_count(const states *s);
/* The same of any number of rows. */
uint64_t states_training_of(uint64_t rows);

/* Words of a row's bits. */
size_t states_words(const states *s);

/* Rows [row_count] by number, in any order: inputs [row_count][d], the residual stream or, where normed, what the
 * network reads; fired [row_count][states_words], neuron n at bit n % 64 of word n / 64. Either may be NULL. */
void states_read(const states *s, const uint32_t *rows, size_t row_count, bool normed, float *inputs, uint64_t *fired);

/* Removes all of it from a folder, as far as that can be done, whatever state it is in. */
void states_remove(const char *folder);

#endif
