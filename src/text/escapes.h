/* escapes.h - bytes as Python's literals spell them: what RWKV's vocabularies are written in. */
#ifndef TEXT_ESCAPES_H
#define TEXT_ESCAPES_H

#include "../base/text.h"

/* Reads what stands between the quotes of a literal: b'...', in which \xHH is a byte, or, characters true, '...', in which it and
 * \uHHHH are characters, written as UTF-8. out: at least text.size bytes. false: an escape is none that is known. */
bool escapes_read(span text, bool characters, char *out, size_t *size);

/* Appends the spelling of bytes, as repr() of Python's bytes has it between the quotes. false: no memory. */
bool escapes_write(span bytes, buffer *out);

#endif
