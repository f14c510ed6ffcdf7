/* tokenizer_json_rules.c - what a tokenizer.json does to a text: its normalizer, pre-tokenizer and post-processor.
 *
 * Each is an object with a "type", or a "Sequence" of such. A table says what hearth does for a type; one that is not in
 * it is refused by its name, as the ids would be others without it. */
#include "tokenizer_json_internal.h"

#include <string.h>

#define WIDE_BLANK "\xe2\x96\x81" /* U+2581 */

/* Sequences within sequences. */
enum { DEPTH_LIMIT = 8 };

/* What GPT-2's expression is in tokenizers that do not write it out (ByteLevel with use_regex). */
static const char gpt2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

typedef struct part {
    const char *type;
    hearth_status (*read)(tokenizer_json *t, const json_t *object);
} part;

static const char *string_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* Returns a switch; what is absent, or no switch, has the standard value. */
static bool switch_of(const json_t *object, const char *key, bool standard)
{
    const json_t *value = json_object_get(object, key);
    return json_is_boolean(value) ? json_is_true(value) : standard;
}

static hearth_status refuse(const tokenizer_json *t, const char *what, const char *type)
{
    return fail(t->error, HEARTH_UNSUPPORTED, "%s: %s: '%.64s' is not supported", t->name, what, type);
}

/* Reads an object by the table, or each of a sequence's `list`. */
static hearth_status read_parts(tokenizer_json *t, const json_t *object, const part *parts, size_t count,
                                const char *what, const char *list, int depth)
{
    const char *type = string_of(object, "type");
    if (!object || json_is_null(object))
        return HEARTH_OK;
    if (!type || depth > DEPTH_LIMIT)
        return fail(t->error, HEARTH_FORMAT, "%s: %s: %s", t->name, what,
                    type ? "sequences are nested too deeply" : "has no type");
    if (strcmp(type, "Sequence") == 0) {
        size_t index;
        json_t *item;
        json_array_foreach(json_object_get(object, list), index, item)
        {
            TRY(read_parts(t, item, parts, count, what, list, depth + 1));
        }
        return HEARTH_OK;
    }
    for (size_t i = 0; i < count; i++)
        if (strcmp(type, parts[i].type) == 0)
            return parts[i].read ? parts[i].read(t, object) : HEARTH_OK;
    return refuse(t, what, type);
}

#define READ_PARTS(t, object, table, what, list) \
    read_parts(t, object, table, sizeof(table) / sizeof *(table), what, list, 0)

hearth_status tokenizer_json_rule(tokenizer_json *t, const char *pattern, split_behaviour behaviour, bool inverted)
{
    if (t->rule_count == JSON_RULES)
        return fail(t->error, HEARTH_UNSUPPORTED, "%s: pre_tokenizer: has more than %d rules", t->name, JSON_RULES);
    t->rules[t->rule_count++] = (split_rule){pattern, behaviour, inverted};
    return HEARTH_OK;
}

/* -------------------------------------------------------------- normalizer */

static hearth_status read_form(tokenizer_json *t, const json_t *object)
{
    static const char *const forms[][2] = {{"NFC", "nfc"}, {"NFD", "nfd"}, {"NFKC", "nfkc"}, {"NFKD", "nfkd"}};
    if (t->normalizer)
        return fail(t->error, HEARTH_UNSUPPORTED, "%s: normalizer: has more than one normal form", t->name);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (strcmp(string_of(object, "type"), forms[i][0]) == 0)
            t->normalizer = forms[i][1];
    return HEARTH_OK;
}

/* {"type": "Prepend", "prepend": "▁"} */
static hearth_status read_prepend(tokenizer_json *t, const json_t *object)
{
    const char *text = string_of(object, "prepend");
    if (!text || strcmp(text, WIDE_BLANK) != 0)
        return refuse(t, "normalizer: Prepend", text ? text : "");
    t->adds_space_prefix = true;
    return HEARTH_OK;
}

/* {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}: blanks as pieces spell them; and unigram's "runs of
 * blanks are one": {"Regex": " {2,}"}. */
static hearth_status read_replace(tokenizer_json *t, const json_t *object)
{
    const json_t *pattern = json_object_get(object, "pattern");
    const char *text = string_of(pattern, "String"), *expression = string_of(pattern, "Regex");
    const char *content = string_of(object, "content");
    if (content && text && strcmp(text, " ") == 0 && strcmp(content, WIDE_BLANK) == 0) {
        t->wide_blanks = true;
        return HEARTH_OK;
    }
    if (content && expression && strcmp(expression, " {2,}") == 0 &&
        (strcmp(content, " ") == 0 || strcmp(content, WIDE_BLANK) == 0)) {
        t->removes_extra_blanks = true;
        return HEARTH_OK;
    }
    return refuse(t, "normalizer: Replace", expression ? expression : text ? text : "");
}

/* Removes white space at the ends of a text. It is accepted where runs of blanks become one, too: then it is what
 * SentencePiece does with extra blanks. */
