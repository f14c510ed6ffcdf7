/* latent.h - latent attention on the CPU (attention_shape.compressed in model/layer.h; arXiv 2405.04434): what comes before and
 * behind the part that it shares with other attention, in which all heads read one key that is the value too; and what is alike
 * elsewhere: queries made by two matrices, and matrices of groups of heads. */
#ifndef ENGINE_LATENT_H
#define ENGINE_LATENT_H

#include "engine.h"

/* Computes the queries and keys of the first `count` rows of the batch, before they are rotated: from scratch.normed to
 * scratch.query [count][H * head_length] and scratch.key [count][head_length]. In both the values that rotate come first. */
void latent_project(hearth_session *s, uint32_t layer, size_t count);

/* Computes the queries [count][rows of q] from what query_in has left in scratch.query_in, after its norm. */
void latent_queries(hearth_session *s, uint32_t layer, size_t count, float *out);

/* Takes what heads have read through the matrices of groups of them (attention_shape.output_groups): from scratch.mixed
 * [count][H * head_length] to scratch.result [count][output_groups * output_rank]. */
void latent_groups(hearth_session *s, uint32_t layer, size_t count);

/* Computes what the output matrix reads: from scratch.mixed [count][H * head_length] to scratch.result [count][H * V]. */
void latent_results(hearth_session *s, uint32_t layer, size_t count);

#endif
