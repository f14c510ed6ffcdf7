/* huggingface_tokenizer.c - reads the vocabulary of a Hugging Face folder.
 *
 * tokenizer.model, tokenizer.json, vocab.json with merges.txt, RWKV's list or tiktoken's has the pieces: the first of them that there
 * is.
 * Fine-tuned models add tokens to them (added_tokens.json, tokenizer_config.json), and the embedding may have rows
 * without a token. Both are filled in as llama.cpp's converter does, so that every row has a token. */
#include "huggingface.h"

#include "hyper.h"

#include "../file/sentencepiece.h"
#include "../text/rwkv_vocabulary.h"
#include "../text/tiktoken.h"
#include "../text/tokenizer_json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Token types as tokenizer.ggml.token_type numbers them. */
enum { TOKEN_NORMAL = 1, TOKEN_CONTROL = 3, TOKEN_USER_DEFINED = 4, TOKEN_UNUSED = 5 };

/* The scores that llama.cpp's converter sets for added tokens and for rows without a token. */
static const float added_score = -1000, unused_score = -10000;

typedef struct vocabulary {
    checkpoint *out;
    hearth_error *error;
    uint32_t size;  /* rows of the embedding       */
    uint32_t known; /* pieces of the file          */
    span *tokens;   /* [size]                      */
    float *scores;  /* [size]; NULL: pieces have none */
    int32_t *types; /* [size]                      */
    arena memory;   /* of working copies           */
    bool changed;
} vocabulary;

/* ------------------------------------------------------------ added tokens */

/* Sets a token that the folder defines in addition to tokenizer.model. Only normal pieces are replaced: unknown,
 * control and byte pieces stay. */
static hearth_status put_token(vocabulary *v, uint64_t id, const char *text, bool control)
{
    if (id >= v->size)
        return HEARTH_OK; /* without a row of the embedding the model can neither read nor produce it */
    bool is_piece = id < v->known;
    if (is_piece && v->types[id] != TOKEN_NORMAL)
        return HEARTH_OK;
    size_t length = strlen(text);
    char *copy = arena_copy_text(&v->memory, text, length);
    if (!copy)
        return fail_memory(v->error, v->out->path, length);
    v->tokens[id] = (span){copy, length};
    v->types[id] = control ? TOKEN_CONTROL : TOKEN_USER_DEFINED;
    if (v->scores)
        v->scores[id] = added_score;
    v->changed = true;
    return HEARTH_OK;
}

/* Sets the tokens of added_tokens.json: text -> id. */
static hearth_status put_added(vocabulary *v, json_t *added, const char *name)
{
    const char *text;
    json_t *id;
    if (!json_is_object(added))
        return fail(v->error, HEARTH_FORMAT, "%s: is not an object", name);
    json_object_foreach(added, text, id)
    {
        if (!json_is_integer(id) || json_integer_value(id) < 0)
            return fail(v->error, HEARTH_FORMAT, "%s: %.64s: is not a token id", name, text);
        TRY(put_token(v, (uint64_t)json_integer_value(id), text, false));
    }
    return HEARTH_OK;
}

/* Sets the tokens of tokenizer_config.json's added_tokens_decoder: "32000" -> {"content": "<|im_end|>", "special":
 * true, ...}. */
static hearth_status put_decoder(vocabulary *v, json_t *decoder, const char *name)
{
    const char *key;
    json_t *token;
    if (decoder && !json_is_object(decoder))
        return fail(v->error, HEARTH_FORMAT, "%s: added_tokens_decoder: is not an object", name);
    json_object_foreach(decoder, key, token)
    {
        char *end;
        errno = 0;
        unsigned long long id = strtoull(key, &end, 10);
        const char *text = json_string_value(json_object_get(token, "content"));
        if (key[0] < '0' || key[0] > '9' || *end || errno || !text)
            return fail(v->error, HEARTH_FORMAT, "%s: added_tokens_decoder: %.64s: is not an id with content", name,
                        key);
        TRY(put_token(v, id, text, json_is_true(json_object_get(token, "special"))));
    }
    return HEARTH_OK;
}

