/* Low-rank predictors: what is planted is found, gradients are those of differences, training pays, and the same comes
 * out whatever the threads and interruptions. */
#include "../src/base/file.h"
#include "../src/learn/lowrank_internal.h"
#include "../src/learn/measure.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "learn_build.h"

/* ------------------------------------------------------------------ a second implementation */

/* scores [f] of one input */
static void score(const double *fc1, const double *fc2, size_t d, size_t rank, size_t f, const float *x, double *scores)
{
    double *hidden = calloc(rank, sizeof *hidden);
    for (size_t j = 0; j < rank; j++) {
        for (size_t c = 0; c < d; c++)
            hidden[j] += fc1[j * d + c] * (double)x[c];
        hidden[j] = fmax(hidden[j], 0);
    }
    for (size_t i = 0; i < f; i++) {
        scores[i] = 0;
        for (size_t j = 0; j < rank; j++)
            scores[i] += fc2[i * rank + j] * hidden[j];
    }
    free(hidden);
}

/* ------------------------------------------------------------------ what is planted */

/* A first matrix of rank 6, and predictors that have room for it. */
static const struct {
    learnt_shape shape;
    lowrank_options options;
    double slack; /* of the density */
} planted[] = {
    {{.d = 64, .f = 96, .inner = 6, .rows = 2000, .format = FORMAT_F32, .gating = FFN_GATED},
     {.rank = 16, .normed = true, .format = FORMAT_F32},
     0.002},
    {{.d = 64, .f = 96, .inner = 6, .rows = 2000, .format = FORMAT_F16, .gating = FFN_GATED_BOTH, .ordered = true},
     {.rank = 16, .normed = false, .format = FORMAT_F16},
     0.005},
    {{.d = 64, .f = 93, .inner = 6, .rows = 2000, .format = FORMAT_F32, .gating = FFN_PLAIN, .ordered = true},
     {.rank = 32, .normed = true, .format = FORMAT_Q8_0},
     0.03},
    /* a bias is as good as the constant that the first coordinate gives: its share of the norm varies */
    {{.d = 64, .f = 96, .inner = 6, .rows = 2000, .format = FORMAT_F32, .gating = FFN_PLAIN, .biases = true},
     {.rank = 16, .normed = true, .format = FORMAT_F16},
     0.05},
    {{.d = 64,
      .f = 96,
      .inner = 6,
      .rows = 2000,
      .format = FORMAT_F32,
      .gating = FFN_GATED,
      .activation_threshold = 0.3f},
     {.rank = 16, .normed = false, .format = FORMAT_F16},
     0.05},
    /* a norm that subtracts the mean, whose bias moves what neurons read */
    {{.d = 64, .f = 96, .inner = 6, .rows = 2000, .format = FORMAT_F32, .gating = FFN_PLAIN, .centred = true},
     {.rank = 16, .normed = false, .format = FORMAT_F16},
     0.03},
    {{.d = 64, .f = 96, .inner = 6, .rows = 2000, .format = FORMAT_F32, .gating = FFN_PLAIN, .centred = true},
     {.rank = 16, .normed = true, .format = FORMAT_F16},
     0.03},
};

static void what_is_planted_is_found(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof planted / sizeof *planted; k++) {
        learnt *l = learnt_new(&planted[k].shape);
        lowrank_options o = planted[k].options;
        lowrank made = {0};
        hearth_error error = {0};
        o.recall = 0.99f;
        assert_int_equal(lowrank_train(&made, &l->model, 0, &l->rows, &o, &error), HEARTH_OK);
        print_message("planted %zu: density %.4f, let through %.4f\n", k, l->density, made.density);
        assert_true(l->density > 0.05 && l->density < 0.45);
        assert_true(made.recall >= 0.99);
        assert_true(made.density < l->density + planted[k].slack);
        assert_true(made.fired > 0.99 * l->density / (l->density + planted[k].slack));
        assert_true(made.fc1.format == o.format && made.fc1.rows == o.rank && made.fc2.rows == l->shape.f);
        assert_true(made.epochs == 0 && made.rank == o.rank);
        lowrank_free(&made);
        learnt_free(l);
    }
}

