/* splitting.h - how a checkpoint's vocabulary cuts texts into words: by a known name, or by expressions of its own.
 *
 * Private to the text module. The keys:
 *
 *   tokenizer.ggml.pre               a name of the table in pre_tokenizers.c; absent: "default"
 *   tokenizer.hearth.split           string[], in place of a name: "BEHAVIOUR EXPRESSION", with "not " in front where
 *                                    the expression describes what lies between
 *   tokenizer.hearth.ignore_merges   bool, with .split: a word that is a piece is that piece */
#ifndef TEXT_SPLITTING_H
#define TEXT_SPLITTING_H

#include "../file/checkpoint.h"
#include "pre_tokenizers.h"
#include "splitter.h"

/* Rules that a file may have; published ones have at most six. */
enum { SPLIT_RULES_LIMIT = 64 };

/* Sets the keys of rules [count]: the name of a row of the table that is the same, else those of the file's own. */
hearth_status splitting_store(checkpoint *c, const split_rule *rules, size_t count, bool ignores_merges,
                              hearth_error *error);

/* Sets *out to the named row; NULL: the checkpoint has expressions of its own. HEARTH_UNSUPPORTED: a name that hearth
 * does not know. */
hearth_status splitting_find(const pre_tokenizer **out, const checkpoint *c, hearth_error *error);
/* Compiles the expressions. HEARTH_FORMAT: .split is not as above. HEARTH_UNSUPPORTED: as above, or an expression that
 * cannot be compiled. */
hearth_status splitting_load(splitter **out, bool *ignores_merges, const checkpoint *c, hearth_error *error);

#endif
