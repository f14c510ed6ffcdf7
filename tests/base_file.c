/* Files: mapping, reading, and writing that leaves the whole new file or the whole old one,
 * whatever fails on the way. */
#include "../src/base/file.h"
#include "../src/base/memory.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "skip.h"

static char folder[] = "/tmp/hearth base file XXXXXX"; /* with blanks, on purpose */
static char target[sizeof folder + 16];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(target, sizeof target, "%s/target", folder);
    return 0;
}

/* Names in the folder, hidden ones included; with `remove` they are removed. */
static size_t count_files(bool remove)
{
    size_t count = 0;
    DIR *listing = opendir(folder);
    for (struct dirent *entry; (entry = readdir(listing));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        count++;
        if (remove)
            unlinkat(dirfd(listing), entry->d_name, 0);
    }
    closedir(listing);
    return count;
}

static int remove_folder(void **state)
{
    (void)state;
    count_files(true);
    return rmdir(folder);
}

static int empty_folder(void **state)
{
    (void)state;
    file_fail_at(-1);
    mem_fail_at(-1);
    count_files(true);
    return 0;
}

static void assert_content(const char *path, const char *expected, size_t expected_size)
{
    char *data;
    size_t size;
    assert_int_equal(file_read(&data, &size, path, 1 << 24, NULL), HEARTH_OK);
    assert_int_equal(size, expected_size);
    assert_memory_equal(data, expected, expected_size);
    assert_int_equal(data[size], 0);
    mem_free(data);
}

