/* serve_api.c - the handlers without HTTP, with a real model and a thread that computes: what they answer, and that every
 * allocation may fail. Long, as every API is asked the same ways, by helpers that only make sense together. */
#include "../src/base/memory.h"
#include "../src/serve/api.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

typedef struct bench {
    hearth_runtime *runtime;
    hearth_model *model;
    hearth_engine *engine;
    serve serve;
    served served; /* its only model */
} bench;

static void on_lost(void *user)
{
    (void)user;
    fail_msg("the driver gave up");
}

static int open_bench(void **state)
{
    static bench b;
    const hearth_runtime_options one = {.threads = 1};
    const hearth_engine_options exact = {.activations = HEARTH_ACTIVATIONS_F32};
    assert_int_equal(hearth_runtime_create(&b.runtime, &one, NULL), HEARTH_OK);
    assert_int_equal(hearth_model_open(&b.model, HEARTH_MODELS "/stories-relu-q8_0.gguf", NULL, NULL), HEARTH_OK);
    assert_int_equal(hearth_engine_create(&b.engine, b.runtime, b.model, &exact, NULL), HEARTH_OK);
    b.serve = (serve){.models = &b.served, .model_count = 1};
    b.served = (served){.serve = &b.serve,
                        .options = {.name = "story",
                                    .engine = b.engine,
                                    .template_name = "chatml",
                                    .sampling = hearth_sampling_default(),
                                    .session = {.sequences = 2},
                                    .queue = 6},
                        .model = b.model};
    hearth_model_describe(b.model, &b.served.info);
    const driver_options options = {
        .session = b.served.options.session, .queue = 6, .metrics = &b.served.metrics, .on_lost = on_lost};
    assert_int_equal(driver_create(&b.served.driver, b.engine, &options, NULL), HEARTH_OK);
    *state = &b;
    return 0;
}

static int close_bench(void **state)
{
    bench *b = *state;
    driver_destroy(b->served.driver);
    hearth_engine_destroy(b->engine);
    hearth_model_close(b->model);
    hearth_runtime_destroy(b->runtime);
    return 0;
}

static void doze(void)
{
    const struct timespec moment = {.tv_nsec = 200000};
    nanosleep(&moment, NULL);
}

/* Waits until nothing is computed. */
static void idle(serve *s)
{
    size_t running = 1, waiting = 1;
    driver_answer none;
    for (int i = 0; i < 20000 && running + waiting > 0; i++) {
        doze();
        (void)driver_list(s->models->driver, &none, 0, &running, &waiting);
    }
    assert_int_equal(running + waiting, 0);
}

/* Waits until the driver has let go of everything: nothing is left but so many blocks. */
static void settle(serve *s, long blocks)
{
    size_t running = 1, waiting = 1;
    driver_answer none;
    for (int i = 0; i < 20000 && (running + waiting > 0 || mem_live() != blocks); i++) {
        doze();
        (void)driver_list(s->models->driver, &none, 0, &running, &waiting);
    }
    assert_int_equal(running + waiting, 0);
    assert_int_equal(mem_live(), blocks);
}

/* Waits for a talk as a connection would. Streams are gathered in the body. */
static void finish(reply *r)
{
    talk *t = r->talk;
    bool ended = false, ok = true;
    if (!t)
        return;
    while (!t->job->streams && !talk_collect(t, r))
        doze();
    while (t->job->streams && ok && !ended) {
        ok = talk_stream(t, &r->body, &ended);
        doze();
    }
    if (!ok)
        r->status = 500;
    talk_free(t);
    r->talk = NULL;
}

/* Asks a handler; returns the answer, to be released. NULL: it is no JSON. */
static json_t *ask(serve *s, handler *whom, const char *body, unsigned *status)
{
    reply r = {0};
    whom(s, span_of(body), &r);
    finish(&r);
    *status = r.status;
    json_t *out = r.body.size ? json_loadb(r.body.data, r.body.size, 0, NULL) : NULL;
    buffer_free(&r.body);
    return out;
}

static void answers(void **state)
{
    serve *s = &((bench *)*state)->serve;
    long blocks = mem_live();
    unsigned status;
    json_t *one = ask(s, completion_answer_request, "{\"prompt\": \"Once\", \"temperature\": 0}", &status);
    json_t *choice = json_array_get(json_object_get(one, "choices"), 0);
    assert_int_equal(status, 200);
    assert_string_equal(json_string_value(json_object_get(choice, "finish_reason")), "length");
    json_t *all = ask(s, completion_answer_request,
                      "{\"prompt\": [\"Once\", \"Once\", \"Once\"], \"n\": 2, \"temperature\": 0}", &status);
    assert_int_equal(json_array_size(json_object_get(all, "choices")), 6);
    for (size_t i = 0; i < 6; i++)
        assert_true(json_equal(json_object_get(json_array_get(json_object_get(all, "choices"), i), "text"),
                               json_object_get(choice, "text")));
    json_decref(one);
    json_decref(all);
    one = ask(s, completion_answer_request, "{\"prompt\": \"Once\", \"n\": 9}", &status);
    assert_int_equal(status, 400);
    json_decref(one);
    settle(s, blocks);
}

/* Returns the vector of entry i of an answer of /v1/embeddings, as its client has it: v [length], released by nobody. */
static void vector_of(const json_t *answer, size_t i, float *v, size_t length)
{
    const json_t *entry = json_array_get(json_object_get(answer, "data"), i);
    const json_t *values = json_object_get(entry, "embedding");
    assert_string_equal(json_string_value(json_object_get(entry, "object")), "embedding");
    assert_int_equal(json_integer_value(json_object_get(entry, "index")), i);
    assert_int_equal(json_array_size(values), length);
    double square = 0;
    for (size_t k = 0; k < length; k++) {
        v[k] = (float)json_number_value(json_array_get(values, k));
        square += (double)v[k] * v[k];
    }
    assert_true(square > 1 - 1e-5 && square < 1 + 1e-5); /* length 1 */
}

