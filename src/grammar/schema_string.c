/* schema_string.c - strings: their characters as JSON writes them, lengths, and the formats, which are patterns. */
#include "schema_internal.h"

#include <string.h>

/* Days of all months; 29 February in years that 4 divides, of full centuries those that 400 divides. */
#define TWO  "[0-9]{2}"
#define EVEN "([02468][048]|[13579][26])"
#define LEAP "(" TWO "(0[48]|[2468][048]|[13579][26])|" EVEN "00)"
#define DATE                                                                                                          \
    "((" TWO TWO                                                                                                      \
    ")-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))|" LEAP \
    "-02-29)"
#define HOUR "([01][0-9]|2[0-3])"
#define TIME HOUR ":[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]" HOUR ":[0-5][0-9])"
#define HEX  "[0-9a-fA-F]"
/* Of names and addresses on the net only common ways of writing them. */
#define LABEL    "[a-zA-Z0-9]([a-zA-Z0-9-]{0,30}[a-zA-Z0-9])?"
#define ATOM     "[a-zA-Z0-9_+-]{1,20}"
#define OCTET    "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define COUNT    "[0-9]{1,4}"
#define SECONDS  COUNT "S"
#define MINUTES  COUNT "M(" SECONDS ")?"
#define HOURS    COUNT "H(" MINUTES ")?"
#define DAYS     COUNT "D"
#define MONTHS   COUNT "M(" DAYS ")?"
#define YEARS    COUNT "Y(" MONTHS ")?"
#define DURATION "T(" HOURS "|" MINUTES "|" SECONDS ")" /* of a day; RFC 3339, appendix A */

static const struct format {
    const char *name, *pattern;
} formats[] = {
    {"date", "^" DATE "$"},
    {"time", "^" TIME "$"},
    {"date-time", "^" DATE "T" TIME "$"},
    {"uuid", "^" HEX "{8}(-" HEX "{4}){3}-" HEX "{12}$"},
    {"duration", "^P((" DAYS "|" MONTHS "|" YEARS ")(" DURATION ")?|" DURATION "|" COUNT "W)$"},
    {"hostname", "^" LABEL "(\\." LABEL "){0,4}$"},
    {"email", "^" ATOM "(\\." ATOM "){0,2}@" LABEL "(\\." LABEL "){1,3}$"},
    {"ipv4", "^" OCTET "(\\." OCTET "){3}$"},
    {"ipv6", "^" HEX "{1,4}(:" HEX "{1,4}){7}$"},
};

static fragment escape(schema_compiler *c, char letter)
{
    const char text[2] = {'\\', letter};
    return grammar_literal(c->g, (span){text, 2});
}

fragment schema_characters(schema_compiler *c, const character_range *ranges, size_t count)
{
    static const struct {
        uint32_t character;
        char letter;
    } escapes[] = {{'"', '"'}, {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'}, {'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}};
    static const character_range plain[] = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x10FFFF}};
    character_range *parts = mem_new_array(3 * count, sizeof *parts);
    size_t used = 0;
    if (!parts) {
        c->g->status = c->g->status == HEARTH_OK ? HEARTH_NO_MEMORY : c->g->status;
        return grammar_empty(c->g);
    }
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < sizeof plain / sizeof *plain; k++) {
            uint32_t low = ranges[i].low > plain[k].low ? ranges[i].low : plain[k].low;
            uint32_t high = ranges[i].high < plain[k].high ? ranges[i].high : plain[k].high;
            if (low <= high)
                parts[used++] = (character_range){low, high};
        }
    fragment all = grammar_characters(c->g, parts, used, false);
    mem_free(parts);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < sizeof escapes / sizeof *escapes; k++)
            if (ranges[i].low <= escapes[k].character && escapes[k].character <= ranges[i].high)
                all = grammar_either(c->g, all, escape(c, escapes[k].letter));
    return all;
}

static fragment hex(schema_compiler *c, const char *ranges)
{
    fragment all = grammar_bytes(c->g, (uint8_t)ranges[0], (uint8_t)ranges[1]);
    for (ranges += 2; *ranges; ranges += 2)
        all = grammar_either(c->g, all, grammar_bytes(c->g, (uint8_t)ranges[0], (uint8_t)ranges[1]));
    return all;
}

