/* charsmap.h - SentencePiece's compiled normalisation: replaces the longest prefixes that a table lists (NFKC and more).
 *
 * Private to the text module. The format (precompiled_charsmap in sentencepiece_model.proto): the size of a trie in bytes
 * as uint32, the trie, then the replacements, each with a zero byte at its end. The trie is a double array of Darts-clone:
 * units of 32 bits, of which bits 0 to 7 are the label, bit 8 says that the unit has a value, and bits 10 to 30 are the
 * offset to the units of its children, times 256 if bit 9 is set. The unit of a value has bit 31, and the value (the
 * place of the replacement) in the others. All numbers are little-endian. */
#ifndef TEXT_CHARSMAP_H
#define TEXT_CHARSMAP_H

#include "../base/text.h"

typedef struct charsmap {
    const uint8_t *units; /* [count] of 4 bytes each, not aligned */
    size_t count;
    span replacements; /* ends with a zero byte */
} charsmap;

/* Reads a table that lies in memory as long as the charsmap; of size 0: nothing is replaced. false: it is none. */
bool charsmap_read(charsmap *out, span blob);
/* Writes the normalised text to an emptied buffer; bytes that are no UTF-8 become U+FFFD. false: no memory. */
bool charsmap_write(const charsmap *map, span text, buffer *out);

#endif
