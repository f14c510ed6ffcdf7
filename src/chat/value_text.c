/* value_text.c - values as text: as Python's str() and repr() write them, and as its json.dumps(). */
#include "rendering.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* ------------------------------------------------------------------ numbers */

/* Finds the fewest digits that read back as the same number: "D.DDDe+XX". */
static void shortest_digits(char out[32], double number)
{
    for (int digits = 0; digits < 17; digits++) {
        snprintf(out, 32, "%.*e", digits, number);
        if (strtod(out, NULL) == number)
            return;
    }
}

void print_float(char out[32], double number)
{
    if (isnan(number) || isinf(number)) {
        snprintf(out, 32, "%s", isnan(number) ? "nan" : number < 0 ? "-inf" : "inf");
        return;
    }
    char shortest[32];
    shortest_digits(shortest, number);
    char *exponent = strchr(shortest, 'e');
    long power = strtol(exponent + 1, NULL, 10);
    int digits = (int)(exponent - shortest) - (shortest[0] == '-') - (strchr(shortest, '.') ? 1 : 0);
    if (power >= -4 && power < 16) { /* Python's limits for writing without an exponent */
        int decimals = digits - 1 - (int)power;
        snprintf(out, 32, "%.*f", decimals > 0 ? decimals : 1, number);
    } else
        snprintf(out, 32, "%s", shortest);
}

static hearth_status put_integer(rendering *r, growing *g, int64_t number)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRId64, number);
    return growing_put_text(r, g, digits);
}

static hearth_status put_float(rendering *r, growing *g, double number)
{
    char digits[32];
    print_float(digits, number);
    return growing_put_text(r, g, digits);
}

/* ------------------------------------------------------------------ texts */

/* What stands for a character; the table ends with a row of no letter. */
typedef struct escape {
    char character, letter;
} escape;

