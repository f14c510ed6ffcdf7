/* hot_set.c - who should change sides (see hot_set.h). */
#include "hot_set.h"

#include "../base/memory.h"

#include <math.h>
#include <string.h>

hearth_status hot_set_create(hot_set *h, uint32_t unit_count, hearth_error *error)
{
    *h = (hot_set){.unit_count = unit_count};
    h->score = mem_new_array(unit_count, sizeof *h->score);
    h->fired = mem_new_array(unit_count, sizeof *h->fired);
    h->moved = mem_new_array(unit_count, sizeof *h->moved);
    if (h->score && h->fired && h->moved)
        return HEARTH_OK;
    hot_set_destroy(h);
    return fail_memory(error, "hot set", unit_count * (sizeof *h->score + sizeof *h->fired + sizeof *h->moved));
}

void hot_set_destroy(hot_set *h)
{
    mem_free(h->score);
    mem_free(h->fired);
    mem_free(h->moved);
    *h = (hot_set){0};
}

/* ------------------------------------------------------------------ looking */

void hot_set_look(hot_set *h)
{
    if (h->pending == 0)
        return;
    /* All tokens since the last look count the mean of what they would have counted one by one. */
    double rest = exp2(-(double)h->pending / HOT_HALF_LIFE);
    float old = (float)rest, each = (float)((1 - rest) * (double)HOT_TOKENS / (double)h->pending);
    for (uint32_t i = 0; i < h->unit_count; i++)
        h->score[i] = h->moved[i] ? h->score[i] : old * h->score[i] + each * (float)h->fired[i];
    memset(h->fired, 0, h->unit_count * sizeof *h->fired);
    memset(h->moved, 0, h->unit_count * sizeof *h->moved);
    h->seen += h->pending;
    h->pending = 0;
}

void hot_set_forget(hot_set *h)
{
    memset(h->fired, 0, h->unit_count * sizeof *h->fired);
    h->pending = 0;
}

/* ------------------------------------------------------------------ choosing */

/* The best units so far, as a heap whose first one is the worst of them. */
typedef struct ranking {
    const float *score;
    float sign; /* 1: the hottest are best; -1: the coldest */
    uint32_t *best;
    size_t count, most;
} ranking;

/* Returns whether one unit ranks before another; of equals the one with the lower number. */
static bool before(const ranking *r, uint32_t one, uint32_t other)
{
    float a = r->sign * r->score[one], b = r->sign * r->score[other];
    return a > b || (a == b && one < other);
}

static void exchange(uint32_t *a, uint32_t *b)
{
    uint32_t old = *a;
    *a = *b;
    *b = old;
}

/* Moves the first of `count` units of the heap down to where it belongs. */
static void sink(const ranking *r, size_t count)
{
    for (size_t at = 0, child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && before(r, r->best[child], r->best[child + 1]))
            child++;
        if (before(r, r->best[child], r->best[at]))
            return;
        exchange(&r->best[child], &r->best[at]);
    }
}

static void consider(ranking *r, uint32_t unit)
{
    if (r->count < r->most) {
        size_t at = r->count++;
        r->best[at] = unit;
        for (; at > 0 && before(r, r->best[(at - 1) / 2], r->best[at]); at = (at - 1) / 2)
            exchange(&r->best[at], &r->best[(at - 1) / 2]);
    } else if (before(r, unit, r->best[0])) {
        r->best[0] = unit;
        sink(r, r->count);
    }
}

/* Puts the best of a list into `best` [most], the best first; returns how many there are. */
static size_t rank(const hot_set *h, float sign, const uint32_t *list, size_t count, size_t most, uint32_t *best)
{
    ranking r = {h->score, sign, best, 0, most};
    for (size_t i = 0; i < count && most > 0; i++)
        consider(&r, list[i]);
    for (size_t left = r.count; left > 1; left--) { /* the worst goes to the end */
        exchange(&best[0], &best[left - 1]);
        sink(&r, left - 1);
    }
    return r.count;
}

/* Returns whether two scores differ by more than chance makes them. */
static bool differs(float hot, float cold)
{
    return hot - cold > HOT_DEVIATIONS * sqrtf((hot + cold) / 2);
}

size_t hot_set_choose(const hot_set *h, const uint32_t *device, size_t device_count, const uint32_t *cpu,
                      size_t cpu_count, size_t most, uint32_t *leave, uint32_t *enter)
{
    if (h->seen < HOT_LEAST_TOKENS)
        return 0;
    size_t cold = rank(h, -1, device, device_count, most, leave), hot = rank(h, 1, cpu, cpu_count, most, enter);
    size_t pairs = cold < hot ? cold : hot, count = 0;
    while (count < pairs && differs(h->score[enter[count]], h->score[leave[count]]))
        count++;
    return count;
}
