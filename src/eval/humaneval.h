/* humaneval.h - measures whether a model writes programs that work, with HumanEval (Chen and others, arXiv 2107.03374):
 * the model completes the beginnings of Python functions, and a program then checks what they return.
 *
 *     pass@1 = mean over the problems of (completions that pass / completions tried)
 *
 * The programs run one after the other, in a sandbox (sandbox.h) and nowhere else. A completion passes if the whole
 * program - prompt, completion, test, call of the test - reaches its end in time without an exception. A model's
 * completions are cut at humaneval_stops, which start something new after a function; given completions are taken as
 * they are. Prompts are continued as plain text, without a chat template.
 *
 * Problems, completions and results are empty when zeroed, and freed by their functions, also after a failure. */
#ifndef EVAL_HUMANEVAL_H
#define EVAL_HUMANEVAL_H

#include "../base/memory.h"
#include "../base/text.h"

/* ------------------------------------------------------------------ files (humaneval_file.c) */

/* Strings are NUL-terminated and belong to `memory`. */
typedef struct humaneval_problem {
    const char *task_id;     /* "HumanEval/0"                                       */
    const char *prompt;      /* imports, the function's signature and docstring */
    const char *entry_point; /* the function's name, a plain identifier             */
    const char *test;        /* defines check(candidate)                            */
    const char *canonical;   /* a correct completion; NULL: the file has none */
} humaneval_problem;

typedef struct humaneval_problems {
    humaneval_problem *items;
    size_t count, capacity;
    arena memory;
} humaneval_problems;

/* Reads JSON lines of task_id, prompt, entry_point, test and canonical_solution, plain or gzipped, in the format of
 * OpenAI's human-eval. Blank lines and members of other names are skipped.
 * HEARTH_FORMAT: anything else; the error names the line and the member. */
hearth_status humaneval_read(humaneval_problems *out, const char *path, hearth_error *error);
/* Does the same with bytes in memory; `name` is for errors. */
hearth_status humaneval_parse(humaneval_problems *out, span bytes, const char *name, hearth_error *error);
void humaneval_problems_free(humaneval_problems *p);

typedef struct humaneval_completion {
    size_t problem; /* index                                               */
    span text;
    bool no_room; /* nothing was generated: the prompt does not fit the context */
} humaneval_completion;

typedef struct humaneval_completions {
    humaneval_completion *items;
    size_t count, capacity;
    arena memory;
} humaneval_completions;

/* Adds a completion; copies text. HEARTH_NO_MEMORY. */
hearth_status humaneval_add(humaneval_completions *c, size_t problem, span text, hearth_error *error);
/* Reads JSON lines of task_id and completion, any number for each problem, plain or gzipped.
 * HEARTH_FORMAT: also a task_id that no problem has. */
hearth_status humaneval_read_completions(humaneval_completions *out, const char *path,
                                         const humaneval_problems *problems, hearth_error *error);
hearth_status humaneval_parse_completions(humaneval_completions *out, span bytes, const char *name,
                                          const humaneval_problems *problems, hearth_error *error);
/* Writes such a file, which appears only once it is complete. Problems that had no room get an empty completion. */
hearth_status humaneval_save(const char *path, const humaneval_problems *problems,
                             const humaneval_completions *completions, hearth_error *error);
/* Checks that each of the first `limit` problems (0: all) has a completion; `name`, their source, is for the error.
 * HEARTH_FORMAT: one has none. */
hearth_status humaneval_check_complete(const humaneval_completions *completions, const humaneval_problems *problems,
                                       size_t limit, const char *name, hearth_error *error);
void humaneval_completions_free(humaneval_completions *c);

/* ------------------------------------------------------------------ running (humaneval.c) */

#define HUMANEVAL_TOKENS  512
#define HUMANEVAL_SECONDS 10.0

typedef struct humaneval_options {
    const hearth_sampling *sampling; /* restarts with every problem; NULL: greedy */
    uint32_t max_tokens;             /* per completion; 0: HUMANEVAL_TOKENS */
    uint32_t context;                /* of the session; 0: the model's */
    hearth_kv kv;
    size_t limit;           /* only the first `limit` problems; 0: all */
    double timeout_seconds; /* wall time per program; 0: HUMANEVAL_SECONDS */
    hearth_progress progress;
} humaneval_options;

/* Strings at which a completion is cut, and how many there are. */
extern const char *const humaneval_stops[];
extern const size_t humaneval_stop_count;

#define HUMANEVAL_WHY 200

typedef struct humaneval_verdict {
    const char *task_id; /* the problem's */
    uint32_t tried, passed;
    char why[HUMANEVAL_WHY]; /* why the first failed completion failed; untrusted text; "": all passed */
} humaneval_verdict;

typedef struct humaneval_result {
    humaneval_verdict *verdicts; /* [count] by problem                       */
    size_t count;
    double pass_at_1;
    double standard_error; /* of pass_at_1 as a mean over problems; 0 for one problem */
    size_t solved;         /* problems whose completions all passed */
    size_t tried, passed;  /* completions                                    */
    size_t timeouts, no_room;
    uint64_t tokens; /* generated by the model; 0 for given completions */
    double complete_seconds, check_seconds;
    const char *sandbox; /* how programs were isolated, for people */
} humaneval_result;

/* Has the engine's model complete the problems. HEARTH_UNSUPPORTED: it has no tokenizer. */
hearth_status humaneval_complete(humaneval_completions *out, uint64_t *tokens, const hearth_engine *engine,
                                 const humaneval_problems *problems, const humaneval_options *options,
                                 hearth_error *error);
/* Runs the programs. HEARTH_UNSUPPORTED: there is no sandbox, or no Python in it; nothing was run. HEARTH_FORMAT: a
 * problem (within the limit) has no completion. */
hearth_status humaneval_check(humaneval_result *out, const humaneval_problems *problems,
                              const humaneval_completions *completions, const humaneval_options *options,
                              hearth_error *error);
/* Completes and checks; first finds out whether programs can be run at all. */
hearth_status humaneval_run(humaneval_result *out, const hearth_engine *engine, const humaneval_problems *problems,
                            const humaneval_options *options, hearth_error *error);
/* Checks whether programs can be run; fails with the error that humaneval_check would give. *sandbox (may be NULL) is
 * as in the result. */
hearth_status humaneval_can_check(const char **sandbox, hearth_error *error);
void humaneval_result_free(humaneval_result *r);

#endif
