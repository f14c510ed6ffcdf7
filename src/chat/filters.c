/* filters.c - filters of single values: texts, numbers, JSON. */
#include "filters.h"

#include "characters.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ texts */

/* Calls the method of the same name on the value as text. */
static hearth_status run_method(rendering *r, const call *c, value *out)
{
    span text;
    TRY(value_to_text(r, &c->subject, &text));
    const value self = value_text(text);
    return function_call(r, method_find(&self, span_of(c->name)), &self, c->all, out);
}

static hearth_status run_trim(rendering *r, const call *c, value *out)
{
    span text, set;
    bool has_set = c->parameters[0].kind != VALUE_ABSENT && c->parameters[0].kind != VALUE_NONE;
    TRY(value_to_text(r, &c->subject, &text));
    TRY(call_text(r, c, 0, NULL, &set));
    TRY(rendering_spend(r, has_set ? text.size / BYTES_PER_STEP * (1 + set.size) : 0));
    *out = value_text(strip_text(text, has_set ? &set : NULL, true, true));
    return HEARTH_OK;
}

static hearth_status run_string(rendering *r, const call *c, value *out)
{
    span text;
    TRY(value_to_text(r, &c->subject, &text));
    *out = is_text(&c->subject) ? c->subject : value_text(text);
    return HEARTH_OK;
}

static hearth_status run_safe(rendering *r, const call *c, value *out)
{
    TRY(run_string(r, c, out));
    out->is_safe = true;
    return HEARTH_OK;
}

