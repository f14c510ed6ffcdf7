/* sentencepiece.c - reads tokenizer.model, a protocol buffer, into GGUF's vocabulary keys.
 *
 * The wire format is simple enough to read here: a message is a sequence of fields, each with a number, a wire type
 * and a value. Fields that matter are rows of the tables below; all others are skipped, as the format requires. The
 * numbers are those of sentencepiece_model.proto. How pieces are used is up to the tokenizer. */
#include "sentencepiece.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

enum { MODEL_UNIGRAM = 1, MODEL_BPE = 2, MODEL_WORD = 3, MODEL_CHAR = 4 };

/* Piece types; tokenizer.ggml.token_type uses the same numbers. */
enum { PIECE_NORMAL = 1, PIECE_BYTE = 6 };

static const char *const model_names[] = {
    [MODEL_UNIGRAM] = "unigram", [MODEL_BPE] = "bpe", [MODEL_WORD] = "word", [MODEL_CHAR] = "char"};

/* The state of reading: each message is read into one of its members. */
typedef struct piece_reader {
    const uint8_t *data; /* the whole file                                      */
    const char *path;
    hearth_error *error;
    struct piece {
        span text;
        float score;
        int32_t type;
    } piece; /* the one that is being read                          */
    struct trainer {
        int32_t model, unknown, bos, eos, padding;
        bool whitespace_suffix;
    } trainer;
    bool has_trainer;
    struct normalizer {
        span name, charsmap;
        bool add_dummy_prefix, remove_extra_whitespaces, escape_whitespaces;
    } normalizer, denormalizer;
    /* The vocabulary so far: parallel arrays of `count` items. */
    buffer texts, scores, types;
    size_t count;
    name_index known;
} piece_reader;

/* ------------------------------------------------------------- wire format */

enum wire { WIRE_VARINT, WIRE_FIXED64, WIRE_BYTES, WIRE_GROUP_START, WIRE_GROUP_END, WIRE_FIXED32 };

typedef enum field_kind { FIELD_INT, FIELD_BOOL, FIELD_FLOAT, FIELD_TEXT, FIELD_MESSAGE } field_kind;

/* The wire type that encodes each kind of field. */
static const enum wire kind_wires[] = {[FIELD_INT] = WIRE_VARINT,
                                       [FIELD_BOOL] = WIRE_VARINT,
                                       [FIELD_FLOAT] = WIRE_FIXED32,
                                       [FIELD_TEXT] = WIRE_BYTES,
                                       [FIELD_MESSAGE] = WIRE_BYTES};

/* A field that is read. A message is passed to `read`; other values are stored at `offset` in the reader. */
typedef struct field_row {
    uint32_t number;
    field_kind kind;
    const char *name;
    size_t offset;
    hearth_status (*read)(piece_reader *r, span message);
} field_row;

/* A field as it is in the file. */
typedef struct field {
    uint64_t number;
    enum wire wire;
    uint64_t value; /* varint, fixed */
    span bytes;
} field;

/* Reports an error at a position of the file. */
static hearth_status refuse_at(const piece_reader *r, const char *at, const char *reason)
{
    return fail(r->error, HEARTH_FORMAT, "%s: byte %td: %s", r->path, at - (const char *)r->data, reason);
}

/* Removes size bytes from the front of rest. */
static hearth_status pass(piece_reader *r, span *rest, size_t size)
{
    if (size > rest->size)
        return refuse_at(r, rest->data, "the message ends within a field");
    *rest = (span){rest->data + size, rest->size - size};
    return HEARTH_OK;
}

/* Reads a varint: seven bits per byte, lowest first; the highest bit says that another byte follows. */
static hearth_status take_varint(piece_reader *r, span *rest, uint64_t *out)
{
    const char *bytes = rest->data;
    *out = 0;
    for (unsigned i = 0; i < 10; i++) {
        TRY(pass(r, rest, 1));
        *out |= (uint64_t)(bytes[i] & 0x7F) << (7 * i);
        if (!(bytes[i] & 0x80))
            return HEARTH_OK;
    }
    return refuse_at(r, bytes, "a number has more than ten bytes");
}

static hearth_status take_fixed(piece_reader *r, span *rest, size_t size, uint64_t *out)
{
    const char *bytes = rest->data;
    TRY(pass(r, rest, size));
    memcpy(out, bytes, size);
    return HEARTH_OK;
}

