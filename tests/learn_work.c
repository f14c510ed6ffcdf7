/* Records of a work folder: what was put comes back under its key and no other, nothing damaged is believed, and a
 * folder of something else is emptied. */
#include "../src/base/file.h"
#include "../src/base/memory.h"
#include "../src/learn/work.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "skip.h"

static char folder[] = "/tmp/hearth-records.XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return records_end(folder, NULL) == HEARTH_OK ? rmdir(folder) : -1;
}

static void what_was_put_comes_back(void **state)
{
    (void)state;
    const double data[3] = {1, -2, 0.5};
    double got[3] = {0};
    assert_int_equal(record_put(folder, "3.start", "recall 0.99", data, sizeof data, NULL), HEARTH_OK);
    assert_true(record_get(folder, "3.start", "recall 0.99", got, sizeof got));
    assert_memory_equal(got, data, sizeof data);
    assert_false(record_get(folder, "3.start", "recall 0.98", got, sizeof got));
    assert_false(record_get(folder, "3.start", "recall 0.9", got, sizeof got));
    assert_false(record_get(folder, "3.start", "recall 0.99", got, sizeof got - 1));
    assert_false(record_get(folder, "4.start", "recall 0.99", got, sizeof got));
    assert_int_equal(record_put(folder, "3.start", "recall 0.98", NULL, 0, NULL), HEARTH_OK);
    assert_true(record_get(folder, "3.start", "recall 0.98", NULL, 0));
    assert_false(record_get(folder, "3.start", "recall 0.99", got, sizeof got));
}

/* Every byte of the file, changed or cut off, one at a time. */
static void damage_is_seen(void **state)
{
    (void)state;
    static const char data[] = "what was found out";
    char got[sizeof data], path[128];
    snprintf(path, sizeof path, "%s/damaged", folder);
    assert_int_equal(record_put(folder, "damaged", "key", data, sizeof data, NULL), HEARTH_OK);
    FILE *f = fopen(path, "r+b");
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    for (long i = 0; i < size; i++) {
        fseek(f, i, SEEK_SET);
        int byte = fgetc(f);
        fseek(f, i, SEEK_SET);
        fputc(byte ^ 4, f);
        fflush(f);
        assert_false(record_get(folder, "damaged", "key", got, sizeof got));
        fseek(f, i, SEEK_SET);
        fputc(byte, f);
        fflush(f);
    }
    assert_true(record_get(folder, "damaged", "key", got, sizeof got));
    for (long i = size - 1; i >= 0; i--) {
        assert_int_equal(ftruncate(fileno(f), i), 0);
        assert_false(record_get(folder, "damaged", "key", got, sizeof got));
    }
    fclose(f);
}

static void another_key_empties_the_folder(void **state)
{
    (void)state;
    bool anew;
    assert_int_equal(records_begin(folder, "model a", &anew, NULL), HEARTH_OK);
    assert_false(anew); /* what lies there is of nobody yet */
    assert_int_equal(record_put(folder, "kept", "k", "x", 1, NULL), HEARTH_OK);
    assert_int_equal(records_begin(folder, "model a", &anew, NULL), HEARTH_OK);
    assert_false(anew);
    assert_true(record_get(folder, "kept", "k", (char[1]){0}, 1));
    assert_int_equal(records_begin(folder, "model b", &anew, NULL), HEARTH_OK);
    assert_true(anew);
    assert_false(record_get(folder, "kept", "k", (char[1]){0}, 1));
    assert_int_equal(records_begin(folder, "model b", &anew, NULL), HEARTH_OK);
    assert_false(anew);
}

/* Whatever fails: an error, and the record is the old one or the new one. */
static void faults_leave_old_or_new(void **state)
{
    (void)state;
    char got[4];
    long live = mem_live();
    for (int kind = 0; kind < 2; kind++) {
        hearth_status status = HEARTH_IO;
        for (long n = 0; status != HEARTH_OK; n++) {
            hearth_error error = {0};
            assert_true(n < 1000);
            assert_int_equal(record_put(folder, "fault", "key", "old", 4, NULL), HEARTH_OK);
            if (kind == 0)
                mem_fail_at(n);
            else
                file_fail_at(n);
            status = record_put(folder, "fault", "key", "new", 4, &error);
            mem_fail_at(-1);
            file_fail_at(-1);
            assert_int_equal(status == HEARTH_OK, error.text[0] == 0);
            assert_true(record_get(folder, "fault", "key", got, 4));
            assert_true(status == HEARTH_OK ? strcmp(got, "new") == 0 : strcmp(got, "old") == 0);
            assert_int_equal(mem_live(), live);
        }
    }
    mem_fail_at(0);
    assert_false(record_get(folder, "fault", "key", got, 4));
    mem_fail_at(-1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_put_comes_back),
        cmocka_unit_test(damage_is_seen),
        cmocka_unit_test(another_key_empties_the_folder),
        cmocka_unit_test(faults_leave_old_or_new),
    };
    return run_group(tests, make_folder, remove_folder);
}