/* Pools hidden states of tokens in a session of its own, by the definition: v [d]. */
static void pooled(const serve *s, const int32_t *ids, size_t count, float *v)
{
    size_t d = s->models->info.embedding_length;
    hearth_session *session;
    hearth_session_options options = {.output_rows = (uint32_t)count};
    hearth_row rows[256];
    float *hidden = malloc(count * d * sizeof *hidden);
    assert_true(count <= 256);
    for (size_t i = 0; i < count; i++)
        rows[i] = (hearth_row){.token = ids[i], .output = true};
    assert_int_equal(hearth_session_create(&session, s->models->options.engine, &options, NULL), HEARTH_OK);
    assert_int_equal(hearth_session_feed(session, rows, count, NULL), HEARTH_OK);
    assert_int_equal(hearth_session_hidden(session, 0, count, hidden, NULL), HEARTH_OK);
    double square = 0;
    for (size_t k = 0; k < d; k++) {
        double sum = 0;
        for (size_t i = 0; i < count; i++)
            sum += (double)hidden[i * d + k];
        v[k] = (float)(sum / (double)count);
        square += (double)v[k] * v[k];
    }
    for (size_t k = 0; k < d; k++)
        v[k] = (float)(v[k] / sqrt(square));
    hearth_session_destroy(session);
    free(hidden);
}

static void expect_near(const float *got, const float *want, size_t n, double most)
{
    for (size_t k = 0; k < n; k++)
        if (fabs((double)got[k] - want[k]) > most)
            fail_msg("value %zu: %g, expected %g", k, got[k], want[k]);
}

/* A prompt of several parts has the mean of all; many at once, in any order, have what each has alone. */
static void vectors(void **state)
{
    serve *s = &((bench *)*state)->serve;
    size_t d = s->models->info.embedding_length;
    unsigned status;
    json_decref(ask(s, embeddings_answer_request, "{\"input\": \"x\"}", &status)); /* takes what stays */
    idle(s);
    long blocks = mem_live();
    float want[1024], got[1024], alone[1024];
    int32_t ids[150];
    buffer body = {0};
    assert_true(d <= 1024);
    assert_true(buffer_print(&body, "{\"input\": [[1, 403, 407], ["));
    for (size_t i = 0; i < 150; i++) {
        ids[i] = (int32_t)(3 + i * 7 % 500);
        assert_true(buffer_print(&body, "%s%d", i ? ", " : "", (int)ids[i]));
    }
    assert_true(buffer_print(&body, "], [403, 1]]}") && buffer_put(&body, "", 1));
    uint64_t counted = metrics_get(&s->models->metrics, METRIC_PROMPT_TOKENS);
    json_t *all = ask(s, embeddings_answer_request, body.data, &status);
    assert_int_equal(status, 200);
    assert_int_equal(json_array_size(json_object_get(all, "data")), 3);
    assert_string_equal(json_string_value(json_object_get(all, "model")), "story");
    json_t *usage = json_object_get(all, "usage");
    assert_int_equal(json_integer_value(json_object_get(usage, "prompt_tokens")), 155);
    assert_int_equal(json_integer_value(json_object_get(usage, "total_tokens")), 155);
    assert_int_equal(metrics_get(&s->models->metrics, METRIC_PROMPT_TOKENS) - counted, 155);
    pooled(s, ids, 150, want);
    vector_of(all, 1, got, d);
    expect_near(got, want, d, 1e-5);
    pooled(s, (const int32_t[]){403, 1}, 2, want);
    vector_of(all, 2, got, d);
    expect_near(got, want, d, 1e-5);
    json_t *one = ask(s, embeddings_answer_request, "{\"input\": [1, 403, 407]}", &status);
    vector_of(one, 0, alone, d);
    vector_of(all, 0, got, d);
    assert_memory_equal(got, alone, d * sizeof *got);
    json_decref(one);
    one = ask(s, embeddings_answer_request, "{\"input\": [1, 403, 407], \"dimensions\": 1}", &status);
    vector_of(one, 0, got, 1);
    json_decref(one);
    json_decref(all);
    buffer_free(&body);
    settle(s, blocks);
}

/* Inputs wait as a sixteenth of an answer each: the bench takes 2 that are written and 6 that wait. */
static void inputs_are_bounded(void **state)
{
    serve *s = &((bench *)*state)->serve;
    long blocks = mem_live();
    for (size_t n = 128; n <= 129; n++) {
        buffer body = {0};
        unsigned status;
        assert_true(buffer_print(&body, "{\"input\": [\"a\""));
        for (size_t i = 1; i < n; i++)
            assert_true(buffer_print(&body, ", \"a\""));
        assert_true(buffer_print(&body, "]}") && buffer_put(&body, "", 1));
        json_t *answer = ask(s, embeddings_answer_request, body.data, &status);
        assert_int_equal(status, n == 128 ? 200 : 400);
        assert_int_equal(json_array_size(json_object_get(answer, "data")), n == 128 ? 128 : 0);
        json_decref(answer);
        buffer_free(&body);
        settle(s, blocks);
    }
}

static void pooling_by_hand(void **state)
{
    (void)state;
    static const float hidden[] = {1, 2, 3, -6, 5, 1};
    double sum[2] = {0, 0};
    float v[2];
    pooling_add(POOLING_MEAN, hidden, 1, 2, sum);
    pooling_add(POOLING_MEAN, hidden + 2, 2, 2, sum);
    pooling_finish(POOLING_MEAN, sum, 3, 2, v);
    assert_true(v[0] == 3 && v[1] == -1);
    pooling_add(POOLING_LAST, hidden, 2, 2, sum);
    pooling_finish(POOLING_LAST, sum, 2, 2, v);
    assert_true(v[0] == 3 && v[1] == -6);
    float w[3] = {3, 0, -4};
    pooling_normalize(w, 3);
    assert_true(w[0] == 0.6F && w[1] == 0 && w[2] == -0.8F);
    float none[2] = {0, 0};
    pooling_normalize(none, 2);
    assert_true(none[0] == 0 && none[1] == 0);
}

