/* two_sequences.c - two texts at once in one session, through hearth.h alone.
 *
 *   cc two_sequences.c $(pkg-config --cflags --libs hearth) -o two_sequences
 *   ./two_sequences model.gguf "Once upon a time" "The sun was" 20
 *
 * Each feed reads one new token of either text, so that the weights are read once for both. Prints both texts with what
 * the model adds to them; the likeliest token is taken each time. */
#include <hearth.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXTS = 2 };

/* One of the texts. */
typedef struct text {
    hearth_answer *answer;
    int32_t next; /* the token to be read */
    bool ended;
    char shown[4096];
    size_t size;
} text;

/* Adds bytes to what is shown of a text; what does not fit is dropped. */
static void show(text *t, const char *bytes, size_t size)
{
    size_t left = sizeof t->shown - t->size;
    size = size < left ? size : left;
    memcpy(t->shown + t->size, bytes, size);
    t->size += size;
}

/* Returns the likeliest token. */
static int32_t likeliest(const float *logits, uint32_t count)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++)
        if (logits[i] > logits[best])
            best = i;
    return (int32_t)best;
}

/* Chooses the next token of a text by its logits and shows what it completes. */
static hearth_status choose(text *t, const float *logits, uint32_t count, hearth_error *error)
{
    const char *bytes;
    size_t size;
    hearth_stop stop;
    t->next = likeliest(logits, count);
    hearth_status status = hearth_answer_push(t->answer, t->next, &bytes, &size, &stop, error);
    if (status != HEARTH_OK)
        return status;
    show(t, bytes, size);
    t->ended = stop != HEARTH_STOP_NONE;
    if (t->ended) {
        hearth_answer_finish(t->answer, &bytes, &size); /* what was held back */
        show(t, bytes, size);
    }
    return HEARTH_OK;
}

/* Reads the prompt of a text into its sequence and chooses the first token. */
static hearth_status begin(hearth_session *session, const hearth_model *model, uint32_t sequence, text *t,
                           const char *prompt, unsigned tokens, float *logits, hearth_error *error)
{
    hearth_model_info info;
    hearth_answer_options options = {.max_tokens = tokens};
    int32_t *ids = NULL;
    size_t count = 0;
    hearth_model_describe(model, &info);
    show(t, prompt, strlen(prompt));
    hearth_status status = hearth_answer_create(&t->answer, model, &options, error);
    if (status == HEARTH_OK)
        status = hearth_tokenize(model, prompt, strlen(prompt), HEARTH_TEXT_SPECIAL, &ids, &count, error);
    hearth_row *rows = status == HEARTH_OK ? calloc(count + 1, sizeof *rows) : NULL;
    if (status == HEARTH_OK && !rows)
        status = HEARTH_NO_MEMORY;
    for (size_t i = 0; rows && i < count; i++)
        rows[i] = (hearth_row){ids[i], sequence, i + 1 == count};
    if (status == HEARTH_OK)
        status = hearth_session_feed(session, rows, count, error);
    free(rows);
    if (status == HEARTH_OK)
        status = hearth_session_logits(session, 0, 1, logits, error);
    if (status == HEARTH_OK)
        status = choose(t, logits, info.vocabulary_size, error);
    hearth_free(ids);
    return status;
}

/* Continues both texts, one token of each that has not ended at a time. */
static hearth_status go_on(hearth_session *session, uint32_t vocabulary_size, text *texts, float *logits,
                           hearth_error *error)
{
    for (;;) {
        hearth_row rows[TEXTS];
        size_t count = 0;
        for (uint32_t i = 0; i < TEXTS; i++)
            if (!texts[i].ended)
                rows[count++] = (hearth_row){texts[i].next, i, true};
        if (count == 0)
            return HEARTH_OK;
        hearth_status status = hearth_session_feed(session, rows, count, error);
        if (status == HEARTH_OK)
            status = hearth_session_logits(session, 0, count, logits, error);
        for (size_t i = 0; status == HEARTH_OK && i < count; i++)
            status = choose(&texts[rows[i].sequence], logits + i * vocabulary_size, vocabulary_size, error);
        if (status != HEARTH_OK)
            return status;
    }
}

/* Opens the model and answers both prompts. */
static hearth_status answer_both(char **arguments, unsigned tokens, text *texts, hearth_error *error)
{
    hearth_runtime *runtime = NULL;
    hearth_model *model = NULL;
    hearth_engine *engine = NULL;
    hearth_session *session = NULL;
    hearth_session_options options = {.sequences = TEXTS};
    hearth_model_info info = {0};
    float *logits = NULL;
    hearth_status status = hearth_runtime_create(&runtime, NULL, error);
    if (status == HEARTH_OK)
        status = hearth_model_open(&model, arguments[0], NULL, error);
    if (status == HEARTH_OK)
        status = hearth_engine_create(&engine, runtime, model, NULL, error);
    if (status == HEARTH_OK)
        status = hearth_session_create(&session, engine, &options, error);
    if (status == HEARTH_OK) {
        hearth_model_describe(model, &info);
        logits = calloc((size_t)TEXTS * info.vocabulary_size, sizeof *logits);
        status = logits ? HEARTH_OK : HEARTH_NO_MEMORY;
    }
    for (uint32_t i = 0; status == HEARTH_OK && i < TEXTS; i++)
        status = begin(session, model, i, &texts[i], arguments[1 + i], tokens, logits, error);
    if (status == HEARTH_OK)
        status = go_on(session, info.vocabulary_size, texts, logits, error);
    for (uint32_t i = 0; i < TEXTS; i++)
        hearth_answer_destroy(texts[i].answer);
    free(logits);
    hearth_session_destroy(session);
    hearth_engine_destroy(engine);
    hearth_model_close(model);
    hearth_runtime_destroy(runtime);
    return status;
}

int main(int argc, char **argv)
{
    static text texts[TEXTS];
    hearth_error error = {0};
    if (argc < 2 + TEXTS) {
        fprintf(stderr, "usage: two_sequences MODEL TEXT TEXT [TOKENS]\n");
        return 2;
    }
    unsigned tokens = argc > 2 + TEXTS ? (unsigned)strtoul(argv[2 + TEXTS], NULL, 10) : 20;
    hearth_status status = answer_both(argv + 1, tokens, texts, &error);
    if (status != HEARTH_OK) {
        fprintf(stderr, "two_sequences: %s\n", error.text[0] ? error.text : hearth_status_text(status));
        return 1;
    }
    for (uint32_t i = 0; i < TEXTS; i++)
        printf("%.*s\n", (int)texts[i].size, texts[i].shown);
    return 0;
}
