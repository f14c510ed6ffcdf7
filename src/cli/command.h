/* command.h - defines a command as a row of data (name, options, help) and one function.
 *
 * main.c finds the row, options.c fills the command's own record of values from the command line by the row's tables,
 * help.c prints the same tables as text. So a command never sees argv, and everything about an option is stated
 * once. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include "../base/error.h"
#include "../base/memory.h"

#include <stddef.h>

typedef enum option_kind {
    OPTION_FLAG,        /* bool: true when given                                          */
    OPTION_TEXT,        /* const char * */
    OPTION_TEXTS,       /* text_list: may be given several times                          */
    OPTION_COUNT,       /* uint32_t within [least, most]                                  */
    OPTION_SIZE,        /* uint64_t: bytes, such as 500M or 4G; rows leave 0 where none is given */
    OPTION_SEED,        /* optional_seed: any uint64_t                                    */
    OPTION_NUMBER,      /* float within [least, most]                                     */
    OPTION_GIVEN,       /* optional_number: the same, but records whether it was given */
    OPTION_GIVEN_COUNT, /* optional_count: any uint32_t, likewise                      */
    OPTION_CHOICE,      /* unsigned: index into `choices`                                 */
    OPTION_LIST,        /* number_list: 1,2,3 or @FILE, each within [least, most]         */
    OPTION_KIND_COUNT
} option_kind;

typedef struct text_list {
    const char **items;
    size_t count;
} text_list;

typedef struct number_list {
    int32_t *items;
    size_t count;
} number_list;

typedef struct optional_seed {
    bool given;
    uint64_t value;
} optional_seed;

typedef struct optional_number {
    bool given;
    float value;
} optional_number;

typedef struct optional_count {
    bool given;
    uint32_t value;
} optional_count;

typedef struct option {
    char letter;       /* 'm' for -m; 0: none                               */
    const char *name;  /* "model" for --model                               */
    const char *alias; /* another accepted long name, or NULL */
    const char *word;  /* "ngl" for -ngl, as in llama.cpp; NULL: none */
    option_kind kind;
    size_t target;     /* offset in the record that the table belongs to    */
    const char *value; /* placeholder of the value in help: "FILE"; NULL for flags */
    const char *help;
    double least, most;         /* of numbers; both 0: whatever the type holds */
    bool unlimited;             /* counts: -1 is accepted as 0, "no limit" */
    bool none;                  /* sizes: 0 is accepted as 1 byte, as little as can be */
    const char *const *choices; /* NULL-terminated                                   */
    /* Appends the possible values, which some other table defines, after `help`; NULL: nothing. */
    void (*list)(char *out, size_t size);
} option;

/* The columns that every row has; set others by name. */
#define OPTION_ROW(letter_, name_, kind_, record, field, value_, help_)                              \
    .letter = (letter_), .name = (name_), .kind = OPTION_##kind_, .target = offsetof(record, field), \
    .value = (value_), .help = (help_)

/* The rows of --threads and --cpu, for every command that computes. */
#define THREADS_ROW(record, field)                                                                   \
    {                                                                                                \
        .least = 1, .most = 1024,                                                                    \
        OPTION_ROW('t', "threads", COUNT, record, field, "N", "threads; else one per physical core") \
    }
#define CPU_ROW(record, field)                                                                              \
    {                                                                                                       \
        OPTION_ROW(0, "cpu", TEXT, record, field, "LEVEL",                                                  \
                   "instruction set (`hearth devices` lists them); else what the environment's HEARTH_CPU " \
                   "says, else the best there is")                                                          \
    }

/* Options shown as one group, for a record that lies at `base` within the command's values. */
typedef struct option_table {
    const char *title;
    const option *rows;
    size_t count;
    size_t base;
} option_table;

#define OPTION_TABLE(title, rows, base)                  \
    {                                                    \
        title, rows, sizeof(rows) / sizeof *(rows), base \
    }
#define MAX_OPTION_TABLES 6

/* The arguments of the command line that are not options. */
typedef struct operands {
    const char **items;
    size_t count;
    arena *memory;          /* lives as long as the command runs */
    char *const *arguments; /* [argument_count] all of them, as they were given behind the command's name */
    size_t argument_count;
} operands;

typedef struct command {
    const char *name;
    const char *path;    /* as typed after `hearth`: "run", "eval ppl" */
    const char *summary; /* one line for the list of commands           */
    const char *usage;   /* what follows the name: "[options] [MODEL]"  */
    const char *about;   /* a paragraph                                 */
    const char *example; /* lines as shown in a terminal */
    option_table tables[MAX_OPTION_TABLES];
    size_t values_size;             /* of the record passed to run() */
    void (*defaults)(void *values); /* NULL: zeros */
    size_t operands_least, operands_most;
    void (*last_operand)(char *text, size_t size); /* lists, "q4_0, q8_0", what the last one may be; NULL: a file */
    /* values: filled from the command line. Returns HEARTH_INVALID for wrong use (exit 2). */
    hearth_status (*run)(void *values, operands *rest, hearth_error *error);
    const struct command *const *subcommands; /* NULL-terminated: `hearth eval ppl`; such a command has no run() */
} command;

extern const command command_run;
extern const command command_plan;
extern const command command_eval;
extern const command command_bench;
extern const command command_devices;
extern const command command_convert;
extern const command command_quantize;
extern const command command_pack;
extern const command command_profile;
extern const command command_inspect;
extern const command command_tokenize;
extern const command command_template;
extern const command command_tune;
extern const command command_serve;
extern const command command_pull;
extern const command command_manual;
extern const command command_complete;

/* All of them in the order of the overview, NULL-terminated; main.c. */
extern const command *const all_commands[];
/* Returns the command of that name in a NULL-terminated list; NULL: there is none. */
const command *command_find(const command *const *among, const char *name);

#endif