/* ------------------------------------------------------------------ measuring */

static void measures_are_those_of_doubles(void **state)
{
    (void)state;
    learnt *l = learnt_new(&planted[1].shape);
    size_t d = l->shape.d, f = l->shape.f, rank = 12, from = states_training_count(&l->rows);
    uint64_t seed = 3;
    float *w1 = malloc(rank * d * sizeof *w1), *w2 = malloc(f * rank * sizeof *w2);
    double *fc1 = malloc(rank * d * sizeof *fc1), *fc2 = malloc(f * rank * sizeof *fc2);
    double *scores = malloc(f * sizeof *scores);
    for (size_t i = 0; i < rank * d; i++)
        fc1[i] = (double)(w1[i] = learnt_random(&seed));
    for (size_t i = 0; i < f * rank; i++)
        fc2[i] = (double)(w2[i] = learnt_random(&seed));
    lowrank p = {.fc1 = {w1, FORMAT_F32, (uint32_t)rank, (uint32_t)d, d * sizeof *w1},
                 .fc2 = {w2, FORMAT_F32, (uint32_t)f, (uint32_t)rank, rank * sizeof *w2}};
    for (int normed = 0; normed < 2; normed++)
        for (int percent = 50; percent < 100; percent += 24) {
            float recall = (float)percent / 100;
            assert_int_equal(measure_lowrank(&p, &l->model, 0, &l->rows, normed, recall, NAN, NULL, NULL, NULL),
                             HEARTH_OK);
            size_t through = 0, fired = 0, both = 0;
            for (size_t r = from; r < l->rows.count; r++) {
                score(fc1, fc2, d, rank, f, (normed ? l->rows.normed : l->rows.residual) + r * d, scores);
                for (size_t i = 0; i < f; i++) {
                    bool passes = scores[i] >= (double)p.threshold - 1e-6;
                    through += passes;
                    fired += learnt_fired(l, r, i);
                    both += passes && learnt_fired(l, r, i);
                }
            }
            /* one neuron lies at the threshold; rounding may move a few */
            double all = (double)(f * (l->rows.count - from));
            assert_true(fabs(p.recall - (double)both / (double)fired) < 1e-3);
            assert_true(fabs(p.recall - (double)recall) < 1e-3);
            assert_true(fabs(p.density - (double)through / all) < 1e-3);
            assert_true(fabs(p.fired - (double)both / (double)through) < 1e-3);
            lowrank again = p;
            assert_int_equal(measure_lowrank(&again, &l->model, 0, &l->rows, normed, 0, p.threshold, NULL, NULL, NULL),
                             HEARTH_OK);
            assert_true(again.recall == p.recall && again.density == p.density);
        }
    p.fc2.columns = 11;
    assert_int_equal(measure_lowrank(&p, &l->model, 0, &l->rows, true, 0.9f, NAN, NULL, NULL, NULL), HEARTH_INVALID);
    free(w1);
    free(w2);
    free(fc1);
    free(fc2);
    free(scores);
    learnt_free(l);
}

/* ------------------------------------------------------------------ gradients */

/* The mean weighted cross-entropy in double precision. */
static double loss(const lowrank_job *job, const double *values, const uint32_t *rows, size_t count)
{
    double sum = 0, *scores = malloc(job->f * sizeof *scores);
    float *x = malloc(job->d * sizeof *x);
    uint64_t *fired = malloc(job->words * sizeof *fired);
    for (size_t t = 0; t < count; t++) {
        lowrank_read(job, &rows[t], 1, x, fired);
        score(values, values + job->rank * job->d, job->d, job->rank, job->f, x, scores);
        for (size_t i = 0; i < job->f; i++)
            sum += fired[i / 64] >> i % 64 & 1 ? log1p(exp(-scores[i]))
                                               : (double)fit_negative_weight(job) * log1p(exp(scores[i]));
    }
    free(scores);
    free(x);
    free(fired);
    return sum / (double)count;
}