/* Copies the pieces and names the rows of the embedding without one: "[PAD32001]". */
static hearth_status start(vocabulary *v)
{
    const key_value *tokens, *scores, *types;
    TRY(checkpoint_get_array(v->out, "tokenizer.ggml.tokens", VALUE_STRING, &tokens, NULL, v->error));
    bool has_scores;
    TRY(checkpoint_get_array(v->out, "tokenizer.ggml.scores", VALUE_F32, &scores, &has_scores, v->error));
    TRY(checkpoint_get_array(v->out, "tokenizer.ggml.token_type", VALUE_I32, &types, NULL, v->error));
    v->tokens = arena_new_array(&v->memory, v->size, sizeof *v->tokens);
    v->scores = has_scores ? arena_new_array(&v->memory, v->size, sizeof *v->scores) : NULL;
    v->types = arena_new_array(&v->memory, v->size, sizeof *v->types);
    if (!v->tokens || (has_scores && !v->scores) || !v->types)
        return fail_memory(v->error, v->out->path, v->size * sizeof *v->tokens);
    v->known = tokens->count < v->size ? (uint32_t)tokens->count : v->size;
    v->changed = tokens->count != v->size;
    memcpy(v->tokens, tokens->as.strings, v->known * sizeof *v->tokens);
    if (v->scores)
        memcpy(v->scores, scores->as.items, v->known * sizeof *v->scores);
    memcpy(v->types, types->as.items, v->known * sizeof *v->types);
    for (uint32_t id = v->known; id < v->size; id++) {
        char text[24];
        int length = snprintf(text, sizeof text, "[PAD%u]", id);
        char *copy = arena_copy_text(&v->memory, text, (size_t)length);
        if (!copy)
            return fail_memory(v->error, v->out->path, (size_t)length);
        v->tokens[id] = (span){copy, (size_t)length};
        if (v->scores)
            v->scores[id] = unused_score;
        v->types[id] = TOKEN_UNUSED;
    }
    return HEARTH_OK;
}

/* Replaces the vocabulary keys, if anything changed. */
static hearth_status finish(const vocabulary *v)
{
    if (!v->changed)
        return HEARTH_OK;
    TRY(checkpoint_set_strings(v->out, "tokenizer.ggml.tokens", v->tokens, v->size, v->error));
    if (v->scores)
        TRY(checkpoint_set_numbers(v->out, "tokenizer.ggml.scores", VALUE_F32, v->scores, v->size, v->error));
    return checkpoint_set_numbers(v->out, "tokenizer.ggml.token_type", VALUE_I32, v->types, v->size, v->error);
}

/* -------------------------------------------------------- special settings */

/* Sets a special id from a config, unless *done; where the config has an array, its first id. */
static hearth_status set_id(checkpoint *c, const json_t *config, const char *config_key, const char *key, uint32_t size,
                            const char *name, bool *done, hearth_error *error)
{
    const json_t *value = json_object_get(config, config_key);
    if (json_is_array(value))
        value = json_array_get(value, 0);
    if (*done || !value || json_is_null(value))
        return HEARTH_OK;
    if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) >= size)
        return fail(error, HEARTH_FORMAT, "%s: %s: is not a token id below %u", name, config_key, size);
    *done = true;
    return checkpoint_set_u32(c, key, (uint32_t)json_integer_value(value), error);
}

/* Sets the id of the token with this text, unless *done: "<s>", or {"content": "<s>", ...}. */
static hearth_status set_named(const vocabulary *v, const json_t *settings, const char *name, const char *key,
                               bool *done)
{
    const json_t *value = json_object_get(settings, name);
    if (json_is_object(value))
        value = json_object_get(value, "content");
    if (*done || !json_is_string(value))
        return HEARTH_OK;
    span text = {json_string_value(value), json_string_length(value)};
    for (uint32_t id = 0; id < v->size; id++)
        if (span_equal(v->tokens[id], text)) {
            *done = true;
            return checkpoint_set_u32(v->out, key, id, v->error);
        }
    return HEARTH_OK;
}

/* Sets the list of tokens that end an answer: all that the configs give for EOS. */
static hearth_status set_ends(const vocabulary *v, const json_t *config, const json_t *generation)
{
    enum { ENDS_LIMIT = 64 };
    const json_t *lists[] = {json_object_get(config, "eos_token_id"),
                             json_object_get(json_object_get(config, "text_config"), "eos_token_id"),
                             json_object_get(generation, "eos_token_id")};
    uint32_t ends[sizeof lists / sizeof *lists * ENDS_LIMIT];
    size_t count = 0;
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++)
        for (size_t i = 0; i < json_array_size(lists[l]) && i < ENDS_LIMIT; i++) {
            const json_t *id = json_array_get(lists[l], i);
            if (json_is_integer(id) && json_integer_value(id) >= 0 && json_integer_value(id) < v->size)
                ends[count++] = (uint32_t)json_integer_value(id);
        }
    return count == 0 ? HEARTH_OK
                      : checkpoint_set_numbers(v->out, "tokenizer.hearth.end_tokens", VALUE_U32, ends, count, v->error);
}

