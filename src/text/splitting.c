/* splitting.c - the keys that say how texts are cut into words. */
#include "splitting.h"

#include <string.h>

#define KEY_MODEL  "tokenizer.ggml.model"
#define KEY_PRE    "tokenizer.ggml.pre"
#define KEY_SPLIT  "tokenizer.hearth.split"
#define KEY_IGNORE "tokenizer.hearth.ignore_merges"

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

/* Reads the expressions of the checkpoint's own into rules [SPLIT_RULES_LIMIT]; `memory` holds their texts. */
static hearth_status read_own(split_rule *rules, size_t *count, arena *memory, const checkpoint *c, hearth_error *error)
{
    const key_value *own;
    TRY(checkpoint_get_array(c, KEY_SPLIT, VALUE_STRING, &own, NULL, error));
    if (own->count > SPLIT_RULES_LIMIT)
        return fail(error, HEARTH_UNSUPPORTED, "%s: key " KEY_SPLIT ": has %llu items, more than %d", c->path,
                    (unsigned long long)own->count, SPLIT_RULES_LIMIT);
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
    split_rule rules[SPLIT_RULES_LIMIT] = {{0}};
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

/* Returns whether a row cuts texts as these rules do. */
static bool is_row(const pre_tokenizer *row, const split_rule *rules, size_t count, bool ignores_merges)
{
    size_t own = 0;
    while (own < PRE_TOKENIZER_RULES && row->expressions[own])
        own++;
    bool same = own == count && row->ignores_merges == ignores_merges;
    for (size_t i = 0; same && i < count; i++)
        same = rules[i].behaviour == SPLIT_ISOLATED && !rules[i].inverted &&
               strcmp(rules[i].pattern, row->expressions[i]) == 0;
    return same;
}

hearth_status splitting_store(checkpoint *c, const split_rule *rules, size_t count, bool ignores_merges,
                              hearth_error *error)
{
    const pre_tokenizer *row;
    for (size_t i = 0; (row = pre_tokenizer_at(i)); i++)
        if (is_row(row, rules, count, ignores_merges))
            return checkpoint_set_string(c, KEY_PRE, (span){row->names, strcspn(row->names, " ")}, error);
    span texts[SPLIT_RULES_LIMIT];
    buffer all[SPLIT_RULES_LIMIT] = {{0}};
    hearth_status status = HEARTH_OK;
    for (size_t i = 0; status == HEARTH_OK && i < count; i++) {
        if (!buffer_print(&all[i], "%s%s %s", rules[i].inverted ? "not " : "", split_behaviour_name(rules[i].behaviour),
                          rules[i].pattern))
            status = fail_memory(error, "tokenizer", strlen(rules[i].pattern));
        texts[i] = (span){all[i].data, all[i].size};
    }
    if (status == HEARTH_OK)
        status = checkpoint_set_strings(c, KEY_SPLIT, texts, count, error);
    if (status == HEARTH_OK && ignores_merges)
        status = checkpoint_set_bool(c, KEY_IGNORE, true, error);
    for (size_t i = 0; i < count; i++)
        buffer_free(&all[i]);
    return status;
}
