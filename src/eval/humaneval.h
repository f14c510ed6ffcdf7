/* humaneval.h - does a model write programs that work? HumanEval (Chen and others, arXiv 2107.03374): beginnings of
 * Python functions, which the model completes; a program then checks what the function returns.
 *
 *     pass@1 = mean over the problems of (completions that pass / completions tried)
 *
 * The programs are run, one after the other, in a sandbox (sandbox.h) and nowhere else. A completion passes where the
 * whole program - prompt, completion, test, call of the test - reaches its end without an exception, in time.
 * Completions of a model are cut at humaneval_stops, which begin something new after a function; given ones are taken
 * as they are. Prompts are continued as plain text, without a chat template.
 *
 * Problems, completions and results are zeroed when empty, and freed by their functions, also after a failure. */
#ifndef EVAL_HUMANEVAL_H
#define EVAL_HUMANEVAL_H

#include "../base/memory.h"
#include "../base/text.h"

/* ------------------------------------------------------------------ files (humaneval_file.c) */

/* Texts are terminated, and belong to `memory`. */
typedef struct humaneval_problem {
    const char *task_id;     /* "HumanEval/0"                                       */
    const char *prompt;      /* imports, the function's head and its description    */
    const char *entry_point; /* the function's name, a plain identifier             */
    const char *test;        /* defines check(candidate)                            */
    const char *canonical;   /* a completion that is right; NULL: the file has none */
} humaneval_problem;

typedef struct humaneval_problems {
    humaneval_problem *items;
    size_t count, capacity;
    arena memory;
} humaneval_problems;

/* JSON lines of task_id, prompt, entry_point, test and canonical_solution, plain or as gzip packs them, as OpenAI's
 * human-eval has them. Lines of blanks are passed over, members of other names too.
 * HEARTH_FORMAT: anything else, the line and member named. */
hearth_status humaneval_read(humaneval_problems *out, const char *path, hearth_error *error);
/* The same of bytes that are there already; `name` is for errors. */
hearth_status humaneval_parse(humaneval_problems *out, span bytes, const char *name, hearth_error *error);
void humaneval_problems_free(humaneval_problems *p);

typedef struct humaneval_completion {
    size_t problem; /* index                                               */
    span text;
    bool no_room; /* none was made: the prompt does not fit the context  */
} humaneval_completion;

typedef struct humaneval_completions {
    humaneval_completion *items;
    size_t count, capacity;
    arena memory;
} humaneval_completions;

/* Copies text. HEARTH_NO_MEMORY. */
hearth_status humaneval_add(humaneval_completions *c, size_t problem, span text, hearth_error *error);
/* JSON lines of task_id and completion, any number for each problem, plain or packed.
 * HEARTH_FORMAT: also a task_id that no problem has. */
hearth_status humaneval_read_completions(humaneval_completions *out, const char *path,
                                         const humaneval_problems *problems, hearth_error *error);
hearth_status humaneval_parse_completions(humaneval_completions *out, span bytes, const char *name,
                                          const humaneval_problems *problems, hearth_error *error);
/* Writes such a file; it appears when it is whole. Problems that had no room get an empty completion. */
hearth_status humaneval_save(const char *path, const humaneval_problems *problems,
                             const humaneval_completions *completions, hearth_error *error);
/* Whether each of the first `limit` problems (0: all) has a completion; `name` of where they are is for the error.
 * HEARTH_FORMAT: one has none. */
hearth_status humaneval_check_complete(const humaneval_completions *completions, const humaneval_problems *problems,
                                       size_t limit, const char *name, hearth_error *error);
void humaneval_completions_free(humaneval_completions *c);

/* ------------------------------------------------------------------ running (humaneval.c) */

#define HUMANEVAL_TOKENS  512
#define HUMANEVAL_SECONDS 10.0

typedef struct humaneval_options {
    const hearth_sampling *sampling; /* starts afresh with every problem; NULL: greedy     */
    uint32_t max_tokens;             /* of a completion; 0: HUMANEVAL_TOKENS               */
    uint32_t context;                /* of the session; 0: the model's                     */
    hearth_kv kv;
    size_t limit;           /* only the first so many problems; 0: all                     */
    double timeout_seconds; /* wall time of a program; 0: HUMANEVAL_SECONDS                */
    hearth_progress progress;
} humaneval_options;

/* Where a completion ends: the strings and how many there are. */
extern const char *const humaneval_stops[];
extern const size_t humaneval_stop_count;

#define HUMANEVAL_WHY 200

typedef struct humaneval_verdict {
    const char *task_id; /* the problem's */
    uint32_t tried, passed;
    char why[HUMANEVAL_WHY]; /* what became of the first completion that did not pass; hostile text; "": all passed */
} humaneval_verdict;

typedef struct humaneval_result {
    humaneval_verdict *verdicts; /* [count] by problem                       */
    size_t count;
    double pass_at_1;
    double standard_error; /* of this mean over problems; 0 for one problem  */
    size_t solved;         /* problems of which every completion passed      */
    size_t tried, passed;  /* completions                                    */
    size_t timeouts, no_room;
    uint64_t tokens; /* that the model wrote; 0 for given completions  */
    double complete_seconds, check_seconds;
    const char *sandbox; /* how programs were kept in, for people          */
} humaneval_result;

/* Lets the engine's model complete the problems. HEARTH_UNSUPPORTED: it has no tokenizer. */
hearth_status humaneval_complete(humaneval_completions *out, uint64_t *tokens, const hearth_engine *engine,
                                 const humaneval_problems *problems, const humaneval_options *options,
                                 hearth_error *error);
/* Runs the programs. HEARTH_UNSUPPORTED: there is no sandbox, or no Python in it; nothing was run. HEARTH_FORMAT: a
 * problem (within the limit) has no completion. */
hearth_status humaneval_check(humaneval_result *out, const humaneval_problems *problems,
                              const humaneval_completions *completions, const humaneval_options *options,
                              hearth_error *error);
/* Both; whether programs can be run is found out first. */
hearth_status humaneval_run(humaneval_result *out, const hearth_engine *engine, const humaneval_problems *problems,
                            const humaneval_options *options, hearth_error *error);
/* What is missing before programs can be run, if anything, as humaneval_check would say it; *sandbox (may be NULL) as
 * in the result. */
hearth_status humaneval_can_check(const char **sandbox, hearth_error *error);
void humaneval_result_free(humaneval_result *r);

#endif