static void a_full_queue_says_so(void **state)
{
    serve *s = &((bench *)*state)->serve;
    static const char body[] = "{\"prompt\": \"Once\", \"n\": 8, \"max_tokens\": 400, \"ignore_eos\": true}";
    reply first = {0};
    long blocks = mem_live();
    unsigned status;
    completion_answer_request(s, span_of(body), &first);
    assert_non_null(first.talk);
    json_t *second = ask(s, completion_answer_request, body, &status);
    assert_int_equal(status, 503);
    json_decref(second);
    talk_free(first.talk); /* as a connection that is closed */
    settle(s, blocks);
    assert_true(metrics_get(&s->models->metrics, METRIC_CANCELLED) > 0);
}

/* A history with all that Anthropic's API has in one. */
#define HISTORY                                                                                                    \
    "\"system\": [{\"type\": \"text\", \"text\": \"s\"}], \"thinking\": {\"type\": \"disabled\"}, \"messages\": [" \
    "{\"role\": \"user\", \"content\": \"x\"}, {\"role\": \"assistant\", \"content\": ["                           \
    "{\"type\": \"thinking\", \"thinking\": \"t\", \"signature\": \"\"}, {\"type\": \"text\", \"text\": \"y\"}, "  \
    "{\"type\": \"tool_use\", \"id\": \"1\", \"name\": \"f\", \"input\": {\"a\": 1}}]}, "                          \
    "{\"role\": \"user\", \"content\": [{\"type\": \"tool_result\", \"tool_use_id\": \"1\", "                      \
    "\"content\": [{\"type\": \"text\", \"text\": \"2\"}]}, {\"type\": \"text\", \"text\": \"z\"}]}], "            \
    "\"tools\": [{\"name\": \"f\", \"description\": \"d\", \"input_schema\": {\"type\": \"object\"}}]"

/* What is asked while memory runs out. */
static const struct question {
    handler *whom;
    const char *body;
    const char *last; /* what only the end of a stream has; NULL: a whole answer */
} questions[] = {
    {text_tokenize, "{\"content\": \"Once upon a time\", \"with_pieces\": true}", NULL},
    {text_tokenize, "{\"prompt\": \"Once upon a time\"}", NULL},
    {text_detokenize, "{\"tokens\": [1, 403, 407]}", NULL},
    {text_apply_template,
     "{\"messages\": [{\"role\": \"developer\", \"content\": [{\"type\": \"text\", \"text\": \"x\"}]}]}", NULL},
    {state_metrics, "", NULL},
    {state_slots, "", NULL},
    {state_props, "", NULL},
    {state_tokenizer, "", NULL},
    {state_models, "", NULL},
    {state_health, "", NULL},
    {chat_answer_request,
     "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], \"max_tokens\": 3, \"logprobs\": true, "
     "\"top_logprobs\": 2, "
     "\"stop\": [\"zz\"], \"logit_bias\": {\"5\": 1}}",
     NULL},
    {completion_answer_request,
     "{\"prompt\": [\"Once\", [1, 403]], \"max_tokens\": 3, \"logprobs\": 2, \"echo\": true, \"n\": 2}", NULL},
    {completion_answer_request, "{\"prompt\": \"Once\", \"max_tokens\": 1, \"logprobs\": 2, \"echo\": true}", NULL},
    {completion_answer_request, "{\"prompt\": \"Once\", \"max_tokens\": 3, \"stream\": true}", "data: [DONE]"},
    {embeddings_answer_request, "{\"input\": [\"Once\", [1, 403]], \"dimensions\": 3}", NULL},
    {embeddings_answer_request, "{\"input\": \"Once\", \"dimensions\": 3, \"encoding_format\": \"base64\"}", NULL},
    {messages_count_tokens, "{" HISTORY "}", NULL},
    {messages_answer_request, "{\"max_tokens\": 2, \"stop_sequences\": [\"zz\"], " HISTORY "}", NULL},
    {messages_answer_request, "{\"max_tokens\": 2, \"stream\": true, " HISTORY "}", "event: message_stop"},
    {responses_answer_request,
     "{\"max_output_tokens\": 2, \"instructions\": \"s\", \"input\": [{\"role\": \"user\", \"content\": "
     "[{\"type\": \"input_text\", \"text\": \"x\"}]}]}",
     NULL},
    {responses_answer_request,
     "{\"max_output_tokens\": 2, \"tools\": [{\"type\": \"function\", \"name\": \"f\", \"description\": \"d\"}], "
     "\"input\": ["
     "{\"type\": \"function_call\", \"call_id\": \"1\", \"name\": \"f\", \"arguments\": \"{}\"}, "
     "{\"type\": \"function_call_output\", \"call_id\": \"1\", \"output\": \"2\"}]}",
     NULL},
    {responses_answer_request, "{\"max_output_tokens\": 2, \"input\": \"x\", \"stream\": true}",
     "event: response.incomplete"},
};

/* Asks while the n-th allocation and all later ones fail. Returns whether it was answered in full. */
static bool ask_without_memory(serve *s, const struct question *q, long n)
{
    reply r = {0};
    mem_fail_at(n);
    q->whom(s, span_of(q->body), &r);
    finish(&r);
    mem_fail_at(-1);
    bool ok = r.status == 200 || (q->last && r.status == 0);
    if (!ok && r.status != 500 && r.status != 503)
        fail_msg("%s: allocation %ld: status %u, %.*s", q->body, n, r.status, (int)r.body.size, r.body.data);
    if (q->last)
        ok = r.body.size > 0 && memmem(r.body.data, r.body.size, q->last, strlen(q->last));
    buffer_free(&r.body);
    return ok;
}

