/* joins.c - what it costs that requests join and leave: a scheduler whose requests come and go at random, with long prompts
 * among them, beside a fixed batch of as many sequences.
 *
 *   joins MODEL [PLACES] [SECONDS]
 *
 * Every place is always taken. A quarter of the prompts have 512 tokens, the others 16 to 127; answers have 32 to 159. The
 * time that the same tokens would take in a fixed batch, with prompts read alone before it, is measured in the same run,
 * before and after: prompt tokens over the speed of a prompt of 512, answer tokens over that of PLACES sequences that decode
 * together. Prints the share of that speed which was reached, and how long answers waited for their next token. */
#include <hearth.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LONG_PROMPT = 512, CONTEXT = 768, MOST_PLACES = 64, MOST_GAPS = 1 << 20, FIXED_STEPS = 48 };

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static uint32_t below(uint32_t n)
{
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state >> 33) % n);
}

static void check(hearth_status status, const hearth_error *error)
{
    if (status == HEARTH_OK)
        return;
    fprintf(stderr, "joins: %s\n", error->text);
    exit(1);
}

typedef struct joins {
    const hearth_model *model;
    const hearth_engine *engine;
    uint32_t vocabulary, places;
    hearth_scheduler *scheduler;
    double *gaps; /* [gap_count] seconds between two tokens of an answer */
    size_t gap_count;
    size_t asked, ended;
} joins;

/* ------------------------------------------------------------------ a fixed batch */

static hearth_session *new_session(const joins *j)
{
    hearth_session *session;
    hearth_error error;
    const hearth_session_options options = {.context = CONTEXT, .sequences = j->places};
    check(hearth_session_create(&session, j->engine, &options, &error), &error);
    return session;
}

/* Returns the tokens per second of a prompt of 512, and of all places decoding behind 128 tokens each; with the logits that tokens
 * are chosen by. */
static void time_fixed(const joins *j, double *prompt_rate, double *answer_rate)
{
    static hearth_row rows[MOST_PLACES * 128 + LONG_PROMPT];
    hearth_error error;
    hearth_session *session = new_session(j);
    float *logits = malloc((size_t)j->places * j->vocabulary * sizeof *logits);
    if (!logits)
        exit(1);
    for (uint32_t i = 0; i < LONG_PROMPT; i++)
        rows[i] = (hearth_row){(int32_t)below(j->vocabulary), 0, i + 1 == LONG_PROMPT};
    double start = seconds();
    check(hearth_session_feed(session, rows, LONG_PROMPT, &error), &error);
    check(hearth_session_logits(session, 0, 1, logits, &error), &error);
    *prompt_rate = LONG_PROMPT / (seconds() - start);
    check(hearth_session_truncate(session, 0, 0, &error), &error);
    for (uint32_t i = 0; i < j->places * 128; i++)
        rows[i] = (hearth_row){(int32_t)below(j->vocabulary), i / 128, false};
    check(hearth_session_feed(session, rows, j->places * 128, &error), &error);
    start = seconds();
    for (uint32_t step = 0; step < FIXED_STEPS; step++) {
        for (uint32_t i = 0; i < j->places; i++)
            rows[i] = (hearth_row){(int32_t)below(j->vocabulary), i, true};
        check(hearth_session_feed(session, rows, j->places, &error), &error);
        check(hearth_session_logits(session, 0, j->places, logits, &error), &error);
    }
    *answer_rate = j->places * FIXED_STEPS / (seconds() - start);
    free(logits);
    hearth_session_destroy(session);
}

/* ------------------------------------------------------------------ requests */

typedef struct asked {
    joins *of;
    hearth_sampler *sampler;
    hearth_answer *answer;
    double last; /* when its last token came; 0: none did */
} asked;

static void ask(joins *j);

static bool on_token(void *user, const hearth_token *token)
{
    asked *a = user;
    double now = seconds();
    (void)token;
    if (a->last > 0 && a->of->gap_count < MOST_GAPS)
        a->of->gaps[a->of->gap_count++] = now - a->last;
    a->last = now;
    return true;
}

static void on_end(void *user, const hearth_outcome *outcome)
{
    asked *a = user;
    if (outcome->status != HEARTH_OK)
        fprintf(stderr, "joins: %s\n", outcome->error);
    a->of->ended++;
    ask(a->of);
    hearth_sampler_destroy(a->sampler);
    hearth_answer_destroy(a->answer);
    free(a);
}

