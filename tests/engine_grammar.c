/* engine_grammar.c - answers that are held to grammars: the demo model's to random schemas, by the validator of schemas.h;
 * with guesses, beside other requests, and behind a mark. */
#include "requests.h"
#include "schemas.h"

#include "../src/base/memory.h"

/* Text of an answer. */
typedef struct told {
    buffer text;
    size_t tokens;
} told;

static bool on_text(void *user, int32_t token, const char *text, size_t size)
{
    told *t = user;
    t->tokens += token >= 0;
    return buffer_put(&t->text, text, size);
}

static hearth_grammar *make(const stack *s, hearth_grammar_form form, const char *text, const char *behind)
{
    hearth_grammar *g = NULL;
    hearth_error error;
    stack_check(hearth_grammar_create(&g, s->model, form, text, strlen(text), behind, &error), &error);
    return g;
}

/* Answers a prompt in sequence 0. */
static hearth_stop answer(const stack *s, const char *prompt, const hearth_answer_options *options, float temperature,
                          uint64_t draw, told *out)
{
    int32_t *ids;
    size_t count;
    hearth_error error;
    hearth_result result;
    hearth_sampler *sampler;
    hearth_sampling sampling = hearth_sampling_default();
    sampling.temperature = temperature;
    sampling.seed = draw;
    stack_check(hearth_sampler_create(&sampler, &sampling, s->info.vocabulary_size, &error), &error);
    stack_check(hearth_tokenize(s->model, prompt, strlen(prompt), HEARTH_TEXT_SPECIAL, &ids, &count, &error), &error);
    stack_check(hearth_session_truncate(s->session, 0, 0, &error), &error);
    out->text.size = 0;
    out->tokens = 0;
    stack_check(hearth_generate(s->session, 0, ids, count, sampler, options, on_text, out, &result, &error), &error);
    assert_int_equal(result.answer_tokens, out->tokens);
    hearth_free(ids);
    hearth_sampler_destroy(sampler);
    return result.stop;
}

/* ------------------------------------------------------------------ schemas */

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ /* checked memory takes its time */
enum { ROUNDS = 250 };
#else
enum { ROUNDS = 1000 };
#endif

/* Every answer that came to its end is valid; a quarter of them take the likeliest tokens, the others drawn ones. */
static void answers_fit_schemas(void **state)
{
    (void)state;
    stack s;
    told t = {0};
    size_t ended = 0, all = 0;
    hearth_error error;
    open_stories(&s, 1, 8);
    for (int round = 0; round < ROUNDS; round++) {
        json_t *schema = random_schema(3);
        if (!json_is_object(schema)) { /* true, which is no text that hearth's parser of JSON takes */
            json_decref(schema);
            continue;
        }
        schema = with_definitions(schema);
        char *text = json_dumps(schema, JSON_ENCODE_ANY);
        hearth_grammar *g = NULL;
        if (hearth_grammar_create(&g, s.model, HEARTH_GRAMMAR_JSON_SCHEMA, text, strlen(text), NULL, &error) ==
            HEARTH_OK) {
            hearth_answer_options options = {.max_tokens = 100, .draft_tokens = (uint64_t)round % 8, .grammar = g};
            all++;
            if (answer(&s, "One day, Lily said:", &options, round % 4 == 0 ? 0 : 1, (uint64_t)round, &t) ==
                HEARTH_STOP_END) {
                ended++;
                check_text(schema, (span){t.text.data, t.text.size});
            }
        } else if (!strstr(error.text, "no number lies") && !strstr(error.text, "no array has")) {
            fail_msg("%s: %s", text, error.text);
        }
        hearth_grammar_destroy(g);
        free(text);
        json_decref(schema);
    }
    print_message("%zu of %zu answers came to an end\n", ended, all);
    assert_true(all > ROUNDS * 9 / 10 && ended > all / 2);
    buffer_free(&t.text);
    stack_close(&s);
}

