/* device_step.c - what the CPU writes to the mirror before a step begins: the step record, and what it makes of tokens alone. */
#include "device_state.h"
#include "ngrams.h"

#include <string.h>

/* Writes where each row finds the state of its sequence, and where it leaves it. */
static void describe_states(const hearth_session *s, size_t count, step_record *step)
{
    const recurrent_states *states = &s->device->recurrent;
    for (size_t i = 0; states->layer_count > 0 && i < count; i++) {
        step_row *row = &step->row[i];
        uint32_t from = recurrent_from(states, row->sequence);
        row->state_to = recurrent_to(states, row->sequence);
        for (size_t k = 0; k < i; k++)
            from = step->row[k].sequence == row->sequence ? step->row[k].state_to : from;
        row->state_from = row->position == 0 ? NO_STATE : from;
    }
}

/* Writes the step record and the angles. */
static void describe_rows(const hearth_session *s, const hearth_row *rows, size_t count)
{
    const scratch *b = &s->scratch;
    const hearth_model *m = s->engine->model;
    char *to = device_buffer_host(s->device->mirror.step);
    step_layout layout = device_step_layout(m, s->device->running_rows);
    step_record *step = (step_record *)(void *)to;
    step->count = (uint32_t)count;
    for (size_t i = 0; i < count; i++)
        step->row[i] =
            (step_row){.sequence = b->sequence[i], .position = b->position[i], .token = (uint32_t)rows[i].token};
    for (size_t i = 0; i < count; i++) {
        float gain = hyper_score_gain(&m->hyper, b->position[i]);
        memcpy(&step->row[i].score_gain, &gain, sizeof gain);
    }
    describe_states(s, count, step);
    for (uint32_t i = 0; i < m->rotary_count; i++) {
        const rotary *r = &m->rotaries[i];
        size_t from = s->batch * (size_t)r->first, at = r->first * layout.pair;
        memcpy(to + layout.cosine + at, b->cosine + from, count * r->pairs * sizeof(float));
        memcpy(to + layout.sine + at, b->sine + from, count * r->pairs * sizeof(float));
    }
}

/* Writes to the mirror the inputs of the layers' own, of a step of `rows` rows of which `count` are used. */
static void put_own_inputs(const hearth_session *s, size_t rows, size_t count)
{
    const hyperparameters *h = &s->engine->model->hyper;
    size_t p = h->per_layer_length;
    for (uint32_t layer = 0; p > 0 && layer < h->layer_count; layer++) {
        float *to = (float *)(void *)((char *)device_buffer_host(s->device->mirror.per_layer) +
                                      device_own_input(h, layer, rows));
        for (size_t i = 0; i < count; i++)
            memcpy(to + i * p, s->scratch.per_layer + (i * h->layer_count + layer) * p, p * sizeof *to);
    }
}

/* Writes to the mirror what the CPU makes of n-grams for a layer of the device. */
static void put_ngrams(hearth_session *s, size_t count)
{
    uint32_t layer = device_ngram_layer(s);
    if (layer == s->engine->model->hyper.layer_count)
        return;
    ngrams_project(s, layer, count);
    const hyperparameters *h = &s->engine->model->hyper;
    size_t bytes = count * h->embedding_length * sizeof(float);
    memcpy(device_buffer_host(s->device->mirror.ngram_keys), s->scratch.stream_gates, h->stream_count * bytes);
    memcpy(device_buffer_host(s->device->mirror.ngram_values), s->scratch.added, bytes);
}

void device_describe_step(hearth_session *s, const hearth_row *rows, size_t count)
{
    describe_rows(s, rows, count);
    put_own_inputs(s, s->device->running_rows, count);
    put_ngrams(s, count);
}
