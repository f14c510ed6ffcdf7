/* inputs.c - the sums of squared inputs: their memory, and adding to them. */
#include "inputs_internal.h"

#include "../base/memory.h"

/* Columns per work item. */
#define COLUMNS_PER_ITEM 512

/* ------------------------------------------------------------------ memory */

/* Takes the sums of a place from *next; returns how many values these are. With *next NULL it only counts. */
static size_t take(input_squares *to, uint32_t columns, uint32_t matrices, double **next)
{
    size_t count = columns > 0 ? (size_t)matrices * ((size_t)columns + 1) : 0;
    *to = (input_squares){0};
    if (count > 0 && *next) {
        *to = (input_squares){columns, matrices, *next, *next + (size_t)matrices * columns};
        *next += count;
    }
    return count;
}

/* Lists all places of a model; returns how many values their sums have. */
static size_t lay_out(input_sums *s, const hearth_model *model, double *next)
{
    uint32_t d = model->hyper.embedding_length;
    input_squares places[INPUT_PLACES] = {0};
    size_t count = take(&s->head, d, 1, &next);
    for (uint32_t i = 0; i < model->hyper.layer_count; i++) {
        const model_layer *l = &model->layers[i];
        const attention_shape *a = &l->attention;
        const ffn_shape *f = &l->ffn;
        input_squares *to = s->layers ? s->layers[i] : places;
        uint32_t experts = ffn_experts(f);
        count += take(&to[INPUT_ATTENTION], l->mixer == MIXER_NONE ? 0 : d, 1, &next);
        count += take(&to[INPUT_QUERIES], a->query_rank, 1, &next);
        count += take(&to[INPUT_GROUPS], a->output_groups > 0 ? read_width(a) / a->output_groups : 0, 1, &next);
        count += take(&to[INPUT_ATTENTION_OUTPUT], result_width(a) + recurrent_width(&l->recurrent), 1, &next);
        count += take(&to[INPUT_MIXED_KEY], l->input_mix ? d : 0, 1, &next);
        count += take(&to[INPUT_MIXED_VALUE], l->input_mix ? d : 0, 1, &next);
        count += take(&to[INPUT_LATENT_IN], f->latent > 0 ? d : 0, 1, &next);
        count += take(&to[INPUT_LATENT_OUT], f->latent, 1, &next);
        count += take(&to[INPUT_NETWORK], f->neuron_count > 0 ? ffn_expert_width(f, d) : 0, experts, &next);
        count += take(&to[INPUT_DOWN], ffn_routed(f) / experts, experts, &next);
        count += take(&to[INPUT_SHARED], f->shared_neurons > 0 ? d : 0, 1, &next);
        count += take(&to[INPUT_SHARED_DOWN], f->shared_neurons, 1, &next);
    }
    return count;
}

hearth_status inputs_create(input_sums *out, const hearth_model *model, hearth_error *error)
{
    input_sums s = {0};
    size_t count = lay_out(&s, model, NULL);
    s.block_bytes = count * sizeof(double);
    s.block = mem_new_array(count, sizeof(double));
    s.layers = mem_new_array(model->hyper.layer_count, sizeof *s.layers);
    *out = s;
    if (!s.block || !s.layers) {
        inputs_free(out);
        return fail_memory(error, "importance", count * sizeof(double));
    }
    lay_out(out, model, out->block);
    return HEARTH_OK;
}

void inputs_free(input_sums *s)
{
    mem_free(s->block);
    mem_free(s->layers);
    *s = (input_sums){0};
}

hearth_status session_sum_inputs(hearth_session *session, input_sums *to, hearth_error *error)
{
    const hearth_engine *e = session->engine;
    for (uint32_t i = 0; to && i < e->model->hyper.layer_count; i++)
        if (e->layers[i].form != FORM_HOST || e->layers[i].selector != SELECTOR_ALL || e->layers[i].rows)
            return fail(error, HEARTH_INVALID, "session: inputs of layer %u: not every neuron is computed on the CPU",
                        i);
    session->inputs = to;
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ adding */

typedef struct adding {
    double *sums; /* [columns] */
    const float *x;
    double square; /* of the factor of all values */
    size_t columns, count;
} adding;

/* Items are columns. */
static void add_columns(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const adding *job = context;
    for (size_t t = 0; t < job->count; t++) {
        const float *x = job->x + t * job->columns;
        for (size_t k = begin; k < end; k++)
            job->sums[k] += (double)x[k] * (double)x[k] * job->square;
    }
}

/* Adds an input of which all values are multiplied with a factor. */
static void add_scaled(const hearth_session *s, const input_squares *to, size_t expert, const float *x, size_t count,
                       double factor)
{
    adding job = {to->sums + expert * to->columns, x, factor * factor, to->columns, count};
    pool_run(s->engine->runtime->threads, to->columns, COLUMNS_PER_ITEM, add_columns, &job);
    to->rows[expert] += (double)count;
}

void inputs_add(const hearth_session *s, const input_squares *to, size_t expert, const float *x, size_t count)
{
    add_scaled(s, to, expert, x, count, 1);
}

typedef struct adding_activations {
    const ffn_job *job;
    double *sums; /* of the neuron in row 0 */
} adding_activations;

/* Items are parts of the job, each with neurons of its own. The share of an expert, where it was multiplied into its
 * activations, is taken out again: it belongs to the result of the expert, not to what `down` reads. Where it multiplies what an
 * expert reads, `down` reads what came of that. */
static void add_parts(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const adding_activations *work = context;
    const ffn_job *job = work->job;
    const int32_t *order = job->l->order;
    const float *shares = job->l->ffn.router.weighs_input ? NULL : job->shares;
    for (size_t i = begin; i < end; i++) {
        const ffn_part *v = &job->s->scratch.parts[i];
        for (size_t t = 0; t < job->count; t++) {
            const float *h = job->h + t * job->neuron_count + v->begin;
            for (size_t k = 0; k < v->count; k++) {
                uint32_t row = neuron_at(v, k), number = order ? (uint32_t)order[row] : row;
                double share = shares ? (double)shares[row / job->l->ffn.expert_neurons] : 1;
                double x = (double)h[k] / share;
                work->sums[number] += x * x;
            }
        }
    }
}

/* Adds what the matrices of one expert read, or those of the only network. */
static void add_rows(const ffn_job *job, const input_squares *network, const input_squares *down, size_t expert)
{
    bool weighs = job->shares && job->l->ffn.router.weighs_input;
    add_scaled(job->s, network, expert, job->input, job->count, weighs ? (double)job->shares[expert] : 1);
    down->rows[expert] += (double)job->count;
}

void inputs_add_network(const ffn_job *job, uint32_t layer)
{
    const ffn_shape *f = &job->l->ffn;
    const input_squares *places = job->s->inputs->layers[layer];
    bool shared = job->first_neuron >= ffn_routed(f);
    const input_squares *network = &places[shared ? INPUT_SHARED : INPUT_NETWORK];
    const input_squares *down = &places[shared ? INPUT_SHARED_DOWN : INPUT_DOWN];
    if (job->shares) {
        for (uint32_t e = 0; e < f->router.expert_count; e++)
            if (job->shares[e] != 0)
                add_rows(job, network, down, e);
    } else {
        add_rows(job, network, down, shared ? 0 : job->first_neuron / f->expert_neurons);
    }
    adding_activations work = {job, down->sums + (shared ? 0 : job->first_neuron)};
    pool_run(job->s->engine->runtime->threads, job->s->scratch.part_count, 1, add_parts, &work);
}
