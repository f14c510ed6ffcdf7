/* blocks.c - blocks of a stream, opened and closed. */
#include "blocks.h"
#include "api.h"

/* The API of a talk whose first member is the talk's. */
static const blocks_api *api_of(const talk *t)
{
    return (const blocks_api *)t->api;
}

static bool close_block(talk *t, buffer *out)
{
    blocks *b = t->own;
    bool ok = b->open == BLOCK_NONE || api_of(t)->close(t, out);
    b->open = BLOCK_NONE;
    return ok;
}

/* Says a piece of a block, if there is one, and removes it. */
static bool put_piece(talk *t, block_kind kind, buffer *text, buffer *out)
{
    blocks *b = t->own;
    if (text->size == 0)
        return true;
    if (b->open != kind) {
        if (!close_block(t, out))
            return false;
        b->open = kind;
        b->count++;
        if (!api_of(t)->open(t, out))
            return false;
    }
    return api_of(t)->say(t, talk_take_text(text), out);
}

bool blocks_news(talk *t, said *c, buffer *out)
{
    conversation_finish(c);
    return put_piece(t, BLOCK_THOUGHTS, &c->thoughts, out) && put_piece(t, BLOCK_TEXT, &c->text, out) &&
           (!c->has_ended || close_block(t, out));
}
