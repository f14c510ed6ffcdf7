/* text_api.c - text and tokens, without computing: /tokenize, /detokenize, /apply-template.
 *
 * A text is called `content` by clients of llama.cpp's server, and `prompt` by those of vLLM's, such as lm-eval, for which
 * BOS is added unless they say otherwise. Answers have both names. */
#include "api.h"

/* Tokens in an answer, of which each is a number, or an object of some 500 bytes while the answer is made; and bytes of text. */
#define MOST_TOKENS     ((size_t)1 << 20)
#define MOST_PIECES     ((size_t)1 << 17)
#define MOST_TEXT_BYTES ((size_t)16 << 20)

typedef struct tokenize_fields {
    span content, prompt;
    bool special, prompt_special; /* where it is content, prompt */
    bool control, pieces;
} tokenize_fields;

static const field tokenize_rows[] = {
    {FIELD_ROW("content", TEXT, tokenize_fields, content)},
    {FIELD_ROW("prompt", TEXT, tokenize_fields, prompt)},
    {FIELD_ROW("add_special", BOOL, tokenize_fields, special)},
    {FIELD_ROW("add_special_tokens", BOOL, tokenize_fields, prompt_special)},
    {FIELD_ROW("parse_special", BOOL, tokenize_fields, control)},
    {FIELD_ROW("with_pieces", BOOL, tokenize_fields, pieces)},
};

static const field detokenize_rows[] = {
    {.name = "tokens", .kind = FIELD_JSON, .types = FIELD_LIST},
};

static const field template_rows[] = {
    {.name = "add_generation_prompt", .kind = FIELD_BOOL},
};

/* Returns a token for the answer: its number, or also how the vocabulary spells it. */
static json_t *token_json(const served *m, int32_t id, bool pieces)
{
    span spelling = {.data = ""};
    if (!pieces)
        return json_integer(id);
    spelling.data = hearth_token_text(m->model, id, &spelling.size);
    return json_pack("{s:I, s:o}", "id", (json_int_t)id, "piece", json_text(spelling));
}

static bool tokenize(served *m, json_t *body, reply *out, problem *p)
{
    tokenize_fields f = {.prompt_special = true, .control = true};
    int32_t *ids;
    size_t count;
    hearth_error error = {0};
    if (!fields_read(FIELDS(tokenize_rows), body, "", &f, p))
        return false;
    bool is_prompt = !f.content.data && f.prompt.data;
    span text = is_prompt ? f.prompt : f.content;
    if (!text.data)
        return problem_field(p, "content", "missing", "content: is missing");
    unsigned flags = ((is_prompt ? f.prompt_special : f.special) ? HEARTH_TEXT_SPECIAL : 0) |
                     (f.control ? HEARTH_TEXT_PARSE_CONTROL : 0);
    hearth_status status = hearth_tokenize(m->model, text.data, text.size, flags, &ids, &count, &error);
    if (status != HEARTH_OK)
        return problem_of(p, is_prompt ? "prompt" : "content", status, error.text);
    if (count > (f.pieces ? MOST_PIECES : MOST_TOKENS)) {
        hearth_free(ids);
        return problem_field(p, is_prompt ? "prompt" : "content", "out_of_range",
                             "%s: has %zu tokens, at most %zu are allowed%s", is_prompt ? "prompt" : "content", count,
                             f.pieces ? MOST_PIECES : MOST_TOKENS, f.pieces ? " with pieces" : "");
    }
    json_t *list = json_array();
    for (size_t i = 0; i < count && list; i++)
        if (json_array_append_new(list, token_json(m, ids[i], f.pieces)) != 0) {
            json_decref(list);
            list = NULL;
        }
    hearth_free(ids);
    reply_json(out, list ? json_pack("{s:I, s:I, s:o}", "count", (json_int_t)count, "max_model_len",
                                     (json_int_t)driver_context(m->driver), "tokens", list)
                         : NULL);
    return true;
}

/* Appends the text of a list of tokens. */
static bool put_text(hearth_detokenizer *reader, const json_t *tokens, buffer *out, problem *p)
{
    const char *text;
    size_t size, i;
    const json_t *token;
    hearth_error error = {0};
    json_array_foreach(tokens, i, token)
    {
        json_int_t id = json_integer_value(token);
        bool is_id = json_is_integer(token) && id >= 0 && id <= INT32_MAX;
        if (!is_id || hearth_detokenizer_push(reader, (int32_t)id, &text, &size, &error) != HEARTH_OK)
            return problem_field(p, "tokens", "invalid_value", "tokens[%zu]: is not a token of the vocabulary", i);
        if (out->size + size > MOST_TEXT_BYTES)
            return problem_field(p, "tokens", "out_of_range", "tokens: have more than %zu bytes of text",
                                 MOST_TEXT_BYTES);
        if (!buffer_put(out, text, size))
            return problem_of(p, NULL, HEARTH_NO_MEMORY, "tokens: out of memory");
    }
    hearth_detokenizer_finish(reader, &text, &size);
    return buffer_put(out, text, size) || problem_of(p, NULL, HEARTH_NO_MEMORY, "tokens: out of memory");
}

static bool detokenize(served *m, json_t *body, reply *out, problem *p)
{
    json_t *tokens = NULL;
    hearth_detokenizer *reader;
    hearth_error error = {0};
    buffer text = {0};
    if (!fields_read(FIELDS(detokenize_rows), body, "", &tokens, p))
        return false;
    if (!tokens)
        return problem_field(p, "tokens", "missing", "tokens: is missing");
    hearth_status status = hearth_detokenizer_create(&reader, m->model, HEARTH_DETOKENIZE_CONTROL, &error);
    if (status != HEARTH_OK)
        return problem_of(p, NULL, status, error.text);
    bool ok = put_text(reader, tokens, &text, p);
    hearth_detokenizer_destroy(reader);
    if (ok) {
        json_t *spelled = json_text((span){text.size ? text.data : "", text.size});
        reply_json(out, json_pack("{s:o, s:O}", "content", spelled, "prompt", spelled));
    }
    buffer_free(&text);
    return ok;
}

static bool apply_template(served *m, json_t *body, reply *out, problem *p)
{
    conversation_fields c;
    bool answers = true;
    char *text;
    size_t size;
    if (!conversation_read(body, &c, p) || !fields_read(FIELDS(template_rows), body, "", &answers, p))
        return false;
    c.no_prompt = !answers;
    if (!conversation_text(m, &c, &text, &size, NULL, NULL, p))
        return false;
    reply_json(out, json_pack("{s:o}", "prompt", json_text((span){text, size})));
    hearth_free(text);
    return true;
}

void text_tokenize(serve *s, span text, reply *out)
{
    reply_to_body(s, text, out, tokenize);
}

void text_detokenize(serve *s, span text, reply *out)
{
    reply_to_body(s, text, out, detokenize);
}

void text_apply_template(serve *s, span text, reply *out)
{
    reply_to_body(s, text, out, apply_template);
}
