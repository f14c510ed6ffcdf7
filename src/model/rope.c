/* rope.c - reads the rope settings and computes rotary frequencies.
 *
 * Keys have the names and the meaning of llama.cpp: rope.scaling.attn_factor multiplies the factor on cosine and
 * sine, and yarn_log_multiplier m divides it by 0.1 m ln(factor) + 1. yarn_attn_factor, into which llama.cpp's
 * converter writes config.json's attention_factor, is the whole factor. llama.cpp itself reads that key for few
 * families; here it is always used, because a converted folder must mean the same as the folder. */
#include "rope.h"

#include "hyper.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The supported values of rope.scaling.type. */
static const struct {
    const char *name;
    rope_scaling scaling;
} scalings[] = {
    {"none", ROPE_PLAIN},
    {"linear", ROPE_LINEAR},
    {"yarn", ROPE_YARN},
};
static const size_t scaling_count = sizeof scalings / sizeof *scalings;

double rope_yarn_magnitude(double factor, double m)
{
    return factor > 1 ? 0.1 * m * log(factor) + 1 : 1;
}

/* Reads a number above `least`; *out is unchanged where the key is absent. */
static hearth_status read_number(double *out, bool *found, const family *f, const checkpoint *c, const char *name,
                                 double least, hearth_error *error)
{
    char key[KEY_SIZE];
    hyper_key(key, f, name);
    float value = 0;
    TRY(checkpoint_get_f32(c, key, &value, found, error));
    if (!*found)
        return HEARTH_OK;
    if (!isfinite(value) || !((double)value > least))
        return fail(error, HEARTH_FORMAT, "%s: key %s: is %g, expected a number above %g", c->path, key, (double)value,
                    least);
    *out = (double)value;
    return HEARTH_OK;
}

/* Reads the type of scaling. An absent type means linear, for files older than the key. */
static hearth_status read_scaling(rope_scaling *out, const family *f, const checkpoint *c, hearth_error *error)
{
    char key[KEY_SIZE];
    hyper_key(key, f, "rope.scaling.type");
    span name = span_of("linear");
    bool found;
    TRY(checkpoint_get_string(c, key, &name, &found, error));
    char known[128] = "";
    for (size_t i = 0; i < scaling_count; i++) {
        append_name(known, sizeof known, scalings[i].name);
        if (span_equal(span_of(scalings[i].name), name)) {
            *out = scalings[i].scaling;
            return HEARTH_OK;
        }
    }
    return fail(error, HEARTH_UNSUPPORTED, "%s: key %s: %.*s is not supported (known: %s)", c->path, key,
                name.size < 100 ? (int)name.size : 100, name.data, known);
}

/* Reads the length of text that the model was trained on before its context was extended. */
static hearth_status read_original_context(rope_settings *s, const family *f, const checkpoint *c, hearth_error *error)
{
    char key[KEY_SIZE];
    hyper_key(key, f, "rope.scaling.original_context_length");
    uint32_t original = 0;
    bool found;
    TRY(checkpoint_get_u32(c, key, &original, &found, error));
    if (found && original == 0)
        return fail(error, HEARTH_FORMAT, "%s: key %s: is 0", c->path, key);
    if (found)
        s->original_context = original;
    return HEARTH_OK;
}

/* Reads mscale_all_dim; *out is unchanged where there is none. In files of latent attention the key is a tenth of it. */
static hearth_status read_multiplier(const family *f, const checkpoint *c, double *out, hearth_error *error)
{
    bool found;
    TRY(read_number(out, &found, f, c, "rope.scaling.yarn_log_multiplier", -1, error));
    if (found && f->latent_attention)
        *out = rint(*out / 0.1 * 1e6) / 1e6; /* float32 has no tenths */
    return HEARTH_OK;
}

/* Reads yarn's settings and computes its factor on cosine and sine. */
static hearth_status read_yarn(rope_settings *s, const family *f, const checkpoint *c, hearth_error *error)
{
    char key[KEY_SIZE];
    bool found;
    TRY(read_number(&s->beta_fast, &found, f, c, "rope.scaling.yarn_beta_fast", 0, error));
    TRY(read_number(&s->beta_slow, &found, f, c, "rope.scaling.yarn_beta_slow", 0, error));
    hyper_key(key, f, "rope.scaling.yarn_beta_slow");
    if (s->beta_slow > s->beta_fast)
        return fail(error, HEARTH_FORMAT, "%s: key %s: is above yarn_beta_fast", c->path, key);
    hyper_key(key, f, ROPE_FRACTIONAL_KEY);
    TRY(checkpoint_get_bool(c, key, &s->fractional, &found, error));
    /* a negative value means not set, as in llama.cpp */
    double extrapolation = -1;
    TRY(read_number(&extrapolation, &found, f, c, "rope.scaling.yarn_ext_factor", -2, error));
    if (extrapolation >= 0)
        s->extrapolation = extrapolation;
    if (s->extrapolation == 0)
        return HEARTH_OK;

    double m = 0, whole = 0;
    TRY(read_multiplier(f, c, &m, error));
    double own = f->latent_attention && m > 0 && m != 1 ? m : 1; /* no key says it; as in llama.cpp */
    s->magnitude *= rope_yarn_magnitude(s->factor, own) / rope_yarn_magnitude(s->factor, m > 0 ? m : 0);
    TRY(read_number(&whole, &found, f, c, "rope.scaling.yarn_attn_factor", 0, error));
    if (found)
        s->magnitude = whole;
    return HEARTH_OK;
}

