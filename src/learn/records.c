/* records.c - reads and writes records as files, and empties the folder.
 *
 * A record consists of the line "hearth-work KEY", the data, and a checksum of both, since a file system may have lost
 * its last writes. This module does not know what a record means. */
#include "records.h"

#include "../base/file.h"
#include "../base/hash.h"
#include "../base/memory.h"
#include "../base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* The record that holds the folder's own key. */
#define KEY_NAME "tuning.key"

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

static hearth_status write_record(const char *path, const buffer *head, const void *data, size_t size_bytes,
                                  hearth_error *error)
{
    file_writer *file;
    hash128 sum = checksum(head->data, head->size, data, size_bytes);
    TRY(file_writer_open(&file, path, error));
    hearth_status status = file_writer_put(file, head->data, head->size, error);
    if (status == HEARTH_OK && size_bytes > 0)
        status = file_writer_put(file, data, size_bytes, error);
    if (status == HEARTH_OK)
        status = file_writer_put(file, &sum, sizeof sum, error);
    if (status == HEARTH_OK)
        return file_writer_commit(file, error);
    file_writer_discard(file);
    return status;
}

hearth_status record_put(const char *folder, const char *name, const char *key, const void *data, size_t size_bytes,
                         hearth_error *error)
{
    buffer head = {0};
    char *path = file_join(folder, name);
    hearth_status status = path && print_head(&head, key) ? write_record(path, &head, data, size_bytes, error)
                                                          : fail_memory(error, name, strlen(folder) + strlen(key));
    buffer_free(&head);
    mem_free(path);
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

/* ------------------------------------------------------------------ the folder */

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
