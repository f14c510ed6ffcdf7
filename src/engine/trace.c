/* trace.c - see trace.h. */
#include "trace.h"

#include "device_state.h"

/* Reports one span. */
static void show(const hearth_session *s, const char *side, const char *what, uint32_t layer, double begin, double end)
{
    hearth_span seen = {side, what, layer, begin, end};
    s->tracer.see(s->tracer.user, &seen);
}

/* Reports what the CPU did with a layer; "wait" is the time until its neurons could begin. */
static void show_host(const hearth_session *s, uint32_t layer)
{
    const double *at = s->scratch.moments[layer];
    layer_form form = s->engine->layers[layer].form;
    if (form == FORM_DEVICE)
        return;
    if (form != FORM_HOST && device_step_streams(s, layer)) {
        show(s, "cpu", "stream", layer, at[MOMENT_BEGIN], at[MOMENT_END]);
        return;
    }
    show(s, "cpu", form == FORM_HOST ? "attention" : "wait", layer, at[MOMENT_BEGIN], at[MOMENT_NEURONS]);
    show(s, "cpu", "neurons", layer, at[MOMENT_NEURONS], at[MOMENT_END]);
}

/* Reports what the device did with a layer. */
static void show_device(const hearth_session *s, uint32_t layer)
{
    static const struct {
        const char *what;
        unsigned begin, end;
    } spans[] = {{"attention", STAMP_BEGIN, STAMP_NEURONS},
                 {"neurons", STAMP_NEURONS, STAMP_OWN_END},
                 {"join", STAMP_JOIN, STAMP_END}};
    const engine_layer *l = &s->engine->layers[layer];
    if (l->form == FORM_HOST)
        return;
    bool works = s->engine->uploaded->layers[layer].neuron_count > 0; /* without neurons it has no such span */
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++)
        if (works || spans[i].begin != STAMP_NEURONS)
            show(s, s->engine->placement->sides[PLACEMENT_DEVICE], spans[i].what, layer,
                 device_stamp_seconds(s->device->running, STAMP(layer, spans[i].begin)),
                 device_stamp_seconds(s->device->running, STAMP(layer, spans[i].end)));
}

/* Reports the parts of a layer that was streamed: their copies, which a queue of their own makes, and their computing. */
static void show_parts(const hearth_session *s, uint32_t layer)
{
    uint32_t layers = s->engine->model->hyper.layer_count, first = device_stream_first(s, layer);
    uint32_t end = first + device_stream_parts(s, layer);
    const device_program *p = s->device->running;
    for (uint32_t i = first; i < end; i++) {
        show(s, "bus", "copy", layer, device_stamp_seconds(p, STAMP_PART(layers, i, PART_STAMP_COPY)),
             device_stamp_seconds(p, STAMP_PART(layers, i, PART_STAMP_COPIED)));
        show(s, s->engine->placement->sides[PLACEMENT_DEVICE], "streamed", layer,
             device_stamp_seconds(p, STAMP_PART(layers, i, PART_STAMP_BEGIN)),
             device_stamp_seconds(p, STAMP_PART(layers, i, PART_STAMP_END)));
    }
}

void trace_batch(const hearth_session *s)
{
    for (uint32_t i = 0; i < s->engine->model->hyper.layer_count; i++) {
        show_host(s, i);
        show_device(s, i);
        if (s->engine->layers[i].form != FORM_HOST && device_step_streams(s, i))
            show_parts(s, i);
    }
}
