/* vocabulary.h - the pieces of a vocabulary and their properties, as the checkpoint's keys state them.
 *
 * Private to the text module. A vocabulary copies what it needs, so the checkpoint may be closed first. It is
 * read-only once loaded. How text is cut into pieces is decided by the kind (kind.h). */
#ifndef TEXT_VOCABULARY_H
#define TEXT_VOCABULARY_H

#include "../file/checkpoint.h"
#include "charsmap.h"
#include "normal_form.h"

/* GGUF's token types, with its numbers. */
typedef enum token_type {
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN,      /* stands for text that has no piece                                       */
    TOKEN_CONTROL,      /* <s> and similar tokens: never produced from plain text                  */
    TOKEN_USER_DEFINED, /* always a single token, wherever its text occurs                         */
    TOKEN_UNUSED,       /* takes part in merges, but is split again at the end                     */
    TOKEN_BYTE          /* "<0x0A>": one byte of text that has no piece                            */
} token_type;

typedef struct token {
    span text; /* as the vocabulary spells it */
    float score;
    uint8_t type;      /* token_type                                         */
    uint8_t byte;      /* TOKEN_BYTE: its value                              */
    bool ends_answer;  /* EOS, end of turn, BOS ...                          */
    bool strips_left;  /* white space before it in a text is dropped         */
    bool strips_right; /* white space behind it                              */
} token;

/* A token that is searched for in a text before the text is cut into pieces. */
typedef struct special {
    span text; /* as it appears in a text */
    int32_t id;
} special;

typedef struct special_set {
    special *items; /* [count], ascending by bytes */
    size_t count;
    bool begins[256]; /* first bytes that occur */
} special_set;

/* Values for absent keys. Every kind of vocabulary has its own defaults. */
typedef struct vocabulary_defaults {
    int32_t bos, eos, unknown; /* -1: none. Used only where that piece is a control or unknown token. */
    bool adds_bos, adds_eos, adds_space_prefix;
    bool needs_scores; /* else the key may be absent, and scores are 0 */
    const char *blank; /* how pieces spell a blank; also what adds_space_prefix puts in front of a text */
} vocabulary_defaults;

typedef struct vocabulary {
    arena memory;
    token *tokens; /* [count] */
    uint32_t count;
    size_t longest;                      /* bytes of the longest piece              */
    int32_t bos, eos, eot, eom, unknown; /* -1: none                                */
    bool adds_bos, adds_eos;             /* only where there is such a token        */
    bool adds_space_prefix;              /* a text begins as if a blank preceded it */
    bool prefix_once;                    /* ... but not again behind a special token */
    bool prefix_unless_blank;            /* ... and not where it begins with one    */
    bool removes_extra_blanks;           /* runs of blanks count as one             */
    span blank;                          /* how pieces spell one                    */
    normal_form form;                    /* that texts get first                    */
    charsmap map;                        /* SentencePiece's, which they get then    */
    special_set user_defined;            /* always recognised                       */
    special_set all_specials;            /* with control tokens and the unknown one */
} vocabulary;

/* Bytes of the longest accepted piece. It bounds every search below; real pieces have at most a few hundred. */
enum { PIECE_LIMIT = 4096 };

/* Reads tokenizer.ggml.tokens, .scores, .token_type (absent: all normal) and the other keys. The caller frees the vocabulary with
 * vocabulary_free, also on failure. HEARTH_FORMAT: something is missing, of the wrong type or out of range (named).
 * HEARTH_UNSUPPORTED: a piece longer than PIECE_LIMIT. */
hearth_status vocabulary_load(vocabulary *v, const vocabulary_defaults *defaults, const checkpoint *c,
                              hearth_error *error);
void vocabulary_free(vocabulary *v);

/* Parses the spelling of a byte token: "<0x0A>" gives 10, anything else -1. */
int vocabulary_parse_byte(span text);

/* Marks what no key says but is known of certain tokens and models (ends of answers, dropped white space), then
 * builds both sets of special tokens. In specials.c. Called by vocabulary_load once types and special ids are
 * known. */
hearth_status specials_load(vocabulary *v, const checkpoint *c, hearth_error *error);

/* Returns the first special token at or behind offset `from`, the longest where several begin at the same byte. *at
 * is the offset at which it begins. NULL: there is none. */
const special *special_set_next(const special_set *set, span text, size_t from, size_t *at);

#endif
