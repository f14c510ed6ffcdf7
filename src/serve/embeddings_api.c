/* embeddings_api.c - /v1/embeddings: texts or tokens in, a vector for each out.
 *
 * The scorer pools the hidden states of each prompt (scorer.h). Here vectors are cut to the dimensions that were asked
 * for, scaled to length 1 and written: as numbers, or as base64 of float32, the lowest byte first. */
#include "api.h"

#include "../base/memory.h"

#include <stdlib.h>
#include <string.h>

/* As in OpenAI's API. */
#define MOST_INPUTS 2048
/* Inputs that count as one answer among those that wait: they are short mostly, and read only. */
#define INPUTS_PER_PLACE 16
/* Values of one reply; as numbers each takes 32 bytes while it is written. */
#define MOST_VALUES ((size_t)4 << 20)

typedef struct embeddings_fields {
    json_t *input;
    span encoding;
    span model; /* for its type alone */
    field_count dimensions;
} embeddings_fields;

static const field rows[] = {
    {FIELD_ROW("input", JSON, embeddings_fields, input), .types = FIELD_STRING | FIELD_LIST},
    {FIELD_ROW("encoding_format", TEXT, embeddings_fields, encoding)},
    {FIELD_ROW("dimensions", MAYBE, embeddings_fields, dimensions), .least = 1, .most = INT32_MAX},
    {FIELD_ROW("model", TEXT, embeddings_fields, model)},
};

/* What an answer has to know of its request. */
typedef struct embeddings_own {
    size_t dimensions;
    bool as_base64;
} embeddings_own;

/* ------------------------------------------------------------------ answers */

static json_t *numbers(const float *v, size_t n)
{
    json_t *out = json_array();
    for (size_t k = 0; k < n; k++)
        if (json_array_append_new(out, json_number((double)v[k])) != 0) {
            json_decref(out);
            return NULL;
        }
    return out;
}

/* Returns byte `at` of float32 values, the lowest of each first. */
static uint32_t byte_of(const float *v, size_t at)
{
    uint32_t bits;
    memcpy(&bits, &v[at / 4], sizeof bits);
    return bits >> (8 * (at % 4)) & 0xff;
}

/* RFC 4648, section 4. */
static json_t *base64(const float *v, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t size = n * sizeof *v;
    buffer out = {0};
    for (size_t at = 0; at < size; at += 3) {
        uint32_t bits = 0;
        for (size_t i = 0; i < 3; i++)
            bits = bits << 8 | (at + i < size ? byte_of(v, at + i) : 0);
        char four[4];
        for (size_t i = 0; i < 4; i++)
            four[i] = at + i <= size ? digits[bits >> (18 - 6 * i) & 63] : '=';
        if (!buffer_put(&out, four, sizeof four)) {
            buffer_free(&out);
            return NULL;
        }
    }
    json_t *text = json_stringn(out.data, out.size);
    buffer_free(&out);
    return text;
}

static json_t *whole(talk *t)
{
    const embeddings_own *own = t->own;
    size_t length = t->served->info.embedding_length;
    json_t *data = json_array();
    for (size_t i = 0; i < t->count; i++) {
        float *v = t->job->vectors + i * length;
        pooling_normalize(v, own->dimensions);
        json_t *value = own->as_base64 ? base64(v, own->dimensions) : numbers(v, own->dimensions);
        json_t *entry = json_pack("{s:s, s:I, s:o}", "object", "embedding", "index", (json_int_t)i, "embedding", value);
        if (json_array_append_new(data, entry) != 0) {
            json_decref(data);
            return NULL;
        }
    }
    return json_pack("{s:s, s:o, s:o, s:{s:I, s:I}}", "object", "list", "data", data, "model",
                     json_text(span_of(t->served->options.name)), "usage", "prompt_tokens",
                     (json_int_t)t->prompt_tokens, "total_tokens", (json_int_t)t->prompt_tokens);
}

/* Nothing but ends of choices comes of such a job, and it is no stream. */
static const talk_api api = {.id_prefix = "embd-", .own_size = sizeof(embeddings_own), .whole = whole};

/* ------------------------------------------------------------------ requests */

/* Returns whether a text is empty: with BOS it would have a token. */
static bool has_empty(const json_t *input, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const json_t *one = prompts_get(input, i);
        if (json_is_string(one) && json_string_length(one) == 0)
            return true;
    }
    return count == 0;
}

/* Checks the fields; *own is what they say. */
static bool check(const served *m, const embeddings_fields *f, embeddings_own *own, problem *p)
{
    uint32_t length = m->info.embedding_length;
    *own = (embeddings_own){.dimensions = f->dimensions.given ? f->dimensions.value : length,
                            .as_base64 = f->encoding.data && span_equal(f->encoding, span_of("base64"))};
    if (!f->input)
        return problem_field(p, "input", "missing", "input: is missing");
    size_t count = prompts_count(f->input), room = driver_room(m->driver) * INPUTS_PER_PLACE;
    if (f->encoding.data && !own->as_base64 && !span_equal(f->encoding, span_of("float")))
        return problem_field(p, "encoding_format", "invalid_value", "encoding_format: must be float or base64");
    if (own->dimensions > length)
        return problem_field(p, "dimensions", "out_of_range", "dimensions: must be from 1 to %u, but is %zu", length,
                             own->dimensions);
    if (has_empty(f->input, count))
        return problem_field(p, "input", "invalid_value", "input: is empty, there is nothing to read");
    room = room < MOST_INPUTS ? room : MOST_INPUTS;
    room = room < MOST_VALUES / length ? room : MOST_VALUES / length;
    return count <= room || problem_field(p, "input", "out_of_range",
                                          "input: has %zu texts, at most %zu are allowed at once", count, room);
}

/* Fills in a job and sends it; *out is its talk. */
static bool send(served *m, const embeddings_fields *f, const embeddings_own *own, job *j, talk **out, problem *p)
{
    for (size_t i = 0; i < j->choice_count; i++)
        j->choices[i].prompt = (uint32_t)i;
    j->per_place = INPUTS_PER_PLACE;
    if (!prompts_read(m, f->input, "input", j, p) || !prompts_check(m, j, "input", p))
        return false;
    j->vectors = mem_new_array(j->choice_count, m->info.embedding_length * sizeof *j->vectors);
    *out = j->vectors ? talk_new(m, &api, j) : NULL;
    if (!*out)
        return problem_of(p, NULL, HEARTH_NO_MEMORY, "embeddings: out of memory");
    memcpy((*out)->own, own, sizeof *own);
    return prompts_send(m, j, p);
}

static bool answer(served *m, json_t *body, reply *out, problem *p)
{
    embeddings_fields f = {0};
    embeddings_own own;
    if (!fields_read(FIELDS(rows), body, "", &f, p) || !check(m, &f, &own, p))
        return false;
    size_t count = prompts_count(f.input);
    job *j = job_new(count, count);
    talk *t = NULL;
    if (!j)
        return problem_of(p, NULL, HEARTH_NO_MEMORY, "embeddings: out of memory");
    bool ok = send(m, &f, &own, j, &t, p);
    job_release(j);
    if (ok)
        out->talk = t;
    else
        talk_free(t);
    return ok;
}

void embeddings_answer_request(serve *s, span text, reply *out)
{
    reply_to_body(s, text, out, answer);
}