static hearth_status read_strip(tokenizer_json *t, const json_t *object)
{
    (void)object;
    t->strips = true;
    return HEARTH_OK;
}

/* {"type": "Precompiled", "precompiled_charsmap": BASE64}: SentencePiece's compiled normalisation. */
static hearth_status read_precompiled(tokenizer_json *t, const json_t *object)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *text = string_of(object, "precompiled_charsmap");
    if (!text || !*text)
        return HEARTH_OK;
    size_t length = strcspn(text, "="), size = 0;
    uint8_t *bytes = arena_new(&t->memory, length);
    if (!bytes)
        return fail_memory(t->error, t->name, length);
    uint32_t held = 0;
    for (size_t i = 0, bits = 0; i < length; i++) {
        const char *digit = strchr(digits, text[i]);
        if (!digit)
            return fail(t->error, HEARTH_FORMAT, "%s: normalizer: precompiled_charsmap: is not base64", t->name);
        held = held << 6 | (uint32_t)(digit - digits);
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            bytes[size++] = (uint8_t)(held >> bits);
        }
    }
    return checkpoint_set_numbers(t->out, "tokenizer.ggml.precompiled_charsmap", VALUE_U8, bytes, size, t->error);
}

hearth_status tokenizer_json_normalizer(tokenizer_json *t, const json_t *normalizer)
{
    static const part parts[] = {
        {"NFC", read_form},        {"NFD", read_form},        {"NFKC", read_form},   {"NFKD", read_form},
        {"Prepend", read_prepend}, {"Replace", read_replace}, {"Strip", read_strip}, {"Precompiled", read_precompiled},
    };
    TRY(READ_PARTS(t, normalizer, parts, "normalizer", "normalizers"));
    return t->strips && !t->removes_extra_blanks ? refuse(t, "normalizer", "Strip") : HEARTH_OK;
}

/* ----------------------------------------------------------- pre-tokenizer */

static hearth_status read_byte_level(tokenizer_json *t, const json_t *object)
{
    t->byte_level = true;
    t->adds_space_prefix = switch_of(object, "add_prefix_space", true);
    return switch_of(object, "use_regex", true) ? tokenizer_json_rule(t, gpt2, SPLIT_ISOLATED, false) : HEARTH_OK;
}

