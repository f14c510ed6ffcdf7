/* text_methods.c - the methods of texts: Python's, which count characters, not bytes. */
#include "methods.h"

#include "characters.h"

#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

/* ------------------------------------------------------------------ parts of a text */

/* Returns the place of a part at or behind `from`; the text's size where there is none. */
static size_t find_part(span text, span part, size_t from)
{
    const char *found = from <= text.size ? memmem(text.data + from, text.size - from, part.data, part.size) : NULL;
    return found ? (size_t)(found - text.data) : text.size;
}

/* Counts the steps of find_last_part, which compares at every place. */
static hearth_status spend_on_search(rendering *r, span text, span part)
{
    return rendering_spend(r, text.size / BYTES_PER_STEP * (1 + part.size / BYTES_PER_STEP));
}

/* Returns where the last occurrence of a part that ends at or before `end` begins; SIZE_MAX where there is none. */
static size_t find_last_part(span text, span part, size_t end)
{
    for (size_t at = end >= part.size ? end - part.size + 1 : 0; at-- > 0;)
        if (memcmp(text.data + at, part.data, part.size) == 0)
            return at;
    return SIZE_MAX;
}

static bool begins_with(span text, span part)
{
    return part.size <= text.size && memcmp(text.data, part.data, part.size) == 0;
}

static bool ends_with(span text, span part)
{
    return part.size <= text.size && memcmp(text.data + text.size - part.size, part.data, part.size) == 0;
}

static value part_of(span text, size_t from, size_t to)
{
    return value_text((span){text.data + from, to - from});
}

/* ------------------------------------------------------------------ strip */

/* Returns whether a character is one of those to take away; NULL: of white space. */
static bool is_among(int32_t code, const span *set)
{
    int32_t other;
    if (!set)
        return is_white_character(code);
    for (size_t at = 0; at < set->size;) {
        at += take_character((span){set->data + at, set->size - at}, &other);
        if (other == code)
            return true;
    }
    return false;
}

span strip_text(span text, const span *set, bool left, bool right)
{
    int32_t code;
    while (left && text.size > 0) {
        size_t length = take_character(text, &code);
        if (!is_among(code, set))
            break;
        text = (span){text.data + length, text.size - length};
    }
    while (right && text.size > 0) {
        size_t at = text.size - 1;
        while (((uint8_t)text.data[at] & 0xc0) == 0x80)
            at--;
        take_character((span){text.data + at, text.size - at}, &code);
        if (!is_among(code, set))
            break;
        text.size = at;
    }
    return text;
}

static hearth_status strip(rendering *r, const call *c, bool left, bool right, value *out)
{
    span set;
    bool has_set = c->parameters[0].kind != VALUE_ABSENT && c->parameters[0].kind != VALUE_NONE;
    TRY(call_text(r, c, 0, NULL, &set));
    TRY(rendering_spend(r, has_set ? c->subject.as.text.size / BYTES_PER_STEP * (1 + set.size) : 0));
    *out = value_text(strip_text(c->subject.as.text, has_set ? &set : NULL, left, right));
    return HEARTH_OK;
}

static hearth_status run_strip(rendering *r, const call *c, value *out)
{
    return strip(r, c, true, true, out);
}

static hearth_status run_lstrip(rendering *r, const call *c, value *out)
{
    return strip(r, c, true, false, out);
}

static hearth_status run_rstrip(rendering *r, const call *c, value *out)
{
    return strip(r, c, false, true, out);
}

/* ------------------------------------------------------------------ split and join */

/* Cuts at white space: the rest of the text, once `most` parts are cut off, has no white space at its beginning. */
static hearth_status split_at_white(rendering *r, span text, int64_t most, growing_list *out)
{
    for (;;) {
        size_t skipped = white_prefix(text), end = 0;
        int32_t code = 0;
        text = (span){text.data + skipped, text.size - skipped};
        if (text.size == 0)
            return HEARTH_OK;
        if (most == 0)
            return growing_add(r, out, value_text(text));
        while (end < text.size) {
            size_t length = take_character((span){text.data + end, text.size - end}, &code);
            if (is_white_character(code))
                break;
            end += length;
        }
        TRY(growing_add(r, out, part_of(text, 0, end)));
        text = (span){text.data + end, text.size - end};
        most -= most > 0;
    }
}

