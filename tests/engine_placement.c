/* engine_placement.c - placements as JSON: there and back, and everything that can be wrong with one; giving layers and
 * neurons to a device. */
#include "../src/engine/placement.h"

#include "golden.h"

/* Two layers of four neurons; only these two numbers of the model matter here. */
static checkpoint source = {.path = "tiny"};
#define NEURONS(f) .attention = {.head_count = 1, .kv_head_count = 1, .head_length = 2}, .ffn = {.neuron_count = f}
static model_layer plain_layers[] = {{NEURONS(4)}, {NEURONS(4)}};
static struct hearth_model tiny = {.source = &source, .layers = plain_layers, .hyper = {.layer_count = 2}};

/* Three layers of six neurons; those of the file's layer 1 lie in another order. */
static const int32_t order[] = {4, 1, 5, 0, 2, 3};
static model_layer ordered_layers[] = {{NEURONS(6)}, {NEURONS(6), .order = order}, {NEURONS(6)}};
static struct hearth_model ordered = {.source = &source, .layers = ordered_layers, .hyper = {.layer_count = 3}};

#define LAYER(parts) "{\"form\":\"host\",\"selector\":\"all\",\"assignments\":[" parts "]}"
#define ALL          LAYER("{\"side\":\"cpu\",\"neurons\":[[0,4]]}")
#define PLACEMENT(layers) \
    "{\"sides\":[\"cpu\"],\"kv\":\"cpu\",\"embedding\":\"cpu\",\"head\":\"cpu\",\"layers\":[" layers "]}"

/* With a device. */
#define FORM(form, parts) "{\"form\":\"" form "\",\"selector\":\"all\",\"assignments\":[" parts "]}"
#define ON(side, ranges)  "{\"side\":\"" side "\",\"neurons\":[" ranges "]}"
#define SIDES(kv, embedding, head, layers)                                                                \
    "{\"sides\":[\"cpu\",\"device0\"],\"kv\":\"" kv "\",\"embedding\":\"" embedding "\",\"head\":\"" head \
    "\",\"layers\":[" layers "]}"
#define DEVICE   FORM("device", ON("device0", "[0,4]"))
#define SPLIT    FORM("split", ON("cpu", "[0,1],[3,4]") "," ON("device0", "[1,3]"))
#define FFN_HOST FORM("ffn-host", ON("cpu", "[0,4]"))

static hearth_placement *parsed(const hearth_model *model, const char *json)
{
    hearth_placement *p = NULL;
    hearth_error error = {0};
    if (hearth_placement_parse(&p, model, json, strlen(json), &error) != HEARTH_OK)
        fail_msg("%s: %s", json, error.text);
    return p;
}

static void prints_as(const hearth_placement *p, const char *expected)
{
    char *json;
    assert_int_equal(hearth_placement_print(p, &json, NULL), HEARTH_OK);
    assert_string_equal(json, expected);
    hearth_free(json);
}

