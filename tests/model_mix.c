/* model_mix.c - the mixes against llama.cpp: tests/data/mixes.json says which format its quantiser gave each matrix of some
 * random models, mixes-families.json which of golden models; and a model written as a whole against llama.cpp's file of the same
 * mix. */
#include "file_build.h"
#include "model_build.h"

#include "../src/base/json.h"
#include "../src/base/pool.h"
#include "../src/model/convert_plan.h"
#include "../src/model/mix.h"

#include <strings.h>

#define MIXES_FILE    HEARTH_MODELS "/../tests/data/mixes.json"
#define FAMILIES_FILE HEARTH_MODELS "/../tests/data/mixes-families.json"

static const struct {
    const char *name;
    mix_role role;
    bool of_network;
} roles[] = {
    {"attn_q", MIX_OTHER, false},  {"attn_k", MIX_KEY, false},
    {"attn_v", MIX_VALUE, false},  {"attn_output", MIX_ATTENTION_OUTPUT, false},
    {"ffn_gate", MIX_OTHER, true}, {"ffn_up", MIX_OTHER, true},
    {"ffn_down", MIX_DOWN, true},
};

static uint32_t number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_integer(value));
    return (uint32_t)json_integer_value(value);
}

/* One model, and what a mix makes of it. */
typedef struct mix_case {
    const char *model, *mix_name;
    const quantize_mix *mix;
    mix_traits traits;
    uint32_t width;
    size_t compared;
} mix_case;

static void compare(mix_case *c, const mix_place *place, const char *what, const char *wanted)
{
    size_t bytes;
    number_format to = mix_format(c->mix, &c->traits, place);
    if (!number_row_bytes(to, c->width, &bytes))
        to = mix_fallback(to);
    if (strcasecmp(number_formats[to].name, wanted) != 0)
        fail_msg("%s in %s, %s %u: %s, llama.cpp has %s", c->model, c->mix_name, what, place->index,
                 number_formats[to].name, wanted);
    c->compared++;
}

/* Compares all layers of a role with a text of the form "q4_K:3 q6_K:1": formats and how many layers have them. */
static void compare_layers(mix_case *c, size_t role, const char *text)
{
    mix_place place = {.role = roles[role].role,
                       .count = c->traits.layers,
                       .of_experts = roles[role].of_network && c->traits.expert_count > 0};
    for (const char *at = text; *at;) {
        char format[16];
        unsigned layers;
        int length;
        assert_int_equal(sscanf(at, "%15[^:]:%u%n", format, &layers, &length), 2);
        for (unsigned i = 0; i < layers; i++, place.index++)
            compare(c, &place, roles[role].name, format);
        at += length;
        at += *at == ' ';
    }
    assert_int_equal(place.index, c->traits.layers);
}

static void compare_mix(mix_case *c, const json_t *row)
{
    c->mix = mix_by_name(c->mix_name);
    assert_non_null(c->mix);
    assert_int_equal(c->mix->file_type, number_of(row, "file_type"));
    const char *head = json_string_value(json_object_get(row, "output"));
    const char *embedding = json_string_value(json_object_get(row, "token_embd"));
    compare(c, &(mix_place){.role = MIX_HEAD}, "head", head ? head : embedding);
    if (head)
        compare(c, &(mix_place){.role = MIX_OTHER}, "embedding", embedding);
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        compare_layers(c, i, json_string_value(json_object_get(row, roles[i].name)));
}

