/* lexer.h - cuts the source of a template into tokens, as Jinja2 3.1 does with trim_blocks and lstrip_blocks.
 *
 * Text outside of {{ }}, {% %} and {# #} is a token each; the white space that blocks take away (one line break behind a
 * block, the blanks of its line before it, all of it at a minus sign) is gone already. Comments leave nothing; what is
 * between raw and endraw is text. */
#ifndef CHAT_LEXER_H
#define CHAT_LEXER_H

#include "value.h"

#include "../base/memory.h"

typedef enum token_kind {
    TOKEN_END, /* of the source */
    TOKEN_DATA,
    TOKEN_PRINT_BEGIN, /* {{ */
    TOKEN_PRINT_END,   /* }} */
    TOKEN_BLOCK_BEGIN, /* {% */
    TOKEN_BLOCK_END,   /* %} */
    TOKEN_NAME,
    TOKEN_STRING,   /* `text` without its quotes and escapes */
    TOKEN_NUMBER,   /* `number`                              */
    TOKEN_OPERATOR, /* `text`: + // == ( ...                 */
} token_kind;

typedef struct token {
    token_kind kind;
    uint32_t line;
    span text;
    value number;
} token;

/* Cuts the source [valid UTF-8] into tokens, of which the last is TOKEN_END. All memory is of `memory`; texts may point
 * into the source. HEARTH_FORMAT: a construct does not end, or a character belongs to nothing; with name and line. */
hearth_status lexer_run(span source, const char *name, arena *memory, token **out, hearth_error *error);

#endif
