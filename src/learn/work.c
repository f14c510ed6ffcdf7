/* work.c - the work folder and its lock, the key of a model file, and records as files.
 *
 * A record consists of the line "hearth-work KEY", the data, and a checksum of both, since a file system may have lost
 * its last writes. This module does not know what a record means. */
#include "work.h"

#include "../base/file.h"
#include "../base/memory.h"
#include "../base/text.h"
#include "../model/fingerprint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* The record that holds the folder's own key. */
#define KEY_NAME "tuning.key"

void work_model_key(char out[HASH_TEXT_SIZE], const hearth_model *model)
{
    char fingerprint[FINGERPRINT_SIZE];
    hash128 h = hash_begin();
    model_fingerprint(fingerprint, model);
    hash_text(&h, fingerprint);
    hash_number(&h, model->weight_bytes);
    for (uint32_t i = 0; i < model->hyper.layer_count; i++) {
        const model_layer *l = &model->layers[i];
        const matrix *const all[] = {&l->gate, &l->up, &l->down, &l->down_t};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++)
            hash_text(&h, all[k]->data ? number_formats[all[k]->format].name : "none");
    }
    hash_print(out, &h);
}

char *work_path(const char *tune_path)
{
    buffer path = {0};
    if (buffer_print(&path, "%s.work", tune_path) && buffer_put(&path, "", 1))
        return path.data;
    buffer_free(&path);
    return NULL;
}

hearth_status work_make(const char *path, hearth_error *error)
{
    struct stat about;
    if (mkdir(path, 0777) == 0)
        return HEARTH_OK;
    if (errno != EEXIST)
        return fail_errno(error, path, "cannot make the folder");
    if (stat(path, &about) != 0 || !S_ISDIR(about.st_mode))
        return fail(error, HEARTH_IO, "%s: cannot make the folder: a file has its name", path);
    return HEARTH_OK;
}

hearth_status work_open(work_folder *out, const char *path, hearth_error *error)
{
    *out = (work_folder){.lock = -1};
    TRY(work_make(path, error));
    int lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock < 0)
        return fail_errno(error, path, "cannot open the folder");
    if (flock(lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        close(lock);
        return fail(error, HEARTH_IO, "%s: folder: another run of hearth works in it", path);
    }
    out->path = mem_copy_text(path, strlen(path)); /* the run goes on without a lock where the file system has none */
    if (!out->path) {
        close(lock);
        return fail_memory(error, "path", strlen(path));
    }
    out->lock = lock;
    return HEARTH_OK;
}

void work_close(work_folder *w)
{
    if (!w->path)
        return;
    (void)rmdir(w->path); /* fails while the folder is not empty, as intended */
    close(w->lock);
    mem_free(w->path);
    *w = (work_folder){0};
}

static hearth_status put_all(file_writer *file, const work_piece *pieces, size_t count, hearth_error *error)
{
    for (size_t i = 0; i < count; i++)
        if (pieces[i].size_bytes > 0)
            TRY(file_writer_put(file, pieces[i].data, pieces[i].size_bytes, error));
    return HEARTH_OK;
}

hearth_status work_write(const char *folder, const char *name, const work_piece *pieces, size_t count,
                         hearth_error *error)
{
    file_writer *file;
    char *path = file_join(folder, name);
    hearth_status status =
        path ? file_writer_open(&file, path, error) : fail_memory(error, folder, strlen(folder) + strlen(name));
    if (status == HEARTH_OK) {
        status = put_all(file, pieces, count, error);
        if (status == HEARTH_OK)
            status = file_writer_commit(file, error);
        else
            file_writer_discard(file);
    }
    mem_free(path);
    return status;
}

/* ------------------------------------------------------------------ records */

static hash128 checksum(const void *head, size_t head_bytes, const void *data, size_t size_bytes)
{
    hash128 sum = hash_begin();
    hash_bytes(&sum, head, head_bytes);
    hash_bytes(&sum, data, size_bytes);
    return sum;
}

/* Prints the first line of a record. Returns false: no memory. */
static bool print_head(buffer *head, const char *key)
{
    return buffer_print(head, "hearth-work %s\n", key);
}

hearth_status record_put(const char *folder, const char *name, const char *key, const void *data, size_t size_bytes,
                         hearth_error *error)
{
    buffer head = {0};
    if (!print_head(&head, key))
        return fail_memory(error, name, strlen(key));
    hash128 sum = checksum(head.data, head.size, data, size_bytes);
    const work_piece pieces[] = {{head.data, head.size}, {data, size_bytes}, {&sum, sizeof sum}};
    hearth_status status = work_write(folder, name, pieces, sizeof pieces / sizeof *pieces, error);
    buffer_free(&head);
    return status;
}

/* Returns whether a file is a whole record with that head (key) and size. */
static bool is_record(const file_map *map, const buffer *head, size_t size_bytes)
{
    hash128 sum, found;
    if (map->size_bytes < head->size + sizeof sum || map->size_bytes - head->size - sizeof sum != size_bytes)
        return false;
    sum = checksum(map->data, head->size, map->data + head->size, size_bytes);
    memcpy(&found, map->data + head->size + size_bytes, sizeof found);
    return memcmp(map->data, head->data, head->size) == 0 && sum.a == found.a && sum.b == found.b;
}

bool record_get(const char *folder, const char *name, const char *key, void *data, size_t size_bytes)
{
    buffer head = {0};
    file_map map;
    bool found = false;
    char *path = file_join(folder, name);
    if (path && print_head(&head, key) && file_map_open(&map, path, NULL) == HEARTH_OK) {
        found = is_record(&map, &head, size_bytes);
        if (found && size_bytes > 0)
            memcpy(data, map.data + head.size, size_bytes);
        file_map_close(&map);
    }
    buffer_free(&head);
    mem_free(path);
    return found;
}

/* ------------------------------------------------------------------ the folder's content */

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Removes the key last: until then, what is left is known to belong to another tuning. */
hearth_status records_end(const char *folder, hearth_error *error)
{
    DIR *all = opendir(folder);
    if (!all)
        return fail_errno(error, folder, "cannot be read");
    hearth_status status = HEARTH_OK;
    for (struct dirent *e; status == HEARTH_OK && (e = readdir(all));)
        if (!is_dots(e->d_name) && strcmp(e->d_name, KEY_NAME) != 0 && unlinkat(dirfd(all), e->d_name, 0) != 0)
            status = fail_errno(error, folder, "cannot be emptied");
    if (status == HEARTH_OK && unlinkat(dirfd(all), KEY_NAME, 0) != 0 && errno != ENOENT)
        status = fail_errno(error, folder, "cannot be emptied");
    closedir(all);
    return status;
}

hearth_status records_begin(const char *folder, const char *key, bool *begun_anew, hearth_error *error)
{
    *begun_anew = false;
    if (record_get(folder, KEY_NAME, key, NULL, 0))
        return HEARTH_OK;
    char *path = file_join(folder, KEY_NAME);
    if (!path)
        return fail_memory(error, folder, strlen(folder));
    *begun_anew = file_exists(path);
    mem_free(path);
    if (*begun_anew)
        TRY(records_end(folder, error));
    return record_put(folder, KEY_NAME, key, NULL, 0, error);
}
