/* Sweeps: settings mean what they say, densities and losses are the reference's, and a failure leaves nothing. */
#include "../src/eval/sweep.h"

#include "../src/engine/engine.h"

#include "golden.h"
#include "own_folder.h"
#include "tune_build.h"

#define MODEL HEARTH_DATA "/models/stories-relu"
#define SMALL HEARTH_DATA "/models/stories260K-relu"
#define TEXT  HEARTH_DATA "/golden/real/nll-text.txt"
#define HELD  HEARTH_MODELS "/stories-held.txt"

static char tune_file[64], further_file[64];

typedef struct fixture {
    hearth_runtime *runtime;
    hearth_model *model;
    char *text;
    size_t size;
} fixture;

static void open_fixture(fixture *f, const char *model, const char *learnt, const char *text)
{
    hearth_error error;
    hearth_runtime_options two = {.threads = 2};
    hearth_model_options options = {.tune = learnt};
    stack_check(hearth_runtime_create(&f->runtime, &two, &error), &error);
    stack_check(hearth_model_open(&f->model, model, &options, &error), &error);
    stack_check(file_read(&f->text, &f->size, text, 1 << 24, &error), &error);
}

/* With a tune file made by hand: counts, and thresholds at 0.25, 0.5 and 0.9. */
static void open_tuned(fixture *f, const char *model, const char *text)
{
    hearth_error error;
    open_fixture(f, model, "", text);
    tune *t = make_tune(f->model, MADE_COUNTS | MADE_PRUNE, FORMAT_F32, 0);
    stack_check(tune_write(tune_file, t, f->model, &error), &error);
    tune_close(t);
    hearth_model_close(f->model);
    hearth_model_options options = {.tune = tune_file};
    stack_check(hearth_model_open(&f->model, model, &options, &error), &error);
}

static void close_fixture(fixture *f)
{
    hearth_model_close(f->model);
    hearth_runtime_destroy(f->runtime);
    mem_free(f->text);
}

static hearth_engine *open_setting(const fixture *f, sweep_kind kind, double value)
{
    hearth_error error;
    hearth_placement *placement;
    hearth_engine *engine;
    sweep_setting setting = {kind, value};
    stack_check(sweep_place(&placement, f->model, &setting, &error), &error);
    hearth_engine_options options = {.placement = placement};
    stack_check(hearth_engine_create(&engine, f->runtime, f->model, &options, &error), &error);
    hearth_placement_destroy(placement);
    return engine;
}

/* ------------------------------------------------------------------ settings */

