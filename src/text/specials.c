/* specials.c - finds special tokens in a text, and knows some properties of them by their spelling.
 *
 * No key of published GGUF files says "this token ends a turn" or "white space behind this token is dropped", so both
 * are tables here: a new chat model is a new row. Folders say it, and keys of our own pass it on. How plain text is cut into pieces is not known here. */
#include "vocabulary.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* A token that ends an answer, in addition to the model's EOS: most chat models end a turn with another token. Some
 * vocabularies use the same text for another purpose; they are recognised by a second token. Such a row applies only
 * where the vocabulary has no control token `unless`. */
typedef struct end_mark {
    const char *text, *unless;
} end_mark;

static const end_mark end_marks[] = {
    // clang-format off
    {"</s>",                                        "<eos>"      },  /* gemma: closes struck-out HTML */
    {"<eos>",                                       NULL         },
    {"<|endoftext|>",                               NULL         },
    {"<|end_of_text|>",                             NULL         },
    {"<|eot_id|>",                                  NULL         },
    {"<|eom_id|>",                                  NULL         },
    {"<|im_end|>",                                  NULL         },
    {"<|end|>",                                     "<|return|>" },  /* gpt-oss: ends a section, not the turn */
    {"<|return|>",                                  NULL         },
    {"<|call|>",                                    NULL         },
    {"<end_of_turn>",                               NULL         },
    {"<turn|>",                                     NULL         },
    {"<|tool_response>",                            NULL         },  /* gemma 4: a result follows, from elsewhere */
    {"<start_function_response>",                   NULL         },  /* functiongemma: the same */
    {"<end_of_utterance>",                          NULL         },
    {"<EOT>",                                       NULL         },
    {"_<EOT>",                                      NULL         },
    {"[EOT]",                                       NULL         },
    {"[EOS]",                                       NULL         },
    {"<\xef\xbd\x9c" "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>", NULL},  /* deepseek */
    // clang-format on
};

/* Models where white space behind a special token is dropped, except behind the tokens listed in `but`. Their
 * tokenizer.json says so for each token (rstrip); GGUF has no key for it. */
typedef struct strip_rule {
    const char *architecture;
    const char *but[4];
} strip_rule;

static const strip_rule strip_rules[] = {
    {"phi3", {"<unk>", "<s>", "<|endoftext|>"}},
};

#define COUNT(table) (sizeof(table) / sizeof *(table))

static bool is_special(const token *t)
{
    return t->type == TOKEN_UNKNOWN || t->type == TOKEN_CONTROL || t->type == TOKEN_USER_DEFINED;
}

static bool has_control(const vocabulary *v, const char *text)
{
    for (uint32_t i = 0; i < v->count; i++)
        if (v->tokens[i].type == TOKEN_CONTROL && span_equal(v->tokens[i].text, span_of(text)))
            return true;
    return false;
}

/* Marks the tokens that end an answer. Some files list them as user-defined, so that any text could contain them;
 * they become control tokens. */
static void mark_ends(vocabulary *v)
{
    bool counts[COUNT(end_marks)];
    for (size_t m = 0; m < COUNT(end_marks); m++)
        counts[m] = !end_marks[m].unless || !has_control(v, end_marks[m].unless);
    for (uint32_t i = 0; i < v->count; i++) {
        token *t = &v->tokens[i];
        if (t->type != TOKEN_CONTROL && t->type != TOKEN_USER_DEFINED)
            continue;
        for (size_t m = 0; m < COUNT(end_marks); m++)
            if (counts[m] && span_equal(t->text, span_of(end_marks[m].text))) {
                t->ends_answer = true;
                t->type = TOKEN_CONTROL;
            }
    }
    /* BOS counts too: a new text begins, so the answer is over. */
    const int32_t ids[] = {v->bos, v->eos, v->eot, v->eom};
    for (size_t i = 0; i < COUNT(ids); i++)
        if (ids[i] >= 0)
            v->tokens[ids[i]].ends_answer = true;
}

static bool is_listed(span text, const char *const list[4])
{
    for (size_t i = 0; i < 4 && list[i]; i++)
        if (span_equal(text, span_of(list[i])))
            return true;
    return false;
}

/* Marks the special tokens behind which white space is dropped, by the model's architecture. */
static hearth_status mark_strips(vocabulary *v, const checkpoint *c, hearth_error *error)
{
    span architecture = {0};
    bool found;
    TRY(checkpoint_get_string(c, "general.architecture", &architecture, &found, error));
    for (size_t r = 0; r < COUNT(strip_rules); r++) {
        if (!found || !span_equal(architecture, span_of(strip_rules[r].architecture)))
            continue;
        for (uint32_t i = 0; i < v->count; i++)
            v->tokens[i].strips_right = is_special(&v->tokens[i]) && !is_listed(v->tokens[i].text, strip_rules[r].but);
    }
    return HEARTH_OK;
}

