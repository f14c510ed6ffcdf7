/* Perplexity: every allocation may fail once, work may be cancelled, and what is scored adds up. */
#include "../src/eval/perplexity.h"

#include "golden.h"

#define MODEL HEARTH_DATA "/models/stories260K-relu"
#define TEXT  "Once upon a time there was a little cat. It saw a big dog, and it ran away as fast as it could run."

static stack open_engine(void)
{
    stack s;
    stack_open(&s, MODEL, 1, HEARTH_ACTIVATIONS_AUTO, (hearth_session_options){.context = 4});
    return s;
}

static hearth_status measure(const stack *f, const perplexity_options *o, perplexity_result *out)
{
    hearth_error error = {0};
    hearth_status status = perplexity_measure(out, f->engine, span_of(TEXT), "text", o, &error);
    assert_int_equal(status == HEARTH_OK, error.text[0] == 0);
    return status;
}

static void perplexity_survives_failing_allocations(void **state)
{
    (void)state;
    stack f = open_engine();
    static const perplexity_options kinds[] = {
        {.context = 16, .kv = HEARTH_KV_F32},
        {.context = 16, .kv = HEARTH_KV_F32, .separator = "."},
        {.context = 8, .kv = HEARTH_KV_F32, .half_windows = true},
    };
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        perplexity_result whole, again;
        assert_int_equal(measure(&f, &kinds[kind], &whole), HEARTH_OK);
        long live = mem_live(), n = 0;
        hearth_status status;
        do {
            mem_fail_at(n++);
            status = measure(&f, &kinds[kind], &again);
            mem_fail_at(-1);
            assert_int_equal(mem_live(), live);
            assert_true(status == HEARTH_OK || status == HEARTH_NO_MEMORY);
        } while (status != HEARTH_OK);
        assert_true(n > 5);
        assert_true(whole.nll == again.nll); /* the same arithmetic gives the same bytes */
    }
    stack_close(&f);
}

/* A text that gives nothing to score is bad data, not a bad call. */
static void short_texts_are_refused(void **state)
{
    (void)state;
    stack f = open_engine();
    hearth_error error;
    perplexity_result r;
    perplexity_options o = {.context = 16};
    assert_int_equal(perplexity_measure(&r, f.engine, span_of(""), "here.txt", &o, &error), HEARTH_FORMAT);
    assert_string_equal(error.text, "here.txt: text: has no tokens to score");
    o.half_windows = true;
    assert_int_equal(perplexity_measure(&r, f.engine, span_of("x"), "here.txt", &o, &error), HEARTH_FORMAT);
    stack_close(&f);
}

/* Windows differ in what stands before a token, not in which tokens are scored. */
static void every_token_is_scored_once(void **state)
{
    (void)state;
    stack f = open_engine();
    int32_t *ids;
    size_t count;
    assert_int_equal(hearth_tokenize(f.model, TEXT, strlen(TEXT), 0, &ids, &count, NULL), HEARTH_OK);
    hearth_free(ids);
    for (uint32_t context = 4; context < 60; context += 5) {
        perplexity_result r;
        perplexity_options o = {.context = context, .kv = HEARTH_KV_F32};
        assert_int_equal(measure(&f, &o, &r), HEARTH_OK);
        assert_int_equal(r.tokens, count);
        assert_int_equal(r.windows, (count + context - 2) / (context - 1));
        assert_true(isfinite(r.nll) && r.nll > 0);
        /* A separator that does not occur: one document, one window. */
        o.separator = "#";
        assert_int_equal(measure(&f, &o, &r), HEARTH_OK);
        assert_int_equal(r.tokens, count < context - 1 ? count : context - 1);
        assert_int_equal(r.windows, 1);
    }
    stack_close(&f);
}

static bool never(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)user, (void)what, (void)done, (void)total;
    return false;
}

static void work_can_be_cancelled(void **state)
{
    (void)state;
    stack f = open_engine();
    perplexity_result r;
    perplexity_options p = {.context = 16, .progress = {never, NULL}};
    hearth_error error;
    assert_int_equal(perplexity_measure(&r, f.engine, span_of(TEXT), "here.txt", &p, &error), HEARTH_CANCELLED);
    assert_string_equal(error.text, "here.txt: perplexity: cancelled");
    stack_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(perplexity_survives_failing_allocations),
        cmocka_unit_test(short_texts_are_refused),
        cmocka_unit_test(every_token_is_scored_once),
        cmocka_unit_test(work_can_be_cancelled),
    };
    return run_group(tests, NULL, NULL);
}
