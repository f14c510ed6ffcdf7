/* tokenizer.c - the table of kinds of vocabulary, and what all kinds share: special tokens, BOS and EOS. */
#include "internal.h"
#include "rwkv_vocabulary.h"

#include <stdio.h>
#include <string.h>

#define WIDE_BLANK "\xe2\x96\x81" /* U+2581 */

static const vocabulary_kind kinds[] = {
    {
        .name = "llama",
        .defaults = {.bos = 1,
                     .eos = 2,
                     .unknown = 0,
                     .adds_bos = true,
                     .adds_space_prefix = true,
                     .needs_scores = true,
                     .blank = WIDE_BLANK},
        .create = sentencepiece_create,
        .encode = sentencepiece_encode,
        .spell = sentencepiece_spell,
    },
    {
        .name = "t5",
        .defaults = {.bos = -1,
                     .eos = 1,
                     .unknown = 2,
                     .adds_eos = true,
                     .adds_space_prefix = true,
                     .needs_scores = true,
                     .blank = WIDE_BLANK},
        .create = unigram_create,
        .encode = unigram_encode,
        .spell = sentencepiece_spell,
    },
    {
        .name = "gpt2",
        .defaults = {.bos = 11, .eos = 11, .unknown = -1, .blank = " "},
        .create = bpe_create_bytes,
        .destroy = bpe_destroy,
        .adjust = bpe_adjust,
        .encode = bpe_encode,
        .spell = bpe_spell_bytes,
    },
    {
        .name = "gemma4",
        .defaults = {.bos = -1, .eos = -1, .unknown = -1, .blank = WIDE_BLANK},
        .create = bpe_create_characters,
        .destroy = bpe_destroy,
        .adjust = bpe_adjust,
        .encode = bpe_encode,
        .spell = sentencepiece_spell,
    },
    {
        .name = RWKV_KIND,
        .defaults = {.bos = -1, .eos = -1, .unknown = -1, .blank = " "},
        .create = longest_create,
        .encode = longest_encode,
        .spell = longest_spell,
    },
};

static const vocabulary_kind *find_kind(span name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (span_equal(name, span_of(kinds[i].name)))
            return &kinds[i];
    return NULL;
}

