/* options.c - parses command lines into records.
 *
 * Each kind of option has one row in `kinds`; a new kind is a new row. The parser knows no option by name except
 * --help. */
#include "options.h"

#include "../base/file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Longest file of ids that @FILE reads: about ten million ids. */
#define MAX_LIST_BYTES ((size_t)64 << 20)
/* Longer words get no suggestion. */
#define MAX_SUGGEST 32

typedef struct parser {
    const command *command;
    arena *memory;
    hearth_error *error;
} parser;

/* ------------------------------------------------------------------ suggestions */

static size_t least3(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

/* Returns the Levenshtein distance, counting a swap of neighbours as one edit (Damerau). */
static size_t distance(const char *a, const char *b)
{
    size_t rows[3][MAX_SUGGEST + 1];
    size_t n = strlen(b);
    if (strlen(a) > MAX_SUGGEST || n > MAX_SUGGEST)
        return MAX_SUGGEST;
    for (size_t j = 0; j <= n; j++)
        rows[0][j] = j;
    size_t i = 0;
    for (; a[i]; i++) {
        const size_t *before = rows[(i + 2) % 3], *above = rows[i % 3];
        size_t *row = rows[(i + 1) % 3];
        row[0] = i + 1;
        for (size_t j = 0; j < n; j++) {
            row[j + 1] = least3(above[j + 1] + 1, row[j] + 1, above[j] + (a[i] != b[j]));
            if (i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] && before[j - 1] + 1 < row[j + 1])
                row[j + 1] = before[j - 1] + 1;
        }
    }
    return rows[i % 3][n];
}

const char *options_suggest(const char *word, const char *const *names, size_t count)
{
    const char *best = NULL;
    size_t length = strlen(word), best_distance = length < 4 ? 2 : 3; /* the first distance that is too far */
    for (size_t i = 0; i < count; i++) {
        /* The beginning of a name counts as a near match. */
        size_t d = length >= 3 && strncmp(word, names[i], length) == 0 ? 1 : distance(word, names[i]);
        if (d < best_distance) {
            best = names[i];
            best_distance = d;
        }
    }
    return best;
}

void options_take_word(const char **list, char word[32])
{
    size_t size = strcspn(*list, ",");
    snprintf(word, 32, "%.*s", (int)(size < 32 ? size : 31), *list);
    *list = (*list)[size] ? *list + size + 1 : NULL;
}

/* Finds a name; *out: its index. */
static hearth_status find_name(const name_choices *c, const char *word, unsigned *out, hearth_error *error)
{
    for (*out = 0; *out < c->count; ++*out)
        if (strcmp(word, c->names[*out]) == 0)
            return HEARTH_OK;
    const char *meant = options_suggest(word, c->names, c->count);
    return meant ? fail(error, HEARTH_INVALID, "%s: unknown %s '%s'; did you mean %s?", c->option, c->kind, word, meant)
                 : fail(error, HEARTH_INVALID, "%s: unknown %s '%s'; %s", c->option, c->kind, word, c->there);
}