static void settings_are_read(void **state)
{
    (void)state;
    fixture f;
    hearth_error error;
    sweep_setting s[SWEEP_SETTINGS];
    size_t count;
    char name[SWEEP_NAME];
    open_tuned(&f, SMALL, TEXT);
    stack_check(sweep_parse(s, &count, "dense,exact,pruned=0.3:0.9:0.3,hot-only=0.25,predicted=-1:1:1,dense,pruned",
                            f.model, &error),
                &error);
    static const char *const names[] = {"dense",       "exact",         "pruned=0.3",   "pruned=0.6",
                                        "pruned=0.9",  "hot-only=0.25", "predicted=-1", "predicted=0",
                                        "predicted=1", "pruned=0.25",   "pruned=0.5"};
    assert_int_equal(count, sizeof names / sizeof *names);
    for (size_t i = 0; i < count; i++) {
        sweep_setting_name(name, &s[i]);
        assert_string_equal(name, names[i]);
    }
    stack_check(sweep_parse(s, &count, "cold-only", f.model, &error), &error);
    assert_int_equal(count, 4);
    assert_true(s[0].value == 0.2 && s[3].value == 0.8);

    sweep_defaults(s, &count, f.model); /* no predictors: dense, exact, 3 levels, 4 hot, 4 cold */
    assert_int_equal(count, 13);
    hearth_model_options bare = {.tune = ""};
    hearth_model_close(f.model);
    stack_check(hearth_model_open(&f.model, SMALL, &bare, &error), &error);
    sweep_defaults(s, &count, f.model);
    assert_int_equal(count, 2);
    assert_int_equal(sweep_parse(s, &count, "pruned", f.model, &error), HEARTH_UNSUPPORTED);
    static const struct {
        const char *text, *says;
    } wrong[] = {
        {"", "'' is none"},
        {"dense,", "'' is none"},
        {"dens", "'dens' is none"},
        {"dense=1", "takes no value"},
        {"pruned=", "neither a number"},
        {"pruned=0.1:0.2", "neither a number"},
        {"pruned=0.1:0.2:0.1:4", "neither a number"},
        {"pruned=nan", "neither a number"},
        {"pruned=0.1x", "neither a number"},
        {"pruned=0.9:0.1:0.1", "goes nowhere"},
        {"pruned=0:1:0", "goes nowhere"},
        {"pruned=0:1:1e-9", "too many steps"},
        {"pruned=0:1:0.01", "more than 64"},
        {"hot-only=1.5", "not a share"},
        {"hot-only=-0.5", "not a share"},
        {"predicted=1e30", "too large"},
        {"predicted=1111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111",
         "too long"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(sweep_parse(s, &count, wrong[i].text, f.model, &error), HEARTH_INVALID);
        if (!strstr(error.text, wrong[i].says))
            fail_msg("'%s': %s", wrong[i].text, error.text);
    }
    close_fixture(&f);
}

/* ------------------------------------------------------------------ activity */

/* What a session of our own fires, row by row. */
typedef struct seen {
    uint64_t rows, active[8];
} seen;

static void see(void *user, const hearth_observation *o)
{
    seen *s = user;
    s->rows += o->layer == 0;
    assert_true(o->layer < 8);
    for (size_t i = 0; i < o->neuron_count; i++)
        s->active[o->layer] += o->activations[i] != 0;
}

/* Reads text [size] in windows behind BOS, the last token of each left out, at most so many of them. */
static void read_plainly(const fixture *f, hearth_session *session, const char *text, size_t size, size_t windows)
{
    enum { ROOM = 99 };
    hearth_row rows[1 + ROOM] = {{.token = 1}}; /* BOS in these models */
    int32_t *ids;
    size_t count;
    hearth_error error;
    stack_check(hearth_tokenize(f->model, text, size, 0, &ids, &count, &error), &error);
    for (size_t at = 0; at < count && at < windows * ROOM; at += ROOM) {
        size_t n = count - at < ROOM ? count - at : ROOM;
        for (size_t i = 0; i + 1 < n; i++)
            rows[1 + i] = (hearth_row){.token = ids[at + i]};
        stack_check(hearth_session_truncate(session, 0, 0, &error), &error);
        stack_check(hearth_session_feed(session, rows, n, &error), &error);
    }
    hearth_free(ids);
}

/* Texts are cut as they should be, and every neuron that fires is counted: as an observer of the same windows does. */
static void activity_is_what_observers_see(void **state)
{
    (void)state;
    fixture f;
    hearth_error error;
    hearth_model_info info;
    hearth_session *session;
    hearth_session_options wish = {.context = 100};
    hearth_progress quiet = {0};
    open_fixture(&f, SMALL, "", TEXT);
    hearth_model_describe(f.model, &info);
    assert_int_equal(info.bos, 1);
    hearth_engine *exact = open_setting(&f, SWEEP_EXACT, NAN);
    /* One text of several windows; or what stands between every "but": a long text behind two that fit a window. */
    static const char *const separators[] = {NULL, "but"};
    for (size_t mode = 0; mode < 2; mode++) {
        const char *separator = separators[mode], *text = f.text;
        sweep_activity got;
        double layers[8];
        seen s = {0};
        stack_check(hearth_session_create(&session, exact, &wish, &error), &error);
        hearth_session_observe(session, &(hearth_observer){.see = see, .user = &s});
        for (int document = 0; separator && document < 3; document++) {
            const char *end = strstr(text, separator);
            assert_int_equal(end == NULL, document == 2);
            size_t size = end ? (size_t)(end - text) : strlen(text);
            while (size > 0 && (*text == ' ' || *text == '\n'))
                text++, size--;
            while (size > 0 && (text[size - 1] == ' ' || text[size - 1] == '\n'))
                size--;
            read_plainly(&f, session, text, size, 1);
            if (end)
                text = end + strlen(separator);
        }
        if (!separator)
            read_plainly(&f, session, text, 1000, SIZE_MAX);
        hearth_session_destroy(session);
        sweep_text as_sweep = {{f.text, separator ? f.size : 1000}, "text", separator, 0};
        stack_check(sweep_measure_activity(&got, layers, exact, &as_sweep, 0, 100, HEARTH_KV_F16, &quiet, &error),
                    &error);
        assert_true(s.rows > (separator ? 99 + 40 : 200));
        assert_int_equal(got.tokens, s.rows);
        for (size_t i = 0; i < info.layer_count; i++)
            assert_true(fabs(layers[i] - (double)s.active[i] / ((double)s.rows * info.neuron_count)) < 1e-12);
    }
    hearth_engine_destroy(exact);
    close_fixture(&f);
}

/* A figure of the reference's, by member and member of that. */
static json_t *reference(json_t **root, const char *member, const char *inner)
{
    const char *path = HEARTH_DATA "/golden/real/stories-relu/golden.json";
    assert_int_equal(json_parse_file(root, path, NULL), HEARTH_OK);
    json_t *found = json_object_get(json_object_get(*root, member), inner);
    assert_non_null(found);
    return found;
}

/* Layer by layer, on the 60 stories that the reference counted. They take a minute where memory is checked, and the
 * figures are the same there; what goes through memory, activity_is_what_observers_see shows as well. */
static void density_is_the_references(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    skip();
#endif
    fixture f;
    hearth_error error;
    json_t *root;
    sweep_activity all;
    double layers[6], mean = 0;
    hearth_progress quiet = {0};
    open_fixture(&f, MODEL, "", HELD);
    sweep_text stories = {{f.text, f.size}, "held", "<|endoftext|>", 60};
    hearth_engine *exact = open_setting(&f, SWEEP_EXACT, NAN);
    stack_check(sweep_measure_activity(&all, layers, exact, &stories, 0, 0, HEARTH_KV_F16, &quiet, &error), &error);
    json_t *want = reference(&root, "ffn_density", "per_layer");
    assert_int_equal(json_array_size(want), 6);
    for (size_t i = 0; i < 6; i++) {
        assert_true(fabs(layers[i] - json_number_value(json_array_get(want, i))) < 2e-4);
        mean += layers[i] / 6;
    }
    assert_true(fabs(mean - all.density) < 1e-9 && fabs(all.let_through - 1) < 1e-9);
    assert_int_equal(all.tokens, 21927);
    json_decref(root);
    hearth_engine_destroy(exact);
    close_fixture(&f);
}

/* Of two ways to compute it, through a sweep; and only the beginning of a text is counted where that is enough. */
static void perplexity_is_the_references(void **state)
{
    (void)state;
    fixture f;
    hearth_error error;
    json_t *root;
    open_fixture(&f, MODEL, "", TEXT);
    sweep_setting settings[] = {{SWEEP_DENSE, NAN}, {SWEEP_EXACT, NAN}};
    sweep_options o = {.task = SWEEP_PPL, .text = {{f.text, f.size}, "text", NULL, 0}, .activity_tokens = 100};
    sweep_result r;
    stack_check(sweep_run(&r, f.runtime, f.model, settings, 2, &o, &error), &error);
    double loss = json_number_value(reference(&root, "nll", "mean_nll"));
    for (size_t i = 0; i < 2; i++) {
        assert_true(fabs(log(r.rows[i].quality) / loss - 1) < 1e-3);
        assert_int_equal(r.rows[i].scored, 952);
        assert_true(isnan(r.rows[i].tokens_per_second) && isnan(r.rows[i].same_top));
        assert_int_equal(r.rows[i].activity.tokens, 511); /* to the end of a window of 512 */
    }
    assert_true(r.rows[0].activity.density == 1 && r.rows[1].activity.density < 0.2);
    assert_string_equal(r.rows[0].mode, "dense");
    assert_string_equal(r.rows[1].mode, "exact");
    json_decref(root);
    sweep_free(&r);
    close_fixture(&f);
}

/* Whoever keeps all neurons keeps everything: bit for bit what exact says. Hot and cold halves fire apart. */
static void keeping_all_is_exact(void **state)
{
    (void)state;
    fixture f;
    hearth_error error;
    open_tuned(&f, SMALL, TEXT);
    hearth_model_info info;
    hearth_model_describe(f.model, &info);
    const struct {
        sweep_kind kind;
        double value;
    } table[] = {{SWEEP_EXACT, NAN}, {SWEEP_HOT_ONLY, 1}, {SWEEP_COLD_ONLY, 1}, {SWEEP_HOT_ONLY, 0.5}};
    float *logits[4];
    for (size_t i = 0; i < 4; i++) {
        hearth_engine *engine = open_setting(&f, table[i].kind, table[i].value);
        hearth_session *session;
        hearth_row rows[20];
        logits[i] = malloc(20 * info.vocabulary_size * sizeof(float));
        for (size_t n = 0; n < 20; n++)
            rows[n] = (hearth_row){(int32_t)(1 + 23 * n % info.vocabulary_size), 0, true};
        hearth_session_options wish = {.output_rows = 20};
        stack_check(hearth_session_create(&session, engine, &wish, &error), &error);
        stack_check(hearth_session_feed(session, rows, 20, &error), &error);
        stack_check(hearth_session_logits(session, 0, 20, logits[i], &error), &error);
        hearth_session_destroy(session);
        hearth_engine_destroy(engine);
    }
    size_t bytes = 20 * info.vocabulary_size * sizeof(float);
    assert_memory_equal(logits[0], logits[1], bytes);
    assert_memory_equal(logits[0], logits[2], bytes);
    assert_memory_not_equal(logits[0], logits[3], bytes);
    for (size_t i = 0; i < 4; i++)
        free(logits[i]);
    close_fixture(&f);
}

/* ------------------------------------------------------------------ sweeps */

/* The more is pruned away, the fewer neurons and bytes; the dense model is its own measure. */
static void more_pruning_is_less_density(void **state)
{
    (void)state;
    fixture f;
    hearth_error error;
    sweep_setting settings[SWEEP_SETTINGS];
    size_t count;
    open_tuned(&f, SMALL, TEXT);
    stack_check(sweep_parse(settings, &count, "exact,pruned=0.25:0.85:0.1,dense,hot-only=0.2:0.8:0.2,hot-only=1",
                            f.model, &error),
                &error);
    assert_int_equal(count, 14);
    sweep_options o = {
        .task = SWEEP_KL, .text = {{f.text, f.size}, TEXT, NULL, 0}, .context = 64, .limit = 4, .activity_tokens = 300};
    sweep_result r;
    size_t files = own_folder_files();
    stack_check(sweep_run(&r, f.runtime, f.model, settings, count, &o, &error), &error);
    assert_int_equal(own_folder_files(), files); /* what dense said is gone */
    assert_int_equal(r.count, 14);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(r.rows[i].setting.kind, settings[i].kind);
        assert_int_equal(r.rows[i].scored, 4 * 31);
        assert_true(isnan(r.rows[i].tokens_per_second) && isnan(r.rows[i].relative_speed));
        assert_true(r.rows[i].activity.density > 0 && r.rows[i].activity.density <= 1);
    }
    for (size_t i = 2; i < 8; i++) { /* pruned */
        assert_true(r.rows[i].activity.density < r.rows[i - 1].activity.density);
        assert_true(r.rows[i].activity.weight_bytes < r.rows[i - 1].activity.weight_bytes);
        assert_string_equal(r.rows[i].guarantee, "lossy");
    }
    for (size_t i = 10; i < 14; i++) /* hot-only: more and more */
        assert_true(r.rows[i].activity.density > r.rows[i - 1].activity.density);
    const sweep_row *exact = &r.rows[0], *dense = &r.rows[8], *all = &r.rows[13];
    assert_true(fabs(dense->quality) < 1e-5 && dense->same_top > 0.99 && dense->activity.density == 1);
    assert_true(fabs(exact->quality) < 1e-4 && exact->activity.density < 1);
    assert_true(all->quality == exact->quality && all->activity.density == exact->activity.density);
    assert_true(r.rows[7].quality > exact->quality + 1e-4); /* 85 % pruned away costs something */
    sweep_free(&r);
    close_fixture(&f);
}

