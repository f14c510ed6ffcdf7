/* kcheck.c - holds every kernel of every level this CPU has, and every kernel of every device, against its definition:
 * kcheck [--seed N] [--level NAME | --device SPEC].
 *
 * After checkasm: levels from worst to best, and of each only what differs from the level before. Products and
 * other sums are held against the same computed in double precision from decoded weights, within a bound that is
 * derived from the data (see kcheck_products.c, kcheck_vectors.c); what has one right answer must have its bits.
 *
 * Without --seed every run draws the same data, so that a commit that passes once passes always; tools/soak-kernels
 * draws others. */
#include "kcheck_device.h"

#include "../src/kernel/cpu.h"
#include "../src/number/half.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- buffers ---- */

#define BEFORE 0xa5 /* the pattern in front of a buffer */

buffer_guarded guarded_new(size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), used = (size + page) / page * page;
    unsigned char *map = mmap(NULL, used + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED || mprotect(map + used, page, PROT_NONE) != 0) {
        perror("kcheck: mmap");
        exit(1);
    }
    memset(map, BEFORE, used);
    return (buffer_guarded){map + used - size, size, map, used + page};
}

bool guarded_intact(const buffer_guarded *b)
{
    for (const unsigned char *at = b->map; at < (const unsigned char *)b->data; at++)
        if (*at != BEFORE)
            return false;
    return true;
}

void guarded_free(buffer_guarded *b)
{
    munmap(b->map, b->map_size);
}

/* ---- random numbers: splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators) ---- */

