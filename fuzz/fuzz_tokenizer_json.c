/* fuzz_tokenizer_json.c - a tokenizer.json, and behind a zero byte a text for the tokenizer that it makes.
 *
 * Covers: src/text/tokenizer_json.c
 * Covers: src/text/tokenizer_json_rules.c
 * Covers: src/text/splitting.c
 * Covers: src/text/splitter.c
 * Covers: src/text/normal_form.c
 *
 * Whatever they are: no fault, and ids within the vocabulary, whose text is valid UTF-8. */
#include "../src/text/tokenizer_json.h"

#include "tokenize_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    span rest = {(const char *)data, size}, json = take_part(&rest);
    checkpoint *c;
    hearth_error error;
    if (checkpoint_create(&c, "fuzz", NULL) != HEARTH_OK)
        abort();
    if (tokenizer_json_parse(c, json, "fuzz", &error) == HEARTH_OK)
        tokenize_text(c, rest);
    checkpoint_close(c);
    return 0;
}
