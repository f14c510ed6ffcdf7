/* bench_ways.h - `hearth bench --simulate-vram`: what a device with so much memory is worth, by each way there is of using it.
 * For each size of the memory the ways take turns, run by run, each with an engine and a device of its own. */
#ifndef CLI_BENCH_WAYS_H
#define CLI_BENCH_WAYS_H

#include "../eval/bench.h"
#include "common.h"

typedef struct ways_options {
    const engine_options *engine;
    const char *sizes; /* of the device's memory: "2G,4G,8G"                                      */
    const char *names; /* of the ways: "static,adaptive,off,cpu" or some of them; NULL: all */
    const bench_options *bench;
    const char *plot; /* picture to write; NULL: none                                             */
    bool json;
} ways_options;

/* Measures and prints all of it. HEARTH_INVALID: a size or a way that is none. HEARTH_NO_MEMORY, HEARTH_DEVICE: an engine cannot
 * be made. */
hearth_status bench_ways(hearth_model *model, const ways_options *options, progress *p, hearth_error *error);

#endif
