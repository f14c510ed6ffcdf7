/* main.c - the program: finds the command, runs it, and turns its status into one line and an exit status.
 *
 * Exit status: 0 success; 1 an error; 2 wrong use; 128 + signal when interrupted. */
#include "command.h"
#include "help.h"
#include "options.h"
#include "output.h"
#include "progress.h"

#include <stdlib.h>
#include <string.h>

/* Each command is defined in a file of its own, with its name, function, summary and options. */
const command *const all_commands[] = {
    &command_run,      &command_serve,   &command_pull,     &command_plan,   &command_eval,     &command_bench,
    &command_devices,  &command_convert, &command_quantize, &command_pack,   &command_inspect,  &command_tokenize,
    &command_template, &command_profile, &command_tune,     &command_manual, &command_complete, NULL,
};

#define MAX_COMMANDS 32

const command *command_find(const command *const *among, const char *name)
{
    while (*among && strcmp((*among)->name, name) != 0)
        among++;
    return *among;
}

/* What other programs call a command of ours. */
static const char *const elsewhere[][2] = {{"chat", "run"},     {"generate", "run"},  {"train", "tune"},
                                           {"show", "inspect"}, {"download", "pull"}, {"perplexity", "eval"}};

static const char *named_elsewhere(const char *name)
{
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (strcmp(name, elsewhere[i][0]) == 0)
            return elsewhere[i][1];
    return NULL;
}

/* parent: the command whose subcommands are searched, or NULL. */
static hearth_status unknown_command(const char *where, const command *parent, const char *name,
                                     const command *const *among, hearth_error *error)
{
    const char *names[MAX_COMMANDS];
    char all[256] = "";
    size_t count = 0;
    for (; count < MAX_COMMANDS && among[count]; count++) {
        size_t used = strlen(all);
        names[count] = among[count]->name;
        snprintf(all + used, sizeof all - used, "%s%s", count ? ", " : "", names[count]);
    }
    const char *meant = parent ? NULL : named_elsewhere(name);
    if (!meant)
        meant = options_suggest(name, names, count);
    if (meant)
        return fail(error, HEARTH_INVALID, "%s: unknown command; did you mean %s%s?", name, where, meant);
    if (parent)
        return fail(error, HEARTH_INVALID, "%s: %s: is not one of %s", parent->name, name, all);
    return fail(error, HEARTH_INVALID, "%s: unknown command; `hearth help` lists them", name);
}

static hearth_status find_command(const char *where, const command *parent, const char *name, const command **out,
                                  hearth_error *error)
{
    const command *const *all = parent ? parent->subcommands : all_commands;
    *out = command_find(all, name);
    return *out ? HEARTH_OK : unknown_command(where, parent, name, all, error);
}

static hearth_status run_command(const command *c, char *const *arguments, size_t count, hearth_error *error)
{
    arena memory = {0};
    operands rest;
    bool help;
    void *values = mem_new(c->values_size);
    if (!values)
        return fail_memory(error, c->name, c->values_size);
    if (c->defaults)
        c->defaults(values);
    hearth_status status = options_parse(c, arguments, count, values, &rest, &help, &memory, error);
    if (status == HEARTH_OK && help)
        help_command(c);
    else if (status == HEARTH_OK)
        status = c->run(values, &rest, error);
    mem_free(values);
    arena_clear(&memory);
    return status;
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* Runs `hearth NAME ...` or, for a command with subcommands, `hearth NAME SUBCOMMAND ...`. */
static hearth_status dispatch(char *const *arguments, size_t count, hearth_error *error)
{
    const command *c;
    TRY(find_command("", NULL, arguments[0], &c, error));
    if (!c->subcommands)
        return run_command(c, arguments + 1, count - 1, error);
    if (count == 1)
        return fail(error, HEARTH_INVALID, "%s: needs a subcommand; `hearth help %s` lists them", c->name, c->name);
    if (is_help(arguments[1])) {
        help_command(c);
        return HEARTH_OK;
    }
    char where[32];
    snprintf(where, sizeof where, "%s ", c->name);
    const command *sub;
    TRY(find_command(where, c, arguments[1], &sub, error));
    return run_command(sub, arguments + 2, count - 2, error);
}

/* Handles `hearth help`, `hearth help eval`, `hearth help eval ppl`. */
static hearth_status show_help(char *const *arguments, size_t count, hearth_error *error)
{
    if (count == 0 || is_help(arguments[0]) || strcmp(arguments[0], "help") == 0) {
        help_overview();
        return HEARTH_OK;
    }
    const command *c;
    TRY(find_command("help ", NULL, arguments[0], &c, error));
    if (count > 1 && c->subcommands) {
        char where[32];
        snprintf(where, sizeof where, "help %s ", c->name);
        TRY(find_command(where, c, arguments[1], &c, error));
    }
    help_command(c);
    return HEARTH_OK;
}

static hearth_status start(char *const *arguments, size_t count, hearth_error *error)
{
    if (count == 0 || is_help(arguments[0]))
        return show_help(NULL, 0, error);
    if (strcmp(arguments[0], "help") == 0)
        return show_help(arguments + 1, count - 1, error);
    if (strcmp(arguments[0], "--version") == 0) {
        puts("hearth " HEARTH_VERSION);
        return HEARTH_OK;
    }
    if (arguments[0][0] == '-')
        return fail(error, HEARTH_INVALID, "%s: a command comes first; `hearth help` lists them", arguments[0]);
    return dispatch(arguments, count, error);
}

static int exit_status(hearth_status status)
{
    if (status == HEARTH_OK)
        return 0;
    if (interrupt_signal())
        return 128 + interrupt_signal();
    return status == HEARTH_INVALID ? 2 : 1;
}

int main(int argc, char **argv)
{
    /* Keeps hwloc, and drivers that use it, from printing warnings to standard error on unusual machines. */
    setenv("HWLOC_HIDE_ERRORS", "2", 0);
    output_guard();
    interrupt_install();
    hearth_error error = {0}, lost = {0};
    hearth_status status = start(argv + 1, argc > 0 ? (size_t)argc - 1 : 0, &error);
    /* Lost output is reported only if nothing else failed: one error is one line. */
    hearth_status written = output_close(&lost);
    if (status == HEARTH_OK && written != HEARTH_OK) {
        status = written;
        error = lost;
    }
    if (status != HEARTH_OK && error.text[0])
        output_error(error.text);
    return exit_status(status);
}