hearth_status options_names(const name_choices *c, const char *list, unsigned *out, size_t *found, hearth_error *error)
{
    char word[32];
    for (*found = 0; list; ++*found) {
        unsigned name;
        options_take_word(&list, word);
        TRY(find_name(c, word, &name, error));
        for (size_t i = 0; i < *found; i++)
            if (out[i] == name)
                return fail(error, HEARTH_INVALID, "%s: %s: stands there twice", c->option, word);
        out[*found] = name;
    }
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ kinds of values */

/* The functions put_... parse `text` and store the value at `target`; `shown` is the option as it was typed, for
 * errors. */
static hearth_status out_of_range(parser *p, const char *shown, const char *text, const option *o)
{
    return fail(p->error, HEARTH_INVALID, "%s: %s: %s is out of range, it goes from %.10g to %.10g%s", p->command->path,
                shown, text, o->least, o->most, o->unlimited ? ", or is -1 for no limit" : "");
}

static bool has_range(const option *o)
{
    return o->least < o->most;
}

static hearth_status put_flag(parser *p, const option *o, const char *shown, const char *text, void *target)
{
    (void)p, (void)o, (void)shown, (void)text;
    *(bool *)target = true;
    return HEARTH_OK;
}

static hearth_status put_text(parser *p, const option *o, const char *shown, const char *text, void *target)
{
    (void)p, (void)o, (void)shown;
    *(const char **)target = text;
    return HEARTH_OK;
}

static hearth_status put_texts(parser *p, const option *o, const char *shown, const char *text, void *target)
{
    (void)o;
    text_list *list = target;
    const char **items = arena_new_array(p->memory, list->count + 1, sizeof *items);
    if (!items)
        return fail_memory(p->error, shown, sizeof *items);
    if (list->count > 0)
        memcpy(items, list->items, list->count * sizeof *items);
    items[list->count] = text;
    *list = (text_list){items, list->count + 1};
    return HEARTH_OK;
}

static hearth_status put_count(parser *p, const option *o, const char *shown, const char *text, void *target)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end)
        return fail(p->error, HEARTH_INVALID, "%s: %s: '%s' is not a whole number", p->command->path, shown, text);
    if (o->unlimited && value == -1)
        value = 0;
    else if (errno || value < 0 || value > UINT32_MAX ||
             (has_range(o) && ((double)value < o->least || (double)value > o->most)))
        return has_range(o)
                   ? out_of_range(p, shown, text, o)
                   : fail(p->error, HEARTH_INVALID, "%s: %s: %s is out of range", p->command->path, shown, text);
    *(uint32_t *)target = (uint32_t)value;
    return HEARTH_OK;
}

hearth_status options_size(const char *what, const char *text, uint64_t *out, hearth_error *error)
{
    static const char units[] = "KMGT";
    char *end;
    double size = strtod(text, &end);
    const char *unit = *end ? strchr(units, *end) : NULL;
    bool known = end > text && (!*end || (unit && !end[1]));
    for (const char *u = units; known && unit && u <= unit; u++)
        size *= 1000;
    if (!known || !(size >= 1 && size < 1e18))
        return fail(error, HEARTH_INVALID, "%s: '%s' is not a size like 500M or 4G", what, text);
    *out = (uint64_t)size;
    return HEARTH_OK;
}

static hearth_status put_size(parser *p, const option *o, const char *shown, const char *text, void *target)
{
    char what[128];
    snprintf(what, sizeof what, "%s: %s", p->command->path, shown);
    return options_size(what, o->none && strcmp(text, "0") == 0 ? "1" : text, target, p->error);
}

static hearth_status put_seed(parser *p, const option *o, const char *shown, const char *text, void *target)
{
    (void)o;
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (end == text || *end || errno || strchr(text, '-'))
        return fail(p->error, HEARTH_INVALID, "%s: %s: '%s' is not a whole number below 2^64", p->command->path, shown,
                    text);
    *(optional_seed *)target = (optional_seed){true, value};
    return HEARTH_OK;
}

static hearth_status put_number(parser *p, const option *o, const char *shown, const char *text, void *target)
{
    char *end;
    float value = strtof(text, &end);
    if (end == text || *end || !isfinite(value))
        return fail(p->error, HEARTH_INVALID, "%s: %s: '%s' is not a number", p->command->path, shown, text);
    if (has_range(o) && ((double)value < o->least || (double)value > o->most))
        return out_of_range(p, shown, text, o);
    *(float *)target = value;
    return HEARTH_OK;
}

static hearth_status put_given(parser *p, const option *o, const char *shown, const char *text, void *target)
{
    optional_number *number = target;
    TRY(put_number(p, o, shown, text, &number->value));
    number->given = true;
    return HEARTH_OK;
}

static hearth_status put_given_count(parser *p, const option *o, const char *shown, const char *text, void *target)
{
    optional_count *number = target;
    TRY(put_count(p, o, shown, text, &number->value));
    number->given = true;
    return HEARTH_OK;
}

static hearth_status put_choice(parser *p, const option *o, const char *shown, const char *text, void *target)
{
    char all[256] = "";
    for (unsigned i = 0; o->choices[i]; i++) {
        if (strcmp(o->choices[i], text) == 0) {
            *(unsigned *)target = i;
            return HEARTH_OK;
        }
        size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "%s%s", i ? ", " : "", o->choices[i]);
    }
    return fail(p->error, HEARTH_INVALID, "%s: %s: '%s' is not one of %s", p->command->path, shown, text, all);
}

