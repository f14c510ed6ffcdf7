/* rwkv_vocabulary.c - see rwkv_vocabulary.h. */
#include "rwkv_vocabulary.h"

#include "escapes.h"
#include "vocabulary.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define KEY(name) "tokenizer.ggml." name

typedef struct listing {
    const char *name;
    hearth_error *error;
    span *pieces; /* [count] as GGUF spells them */
    int32_t *types;
    size_t count;
    arena memory;
} listing;

static hearth_status fail_line(const listing *l, const char *reason)
{
    return fail(l->error, HEARTH_FORMAT, "%s: line %zu: %s", l->name, l->count, reason);
}

/* Cuts a number off one end of a line, with the blank beside it; returns -1 where there is none. */
static long cut_number(span *line, bool at_end)
{
    char digits[16];
    size_t size = 0;
    while (size < line->size && size < sizeof digits - 1) {
        char c = line->data[at_end ? line->size - 1 - size : size];
        if (c < '0' || c > '9')
            break;
        size++;
    }
    if (size == 0 || size >= line->size || line->data[at_end ? line->size - 1 - size : size] != ' ')
        return -1;
    memcpy(digits, line->data + (at_end ? line->size - size : 0), size);
    digits[size] = 0;
    line->data += at_end ? 0 : size + 1;
    line->size -= size + 1;
    return strtol(digits, NULL, 10);
}

/* Adds the piece of a line. */
static hearth_status add_line(listing *l, span line)
{
    long id = cut_number(&line, false), length = cut_number(&line, true);
    if (id < 0 || length < 0)
        return fail_line(l, "is not a number, a piece and its length");
    if ((size_t)id != l->count)
        return fail_line(l, "its number is not the next one");
    bool bytes = line.size > 0 && line.data[0] == 'b';
    line.data += bytes;
    line.size -= bytes;
    if (line.size < 2 || (line.data[0] != '\'' && line.data[0] != '"') || line.data[line.size - 1] != line.data[0])
        return fail_line(l, "its piece is no literal in quotes");
    char piece[PIECE_LIMIT];
    size_t size;
    line = (span){line.data + 1, line.size - 2};
    if (line.size > sizeof piece || !escapes_read(line, !bytes, piece, &size) || size == 0 || size != (size_t)length)
        return fail_line(l,
                         "its piece is empty or too long, has an unknown escape, or is not as long as the line says");
    buffer spelled = {0};
    char *copy =
        escapes_write((span){piece, size}, &spelled) ? arena_copy_text(&l->memory, spelled.data, spelled.size) : NULL;
    l->pieces[l->count] = (span){copy, spelled.size};
    l->types[l->count++] = TOKEN_NORMAL;
    buffer_free(&spelled);
    return copy ? HEARTH_OK : fail_memory(l->error, l->name, size);
}

static hearth_status read_lines(listing *l, span text)
{
    size_t room = 2;
    for (size_t i = 0; i < text.size; i++)
        room += text.data[i] == '\n';
    l->pieces = arena_new_array(&l->memory, room, sizeof *l->pieces);
    l->types = arena_new_array(&l->memory, room, sizeof *l->types);
    if (!l->pieces || !l->types)
        return fail_memory(l->error, l->name, room * sizeof *l->pieces);
    l->pieces[0] = span_of("<s>");
    l->types[0] = TOKEN_CONTROL;
    l->count = 1;
    while (text.size > 0) {
        const char *end = memchr(text.data, '\n', text.size);
        span line = {text.data, end ? (size_t)(end - text.data) : text.size};
        text = (span){text.data + line.size + (end ? 1 : 0), text.size - line.size - (end ? 1 : 0)};
        if (line.size > 0 && line.data[line.size - 1] == '\r')
            line.size--;
        if (line.size > 0)
            TRY(add_line(l, line));
    }
    return HEARTH_OK;
}

hearth_status rwkv_vocabulary_parse(checkpoint *c, span text, const char *name, hearth_error *error)
{
    listing l = {.name = name, .error = error};
    hearth_status status = read_lines(&l, text);
    if (status == HEARTH_OK)
        status = checkpoint_set_string(c, KEY("model"), span_of(RWKV_KIND), error);
    if (status == HEARTH_OK)
        status = checkpoint_set_strings(c, KEY("tokens"), l.pieces, l.count, error);
    if (status == HEARTH_OK)
        status = checkpoint_set_numbers(c, KEY("token_type"), VALUE_I32, l.types, l.count, error);
    if (status == HEARTH_OK)
        status = rwkv_vocabulary_finish(c, error);
    arena_clear(&l.memory);
    return status;
}

hearth_status rwkv_vocabulary_finish(checkpoint *c, hearth_error *error)
{
    const key_value *pieces;
    span kind;
    bool found;
    TRY(checkpoint_get_string(c, KEY("model"), &kind, &found, error));
    if (!found || !span_equal(kind, span_of(RWKV_KIND)))
        return HEARTH_OK;
    TRY(checkpoint_set_u32(c, KEY("bos_token_id"), 0, error));
    TRY(checkpoint_set_u32(c, KEY("eos_token_id"), 0, error));
    TRY(checkpoint_get_array(c, KEY("tokens"), VALUE_STRING, &pieces, NULL, error));
    for (uint32_t id = 0; id < pieces->count; id++)
        if (span_equal(pieces->as.strings[id], span_of("\\n\\n")))
            TRY(checkpoint_set_u32(c, KEY("eot_token_id"), id, error));
    return HEARTH_OK;
}