static void as_llama_cpp(void **state)
{
    (void)state;
    json_t *models, *model, *row;
    const char *name, *mix;
    hearth_error error;
    size_t mixes = 0, compared = 0;
    if (json_parse_file(&models, MIXES_FILE, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    json_object_foreach(models, name, model)
    {
        mix_case c = {.model = name, .width = number_of(model, "width")};
        c.traits = (mix_traits){.layers = number_of(model, "layers"),
                                .expert_count = number_of(model, "experts"),
                                .queries_per_key = number_of(model, "heads") / number_of(model, "kv_heads"),
                                .importance = json_is_true(json_object_get(model, "importance"))};
        json_object_foreach(json_object_get(model, "mixes"), mix, row)
        {
            c.mix_name = mix;
            compare_mix(&c, row);
            mixes++;
        }
        compared += c.compared;
    }
    json_decref(models);
    print_message("%zu files of llama.cpp, %zu matrices\n", mixes, compared);
    assert_true(mixes >= 100);
}

/* Finds the format that a plan gives the next tensor of that name, "*" standing for its layer, at or behind *at. */
static const char *next_format(const convert_plan *p, const char *name, size_t *at)
{
    unsigned layer;
    for (char tensor[128]; *at < p->count; (*at)++) {
        const convert_step *step = &p->items[*at].step;
        const char *rest = strncmp(step->name, "blk.", 4) == 0 ? strchr(step->name + 4, '.') : NULL;
        bool of_layer = rest && sscanf(step->name, "blk.%u.", &layer) == 1;
        snprintf(tensor, sizeof tensor, "%s%s", of_layer ? "blk.*" : "", of_layer ? rest : step->name);
        if (strcmp(tensor, name) == 0) {
            (*at)++;
            return number_formats[step->to].name;
        }
    }
    return NULL;
}

/* Compares the matrices of one family in one mix; returns how many. */
static size_t compare_family(const json_t *row)
{
    const char *golden = json_string_value(json_object_get(row, "family")), *name;
    const char *mix = json_string_value(json_object_get(row, "mix"));
    convert_options o = {.mix = mix_by_name(mix), .format = mix_by_name(mix)->base};
    convert_plan p = {.options = &o};
    char path[512], wanted[16];
    size_t compared = 0;
    hearth_error error;
    checkpoint *source;
    hearth_model *model;
    json_t *formats;
    snprintf(path, sizeof path, HEARTH_DATA "/golden/%s/model.gguf", golden);
    must(model_open_checkpoint(&source, path, &error), &error);
    must(model_check(&model, source, &(hearth_model_options){0}, &error), &error);
    p.source = source;
    p.model = model;
    must(convert_plan_make(&p, &error), &error);
    for (size_t i = 0; i < p.count; i++) { /* nothing but the format changes */
        const convert_item *item = &p.items[i];
        size_t row_bytes;
        assert_memory_equal(item->to.shape, item->from.shape, sizeof item->to.shape);
        assert_true(number_row_bytes(item->to.format, item->to.shape[0], &row_bytes));
        assert_int_equal(item->to.size_bytes, row_bytes * stored_tensor_rows(&item->to));
    }
    json_object_foreach(json_object_get(row, "formats"), name, formats)
    {
        const char *text = json_string_value(formats), *found;
        size_t at = 0, of_name = 0;
        bool alike = strchr(text, ' ') == NULL; /* else one for each layer */
        for (; (found = next_format(&p, name, &at)) != NULL; of_name++) {
            int length = 0;
            assert_int_equal(sscanf(text, "%15s%n", wanted, &length), 1);
            if (strcasecmp(wanted, found) != 0)
                fail_msg("%s in %s, the %zu-th %s: %s, llama.cpp has %s", golden, mix, of_name, name, found, wanted);
            text += alike ? 0 : length;
        }
        assert_true(of_name > 0 && (alike || *text == 0));
        compared += of_name;
    }
    arena_clear(&p.memory);
    hearth_model_close(model);
    checkpoint_close(source);
    return compared;
}

static void families_as_llama_cpp(void **state)
{
    (void)state;
    json_t *rows, *row;
    hearth_error error;
    size_t index, compared = 0;
    if (json_parse_file(&rows, FAMILIES_FILE, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    json_array_foreach(rows, index, row) compared += compare_family(row);
    print_message("%zu files of llama.cpp, %zu matrices\n", json_array_size(rows), compared);
    assert_true(json_array_size(rows) >= 140 && compared >= 5000);
    json_decref(rows);
}

static void names(void **state)
{
    (void)state;
    char list[256], *rest = list;
    size_t count = 0;
    mix_list(list, sizeof list);
    for (char *name; (name = strsep(&rest, ",")) != NULL; count++) {
        name += *name == ' ';
        assert_string_equal(mix_by_name(name)->name, name);
    }
    assert_int_equal(count, 17);
    assert_non_null(mix_by_name("Q4_K_M"));
    assert_null(mix_by_name("q4_k"));
    assert_null(mix_by_name("f16"));
    assert_null(mix_by_name(""));
}

/* A file of the mix, made from the same weights as llama.cpp's, has its formats tensor by tensor. */
static void whole_files(void **state)
{
    (void)state;
    static const struct {
        const char *golden, *mix;
    } rows[] = {{"llama-256-q4_k_m", "q4_k_m"}, {"llama-256-q4_0", "q4_0"}};
    char folder[256], out[300], path[512];
    hearth_error error;
    pool *threads;
    must(pool_create(&threads, 2, &error), &error);
    make_folder(folder, sizeof folder);
    snprintf(out, sizeof out, "%s/out.gguf", folder);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        checkpoint *made, *wanted;
        convert_options o = {.mix = mix_by_name(rows[i].mix), .format = mix_by_name(rows[i].mix)->base};
        must(convert_write(HEARTH_DATA "/golden/llama-256", out, &o, threads, &error), &error);
        snprintf(path, sizeof path, HEARTH_DATA "/golden/%s/model.gguf", rows[i].golden);
        must(model_open_checkpoint(&made, out, &error), &error);
        must(model_open_checkpoint(&wanted, path, &error), &error);
        assert_int_equal(made->tensor_count, wanted->tensor_count);
        for (size_t k = 0; k < wanted->tensor_count; k++) {
            const stored_tensor *t = checkpoint_find_tensor(made, wanted->tensors[k].name);
            assert_non_null(t);
            assert_string_equal(number_formats[t->format].name, number_formats[wanted->tensors[k].format].name);
        }
        assert_int_equal(checkpoint_find(made, "general.file_type")->as.u,
                         checkpoint_find(wanted, "general.file_type")->as.u);
        checkpoint_close(made);
        checkpoint_close(wanted);
    }
    remove(out);
    remove(folder);
    pool_destroy(threads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_llama_cpp), cmocka_unit_test(families_as_llama_cpp),
                                       cmocka_unit_test(names), cmocka_unit_test(whole_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
