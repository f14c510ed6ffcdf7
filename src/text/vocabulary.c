/* vocabulary.c - reads and checks the vocabulary keys of a checkpoint.
 *
 * A checkpoint may come from anywhere. Lengths, types, ids and spellings are checked here, once, so that no caller
 * has to check them again. What the tokens do is not known here. */
#include "vocabulary.h"

#include <math.h>
#include <string.h>

#define KEY(name) "tokenizer.ggml." name

int vocabulary_parse_byte(span text)
{
    if (text.size != 6 || memcmp(text.data, "<0x", 3) != 0 || text.data[5] != '>')
        return -1;
    int value = 0;
    for (int i = 3; i < 5; i++) {
        char c = text.data[i];
        if (c >= '0' && c <= '9')
            value = 16 * value + (c - '0');
        else if (c >= 'A' && c <= 'F')
            value = 16 * value + (c - 'A' + 10);
        else
            return -1;
    }
    return value;
}

/* Reads an array key that must have one item per token; *out is NULL where it is absent and need not be there. */
static hearth_status get_array(const checkpoint *c, const char *key, value_type type, uint64_t count, bool needed,
                               const key_value **out, hearth_error *error)
{
    bool found = true;
    *out = NULL;
    TRY(checkpoint_get_array(c, key, type, out, needed ? NULL : &found, error));
    if (found && (*out)->count != count)
        return fail(error, HEARTH_FORMAT, "%s: key %s: has %llu items, but there are %llu tokens", c->path, key,
                    (unsigned long long)(*out)->count, (unsigned long long)count);
    return HEARTH_OK;
}

/* Copies all texts into one block, each followed by a zero byte. */
static hearth_status copy_texts(vocabulary *v, const span *texts, const checkpoint *c, hearth_error *error)
{
    size_t total = 0;
    for (uint32_t i = 0; i < v->count; i++) {
        if (texts[i].size > PIECE_LIMIT)
            return fail(error, HEARTH_UNSUPPORTED, "%s: token %u: has %zu bytes, more than %d", c->path, i,
                        texts[i].size, PIECE_LIMIT);
        if (texts[i].size > v->longest)
            v->longest = texts[i].size;
        /* Cannot overflow: at most 2^31 tokens of at most PIECE_LIMIT bytes. */
        total += texts[i].size + 1;
    }
    char *block = arena_new(&v->memory, total);
    if (!block)
        return fail_memory(error, "vocabulary", total);
    for (uint32_t i = 0; i < v->count; i++) {
        if (texts[i].size > 0)
            memcpy(block, texts[i].data, texts[i].size);
        v->tokens[i].text = (span){block, texts[i].size};
        block += texts[i].size + 1;
    }
    return HEARTH_OK;
}

/* Checks the type and score of a token; a byte token must be spelled as one. */
static hearth_status check_token(token *t, uint32_t id, int32_t type, const checkpoint *c, hearth_error *error)
{
    if (isnan(t->score))
        return fail(error, HEARTH_FORMAT, "%s: token %u: its score is not a number", c->path, id);
    if (type < TOKEN_NORMAL || type > TOKEN_BYTE)
        return fail(error, HEARTH_FORMAT, "%s: token %u: there is no token type %d", c->path, id, type);
    t->type = (uint8_t)type;
    if (type != TOKEN_BYTE)
        return HEARTH_OK;
    int byte = vocabulary_parse_byte(t->text);
    if (byte < 0)
        return fail(error, HEARTH_FORMAT, "%s: token %u: is a byte, but spelled '%s'", c->path, id, t->text.data);
    t->byte = (uint8_t)byte;
    return HEARTH_OK;
}

/* Loads text, score and type of every token. */
static hearth_status load_tokens(vocabulary *v, const vocabulary_defaults *defaults, const checkpoint *c,
                                 hearth_error *error)
{
    const key_value *texts, *scores, *types;
    TRY(checkpoint_get_array(c, KEY("tokens"), VALUE_STRING, &texts, NULL, error));
    if (texts->count == 0 || texts->count > INT32_MAX)
        return fail(error, HEARTH_FORMAT, "%s: key %s: has %llu items, expected 1 to %d", c->path, KEY("tokens"),
                    (unsigned long long)texts->count, INT32_MAX);
    TRY(get_array(c, KEY("scores"), VALUE_F32, texts->count, defaults->needs_scores, &scores, error));
    TRY(get_array(c, KEY("token_type"), VALUE_I32, texts->count, defaults->needs_scores, &types, error));
    v->count = (uint32_t)texts->count;
    v->tokens = arena_new_array(&v->memory, v->count, sizeof *v->tokens);
    if (!v->tokens)
        return fail_memory(error, "vocabulary", v->count * sizeof *v->tokens);
    TRY(copy_texts(v, texts->as.strings, c, error));
    for (uint32_t i = 0; i < v->count; i++) {
        v->tokens[i].score = scores ? ((const float *)scores->as.items)[i] : 0;
        TRY(check_token(&v->tokens[i], i, types ? ((const int32_t *)types->as.items)[i] : TOKEN_NORMAL, c, error));
    }
    return HEARTH_OK;
}

