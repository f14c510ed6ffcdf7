/* documents.c - splits a text at its separator. */
#include "documents.h"

#include <string.h>

static span strip(span text)
{
    while (text.size > 0 && is_white(text.data[0])) {
        text.data++;
        text.size--;
    }
    while (text.size > 0 && is_white(text.data[text.size - 1]))
        text.size--;
    return text;
}

documents documents_of(span text, const char *separator, uint32_t limit)
{
    return (documents){text, separator, 0, limit ? limit : UINT32_MAX};
}

bool documents_next(documents *d, span *out)
{
    if (d->left == 0 || d->at > d->text.size)
        return false;
    const char *from = d->text.data + d->at;
    size_t mark = strlen(d->separator), rest = d->text.size - d->at;
    const char *end = memmem(from, rest, d->separator, mark);
    size_t size = end ? (size_t)(end - from) : rest;
    *out = strip((span){from, size});
    d->at = end ? d->at + size + mark : d->text.size + 1;
    d->left--;
    return true;
}