static void write_plainly(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

/* A file of several buffers: small pieces, padding, and one piece larger than the buffer. */
enum { LARGE = 300000 };

static char large[LARGE];

static hearth_status write_sample(const char *path, hearth_error *error)
{
    file_writer *writer;
    TRY(file_writer_open(&writer, path, error));
    hearth_status status = HEARTH_OK;
    for (int i = 0; i < 1000 && status == HEARTH_OK; i++)
        status = file_writer_put(writer, "seven b", 7, error);
    if (status == HEARTH_OK)
        status = file_writer_pad(writer, 4096, error);
    if (status == HEARTH_OK)
        status = file_writer_put(writer, large, LARGE, error);
    if (status == HEARTH_OK)
        return file_writer_commit(writer, error);
    file_writer_discard(writer);
    return status;
}

static void assert_sample(const char *path)
{
    static char expected[8192 + LARGE];
    for (size_t i = 0; i < 7000; i++)
        expected[i] = "seven b"[i % 7];
    memcpy(expected + 8192, large, LARGE);
    assert_content(path, expected, sizeof expected);
}

static void maps_hold_the_file(void **state)
{
    (void)state;
    write_plainly(target, "mapped");
    file_map map;
    assert_int_equal(file_map_open(&map, target, NULL), HEARTH_OK);
    assert_int_equal(map.size_bytes, 6);
    assert_memory_equal(map.data, "mapped", 6);
    file_map_drop(&map, map.data, map.size_bytes);
    assert_memory_equal(map.data, "mapped", 6);
    file_map_close(&map);
    assert_null(map.data);
    file_map_close(&map);

    write_plainly(target, "");
    assert_int_equal(file_map_open(&map, target, NULL), HEARTH_OK);
    assert_null(map.data);
    assert_int_equal(map.size_bytes, 0);
    file_map_drop(&map, NULL, 0);
    file_map_close(&map);
}

/* Bytes of the process that are in memory, of this mapping. */
static size_t resident_pages(const file_map *map)
{
    FILE *smaps = fopen("/proc/self/smaps", "r");
    char line[256], begin[32];
    size_t kib = 0;
    bool inside = false;
    snprintf(begin, sizeof begin, "%lx-", (unsigned long)map->data);
    while (smaps && fgets(line, sizeof line, smaps)) {
        if (strncmp(line, begin, strlen(begin)) == 0)
            inside = true;
        if (inside && sscanf(line, "Rss: %zu kB", &kib) == 1)
            break;
    }
    if (smaps)
        fclose(smaps);
    return kib / 4;
}

static void dropped_pages_leave_memory_and_come_back(void **state)
{
    (void)state;
    assert_int_equal(write_sample(target, NULL), HEARTH_OK);
    file_map map;
    assert_int_equal(file_map_open(&map, target, NULL), HEARTH_OK);
    unsigned sum = 0;
    for (size_t i = 0; i < map.size_bytes; i++)
        sum += map.data[i];
    size_t before = resident_pages(&map);
    assert_true(before >= map.size_bytes / 4096);
    file_map_drop(&map, map.data + 1, map.size_bytes - 1); /* the first page is shared: it stays */
    assert_true(resident_pages(&map) <= 2);                /* and so does the last */
    unsigned again = 0;
    for (size_t i = 0; i < map.size_bytes; i++)
        again += map.data[i];
    assert_int_equal(again, sum);
    file_map_close(&map);
}

static void what_cannot_be_opened_is_named(void **state)
{
    (void)state;
    hearth_error error;
    file_map map;
    char *data;
    size_t size;
    assert_int_equal(file_map_open(&map, target, &error), HEARTH_IO);
    assert_non_null(strstr(error.text, "target: cannot open: No such file or directory"));
    assert_int_equal(file_map_open(&map, folder, &error), HEARTH_IO);
    assert_non_null(strstr(error.text, "is a folder"));
    assert_int_equal(file_map_open(&map, "/dev/null", &error), HEARTH_IO);
    assert_non_null(strstr(error.text, "not a plain file"));
    assert_int_equal(mkfifo(target, 0600), 0);
    assert_int_equal(file_map_open(&map, target, &error), HEARTH_IO); /* and does not wait */
    assert_int_equal(file_read(&data, &size, folder, 10, &error), HEARTH_IO);
    assert_non_null(strstr(error.text, "is a folder"));
}

static void reading_obeys_its_limit(void **state)
{
    (void)state;
    write_plainly(target, "0123456789");
    assert_content(target, "0123456789", 10);
    hearth_error error;
    char *data;
    size_t size;
    assert_int_equal(file_read(&data, &size, target, 10, &error), HEARTH_OK);
    mem_free(data);
    long before = mem_live();
    assert_int_equal(file_read(&data, &size, target, 9, &error), HEARTH_FORMAT);
    assert_non_null(strstr(error.text, "larger than the 9 bytes"));
    assert_int_equal(file_read(&data, &size, "/dev/zero", 100000, &error), HEARTH_FORMAT);
    assert_int_equal(mem_live(), before);
    /* A file whose size the system does not know beforehand. */
    assert_int_equal(file_read(&data, &size, "/proc/self/status", 1 << 20, &error), HEARTH_OK);
    assert_int_equal(strlen(data), size);
    assert_true(size > 100);
    mem_free(data);
}

static void reading_survives_every_failure(void **state)
{
    (void)state;
    long before = mem_live();
    hearth_status status = HEARTH_NO_MEMORY;
    char *data;
    size_t size;
    for (long n = 0; status != HEARTH_OK; n++) {
        mem_fail_at(n);
        status = file_read(&data, &size, "/proc/self/status", 1 << 20, NULL);
        mem_fail_at(-1);
        if (status != HEARTH_OK)
            assert_int_equal(status, HEARTH_NO_MEMORY);
        else
            mem_free(data);
        assert_int_equal(mem_live(), before);
    }
    hearth_error error;
    file_fail_at(0);
    assert_int_equal(file_read(&data, &size, "/proc/self/status", 1 << 20, &error), HEARTH_IO);
    assert_non_null(strstr(error.text, "Input/output error"));
    file_fail_at(0);
    file_map map;
    assert_int_equal(file_map_open(&map, "/proc/self/exe", NULL), HEARTH_IO);
    assert_int_equal(mem_live(), before);
}

static void a_committed_file_is_whole_and_obeys_the_umask(void **state)
{
    (void)state;
    mode_t before = umask(027);
    assert_int_equal(write_sample(target, NULL), HEARTH_OK);
    umask(before);
    assert_sample(target);
    assert_int_equal(count_files(false), 1);
    struct stat about;
    assert_int_equal(stat(target, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0640);
}

static void nothing_is_seen_before_the_commit(void **state)
{
    (void)state;
    write_plainly(target, "old");
    file_writer *writer;
    assert_int_equal(file_writer_open(&writer, target, NULL), HEARTH_OK);
    assert_int_equal(file_writer_put(writer, large, LARGE, NULL), HEARTH_OK);
    assert_int_equal(file_writer_position(writer), LARGE);
    assert_content(target, "old", 3);
    file_writer_discard(writer);
    assert_content(target, "old", 3);
    assert_int_equal(count_files(false), 1);
    file_writer_discard(NULL);
}

static void padding_reaches_the_next_multiple(void **state)
{
    (void)state;
    file_writer *writer;
    assert_int_equal(file_writer_open(&writer, target, NULL), HEARTH_OK);
    assert_int_equal(file_writer_pad(writer, 32, NULL), HEARTH_OK);
    assert_int_equal(file_writer_position(writer), 0);
    assert_int_equal(file_writer_put(writer, "a", 1, NULL), HEARTH_OK);
    assert_int_equal(file_writer_pad(writer, 4, NULL), HEARTH_OK);
    assert_int_equal(file_writer_pad(writer, 4, NULL), HEARTH_OK);
    assert_int_equal(file_writer_pad(writer, 0, NULL), HEARTH_OK);
    assert_int_equal(file_writer_put(writer, "b", 1, NULL), HEARTH_OK);
    assert_int_equal(file_writer_commit(writer, NULL), HEARTH_OK);
    assert_content(target, "a\0\0\0b", 5);
}

/* Every read, write, sync, link and rename fails once: an error each time, nothing left behind,
 * the old file as it was. */
static void check_every_io_failure(bool has_old)
{
    long before = mem_live();
    long n = 0;
    for (;; n++) {
        if (has_old)
            write_plainly(target, "old");
        hearth_error error = {0};
        file_fail_at(n);
        hearth_status status = write_sample(target, &error);
        file_fail_at(-1);
        assert_int_equal(mem_live(), before);
        if (status == HEARTH_OK)
            break;
        assert_int_equal(status, HEARTH_IO);
        assert_non_null(strstr(error.text, target));
        assert_int_equal(count_files(false), has_old);
        if (has_old)
            assert_content(target, "old", 3);
    }
    assert_sample(target);
    assert_true(n >= 4); /* two writes, sync, rename at the least */
}

static void io_failures_leave_no_new_file(void **state)
{
    (void)state;
    check_every_io_failure(false);
}

static void io_failures_leave_the_old_file(void **state)
{
    (void)state;
    check_every_io_failure(true);
}

static void allocation_failures_leave_the_old_file(void **state)
{
    (void)state;
    long before = mem_live();
    long n = 0;
    write_plainly(target, "old");
    for (;; n++) {
        mem_fail_at(n);
        hearth_status status = write_sample(target, NULL);
        mem_fail_at(-1);
        assert_int_equal(mem_live(), before);
        assert_int_equal(count_files(false), 1);
        if (status == HEARTH_OK)
            break;
        assert_int_equal(status, HEARTH_NO_MEMORY);
        assert_content(target, "old", 3);
    }
    assert_sample(target);
    assert_true(n >= 4);
}

static void a_write_after_a_failed_one_is_refused(void **state)
{
    (void)state;
    file_writer *writer;
    hearth_error error;
    assert_int_equal(file_writer_open(&writer, target, NULL), HEARTH_OK);
    file_fail_at(0);
    assert_int_equal(file_writer_put(writer, large, LARGE, &error), HEARTH_IO);
    assert_non_null(strstr(error.text, "No space left on device"));
    assert_int_equal(file_writer_put(writer, "x", 1, &error), HEARTH_IO);
    assert_int_equal(file_writer_commit(writer, &error), HEARTH_IO);
    assert_non_null(strstr(error.text, "earlier write failed"));
    assert_int_equal(count_files(false), 0);
}

static void a_full_device_says_so(void **state)
{
    (void)state;
    need("/dev/full");
    hearth_error error;
    file_writer *writer;
    assert_int_equal(file_writer_open(&writer, "/dev/full", &error), HEARTH_OK);
    assert_int_equal(file_writer_put(writer, "x", 1, &error), HEARTH_OK);
    assert_int_equal(file_writer_commit(writer, &error), HEARTH_IO);
    assert_string_equal(error.text, "/dev/full: cannot write: No space left on device");
}

static void pipes_are_written_directly(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    char path[64], got[8] = {0};
    snprintf(path, sizeof path, "/dev/fd/%d", ends[1]);
    file_writer *writer;
    assert_int_equal(file_writer_open(&writer, path, NULL), HEARTH_OK);
    assert_int_equal(file_writer_put(writer, "hello", 5, NULL), HEARTH_OK);
    assert_int_equal(file_writer_commit(writer, NULL), HEARTH_OK);
    close(ends[1]);
    assert_int_equal(read(ends[0], got, sizeof got), 5);
    assert_string_equal(got, "hello");
    assert_int_equal(read(ends[0], got, sizeof got), 0); /* nobody holds it open */
    close(ends[0]);
}

static void standard_output_goes_on_where_it_is(void **state)
{
    (void)state;
    static const char *const names[] = {"-", "/dev/stdout"};
    fflush(stdout);
    int keep = dup(STDOUT_FILENO);
    int file = open(target, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(file, STDOUT_FILENO);
    close(file);
    hearth_status status = HEARTH_OK;
    for (size_t i = 0; i < 2 && status == HEARTH_OK; i++) {
        file_writer *writer;
        status = file_writer_open(&writer, names[i], NULL);
        if (status == HEARTH_OK)
            status = file_writer_put(writer, "line\n", 5, NULL);
        if (status == HEARTH_OK)
            status = file_writer_commit(writer, NULL);
    }
    bool still_open = write(STDOUT_FILENO, "end", 3) == 3;
    dup2(keep, STDOUT_FILENO);
    close(keep);
    assert_int_equal(status, HEARTH_OK);
    assert_true(still_open);
    assert_content(target, "line\nline\nend", 13);
}

static void links_stay_links(void **state)
{
    (void)state;
    char link[sizeof target + 8];
    snprintf(link, sizeof link, "%s.link", target);
    write_plainly(target, "old");
    assert_int_equal(symlink("target", link), 0);
    assert_int_equal(write_sample(link, NULL), HEARTH_OK);
    struct stat about;
    assert_int_equal(lstat(link, &about), 0);
    assert_true(S_ISLNK(about.st_mode));
    assert_sample(target);
}

static void targets_that_cannot_be_are_refused_at_once(void **state)
{
    (void)state;
    static const struct {
        const char *suffix, *reason;
    } cases[] = {
        {"", "is a folder"},
        {"/no/such/file", "No such file or directory"},
        {"/missing/", "no file name"},
    };
    long before = mem_live();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[sizeof folder + 32];
        snprintf(path, sizeof path, "%s%s", folder, cases[i].suffix);
        hearth_error error;
        file_writer *writer;
        assert_int_equal(file_writer_open(&writer, path, &error), HEARTH_IO);
        assert_non_null(strstr(error.text, cases[i].reason));
    }
    assert_int_equal(mem_live(), before);
}

/* A name as long as the file system allows still has room for its hidden form. */
static void the_longest_name_can_be_written(void **state)
{
    (void)state;
    char path[sizeof folder + 256];
    size_t size = (size_t)snprintf(path, sizeof path, "%s/", folder);
    memset(path + size, 'n', 255);
    path[size + 255] = 0;
    assert_int_equal(write_sample(path, NULL), HEARTH_OK);
    assert_sample(path);
}

static void on_alarm(int number)
{
    (void)number;
}

/* Whoever waits for a pipe hears of a signal, rather than waiting on. */
static void waiting_can_be_interrupted(void **state)
{
    (void)state;
    struct sigaction handled = {.sa_handler = on_alarm}, before;
    /* Again and again, should the first come too early. */
    struct itimerval every = {.it_value = {.tv_usec = 50000}, .it_interval = {.tv_usec = 50000}};
    char *data = NULL;
    size_t size;
    hearth_error error;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    char path[32];
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    assert_int_equal(sigaction(SIGALRM, &handled, &before), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &every, NULL), 0);
    hearth_status status = file_read(&data, &size, path, 100, &error);
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    sigaction(SIGALRM, &before, NULL);
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(status, HEARTH_CANCELLED);
    assert_null(data);
    char expected[64];
    snprintf(expected, sizeof expected, "%s: reading: interrupted", path);
    assert_string_equal(error.text, expected);
}

static void paths_are_joined(void **state)
{
    (void)state;
    static const char *const cases[][3] = {{"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"", "b", "b"}, {"/", "b", "/b"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *path = file_join(cases[i][0], cases[i][1]);
        assert_string_equal(path, cases[i][2]);
        mem_free(path);
    }
    assert_true(file_is_folder(folder));
    assert_true(file_exists(folder));
    assert_false(file_exists(target));
    assert_false(file_is_folder("/dev/null"));
}

int main(void)
{
    for (size_t i = 0; i < LARGE; i++)
        large[i] = (char)(i * i >> 3);
#define TEST(function) cmocka_unit_test_setup(function, empty_folder)
    const struct CMUnitTest tests[] = {
        TEST(maps_hold_the_file),
        TEST(dropped_pages_leave_memory_and_come_back),
        TEST(what_cannot_be_opened_is_named),
        TEST(reading_obeys_its_limit),
        TEST(reading_survives_every_failure),
        TEST(a_committed_file_is_whole_and_obeys_the_umask),
        TEST(nothing_is_seen_before_the_commit),
        TEST(padding_reaches_the_next_multiple),
        TEST(io_failures_leave_no_new_file),
        TEST(io_failures_leave_the_old_file),
        TEST(allocation_failures_leave_the_old_file),
        TEST(a_write_after_a_failed_one_is_refused),
        TEST(a_full_device_says_so),
        TEST(pipes_are_written_directly),
        TEST(standard_output_goes_on_where_it_is),
        TEST(links_stay_links),
        TEST(targets_that_cannot_be_are_refused_at_once),
        TEST(the_longest_name_can_be_written),
        TEST(waiting_can_be_interrupted),
        TEST(paths_are_joined),
    };
    return run_group(tests, make_folder, remove_folder);
}