hearth_status rope_read(rope_settings *out, const family *f, const checkpoint *c, const hyperparameters *h,
                        hearth_error *error)
{
    rope_settings s = {.base = 10000,
                       .factor = 1,
                       .pairs = h->rope_pairs,
                       .original_context = h->context_length,
                       .beta_fast = 32,
                       .beta_slow = 1,
                       .extrapolation = 1,
                       .magnitude = 1,
                       .backwards = f->turns_back};
    bool found;
    TRY(read_number(&s.base, &found, f, c, "rope.freq_base", 1, error));
    TRY(read_scaling(&s.scaling, f, c, error));
    TRY(read_original_context(&s, f, c, error));
    if (s.scaling != ROPE_PLAIN) {
        TRY(read_number(&s.factor, &found, f, c, "rope.scale_linear", 0, error)); /* the older name */
        TRY(read_number(&s.factor, &found, f, c, "rope.scaling.factor", 0, error));
    }
    TRY(read_number(&s.magnitude, &found, f, c, "rope.scaling.attn_factor", 0, error));
    if (s.scaling == ROPE_YARN)
        TRY(read_yarn(&s, f, c, error));
    *out = s;
    return HEARTH_OK;
}

hearth_status rope_read_window(rope_settings *out, const family *f, const checkpoint *c, const hyperparameters *h,
                               hearth_error *error)
{
    bool found;
    *out = (rope_settings){.base = (double)f->window_base, .factor = 1, .pairs = h->window_rope_pairs, .magnitude = 1};
    if (f->plain_windows) {
        out->base = 10000;
        TRY(read_number(&out->base, &found, f, c, "rope.freq_base", 1, error));
    }
    return read_number(&out->base, &found, f, c, "rope.freq_base_swa", 1, error);
}

hearth_status rope_read_base(double *out, const family *f, const checkpoint *c, const char *name, hearth_error *error)
{
    bool found;
    return read_number(out, &found, f, c, name, 1, error);
}

hearth_status rope_yarn_growth(const family *f, const checkpoint *c, double *out, hearth_error *error)
{
    double factor = 1, m = 0;
    rope_scaling scaling;
    bool found;
    TRY(read_scaling(&scaling, f, c, error));
    TRY(read_number(&factor, &found, f, c, "rope.scaling.factor", 0, error));
    TRY(read_multiplier(f, c, &m, error));
    *out = scaling == ROPE_YARN && m > 0 ? rope_yarn_magnitude(factor, m) : 1;
    return HEARTH_OK;
}

/* Returns the (fractional) index of the pair that makes this many turns over the original context. */
static double pair_of_turns(const rope_settings *s, double turns)
{
    return s->pairs * log(s->original_context / (turns * 2 * M_PI)) / log(s->base);
}

void rope_frequencies(const rope_settings *s, const float *factors, double *frequencies)
{
    double low = 0, high = 0;
    if (s->scaling == ROPE_YARN) {
        double first = pair_of_turns(s, s->beta_fast), last = pair_of_turns(s, s->beta_slow);
        low = fmax(s->fractional ? first : floor(first), 0);
        high = fmin(s->fractional ? last : ceil(last), 2.0 * s->pairs - 1);
    }
    for (uint32_t i = 0; i < s->pairs; i++) {
        double plain = pow(s->base, -(double)i / s->pairs) / (factors ? (double)factors[i] : 1);
        double stretched = plain / s->factor;
        /* 0 for fast pairs, 1 for slow ones; 0.001 avoids a division by 0 where the ramp is empty */
        double ramp = fmin(fmax((i - low) / fmax(high - low, 0.001), 0), 1);
        double plain_share = s->scaling == ROPE_YARN ? (1 - ramp) * s->extrapolation : 0;
        double size = stretched * (1 - plain_share) + plain * plain_share;
        frequencies[i] = s->backwards ? -size : size;
    }
}

void rope_llama3_factors(const rope_llama3 *s, double base, uint32_t pairs, float *factors)
{
    for (uint32_t i = 0; i < pairs; i++) {
        double turns = s->original_context * pow(base, -(double)i / pairs) / (2 * M_PI);
        double smooth = fmin(fmax((turns - s->low) / (s->high - s->low), 0), 1);
        factors[i] = (float)(1 / ((1 - smooth) / s->factor + smooth));
    }
}
