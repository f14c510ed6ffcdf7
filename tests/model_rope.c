/* model_rope - frequencies against their definitions, written down here once more in another form.
 *
 * yarn after arXiv:2309.00071, equations 17 to 19 and 22, in the form of transformers (a ramp over pair
 * numbers, bounds rounded outwards); llama3 after its definition by wavelengths. Golden GGUF files hold factors
 * that another program computed. */
#include "model_build.h"

#include "../src/model/hyper.h"
#include "../src/model/rope.h"

#include <math.h>

/* Sums and powers here are of 64-bit mantissas: what is left is the rounding of the code under test. */
static const double close_enough = 4e-16;

static void expect_close(double got, long double wanted)
{
    if (!(fabsl(got - wanted) <= close_enough * 8 * fabsl(wanted)))
        fail_msg("%.17g, expected %.17Lg", got, wanted);
}

/* A checkpoint for keys alone. */
static checkpoint *rotary_keys(void)
{
    hearth_error error;
    checkpoint *c;
    must(checkpoint_create(&c, "tiny", &error), &error);
    return c;
}

static void set_number(checkpoint *c, const char *key, float value)
{
    hearth_error error;
    must(checkpoint_set_f32(c, key, value, &error), &error);
}

static void set_text(checkpoint *c, const char *key, const char *value)
{
    hearth_error error;
    must(checkpoint_set_string(c, key, span_of(value), &error), &error);
}

enum { PAIRS = 32, CONTEXT = 4096 };

static rope_settings read_settings(checkpoint *c)
{
    rope_settings s;
    hearth_error error;
    hyperparameters h = {.rope_pairs = PAIRS, .context_length = CONTEXT};
    must(rope_read(&s, &families[0], c, &h, &error), &error);
    checkpoint_close(c);
    return s;
}

static long double plain(long double base, int pair)
{
    return powl(base, -2.0L * pair / (2 * PAIRS));
}

static void test_plain(void **state)
{
    (void)state;
    double got[PAIRS];
    rope_settings s = read_settings(rotary_keys());
    rope_frequencies(&s, NULL, got);
    assert_true(got[0] == 1);
    assert_true(s.magnitude == 1);
    for (int i = 0; i < PAIRS; i++)
        expect_close(got[i], plain(10000, i));

    checkpoint *c = rotary_keys();
    set_number(c, "llama.rope.freq_base", 500000);
    set_text(c, "llama.rope.scaling.type", "none");
    set_number(c, "llama.rope.scaling.factor", 8); /* of no scaling */
    s = read_settings(c);
    rope_frequencies(&s, NULL, got);
    for (int i = 0; i < PAIRS; i++)
        expect_close(got[i], plain(500000, i));
}

static void test_linear(void **state)
{
    (void)state;
    static const char *const keys[] = {"llama.rope.scaling.factor", "llama.rope.scale_linear"};
    for (int k = 0; k < 2; k++) {
        double got[PAIRS];
        checkpoint *c = rotary_keys();
        set_number(c, keys[k], 4);
        if (k == 0)
            set_text(c, "llama.rope.scaling.type", "linear");
        rope_settings s = read_settings(c);
        rope_frequencies(&s, NULL, got);
        for (int i = 0; i < PAIRS; i++)
            expect_close(got[i], plain(10000, i) / 4);
    }
}

/* rope_freqs.weight divides; linear scaling comes on top. */
static void test_factors(void **state)
{
    (void)state;
    double got[PAIRS];
    float factors[PAIRS];
    for (int i = 0; i < PAIRS; i++)
        factors[i] = 1 + (float)i;
    checkpoint *c = rotary_keys();
    set_number(c, "llama.rope.scaling.factor", 2);
    rope_settings s = read_settings(c);
    rope_frequencies(&s, factors, got);
    for (int i = 0; i < PAIRS; i++)
        expect_close(got[i], plain(10000, i) / (2 * (1 + i)));
}

/* llama3 as its authors define it: by wavelength, in three cases. */
static void test_llama3(void **state)
{
    (void)state;
    static const rope_llama3 s = {.factor = 8, .low = 1, .high = 4, .original_context = 8192};
    float got[64];
    int cases[3] = {0};
    rope_llama3_factors(&s, 500000, 64, got);
    for (int i = 0; i < 64; i++) {
        long double frequency = powl(500000, -i / 64.0L), wavelength = 2 * acosl(-1) / frequency, scaled;
        long double longest = s.original_context / s.low, shortest = s.original_context / s.high;
        int which = wavelength < shortest ? 0 : wavelength > longest ? 1 : 2;
        if (which == 0)
            scaled = frequency;
        else if (which == 1)
            scaled = frequency / s.factor;
        else {
            long double smooth = (s.original_context / wavelength - s.low) / (s.high - s.low);
            scaled = (1 - smooth) * frequency / s.factor + smooth * frequency;
        }
        cases[which]++;
        assert_true(fabsl(got[i] * scaled / frequency - 1) < 1e-7L);
    }
    assert_true(cases[0] > 0 && cases[1] > 0 && cases[2] > 0);
}

/* Pairs turn base^(-i/n) L / 2 pi times over the original context L. More than beta_fast times: kept, fewer than
 * beta_slow: divided; between, a ramp over the pair number. */
