/* choices.c - the frame of OpenAI's chats and completions. */
#include "choices.h"

#include "api.h"

/* The API of a talk that was made by CHOICES_TALK: its first member is the talk's. */
static const choices_api *api_of(const talk *t)
{
    return (const choices_api *)t->api;
}

const char *choices_finish(const said *c)
{
    return talk_is_cut(c) ? "length" : c->call_count > 0 ? "tool_calls" : "stop";
}

static json_t *usage(const talk *t)
{
    return json_pack("{s:I, s:I, s:I, s:{s:I}}", "prompt_tokens", (json_int_t)t->prompt_tokens, "completion_tokens",
                     (json_int_t)t->answer_tokens, "total_tokens",
                     (json_int_t)t->prompt_tokens + (json_int_t)t->answer_tokens, "prompt_tokens_details",
                     "cached_tokens", (json_int_t)t->reused_tokens);
}

/* Returns the frame of an answer; choices: a list, released. used: NULL: none. */
static json_t *frame(const talk *t, const char *object, json_t *choices, json_t *used)
{
    json_t *out =
        json_pack("{s:s, s:s, s:I, s:o, s:o}", "id", t->id, "object", object, "created", (json_int_t)t->created,
                  "model", json_text(span_of(t->served->options.name)), "choices", choices);
    if (used && json_object_set_new(out, "usage", used) != 0) {
        json_decref(out);
        return NULL;
    }
    return out;
}

json_t *choices_whole(talk *t)
{
    json_t *list = json_array();
    for (size_t i = 0; i < t->count; i++)
        if (json_array_append_new(list, api_of(t)->whole(t, &t->choices[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return frame(t, api_of(t)->object, list, usage(t));
}

static bool put_piece(talk *t, said *c, bool ends, buffer *out)
{
    json_t *list = json_array(), *piece = api_of(t)->piece(t, c, ends);
    if (!piece || json_array_append_new(list, piece) != 0) {
        json_decref(list);
        return false;
    }
    c->has_begun = true;
    return talk_put(t, out, frame(t, api_of(t)->piece_object, list, t->wants_usage ? json_null() : NULL));
}

bool choices_news(talk *t, said *c, buffer *out)
{
    if (!conversation_finish(c))
        return false;
    bool has_text = c->text.size > 0 || c->thoughts.size > 0 || c->calls || c->probabilities;
    return (!has_text || put_piece(t, c, false, out)) && (!c->has_ended || put_piece(t, c, true, out));
}

bool choices_end(talk *t, buffer *out)
{
    if (t->wants_usage && !talk_put(t, out, frame(t, api_of(t)->piece_object, json_array(), usage(t))))
        return false;
    return buffer_print(out, "data: [DONE]\n\n");
}

json_t *choices_failure(talk *t, const problem *p)
{
    (void)t;
    return problem_json(p, &problem_openai);
}
