/* states_write.c - writes hidden states: computes how many rows fit, checks whether existing rows can be continued, and
 * writes rows as they come. */
#include "states_internal.h"

#include "../base/file.h"
#include "../base/memory.h"
#include "work.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Rows are collected up to about this size before they are written. */
#define BUFFER_BYTES ((size_t)1 << 20)

struct states_writer {
    manifest m;
    row_shape shape;
    char *folder;
    int *files;    /* [layers]; -1: not open                                 */
    uint8_t *rows; /* [room][shape.bytes] rows of one layer, not written yet */
    size_t room, held;
    uint32_t layer;       /* layer of these rows ...                              */
    uint64_t first;       /* ... and number of the first one                      */
    hearth_status failed; /* first failure of a write; reported by the next flush */
    hearth_error why;
    char note[160];
};

/* ------------------------------------------------------------------ opening */

/* Sets the least stride for which all rows fit. */
static hearth_status choose_stride(states_writer *w, uint64_t disk_bytes, hearth_error *error)
{
    uint64_t one = (uint64_t)w->m.layers * w->shape.bytes;
    assert(one > 0); /* a model has layers */
    w->m.stride = 1;
    if (disk_bytes == 0)
        return HEARTH_OK;
    uint64_t rows = disk_bytes / one;
    if (rows == 0)
        return fail(error, HEARTH_INVALID,
                    "%s: hidden states: one row of every layer takes %llu bytes, only %llu are allowed", w->folder,
                    (unsigned long long)one, (unsigned long long)disk_bytes);
    w->m.stride = (w->m.corpus_tokens + rows - 1) / rows;
    w->m.stride = w->m.stride ? w->m.stride : 1;
    return HEARTH_OK;
}

/* Returns the bytes that the files take on the disk already. */
static uint64_t stored_bytes(const states_writer *w)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < w->m.layers; i++) {
        struct stat about;
        char *path = states_layer_path(w->folder, i);
        if (path && stat(path, &about) == 0)
            sum += (uint64_t)about.st_blocks * 512;
        mem_free(path);
    }
    return sum;
}

/* Checks that the disk has room for all rows that are missing. */
static hearth_status check_room(const states_writer *w, hearth_error *error)
{
    struct statvfs disk;
    uint64_t needed, stored = stored_bytes(w);
    if (__builtin_mul_overflow(states_writer_rows(w), (uint64_t)w->m.layers * w->shape.bytes, &needed))
        return fail(error, HEARTH_IO, "%s: hidden states: take more bytes than can be counted", w->folder);
    needed = needed > stored ? needed - stored : 0;
    if (file_must_fail(EIO) || statvfs(w->folder, &disk) != 0)
        return fail_errno(error, w->folder, "cannot tell the room on the disk");
    uint64_t room = (uint64_t)disk.f_bavail * disk.f_frsize;
    if (needed > room)
        return fail(error, HEARTH_IO,
                    "%s: hidden states: take %llu bytes, the disk has room for %llu; allow fewer, or clear some",
                    w->folder, (unsigned long long)needed, (unsigned long long)room);
    return HEARTH_OK;
}

/* Opens a layer's file. It does not follow links: whoever could place one would choose what is overwritten. */
static hearth_status open_layer(states_writer *w, uint32_t layer, bool afresh, hearth_error *error)
{
    char *path = states_layer_path(w->folder, layer);
    if (!path)
        return fail_memory(error, w->folder, strlen(w->folder));
    if (!file_must_fail(EIO))
        w->files[layer] = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | (afresh ? O_TRUNC : 0), 0666);
    hearth_status status = w->files[layer] >= 0 ? HEARTH_OK : fail_errno(error, path, "cannot open for writing");
    mem_free(path);
    return status;
}

