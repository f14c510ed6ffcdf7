/* choose.c - which files of a repository make a model. */
#include "choose.h"

#include "../file/gguf_split.h"
#include "../text/rwkv_vocabulary.h"
#include "../text/tiktoken.h"
#include "remote_name.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define LENGTH(array) (sizeof(array) / sizeof *(array))

/* The weights of folders, in the order in which `hearth convert` looks for them: the whole or the index, and the shards. */
static const struct {
    const char *whole, *index, *prefix, *suffix;
} weights[] = {
    {"model.safetensors", "model.safetensors.index.json", "model", ".safetensors"},
    {"pytorch_model.bin", "pytorch_model.bin.index.json", "pytorch_model", ".bin"},
};

/* What else it reads of a folder. */
static const char *const described_by[] = {
    "config.json",         "generation_config.json",
    "tokenizer.json",      "tokenizer_config.json",
    "tokenizer.model",     "vocab.json",
    "merges.txt",          "added_tokens.json",
    "chat_template.jinja", RWKV_VOCABULARY_FILE,
    TIKTOKEN_FILE,
};

/* GGUF files that are no language models: what turns pictures into embeddings, and importance matrices. */
static const char *const not_models[] = {"mmproj", "imatrix"};

/* ------------------------------------------------------------------ a list of files */

static hearth_status begin(chosen *out, size_t most, arena *memory, hearth_error *error)
{
    *out = (chosen){.files = arena_new_array(memory, most, sizeof(*out->files))};
    return out->files ? HEARTH_OK : fail_memory(error, "pull", most * sizeof *out->files);
}

static void add(chosen *out, const listed_file *file)
{
    if (file)
        out->files[out->count++] = file;
}

/* ------------------------------------------------------------------ GGUF */

static bool ends_with(const char *text, const char *end)
{
    size_t size = strlen(text), end_size = strlen(end);
    return size >= end_size && strcasecmp(text + size - end_size, end) == 0;
}

