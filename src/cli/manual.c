/* manual.c - `hearth manual`: writes the man pages, from the tables that the parser and the help read.
 *
 * The pages are roff with the macros of man(7): hearth.1 about the whole, and one page for each command and subcommand. All
 * text goes through put_text, which escapes what roff takes for its own; requests are written by put alone. */
#include "../base/file.h"
#include "../base/memory.h"
#include "../base/text.h"
#include "help.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SECTION "1"

/* A page while it is written. */
typedef struct page {
    buffer text;
    bool lost; /* no memory: it is not written to a file */
} page;

/* ------------------------------------------------------------------ roff */

__attribute__((format(printf, 2, 3))) static void put(page *p, const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    p->lost |= size < 0 || (size_t)size >= sizeof text || !buffer_put(&p->text, text, (size_t)size);
}

/* Characters that roff would take for its own or print as another one. '-' as such is a hyphen, which is none to copy. */
static const char *escape(char c)
{
    switch (c) {
    case '\\':
        return "\\e";
    case '-':
        return "\\-";
    case '`':
        return "\\(ga";
    case '\'':
        return "\\(aq";
    case '"':
        return "\\(dq";
    case '^':
        return "\\(ha";
    case '~':
        return "\\(ti";
    default:
        return NULL;
    }
}

/* Puts text as it is to be read. A line that begins with a dot would be a request, so it gets a character of no width. */
static void put_text(page *p, const char *text)
{
    for (bool begins = true; *text; text++) {
        const char *escaped = escape(*text);
        if (escaped)
            put(p, "%s", escaped);
        else
            put(p, "%s%c", begins && *text == '.' ? "\\&" : "", *text);
        begins = *text == '\n';
    }
}

/* Puts a paragraph; a line break of the text is one of the page. */
static void put_paragraph(page *p, const char *text)
{
    for (size_t size; *text; text += size + (text[size] != 0)) {
        char line[2048];
        size = strcspn(text, "\n");
        p->lost |= size >= sizeof line;
        snprintf(line, sizeof line, "%.*s", (int)size, text);
        put_text(p, line);
        put(p, "%s", text[size] ? "\n.br\n" : "\n");
    }
}

/* Puts text in a font: "B" bold, "I" italic. */
static void put_font(page *p, const char *font, const char *before, const char *text)
{
    put(p, "\\f%s", font);
    put_text(p, before);
    put_text(p, text);
    put(p, "\\fR");
}

/* ------------------------------------------------------------------ pages */

/* Puts the name of a command's page, "hearth-eval-ppl"; of hearth itself where path is empty. */
static void page_name(char out[64], const char *path)
{
    snprintf(out, 64, "hearth%s%s", *path ? "-" : "", path);
    for (char *c = out; *c; c++)
        if (*c == ' ')
            *c = '-';
}

static void put_reference(page *p, const char *path, const char *behind)
{
    char name[64];
    page_name(name, path);
    put(p, ".BR ");
    put_text(p, name);
    put(p, " (" SECTION ")%s\n", behind);
}

static void put_begin(page *p, const char *path, const char *summary, const char *usage)
{
    char name[64];
    page_name(name, path);
    put(p, ".TH ");
    put_text(p, name);
    put(p, " " SECTION " \"\" \"hearth " HEARTH_VERSION "\"\n.SH NAME\n");
    put_text(p, name);
    put(p, " \\- ");
    put_text(p, summary);
    put(p, "\n.SH SYNOPSIS\n");
    put_font(p, "B", "hearth ", path);
    put(p, "%s", *path ? " " : "");
    put_text(p, usage);
    put(p, "\n.SH DESCRIPTION\n");
}

static void put_commands(page *p, const command *const *commands)
{
    put(p, ".SH COMMANDS\n");
    for (; *commands; commands++) {
        put(p, ".TP\n");
        put_reference(p, (*commands)->path, "");
        put_paragraph(p, (*commands)->summary);
    }
}

