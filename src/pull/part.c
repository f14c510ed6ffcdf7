/* part.c - FILE.part and FILE.part.json. */
#include "part.h"

#include "../base/file.h"
#include "../base/json.h"
#include "../base/memory.h"
#include "http_values.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* What is read and hashed at once. */
#define CHUNK_BYTES ((size_t)1 << 20)

/* The sidecar's kind and version (json_recall). */
#define SIDECAR         "hearth_pull"
#define SIDECAR_VERSION 1

struct part {
    const part_options *options;
    int fd;
    char *path, *sidecar; /* FILE.part, FILE.part.json */
    char *validator;      /* NULL: unknown             */
    uint64_t size, total; /* bytes that are there, and of the whole */
    hasher *hasher;
    bool is_locked; /* by this process: an empty one may be removed */
    bool is_gone;   /* renamed or removed */
};

/* ------------------------------------------------------------------ hashing what is there */

static hearth_status fail_cancelled(const char *path, hearth_error *error)
{
    return fail(error, HEARTH_CANCELLED, "%s: interrupted", path);
}

/* Adds all bytes of a file, from the first on; its position is behind them then. */
static hearth_status hash_all(hasher *h, int fd, uint64_t size, const char *path, hearth_progress progress,
                              const char *checking, hearth_error *error)
{
    hearth_status status = HEARTH_OK;
    uint8_t *chunk = mem_new(CHUNK_BYTES);
    if (!chunk)
        return fail_memory(error, path, CHUNK_BYTES);
    if (lseek(fd, 0, SEEK_SET) < 0)
        status = fail_errno(error, path, "cannot read");
    for (uint64_t done = 0; status == HEARTH_OK && done < size;) {
        size_t wanted = size - done < CHUNK_BYTES ? (size_t)(size - done) : CHUNK_BYTES;
        ssize_t got = file_must_fail(EIO) ? -1 : read(fd, chunk, wanted);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            status = got < 0 ? fail_errno(error, path, "cannot read")
                             : fail(error, HEARTH_IO, "%s: was cut short while it was read", path);
            break;
        }
        done += (uint64_t)got;
        status = hasher_add(h, chunk, (size_t)got, error);
        if (status == HEARTH_OK && progress.report && !progress.report(progress.user, checking, done, size))
            status = fail_cancelled(path, error);
    }
    mem_free(chunk);
    return status;
}

hearth_status part_hash_file(const char *path, digest_kind kind, hearth_progress progress, const char *checking,
                             digest *out, hearth_error *error)
{
    struct stat about;
    hasher *h = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail_errno(error, path, "cannot open");
    hearth_status status = fstat(fd, &about) == 0 ? HEARTH_OK : fail_errno(error, path, "cannot open");
    if (status == HEARTH_OK)
        status = hasher_create(&h, kind, (uint64_t)about.st_size, error);
    if (status == HEARTH_OK)
        status = hash_all(h, fd, (uint64_t)about.st_size, path, progress, checking, error);
    if (status == HEARTH_OK)
        status = hasher_end(h, out, error);
    hasher_destroy(h);
    close(fd);
    return status;
}

/* ------------------------------------------------------------------ the sidecar */

void part_remember(part *p, const char *validator, uint64_t total)
{
    mem_free(p->validator);
    p->validator = validator ? mem_copy_text(validator, strlen(validator)) : NULL;
    p->total = total;
    json_t *members =
        json_pack("{s:s, s:s, s:I}", "validator", p->validator ? p->validator : "", "digest", p->options->digest.hex,
                  "size", total <= INT64_MAX ? (json_int_t)total : (json_int_t)-1);
    json_remember(p->sidecar, SIDECAR, SIDECAR_VERSION, p->options->url, members);
    json_decref(members);
}

/* Reads the sidecar. Returns whether these bytes can be gone on with: a validator lets the server say whether they still
 * belong to its content, or else the digest will tell. */
static bool recall(part *p)
{
    const digest *wanted = &p->options->digest;
    json_t *root = json_recall(p->sidecar, SIDECAR, SIDECAR_VERSION, p->options->url);
    const char *validator = json_string_value(json_object_get(root, "validator"));
    const char *hex = json_string_value(json_object_get(root, "digest"));
    bool usable = validator && hex && !strpbrk(validator, "\r\n") && strcmp(hex, wanted->hex) == 0 &&
                  (*validator || digest_is_known(wanted));
    if (usable && *validator) {
        p->validator = mem_copy_text(validator, strlen(validator));
        usable = p->validator != NULL;
    }
    json_int_t total = json_integer_value(json_object_get(root, "size"));
    if (usable && total > 0 && p->total == SIZE_UNKNOWN)
        p->total = (uint64_t)total;
    usable = usable && p->size <= p->total;
    json_decref(root);
    return usable;
}

/* ------------------------------------------------------------------ opening */

static char *join(const char *a, const char *b)
{
    buffer text = {0};
    if (buffer_put(&text, a, strlen(a)) && buffer_put(&text, b, strlen(b) + 1))
        return text.data; /* of mem_resize: for mem_free */
    buffer_free(&text);
    return NULL;
}