static void every_allocation_may_fail(void **state)
{
    serve *s = &((bench *)*state)->serve;
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        long n = 0, blocks;
        assert_true(ask_without_memory(s, &questions[i], -1)); /* what is taken once and stays */
        for (int wait = 0; wait < 100; wait++)
            doze();
        blocks = mem_live();
        while (!ask_without_memory(s, &questions[i], n)) {
            settle(s, blocks);
            assert_true(++n < 1000);
        }
        settle(s, blocks);
    }
}

/* Gives a choice a piece of an answer, as the driver would. false: no memory. */
static bool give(talk *t, said *c, const char *text, bool ends)
{
    const event e = {.kind = EVENT_TOKEN, .token = {.token = -1}, .text = text, .size = strlen(text)};
    c->has_ended = ends;
    c->ending.stop = ends ? HEARTH_STOP_END : HEARTH_STOP_NONE;
    return t->api->add(t, c, &e);
}

/* The same, and returns what its stream says of it, terminated. */
static const char *tell_of(talk *t, size_t choice, const char *text, bool ends, buffer *out)
{
    said *c = &t->choices[choice];
    assert_true(give(t, c, text, ends));
    out->size = 0;
    assert_true(t->api->news(t, c, out) && (!ends || t->api->end(t, out)) && buffer_put(out, "", 1));
    return out->data;
}

static const char *tell(talk *t, const char *text, bool ends, buffer *out)
{
    return tell_of(t, 0, text, ends, out);
}

/* The members of one object of a stream are said in any order. */
static void has(const char *text, const char *what)
{
    if (!strstr(text, what))
        fail_msg("no %s in %s", what, text);
}

static void thoughts_are_blocks_of_their_own(void **state)
{
    serve *s = &((bench *)*state)->serve;
    static const char messages[] = "{\"max_tokens\": 1, \"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}";
    long blocks = mem_live();
    reply r = {0};
    buffer out = {0};
    messages_answer_request(s, span_of(messages), &r);
    assert_non_null(r.talk);
    const char *text = tell(r.talk, "<think>so", false, &out);
    has(text, "\"index\":0,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}");
    has(text, "\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"so\"}");
    text = tell(r.talk, " on</think>well", false, &out);
    has(text, "\"thinking\":\" on\"");
    has(text, "{\"type\":\"content_block_stop\",\"index\":0}");
    has(text, "\"index\":1,\"content_block\":{\"type\":\"text\",\"text\":\"\"}");
    has(text, "\"delta\":{\"type\":\"text_delta\",\"text\":\"well\"}");
    text = tell(r.talk, "", true, &out);
    has(text, "{\"type\":\"content_block_stop\",\"index\":1}");
    has(text, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
    talk_free(r.talk);
    r = (reply){0};
    responses_answer_request(s, span_of("{\"max_output_tokens\": 1, \"input\": \"x\"}"), &r);
    assert_non_null(r.talk);
    text = tell(r.talk, "<think>so on", false, &out);
    has(text, "\"delta\":\"so on\",\"type\":\"response.reasoning_text.delta\"");
    text = tell(r.talk, "</think>well", true, &out);
    has(text, "\"text\":\"so on\",\"type\":\"response.reasoning_text.done\"");
    has(text, "\"text\":\"well\",\"logprobs\":[],\"type\":\"response.output_text.done\"");
    has(strstr(text, "event: response.completed"), "\"content\":[{\"type\":\"reasoning_text\",\"text\":\"so on\"}]");
    has(strstr(text, "event: response.completed"), "\"content\":[{\"type\":\"output_text\",\"text\":\"well\"");
    talk_free(r.talk);
    buffer_free(&out);
    settle(s, blocks);
}

/* ------------------------------------------------------------------ calls of tools */

/* A template that shows tools, with the marks of a convention in its source. */
#define CALLING              "{{ tools | tojson }}{% if false %}<tool_call>{% endif %}"
#define ONE(name, arguments) "<tool_call>{\"name\": \"" name "\", \"arguments\": " arguments "}</tool_call>"
#define ASK                  "\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]"
#define CHAT_TOOLS           "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]"
#define MESSAGE_TOOLS        "\"tools\": [{\"name\": \"f\", \"input_schema\": {\"type\": \"object\"}}]"
#define RESPONSE_TOOLS       "\"tools\": [{\"type\": \"function\", \"name\": \"f\", \"parameters\": {\"type\": \"object\"}}]"

/* Asks, with that template; what the model itself answers is left aside. */
static talk *begin_talk(serve *s, handler *whom, const char *body)
{
    reply r = {0};
    s->models->options.template_text = CALLING;
    whom(s, span_of(body), &r);
    s->models->options.template_text = NULL;
    assert_non_null(r.talk);
    return r.talk;
}

/* Returns the body of a whole answer of this text. */
static json_t *answer_whole(serve *s, handler *whom, const char *body, const char *text)
{
    talk *t = begin_talk(s, whom, body);
    for (size_t i = 0; i < t->count; i++)
        assert_true(give(t, &t->choices[i], text, true));
    json_t *whole = t->api->whole(t);
    assert_non_null(whole);
    talk_free(t);
    return whole;
}

/* Compares a list with JSON in which ids of calls are "": they must be nine letters and digits, and differ. */
static void expect_json(json_t *list, const char *expected)
{
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    json_t *wanted = json_loads(expected, 0, NULL);
    char last[10] = "";
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *item = json_array_get(list, i);
        const char *name = json_object_get(item, "call_id") ? "call_id" : "id";
        const char *id = json_string_value(json_object_get(item, name));
        if (!id)
            continue;
        assert_true(strlen(id) == 9 && strspn(id, digits) == 9 && strcmp(id, last) != 0);
        memcpy(last, id, sizeof last);
        assert_int_equal(json_object_set_new(item, name, json_string("")), 0);
    }
    assert_non_null(wanted);
    if (!json_equal(list, wanted)) {
        char *text = json_dumps(list, JSON_ENCODE_ANY);
        fail_msg("%s, not %s", text, expected);
    }
    json_decref(wanted);
}

