/* solve.c - see solve.h. Rejected: a Lagrange multiplier on the bytes, with the lower convex hull of every item. Equal
 * layers with a fixed cost for the first one on the device have no tangent between none of them and all, and what lies
 * between was found only by trying every run of layers; with few items it missed the best by up to 6 %. */
#include "solve.h"

#include "../base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Ways that are kept after each item and for each side: one for every share of all bytes. */
#define PLACES 8192
/* The sides a way may end on. */
enum { ON_HOST, ON_DEVICE, SIDES };

/* An option of an item. */
typedef struct point {
    double bytes, seconds;
    uint32_t choice;
} point;

/* The options of an item, by bytes: each takes less time than all with fewer bytes. */
typedef struct item {
    point *options; /* [count] */
    size_t count;
} item;

/* The fastest way found to a place. */
typedef struct way {
    double bytes, seconds; /* seconds INFINITY: there is none */
} way;

/* How it came there: from which place and side after the item before, and by which choice. */
typedef struct origin {
    uint32_t choice;
    uint16_t place;
    uint8_t side;
} origin;

struct solver {
    const solve_problem *p;
    item *items;      /* [count] */
    double place;     /* bytes of a place */
    way *before;      /* [SIDES][PLACES] after the item before */
    way *after;       /* [SIDES][PLACES] after the item        */
    origin *origins;  /* [count][SIDES][PLACES]                */
    uint32_t *choice; /* [count] of the way that is looked at  */
};

/* ------------------------------------------------------------------ what a choice takes */

static double change_cost(const solve_problem *p, bool from_device, bool to_device)
{
    return from_device != to_device ? p->change_seconds : 0;
}

solve_result solve_evaluate(const uint32_t *choice, const solve_problem *p)
{
    solve_result r = {0};
    bool before = false, any = false;
    for (size_t i = 0; i < p->count; i++) {
        bool now = choice[i] != SOLVE_HOST;
        const solve_option *o = now ? &p->items[i].options[choice[i]] : NULL;
        r.seconds += (o ? o->seconds : p->items[i].host_seconds) + change_cost(p, before, now);
        r.bytes += o ? o->bytes : 0;
        any |= now;
        before = now;
    }
    r.seconds += change_cost(p, before, false) + (any ? p->base_seconds : 0);
    r.bytes += any ? p->base_bytes : 0;
    return r;
}

/* ------------------------------------------------------------------ the frontier */

/* Takes a way to its place, if it is the fastest there. */
static void take(solver *s, size_t i, unsigned side, way w, origin from)
{
    size_t place = (size_t)(w.bytes / s->place), at = side * PLACES + (place < PLACES ? place : PLACES - 1);
    if (!(w.seconds < s->after[at].seconds))
        return;
    s->after[at] = w;
    s->origins[i * SIDES * PLACES + at] = from;
}

/* Drops ways that take no less time than one with fewer bytes on the same side. */
static void drop_slower(way *ways)
{
    double least = INFINITY;
    for (size_t b = 0; b < PLACES; b++) {
        if (ways[b].seconds < least)
            least = ways[b].seconds;
        else
            ways[b].seconds = INFINITY;
    }
}

/* Extends every way by every choice of an item. */
static void extend(solver *s, size_t i)
{
    const solve_problem *p = s->p;
    const item *m = &s->items[i];
    for (size_t k = 0; k < SIDES * PLACES; k++)
        s->after[k].seconds = INFINITY;
    for (unsigned side = 0; side < SIDES; side++)
        for (size_t b = 0; b < PLACES; b++) {
            way w = s->before[side * PLACES + b];
            if (!isfinite(w.seconds))
                continue;
            origin from = {SOLVE_HOST, (uint16_t)b, (uint8_t)side};
            double host = p->items[i].host_seconds + change_cost(p, side == ON_DEVICE, false);
            take(s, i, ON_HOST, (way){w.bytes, w.seconds + host}, from);
            double change = change_cost(p, side == ON_DEVICE, true);
            for (size_t k = 0; k < m->count; k++) {
                from.choice = m->options[k].choice;
                take(s, i, ON_DEVICE, (way){w.bytes + m->options[k].bytes, w.seconds + change + m->options[k].seconds},
                     from);
            }
        }
    drop_slower(s->after);
    drop_slower(s->after + PLACES);
    way *spare = s->before;
    s->before = s->after;
    s->after = spare;
}

/* ------------------------------------------------------------------ the best way within the budget */

/* Writes the choices of a way that ends at a place on a side. */
static void trace_back(const solver *s, unsigned side, size_t place)
{
    for (size_t i = s->p->count; i-- > 0;) {
        origin from = s->origins[(i * SIDES + side) * PLACES + place];
        s->choice[i] = from.choice;
        side = from.side;
        place = from.place;
    }
}