/* Every setting gets a speed, and dense is what the others are told against, wherever it stands: here twice, where a
 * list that was parsed would have it once. The memory's bandwidth is measured around each run, so few settings take
 * long enough. */
static void settings_take_turns(void **state)
{
    (void)state;
    fixture f;
    hearth_error error;
    open_tuned(&f, SMALL, TEXT);
    static const sweep_setting settings[] = {
        {SWEEP_EXACT, NAN}, {SWEEP_DENSE, NAN}, {SWEEP_PRUNED, 0.5}, {SWEEP_DENSE, NAN}};
    sweep_options o = {.task = SWEEP_PPL,
                       .text = {{f.text, 600}, TEXT, NULL, 0},
                       .context = 64,
                       .activity_tokens = 30,
                       .decode_tokens = 2,
                       .repeats = 2};
    sweep_result r;
    stack_check(sweep_run(&r, f.runtime, f.model, settings, 4, &o, &error), &error);
    assert_true(r.dense_speed > 0);
    for (size_t i = 0; i < 4; i++) {
        assert_true(r.rows[i].tokens_per_second > 0 && r.rows[i].relative_speed > 0);
        if (settings[i].kind == SWEEP_DENSE)
            assert_true(r.rows[i].relative_speed == 1 && r.rows[i].tokens_per_second == r.dense_speed);
        else
            assert_true(r.rows[i].relative_speed != 1 && r.rows[i].tokens_per_second != r.dense_speed);
    }
    assert_true(r.rows[0].tokens_per_second != r.rows[2].tokens_per_second);
    sweep_free(&r);
    close_fixture(&f);
}

