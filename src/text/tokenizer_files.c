/* tokenizer_files.c - reads the files that tokenizer_json.c, tokenizer_lists.c, rwkv_vocabulary.c and tiktoken.c parse. */
#include "rwkv_vocabulary.h"
#include "tiktoken.h"
#include "tokenizer_json.h"

#include "../base/file.h"
#include "../base/memory.h"

/* Reads a file of at most 256 MiB: the largest published tokenizer.json has 34 MB. */
static hearth_status read_file(span *out, const char *path, hearth_error *error)
{
    char *data;
    TRY(file_read(&data, &out->size, path, (size_t)256 << 20, error));
    out->data = data;
    return HEARTH_OK;
}

static hearth_status add_file(checkpoint *c, const char *path,
                              hearth_status (*parse)(checkpoint *c, span text, const char *name, hearth_error *error),
                              hearth_error *error)
{
    span text;
    TRY(read_file(&text, path, error));
    hearth_status status = parse(c, text, path, error);
    mem_free((void *)text.data);
    return status;
}

hearth_status tokenizer_json_add(checkpoint *c, const char *path, hearth_error *error)
{
    return add_file(c, path, tokenizer_json_parse, error);
}

hearth_status rwkv_vocabulary_add(checkpoint *c, const char *path, hearth_error *error)
{
    return add_file(c, path, rwkv_vocabulary_parse, error);
}

hearth_status tiktoken_add(checkpoint *c, const char *path, hearth_error *error)
{
    return add_file(c, path, tiktoken_parse, error);
}

hearth_status tokenizer_lists_add(checkpoint *c, const char *vocabulary_path, const char *merges_path,
                                  const char *class, hearth_error *error)
{
    span pieces, merges;
    TRY(read_file(&pieces, vocabulary_path, error));
    hearth_status status = read_file(&merges, merges_path, error);
    if (status == HEARTH_OK) {
        status = tokenizer_lists_parse(c, pieces, merges, vocabulary_path, class, error);
        mem_free((void *)merges.data);
    }
    mem_free((void *)pieces.data);
    return status;
}