/* Reads a length and that many bytes. */
static hearth_status take_bytes(piece_reader *r, span *rest, span *out)
{
    const char *start = rest->data;
    uint64_t size;
    TRY(take_varint(r, rest, &size));
    if (size > rest->size)
        return refuse_at(r, start, "a field is longer than the message that holds it");
    *out = (span){rest->data, (size_t)size};
    return pass(r, rest, out->size);
}

/* Reads the next field of a message, whatever its number. */
static hearth_status take_field(piece_reader *r, span *rest, field *out)
{
    const char *start = rest->data;
    uint64_t tag;
    *out = (field){0};
    TRY(take_varint(r, rest, &tag));
    out->number = tag >> 3;
    out->wire = (enum wire)(tag & 7);
    if (out->number == 0 || out->number >= UINT64_C(1) << 29)
        return refuse_at(r, start, "a field has an impossible number");
    if (out->wire == WIRE_VARINT)
        return take_varint(r, rest, &out->value);
    if (out->wire == WIRE_FIXED64)
        return take_fixed(r, rest, 8, &out->value);
    if (out->wire == WIRE_FIXED32)
        return take_fixed(r, rest, 4, &out->value);
    if (out->wire == WIRE_BYTES)
        return take_bytes(r, rest, &out->bytes);
    return refuse_at(r, start, "a field is of a kind that no tokenizer.model has (a group?)");
}

/* Stores a field where its row says. */
static hearth_status store(piece_reader *r, const field_row *row, const field *f)
{
    char *to = (char *)r + row->offset;
    if (row->kind == FIELD_MESSAGE)
        return row->read(r, f->bytes);
    if (row->kind == FIELD_TEXT)
        *(span *)(void *)to = f->bytes;
    else if (row->kind == FIELD_BOOL)
        *(bool *)to = f->value != 0;
    else /* negative numbers are encoded as 64 bits, of which the lower half is used; floats are their bits */
        memcpy(to, &f->value, sizeof(int32_t));
    return HEARTH_OK;
}

/* Reads a message. `rows` are the fields that matter; the last row has no name. */
static hearth_status read_message(piece_reader *r, span message, const field_row *rows)
{
    while (message.size) {
        const char *start = message.data;
        field f;
        TRY(take_field(r, &message, &f));
        const field_row *row = rows;
        while (row->name && row->number != f.number)
            row++;
        if (!row->name)
            continue;
        if (f.wire != kind_wires[row->kind])
            return fail(r->error, HEARTH_FORMAT, "%s: byte %td: field %s is of the wrong kind", r->path,
                        start - (const char *)r->data, row->name);
        TRY(store(r, row, &f));
    }
    return HEARTH_OK;
}

/* ---------------------------------------------------------------- messages */

// clang-format off
#define AT(member) offsetof(piece_reader, member)

static const field_row piece_fields[] = {
    { 1, FIELD_TEXT,  "piece", AT(piece.text),  NULL },
    { 2, FIELD_FLOAT, "score", AT(piece.score), NULL },
    { 3, FIELD_INT,   "type",  AT(piece.type),  NULL },
    { 0, 0, NULL, 0, NULL },
};

static const field_row trainer_fields[] = {
    {  3, FIELD_INT,  "model_type",                 AT(trainer.model),             NULL },
    { 24, FIELD_BOOL, "treat_whitespace_as_suffix", AT(trainer.whitespace_suffix), NULL },
    { 40, FIELD_INT,  "unk_id",                     AT(trainer.unknown),           NULL },
    { 41, FIELD_INT,  "bos_id",                     AT(trainer.bos),               NULL },
    { 42, FIELD_INT,  "eos_id",                     AT(trainer.eos),               NULL },
    { 43, FIELD_INT,  "pad_id",                     AT(trainer.padding),           NULL },
    { 0, 0, NULL, 0, NULL },
};

