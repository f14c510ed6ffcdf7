/* bench_tokenizer.c - `hearth bench --tokenizer`: how fast a text becomes ids. */
#include "bench_tokenizer.h"

#include "../base/clock.h"
#include "../base/file.h"
#include "../base/median.h"
#include "common.h"
#include "output.h"

#include <stdio.h>

/* Seconds of each repeat. */
typedef struct timings {
    double *load, *encode, *decode; /* [repeats] */
    uint32_t vocabulary;
    size_t tokens;
} timings;

static hearth_status decode_all(const tokenizer *t, const int32_t *ids, size_t count, hearth_error *error)
{
    detokenizer *d;
    span text;
    TRY(detokenizer_create(&d, t, 0, error));
    hearth_status status = HEARTH_OK;
    for (size_t i = 0; status == HEARTH_OK && i < count; i++)
        status = detokenizer_push(d, ids[i], &text, error);
    detokenizer_destroy(d);
    return status;
}

/* Times repeat r. */
static hearth_status time_once(timings *s, uint32_t r, const char *model_path, span text, hearth_error *error)
{
    checkpoint *c;
    tokenizer *t;
    int32_t *ids;
    double start = clock_seconds();
    TRY(common_open_tokenizer(&c, &t, model_path, error));
    double opened = clock_seconds();
    hearth_status status = tokenizer_encode(t, text, 0, &ids, &s->tokens, error);
    double encoded = clock_seconds();
    if (status == HEARTH_OK) {
        status = decode_all(t, ids, s->tokens, error);
        mem_free(ids);
    }
    s->load[r] = opened - start;
    s->encode[r] = encoded - opened;
    s->decode[r] = clock_seconds() - encoded;
    s->vocabulary = tokenizer_size(t);
    tokenizer_destroy(t);
    checkpoint_close(c);
    return status;
}

static hearth_status print_timings(timings *s, const char *model_path, size_t bytes, uint32_t repeats, bool json,
                                   hearth_error *error)
{
    double load = median(s->load, repeats), encode = median(s->encode, repeats), decode = median(s->decode, repeats);
    if (json)
        return output_json(json_pack("{s:s, s:I, s:f, s:I, s:I, s:f, s:f}", "model", model_path, "vocabulary",
                                     (json_int_t)s->vocabulary, "load_seconds", load, "text_bytes", (json_int_t)bytes,
                                     "tokens", (json_int_t)s->tokens, "encode_seconds", encode, "decode_seconds",
                                     decode),
                           JSON_COMPACT, error);
    printf("%u entries, loaded in %.3f s; %.2f MB are %zu tokens; one thread\n"
           "encode  %8.1f MB/s  %8.2f million tokens/s\n"
           "decode  %8.1f MB/s  %8.2f million tokens/s\n",
           s->vocabulary, load, (double)bytes * 1e-6, s->tokens, (double)bytes / encode * 1e-6,
           (double)s->tokens / encode * 1e-6, (double)bytes / decode * 1e-6, (double)s->tokens / decode * 1e-6);
    return HEARTH_OK;
}

hearth_status bench_tokenizer(const char *model_path, const char *text_path, uint32_t repeats, bool json,
                              hearth_error *error)
{
    char *text;
    size_t size;
    TRY(file_read(&text, &size, text_path, COMMON_TEXT_BYTES, error));
    double *seconds = mem_new_array((size_t)repeats * 3, sizeof *seconds);
    timings s = {.load = seconds, .encode = seconds + repeats, .decode = seconds + 2 * (size_t)repeats};
    hearth_status status = seconds ? HEARTH_OK : fail_memory(error, "bench", repeats);
    if (status == HEARTH_OK && size == 0)
        status = fail(error, HEARTH_FORMAT, "bench: --tokenizer: %s: is empty", text_path);
    for (uint32_t r = 0; status == HEARTH_OK && r < repeats; r++)
        status = time_once(&s, r, model_path, (span){text, size}, error);
    if (status == HEARTH_OK)
        status = print_timings(&s, model_path, size, repeats, json, error);
    mem_free(seconds);
    mem_free(text);
    return status;
}
