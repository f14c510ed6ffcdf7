/* tokenizer_json.h - reads the vocabularies of Hugging Face folders that are no tokenizer.model: tokenizer.json, or
 * vocab.json with merges.txt, as keys of GGUF.
 *
 * Sets tokenizer.ggml.model ("gpt2": pieces of bytes, "gemma4": of characters, "t5": unigram), .tokens, .token_type, and
 * .merges or .scores; .pre where the rules are those of a known name, else the keys of splitting.h; the ids and switches
 * that the files state; and
 *
 *   tokenizer.hearth.normalizer      "nfc", "nfd", "nfkc" or "nfkd": Unicode's normal form that texts get first
 *   tokenizer.hearth.prefix_once     bool: what add_space_prefix puts in front of a text does not stand behind special tokens
 *   tokenizer.hearth.prefix_unless_blank   bool: nor in front of a blank (Metaspace)
 *   tokenizer.hearth.strip_left      u32[]: special tokens that take the white space before them
 *   tokenizer.hearth.strip_right     u32[]: ... behind them */
#ifndef TEXT_TOKENIZER_JSON_H
#define TEXT_TOKENIZER_JSON_H

#include "../base/json.h"
#include "../file/checkpoint.h"

/* Adds the keys of tokenizer.json; of a text in memory. HEARTH_FORMAT: damaged. HEARTH_UNSUPPORTED: a part that hearth
 * does not run (named), such as WordPiece. */
hearth_status tokenizer_json_add(checkpoint *c, const char *path, hearth_error *error);
hearth_status tokenizer_json_parse(checkpoint *c, span text, const char *name, hearth_error *error);

/* Adds the keys of vocab.json (a text -> id object) and merges.txt. `class`: tokenizer_config.json's tokenizer_class,
 * which says how texts are cut; NULL: as GPT-2 does. HEARTH_UNSUPPORTED: another class than those known. */
hearth_status tokenizer_lists_add(checkpoint *c, const char *vocabulary_path, const char *merges_path,
                                  const char *class, hearth_error *error);
/* The same of texts in memory; for fuzzing. */
hearth_status tokenizer_lists_parse(checkpoint *c, span pieces, span merges, const char *name, const char *class,
                                    hearth_error *error);

#endif
