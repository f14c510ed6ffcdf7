/* engine_published_saved.c - folders as transformers 5.24 saves them: every golden with the config that it writes
 * (tests/data/make_saved.py) is the same model as with the one of its kind's first publication, by the fingerprint and the length of
 * a text; and tensors that it gives other names, or saves besides. */
#include "../src/model/fingerprint.h"

#include "published.h"

#include <glob.h>

#define SAVED HEARTH_DATA "/saved/configs/"

/* What a model is, by its fingerprint and the length of a text. Closes the model. */
typedef struct described {
    char fingerprint[FINGERPRINT_SIZE];
    uint32_t context;
} described;

static described describe(hearth_model *m)
{
    described d = {.context = m->hyper.context_length};
    model_fingerprint(d.fingerprint, m);
    hearth_model_close(m);
    return d;
}

static void saved_configs_say_the_same(void **state)
{
    (void)state;
    glob_t found;
    hearth_error error;
    assert_int_equal(glob(SAVED "*.json", 0, NULL, &found), 0);
    assert_true(found.gl_pathc > 100);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *file = found.gl_pathv[i] + strlen(SAVED);
        char name[64], folder[600];
        hearth_model *m;
        json_t *config;
        snprintf(name, sizeof name, "%.*s", (int)(strlen(file) - strlen(".json")), file);
        stack_check(hearth_model_open(&m, golden_path(folder, sizeof folder, name, ""), NULL, &error), &error);
        described expected = describe(m);
        stack_check(json_parse_file(&config, found.gl_pathv[i], &error), &error);
        if (open_as(&m, name, config, NULL, &error) != HEARTH_OK)
            fail_msg("%s: %s", name, error.text);
        json_decref(config);
        described got = describe(m);
        if (strcmp(got.fingerprint, expected.fingerprint) != 0 || got.context != expected.context)
            fail_msg("%s: another model: %s of %u positions, expected %s of %u", name, got.fingerprint, got.context,
                     expected.fingerprint, expected.context);
    }
    globfree(&found);
}

/* Kimi Linear's network of a layer without experts has the name of one with experts. */
static bool name_sparse(checkpoint *to, const checkpoint *from, const stored_tensor *t)
{
    static const char *const parts[] = {"gate_proj", "up_proj", "down_proj"};
    (void)from;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char name[128], other[128];
        snprintf(name, sizeof name, "model.layers.0.mlp.%s.weight", parts[i]);
        snprintf(other, sizeof other, "model.layers.0.block_sparse_moe.%s.weight", parts[i]);
        stored_tensor renamed = *t;
        renamed.name = other;
        if (strcmp(t->name, name) == 0)
            return checkpoint_add_tensor(to, &renamed, NULL) == HEARTH_OK;
    }
    return false;
}

/* MiniMax M3's matrices for pictures lie beside the model. */
static bool add_pictures(checkpoint *to, const checkpoint *from, const stored_tensor *t)
{
    static const char *const names[] = {"multi_modal_projector.linear_1.bias", "patch_merge_mlp.linear_1.bias"};
    (void)from;
    for (size_t i = 0; i < sizeof names / sizeof *names && strstr(t->name, "model.norm.weight"); i++) {
        stored_tensor other = *t;
        other.name = names[i];
        assert_int_equal(checkpoint_add_tensor(to, &other, NULL), HEARTH_OK);
    }
    return false;
}

static void saved_tensors_have_other_names(void **state)
{
    (void)state;
    expect_same("kimi-linear", config_of("kimi-linear"), name_sparse);
    expect_same("minimax-m3", config_of("minimax-m3"), add_pictures);
}

/* A family whose models have no windows must not see everything where a config names one. */
static void windows_are_not_dropped(void **state)
{
    (void)state;
    static const char *const names[] = {"lfm2", "granite-hybrid"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        json_t *config = config_of(names[i]), *list = json_object_get(config, "layer_types");
        for (size_t layer = 0; layer < json_array_size(list); layer++)
            if (strstr(json_string_value(json_array_get(list, layer)), "attention"))
                json_array_set_new(list, layer, json_string("sliding_attention"));
        expect_refused(names[i], config, "has no known mixer");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(saved_configs_say_the_same),
                                       cmocka_unit_test(saved_tensors_have_other_names),
                                       cmocka_unit_test(windows_are_not_dropped)};
    return run_group(tests, NULL, NULL);
}
