/* layer_describe.c - see layer_describe.h. */
#include "layer_describe.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define PI 3.14159265358979323846
/* Radians per position below which a pair does not turn in any text. */
#define FROZEN 1e-20

/* Appends to a phrase. Every phrase fits: its numbers have at most ten digits. */
static void say(char *out, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void say(char *out, size_t size, const char *format, ...)
{
    size_t used = strlen(out);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(out + used, size - used, format, arguments);
    va_end(arguments);
}

/* Returns a number above 0 rounded to three digits, so that it can be shown without an exponent. */
static double three_digits(double value)
{
    double unit = 1;
    while (value >= 1000 * unit)
        unit *= 10;
    return round(value / unit) * unit;
}

/* The wavelength of the slowest pair tells rotaries of different bases and scalings apart. */
static void describe_rotary(char *out, size_t size, const attention_shape *a)
{
    static const char *const pairings[] = {[ROPE_NEIGHBOURS] = "neighbours", [ROPE_HALVES] = "halves"};
    const rotary *r = a->rotary;
    uint32_t turning = r ? r->pairs : 0;
    while (turning > 0 && r->frequencies[turning - 1] < FROZEN)
        turning--;
    if (turning == 0) {
        say(out, size, "; not rotated");
        return;
    }
    say(out, size, "; %u of %u pairs (%s%s) rotated%s, wavelengths up to %.0f", turning, a->head_length / 2,
        pairings[r->pairing], r->last ? ", the last" : "", a->back_rotary ? " and what is read back" : "",
        three_digits(2 * PI / r->frequencies[turning - 1]));
    if (r->long_frequencies)
        say(out, size, ", more slowly in contexts above %u", r->long_from);
}

/* "; sees 128 positions, and of summaries of 4, which overlap, the 512 that 64 heads of 128 choose" */
static void describe_summaries(char *out, size_t size, const attention_shape *a)
{
    const summary_shape *s = &a->summary;
    say(out, size, "; sees %u positions, and %s summaries of %u%s", a->window, a->chosen > 0 ? "of" : "all",
        s->together, s->parts > 1 ? ", which overlap" : "");
    if (a->chosen > 0)
        say(out, size, ", the %u that %u heads of %u choose", a->chosen / a->pool, a->index.head_count,
            a->index.head_length);
}

/* Says which positions a row sees. */
static void describe_seen(char *out, size_t size, const attention_shape *a, uint32_t layer)
{
    if (a->summary.together > 0) {
        describe_summaries(out, size, a);
        return;
    }
    if (a->index.by_head) {
        say(out, size,
            "; each head of keys sees %u blocks of %u positions that a head of %u of its own chooses, and the last %u",
            a->chosen / a->pool, a->pool, a->index.head_length, a->last_pools);
        return;
    }
    if (a->index.head_count > 0)
        say(out, size, ", sees %u positions that %u heads of %u choose", a->chosen, a->index.head_count,
            a->index.head_length);
    if (a->index.head_count > 0 && a->pool > 1)
        say(out, size, ", %u together, and those after the last %u", a->pool, a->pool);
    if (a->index.head_count == 0 && a->chosen > 0)
        say(out, size, ", sees the positions that layer %u chooses", layer - a->chosen_back);
    if (a->window > 0)
        say(out, size, a->chunked ? "; sees its chunk of %u positions" : "; sees %u positions", a->window);
}

static void describe_attention(char *out, size_t size, const model_layer *l, uint32_t layer)
{
    const attention_shape *a = &l->attention;
    if (l->mixer != MIXER_ATTENTION)
        return;
    if (a->compressed > 0)
        say(out, size, "latent: %u heads of %u and %u, keys and values in %u and %u; ", a->head_count, a->unrotated,
            a->head_length - a->compressed, a->compressed, a->head_length - a->compressed);
    say(out, size, "%u heads of %u, %u of keys %s values", a->head_count, a->head_length, a->kv_head_count,
        a->keys_back == 0 && !l->v.data ? "that also are the" : "and");
    if (a->compressed == 0 && a->value_length != a->head_length)
        say(out, size, " of %u", a->value_length);
    if (a->value_scale != 1)
        say(out, size, " times %g", (double)a->value_scale);
    if (a->keys_back > 0)
        say(out, size, ", those of layer %u", layer - a->keys_back);
    describe_rotary(out, size, a);
    if (a->norm_turned)
        say(out, size, ", then normed");
    describe_seen(out, size, a, layer);
    if (a->norm_queries)
        say(out, size, "; queries normed without weights");
    if (a->output_groups > 0)
        say(out, size, "; %u groups of heads make %u values each", a->output_groups, a->output_rank);
    if (a->norm_plain)
        say(out, size, "; queries and keys normed without weights");
    if (a->grows)
        say(out, size, "; scores grow with the position");
    if (a->softcap > 0)
        say(out, size, "; scores capped at %g", (double)a->softcap);
    if (l->sinks)
        say(out, size, "; sinks");
    if (a->gate_length > 0)
        say(out, size, "; %s%s", a->gate_length > 1 ? "gated" : "a gate for each head",
            a->gate_softplus ? " (softplus)" : "");
    if (l->q_bias || l->qkv_bias)
        say(out, size, "; biases");
}

static void describe_recurrent(char *out, size_t size, const model_layer *l)
{
    static const char *const rules[] = {[RECURRENCE_MAMBA2] = "Mamba-2", [RECURRENCE_DELTA] = "gated delta net"};
    const recurrent_shape *r = &l->recurrent;
    char state[16];
    if (l->mixer != MIXER_RECURRENT)
        return;
    double floats = (double)recurrent_width(r) * r->key_length + (r->window - 1.0) * recurrent_channels(r) + r->more;
    if (r->rule == RECURRENCE_SHORT) {
        say(out, size, "gated convolution of %u tokens; a state of %s", r->window,
            text_size(state, floats * sizeof(float)));
        return;
    }
    if (recurrent_by_columns(r)) {
        say(out, size, "%s: %u heads of %u", r->rule == RECURRENCE_KDA ? "Kimi Delta Attention" : "RWKV-7",
            r->head_count, r->value_length);
        if (r->rule == RECURRENCE_KDA)
            say(out, size, ", convolution of %u tokens", r->window);
        if (r->decay_floor < 0)
            say(out, size, ", decays of exp(%g) or more", (double)r->decay_floor);
        say(out, size, "; a state of %s", text_size(state, floats * sizeof(float)));
        return;
    }
    say(out, size, "%s: %u heads of %u, %u keys of %u, convolution of %u tokens; a state of %s", rules[r->rule],
        r->head_count, r->value_length, r->key_count, r->key_length, r->window,
        text_size(state, floats * sizeof(float)));
}

/* "before attention and network", for one of two places. */
static void describe_places(char *out, size_t size, const char *place, const char *mixer, const norm_weights *attention,
                            const norm_weights *network, bool *said)
{
    char both[32];
    if (!attention->weight && !network->weight)
        return;
    snprintf(both, sizeof both, "%s and network", mixer);
    const char *which = !network->weight ? mixer : attention->weight && *mixer ? both : "network";
    say(out, size, "%s %s %s", *said ? "," : "", place, which);
    *said = true;
}

/* What the texts call a mixer. */
static const char *const mixer_words[MIXER_COUNT] = {
    [MIXER_ATTENTION] = "attention", [MIXER_RECURRENT] = "recurrence", [MIXER_NONE] = ""};

static void describe_norms(char *out, size_t size, const hyperparameters *h, const model_layer *l)
{
    const char *mixer = mixer_words[l->mixer];
    bool said = false;
    bool one = l->wiring == WIRING_PARALLEL && l->attention_norm.weight == l->ffn_norm.weight;
    const norm_weights *first = l->attention_norm.weight ? &l->attention_norm : &l->ffn_norm;
    if (l->mixer == MIXER_NONE && l->ffn.neuron_count == 0)
        return;
    say(out, size, "%s%s", h->norm == NORM_RMS ? "RMS" : "layer norm", first->bias ? " with biases" : "");
    if (one)
        say(out, size, " before both, the same one");
    else
        describe_places(out, size, "before", mixer, &l->attention_norm, &l->ffn_norm, &said);
    describe_places(out, size, "after", mixer, &l->attention_post_norm, &l->ffn_post_norm, &said);
    describe_places(out, size, "inside", mixer, &l->attention_inner_norm, &l->ffn_inner_norm, &said);
    if (l->query_norm.weight)
        say(out, size, "; of queries%s%s, %s", l->key_norm.weight ? " and keys" : "",
            l->attention.norm_values && l->attention.keys_back == 0 ? ", and of values without weights" : "",
            l->attention.norm_whole ? "all heads together" : "each head");
    if (l->experts_norm.weight)
        say(out, size, "; of router, experts and the network beside them, each its own");
}

static void describe_experts(char *out, size_t size, const model_layer *l)
{
    static const char *const scorings[ROUTER_SCORINGS] = {[ROUTER_SOFTMAX] = "softmax",
                                                          [ROUTER_SIGMOID] = "sigmoid",
                                                          [ROUTER_ROOT_SOFTPLUS] = "the root of softplus",
                                                          [ROUTER_SIGMOID_OF_CHOSEN] =
                                                              "products (weighed by their sigmoid)"};
    const ffn_shape *f = &l->ffn;
    const router_shape *r = &f->router;
    if (r->expert_count == 0)
        return;
    say(out, size, "%u of %u, by %s", r->used, r->expert_count, scorings[r->scoring]);
    if (r->by_token)
        say(out, size, ", which each token has in a table");
    if (l->router_correction)
        say(out, size, " with a correction");
    if (r->group_count > 1)
        say(out, size, ", from %u of %u groups", r->group_used, r->group_count);
    if (r->shares)
        say(out, size, ", shares of their sum");
    if (r->scale != 1)
        say(out, size, ", times %g", (double)r->scale);
    if (r->early)
        say(out, size, "; chosen by what enters the layer");
    if (l->expert_scales)
        say(out, size, ", each scaled");
    if (f->latent > 0)
        say(out, size, "; of %u values each", f->latent);
    if (l->experts_norm.weight)
        say(out, size, "; beside a network of %u neurons", f->shared_neurons);
    else if (f->shared_neurons > 0)
        say(out, size, "; one shared of %u neurons%s", f->shared_neurons, l->shared_gate ? ", gated" : "");
    if (f->shared_neurons > 0 && r->shared_scale != 1)
        say(out, size, ", times %g", (double)r->shared_scale);
}

/* "silu(gate) * up, each at most 7, in the shared expert at most 16"; "gate and up", where the limit is of what silu reads. */
static void describe_limits(char *out, size_t size, const ffn_shape *f)
{
    say(out, size, "silu(gate) * up");
    if (f->threshold > 0)
        say(out, size, ", %s at most %g", f->activation == FFN_SILU_CLAMPED ? "gate and up" : "each",
            (double)f->threshold);
    if (f->shared_threshold == f->threshold)
        return;
    if (f->shared_threshold > 0)
        say(out, size, ", in the shared expert at most %g", (double)f->shared_threshold);
    else
        say(out, size, ", except in the shared expert");
}

static void describe_network(char *out, size_t size, const model_layer *l)
{
    const ffn_shape *f = &l->ffn;
    const char *activation = ffn_activations[f->activation].name;
    if (f->neuron_count == 0)
        return;
    if (f->activation == FFN_SWIGLU_CLAMPED)
        say(out, size, "%s(gate, up), limit %g", activation, (double)f->threshold);
    else if (f->activation == FFN_SILU_LIMITED || f->activation == FFN_SILU_CLAMPED)
        describe_limits(out, size, f);
    else if (f->gating == FFN_GATED_BOTH)
        say(out, size, "relu(gate) * relu(up)");
    else
        say(out, size, "%s%s", activation, f->gating == FFN_GATED ? "(gate) * up" : "(up), no gate");
    if (f->threshold > 0 && ffn_has_zeros(f->activation))
        say(out, size, ", zero up to %g", (double)f->threshold);
    if (l->mask_in.data)
        say(out, size, ", where the model's own predictor lets through");
    if (f->cuts)
        say(out, size, ", zero up to %.3g deviations above the mean of all gates, which the others lose",
            (double)f->cut);
    say(out, size, "; %u neurons", f->expert_neurons);
    if (layer_first_bias(l) || l->down_bias)
        say(out, size, "; biases");
}

static void describe_wiring(char *out, size_t size, const hyperparameters *h, const model_layer *l)
{
    if (l->mixer == MIXER_NONE && l->ffn.neuron_count == 0)
        say(out, size, "nothing");
    else if (l->mixer == MIXER_NONE || l->ffn.neuron_count == 0)
        say(out, size, "%s alone", l->mixer == MIXER_NONE ? "network" : mixer_words[l->mixer]);
    else
        say(out, size, "%s%s%s", mixer_words[l->mixer],
            l->wiring == WIRING_STREAMS ? " with two small matrices beside it" : "",
            l->wiring == WIRING_PARALLEL ? " and network side by side" : ", then network");
    if (l->wiring == WIRING_CONNECTED && h->connection_rank > 0)
        say(out, size, ", each on what gates of rank %u let through of %u streams, and added to all of them",
            h->connection_rank, h->stream_count);
    else if (l->wiring == WIRING_CONNECTED)
        say(out, size, ", each on a mixture of %u streams, %s", h->stream_count,
            h->connection_steps > 0 ? "of which it makes other mixtures" : "and added to all of them");
    else if (h->stream_count > 1)
        say(out, size, ", on one of %u streams, of which all are predicted and corrected", h->stream_count);
    if (l->ngrams)
        say(out, size, "; before it, embeddings of the last 2 to %u tokens, %u rows of %u values", h->ngrams.longest,
            ngram_heads(&h->ngrams), h->ngrams.row_length);
    if (h->per_layer_length > 0)
        say(out, size, "; then an input of its own of %u values", h->per_layer_length);
    if (l->output_scale)
        say(out, size, "; scaled at the end");
}

void layer_describe(layer_words *out, const hearth_model *model, uint32_t layer)
{
    const model_layer *l = &model->layers[layer];
    const hyperparameters *h = &model->hyper;
    memset(out, 0, sizeof *out);
    describe_attention(out->attention, sizeof out->attention, l, layer);
    describe_recurrent(out->recurrent, sizeof out->recurrent, l);
    describe_norms(out->norms, sizeof out->norms, h, l);
    describe_wiring(out->wiring, sizeof out->wiring, h, l);
    describe_experts(out->experts, sizeof out->experts, l);
    describe_network(out->network, sizeof out->network, l);
}

bool layer_words_equal(const layer_words *a, const layer_words *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}