uint64_t random_bits(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

size_t random_below(uint64_t *state, size_t n)
{
    return random_bits(state) % n;
}

/* The highest 24 bits as a value in [-1, 1). */
static float value_of(uint64_t bits)
{
    return (float)(bits >> 40) * 0x1p-23f - 1;
}

float random_value(uint64_t *state)
{
    return value_of(random_bits(state));
}

float random_rough(uint64_t *state)
{
    uint64_t bits = random_bits(state);
    float value = value_of(bits);
    unsigned kind = bits & 31;
    return kind == 0 ? value * 100 : kind == 1 ? 0 : kind == 2 ? value * 0x1p-127f : value;
}

const scale_places scales_at[FORMAT_COUNT] = {
    [FORMAT_Q8_0] = {1, {0}},   [FORMAT_Q4_0] = {1, {0}},    [FORMAT_Q4_1] = {2, {0, 2}},
    [FORMAT_Q5_0] = {1, {0}},   [FORMAT_Q5_1] = {2, {0, 2}}, [FORMAT_Q2_K] = {2, {80, 82}},
    [FORMAT_Q3_K] = {1, {108}}, [FORMAT_Q4_K] = {2, {0, 2}}, [FORMAT_Q5_K] = {2, {0, 2}},
    [FORMAT_Q6_K] = {1, {208}}, [FORMAT_IQ4_NL] = {1, {0}},  [FORMAT_IQ4_XS] = {1, {0}},
    [FORMAT_TQ1_0] = {1, {52}}, [FORMAT_TQ2_0] = {1, {64}},  [FORMAT_Q1_0] = {1, {0}},
    [FORMAT_Q2_0] = {1, {0}},   [FORMAT_IQ1_S] = {1, {0}},   [FORMAT_IQ2_XXS] = {1, {0}},
    [FORMAT_IQ2_XS] = {1, {0}}, [FORMAT_IQ2_S] = {1, {0}},   [FORMAT_IQ3_XXS] = {1, {0}},
    [FORMAT_IQ3_S] = {1, {0}},  [FORMAT_SIGNS1] = {1, {0}},  [FORMAT_LEVELS2] = {1, {0}},
};

void random_encoded(uint8_t *block, number_format format, bool not_finite, uint64_t *state)
{
    float values[MOST_BLOCK_VALUES];
    const number_traits *traits = &number_formats[format];
    size_t n = traits->block_values;
    if (!number_is_block(format)) {
        for (size_t i = 0; i < n; i++)
            values[i] = not_finite && random_below(state, 8) == 0 ? INFINITY : random_rough(state);
        traits->encode(values, NULL, block, n);
        return;
    }
    bool fits = false;
    while (!fits) {
        for (size_t i = 0; i < traits->block_bytes; i++)
            block[i] = (uint8_t)random_bits(state);
        traits->decode(block, values, n);
        float largest = 0;
        fits = true;
        for (size_t i = 0; i < n && !not_finite; i++) {
            fits &= fabsf(values[i]) < 0x1p20f;
            largest = fmaxf(largest, fabsf(values[i]));
        }
        fits &= not_finite || largest == 0 || largest > 0x1p-40f;
    }
}

/* ---- telling ---- */

void check_begin(check *c, const char *op)
{
    c->op = op;
    c->told = false;
    c->kernels++;
}

/* Counts a failure; true for the first of a kernel, whose text the caller then completes. */
static bool tell(check *c)
{
    c->bad++;
    if (c->told)
        return false;
    c->told = true;
    printf("FAILED %s %s %s: ", c->level, c->op, c->size);
    return true;
}

bool expect(check *c, const char *what, bool truth)
{
    c->cases++;
    if (!truth && tell(c))
        printf("%s\n", what);
    return truth;
}

bool expect_close(check *c, size_t at, double want, double got, double bound)
{
    c->cases++;
    bool good = fabs(want - got) <= bound; /* false where got is NaN */
    if (!good && tell(c))
        printf("at %zu want %.9g got %.9g, off by %.3g, bound %.3g\n", at, want, got, fabs(want - got), bound);
    return good;
}

bool expect_same(check *c, const char *what, const void *want, const void *got, size_t size_bytes)
{
    c->cases++;
    const unsigned char *a = want, *b = got;
    for (size_t i = 0; i < size_bytes; i++)
        if (a[i] != b[i]) {
            if (tell(c))
                printf("%s differ at byte %zu of %zu: want %02x got %02x\n", what, i, size_bytes, a[i], b[i]);
            return false;
        }
    return true;
}

/* A kernel that reads past a buffer ends up here: says in which case, and ends. */
static const check *running;

void check_watch(const check *c)
{
    running = c;
}

static void trapped(int signal_number)
{
    char text[256];
    int n = snprintf(text, sizeof(text), "FAILED %s %s %s: trapped (signal %d), most likely beyond a buffer\n",
                     running->level, running->op, running->size, signal_number);
    ssize_t written = write(STDOUT_FILENO, text, (size_t)n);
    _exit(written == n ? 1 : 2);
}

/* ---- the table of levels itself ---- */

static size_t holes(const kernels *k)
{
    size_t missing = 0;
    for (size_t f = 0; f < FORMAT_COUNT; f++)
        missing += (size_t)!k->product[f] + !k->accumulate[f] + !k->accumulate_many[f] + !k->transpose[f];
    for (size_t s = 0; s < SELECT_COUNT; s++)
        missing += !k->select[s];
    for (size_t a = 0; a < ACTIVATION_COUNT; a++)
        missing += !k->activate[a];
    for (size_t r = 0; r < ROPE_COUNT; r++)
        missing += !k->rope[r];
    return missing + !k->quantize + !k->rms_norm + !k->layer_norm + !k->add + !k->attend[FORMAT_F32] +
           !k->attend[FORMAT_F16] + !k->attend_rows[FORMAT_F32] + !k->attend_rows[FORMAT_F16] +
           !k->attend[FORMAT_Q8_0] + !k->attend_rows[FORMAT_Q8_0] + !k->score[FORMAT_F32] + !k->score[FORMAT_F16] +
           !k->score[FORMAT_Q8_0] + !k->to_half + !k->read;
}

static void check_levels(check *c)
{
    size_t count = kernel_level_count();
    expect(c, "there is no level", count > 0);
    expect(c, "the first level is not scalar", strcmp(kernel_level_name(0), "scalar") == 0);
    expect(c, "scalar is not present", kernel_level_present(0));
    expect(c, "an unknown level is found", kernel_level_find("abacus") == count);
    size_t best = kernel_level_find(NULL);
    expect(c, "the best level is not present", best < count && kernel_level_present(best));
    for (size_t level = 0; level < count; level++) {
        kernels k;
        kernels_for(level, &k);
        snprintf(c->size, sizeof(c->size), "%s", kernel_level_name(level));
        expect(c, "a level is not found under its name", kernel_level_find(kernel_level_name(level)) == level);
        expect(c, "a table does not know its level", strcmp(k.level, kernel_level_name(level)) == 0);
        expect(c, "a table has holes", holes(&k) == 0);
        unsigned features = kernel_level_features(level);
        expect(c, "another level needs the same features", level == 0 || features != kernel_level_features(level - 1));
        expect(c, "a better level than the best is present", level <= best || !kernel_level_present(level));
    }
}

/* ---- the command ---- */

int main(int argc, char **argv)
{
    uint64_t seed = 1;
    const char *only = NULL, *spec = NULL;
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (value && strcmp(argv[i], "--seed") == 0)
            seed = strtoull(value, NULL, 0);
        else if (value && strcmp(argv[i], "--level") == 0)
            only = value;
        else if (value && strcmp(argv[i], "--device") == 0)
            spec = value;
        else {
            puts("usage: kcheck [--seed N] [--level NAME | --device SPEC]");
            return 2;
        }
    }
    printf("kcheck --seed %llu\n", (unsigned long long)seed);
    fflush(stdout);

    size_t bad = 0, levels = 0;
    kernels previous = {0};
    check c = {.level = "levels"};
    check_begin(&c, "table");
    check_watch(&c);
    struct sigaction action = {.sa_handler = trapped};
    int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
    for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
        sigaction(signals[i], &action, NULL);
    check_levels(&c);
    bad += c.bad;

    for (size_t level = 0; level < kernel_level_count(); level++) {
        if (!kernel_level_present(level)) {
            char names[CPU_NAMES_SIZE];
            printf("%-12s skipped: this CPU lacks %s\n", kernel_level_name(level),
                   cpu_feature_names(names, kernel_level_features(level) & ~cpu_features()));
            continue;
        }
        kernels k;
        kernels_for(level, &k);
        if (!spec && (!only || strcmp(only, k.level) == 0)) {
            c = (check){.level = k.level};
            check_products(&c, &k, &previous, seed);
            check_vectors(&c, &k, &previous, seed);
            check_recurrence(&c, &k, &previous, seed);
            check_neurons(&c, &k, &previous, seed);
            bad += c.bad;
            levels++;
            printf("%-12s %zu kernels, %zu comparisons, %zu failed\n", k.level, c.kernels, c.cases, c.bad);
            fflush(stdout);
        }
        previous = k;
    }
    if (only && !spec && levels == 0) {
        printf("FAILED %s: no such level ran\n", only);
        bad++;
    }
    if (!only)
        bad += check_devices(spec, seed);
    printf(bad ? "kcheck: %zu comparisons FAILED\n" : "kcheck: all good\n", bad);
    return bad ? 1 : 0;
}