static void gradients_are_those_of_differences(void **state)
{
    (void)state;
    learnt *l = learnt_new(&planted[1].shape);
    lowrank_options o = {.rank = 10, .recall = 0.9f, .epochs = 1};
    lowrank_job job = {.model = &l->model, .rows = &l->rows, .options = &o, .d = 64, .f = 96, .rank = 10, .scale = 2};
    lowrank_state s = {0};
    fit *f;
    uint32_t rows[70]; /* more than are taken together */
    uint64_t seed = 9;
    job.words = states_words(&l->rows);
    job.weight_count = job.rank * (job.d + job.f);
    job.training = states_training_count(&l->rows);
    float *values = malloc(job.weight_count * sizeof *values), *gradient = malloc(job.weight_count * sizeof *gradient);
    double *exact = malloc(job.weight_count * sizeof *exact);
    for (size_t i = 0; i < job.weight_count; i++)
        exact[i] = (double)(values[i] = 0.4f * learnt_random(&seed));
    for (size_t i = 0; i < 70; i++)
        rows[i] = (uint32_t)(i * 17 % 1800);
    s.values = values;
    assert_int_equal(pool_create(&job.threads, 2, NULL), HEARTH_OK);
    kernels_for(kernel_level_find(NULL), &job.kernels);
    assert_int_equal(fit_create(&f, &job, &s, NULL), HEARTH_OK);
    fit_gradient(f, rows, 70, gradient);
    for (size_t i = 0; i < job.weight_count; i += 7) {
        double step = 1e-5, kept = exact[i];
        exact[i] = kept + step;
        double above = loss(&job, exact, rows, 70);
        exact[i] = kept - step;
        double below = loss(&job, exact, rows, 70), expected = (above - below) / (2 * step);
        exact[i] = kept;
        /* where a unit's input changes its sign within the step the difference is of no use; none does here */
        assert_true(fabs((double)gradient[i] - expected) < 2e-4 * (1 + fabs(expected)));
    }
    fit_destroy(f);
    pool_destroy(job.threads);
    free(values);
    free(gradient);
    free(exact);
    learnt_free(l);
}

/* ------------------------------------------------------------------ training */

/* Training from nothing (small random numbers) has to find what the beginning knows: the loss falls, epoch by epoch, on
 * rows that it has not seen. */
static void epochs_lower_the_loss(void **state)
{
    (void)state;
    learnt_shape shape = planted[0].shape;
    shape.rows = 5000;
    learnt *l = learnt_new(&shape);
    lowrank_options o = {.rank = 16, .normed = true, .recall = 0.8f, .epochs = 12, .seed = 1};
    lowrank_job job = {.model = &l->model, .rows = &l->rows, .options = &o, .d = 64, .f = 96, .rank = 16, .scale = 1};
    job.words = states_words(&l->rows);
    job.count = states_count(&l->rows);
    job.training = states_training_count(&l->rows);
    job.weight_count = job.rank * (job.d + job.f);
    float *block = calloc(4 * job.weight_count, sizeof *block);
    double *exact = malloc(job.weight_count * sizeof *exact), losses[13];
    lowrank_state s = {.values = block,
                       .first_moment = block + job.weight_count,
                       .second_moment = block + 2 * job.weight_count,
                       .best = block + 3 * job.weight_count};
    fit *f;
    uint32_t held[100];
    uint64_t seed = 2;
    for (size_t i = 0; i < job.weight_count; i++)
        s.values[i] = 0.2f * learnt_random(&seed);
    for (size_t i = 0; i < 100; i++)
        held[i] = (uint32_t)(job.training + i);
    s.rates[0] = s.rates[1] = 0.02f;
    assert_int_equal(pool_create(&job.threads, 2, NULL), HEARTH_OK);
    kernels_for(kernel_level_find(NULL), &job.kernels);
    assert_int_equal(fit_create(&f, &job, &s, NULL), HEARTH_OK);
    for (unsigned epoch = 0; epoch <= o.epochs; epoch++) {
        for (size_t i = 0; i < job.weight_count; i++)
            exact[i] = (double)s.values[i];
        losses[epoch] = loss(&job, exact, held, 100);
        if (epoch < o.epochs)
            assert_int_equal(fit_epoch(f, NULL), HEARTH_OK);
        s.epoch++;
    }
    assert_true(losses[1] < losses[0] && losses[2] < losses[1] && losses[6] < losses[3]);
    assert_true(losses[12] < 0.3 * losses[0]);
    fit_destroy(f);
    pool_destroy(job.threads);
    free(block);
    free(exact);
    learnt_free(l);
}

