/* generate.c - the shortest way from a model file to text, through hearth.h alone.
 *
 *   cc generate.c $(pkg-config --cflags --libs hearth) -o generate
 *   ./generate model.gguf "Once upon a time" 40
 *
 * Prints the text and what the model adds to it; the same each time, because it always takes the likeliest token. */
#include <hearth.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Each piece of text, as soon as it is known. */
static bool show(void *user, int32_t token, const char *text, size_t size)
{
    (void)user;
    (void)token;
    fwrite(text, 1, size, stdout);
    fflush(stdout);
    return true;
}

static hearth_status generate(hearth_session *session, const hearth_model *model, const char *text, unsigned count,
                              hearth_error *error)
{
    int32_t *ids = NULL;
    size_t id_count = 0;
    hearth_sampler *sampler = NULL;
    hearth_sampling sampling = hearth_sampling_default();
    hearth_answer_options options = {.max_tokens = count};
    hearth_result result;
    hearth_model_info info;
    hearth_model_describe(model, &info);
    sampling.temperature = 0;

    hearth_status status = hearth_tokenize(model, text, strlen(text), HEARTH_TEXT_SPECIAL, &ids, &id_count, error);
    if (status == HEARTH_OK)
        status = hearth_sampler_create(&sampler, &sampling, info.vocabulary_size, error);
    if (status == HEARTH_OK) {
        printf("%s", text);
        status = hearth_generate(session, 0, ids, id_count, sampler, &options, show, NULL, &result, error);
        printf("\n");
    }
    hearth_sampler_destroy(sampler);
    hearth_free(ids);
    return status;
}

int main(int argc, char **argv)
{
    hearth_runtime *runtime = NULL;
    hearth_model *model = NULL;
    hearth_engine *engine = NULL;
    hearth_session *session = NULL;
    hearth_error error = {0};
    if (argc < 3) {
        fprintf(stderr, "usage: generate MODEL TEXT [TOKENS]\n");
        return 2;
    }
    hearth_status status = hearth_runtime_create(&runtime, NULL, &error);
    if (status == HEARTH_OK)
        status = hearth_model_open(&model, argv[1], NULL, &error);
    if (status == HEARTH_OK)
        status = hearth_engine_create(&engine, runtime, model, NULL, &error);
    if (status == HEARTH_OK)
        status = hearth_session_create(&session, engine, NULL, &error);
    if (status == HEARTH_OK)
        status = generate(session, model, argv[2], argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 40, &error);
    if (status != HEARTH_OK)
        fprintf(stderr, "generate: %s\n", error.text);
    hearth_session_destroy(session);
    hearth_engine_destroy(engine);
    hearth_model_close(model);
    hearth_runtime_destroy(runtime);
    return status == HEARTH_OK ? 0 : 1;
}
