/* Divergence: against a computation of our own from whole rows of logits, against itself, against files made by
 * hand. */
#include "../src/eval/divergence.h"

#include "golden.h"
#include "own_folder.h"

#define RELU HEARTH_DATA "/models/stories260K-relu"
#define SILU HEARTH_DATA "/models/stories260K"
#define TEXT                                                                                                           \
    "Once upon a time there was a little cat. It saw a big dog, and it ran away as fast as it could run. The dog was " \
    "only sleeping, and the cat came back to look at it from the top of the wall. \"You are so big!\" said the cat."

enum { CONTEXT = 24, FIRST = 12, ROWS = 11, V = 512, MOST_WINDOWS = 8 };

/* ------------------------------------------------------------------ models and files */

static stack open_engine(const char *model)
{
    stack s;
    stack_open(&s, model, 1, HEARTH_ACTIVATIONS_AUTO, (hearth_session_options){.context = CONTEXT});
    return s;
}

static const divergence_options usual = {.context = CONTEXT, .kv = HEARTH_KV_F32};

static const divergence_material text = {.name = "text", .text = {TEXT, sizeof TEXT - 1}};

static void write_text(const stack *f)
{
    hearth_error error;
    stack_check(divergence_write(own_path, f->engine, &text, &usual, &error), &error);
}

static divergence measure(const stack *f)
{
    hearth_error error;
    divergence d;
    stack_check(divergence_measure(&d, f->engine, own_path, &usual, &error), &error);
    return d;
}

/* ------------------------------------------------------------------ the same, the plain way */

/* ids of the text with BOS in front, as many whole windows as there are. */
static uint32_t text_windows(const stack *f, int32_t *ids)
{
    int32_t *all;
    size_t count;
    assert_int_equal(hearth_tokenize(f->model, TEXT, strlen(TEXT), HEARTH_TEXT_SPECIAL, &all, &count, NULL), HEARTH_OK);
    uint32_t windows = (uint32_t)(count / CONTEXT);
    assert_in_range(windows, 3, MOST_WINDOWS);
    memcpy(ids, all, windows * CONTEXT * sizeof *ids);
    hearth_free(all);
    return windows;
}

/* log p of the rows that are scored, of all windows: logs [windows * ROWS][V]. Token by token. */
static void plain_logs(const stack *f, const int32_t *ids, uint32_t windows, double *logs)
{
    static float logits[V];
    hearth_session *session;
    hearth_session_options o = {.context = CONTEXT, .kv = HEARTH_KV_F32};
    for (uint32_t w = 0; w < windows; w++) {
        assert_int_equal(hearth_session_create(&session, f->engine, &o, NULL), HEARTH_OK);
        for (int p = 0; p < CONTEXT - 1; p++) {
            hearth_row row = {p == 0 ? 1 : ids[w * CONTEXT + (uint32_t)p], 0, true}; /* BOS is 1 in these models */
            assert_int_equal(hearth_session_feed(session, &row, 1, NULL), HEARTH_OK);
            if (p < FIRST)
                continue;
            assert_int_equal(hearth_session_logits(session, 0, 1, logits, NULL), HEARTH_OK);
            double *to = logs + (w * ROWS + (uint32_t)(p - FIRST)) * V, sum = 0;
            for (int i = 0; i < V; i++)
                sum += exp((double)logits[i]);
            for (int i = 0; i < V; i++)
                to[i] = logits[i] - log(sum);
        }
        hearth_session_destroy(session);
    }
}

