/* forward.h - runs one batch of a feed through the layers. */
#ifndef ENGINE_FORWARD_H
#define ENGINE_FORWARD_H

#include "engine.h"

#include <math.h>

/* Runs `count` rows (at most session->batch), whose sequence and position are in scratch.sequence and .position: stores
 * their keys and values and leaves the residual stream in scratch.x. `done` and `total` are rows of the whole feed, for
 * progress.
 * HEARTH_FORMAT: the residual stream is not finite.
 * HEARTH_CANCELLED: by hearth_session_cancel or the progress callback of the session.
 * HEARTH_DEVICE: the device failed. */
hearth_status forward_batch(hearth_session *s, const hearth_row *rows, size_t count, size_t done, size_t total,
                            hearth_error *error);

/* Multiplies n values by a factor. */
static inline void forward_scale(float factor, size_t n, float *values)
{
    for (size_t i = 0; factor != 1 && i < n; i++)
        values[i] *= factor;
}

/* Returns log(1 + exp(x)), which beyond 20 is x as near as a float is. */
static inline float forward_softplus(float x)
{
    return x > 20 ? x : log1pf(expf(x));
}

/* Writes the normed hidden state of row `row` of the batch, the input of the head, to out [d]. */
void forward_output(const hearth_session *s, size_t row, float *out);

/* Applies a norm of the model to n values; out may be x. */
void forward_norm_row(const hearth_engine *e, const norm_weights *w, float epsilon, const float *x, size_t n,
                      float *out);

/* Norms n values without weights. */
void forward_norm_values(const hearth_engine *e, size_t n, float *x);

/* Rotates the heads [heads][length] of queries or keys of a row of the batch by the angles of its position; r NULL: they stay. */
void forward_turn(const hearth_session *s, const rotary *r, size_t heads, size_t length, size_t row, float *x);

/* Adds a bias to every row of `width` values; NULL: there is none. */
void forward_add_bias(const hearth_session *s, const float *bias, size_t width, size_t count, float *rows);

/* Applies a norm of the model to every row of `width` values; without weights it only copies. to may be from. */
void forward_norm(const hearth_session *s, const norm_weights *w, size_t width, size_t count, const float *from,
                  float *to);

/* Computes logits [count][vocabulary] of hidden states [count][d], at most session->batch rows.
 * HEARTH_DEVICE: the head lies on a device that failed. */
hearth_status forward_head(hearth_session *s, const float *hidden, size_t count, float *logits, hearth_error *error);

#endif
