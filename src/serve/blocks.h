/* blocks.h - streams of answers that consist of blocks: what was thought, what is said, calls of tools.
 *
 * A block is opened by its first piece and closed by the first of another kind, or by the end; each call is a block. Pieces
 * that were gathered together are said thoughts first and calls last, as in a whole answer. An answer is one choice. */
#ifndef SERVE_BLOCKS_H
#define SERVE_BLOCKS_H

#include "talk.h"

typedef enum block_kind { BLOCK_NONE, BLOCK_THOUGHTS, BLOCK_TEXT, BLOCK_CALL, BLOCK_KIND_COUNT } block_kind;

/* The first member of talk.own. */
typedef struct blocks {
    block_kind open;
    const json_t *call; /* of an open BLOCK_CALL: as in a message of OpenAI's chat */
    uint32_t count;     /* of blocks that were opened */
    bool is_last;       /* what is open is closed by the end of the answer */
} blocks;

typedef struct blocks_api {
    talk_api talk; /* first; its news is blocks_news */
    /* Append the events of the open block: its beginning, a piece (of a call: the text of its arguments), its end. say:
     * releases the text (NULL: no memory). false: no memory. */
    bool (*open)(talk *t, buffer *out);
    bool (*say)(talk *t, json_t *text, buffer *out);
    bool (*close)(talk *t, buffer *out);
} blocks_api;

bool blocks_news(talk *t, said *c, buffer *out);

/* Return a part of a call, owned by it. */
const char *blocks_call_id(const json_t *call);
json_t *blocks_call_name(const json_t *call);
json_t *blocks_call_arguments(const json_t *call); /* a text */

#endif
