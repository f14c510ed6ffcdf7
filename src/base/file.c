/* file.c - maps and reads whole files. Writing is in file_writer.c. */
#include "file.h"

#include "memory.h"
#include "wakeup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_long fail_after = -1; /* calls before the one that fails; negative: none fails */

void file_fail_at(long n)
{
    atomic_store(&fail_after, n < 0 ? -1 : n);
}

/* Only the n-th call fails and later ones work again. If a caller ignores the error, the file then looks complete but
 * lacks data, which a test can detect. */
bool file_must_fail(int error_number)
{
    if (atomic_load(&fail_after) < 0 || atomic_fetch_sub(&fail_after, 1) != 0)
        return false;
    errno = error_number;
    return true;
}

/* Reports errno. EINTR (a signal that the program handles) becomes HEARTH_CANCELLED instead of a retry, so that the
 * program can react to the signal. */
static hearth_status fail_reading(hearth_error *error, const char *path, const char *what)
{
    if (errno == EINTR)
        return fail(error, HEARTH_CANCELLED, "%s: reading: interrupted", path);
    return fail_errno(error, path, what);
}

/* Opens a file, but no folder, for reading; *about gets its kind and size. */
static hearth_status open_for_reading(int *out, struct stat *about, const char *path, int flags, hearth_error *error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | flags);
    if (fd < 0)
        return fail_reading(error, path, "cannot open");
    hearth_status status = HEARTH_OK;
    if (fstat(fd, about) != 0)
        status = fail_errno(error, path, "cannot open");
    else if (S_ISDIR(about->st_mode))
        status = fail(error, HEARTH_IO, "%s: cannot read: is a folder", path);
    if (status != HEARTH_OK) {
        close(fd);
        return status;
    }
    *out = fd;
    return HEARTH_OK;
}

static hearth_status map_open_file(file_map *out, int fd, const struct stat *about, const char *path,
                                   hearth_error *error)
{
    if (!S_ISREG(about->st_mode))
        return fail(error, HEARTH_IO, "%s: cannot map: not a plain file", path);
    file_map map = {.size_bytes = (size_t)about->st_size};
    if (map.size_bytes > 0) {
        void *data = file_must_fail(EIO) ? MAP_FAILED : mmap(NULL, map.size_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED)
            return fail_errno(error, path, "cannot map");
        map.data = data;
    }
    *out = map;
    return HEARTH_OK;
}

hearth_status file_map_open(file_map *out, const char *path, hearth_error *error)
{
    int fd = -1;
    struct stat about;
    /* O_NONBLOCK: open() does not wait for the writer of a pipe; pipes are refused below. */
    TRY(open_for_reading(&fd, &about, path, O_NONBLOCK, error));
    hearth_status status = map_open_file(out, fd, &about, path, error);
    close(fd); /* the mapping stays */
    return status;
}

void file_map_close(file_map *map)
{
    if (map->data)
        munmap((void *)map->data, map->size_bytes);
    *map = (file_map){0};
}

/* Drops only pages that lie wholly in the range: the other bytes of a page may still be in use. */
void file_map_drop(const file_map *map, const void *from, size_t size_bytes)
{
    if (!map->data || size_bytes == 0)
        return;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = ((uintptr_t)from + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)from + size_bytes) / page * page;
    if (begin < end)
        (void)madvise((void *)begin, end - begin, MADV_DONTNEED); /* only advice: a failure does no harm */
}

/* Reads up to `room` bytes to data + *size and adds their number to *size; adds 0 at the end of the file. */
static hearth_status read_some(int fd, char *data, size_t *size, size_t room, const char *path, hearth_error *error)
{
    ssize_t got = file_must_fail(EIO) || !wakeup_wait(fd) ? -1 : read(fd, data + *size, room);
    if (got < 0)
        return fail_reading(error, path, "cannot read");
    *size += (size_t)got;
    return HEARTH_OK;
}

/* Reads to the end of the file. `expected` is only a hint for the first buffer: /proc reports files of size 0. */
static hearth_status read_all(char **out, size_t *out_size, int fd, size_t expected, size_t limit, const char *path,
                              hearth_error *error)
{
    size_t capacity = (expected < limit ? expected : limit) + 2; /* one byte to detect the end, one for the 0 */
    size_t size = 0;
    char *data = mem_new(capacity);
    hearth_status status = HEARTH_OK;
    while (data) {
        size_t before = size;
        TRY_OR(failed, status, read_some(fd, data, &size, capacity - 1 - size, path, error));
        if (size > limit) {
            status = fail(error, HEARTH_FORMAT, "%s: larger than the %zu bytes that are allowed here", path, limit);
            goto failed;
        }
        if (size == before) {
            data[size] = 0;
            *out = data;
            *out_size = size;
            return HEARTH_OK;
        }
        if (size == capacity - 1) {
            size_t wanted = capacity <= SIZE_MAX / 2 ? 2 * capacity : SIZE_MAX;
            char *larger = mem_resize(data, wanted);
            if (!larger)
                break;
            data = larger;
            capacity = wanted;
        }
    }
    status = fail_memory(error, path, capacity);
failed:
    mem_free(data);
    return status;
}

hearth_status file_read(char **data, size_t *size, const char *path, size_t limit, hearth_error *error)
{
    if (strcmp(path, "-") == 0)
        return read_all(data, size, STDIN_FILENO, 4096, limit, "standard input", error);
    int fd = -1;
    struct stat about;
    TRY(open_for_reading(&fd, &about, path, 0, error));
    size_t expected = S_ISREG(about.st_mode) ? (size_t)about.st_size : 4096;
    hearth_status status = read_all(data, size, fd, expected, limit, path, error);
    close(fd);
    return status;
}

bool file_exists(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0;
}

bool file_is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

bool file_is_same(const char *a, const char *b)
{
    struct stat one, other;
    return stat(a, &one) == 0 && stat(b, &other) == 0 && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

char *file_join(const char *folder, const char *name)
{
    size_t folder_size = strlen(folder);
    const char *slash = folder_size > 0 && folder[folder_size - 1] != '/' ? "/" : "";
    size_t capacity = folder_size + strlen(slash) + strlen(name) + 1;
    char *path = mem_new(capacity);
    if (path)
        snprintf(path, capacity, "%s%s%s", folder, slash, name);
    return path;
}