static hearth_status run_escape(rendering *r, const call *c, value *out)
{
    static const char marks[] = "&<>'\"";
    static const char *const escapes[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    growing g = {0};
    span text;
    TRY(value_to_text(r, &c->subject, &text));
    for (size_t i = 0; i < text.size; i++) {
        const char *mark = text.data[i] && !c->subject.is_safe ? strchr(marks, text.data[i]) : NULL;
        if (mark)
            TRY(growing_put_text(r, &g, escapes[mark - marks]));
        else
            TRY(growing_put(r, &g, text.data + i, 1));
    }
    *out = growing_value(&g);
    out->is_safe = true;
    return HEARTH_OK;
}

static hearth_status run_replace(rendering *r, const call *c, value *out)
{
    span text, old, new;
    int64_t most;
    TRY(value_to_text(r, &c->subject, &text));
    TRY(value_to_text(r, &c->parameters[0], &old));
    TRY(value_to_text(r, &c->parameters[1], &new));
    TRY(call_integer(r, c, 2, -1, &most));
    return replace_text(r, text, old, new, most, out);
}

/* Indents every line but the first (unless `first`), and those that are empty only where `blank`. */
static hearth_status run_indent(rendering *r, const call *c, value *out)
{
    growing g = {0};
    span text, rest, line, line_break;
    value indent = c->parameters[0];
    bool first = call_flag(c, 1, false), blank = call_flag(c, 2, false), is_first = true;
    TRY(value_to_text(r, &c->subject, &text));
    if (!is_text(&indent)) {
        int64_t width;
        TRY(call_integer(r, c, 0, 4, &width));
        TRY(pad_text(r, span_of(""), width, span_of(" "), 1, &indent));
    }
    if (first)
        TRY(value_put(r, &g, &indent));
    bool ends_open = true; /* the text does not end with a line break: a last, empty line follows one */
    for (rest = text; next_line(&rest, &line, &line_break); is_first = false) {
        if (!is_first)
            TRY(growing_put_text(r, &g, "\n"));
        if (!is_first && (blank || line.size > 0))
            TRY(value_put(r, &g, &indent));
        TRY(growing_put(r, &g, line.data, line.size));
        ends_open = line_break.size == 0;
    }
    if (!ends_open) {
        TRY(growing_put_text(r, &g, "\n"));
        if (blank)
            TRY(value_put(r, &g, &indent));
    }
    *out = growing_value(&g);
    return HEARTH_OK;
}

/* Words as the filter `title` sees them: behind blanks, hyphens and opening brackets. */
static hearth_status run_title(rendering *r, const call *c, value *out)
{
    growing g = {0};
    span text;
    TRY(value_to_text(r, &c->subject, &text));
    for (size_t at = 0; at < text.size;) {
        size_t from = at;
        bool is_gap = true;
        int32_t code = 0;
        for (size_t length; at < text.size; at += length) {
            length = take_character((span){text.data + at, text.size - at}, &code);
            bool separates = is_white_character(code) || (code < 0x80 && strchr("-({[<", code) && code);
            if (at == from)
                is_gap = separates;
            else if (separates != is_gap)
                break;
        }
        value word = value_text((span){text.data + from, at - from});
        if (!is_gap)
            TRY(function_call(r, method_find(&word, span_of("capitalize")), &word, &(arguments){0}, &word));
        TRY(value_put(r, &g, &word));
    }
    *out = growing_value(&g);
    return HEARTH_OK;
}

static hearth_status run_center(rendering *r, const call *c, value *out)
{
    int64_t width;
    span text;
    TRY(value_to_text(r, &c->subject, &text));
    TRY(call_integer(r, c, 0, 80, &width));
    return pad_text(r, text, width, span_of(" "), 0.5, out);
}

static hearth_status run_wordcount(rendering *r, const call *c, value *out)
{
    span text;
    int64_t count = 0;
    bool in_word = false;
    TRY(value_to_text(r, &c->subject, &text));
    TRY(rendering_spend(r, text.size / CHARACTERS_PER_STEP));
    for (size_t at = 0; at < text.size;) {
        int32_t code;
        at += take_character((span){text.data + at, text.size - at}, &code);
        bool is_word = code == '_' || is_letter_or_number(code);
        count += is_word && !in_word;
        in_word = is_word;
    }
    *out = value_integer(count);
    return HEARTH_OK;
}

static hearth_status run_truncate(rendering *r, const call *c, value *out)
{
    span text, end;
    int64_t length, leeway;
    size_t count, end_count;
    growing g = {0};
    TRY(value_to_text(r, &c->subject, &text));
    TRY(call_integer(r, c, 0, 255, &length));
    TRY(call_text(r, c, 2, "...", &end));
    TRY(call_integer(r, c, 3, 5, &leeway));
    const value whole = value_text(text), mark = value_text(end);
    TRY(value_length(r, &whole, &count));
    TRY(value_length(r, &mark, &end_count));
    *out = whole;
    if (length < (int64_t)end_count)
        return rendering_fail(r, HEARTH_INVALID, "truncate: expected length >= %zu", end_count);
    if ((int64_t)count - length <= leeway)
        return HEARTH_OK;
    text.size = characters_bytes(text, (size_t)length - end_count);
    if (!call_flag(c, 1, false)) { /* back to the last blank, which goes, too */
        const char *blank = memrchr(text.data, ' ', text.size);
        text.size = blank ? (size_t)(blank - text.data) : text.size;
    }
    TRY(growing_put(r, &g, text.data, text.size));
    TRY(growing_put(r, &g, end.data, end.size));
    *out = growing_value(&g);
    return HEARTH_OK;
}

/* Percent-encodes a text; '/' stays. */
static hearth_status run_urlencode(rendering *r, const call *c, value *out)
{
    growing g = {0};
    span text;
    if (!is_text(&c->subject) && !is_number(&c->subject))
        return rendering_fail(r, HEARTH_UNSUPPORTED, "urlencode: only texts and numbers are supported");
    TRY(value_to_text(r, &c->subject, &text));
    for (size_t i = 0; i < text.size; i++) {
        char mark = text.data[i], code[8];
        bool is_plain = (mark >= '0' && mark <= '9') || (mark >= 'a' && mark <= 'z') || (mark >= 'A' && mark <= 'Z') ||
                        (mark && strchr("_.-~/", mark));
        snprintf(code, sizeof code, is_plain ? "%c" : "%%%02X", (uint8_t)mark);
        TRY(growing_put_text(r, &g, code));
    }
    *out = growing_value(&g);
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ "%s of %d" % (a, b) */

/* Writes "%-8.3s": a text, cut to the precision and filled up to the width. */
static hearth_status put_text_field(rendering *r, growing *g, const char *format, bool is_repr, const value *v)
{
    growing text = {0};
    const char *at = format + 1, *dot = strchr(format, '.');
    TRY(is_repr ? value_put_repr(r, &text, v) : value_put(r, &text, v));
    span cut = growing_value(&text).as.text;
    if (dot)
        cut.size = characters_bytes(cut, (size_t)strtol(dot + 1, NULL, 10));
    at += strspn(at, "-+ 0#");
    value padded;
    TRY(pad_text(r, cut, strtol(at, NULL, 10), span_of(" "), memchr(format, '-', (size_t)(at - format)) ? 0 : 1,
                 &padded));
    return value_put(r, g, &padded);
}

/* Writes one field: `kind` is its letter, `format` all of it. */
static hearth_status put_field(rendering *r, growing *g, const char *format, char kind, const value *v)
{
    char digits[400];
    bool is_whole = strchr("dixX", kind) != NULL;
    if (kind == 's' || kind == 'r')
        return put_text_field(r, g, format, kind == 'r', v);
    if (!is_number(v) || (is_whole && !is_integer(v) && strchr("xX", kind)))
        return rendering_fail(r, HEARTH_UNSUPPORTED, "the format '%s' is not supported for a %s", format,
                              value_kind_name(v));
    int size;
    char full[24];
    if (is_whole) {
        double real = v->kind == VALUE_FLOAT ? v->as.real : 0;
        if (!(fabs(real) < 9e18))
            return rendering_fail(r, HEARTH_UNSUPPORTED, "an integer is larger than 64 bits hold");
        snprintf(full, sizeof full, "%.*sll%c", (int)strlen(format) - 1, format, kind);
        long long number = v->kind == VALUE_FLOAT ? (long long)real : value_as_integer(v);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* made of checked parts above */
        size = snprintf(digits, sizeof digits, full, number);
    } else
        size = snprintf(digits, sizeof digits, format, value_as_float(v));
#pragma GCC diagnostic pop
    if (size < 0 || (size_t)size >= sizeof digits)
        return rendering_fail(r, HEARTH_UNSUPPORTED, "the format '%s' makes too long a text", format);
    return growing_put(r, g, digits, (size_t)size);
}

/* Reads a field "%-08.3f" whose '%' is at text[*at]: flags, at most two digits of width and of precision, a letter.
 * false: it is another. */
static bool read_field(span text, size_t *at, char format[16])
{
    size_t size = 0, i = *at;
    format[size++] = text.data[i++];
    while (i < text.size && size < 5 && strchr("-+ 0#", text.data[i]) && text.data[i])
        format[size++] = text.data[i++];
    for (size_t n = 0; n < 2 && i < text.size && text.data[i] >= '0' && text.data[i] <= '9'; n++)
        format[size++] = text.data[i++];
    if (i < text.size && text.data[i] == '.') {
        format[size++] = text.data[i++];
        for (size_t n = 0; n < 2 && i < text.size && text.data[i] >= '0' && text.data[i] <= '9'; n++)
            format[size++] = text.data[i++];
    }
    if (i >= text.size || !text.data[i] || !strchr("sdirfFeEgGxX", text.data[i]))
        return false;
    format[size++] = text.data[i];
    format[size] = 0;
    *at = i;
    return true;
}

static hearth_status run_format(rendering *r, const call *c, value *out)
{
    growing g = {0};
    span text;
    size_t next = 0;
    TRY(value_to_text(r, &c->subject, &text));
    for (size_t at = 0; at < text.size; at++) {
        char format[16];
        if (text.data[at] != '%') {
            TRY(growing_put(r, &g, text.data + at, 1));
        } else if (at + 1 < text.size && text.data[at + 1] == '%') {
            TRY(growing_put(r, &g, text.data + at++, 1));
        } else {
            if (!read_field(text, &at, format))
                return rendering_fail(r, HEARTH_UNSUPPORTED, "format: a field is not supported");
            if (next >= c->all->count)
                return rendering_fail(r, HEARTH_INVALID, "not enough arguments for format string");
            TRY(put_field(r, &g, format, format[strlen(format) - 1], &c->all->items[next++]));
        }
    }
    if (next < c->all->count)
        return rendering_fail(r, HEARTH_INVALID, "not all arguments converted during string formatting");
    *out = growing_value(&g);
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ numbers */

/* Reads all of a text as a number, blanks around it apart; false: it is none. */
static bool read_number(span text, bool wants_integer, int base, value *out)
{
    char digits[64], *end;
    text = strip_text(text, NULL, true, true);
    if (text.size == 0 || text.size >= sizeof digits || memchr(text.data, 0, text.size))
        return false;
    memcpy(digits, text.data, text.size);
    digits[text.size] = 0;
    errno = 0;
    if (wants_integer)
        *out = value_integer(strtoll(digits, &end, base));
    else
        *out = value_float(strtod(digits, &end));
    return *end == 0 && !(wants_integer && errno == ERANGE) && !strpbrk(digits, wants_integer ? "" : "xX(pP");
}

static hearth_status run_int(rendering *r, const call *c, value *out)
{
    const value *v = &c->subject;
    int64_t base;
    value number = value_float(NAN);
    TRY(call_integer(r, c, 1, 10, &base));
    *out = c->parameters[0].kind == VALUE_ABSENT ? value_integer(0) : c->parameters[0];
    if (base != 10 && base != 16 && base != 8 && base != 2)
        return rendering_fail(r, HEARTH_UNSUPPORTED, "int: only the bases 2, 8, 10 and 16 are supported");
    if (is_integer(v) || (is_text(v) && read_number(v->as.text, true, (int)base, &number))) {
        *out = value_integer(value_as_integer(is_text(v) ? &number : v));
        return HEARTH_OK;
    }
    if (v->kind == VALUE_FLOAT)
        number = *v;
    else if (is_text(v))
        number = read_number(v->as.text, false, 0, &number) ? number : value_float(NAN);
    if (number.kind == VALUE_FLOAT && fabs(number.as.real) < 9e18)
        *out = value_integer((int64_t)number.as.real);
    return HEARTH_OK;
}

static hearth_status run_float(rendering *r, const call *c, value *out)
{
    (void)r;
    const value *v = &c->subject;
    *out = c->parameters[0].kind == VALUE_ABSENT ? value_float(0) : c->parameters[0];
    if (is_number(v))
        *out = value_float(value_as_float(v));
    value number;
    if (is_text(v) && read_number(v->as.text, false, 0, &number))
        *out = number;
    return HEARTH_OK;
}

static hearth_status need_number(rendering *r, const call *c)
{
    return is_number(&c->subject) ? HEARTH_OK
                                  : rendering_fail(r, HEARTH_INVALID, "%s: expected a number, got %s", c->name,
                                                   value_kind_name(&c->subject));
}

static hearth_status run_abs(rendering *r, const call *c, value *out)
{
    TRY(need_number(r, c));
    const value zero = value_integer(0);
    *out = c->subject;
    if (c->subject.kind == VALUE_FLOAT)
        *out = value_float(fabs(c->subject.as.real));
    else if (value_as_integer(&c->subject) < 0)
        return value_operate(r, OPERATOR_SUBTRACT, &zero, &c->subject, out);
    return HEARTH_OK;
}

static hearth_status run_round(rendering *r, const call *c, value *out)
{
    int64_t precision;
    span how;
    char digits[400];
    TRY(need_number(r, c));
    TRY(call_integer(r, c, 0, 0, &precision));
    TRY(call_text(r, c, 1, "common", &how));
    double number = value_as_float(&c->subject), scale = pow(10, (double)precision);
    bool up = span_equal(how, span_of("ceil")), down = span_equal(how, span_of("floor"));
    if (precision < 0 || precision > 20)
        return rendering_fail(r, HEARTH_UNSUPPORTED, "round: only 0 to 20 digits are supported");
    if (up || down)
        *out = value_float((up ? ceil(number * scale) : floor(number * scale)) / scale);
    else if (!span_equal(how, span_of("common")))
        return rendering_fail(r, HEARTH_INVALID, "method must be common, ceil or floor");
    else if (c->subject.kind != VALUE_FLOAT)
        *out = value_integer(value_as_integer(&c->subject));
    else { /* printf rounds the exact binary number, halves to even, as Python's round() */
        snprintf(digits, sizeof digits, "%.*f", (int)precision, number);
        *out = value_float(strtod(digits, NULL));
    }
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ the others */

static hearth_status run_default(rendering *r, const call *c, value *out)
{
    (void)r;
    bool replaces = is_missing(&c->subject) || (call_flag(c, 1, false) && !value_is_true(&c->subject));
    *out = !replaces ? c->subject : c->parameters[0].kind != VALUE_ABSENT ? c->parameters[0] : value_text(span_of(""));
    return HEARTH_OK;
}

static hearth_status run_attr(rendering *r, const call *c, value *out)
{
    span name;
    TRY(call_text(r, c, 0, "", &name));
    *out = value_undefined(span_of("attr: there is no such attribute"));
    if (is_missing(&c->subject) || method_find(&c->subject, name) || c->subject.kind == VALUE_LOOP)
        return value_attribute(r, &c->subject, name, out);
    return HEARTH_OK; /* of items it knows nothing */
}

static hearth_status read_separators(rendering *r, const value *v, json_style *style)
{
    if (v->kind == VALUE_ABSENT || v->kind == VALUE_NONE)
        return HEARTH_OK;
    if (!is_list(v) || v->as.list.count != 2 || !is_text(&v->as.list.items[0]) || !is_text(&v->as.list.items[1]))
        return rendering_fail(r, HEARTH_INVALID, "tojson: separators are two texts");
    style->item_separator = v->as.list.items[0].as.text;
    style->key_separator = v->as.list.items[1].as.text;
    return HEARTH_OK;
}

static hearth_status run_tojson(rendering *r, const call *c, value *out)
{
    const value *indent = &c->parameters[1];
    growing g = {0};
    value blanks;
    json_style style = {.is_ascii = call_flag(c, 0, false),
                        .is_sorted = call_flag(c, 3, false),
                        .has_lines = indent->kind != VALUE_ABSENT && indent->kind != VALUE_NONE};
    style.item_separator = span_of(style.has_lines ? "," : ", ");
    style.key_separator = span_of(": ");
    if (style.has_lines && is_text(indent))
        style.indent = indent->as.text;
    else if (style.has_lines) {
        int64_t width;
        TRY(call_integer(r, c, 1, 0, &width));
        TRY(pad_text(r, span_of(""), width, span_of(" "), 1, &blanks));
        style.indent = blanks.as.text;
    }
    TRY(read_separators(r, &c->parameters[2], &style));
    TRY(value_put_json(r, &g, &c->subject, &style));
    *out = growing_value(&g);
    return HEARTH_OK;
}

static const function rows[] = {
    {"abs", "", run_abs},
    {"attr", "name", run_attr},
    {"capitalize", "", run_method},
    {"center", "width?", run_center},
    {"d", "default_value? boolean?", run_default},
    {"default", "default_value? boolean?", run_default},
    {"e", "", run_escape},
    {"escape", "", run_escape},
    {"float", "default?", run_float},
    {"format", "*", run_format},
    {"indent", "width? first? blank?", run_indent},
    {"int", "default? base?", run_int},
    {"lower", "", run_method},
    {"replace", "old new count?", run_replace},
    {"round", "precision? method?", run_round},
    {"safe", "", run_safe},
    {"string", "", run_string},
    {"title", "", run_title},
    {"tojson", "ensure_ascii? indent? separators? sort_keys?", run_tojson},
    {"trim", "chars?", run_trim},
    {"truncate", "length? killwords? end? leeway?", run_truncate},
    {"upper", "", run_method},
    {"urlencode", "", run_urlencode},
    {"wordcount", "", run_wordcount},
};

const function *filter_at(size_t index)
{
    const size_t count = sizeof rows / sizeof *rows;
    if (index < count)
        return &rows[index];
    const function *f = list_filters + (index - count);
    return index - count < list_filter_count ? f : NULL;
}

const function *filter_find(span name)
{
    const function *f;
    for (size_t i = 0; (f = filter_at(i)); i++)
        if (span_equal(name, span_of(f->name)))
            return f;
    return NULL;
}