/* Predicted once as the model's own tune file has it (it has no predictors: refused), once for each further file. */
static void further_tune_files_are_settings(void **state)
{
    (void)state;
    fixture f;
    hearth_error error;
    char name[SWEEP_NAME];
    open_tuned(&f, SMALL, TEXT);
    tune *t = make_tune(f.model, MADE_COUNTS | MADE_PREDICTORS, FORMAT_Q8_0, 32);
    stack_check(tune_write(further_file, t, f.model, &error), &error);
    tune_close(t);
    const char *files[] = {further_file, further_file};
    sweep_setting settings[] = {{SWEEP_EXACT, NAN}, {SWEEP_PREDICTED, NAN}};
    sweep_options o = {.task = SWEEP_PPL,
                       .text = {{f.text, 600}, TEXT, NULL, 0},
                       .activity_tokens = 100,
                       .tunes = files,
                       .tune_count = 2};
    sweep_result r;
    assert_int_equal(sweep_run(&r, f.runtime, f.model, settings, 2, &o, &error), HEARTH_UNSUPPORTED);
    stack_check(sweep_run(&r, f.runtime, f.model, settings, 1, &o, &error), &error);
    assert_int_equal(r.count, 3);
    assert_true(isnan(r.rows[0].recall) && !r.rows[0].tune);
    for (size_t i = 1; i < 3; i++) {
        sweep_row_name(name, &r.rows[i]);
        assert_string_equal(name, "predicted@0.99"); /* what tune_build.h writes for every layer */
        assert_ptr_equal(r.rows[i].tune, further_file);
        assert_string_equal(r.rows[i].mode, "predicted");
        assert_true(r.rows[i].activity.density < r.rows[0].activity.density); /* predictors of noise */
        assert_true(r.rows[i].activity.let_through < 1);
    }
    assert_true(r.rows[1].quality == r.rows[2].quality);
    sweep_free(&r);
    files[1] = TEXT;
    assert_int_equal(sweep_run(&r, f.runtime, f.model, settings, 1, &o, &error), HEARTH_FORMAT);
    close_fixture(&f);
}

