/* batch.c - answers every line of a file, many at once, through hearth.h alone.
 *
 *   cc batch.c $(pkg-config --cflags --libs hearth) -o batch
 *   ./batch model.gguf prompts.txt 40
 *
 * Each step reads one new token of all texts that are being written, so that the weights are read once for all of them.
 * Prints each line with what the model adds to it, in the order in which they are done; the likeliest token is taken. */
#include <hearth.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOGETHER = 8 }; /* texts at once */

/* One line of the file. */
typedef struct line {
    char *text;
    size_t size, capacity;
    hearth_sampler *sampler;
    hearth_answer *answer;
} line;

static bool add_text(void *user, const hearth_token *token)
{
    line *l = user;
    if (l->capacity - l->size <= token->size) {
        char *more = realloc(l->text, l->capacity = 2 * (l->size + token->size) + 64);
        if (!more)
            return false; /* ends this text */
        l->text = more;
    }
    memcpy(l->text + l->size, token->text, token->size);
    l->size += token->size;
    return true;
}

static void print(void *user, const hearth_outcome *outcome)
{
    line *l = user;
    printf("%.*s%s%s\n", (int)l->size, l->text, *outcome->error ? " - " : "", outcome->error);
    hearth_sampler_destroy(l->sampler);
    hearth_answer_destroy(l->answer);
    free(l->text);
    free(l);
}

/* Asks for the continuation of a text of `size` bytes. */
static hearth_status ask(hearth_scheduler *scheduler, const hearth_model *model, const char *text, size_t size,
                         unsigned tokens, hearth_error *error)
{
    line *l = calloc(1, sizeof *l);
    hearth_request request = {.on_token = add_text, .on_end = print, .user = l};
    hearth_sampling greedy = hearth_sampling_default();
    hearth_answer_options options = {.max_tokens = tokens};
    hearth_model_info info;
    int32_t *ids = NULL;
    hearth_model_describe(model, &info);
    greedy.temperature = 0;
    if (!l || !add_text(l, &(hearth_token){.text = text, .size = size})) {
        fprintf(stderr, "batch: out of memory\n");
        exit(1);
    }
    hearth_status status = hearth_tokenize(model, text, size, HEARTH_TEXT_SPECIAL, &ids, &request.prompt_count, error);
    if (status == HEARTH_OK)
        status = hearth_sampler_create(&l->sampler, &greedy, info.vocabulary_size, error);
    if (status == HEARTH_OK)
        status = hearth_answer_create(&l->answer, model, &options, error);
    request.prompt = ids;
    request.sampler = l->sampler;
    request.answer = l->answer;
    if (status == HEARTH_OK)
        status = hearth_scheduler_add(scheduler, &request, NULL, error);
    hearth_free(ids);
    return status;
}

int main(int argc, char **argv)
{
    hearth_runtime *runtime = NULL;
    hearth_model *model = NULL;
    hearth_engine *engine = NULL;
    hearth_session *session = NULL;
    hearth_scheduler *scheduler = NULL;
    hearth_error error = {0};
    char text[4096];
    FILE *file = argc > 2 ? fopen(argv[2], "r") : NULL;
    if (!file) {
        fprintf(stderr, "usage: batch MODEL FILE [TOKENS]\n");
        return 2;
    }
    unsigned tokens = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 40;
    hearth_session_options options = {.sequences = TOGETHER};
    hearth_scheduler_options lines = {.waiting = 1 << 16};
    hearth_status status = hearth_runtime_create(&runtime, NULL, &error);
    if (status == HEARTH_OK)
        status = hearth_model_open(&model, argv[1], NULL, &error);
    if (status == HEARTH_OK)
        status = hearth_engine_create(&engine, runtime, model, NULL, &error);
    if (status == HEARTH_OK)
        status = hearth_session_create(&session, engine, &options, &error);
    if (status == HEARTH_OK)
        status = hearth_scheduler_create(&scheduler, session, &lines, &error);
    while (status == HEARTH_OK && fgets(text, sizeof text, file))
        status = ask(scheduler, model, text, strcspn(text, "\n"), tokens, &error);
    for (size_t left = 1; status == HEARTH_OK && left > 0;)
        status = hearth_scheduler_step(scheduler, &left, &error);
    if (status != HEARTH_OK)
        fprintf(stderr, "batch: %s\n", error.text);
    hearth_scheduler_destroy(scheduler);
    hearth_session_destroy(session);
    hearth_engine_destroy(engine);
    hearth_model_close(model);
    hearth_runtime_destroy(runtime);
    fclose(file);
    return status == HEARTH_OK ? 0 : 1;
}