/* No cut of it is good. */
static const learnt_shape full = {.d = 32, .f = 64, .rows = 6000, .format = FORMAT_F16, .gating = FFN_GATED};

static lowrank_options training_options(void)
{
    return (lowrank_options){.rank = 16, .normed = true, .recall = 0.95f, .format = FORMAT_F16, .epochs = 5, .seed = 4};
}

static void check_same(const lowrank *a, const lowrank *b)
{
    assert_memory_equal(a->fc1.data, b->fc1.data, a->fc1.rows * a->fc1.row_bytes);
    assert_memory_equal(a->fc2.data, b->fc2.data, a->fc2.rows * a->fc2.row_bytes);
    assert_true(a->threshold == b->threshold && a->recall == b->recall && a->density == b->density);
    assert_true(a->epochs == b->epochs && a->beginning == b->beginning);
}

static void training_lets_no_more_through(void **state)
{
    (void)state;
    learnt *l = learnt_new(&full);
    lowrank_options o = training_options();
    lowrank trained = {0}, begun = {0};
    assert_int_equal(lowrank_train(&trained, &l->model, 0, &l->rows, &o, NULL), HEARTH_OK);
    o.epochs = 0;
    assert_int_equal(lowrank_train(&begun, &l->model, 0, &l->rows, &o, NULL), HEARTH_OK);
    assert_true(begun.recall >= 0.95 && trained.recall >= 0.95);
    assert_true(fabs(begun.density - trained.beginning) < 0.01 * begun.density);
    assert_true(trained.density < 1.01 * begun.density && trained.density > 0.95 * l->density);
    /* what any cut to half its rank can do at most, or less: no better than all, no worse than chance */
    assert_true(begun.density > l->density && begun.density < 0.75);
    /* what it was told is what it does */
    lowrank again = trained;
    assert_int_equal(measure_lowrank(&again, &l->model, 0, &l->rows, true, 0, trained.threshold, NULL, NULL, NULL),
                     HEARTH_OK);
    assert_true(again.recall == trained.recall && again.density == trained.density);
    lowrank_free(&trained);
    lowrank_free(&begun);
    learnt_free(l);
}

/* ------------------------------------------------------------------ going on */

typedef struct stopper {
    uint64_t at, calls;
} stopper;

static bool stop_at(void *user, const char *what, uint64_t done, uint64_t total)
{
    stopper *s = user;
    assert_true(done <= total && *what);
    return s->calls++ != s->at;
}

static char folder[] = "/tmp/hearth-lowrank-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : 1;
}

static void state_file(char *path, size_t size)
{
    snprintf(path, size, "%s/lowrank-0-16-normed.state", folder);
}

static void clear_folder(void)
{
    char path[256];
    state_file(path, sizeof path);
    unlink(path);
}

static int remove_folder(void **state)
{
    (void)state;
    clear_folder();
    return rmdir(folder);
}

