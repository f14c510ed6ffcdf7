/* complete.c - `hearth complete`: what may come next in a command line, for the completion of shells.
 *
 * The shells' own scripts (packaging/completion) know neither commands nor options: they hand over the words up to the
 * cursor and offer what this prints, which it reads from the tables of the parser. So the completion is that of the
 * program that is about to run. Scripts with every option in them would say in three languages, each with its own
 * rules of quoting, what one loop says here. */
#include "help.h"
#include "options.h"

#include <stdio.h>
#include <string.h>

/* Printed alone, where the names of files are to be offered: shells list them better. */
#define FILES ":files"

/* Offers prefix and word, as one, if that continues what was typed. about: what it is, or NULL. */
static void offer(const char *typed, const char *prefix, const char *word, const char *about)
{
    char whole[128];
    snprintf(whole, sizeof whole, "%s%s", prefix, word);
    if (strncmp(whole, typed, strlen(typed)) == 0)
        printf("%s%s%s\n", whole, about ? "\t" : "", about ? about : "");
}

static void offer_commands(const char *typed, const command *const *commands)
{
    for (; *commands; commands++)
        offer(typed, "", (*commands)->name, (*commands)->summary);
}

/* Offers what may come first: a command, or what main.c takes in place of one. */
static void offer_first(const char *typed)
{
    offer_commands(typed, all_commands);
    offer(typed, "", "help", "explain a command");
    if (typed[0] == '-') {
        offer(typed, "--", "help", HELP_HELP);
        offer(typed, "--", "version", HELP_VERSION);
    }
}

static void offer_options(const char *typed, const command *c)
{
    for (const option_table *t = c->tables; t < c->tables + MAX_OPTION_TABLES && t->rows; t++)
        for (size_t i = 0; i < t->count; i++)
            offer(typed, "--", t->rows[i].name, t->rows[i].help);
    offer(typed, "--", "help", HELP_HELP);
}

/* Offers each of a list, "q4_0, q8_0". */
static void offer_list(const char *typed, const char *prefix, void (*list)(char *text, size_t size))
{
    char all[512], *rest = NULL;
    list(all, sizeof all);
    for (char *name = strtok_r(all, ", ", &rest); name; name = strtok_r(NULL, ", ", &rest))
        offer(typed, prefix, name, NULL);
}

/* Offers what an option's value may be. prefix: what stands before it in the same word, "--kv=". */
static void offer_values(const char *typed, const char *prefix, const option *o)
{
    if (o->choices) {
        for (const char *const *choice = o->choices; *choice; choice++)
            offer(typed, prefix, *choice, NULL);
    } else if (o->list && !strchr(o->value, '=')) { /* of NAME=TYPE the list has the second part */
        offer_list(typed, prefix, o->list);
    } else if (o->kind == OPTION_TEXT || o->kind == OPTION_TEXTS) {
        puts(FILES);
    }
}

static void offer_operand(const char *typed, const command *c, size_t before)
{
    if (c->last_operand && before + 1 == c->operands_most)
        offer_list(typed, "", c->last_operand);
    else if (before < c->operands_most)
        puts(FILES);
}

/* Offers what may come in a command's line: words are those after its name, the last one is being typed. */
static void offer_arguments(const command *c, const char *const *words, size_t count)
{
    const char *typed = words[count - 1];
    const option *awaits = NULL; /* the option whose value comes next */
    const option_table *table;
    bool only_operands = false;
    size_t before = 0; /* operands */
    for (size_t i = 0; i + 1 < count; i++) {
        bool is_operand = !awaits && (only_operands || words[i][0] != '-');
        const option *o = awaits || is_operand ? NULL : options_find(c, words[i], &table);
        before += is_operand;
        only_operands = only_operands || (!awaits && strcmp(words[i], "--") == 0);
        awaits = o && o->kind != OPTION_FLAG && !strchr(words[i], '=') ? o : NULL;
    }
    const char *equals = strchr(typed, '=');
    if (awaits) {
        offer_values(typed, "", awaits);
    } else if (only_operands || typed[0] != '-') {
        offer_operand(typed, c, before);
    } else if (!equals) {
        offer_options(typed, c);
    } else {
        char prefix[64];
        const option *o = options_find(c, typed, &table);
        snprintf(prefix, sizeof prefix, "%.*s", (int)(equals + 1 - typed), typed);
        if (o && o->kind != OPTION_FLAG)
            offer_values(typed, prefix, o);
    }
}

static hearth_status run_complete(void *values, operands *rest, hearth_error *error)
{
    (void)values;
    (void)error;
    const char *const *words = rest->items;
    const char *typed = words[rest->count - 1];
    bool is_help = rest->count > 1 && strcmp(words[0], "help") == 0;
    const command *c = NULL;
    const command *const *among = all_commands; /* NULL: the command is known */
    size_t i = is_help;
    for (; among && i + 1 < rest->count; i++) {
        c = command_find(among, words[i]);
        if (!c)
            return HEARTH_OK; /* a command that there is not has nothing to offer */
        among = c->subcommands;
    }
    if (rest->count == 1)
        offer_first(typed);
    else if (among)
        offer_commands(typed, among);
    else if (!is_help)
        offer_arguments(c, words + i, rest->count - i);
    return HEARTH_OK;
}

const command command_complete = {
    .name = "complete",
    .path = "complete",
    .summary = "say what may come next in a command line, for shells",
    .usage = "-- [WORD...] TYPED",
    .about =
        "Takes the words of a command line without the first, of which the last is being typed and may be empty, and "
        "prints what that may become: on each line a word and, after a tab, what it is. The line " FILES
        " stands for the names of files. The scripts for bash, zsh and fish ask this.",
    .example = "  $ hearth complete -- run --kv ''\n"
               "  f16\n"
               "  f32\n"
               "  q8_0",
    .values_size = 1,
    .operands_least = 1,
    .operands_most = SIZE_MAX,
    .run = run_complete,
};