/* Checks whether the files are as long as the manifest says. Fails where they cannot be examined. */
static hearth_status check_files(bool *whole, const states_writer *w, const manifest *found, hearth_error *error)
{
    *whole = true;
    for (uint32_t i = 0; *whole && i < w->m.layers; i++) {
        struct stat about;
        char *path = states_layer_path(w->folder, i);
        if (!path)
            return fail_memory(error, w->folder, strlen(w->folder));
        bool exists = stat(path, &about) == 0;
        hearth_status status =
            exists || errno == ENOENT ? HEARTH_OK : fail_errno(error, path, "hidden states: cannot be looked at");
        mem_free(path);
        TRY(status);
        *whole = exists && (uint64_t)about.st_size / w->shape.bytes >= manifest_rows_before(found, found->tokens);
    }
    return HEARTH_OK;
}

/* Finds why existing rows cannot be continued; *why is NULL where they can. */
static hearth_status find_misfit(const char **why, const states_writer *w, const manifest *found, hearth_error *error)
{
    bool whole = found->layers == w->m.layers && found->d == w->m.d && found->f == w->m.f;
    *why = NULL;
    if (strcmp(found->fingerprint, w->m.fingerprint) != 0)
        *why = "were another model's";
    else if (strcmp(found->digest, w->m.digest) != 0)
        *why = "were of another corpus";
    else if (found->stride != w->m.stride || found->corpus_tokens != w->m.corpus_tokens)
        *why = "were of another size";
    else if (whole)
        TRY(check_files(&whole, w, found, error));
    if (!*why && !whole)
        *why = "were damaged";
    return HEARTH_OK;
}

/* Decides whether existing rows are continued (*goes) or replaced.
 * Rows that merely cannot be read now are neither: that is an error. */
static hearth_status go_on(bool *goes, states_writer *w, hearth_error *error)
{
    manifest found;
    hearth_error damage;
    const char *why = "were damaged";
    char *path = file_join(w->folder, MANIFEST_NAME);
    *goes = false;
    if (!path)
        return fail_memory(error, w->folder, strlen(w->folder));
    bool any = file_exists(path);
    mem_free(path);
    if (!any)
        return HEARTH_OK;
    hearth_status status = manifest_read(&found, w->folder, &damage);
    if (status == HEARTH_OK)
        TRY(find_misfit(&why, w, &found, error));
    else if (status != HEARTH_FORMAT)
        return fail(error, status, "%s", damage.text);
    *goes = !why;
    if (why)
        snprintf(w->note, sizeof w->note, "hidden states of an earlier run %s and are replaced", why);
    else
        w->m.tokens = found.tokens;
    return HEARTH_OK;
}

/* Opens the files of all layers, after removing rows that cannot be continued. */
static hearth_status open_files(states_writer *w, hearth_error *error)
{
    bool goes;
    TRY(go_on(&goes, w, error));
    if (!goes)
        states_remove(w->folder);
    TRY(check_room(w, error));
    for (uint32_t i = 0; i < w->m.layers; i++)
        TRY(open_layer(w, i, !goes, error));
    return HEARTH_OK;
}

/* Allocates the buffers and opens the files. On failure states_writer_close frees them. */
static hearth_status prepare(states_writer *w, const char *folder, uint64_t disk_bytes, hearth_error *error)
{
    w->folder = mem_copy_text(folder, strlen(folder));
    w->files = mem_new_array(w->m.layers, sizeof *w->files);
    for (uint32_t i = 0; w->files && i < w->m.layers; i++)
        w->files[i] = -1;
    w->room = BUFFER_BYTES / w->shape.bytes;
    w->room = w->room ? w->room : 1;
    w->rows = mem_new_array(w->room, w->shape.bytes);
    if (!w->folder || !w->files || !w->rows)
        return fail_memory(error, "hidden states", w->room * w->shape.bytes);
    TRY(work_make(folder, error));
    TRY(choose_stride(w, disk_bytes, error));
    return open_files(w, error);
}

