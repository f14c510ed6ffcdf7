/* file.h - maps and reads files; writes files that appear complete or not at all. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "error.h"

#include <stdint.h>

/* A whole file, mapped read-only. */
typedef struct file_map {
    const uint8_t *data; /* NULL for an empty file */
    size_t size_bytes;
} file_map;

/* Maps a file. HEARTH_IO: it cannot be opened, is not a plain file, or the mapping failed (the text names path and
 * reason). */
hearth_status file_map_open(file_map *out, const char *path, hearth_error *error);
void file_map_close(file_map *map);
/* Tells the system that these bytes will not be read again soon, so that it can drop their pages from memory. */
void file_map_drop(const file_map *map, const void *from, size_t size_bytes);

/* Reads a whole file of at most `limit` bytes (larger: HEARTH_FORMAT) and adds a terminating 0;
 * free *data with mem_free. For small files: configs, prompts. "-" is standard input.
 * HEARTH_CANCELLED: a signal that the program handles arrived while waiting for a pipe or a terminal (wakeup.h). */
hearth_status file_read(char **data, size_t *size, const char *path, size_t limit, hearth_error *error);

bool file_exists(const char *path);
bool file_is_folder(const char *path);
/* Returns whether both paths lead to one file that exists, by device and inode. */
bool file_is_same(const char *a, const char *b);
/* Returns "folder/name" in a new block (free it with mem_free); NULL: no memory. */
char *file_join(const char *folder, const char *name);
/* Syncs the folder that a file lies in, so that a new name survives a power failure. The file is complete and in place by
 * then, so errors are ignored. */
void file_sync_folder(const char *path);

/* A new file that gets its name only when it is committed. Until then it has no name (O_TMPFILE), or is
 * called ".NAME.XXXXXX" where the file system does not support that. If the program stops before the commit,
 * an existing file of that name is unchanged. */
typedef struct file_writer file_writer;

/* Creates the file. HEARTH_IO: the folder is missing or not writable, or the name is that of a folder. */
hearth_status file_writer_open(file_writer **out, const char *path, hearth_error *error);
/* Appends bytes; buffered. HEARTH_IO: for example a full disk; the writer can then only be discarded. */
hearth_status file_writer_put(file_writer *writer, const void *data, size_t size_bytes, hearth_error *error);
/* Writes zeros up to the next multiple of alignment. */
hearth_status file_writer_pad(file_writer *writer, size_t alignment, hearth_error *error);
/* Returns the number of bytes put so far. */
uint64_t file_writer_position(const file_writer *writer);
/* Flushes, syncs, names the file and frees the writer; after a failure no file is left.
 * "-" and whatever is not a plain file (/dev/stdout, pipes) are written directly, without sync and rename. */
hearth_status file_writer_commit(file_writer *writer, hearth_error *error);
/* Frees the writer and removes what it wrote. */
void file_writer_discard(file_writer *writer);

/* Writes a file at once: all of it or, with an error of the functions above, nothing. */
hearth_status file_write(const char *path, const void *data, size_t size_bytes, hearth_error *error);

/* Fault injection for tests: the n-th read, map, write, sync, link or rename from now on (0: the next) fails with
 * errno ENOSPC (writes) or EIO. Only that one fails. -1: none. */
void file_fail_at(long n);
/* Returns true, with errno set to error_number, if the next operation has to fail. Called before each of them. */
bool file_must_fail(int error_number);

#endif
