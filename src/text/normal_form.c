/* normal_form.c - normal forms by utf8proc. */
#include "normal_form.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static const struct {
    const char *name;
    utf8proc_option_t options;
} forms[FORM_COUNT] = {
    [FORM_NFC] = {"nfc", UTF8PROC_STABLE | UTF8PROC_COMPOSE},
    [FORM_NFD] = {"nfd", UTF8PROC_STABLE | UTF8PROC_DECOMPOSE},
    [FORM_NFKC] = {"nfkc", UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT},
    [FORM_NFKD] = {"nfkd", UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT},
};

bool normal_form_find(normal_form *out, span name)
{
    for (normal_form f = FORM_NONE + 1; f < FORM_COUNT; f++)
        if (span_equal(name, span_of(forms[f].name))) {
            *out = f;
            return true;
        }
    return false;
}

/* What one look at a text finds. */
typedef struct scan {
    size_t size;   /* bytes up to the first that are not UTF-8 */
    bool is_ascii; /* all of them: then every form is the text itself */
    bool too_many; /* combining marks in a row                  */
} scan;

static scan look(span text)
{
    scan s = {0, true, false};
    size_t marks = 0;
    while (s.size < text.size) {
        if ((uint8_t)text.data[s.size] < 0x80) {
            marks = 0;
            s.size++;
            continue;
        }
        size_t length = utf8_length(text.data + s.size, text.size - s.size);
        if (length == 0)
            break;
        utf8proc_int32_t code;
        utf8proc_iterate((const utf8proc_uint8_t *)text.data + s.size, (utf8proc_ssize_t)length, &code);
        marks = utf8proc_get_property(code)->combining_class ? marks + 1 : 0;
        s.too_many = s.too_many || marks > MARKS_LIMIT;
        s.is_ascii = false;
        s.size += length;
    }
    return s;
}

/* Writes a valid text. */
static hearth_status write_valid(normal_form form, span text, buffer *out, hearth_error *error)
{
    utf8proc_uint8_t *formed;
    utf8proc_ssize_t size =
        utf8proc_map((const utf8proc_uint8_t *)text.data, (utf8proc_ssize_t)text.size, &formed, forms[form].options);
    if (size < 0)
        return fail(error, HEARTH_NO_MEMORY, "text: normal form: %s", utf8proc_errmsg(size));
    bool ok = buffer_put(out, formed, (size_t)size);
    free(formed);
    return ok ? HEARTH_OK : fail_memory(error, "text", text.size);
}

hearth_status normal_form_write(normal_form form, span text, buffer *out, hearth_error *error)
{
    out->size = 0;
    while (text.size > 0) {
        scan s = look(text);
        if (s.too_many)
            return fail(error, HEARTH_UNSUPPORTED, "text: has more than %d combining marks in a row", MARKS_LIMIT);
        if (s.size > 0 && s.is_ascii && !buffer_put(out, text.data, s.size))
            return fail_memory(error, "text", text.size);
        if (s.size > 0 && !s.is_ascii)
            TRY(write_valid(form, (span){text.data, s.size}, out, error));
        size_t skip = s.size;
        while (skip < text.size && utf8_length(text.data + skip, text.size - skip) == 0)
            skip++;
        if (skip > s.size && !buffer_put(out, text.data + s.size, skip - s.size))
            return fail_memory(error, "text", text.size);
        text = (span){text.data + skip, text.size - skip};
    }
    return HEARTH_OK;
}
