/* tokenizer_json.c - a tokenizer.json as keys of GGUF: its model's vocabulary and merges, its added tokens.
 *
 * The file may come from anywhere: ids may be doubled, missing or huge, and any member may be of another type. What it
 * does to texts is read in tokenizer_json_rules.c; vocab.json with merges.txt in tokenizer_lists.c; the files themselves in
 * tokenizer_files.c. */
#include "tokenizer_json_internal.h"

#include "vocabulary.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Ids that are accepted: larger ones would make a list of mostly nothing. Published vocabularies have up to 262,144. */
enum { IDS_LIMIT = 1 << 22 };
/* Ids without a token that are accepted, beside as many as there are tokens. */
enum { GAPS_LIMIT = 1 << 16 };

/* -------------------------------------------------------------- vocabulary */

/* Makes room for ids below `count`. */
static hearth_status make_room(tokenizer_json *t, size_t count)
{
    t->tokens = arena_new_array(&t->memory, count, sizeof *t->tokens);
    t->types = arena_new_array(&t->memory, count, sizeof *t->types);
    t->scores = arena_new_array(&t->memory, count, sizeof *t->scores);
    if (!t->tokens || !t->types || !t->scores)
        return fail_memory(t->error, t->name, count * (sizeof *t->tokens + 8));
    t->count = count;
    return HEARTH_OK;
}

static span text_of(const json_t *string)
{
    return (span){json_string_value(string), json_string_length(string)};
}

/* Reads an id; what is no id below the limit is an error. */
static hearth_status read_id(const tokenizer_json *t, const json_t *value, const char *what, size_t *out)
{
    json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
    if (id < 0 || id >= IDS_LIMIT)
        return fail(t->error, HEARTH_FORMAT, "%s: '%.64s': is not a token id below %d", t->name, what, IDS_LIMIT);
    *out = (size_t)id;
    return HEARTH_OK;
}

/* Finds the largest id of a vocabulary {text: id} and of the added tokens, and makes room. */
static hearth_status measure(tokenizer_json *t, const json_t *pieces, const json_t *added)
{
    size_t count = 0, id = 0, index;
    const char *text;
    json_t *value;
    json_object_foreach((json_t *)pieces, text, value)
    {
        TRY(read_id(t, value, text, &id));
        count = id >= count ? id + 1 : count;
    }
    if (json_is_array(pieces))
        count = json_array_size(pieces);
    json_array_foreach(added, index, value)
    {
        TRY(read_id(t, json_object_get(value, "id"), "added_tokens", &id));
        count = id >= count ? id + 1 : count;
    }
    size_t listed = json_object_size(pieces) + json_array_size(pieces) + json_array_size(added);
    if (count > 2 * listed + GAPS_LIMIT)
        return fail(t->error, HEARTH_FORMAT, "%s: has %zu tokens with ids up to %zu: too many ids are left out",
                    t->name, listed, count - 1);
    if (count == 0 || count > IDS_LIMIT)
        return fail(t->error, HEARTH_FORMAT, "%s: has %zu tokens, expected 1 to %d", t->name, count, IDS_LIMIT);
    return make_room(t, count);
}

/* Fills in a vocabulary {text: id}. */
static hearth_status fill_map(tokenizer_json *t, const json_t *pieces)
{
    const char *text;
    size_t length, id = 0;
    json_t *value;
    json_object_keylen_foreach((json_t *)pieces, text, length, value)
    {
        TRY(read_id(t, value, text, &id));
        if (t->types[id])
            return fail(t->error, HEARTH_FORMAT, "%s: vocab: two pieces have the id %zu", t->name, id);
        t->tokens[id] = (span){text, length};
        t->types[id] = TOKEN_NORMAL;
    }
    return HEARTH_OK;
}

