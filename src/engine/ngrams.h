/* ngrams.h - embeddings of the last tokens, which a layer adds to the streams of the residual (ngram_shape and
 * ngram_weights in model/layer.h, which has the formulas). Their table has many rows, of which a token reads a few: it stays where it
 * lies in the file, and only pages with those rows are read. */
#ifndef ENGINE_NGRAMS_H
#define ENGINE_NGRAMS_H

#include "engine.h"

/* Makes the embeddings of the first `count` rows of the batch: scratch.ngrams. */
void ngrams_prepare(hearth_session *s, size_t count);
/* Multiplies them with a layer's matrices: leaves normed keys in scratch.stream_gates and values in scratch.added. */
void ngrams_project(hearth_session *s, uint32_t layer, size_t count);
/* Adds what a layer makes of them to the streams; scratch.stream_norms is overwritten, too. */
void ngrams_add(hearth_session *s, uint32_t layer, size_t count);

/* Finds the rows [ngram_heads] that the token at a position reads; tokens: of its sequence, that position included. */
void ngrams_rows(const ngram_shape *n, const int32_t *tokens, size_t position, uint32_t *rows);

#endif
