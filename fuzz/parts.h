/* parts.h - an input that is several files: each but the last behind its length in two bytes. */
#ifndef FUZZ_PARTS_H
#define FUZZ_PARTS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The folder that the files go to: in memory where that is possible, since all are written for every input. Removed when
 * the program ends. */
static char parts_folder[64];
static const char *const *parts_names; /* [parts_count] */
static size_t parts_count;

static void parts_remove(void)
{
    for (size_t i = 0; i < parts_count; i++) {
        char path[128];
        snprintf(path, sizeof(path), "%s/%s", parts_folder, parts_names[i]);
        unlink(path);
    }
    rmdir(parts_folder);
}

/* Writes the input as files of these names, the same in every call. A file whose length is 0xFFFF does not exist. */
static inline void parts_write(const char *const *names, size_t count, const uint8_t *data, size_t size)
{
    if (!parts_folder[0]) {
        snprintf(parts_folder, sizeof(parts_folder), "%s/hearth-fuzz-XXXXXX",
                 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
        if (!mkdtemp(parts_folder))
            abort();
        parts_names = names;
        parts_count = count;
        atexit(parts_remove);
    }
    for (size_t i = 0; i < count; i++) {
        char path[128];
        size_t part = size;
        snprintf(path, sizeof(path), "%s/%s", parts_folder, names[i]);
        if (i + 1 < count && size >= 2) {
            part = (size_t)data[0] | (size_t)data[1] << 8;
            data += 2;
            size -= 2;
        }
        if (i + 1 < count && part == 0xFFFF) {
            unlink(path);
            continue;
        }
        part = part < size ? part : size;
        FILE *f = fopen(path, "wb");
        if (!f || fwrite(data, 1, part, f) != part || fclose(f) != 0)
            abort();
        data += part;
        size -= part;
    }
}

#endif
