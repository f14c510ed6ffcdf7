/* solve.h - chooses for every item in a row where it lies, so that all of them take the least time within a budget.
 *
 * An item (a layer, or the head) is on the CPU, or takes one of several options on the device: more bytes, less time. The
 * items follow one another, and each change of side costs time. This is a knapsack with several choices per item and a
 * cost between neighbours. It knows nothing of models.
 *
 * Item by item, the fastest way to every number of bytes is kept, for each side that it may end on (dynamic programming;
 * bytes are exact, but of those that are nearly equal only the fastest way stays). What comes out is a frontier: ways with
 * more and more bytes that take less and less time. It is the same for every budget, and the answer is the best way that
 * fits, after one further change that fits as well. So a larger budget never gives a slower result. */
#ifndef PLAN_SOLVE_H
#define PLAN_SOLVE_H

#include "../base/error.h"

#include <stddef.h>
#include <stdint.h>

typedef struct solve_option {
    double bytes, seconds;
} solve_option;

typedef struct solve_item {
    double host_seconds; /* INFINITY: it cannot be on the CPU */
    const solve_option *options;
    size_t option_count; /* 0: it cannot be on the device */
} solve_item;

typedef struct solve_problem {
    const solve_item *items;
    size_t count;
    double base_bytes;   /* of it, taken as soon as anything is on the device                */
    double base_seconds; /* added as soon as anything is on the device                       */
    double
        change_seconds; /* from one side to the other; the first item is reached from the CPU, the last leads there */
} solve_problem;

/* The choice of an item that is on the CPU; otherwise a choice is the index of an option. */
#define SOLVE_HOST UINT32_MAX

typedef struct solve_result {
    double seconds, bytes;
} solve_result;

typedef struct solver solver;

/* Finds the frontier of a problem, which the solver goes on reading. HEARTH_INVALID: an item can be nowhere. */
hearth_status solver_open(solver **out, const solve_problem *p, hearth_error *error);
void solver_close(solver *s);

/* Finds choice [count] within a budget of bytes on the device. Where nothing fits, everything is on the CPU; then seconds are
 * INFINITY if an item cannot be there. */
solve_result solver_choose(solver *s, double budget, uint32_t *choice);

/* Computes what a choice takes, all costs included. */
solve_result solve_evaluate(const uint32_t *choice, const solve_problem *p);

#endif
