/* join_halves.c - puts together what tests/data/pack.py stored in halves: join_halves FOLDER
 *
 * Of a file NAME the archives may hold NAME.high, the upper 16 bits of every 32, and NAME.low, the lower 16 bits followed
 * by what is left over at the end (up to three bytes). Walks FOLDER, writes NAME for every such pair and removes the halves. */
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void give_up(const char *path, const char *why)
{
    fprintf(stderr, "join_halves: %s: %s\n", path, why);
    exit(1);
}

/* The whole file; freed with free. */
static uint8_t *read_file(const char *path, size_t *size)
{
    struct stat status;
    FILE *file = fopen(path, "rb");
    if (!file || fstat(fileno(file), &status) != 0)
        give_up(path, "cannot open");
    *size = (size_t)status.st_size;
    uint8_t *data = malloc(*size + 1);
    if (!data || fread(data, 1, *size, file) != *size)
        give_up(path, "cannot read");
    fclose(file);
    return data;
}

static void join(const char *high_path, const char *low_path, const char *path)
{
    size_t high_size, low_size;
    uint8_t *high = read_file(high_path, &high_size);
    uint8_t *low = read_file(low_path, &low_size);
    if (high_size % 2 != 0 || low_size < high_size || low_size - high_size > 3)
        give_up(path, "the halves do not fit each other");
    uint8_t *whole = malloc(high_size + low_size + 1);
    if (!whole)
        give_up(path, "out of memory");
    for (size_t i = 0; i < high_size; i += 2) {
        memcpy(whole + 2 * i, low + i, 2);
        memcpy(whole + 2 * i + 2, high + i, 2);
    }
    memcpy(whole + 2 * high_size, low + high_size, low_size - high_size);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(whole, 1, high_size + low_size, file) != high_size + low_size || fclose(file) != 0)
        give_up(path, "cannot write");
    unlink(high_path);
    unlink(low_path);
    free(whole);
    free(low);
    free(high);
}

static int visit(const char *high_path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status;
    (void)walk;
    size_t length = strlen(high_path);
    if (type != FTW_F || length < 5 || strcmp(high_path + length - 5, ".high") != 0)
        return 0;
    char *path = strndup(high_path, length - 5);
    char *low_path = NULL;
    if (!path || asprintf(&low_path, "%s.low", path) < 0)
        give_up(high_path, "out of memory");
    join(high_path, low_path, path);
    free(low_path);
    free(path);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fputs("usage: join_halves FOLDER\n", stderr);
        return 2;
    }
    if (nftw(argv[1], visit, 16, FTW_PHYS) != 0)
        give_up(argv[1], "cannot be walked");
    return 0;
}
