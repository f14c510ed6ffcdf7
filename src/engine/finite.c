/* finite.c - see finite.h. */
#include "finite.h"

#include "../base/memory.h"

#include <stdio.h>
#include <string.h>

/* Returns whether all values are finite. Infinities and NaN have all bits of the exponent set. The loop has no early
 * exit, so that compilers vectorise it. */
static bool is_finite(const float *values, size_t n)
{
    const uint32_t exponent = 0x7f800000;
    uint32_t found = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        found |= (bits & exponent) == exponent;
    }
    return found == 0;
}

/* ------------------------------------------------------------------ the file */

/* Values decoded at a time; a multiple of the block of every format. */
#define STRETCH 4096

/* Returns whether all values of `size_bytes` bytes are finite. */
static bool piece_is_finite(const number_traits *format, const char *at, size_t size_bytes)
{
    float values[STRETCH];
    size_t left = size_bytes / format->block_bytes * format->block_values;
    for (size_t n; left > 0; left -= n, at += n / format->block_values * format->block_bytes) {
        n = left < STRETCH ? left : STRETCH;
        format->decode(at, values, n);
        if (!is_finite(values, n))
            return false;
    }
    return true;
}

/* The same of a tensor whose rows are made when they are read; true without memory for one. */
static bool rows_are_finite(const stored_tensor *t, const number_traits *format)
{
    size_t rows = (size_t)stored_tensor_rows(t), row_bytes = t->size_bytes / rows;
    char *row = mem_new(row_bytes);
    bool finite = true;
    for (size_t i = 0; row && finite && i < rows; i++) {
        stored_tensor_read(t, i, row_bytes, row);
        finite = piece_is_finite(format, row, row_bytes);
    }
    mem_free(row);
    return finite;
}

/* Returns whether all values of a tensor are finite; true for formats that cannot be decoded. */
static bool tensor_is_finite(const stored_tensor *t)
{
    if (t->foreign)
        return true;
    const number_traits *format = &number_formats[t->format];
    if (t->scaled)
        return rows_are_finite(t, format);
    size_t pieces = t->parts ? (size_t)t->shape[2] : 1, each = t->size_bytes / pieces;
    bool finite = true;
    for (size_t i = 0; finite && format->decode && i < pieces; i++)
        finite = piece_is_finite(format, t->parts ? t->parts[i] : t->data, each);
    return finite;
}

/* Returns the first tensor whose name begins like this and that is not finite; NULL: there is none. */
static const stored_tensor *find_bad(const checkpoint *c, const char *beginning)
{
    for (size_t i = 0; i < c->tensor_count; i++)
        if (strncmp(c->tensors[i].name, beginning, strlen(beginning)) == 0 && !tensor_is_finite(&c->tensors[i]))
            return &c->tensors[i];
    return NULL;
}

static hearth_status blame_tensor(const checkpoint *c, const stored_tensor *t, hearth_error *error)
{
    return fail(error, HEARTH_FORMAT, "%s: tensor %s: has values that are not finite numbers", c->path, t->name);
}

/* ------------------------------------------------------------------ results */

hearth_status finite_check_stream(const hearth_session *s, size_t count, uint32_t first, uint32_t last,
                                  hearth_error *error)
{
    const hearth_model *m = s->engine->model;
    if (is_finite(s->scratch.x, count * m->hyper.embedding_length))
        return HEARTH_OK;
    const stored_tensor *bad = first == 0 ? find_bad(m->source, "token_embd.") : NULL;
    for (uint32_t i = first; i <= last && !bad; i++) {
        char beginning[24];
        snprintf(beginning, sizeof beginning, "blk.%u.", i);
        bad = find_bad(m->source, beginning);
    }
    if (bad)
        return blame_tensor(m->source, bad, error);
    char which[40];
    snprintf(which, sizeof which, first < last ? "layers %u to %u" : "layer %u", first, last);
    return fail(error, HEARTH_FORMAT, "%s: %s: what comes out is not finite, though every weight is", m->source->path,
                which);
}

hearth_status finite_check_logits(const hearth_session *s, size_t count, const float *logits, hearth_error *error)
{
    const hearth_model *m = s->engine->model;
    if (is_finite(logits, count * m->hyper.vocabulary_size))
        return HEARTH_OK;
    static const char *const tensors[] = {"output_norm.", "output.", "token_embd."}; /* the last one for models whose
                                                                                      * embedding is the head */
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        const stored_tensor *bad = find_bad(m->source, tensors[i]);
        if (bad)
            return blame_tensor(m->source, bad, error);
    }
    return fail(error, HEARTH_FORMAT, "%s: output: the logits are not finite, though every weight is", m->source->path);
}