static void chats_have_calls(void **state)
{
    serve *s = &((bench *)*state)->serve;
    long blocks = mem_live();
    static const char two[] = "Look." ONE("f", "{\"a\": 1.10}") "\n" ONE("g", "{}");
    json_t *body = answer_whole(s, chat_answer_request, "{\"n\": 2, \"max_tokens\": 1, " CHAT_TOOLS ", " ASK "}", two);
    for (size_t i = 0; i < 2; i++) {
        json_t *choice = json_array_get(json_object_get(body, "choices"), i),
               *message = json_object_get(choice, "message");
        assert_string_equal(json_string_value(json_object_get(choice, "finish_reason")), "tool_calls");
        assert_string_equal(json_string_value(json_object_get(message, "content")), "Look.");
        expect_json(json_object_get(message, "tool_calls"),
                    "[{\"id\": \"\", \"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": "
                    "\"{\\\"a\\\": 1.10}\"}}, "
                    "{\"id\": \"\", \"type\": \"function\", \"function\": {\"name\": \"g\", \"arguments\": \"{}\"}}]");
    }
    json_decref(body);
    body = answer_whole(s, chat_answer_request,
                        "{\"parallel_tool_calls\": false, \"max_tokens\": 1, " CHAT_TOOLS ", " ASK "}",
                        ONE("f", "{}") ONE("g", "{}") " and more");
    json_t *message = json_object_get(json_array_get(json_object_get(body, "choices"), 0), "message");
    assert_true(json_is_null(json_object_get(message, "content")));
    assert_int_equal(json_array_size(json_object_get(message, "tool_calls")), 1);
    json_decref(body);
    /* no tools, no calls; nor where a call is broken */
    body = answer_whole(s, chat_answer_request,
                        "{\"max_tokens\": 1, \"tool_choice\": \"none\", " CHAT_TOOLS ", " ASK "}", ONE("f", "{}"));
    message = json_object_get(json_array_get(json_object_get(body, "choices"), 0), "message");
    assert_string_equal(json_string_value(json_object_get(message, "content")), ONE("f", "{}"));
    assert_null(json_object_get(message, "tool_calls"));
    json_decref(body);
    body = answer_whole(s, chat_answer_request, "{\"max_tokens\": 1, " CHAT_TOOLS ", " ASK "}",
                        "<tool_call>{\"name\": \"f\", \"ar");
    json_t *choice = json_array_get(json_object_get(body, "choices"), 0);
    assert_string_equal(json_string_value(json_object_get(json_object_get(choice, "message"), "content")),
                        "<tool_call>{\"name\": \"f\", \"ar");
    assert_string_equal(json_string_value(json_object_get(choice, "finish_reason")), "stop");
    json_decref(body);
    settle(s, blocks);
}