static void there_and_back(void **state)
{
    (void)state;
    hearth_placement *p, *copy;
    char *json, *again;
    assert_int_equal(hearth_placement_create(&p, &tiny, HEARTH_MODE_DENSE, NULL), HEARTH_OK);
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
    assert_int_equal(p->layers[0].assignment_count, 2);
    assert_int_equal(p->layers[0].assignments[0].ranges[1].begin, 3);
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
        {PLACEMENT(ALL), HEARTH_FORMAT, "placement: layers: needs 2, one for each of the model, got 1"},
        {PLACEMENT(ALL ",{}"), HEARTH_FORMAT, "form"},
        {PLACEMENT(ALL "," LAYER("{\"side\":\"cpu\",\"neurons\":[[0,3]]}")), HEARTH_FORMAT,
         "layer 1: neuron 3 is listed nowhere"},
        {PLACEMENT(ALL "," LAYER("{\"side\":\"cpu\",\"neurons\":[[0,4],[3,4]]}")), HEARTH_FORMAT,
         "layer 1: neuron 3 is listed twice"},
        {PLACEMENT(ALL "," LAYER("{\"side\":\"cpu\",\"neurons\":[[0,5]]}")), HEARTH_FORMAT, "not a range within 4"},
        {PLACEMENT(ALL "," LAYER("{\"side\":\"cpu\",\"neurons\":[[2,2]]}")), HEARTH_FORMAT, "not a range"},
        {PLACEMENT(ALL "," LAYER("{\"side\":\"cpu\",\"neurons\":[[-1,2]]}")), HEARTH_FORMAT, "not a range"},
        {PLACEMENT(ALL "," LAYER("{\"side\":\"cpu\",\"neurons\":[1,2]}")), HEARTH_FORMAT, "pairs"},
        {PLACEMENT(ALL "," LAYER("{\"side\":\"gpu\",\"neurons\":[[0,4]]}")), HEARTH_FORMAT, "not among the sides"},
        {PLACEMENT(ALL "," LAYER("")), HEARTH_FORMAT, "neuron 0 is listed nowhere"},
        {PLACEMENT(SPLIT "," ALL), HEARTH_FORMAT, "layer 0: form split: device0 is not among the sides"},
        {PLACEMENT(FORM("both", "") "," ALL), HEARTH_FORMAT, "layer 0: form both is not known"},
        {SIDES("device0", "cpu", "cpu", ALL "," FORM("device", ON("cpu", "[0,1]") "," ON("device0", "[1,4]"))),
         HEARTH_FORMAT, "layer 1: form device: 1 of 4 neurons lie on cpu"},
        {SIDES("device0", "cpu", "cpu", ALL "," FORM("split", ON("cpu", "[0,4]"))), HEARTH_FORMAT,
         "layer 1: form split: all neurons lie on cpu"},
        {SIDES("device0", "cpu", "cpu", ALL "," FORM("split", ON("device0", "[0,4]"))), HEARTH_FORMAT,
         "layer 1: form split: all neurons lie on device0"},
        {SIDES("device0", "cpu", "cpu", ALL "," FORM("ffn-host", ON("device0", "[0,4]"))), HEARTH_FORMAT,
         "layer 1: form ffn-host: 4 of 4 neurons lie on device0, all belong on cpu"},
        {SIDES("device0", "cpu", "cpu", FORM("host", ON("cpu", "[1,4]") "," ON("device0", "[0,1]")) "," DEVICE),
         HEARTH_FORMAT, "layer 0: form host: 1 of 4 neurons lie on device0"},
        {SIDES("device0", "cpu", "cpu", ALL "," FORM("split", ON("cpu", "[0,1]") "," ON("device0", "[2,4]"))),
         HEARTH_FORMAT, "layer 1: neuron 1 is listed nowhere"},
        {SIDES("cpu", "cpu", "cpu", ALL "," FFN_HOST), HEARTH_FORMAT,
         "kv: is cpu, and must be device0: layer 1 is of form ffn-host"},
        {SIDES("device0", "cpu", "cpu", ALL "," ALL), HEARTH_FORMAT,
         "kv: is device0, and must be cpu: every layer is of form host"},
        {SIDES("device0", "device0", "cpu", ALL "," DEVICE), HEARTH_FORMAT,
         "embedding: is device0, and must be cpu: layer 0 is of form host"},
        {SIDES("device0", "cpu", "device1", DEVICE "," DEVICE), HEARTH_FORMAT, "head is device1, which is not among"},
        {PLACEMENT("{\"form\":\"host\",\"selector\":\"sign\",\"assignments\":[]}," ALL), HEARTH_UNSUPPORTED,
         "tiny: mode exact: the activation silu is never exactly zero"},
        {PLACEMENT("{\"form\":\"host\",\"selector\":\"low-rank\",\"threshold\":0,\"assignments\":[]}," ALL),
         HEARTH_UNSUPPORTED, "tiny: selector low-rank: layer 0 has no such predictor"},
        {PLACEMENT("{\"form\":\"host\",\"selector\":\"coarse\",\"threshold\":1,\"assignments\":[]}," ALL),
         HEARTH_UNSUPPORTED, "tiny: selector coarse: layer 0 has no such predictor"},
        {PLACEMENT(LAYER(ON("cpu", "[0,2]") "," ON("nobody", "[2,3]")) "," ALL), HEARTH_FORMAT,
         "placement: layer 0: neuron 3 is listed nowhere"},
        {PLACEMENT(LAYER(ON("cpu", "[0,2]") "," ON("nobody", "[1,4]")) "," ALL), HEARTH_FORMAT,
         "placement: layer 0: neuron 1 is listed twice"},
        {PLACEMENT(ALL "," LAYER(ON("nobody", "[0,4]"))), HEARTH_FORMAT,
         "placement: layer 1: all neurons are left out"},
        {SIDES("device0", "cpu", "cpu",
               FORM("split", ON("cpu", "[0,1]") "," ON("device0", "[1,3]") "," ON("nobody", "[3,4]")) "," ALL),
         HEARTH_UNSUPPORTED,
         "placement: layer 0: form split: neurons of nobody: only layers of form host can leave some out"},
        {SIDES("device0", "cpu", "cpu",
               "{\"form\":\"device\",\"selector\":\"magnitude\",\"threshold\":1,\"assignments\":[]}," ALL),
         HEARTH_UNSUPPORTED, "placement: layer 0: devices do not run the selector magnitude yet"},
        {PLACEMENT("{\"form\":\"host\",\"selector\":\"router\",\"assignments\":[]}," ALL), HEARTH_UNSUPPORTED,
         "selector router"},
        {"{\"sides\":[\"cpu\",\"device0\",\"device1\"],\"layers\":[{},{}]}", HEARTH_UNSUPPORTED,
         "side device1: there are"},
        {"{\"sides\":[\"cpu\",\"gpu\"],\"layers\":[{},{}]}", HEARTH_UNSUPPORTED, "side gpu: there are"},
        {"{\"sides\":[\"device0\",\"cpu\"],\"layers\":[{},{}]}", HEARTH_FORMAT,
         "the first of the sides is device0, and must be cpu"},
        {"{\"sides\":[\"cpu\",\"device0\",\"device0\"],\"layers\":[{},{}]}", HEARTH_FORMAT, "device0 stands twice"},
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

/* Every form, there and back, also through a copy. */
static void devices_there_and_back(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        bool needs_device;
    } cases[] = {
        {SIDES("cpu", "cpu", "cpu", ALL "," ALL), false},
        {SIDES("cpu", "cpu", "device0", ALL "," ALL), true},
        {SIDES("device0", "cpu", "cpu", ALL "," FFN_HOST), true},
        {SIDES("device0", "cpu", "device0", SPLIT "," ALL), true},
        {SIDES("device0", "device0", "device0", DEVICE "," DEVICE), true},
        {SIDES("device0", "device0", "cpu", FFN_HOST "," SPLIT), true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hearth_placement *p = parsed(&tiny, cases[i].json), *copy;
        assert_int_equal(placement_needs_device(p), cases[i].needs_device);
        assert_int_equal(placement_copy(&copy, p, NULL), HEARTH_OK);
        hearth_placement_destroy(p);
        prints_as(copy, cases[i].json);
        hearth_placement_destroy(copy);
    }
    /* Ranges of a part may come in any order. */
    hearth_placement *p =
        parsed(&tiny, SIDES("device0", "cpu", "cpu",
                            ALL "," FORM("split", ON("cpu", "[3,4],[0,1]") "," ON("device0", "[1,3]"))));
    prints_as(p, SIDES("device0", "cpu", "cpu", ALL "," SPLIT));
    assert_false(layer_uses_device(&p->layers[0]));
    assert_true(layer_uses_device(&p->layers[1]));
    assert_int_equal(layer_neurons(&p->layers[1], PLACEMENT_CPU), 2);
    assert_int_equal(layer_neurons(&p->layers[1], PLACEMENT_DEVICE), 2);
    assert_int_equal(layer_neurons(&p->layers[0], PLACEMENT_DEVICE), 0);
    hearth_placement_destroy(p);
    assert_int_equal(mem_live(), 0);
}

#define HOST6     FORM("host", ON("cpu", "[0,6]"))
#define FFN_HOST6 FORM("ffn-host", ON("cpu", "[0,6]"))
#define DEVICE6   FORM("device", ON("device0", "[0,6]"))

/* The first rows of the file go to the device, under their original numbers. */
static void use_device(void **state)
{
    (void)state;
    static const struct {
        uint32_t layers, neurons;
        const char *json;
    } cases[] = {
        {0, 6,
         "{\"sides\":[\"cpu\"],\"kv\":\"cpu\",\"embedding\":\"cpu\",\"head\":\"cpu\",\"layers\":[" HOST6 "," HOST6
         "," HOST6 "]}"},
        {1, 0, SIDES("device0", "cpu", "cpu", HOST6 "," HOST6 "," FFN_HOST6)},
        {2, 6, SIDES("device0", "cpu", "cpu", HOST6 "," DEVICE6 "," DEVICE6)},
        {3, 6, SIDES("device0", "cpu", "device0", DEVICE6 "," DEVICE6 "," DEVICE6)},
        {UINT32_MAX, UINT32_MAX, SIDES("device0", "cpu", "device0", DEVICE6 "," DEVICE6 "," DEVICE6)},
        {3, 0, SIDES("device0", "cpu", "cpu", FFN_HOST6 "," FFN_HOST6 "," FFN_HOST6)},
        {2, 1,
         SIDES("device0", "cpu", "cpu",
               HOST6 "," FORM("split", ON("cpu", "[0,4],[5,6]") "," ON("device0", "[4,5]")) "," FORM(
                   "split", ON("cpu", "[1,6]") "," ON("device0", "[0,1]")))},
        {2, 3,
         SIDES("device0", "cpu", "cpu",
               HOST6 "," FORM("split", ON("cpu", "[0,1],[2,4]") "," ON("device0", "[1,2],[4,6]")) "," FORM(
                   "split", ON("cpu", "[3,6]") "," ON("device0", "[0,3]")))},
        {2, 5,
         SIDES("device0", "cpu", "cpu",
               HOST6 "," FORM("split", ON("cpu", "[3,4]") "," ON("device0", "[0,3],[4,6]")) "," FORM(
                   "split", ON("cpu", "[5,6]") "," ON("device0", "[0,5]")))},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hearth_placement *p;
        assert_int_equal(hearth_placement_create(&p, &ordered, HEARTH_MODE_DENSE, NULL), HEARTH_OK);
        assert_int_equal(hearth_placement_use_device(p, &ordered, cases[i].layers, cases[i].neurons, NULL), HEARTH_OK);
        assert_int_equal(placement_needs_device(p), cases[i].layers > 0);
        prints_as(p, cases[i].json);
        hearth_placement_destroy(p);
        p = parsed(&ordered, cases[i].json);
        prints_as(p, cases[i].json);
        hearth_placement_destroy(p);
    }
    hearth_placement *p;
    hearth_error error;
    assert_int_equal(hearth_placement_create(&p, &tiny, HEARTH_MODE_DENSE, NULL), HEARTH_OK);
    assert_int_equal(hearth_placement_use_device(p, &ordered, 1, 1, &error), HEARTH_INVALID);
    assert_non_null(strstr(error.text, "another model"));
    hearth_placement_destroy(p);
    assert_int_equal(mem_live(), 0);
}

static void allocation_failures_of_use(void **state)
{
    (void)state;
    for (long n = 0;; n++) {
        hearth_placement *p;
        assert_int_equal(hearth_placement_create(&p, &ordered, HEARTH_MODE_DENSE, NULL), HEARTH_OK);
        mem_fail_at(n);
        hearth_status status = hearth_placement_use_device(p, &ordered, 3, 3, NULL);
        mem_fail_at(-1);
        hearth_placement_destroy(p);
        assert_int_equal(mem_live(), 0);
        if (status == HEARTH_OK) {
            assert_true(n >= 1);
            return;
        }
        assert_int_equal(status, HEARTH_NO_MEMORY);
    }
}

static void allocation_failures(void **state)
{
    (void)state;
    static const char json[] = SIDES("device0", "cpu", "cpu", ALL "," SPLIT);
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
        cmocka_unit_test(there_and_back),         cmocka_unit_test(refused),
        cmocka_unit_test(devices_there_and_back), cmocka_unit_test(use_device),
        cmocka_unit_test(allocation_failures),    cmocka_unit_test(allocation_failures_of_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
