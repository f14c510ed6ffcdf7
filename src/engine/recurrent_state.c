/* recurrent_state.c - see recurrent_state.h. */
#include "recurrent_state.h"

#include "../base/error.h"
#include "../base/memory.h"

#include <string.h>

size_t recurrent_matrices(const recurrent_shape *r)
{
    return (size_t)recurrent_width(r) * r->key_length;
}

size_t recurrent_floats(const recurrent_shape *r)
{
    return recurrent_matrices(r) + (size_t)(r->window - 1) * recurrent_channels(r);
}

/* Lists the layers; returns false if the bytes of all states overflow. */
static bool lay_out(recurrent_states *s, const recurrent_shape *const *shapes)
{
    size_t places;
    for (uint32_t i = 0; i < s->layer_count; i++) {
        s->layers[i] = (recurrent_layer){shapes[i], s->length};
        if (!size_add(s->length, recurrent_floats(shapes[i]), &s->length))
            return false;
    }
    return size_multiply(s->sequences, 2 + (size_t)s->mark_count, &places) &&
           size_multiply(places, s->length * sizeof *s->data, &s->bytes) && s->length <= SIZE_MAX / sizeof *s->data;
}

hearth_status recurrent_create(recurrent_states *out, const recurrent_shape *const *shapes, uint32_t count,
                               uint32_t sequences, uint32_t mark_count, hearth_error *error)
{
    *out = (recurrent_states){.layer_count = count, .sequences = sequences, .mark_count = mark_count};
    if (count == 0)
        return HEARTH_OK;
    out->layers = mem_new_array(count, sizeof *out->layers);
    out->valid = mem_new_array(sequences, sizeof *out->valid);
    out->moved = mem_new_array(sequences, sizeof *out->moved);
    out->marks = mem_new_array((size_t)sequences * mark_count + 1, sizeof *out->marks);
    if (!out->layers || !out->valid || !out->moved || !out->marks)
        return fail_memory(error, "session: recurrent states", sequences * (mark_count + 2) * sizeof(uint32_t));
    if (!lay_out(out, shapes))
        return fail(error, HEARTH_INVALID, "session: recurrent states: those of %u sequences are too large", sequences);
    out->data = mem_reserve(out->bytes, MEM_HERE_AND_THERE);
    return out->data ? HEARTH_OK : fail_memory(error, "session: recurrent states", out->bytes);
}

void recurrent_destroy(recurrent_states *s)
{
    mem_release(s->data, s->bytes);
    mem_free(s->layers);
    mem_free(s->valid);
    mem_free(s->moved);
    mem_free(s->marks);
    *s = (recurrent_states){0};
}

/* Returns a place of a sequence: 0 and 1 are its states, marks follow. */
static float *place(const recurrent_states *s, uint32_t sequence, uint32_t number)
{
    return s->data + ((size_t)sequence * (2 + s->mark_count) + number) * s->length;
}

float *recurrent_valid(const recurrent_states *s, uint32_t sequence)
{
    return place(s, sequence, s->valid[sequence]);
}

const float *recurrent_from(const recurrent_states *s, uint32_t sequence)
{
    return s->moved[sequence] ? recurrent_to(s, sequence) : recurrent_valid(s, sequence);
}

float *recurrent_to(const recurrent_states *s, uint32_t sequence)
{
    return place(s, sequence, 1u - s->valid[sequence]);
}

/* Returns the number of the mark of that length; mark_count: there is none. */
static uint32_t find_mark(const recurrent_states *s, uint32_t sequence, uint32_t length)
{
    const uint32_t *marks = s->marks + (size_t)sequence * s->mark_count;
    uint32_t i = 0;
    while (i < s->mark_count && marks[i] != length)
        i++;
    return i;
}

/* Keeps a state as a mark: in an empty place, else in that of the shortest length. */
static void set_mark(recurrent_states *s, uint32_t sequence, uint32_t length, const float *state)
{
    if (length == 0 || s->mark_count == 0 || find_mark(s, sequence, length) < s->mark_count)
        return;
    uint32_t *marks = s->marks + (size_t)sequence * s->mark_count, at = 0;
    for (uint32_t i = 1; i < s->mark_count; i++)
        at = marks[i] < marks[at] ? i : at;
    marks[at] = length;
    memcpy(place(s, sequence, 2 + at), state, s->length * sizeof *state);
}

void recurrent_end_feed(recurrent_states *s, bool succeeded, const uint32_t *lengths, const uint32_t *before)
{
    for (uint32_t q = 0; s->layer_count > 0 && q < s->sequences; q++) {
        if (succeeded && s->moved[q]) {
            if (lengths[q] > before[q] + 1) {
                set_mark(s, q, before[q], recurrent_valid(s, q));
                set_mark(s, q, lengths[q], recurrent_to(s, q));
            }
            s->valid[q] ^= 1;
        }
        s->moved[q] = 0;
    }
}

uint32_t recurrent_reach(const recurrent_states *s, uint32_t sequence, uint32_t now, uint32_t length)
{
    const uint32_t *marks = s->marks + (size_t)sequence * s->mark_count;
    uint32_t best = 0;
    if (length >= now)
        return now;
    for (uint32_t i = 0; i < s->mark_count; i++)
        if (marks[i] <= length && marks[i] > best)
            best = marks[i];
    return best;
}

void recurrent_cut(recurrent_states *s, uint32_t sequence, uint32_t now, uint32_t length)
{
    uint32_t *marks = s->marks + (size_t)sequence * s->mark_count, found = find_mark(s, sequence, length);
    if (length > 0 && length < now && found < s->mark_count)
        memcpy(recurrent_valid(s, sequence), place(s, sequence, 2 + found), s->length * sizeof *s->data);
    for (uint32_t i = 0; i < s->mark_count; i++)
        if (marks[i] > length)
            marks[i] = 0;
}

void recurrent_forget(recurrent_states *s, uint32_t sequence)
{
    if (s->mark_count > 0)
        memset(s->marks + (size_t)sequence * s->mark_count, 0, s->mark_count * sizeof *s->marks);
}
