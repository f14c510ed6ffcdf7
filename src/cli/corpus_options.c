/* corpus_options.c - reads texts and ids named on the command line. */
#include "corpus_options.h"

#include "../learn/profile.h"
#include "options.h"
#include "output.h"

#include <string.h>

const option corpus_option_rows[CORPUS_OPTION_COUNT] = {
    {OPTION_ROW(0, "corpus", TEXTS, corpus_options, files, "FILE",
                "text to learn from, of the kind that the model is for; further files may follow")},
    {OPTION_ROW(0, "ids", TEXT, corpus_options, ids, "FILE",
                "tokens in place of a text: a file of numbers, or 1,2,3; read as they are, without BOS")},
    {OPTION_ROW(0, "separator", TEXT, corpus_options, separator, "TEXT",
                "what stands between TEXTs is a text of its own, behind a BOS of its own; blanks around it do not "
                "count")},
    {OPTION_ROW(0, "window", COUNT, corpus_options, window, "N",
                "tokens read in one piece, BOS included; 512, or the model's context where that is less"),
     .least = 2, .most = 1 << 20},
    {OPTION_ROW(0, "out", TEXT, corpus_options, out, "FILE",
                "the tune file, which stores what was learnt; MODEL.tune, where every command finds it")},
};

/* Adds the operands to the files. The names may be needed as long as the program runs: the strings are argv's own. */
static hearth_status add_operands(corpus_options *o, operands *rest, hearth_error *error)
{
    const char **all = arena_new_array(rest->memory, o->files.count + rest->count, sizeof *all);
    if (!all)
        return fail_memory(error, "corpus", rest->count * sizeof *all);
    if (o->files.count > 0)
        memcpy(all, o->files.items, o->files.count * sizeof *all);
    memcpy(all + o->files.count, rest->items, rest->count * sizeof *all);
    o->files = (text_list){all, o->files.count + rest->count};
    rest->count = 0;
    return HEARTH_OK;
}

hearth_status corpus_options_take(const char *command_path, corpus_options *o, operands *rest, hearth_error *error)
{
    if (rest->count > 0 && o->files.count == 0)
        return fail(error, HEARTH_INVALID, "%s: %s: is one argument too many; texts are named by --corpus",
                    command_path, rest->items[0]);
    if (rest->count > 0)
        TRY(add_operands(o, rest, error));
    if (o->files.count > 0 && o->ids)
        return fail(error, HEARTH_INVALID, "%s: --ids: take the place of --corpus", command_path);
    if (o->files.count == 0 && !o->ids)
        return fail(error, HEARTH_INVALID, "%s: --corpus: is missing: a text, or --ids", command_path);
    if (o->ids && o->separator)
        return fail(error, HEARTH_INVALID, "%s: --separator: is for texts, --ids are read as they are", command_path);
    if (o->separator && !*o->separator)
        return fail(error, HEARTH_INVALID, "%s: --separator: is empty", command_path);
    return HEARTH_OK;
}

/* Reads the ids: an argument of only numbers and separators is the list itself, anything else names a file. */
static hearth_status read_ids(corpus *out, const hearth_model *model, const corpus_options *o, arena *memory,
                              hearth_error *error)
{
    number_list list;
    const char *text = o->ids;
    if (*text != '@' && text[strspn(text, "0123456789, \t\n")]) {
        size_t size = strlen(text) + 2;
        char *named = arena_new(memory, size);
        if (!named)
            return fail_memory(error, "path", size);
        snprintf(named, size, "@%s", text);
        text = named;
    }
    TRY(options_number_list("--ids", text, 0, INT32_MAX, &list, memory, error));
    return corpus_of_ids(out, model, list.items, list.count, o->window, error);
}

hearth_status corpus_options_read(corpus *out, const hearth_model *model, const corpus_options *o, arena *memory,
                                  hearth_error *error)
{
    if (o->ids)
        TRY(read_ids(out, model, o, memory, error));
    else
        TRY(corpus_read(out, model, o->files.items, o->files.count, o->separator, o->window, error));
    size_t count = out->id_count;
    if (count >= PROFILE_LEAST_TOKENS)
        return HEARTH_OK;
    corpus_free(out);
    return fail(error, HEARTH_FORMAT, "%s: corpus: has only %zu token%s, of fewer than %u nothing can be said",
                o->ids ? "--ids" : o->files.items[0], count, count == 1 ? "" : "s", PROFILE_LEAST_TOKENS);
}

json_t *corpus_options_json(const corpus_options *o)
{
    json_t *names = json_array();
    for (size_t i = 0; i < o->files.count; i++)
        json_array_append_new(names, json_text(span_of(o->files.items[i])));
    if (o->ids)
        json_array_append_new(names, json_string("ids"));
    return names;
}

char *corpus_options_tune_path(const corpus_options *o, const char *model_path)
{
    return o->out ? mem_copy_text(o->out, strlen(o->out)) : tune_path(model_path);
}