/* Reads the id of a special token; -1 where the key is absent. */
static hearth_status get_id(const vocabulary *v, const checkpoint *c, const char *key, int32_t *out,
                            hearth_error *error)
{
    uint32_t id = 0;
    bool found;
    *out = -1;
    TRY(checkpoint_get_u32(c, key, &id, &found, error));
    if (!found)
        return HEARTH_OK;
    if (id >= v->count)
        return fail(error, HEARTH_FORMAT, "%s: key %s: there is no token %u, the vocabulary has %u", c->path, key, id,
                    v->count);
    *out = (int32_t)id;
    return HEARTH_OK;
}

/* Uses the default id where no key gave one and that piece is a control or unknown token. */
static void apply_default(const vocabulary *v, int32_t *id, int32_t standard)
{
    if (*id >= 0 || standard < 0 || (uint32_t)standard >= v->count)
        return;
    uint8_t type = v->tokens[standard].type;
    if (type == TOKEN_CONTROL || type == TOKEN_UNKNOWN)
        *id = standard;
}

/* Reads the ids of the special tokens; BOS, EOS and unknown have defaults. */
static hearth_status load_ids(vocabulary *v, const vocabulary_defaults *defaults, const checkpoint *c,
                              hearth_error *error)
{
    TRY(get_id(v, c, KEY("bos_token_id"), &v->bos, error));
    TRY(get_id(v, c, KEY("eos_token_id"), &v->eos, error));
    TRY(get_id(v, c, KEY("eot_token_id"), &v->eot, error));
    TRY(get_id(v, c, KEY("eom_token_id"), &v->eom, error));
    TRY(get_id(v, c, KEY("unknown_token_id"), &v->unknown, error));
    apply_default(v, &v->bos, defaults->bos);
    apply_default(v, &v->eos, defaults->eos);
    apply_default(v, &v->unknown, defaults->unknown);
    return HEARTH_OK;
}

/* Reads the switches. BOS or EOS is added only where the vocabulary has that token. */
static hearth_status load_switches(vocabulary *v, const vocabulary_defaults *defaults, const checkpoint *c,
                                   hearth_error *error)
{
    v->adds_bos = defaults->adds_bos;
    v->adds_eos = defaults->adds_eos;
    v->adds_space_prefix = defaults->adds_space_prefix;
    bool found;
    TRY(checkpoint_get_bool(c, KEY("add_bos_token"), &v->adds_bos, &found, error));
    TRY(checkpoint_get_bool(c, KEY("add_eos_token"), &v->adds_eos, &found, error));
    TRY(checkpoint_get_bool(c, KEY("add_space_prefix"), &v->adds_space_prefix, &found, error));
    TRY(checkpoint_get_bool(c, KEY("remove_extra_whitespaces"), &v->removes_extra_blanks, &found, error));
    TRY(checkpoint_get_bool(c, "tokenizer.hearth.prefix_once", &v->prefix_once, &found, error));
    TRY(checkpoint_get_bool(c, "tokenizer.hearth.prefix_unless_blank", &v->prefix_unless_blank, &found, error));
    v->adds_bos = v->adds_bos && v->bos >= 0;
    v->adds_eos = v->adds_eos && v->eos >= 0;
    return HEARTH_OK;
}

/* Reads the normal form that texts get first. */
static hearth_status load_form(vocabulary *v, const checkpoint *c, hearth_error *error)
{
    span name;
    bool found;
    TRY(checkpoint_get_string(c, "tokenizer.hearth.normalizer", &name, &found, error));
    if (found && !normal_form_find(&v->form, name))
        return fail(error, HEARTH_UNSUPPORTED, "%s: key tokenizer.hearth.normalizer: '%.*s' is no normal form", c->path,
                    name.size < 64 ? (int)name.size : 64, name.data);
    return HEARTH_OK;
}

/* Copies SentencePiece's compiled normalisation. */
static hearth_status load_charsmap(vocabulary *v, const checkpoint *c, hearth_error *error)
{
    const key_value *bytes;
    bool found;
    TRY(checkpoint_get_array(c, KEY("precompiled_charsmap"), VALUE_U8, &bytes, &found, error));
    if (!found || bytes->count == 0)
        return HEARTH_OK;
    const char *copy = arena_copy_text(&v->memory, bytes->as.items, bytes->count);
    if (!copy)
        return fail_memory(error, "vocabulary", bytes->count);
    return charsmap_read(&v->map, (span){copy, bytes->count})
               ? HEARTH_OK
               : fail(error, HEARTH_FORMAT, "%s: key %s: is no compiled normalisation", c->path,
                      KEY("precompiled_charsmap"));
}

hearth_status vocabulary_load(vocabulary *v, const vocabulary_defaults *defaults, const checkpoint *c,
                              hearth_error *error)
{
    v->blank = span_of(defaults->blank);
    TRY(load_tokens(v, defaults, c, error));
    TRY(load_ids(v, defaults, c, error));
    TRY(load_switches(v, defaults, c, error));
    TRY(load_form(v, c, error));
    TRY(load_charsmap(v, c, error));
    return specials_load(v, c, error);
}

void vocabulary_free(vocabulary *v)
{
    arena_clear(&v->memory);
}
