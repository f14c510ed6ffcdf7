/* bench_tokenizer.h - `hearth bench --tokenizer`: how fast a text becomes ids. */
#ifndef CLI_BENCH_TOKENIZER_H
#define CLI_BENCH_TOKENIZER_H

#include "../base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* Reads the vocabulary of a model `repeats` times and as often encodes the file's text and decodes its ids, on one
 * thread; prints medians, as JSON if wanted. HEARTH_FORMAT: the text is empty. */
hearth_status bench_tokenizer(const char *model_path, const char *text_path, uint32_t repeats, bool json,
                              hearth_error *error);

#endif
