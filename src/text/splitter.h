/* splitter.h - cuts a text into words by regular expressions, as pre-tokenizers do.
 *
 * Private to the text module. A splitter has rules, each an expression and what becomes of its matches. The first rule
 * cuts the text, the second one each part of that, and so on; what is left over are the words. An expression sees
 * nothing but the part that it cuts. The expressions are those of Hugging Face's tokenizers (Oniguruma), run by PCRE2
 * with Unicode's properties; they come out of files, so their work is limited. Bytes that are not UTF-8 are cut off
 * first, and are words of their own. */
#ifndef TEXT_SPLITTER_H
#define TEXT_SPLITTER_H

#include "../base/error.h"
#include "../base/text.h"

/* What becomes of the matches of a rule. */
typedef enum split_behaviour {
    SPLIT_ISOLATED,             /* each match is a part, and so is what lies between two */
    SPLIT_REMOVED,              /* only what lies between is kept                        */
    SPLIT_MERGED_WITH_PREVIOUS, /* a match ends the part before it                       */
    SPLIT_MERGED_WITH_NEXT,     /* a match begins the part behind it                     */
    SPLIT_CONTIGUOUS,           /* adjacent matches are one part                         */
    SPLIT_BEHAVIOUR_COUNT
} split_behaviour;

/* Returns "isolated", "removed" ... */
const char *split_behaviour_name(split_behaviour behaviour);

typedef struct split_rule {
    const char *pattern;
    split_behaviour behaviour;
    bool inverted; /* the expression describes what is not a match */
} split_rule;

typedef struct splitter splitter;

/* Compiles rules [count]. HEARTH_UNSUPPORTED: PCRE2 cannot compile an expression; the text says what and where, and
 * begins with `name`. */
hearth_status splitter_create(splitter **out, const split_rule *rules, size_t count, const char *name,
                              hearth_error *error);
void splitter_destroy(splitter *s);

/* The working memory of one thread; a zeroed one is empty, and is filled when it is first used. */
typedef struct split_memory {
    void *match, *context, *stack;
} split_memory;
void split_memory_free(split_memory *m);

/* Calls take for each word, in order; words are never empty. It stops where take returns a status other than HEARTH_OK,
 * and returns that. HEARTH_UNSUPPORTED: an expression needs more steps or memory than its limit. */
hearth_status splitter_split(const splitter *s, span text, split_memory *memory,
                             hearth_status (*take)(void *user, span word, hearth_error *error), void *user,
                             hearth_error *error);

#endif
