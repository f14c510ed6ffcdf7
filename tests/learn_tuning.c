/* A whole tuning: interrupted anywhere and gone on with it gives the same bytes, on any number of threads; forged work does
 * no harm; what is said of the choice and its loss is so. */
#include "../src/base/file.h"
#include "../src/base/hash.h"
#include "../src/base/memory.h"
#include "../src/engine/engine.h"
#include "../src/learn/tuning_internal.h"
#include "../src/learn/work.h"

#include <dirent.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "skip.h"

#define MODEL HEARTH_DATA "/models/stories260K-relu"
#define SILU  HEARTH_DATA "/models/stories260K"
#define TEXT  HEARTH_MODELS "/stories-held.txt"
/* Ids that are read: seconds, and enough for the last tenth to say something. */
#ifdef __SANITIZE_ADDRESS__ /* checked memory takes its time: less text, fewer faults */
#define TOKENS     800
#define FAULT_PART 1
#else
#define TOKENS     1600
#define FAULT_PART 2 /* after a fault half as many again go well before the next */
#endif
/* What training never sees: every token has a row, and the last tenth of the rows is held out. */
#define UNSEEN (TOKENS / 10)

typedef struct fixture {
    hearth_runtime *runtime;
    hearth_model *model;
    corpus texts;
    char folder[64], path[80], work[80];
} fixture;

static void open_fixture(fixture *f, const char *path, unsigned threads)
{
    const char *texts[] = {TEXT};
    *f = (fixture){.folder = "/tmp/hearth-tuning.XXXXXX"};
    assert_non_null(mkdtemp(f->folder));
    snprintf(f->path, sizeof f->path, "%s/model.tune", f->folder);
    snprintf(f->work, sizeof f->work, "%s/work", f->folder);
    assert_int_equal(mkdir(f->work, 0700), 0);
    hearth_model_options options = {.tune = ""};
    hearth_runtime_options runtime = {.threads = threads};
    corpus all;
    assert_int_equal(hearth_runtime_create(&f->runtime, &runtime, NULL), HEARTH_OK);
    assert_int_equal(hearth_model_open(&f->model, path, &options, NULL), HEARTH_OK);
    assert_int_equal(corpus_read(&all, f->model, texts, 1, NULL, 0, NULL), HEARTH_OK);
    assert_int_equal(corpus_of_ids(&f->texts, f->model, all.ids, TOKENS, 0, NULL), HEARTH_OK);
    corpus_free(&all);
}

static void close_fixture(fixture *f)
{
    assert_int_equal(records_end(f->work, NULL), HEARTH_OK);
    assert_int_equal(rmdir(f->work), 0);
    unlink(f->path);
    assert_int_equal(rmdir(f->folder), 0);
    corpus_free(&f->texts);
    hearth_model_close(f->model);
    hearth_runtime_destroy(f->runtime);
}

static tuning_options options_of(const fixture *f)
{
    return (tuning_options){.folder = f->work,
                            .recall = 0.98f,
                            .budget = 0.3,
                            .choice = TUNING_BYTES,
                            .epochs = 3,
                            .disk_bytes = 1 << 30,
                            .memory_bytes = 1 << 30};
}

static file_map written(const fixture *f)
{
    file_map map;
    assert_int_equal(file_map_open(&map, f->path, NULL), HEARTH_OK);
    return map;
}