static hearth_status put_list(parser *p, const option *o, const char *shown, const char *text, void *target)
{
    char what[128];
    snprintf(what, sizeof what, "%s: %s", p->command->path, shown);
    number_list list;
    TRY(options_number_list(what, text, o->least, o->most, &list, p->memory, p->error));
    if (list.count == 0)
        return fail(p->error, HEARTH_INVALID, "%s: the list is empty", what);
    *(number_list *)target = list;
    return HEARTH_OK;
}

static const struct {
    hearth_status (*put)(parser *p, const option *o, const char *shown, const char *text, void *target);
    size_t size; /* of the value */
} kinds[OPTION_KIND_COUNT] = {
    [OPTION_FLAG] = {put_flag, sizeof(bool)},
    [OPTION_TEXT] = {put_text, sizeof(const char *)},
    [OPTION_TEXTS] = {put_texts, sizeof(text_list)},
    [OPTION_COUNT] = {put_count, sizeof(uint32_t)},
    [OPTION_SIZE] = {put_size, sizeof(uint64_t)},
    [OPTION_SEED] = {put_seed, sizeof(optional_seed)},
    [OPTION_NUMBER] = {put_number, sizeof(float)},
    [OPTION_GIVEN] = {put_given, sizeof(optional_number)},
    [OPTION_GIVEN_COUNT] = {put_given_count, sizeof(optional_count)},
    [OPTION_CHOICE] = {put_choice, sizeof(unsigned)},
    [OPTION_LIST] = {put_list, sizeof(number_list)},
};

const option *options_find_changed(const option_table *table, const void *values, const void *defaults)
{
    for (size_t i = 0; i < table->count; i++) {
        const option *o = &table->rows[i];
        size_t at = table->base + o->target;
        if (memcmp((const char *)values + at, (const char *)defaults + at, kinds[o->kind].size) != 0)
            return o;
    }
    return NULL;
}

#define BLANKS " \t\r\n"

/* Returns the next item of a list, or its end, after blanks and at most one comma. NULL: no separator, or an empty
 * item. */
static const char *next_item(const char *end)
{
    const char *next = end + strspn(end, BLANKS);
    if (*next != ',')
        return *next && next == end ? NULL : next;
    next += 1 + strspn(next + 1, BLANKS);
    return *next && *next != ',' ? next : NULL;
}

/* Counts the numbers and, if items is not NULL, stores them. */
static hearth_status scan_numbers(const char *what, const char *text, double least, double most, int32_t *items,
                                  size_t *count, hearth_error *error)
{
    *count = 0;
    text += strspn(text, BLANKS);
    while (*text) {
        char *end;
        errno = 0;
        long long value = strtoll(text, &end, 10);
        const char *next = next_item(end);
        if (end == text || !next)
            return fail(error, HEARTH_INVALID, "%s: '%.20s' is not a list of whole numbers", what, text);
        if (errno || (double)value < least || (double)value > most)
            return fail(error, HEARTH_INVALID, "%s: %lld is out of range, it goes from %.10g to %.10g", what, value,
                        least, most);
        if (items)
            items[*count] = (int32_t)value;
        ++*count;
        text = next;
    }
    return HEARTH_OK;
}

hearth_status options_number_list(const char *what, const char *text, double least, double most, number_list *out,
                                  arena *memory, hearth_error *error)
{
    char *file = NULL;
    size_t size = 0;
    if (*text == '@') {
        TRY(file_read(&file, &size, text + 1, MAX_LIST_BYTES, error));
        text = file;
    }
    number_list list = {0};
    hearth_status status = scan_numbers(what, text, least, most, NULL, &list.count, error);
    if (status == HEARTH_OK) {
        list.items = arena_new_array(memory, list.count + 1, sizeof *list.items); /* the list may be empty */
        status = list.items ? scan_numbers(what, text, least, most, list.items, &list.count, error)
                            : fail_memory(error, what, list.count * sizeof *list.items);
    }
    mem_free(file);
    if (status == HEARTH_OK)
        *out = list;
    return status;
}

/* ------------------------------------------------------------------ the parser */