static const escape repr_escapes[] = {{'\\', '\\'}, {'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}, {0, 0}};
static const escape json_escapes[] = {{'\\', '\\'}, {'"', '"'},  {'\n', 'n'}, {'\r', 'r'},
                                      {'\t', 't'},  {'\f', 'f'}, {'\b', 'b'}, {0, 0}};

static char escape_letter(const escape *rows, int32_t code)
{
    for (; rows->letter; rows++)
        if (rows->character == code)
            return rows->letter;
    return 0;
}

/* As str.isprintable(): neither "other" nor a separator, but for the blank itself. */
static bool is_printable(int32_t code)
{
    utf8proc_category_t category = utf8proc_category(code);
    bool is_other = category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
                    category == UTF8PROC_CATEGORY_CS || category == UTF8PROC_CATEGORY_CO ||
                    category == UTF8PROC_CATEGORY_CN;
    bool is_separator =
        category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
    return code == ' ' || (!is_other && !is_separator);
}

/* Writes a character that is not written as it is. */
static void print_repr_escape(char out[16], int32_t code, char quote)
{
    char letter = code == quote ? quote : escape_letter(repr_escapes, code);
    if (letter)
        snprintf(out, 16, "\\%c", letter);
    else
        snprintf(out, 16, code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)code);
}

static void print_json_escape(char out[16], int32_t code)
{
    char letter = escape_letter(json_escapes, code);
    unsigned high = 0xd800 + (((unsigned)code - 0x10000) >> 10), low = 0xdc00 + (((unsigned)code - 0x10000) & 0x3ff);
    if (letter)
        snprintf(out, 16, "\\%c", letter);
    else if (code < 0x10000)
        snprintf(out, 16, "\\u%04x", (unsigned)code);
    else
        snprintf(out, 16, "\\u%04x\\u%04x", high, low);
}

/* Writes a text between quotes. quote: what Python chose; style: JSON's, or NULL for repr(). */
static hearth_status put_quoted(rendering *r, growing *g, span text, char quote, const json_style *style)
{
    size_t written = 0;
    TRY(growing_put(r, g, &quote, 1));
    for (size_t at = 0; at < text.size;) {
        utf8proc_int32_t code;
        size_t length = utf8_length(text.data + at, text.size - at);
        utf8proc_iterate((const utf8proc_uint8_t *)text.data + at, (utf8proc_ssize_t)length, &code);
        bool plain = style ? code >= ' ' && !escape_letter(json_escapes, code) && (!style->is_ascii || code < 0x7f)
                           : code != quote && code != '\\' && is_printable(code);
        if (!plain) {
            char escaped[16];
            if (style)
                print_json_escape(escaped, code);
            else
                print_repr_escape(escaped, code, quote);
            TRY(growing_put(r, g, text.data + written, at - written));
            TRY(growing_put_text(r, g, escaped));
            written = at + length;
        }
        at += length;
    }
    TRY(growing_put(r, g, text.data + written, text.size - written));
    return growing_put(r, g, &quote, 1);
}

/* ------------------------------------------------------------------ str() and repr() */

static hearth_status put_items(rendering *r, growing *g, const value *v)
{
    bool is_tuple = v->kind == VALUE_TUPLE;
    TRY(growing_put_text(r, g, is_tuple ? "(" : "["));
    for (size_t i = 0; i < v->as.list.count; i++) {
        TRY(growing_put_text(r, g, i ? ", " : ""));
        TRY(value_put_repr(r, g, &v->as.list.items[i]));
    }
    return growing_put_text(r, g, !is_tuple ? "]" : v->as.list.count == 1 ? ",)" : ")");
}

static hearth_status put_entries(rendering *r, growing *g, const dict *d)
{
    TRY(growing_put_text(r, g, "{"));
    for (size_t i = 0; i < d->count; i++) {
        TRY(growing_put_text(r, g, i ? ", " : ""));
        TRY(value_put_repr(r, g, &d->entries[i].key));
        TRY(growing_put_text(r, g, ": "));
        TRY(value_put_repr(r, g, &d->entries[i].value));
    }
    return growing_put_text(r, g, "}");
}

static hearth_status put_nested(rendering *r, growing *g, const value *v)
{
    switch (v->kind) {
    case VALUE_ABSENT:
    case VALUE_UNDEFINED:
        return growing_put_text(r, g, "Undefined");
    case VALUE_NONE:
        return growing_put_text(r, g, "None");
    case VALUE_BOOL:
        return growing_put_text(r, g, v->as.truth ? "True" : "False");
    case VALUE_INTEGER:
        return put_integer(r, g, v->as.integer);
    case VALUE_FLOAT:
        return put_float(r, g, v->as.real);
    case VALUE_TEXT: {
        bool has_single = memchr(v->as.text.data, '\'', v->as.text.size) != NULL;
        bool has_double = memchr(v->as.text.data, '"', v->as.text.size) != NULL;
        return put_quoted(r, g, v->as.text, has_single && !has_double ? '"' : '\'', NULL);
    }
    case VALUE_LIST:
    case VALUE_TUPLE:
        return put_items(r, g, v);
    case VALUE_DICT:
        return put_entries(r, g, v->as.dict);
    case VALUE_NAMESPACE:
        TRY(growing_put_text(r, g, "<Namespace "));
        TRY(put_entries(r, g, v->as.dict));
        return growing_put_text(r, g, ">");
    default:
        return rendering_fail(r, HEARTH_INVALID, "a %s cannot be written as text", value_kind_name(v));
    }
}

hearth_status value_put_repr(rendering *r, growing *g, const value *v)
{
    TRY(rendering_spend_on(r, v));
    TRY(rendering_enter(r));
    hearth_status status = put_nested(r, g, v);
    rendering_leave(r);
    return status;
}

hearth_status value_put(rendering *r, growing *g, const value *v)
{
    if (is_missing(v))
        return HEARTH_OK;
    if (!is_text(v))
        return value_put_repr(r, g, v);
    TRY(rendering_spend_on(r, v));
    return growing_put(r, g, v->as.text.data, v->as.text.size);
}

hearth_status value_to_text(rendering *r, const value *v, span *out)
{
    growing g = {0};
    *out = v->as.text;
    if (is_text(v))
        return HEARTH_OK;
    TRY(value_put(r, &g, v));
    *out = growing_value(&g).as.text;
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ JSON */

static hearth_status put_json_at(rendering *r, growing *g, const value *v, const json_style *style, size_t level);

/* Begins the line of an item, or of the bracket behind the last one. */
static hearth_status new_line(rendering *r, growing *g, const json_style *style, size_t level)
{
    if (!style->has_lines)
        return HEARTH_OK;
    TRY(growing_put_text(r, g, "\n"));
    for (size_t i = 0; i < level; i++)
        TRY(growing_put(r, g, style->indent.data, style->indent.size));
    return HEARTH_OK;
}

static hearth_status put_json_items(rendering *r, growing *g, value_list list, const json_style *style, size_t level)
{
    TRY(growing_put_text(r, g, "["));
    for (size_t i = 0; i < list.count; i++) {
        if (i > 0)
            TRY(growing_put(r, g, style->item_separator.data, style->item_separator.size));
        TRY(new_line(r, g, style, level + 1));
        TRY(put_json_at(r, g, &list.items[i], style, level + 1));
    }
    if (list.count > 0)
        TRY(new_line(r, g, style, level));
    return growing_put_text(r, g, "]");
}

static hearth_status put_json_key(rendering *r, growing *g, const value *key, const json_style *style)
{
    growing text = {0};
    if (is_text(key))
        return put_quoted(r, g, key->as.text, '"', style);
    if (!is_number(key) && key->kind != VALUE_NONE)
        return rendering_fail(r, HEARTH_INVALID, "keys must be str, int, float, bool or None, not %s",
                              value_kind_name(key));
    TRY(put_json_at(r, &text, key, style, 0));
    return put_quoted(r, g, growing_value(&text).as.text, '"', style);
}

static int order_entries(const void *a, const void *b)
{
    const span x = (*(const struct entry *const *)a)->key.as.text, y = (*(const struct entry *const *)b)->key.as.text;
    int order = memcmp(x.data, y.data, x.size < y.size ? x.size : y.size);
    return order ? order : (x.size > y.size) - (x.size < y.size);
}

/* Makes pointers to the entries, in the order in which they are written. */
static hearth_status ordered_entries(rendering *r, const dict *d, bool is_sorted, const struct entry ***out)
{
    const struct entry **entries = rendering_claim(r, d->count, sizeof *entries);
    *out = entries;
    if (!entries)
        return HEARTH_NO_MEMORY;
    for (size_t i = 0; i < d->count; i++) {
        entries[i] = &d->entries[i];
        if (is_sorted && !is_text(&entries[i]->key))
            return rendering_fail(r, HEARTH_UNSUPPORTED, "tojson: sort_keys needs keys that are texts");
    }
    if (is_sorted && d->count > 1)
        qsort(entries, d->count, sizeof *entries, order_entries);
    return HEARTH_OK;
}

static hearth_status put_json_entries(rendering *r, growing *g, const dict *d, const json_style *style, size_t level)
{
    const struct entry **entries;
    TRY(ordered_entries(r, d, style->is_sorted, &entries));
    TRY(growing_put_text(r, g, "{"));
    for (size_t i = 0; i < d->count; i++) {
        if (i > 0)
            TRY(growing_put(r, g, style->item_separator.data, style->item_separator.size));
        TRY(new_line(r, g, style, level + 1));
        TRY(put_json_key(r, g, &entries[i]->key, style));
        TRY(growing_put(r, g, style->key_separator.data, style->key_separator.size));
        TRY(put_json_at(r, g, &entries[i]->value, style, level + 1));
    }
    if (d->count > 0)
        TRY(new_line(r, g, style, level));
    return growing_put_text(r, g, "}");
}

static hearth_status put_json_float(rendering *r, growing *g, double number)
{
    if (isnan(number) || isinf(number))
        return growing_put_text(r, g, isnan(number) ? "NaN" : number < 0 ? "-Infinity" : "Infinity");
    return put_float(r, g, number);
}

static hearth_status put_json_nested(rendering *r, growing *g, const value *v, const json_style *style, size_t level)
{
    switch (v->kind) {
    case VALUE_NONE:
        return growing_put_text(r, g, "null");
    case VALUE_BOOL:
        return growing_put_text(r, g, v->as.truth ? "true" : "false");
    case VALUE_INTEGER:
        return put_integer(r, g, v->as.integer);
    case VALUE_FLOAT:
        return put_json_float(r, g, v->as.real);
    case VALUE_TEXT:
        return put_quoted(r, g, v->as.text, '"', style);
    case VALUE_LIST:
    case VALUE_TUPLE:
        return put_json_items(r, g, v->as.list, style, level);
    case VALUE_DICT:
        return put_json_entries(r, g, v->as.dict, style, level);
    default:
        return rendering_fail(r, HEARTH_INVALID, "Object of type %s is not JSON serializable", value_kind_name(v));
    }
}

static hearth_status put_json_at(rendering *r, growing *g, const value *v, const json_style *style, size_t level)
{
    TRY(rendering_spend_on(r, v));
    TRY(rendering_enter(r));
    hearth_status status = put_json_nested(r, g, v, style, level);
    rendering_leave(r);
    return status;
}

hearth_status value_put_json(rendering *r, growing *g, const value *v, const json_style *style)
{
    return put_json_at(r, g, v, style, 0);
}
