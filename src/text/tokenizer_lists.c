/* tokenizer_lists.c - vocab.json and merges.txt as keys of GGUF: the files of GPT-2's tokenizer, and those after it. */
#include "tokenizer_json_internal.h"

#include <string.h>

/* How the tokenizers of transformers that have these files cut a text. */
static const struct {
    const char *name;       /* tokenizer_class */
    const char *pre;        /* name of the pre-tokenizer */
    const char *normalizer; /* NULL: none */
} classes[] = {
    {"GPT2Tokenizer", "gpt-2", NULL},   {"GPT2TokenizerFast", "gpt-2", NULL},   {"CodeGenTokenizer", "gpt-2", NULL},
    {"Qwen2Tokenizer", "qwen2", "nfc"}, {"Qwen2TokenizerFast", "qwen2", "nfc"},
};

/* Sets the merges: a line each; the first one may be a comment. */
static hearth_status set_merge_lines(tokenizer_json *t, span text)
{
    size_t room = 1, count = 0;
    for (size_t i = 0; i < text.size; i++)
        room += text.data[i] == '\n';
    span *lines = arena_new_array(&t->memory, room, sizeof *lines);
    if (!lines)
        return fail_memory(t->error, t->name, room * sizeof *lines);
    for (bool first = true; text.size > 0; first = false) {
        const char *end = memchr(text.data, '\n', text.size);
        span line = {text.data, end ? (size_t)(end - text.data) : text.size};
        text = (span){text.data + line.size + (end ? 1 : 0), text.size - line.size - (end ? 1 : 0)};
        bool is_comment = first && line.size >= 8 && memcmp(line.data, "#version", 8) == 0;
        if (line.size > 0 && line.data[line.size - 1] == '\r')
            line.size--;
        if (line.size > 0 && !is_comment)
            lines[count++] = line;
    }
    return checkpoint_set_strings(t->out, KEY("merges"), lines, count, t->error);
}

static hearth_status read_lists(tokenizer_json *t, const json_t *pieces, span merges, const char *class)
{
    size_t row = 0;
    const size_t class_count = sizeof classes / sizeof *classes;
    while (row < class_count && strcmp(class ? class : classes[0].name, classes[row].name) != 0)
        row++;
    if (row == class_count)
        return fail(t->error, HEARTH_UNSUPPORTED,
                    "%s: tokenizer_class '%.64s': how it cuts texts is not known; a tokenizer.json would say", t->name,
                    class);
    if (!json_is_object(pieces))
        return fail(t->error, HEARTH_FORMAT, "%s: is not an object", t->name);
    TRY(tokenizer_json_pieces(t, pieces));
    TRY(set_merge_lines(t, merges));
    t->normalizer = classes[row].normalizer;
    TRY(checkpoint_set_string(t->out, KEY("pre"), span_of(classes[row].pre), t->error));
    TRY(checkpoint_set_string(t->out, KEY("model"), span_of("gpt2"), t->error));
    return tokenizer_json_common(t);
}

hearth_status tokenizer_lists_parse(checkpoint *c, span pieces, span merges, const char *name, const char *class,
                                    hearth_error *error)
{
    json_t *root;
    TRY(json_parse(&root, pieces.data, pieces.size, name, error));
    tokenizer_json t = {.out = c, .name = name, .error = error};
    hearth_status status = read_lists(&t, root, merges, class);
    arena_clear(&t.memory);
    json_decref(root);
    return status;
}