/* Fails the n-th allocation or file operation; true: there were fewer. */
static bool survives(const fixture *f, const sweep_options *o, bool memory, long n)
{
    static const sweep_setting settings[] = {{SWEEP_DENSE, NAN}, {SWEEP_PRUNED, 0.5}, {SWEEP_HOT_ONLY, 0.5}};
    sweep_result r;
    size_t files = own_folder_files();
    long live = mem_live();
    if (memory)
        mem_fail_at(n);
    else
        file_fail_at(n);
    hearth_status status = sweep_run(&r, f->runtime, f->model, settings, 3, o, NULL);
    mem_fail_at(-1);
    file_fail_at(-1);
    assert_true(status == HEARTH_OK || status == (memory ? HEARTH_NO_MEMORY : HEARTH_IO));
    if (status == HEARTH_OK)
        sweep_free(&r);
    assert_int_equal(mem_live(), live);
    assert_int_equal(own_folder_files(), files);
    return status == HEARTH_OK;
}

/* Where memory is checked, what is tried costs tens of times as much: every so many-th fault will do. */
#ifdef __SANITIZE_ADDRESS__
#define FAULT_STRIDE 7
#else
#define FAULT_STRIDE 1
#endif

/* The status says so, and nothing stays. What is timed comes last, so it is only timed where that is what fails. */
static void faults_leave_nothing(void **state)
{
    (void)state;
    fixture f;
    long n = 0, file = 0;
    open_tuned(&f, SMALL, TEXT);
    sweep_options o = {.task = SWEEP_KL,
                       .text = {{f.text, 600}, TEXT, NULL, 0},
                       .context = 32,
                       .limit = 2,
                       .activity_tokens = 30,
                       .decode_tokens = 1};
    while (!survives(&f, &o, true, n))
        n += FAULT_STRIDE;
    assert_true(n > 50);
    o.repeats = 1;
    assert_false(survives(&f, &o, true, n)); /* one of the first of the timed part */
    while (!survives(&f, &o, true, n))
        n += FAULT_STRIDE;
    o.repeats = 0;
    while (!survives(&f, &o, false, file))
        file++;
    assert_true(file > 2);
    close_fixture(&f);
}

