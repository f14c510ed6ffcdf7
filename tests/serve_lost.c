/* serve_lost.c - a device that fails for good while requests are answered: all are told, and so is whoever asks later. */
#include "../src/device/device.h"
#include "../src/serve/api.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static void on_lost(void *user)
{
    atomic_fetch_add((atomic_int *)user, 1);
}

static void doze(void)
{
    const struct timespec moment = {.tv_nsec = 200000};
    nanosleep(&moment, NULL);
}

/* Waits for a whole answer, and returns its status. */
static unsigned finish(reply *r)
{
    while (r->talk && !talk_collect(r->talk, r))
        doze();
    talk_free(r->talk);
    buffer_free(&r->body);
    return r->status;
}

static void a_lost_device_is_told(void **state)
{
    (void)state;
    static serve s;
    static served m;
    static const char body[] = "{\"prompt\": \"Once\", \"n\": 3, \"max_tokens\": 400, \"ignore_eos\": true}";
    const hearth_runtime_options on_host = {.threads = 2, .device = "host"};
    hearth_runtime *runtime;
    hearth_model *model;
    hearth_placement *placement;
    hearth_engine *engine;
    hearth_error error;
    reply first = {0}, late = {0}, health = {0};
    atomic_int lost = 0;
    assert_int_equal(hearth_runtime_create(&runtime, &on_host, NULL), HEARTH_OK);
    assert_int_equal(hearth_model_open(&model, HEARTH_MODELS "/stories-relu-q8_0.gguf", NULL, NULL), HEARTH_OK);
    hearth_model_describe(model, &m.info);
    assert_int_equal(hearth_placement_create(&placement, model, HEARTH_MODE_DENSE, NULL), HEARTH_OK);
    assert_int_equal(hearth_placement_use_device(placement, model, m.info.layer_count, 64, NULL), HEARTH_OK);
    const hearth_engine_options placed = {.placement = placement};
    assert_int_equal(hearth_engine_create(&engine, runtime, model, &placed, NULL), HEARTH_OK);
    s = (serve){.models = &m, .model_count = 1};
    m.serve = &s;
    m.options = (served_options){.name = "story", .engine = engine, .sampling = hearth_sampling_default()};
    m.model = model;
    const driver_options options = {.session = {.context = 450, .sequences = 2},
                                    .queue = 6,
                                    .metrics = &m.metrics,
                                    .on_lost = on_lost,
                                    .user = &lost};
    assert_int_equal(driver_create(&m.driver, engine, &options, NULL), HEARTH_OK);
    completion_answer_request(&s, span_of(body), &first);
    assert_non_null(first.talk);
    device_fail_at(40);
    assert_int_equal(finish(&first), 500);
    while (driver_is_well(m.driver, &error)) /* told behind the last answer */
        doze();
    device_fail_at(-1);
    assert_non_null(strstr(error.text, "injected fault"));
    completion_answer_request(&s, span_of(body), &late);
    assert_int_equal(finish(&late), 503);
    state_health(&s, (span){0}, &health);
    assert_int_equal(finish(&health), 503);
    driver_destroy(m.driver);
    assert_int_equal(atomic_load(&lost), 1);
    hearth_engine_destroy(engine);
    hearth_placement_destroy(placement);
    hearth_model_close(model);
    hearth_runtime_destroy(runtime);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_lost_device_is_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
