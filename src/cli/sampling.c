/* sampling.c - turns sampling options into the library's record. */
#include "sampling.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define SAMPLING_FIELD(letter, name, kind, field, value, help) \
    OPTION_ROW(letter, name, kind, sampling_options, sampling.field, value, help)

const option sampling_option_rows[SAMPLING_OPTION_COUNT] = {
    {SAMPLING_FIELD(0, "temp", NUMBER, temperature, "N",
                    "temperature; 0 always takes the likeliest token (default 0.8)"),
     .alias = "temperature", .least = 0, .most = 100},
    {SAMPLING_FIELD(0, "top-k", COUNT, top_k, "N", "choose among the N likeliest; 0: all (default 40)")},
    {SAMPLING_FIELD(0, "top-p", NUMBER, top_p, "P",
                    "choose among the likeliest that make up P together (default 0.95)"),
     .least = 0, .most = 1},
    {SAMPLING_FIELD(0, "min-p", NUMBER, min_p, "P",
                    "choose among those at least P times as likely as the best (default 0.05)"),
     .least = 0, .most = 1},
    {SAMPLING_FIELD(0, "repeat-penalty", NUMBER, repeat_penalty, "N",
                    "divides the logits of tokens seen lately; 1: none (default 1)"),
     .least = 1e-6, .most = 100},
    {SAMPLING_FIELD(0, "presence-penalty", NUMBER, presence_penalty, "N",
                    "subtracted from the logits of tokens seen lately (default 0)"),
     .least = -100, .most = 100},
    {SAMPLING_FIELD(0, "frequency-penalty", NUMBER, frequency_penalty, "N",
                    "the same, for each time a token was seen (default 0)"),
     .least = -100, .most = 100},
    {SAMPLING_FIELD(0, "repeat-last-n", COUNT, penalty_window, "N",
                    "how many of the last tokens the penalties look at (default 64)")},
    {OPTION_ROW(0, "logit-bias", TEXTS, sampling_options, biases, "ID=BIAS",
                "added to the logit of a token; -inf forbids it; may be given several times")},
    {OPTION_ROW('s', "seed", SEED, sampling_options, seed, "N",
                "same seed, same answer; else a new one each time, which is printed")},
};

void sampling_defaults(sampling_options *o)
{
    o->sampling = hearth_sampling_default();
}

/* Parses "15043=-1.5"; also llama.cpp's "15043-1.5" and "15043+1". */
static bool parse_bias(const char *text, hearth_logit_bias *out)
{
    char *end, *rest;
    errno = 0;
    long id = strtol(text, &end, 10);
    if (end == text || errno || id < 0 || id > INT32_MAX || !*end || !strchr("=+-", *end))
        return false;
    const char *number = end + (*end == '=');
    *out = (hearth_logit_bias){(int32_t)id, strtof(number, &rest)};
    return rest != number && !*rest && !isnan(out->bias) && (isfinite(out->bias) || out->bias < 0);
}

static hearth_status draw_seed(uint64_t *seed, hearth_error *error)
{
    uint32_t drawn; /* short enough to be typed again */
    if (getrandom(&drawn, sizeof drawn, 0) != (ssize_t)sizeof drawn)
        return fail_errno(error, "seed", "getrandom");
    *seed = drawn;
    return HEARTH_OK;
}

hearth_status sampling_resolve(const char *command_path, sampling_options *o, arena *memory, hearth_error *error)
{
    if (o->biases.count > 0) {
        hearth_logit_bias *biases = arena_new_array(memory, o->biases.count, sizeof *biases);
        if (!biases)
            return fail_memory(error, "--logit-bias", o->biases.count * sizeof *biases);
        for (size_t i = 0; i < o->biases.count; i++)
            if (!parse_bias(o->biases.items[i], &biases[i]))
                return fail(error, HEARTH_INVALID, "%s: --logit-bias: '%s' is not ID=BIAS", command_path,
                            o->biases.items[i]);
        o->sampling.biases = biases;
        o->sampling.bias_count = o->biases.count;
    }
    o->sampling.seed = o->seed.value;
    if (!o->seed.given && o->sampling.temperature > 0)
        return draw_seed(&o->sampling.seed, error);
    return HEARTH_OK;
}