hearth_status states_writer_open(states_writer **out, const char *folder, const hearth_model *model,
                                 const corpus *texts, uint64_t disk_bytes, hearth_error *error)
{
    states_writer *w = mem_new(sizeof *w);
    if (!w)
        return fail_memory(error, "hidden states", sizeof *w);
    const hyperparameters *h = &model->hyper;
    w->shape = row_shape_of(model);
    w->m = (manifest){
        .corpus_tokens = texts->id_count, .layers = h->layer_count, .d = h->embedding_length, .f = h->neuron_count};
    model_fingerprint(w->m.fingerprint, model);
    memcpy(w->m.digest, texts->digest, sizeof w->m.digest);
    hearth_status status = prepare(w, folder, disk_bytes, error);
    if (status != HEARTH_OK) {
        states_writer_close(w);
        return status;
    }
    *out = w;
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ what it keeps */

const char *states_writer_note(const states_writer *w)
{
    return w->note;
}

uint64_t states_writer_tokens(const states_writer *w)
{
    return w->m.tokens;
}

uint64_t states_writer_stride(const states_writer *w)
{
    return w->m.stride;
}

uint64_t states_writer_rows(const states_writer *w)
{
    return manifest_rows_before(&w->m, w->m.corpus_tokens);
}

bool states_writer_wants(const states_writer *w, uint64_t token)
{
    if (token < w->m.tokens || token >= w->m.corpus_tokens)
        return false;
    return w->m.stride == 1 || manifest_kept_of(&w->m, token / w->m.stride) == token;
}

/* ------------------------------------------------------------------ rows as they come */

/* Writes `size` bytes at offset `at`, in as many calls as needed. */
static hearth_status write_all(int file, const uint8_t *data, size_t size, uint64_t at, const char *folder,
                               hearth_error *error)
{
    while (size > 0) {
        ssize_t written = file_must_fail(ENOSPC) ? -1 : pwrite(file, data, size, (off_t)at);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return fail_errno(error, folder, "hidden states: cannot write");
        data += written;
        size -= (size_t)written;
        at += (uint64_t)written;
    }
    return HEARTH_OK;
}

/* Writes the collected rows. After a failure nothing more is written; the next flush reports it. */
static void write_rows(states_writer *w)
{
    if (w->held > 0 && w->failed == HEARTH_OK)
        w->failed = write_all(w->files[w->layer], w->rows, w->held * w->shape.bytes, w->first * w->shape.bytes,
                              w->folder, &w->why);
    w->held = 0;
}

void states_writer_add(states_writer *w, uint64_t token, const hearth_observation *seen)
{
    if (!states_writer_wants(w, token) || w->failed != HEARTH_OK)
        return;
    uint64_t row = token / w->m.stride;
    if (w->held == w->room || seen->layer != w->layer || row != w->first + w->held)
        write_rows(w);
    if (w->held == 0) {
        w->layer = seen->layer;
        w->first = row;
    }
    row_encode(&w->shape, seen, w->rows + w->held++ * w->shape.bytes);
}

hearth_status states_writer_flush(states_writer *w, uint64_t tokens, hearth_error *error)
{
    write_rows(w);
    if (w->failed != HEARTH_OK)
        return fail(error, w->failed, "%s", w->why.text);
    if (tokens <= w->m.tokens)
        return HEARTH_OK;
    for (uint32_t i = 0; i < w->m.layers; i++)
        if (file_must_fail(EIO) || fsync(w->files[i]) != 0)
            return fail_errno(error, w->folder, "hidden states: cannot sync");
    manifest next = w->m;
    next.tokens = tokens;
    TRY(manifest_write(&next, w->folder, error));
    w->m = next;
    return HEARTH_OK;
}

void states_writer_close(states_writer *w)
{
    if (!w)
        return;
    for (uint32_t i = 0; w->files && i < w->m.layers; i++)
        if (w->files[i] >= 0)
            close(w->files[i]);
    mem_free(w->files);
    mem_free(w->rows);
    mem_free(w->folder);
    mem_free(w);
}