/* A grammar that allows one text only: that is the answer, and it ends there, though nobody says that it should. */
static void one_text(void **state)
{
    (void)state;
    stack s;
    told t = {0};
    open_stories(&s, 1, 1);
    hearth_grammar *g = make(&s, HEARTH_GRAMMAR_GBNF, "root ::= \"caf\xc3\xa9 {\\n}\"", NULL);
    for (int ignores = 0; ignores < 2; ignores++) {
        hearth_answer_options options = {.grammar = g, .ignore_end = ignores};
        assert_int_equal(answer(&s, "Once", &options, 1, 1, &t), HEARTH_STOP_END);
        assert_int_equal(t.text.size, strlen("caf\xc3\xa9 {\n}"));
        assert_memory_equal(t.text.data, "caf\xc3\xa9 {\n}", t.text.size);
    }
    hearth_grammar_destroy(g);
    buffer_free(&t.text);
    stack_close(&s);
}

/* ------------------------------------------------------------------ guesses, and many at once */

#define LISTS "root ::= (\"Lily \" | \"Tom \" | [a-z]{2,5} \" \")+ \".\""

static void guesses_change_nothing(void **state)
{
    (void)state;
    stack s;
    told plain = {0}, guessed = {0};
    open_stories(&s, 1, 8);
    hearth_grammar *g = make(&s, HEARTH_GRAMMAR_GBNF, LISTS, NULL);
    for (uint64_t draw = 0; draw < 6; draw++) {
        float temperature = draw < 2 ? 0 : 0.7F;
        hearth_answer_options options = {.max_tokens = 60, .grammar = g};
        hearth_stop stop = answer(&s, prompts[draw % PROMPTS], &options, temperature, draw, &plain);
        options.draft_tokens = 7;
        assert_int_equal(answer(&s, prompts[draw % PROMPTS], &options, temperature, draw, &guessed), stop);
        assert_int_equal(guessed.text.size, plain.text.size);
        assert_memory_equal(guessed.text.data, plain.text.data, plain.text.size);
    }
    hearth_grammar_destroy(g);
    buffer_free(&plain.text);
    buffer_free(&guessed.text);
    stack_close(&s);
}

/* A grammar is a matter of its request: those beside it answer as they do alone, and it does, too. */
static void beside_others(void **state)
{
    (void)state;
    stack s;
    told t = {0};
    asked free_ones[2], held[2];
    open_stories(&s, 4, 4);
    hearth_grammar *g = make(&s, HEARTH_GRAMMAR_GBNF, LISTS, NULL);
    hearth_answer_options options = {.max_tokens = TOKENS, .ignore_end = true};
    hearth_scheduler *h = new_scheduler(&s, (hearth_scheduler_options){0});
    for (int i = 0; i < 2; i++) {
        options.grammar = NULL;
        ask(h, &s, prompts[i], options, 0.7F, &free_ones[i]);
        options.grammar = g;
        ask(h, &s, prompts[i], options, 0.7F, &held[i]);
    }
    run_to_end(h);
    for (int i = 0; i < 2; i++)
        same_as_alone(&free_ones[i], prompts[i], 0.7F);
    hearth_scheduler_destroy(h);
    for (int i = 0; i < 2; i++) {
        size_t count;
        hearth_error error;
        stack_check(hearth_session_truncate(s.session, 0, 0, &error), &error);
        hearth_sampler_reset(held[i].sampler);
        assert_int_equal(held[i].outcome.status, HEARTH_OK);
        stack_check(hearth_generate(s.session, 0, held[i].prompt, held[i].prompt_count, held[i].sampler, &options,
                                    on_text, &t, NULL, &error),
                    &error);
        count = hearth_session_length(s.session, 0) - held[i].prompt_count;
        assert_true(count > 0 && count <= held[i].count); /* the last one is read only where the length ends it */
        assert_memory_equal(held[i].ids, hearth_session_tokens(s.session, 0) + held[i].prompt_count,
                            count * sizeof(int32_t));
        forget(&held[i]);
        forget(&free_ones[i]);
    }
    hearth_grammar_destroy(g);
    buffer_free(&t.text);
    stack_close(&s);
}