/* Fills in unigram's vocabulary [[text, score], ...]; the id is the place in the list. */
static hearth_status fill_list(tokenizer_json *t, const json_t *pieces)
{
    size_t id;
    json_t *item;
    json_array_foreach(pieces, id, item)
    {
        const json_t *text = json_array_get(item, 0), *score = json_array_get(item, 1);
        if (!json_is_string(text) || !json_is_number(score) || !isfinite(json_number_value(score)))
            return fail(t->error, HEARTH_FORMAT, "%s: vocab: item %zu: is no text with a score", t->name, id);
        t->tokens[id] = text_of(text);
        t->scores[id] = (float)json_number_value(score);
        t->types[id] = TOKEN_NORMAL;
    }
    return HEARTH_OK;
}

/* Marks the pieces "<0x00>" to "<0xFF>" as byte tokens. */
static void mark_bytes(tokenizer_json *t)
{
    for (size_t id = 0; id < t->count; id++)
        if (t->types[id] == TOKEN_NORMAL && vocabulary_parse_byte(t->tokens[id]) >= 0)
            t->types[id] = TOKEN_BYTE;
}

/* Names the ids that no token has, as llama.cpp's converter does: "[PAD17]". */
static hearth_status fill_gaps(tokenizer_json *t)
{
    for (size_t id = 0; id < t->count; id++) {
        if (t->types[id])
            continue;
        char text[32];
        int length = snprintf(text, sizeof text, "[PAD%zu]", id);
        const char *copy = arena_copy_text(&t->memory, text, (size_t)length);
        if (!copy)
            return fail_memory(t->error, t->name, (size_t)length);
        t->tokens[id] = (span){copy, (size_t)length};
        t->types[id] = TOKEN_UNUSED;
    }
    return HEARTH_OK;
}

/* ------------------------------------------------------------ added tokens */

hearth_status tokenizer_json_pieces(tokenizer_json *t, const json_t *pieces)
{
    TRY(measure(t, pieces, NULL));
    TRY(fill_map(t, pieces));
    return fill_gaps(t);
}

/* Reads added_tokens [{"id", "content", "special", "lstrip", "rstrip", "single_word"}, ...]. */
static hearth_status read_added(tokenizer_json *t, const json_t *added)
{
    size_t index, id = 0, left_count = 0, right_count = 0, room = json_array_size(added);
    uint32_t *left = arena_new_array(&t->memory, room, sizeof *left);
    uint32_t *right = arena_new_array(&t->memory, room, sizeof *right);
    json_t *item;
    if (!left || !right)
        return fail_memory(t->error, t->name, room * 2 * sizeof *left);
    json_array_foreach(added, index, item)
    {
        const json_t *content = json_object_get(item, "content");
        TRY(read_id(t, json_object_get(item, "id"), "added_tokens", &id));
        if (!json_is_string(content))
            return fail(t->error, HEARTH_FORMAT, "%s: added_tokens: token %zu: has no content", t->name, id);
        if (json_is_true(json_object_get(item, "single_word")))
            return fail(t->error, HEARTH_UNSUPPORTED, "%s: added_tokens: token %zu: 'single_word' is not supported",
                        t->name, id);
        t->tokens[id] = text_of(content);
        t->types[id] = json_is_true(json_object_get(item, "special")) ? TOKEN_CONTROL : TOKEN_USER_DEFINED;
        if (json_is_true(json_object_get(item, "lstrip")))
            left[left_count++] = (uint32_t)id;
        if (json_is_true(json_object_get(item, "rstrip")))
            right[right_count++] = (uint32_t)id;
    }
    if (left_count > 0)
        TRY(checkpoint_set_numbers(t->out, "tokenizer.hearth.strip_left", VALUE_U32, left, left_count, t->error));
    if (right_count > 0)
        TRY(checkpoint_set_numbers(t->out, "tokenizer.hearth.strip_right", VALUE_U32, right, right_count, t->error));
    return HEARTH_OK;
}

/* ------------------------------------------------------------------- merges */

