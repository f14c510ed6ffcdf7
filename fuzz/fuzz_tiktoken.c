/* fuzz_tiktoken.c - tiktoken's list of pieces, and behind a zero byte a text.
 *
 * Covers: src/text/tiktoken.c
 *
 * The list gets the lines of all bytes first, without which there is no vocabulary. Whatever follows: no fault, and ids within the
 * vocabulary, whose text is valid UTF-8. */
#include "../src/base/text.h"
#include "../src/text/tiktoken.h"

#include "tokenize_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Adds the line of a byte in base64. */
static bool add_byte(buffer *list, unsigned byte)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    return buffer_print(list, "%c%c== %u\n", alphabet[byte >> 2], alphabet[byte << 4 & 63], byte);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    span rest = {(const char *)data, size}, given = take_part(&rest);
    buffer list = {0};
    checkpoint *c;
    hearth_error error;
    bool room = checkpoint_create(&c, "fuzz", NULL) == HEARTH_OK;
    for (unsigned byte = 0; room && byte < 256; byte++)
        room = add_byte(&list, byte);
    if (!room || !buffer_put(&list, given.data, given.size))
        abort();
    if (tiktoken_parse(c, (span){list.data, list.size}, "fuzz", &error) == HEARTH_OK)
        tokenize_text(c, rest);
    checkpoint_close(c);
    buffer_free(&list);
    return 0;
}