static void threads_and_interruptions_change_nothing(void **state)
{
    (void)state;
    learnt *l = learnt_new(&full);
    lowrank_options o = training_options();
    lowrank alone = {0}, other = {0};
    assert_int_equal(lowrank_train(&alone, &l->model, 0, &l->rows, &o, NULL), HEARTH_OK);
    for (unsigned threads = 2; threads <= 3; threads++) {
        assert_int_equal(pool_create(&o.threads, threads, NULL), HEARTH_OK);
        assert_int_equal(lowrank_train(&other, &l->model, 0, &l->rows, &o, NULL), HEARTH_OK);
        check_same(&alone, &other);
        lowrank_free(&other);
        pool_destroy(o.threads);
    }
    o.threads = NULL;
    o.folder = folder;
    /* stopped after ever more reports until it is through: each run goes on from the last whole epoch */
    hearth_status status = HEARTH_CANCELLED;
    unsigned runs = 0;
    for (; status != HEARTH_OK && runs < 100; runs++) {
        stopper s = {.at = 40};
        o.progress = (hearth_progress){stop_at, &s};
        hearth_error error = {0};
        status = lowrank_train(&other, &l->model, 0, &l->rows, &o, &error);
        assert_true(status == HEARTH_OK || status == HEARTH_CANCELLED);
        assert_true(status == HEARTH_OK || strcmp(error.text, "built: layer 0: predictor: cancelled") == 0);
    }
    assert_int_equal(status, HEARTH_OK);
    assert_true(runs > 2);
    check_same(&alone, &other);
    lowrank_free(&other);
    /* done: nothing is trained any more */
    stopper none = {.at = 0};
    o.progress = (hearth_progress){stop_at, &none};
    assert_int_equal(lowrank_train(&other, &l->model, 0, &l->rows, &o, NULL), HEARTH_OK);
    check_same(&alone, &other);
    lowrank_free(&other);
    lowrank_free(&alone);
    clear_folder();
    learnt_free(l);
}

static void change_byte(const char *path, long at)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, at, at < 0 ? SEEK_END : SEEK_SET);
    int c = fgetc(file);
    fseek(file, at, at < 0 ? SEEK_END : SEEK_SET);
    fputc(c ^ 1, file);
    fclose(file);
}

static void damaged_states_count_as_none(void **state)
{
    (void)state;
    learnt *l = learnt_new(&full);
    lowrank_options o = training_options();
    lowrank made = {0}, other = {0};
    char path[256];
    struct stat before, after;
    o.epochs = 1;
    o.folder = folder;
    state_file(path, sizeof path);
    assert_int_equal(lowrank_train(&made, &l->model, 0, &l->rows, &o, NULL), HEARTH_OK);
    const long places[] = {0, 100, 600, -1, -4000};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        change_byte(path, places[i]);
        assert_int_equal(lowrank_train(&other, &l->model, 0, &l->rows, &o, NULL), HEARTH_OK);
        assert_true(other.state_damaged);
        check_same(&made, &other);
        lowrank_free(&other);
    }
    assert_int_equal(truncate(path, 50), 0);
    assert_int_equal(lowrank_train(&other, &l->model, 0, &l->rows, &o, NULL), HEARTH_OK);
    assert_true(other.state_damaged);
    check_same(&made, &other);
    lowrank_free(&other);
    /* other options: what lies there is of no use, and gives way */
    clear_folder();
    assert_int_equal(lowrank_train(&other, &l->model, 0, &l->rows, &o, NULL), HEARTH_OK);
    check_same(&made, &other);
    assert_false(other.state_damaged);
    lowrank_free(&other);
    stat(path, &before);
    o.seed++;
    assert_int_equal(lowrank_train(&other, &l->model, 0, &l->rows, &o, NULL), HEARTH_OK);
    stat(path, &after);
    assert_true(before.st_ino != after.st_ino);
    lowrank_free(&other);
    lowrank_free(&made);
    clear_folder();
    learnt_free(l);
}

/* ------------------------------------------------------------------ faults */