static int largest(const double *values)
{
    int best = 0;
    for (int i = 1; i < V; i++)
        if (values[i] > values[best])
            best = i;
    return best;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct plain {
    size_t rows, same;
    double values[MOST_WINDOWS * ROWS], mean, deviation, nll, base_nll, right, right_squares;
} plain;

static plain plain_divergence(const double *base, const double *logs, const int32_t *ids, uint32_t windows)
{
    plain r = {.rows = windows * ROWS};
    for (size_t row = 0; row < r.rows; row++) {
        const double *b = base + row * V, *m = logs + row * V;
        int32_t next = ids[row / ROWS * CONTEXT + FIRST + row % ROWS + 1];
        for (int i = 0; i < V; i++)
            r.values[row] += exp(b[i]) * (b[i] - m[i]);
        r.same += largest(b) == largest(m);
        r.nll -= m[next];
        r.base_nll -= b[next];
        r.right += exp(m[next]) - exp(b[next]);
        r.right_squares += (exp(m[next]) - exp(b[next])) * (exp(m[next]) - exp(b[next]));
        r.mean += r.values[row] / (double)r.rows;
    }
    for (size_t row = 0; row < r.rows; row++)
        r.deviation += (r.values[row] - r.mean) * (r.values[row] - r.mean);
    r.deviation = sqrt(r.deviation / (double)(r.rows - 1));
    qsort(r.values, r.rows, sizeof *r.values, ascending);
    return r;
}

static void near(const char *what, double got, double want, double bound)
{
    if (!(fabs(got - want) <= bound))
        fail_msg("%s: got %.10g, expected %.10g within %g", what, got, want, bound);
}

/* What is cut off has at most 512 e^-16 = 6e-5 of a row together; the rest of a row is rounded to 1.3e-4 each. */
#define CUT 1.2e-4

static void figures_are_those_of_whole_rows(void **state)
{
    (void)state;
    stack silu = open_engine(SILU), relu = open_engine(RELU);
    static int32_t ids[MOST_WINDOWS * CONTEXT];
    static double base[MOST_WINDOWS * ROWS * V], logs[MOST_WINDOWS * ROWS * V];
    uint32_t windows = text_windows(&silu, ids);
    plain_logs(&silu, ids, windows, base);
    plain_logs(&relu, ids, windows, logs);
    plain want = plain_divergence(base, logs, ids, windows);
    double n = (double)want.rows;

    write_text(&silu);
    divergence got = measure(&relu);
    assert_int_equal(got.tokens, want.rows);
    assert_int_equal(got.windows, windows);
    assert_int_equal(got.context, CONTEXT);
    assert_true(want.mean > 0.01); /* they do differ */
    near("mean", got.mean, want.mean, CUT);
    near("error of the mean", got.mean_error, want.deviation / sqrt(n), CUT);
    near("least", got.least, want.values[0], CUT);
    near("largest", got.most, want.values[want.rows - 1], CUT);
    static const double shares[] = {0.5, 0.9, 0.95, 0.99, 0.999};
    for (size_t i = 0; i < 5; i++) {
        double place = shares[i] * (n - 1), part = place - floor(place);
        size_t at = (size_t)place;
        near("percentile", i == 0 ? got.median : got.percentiles[i - 1],
             (1 - part) * want.values[at] + part * want.values[at + 1], CUT);
    }
    double same = (double)want.same / n;
    near("same top", got.same_top, same, 1e-12);
    near("error of same top", got.same_top_error, sqrt(same * (1 - same) / (n - 1)), 1e-12);
    near("nll", got.nll, want.nll / n, 1e-6);
    near("right token", got.right_mean, want.right / n, CUT);
    near("right token, rms", got.right_rms, sqrt(want.right_squares / n), CUT);
    if (got.cut <= 0) {
        near("nll of the base", got.base_nll, want.base_nll / n, CUT);
        near("ratio", got.log_ratio, (want.nll - want.base_nll) / n, CUT);
    }
    stack_close(&silu);
    stack_close(&relu);
}

static void nothing_differs_from_itself(void **state)
{
    (void)state;
    static const char *const models[] = {SILU, RELU};
    for (size_t i = 0; i < 2; i++) {
        stack f = open_engine(models[i]);
        write_text(&f);
        divergence d = measure(&f);
        near("mean", d.mean, 0, 1e-7);
        assert_true(d.least >= 0 && d.most < 1e-6);
        assert_true(d.same_top >= 1);
        near("ratio", d.log_ratio, 0, 1e-4);
        near("right token", d.right_rms, 0, 2e-4);
        stack_close(&f);
    }
}

/* ------------------------------------------------------------------ files made here */

/* A file of one window whose rows are all alike: scale, min, and a value for the first token, another for the rest. */
static void write_by_hand(uint32_t context, uint32_t vocabulary, float scale, float min, uint16_t one, uint16_t others)
{
    FILE *f = fopen(own_path, "wb");
    assert_non_null(f);
    int32_t head[3] = {(int32_t)context, (int32_t)vocabulary, 1};
    fwrite("_logits_", 1, 8, f);
    fwrite(head, 1, sizeof head, f);
    for (int32_t i = 0; i < (int32_t)context; i++)
        fwrite(&(int32_t){403 % (int32_t)vocabulary}, 1, 4, f);
    for (uint32_t row = 0; row < context - 1 - context / 2; row++) {
        fwrite(&scale, 1, 4, f);
        fwrite(&min, 1, 4, f);
        for (uint32_t i = 0; i < (vocabulary + 1) / 2 * 2; i++)
            fwrite(i == 0 ? &one : &others, 1, 2, f);
    }
    fclose(f);
}

/* The mean over rows of f(log q), of the window that write_by_hand writes. */
static double mean_of(const stack *f, double (*value)(const double *logs))
{
    static double logs[ROWS * V];
    int32_t ids[CONTEXT];
    double sum = 0;
    for (int i = 0; i < CONTEXT; i++)
        ids[i] = 403;
    plain_logs(f, ids, 1, logs);
    for (int row = 0; row < ROWS; row++)
        sum += value(logs + row * V);
    return sum / ROWS;
}

static double from_uniform(const double *logs)
{
    double sum = 0;
    for (int i = 0; i < V; i++)
        sum += logs[i];
    return -log(V) - sum / V;
}

/* Token 0 has nearly everything, the others e^-16 of it each at most, which the file does not tell. */
static double from_certain(const double *logs)
{
    return -logs[0] - (1 - exp(logs[0])) + fmax(0, 1 - exp(logs[0]) - (V - 1) * exp(-16));
}

static void files_made_by_hand_are_understood(void **state)
{
    (void)state;
    stack f = open_engine(SILU);
    divergence d;
    hearth_error error;
    write_by_hand(CONTEXT, V, 0, (float)-log(V), 0, 0);
    d = measure(&f);
    assert_int_equal(d.tokens, ROWS);
    near("from uniform", d.mean, mean_of(&f, from_uniform), 1e-5);
    near("perplexity of guessing", exp(d.base_nll), V, 1e-3);
    assert_true(d.same_top >= 1); /* all are the likeliest */
    near("nothing is cut off", d.cut, 0, 0);

    write_by_hand(CONTEXT, V, 16.0f / 65535, -16, 65535, 0);
    d = measure(&f);
    near("from certain", d.mean, mean_of(&f, from_certain), 1e-5);
    near("the right token is cut off", d.cut, 1, 0);
    near("nll of what is cut off", d.base_nll, 16, 1e-6);

    /* Rows that add up to too little and too much. */
    static const struct {
        float scale, min;
        uint16_t one, others;
    } wrong[] = {{0, -8, 0, 0}, {0, -5, 0, 0}, {16.0f / 65535, -16, 65000, 0}, {16.0f / 65535, -16, 65535, 65535}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        write_by_hand(CONTEXT, V, wrong[i].scale, wrong[i].min, wrong[i].one, wrong[i].others);
        assert_int_equal(divergence_measure(&d, f.engine, own_path, &usual, &error), HEARTH_FORMAT);
        assert_non_null(strstr(error.text, "row 0: its probabilities add up to"));
    }
    stack_close(&f);
}

static void files_of_other_models_are_refused(void **state)
{
    (void)state;
    stack f = open_engine(SILU);
    divergence d;
    hearth_error error;
    write_by_hand(CONTEXT, V - 1, 0, (float)-log(V - 1), 0, 0);
    assert_int_equal(divergence_measure(&d, f.engine, own_path, &usual, &error), HEARTH_UNSUPPORTED);
    assert_non_null(strstr(error.text, "vocabulary: has 511 tokens, that of "));
    write_by_hand(1u << 14, V, 0, (float)-log(V), 0, 0);
    assert_int_equal(divergence_measure(&d, f.engine, own_path, &usual, &error), HEARTH_UNSUPPORTED);
    assert_non_null(strstr(error.text, "windows: have 16384 tokens, the context of "));
    assert_int_equal(divergence_measure(&d, f.engine, "/nonexistent", &usual, &error), HEARTH_IO);
    stack_close(&f);
}

/* ------------------------------------------------------------------ texts and ids */

static size_t read_file(uint8_t *to, size_t room)
{
    FILE *f = fopen(own_path, "rb");
    assert_non_null(f);
    size_t size = fread(to, 1, room, f);
    fclose(f);
    return size;
}

static void texts_and_their_ids_give_one_file(void **state)
{
    (void)state;
    stack f = open_engine(SILU);
    static uint8_t a[1 << 18], b[1 << 18];
    hearth_error error;
    int32_t *ids;
    size_t count;
    assert_int_equal(hearth_tokenize(f.model, TEXT, strlen(TEXT), HEARTH_TEXT_SPECIAL, &ids, &count, NULL), HEARTH_OK);
    const divergence_material whole = {.name = "--ids", .ids = ids, .id_count = count};
    write_text(&f);
    size_t size = read_file(a, sizeof a);
    stack_check(divergence_write(own_path, f.engine, &whole, &usual, &error), &error);
    assert_int_equal(read_file(b, sizeof b), size);
    assert_memory_equal(a, b, size);

    /* Fewer windows: the beginning of the same. */
    divergence_options two = usual;
    two.windows = 2;
    divergence d;
    stack_check(divergence_measure(&d, f.engine, own_path, &two, &error), &error);
    assert_int_equal(d.windows, 2);
    assert_int_equal(d.tokens, 2 * ROWS);
    stack_check(divergence_write(own_path, f.engine, &whole, &two, &error), &error);
    assert_true(read_file(b, sizeof b) < size);
    assert_memory_equal(b + 20, a + 20, 2 * CONTEXT * 4);
    divergence again = measure(&f);
    assert_int_equal(again.windows, 2);
    assert_true(again.mean >= d.mean && again.mean <= d.mean);

    /* Too short, and ids that are not there. */
    const divergence_material part = {.name = "--ids", .ids = ids, .id_count = 2 * CONTEXT - 1};
    const divergence_material tiny = {.name = "x.txt", .text = span_of("x")};
    assert_int_equal(divergence_write(own_path, f.engine, &part, &usual, &error), HEARTH_FORMAT);
    assert_string_equal(error.text, "--ids: text: has 47 tokens, llama.cpp's protocol needs two windows of 24");
    assert_int_equal(divergence_write(own_path, f.engine, &tiny, &usual, &error), HEARTH_FORMAT);
    assert_non_null(strstr(error.text, "x.txt: text: has "));
    static const int32_t strangers[] = {-1, V};
    for (size_t i = 0; i < 2; i++) {
        ids[count - 1] = strangers[i];
        assert_int_equal(divergence_write(own_path, f.engine, &whole, &usual, &error), HEARTH_INVALID);
        assert_non_null(strstr(error.text, "--ids: token "));
    }
    divergence_options wrong = usual;
    for (wrong.context = 1; wrong.context < 4; wrong.context++)
        assert_int_equal(divergence_write(own_path, f.engine, &text, &wrong, &error), HEARTH_INVALID);
    hearth_free(ids);
    stack_close(&f);
}

/* ------------------------------------------------------------------ what fails */

/* What there is to do, each with the file at own_path. */
static hearth_status do_measure(const stack *f, const divergence_options *o, divergence *out, hearth_error *error)
{
    return divergence_measure(out, f->engine, own_path, o, error);
}

static hearth_status do_write(const stack *f, const divergence_options *o, divergence *out, hearth_error *error)
{
    (void)out;
    return divergence_write(own_path, f->engine, &text, o, error);
}

static hearth_status do_both(const stack *f, const divergence_options *o, divergence *out, hearth_error *error)
{
    kl_file base;
    TRY(divergence_write_temporary(&base, f->engine, &text, o, error));
    assert_string_equal(base.path, "text");
    assert_int_equal(own_folder_files(), 1); /* that at own_path */
    hearth_status status = divergence_measure_file(out, f->engine, &base, o, error);
    kl_file_close(&base);
    return status;
}

static hearth_status (*const deeds[])(const stack *, const divergence_options *, divergence *,
                                      hearth_error *) = {do_measure, do_write, do_both};
enum { DEEDS = sizeof deeds / sizeof *deeds };

/* A base that nobody keeps says the same as a file, and has no name; its folder may be missing, or far away. */
static void temporary_bases_have_no_name(void **state)
{
    (void)state;
    stack silu = open_engine(SILU), relu = open_engine(RELU);
    hearth_error error;
    divergence got;
    kl_file base;
    write_text(&silu);
    divergence want = measure(&relu);
    stack_check(divergence_write_temporary(&base, silu.engine, &text, &usual, &error), &error);
    assert_int_equal(own_folder_files(), 1);
    stack_check(divergence_measure_file(&got, relu.engine, &base, &usual, &error), &error);
    kl_file_close(&base);
    assert_memory_equal(&got, &want, sizeof got);

    char far[600];
    snprintf(far, sizeof far, "%s", own_folder);
    for (size_t size = strlen(own_folder); size + 2 < sizeof far; size += 2)
        memcpy(far + size, "/.", 3);
    setenv("TMPDIR", far, 1);
    stack_check(divergence_write_temporary(&base, silu.engine, &text, &usual, &error), &error);
    kl_file_close(&base);
    snprintf(far, sizeof far, "%s/none", own_folder);
    setenv("TMPDIR", far, 1);
    assert_int_equal(divergence_write_temporary(&base, silu.engine, &text, &usual, &error), HEARTH_IO);
    assert_non_null(strstr(error.text, far));
    setenv("TMPDIR", own_folder, 1);
    assert_int_equal(own_folder_files(), 1);
    stack_close(&silu);
    stack_close(&relu);
}

static void memory_and_files_may_fail(void **state)
{
    (void)state;
    stack f = open_engine(RELU);
    write_text(&f);
    divergence whole = measure(&f), again = {0};
    long live = mem_live();
    for (int kind = 0; kind < 2 * DEEDS; kind++) {
        long n = 0;
        hearth_status status;
        do {
            hearth_error error = {0};
            if (kind % 2)
                file_fail_at(n++);
            else
                mem_fail_at(n++);
            status = deeds[kind / 2](&f, &usual, &again, &error);
            mem_fail_at(-1);
            file_fail_at(-1);
            assert_int_equal(mem_live(), live);
            assert_int_equal(own_folder_files(), 1);
            assert_int_equal(status == HEARTH_OK, error.text[0] == 0);
        } while (status != HEARTH_OK);
        assert_true(n > (kind % 2 ? 1 : 5));
        assert_memory_equal(&whole, &again, sizeof whole);
    }
    again = measure(&f);
    assert_memory_equal(&whole, &again, sizeof whole);
    stack_close(&f);
}

/* Cancels the n-th time it is asked. */
static bool count_down(void *user, const char *what, uint64_t done, uint64_t total)
{
    int *left = user;
    assert_true(strcmp(what, "logits") == 0 || strcmp(what, "divergence") == 0);
    assert_true(done <= total);
    return --*left >= 0;
}

static void work_can_be_cancelled(void **state)
{
    (void)state;
    stack f = open_engine(RELU);
    static uint8_t a[1 << 18], b[1 << 18];
    write_text(&f);
    size_t size = read_file(a, sizeof a);
    for (int kind = 0; kind < DEEDS; kind++)
        for (int n = 0; n < 3; n++) {
            int left = n;
            hearth_error error;
            divergence d;
            divergence_options o = usual;
            o.progress = (hearth_progress){count_down, &left};
            assert_int_equal(deeds[kind](&f, &o, &d, &error), HEARTH_CANCELLED);
            assert_non_null(strstr(error.text, ": divergence: cancelled"));
            assert_int_equal(own_folder_files(), 1);
        }
    assert_int_equal(read_file(b, sizeof b), size);
    assert_memory_equal(a, b, size);
    stack_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_are_those_of_whole_rows),   cmocka_unit_test(nothing_differs_from_itself),
        cmocka_unit_test(files_made_by_hand_are_understood), cmocka_unit_test(files_of_other_models_are_refused),
        cmocka_unit_test(texts_and_their_ids_give_one_file), cmocka_unit_test(temporary_bases_have_no_name),
        cmocka_unit_test(memory_and_files_may_fail),         cmocka_unit_test(work_can_be_cancelled),
    };
    return run_group(tests, own_folder_make, own_folder_remove);
}
