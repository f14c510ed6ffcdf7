/* learn_corpus - texts and ids as windows; what is no text is refused by name. */
#include "../src/learn/corpus.h"

#include "learn_watch.h"

#define RELU HEARTH_DATA "/models/stories260K-relu"

static const char *write_text(const char *folder, const char *name, const char *data, size_t size)
{
    static char paths[4][96];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    fclose(f);
    return path;
}

static void check_windows(const corpus *c, uint32_t window)
{
    assert_int_equal(c->starts[0], 0);
    assert_int_equal(c->starts[c->window_count], c->id_count);
    for (size_t i = 0; i < c->window_count; i++) {
        assert_true(c->starts[i] < c->starts[i + 1] && c->starts[i + 1] - c->starts[i] <= window);
        assert_int_equal(c->ids[c->starts[i]], 1); /* BOS */
    }
}

/* Behind a BOS of its own each, the ids of a file are those of the tokenizer, and none is lost. */
static void files_are_cut_into_windows(void **state)
{
    (void)state;
    dense d = dense_open(RELU, 1);
    char *folder = scratch_folder();
    static char text[3000];
    for (size_t i = 0; i + 32 < sizeof text; i += strlen(text + i))
        snprintf(text + i, 32, "Once upon a time there was. ");
    const char *paths[] = {write_text(folder, "a", text, strlen(text)), write_text(folder, "b", "A cat.", 6)};
    int32_t *ids;
    size_t count;
    assert_int_equal(hearth_tokenize(d.model, text, strlen(text), 0, &ids, &count, NULL), HEARTH_OK);
    static const uint32_t windows[] = {2, 3, 50, 0};
    char digests[4][HASH_TEXT_SIZE];
    for (size_t i = 0; i < 4; i++) {
        corpus c;
        uint32_t window = windows[i] ? windows[i] : 512;
        assert_int_equal(corpus_read(&c, d.model, paths, 2, NULL, windows[i], NULL), HEARTH_OK);
        check_windows(&c, window);
        size_t first = (count + window - 2) / (window - 1); /* windows of the first file */
        assert_int_equal(c.starts[first], count + first);
        for (size_t n = 0; n < count; n++)
            assert_int_equal(c.ids[n + n / (window - 1) + 1], ids[n]);
        assert_int_equal(c.text_bytes, strlen(text) + 6);
        memcpy(digests[i], c.digest, sizeof c.digest);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(digests[i], digests[k]);
        corpus_free(&c);
    }
    hearth_free(ids);
    scratch_remove(folder);
    dense_close(&d);
}

/* Parts are texts of their own: the same windows as of files that hold one part each. */
static void separators_cut_texts(void **state)
{
    (void)state;
    dense d = dense_open(RELU, 1);
    char *folder = scratch_folder();
    static const char joined[] = "--\nA cat ran.\n--\n\n--\nThe dog sat down.\n--\nYes.\n";
    const char *one[] = {write_text(folder, "joined", joined, sizeof joined - 1)};
    const char *three[] = {write_text(folder, "a", "A cat ran.", 10), write_text(folder, "b", "The dog sat down.", 17),
                           write_text(folder, "c", "Yes.", 4)};
    corpus a, b;
    hearth_error error;
    assert_int_equal(corpus_read(&a, d.model, one, 1, "--", 6, NULL), HEARTH_OK);
    assert_int_equal(corpus_read(&b, d.model, three, 3, NULL, 6, NULL), HEARTH_OK);
    assert_string_equal(a.digest, b.digest);
    assert_int_equal(a.window_count, b.window_count);
    assert_memory_equal(a.starts, b.starts, (a.window_count + 1) * sizeof *a.starts);
    corpus_free(&a);
    corpus_free(&b);
    const char *empty[] = {write_text(folder, "d", "-- \n --", 7)};
    assert_int_equal(corpus_read(&a, d.model, empty, 1, "--", 6, &error), HEARTH_FORMAT);
    assert_non_null(strstr(error.text, "d: text: has no token"));
    assert_int_equal(corpus_read(&a, d.model, one, 1, "", 6, &error), HEARTH_INVALID);
    scratch_remove(folder);
    dense_close(&d);
}