/* Reads "behavior": "Isolated" and so on, in any of the spellings. */
static hearth_status read_behaviour(const tokenizer_json *t, const json_t *object, split_behaviour *out)
{
    static const char *const names[SPLIT_BEHAVIOUR_COUNT] = {
        [SPLIT_ISOLATED] = "Isolated",
        [SPLIT_REMOVED] = "Removed",
        [SPLIT_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
        [SPLIT_MERGED_WITH_NEXT] = "MergedWithNext",
        [SPLIT_CONTIGUOUS] = "Contiguous",
    };
    const char *text = string_of(object, "behavior");
    *out = SPLIT_ISOLATED;
    for (split_behaviour b = 0; text && b < SPLIT_BEHAVIOUR_COUNT; b++)
        if (strcmp(text, names[b]) == 0) {
            *out = b;
            return HEARTH_OK;
        }
    return text ? refuse(t, "pre_tokenizer: behavior", text) : HEARTH_OK;
}

/* Writes a text as an expression that matches just that text. */
static const char *quote(tokenizer_json *t, const char *text)
{
    char *quoted = arena_new(&t->memory, 2 * strlen(text) + 1), *p = quoted;
    for (; quoted && *text; text++) {
        if (strchr("\\^$.|?*+()[]{}#-", *text))
            *p++ = '\\';
        *p++ = *text;
    }
    return quoted;
}

/* {"type": "Split", "pattern": {"Regex": ...} or {"String": ...}, "behavior": ..., "invert": ...} */
static hearth_status read_split(tokenizer_json *t, const json_t *object)
{
    const json_t *pattern = json_object_get(object, "pattern");
    const char *expression = string_of(pattern, "Regex"), *text = string_of(pattern, "String");
    split_behaviour behaviour;
    TRY(read_behaviour(t, object, &behaviour));
    if (!expression && !text)
        return fail(t->error, HEARTH_FORMAT, "%s: pre_tokenizer: Split: has no pattern", t->name);
    if (!expression && !(expression = quote(t, text)))
        return fail_memory(t->error, t->name, 2 * strlen(text));
    return tokenizer_json_rule(t, expression, behaviour, switch_of(object, "invert", false));
}

static hearth_status read_digits(tokenizer_json *t, const json_t *object)
{
    return tokenizer_json_rule(t, switch_of(object, "individual_digits", false) ? "\\p{N}" : "\\p{N}+", SPLIT_ISOLATED,
                               false);
}

static hearth_status read_punctuation(tokenizer_json *t, const json_t *object)
{
    split_behaviour behaviour;
    TRY(read_behaviour(t, object, &behaviour));
    return tokenizer_json_rule(t, "[\\p{P}!-/:-@\\[-`{-~]", behaviour, false);
}

static hearth_status read_white_space(tokenizer_json *t, const json_t *object)
{
    (void)object;
    return tokenizer_json_rule(t, "\\w+|[^\\w\\s]+", SPLIT_REMOVED, true);
}

static hearth_status read_white_space_split(tokenizer_json *t, const json_t *object)
{
    (void)object;
    return tokenizer_json_rule(t, "\\s+", SPLIT_REMOVED, false);
}

/* SentencePiece's blanks: each becomes U+2581, one stands in front of the text, and words begin with theirs. */
static hearth_status read_metaspace(tokenizer_json *t, const json_t *object)
{
    const char *blank = string_of(object, "replacement"), *scheme = string_of(object, "prepend_scheme");
    if (blank && strcmp(blank, WIDE_BLANK) != 0)
        return refuse(t, "pre_tokenizer: Metaspace: replacement", blank);
    t->wide_blanks = true;
    t->adds_space_prefix = scheme ? strcmp(scheme, "never") != 0 : switch_of(object, "add_prefix_space", true);
    t->prefix_once = scheme && strcmp(scheme, "first") == 0;
    t->prefix_unless_blank = true;
    return switch_of(object, "split", true) ? tokenizer_json_rule(t, WIDE_BLANK, SPLIT_MERGED_WITH_NEXT, false)
                                            : HEARTH_OK;
}

hearth_status tokenizer_json_pre_tokenizer(tokenizer_json *t, const json_t *rules)
{
    static const part parts[] = {
        {"ByteLevel", read_byte_level},   {"Split", read_split},
        {"Digits", read_digits},          {"Punctuation", read_punctuation},
        {"Whitespace", read_white_space}, {"WhitespaceSplit", read_white_space_split},
        {"Metaspace", read_metaspace},
    };
    return READ_PARTS(t, rules, parts, "pre_tokenizer", "pretokenizers");
}

/* ---------------------------------------------------------- post-processor */

/* Returns the id of a special token of a template, or -1. */
static int64_t template_id(const json_t *special_tokens, const json_t *item)
{
    const char *name = string_of(json_object_get(item, "SpecialToken"), "id");
    const json_t *ids = json_object_get(name ? json_object_get(special_tokens, name) : NULL, "ids");
    const json_t *id = json_array_get(ids, 0);
    return json_is_integer(id) ? json_integer_value(id) : -1;
}

static hearth_status set_added(tokenizer_json *t, const char *switch_key, const char *id_key, int64_t id)
{
    TRY(checkpoint_set_bool(t->out, switch_key, id >= 0, t->error));
    if (id < 0)
        return HEARTH_OK;
    if ((uint64_t)id >= t->count)
        return fail(t->error, HEARTH_FORMAT, "%s: post_processor: there is no token %lld", t->name, (long long)id);
    return checkpoint_set_u32(t->out, id_key, (uint32_t)id, t->error);
}

static hearth_status set_both(tokenizer_json *t, int64_t before, int64_t behind)
{
    TRY(set_added(t, "tokenizer.ggml.add_bos_token", "tokenizer.ggml.bos_token_id", before));
    return set_added(t, "tokenizer.ggml.add_eos_token", "tokenizer.ggml.eos_token_id", behind);
}

/* {"single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}, ...]}: one token before a text is BOS, one
 * behind it is EOS. Several are what chat templates write out themselves; they are not added. */
static hearth_status read_template(tokenizer_json *t, const json_t *object)
{
    int64_t ids[2] = {-1, -1};
    size_t counts[2] = {0, 0}, index;
    bool behind = false;
    json_t *item;
    json_array_foreach(json_object_get(object, "single"), index, item)
    {
        if (json_object_get(item, "Sequence")) {
            behind = true;
        } else {
            ids[behind] = template_id(json_object_get(object, "special_tokens"), item);
            counts[behind]++;
        }
    }
    return set_both(t, counts[0] == 1 ? ids[0] : -1, counts[1] == 1 ? ids[1] : -1);
}

/* {"cls": ["<s>", 0], "sep": ["</s>", 2]} */
static hearth_status read_pair(tokenizer_json *t, const json_t *object)
{
    const json_t *cls = json_array_get(json_object_get(object, "cls"), 1);
    const json_t *sep = json_array_get(json_object_get(object, "sep"), 1);
    return set_both(t, json_is_integer(cls) ? json_integer_value(cls) : -1,
                    json_is_integer(sep) ? json_integer_value(sep) : -1);
}

hearth_status tokenizer_json_post_processor(tokenizer_json *t, const json_t *post_processor)
{
    static const part parts[] = {
        {"ByteLevel", NULL}, /* trims offsets, which hearth does not give */
        {"TemplateProcessing", read_template},
        {"RobertaProcessing", read_pair},
        {"BertProcessing", read_pair},
    };
    TRY(set_both(t, -1, -1));
    return READ_PARTS(t, post_processor, parts, "post_processor", "processors");
}