static hearth_status run_split(rendering *r, const call *c, value *out)
{
    span text = c->subject.as.text, separator;
    int64_t most;
    growing_list parts = {0};
    TRY(call_text(r, c, 0, NULL, &separator));
    TRY(call_integer(r, c, 1, -1, &most));
    if (c->parameters[0].kind == VALUE_ABSENT || c->parameters[0].kind == VALUE_NONE) {
        TRY(split_at_white(r, text, most, &parts));
        *out = growing_list_value(&parts);
        return HEARTH_OK;
    }
    if (separator.size == 0)
        return rendering_fail(r, HEARTH_INVALID, "empty separator");
    size_t from = 0;
    for (size_t at; most != 0 && (at = find_part(text, separator, from)) < text.size; most -= most > 0) {
        TRY(growing_add(r, &parts, part_of(text, from, at)));
        from = at + separator.size;
    }
    TRY(growing_add(r, &parts, part_of(text, from, text.size)));
    *out = growing_list_value(&parts);
    return HEARTH_OK;
}

static void reverse_values(value *items, size_t count)
{
    for (size_t i = 0; i < count / 2; i++) {
        value swapped = items[i];
        items[i] = items[count - 1 - i];
        items[count - 1 - i] = swapped;
    }
}

static hearth_status run_rsplit(rendering *r, const call *c, value *out)
{
    span text = c->subject.as.text, separator;
    int64_t most;
    growing_list parts = {0};
    TRY(call_text(r, c, 0, NULL, &separator));
    TRY(call_integer(r, c, 1, -1, &most));
    if (most < 0)
        return run_split(r, c, out);
    if (separator.size == 0)
        return rendering_fail(r, HEARTH_UNSUPPORTED, "rsplit: a limit needs a separator");
    TRY(spend_on_search(r, text, separator));
    size_t end = text.size;
    for (size_t at; most > 0 && (at = find_last_part(text, separator, end)) != SIZE_MAX; most--) {
        TRY(growing_add(r, &parts, part_of(text, at + separator.size, end)));
        end = at;
    }
    TRY(growing_add(r, &parts, part_of(text, 0, end)));
    reverse_values(parts.items, parts.count);
    *out = growing_list_value(&parts);
    return HEARTH_OK;
}

bool next_line(span *rest, span *line, span *line_break)
{
    size_t end = 0, length = 0;
    int32_t code = 0;
    if (rest->size == 0)
        return false;
    for (; end < rest->size; end += length) {
        length = take_character((span){rest->data + end, rest->size - end}, &code);
        if ((code >= '\n' && code <= '\r') || (code >= 0x1c && code <= 0x1e) || code == 0x85 || code == 0x2028 ||
            code == 0x2029)
            break;
        code = 0;
    }
    *line = (span){rest->data, end};
    length = code ? length : 0;
    if (code == '\r' && end + 1 < rest->size && rest->data[end + 1] == '\n')
        length = 2;
    *line_break = (span){rest->data + end, length};
    *rest = (span){rest->data + end + length, rest->size - end - length};
    return true;
}

static hearth_status run_splitlines(rendering *r, const call *c, value *out)
{
    growing_list lines = {0};
    span rest = c->subject.as.text, line, line_break;
    while (next_line(&rest, &line, &line_break))
        TRY(growing_add(r, &lines, part_of(line, 0, line.size + (call_flag(c, 0, false) ? line_break.size : 0))));
    *out = growing_list_value(&lines);
    return HEARTH_OK;
}

static hearth_status partition(rendering *r, const call *c, bool from_right, value *out)
{
    span text = c->subject.as.text, separator;
    TRY(call_text(r, c, 0, "", &separator));
    if (separator.size == 0)
        return rendering_fail(r, HEARTH_INVALID, "empty separator");
    TRY(spend_on_search(r, text, separator));
    size_t at = from_right ? find_last_part(text, separator, text.size) : find_part(text, separator, 0);
    bool found = at < text.size;
    value *parts = rendering_claim(r, 3, sizeof *parts);
    if (!parts)
        return HEARTH_NO_MEMORY;
    parts[0] = found ? part_of(text, 0, at) : from_right ? value_text(span_of("")) : value_text(text);
    parts[1] = found ? value_text(separator) : value_text(span_of(""));
    parts[2] = found        ? part_of(text, at + separator.size, text.size)
               : from_right ? value_text(text)
                            : value_text(span_of(""));
    *out = (value){.kind = VALUE_TUPLE, .as.list = {parts, 3}};
    return HEARTH_OK;
}

