/* replay.c - stands in for libFuzzer where there is none: feeds a fuzz target every file of the
 * given folders, whole, cut short at many places, and with bytes changed. The same each time. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    PARTS = 16,          /* places where a file is cut, and where a byte is changed */
    MOST_BYTES = 1 << 20 /* of one file: seeds are small */
};

static size_t replayed;

/* From a block of just that size, so that AddressSanitizer sees a byte read behind it. */
static void feed(const uint8_t *data, size_t size)
{
    uint8_t *exact = calloc(size > 0 ? size : 1, 1);
    if (!exact)
        exit(1);
    memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    replayed++;
}

static void replay_file(const char *path)
{
    static uint8_t data[MOST_BYTES];
    FILE *file = fopen(path, "rb");
    if (!file)
        return;
    size_t size = fread(data, 1, sizeof data, file);
    fclose(file);
    feed(data, size);
    for (size_t part = 0; part < PARTS && size > 0; part++) {
        size_t at = size * part / PARTS;
        feed(data, at);
        uint8_t before = data[at];
        data[at] = (uint8_t)(before ^ (1u << part % 8));
        feed(data, size);
        data[at] = before;
    }
}

static void replay_folder(const char *folder)
{
    DIR *listing = opendir(folder);
    if (!listing)
        return;
    for (struct dirent *entry; (entry = readdir(listing));) {
        char path[4096];
        int length = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] != '.' && length > 0 && (size_t)length < sizeof path)
            replay_file(path);
    }
    closedir(listing);
}

int main(int count, char **folders)
{
    feed((const uint8_t *)"", 0);
    for (int i = 1; i < count; i++)
        replay_folder(folders[i]);
    printf("%zu inputs\n", replayed);
    return replayed > 1 ? 0 : 1; /* a target without a corpus tests nothing */
}