static void ask(joins *j)
{
    static int32_t prompt[LONG_PROMPT];
    hearth_error error;
    asked *a = calloc(1, sizeof *a);
    hearth_sampling greedy = hearth_sampling_default();
    greedy.temperature = 0;
    const hearth_answer_options options = {.max_tokens = 32 + below(128), .ignore_end = true};
    uint32_t count = below(4) == 0 ? LONG_PROMPT : 16 + below(112);
    for (uint32_t i = 0; i < count; i++)
        prompt[i] = (int32_t)below(j->vocabulary);
    if (!a)
        exit(1);
    a->of = j;
    check(hearth_sampler_create(&a->sampler, &greedy, j->vocabulary, &error), &error);
    check(hearth_answer_create(&a->answer, j->model, &options, &error), &error);
    const hearth_request request = {prompt, count, a->sampler, a->answer, on_token, on_end, a};
    check(hearth_scheduler_add(j->scheduler, &request, NULL, &error), &error);
    j->asked++;
}

static int is_less(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Lets requests come and go for so long; the first of them all begin at once, so the time before they have ended does not
 * count. */
static void run_joins(joins *j, double wanted, double prompt_rate, double answer_rate)
{
    hearth_error error;
    hearth_session *session = new_session(j);
    check(hearth_scheduler_create(&j->scheduler, session, NULL, &error), &error);
    for (uint32_t i = 0; i < j->places; i++)
        ask(j);
    while (j->ended < j->places)
        check(hearth_scheduler_step(j->scheduler, NULL, &error), &error);
    hearth_load before = hearth_scheduler_load(j->scheduler);
    size_t ended = j->ended;
    double start = seconds(), took = 0, longest_step = 0;
    j->gap_count = 0;
    while (took < wanted) {
        double begin = seconds();
        check(hearth_scheduler_step(j->scheduler, NULL, &error), &error);
        longest_step = seconds() - begin > longest_step ? seconds() - begin : longest_step;
        took = seconds() - start;
    }
    hearth_load after = hearth_scheduler_load(j->scheduler);
    double prompts = (double)(after.prompt_tokens - before.prompt_tokens);
    double answers = (double)(after.answer_tokens - before.answer_tokens);
    double fixed = prompts / prompt_rate + answers / answer_rate;
    qsort(j->gaps, j->gap_count, sizeof *j->gaps, is_less);
    printf("%zu requests ended in %.1f s: %.0f prompt and %.0f answer tokens/s, %.1f rows a step\n", j->ended - ended,
           took, prompts / took, answers / took,
           (double)(after.rows - before.rows) / (double)(after.steps - before.steps));
    printf("of the speed of a fixed batch: %.3f\n", fixed / took);
    if (j->gap_count > 0)
        printf("between tokens, ms: median %.1f, P99 %.1f, most %.1f; longest step %.1f\n",
               1e3 * j->gaps[j->gap_count / 2], 1e3 * j->gaps[j->gap_count * 99 / 100], 1e3 * j->gaps[j->gap_count - 1],
               1e3 * longest_step);
    /* The requests that still run are dropped, and with them what they own: the program ends. */
    hearth_scheduler_destroy(j->scheduler);
    hearth_session_destroy(session);
}

int main(int argc, char **argv)
{
    hearth_runtime *runtime;
    hearth_model *model;
    hearth_engine *engine;
    hearth_error error;
    hearth_model_info info;
    joins j = {.places = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 16};
    double wanted = argc > 3 ? strtod(argv[3], NULL) : 20, prompt_rate[2], answer_rate[2];
    if (argc < 2 || j.places < 1 || j.places > MOST_PLACES || !(wanted > 0)) {
        fprintf(stderr, "usage: joins MODEL [PLACES, 1 to %d] [SECONDS]\n", MOST_PLACES);
        return 2;
    }
    check(hearth_runtime_create(&runtime, NULL, &error), &error);
    check(hearth_model_open(&model, argv[1], NULL, &error), &error);
    check(hearth_engine_create(&engine, runtime, model, NULL, &error), &error);
    hearth_model_describe(model, &info);
    j.model = model;
    j.engine = engine;
    j.vocabulary = info.vocabulary_size;
    j.gaps = malloc(MOST_GAPS * sizeof *j.gaps);
    if (!j.gaps)
        return 1;
    time_fixed(&j, &prompt_rate[0], &answer_rate[0]); /* warms up */
    for (int round = 0; round < 3; round++) {
        time_fixed(&j, &prompt_rate[0], &answer_rate[0]);
        j.asked = j.ended = 0;
        run_joins(&j, wanted, prompt_rate[0], answer_rate[0]);
        time_fixed(&j, &prompt_rate[1], &answer_rate[1]);
        printf("fixed: prompt %.0f and %.0f tokens/s, %u together %.0f and %.0f\n", prompt_rate[0], prompt_rate[1],
               j.places, answer_rate[0], answer_rate[1]);
    }
    free(j.gaps);
    hearth_engine_destroy(engine);
    hearth_model_close(model);
    hearth_runtime_destroy(runtime);
    return 0;
}