/* Sets the ids of BOS and EOS: from config.json or the config of text in it, else from generation_config.json, else by the texts in
 * tokenizer_config.json; else those of the vocabulary's file stay. */
static hearth_status set_ids(const vocabulary *v, const json_t *config, const json_t *generation,
                             const json_t *settings)
{
    bool bos = false, eos = false;
    const struct {
        const json_t *object;
        const char *name;
    } sources[] = {{config, "config.json"},
                   {json_object_get(config, "text_config"), "config.json: text_config"},
                   {generation, "generation_config.json"}};
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        char name[1024];
        snprintf(name, sizeof name, "%s: %s", v->out->path, sources[i].name);
        TRY(set_id(v->out, sources[i].object, "bos_token_id", "tokenizer.ggml.bos_token_id", v->size, name, &bos,
                   v->error));
        TRY(set_id(v->out, sources[i].object, "eos_token_id", "tokenizer.ggml.eos_token_id", v->size, name, &eos,
                   v->error));
    }
    TRY(set_named(v, settings, "bos_token", "tokenizer.ggml.bos_token_id", &bos));
    TRY(set_named(v, settings, "eos_token", "tokenizer.ggml.eos_token_id", &eos));
    span kind = {0};
    TRY(checkpoint_get_string(v->out, "tokenizer.ggml.model", &kind, &bos, v->error));
    return span_equal(kind, span_of(RWKV_KIND)) ? HEARTH_OK /* whose configs say wrong ones */
                                                : set_ends(v, config, generation);
}

/* Sets the switches of tokenizer_config.json. */
static hearth_status set_switches(checkpoint *c, const json_t *settings, const char *name, hearth_error *error)
{
    static const struct {
        const char *config_key, *key;
    } switches[] = {
        {"add_bos_token", "tokenizer.ggml.add_bos_token"},
        {"add_eos_token", "tokenizer.ggml.add_eos_token"},
    };
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++) {
        bool value = false, found;
        TRY(json_get_bool(settings, switches[i].config_key, &value, &found, name, error));
        if (found)
            TRY(checkpoint_set_bool(c, switches[i].key, value, error));
    }
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ folder */

/* Reads a JSON file of the folder; *out is NULL where there is no such file. */
static hearth_status read_optional(json_t **out, const char *folder, const char *file, hearth_error *error)
{
    *out = NULL;
    char *path = file_join(folder, file);
    if (!path)
        return fail_memory(error, folder, strlen(folder));
    hearth_status status = file_exists(path) ? json_parse_file(out, path, error) : HEARTH_OK;
    mem_free(path);
    return status;
}

/* Returns the number of rows of the embedding; 0 where it is none, which binding will refuse, as it will one that differs from
 * config.json. */
static uint32_t vocabulary_size(const checkpoint *c)
{
    const stored_tensor *embedding = checkpoint_find_tensor(c, "token_embd.weight");
    bool fits = embedding && embedding->rank == 2 && embedding->shape[1] <= INT32_MAX;
    return fits ? (uint32_t)embedding->shape[1] : 0;
}

/* Adds everything that the folder's JSON files say to the vocabulary of tokenizer.model. */
static hearth_status add_all(vocabulary *v, const char *folder, const json_t *config)
{
    json_t *settings = NULL, *added = NULL, *generation = NULL;
    hearth_status status;
    char name[1024];
    TRY_OR(done, status, read_optional(&settings, folder, "tokenizer_config.json", v->error));
    TRY_OR(done, status, read_optional(&added, folder, "added_tokens.json", v->error));
    TRY_OR(done, status, read_optional(&generation, folder, "generation_config.json", v->error));
    TRY_OR(done, status, start(v));
    snprintf(name, sizeof name, "%s: added_tokens.json", folder);
    if (added)
        TRY_OR(done, status, put_added(v, added, name));
    snprintf(name, sizeof name, "%s: tokenizer_config.json", folder);
    if (settings) {
        TRY_OR(done, status, put_decoder(v, json_object_get(settings, "added_tokens_decoder"), name));
        TRY_OR(done, status, set_switches(v->out, settings, name, v->error));
    }
    TRY_OR(done, status, huggingface_add_chat(v->out, folder, settings, name, v->error));
    TRY_OR(done, status, set_ids(v, config, generation, settings));
    TRY_OR(done, status, finish(v));
    status = rwkv_vocabulary_finish(v->out, v->error);
done:
    json_decref(settings);
    json_decref(added);
    json_decref(generation);
    return status;
}