static fragment sequence(schema_compiler *c, const char *const *ranges, size_t count)
{
    fragment all = grammar_empty(c->g);
    for (size_t i = 0; i < count; i++)
        all = grammar_then(c->g, all, hex(c, ranges[i]));
    return all;
}

/* \uHHHH, but for 0000: not D800-DFFF, which only come as a pair, one character. */
static fragment code_unit(schema_compiler *c)
{
#define ANY "09afAF"
    static const char *const rows[][4] = {
        {"19acACefEF", ANY, ANY, ANY}, {"ddDD", "07", ANY, ANY},     {"00", "19afAF", ANY, ANY},
        {"00", "00", "19afAF", ANY},   {"00", "00", "00", "19afAF"},
    };
    static const char *const high[] = {"ddDD", "89abAB", ANY, ANY}, *const low[] = {"ddDD", "cfCF", ANY, ANY};
#undef ANY
    fragment all = sequence(c, high, 4);
    all = grammar_then(c->g, all, escape(c, 'u'));
    all = grammar_then(c->g, all, sequence(c, low, 4));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        all = grammar_either(c->g, all, sequence(c, rows[i], 4));
    return grammar_then(c->g, escape(c, 'u'), all);
}

fragment schema_any_character(schema_compiler *c)
{
    static const character_range all = {0, 0x10FFFF};
    if (c->character == GRAMMAR_NONE) {
        c->character = grammar_rule_new(c->g, span_of("character"), 0);
        fragment body = schema_characters(c, &all, 1);
        body = grammar_either(c->g, body, escape(c, '/'));
        grammar_rule_define(c->g, c->character, grammar_either(c->g, body, code_unit(c)));
    }
    return grammar_call(c->g, c->character);
}

static fragment quoted(schema_compiler *c, fragment inside)
{
    fragment all = grammar_then(c->g, grammar_bytes(c->g, '"', '"'), inside);
    return grammar_then(c->g, all, grammar_bytes(c->g, '"', '"'));
}

static fragment any_string(schema_compiler *c)
{
    if (c->string == GRAMMAR_NONE) {
        c->string = grammar_rule_new(c->g, span_of("string"), 0);
        fragment body = grammar_repeat(c->g, schema_any_character(c), 0, GRAMMAR_NO_LIMIT);
        grammar_rule_define(c->g, c->string, quoted(c, body));
    }
    return grammar_call(c->g, c->string);
}

static const char *format_pattern(const char *name)
{
    for (size_t i = 0; name && i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i].name, name) == 0)
            return formats[i].pattern;
    return NULL;
}

bool schema_format_is_note(const json_t *value)
{
    return json_is_string(value) && !format_pattern(json_string_value(value));
}

hearth_status schema_string(schema_compiler *c, const json_t *schema, fragment *out)
{
    const json_t *pattern = json_object_get(schema, "pattern"), *format = json_object_get(schema, "format");
    format = format && schema_format_is_note(format) ? NULL : format;
    uint32_t least = 0, most = GRAMMAR_NO_LIMIT;
    TRY(schema_count(c, schema, "minLength", &least));
    TRY(schema_count(c, schema, "maxLength", &most));
    if (least > most)
        return schema_fail(c, HEARTH_FORMAT, "minLength", "no string has %u characters and at most %u", least, most);
    if (pattern || format) {
        const char *keyword = pattern ? "pattern" : "format";
        const json_t *value = pattern ? pattern : format;
        if (pattern && format)
            return schema_fail(c, HEARTH_UNSUPPORTED, "pattern", "not supported beside format");
        if (least > 0 || most != GRAMMAR_NO_LIMIT)
            return schema_fail(c, HEARTH_UNSUPPORTED, keyword, "not supported beside minLength or maxLength");
        if (!json_is_string(value))
            return schema_fail(c, HEARTH_FORMAT, keyword, "expected a string");
        const char *text = pattern ? json_string_value(value) : format_pattern(json_string_value(value));
        fragment inside;
        TRY(schema_pattern(c, keyword, span_of(text), &inside));
        *out = quoted(c, inside);
        return HEARTH_OK;
    }
    if (least == 0 && most == GRAMMAR_NO_LIMIT)
        *out = any_string(c);
    else if (most == 0)
        *out = quoted(c, grammar_empty(c->g));
    else
        *out = quoted(c, grammar_repeat(c->g, schema_any_character(c), least, most));
    return HEARTH_OK;
}
