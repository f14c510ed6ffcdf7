/* device_session.h - the device's side of a session: its state, its programs, and its part of a step.
 *
 * A step is a batch of rows through all layers: one, up to STEP_ROWS, or up to the rows of the session's batch, at most
 * PROMPT_ROWS. What the device does in each of these three is recorded once (device_record.c): all its layers, the
 * vectors that cross the bus, and an exchange for each of them. forward.c starts the program and goes through the
 * layers along with it:
 *
 *     device_step_begin                                       the device begins
 *     for each layer of the CPU:       device_step_take      if the residual stream is on the device
 *     for each layer of the device:    device_step_give      if the residual stream is on the CPU
 *         and if the CPU has neurons of it:  device_step_input ... device_step_answer, or device_step_stream
 *         else                               device_step_pass
 *     device_step_end                                         the residual stream is back
 *
 * After an error the step is given up with device_step_abandon. */
#ifndef ENGINE_DEVICE_SESSION_H
#define ENGINE_DEVICE_SESSION_H

#include "device_weights.h"
#include "recurrent_state.h"

typedef struct device_session device_session;
struct hearth_session;

/* Creates the device state and programs of a session whose sizes are set (context, sequences, cache format, tracer).
 * HEARTH_NO_MEMORY: the budget does not hold them. */
hearth_status device_session_create(device_session **out, const struct hearth_session *s, hearth_error *error);
void device_session_destroy(device_session *s);
/* Returns the bytes that it would take at a place: memory of the device, or pinned main memory. */
uint64_t device_session_bytes(const struct hearth_session *s, device_place place);

/* Returns why a session cannot stream, or is not to; NULL: it can. Whether there is memory for it is not asked. */
const char *device_stream_refusal(const struct hearth_session *s);
/* Decides from how many rows of a step on a session with stream_bytes streams: from the first long one on, or, if the engine is
 * to choose, as measured once for the engine. Logs what it decided, and why. Uses scratch; nothing may have been fed. */
hearth_status device_stream_decide(struct hearth_session *s, hearth_error *error);

/* Returns the most rows of the next step: the session's batch, or STEP_ROWS while somebody observes. */
size_t device_step_most(const struct hearth_session *s);
/* Starts the step with these rows. If the CPU embeds, the residual stream of layer 0 must be in scratch.x; where it has several
 * streams, in scratch.streams. With them it is handed over in the following functions, too. */
hearth_status device_step_begin(struct hearth_session *s, const hearth_row *rows, size_t count, hearth_error *error);
/* Brings the residual stream to scratch.x, before a layer of the CPU that follows one of the device. */
hearth_status device_step_take(struct hearth_session *s, uint32_t layer, size_t count, hearth_error *error);
/* Sends it back, before a layer of the device that follows one of the CPU. */
void device_step_give(struct hearth_session *s, uint32_t layer, size_t count);
/* Waits for the input of the CPU's neurons of a layer: scratch.normed and, if they have low-rank predictors, scratch.x
 * or, if the device has computed it, scratch.hidden (then *hidden is true). Where both sides have neurons of experts also
 * scratch.shares, since the device chose them. With experts beside a network, or with experts and an observer, scratch.x. */
hearth_status device_step_input(struct hearth_session *s, uint32_t layer, size_t count, bool *hidden,
                                hearth_error *error);
/* Returns, after that, what entered a layer whose router reads it (router_shape.early): a row of d values per row. */
const float *device_step_entered(const struct hearth_session *s);
/* Returns whether the steps of a session count which neurons fire: its engine followed them when it was created. */
bool device_step_tallies(const struct hearth_session *s);
/* Returns whether the CPU has two sums for a layer: its neurons are shared with the device, and its experts lie beside a
 * network. Each of these two has a norm behind the sum of both sides, which the device applies. */
bool device_answers_twice(const struct hearth_session *s, uint32_t layer);
/* Returns whether the step in progress streams the CPU's neurons of a layer to the device. Then the CPU has none to compute: in
 * place of input and answer it calls device_step_stream. */
bool device_step_streams(const struct hearth_session *s, uint32_t layer);
/* Packs the parts of such a layer, each as soon as its pinned buffer is free. */
hearth_status device_step_stream(struct hearth_session *s, uint32_t layer, hearth_error *error);
/* Sends the sum of these neurons, scratch.added, to the device; of a layer with two sums that of the experts, and the
 * network's, scratch.beside. */
void device_step_answer(struct hearth_session *s, uint32_t layer, size_t count);
/* Returns whether the step stops after each layer, because there was an observer when it began. */
bool device_step_is_observed(const struct hearth_session *s);
/* For a step that stops: waits for the activations of the device's neurons of a layer and fetches scratch.x and
 * .normed; device_step_show may follow. */
hearth_status device_step_observe(struct hearth_session *s, uint32_t layer, size_t count, hearth_error *error);
/* Marks in scratch.wanted and .seen, by original number, what the device's neurons did with row t. */
void device_step_show(struct hearth_session *s, uint32_t layer, size_t t);
/* After device_step_observe and device_step_answer: returns what the activations of row t are multiplied by, on both
 * sides, where a norm joins them; else 1. */
float device_step_scale(const struct hearth_session *s, uint32_t layer, size_t t);
/* Lets the device go on after device_step_observe. */
void device_step_observed(struct hearth_session *s, uint32_t layer);
/* Waits, in long steps, until the device has passed a layer that is all its own. */
hearth_status device_step_pass(struct hearth_session *s, uint32_t layer, hearth_error *error);
/* Waits for the end of the step; adds the counts of the device to the session's. The residual stream is in
 * scratch.x. */
hearth_status device_step_end(struct hearth_session *s, size_t count, hearth_error *error);
/* Gives up a step after an error, and waits until the device is idle. */
void device_step_abandon(struct hearth_session *s);

/* Computes logits [count][vocabulary] of hidden [count][d], at most STEP_ROWS rows, with a head that lies on the
 * device. */
hearth_status device_head(struct hearth_session *s, const float *hidden, size_t count, float *logits,
                          hearth_error *error);

/* Returns the states of the device's recurrent layers, which the functions of recurrent_state.h keep as those of the CPU;
 * NULL: nothing of the session is on a device. */
recurrent_states *device_recurrent(const struct hearth_session *s);

/* Copies a page of the cache of the device's layers to another one. */
hearth_status device_kv_copy_page(struct hearth_session *s, uint32_t from, uint32_t to, hearth_error *error);
/* Save and restore keys and values of the device's layers, the first `length` positions of a sequence, as kv_save and
 * kv_restore do for those of the CPU. device_kv_bytes: size of the block of a save. */
size_t device_kv_bytes(const struct hearth_session *s, uint32_t length);
hearth_status device_kv_save(const struct hearth_session *s, uint32_t sequence, uint32_t length, void *block,
                             hearth_error *error);
hearth_status device_kv_restore(struct hearth_session *s, uint32_t sequence, uint32_t length, const void *block,
                                hearth_error *error);

#endif
