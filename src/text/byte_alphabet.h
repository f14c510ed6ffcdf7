/* byte_alphabet.h - the characters by which byte-level vocabularies spell bytes (GPT-2's encoder.py).
 *
 * Pieces of such vocabularies are texts, but may stand for any bytes. So every byte is one printable character: those
 * that are printable in Latin-1 (U+0021 to U+007E, U+00A1 to U+00AC, U+00AE to U+00FF) are themselves, and the 68
 * others are U+0100 to U+0143 in their order. A blank is U+0120, a line feed U+010A. */
#ifndef TEXT_BYTE_ALPHABET_H
#define TEXT_BYTE_ALPHABET_H

#include "../base/text.h"

/* A character takes at most this many bytes. */
enum { ALPHABET_BYTES = 2 };

/* Writes the character of a byte; returns its length in bytes. */
size_t alphabet_spell(uint8_t byte, char out[ALPHABET_BYTES]);
/* Writes the bytes that a piece stands for to out [piece.size]; returns how many. What is no character of the alphabet
 * stands for itself. */
size_t alphabet_read(span piece, char *out);

#endif
