/* recurrent_state.c - see recurrent_state.h. */
#include "recurrent_state.h"

#include "engine.h"

#include "../base/memory.h"

#include <string.h>

/* ------------------------------------------------------------------ sizes */

/* Returns a number of floats, rounded up so that what follows them can be the argument of a kernel. */
static size_t aligned(size_t floats)
{
    return items_of(floats * sizeof(float), ARGUMENT_ALIGNMENT) * (ARGUMENT_ALIGNMENT / sizeof(float));
}

size_t recurrent_matrices(const recurrent_shape *r)
{
    return (size_t)recurrent_width(r) * r->key_length;
}

size_t recurrent_inputs_at(const recurrent_shape *r)
{
    return aligned(recurrent_matrices(r));
}

size_t recurrent_more_at(const recurrent_shape *r)
{
    return recurrent_inputs_at(r) + aligned((size_t)(r->window - 1) * recurrent_channels(r));
}

/* Adds the floats that one layer stores of a sequence; returns false if they overflow. */
static bool add_layer(const recurrent_shape *r, size_t *length)
{
    return size_add(*length, recurrent_more_at(r) + aligned(r->more), length);
}

/* Finds the bytes of states of so many floats with all places; returns false if they overflow. */
static bool count_bytes(size_t length, uint32_t sequences, uint32_t mark_count, size_t *bytes)
{
    size_t places;
    return size_multiply(sequences, 2 + (size_t)mark_count, &places) && size_multiply(length, sizeof(float), bytes) &&
           size_multiply(places, *bytes, bytes);
}

size_t recurrent_bytes(const recurrent_shape *const *shapes, uint32_t count, uint32_t sequences, uint32_t mark_count)
{
    size_t length = 0, bytes;
    bool fits = true;
    for (uint32_t i = 0; fits && i < count; i++)
        fits = add_layer(shapes[i], &length);
    return fits && count_bytes(length, sequences, mark_count, &bytes) ? bytes : SIZE_MAX;
}

/* Lists the layers; returns false if the bytes of all states overflow. */
static bool lay_out(recurrent_states *s, const recurrent_shape *const *shapes)
{
    for (uint32_t i = 0; i < s->layer_count; i++) {
        s->layers[i] = (recurrent_layer){shapes[i], s->length};
        if (!add_layer(shapes[i], &s->length))
            return false;
    }
    return count_bytes(s->length, s->sequences, s->mark_count, &s->bytes);
}

/* ------------------------------------------------------------------ life */

hearth_status recurrent_create(recurrent_states *out, const recurrent_shape *const *shapes, uint32_t count,
                               uint32_t sequences, uint32_t mark_count, device_buffer *there, hearth_runtime *runtime,
                               hearth_error *error)
{
    *out = (recurrent_states){.layer_count = count, .sequences = sequences, .mark_count = mark_count};
    if (count == 0)
        return HEARTH_OK;
    out->there = there;
    out->runtime = runtime;
    out->layers = mem_new_array(count, sizeof *out->layers);
    out->valid = mem_new_array(sequences, sizeof *out->valid);
    out->moved = mem_new_array(sequences, sizeof *out->moved);
    out->marks = mem_new_array((size_t)sequences * mark_count + 1, sizeof *out->marks);
    if (!out->layers || !out->valid || !out->moved || !out->marks)
        return fail_memory(error, "session: recurrent states", sequences * (mark_count + 2) * sizeof(uint32_t));
    if (!lay_out(out, shapes))
        return fail(error, HEARTH_INVALID, "session: recurrent states: those of %u sequences are too large", sequences);
    if (there)
        return HEARTH_OK;
    out->data = mem_reserve(out->bytes, MEM_HERE_AND_THERE);
    return out->data ? HEARTH_OK : fail_memory(error, "session: recurrent states", out->bytes);
}

void recurrent_destroy(recurrent_states *s)
{
    if (s->data)
        mem_release(s->data, s->bytes);
    mem_free(s->layers);
    mem_free(s->valid);
    mem_free(s->moved);
    mem_free(s->marks);
    *s = (recurrent_states){0};
}

/* ------------------------------------------------------------------ places */

/* Returns the number of a place of a sequence: 0 and 1 are its states, marks follow. */
static uint32_t number_of(const recurrent_states *s, uint32_t sequence, uint32_t which)
{
    return sequence * (2 + s->mark_count) + which;
}

uint32_t recurrent_valid(const recurrent_states *s, uint32_t sequence)
{
    return number_of(s, sequence, s->valid[sequence]);
}

uint32_t recurrent_to(const recurrent_states *s, uint32_t sequence)
{
    return number_of(s, sequence, 1u - s->valid[sequence]);
}

uint32_t recurrent_from(const recurrent_states *s, uint32_t sequence)
{
    return s->moved[sequence] ? recurrent_to(s, sequence) : recurrent_valid(s, sequence);
}

float *recurrent_place(const recurrent_states *s, uint32_t place)
{
    return s->data + place * s->length;
}

static size_t place_bytes(const recurrent_states *s)
{
    return s->length * sizeof(float);
}