static void faults_leave_nothing_behind(void **state)
{
    (void)state;
    learnt_shape small = full;
    small.rows = 600;
    learnt *l = learnt_new(&small);
    lowrank_options o = training_options();
    o.epochs = 1;
    o.folder = folder;
    for (int files = 0; files < 2; files++) {
        long live = mem_live(), n = 0;
        hearth_status status;
        do {
            lowrank made = {0};
            hearth_error error = {0};
            clear_folder();
            files ? file_fail_at(n++) : mem_fail_at(n++);
            status = lowrank_train(&made, &l->model, 0, &l->rows, &o, &error);
            mem_fail_at(-1);
            file_fail_at(-1);
            assert_true(status == HEARTH_OK || status == (files ? HEARTH_IO : HEARTH_NO_MEMORY));
            assert_int_equal(status == HEARTH_OK, error.text[0] == 0);
            lowrank_free(&made);
            assert_int_equal(mem_live(), live);
        } while (status != HEARTH_OK);
        assert_true(n > (files ? 2 : 20));
    }
    clear_folder();
    learnt_free(l);
}

static void misfits_are_told(void **state)
{
    (void)state;
    learnt *l = learnt_new(&full);
    static const struct {
        lowrank_options options;
        hearth_status status;
        const char *text;
    } cases[] = {
        {{.rank = 0, .recall = 0.9f}, HEARTH_UNSUPPORTED, "rank 0: it has to be even, and from 2 to 64"},
        {{.rank = 7, .recall = 0.9f}, HEARTH_UNSUPPORTED, "rank 7: it has to be even, and from 2 to 64"},
        {{.rank = 66, .recall = 0.9f}, HEARTH_UNSUPPORTED, "rank 66: it has to be even, and from 2 to 64"},
        {{.rank = 16, .recall = 0.9f, .format = FORMAT_Q8_0},
         HEARTH_UNSUPPORTED,
         "rank 16: rows of 32 and 16 values are not whole blocks of q8_0"},
        {{.rank = 16, .recall = 0}, HEARTH_INVALID, "recall 0 is not above 0 and at most 1"},
        {{.rank = 16, .recall = 1.5f}, HEARTH_INVALID, "recall 1.5 is not above 0 and at most 1"},
        {{.rank = 16, .recall = NAN}, HEARTH_INVALID, "recall nan is not above 0 and at most 1"},
        {{.rank = 16, .recall = 0.9f, .memory_bytes = 1000},
         HEARTH_NO_MEMORY,
         "rank 16: training needs 4 MB of memory, 0 MB are allowed"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lowrank made = {0};
        hearth_error error = {0};
        assert_int_equal(lowrank_train(&made, &l->model, 0, &l->rows, &cases[i].options, &error), cases[i].status);
        assert_non_null(strstr(error.text, "built: layer 0: predictor: "));
        assert_non_null(strstr(error.text, cases[i].text));
        assert_null(made.fc1.data);
    }
    lowrank made = {0};
    lowrank_options o = training_options();
    l->rows.count = 9; /* a tenth of which is none */
    assert_int_equal(lowrank_train(&made, &l->model, 0, &l->rows, &o, NULL), HEARTH_INVALID);
    l->model.layers[0].ffn.activation = FFN_SILU;
    assert_int_equal(lowrank_train(&made, &l->model, 0, &l->rows, &o, NULL), HEARTH_UNSUPPORTED);
    learnt_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_planted_is_found),
        cmocka_unit_test(measures_are_those_of_doubles),
        cmocka_unit_test(gradients_are_those_of_differences),
        cmocka_unit_test(epochs_lower_the_loss),
        cmocka_unit_test(training_lets_no_more_through),
        cmocka_unit_test(threads_and_interruptions_change_nothing),
        cmocka_unit_test(damaged_states_count_as_none),
        cmocka_unit_test(faults_leave_nothing_behind),
        cmocka_unit_test(misfits_are_told),
    };
    return run_group(tests, make_folder, remove_folder);
}