static void what_is_no_text_is_refused(void **state)
{
    (void)state;
    dense d = dense_open(RELU, 1);
    char *folder = scratch_folder();
    static const struct {
        const char *data;
        size_t size;
        const char *text;
    } bad[] = {
        {"", 0, "bad: text: is empty"},
        {"a\0b", 3, "bad: text: is binary, byte 1 is zero"},
        {"caf\xe9 au lait", 12, "bad: text: is not UTF-8, byte 3"},
        {"half \xe2\x82", 7, "bad: text: is not UTF-8, byte 5"},
    };
    const char *good = write_text(folder, "good", "Yes.", 4);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        hearth_error error;
        corpus c;
        const char *paths[] = {good, write_text(folder, "bad", bad[i].data, bad[i].size)};
        assert_int_equal(corpus_read(&c, d.model, paths, 2, NULL, 0, &error), HEARTH_FORMAT);
        assert_non_null(strstr(error.text, bad[i].text));
        assert_null(c.ids);
    }
    hearth_error error;
    corpus c;
    assert_int_equal(corpus_read(&c, d.model, &(const char *){"/nonexistent/file"}, 1, NULL, 0, &error), HEARTH_IO);
    assert_int_equal(corpus_read(&c, d.model, NULL, 0, NULL, 0, &error), HEARTH_INVALID);
    assert_int_equal(corpus_read(&c, d.model, &good, 1, NULL, 1, &error), HEARTH_INVALID);
    int32_t ids[] = {3, 511, 512, 4};
    assert_int_equal(corpus_of_ids(&c, d.model, ids, 4, 0, &error), HEARTH_FORMAT);
    assert_non_null(strstr(error.text, "id 512 (number 2 of the corpus): is not one of the vocabulary's 512"));
    ids[2] = -1;
    assert_int_equal(corpus_of_ids(&c, d.model, ids, 4, 0, &error), HEARTH_FORMAT);
    assert_int_equal(corpus_of_ids(&c, d.model, ids, 0, 0, &error), HEARTH_FORMAT);
    assert_int_equal(corpus_of_ids(&c, d.model, ids, 2, 0, &error), HEARTH_OK);
    assert_int_equal(c.id_count, 2); /* no BOS */
    corpus_free(&c);
    scratch_remove(folder);
    dense_close(&d);
}

static void no_tokenizer(void **state)
{
    (void)state;
    dense d = dense_open(GOLDEN "/bamboo", 1);
    char *folder = scratch_folder();
    const char *path = write_text(folder, "good", "Yes.", 4);
    corpus c;
    assert_int_equal(corpus_read(&c, d.model, &path, 1, NULL, 0, NULL), HEARTH_UNSUPPORTED);
    scratch_remove(folder);
    dense_close(&d);
}

/* What the model writes is the same every time, and the same on any number of threads. */
static void written_by_the_model(void **state)
{
    (void)state;
    corpus c[2];
    for (unsigned i = 0; i < 2; i++) {
        dense d = dense_open(RELU, i + 1);
        assert_int_equal(corpus_written(&c[i], d.engine, 90, 40, &(hearth_progress){0}, NULL), HEARTH_OK);
        assert_int_equal(c[i].id_count, 90);
        check_windows(&c[i], 40);
        dense_close(&d);
    }
    assert_string_equal(c[0].digest, c[1].digest);
    for (size_t i = 0; i < 2; i++)
        corpus_free(&c[i]);
}

typedef struct listener {
    uint64_t calls, stop_at, last;
} listener;

static bool listen(void *user, const char *what, uint64_t done, uint64_t total)
{
    listener *l = user;
    assert_string_equal(what, "writing");
    assert_true(total == 60 && done < total && (l->calls == 0 || done > l->last));
    l->last = done;
    return ++l->calls != l->stop_at;
}

/* Each token is told of, so that a large model's writing can be watched and stopped. */
static void writing_is_told_and_can_be_stopped(void **state)
{
    (void)state;
    dense d = dense_open(RELU, 1);
    listener l = {0};
    corpus c;
    hearth_error error;
    assert_int_equal(corpus_written(&c, d.engine, 60, 0, &(hearth_progress){listen, &l}, NULL), HEARTH_OK);
    assert_true(l.calls == 60 && l.last == 59);
    corpus_free(&c);
    l = (listener){.stop_at = 7};
    assert_int_equal(corpus_written(&c, d.engine, 60, 0, &(hearth_progress){listen, &l}, &error), HEARTH_CANCELLED);
    assert_non_null(strstr(error.text, "writing a text: cancelled"));
    assert_true(l.calls == 7 && !c.ids);
    dense_close(&d);
}

static void allocations_may_fail(void **state)
{
    (void)state;
    dense d = dense_open(RELU, 1);
    char *folder = scratch_folder();
    const char *path = write_text(folder, "a", "Once upon a time there was a cat.", 33);
    for (int kind = 0; kind < 2; kind++) {
        long live = mem_live(), n = 0;
        hearth_status status;
        do {
            corpus c;
            mem_fail_at(n++);
            status = kind ? corpus_written(&c, d.engine, 5, 0, &(hearth_progress){0}, NULL)
                          : corpus_read(&c, d.model, &path, 1, NULL, 4, NULL);
            mem_fail_at(-1);
            assert_true(status == HEARTH_OK || status == HEARTH_NO_MEMORY);
            corpus_free(&c);
            assert_int_equal(mem_live(), live);
        } while (status != HEARTH_OK);
        assert_true(n > 3);
    }
    scratch_remove(folder);
    dense_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_cut_into_windows), cmocka_unit_test(separators_cut_texts),
        cmocka_unit_test(what_is_no_text_is_refused), cmocka_unit_test(no_tokenizer),
        cmocka_unit_test(written_by_the_model),       cmocka_unit_test(writing_is_told_and_can_be_stopped),
        cmocka_unit_test(allocations_may_fail),
    };
    return run_group(tests, NULL, NULL);
}
