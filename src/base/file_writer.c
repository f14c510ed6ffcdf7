/* file_writer.c - writes a file that appears complete or not at all.
 *
 * While it is written the file has no name (O_TMPFILE), or a hidden name in the target's folder
 * where the file system does not support that. The commit syncs the content, gives the file a
 * hidden name if it has none, and renames it over the target, which is atomic. What is not a plain
 * file (a pipe, /dev/full, standard output) cannot be replaced and is written directly.
 *
 * Temporary names are made here, not by mkstemp: open with mode 0666 applies the umask, mkstemp
 * does not, and reading the umask means changing it for all threads. */
#include "file.h"

#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BUFFER_BYTES = 1 << 18, /* large enough to make the cost of write() negligible, small compared to any model */
    MODE = 0666             /* before the umask */
};

struct file_writer {
    int fd;
    bool direct;     /* not a plain file: written directly, no temporary name, no sync */
    bool failed;     /* a write failed: more writes would leave a gap                  */
    char *path;      /* as the caller wrote it, for messages                           */
    char *target;    /* the path with links resolved; NULL when direct                 */
    char *temporary; /* the hidden name in the target's folder; NULL while there is none */
    uint64_t position;
    size_t used;     /* bytes in the buffer */
    uint8_t *buffer; /* [BUFFER_BYTES] */
};

/* ------------------------------------------------------------------- names */

/* Returns the index of the last part of a path. */
static size_t name_offset(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

/* Returns the folder of a path with its slash, "." if the path has none; NULL: no memory. */
static char *folder_of(const char *path)
{
    size_t size = name_offset(path);
    return size > 0 ? mem_copy_text(path, size) : mem_copy_text(".", 1);
}

/* Returns a new hidden name "FOLDER/.NAME.XXXXXX"; NULL: no memory. NAME is cut to 200 bytes, so that
 * the result fits the usual limit of 255. */
static char *hidden_name(const char *target)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz012345";
    uint8_t noise[6] = {0};
    if (getrandom(noise, sizeof noise, GRND_NONBLOCK) < 0)
        memcpy(noise, &(int){getpid()}, sizeof(int));
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)letters[noise[i] % 32];
    size_t folder_size = name_offset(target);
    size_t capacity = strlen(target) + sizeof "..XXXXXX";
    char *name = mem_new(capacity);
    if (name)
        snprintf(name, capacity, "%.*s.%.200s.%.6s", (int)folder_size, target, target + folder_size,
                 (const char *)noise);
    return name;
}

/* Calls `create` with hidden names until one is free. On failure errno is that of `create`, or ENOMEM. */
static bool take_hidden_name(file_writer *writer, bool (*create)(file_writer *writer, const char *name))
{
    enum { ATTEMPTS = 100 }; /* there are a billion names, so this many collisions are no accident */
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        char *name = hidden_name(writer->target);
        if (!name) {
            errno = ENOMEM;
            return false;
        }
        if (create(writer, name)) {
            writer->temporary = name;
            return true;
        }
        mem_free(name);
        if (errno != EEXIST)
            return false;
    }
    return false;
}

static bool create_named(file_writer *writer, const char *name)
{
    writer->fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, MODE);
    return writer->fd >= 0;
}

/* Gives a name to the unnamed file, through /proc because AT_EMPTY_PATH needs root. */
static bool link_unnamed(file_writer *writer, const char *name)
{
    char self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", writer->fd);
    return !file_must_fail(EIO) && linkat(AT_FDCWD, self, AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0;
}

/* Reports from errno why the file could not get a name. */
static hearth_status fail_name(const file_writer *writer, const char *what, hearth_error *error)
{
    if (errno == ENOMEM)
        return fail_memory(error, writer->path, strlen(writer->target) + sizeof "..XXXXXX");
    return fail_errno(error, writer->path, what);
}

/* ----------------------------------------------------------------- opening */

/* Opens a new plain file without a name, or under a hidden one. */
static hearth_status open_temporary(file_writer *writer, hearth_error *error)
{
    char *folder = folder_of(writer->target);
    if (!folder)
        return fail_memory(error, writer->path, strlen(writer->target));
    if (access("/proc/self/fd", X_OK) == 0)
        writer->fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, MODE);
    mem_free(folder);
    if (writer->fd < 0 && !take_hidden_name(writer, create_named))
        return fail_name(writer, "cannot create", error);
    return HEARTH_OK;
}

/* Follows symbolic links to the file itself, so that the commit replaces the file and not the link. */
static hearth_status resolve_target(file_writer *writer, bool exists, hearth_error *error)
{
    char *resolved = exists ? realpath(writer->path, NULL) : NULL; /* malloc's */
    const char *target = resolved ? resolved : writer->path;
    writer->target = mem_copy_text(target, strlen(target));
    free(resolved);
    if (!writer->target)
        return fail_memory(error, writer->path, strlen(writer->path) + 1);
    if (exists && access(writer->target, W_OK) != 0)
        return fail_errno(error, writer->path, "cannot replace");
    return HEARTH_OK;
}

/* Standard output may be a plain file; it must then be appended to, not replaced. */
static bool is_standard_output(const char *path)
{
    return strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0;
}