static hearth_status open_file(part *p, hearth_error *error)
{
    struct stat about, named;
    p->fd = open(p->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (p->fd < 0 || fstat(p->fd, &about) != 0)
        return fail_errno(error, p->path, "cannot open for writing");
    if (!S_ISREG(about.st_mode))
        return fail(error, HEARTH_IO, "%s: cannot write: not a plain file", p->path);
    if (flock(p->fd, LOCK_EX | LOCK_NB) != 0)
        return errno == EWOULDBLOCK ? fail(error, HEARTH_IO, "%s: another process is writing it", p->path)
                                    : fail_errno(error, p->path, "cannot lock");
    /* Another process may have completed it between the two: what was opened is the finished file then. */
    if (fstat(p->fd, &about) != 0 || lstat(p->path, &named) != 0 || about.st_ino != named.st_ino ||
        about.st_dev != named.st_dev)
        return fail(error, HEARTH_IO, "%s: another process was writing it, and has ended: try again", p->path);
    p->is_locked = true;
    p->size = (uint64_t)about.st_size;
    return HEARTH_OK;
}

/* Goes on with what is there, or begins anew. */
static hearth_status begin(part *p, hearth_error *error)
{
    const part_options *o = p->options;
    TRY(hasher_create(&p->hasher, o->digest.kind, o->size, error));
    if (p->size == 0)
        return HEARTH_OK;
    if (!recall(p))
        return part_restart(p, error);
    return hash_all(p->hasher, p->fd, p->size, p->path, o->progress, o->checking, error);
}

hearth_status part_open(part **out, const part_options *o, hearth_error *error)
{
    part *p = mem_new(sizeof *p);
    if (!p)
        return fail_memory(error, o->target, sizeof *p);
    *p = (part){.options = o,
                .fd = -1,
                .path = join(o->target, ".part"),
                .sidecar = join(o->target, ".part.json"),
                .total = o->size};
    hearth_status status =
        p->path && p->sidecar ? open_file(p, error) : fail_memory(error, o->target, strlen(o->target));
    if (status == HEARTH_OK)
        status = begin(p, error);
    if (status != HEARTH_OK) {
        part_close(p);
        return status;
    }
    *out = p;
    return HEARTH_OK;
}

void part_close(part *p)
{
    if (!p)
        return;
    if (p->is_locked && !part_is_useful(p))
        part_remove(p);
    if (p->fd >= 0)
        close(p->fd);
    hasher_destroy(p->hasher);
    mem_free(p->path);
    mem_free(p->sidecar);
    mem_free(p->validator);
    mem_free(p);
}

/* ------------------------------------------------------------------ bytes */

bool part_is_useful(const part *p)
{
    return !p->is_gone && p->size > 0 && (p->validator || digest_is_known(&p->options->digest));
}

uint64_t part_size(const part *p)
{
    return p->size;
}

uint64_t part_total(const part *p)
{
    return p->total;
}

const char *part_path(const part *p)
{
    return p->path;
}

const char *part_validator(const part *p)
{
    return p->validator;
}

hearth_status part_restart(part *p, hearth_error *error)
{
    mem_free(p->validator);
    p->validator = NULL;
    p->size = 0;
    p->total = p->options->size;
    if (file_must_fail(EIO) || ftruncate(p->fd, 0) != 0 || lseek(p->fd, 0, SEEK_SET) < 0)
        return fail_errno(error, p->path, "cannot empty");
    return hasher_restart(p->hasher, error);
}

hearth_status part_put(part *p, const void *data, size_t size_bytes, hearth_error *error)
{
    const uint8_t *bytes = data;
    while (size_bytes > 0) {
        ssize_t written = file_must_fail(ENOSPC) ? -1 : write(p->fd, bytes, size_bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return fail_errno(error, p->path, "cannot write");
        p->size += (uint64_t)written;
        TRY(hasher_add(p->hasher, bytes, (size_t)written, error));
        bytes += written;
        size_bytes -= (size_t)written;
    }
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ ending */

hearth_status part_digest(part *p, digest *out, hearth_error *error)
{
    return hasher_end(p->hasher, out, error);
}

hearth_status part_commit(part *p, bool replace, hearth_error *error)
{
    const char *target = p->options->target;
    if (file_must_fail(EIO) || fsync(p->fd) != 0)
        return fail_errno(error, p->path, "cannot sync");
    if (!replace && file_exists(target))
        return fail(error, HEARTH_IO, "%s: exists by now; --force replaces it", target);
    if (file_must_fail(EIO) || rename(p->path, target) != 0)
        return fail_errno(error, target, "cannot rename the new file");
    p->is_gone = true;
    (void)unlink(p->sidecar);
    file_sync_folder(target);
    return HEARTH_OK;
}

void part_remove(part *p)
{
    if (p->is_gone)
        return;
    p->is_gone = true;
    (void)unlink(p->path);
    (void)unlink(p->sidecar);
}
