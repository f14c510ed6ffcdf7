/* bench_prompts.h - texts that `hearth bench` reads in place of made-up tokens. */
#ifndef CLI_BENCH_PROMPTS_H
#define CLI_BENCH_PROMPTS_H

#include "../base/error.h"

#include <stddef.h>
#include <stdint.h>

/* The tokens of all texts one after another, and where each begins. A zeroed record has none. */
typedef struct bench_prompts {
    int32_t *ids;
    size_t *starts;
    size_t id_count, start_count;
} bench_prompts;

/* Reads a file: problems of HumanEval (*.jsonl, *.jsonl.gz), of which each with its solution is a text; else the lines of a
 * text file that are not empty. Free it also after a failure. HEARTH_FORMAT: there are none. */
hearth_status bench_prompts_read(bench_prompts *out, const hearth_model *model, const char *path, hearth_error *error);
void bench_prompts_free(bench_prompts *p);

#endif