static const field_row normalizer_fields[] = {
    { 1, FIELD_TEXT, "name",                     AT(normalizer.name),                     NULL },
    { 2, FIELD_TEXT, "precompiled_charsmap",     AT(normalizer.charsmap),                 NULL },
    { 3, FIELD_BOOL, "add_dummy_prefix",         AT(normalizer.add_dummy_prefix),         NULL },
    { 4, FIELD_BOOL, "remove_extra_whitespaces", AT(normalizer.remove_extra_whitespaces), NULL },
    { 5, FIELD_BOOL, "escape_whitespaces",       AT(normalizer.escape_whitespaces),       NULL },
    { 0, 0, NULL, 0, NULL },
};

static const field_row denormalizer_fields[] = {
    { 1, FIELD_TEXT, "name",                     AT(denormalizer.name),                   NULL },
    { 2, FIELD_TEXT, "precompiled_charsmap",     AT(denormalizer.charsmap),               NULL },
    { 0, 0, NULL, 0, NULL },
};
// clang-format on

/* Reads a piece, which is a message of its own, checks it and adds it to the vocabulary. */
static hearth_status read_piece(piece_reader *r, span message)
{
    r->piece = (struct piece){.type = PIECE_NORMAL};
    TRY(read_message(r, message, piece_fields));
    const struct piece *p = &r->piece;
    const char *reason = NULL;
    if (p->text.size == 0)
        reason = "is empty";
    else if (!utf8_is_valid(p->text.data, p->text.size))
        reason = "is not valid UTF-8 text";
    else if (!isfinite(p->score))
        reason = "has a score that is not a finite number";
    else if (p->type < PIECE_NORMAL || p->type > PIECE_BYTE)
        reason = "is of a type that does not exist";
    else if (names_find(&r->known, p->text) != NAME_NONE)
        reason = "appears twice";
    if (reason)
        return fail(r->error, HEARTH_FORMAT, "%s: piece %zu: %s", r->path, r->count, reason);
    if (!names_add(&r->known, p->text, r->count) || !buffer_put(&r->texts, &p->text, sizeof(p->text)) ||
        !buffer_put(&r->scores, &p->score, sizeof(p->score)) || !buffer_put(&r->types, &p->type, sizeof(p->type)))
        return fail_memory(r->error, r->path, r->texts.size);
    r->count++;
    return HEARTH_OK;
}

static hearth_status read_trainer(piece_reader *r, span message)
{
    r->has_trainer = true;
    return read_message(r, message, trainer_fields);
}

static hearth_status read_normalizer(piece_reader *r, span message)
{
    return read_message(r, message, normalizer_fields);
}

static hearth_status read_denormalizer(piece_reader *r, span message)
{
    return read_message(r, message, denormalizer_fields);
}

// clang-format off
static const field_row model_fields[] = {
    { 1, FIELD_MESSAGE, "pieces",            0, read_piece        },
    { 2, FIELD_MESSAGE, "trainer_spec",      0, read_trainer      },
    { 3, FIELD_MESSAGE, "normalizer_spec",   0, read_normalizer   },
    { 5, FIELD_MESSAGE, "denormalizer_spec", 0, read_denormalizer },
    { 0, 0, NULL, 0, NULL },
};
// clang-format on

/* -------------------------------------------------------------- vocabulary */

/* Refuses models that are neither BPE nor unigram, and settings that would change how a text is cut. */
static hearth_status check_supported(const piece_reader *r)
{
    int32_t model = r->trainer.model;
    const span name = r->denormalizer.name;
    if (r->count == 0)
        return fail(r->error, HEARTH_FORMAT, "%s: pieces: there are none", r->path);
    if (!r->has_trainer)
        return fail(r->error, HEARTH_FORMAT, "%s: trainer_spec: is missing; is the file cut short?", r->path);
    if (model < MODEL_UNIGRAM || model > MODEL_CHAR)
        return fail(r->error, HEARTH_FORMAT, "%s: trainer_spec: model type %d does not exist", r->path, model);
    if (model != MODEL_BPE && model != MODEL_UNIGRAM)
        return fail(r->error, HEARTH_UNSUPPORTED,
                    "%s: trainer_spec: model type %s is not supported, only bpe and unigram", r->path,
                    model_names[model]);
    if (r->trainer.whitespace_suffix)
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: trainer_spec: treat_whitespace_as_suffix is not supported",
                    r->path);
    if (r->denormalizer.charsmap.size)
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: denormalizer_spec: normalisation \"%.*s\" is not supported",
                    r->path, name.size < 64 ? (int)name.size : 64, name.size ? name.data : "");
    if (!r->normalizer.escape_whitespaces)
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: normalizer_spec: escape_whitespaces false is not supported",
                    r->path);
    return HEARTH_OK;
}