static bool name_is(const char *name, const char *word, size_t length)
{
    return name && strlen(name) == length && strncmp(name, word, length) == 0;
}

const option *options_find(const command *c, const char *argument, const option_table **table)
{
    bool is_long = argument[1] == '-';
    size_t length = is_long ? strcspn(argument + 2, "=") : 0;
    for (const option_table *t = c->tables; t < c->tables + MAX_OPTION_TABLES && t->rows; t++)
        for (size_t i = 0; i < t->count; i++) {
            const option *o = &t->rows[i];
            if (is_long ? name_is(o->name, argument + 2, length) || name_is(o->alias, argument + 2, length)
                        : (o->letter && argument[1] == o->letter && !argument[2]) ||
                              (o->word && strcmp(o->word, argument + 1) == 0)) {
                *table = t;
                return o;
            }
        }
    return NULL;
}

static hearth_status unknown_option(parser *p, const char *argument)
{
    const char *names[128];
    size_t count = 0;
    for (const option_table *t = p->command->tables; t < p->command->tables + MAX_OPTION_TABLES && t->rows; t++)
        for (size_t i = 0; i < t->count && count < 128; i++)
            names[count++] = t->rows[i].name;
    char word[MAX_SUGGEST + 1];
    snprintf(word, sizeof word, "%.*s", (int)strcspn(argument, "="), argument);
    const char *meant = options_suggest(word + strspn(word, "-"), names, count);
    if (meant)
        return fail(p->error, HEARTH_INVALID, "%s: %s: unknown option; did you mean --%s?", p->command->path, argument,
                    meant);
    return fail(p->error, HEARTH_INVALID, "%s: %s: unknown option; `hearth help %s` lists them", p->command->path,
                argument, p->command->path);
}

/* Takes the option at arguments[*i] and its value; *i moves to the last argument used. */
static hearth_status take_option(parser *p, char *const *arguments, size_t count, size_t *i, void *values)
{
    const char *argument = arguments[*i];
    const option_table *table;
    const option *o = options_find(p->command, argument, &table);
    if (!o)
        return unknown_option(p, argument);
    char shown[64];
    snprintf(shown, sizeof shown, "%.*s", (int)strcspn(argument, "="), argument);
    const char *text = argument[1] == '-' ? strchr(argument, '=') : NULL;
    if (text)
        text++;
    if (o->kind == OPTION_FLAG && text)
        return fail(p->error, HEARTH_INVALID, "%s: %s: takes no value", p->command->path, shown);
    if (o->kind != OPTION_FLAG && !text) {
        if (*i + 1 == count)
            return fail(p->error, HEARTH_INVALID, "%s: %s: needs a value (%s)", p->command->path, shown, o->value);
        text = arguments[++*i];
    }
    return kinds[o->kind].put(p, o, shown, text, (char *)values + table->base + o->target);
}

hearth_status options_parse(const command *c, char *const *arguments, size_t count, void *values, operands *rest,
                            bool *help, arena *memory, hearth_error *error)
{
    parser p = {c, memory, error};
    *help = false;
    *rest = (operands){.items = arena_new_array(memory, count + 1, sizeof *rest->items),
                       .memory = memory,
                       .arguments = arguments,
                       .argument_count = count};
    if (!rest->items)
        return fail_memory(error, "arguments", count * sizeof *rest->items);
    bool only_operands = false;
    for (size_t i = 0; i < count; i++) {
        const char *argument = arguments[i];
        if (only_operands || argument[0] != '-' || !argument[1]) {
            rest->items[rest->count++] = argument;
        } else if (strcmp(argument, "--") == 0) {
            only_operands = true;
        } else if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0) {
            *help = true;
            return HEARTH_OK;
        } else {
            TRY(take_option(&p, arguments, count, &i, values));
        }
    }
    if (rest->count > c->operands_most)
        return fail(error, HEARTH_INVALID, "%s: %s: is one argument too many; usage: hearth %s %s", c->path,
                    rest->items[c->operands_most], c->path, c->usage);
    if (rest->count < c->operands_least)
        return fail(error, HEARTH_INVALID, "%s: arguments: too few; usage: hearth %s %s", c->path, c->path, c->usage);
    return HEARTH_OK;
}
