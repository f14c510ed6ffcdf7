/* choices.h - what chats and completions of OpenAI's API have in common: an object with a list of choices, whole or in
 * pieces. */
#ifndef SERVE_CHOICES_H
#define SERVE_CHOICES_H

#include "talk.h"

typedef struct choices_api {
    talk_api talk; /* first; made by CHOICES_TALK */
    const char *object, *piece_object;
    /* Return an object of the list `choices`, of what was gathered, which is then removed: of a whole answer, or a piece of a
     * stream; `ends`: the last one. NULL: no memory. */
    json_t *(*whole)(talk *t, said *c);
    json_t *(*piece)(talk *t, said *c, bool ends);
} choices_api;

#define CHOICES_TALK(prefix, add_)                                                                              \
    {                                                                                                           \
        .id_prefix = (prefix), .add = (add_), .whole = choices_whole, .news = choices_news, .end = choices_end, \
        .failure = choices_failure                                                                              \
    }

/* The functions of a talk_api. */
json_t *choices_whole(talk *t);
bool choices_news(talk *t, said *c, buffer *out);
bool choices_end(talk *t, buffer *out);
json_t *choices_failure(talk *t, const problem *p);

/* Returns "stop", "length" or "tool_calls". */
const char *choices_finish(const said *c);

#endif