/* Changes the option of the one item on the device for which the bytes that are left gain most. */
static void fill(const solver *s, double left)
{
    const point *most = NULL;
    size_t where = 0;
    double gain = 0;
    for (size_t i = 0; i < s->p->count; i++) {
        const item *m = &s->items[i];
        if (s->choice[i] == SOLVE_HOST)
            continue;
        solve_option now = s->p->items[i].options[s->choice[i]];
        size_t low = 0, high = m->count; /* the last one that fits is the fastest that does */
        while (low + 1 < high) {
            size_t middle = (low + high) / 2;
            *(m->options[middle].bytes - now.bytes <= left ? &low : &high) = middle;
        }
        if (m->options[low].bytes - now.bytes <= left && now.seconds - m->options[low].seconds > gain) {
            gain = now.seconds - m->options[low].seconds;
            most = &m->options[low];
            where = i;
        }
    }
    if (most)
        s->choice[where] = most->choice;
}

/* Looks at every way of the frontier that fits into a budget, after everything on the CPU. */
solve_result solver_choose(solver *s, double budget, uint32_t *choice)
{
    const solve_problem *p = s->p;
    for (size_t i = 0; i < p->count; i++)
        choice[i] = SOLVE_HOST;
    solve_result best = solve_evaluate(choice, p);
    for (unsigned side = 0; side < SIDES; side++)
        for (size_t b = 0; b < PLACES; b++) {
            double left = budget - p->base_bytes - s->before[side * PLACES + b].bytes;
            if (!isfinite(s->before[side * PLACES + b].seconds) || left < 0)
                continue;
            trace_back(s, side, b);
            fill(s, left);
            solve_result found = solve_evaluate(s->choice, p);
            if (found.seconds < best.seconds && found.bytes <= budget) {
                memcpy(choice, s->choice, p->count * sizeof *choice);
                best = found;
            }
        }
    return best;
}

/* ------------------------------------------------------------------ opening */

static int by_bytes(const void *left, const void *right)
{
    const point *a = left, *b = right;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    return a->seconds < b->seconds ? -1 : a->seconds > b->seconds;
}

/* Keeps the options of an item that are worth their bytes. */
static void describe_item(item *to, const solve_item *from)
{
    for (size_t i = 0; i < from->option_count; i++)
        to->options[i] = (point){from->options[i].bytes, from->options[i].seconds, (uint32_t)i};
    qsort(to->options, from->option_count, sizeof *to->options, by_bytes);
    for (size_t i = 0; i < from->option_count; i++)
        if (to->count == 0 || to->options[i].seconds < to->options[to->count - 1].seconds)
            to->options[to->count++] = to->options[i];
}

/* Allocates a solver with all that it needs in one piece. */
static hearth_status allocate(solver **out, const solve_problem *p, hearth_error *error)
{
    size_t points = 0, ways = 2 * SIDES * PLACES, origins = p->count * SIDES * PLACES;
    for (size_t i = 0; i < p->count; i++) {
        points += p->items[i].option_count;
        if (p->items[i].option_count == 0 && !isfinite(p->items[i].host_seconds))
            return fail(error, HEARTH_INVALID, "plan: item %zu can be neither on the CPU nor on the device", i);
    }
    size_t bytes = sizeof(solver) + ways * sizeof(way) + points * sizeof(point) +
                   p->count * (sizeof(item) + sizeof(uint32_t)) + origins * sizeof(origin);
    solver *s = mem_new(bytes);
    if (!s)
        return fail_memory(error, "plan", bytes);
    *s = (solver){.p = p, .before = (way *)(s + 1)};
    s->after = s->before + SIDES * PLACES;
    s->items = (item *)(s->after + SIDES * PLACES);
    point *next = (point *)(s->items + p->count);
    s->origins = (origin *)(next + points);
    s->choice = (uint32_t *)(s->origins + origins);
    for (size_t i = 0; i < p->count; i++) {
        s->items[i] = (item){.options = next};
        next += p->items[i].option_count;
    }
    *out = s;
    return HEARTH_OK;
}

hearth_status solver_open(solver **out, const solve_problem *p, hearth_error *error)
{
    solver *s = NULL;
    double most = 0;
    TRY(allocate(&s, p, error));
    for (size_t i = 0; i < p->count; i++) {
        describe_item(&s->items[i], &p->items[i]);
        most += s->items[i].count > 0 ? s->items[i].options[s->items[i].count - 1].bytes : 0;
    }
    s->place = most > 0 ? most / (PLACES - 1) : 1;
    for (size_t k = 0; k < SIDES * PLACES; k++)
        s->before[k].seconds = INFINITY;
    s->before[0] = (way){0, 0};
    for (size_t i = 0; i < p->count; i++)
        extend(s, i);
    *out = s;
    return HEARTH_OK;
}

void solver_close(solver *s)
{
    mem_free(s);
}
