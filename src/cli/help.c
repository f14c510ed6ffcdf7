/* help.c - lays out help texts from the tables. */
#include "help.h"
#include "../base/memory.h"

#include <stdio.h>
#include <string.h>

/* The column where descriptions begin, and the width of lines. */
#define HELP_COLUMN 32
#define HELP_WIDTH  100
#define LIST_SIZE   512 /* characters of an option's possible values */

/* Prints text from column `at` on, wrapped between words, with further lines indented. */
static void print_wrapped(const char *text, int indent, int at)
{
    while (*text) {
        size_t word = strcspn(text, " \n");
        if (at > indent && at + 1 + (int)word > HELP_WIDTH) {
            printf("\n%*s", indent, "");
            at = indent;
        } else if (at > indent) {
            putchar(' ');
            at++;
        }
        printf("%.*s", (int)word, text);
        at += (int)word;
        text += word;
        if (*text == '\n') {
            printf("\n%*s", indent, "");
            at = indent;
        }
        text += *text != 0;
    }
    putchar('\n');
}

char *help_option(const option *o)
{
    char values[LIST_SIZE] = "";
    if (o->list)
        o->list(values, sizeof values);
    size_t size = strlen(o->help) + strlen(values) + sizeof ": ";
    char *out = mem_new(size);
    if (out)
        snprintf(out, size, "%s%s%s", o->help, o->list ? ": " : "", values);
    return out;
}

static void print_option(const option *o)
{
    char left[96];
    int n = o->letter ? snprintf(left, sizeof left, "  -%c, --%s", o->letter, o->name)
                      : snprintf(left, sizeof left, "      --%s", o->name);
    if (o->value)
        n += snprintf(left + n, sizeof left - (size_t)n, " %s", o->value);
    fputs(left, stdout);
    if (n >= HELP_COLUMN - 1) {
        putchar('\n');
        n = 0;
    }
    printf("%*s", HELP_COLUMN - n, "");
    char *text = help_option(o);
    print_wrapped(text ? text : o->help, HELP_COLUMN, HELP_COLUMN);
    mem_free(text);
}

static void print_commands(const command *const *commands)
{
    for (; *commands; commands++)
        printf("  %-10s  %s\n", (*commands)->name, (*commands)->summary);
}

const char help_about[] =
    "This version skips the neurons that are zero, on the CPU and, where asked, a GPU at the same time.";
const char help_conventions[] =
    "`hearth help COMMAND` explains one of them with an example; `hearth --version` says which this is.\n"
    "MODEL is a GGUF file or a Hugging Face folder everywhere. Results go to standard output, everything else to "
    "standard "
    "error.";

void help_overview(void)
{
    puts("hearth " HEARTH_VERSION " " HELP_PURPOSE ".");
    print_wrapped(help_about, 0, 0);
    puts("\nusage: hearth COMMAND [options]\n");
    print_commands(all_commands);
    putchar('\n');
    print_wrapped(help_conventions, 0, 0);
}

void help_command(const command *c)
{
    printf("usage: hearth %s %s\n\n", c->path, c->usage);
    print_wrapped(c->about, 0, 0);
    if (c->subcommands) {
        putchar('\n');
        print_commands(c->subcommands);
    }
    for (const option_table *t = c->tables; t < c->tables + MAX_OPTION_TABLES && t->rows; t++) {
        printf("\n%s\n", t->title);
        for (size_t i = 0; i < t->count; i++)
            print_option(&t->rows[i]);
    }
    if (c->run)
        printf("  -h, --help%*s" HELP_HELP "\n", HELP_COLUMN - 12, "");
    printf("\nexample\n%s\n", c->example);
}
