/* fuzz_merges.c - a vocab.json, a merges.txt, a tokenizer_class and a text, with zero bytes between them.
 *
 * Covers: src/text/bpe.c
 * Covers: src/text/merges.c
 * Covers: src/text/tokenizer_lists.c
 * Covers: src/text/byte_alphabet.c
 * Covers: src/text/pre_tokenizers.c
 *
 * The class may also be a pre-tokenizer with a '+' in front of its name, as a GGUF file would have it; with '=' pieces
 * are of characters. Whatever they are: no fault, and ids within the vocabulary, whose text is valid UTF-8. */
#include "../src/text/tokenizer_json.h"

#include "tokenize_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    span rest = {(const char *)data, size};
    span pieces = take_part(&rest), merges = take_part(&rest), class = take_part(&rest);
    char *name = mem_copy_text(class.data, class.size);
    checkpoint *c;
    hearth_error error;
    if (!name || checkpoint_create(&c, "fuzz", NULL) != HEARTH_OK)
        abort();
    bool is_pre = name[0] == '+', is_raw = name[0] == '=';
    hearth_status status =
        tokenizer_lists_parse(c, pieces, merges, "fuzz", is_pre || is_raw ? "GPT2Tokenizer" : name, &error);
    if (status == HEARTH_OK && is_pre)
        status = checkpoint_set_string(c, "tokenizer.ggml.pre", span_of(name + 1), NULL);
    if (status == HEARTH_OK && is_raw)
        status = checkpoint_set_string(c, "tokenizer.ggml.model", span_of("gemma4"), NULL);
    if (status == HEARTH_OK)
        tokenize_text(c, rest);
    checkpoint_close(c);
    mem_free(name);
    return 0;
}
