/* blanks.c - blanks as the pieces of SentencePiece's vocabularies spell them. */
#include "kind.h"

#include <string.h>

#define BLANK "\xe2\x96\x81" /* U+2581 */
enum { BLANK_BYTES = 3 };

/* Returns whether a blank is put in front of a fragment, which is not empty. */
static bool has_prefix(const vocabulary *v, span text, bool at_begin)
{
    bool begins = text.data[0] == ' ' || (text.size >= BLANK_BYTES && memcmp(text.data, BLANK, BLANK_BYTES) == 0);
    return v->adds_space_prefix && (at_begin || !v->prefix_once) && !(begins && v->prefix_unless_blank);
}

/* Extra blanks are removed as by SentencePiece's normaliser: at the front and in the middle only U+0020 counts as a
 * blank, at the end U+2581 of the input counts too. */
bool blanks_write(const vocabulary *v, span text, encoding *e)
{
    buffer *out = &e->text;
    out->size = 0;
    if (v->removes_extra_blanks)
        while (text.size > 0 && text.data[0] == ' ')
            text = (span){text.data + 1, text.size - 1};
    if (text.size == 0)
        return true;
    if (has_prefix(v, text, e->at_begin) && !buffer_put(out, BLANK, BLANK_BYTES))
        return false;
    for (size_t i = 0; i < text.size;) {
        const char *blank = memchr(text.data + i, ' ', text.size - i);
        size_t end = blank ? (size_t)(blank - text.data) : text.size;
        if (!buffer_put(out, text.data + i, end - i) || (blank && !buffer_put(out, BLANK, BLANK_BYTES)))
            return false;
        i = end + 1;
        while (v->removes_extra_blanks && i < text.size && text.data[i] == ' ')
            i++;
    }
    if (v->removes_extra_blanks)
        while (out->size >= BLANK_BYTES && memcmp(out->data + out->size - BLANK_BYTES, BLANK, BLANK_BYTES) == 0)
            out->size -= BLANK_BYTES;
    return true;
}
