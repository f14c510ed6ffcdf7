/* gguf_split.h - the names of the files that a split model has. */
#ifndef FILE_GGUF_SPLIT_H
#define FILE_GGUF_SPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A path that ends in -00002-of-00003.gguf: part 2 of 3. */
typedef struct gguf_part_name {
    size_t base_bytes; /* of the path up to that ending */
    uint32_t number;   /* from 1 on; not above `count`  */
    uint32_t count;
} gguf_part_name;

/* Reads the name of a part; false: the path has another ending. The file is not looked at. */
bool gguf_part_name_read(gguf_part_name *out, const char *path);
/* Returns the path of another part of the model that `path` is a part of, in a new block (mem_free); NULL: no memory.
 * number: from 1 to 99999. */
char *gguf_part_path(const char *path, uint32_t number);

#endif
