/* gbnf.h - reads grammars in the notation of llama.cpp (GBNF).
 *
 * A rule is `name ::= ...` up to the end of its line; inside parentheses, behind | and behind ::= it may go on in the
 * next. Elements: "text", [characters], [^other characters], . for any character, names of rules, groups in
 * parentheses; each may be followed by * + ? {m} {m,} {m,n}, and alternatives are parted by |. Escapes: \n \r \t \\
 * \" \[ \] \- \^ \xHH \uHHHH \UHHHHHHHH. # begins a comment. The grammar is the rule `root`. Tokens in angle
 * brackets, which newer versions of llama.cpp have, are refused: a grammar here knows no tokens. */
#ifndef GRAMMAR_GBNF_H
#define GRAMMAR_GBNF_H

#include "grammar.h"

/* Makes a grammar of a text, which is valid UTF-8 or refused. HEARTH_FORMAT: not in this notation, a rule is defined
 * twice or not at all, calls itself before it reads anything, or root cannot end. HEARTH_UNSUPPORTED: nested too
 * deeply, or too large. Errors name line and column (in bytes), or line and rule. */
hearth_status gbnf_parse(grammar **out, span text, hearth_error *error);

#endif
