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

/* Closes what is open, and opens a block. */
static bool open_block(talk *t, block_kind kind, buffer *out)
{
    blocks *b = t->own;
    if (!close_block(t, out))
        return false;
    b->open = kind;
    b->count++;
    return api_of(t)->open(t, out);
}

/* Says a piece of a block, if there is one, and removes it. */
static bool put_piece(talk *t, block_kind kind, buffer *text, buffer *out)
{
    const blocks *b = t->own;
    if (text->size == 0)
        return true;
    return (b->open == kind || open_block(t, kind, out)) && api_of(t)->say(t, talk_take_text(text), out);
}

/* Says the calls that were gathered, and removes them. */
static bool put_calls(talk *t, said *c, buffer *out)
{
    blocks *b = t->own;
    bool ok = true;
    for (size_t i = 0; i < json_array_size(c->calls) && ok; i++) {
        b->call = json_array_get(c->calls, i);
        ok = open_block(t, BLOCK_CALL, out) && api_of(t)->say(t, json_incref(blocks_call_arguments(b->call)), out) &&
             close_block(t, out);
    }
    json_decref(c->calls);
    c->calls = NULL;
    b->call = NULL;
    return ok;
}

bool blocks_news(talk *t, said *c, buffer *out)
{
    blocks *b = t->own;
    if (!conversation_finish(c) || !put_piece(t, BLOCK_THOUGHTS, &c->thoughts, out) ||
        !put_piece(t, BLOCK_TEXT, &c->text, out) || !put_calls(t, c, out))
        return false;
    b->is_last = c->has_ended;
    return !c->has_ended || close_block(t, out);
}

/* ------------------------------------------------------------------ calls */

const char *blocks_call_id(const json_t *call)
{
    return json_string_value(json_object_get(call, "id"));
}

json_t *blocks_call_name(const json_t *call)
{
    return json_object_get(json_object_get(call, "function"), "name");
}

json_t *blocks_call_arguments(const json_t *call)
{
    return json_object_get(json_object_get(call, "function"), "arguments");
}
