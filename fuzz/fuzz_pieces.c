/* fuzz_pieces.c - RWKV's list of pieces, and behind a zero byte a text.
 *
 * Covers: src/text/escapes.c
 * Covers: src/text/longest.c
 * Covers: src/text/rwkv_vocabulary.c
 * Covers: src/text/sorted_pieces.c
 *
 * Whatever they are: no fault, and ids within the vocabulary, whose text is valid UTF-8. */
#include "../src/text/rwkv_vocabulary.h"

#include "tokenize_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    span rest = {(const char *)data, size}, list = take_part(&rest);
    checkpoint *c;
    hearth_error error;
    if (checkpoint_create(&c, "fuzz", NULL) != HEARTH_OK)
        abort();
    if (rwkv_vocabulary_parse(c, list, "fuzz", &error) == HEARTH_OK)
        tokenize_text(c, rest);
    checkpoint_close(c);
    return 0;
}
