/* byte_alphabet.c - bytes as characters, and back. */
#include "byte_alphabet.h"

/* The bytes that are not printable in Latin-1 lie in three ranges; their characters are numbered through. */
static const struct {
    uint8_t first, last;
    uint16_t code; /* of the first */
} hidden[] = {{0x00, 0x20, 0x100}, {0x7f, 0xa0, 0x121}, {0xad, 0xad, 0x143}};

enum { HIDDEN = sizeof hidden / sizeof *hidden };

static unsigned code_of(uint8_t byte)
{
    for (size_t i = 0; i < HIDDEN; i++)
        if (byte >= hidden[i].first && byte <= hidden[i].last)
            return hidden[i].code + (unsigned)(byte - hidden[i].first);
    return byte;
}

/* Returns the byte of a character, or -1 where it is not of the alphabet. */
static int byte_of(unsigned code)
{
    for (size_t i = 0; i < HIDDEN; i++)
        if (code >= hidden[i].code && code <= hidden[i].code + (unsigned)(hidden[i].last - hidden[i].first))
            return (int)(hidden[i].first + (code - hidden[i].code));
    return code < 0x100 && code_of((uint8_t)code) == code ? (int)code : -1;
}

size_t alphabet_spell(uint8_t byte, char out[ALPHABET_BYTES])
{
    unsigned code = code_of(byte);
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    out[0] = (char)(0xc0 | code >> 6);
    out[1] = (char)(0x80 | (code & 0x3f));
    return 2;
}

size_t alphabet_read(span piece, char *out)
{
    size_t size = 0;
    for (size_t i = 0, length; i < piece.size; i += length) {
        length = utf8_length(piece.data + i, piece.size - i);
        length = length > 0 ? length : 1;
        const uint8_t *c = (const uint8_t *)piece.data + i;
        int byte = length == 1 ? byte_of(c[0]) : length == 2 ? byte_of((c[0] & 0x1fu) << 6 | (c[1] & 0x3fu)) : -1;
        if (byte >= 0)
            out[size++] = (char)byte;
        else
            for (size_t j = 0; j < length; j++)
                out[size++] = piece.data[i + j];
    }
    return size;
}
