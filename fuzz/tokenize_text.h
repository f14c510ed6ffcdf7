/* tokenize_text.h - what the fuzz targets of vocabularies do with one: make a tokenizer, encode a text, and back. */
#ifndef FUZZ_TOKENIZE_TEXT_H
#define FUZZ_TOKENIZE_TEXT_H

#include "../src/text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

/* Cuts off what comes before the next zero byte. */
static inline span take_part(span *rest)
{
    const char *end = rest->size > 0 ? memchr(rest->data, 0, rest->size) : NULL;
    span part = {rest->data, end ? (size_t)(end - rest->data) : rest->size};
    size_t used = part.size + (end ? 1 : 0);
    *rest = (span){rest->data + used, rest->size - used};
    return part;
}

static inline void check_back(const tokenizer *t, const int32_t *ids, size_t count)
{
    detokenizer *d;
    if (detokenizer_create(&d, t, HEARTH_DETOKENIZE_CONTROL, NULL) != HEARTH_OK)
        abort();
    for (size_t i = 0; i < count; i++) {
        span text;
        if (ids[i] < 0 || (uint32_t)ids[i] >= tokenizer_size(t) ||
            detokenizer_push(d, ids[i], &text, NULL) != HEARTH_OK || !utf8_is_valid(text.data, text.size))
            abort();
    }
    detokenizer_destroy(d);
}

static inline void tokenize_text(const checkpoint *c, span text)
{
    tokenizer *t;
    hearth_error error;
    int32_t *ids;
    size_t count;
    if (tokenizer_create(&t, c, &error) != HEARTH_OK || !t)
        return;
    if (tokenizer_encode(t, text, HEARTH_TEXT_SPECIAL | HEARTH_TEXT_PARSE_CONTROL, &ids, &count, &error) == HEARTH_OK) {
        check_back(t, ids, count);
        mem_free(ids);
    }
    tokenizer_destroy(t);
}

#endif
