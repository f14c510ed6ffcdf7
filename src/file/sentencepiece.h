/* sentencepiece.h - reads tokenizer.model (a protocol buffer) into GGUF's vocabulary keys.
 *
 * Sets tokenizer.ggml.model ("llama" for BPE, "t5" for unigram), .pre ("default"), .tokens, .scores, .token_type, .bos_token_id, .eos_token_id,
 * .unknown_token_id, .padding_token_id (those that exist), .add_space_prefix (normalizer_spec.add_dummy_prefix) and
 * .remove_extra_whitespaces, and .precompiled_charsmap where there is one. Absent fields have the defaults of the protocol
 * buffer (true for both switches). Only BPE and unigram models are supported; others are HEARTH_UNSUPPORTED (named). */
#ifndef FILE_SENTENCEPIECE_H
#define FILE_SENTENCEPIECE_H

#include "checkpoint.h"

/* Adds the keys of a file, or of a file in memory (used by the fuzzer). The keys are copied: neither need outlive the
 * call. HEARTH_FORMAT: damaged. */
hearth_status sentencepiece_add(checkpoint *c, const char *path, hearth_error *error);
hearth_status sentencepiece_parse(checkpoint *c, const uint8_t *data, size_t size_bytes, const char *path,
                                  hearth_error *error);

#endif