/* Where the work is to end, and how far it was. */
typedef struct stopper {
    int reports;
    uint64_t done;
} stopper;

static bool stop(void *user, const char *what, uint64_t done, uint64_t total)
{
    stopper *s = user;
    assert_true(done <= total || total == 0);
    if (strcmp(what, "sweep") == 0) {
        assert_true(done >= s->done); /* who shows the time left begins anew where it falls back */
        s->done = done;
    }
    return --s->reports > 0;
}

static void cancels(void **state)
{
    (void)state;
    fixture f;
    hearth_error error;
    open_tuned(&f, SMALL, TEXT);
    sweep_setting settings[] = {{SWEEP_EXACT, NAN}, {SWEEP_HOT_ONLY, 0.5}};
    static const sweep_task tasks[] = {SWEEP_PPL, SWEEP_KL};
    size_t files = own_folder_files();
    for (size_t task = 0; task < 2; task++) {
        hearth_status status = HEARTH_CANCELLED;
        int reports = 1;
        for (; status != HEARTH_OK; reports += 4) {
            stopper left = {reports, 0};
            sweep_options o = {.task = tasks[task],
                               .text = {{f.text, 300}, TEXT, NULL, 0},
                               .context = 32,
                               .activity_tokens = 30,
                               .progress = {stop, &left}};
            sweep_result r;
            status = sweep_run(&r, f.runtime, f.model, settings, 2, &o, &error);
            assert_int_equal(status, left.reports > 0 ? HEARTH_OK : HEARTH_CANCELLED);
            assert_int_equal(own_folder_files(), files);
            if (status == HEARTH_OK)
                sweep_free(&r);
        }
        assert_true(reports > 20);
    }
    close_fixture(&f);
}

static int set_up(void **state)
{
    if (own_folder_make(state) != 0)
        return -1;
    snprintf(tune_file, sizeof tune_file, "%s/made.tune", own_folder);
    snprintf(further_file, sizeof further_file, "%s/further.tune", own_folder);
    return 0;
}

static int tear_down(void **state)
{
    remove(tune_file);
    remove(further_file);
    return own_folder_remove(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_are_read),         cmocka_unit_test(activity_is_what_observers_see),
        cmocka_unit_test(density_is_the_references), cmocka_unit_test(perplexity_is_the_references),
        cmocka_unit_test(keeping_all_is_exact),      cmocka_unit_test(more_pruning_is_less_density),
        cmocka_unit_test(settings_take_turns),       cmocka_unit_test(further_tune_files_are_settings),
        cmocka_unit_test(faults_leave_nothing),      cmocka_unit_test(cancels),
    };
    return run_group(tests, set_up, tear_down);
}