/* Copies what is in one place to another. */
static hearth_status copy_place(const recurrent_states *s, uint32_t from, uint32_t to, hearth_error *error)
{
    size_t bytes = place_bytes(s);
    if (!s->there) {
        memcpy(recurrent_place(s, to), recurrent_place(s, from), bytes);
        return HEARTH_OK;
    }
    device_lock(s->runtime);
    hearth_status status = device_move(s->there, to * bytes, s->there, from * bytes, bytes, error);
    device_unlock(s->runtime);
    return status;
}

/* ------------------------------------------------------------------ marks */

/* Returns the number of the mark of that length; mark_count: there is none. */
static uint32_t find_mark(const recurrent_states *s, uint32_t sequence, uint32_t length)
{
    const uint32_t *marks = s->marks + (size_t)sequence * s->mark_count;
    uint32_t i = 0;
    while (i < s->mark_count && marks[i] != length)
        i++;
    return i;
}

/* Returns how far the marks before and after one are apart: what a cut has to read again at most where it is given up. */
static uint32_t gap_without(const uint32_t *marks, uint32_t count, uint32_t at)
{
    uint32_t before = 0, after = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++) {
        if (marks[i] < marks[at] && marks[i] > before)
            before = marks[i];
        if (marks[i] > marks[at] && marks[i] < after)
            after = marks[i];
    }
    return after - before;
}

/* Returns how many marks are longer than one. */
static uint32_t longer_marks(const uint32_t *marks, uint32_t count, uint32_t at)
{
    uint32_t longer = 0;
    for (uint32_t i = 0; i < count; i++)
        longer += marks[i] > marks[at];
    return longer;
}

/* Returns the mark to write: an empty one; else, of all but the two longest, to which a chat goes back, the one that leaves
 * the smallest gap, so that the beginnings of a long text stay spread over it. */
static uint32_t spare_mark(const uint32_t *marks, uint32_t count)
{
    uint32_t best = 0, least = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++) {
        if (marks[i] == 0)
            return i;
        uint32_t longer = longer_marks(marks, count, i);
        if (longer + 1 < count && longer < 2)
            continue;
        uint32_t gap = gap_without(marks, count, i);
        if (gap < least) {
            least = gap;
            best = i;
        }
    }
    return best;
}

/* Keeps the state in a place as a mark. */
static void set_mark(recurrent_states *s, uint32_t sequence, uint32_t length, uint32_t state)
{
    if (length == 0 || s->mark_count == 0 || find_mark(s, sequence, length) < s->mark_count)
        return;
    uint32_t *marks = s->marks + (size_t)sequence * s->mark_count, at = spare_mark(marks, s->mark_count);
    bool copied = copy_place(s, state, number_of(s, sequence, 2 + at), NULL) == HEARTH_OK;
    marks[at] = copied ? length : 0;
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

hearth_status recurrent_cut(recurrent_states *s, uint32_t sequence, uint32_t now, uint32_t length, hearth_error *error)
{
    uint32_t *marks = s->marks + (size_t)sequence * s->mark_count, found = find_mark(s, sequence, length);
    if (length > 0 && length < now && found < s->mark_count)
        TRY(copy_place(s, number_of(s, sequence, 2 + found), recurrent_valid(s, sequence), error));
    for (uint32_t i = 0; i < s->mark_count; i++)
        if (marks[i] > length)
            marks[i] = 0;
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ whole sequences */

/* Empties all marks of a sequence: another text follows. */
static void forget_marks(recurrent_states *s, uint32_t sequence)
{
    if (s->mark_count > 0)
        memset(s->marks + (size_t)sequence * s->mark_count, 0, s->mark_count * sizeof *s->marks);
}

hearth_status recurrent_copy(recurrent_states *s, uint32_t from, uint32_t to, uint32_t now, uint32_t length,
                             hearth_error *error)
{
    uint32_t place = length < now ? number_of(s, from, 2 + find_mark(s, from, length)) : recurrent_valid(s, from);
    forget_marks(s, to);
    return length == 0 ? HEARTH_OK : copy_place(s, place, recurrent_valid(s, to), error);
}

hearth_status recurrent_save(const recurrent_states *s, uint32_t sequence, void *block, hearth_error *error)
{
    uint32_t place = recurrent_valid(s, sequence);
    if (!s->there) {
        memcpy(block, recurrent_place(s, place), place_bytes(s));
        return HEARTH_OK;
    }
    device_lock(s->runtime);
    hearth_status status = device_read(s->there, place * place_bytes(s), block, place_bytes(s), error);
    device_unlock(s->runtime);
    return status;
}

hearth_status recurrent_restore(recurrent_states *s, uint32_t sequence, const void *block, hearth_error *error)
{
    uint32_t place = recurrent_valid(s, sequence);
    forget_marks(s, sequence);
    if (!block)
        return HEARTH_OK;
    if (!s->there) {
        memcpy(recurrent_place(s, place), block, place_bytes(s));
        return HEARTH_OK;
    }
    device_lock(s->runtime);
    hearth_status status = device_write(s->there, place * place_bytes(s), block, place_bytes(s), error);
    device_unlock(s->runtime);
    return status;
}