static void put_option(page *p, const option *o)
{
    const char letter[2] = {o->letter, 0};
    put(p, ".TP\n");
    if (o->letter) {
        put_font(p, "B", "-", letter);
        put(p, ", ");
    }
    put_font(p, "B", "--", o->name);
    if (o->alias) {
        put(p, ", ");
        put_font(p, "B", "--", o->alias);
    }
    if (o->word) {
        put(p, ", ");
        put_font(p, "B", "-", o->word);
    }
    if (o->value) {
        put(p, " ");
        put_font(p, "I", "", o->value);
    }
    put(p, "\n");
    char *text = help_option(o);
    put_paragraph(p, text ? text : o->help);
    mem_free(text);
}

/* What every command understands without a row of its own. */
static void put_help_option(page *p)
{
    static const option help = {.letter = 'h', .name = "help", .help = HELP_HELP};
    put_option(p, &help);
}

static void put_tables(page *p, const command *c)
{
    put(p, ".SH OPTIONS\n");
    for (const option_table *t = c->tables; t < c->tables + MAX_OPTION_TABLES && t->rows; t++) {
        put(p, ".SS ");
        put_text(p, t->title);
        put(p, "\n");
        for (size_t i = 0; i < t->count; i++)
            put_option(p, &t->rows[i]);
    }
    put_help_option(p);
}

static void put_command_page(page *p, const command *c)
{
    put_begin(p, c->path, c->summary, c->usage);
    put_paragraph(p, c->about);
    if (c->subcommands)
        put_commands(p, c->subcommands);
    else
        put_tables(p, c);
    put(p, ".SH EXAMPLE\n.EX\n");
    put_text(p, c->example);
    put(p, "\n.EE\n.SH SEE ALSO\n");
    put_reference(p, "", "");
}

static void put_overview_page(page *p)
{
    static const option version = {.name = "version", .help = HELP_VERSION};
    put_begin(p, "", HELP_PURPOSE, "COMMAND [options]");
    put_paragraph(p, help_about);
    put(p, ".PP\n");
    put_paragraph(p, help_conventions);
    put_commands(p, all_commands);
    put(p, ".SH OPTIONS\n");
    put_help_option(p);
    put_option(p, &version);
    put(p, ".SH EXIT STATUS\n");
    put_paragraph(p, "0 for success, 1 for an error, 2 for wrong use, 128 + its number for a signal.");
}

/* ------------------------------------------------------------------ files */

/* Writes the page of a command, or that of hearth where c is NULL. */
static hearth_status write_page(const char *folder, const command *c, hearth_error *error)
{
    page p = {0};
    char name[64], path[4096];
    page_name(name, c ? c->path : "");
    if ((size_t)snprintf(path, sizeof path, "%s/%s." SECTION, folder, name) >= sizeof path)
        return fail(error, HEARTH_INVALID, "manual: %.64s...: the name is too long", folder);
    if (c)
        put_command_page(&p, c);
    else
        put_overview_page(&p);
    hearth_status status =
        p.lost ? fail_memory(error, path, p.text.size) : file_write(path, p.text.data, p.text.size, error);
    buffer_free(&p.text);
    return status;
}

static hearth_status write_pages(const char *folder, const command *const *commands, hearth_error *error)
{
    for (; *commands; commands++) {
        TRY(write_page(folder, *commands, error));
        if ((*commands)->subcommands)
            TRY(write_pages(folder, (*commands)->subcommands, error));
    }
    return HEARTH_OK;
}

static hearth_status run_manual(void *values, operands *rest, hearth_error *error)
{
    (void)values;
    TRY(write_pages(rest->items[0], all_commands, error));
    return write_page(rest->items[0], NULL, error); /* the last one, so that hearth.1 tells that all are there */
}

const command command_manual = {
    .name = "manual",
    .path = "manual",
    .summary = "write the man pages",
    .usage = "FOLDER",
    .about = "Writes a page for man(1) about hearth and one about each command, which say what `hearth help` says. An "
             "installed hearth has them already.",
    .example = "  $ hearth manual . && man ./hearth-run.1",
    .values_size = 1,
    .operands_least = 1,
    .operands_most = 1,
    .run = run_manual,
};