static bool is_alphanumeric(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Returns whether a word stands in a text by itself, in either case: in "a-Q4_K_M.gguf" stands "q4_k_m", but not "Q4_K",
 * and in "IQ4_XS" no "Q4_XS". */
static bool has_word(const char *text, const char *word)
{
    size_t size = strlen(word);
    for (const char *at = text; (at = strcasestr(at, word)); at++) {
        bool begins = at == text || !is_alphanumeric(at[-1]);
        if (begins && !is_alphanumeric(at[size]) && at[size] != '_')
            return true;
    }
    return false;
}

/* Returns whether a file is a GGUF model, of several parts the first, so that each model is seen once. */
static bool is_model(const listed_file *file)
{
    const char *name = remote_path_name(file->path);
    gguf_part_name part;
    if (!ends_with(name, ".gguf") || (gguf_part_name_read(&part, name) && part.number > 1))
        return false;
    for (size_t i = 0; i < LENGTH(not_models); i++)
        if (strcasestr(name, not_models[i]))
            return false;
    return true;
}

/* Returns whether `path` is part `number` of the model that `first` is a part of. */
static bool is_part(const char *path, const char *first, const gguf_part_name *of, uint32_t number)
{
    gguf_part_name own;
    return gguf_part_name_read(&own, path) && own.number == number && own.count == of->count &&
           own.base_bytes == of->base_bytes && memcmp(path, first, of->base_bytes) == 0;
}

static const listed_file *find_part(const listing *l, const char *first, const gguf_part_name *of, uint32_t number)
{
    for (size_t i = 0; i < l->count; i++)
        if (is_part(l->files[i].path, first, of, number))
            return &l->files[i];
    return NULL;
}

/* Takes a file, and if it is a part of a model all parts. */
static hearth_status take_whole(chosen *out, const listing *l, const listed_file *file, const reference *r,
                                arena *memory, hearth_error *error)
{
    gguf_part_name part;
    bool is_split = gguf_part_name_read(&part, file->path);
    size_t count = is_split ? part.count : 1;
    if (count > l->count)
        return fail(error, HEARTH_FORMAT, "%s: %s: of its %zu parts some are missing", r->repository, file->path,
                    count);
    TRY(begin(out, count, memory, error));
    if (!is_split)
        add(out, file);
    for (uint32_t number = 1; is_split && number <= part.count; number++) {
        const listed_file *found = find_part(l, file->path, &part, number);
        if (!found)
            return fail(error, HEARTH_FORMAT, "%s: %s: part %u is missing", r->repository, file->path, number);
        add(out, found);
    }
    return HEARTH_OK;
}

/* Returns the bytes of a model, with all its parts. */
static uint64_t whole_size(const listing *l, const listed_file *file)
{
    gguf_part_name part;
    if (!gguf_part_name_read(&part, file->path))
        return file->size;
    uint64_t sum = 0;
    for (size_t i = 0; i < l->count; i++) {
        gguf_part_name own;
        if (gguf_part_name_read(&own, l->files[i].path) && is_part(l->files[i].path, file->path, &part, own.number))
            sum += l->files[i].size;
    }
    return sum;
}

/* Writes "a.gguf (1.2 GB), b.gguf (2.3 GB)", as much as fits. */
static void list_models(char *out, size_t size, const listing *l)
{
    size_t used = 0;
    out[0] = 0;
    for (size_t i = 0; i < l->count; i++) {
        char bytes[16];
        if (!is_model(&l->files[i]) || used + 1 >= size)
            continue;
        int more = snprintf(out + used, size - used, "%s%s (%s)", used ? ", " : "", l->files[i].path,
                            text_size(bytes, (double)whole_size(l, &l->files[i])));
        used = more > 0 && (size_t)more < size - used ? used + (size_t)more : size;
    }
}

/* Says which GGUF files there are. */
static hearth_status fail_choice(const listing *l, const reference *r, const char *reason, const char *value,
                                 hearth_error *error)
{
    char models[800];
    list_models(models, sizeof models, l);
    return fail(error, HEARTH_INVALID, "%s: %s%s%s%s", r->repository, reason, value, models[0] ? ": " : "", models);
}

static hearth_status choose_model(chosen *out, const listing *l, const reference *r, arena *memory, hearth_error *error)
{
    const listed_file *found = NULL;
    for (size_t i = 0; i < l->count; i++) {
        const listed_file *file = &l->files[i];
        if (!is_model(file) || (r->quantization && !has_word(file->path, r->quantization)))
            continue;
        if (found)
            return r->quantization ? fail_choice(l, r, "has several models of ", r->quantization, error)
                                   : fail_choice(l, r, "has several models; add :QUANT or /FILE", "", error);
        found = file;
    }
    if (!found)
        return fail_choice(l, r, "has no model of ", r->quantization, error);
    return take_whole(out, l, found, r, memory, error);
}

/* ------------------------------------------------------------------ folders */

/* Returns whether a file is a shard of weights: "model-00001-of-00002.safetensors", in no folder. */
static bool is_shard(const char *path, const char *prefix, const char *suffix)
{
    return !strchr(path, '/') && strncmp(path, prefix, strlen(prefix)) == 0 && ends_with(path, suffix);
}

static hearth_status choose_folder(chosen *out, const listing *l, const reference *r, arena *memory,
                                   hearth_error *error)
{
    TRY(begin(out, l->count + LENGTH(described_by) + 1, memory, error));
    out->is_folder = true;
    for (size_t w = 0; w < LENGTH(weights) && out->count == 0; w++) {
        const listed_file *whole = listing_find(l, weights[w].whole), *index = listing_find(l, weights[w].index);
        if (!whole && !index)
            continue;
        add(out, whole ? whole : index);
        for (size_t i = 0; !whole && i < l->count; i++)
            if (is_shard(l->files[i].path, weights[w].prefix, weights[w].suffix))
                add(out, &l->files[i]);
    }
    if (out->count == 0 || !listing_find(l, "config.json"))
        return fail(error, HEARTH_UNSUPPORTED,
                    "%s: has neither a GGUF file nor a model folder (config.json with weights in safetensors)",
                    r->repository);
    for (size_t i = 0; i < LENGTH(described_by); i++)
        add(out, listing_find(l, described_by[i]));
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ */

hearth_status choose_files(chosen *out, const listing *l, const reference *r, arena *memory, hearth_error *error)
{
    if (r->file) {
        const listed_file *file = listing_find(l, r->file);
        if (!file)
            return fail_choice(l, r, "has no file ", r->file, error);
        return take_whole(out, l, file, r, memory, error);
    }
    bool has_model = false;
    for (size_t i = 0; i < l->count && !has_model; i++)
        has_model = is_model(&l->files[i]);
    if (has_model)
        return choose_model(out, l, r, memory, error);
    if (r->quantization)
        return fail(error, HEARTH_INVALID, "%s: has no GGUF file, of %s or any other kind", r->repository,
                    r->quantization);
    return choose_folder(out, l, r, memory, error);
}