static hearth_status run_partition(rendering *r, const call *c, value *out)
{
    return partition(r, c, false, out);
}

static hearth_status run_rpartition(rendering *r, const call *c, value *out)
{
    return partition(r, c, true, out);
}

static hearth_status run_join(rendering *r, const call *c, value *out)
{
    value_list items;
    growing text = {0};
    TRY(value_items(r, &c->parameters[0], &items));
    for (size_t i = 0; i < items.count; i++) {
        if (!is_text(&items.items[i]))
            return rendering_fail(r, HEARTH_INVALID, "sequence item %zu: expected str instance, %s found", i,
                                  value_kind_name(&items.items[i]));
        if (i > 0)
            TRY(growing_put(r, &text, c->subject.as.text.data, c->subject.as.text.size));
        TRY(value_put(r, &text, &items.items[i]));
    }
    *out = growing_value(&text);
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ search and replace */

hearth_status replace_text(rendering *r, span text, span old, span new, int64_t most, value *out)
{
    growing g = {0};
    size_t from = 0, at = 0;
    while (most != 0 && at <= text.size) {
        size_t found = find_part(text, old, at);
        bool is_end = found == text.size && (old.size > 0 || at > text.size);
        if (is_end)
            break;
        TRY(growing_put(r, &g, text.data + from, found - from));
        TRY(growing_put(r, &g, new.data, new.size));
        from = found + old.size;
        at = old.size > 0        ? from
             : found < text.size ? found + utf8_length(text.data + found, text.size - found)
                                 : found + 1;
        most -= most > 0;
    }
    TRY(growing_put(r, &g, text.data + from, text.size - from));
    *out = growing_value(&g);
    return HEARTH_OK;
}

static hearth_status run_replace(rendering *r, const call *c, value *out)
{
    span old, new;
    int64_t most;
    TRY(call_text(r, c, 0, "", &old));
    TRY(call_text(r, c, 1, "", &new));
    TRY(call_integer(r, c, 2, -1, &most));
    return replace_text(r, c->subject.as.text, old, new, most, out);
}

/* Tests the text against one part, or a tuple of them. */
static hearth_status test_end(rendering *r, const call *c, bool (*test)(span text, span part), value *out)
{
    const value *wanted = &c->parameters[0];
    value_list parts = {wanted, 1};
    bool holds = false;
    if (c->parameters[1].kind != VALUE_ABSENT)
        return rendering_fail(r, HEARTH_UNSUPPORTED, "%s: a start is not supported", c->name);
    if (wanted->kind == VALUE_TUPLE)
        parts = wanted->as.list;
    for (size_t i = 0; i < parts.count && !holds; i++) {
        if (!is_text(&parts.items[i]))
            return rendering_fail(r, HEARTH_INVALID, "%s: the first argument must be str or a tuple of str, not %s",
                                  c->name, value_kind_name(&parts.items[i]));
        holds = test(c->subject.as.text, parts.items[i].as.text);
    }
    *out = value_bool(holds);
    return HEARTH_OK;
}

static hearth_status run_startswith(rendering *r, const call *c, value *out)
{
    return test_end(r, c, begins_with, out);
}

static hearth_status run_endswith(rendering *r, const call *c, value *out)
{
    return test_end(r, c, ends_with, out);
}

static hearth_status remove_end(rendering *r, const call *c, bool prefix, value *out)
{
    span text = c->subject.as.text, part;
    TRY(call_text(r, c, 0, "", &part));
    *out = value_text(text);
    if (prefix && begins_with(text, part))
        *out = part_of(text, part.size, text.size);
    else if (!prefix && ends_with(text, part))
        *out = part_of(text, 0, text.size - part.size);
    return HEARTH_OK;
}

static hearth_status run_removeprefix(rendering *r, const call *c, value *out)
{
    return remove_end(r, c, true, out);
}

static hearth_status run_removesuffix(rendering *r, const call *c, value *out)
{
    return remove_end(r, c, false, out);
}

/* Returns the character at which a byte lies. */
static int64_t character_index(span text, size_t at)
{
    int64_t count = 0;
    for (size_t i = 0; i < at; i++)
        count += ((uint8_t)text.data[i] & 0xc0) != 0x80;
    return count;
}

static hearth_status find(rendering *r, const call *c, bool from_right, value *out)
{
    span text = c->subject.as.text, part;
    TRY(call_text(r, c, 0, "", &part));
    TRY(spend_on_search(r, text, part));
    size_t at = from_right ? find_last_part(text, part, text.size) : find_part(text, part, 0);
    bool found = at < text.size || (at == text.size && part.size == 0);
    *out = value_integer(found ? character_index(text, at) : -1);
    return HEARTH_OK;
}

static hearth_status run_find(rendering *r, const call *c, value *out)
{
    return find(r, c, false, out);
}

static hearth_status run_rfind(rendering *r, const call *c, value *out)
{
    return find(r, c, true, out);
}

static hearth_status run_index(rendering *r, const call *c, value *out)
{
    TRY(find(r, c, false, out));
    return out->as.integer < 0 ? rendering_fail(r, HEARTH_INVALID, "substring not found") : HEARTH_OK;
}

static hearth_status run_count(rendering *r, const call *c, value *out)
{
    span text = c->subject.as.text, part;
    int64_t count = 0;
    TRY(call_text(r, c, 0, "", &part));
    if (part.size == 0)
        count = character_index(text, text.size) + 1;
    for (size_t at = 0; part.size > 0 && (at = find_part(text, part, at)) < text.size; at += part.size)
        count++;
    *out = value_integer(count);
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ upper and lower case */

typedef int32_t change(int32_t code, bool begins_word);

/* Changes character by character; a word begins behind everything that has no case. Characters whose other case is
 * several (U+00DF) stay, unlike in Python. */
static hearth_status change_case(rendering *r, span text, change *to, value *out)
{
    growing g = {0};
    bool begins_word = true;
    for (size_t at = 0; at < text.size;) {
        int32_t code;
        char changed[4];
        at += take_character((span){text.data + at, text.size - at}, &code);
        TRY(growing_put(r, &g, changed, put_character(changed, to(code, begins_word))));
        begins_word = !utf8proc_isupper(code) && !utf8proc_islower(code);
    }
    *out = growing_value(&g);
    return HEARTH_OK;
}

static int32_t to_upper(int32_t code, bool begins_word)
{
    (void)begins_word;
    return code == 0xdf ? code : utf8proc_toupper(code);
}

static int32_t to_lower(int32_t code, bool begins_word)
{
    (void)begins_word;
    return utf8proc_tolower(code);
}

static int32_t to_title(int32_t code, bool begins_word)
{
    return begins_word ? utf8proc_totitle(code) : utf8proc_tolower(code);
}

static int32_t to_other(int32_t code, bool begins_word)
{
    (void)begins_word;
    return utf8proc_isupper(code) ? utf8proc_tolower(code) : to_upper(code, false);
}

static hearth_status run_upper(rendering *r, const call *c, value *out)
{
    return change_case(r, c->subject.as.text, to_upper, out);
}

static hearth_status run_lower(rendering *r, const call *c, value *out)
{
    return change_case(r, c->subject.as.text, to_lower, out);
}

static hearth_status run_title(rendering *r, const call *c, value *out)
{
    return change_case(r, c->subject.as.text, to_title, out);
}

static hearth_status run_swapcase(rendering *r, const call *c, value *out)
{
    return change_case(r, c->subject.as.text, to_other, out);
}

static hearth_status run_capitalize(rendering *r, const call *c, value *out)
{
    span text = c->subject.as.text;
    size_t first = characters_bytes(text, 1);
    growing g = {0};
    value part;
    TRY(change_case(r, (span){text.data, first}, to_title, &part));
    TRY(value_put(r, &g, &part));
    TRY(change_case(r, (span){text.data + first, text.size - first}, to_lower, &part));
    TRY(value_put(r, &g, &part));
    *out = growing_value(&g);
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ kinds of characters */

static bool is_letter(int32_t code)
{
    utf8proc_category_t category = utf8proc_category(code);
    return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

static bool is_decimal(int32_t code)
{
    return utf8proc_category(code) == UTF8PROC_CATEGORY_ND;
}

bool is_letter_or_number(int32_t code)
{
    utf8proc_category_t category = utf8proc_category(code);
    return is_letter(code) || (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO);
}

static hearth_status test_all(rendering *r, const call *c, bool (*test)(int32_t code), value *out)
{
    span text = c->subject.as.text;
    TRY(rendering_spend(r, text.size / CHARACTERS_PER_STEP));
    bool holds = text.size > 0;
    for (size_t at = 0; at < text.size && holds;) {
        int32_t code;
        at += take_character((span){text.data + at, text.size - at}, &code);
        holds = test(code);
    }
    *out = value_bool(holds);
    return HEARTH_OK;
}

static hearth_status run_isalpha(rendering *r, const call *c, value *out)
{
    return test_all(r, c, is_letter, out);
}

static hearth_status run_isdigit(rendering *r, const call *c, value *out)
{
    return test_all(r, c, is_decimal, out);
}

static hearth_status run_isalnum(rendering *r, const call *c, value *out)
{
    return test_all(r, c, is_letter_or_number, out);
}

static hearth_status run_isspace(rendering *r, const call *c, value *out)
{
    return test_all(r, c, is_white_character, out);
}

/* True if there are letters of the one case and none of the other. */
static hearth_status test_one_case(rendering *r, const call *c, bool upper, value *out)
{
    span text = c->subject.as.text;
    TRY(rendering_spend(r, text.size / CHARACTERS_PER_STEP));
    bool has_wanted = false, has_other = false;
    for (size_t at = 0; at < text.size;) {
        int32_t code;
        at += take_character((span){text.data + at, text.size - at}, &code);
        has_wanted = has_wanted || (upper ? utf8proc_isupper(code) : utf8proc_islower(code));
        has_other = has_other || (upper ? utf8proc_islower(code) : utf8proc_isupper(code));
    }
    *out = value_bool(has_wanted && !has_other);
    return HEARTH_OK;
}

static hearth_status run_isupper(rendering *r, const call *c, value *out)
{
    return test_one_case(r, c, true, out);
}

static hearth_status run_islower(rendering *r, const call *c, value *out)
{
    return test_one_case(r, c, false, out);
}

/* ------------------------------------------------------------------ to a width */

hearth_status pad_text(rendering *r, span text, int64_t width, span fill, double share_left, value *out)
{
    growing g = {0};
    int64_t missing = width - character_index(text, text.size);
    int64_t left = missing > 0 ? (int64_t)((double)missing * share_left) : 0;
    if (share_left == 0.5) /* as Python's center: an odd blank goes left where the width is odd */
        left = missing > 0 ? missing / 2 + (missing & width & 1) : 0;
    if (character_index(fill, fill.size) != 1)
        return rendering_fail(r, HEARTH_INVALID, "The fill character must be exactly one character long");
    TRY(rendering_spend(r, missing > 0 ? (size_t)missing : 0));
    for (int64_t i = 0; i < left; i++)
        TRY(growing_put(r, &g, fill.data, fill.size));
    TRY(growing_put(r, &g, text.data, text.size));
    for (int64_t i = left; i < missing; i++)
        TRY(growing_put(r, &g, fill.data, fill.size));
    *out = growing_value(&g);
    return HEARTH_OK;
}

static hearth_status pad(rendering *r, const call *c, double share_left, value *out)
{
    int64_t width;
    span fill;
    TRY(call_integer(r, c, 0, 0, &width));
    TRY(call_text(r, c, 1, " ", &fill));
    return pad_text(r, c->subject.as.text, width, fill, share_left, out);
}

static hearth_status run_ljust(rendering *r, const call *c, value *out)
{
    return pad(r, c, 0, out);
}

static hearth_status run_rjust(rendering *r, const call *c, value *out)
{
    return pad(r, c, 1, out);
}

static hearth_status run_center(rendering *r, const call *c, value *out)
{
    return pad(r, c, 0.5, out);
}

/* Zeros go behind a sign. */
static hearth_status run_zfill(rendering *r, const call *c, value *out)
{
    span text = c->subject.as.text;
    int64_t width;
    size_t sign = text.size > 0 && (text.data[0] == '+' || text.data[0] == '-');
    growing g = {0};
    value digits;
    TRY(call_integer(r, c, 0, 0, &width));
    TRY(pad_text(r, (span){text.data + sign, text.size - sign}, width - (int64_t)sign, span_of("0"), 1, &digits));
    TRY(growing_put(r, &g, text.data, sign));
    TRY(value_put(r, &g, &digits));
    *out = growing_value(&g);
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ format */

/* Finds the value of a field "{}", "{0}" or "{name}". */
static hearth_status format_field(rendering *r, const call *c, span field, size_t *next, value *out)
{
    const arguments *a = c->all;
    size_t index = 0;
    bool is_number = field.size > 0 && field.size < 4;
    for (size_t i = 0; i < field.size && is_number; i++) {
        is_number = field.data[i] >= '0' && field.data[i] <= '9';
        index = index * 10 + (size_t)(field.data[i] - '0');
    }
    if (field.size == 0)
        index = (*next)++;
    if ((field.size == 0 || is_number) && index < a->count) {
        *out = a->items[index];
        return HEARTH_OK;
    }
    for (size_t i = 0; i < a->named_count; i++)
        if (span_equal(field, a->names[i])) {
            *out = a->named[i];
            return HEARTH_OK;
        }
    return rendering_fail(r, HEARTH_UNSUPPORTED, "format: the field '{%.*s}' is not supported, or has no value",
                          (int)field.size, field.data);
}

static hearth_status run_format(rendering *r, const call *c, value *out)
{
    span text = c->subject.as.text;
    growing g = {0};
    size_t next = 0;
    for (size_t at = 0; at < text.size; at++) {
        char mark = text.data[at];
        bool is_double = at + 1 < text.size && text.data[at + 1] == mark;
        if ((mark == '{' || mark == '}') && is_double) {
            TRY(growing_put(r, &g, &mark, 1));
            at++;
        } else if (mark == '{') {
            value field;
            size_t end = find_part(text, span_of("}"), at);
            if (end == text.size)
                return rendering_fail(r, HEARTH_INVALID, "expected '}' before end of string");
            TRY(format_field(r, c, (span){text.data + at + 1, end - at - 1}, &next, &field));
            TRY(value_put(r, &g, &field));
            at = end;
        } else if (mark == '}')
            return rendering_fail(r, HEARTH_INVALID, "Single '}' encountered in format string");
        else
            TRY(growing_put(r, &g, &mark, 1));
    }
    *out = growing_value(&g);
    return HEARTH_OK;
}

const function text_methods[] = {
    {"strip", "chars?", run_strip},
    {"lstrip", "chars?", run_lstrip},
    {"rstrip", "chars?", run_rstrip},
    {"split", "sep? maxsplit?", run_split},
    {"rsplit", "sep? maxsplit?", run_rsplit},
    {"splitlines", "keepends?", run_splitlines},
    {"partition", "sep", run_partition},
    {"rpartition", "sep", run_rpartition},
    {"join", "iterable", run_join},
    {"replace", "old new count?", run_replace},
    {"startswith", "prefix start?", run_startswith},
    {"endswith", "suffix start?", run_endswith},
    {"removeprefix", "prefix", run_removeprefix},
    {"removesuffix", "suffix", run_removesuffix},
    {"find", "sub", run_find},
    {"rfind", "sub", run_rfind},
    {"index", "sub", run_index},
    {"count", "sub", run_count},
    {"upper", "", run_upper},
    {"lower", "", run_lower},
    {"title", "", run_title},
    {"capitalize", "", run_capitalize},
    {"swapcase", "", run_swapcase},
    {"isalpha", "", run_isalpha},
    {"isdigit", "", run_isdigit},
    {"isdecimal", "", run_isdigit},
    {"isalnum", "", run_isalnum},
    {"isspace", "", run_isspace},
    {"isupper", "", run_isupper},
    {"islower", "", run_islower},
    {"ljust", "width fillchar?", run_ljust},
    {"rjust", "width fillchar?", run_rjust},
    {"center", "width fillchar?", run_center},
    {"zfill", "width", run_zfill},
    {"format", "*", run_format},
    {NULL, NULL, NULL},
};