static void streams_of_chats_have_calls(void **state)
{
    serve *s = &((bench *)*state)->serve;
    long blocks = mem_live();
    buffer out = {0};
    char first[10];
    talk *t =
        begin_talk(s, chat_answer_request, "{\"n\": 2, \"max_tokens\": 1, \"stream\": true, " CHAT_TOOLS ", " ASK "}");
    const char *text = tell(t, "<think>which</think>Look.<tool_", false, &out);
    has(text, "\"reasoning_content\":\"which\",\"content\":\"Look.\"}");
    text = tell(t, "call>{\"name\": \"f\", \"arguments\": {\"a\"", false, &out);
    assert_string_equal(text, "");
    text = tell(t, ": 1}}</tool_call>\n" ONE("g", "{}"), false, &out);
    has(text, "\"delta\":{\"tool_calls\":[{\"id\":\"");
    has(text, "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\": 1}\"},\"index\":0},");
    has(text, "\"function\":{\"name\":\"g\",\"arguments\":\"{}\"},\"index\":1}]}");
    memcpy(first, strstr(text, "[{\"id\":\"") + 8, 9);
    first[9] = '\0';
    text = tell(t, ONE("h", "{}"), false, &out);
    has(text, "\"function\":{\"name\":\"h\",\"arguments\":\"{}\"},\"index\":2}]}");
    assert_null(strstr(text, first));
    text = tell_of(t, 1, ONE("f", "{}"), false, &out);
    has(text, "\"index\":1,\"delta\":{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"");
    has(text, "\"arguments\":\"{}\"},\"index\":0}]}");
    assert_null(strstr(text, first)); /* ids are told apart between choices, too */
    text = tell(t, "", true, &out);
    has(text, "\"delta\":{},\"logprobs\":null,\"finish_reason\":\"tool_calls\"");
    text =
        tell_of(t, 1, "<tool_call>{\"name\": \"g\", \"arguments\": {}}", true, &out); /* as at the end of a context */
    has(text, "\"index\":1,\"delta\":{\"tool_calls\":[{\"id\":\"");
    has(text, "\"finish_reason\":\"tool_calls\"");
    talk_free(t);
    buffer_free(&out);
    settle(s, blocks);
}

static void messages_have_calls(void **state)
{
    serve *s = &((bench *)*state)->serve;
    long blocks = mem_live();
    buffer out = {0};
    json_t *body = answer_whole(s, messages_answer_request, "{\"max_tokens\": 1, " MESSAGE_TOOLS ", " ASK "}",
                                "Look." ONE("f", "{\"a\": [1, \"x\"]}") ONE("g", "{\"big\": 123456789012345678901}"));
    assert_string_equal(json_string_value(json_object_get(body, "stop_reason")), "tool_use");
    expect_json(json_object_get(body, "content"), "[{\"type\": \"text\", \"text\": \"Look.\"}, {\"type\": "
                                                  "\"tool_use\", \"id\": \"\", \"name\": \"f\", \"input\": "
                                                  "{\"a\": [1, \"x\"]}}, {\"type\": \"tool_use\", \"id\": \"\", "
                                                  "\"name\": \"g\", \"input\": {\"big\": 123456789012345678901.0}}]");
    json_decref(body);
    body = answer_whole(
        s, messages_answer_request,
        "{\"max_tokens\": 1, \"tool_choice\": {\"type\": \"auto\", \"disable_parallel_tool_use\": true}, " MESSAGE_TOOLS
        ", " ASK "}",
        ONE("f", "{}") ONE("g", "{}"));
    expect_json(json_object_get(body, "content"),
                "[{\"type\": \"tool_use\", \"id\": \"\", \"name\": \"f\", \"input\": {}}]");
    json_decref(body);
    talk *t =
        begin_talk(s, messages_answer_request, "{\"max_tokens\": 1, \"stream\": true, " MESSAGE_TOOLS ", " ASK "}");
    const char *text = tell(t, "Look." ONE("f", "{\"a\": 1}") ONE("g", "{}"), false, &out);
    has(text, "{\"type\":\"content_block_stop\",\"index\":0}");
    has(text, "\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"");
    has(text, "\"name\":\"f\",\"input\":{}}");
    has(text, "\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"a\\\": 1}\"}");
    has(text, "{\"type\":\"content_block_stop\",\"index\":1}");
    has(text, "\"index\":2,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{}\"}");
    has(text, "{\"type\":\"content_block_stop\",\"index\":2}");
    text = tell(t, "", true, &out);
    has(text, "\"stop_reason\":\"tool_use\"");
    assert_null(strstr(text, "content_block_stop"));
    talk_free(t);
    buffer_free(&out);
    settle(s, blocks);
}

static void responses_have_calls(void **state)
{
    serve *s = &((bench *)*state)->serve;
    long blocks = mem_live();
    buffer out = {0};
    json_t *body =
        answer_whole(s, responses_answer_request,
                     "{\"max_output_tokens\": 1, \"parallel_tool_calls\": false, \"input\": \"x\", " RESPONSE_TOOLS "}",
                     ONE("f", "{\"a\": 1}") ONE("g", "{}"));
    json_t *output = json_object_get(body, "output");
    has(json_string_value(json_object_get(json_array_get(output, 0), "id")), "fc_resp_");
    assert_int_equal(json_object_del(json_array_get(output, 0), "id"), 0);
    expect_json(output,
                "[{\"type\": \"function_call\", \"call_id\": \"\", \"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\", "
                "\"status\": \"completed\"}]");
    assert_true(json_is_false(json_object_get(body, "parallel_tool_calls")));
    expect_json(json_object_get(body, "tools"),
                "[{\"type\": \"function\", \"name\": \"f\", \"parameters\": {\"type\": \"object\"}}]");
    json_decref(body);
    talk *t = begin_talk(s, responses_answer_request,
                         "{\"max_output_tokens\": 1, \"stream\": true, \"input\": \"x\", " RESPONSE_TOOLS "}");
    const char *text = tell(t, "Look." ONE("f", "{\"a\": 1}"), false, &out);
    has(text, "\"text\":\"Look.\",\"logprobs\":[],\"type\":\"response.output_text.done\"");
    has(text, "\"output_index\":1,\"item\":{\"type\":\"function_call\",\"id\":\"fc_resp_");
    has(text, "\"name\":\"f\",\"arguments\":\"\",\"status\":\"in_progress\"},\"type\":\"response.output_item.added\"");
    has(text, "\"output_index\":1,\"delta\":\"{\\\"a\\\": 1}\",\"type\":\"response.function_call_arguments.delta\"");
    has(text, "\"output_index\":1,\"arguments\":\"{\\\"a\\\": 1}\",\"type\":\"response.function_call_arguments.done\"");
    has(text, "\"name\":\"f\",\"arguments\":\"{\\\"a\\\": "
              "1}\",\"status\":\"completed\"},\"type\":\"response.output_item.done\"");
    text = tell(t, "", true, &out);
    has(strstr(text, "event: response.completed"),
        "\"name\":\"f\",\"arguments\":\"{\\\"a\\\": 1}\",\"status\":\"completed\"}]");
    talk_free(t);
    buffer_free(&out);
    settle(s, blocks);
}

/* Says an answer while the n-th allocation and all later ones fail. Returns whether all of it was said. */
static bool call_without_memory(talk *t, long n)
{
    buffer out = {0};
    mem_fail_at(n);
    bool ok = give(t, t->choices, "Look." ONE("f", "{\"a\": 1}") ONE("g", "{}") "<tool_call>{", true);
    if (ok && t->job->streams)
        ok = t->api->begin ? t->api->begin(t, &out) : true;
    if (ok && t->job->streams)
        ok = t->api->news(t, t->choices, &out) && t->api->end(t, &out);
    json_t *whole = ok && !t->job->streams ? t->api->whole(t) : NULL;
    mem_fail_at(-1);
    ok = ok && (t->job->streams || whole);
    json_decref(whole);
    buffer_free(&out);
    return ok;
}

static void calls_need_memory(void **state)
{
    serve *s = &((bench *)*state)->serve;
    static const struct {
        handler *whom;
        const char *body;
    } rows[] = {
        {chat_answer_request, "{\"max_tokens\": 1, " CHAT_TOOLS ", " ASK "}"},
        {chat_answer_request, "{\"max_tokens\": 1, \"stream\": true, " CHAT_TOOLS ", " ASK "}"},
        {messages_answer_request, "{\"max_tokens\": 1, " MESSAGE_TOOLS ", " ASK "}"},
        {messages_answer_request, "{\"max_tokens\": 1, \"stream\": true, " MESSAGE_TOOLS ", " ASK "}"},
        {responses_answer_request, "{\"max_output_tokens\": 1, \"input\": \"x\", " RESPONSE_TOOLS "}"},
        {responses_answer_request,
         "{\"max_output_tokens\": 1, \"stream\": true, \"input\": \"x\", " RESPONSE_TOOLS "}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        long blocks = mem_live();
        bool ok = false;
        for (long n = 0; !ok; n++) {
            talk *t = begin_talk(s, rows[i].whom, rows[i].body);
            idle(s); /* the driver's memory must not fail */
            ok = call_without_memory(t, n);
            talk_free(t);
            settle(s, blocks);
            assert_true(n < 1000);
        }
    }
}

/* Histories of Anthropic's API become what templates take. */
static void histories_are_translated(void **state)
{
    (void)state;
    static const char expected[] =
        "[{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", \"content\": \"x\"},"
        " {\"role\": \"assistant\", \"content\": \"y\", \"reasoning_content\": \"t\", \"tool_calls\": [{\"id\": \"1\","
        " \"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": {\"a\": 1}}}]},"
        " {\"role\": \"tool\", \"tool_call_id\": \"1\", \"content\": \"2\"}, {\"role\": \"user\", \"content\": \"z\"}]";
    static const char tools[] = "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": \"d\","
                                " \"parameters\": {\"type\": \"object\"}}}]";
    static const char *const merged[][2] = {
        {"{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": "
         "\"b\"}]}",
         "[{\"role\": \"user\", \"content\": \"a\\nb\"}]"},
        {"{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}, {\"type\": \"tool_result\", "
         "\"tool_use_id\": \"1\"}]}",
         "[{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"tool\", \"tool_call_id\": \"1\", \"content\": "
         "\"\"}]"},
        {"{\"role\": \"user\", \"content\": []}", "[{\"role\": \"user\", \"content\": \"\"}]"},
    };
    problem p = {0};
    conversation_fields c;
    json_t *body = json_loads("{" HISTORY "}", 0, NULL), *wanted = json_loads(expected, 0, NULL);
    assert_true(body && wanted && messages_read(body, &c, &p));
    assert_true(json_equal(c.messages, wanted));
    json_decref(wanted);
    wanted = json_loads(tools, 0, NULL);
    assert_true(json_equal(c.tools, wanted));
    assert_true(json_is_false(json_object_get(c.variables, "enable_thinking")));
    json_decref(wanted);
    json_decref(body);
    for (size_t i = 0; i < sizeof merged / sizeof *merged; i++) {
        char text[400];
        snprintf(text, sizeof text, "{\"messages\": [%s]}", merged[i][0]);
        body = json_loads(text, 0, NULL);
        wanted = json_loads(merged[i][1], 0, NULL);
        assert_true(body && wanted && messages_read(body, &c, &p));
        assert_true(json_equal(c.messages, wanted));
        json_decref(wanted);
        json_decref(body);
    }
}

/* So do the items of responses: calls belong to the message before them. */
static void items_are_translated(void **state)
{
    (void)state;
    static const char items[] =
        "{\"input\": [{\"role\": \"user\", \"content\": \"x\"}, {\"type\": \"reasoning\", \"summary\": []},"
        " {\"role\": \"assistant\", \"content\": [{\"type\": \"output_text\", \"text\": \"y\"}]},"
        " {\"type\": \"function_call\", \"call_id\": \"1\", \"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"},"
        " {\"type\": \"function_call\", \"call_id\": \"2\", \"name\": \"g\", \"arguments\": \"no\"},"
        " {\"type\": \"function_call_output\", \"call_id\": \"1\", \"output\": [{\"type\": \"input_text\", \"text\": "
        "\"2\"}]},"
        " {\"type\": \"function_call\", \"call_id\": \"3\", \"name\": \"f\", \"arguments\": \"{}\"}],"
        " \"tools\": [{\"type\": \"function\", \"name\": \"f\", \"description\": \"d\", \"parameters\": {\"type\": "
        "\"object\"}}]}";
    static const char expected[] =
        "[{\"role\": \"user\", \"content\": \"x\"}, {\"role\": \"assistant\", \"content\": \"y\", \"tool_calls\": ["
        "{\"id\": \"1\", \"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": {\"a\": 1}}},"
        " {\"id\": \"2\", \"type\": \"function\", \"function\": {\"name\": \"g\", \"arguments\": \"no\"}}]},"
        " {\"role\": \"tool\", \"tool_call_id\": \"1\", \"content\": \"2\"},"
        " {\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": ["
        "{\"id\": \"3\", \"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": {}}}]}]";
    static const char tools[] = "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": \"d\","
                                " \"parameters\": {\"type\": \"object\"}}}]";
    problem p = {0};
    conversation_fields c;
    json_t *body = json_loads(items, 0, NULL), *messages = json_loads(expected, 0, NULL),
           *offered = json_loads(tools, 0, NULL);
    assert_true(body && messages && offered && responses_read(body, &c, &p));
    assert_true(json_equal(c.messages, messages) && json_equal(c.tools, offered) && c.parallel_calls);
    json_decref(body);
    json_decref(messages);
    json_decref(offered);
}

