/* splitting.c - the keys that say how texts are cut into words. */
#include "splitting.h"

#include <string.h>

#define KEY_MODEL  "tokenizer.ggml.model"
#define KEY_PRE    "tokenizer.ggml.pre"
#define KEY_SPLIT  "tokenizer.hearth.split"
#define KEY_IGNORE "tokenizer.hearth.ignore_merges"

/* Rules that a file may have; published ones have at most six. */
enum { RULES_LIMIT = 64 };

hearth_status splitting_find(const pre_tokenizer **out, const checkpoint *c, hearth_error *error)
{
    bool found;
    const key_value *own;
    *out = NULL;
    TRY(checkpoint_get_array(c, KEY_SPLIT, VALUE_STRING, &own, &found, error));
    if (found)
        return HEARTH_OK;
    span model = {0}, name = span_of("default");
    TRY(checkpoint_get_string(c, KEY_PRE, &name, &found, error));
    TRY(checkpoint_get_string(c, KEY_MODEL, &model, &found, error));
    if (span_equal(model, span_of("gemma4"))) /* files of this kind name pre-tokenizers that are not used */
        name = model;
    *out = pre_tokenizer_find(name);
    if (*out)
        return HEARTH_OK;
    return fail(error, HEARTH_UNSUPPORTED,
                "%s: key " KEY_PRE ": '%.*s' is a pre-tokenizer that this version does not know (docs/formats.md lists "
                "those that it does)",
                c->path, name.size < 64 ? (int)name.size : 64, name.data);
}

/* Reads "[not ]BEHAVIOUR EXPRESSION". Returns false where it is something else. */
static bool read_rule(split_rule *out, const char *text)
{
    out->inverted = strncmp(text, "not ", 4) == 0;
    text += out->inverted ? 4 : 0;
    for (split_behaviour b = 0; b < SPLIT_BEHAVIOUR_COUNT; b++) {
        const char *name = split_behaviour_name(b);
        size_t length = strlen(name);
        if (strncmp(text, name, length) == 0 && text[length] == ' ') {
            out->behaviour = b;
            out->pattern = text + length + 1;
            return true;
        }
    }
    return false;
}

/* Reads the expressions of the checkpoint's own into rules [RULES_LIMIT]; `memory` holds their texts. */
static hearth_status read_own(split_rule *rules, size_t *count, arena *memory, const checkpoint *c, hearth_error *error)
{
    const key_value *own;
    TRY(checkpoint_get_array(c, KEY_SPLIT, VALUE_STRING, &own, NULL, error));
    if (own->count > RULES_LIMIT)
        return fail(error, HEARTH_UNSUPPORTED, "%s: key " KEY_SPLIT ": has %llu items, more than %d", c->path,
                    (unsigned long long)own->count, RULES_LIMIT);
    for (*count = 0; *count < own->count; ++*count) {
        span text = own->as.strings[*count];
        const char *copy = arena_copy_text(memory, text.data, text.size);
        if (!copy)
            return fail_memory(error, "tokenizer", text.size);
        if (strlen(copy) != text.size || !read_rule(&rules[*count], copy))
            return fail(error, HEARTH_FORMAT, "%s: key " KEY_SPLIT ": item %zu: is no behaviour and expression",
                        c->path, *count);
    }
    return HEARTH_OK;
}

hearth_status splitting_load(splitter **out, bool *ignores_merges, const checkpoint *c, hearth_error *error)
{
    const pre_tokenizer *row;
    split_rule rules[RULES_LIMIT] = {{0}};
    size_t count = 0;
    arena memory = {0};
    TRY(splitting_find(&row, c, error));
    hearth_status status = HEARTH_OK;
    if (row) {
        *ignores_merges = row->ignores_merges;
        for (; count < PRE_TOKENIZER_RULES && row->expressions[count]; count++)
            rules[count].pattern = row->expressions[count];
    } else {
        bool found;
        status = read_own(rules, &count, &memory, c, error);
        if (status == HEARTH_OK)
            status = checkpoint_get_bool(c, KEY_IGNORE, ignores_merges, &found, error);
    }
    if (status == HEARTH_OK)
        status = splitter_create(out, rules, count, c->path, error);
    arena_clear(&memory);
    return status;
}
