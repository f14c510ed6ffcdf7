/* compare_logits.c - how far two files of float32 values are apart.
 *
 *   compare_logits FILE REFERENCE BOUND [FIRST]
 *
 * Prints |file - reference| / |reference| (L2 over all values of FILE, against the reference from value FIRST
 * on) and exits 1 where it is above BOUND, not a number, or the sizes do not fit. Without FIRST both must have the same
 * size. So that the shell tests need no numpy. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct values {
    float *data;
    size_t count;
} values;

static values read_values(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0) {
        perror(path);
        exit(1);
    }
    long size = ftell(f);
    rewind(f);
    values v = {malloc((size_t)size + 1), (size_t)size / sizeof(float)};
    if (!v.data || fread(v.data, 1, (size_t)size, f) != (size_t)size || size % (long)sizeof(float) != 0) {
        fprintf(stderr, "%s: is not a file of float32 values\n", path);
        exit(1);
    }
    fclose(f);
    return v;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: compare_logits FILE REFERENCE BOUND [FIRST]\n");
        return 2;
    }
    values file = read_values(argv[1]), reference = read_values(argv[2]);
    double bound = strtod(argv[3], NULL);
    size_t first = argc > 4 ? strtoul(argv[4], NULL, 10) : 0;
    if (file.count == 0 || first > reference.count || file.count > reference.count - first ||
        (argc <= 4 && file.count != reference.count)) {
        printf("%zu values against %zu from %zu on\n", file.count, reference.count, first);
        return 1;
    }
    double difference = 0, norm = 0;
    for (size_t i = 0; i < file.count; i++) {
        double r = (double)reference.data[first + i], d = (double)file.data[i] - r;
        difference += d * d;
        norm += r * r;
    }
    double relative = sqrt(difference / norm);
    printf("%.3g\n", relative);
    int above = !(relative <= bound); /* also where it is not a number */
    free(file.data);
    free(reference.data);
    return above;
}