/* Returns a merge as "LEFT RIGHT": it is one, or a list of two. */
static hearth_status read_merge(tokenizer_json *t, const json_t *item, size_t index, span *out)
{
    if (json_is_string(item)) {
        *out = text_of(item);
        return HEARTH_OK;
    }
    const json_t *left = json_array_get(item, 0), *right = json_array_get(item, 1);
    if (!json_is_string(left) || !json_is_string(right) || strchr(json_string_value(left), ' '))
        return fail(t->error, HEARTH_FORMAT, "%s: merges: item %zu: is no pair of pieces without blanks", t->name,
                    index);
    size_t left_size = json_string_length(left), right_size = json_string_length(right);
    char *text = arena_new(&t->memory, left_size + right_size + 1);
    if (!text)
        return fail_memory(t->error, t->name, left_size + right_size);
    memcpy(text, json_string_value(left), left_size);
    text[left_size] = ' ';
    memcpy(text + left_size + 1, json_string_value(right), right_size);
    *out = (span){text, left_size + 1 + right_size};
    return HEARTH_OK;
}

static hearth_status read_merges(tokenizer_json *t, const json_t *merges)
{
    size_t count = json_array_size(merges);
    span *texts = arena_new_array(&t->memory, count, sizeof *texts);
    if (!texts)
        return fail_memory(t->error, t->name, count * sizeof *texts);
    for (size_t i = 0; i < count; i++)
        TRY(read_merge(t, json_array_get(merges, i), i, &texts[i]));
    return checkpoint_set_strings(t->out, KEY("merges"), texts, count, t->error);
}

/* -------------------------------------------------------------------- model */

/* Refuses a member that has another value than those that mean nothing. */
static hearth_status expect_none(const tokenizer_json *t, const json_t *model, const char *key)
{
    const json_t *value = json_object_get(model, key);
    bool none = !value || json_is_null(value) || (json_is_string(value) && json_string_length(value) == 0);
    return none ? HEARTH_OK : fail(t->error, HEARTH_UNSUPPORTED, "%s: model: '%s' is not supported", t->name, key);
}

/* Sets the id of the unknown token: a text for BPE, an index for unigram. */
static hearth_status set_unknown(tokenizer_json *t, const json_t *model)
{
    const json_t *text = json_object_get(model, "unk_token"), *index = json_object_get(model, "unk_id");
    for (size_t id = 0; id < t->count; id++) {
        bool is_it = json_is_string(text) ? t->types[id] && span_equal(t->tokens[id], text_of(text))
                                          : json_is_integer(index) && json_integer_value(index) == (json_int_t)id;
        if (!is_it)
            continue;
        t->types[id] = TOKEN_UNKNOWN;
        return checkpoint_set_u32(t->out, KEY("unknown_token_id"), (uint32_t)id, t->error);
    }
    return HEARTH_OK;
}

static hearth_status set_bpe(tokenizer_json *t, const json_t *model)
{
    TRY(expect_none(t, model, "continuing_subword_prefix"));
    TRY(expect_none(t, model, "end_of_word_suffix"));
    t->ignores_merges = json_is_true(json_object_get(model, "ignore_merges"));
    if (!t->byte_level && !t->wide_blanks)
        return fail(t->error, HEARTH_UNSUPPORTED, "%s: pieces are neither of bytes nor with U+2581 for blanks",
                    t->name);
    TRY(read_merges(t, json_object_get(model, "merges")));
    TRY(splitting_store(t->out, t->rules, t->rule_count, t->ignores_merges, t->error));
    return checkpoint_set_string(t->out, KEY("model"), span_of(t->byte_level ? "gpt2" : "gemma4"), t->error);
}