/* ------------------------------------------------------------------ several models */

/* Returns the error of an answer that must be one of this status, as its API has it; released with the answer. */
static const json_t *refusal(const json_t *answer, unsigned got, unsigned expected)
{
    assert_int_equal(got, expected);
    assert_non_null(json_object_get(answer, "error"));
    return json_object_get(answer, "error");
}

/* Names with what JSON and Prometheus escape; both models are the bench's, which suffices to be found. */
static void models_have_names(void **state)
{
    bench *b = *state;
    serve *s = &b->serve;
    static const char odd[] = "a \"b\" \\ c", message[] = "{\"model\": \"none\", \"max_tokens\": 1, " ASK "}";
    served two[2] = {{0}, {0}};
    unsigned status;
    for (size_t i = 0; i < 2; i++) {
        two[i] = (served){.serve = s,
                          .options = b->served.options,
                          .model = b->model,
                          .info = b->served.info,
                          .driver = b->served.driver};
        two[i].options.name = i == 0 ? "story" : odd;
    }
    s->models = two;
    s->model_count = 2;
    static const struct {
        const char *body, *name;
    } requests[] = {
        {"{\"prompt\": \"Once\", \"max_tokens\": 1}", "story"},
        {"{\"prompt\": \"Once\", \"max_tokens\": 1, \"model\": null}", "story"},
        {"{\"prompt\": \"Once\", \"max_tokens\": 1, \"model\": \"\"}", "story"},
        {"{\"prompt\": \"Once\", \"max_tokens\": 1, \"model\": \"story\"}", "story"},
        {"{\"prompt\": \"Once\", \"max_tokens\": 1, \"model\": \"a \\\"b\\\" \\\\ c\"}", odd},
    };
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        json_t *answer = ask(s, completion_answer_request, requests[i].body, &status);
        assert_int_equal(status, 200);
        assert_string_equal(json_string_value(json_object_get(answer, "model")), requests[i].name);
        json_decref(answer);
    }
    json_t *answer = ask(s, completion_answer_request, "{\"prompt\": \"Once\", \"model\": \"stor\"}", &status);
    const json_t *error = refusal(answer, status, 404);
    assert_string_equal(json_string_value(json_object_get(error, "code")), "model_not_found");
    has(json_string_value(json_object_get(error, "message")), "stor: there is no such model, only story, a \"b\" \\ c");
    json_decref(answer);
    answer = ask(s, completion_answer_request, "{\"prompt\": \"Once\", \"model\": 1}", &status);
    assert_string_equal(json_string_value(json_object_get(refusal(answer, status, 400), "param")), "model");
    json_decref(answer);
    reply r = {.errors = &problem_anthropic};
    messages_answer_request(s, span_of(message), &r);
    answer = json_loadb(r.body.data, r.body.size, 0, NULL);
    error = refusal(answer, r.status, 404);
    assert_string_equal(json_string_value(json_object_get(error, "type")), "not_found_error");
    has(json_string_value(json_object_get(error, "message")), "none: there is no such model");
    json_decref(answer);
    buffer_free(&r.body);
    answer = ask(s, state_models, "", &status);
    assert_int_equal(json_array_size(json_object_get(answer, "data")), 2);
    assert_string_equal(json_string_value(json_object_get(answer, "first_id")), "story");
    assert_string_equal(json_string_value(json_object_get(answer, "last_id")), odd);
    json_decref(answer);
    answer = ask(s, state_props, odd, &status);
    assert_string_equal(json_string_value(json_object_get(answer, "model")), odd);
    json_decref(answer);
    answer = ask(s, state_props, "none", &status);
    (void)refusal(answer, status, 404);
    json_decref(answer);
    r = (reply){0};
    state_metrics(s, (span){0}, &r);
    assert_true(buffer_put(&r.body, "", 1));
    has(r.body.data, "hearth_steps{model=\"story\"} 0\nhearth_steps{model=\"a \\\"b\\\" \\\\ c\"} 0\n");
    has(r.body.data, "seconds_bucket{model=\"story\",le=\"+Inf\"} 0\n");
    has(r.body.data, "\nhearth_requests_total 0\n");
    buffer_free(&r.body);
    idle(s);
    s->models = &b->served;
    s->model_count = 1;
}