/* ------------------------------------------------------------------ behind a mark */

/* Before the mark the answer is the same as without a grammar, and may not end; behind it stands what the grammar says. */
static void behind_a_mark(void **state)
{
    (void)state;
    static const char *const marks[] = {"was", "s a", "aab", ".", "tim", "wi", "the"};
    stack s;
    told t = {0}, unheld = {0};
    open_stories(&s, 1, 1);
    size_t within = 0;
    hearth_answer_options options = {.max_tokens = 80};
    (void)answer(&s, prompts[0], &options, 0, 1, &unheld);
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        hearth_grammar *g = make(&s, HEARTH_GRAMMAR_JSON_SCHEMA, "{\"const\": [1, \"x\"]}", marks[i]);
        options.grammar = g;
        hearth_stop stop = answer(&s, prompts[0], &options, 0, 1, &t);
        assert_true(buffer_put(&t.text, "", 1) && buffer_put(&unheld.text, "", 1));
        const char *found = strstr(unheld.text.data, marks[i]), *own = strstr(t.text.data, marks[i]);
        unheld.text.size--;
        if (!found) {
            assert_int_equal(stop, HEARTH_STOP_LENGTH);
            assert_string_equal(t.text.data, unheld.text.data);
        } else {
            size_t before = (size_t)(found - unheld.text.data);
            if (own && own - t.text.data == (ptrdiff_t)before)
                assert_memory_equal(t.text.data, unheld.text.data, before);
            else
                within++; /* in a token that goes on with what does not fit, and so another one was chosen */
            assert_int_equal(stop, own ? HEARTH_STOP_END : HEARTH_STOP_LENGTH);
            own += own ? strlen(marks[i]) : 0;
            if (own)
                assert_string_equal(own + strspn(own, " "), "[1,\"x\"]");
        }
        hearth_grammar_destroy(g);
    }
    assert_in_range(within, 1, 3);
    buffer_free(&t.text);
    buffer_free(&unheld.text);
    stack_close(&s);
}

/* A mark in the midst of a token, whose rest does not fit: the token is not chosen, and not taken. */
static void a_mark_within_a_token(void **state)
{
    (void)state;
    stack s;
    const char *text;
    size_t size, count;
    hearth_stop stop;
    hearth_error error;
    hearth_answer *a;
    int32_t *ids;
    open_stories(&s, 1, 1);
    hearth_grammar *g = make(&s, HEARTH_GRAMMAR_GBNF, "root ::= \"re\" \"!\"", "the"),
                   *h = make(&s, HEARTH_GRAMMAR_GBNF, "root ::= \"!\"", "the");
    stack_check(hearth_tokenize(s.model, "there", 5, 0, &ids, &count, &error), &error);
    assert_int_equal(count, 1);
    for (int fits = 0; fits < 2; fits++) {
        hearth_answer_options options = {.grammar = fits ? g : h};
        stack_check(hearth_answer_create(&a, s.model, &options, &error), &error);
        assert_int_equal(hearth_answer_push(a, ids[0], &text, &size, &stop, &error), fits ? HEARTH_OK : HEARTH_INVALID);
        assert_true(fits || strstr(error.text, "cannot come"));
        hearth_answer_destroy(a);
    }
    hearth_free(ids);
    hearth_grammar_destroy(g);
    hearth_grammar_destroy(h);
    stack_close(&s);
}

/* ------------------------------------------------------------------ faults */

