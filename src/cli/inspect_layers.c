/* inspect_layers.c - what the layers of a model compute, in words for people and as numbers for programs. */
#include "../base/memory.h"
#include "inspect_internal.h"

#include <stdio.h>

hearth_status inspect_layers_open(layer_words **out, const hearth_model *model, hearth_error *error)
{
    uint32_t count = model->hyper.layer_count;
    *out = mem_new_array(count, sizeof **out);
    if (!*out)
        return fail_memory(error, "layers", count * sizeof **out);
    for (uint32_t i = 0; i < count; i++)
        layer_describe(&(*out)[i], model, i);
    return HEARTH_OK;
}

/* Prints which layers are described like the first one of them: "layers 0 to 4, 6 to 10". */
static void print_numbers(const layer_words *words, uint32_t count, uint32_t first)
{
    bool one = true;
    for (uint32_t i = first + 1; i < count && one; i++)
        one = !layer_words_equal(&words[i], &words[first]);
    fputs(one ? "layer" : "layers", stdout);
    for (uint32_t i = first; i < count; i++) {
        uint32_t last = i;
        if (!layer_words_equal(&words[i], &words[first]))
            continue;
        while (last + 1 < count && layer_words_equal(&words[last + 1], &words[first]))
            last++;
        printf(i == first ? " %u" : ", %u", i);
        if (last > i)
            printf(" to %u", last);
        i = last;
    }
    putchar('\n');
}

void inspect_layers_print(const layer_words *words, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t like = 0;
        while (!layer_words_equal(&words[like], &words[i]))
            like++;
        if (like < i)
            continue;
        print_numbers(words, count, i);
        if (words[i].attention[0])
            printf("  attention %s\n", words[i].attention);
        if (words[i].recurrent[0])
            printf("  recurrent %s\n", words[i].recurrent);
        if (words[i].norms[0])
            printf("  norms     %s\n", words[i].norms);
        printf("  wiring    %s\n", words[i].wiring);
        if (words[i].experts[0])
            printf("  experts   %s\n", words[i].experts);
        if (words[i].network[0])
            printf("  network   %s\n", words[i].network);
    }
}

static json_t *json_layer(const model_layer *l, const layer_words *w)
{
    static const char *const wirings[WIRING_COUNT] = {[WIRING_SEQUENTIAL] = "sequential",
                                                      [WIRING_PARALLEL] = "parallel",
                                                      [WIRING_STREAMS] = "streams",
                                                      [WIRING_CONNECTED] = "connected"};
    static const char *const gatings[] = {[FFN_GATED] = "gated", [FFN_GATED_BOTH] = "both", [FFN_PLAIN] = "plain"};
    const attention_shape *a = &l->attention;
    const ffn_shape *f = &l->ffn;
    json_t *words = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "attention", w->attention, "recurrent", w->recurrent,
                              "norms", w->norms, "wiring", w->wiring, "experts", w->experts, "network", w->network);
    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:b, s:s, s:s, s:s, s:o, s:o, s:i, s:i, s:i, s:i, s:i, s:o}",
                     "head_count", (int)a->head_count, "kv_head_count", (int)a->kv_head_count, "head_length",
                     (int)a->head_length, "rotated_pairs", a->rotary ? (int)a->rotary->pairs : 0, "window",
                     (int)a->window, "chunked", (int)a->chunked, "wiring", wirings[l->wiring], "gating",
                     gatings[f->gating], "activation", ffn_activations[f->activation].name, "threshold",
                     json_number((double)f->threshold), "shared_threshold", json_number((double)f->shared_threshold),
                     "neuron_count", (int)f->neuron_count, "expert_count", (int)f->router.expert_count, "experts_used",
                     (int)f->router.used, "expert_neurons", (int)f->expert_neurons, "shared_neurons",
                     (int)f->shared_neurons, "words", words);
}

json_t *inspect_layers_json(const layer_words *words, const hearth_model *model)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < model->hyper.layer_count; i++)
        json_array_append_new(array, json_layer(&model->layers[i], &words[i]));
    return array;
}
