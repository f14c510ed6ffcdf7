/* cost.c - see cost.h. */
#include "cost.h"

/* What is assumed where nothing was measured. Shares of a side's bandwidth are what hearth's kernels reach while decoding
 * (bench/results); launches are those of docs/hybrid.md. */
#define CPU_SHARE        0.85
#define DEVICE_SHARE     0.80
#define MIXER_LAUNCHES   8
#define NETWORK_LAUNCHES 8
#define HEAD_LAUNCHES    4
#define MIXER_JOBS       3
#define NETWORK_JOBS     2
#define SCRATCH_BYTES    64e6
/* Choosing a token, its embedding, and what else the CPU does once per token. */
#define TOKEN_SECONDS 100e-6

static const struct {
    const char *name, *text;
} terms[COST_TERMS] = {
#define X(id, name, text) {name, text},
    COST_TERM_LIST(X)
#undef X
};

const char *cost_term_name(cost_term term)
{
    return terms[term].name;
}

const char *cost_term_text(cost_term term)
{
    return terms[term].text;
}

static const machine_rates *rates_of(const cost_model *c, int side)
{
    return side == SIDE_CPU ? &c->on->rates : &c->device->rates;
}

neuron_work cost_work(const layer_load *l, uint32_t begin, uint32_t end)
{
    double rest = l->neurons > l->always ? (l->need * l->neurons - l->always) / (l->neurons - l->always) : 0;
    double always = end < l->always ? end - begin : begin < l->always ? l->always - begin : 0;
    double needs = always + rest * (end - begin - always), fires = l->need > 0 ? needs * l->fire / l->need : 0;
    if (l->needs) {
        needs = fires = 0;
        for (uint32_t i = begin; i < end; i++) {
            needs += (double)l->needs[i];
            fires += (double)l->fires[i];
        }
    }
    if (!l->lists)
        return (neuron_work){needs * (l->first_bytes + l->other_bytes), 0};
    double listed = fires * l->other_bytes;
    if (l->predictor_bytes > 0) /* the predictor is read whole, and lists rows of the first matrix too */
        return (neuron_work){l->in_use * (end - begin) * l->predictor_bytes, needs * l->first_bytes + listed};
    return (neuron_work){needs * l->first_bytes, listed};
}

double cost_reading(const cost_model *c, const layer_load *l, int side, neuron_work work, bool leads)
{
    const machine_rates *r = rates_of(c, side);
    double listed = work.listed_bytes > 0 ? work.listed_bytes / machine_listed_rate(r, l->row_bytes) : 0;
    return (work.whole_bytes + (leads ? l->network_bytes : 0)) / r->whole.value + listed;
}

double cost_mixer(const cost_model *c, const layer_load *l, int side, double context)
{
    double seen = l->window > 0 && l->window < context ? l->window : context;
    double read = l->kv_read_bytes * seen + (seen < context ? l->kv_score_bytes * context + l->score_bytes : 0);
    if (!l->has_mixer)
        return 0;
    double seconds = c->sides[side][l->kind].mixer_seconds.value + read / rates_of(c, side)->whole.value;
    return seconds * c->ratios[side == SIDE_CPU ? COST_CPU_MIXERS : COST_DEVICE_MIXERS];
}

double cost_position(const cost_model *c, const layer_load *l, int side, double context)
{
    bool all = l->window == 0 || context < l->window;
    double seconds = (all ? l->kv_read_bytes : l->kv_score_bytes) / rates_of(c, side)->whole.value;
    return l->has_mixer ? seconds * c->ratios[side == SIDE_CPU ? COST_CPU_MIXERS : COST_DEVICE_MIXERS] : 0;
}

double cost_network(const cost_model *c, const layer_load *l, int side, neuron_work work, bool leads)
{
    const side_cost *s = &c->sides[side][l->kind];
    if (!l->has_network || work.whole_bytes + work.listed_bytes <= 0)
        return 0;
    double seconds = s->network_seconds.value + s->neuron_scale.value * cost_reading(c, l, side, work, leads);
    return seconds * c->ratios[side == SIDE_CPU ? COST_CPU_NEURONS : COST_DEVICE_NEURONS];
}

double cost_exchange(const cost_model *c)
{
    return c->exchange_seconds.value * c->ratios[COST_EXCHANGE];
}

double cost_head(const cost_model *c, int side)
{
    return c->head_seconds[side].value * c->ratios[COST_HEAD];
}

double cost_change(const cost_model *c)
{
    return c->change_seconds.value * c->ratios[COST_EXCHANGE];
}

double cost_start(const cost_model *c)
{
    return c->start_seconds.value * c->ratios[COST_EXCHANGE];
}

static figure assumed(double value)
{
    return (figure){value, FIGURE_ASSUMED};
}

static side_cost assume_side(const cost_model *c, const layer_load *l, int side)
{
    double rate = rates_of(c, side)->whole.value * (side == SIDE_CPU ? CPU_SHARE : DEVICE_SHARE);
    double launch = side == SIDE_CPU ? c->on->job_seconds.value : c->device->kernel_seconds.value;
    int mixer = side == SIDE_CPU ? MIXER_JOBS : MIXER_LAUNCHES;
    int network = side == SIDE_CPU ? NETWORK_JOBS : NETWORK_LAUNCHES;
    return (side_cost){assumed((l->mixer_bytes - l->score_bytes + 2 * l->state_bytes) / rate + mixer * launch),
                       assumed(network * launch), assumed(side == SIDE_CPU ? 1 / CPU_SHARE : 1 / DEVICE_SHARE)};
}

static void assume_head(cost_model *c, const model_load *load, int side)
{
    double rate = rates_of(c, side)->whole.value * (side == SIDE_CPU ? CPU_SHARE : DEVICE_SHARE);
    double launch = side == SIDE_CPU ? c->on->job_seconds.value : HEAD_LAUNCHES * c->device->kernel_seconds.value;
    c->head_seconds[side] = assumed(load->head_bytes / rate + launch);
}

hearth_status cost_assume(cost_model *out, const machine *on, int device, const model_load *load, hearth_error *error)
{
    cost_model c = {.on = on, .device = device >= 0 ? &on->devices[device] : NULL};
    int sides = c.device ? COST_SIDES : 1;
    for (int t = 0; t < COST_TERMS; t++)
        c.ratios[t] = 1;
    for (int side = 0; side < sides; side++) {
        c.sides[side] = mem_new_array(load->layer_count, sizeof *c.sides[side]);
        if (!c.sides[side]) {
            cost_free(&c);
            return fail_memory(error, "plan", load->layer_count * sizeof *c.sides[side]);
        }
        for (uint32_t i = 0; i < load->layer_count; i++)
            c.sides[side][i] = assume_side(&c, &load->layers[i], side);
        assume_head(&c, load, side);
    }
    c.token_seconds = assumed(TOKEN_SECONDS);
    if (c.device) {
        double vector = 4 * load->row_values;
        c.start_seconds = c.device->start_seconds;
        c.exchange_seconds = (figure){c.device->exchange_seconds.value + vector / c.device->to_device_rate.value +
                                          vector / c.device->from_device_rate.value,
                                      FIGURE_DERIVED};
        c.change_seconds = (figure){c.exchange_seconds.value / 2, FIGURE_DERIVED};
        c.scratch_bytes = assumed(SCRATCH_BYTES);
    }
    *out = c;
    return HEARTH_OK;
}

void cost_free(cost_model *c)
{
    for (int side = 0; side < COST_SIDES; side++)
        mem_free(c->sides[side]);
    *c = (cost_model){0};
}
