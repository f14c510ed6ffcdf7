/* file.h - reading by mapping, writing without ever leaving half a file. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "error.h"

#include <stdint.h>

/* A whole file, mapped read-only. */
typedef struct file_map {
    const uint8_t *data; /* NULL for an empty file */
    size_t size_bytes;
} file_map;

/* HEARTH_IO: cannot be opened, is a directory, or mapping failed (text names path and reason). */
hearth_status file_map_open(file_map *out, const char *path, hearth_error *error);
void file_map_close(file_map *map);
/* Tells the system that these bytes will not be read again soon; they leave memory. */
void file_map_drop(const file_map *map, const void *from, size_t size_bytes);

/* The whole file, at most `limit` bytes (larger: HEARTH_FORMAT), with a 0 behind it;
 * *data is freed with mem_free. For small files: configs, prompts. "-" is standard input.
 * HEARTH_CANCELLED: a signal that the program handles came while waiting for a pipe or a terminal (wakeup.h). */
hearth_status file_read(char **data, size_t *size, const char *path, size_t limit, hearth_error *error);

bool file_exists(const char *path);
bool file_is_folder(const char *path);
/* "folder/name" into a new block; NULL: no memory. mem_free. */
char *file_join(const char *folder, const char *name);

/* A new file that appears under its name only when committed. Until then it is unnamed
 * (O_TMPFILE) where the file system can, else ".NAME.XXXXXX": whatever stops the program,
 * an old file of that name stays as it was. */
typedef struct file_writer file_writer;

/* HEARTH_IO: the folder is missing or not writable, or the name is taken by a folder. */
hearth_status file_writer_open(file_writer **out, const char *path, hearth_error *error);
/* Buffered. HEARTH_IO: disk full and its like; the writer can then only be discarded. */
hearth_status file_writer_put(file_writer *writer, const void *data, size_t size_bytes, hearth_error *error);
/* Zeros up to the next multiple of alignment. */
hearth_status file_writer_pad(file_writer *writer, size_t alignment, hearth_error *error);
uint64_t file_writer_position(const file_writer *writer);
/* Flushes, syncs, names the file and frees the writer; on failure nothing is left behind.
 * "-" and other things that are not plain files (/dev/stdout, pipes) are written straight. */
hearth_status file_writer_commit(file_writer *writer, hearth_error *error);
/* Frees the writer and removes what it wrote. */
void file_writer_discard(file_writer *writer);

/* Fault injection for tests: the n-th read, map, write, sync, link or rename from now on (0: the
 * next) fails with errno ENOSPC (writes) or EIO; only that one; -1: none. */
void file_fail_at(long n);

#endif
