/* pack_build.h - what the tests of neuron-major files and of predictors share: converting into a folder of their
 * own, and what the conversion said. */
#ifndef TESTS_PACK_BUILD_H
#define TESTS_PACK_BUILD_H

#include "model_build.h"

#include "file_build.h"

#include "../src/base/pool.h"
#include "../src/model/convert.h"

#define GOLDEN HEARTH_DATA "/golden/"
#define PWRI   GOLDEN "pwri/"

static pool *threads;
static char folder[256], out_path[300], more_path[300];

/* Neuron-major, otherwise as stored. */
#define PACK .format = FORMAT_COUNT, .neuron_major = true, .down_format = FORMAT_COUNT

/* The largest error that a step said, and how many matrices were transposed. */
typedef struct seen {
    double relative_error;
    size_t transposed, notes;
    char note[256];
} seen;

static inline void see_step(void *user, const convert_step *step)
{
    seen *s = user;
    s->transposed += step->transposed;
    if (step->relative_error > s->relative_error)
        s->relative_error = step->relative_error;
}

static inline void see_note(void *user, const char *text)
{
    seen *s = user;
    assert_non_null(text);
    s->notes++;
    snprintf(s->note, sizeof s->note, "%s", text);
}

static inline hearth_status convert(const char *from, const char *to, convert_options o, seen *s, hearth_error *error)
{
    memset(s, 0, sizeof *s);
    o.step = see_step;
    o.note = see_note;
    o.user = s;
    return convert_write(from, to, &o, threads, error);
}

static inline checkpoint *open_file(const char *path)
{
    checkpoint *c;
    hearth_error error;
    must(gguf_open(&c, path, &error), &error);
    return c;
}

static inline hearth_model *open_model(const char *path)
{
    hearth_model *m;
    hearth_error error;
    must(hearth_model_open(&m, path, NULL, &error), &error);
    return m;
}

/* Every allocation, read and write fails once: an error with a text, no file, no leak. */
static inline void fail_everywhere(const char *source, const convert_options *o)
{
    long live = mem_live();
    unlink(more_path);
    for (int memory = 0; memory < 2; memory++) {
        hearth_status status;
        long n = 0;
        do {
            seen s;
            hearth_error error = {0};
            unlink(out_path);
            (memory ? mem_fail_at : file_fail_at)(n++);
            status = convert(source, out_path, *o, &s, &error);
            mem_fail_at(-1);
            file_fail_at(-1);
            if (status != HEARTH_OK) {
                assert_int_equal(status, memory ? HEARTH_NO_MEMORY : HEARTH_IO);
                assert_true(error.text[0] != 0);
                assert_int_equal(count_files(folder), 0);
            }
            assert_int_equal(mem_live(), live);
            assert_true(n < 10000);
        } while (status != HEARTH_OK);
        assert_true(n > 3);
    }
}

static inline int set_up(void **state)
{
    (void)state;
    make_folder(folder, sizeof folder);
    snprintf(out_path, sizeof out_path, "%s/out.gguf", folder);
    snprintf(more_path, sizeof more_path, "%s/more.gguf", folder);
    return pool_create(&threads, 3, NULL) != HEARTH_OK;
}

static inline int tear_down(void **state)
{
    (void)state;
    pool_destroy(threads);
    remove_folder(folder);
    return 0;
}

#endif