/* Reports a kind of vocabulary that the table lacks, with a list of those it has. */
static hearth_status unknown_kind(const checkpoint *c, span name, hearth_error *error)
{
    char known[128] = "";
    for (size_t i = 0, used = 0; i < sizeof kinds / sizeof *kinds && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", kinds[i].name);
    return fail(error, HEARTH_UNSUPPORTED,
                "%s: key tokenizer.ggml.model: '%.*s' is a kind of vocabulary that this version does not read "
                "(it reads %s)",
                c->path, name.size < 64 ? (int)name.size : 64, name.data, known);
}

hearth_status tokenizer_create(tokenizer **out, const checkpoint *c, hearth_error *error)
{
    span name;
    bool found;
    TRY(checkpoint_get_string(c, "tokenizer.ggml.model", &name, &found, error));
    if (!found) {
        *out = NULL;
        return HEARTH_OK;
    }
    const vocabulary_kind *kind = find_kind(name);
    if (!kind)
        return unknown_kind(c, name, error);
    tokenizer *t = mem_new(sizeof *t);
    if (!t)
        return fail_memory(error, "tokenizer", sizeof *t);
    t->kind = kind;
    hearth_status status = HEARTH_OK;
    vocabulary_defaults defaults = kind->defaults;
    if (kind->adjust)
        TRY_OR(failed, status, kind->adjust(&defaults, c, error));
    TRY_OR(failed, status, vocabulary_load(&t->vocabulary, &defaults, c, error));
    TRY_OR(failed, status, kind->create(&t->tables, &t->vocabulary, c, error));
    t->id_count = t->vocabulary.count;
    *out = t;
    return HEARTH_OK;
failed:
    tokenizer_destroy(t);
    return status;
}

void tokenizer_destroy(tokenizer *t)
{
    if (!t)
        return;
    if (t->tables && t->kind->destroy)
        t->kind->destroy(t->tables);
    vocabulary_free(&t->vocabulary);
    mem_free(t);
}

void tokenizer_pad(tokenizer *t, uint32_t id_count)
{
    if (id_count > t->id_count)
        t->id_count = id_count;
}

uint32_t tokenizer_size(const tokenizer *t)
{
    return t->vocabulary.count;
}

int32_t tokenizer_bos(const tokenizer *t)
{
    return t->vocabulary.bos;
}

int32_t tokenizer_eos(const tokenizer *t)
{
    return t->vocabulary.eos;
}

bool tokenizer_adds_bos(const tokenizer *t)
{
    return t->vocabulary.adds_bos;
}

static bool is_id(const tokenizer *t, int32_t id)
{
    return id >= 0 && (uint32_t)id < t->vocabulary.count;
}

bool tokenizer_ends_answer(const tokenizer *t, int32_t id)
{
    return is_id(t, id) && t->vocabulary.tokens[id].ends_answer;
}

span tokenizer_piece(const tokenizer *t, int32_t id)
{
    return is_id(t, id) ? t->vocabulary.tokens[id].text : (span){NULL, 0};
}

unsigned tokenizer_attributes(const tokenizer *t, int32_t id)
{
    static const unsigned of_type[] = {
        [TOKEN_UNKNOWN] = HEARTH_TOKEN_UNKNOWN,
        [TOKEN_CONTROL] = HEARTH_TOKEN_CONTROL,
        [TOKEN_USER_DEFINED] = HEARTH_TOKEN_USER_DEFINED,
        [TOKEN_UNUSED] = HEARTH_TOKEN_UNUSED,
        [TOKEN_BYTE] = HEARTH_TOKEN_BYTE,
    };
    if (!is_id(t, id))
        return 0;
    const token *k = &t->vocabulary.tokens[id];
    return of_type[k->type] | (k->ends_answer ? (unsigned)HEARTH_TOKEN_ENDS_ANSWER : 0);
}

bool tokenizer_bytes(const tokenizer *t, int32_t id, buffer *out)
{
    const vocabulary *v = &t->vocabulary;
    if (!is_id(t, id))
        return true;
    const token *k = &v->tokens[id];
    if (k->type == TOKEN_CONTROL || k->type == TOKEN_UNKNOWN || k->type == TOKEN_UNUSED)
        return true;
    char spelled[PIECE_LIMIT];
    span text = k->text;
    if (k->type != TOKEN_USER_DEFINED)
        text = (span){spelled, t->kind->spell(v, id, spelled)};
    size_t begin = out->size;
    for (size_t i = 0; i < text.size;) {
        bool is_blank = text.size - i >= v->blank.size && memcmp(text.data + i, v->blank.data, v->blank.size) == 0;
        if (!(is_blank ? buffer_put(out, " ", 1) : buffer_put(out, text.data + i, 1))) {
            out->size = begin;
            return false;
        }
        i += is_blank ? v->blank.size : 1;
    }
    return true;
}

bool encoding_add(encoding *e, int32_t id)
{
    int32_t *ids = mem_grow(e->ids, &e->capacity, e->count, 1, sizeof *ids);
    if (!ids)
        return false;
    e->ids = ids;
    e->ids[e->count++] = id;
    return true;
}

void *encoding_scratch(encoding *e, size_t size_bytes)
{
    if (size_bytes <= e->scratch_bytes)
        return e->scratch;
    size_t size = size_bytes <= SIZE_MAX / 2 ? 2 * size_bytes : size_bytes;
    void *scratch = mem_resize(e->scratch, size);
    if (scratch) {
        e->scratch = scratch;
        e->scratch_bytes = size;
    }
    return scratch;
}

static hearth_status add_special(encoding *e, int32_t id, hearth_error *error)
{
    return encoding_add(e, id) ? HEARTH_OK : fail_memory(error, "tokens", 2 * e->capacity * sizeof *e->ids);
}

/* Encodes text without special tokens: in its normal form, by the kind. */
static hearth_status encode_plain(const tokenizer *t, span text, encoding *e, hearth_error *error)
{
    if (t->vocabulary.form != FORM_NONE) {
        TRY(normal_form_write(t->vocabulary.form, text, &e->formed, error));
        text = (span){e->formed.data, e->formed.size};
    }
    if (t->vocabulary.map.count > 0) {
        if (!charsmap_write(&t->vocabulary.map, text, &e->mapped))
            return fail_memory(error, "text", text.size);
        text = (span){e->mapped.data, e->mapped.size};
    }
    return text.size > 0 ? t->kind->encode(t->tables, &t->vocabulary, text, e, error) : HEARTH_OK;
}

/* Encodes the text piece by piece: up to the next special token, then that token, and so on. */
static hearth_status encode_parts(const tokenizer *t, span text, const special_set *specials, encoding *e,
                                  hearth_error *error)
{
    size_t from = 0;
    while (from < text.size) {
        size_t end = text.size;
        const special *found = special_set_next(specials, text, from, &end);
        size_t plain = end;
        if (found && t->vocabulary.tokens[found->id].strips_left)
            while (plain > from && is_white(text.data[plain - 1]))
                plain--;
        e->at_begin = from == 0;
        if (plain > from)
            TRY(encode_plain(t, (span){text.data + from, plain - from}, e, error));
        if (!found)
            break;
        TRY(add_special(e, found->id, error));
        from = end + found->text.size;
        if (t->vocabulary.tokens[found->id].strips_right)
            while (from < text.size && is_white(text.data[from]))
                from++;
    }
    return HEARTH_OK;
}

static hearth_status encode(const tokenizer *t, span text, unsigned flags, encoding *e, hearth_error *error)
{
    const vocabulary *v = &t->vocabulary;
    bool adds = flags & HEARTH_TEXT_SPECIAL;
    if (adds && v->adds_bos)
        TRY(add_special(e, v->bos, error));
    const special_set *specials = flags & HEARTH_TEXT_PARSE_CONTROL ? &v->all_specials : &v->user_defined;
    TRY(encode_parts(t, text, specials, e, error));
    if (adds && v->adds_eos)
        TRY(add_special(e, v->eos, error));
    return HEARTH_OK;
}

hearth_status tokenizer_encode(const tokenizer *t, span text, unsigned flags, int32_t **ids, size_t *count,
                               hearth_error *error)
{
    encoding e = {0};
    hearth_status status = encode(t, text, flags, &e, error);
    buffer_free(&e.text);
    buffer_free(&e.formed);
    buffer_free(&e.mapped);
    mem_free(e.scratch);
    split_memory_free(&e.split);
    if (status != HEARTH_OK) {
        mem_free(e.ids);
        return status;
    }
    *ids = e.ids;
    *count = e.count;
    return HEARTH_OK;
}