/* Sets a property of the tokens that a key lists. */
static hearth_status mark_listed(vocabulary *v, const checkpoint *c, const char *key, size_t property,
                                 hearth_error *error)
{
    const key_value *ids;
    bool found;
    TRY(checkpoint_get_array(c, key, VALUE_U32, &ids, &found, error));
    for (uint64_t i = 0; found && i < ids->count; i++) {
        uint32_t id = ((const uint32_t *)ids->as.items)[i];
        if (id >= v->count)
            return fail(error, HEARTH_FORMAT, "%s: key %s: there is no token %u", c->path, key, id);
        ((bool *)((char *)&v->tokens[id] + property))[0] = true;
    }
    return HEARTH_OK;
}

/* Compares by bytes; of two with the same text the lower id comes first and is the one that is found. */
static int compare_specials(const void *left, const void *right)
{
    const special *a = left, *b = right;
    size_t common = a->text.size < b->text.size ? a->text.size : b->text.size;
    int order = memcmp(a->text.data, b->text.data, common);
    if (order != 0)
        return order;
    if (a->text.size != b->text.size)
        return a->text.size < b->text.size ? -1 : 1;
    return a->id < b->id ? -1 : 1;
}

/* Sets *out to the token as it appears in a text: in a user-defined piece U+2581 stands for a space, where pieces spell
 * blanks so. Returns false
 * where there is no memory. */
static bool spell_out(vocabulary *v, const token *t, span *out)
{
    const span blank = v->blank;
    *out = t->text;
    if (t->type != TOKEN_USER_DEFINED || span_equal(blank, span_of(" ")) ||
        !memmem(t->text.data, t->text.size, blank.data, blank.size))
        return true;
    char *text = arena_copy_text(&v->memory, t->text.data, t->text.size);
    if (!text)
        return false;
    size_t size = 0;
    for (size_t i = 0; i < t->text.size;) {
        bool is_blank = t->text.size - i >= blank.size && memcmp(t->text.data + i, blank.data, blank.size) == 0;
        text[size++] = is_blank ? ' ' : t->text.data[i];
        i += is_blank ? blank.size : 1;
    }
    *out = (span){text, size};
    return true;
}

/* Fills a set with the user-defined tokens and, where with_control is set, the control and unknown tokens. */
static hearth_status build_set(vocabulary *v, special_set *set, bool with_control, hearth_error *error)
{
    size_t room = 0;
    for (uint32_t i = 0; i < v->count; i++)
        room += is_special(&v->tokens[i]);
    set->items = arena_new_array(&v->memory, room, sizeof *set->items);
    if (!set->items)
        return fail_memory(error, "vocabulary", room * sizeof *set->items);
    for (uint32_t i = 0; i < v->count; i++) {
        const token *t = &v->tokens[i];
        if (!is_special(t) || t->text.size == 0 || (t->type != TOKEN_USER_DEFINED && !with_control))
            continue;
        special *s = &set->items[set->count++];
        s->id = (int32_t)i;
        if (!spell_out(v, t, &s->text))
            return fail_memory(error, "vocabulary", t->text.size);
        set->begins[(uint8_t)s->text.data[0]] = true;
    }
    if (set->count > 0)
        qsort(set->items, set->count, sizeof *set->items, compare_specials);
    return HEARTH_OK;
}

hearth_status specials_load(vocabulary *v, const checkpoint *c, hearth_error *error)
{
    mark_ends(v);
    TRY(mark_strips(v, c, error));
    TRY(mark_listed(v, c, "tokenizer.hearth.strip_left", offsetof(token, strips_left), error));
    TRY(mark_listed(v, c, "tokenizer.hearth.strip_right", offsetof(token, strips_right), error));
    TRY(mark_listed(v, c, "tokenizer.hearth.end_tokens", offsetof(token, ends_answer), error));
    TRY(build_set(v, &v->user_defined, false, error));
    return build_set(v, &v->all_specials, true, error);
}

/* Returns the byte at `depth`, or -1 behind the end, so that shorter texts come first. */
static int byte_at(const special *s, size_t depth)
{
    return depth < s->text.size ? (uint8_t)s->text.data[depth] : -1;
}

/* Returns the first item of [low, high) whose byte at `depth` is at least `byte`; all agree in the bytes before. */
static size_t lower_bound(const special_set *set, size_t low, size_t high, size_t depth, int byte)
{
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (byte_at(&set->items[middle], depth) < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Returns the longest special token that the text begins with; walks the sorted list like a trie. */
static const special *longest_prefix(const special_set *set, const char *text, size_t size)
{
    const special *best = NULL;
    size_t low = 0, high = set->count;
    for (size_t depth = 0; depth < size; depth++) {
        int byte = (uint8_t)text[depth];
        low = lower_bound(set, low, high, depth, byte);
        high = lower_bound(set, low, high, depth, byte + 1);
        if (low == high)
            break;
        if (set->items[low].text.size == depth + 1)
            best = &set->items[low];
    }
    return best;
}

const special *special_set_next(const special_set *set, span text, size_t from, size_t *at)
{
    for (size_t i = from; i < text.size; i++) {
        if (!set->begins[(uint8_t)text.data[i]])
            continue;
        const special *found = longest_prefix(set, text.data + i, text.size - i);
        if (found) {
            *at = i;
            return found;
        }
    }
    return NULL;
}
