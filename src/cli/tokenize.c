/* tokenize.c - `hearth tokenize`: converts text to ids and back, using only the vocabulary. */
#include "common.h"

#include "../base/file.h"
#include "options.h"
#include "output.h"

#include <string.h>

typedef struct tokenize_values {
    model_options model;
    const char *file;
    const char *separator;
    bool no_special;
    bool back;
} tokenize_values;

static const option rows[] = {
    {OPTION_ROW('f', "file", TEXT, tokenize_values, file, "FILE",
                "the exact bytes of a file instead of TEXT; -: standard input")},
    {OPTION_ROW(0, "separator", TEXT, tokenize_values, separator, "TEXT",
                "the input is several texts with TEXT between them; each gets a line of ids")},
    {OPTION_ROW(0, "no-special", FLAG, tokenize_values, no_special, NULL,
                "add no BOS or EOS, and take control tokens in the text for plain text")},
    {OPTION_ROW(0, "back", FLAG, tokenize_values, back, NULL,
                "the other way: ids (as arguments, or from FILE, or standard input) to text; control tokens come "
                "as nothing")},
};

/* ------------------------------------------------------------------ both ways */

static hearth_status print_ids(const tokenizer *t, span text, unsigned flags, hearth_error *error)
{
    int32_t *ids;
    size_t count;
    TRY(tokenizer_encode(t, text, flags, &ids, &count, error));
    for (size_t i = 0; i < count; i++)
        printf("%s%d", i ? " " : "", ids[i]);
    putchar('\n');
    mem_free(ids);
    return HEARTH_OK;
}

/* Prints the ids of each text between two separators on a line; without one, of the whole text. */
static hearth_status print_texts(const tokenizer *t, span text, const char *separator, unsigned flags,
                                 hearth_error *error)
{
    size_t size = separator ? strlen(separator) : 0;
    for (;;) {
        const char *end = size > 0 && text.size > 0 ? memmem(text.data, text.size, separator, size) : NULL;
        TRY(print_ids(t, (span){text.data, end ? (size_t)(end - text.data) : text.size}, flags, error));
        if (!end)
            return HEARTH_OK;
        size_t used = (size_t)(end - text.data) + size;
        text = (span){text.data + used, text.size - used};
    }
}

/* Checks all ids before anything is printed: half a text is not a result. */
static hearth_status check_ids(const tokenizer *t, const char *path, const number_list *ids, hearth_error *error)
{
    for (size_t i = 0; i < ids->count; i++)
        if ((uint32_t)ids->items[i] >= tokenizer_size(t))
            return fail(error, HEARTH_INVALID, "%s: token %d: is not one of the vocabulary's %u", path, ids->items[i],
                        tokenizer_size(t));
    return HEARTH_OK;
}

/* Prints the text of the ids; a detokenizer joins characters that are spread over several tokens. */
static hearth_status print_text(const tokenizer *t, const number_list *ids, hearth_error *error)
{
    detokenizer *d;
    span text;
    TRY(detokenizer_create(&d, t, 0, error));
    hearth_status status = HEARTH_OK;
    for (size_t i = 0; status == HEARTH_OK && i < ids->count; i++) {
        status = detokenizer_push(d, ids->items[i], &text, error);
        if (status == HEARTH_OK && text.size > 0)
            fwrite(text.data, 1, text.size, stdout);
    }
    if (status == HEARTH_OK) {
        detokenizer_finish(d, &text);
        if (text.size > 0)
            fwrite(text.data, 1, text.size, stdout);
        putchar('\n');
    }
    detokenizer_destroy(d);
    return status;
}

/* Reads the arguments, a file or standard input as one text. */
static hearth_status read_input(const tokenize_values *v, const operands *rest, char **text, size_t *size,
                                hearth_error *error)
{
    if (v->file || rest->count == 0)
        return file_read(text, size, v->file ? v->file : "-", COMMON_TEXT_BYTES, error);
    buffer joined = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < rest->count; i++)
        ok = buffer_print(&joined, "%s%s", i ? " " : "", rest->items[i]);
    ok = ok && buffer_put(&joined, "", 1);
    if (!ok) {
        buffer_free(&joined);
        return fail_memory(error, "text", 0);
    }
    *text = joined.data;
    *size = joined.size - 1;
    return HEARTH_OK;
}

static hearth_status translate(const tokenize_values *v, const tokenizer *t, const operands *rest, hearth_error *error)
{
    char *text;
    size_t size;
    number_list ids;
    TRY(read_input(v, rest, &text, &size, error));
    hearth_status status;
    if (v->back) {
        status = options_number_list("tokenize: ids", text, 0, INT32_MAX, &ids, rest->memory, error);
        if (status == HEARTH_OK)
            status = check_ids(t, v->model.model, &ids, error);
        if (status == HEARTH_OK)
            status = print_text(t, &ids, error);
    } else {
        unsigned flags = v->no_special ? 0 : HEARTH_TEXT_SPECIAL | HEARTH_TEXT_PARSE_CONTROL;
        status = print_texts(t, (span){text, size}, v->separator, flags, error);
    }
    mem_free(text);
    return status;
}

static hearth_status run_tokenize(void *values, operands *rest, hearth_error *error)
{
    tokenize_values *v = values;
    TRY(common_take_model("tokenize", &v->model, rest, SIZE_MAX, false, error));
    if (v->file && rest->count > 0)
        return fail(error, HEARTH_INVALID, "tokenize: %s: a text and -f cannot both be given", rest->items[0]);
    if (!v->back && rest->count > 1)
        return fail(error, HEARTH_INVALID, "tokenize: %s: the text must be one argument; quote it", rest->items[1]);
    checkpoint *c;
    tokenizer *t;
    TRY(common_open_tokenizer(&c, &t, v->model.model, error));
    hearth_status status = translate(v, t, rest, error);
    tokenizer_destroy(t);
    checkpoint_close(c);
    return status;
}

const command command_tokenize = {
    .name = "tokenize",
    .path = "tokenize",
    .summary = "text to token ids, and back",
    .usage = "MODEL [TEXT | -f FILE] [--separator TEXT] [--no-special] | MODEL --back [IDS...]",
    .about =
        "Prints the ids of a text on one line, with BOS and EOS as the model wants them and control tokens in the text "
        "recognised. Without TEXT and -f it reads standard input. Files that hold nothing but a vocabulary will do: a "
        "GGUF without tensors, tokenizer.json, tokenizer.model, tiktoken.model, and RWKV's list.",
    .example = "  $ hearth tokenize stories-relu-q8_0.gguf \"Once upon a time\"\n"
               "  1 403 407 261 378\n"
               "  $ hearth tokenize stories-relu-q8_0.gguf --back 403 407 261 378\n"
               "  Once upon a time",
    .tables = {OPTION_TABLE("options", rows, 0),
               {"model", model_option_rows, MODEL_PATH_COUNT, offsetof(tokenize_values, model)}},
    .values_size = sizeof(tokenize_values),
    .operands_most = SIZE_MAX,
    .run = run_tokenize,
};