static void expect_fault(const stack *s, int form, const char *text, const char *behind, hearth_status status,
                         const char *why)
{
    hearth_grammar *g = NULL;
    hearth_error error = {0};
    assert_int_equal(hearth_grammar_create(&g, s->model, (hearth_grammar_form)form, text, strlen(text), behind, &error),
                     status);
    if (!strstr(error.text, why))
        fail_msg("\"%s\" has no \"%s\"", error.text, why);
    assert_null(g);
}

static void faults(void **state)
{
    (void)state;
    stack s, other;
    char longest[300];
    memset(longest, 'x', sizeof longest);
    longest[299] = 0;
    open_stories(&s, 1, 1);
    expect_fault(&s, HEARTH_GRAMMAR_GBNF, "root ::= unknown", NULL, HEARTH_FORMAT, "unknown");
    expect_fault(&s, HEARTH_GRAMMAR_JSON_SCHEMA, "{\"type\": \"strin\"}", NULL, HEARTH_FORMAT, "type");
    expect_fault(&s, HEARTH_GRAMMAR_JSON_SCHEMA, "{", NULL, HEARTH_FORMAT, "");
    expect_fault(&s, 7, "", NULL, HEARTH_INVALID, "form 7");
    expect_fault(&s, HEARTH_GRAMMAR_GBNF, "root ::= \"a\"", longest, HEARTH_INVALID, "299 bytes");

    hearth_grammar *g = make(&s, HEARTH_GRAMMAR_GBNF, "root ::= \"abc\"", NULL);
    hearth_answer_options options = {.grammar = g};
    hearth_answer *a = NULL;
    hearth_error error;
    open_stories(&other, 1, 1);
    assert_int_equal(hearth_answer_create(&a, other.model, &options, &error), HEARTH_INVALID);
    assert_non_null(strstr(error.text, "another model"));
    stack_close(&other);

    const char *text;
    size_t size;
    hearth_stop stop;
    int32_t *ids;
    size_t count;
    stack_check(hearth_answer_create(&a, s.model, &options, &error), &error);
    stack_check(hearth_tokenize(s.model, "z", 1, 0, &ids, &count, &error), &error);
    assert_int_equal(hearth_answer_push(a, ids[0], &text, &size, &stop, &error), HEARTH_INVALID);
    hearth_free(ids);
    hearth_answer_destroy(a);
    hearth_grammar_destroy(g);
    stack_close(&s);
}

/* Wherever memory runs out, nothing is left behind. */
static void failing_allocations(void **state)
{
    (void)state;
    stack s;
    open_stories(&s, 1, 1);
    hearth_grammar *warm = make(&s, HEARTH_GRAMMAR_GBNF, "root ::= \"a\"", NULL); /* the tree of tokens stays */
    hearth_grammar_destroy(warm);
    const char *text = "root ::= [a-c]+ \"d\"";
    long live = mem_live();
    bool ended = false;
    for (int n = 0; !ended; n++) {
        hearth_grammar *g = NULL;
        hearth_answer *a = NULL;
        hearth_error error;
        mem_fail_at(n);
        hearth_status status = hearth_grammar_create(&g, s.model, HEARTH_GRAMMAR_GBNF, text, strlen(text), "x", &error);
        hearth_answer_options options = {.grammar = g};
        if (status == HEARTH_OK)
            status = hearth_answer_create(&a, s.model, &options, &error);
        mem_fail_at(-1);
        assert_true(status == HEARTH_OK || status == HEARTH_NO_MEMORY);
        ended = status == HEARTH_OK;
        hearth_answer_destroy(a);
        hearth_grammar_destroy(g);
        assert_int_equal(mem_live(), live);
    }
    stack_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_fit_schemas),    cmocka_unit_test(one_text),
        cmocka_unit_test(guesses_change_nothing), cmocka_unit_test(beside_others),
        cmocka_unit_test(behind_a_mark),          cmocka_unit_test(faults),
        cmocka_unit_test(failing_allocations),    cmocka_unit_test(a_mark_within_a_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