/* Sets the keys of the special ids; an id below 0 means that there is no such piece. */
static hearth_status set_ids(const piece_reader *r, checkpoint *c)
{
    const struct {
        const char *key, *field;
        int32_t id;
    } ids[] = {
        {"tokenizer.ggml.unknown_token_id", "unk_id", r->trainer.unknown},
        {"tokenizer.ggml.bos_token_id", "bos_id", r->trainer.bos},
        {"tokenizer.ggml.eos_token_id", "eos_id", r->trainer.eos},
        {"tokenizer.ggml.padding_token_id", "pad_id", r->trainer.padding},
    };
    for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++) {
        if (ids[i].id < 0)
            continue;
        if ((size_t)ids[i].id >= r->count)
            return fail(r->error, HEARTH_FORMAT, "%s: trainer_spec: %s is %d, but there are only %zu pieces", r->path,
                        ids[i].field, ids[i].id, r->count);
        TRY(checkpoint_set_u32(c, ids[i].key, (uint32_t)ids[i].id, r->error));
    }
    return HEARTH_OK;
}

static hearth_status set_keys(const piece_reader *r, checkpoint *c)
{
    hearth_error *error = r->error;
    TRY(set_ids(r, c));
    bool is_unigram = r->trainer.model == MODEL_UNIGRAM;
    const span map = r->normalizer.charsmap;
    TRY(checkpoint_set_string(c, "tokenizer.ggml.model", span_of(is_unigram ? "t5" : "llama"), error));
    if (is_unigram) /* BOS and EOS are up to the model; T5's vocabularies in GGUF files have EOS by default */
        TRY(checkpoint_set_bool(c, "tokenizer.ggml.add_eos_token", false, error));
    if (map.size > 0)
        TRY(checkpoint_set_numbers(c, "tokenizer.ggml.precompiled_charsmap", VALUE_U8, map.data, map.size, error));
    TRY(checkpoint_set_string(c, "tokenizer.ggml.pre", span_of("default"), error));
    TRY(checkpoint_set_strings(c, "tokenizer.ggml.tokens", (const span *)(const void *)r->texts.data, r->count, error));
    TRY(checkpoint_set_numbers(c, "tokenizer.ggml.scores", VALUE_F32, r->scores.data, r->count, error));
    TRY(checkpoint_set_numbers(c, "tokenizer.ggml.token_type", VALUE_I32, r->types.data, r->count, error));
    TRY(checkpoint_set_bool(c, "tokenizer.ggml.add_space_prefix", r->normalizer.add_dummy_prefix, error));
    return checkpoint_set_bool(c, "tokenizer.ggml.remove_extra_whitespaces", r->normalizer.remove_extra_whitespaces,
                               error);
}

static hearth_status read_all(piece_reader *r, checkpoint *c, size_t size_bytes)
{
    TRY(read_message(r, (span){(const char *)r->data, size_bytes}, model_fields));
    TRY(check_supported(r));
    return set_keys(r, c);
}

hearth_status sentencepiece_parse(checkpoint *c, const uint8_t *data, size_t size_bytes, const char *path,
                                  hearth_error *error)
{
    piece_reader r = {.data = data, .path = path, .error = error};
    /* Defaults of absent fields. */
    r.trainer = (struct trainer){.model = MODEL_UNIGRAM, .unknown = 0, .bos = 1, .eos = 2, .padding = -1};
    r.normalizer =
        (struct normalizer){.add_dummy_prefix = true, .remove_extra_whitespaces = true, .escape_whitespaces = true};
    hearth_status status = read_all(&r, c, size_bytes);
    buffer_free(&r.texts);
    buffer_free(&r.scores);
    buffer_free(&r.types);
    names_free(&r.known);
    return status;
}

hearth_status sentencepiece_add(checkpoint *c, const char *path, hearth_error *error)
{
    file_map map;
    TRY(file_map_open(&map, path, error));
    hearth_status status = sentencepiece_parse(c, map.data, map.size_bytes, path, error);
    file_map_close(&map);
    return status;
}