/* Opens standard output and special files directly, plain files under a temporary name. */
static hearth_status open_by_kind(file_writer *writer, hearth_error *error)
{
    struct stat about;
    const char *path = writer->path;
    bool exists = stat(path, &about) == 0;
    if (is_standard_output(path)) {
        writer->direct = true;
        writer->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    } else if (exists && S_ISDIR(about.st_mode)) {
        return fail(error, HEARTH_IO, "%s: cannot write: is a folder", path);
    } else if (exists && !S_ISREG(about.st_mode)) {
        writer->direct = true;
        writer->fd = open(path, O_WRONLY | O_CLOEXEC);
    } else if (path[name_offset(path)] == 0) {
        return fail(error, HEARTH_IO, "%s: cannot write: no file name", path);
    } else {
        TRY(resolve_target(writer, exists, error));
        TRY(open_temporary(writer, error));
    }
    return writer->fd >= 0 ? HEARTH_OK : fail_errno(error, path, "cannot open for writing");
}

hearth_status file_writer_open(file_writer **out, const char *path, hearth_error *error)
{
    file_writer *writer = mem_new(sizeof *writer);
    if (!writer)
        return fail_memory(error, path, sizeof *writer);
    writer->fd = -1;
    writer->buffer = mem_new(BUFFER_BYTES);
    writer->path = mem_copy_text(path, strlen(path));
    hearth_status status =
        writer->buffer && writer->path ? open_by_kind(writer, error) : fail_memory(error, path, BUFFER_BYTES);
    if (status != HEARTH_OK) {
        file_writer_discard(writer);
        return status;
    }
    *out = writer;
    return HEARTH_OK;
}

/* ----------------------------------------------------------------- writing */

static hearth_status write_out(file_writer *writer, const uint8_t *data, size_t size, hearth_error *error)
{
    const size_t most = (size_t)1 << 30; /* Linux writes at most 2 GiB in one call */
    while (size > 0) {
        ssize_t written = file_must_fail(ENOSPC) ? -1 : write(writer->fd, data, size < most ? size : most);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0) {
            writer->failed = true;
            return fail_errno(error, writer->path, "cannot write");
        }
        data += written;
        size -= (size_t)written;
    }
    return HEARTH_OK;
}

static hearth_status flush(file_writer *writer, hearth_error *error)
{
    TRY(write_out(writer, writer->buffer, writer->used, error));
    writer->used = 0;
    return HEARTH_OK;
}

hearth_status file_writer_put(file_writer *writer, const void *data, size_t size_bytes, hearth_error *error)
{
    if (writer->failed)
        return fail(error, HEARTH_IO, "%s: cannot write: an earlier write failed", writer->path);
    if (size_bytes > BUFFER_BYTES - writer->used)
        TRY(flush(writer, error));
    if (size_bytes >= BUFFER_BYTES) {
        TRY(write_out(writer, data, size_bytes, error));
    } else if (size_bytes > 0) {
        memcpy(writer->buffer + writer->used, data, size_bytes);
        writer->used += size_bytes;
    }
    writer->position += size_bytes;
    return HEARTH_OK;
}

hearth_status file_writer_pad(file_writer *writer, size_t alignment, hearth_error *error)
{
    static const uint8_t zeros[4096];
    size_t excess = alignment > 0 ? (size_t)(writer->position % alignment) : 0;
    size_t left = excess > 0 ? alignment - excess : 0;
    while (left > 0) {
        size_t piece = left < sizeof zeros ? left : sizeof zeros;
        TRY(file_writer_put(writer, zeros, piece, error));
        left -= piece;
    }
    return HEARTH_OK;
}

uint64_t file_writer_position(const file_writer *writer)
{
    return writer->position;
}

/* ------------------------------------------------------------------ ending */

void file_sync_folder(const char *path)
{
    char *folder = folder_of(path);
    int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    mem_free(folder);
    if (fd < 0)
        return;
    (void)fsync(fd);
    close(fd);
}

/* Syncs the content before naming the file, so that no named file ever lacks content. */
static hearth_status put_in_place(file_writer *writer, hearth_error *error)
{
    if (file_must_fail(EIO) || fsync(writer->fd) != 0)
        return fail_errno(error, writer->path, "cannot sync");
    if (!writer->temporary && !take_hidden_name(writer, link_unnamed))
        return fail_name(writer, "cannot name the new file", error);
    if (file_must_fail(EIO) || rename(writer->temporary, writer->target) != 0)
        return fail_errno(error, writer->path, "cannot rename the new file");
    mem_free(writer->temporary);
    writer->temporary = NULL; /* nothing left to remove */
    file_sync_folder(writer->target);
    return HEARTH_OK;
}

/* Closes a file that is written directly. Some kinds of files report errors only here. */
static hearth_status close_direct(file_writer *writer, hearth_error *error)
{
    int closed = close(writer->fd);
    writer->fd = -1;
    return closed == 0 ? HEARTH_OK : fail_errno(error, writer->path, "cannot write");
}

hearth_status file_writer_commit(file_writer *writer, hearth_error *error)
{
    hearth_status status;
    TRY_OR(done, status, file_writer_put(writer, NULL, 0, error)); /* fails if an earlier put failed */
    TRY_OR(done, status, flush(writer, error));
    TRY_OR(done, status, writer->direct ? close_direct(writer, error) : put_in_place(writer, error));
done:
    file_writer_discard(writer);
    return status;
}

void file_writer_discard(file_writer *writer)
{
    if (!writer)
        return;
    if (writer->fd >= 0)
        close(writer->fd);
    if (writer->temporary)
        unlink(writer->temporary);
    mem_free(writer->temporary);
    mem_free(writer->target);
    mem_free(writer->path);
    mem_free(writer->buffer);
    mem_free(writer);
}

hearth_status file_write(const char *path, const void *data, size_t size_bytes, hearth_error *error)
{
    file_writer *writer;
    TRY(file_writer_open(&writer, path, error));
    hearth_status status = file_writer_put(writer, data, size_bytes, error);
    if (status == HEARTH_OK)
        return file_writer_commit(writer, error);
    file_writer_discard(writer);
    return status;
}
