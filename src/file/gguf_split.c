/* gguf_split.c - opens a GGUF file, and if it is one part of a split model all of them, as one checkpoint.
 *
 * llama-gguf-split and llama.cpp's converter cut a model between two tensors. Every part is a valid GGUF file, called
 * NAME-00001-of-00003.gguf, with three keys: split.no (from 0 on), split.count, and split.tensors.count (tensors of all
 * parts). The first part has the keys of the model; what other keys the rest has is ignored, as llama.cpp does. */
#include "gguf_split.h"

#include "gguf_internal.h"

#include <stdio.h>
#include <string.h>

#define QUOTED 128 /* bytes of a name in an error text */

/* A file's name ends like this, with digits in place of #. */
static const char ending[] = "-#####-of-#####.gguf";
enum { ENDING_BYTES = sizeof(ending) - 1, DIGITS = 5, NUMBER_AT = 1, COUNT_AT = 10 };

static const char *const split_keys[] = {"split.no", "split.count", "split.tensors.count"};

/* ------------------------------------------------------------------- names */

static uint32_t read_digits(const char *digits)
{
    uint32_t value = 0;
    for (size_t i = 0; i < DIGITS; i++)
        value = value * 10 + (uint32_t)(digits[i] - '0');
    return value;
}

bool gguf_part_name_read(gguf_part_name *out, const char *path)
{
    size_t size = strlen(path);
    if (size <= ENDING_BYTES)
        return false;
    const char *end = path + size - ENDING_BYTES;
    for (size_t i = 0; i < ENDING_BYTES; i++)
        if (ending[i] == '#' ? end[i] < '0' || end[i] > '9' : end[i] != ending[i])
            return false;
    uint32_t number = read_digits(end + NUMBER_AT), count = read_digits(end + COUNT_AT);
    if (number < 1 || number > count)
        return false;
    *out = (gguf_part_name){.base_bytes = size - ENDING_BYTES, .number = number, .count = count};
    return true;
}

char *gguf_part_path(const char *path, uint32_t number)
{
    size_t size = strlen(path);
    char *copy = mem_copy_text(path, size);
    for (size_t i = 0; copy && i < DIGITS; i++, number /= 10)
        copy[size - ENDING_BYTES + NUMBER_AT + DIGITS - 1 - i] = (char)('0' + number % 10);
    return copy;
}

/* ------------------------------------------------------------------- parts */

/* What a file says of the model that it is a part of. */
typedef struct split {
    uint32_t number;  /* from 0 on                                        */
    uint32_t count;   /* parts; 1: the file is the whole model            */
    uint32_t tensors; /* of all parts                                     */
} split;

/* Reads the keys of a part. A file that was merged again may say that it has 0 parts. */
static hearth_status read_split(const checkpoint *c, split *out, hearth_error *error)
{
    bool found;
    *out = (split){.count = 1};
    TRY(checkpoint_get_u32(c, "split.count", &out->count, &found, error));
    if (out->count <= 1) {
        out->count = 1;
        return HEARTH_OK;
    }
    TRY(checkpoint_get_u32(c, "split.no", &out->number, NULL, error));
    TRY(checkpoint_get_u32(c, "split.tensors.count", &out->tensors, NULL, error));
    if (out->number >= out->count)
        return fail(error, HEARTH_FORMAT, "%s: key split.no: is %u, expected 0 to %u", c->path, out->number,
                    out->count - 1);
    return HEARTH_OK;
}

/* Checks that a file which says that it is a part is called so: by its name the others are found. */
static hearth_status check_name(const checkpoint *c, const split *s, hearth_error *error)
{
    gguf_part_name name;
    if (gguf_part_name_read(&name, c->path) && name.number == s->number + 1 && name.count == s->count)
        return HEARTH_OK;
    return fail(error, HEARTH_FORMAT,
                "%s: is part %u of %u, so its name must end in -%05u-of-%05u.gguf for the others to be found", c->path,
                s->number + 1, s->count, s->number + 1, s->count);
}

