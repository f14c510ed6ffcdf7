/* engine_placement.c - placements as JSON: there and back, and everything that can be wrong with one. */
#include "../src/engine/placement.h"

#include "golden.h"

/* Two layers of four neurons; only these two numbers of the model matter here. */
static checkpoint source = {.path = "tiny"};
static struct hearth_model tiny = {.source = &source, .hyper = {.layer_count = 2, .neuron_count = 4}};

#define LAYER(parts) "{\"form\":\"host\",\"selector\":\"all\",\"parts\":[" parts "]}"
#define ALL          LAYER("{\"side\":\"cpu\",\"neurons\":[[0,4]]}")
#define PLACEMENT(layers) \
    "{\"sides\":[\"cpu\"],\"kv\":\"cpu\",\"embedding\":\"cpu\",\"head\":\"cpu\",\"layers\":[" layers "]}"

static void there_and_back(void **state)
{
    (void)state;
    hearth_placement *p, *copy;
    char *json, *again;
    assert_int_equal(hearth_placement_create(&p, &tiny, HEARTH_RUNG_DENSE, NULL), HEARTH_OK);
    assert_int_equal(hearth_placement_print(p, &json, NULL), HEARTH_OK);
    assert_string_equal(json, PLACEMENT(ALL "," ALL));
    assert_int_equal(placement_copy(&copy, p, NULL), HEARTH_OK);
    hearth_placement_destroy(p);
    assert_int_equal(hearth_placement_print(copy, &again, NULL), HEARTH_OK);
    assert_string_equal(again, json);
    hearth_placement_destroy(copy);
    hearth_free(again);
    hearth_free(json);

    static const char split[] =
        PLACEMENT(LAYER("{\"side\":\"cpu\",\"neurons\":[[0,1],[3,4]]},{\"side\":\"cpu\",\"neurons\":[[1,3]]}") "," ALL);
    assert_int_equal(hearth_placement_parse(&p, &tiny, split, sizeof split - 1, NULL), HEARTH_OK);
    assert_int_equal(p->layers[0].part_count, 2);
    assert_int_equal(p->layers[0].parts[0].ranges[1].begin, 3);
    assert_int_equal(hearth_placement_print(p, &json, NULL), HEARTH_OK);
    assert_string_equal(json, split);
    hearth_free(json);
    hearth_placement_destroy(p);
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        hearth_status status;
        const char *fragment;
    } cases[] = {
        {"{", HEARTH_FORMAT, "placement"},
        {"[]", HEARTH_FORMAT, "sides"},
        {PLACEMENT(ALL), HEARTH_FORMAT, "1 layers are listed, the model has 2"},
        {PLACEMENT(ALL ",{}"), HEARTH_FORMAT, "form"},
        {PLACEMENT(ALL "," LAYER("{\"side\":\"cpu\",\"neurons\":[[0,3]]}")), HEARTH_FORMAT,
         "layer 1: neuron 3 is listed nowhere"},
        {PLACEMENT(ALL "," LAYER("{\"side\":\"cpu\",\"neurons\":[[0,4],[3,4]]}")), HEARTH_FORMAT,
         "layer 1: neuron 3 is listed twice"},
        {PLACEMENT(ALL "," LAYER("{\"side\":\"cpu\",\"neurons\":[[0,5]]}")), HEARTH_FORMAT, "no range within 4"},
        {PLACEMENT(ALL "," LAYER("{\"side\":\"cpu\",\"neurons\":[[2,2]]}")), HEARTH_FORMAT, "no range"},
        {PLACEMENT(ALL "," LAYER("{\"side\":\"cpu\",\"neurons\":[[-1,2]]}")), HEARTH_FORMAT, "no range"},
        {PLACEMENT(ALL "," LAYER("{\"side\":\"cpu\",\"neurons\":[1,2]}")), HEARTH_FORMAT, "pairs"},
        {PLACEMENT(ALL "," LAYER("{\"side\":\"gpu\",\"neurons\":[[0,4]]}")), HEARTH_FORMAT, "not among the sides"},
        {PLACEMENT(ALL "," LAYER("")), HEARTH_FORMAT, "neuron 0 is listed nowhere"},
        {PLACEMENT("{\"form\":\"split\",\"selector\":\"all\",\"parts\":[]}," ALL), HEARTH_UNSUPPORTED,
         "form split needs a device"},
        {PLACEMENT("{\"form\":\"host\",\"selector\":\"sign\",\"parts\":[]}," ALL), HEARTH_UNSUPPORTED,
         "tiny: rung exact: the activation silu is never exactly zero"},
        {PLACEMENT("{\"form\":\"host\",\"selector\":\"low-rank\",\"threshold\":0,\"parts\":[]}," ALL),
         HEARTH_UNSUPPORTED, "tiny: rung predicted: the model has no predictors"},
        {PLACEMENT("{\"form\":\"host\",\"selector\":\"router\",\"parts\":[]}," ALL), HEARTH_UNSUPPORTED,
         "selector router"},
        {"{\"sides\":[\"cpu\",\"device0\"],\"layers\":[{},{}]}", HEARTH_UNSUPPORTED, "side device0"},
        {"{\"sides\":[\"cpu\",\"cpu\"],\"layers\":[{},{}]}", HEARTH_FORMAT, "twice"},
        {"{\"sides\":[\"cpu\"],\"kv\":7,\"layers\":[{},{}]}", HEARTH_FORMAT, "kv"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hearth_placement *p = NULL;
        hearth_error error = {0};
        hearth_status status = hearth_placement_parse(&p, &tiny, cases[i].json, strlen(cases[i].json), &error);
        if (status != cases[i].status || !strstr(error.text, cases[i].fragment) || p)
            fail_msg("%s: status %d \"%s\"", cases[i].json, (int)status, error.text);
    }
    assert_int_equal(mem_live(), 0);
}

static void allocation_failures(void **state)
{
    (void)state;
    static const char json[] = PLACEMENT(ALL "," ALL);
    for (long n = 0;; n++) {
        hearth_placement *p = NULL;
        mem_fail_at(n);
        hearth_status status = hearth_placement_parse(&p, &tiny, json, sizeof json - 1, NULL);
        mem_fail_at(-1);
        hearth_placement_destroy(p);
        assert_int_equal(mem_live(), 0);
        if (status == HEARTH_OK) {
            assert_true(n >= 3);
            return;
        }
        assert_int_equal(status, HEARTH_NO_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_and_back),
        cmocka_unit_test(refused),
        cmocka_unit_test(allocation_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
