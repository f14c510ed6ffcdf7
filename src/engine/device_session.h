/* device_session.h - the device's side of a session: its state, its programs, and its part of a step.
 *
 * A step is at most STEP_ROWS rows through all layers. What the device does in it is recorded once (device_record.c):
 * all its layers, the vectors that cross the bus, and an exchange for each. forward.c starts it and goes through the
 * layers along with it:
 *
 *     device_step_begin                                       the device begins
 *     for each layer of the CPU:       device_step_take      where the residual stream lies on the device
 *     for each layer of the device:    device_step_give      where it lies on the CPU
 *         and where the CPU has neurons of it:  device_step_input ... device_step_answer
 *     device_step_end                                         the residual stream is back
 *
 * After an error the step is given up with device_step_abandon. */
#ifndef ENGINE_DEVICE_SESSION_H
#define ENGINE_DEVICE_SESSION_H

#include "device_weights.h"

typedef struct device_session device_session;
struct hearth_session;

/* State and programs for a session whose sizes stand (context, sequences, cache format, tracer). HEARTH_NO_MEMORY: the
 * budget does not hold them. */
hearth_status device_session_create(device_session **out, const struct hearth_session *s, hearth_error *error);
void device_session_destroy(device_session *s);
/* Bytes that it would take of the device's memory, or pinned in main memory. */
uint64_t device_session_bytes(const struct hearth_session *s, device_place place);

/* rows: where the residual stream of layer 0 is needed on the CPU it lies in scratch.x. */
hearth_status device_step_begin(struct hearth_session *s, const hearth_row *rows, size_t count, hearth_error *error);
/* The residual stream into scratch.x, before a layer of the CPU that follows one of the device. */
hearth_status device_step_take(struct hearth_session *s, uint32_t layer, size_t count, hearth_error *error);
/* And back, before a layer of the device that follows one of the CPU. */
void device_step_give(struct hearth_session *s, uint32_t layer, size_t count);
/* What the CPU's neurons of a layer read: scratch.normed; where they have predictors scratch.x, or scratch.hidden if
 * the device has computed that (*hidden). */
hearth_status device_step_input(struct hearth_session *s, uint32_t layer, size_t count, bool *hidden,
                                hearth_error *error);
/* Their sum, scratch.added. */
void device_step_answer(struct hearth_session *s, uint32_t layer, size_t count);
/* Whether the step stops after each layer, because there was an observer when it began. */
bool device_step_is_observed(const struct hearth_session *s);
/* Then: what the device's neurons of a layer did, for device_step_show; scratch.x and .normed. */
hearth_status device_step_observe(struct hearth_session *s, uint32_t layer, size_t count, hearth_error *error);
/* Marks in scratch.wanted and .seen, by original number, what they did with row t. */
void device_step_show(struct hearth_session *s, uint32_t layer, size_t t);
/* The device goes on. */
void device_step_observed(struct hearth_session *s, uint32_t layer);
/* The residual stream into scratch.x, the device's counts to the session's; the tracer sees the step. */
hearth_status device_step_end(struct hearth_session *s, size_t count, hearth_error *error);
void device_step_abandon(struct hearth_session *s);

/* logits [count][vocabulary] of hidden [count][d], at most STEP_ROWS, where the head lies on the device. */
hearth_status device_head(struct hearth_session *s, const float *hidden, size_t count, float *logits,
                          hearth_error *error);

/* Keys and values of the device's layers: the first `length` positions of a sequence, as kv_copy, kv_save and
 * kv_restore have those of the CPU's. */
uint64_t device_kv_bytes(const struct hearth_session *s, uint32_t length);
hearth_status device_kv_copy(struct hearth_session *s, uint32_t from, uint32_t to, uint32_t length,
                             hearth_error *error);
hearth_status device_kv_save(const struct hearth_session *s, uint32_t sequence, uint32_t length, void *block,
                             hearth_error *error);
hearth_status device_kv_restore(struct hearth_session *s, uint32_t sequence, uint32_t length, const void *block,
                                hearth_error *error);

#endif