static void expect_yarn(const double *got, long double base, long double factor, long double original, long double fast,
                        long double slow)
{
    long double turns_per_pair = logl(base) / PAIRS, all = logl(original / (2 * acosl(-1)));
    long double low = floorl((all - logl(fast)) / turns_per_pair), high = ceill((all - logl(slow)) / turns_per_pair);
    int kept = 0, divided = 0;
    if (low < 0)
        low = 0;
    if (high > 2 * PAIRS - 1)
        high = 2 * PAIRS - 1;
    for (int i = 0; i < PAIRS; i++) {
        long double share = i <= low ? 0 : i >= high ? 1 : (i - low) / (high - low);
        expect_close(got[i], plain(base, i) * (share / factor + 1 - share));
        kept += share == 0;
        divided += share == 1;
    }
    assert_true(kept > 0 && divided > 0 && kept + divided < PAIRS);
}

static checkpoint *yarn_keys(float factor, uint32_t original)
{
    hearth_error error;
    checkpoint *c = rotary_keys();
    set_text(c, "llama.rope.scaling.type", "yarn");
    set_number(c, "llama.rope.scaling.factor", factor);
    must(checkpoint_set_u32(c, "llama.rope.scaling.original_context_length", original, &error), &error);
    return c;
}

static void test_yarn(void **state)
{
    (void)state;
    double got[PAIRS];
    rope_settings s = read_settings(yarn_keys(16, 2048));
    rope_frequencies(&s, NULL, got);
    expect_yarn(got, 10000, 16, 2048, 32, 1);
    expect_close(s.magnitude, 0.1L * logl(16) + 1);

    checkpoint *c = yarn_keys(4, 1024);
    set_number(c, "llama.rope.scaling.yarn_beta_fast", 16);
    set_number(c, "llama.rope.scaling.yarn_beta_slow", 2);
    set_number(c, "llama.rope.freq_base", 50000);
    s = read_settings(c);
    rope_frequencies(&s, NULL, got);
    expect_yarn(got, 50000, 4, 1024, 16, 2);

    c = yarn_keys(1, 1024); /* stretches nothing */
    s = read_settings(c);
    rope_frequencies(&s, NULL, got);
    for (int i = 0; i < PAIRS; i++)
        expect_close(got[i], plain(10000, i));
    assert_true(s.magnitude == 1);
}

/* How llama.cpp combines the keys: attn_factor multiplies, log_multiplier divides; a given factor replaces. */
static void test_magnitude(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        float value;
        double wanted;
    } rows[] = {
        {"llama.rope.scaling.attn_factor", 0.5, 0.5 * 1.2302585092994046},
        {"llama.rope.scaling.yarn_log_multiplier", 1, 1},
        {"llama.rope.scaling.yarn_log_multiplier", 0.5, 1.2302585092994046 / 1.1151292546497023},
        {"llama.rope.scaling.yarn_attn_factor", 0.75, 0.75},
        {"llama.rope.scaling.yarn_ext_factor", -1, 1.2302585092994046},
        {"llama.rope.scaling.yarn_ext_factor", 0, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        checkpoint *c = yarn_keys(10, 2048); /* 0.1 ln 10 + 1 = 1.2302585092994046 */
        set_number(c, rows[i].key, rows[i].value);
        rope_settings s = read_settings(c);
        assert_true(fabs(s.magnitude - rows[i].wanted) < 1e-15);
        double got[PAIRS];
        rope_frequencies(&s, NULL, got);
        if (rows[i].wanted == 1 && s.extrapolation == 0) /* without its ramp yarn is linear */
            for (int k = 0; k < PAIRS; k++)
                expect_close(got[k], plain(10000, k) / 10);
    }
}

/* A folder's words for the same: transformers' names, its default for attention_factor and its mscale pair. */
static void test_folder(void **state)
{
    (void)state;
    static const struct {
        const char *scaling;
        double wanted;
    } rows[] = {
        {"{\"rope_type\": \"yarn\", \"factor\": 4.0}", 0.1 * 1.3862943611198906 + 1},
        {"{\"type\": \"yarn\", \"factor\": 4.0, \"attention_factor\": 1.5}", 1.5},
        {"{\"rope_type\": \"yarn\", \"factor\": 4.0, \"mscale\": 2.0, \"mscale_all_dim\": 1.0}",
         1.2772588722239781 / 1.138629436111989},
        {"{\"rope_type\": \"default\"}", 1},
        {"{\"rope_type\": \"linear\", \"factor\": 4.0}", 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        hearth_error error;
        hearth_model *m;
        json_t *config = tiny_json();
        json_object_set_new(config, "rope_scaling", json_loads(rows[i].scaling, 0, NULL));
        must(tiny_folder(&m, tiny_stored(true, NULL), config, &error), &error);
        assert_true(m->rotaries[0].magnitude == (float)rows[i].wanted);
        hearth_model_close(m);
    }
}

/* rope_theta inside rope_parameters, as newer configs have it. */
static void test_parameters(void **state)
{
    (void)state;
    hearth_error error;
    hearth_model *m;
    json_t *config = tiny_json();
    json_object_del(config, "rope_theta");
    json_object_set_new(config, "rope_parameters",
                        json_loads("{\"rope_type\": \"default\", \"rope_theta\": 250000}", 0, NULL));
    must(tiny_folder(&m, tiny_stored(true, NULL), config, &error), &error);
    assert_int_equal(m->hyper.rope_pairs, 2);
    expect_close(m->rotaries[0].frequencies[1], 1 / 500.0L);
    hearth_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),  cmocka_unit_test(test_linear),     cmocka_unit_test(test_factors),
        cmocka_unit_test(test_llama3), cmocka_unit_test(test_yarn),       cmocka_unit_test(test_magnitude),
        cmocka_unit_test(test_folder), cmocka_unit_test(test_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