static void a_driver_that_stops_tells_all(void **state)
{
    serve *s = &((bench *)*state)->serve;
    static const char body[] = "{\"prompt\": \"Once\", \"n\": 6, \"max_tokens\": 400, \"ignore_eos\": true}";
    static const struct {
        handler *whom;
        const char *body, *last;
    } streams[] = {
        {messages_answer_request,
         "{\"max_tokens\": 400, \"stream\": true, \"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}",
         "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":"},
        {responses_answer_request, "{\"input\": \"x\", \"stream\": true}",
         "event: error\ndata: {\"type\":\"error\",\"sequence_number\":"},
    };
    reply r = {0}, streamed[2] = {{0}, {0}};
    unsigned status;
    completion_answer_request(s, span_of(body), &r);
    for (size_t i = 0; i < 2; i++)
        streams[i].whom(s, span_of(streams[i].body), &streamed[i]);
    driver_stop(s->models->driver);
    for (size_t i = 0; i < 2; i++) {
        finish(&streamed[i]);
        assert_non_null(memmem(streamed[i].body.data, streamed[i].body.size, streams[i].last, strlen(streams[i].last)));
        buffer_free(&streamed[i].body);
    }
    finish(&r);
    assert_int_equal(r.status, 503);
    assert_non_null(memmem(r.body.data, r.body.size, "shutting_down", 13));
    buffer_free(&r.body);
    json_t *late = ask(s, completion_answer_request, body, &status);
    assert_int_equal(status, 503);
    json_decref(late);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers),
        cmocka_unit_test(vectors),
        cmocka_unit_test(inputs_are_bounded),
        cmocka_unit_test(pooling_by_hand),
        cmocka_unit_test(a_full_queue_says_so),
        cmocka_unit_test(thoughts_are_blocks_of_their_own),
        cmocka_unit_test(chats_have_calls),
        cmocka_unit_test(streams_of_chats_have_calls),
        cmocka_unit_test(messages_have_calls),
        cmocka_unit_test(responses_have_calls),
        cmocka_unit_test(calls_need_memory),
        cmocka_unit_test(histories_are_translated),
        cmocka_unit_test(items_are_translated),
        cmocka_unit_test(models_have_names),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(a_driver_that_stops_tells_all),
    };
    return cmocka_run_group_tests(tests, open_bench, close_bench);
}