/* Words are cut at blanks only, which unigram's pieces do not cross. */
static hearth_status set_unigram(tokenizer_json *t, const json_t *model)
{
    (void)model;
    for (size_t i = 0; i < t->rule_count; i++) {
        bool splits_blanks = t->rules[i].behaviour == SPLIT_REMOVED && strcmp(t->rules[i].pattern, "\\s+") == 0;
        if (!splits_blanks && t->rules[i].behaviour != SPLIT_MERGED_WITH_NEXT)
            return fail(t->error, HEARTH_UNSUPPORTED,
                        "%s: pre_tokenizer: expression '%.64s' with unigram is not supported", t->name,
                        t->rules[i].pattern);
        t->removes_extra_blanks |= splits_blanks;
    }
    TRY(checkpoint_set_numbers(t->out, KEY("scores"), VALUE_F32, t->scores, t->count, t->error));
    return checkpoint_set_string(t->out, KEY("model"), span_of("t5"), t->error);
}

/* Sets what all kinds have. */
hearth_status tokenizer_json_common(tokenizer_json *t)
{
    TRY(checkpoint_set_strings(t->out, KEY("tokens"), t->tokens, t->count, t->error));
    TRY(checkpoint_set_numbers(t->out, KEY("token_type"), VALUE_I32, t->types, t->count, t->error));
    TRY(checkpoint_set_bool(t->out, KEY("add_space_prefix"), t->adds_space_prefix, t->error));
    if (t->prefix_once)
        TRY(checkpoint_set_bool(t->out, "tokenizer.hearth.prefix_once", true, t->error));
    if (t->prefix_unless_blank)
        TRY(checkpoint_set_bool(t->out, "tokenizer.hearth.prefix_unless_blank", true, t->error));
    if (t->removes_extra_blanks)
        TRY(checkpoint_set_bool(t->out, KEY("remove_extra_whitespaces"), true, t->error));
    if (t->normalizer)
        TRY(checkpoint_set_string(t->out, "tokenizer.hearth.normalizer", span_of(t->normalizer), t->error));
    return HEARTH_OK;
}

static hearth_status read_root(tokenizer_json *t, const json_t *root)
{
    const json_t *model = json_object_get(root, "model"), *added = json_object_get(root, "added_tokens");
    const json_t *pieces = json_object_get(model, "vocab");
    const char *type = json_string_value(json_object_get(model, "type"));
    bool is_unigram = type ? strcmp(type, "Unigram") == 0 : json_is_array(pieces);
    if (type && !is_unigram && strcmp(type, "BPE") != 0)
        return fail(t->error, HEARTH_UNSUPPORTED,
                    "%s: a vocabulary of type '%.64s' is not supported (BPE and Unigram are)", t->name, type);
    if (!(is_unigram ? json_is_array(pieces) : json_is_object(pieces)))
        return fail(t->error, HEARTH_FORMAT, "%s: model: has no vocab", t->name);
    TRY(measure(t, pieces, added));
    TRY(is_unigram ? fill_list(t, pieces) : fill_map(t, pieces));
    if (is_unigram || json_is_true(json_object_get(model, "byte_fallback")))
        mark_bytes(t);
    TRY(read_added(t, added));
    TRY(set_unknown(t, model));
    TRY(fill_gaps(t));
    TRY(tokenizer_json_normalizer(t, json_object_get(root, "normalizer")));
    TRY(tokenizer_json_pre_tokenizer(t, json_object_get(root, "pre_tokenizer")));
    TRY(tokenizer_json_post_processor(t, json_object_get(root, "post_processor")));
    TRY(is_unigram ? set_unigram(t, model) : set_bpe(t, model));
    return tokenizer_json_common(t);
}

/* ---------------------------------------------------------------- interface */

hearth_status tokenizer_json_parse(checkpoint *c, span text, const char *name, hearth_error *error)
{
    json_t *root;
    TRY(json_parse(&root, text.data, text.size, name, error));
    tokenizer_json t = {.out = c, .name = name, .error = error};
    hearth_status status = read_root(&t, root);
    arena_clear(&t.memory);
    json_decref(root);
    return status;
}
