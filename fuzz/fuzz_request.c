/* fuzz_request.c - the body of a request to the server: a byte that chooses the path, then what a client sent.
 *
 * Covers: src/serve/fields.c
 * Covers: src/serve/conversation_fields.c
 * Covers: src/serve/text_api.c
 * Covers: src/serve/prompts.c
 * Covers: src/serve/messages_fields.c
 * Covers: src/serve/responses_fields.c
 * Covers: src/serve/problem.c
 *
 * Files that mostly make answers (chat_api.c, messages_api.c, responses_api.c, conversation.c) are not among these.
 *
 * Whatever it is: no fault, nothing left behind, and an answer in JSON with a status that fits. Nothing is computed: the
 * thread that would do it has been stopped, so good requests are told that the server ends. */
#include "../src/base/memory.h"
#include "../src/serve/api.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static handler *const handlers[] = {chat_answer_request,   completion_answer_request, text_tokenize,
                                    text_detokenize,       text_apply_template,       messages_answer_request,
                                    messages_count_tokens, responses_answer_request,  embeddings_answer_request};

static void on_lost(void *user)
{
    (void)user;
}

/* Returns the server that all inputs ask; it is opened once. */
static serve *open_server(void)
{
    static serve s;
    static served m;
    static hearth_runtime *runtime;
    static hearth_model *model;
    static hearth_engine *engine;
    const hearth_runtime_options one = {.threads = 1};
    const driver_options options = {
        .session = {.context = 64, .sequences = 2}, .queue = 6, .metrics = &m.metrics, .on_lost = on_lost};
    if (m.driver)
        return &s;
    if (hearth_runtime_create(&runtime, &one, NULL) != HEARTH_OK ||
        hearth_model_open(&model, HEARTH_MODELS "/stories-relu-q8_0.gguf", NULL, NULL) != HEARTH_OK ||
        hearth_engine_create(&engine, runtime, model, NULL, NULL) != HEARTH_OK)
        exit(1);
    s = (serve){.models = &m, .model_count = 1};
    m.serve = &s;
    m.options = (served_options){
        .name = "fuzz", .engine = engine, .template_name = "chatml", .sampling = hearth_sampling_default()};
    m.model = model;
    hearth_model_describe(model, &m.info);
    if (driver_create(&m.driver, engine, &options, NULL) != HEARTH_OK)
        exit(1);
    driver_stop(m.driver);
    return &s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    serve *s = open_server();
    long before = mem_live();
    if (size == 0)
        return 0;
    handler *asked = handlers[data[0] % (sizeof handlers / sizeof *handlers)];
    bool anthropic = asked == messages_answer_request || asked == messages_count_tokens;
    reply r = {.errors = anthropic ? &problem_anthropic : &problem_openai}; /* as their routes have it */
    asked(s, (span){(const char *)data + 1, size - 1}, &r);
    json_t *answer = json_loadb(r.body.data, r.body.size, JSON_ALLOW_NUL, NULL); /* tokens may hold a 0 */
    if (r.talk || !answer || (r.status != 200 && r.status != 400 && r.status != 503))
        abort();
    if ((r.status == 200) == (json_object_get(answer, "error") != NULL))
        abort();
    json_decref(answer);
    buffer_free(&r.body);
    if (mem_live() != before)
        abort();
    return 0;
}
