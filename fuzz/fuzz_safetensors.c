/* fuzz_safetensors.c - any bytes as a safetensors file, or as a folder of two shards with their index.
 * Covers: src/file/safetensors.c
 *
 * The first byte decides: 'F', the rest is one file in memory; 'D', the rest is three parts, each but
 * the last behind its length in two bytes: index, shard "1", shard "2". Anything else is a file as it is. */
#include "touch.h"

#include "../src/file/safetensors.h"

#include <stdio.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[] = {"model.safetensors.index.json", "1", "2"};
static char folder[64];

static void remove_folder(void)
{
    for (size_t i = 0; i < 3; i++) {
        char path[128];
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

/* In memory where that is possible: three files are written for every input. */
static void make_folder(void)
{
    snprintf(folder, sizeof(folder), "%s/hearth-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(folder))
        abort();
    atexit(remove_folder);
}

static void write_parts(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < 3; i++) {
        size_t part = size;
        if (i < 2 && size >= 2) {
            part = (size_t)data[0] | (size_t)data[1] << 8;
            data += 2;
            size -= 2;
            part = part < size ? part : size;
        }
        char path[128];
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        FILE *f = fopen(path, "wb");
        if (!f || fwrite(data, 1, part, f) != part || fclose(f) != 0)
            abort();
        data += part;
        size -= part;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    checkpoint *c;
    hearth_error error = {0};
    long before = mem_live();
    hearth_status status;
    if (checkpoint_create(&c, "fuzz", NULL) != HEARTH_OK)
        return 0;
    if (size && data[0] == 'D') {
        if (!folder[0])
            make_folder();
        write_parts(data + 1, size - 1);
        status = safetensors_add_folder(c, folder, &error);
    } else {
        size_t skip = size && data[0] == 'F';
        status = safetensors_parse(c, data + skip, size - skip, "fuzz.safetensors", &error);
    }
    touch_checkpoint(c);
    checkpoint_close(c);
    check_end(status, &error, before);
    return 0;
}