/* Stores why the vocabulary cannot be used. This is no error: computing with ids works without it. */
static hearth_status keep_reason(checkpoint *c, const char *folder, const hearth_error *why, hearth_error *error)
{
    const char *text = why->text;
    size_t size = strlen(folder);
    if (strncmp(text, folder, size) == 0) /* errors begin with the folder's path: it must not appear twice */
        text += size + strspn(text + size, "/");
    c->vocabulary_problem = arena_copy_text(&c->memory, text, strlen(text));
    return c->vocabulary_problem ? HEARTH_OK : fail_memory(error, "tokenizer", strlen(text));
}

/* The files that may hold the vocabulary; the first that there is is read. */
enum { TOKENIZER_MODEL, TOKENIZER_JSON, TOKENIZER_LISTS, TOKENIZER_RWKV, TOKENIZER_TIKTOKEN, TOKENIZER_FILES };
static const char *const tokenizer_files[TOKENIZER_FILES] = {
    [TOKENIZER_MODEL] = "tokenizer.model",   [TOKENIZER_JSON] = "tokenizer.json",  [TOKENIZER_LISTS] = "vocab.json",
    [TOKENIZER_RWKV] = RWKV_VOCABULARY_FILE, [TOKENIZER_TIKTOKEN] = TIKTOKEN_FILE,
};

/* Adds vocab.json and merges.txt, cut as the class in tokenizer_config.json does. */
static hearth_status add_lists(checkpoint *c, const char *folder, const char *path, const char *class,
                               hearth_error *error)
{
    char *merges = file_join(folder, "merges.txt");
    hearth_status status =
        merges ? tokenizer_lists_add(c, path, merges, class, error) : fail_memory(error, folder, strlen(folder));
    mem_free(merges);
    return status;
}

/* Adds tiktoken's list, if the class in tokenizer_config.json, where there is one, is Moonshot's. */
static hearth_status add_ranks(checkpoint *c, const char *path, const char *class, hearth_error *error)
{
    if (class && strcmp(class, "TikTokenTokenizer") != 0)
        return fail(error, HEARTH_UNSUPPORTED, "%s: tokenizer_class '%.64s': how it cuts texts is not known", path,
                    class);
    return tiktoken_add(c, path, error);
}

/* Adds the pieces of a file, by what tokenizer_config.json says besides. */
static hearth_status add_by_class(checkpoint *c, int file, const char *folder, const char *path, hearth_error *error)
{
    json_t *settings;
    TRY(read_optional(&settings, folder, "tokenizer_config.json", error));
    const char *class = json_string_value(json_object_get(settings, "tokenizer_class"));
    hearth_status status =
        file == TOKENIZER_LISTS ? add_lists(c, folder, path, class, error) : add_ranks(c, path, class, error);
    json_decref(settings);
    return status;
}

/* Adds the pieces of the first file that there is; *found is false where there is none. */
static hearth_status add_pieces(checkpoint *c, const char *folder, bool *found, hearth_error *error)
{
    *found = false;
    for (int i = 0; i < TOKENIZER_FILES; i++) {
        char *path = file_join(folder, tokenizer_files[i]);
        if (!path)
            return fail_memory(error, folder, strlen(folder));
        hearth_status status = HEARTH_OK;
        *found = file_exists(path);
        if (*found)
            status = i == TOKENIZER_MODEL  ? sentencepiece_add(c, path, error)
                     : i == TOKENIZER_JSON ? tokenizer_json_add(c, path, error)
                     : i == TOKENIZER_RWKV ? rwkv_vocabulary_add(c, path, error)
                                           : add_by_class(c, i, folder, path, error);
        mem_free(path);
        if (*found || status != HEARTH_OK)
            return status;
    }
    return HEARTH_OK;
}

hearth_status huggingface_add_tokenizer(checkpoint *c, const char *folder, const json_t *config, hearth_error *error)
{
    vocabulary v = {.out = c, .error = error, .size = vocabulary_size(c)};
    hearth_error why;
    bool found;
    if (v.size == 0)
        return HEARTH_OK;
    hearth_status status = add_pieces(c, folder, &found, &why);
    if (status == HEARTH_UNSUPPORTED)
        return keep_reason(c, folder, &why, error);
    if (status != HEARTH_OK)
        return fail(error, status, "%s", why.text);
    if (found)
        status = add_all(&v, folder, config);
    arena_clear(&v.memory);
    return status;
}

const char *model_tokenizer_missing(const checkpoint *source)
{
    const char *path = source->path;
    if (source->vocabulary_problem)
        return source->vocabulary_problem;
    if (!file_is_folder(path))
        return "the file holds no vocabulary";
    return "the folder has no tokenizer.model, tokenizer.json, vocab.json, " RWKV_VOCABULARY_FILE ", or " TIKTOKEN_FILE;
}