/* Opens another part of the model that `path` is a part of, and checks that it says so too. */
static hearth_status open_part(checkpoint **out, const char *path, const split *expected, uint32_t number,
                               bool any_type, hearth_error *error)
{
    split s = {0};
    checkpoint *part = NULL;
    hearth_status status = HEARTH_OK;
    char *part_path = gguf_part_path(path, number + 1);
    if (!part_path)
        return fail_memory(error, path, strlen(path));
    if (!file_exists(part_path))
        status = fail(error, HEARTH_FORMAT, "%s: is missing: the model has %u parts", part_path, expected->count);
    if (status == HEARTH_OK)
        status = gguf_open_file(&part, part_path, any_type, error);
    mem_free(part_path);
    if (status != HEARTH_OK)
        return status;
    TRY_OR(failed, status, read_split(part, &s, error));
    if (s.number == number && s.count == expected->count && s.tensors == expected->tensors) {
        *out = part;
        return HEARTH_OK;
    }
    status = fail(error, HEARTH_FORMAT,
                  "%s: is of another model: it says that it is part %u of %u, with %u tensors in all, expected part %u "
                  "of %u with %u",
                  part->path, s.number + 1, s.count, s.tensors, number + 1, expected->count, expected->tensors);
failed:
    checkpoint_close(part);
    return status;
}

/* Moves the tensors of a part, and the mapping that they lie in, to the first part. */
static hearth_status add_part(checkpoint *whole, checkpoint *part, hearth_error *error)
{
    if (part->powerinfer != whole->powerinfer)
        return fail(error, HEARTH_FORMAT, "%s: is of another model: its magic differs from that of part 1", part->path);
    for (size_t i = 0; i < part->tensor_count; i++) {
        if (checkpoint_find_tensor(whole, part->tensors[i].name))
            return fail(error, HEARTH_FORMAT, "%s: tensor %.*s: is in an earlier part, too", part->path, QUOTED,
                        part->tensors[i].name);
        TRY(checkpoint_add_tensor(whole, &part->tensors[i], error));
    }
    return checkpoint_take_data(whole, part, error);
}

/* Completes the whole model: its keys no longer say that it is split, and it has the path that the user gave. */
static hearth_status finish(checkpoint *whole, const char *path, const split *s, hearth_error *error)
{
    whole->path = arena_copy_text(&whole->memory, path, strlen(path));
    if (!whole->path)
        return fail_memory(error, path, strlen(path));
    if (whole->tensor_count != s->tensors)
        return fail(error, HEARTH_FORMAT, "%s: key split.tensors.count: is %u, but the parts have %zu", path,
                    s->tensors, whole->tensor_count);
    for (size_t i = 0; i < sizeof(split_keys) / sizeof(*split_keys); i++)
        TRY(checkpoint_remove_key(whole, split_keys[i], error));
    return HEARTH_OK;
}

/* Opens all parts but the one that is open already, and joins them. *given is NULL as soon as another owns it. */
static hearth_status join_parts(checkpoint **out, checkpoint **given, const char *path, const split *s, bool any_type,
                                hearth_error *error)
{
    hearth_status status = HEARTH_OK;
    for (uint32_t i = 0; i < s->count; i++) {
        checkpoint *part = *given;
        if (i == s->number)
            *given = NULL;
        else
            TRY(open_part(&part, path, s, i, any_type, error));
        if (i == 0) {
            *out = part;
            continue;
        }
        status = add_part(*out, part, error);
        checkpoint_close(part);
        if (status != HEARTH_OK)
            return status;
    }
    return status;
}

static hearth_status open_all(checkpoint **out, const char *path, bool any_type, hearth_error *error)
{
    checkpoint *given, *whole = NULL;
    split s;
    TRY(gguf_open_file(&given, path, any_type, error));
    hearth_status status = read_split(given, &s, error);
    if (status == HEARTH_OK && s.count == 1) {
        *out = given;
        return HEARTH_OK;
    }
    if (status == HEARTH_OK)
        status = check_name(given, &s, error);
    if (status == HEARTH_OK)
        status = join_parts(&whole, &given, path, &s, any_type, error);
    checkpoint_close(given);
    if (status == HEARTH_OK)
        status = finish(whole, path, &s, error);
    if (status != HEARTH_OK) {
        checkpoint_close(whole);
        return status;
    }
    *out = whole;
    return HEARTH_OK;
}

hearth_status gguf_open(checkpoint **out, const char *path, hearth_error *error)
{
    return open_all(out, path, false, error);
}

hearth_status gguf_open_any(checkpoint **out, const char *path, hearth_error *error)
{
    return open_all(out, path, true, error);
}
