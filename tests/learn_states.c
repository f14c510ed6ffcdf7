/* learn_states - rows on disk are what observers saw; limits hold; a run that was interrupted or whose disk was full goes
 * on with what it had. */
#include "../src/learn/profile.h"
#include "../src/learn/states.h"
#include "../src/learn/work.h"

#include "learn_watch.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define RELU    HEARTH_DATA "/models/stories260K-relu"
#define STORIES HEARTH_DATA "/models/stories-relu"

/* Which token each row is of; freed with free. */
static uint64_t *chosen_tokens(const states_writer *w, const corpus *c, size_t *count)
{
    uint64_t *tokens = malloc(c->id_count * sizeof *tokens);
    *count = 0;
    for (uint64_t t = 0; t < c->id_count; t++)
        if (states_writer_wants(w, t))
            tokens[(*count)++] = t;
    return tokens;
}

static states_writer *open_writer(const char *folder, const dense *d, const corpus *c, uint64_t disk)
{
    states_writer *w;
    hearth_error error = {0};
    if (states_writer_open(&w, folder, d->model, c, disk, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    return w;
}

/* Adds what was seen of tokens [from, to), layer by layer as sessions do. */
static void add(states_writer *w, const watched *seen, size_t from, size_t to)
{
    for (size_t layer = 0; layer < seen->layers; layer++)
        for (size_t t = from; t < to; t++) {
            size_t at = layer * seen->tokens + t;
            hearth_observation o = {.layer = (uint32_t)layer,
                                    .position = (uint32_t)t,
                                    .residual = seen->residual + at * seen->d,
                                    .ffn_input = seen->input + at * seen->d,
                                    .activations = seen->activations + at * seen->f,
                                    .neuron_count = seen->f};
            states_writer_add(w, t, &o);
        }
}

/* By how much value c of the normed input may differ, since float16 keeps 11 bits of each value of the stream x, whose
 * root mean square is `size`; largest: of the normed input y. A norm that subtracts the mean and divides by the deviation
 * takes the errors of all three over, relative to the deviation. */
static double allowed(const dense *d, uint32_t layer, const float *x, const float *y, size_t c, double size,
                      double largest)
{
    const norm_weights *norm = &d->model->layers[layer].ffn_norm;
    size_t n = d->model->hyper.embedding_length;
    if (d->model->hyper.norm == NORM_RMS || !norm->weight)
        return fabs(y[c]) * 0x1.1p-11 + largest * 0x1p-20;
    double mean = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        mean += (double)x[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += ((double)x[i] - mean) * ((double)x[i] - mean);
    double deviation = sqrt(squares / (double)n + (double)d->model->hyper.norm_epsilon);
    double sum = fabs(x[c]) + size + fabs(x[c] - mean) / deviation * size;
    return fabs(norm->weight[c]) / deviation * sum * 0x1.1p-11 + largest * 0x1p-20;
}

/* Every row of a layer against the token that it is of. */
static void check_layer(const char *folder, const dense *d, const watched *seen, uint32_t layer, const uint64_t *tokens,
                        size_t count)
{
    states *s;
    hearth_error error = {0};
    if (states_open(&s, folder, d->model, layer, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    assert_int_equal(states_count(s), count);
    size_t words = states_words(s);
    assert_int_equal(words, (seen->f + 63) / 64);
    float *residual = malloc(count * seen->d * sizeof *residual), *normed = malloc(count * seen->d * sizeof *normed);
    uint64_t *fired = malloc(count * words * sizeof *fired);
    uint32_t *rows = malloc(count * sizeof *rows);
    for (size_t i = 0; i < count; i++)
        rows[i] = (uint32_t)(count - 1 - i); /* in any order */
    states_read(s, rows, count, false, residual, fired);
    states_read(s, rows, count, true, normed, NULL);
    for (size_t i = 0; i < count; i++) {
        size_t at = layer * seen->tokens + tokens[rows[i]];
        const float *x = seen->residual + at * seen->d, *y = seen->input + at * seen->d;
        double squares = 0, largest = 0;
        for (size_t c = 0; c < seen->d; c++)
            squares += (double)x[c] * x[c];
        double size = sqrt(squares / (double)seen->d);
        for (size_t c = 0; c < seen->d; c++) {
            /* float16 keeps 11 bits; the smallest numbers 2^-25 */
            assert_true(fabs(residual[i * seen->d + c] - x[c]) <= fabs(x[c]) * 0x1p-11 + size * 0x1p-24);
            largest = fmax(largest, fabs(y[c]));
        }
        for (size_t c = 0; c < seen->d; c++)
            assert_true(fabs(normed[i * seen->d + c] - y[c]) <= allowed(d, layer, x, y, c, size, largest));
        for (size_t n = 0; n < words * 64; n++)
            assert_int_equal(fired[i * words + n / 64] >> n % 64 & 1,
                             n < seen->f && seen->activations[at * seen->f + n] != 0);
    }
    free(rows);
    free(fired);
    free(normed);
    free(residual);
    states_close(s);
}

static void check_rows(const char *folder, const dense *d, const watched *seen, const uint64_t *tokens, size_t count)
{
    for (uint32_t layer = 0; layer < seen->layers; layer++)
        check_layer(folder, d, seen, layer, tokens, count);
}

/* ------------------------------------------------------------------ tests */

static void rows_are_what_was_seen(void **state)
{
    (void)state;
    /* all ways to norm, and to do without; parallel networks; two widths of norms */
    static const char *const paths[] = {RELU,
                                        STORIES,
                                        GOLDEN "/bamboo",
                                        GOLDEN "/opt",
                                        GOLDEN "/gpt2",
                                        GOLDEN "/jais2",
                                        GOLDEN "/arcee",
                                        GOLDEN "/nemotron",
                                        GOLDEN "/falcon-7b",
                                        GOLDEN "/falcon-40b",
                                        GOLDEN "/olmo2",
                                        GOLDEN "/bitnet",
                                        GOLDEN "/phi3",
                                        GOLDEN "/gemma2",
                                        GOLDEN "/gemma3",
                                        GOLDEN "/minicpm-s"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        dense d = dense_open(paths[i], 2);
        corpus c = random_corpus(&d, 130, 0);
        watched seen = watch(&d, &c);
        char *folder = scratch_folder();
        states_writer *w = open_writer(folder, &d, &c, 0);
        assert_int_equal(states_writer_stride(w), 1);
        assert_int_equal(states_writer_rows(w), 130);
        size_t count;
        uint64_t *tokens = chosen_tokens(w, &c, &count);
        assert_int_equal(count, 130);
        add(w, &seen, 0, 130);
        assert_int_equal(states_writer_flush(w, 130, NULL), HEARTH_OK);
        states_writer_close(w);
        check_rows(folder, &d, &seen, tokens, count);
        free(tokens);
        states_remove(folder);
        assert_int_equal(rmdir(folder), 0);
        watched_free(&seen);
        corpus_free(&c);
        dense_close(&d);
    }
}

static void the_last_tenth_is_held_out(void **state)
{
    (void)state;
    static const size_t counts[][2] = {{1, 1}, {2, 1}, {9, 8}, {10, 9}, {29, 27}, {100, 90}};
    dense d = dense_open(RELU, 1);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        corpus c = random_corpus(&d, counts[i][0], 0);
        watched seen = watch(&d, &c);
        char *folder = scratch_folder();
        states_writer *w = open_writer(folder, &d, &c, 0);
        add(w, &seen, 0, c.id_count);
        assert_int_equal(states_writer_flush(w, c.id_count, NULL), HEARTH_OK);
        states_writer_close(w);
        states *s;
        assert_int_equal(states_open(&s, folder, d.model, 2, NULL), HEARTH_OK);
        assert_int_equal(states_count(s), counts[i][0]);
        assert_int_equal(states_training_count(s), counts[i][1]);
        states_close(s);
        scratch_remove(folder);
        watched_free(&seen);
        corpus_free(&c);
    }
    dense_close(&d);
}

/* One of every n tokens, n as small as the limit allows, each group's somewhere in it; the files are no larger. */
static void the_limit_holds(void **state)
{
    (void)state;
    dense d = dense_open(RELU, 2);
    corpus c = random_corpus(&d, 500, 100);
    watched seen = watch(&d, &c);
    size_t row = (3 * 8 + 4 + 2 * seen.d + 7) / 8 * 8, one = row * seen.layers; /* f 172: three words */
    static const uint64_t rows[] = {1, 2, 7, 50, 250, 499, 500, 501};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *folder = scratch_folder();
        states_writer *w = open_writer(folder, &d, &c, rows[i] * one + one / 2);
        uint64_t stride = states_writer_stride(w), kept = states_writer_rows(w);
        assert_int_equal(stride, (500 + rows[i] - 1) / rows[i]);
        assert_int_equal(kept, (500 + stride - 1) / stride);
        size_t count, off_beat = 0;
        uint64_t *tokens = chosen_tokens(w, &c, &count);
        assert_int_equal(count, kept);
        for (size_t r = 0; r < count; r++) {
            assert_int_equal(tokens[r] / stride, r);
            off_beat += tokens[r] % stride != tokens[0] % stride;
        }
        assert_true(stride == 1 || count < 5 || off_beat > 0);
        add(w, &seen, 0, 500);
        assert_int_equal(states_writer_flush(w, 500, NULL), HEARTH_OK);
        states_writer_close(w);
        check_rows(folder, &d, &seen, tokens, count);
        struct stat about;
        char path[96];
        snprintf(path, sizeof path, "%s/layer-0.states", folder);
        assert_int_equal(stat(path, &about), 0);
        assert_int_equal(about.st_size, (long)(kept * row));
        free(tokens);
        scratch_remove(folder);
    }
    hearth_error error;
    states_writer *w;
    char *folder = scratch_folder();
    assert_int_equal(states_writer_open(&w, folder, d.model, &c, one - 1, &error), HEARTH_INVALID);
    assert_non_null(strstr(error.text, "hidden states: one row of every layer takes "));
    /* A corpus that no disk has room for is refused before anything is written. */
    corpus vast = {.id_count = (size_t)1 << 50};
    assert_int_equal(states_writer_open(&w, folder, d.model, &vast, 0, &error), HEARTH_IO);
    assert_non_null(strstr(error.text, "bytes, the disk has room for "));
    assert_int_equal(rmdir(folder), 0);
    watched_free(&seen);
    corpus_free(&c);
    dense_close(&d);
}

/* Flushed up to token 60, then lost; again from any place at or before that, in another process's writer. */
static void interrupted_and_gone_on(void **state)
{
    (void)state;
    dense d = dense_open(RELU, 2);
    corpus c = random_corpus(&d, 200, 50), other = random_corpus(&d, 200, 40);
    watched seen = watch(&d, &c);
    char *folder = scratch_folder();
    uint64_t disk = 100 * 5 * 160;
    states_writer *w = open_writer(folder, &d, &c, disk);
    size_t count;
    uint64_t *tokens = chosen_tokens(w, &c, &count);
    assert_true(count < 200);
    add(w, &seen, 0, 60);
    assert_int_equal(states_writer_flush(w, 60, NULL), HEARTH_OK);
    add(w, &seen, 60, 110);
    states_writer_close(w);
    w = open_writer(folder, &d, &c, disk);
    assert_string_equal(states_writer_note(w), "");
    assert_int_equal(states_writer_tokens(w), 60);
    assert_false(states_writer_wants(w, tokens[0]));
    add(w, &seen, 30, 200);
    assert_int_equal(states_writer_flush(w, 200, NULL), HEARTH_OK);
    states_writer_close(w);
    check_rows(folder, &d, &seen, tokens, count);
    free(tokens);

    static const struct {
        const char *file, *note;
    } damage[] = {{"states", "were damaged"}, {"layer-3.states", "were damaged"}};
    for (size_t i = 0; i < sizeof damage / sizeof *damage; i++) {
        char path[96];
        snprintf(path, sizeof path, "%s/%s", folder, damage[i].file);
        assert_int_equal(truncate(path, 40), 0);
        states *s;
        hearth_error error;
        assert_int_equal(states_open(&s, folder, d.model, 3, &error), HEARTH_FORMAT);
        w = open_writer(folder, &d, &c, disk);
        assert_non_null(strstr(states_writer_note(w), damage[i].note));
        assert_int_equal(states_writer_tokens(w), 0);
        add(w, &seen, 0, 200);
        assert_int_equal(states_writer_flush(w, 200, NULL), HEARTH_OK);
        states_writer_close(w);
    }
    w = open_writer(folder, &d, &other, disk);
    assert_non_null(strstr(states_writer_note(w), "were of another corpus"));
    states_writer_close(w);
    dense stories = dense_open(STORIES, 1);
    w = open_writer(folder, &d, &c, disk);
    assert_int_equal(states_writer_flush(w, 1, NULL), HEARTH_OK);
    states_writer_close(w);
    hearth_error error;
    states *s;
    assert_int_equal(states_open(&s, folder, stories.model, 0, &error), HEARTH_FORMAT);
    assert_non_null(strstr(error.text, "hidden states: are another model's"));
    scratch_remove(folder);
    assert_int_equal(states_open(&s, folder, d.model, 0, &error), HEARTH_IO);
    watched_free(&seen);
    corpus_free(&c);
    corpus_free(&other);
    dense_close(&d);
    dense_close(&stories);
}

/* ------------------------------------------------------------------ faults */

/* The files of layers without a network stay empty, and are not damaged for that; nor do they count as bytes. */
static void layers_without_a_network(void **state)
{
    (void)state;
    enum { TOKENS = 100, BEGUN = 60 };
    dense d = dense_open(HEARTH_DATA "/golden/nemotron-h/model.gguf", 1);
    corpus c = random_corpus(&d, TOKENS, 50);
    uint32_t layers = d.model->hyper.layer_count, networks = 0;
    float *zeros = calloc(d.model->hyper.embedding_length + d.info.neuron_count, sizeof *zeros);
    char *folder = scratch_folder();
    states_writer *w = open_writer(folder, &d, &c, 0);
    for (uint32_t layer = 0; layer < layers; layer++) {
        networks += d.model->layers[layer].ffn.neuron_count > 0;
        hearth_observation o = {.layer = layer,
                                .residual = zeros,
                                .ffn_input = zeros,
                                .activations = zeros,
                                .neuron_count = d.model->layers[layer].ffn.neuron_count};
        for (uint64_t t = 0; o.neuron_count > 0 && t < BEGUN; t++)
            states_writer_add(w, t, &o);
    }
    assert_in_range(networks, 1, layers - 1);
    assert_int_equal(states_writer_flush(w, BEGUN, NULL), HEARTH_OK);
    states_writer_close(w);
    w = open_writer(folder, &d, &c, 0);
    assert_string_equal(states_writer_note(w), "");
    assert_int_equal(states_writer_tokens(w), BEGUN);
    states_writer_close(w);
    scratch_remove(folder);
    free(zeros);
    corpus_free(&c);
    dense_close(&d);
}

/* Whatever fails, what was flushed before is there, and the next run is whole. */
static void everything_may_fail(void **state)
{
    (void)state;
    dense d = dense_open(RELU, 1);
    corpus c = random_corpus(&d, 60, 20);
    watched seen = watch(&d, &c);
    char *folder = scratch_folder();
    for (int kind = 0; kind < 2; kind++) {
        long live = mem_live(), n = 0;
        hearth_status status;
        do {
            states_writer *w = NULL;
            hearth_error error = {0};
            kind ? file_fail_at(n++) : mem_fail_at(n++);
            status = states_writer_open(&w, folder, d.model, &c, 0, &error);
            if (status == HEARTH_OK) {
                size_t from = (size_t)states_writer_tokens(w);
                add(w, &seen, from, 60);
                status = states_writer_flush(w, 60, &error);
            }
            file_fail_at(-1);
            mem_fail_at(-1);
            assert_true(status == HEARTH_OK || status == (kind ? HEARTH_IO : HEARTH_NO_MEMORY));
            assert_int_equal(status == HEARTH_OK, error.text[0] == 0);
            states_writer_close(w);
            if (status == HEARTH_OK) {
                uint64_t tokens[60];
                for (size_t t = 0; t < 60; t++)
                    tokens[t] = t;
                check_rows(folder, &d, &seen, tokens, 60);
            }
            states_remove(folder);
            assert_int_equal(mem_live(), live);
        } while (status != HEARTH_OK);
        print_message("%ld %s failed\n", n - 1, kind ? "file operations" : "allocations");
        assert_true(n > 8);
    }
    watched_free(&seen);
    corpus_free(&c);
    dense_close(&d);
    scratch_remove(folder);
}

/* What cannot be read for a moment is no reason to throw it away. */
static void faults_delete_nothing(void **state)
{
    (void)state;
    dense d = dense_open(RELU, 1);
    corpus c = random_corpus(&d, 60, 30);
    watched seen = watch(&d, &c);
    char *folder = scratch_folder();
    states_writer *w = open_writer(folder, &d, &c, 0);
    add(w, &seen, 0, 40);
    assert_int_equal(states_writer_flush(w, 40, NULL), HEARTH_OK);
    states_writer_close(w);
    for (int kind = 0; kind < 2; kind++) {
        long n = 0;
        hearth_status status;
        do {
            kind ? file_fail_at(n++) : mem_fail_at(n++);
            status = states_writer_open(&w, folder, d.model, &c, 0, NULL);
            file_fail_at(-1);
            mem_fail_at(-1);
            if (status != HEARTH_OK)
                w = open_writer(folder, &d, &c, 0);
            assert_string_equal(states_writer_note(w), "");
            assert_int_equal(states_writer_tokens(w), 40);
            states_writer_close(w);
        } while (status != HEARTH_OK);
        assert_true(n > 5);
    }
    watched_free(&seen);
    corpus_free(&c);
    dense_close(&d);
    scratch_remove(folder);
}

/* A file that may not grow further: told by the flush, and what lay there before is gone on with. */
static void files_that_may_not_grow(void **state)
{
    (void)state;
    dense d = dense_open(RELU, 1);
    corpus c = random_corpus(&d, 200, 0);
    watched seen = watch(&d, &c);
    char *folder = scratch_folder();
    states_writer *w = open_writer(folder, &d, &c, 0);
    add(w, &seen, 0, 20);
    assert_int_equal(states_writer_flush(w, 20, NULL), HEARTH_OK);
    struct rlimit before, tight;
    hearth_error error;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    tight = (struct rlimit){8000, before.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    add(w, &seen, 20, 200);
    hearth_status status = states_writer_flush(w, 200, &error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(status, HEARTH_IO);
    assert_non_null(strstr(error.text, "hidden states: cannot write: File too large"));
    assert_int_equal(states_writer_flush(w, 200, &error), HEARTH_IO); /* not forgotten */
    states_writer_close(w);
    w = open_writer(folder, &d, &c, 0);
    assert_int_equal(states_writer_tokens(w), 20);
    add(w, &seen, 20, 200);
    assert_int_equal(states_writer_flush(w, 200, NULL), HEARTH_OK);
    states_writer_close(w);
    uint64_t tokens[200];
    for (size_t t = 0; t < 200; t++)
        tokens[t] = t;
    check_rows(folder, &d, &seen, tokens, 200);
    watched_free(&seen);
    corpus_free(&c);
    dense_close(&d);
    scratch_remove(folder);
}

/* ------------------------------------------------------------------ what lies in the folder */

/* Whatever became of the manifest, and wherever an earlier removal stopped. */
static void removal_finds_everything(void **state)
{
    (void)state;
    static const char *const before[] = {"true", "rm states", "echo nothing >states", "rm states layer-4.states"};
    dense d = dense_open(RELU, 1);
    corpus c = random_corpus(&d, 20, 0);
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        char command[128], *folder = scratch_folder();
        states_writer *w = open_writer(folder, &d, &c, 0);
        assert_int_equal(states_writer_flush(w, 20, NULL), HEARTH_OK);
        states_writer_close(w);
        snprintf(command, sizeof command, "cd '%s' && %s", folder, before[i]);
        assert_int_equal(system(command), 0);
        states_remove(folder);
        assert_int_equal(rmdir(folder), 0);
    }
    corpus_free(&c);
    dense_close(&d);
}

/* Somebody who can put a link there must not choose what is overwritten. */
static void links_are_not_followed(void **state)
{
    (void)state;
    dense d = dense_open(RELU, 1);
    corpus c = random_corpus(&d, 20, 0);
    char target[96], link[96], *folder = scratch_folder();
    hearth_error error;
    states_writer *w;
    struct stat about;
    snprintf(target, sizeof target, "%s/precious", folder);
    snprintf(link, sizeof link, "%s/layer-2.states", folder);
    FILE *f = fopen(target, "w");
    assert_non_null(f);
    fputs("precious", f);
    fclose(f);
    assert_int_equal(symlink(target, link), 0);
    assert_int_equal(states_writer_open(&w, folder, d.model, &c, 0, &error), HEARTH_IO);
    assert_non_null(strstr(error.text, "layer-2.states: cannot open for writing"));
    assert_int_equal(stat(target, &about), 0);
    assert_int_equal(about.st_size, 8);
    corpus_free(&c);
    dense_close(&d);
    scratch_remove(folder);
}

/* ------------------------------------------------------------------ along with a profile */

static bool stop_at_once(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)what, (void)done, (void)total;
    return ++*(int *)user < 9;
}

static void along_with_a_profile(void **state)
{
    (void)state;
    dense d = dense_open(RELU, 2);
    corpus c = random_corpus(&d, 300, 50);
    watched seen = watch(&d, &c);
    char *folder = scratch_folder();
    hearth_status status;
    profile p;
    int runs = 0;
    do {
        int calls = 0;
        states_writer *w = open_writer(folder, &d, &c, 0);
        profile_options o = {.folder = folder, .states = w, .progress = {stop_at_once, &calls}};
        status = profile_take(&p, d.engine, &c, &o, NULL);
        assert_true(status == HEARTH_OK || status == HEARTH_CANCELLED);
        profile_free(&p);
        states_writer_close(w);
        assert_true(++runs < 20);
    } while (status != HEARTH_OK);
    assert_true(runs > 2);
    uint64_t tokens[300];
    for (size_t t = 0; t < 300; t++)
        tokens[t] = t;
    check_rows(folder, &d, &seen, tokens, 300);
    /* Without the rows the counts alone are not gone on with. */
    states_remove(folder);
    states_writer *w = open_writer(folder, &d, &c, 0);
    profile_options o = {.folder = folder, .states = w};
    assert_int_equal(profile_take(&p, d.engine, &c, &o, NULL), HEARTH_OK);
    assert_int_equal(p.resumed_tokens, 0);
    assert_non_null(strstr(p.note, "came without hidden states"));
    profile_free(&p);
    states_writer_close(w);
    check_rows(folder, &d, &seen, tokens, 300);
    watched_free(&seen);
    corpus_free(&c);
    dense_close(&d);
    scratch_remove(folder);
}

static void one_run_at_a_time(void **state)
{
    (void)state;
    char path[96];
    hearth_error error;
    work_folder a, b;
    char *folder = scratch_folder();
    snprintf(path, sizeof path, "%s/work", folder);
    assert_int_equal(work_open(&a, path, &error), HEARTH_OK);
    assert_int_equal(work_open(&b, path, &error), HEARTH_IO);
    assert_non_null(strstr(error.text, "folder: another run of hearth works in it"));
    work_close(&b);
    work_close(&a);
    assert_int_equal(rmdir(folder), 0); /* nothing was left in it */
    assert_int_equal(work_open(&a, path, &error), HEARTH_IO);
    work_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_delete_nothing),      cmocka_unit_test(rows_are_what_was_seen),
        cmocka_unit_test(the_last_tenth_is_held_out), cmocka_unit_test(the_limit_holds),
        cmocka_unit_test(interrupted_and_gone_on),    cmocka_unit_test(layers_without_a_network),
        cmocka_unit_test(everything_may_fail),        cmocka_unit_test(files_that_may_not_grow),
        cmocka_unit_test(along_with_a_profile),       cmocka_unit_test(one_run_at_a_time),
        cmocka_unit_test(removal_finds_everything),   cmocka_unit_test(links_are_not_followed),
    };
    return run_group(tests, NULL, NULL);
}