/* A tuning from an empty folder; the bytes of its file, file_map_close. */
static file_map tune_whole(fixture *f, tuning_result *r)
{
    tuning_options o = options_of(f);
    hearth_error error = {0};
    assert_int_equal(records_end(f->work, NULL), HEARTH_OK);
    if (tuning_run(r, f->runtime, f->model, &f->texts, f->path, &o, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    return written(f);
}

static bool is_same(file_map a, file_map b)
{
    return a.size_bytes == b.size_bytes && memcmp(a.data, b.data, a.size_bytes) == 0;
}

/* ------------------------------------------------------------------ what comes out */

static void the_file_says_what_was_chosen(void **state)
{
    (void)state;
    fixture f;
    tuning_result r;
    tune *t;
    open_fixture(&f, MODEL, 2);
    file_map bytes = tune_whole(&f, &r);
    file_map_close(&bytes);
    assert_null(f.model->tune); /* the model is as before */
    assert_false(f.model->predictors);
    assert_int_equal(tune_open(&t, f.path, f.model, NULL), HEARTH_OK);
    assert_int_equal(t->tokens, f.texts.id_count);
    assert_int_equal(t->level_count, PRUNE_LEVELS);
    assert_true(t->has_predictors);
    double own = 0;
    for (uint32_t i = 0; i < r.layer_count; i++) {
        const tuning_layer *l = &r.layers[i];
        const candidate *c = &l->candidates[l->chosen];
        own += c->own_bytes;
        assert_int_equal(t->layers[i].predictor.kind, c->kind);
        /* what is chosen reads less than exact, or nothing is */
        assert_true(l->chosen == TUNING_NONE || c->token_bytes < choose_exact_bytes(&l->shape));
        assert_true(l->chosen == TUNING_NONE || c->recall >= 0.98 - 1e-4);
        if (c->kind == PREDICTOR_LOW_RANK)
            assert_true(t->layers[i].predictor.fc1.rows == c->rank && t->layers[i].predictor.reads_normed == c->normed);
    }
    assert_true(own > 0 && own == r.spent_bytes && own <= r.budget_bytes);
    assert_int_equal(r.loss.tokens, UNSEEN);
    assert_int_equal(r.notes[0][0], 0);
    tune_close(t);
    tuning_free(&r);
    close_fixture(&f);
}

/* An engine of mode pruned, with thresholds of 0 or those of a level of the model's tune file. */
static hearth_engine *pruned_engine(const fixture *f, const hearth_model *model, const float *level)
{
    hearth_placement *p;
    hearth_engine *engine;
    assert_int_equal(hearth_placement_create(&p, model, HEARTH_MODE_PRUNED, NULL), HEARTH_OK);
    if (level)
        assert_int_equal(hearth_placement_prune(p, model, (double)*level, NULL), HEARTH_OK);
    hearth_engine_options options = {.placement = p};
    assert_int_equal(hearth_engine_create(&engine, f->runtime, model, &options, NULL), HEARTH_OK);
    hearth_placement_destroy(p);
    return engine;
}

/* The losses in the file are those of engines that run it, on the tokens that nothing was learnt from; float32 rounds
 * them. What is recommended is the highest that costs at most 0.01. */
static void levels_cost_what_the_file_says(void **state)
{
    (void)state;
    fixture f;
    tuning_result r;
    hearth_model *tuned;
    open_fixture(&f, SILU, 2);
    file_map bytes = tune_whole(&f, &r);
    file_map_close(&bytes);
    hearth_model_options options = {.tune = f.path};
    assert_int_equal(hearth_model_open(&tuned, SILU, &options, NULL), HEARTH_OK);
    const tune *t = tuned->tune;
    assert_non_null(t->losses);
    assert_true(t->losses[0] == 0);
    hearth_engine *all = pruned_engine(&f, tuned, NULL);
    int best = -1;
    for (uint32_t i = 0; i < PRUNE_LEVELS; i++) {
        hearth_engine *pruned = pruned_engine(&f, tuned, &t->levels[i]);
        loss p;
        assert_int_equal(
            loss_measure(&p, all, pruned, &f.texts, f.texts.id_count - UNSEEN, UNSEEN, (hearth_progress){0}, NULL),
            HEARTH_OK);
        hearth_engine_destroy(pruned);
        assert_int_equal(p.tokens, UNSEEN);
        assert_true(fabs((double)t->losses[i] - p.divergence) <= FLT_EPSILON * p.divergence);
        if (i > 0 && t->losses[i] <= 0.01f)
            best = (int)i;
    }
    assert_true(t->losses[PRUNE_LEVELS - 1] > 0.01f); /* nine tenths of a SiLU model's neurons are not nothing */
    assert_int_equal(r.prunes, best >= 0);
    if (r.prunes)
        assert_int_equal(r.prune_level, best);
    hearth_engine_destroy(all);
    hearth_model_close(tuned);
    tuning_free(&r);
    close_fixture(&f);
}

static void silu_has_nothing_to_foresee(void **state)
{
    (void)state;
    fixture f;
    tuning_result r;
    tune *t;
    open_fixture(&f, SILU, 2);
    file_map bytes = tune_whole(&f, &r);
    file_map_close(&bytes);
    assert_int_equal(tune_open(&t, f.path, f.model, NULL), HEARTH_OK);
    assert_false(r.has_zeros);
    assert_false(t->has_predictors);
    assert_int_equal(t->level_count, PRUNE_LEVELS);
    assert_non_null(t->layers[0].counts);
    assert_true(t->layers[0].prune[PRUNE_LEVELS - 1] > 0);
    tune_close(t);
    tuning_free(&r);
    close_fixture(&f);
}

static void powerinfers_kind_is_low_rank_everywhere(void **state)
{
    (void)state;
    fixture f;
    tuning_result r;
    open_fixture(&f, MODEL, 2);
    tuning_options o = options_of(&f);
    hearth_error error = {0};
    o.for_powerinfer = true;
    o.budget = 0; /* it must have some */
    if (tuning_run(&r, f.runtime, f.model, &f.texts, f.path, &o, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    for (uint32_t i = 0; i < r.layer_count; i++) {
        const candidate *c = &r.layers[i].candidates[r.layers[i].chosen];
        assert_int_equal(c->kind, PREDICTOR_LOW_RANK);
        assert_false(c->normed);
        assert_true(c->recall >= 0.98 - 1e-4);
    }
    assert_int_equal(r.loss.tokens, UNSEEN);
    tuning_free(&r);
    close_fixture(&f);
}

/* The least memory with which a rank can be trained in layer 0. */
static uint64_t memory_for(const fixture *f, const states *rows, uint32_t rank)
{
    uint64_t low = 1, high = 1 << 30;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        lowrank_options o = {.rank = rank,
                             .recall = 0.98f,
                             .format = FORMAT_Q8_0,
                             .epochs = 3,
                             .memory_bytes = middle,
                             .threads = f->runtime->threads};
        if (lowrank_check(f->model, 0, rows, &o, NULL) == HEARTH_OK)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Ranks that do not fit into the memory are left out, and only those. */
static void little_memory_costs_ranks(void **state)
{
    (void)state;
    fixture f;
    tuning_result r;
    states *rows;
    open_fixture(&f, MODEL, 1);
    file_map bytes = tune_whole(&f, &r);
    file_map_close(&bytes);
    size_t starts = r.layers[0].start_count;
    uint32_t first = r.layers[0].starts[0].rank;
    assert_true(starts > 1);
    tuning_free(&r);
    assert_int_equal(states_open(&rows, f.work, f.model, 0, NULL), HEARTH_OK);
    tuning_options o = options_of(&f);
    o.memory_bytes = memory_for(&f, rows, first);
    states_close(rows);
    assert_int_equal(tuning_run(&r, f.runtime, f.model, &f.texts, f.path, &o, NULL), HEARTH_OK);
    for (uint32_t i = 0; i < r.layer_count; i++) {
        assert_int_equal(r.layers[i].start_count, 1);
        assert_int_equal(r.layers[i].starts[0].rank, first);
        assert_non_null(strstr(r.layers[i].dropped, "MB are allowed"));
    }
    tuning_free(&r);
    o.memory_bytes--;
    assert_int_equal(tuning_run(&r, f.runtime, f.model, &f.texts, f.path, &o, NULL), HEARTH_OK);
    for (uint32_t i = 0; i < r.layer_count; i++)
        assert_true(r.layers[i].start_count == 0 && r.layers[i].dropped[0]);
    tuning_free(&r);
    o.for_powerinfer = true;
    hearth_error error = {0};
    assert_int_equal(tuning_run(&r, f.runtime, f.model, &f.texts, f.path, &o, &error), HEARTH_UNSUPPORTED);
    assert_non_null(strstr(error.text, "MB are allowed"));
    tuning_free(&r);
    close_fixture(&f);
}

/* Where nothing fires there is no threshold to be learnt: no predictor, rather than one that lets nothing through. */
static void silent_layers_get_none(void **state)
{
    (void)state;
    fixture f;
    tuning_result r;
    open_fixture(&f, MODEL, 2);
    matrix *gate = &f.model->layers[1].gate;
    void *zeros = mem_new_array(gate->rows, gate->row_bytes);
    gate->data = zeros;
    file_map bytes = tune_whole(&f, &r);
    file_map_close(&bytes);
    assert_int_equal(r.layers[1].chosen, TUNING_NONE);
    for (size_t i = 1; i < TUNING_CANDIDATES; i++)
        assert_int_equal(r.layers[1].candidates[i].kind, PREDICTOR_NONE);
    assert_non_null(strstr(r.layers[1].dropped, "none of its neurons fired"));
    assert_true(r.layers[0].start_count > 0);
    tuning_free(&r);
    mem_free(zeros);
    close_fixture(&f);
}

/* Another file of the same model has weights of its own: nothing of it is gone on with. */
static void other_formats_begin_anew(void **state)
{
    (void)state;
    fixture f;
    tuning_result r;
    open_fixture(&f, MODEL, 2);
    file_map bytes = tune_whole(&f, &r);
    file_map_close(&bytes);
    assert_false(r.begun_anew);
    tuning_free(&r);
    f.model->weight_bytes++;
    tuning_options o = options_of(&f);
    assert_int_equal(tuning_run(&r, f.runtime, f.model, &f.texts, f.path, &o, NULL), HEARTH_OK);
    assert_true(r.begun_anew);
    tuning_free(&r);
    close_fixture(&f);
}

/* ------------------------------------------------------------------ the same bytes */

/* Says no at the n-th question, and at every later one. */
static bool count_down(void *user, const char *what, uint64_t done, uint64_t total)
{
    long *left = user;
    assert_non_null(what);
    assert_true(done <= total);
    return (*left)-- > 0;
}

static void threads_do_not_show(void **state)
{
    (void)state;
    fixture one, three;
    tuning_result r;
    open_fixture(&one, MODEL, 1);
    open_fixture(&three, MODEL, 3);
    file_map a = tune_whole(&one, &r);
    tuning_free(&r);
    file_map b = tune_whole(&three, &r);
    tuning_free(&r);
    assert_true(is_same(a, b));
    file_map_close(&a);
    file_map_close(&b);
    close_fixture(&one);
    close_fixture(&three);
}

/* Cancelled after every few questions of progress, and gone on with, again and again until it is done. */
static void interruptions_do_not_show(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    static const long patience[] = {12};
#else
    static const long patience[] = {3, 20};
#endif
    fixture f;
    tuning_result r;
    open_fixture(&f, MODEL, 2);
    file_map wanted = tune_whole(&f, &r);
    tuning_free(&r);
    for (size_t p = 0; p < sizeof patience / sizeof *patience; p++) {
        hearth_status status;
        long runs = 0, live = mem_live();
        assert_int_equal(records_end(f.work, NULL), HEARTH_OK);
        assert_int_equal(unlink(f.path), 0);
        do {
            /* more each time: no stage need get anywhere in one breath */
            long left = patience[p] + runs++;
            tuning_options o = options_of(&f);
            hearth_error error = {0};
            o.progress = (hearth_progress){count_down, &left};
            status = tuning_run(&r, f.runtime, f.model, &f.texts, f.path, &o, &error);
            tuning_free(&r);
            if (status != HEARTH_OK && status != HEARTH_CANCELLED)
                fail_msg("%s", error.text);
            assert_int_equal(status == HEARTH_CANCELLED, !file_exists(f.path));
            assert_int_equal(mem_live(), live);
            assert_null(f.model->tune);
        } while (status != HEARTH_OK);
        file_map got = written(&f);
        assert_true(is_same(wanted, got));
        file_map_close(&got);
        print_message("interrupted %ld times\n", runs - 1);
    }
    file_map_close(&wanted);
    close_fixture(&f);
}

/* Now and then an allocation or a write fails: an error that says so, nothing leaks, and going on gives the same. */
static void faults_do_not_show(void **state)
{
    (void)state;
    fixture f;
    tuning_result r;
    open_fixture(&f, MODEL, 1);
    file_map wanted = tune_whole(&f, &r);
    tuning_free(&r);
    for (int kind = 0; kind < 2; kind++) {
        hearth_status status = HEARTH_IO;
        assert_int_equal(records_end(f.work, NULL), HEARTH_OK);
        assert_int_equal(unlink(f.path), 0);
        for (long n = 0; status != HEARTH_OK; n += 1 + n / FAULT_PART) {
            long live = mem_live();
            tuning_options o = options_of(&f);
            hearth_error error = {0};
            if (kind == 0)
                mem_fail_at(n);
            else
                file_fail_at(n);
            status = tuning_run(&r, f.runtime, f.model, &f.texts, f.path, &o, &error);
            mem_fail_at(-1);
            file_fail_at(-1);
            tuning_free(&r);
            assert_int_equal(status == HEARTH_OK, error.text[0] == 0);
            assert_int_equal(mem_live(), live);
            assert_null(f.model->tune);
        }
        file_map got = written(&f);
        assert_true(is_same(wanted, got));
        file_map_close(&got);
    }
    file_map_close(&wanted);
    close_fixture(&f);
}

/* ------------------------------------------------------------------ forgery */

/* Gives a file of the work folder other content, over and over the same numbers, and the checksum that belongs to it.
 * false: it is not a record, or one without content. */
static bool forge(const char *path, const double values[4])
{
    file_map map;
    static const char magic[] = "hearth-work ";
    assert_int_equal(file_map_open(&map, path, NULL), HEARTH_OK);
    size_t size = map.size_bytes;
    char *bytes = mem_new(size + 1);
    memcpy(bytes, map.data, size);
    file_map_close(&map);
    char *end = strncmp(bytes, magic, strlen(magic)) == 0 ? strchr(bytes, '\n') : NULL;
    size_t head = end ? (size_t)(end - bytes) + 1 : 0, content = end ? size - head - sizeof(hash128) : 0;
    if (content > 0) {
        hash128 sum = hash_begin();
        for (size_t i = 0; i < content; i++)
            bytes[head + i] = ((const char *)values)[i % (4 * sizeof *values)];
        hash_bytes(&sum, bytes, size - sizeof sum);
        memcpy(bytes + size - sizeof sum, &sum, sizeof sum);
        FILE *f = fopen(path, "wb");
        assert_non_null(f);
        assert_int_equal(fwrite(bytes, 1, size, f), size);
        fclose(f);
    }
    mem_free(bytes);
    return content > 0;
}

static size_t forge_all(const fixture *f, const double values[4])
{
    size_t forged = 0;
    DIR *all = opendir(f->work);
    assert_non_null(all);
    for (struct dirent *e; (e = readdir(all));) {
        char path[384];
        snprintf(path, sizeof path, "%s/%s", f->work, e->d_name);
        if (e->d_name[0] != '.')
            forged += forge(path, values);
    }
    closedir(all);
    return forged;
}

/* A checksum keeps accidents out, not somebody who wants us to fall over: whatever numbers records hold, there is a file
 * or an error that says why there is none. */
static void forged_records_do_no_harm(void **state)
{
    (void)state;
    static const double forgeries[][4] = {
        {NAN, NAN, NAN, NAN}, {1e300, 1, 0.001, 0.5}, {-1, 1, 0.001, 0.5}, {-1, -1, -1, -1}, {1e9, 1e9, 1e9, 1e9}};
    fixture f;
    tuning_result r;
    open_fixture(&f, MODEL, 2);
    file_map bytes = tune_whole(&f, &r);
    file_map_close(&bytes);
    tuning_free(&r);
    for (size_t i = 0; i < sizeof forgeries / sizeof *forgeries; i++) {
        long live = mem_live();
        tuning_options o = options_of(&f);
        hearth_error error = {0};
        assert_true(forge_all(&f, forgeries[i]) > 10);
        hearth_status status = tuning_run(&r, f.runtime, f.model, &f.texts, f.path, &o, &error);
        assert_int_equal(status == HEARTH_OK, error.text[0] == 0);
        assert_false(r.begun_anew); /* they were believed */
        print_message("forgery %zu: %s\n", i, status == HEARTH_OK ? "a file" : error.text);
        tuning_free(&r);
        assert_int_equal(mem_live(), live);
        assert_null(f.model->tune);
    }
    close_fixture(&f);
}

/* ------------------------------------------------------------------ the choice */

/* By the clock, too, nothing is chosen that misses the recall, reads more than exact, or does not fit; and it is said
 * why. */
static void what_is_chosen_and_why(void **state)
{
    (void)state;
    static const struct {
        double recall, bytes, seconds, budget; /* exact: 1200 bytes, a second */
        bool chosen;
        const char *why;
    } cases[] = {
        {0.99, 800, 0.5, 1000, true, "0.50 of exact's time at recall 0.9900"},
        {0.97, 800, 0.5, 1000, false, "low-rank 32 residual only reaches a recall of 0.9700"},
        {0.99, 800, 0.98, 1000, false, "low-rank 32 residual is not clearly better: 0.98 of exact's time"},
        {0.99, 1200, 0.5, 1000, false, "low-rank 32 residual (0.50 of exact's time) reads no less than exact"},
        {0.99, 800, 0.5, 99, false, "low-rank 32 residual (0.50 of exact's time) does not fit into the budget"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tuning_layer layer = {.shape = {.first = 1000, .listed = 2000, .fires = 0.1, .used = 1}};
        tuning_result r = {.layer_count = 1,
                           .layers = &layer,
                           .has_zeros = true,
                           .recall = 0.98f,
                           .choice = TUNING_TIME,
                           .budget_bytes = cases[i].budget};
        char why[256];
        layer.candidates[TUNING_LOW_RANK] = (candidate){.kind = PREDICTOR_LOW_RANK,
                                                        .rank = 32,
                                                        .recall = cases[i].recall,
                                                        .own_bytes = 100,
                                                        .token_bytes = cases[i].bytes,
                                                        .seconds = cases[i].seconds,
                                                        .exact_seconds = 1};
        assert_int_equal(tuning_pick(&r, NULL), HEARTH_OK);
        assert_int_equal(layer.chosen, cases[i].chosen ? TUNING_LOW_RANK : TUNING_NONE);
        assert_true(r.spent_bytes == (cases[i].chosen ? 100 : 0));
        tuning_explain(why, sizeof why, &r, 0);
        assert_string_equal(why, cases[i].why);
    }
}

/* ------------------------------------------------------------------ loss and race */

static hearth_engine *open_engine(const fixture *f, hearth_mode mode, float threshold)
{
    hearth_placement *p;
    hearth_engine *e;
    assert_int_equal(hearth_placement_create(&p, f->model, mode, NULL), HEARTH_OK);
    if (mode == HEARTH_MODE_PRUNED)
        hearth_placement_set_threshold(p, threshold);
    hearth_engine_options o = {.placement = p};
    assert_int_equal(hearth_engine_create(&e, f->runtime, f->model, &o, NULL), HEARTH_OK);
    hearth_placement_destroy(p);
    return e;
}

/* All logits of ids, fed at once. */
static float *logits_of(const hearth_engine *e, const int32_t *ids, size_t count, size_t vocabulary)
{
    hearth_session *s;
    hearth_session_options o = {.output_rows = (uint32_t)count};
    float *logits = mem_new_array(count * vocabulary, sizeof *logits);
    hearth_row *rows = mem_new_array(count, sizeof *rows);
    assert_int_equal(hearth_session_create(&s, e, &o, NULL), HEARTH_OK);
    for (size_t i = 0; i < count; i++)
        rows[i] = (hearth_row){ids[i], 0, true};
    assert_int_equal(hearth_session_feed(s, rows, count, NULL), HEARTH_OK);
    assert_int_equal(hearth_session_logits(s, 0, count, logits, NULL), HEARTH_OK);
    hearth_session_destroy(s);
    mem_free(rows);
    return logits;
}

static void loss_is_the_divergence(void **state)
{
    (void)state;
    fixture f;
    loss p;
    hearth_progress nobody = {0};
    open_fixture(&f, MODEL, 2);
    hearth_engine *exact = open_engine(&f, HEARTH_MODE_EXACT, 0);
    hearth_engine *lossy = open_engine(&f, HEARTH_MODE_PRUNED, 0.2f);
    assert_int_equal(loss_measure(&p, exact, exact, &f.texts, f.texts.starts[1], 100, nobody, NULL), HEARTH_OK);
    assert_int_equal(p.tokens, 100);
    assert_true(p.divergence == 0 && p.same_top == 1 && p.exact_bytes == p.lossy_bytes);

    size_t n = f.model->hyper.vocabulary_size, count = 60;
    assert_int_equal(loss_measure(&p, exact, lossy, &f.texts, f.texts.starts[1], count, nobody, NULL), HEARTH_OK);
    float *a = logits_of(exact, f.texts.ids + f.texts.starts[1], count, n);
    float *b = logits_of(lossy, f.texts.ids + f.texts.starts[1], count, n);
    double sum = 0;
    for (size_t t = 0; t < count; t++)
        for (size_t i = 0; i < n; i++) {
            double log_p = hearth_log_probability(a + t * n, n, (int32_t)i);
            sum += exp(log_p) * (log_p - hearth_log_probability(b + t * n, n, (int32_t)i));
        }
    print_message("divergence %.6f\n", p.divergence);
    assert_true(p.divergence > 1e-6);
    assert_true(fabs(p.divergence - sum / (double)count) < 1e-9 + 1e-6 * p.divergence);
    assert_true(p.lossy_bytes < p.exact_bytes);
    mem_free(a);
    mem_free(b);
    hearth_engine_destroy(exact);
    hearth_engine_destroy(lossy);
    close_fixture(&f);
}

static void races_give_a_time_per_layer(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f, MODEL, 1);
    hearth_engine *exact = open_engine(&f, HEARTH_MODE_EXACT, 0), *dense = open_engine(&f, HEARTH_MODE_DENSE, 0);
    const hearth_engine *engines[] = {exact, dense};
    size_t layers = f.model->hyper.layer_count;
    double *seconds = mem_new_array(layers, 2 * sizeof *seconds);
    long live = mem_live(), n = 0;
    hearth_status status;
    do {
        mem_fail_at(n++);
        status = race_measure(seconds, engines, 2, f.texts.ids, 20, (hearth_progress){0}, NULL);
        mem_fail_at(-1);
        assert_int_equal(mem_live(), live);
    } while (status != HEARTH_OK);
    for (size_t i = 0; i < 2 * layers; i++)
        assert_true(seconds[i] > 0 && seconds[i] < 1);
    mem_free(seconds);
    hearth_engine_destroy(exact);
    hearth_engine_destroy(dense);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_file_says_what_was_chosen),  cmocka_unit_test(silu_has_nothing_to_foresee),
        cmocka_unit_test(levels_cost_what_the_file_says), cmocka_unit_test(powerinfers_kind_is_low_rank_everywhere),
        cmocka_unit_test(little_memory_costs_ranks),      cmocka_unit_test(silent_layers_get_none),
        cmocka_unit_test(other_formats_begin_anew),       cmocka_unit_test(threads_do_not_show),
        cmocka_unit_test(interruptions_do_not_show),      cmocka_unit_test(faults_do_not_show),
        cmocka_unit_test(forged_records_do_no_harm),      cmocka_unit_test(what_is_chosen_and_why),
        cmocka_unit_test(loss_is_the_divergence),         cmocka_unit_test(races_give_a_time_per_layer),
    };
    return run_group(tests, NULL, NULL);
}
