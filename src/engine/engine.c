/* engine.c - prepares the layers of a model under a placement on a runtime, and states what a run guarantees. */
#include "engine.h"
#include "device_weights.h"
#include "follow.h"

#include "../base/clock.h"
#include "../base/memory.h"
#include "../base/sized.h"
#include "../base/text.h"
#include "../kernel/topology.h"
#include "../model/neuron_major.h"
#include "../model/tune.h"

/* ------------------------------------------------------------------ down matrices */

/* Checks that main memory holds the copies. They become resident at once, so memory that is in use now does not count
 * as free. */
static hearth_status check_copies(const hearth_engine *e, uint64_t bytes, hearth_error *error)
{
    uint64_t left = e->runtime->memory_bytes, available = topology_available_bytes();
    if (available > 0 && available < left)
        left = available;
    if (bytes <= left)
        return HEARTH_OK;
    char wanted[16], unused[16];
    return fail(
        error, HEARTH_NO_MEMORY,
        "%s: transposed copies of the down matrices: %s of main memory wanted, there are %s; `hearth pack` makes a "
        "file that needs none, and neither does --sparsity dense",
        e->model->source->path, text_size(wanted, (double)bytes), text_size(unused, (double)left));
}

/* A down matrix of a layer and the copy that is made of it. */
typedef struct transposed_matrix {
    const matrix *down;
    matrix *down_t;
    uint32_t experts; /* matrices that lie one after another in down */
} transposed_matrix;

/* Lists the down matrices of a layer: its own, and that of the expert that every token uses, which may have no data. */
static void list_down(hearth_engine *e, uint32_t layer, transposed_matrix out[2])
{
    const model_layer *l = &e->model->layers[layer];
    out[0] = (transposed_matrix){&l->down, &e->layers[layer].down_t, ffn_experts(&l->ffn)};
    out[1] = (transposed_matrix){&l->shared.down, &e->layers[layer].shared_down_t, 1};
}

/* Makes one copy; releases the pages that its matrix was read from. */
static hearth_status transpose(hearth_engine *e, const transposed_matrix *t, uint32_t layer, uint64_t total,
                               hearth_error *error)
{
    const hearth_model *m = e->model;
    char *rows = mem_reserve(matrix_bytes(t->down_t), MEM_WHOLE);
    if (!rows)
        return fail(error, HEARTH_NO_MEMORY,
                    "%s: transposing layer %u of %u: out of memory (%zu bytes of %llu in all wanted); `hearth pack` "
                    "does it once and for all, --sparsity dense needs none",
                    m->source->path, layer, m->hyper.layer_count, matrix_bytes(t->down_t), (unsigned long long)total);
    neuron_major_transpose(&e->runtime->kernels, e->runtime->threads, t->down, t->experts, t->down_t, rows);
    t->down_t->data = rows;
    checkpoint_drop_range(m->source, t->down->data, matrix_bytes(t->down));
    e->requantised |= neuron_major_rounds(t->down->format, t->down_t->format, t->down_t->format);
    return HEARTH_OK;
}

/* Transposes the down matrices of a file in the stock layout. */
static hearth_status transpose_layers(hearth_engine *e, const hearth_progress *progress, hearth_error *error)
{
    const hearth_model *m = e->model;
    uint64_t done = 0, total = 0;
    transposed_matrix each[2];
    for (uint32_t i = 0; i < m->hyper.layer_count; i++) {
        list_down(e, i, each);
        for (size_t k = 0; k < 2; k++)
            if (each[k].down->data) {
                TRY(neuron_major_shape(each[k].down_t, each[k].down, each[k].experts, m->source->path, "ffn_down",
                                       error));
                total += matrix_bytes(each[k].down_t);
            }
    }
    TRY(check_copies(e, total, error));
    e->owns_copies = e->transposed = true;
    for (uint32_t i = 0; i < m->hyper.layer_count; i++) {
        if (progress->report && !progress->report(progress->user, "bytes transposed", done, total))
            return fail(error, HEARTH_CANCELLED, "%s: transposing: cancelled", m->source->path);
        list_down(e, i, each);
        for (size_t k = 0; k < 2; k++)
            if (each[k].down->data) {
                TRY(transpose(e, &each[k], i, total, error));
                done += matrix_bytes(each[k].down_t);
            }
    }
    e->own_bytes = total;
    if (progress->report)
        progress->report(progress->user, "bytes transposed", total, total);
    return HEARTH_OK;
}

/* Counts a layer among those with its mixer on its side. */
static void place_mixer(hearth_engine *e, uint32_t layer)
{
    bool on_device = layer_uses_device(&e->placement->layers[layer]);
    mixer_kind mixer = e->model->layers[layer].mixer;
    uint32_t back = e->model->layers[layer].attention.keys_back;
    e->device_layers += on_device;
    if (mixer == MIXER_ATTENTION && back > 0)
        e->layers[layer].cache_index = e->layers[layer - back].cache_index;
    else if (mixer == MIXER_ATTENTION)
        e->layers[layer].cache_index = on_device ? e->device_caches++ : e->host_caches++;
    else if (mixer == MIXER_RECURRENT)
        e->layers[layer].cache_index = on_device ? e->device_recurrent++ : e->host_recurrent++;
    if (e->model->layers[layer].attention.index.head_count > 0)
        e->layers[layer].index_cache = on_device ? e->device_caches++ : e->host_caches++;
    if (e->model->layers[layer].attention.summary.together > 0) {
        e->layers[layer].summary_cache = on_device ? e->device_caches++ : e->host_caches++;
        e->layers[layer].state_index = on_device ? e->device_recurrent++ : e->host_recurrent++;
    }
}

/* Fills in the layers; transposes down matrices if any layer needs it. t: has the predictors, or NULL. of: an engine
 * whose copies are shared, or NULL. */
static hearth_status prepare_layers(hearth_engine *e, const tune *t, const hearth_engine *of,
                                    const hearth_progress *progress, hearth_error *error)
{
    const hearth_model *m = e->model;
    bool skips = false;
    e->layers = mem_new_array(m->hyper.layer_count, sizeof *e->layers);
    if (!e->layers)
        return fail_memory(error, "engine", m->hyper.layer_count * sizeof *e->layers);
    for (uint32_t i = 0; i < m->hyper.layer_count; i++) {
        const layer_placement *p = &e->placement->layers[i];
        const ffn_shape *f = &m->layers[i].ffn;
        bool some = layer_neurons(p, PLACEMENT_NOBODY) > 0;
        bool experts = f->router.expert_count > 0 && layer_neurons(p, PLACEMENT_DEVICE) > 0;
        bool stock = device_takes_stock_experts(&m->layers[i], p->selector) && !layer_cuts_experts(p, f);
        TRY(placement_check_selector(p->selector, m, t, i, error));
        if (some && m->layers[i].ffn.cuts)
            return fail(error, HEARTH_UNSUPPORTED,
                        "%s: layer %u: the values of all neurons decide which of them fire, so none can be left out",
                        m->source->path, i);
        e->layers[i] = (engine_layer){
            /* without neurons there are none on the CPU either */
            .form = p->form == FORM_FFN_HOST && m->layers[i].ffn.neuron_count == 0 ? FORM_DEVICE : p->form,
            .selector = p->selector,
            .threshold = p->threshold,
            .predictor = tune_predictor(t, m, i),
            .down_t = of ? of->layers[i].down_t : m->layers[i].down_t,
            .shared_down_t = of ? of->layers[i].shared_down_t : m->layers[i].shared.down_t,
        };
        place_mixer(e, i);
        /* all of these use rows of down_t */
        skips |= selectors[p->selector].skips || some || ((p->form == FORM_SPLIT || experts) && !stock);
        e->uses_predictors |= selectors[p->selector].predictor != PREDICTOR_NONE || m->layers[i].mask_in.data;
        e->leaves_out |= some;
    }
    e->transposed = of && of->transposed;
    e->own_bytes = of ? of->own_bytes : 0;
    e->requantised = of ? of->requantised : m->requantised;
    return skips && !m->neuron_major && !e->transposed ? transpose_layers(e, progress, error) : HEARTH_OK;
}

/* Lists what the layers of the cache have that lie on the CPU, then of those on the device; and the shapes of recurrent layers
 * likewise. */
static hearth_status list_shapes(hearth_engine *e, hearth_error *error)
{
    uint32_t layers = e->model->hyper.layer_count;
    e->cached = mem_new_array(3 * (size_t)layers, sizeof *e->cached);
    e->recurrent = mem_new_array(layers, sizeof *e->recurrent);
    if (!e->cached || !e->recurrent)
        return fail_memory(error, "engine", 3 * layers * sizeof *e->cached);
    for (uint32_t i = 0; i < layers; i++) {
        const model_layer *l = &e->model->layers[i];
        bool on_device = layer_uses_device(&e->placement->layers[i]);
        uint32_t at = e->layers[i].cache_index, begin = on_device ? e->host_caches : 0;
        uint32_t states = on_device ? e->host_recurrent : 0;
        if (l->attention.index.head_count > 0)
            e->cached[begin + e->layers[i].index_cache] = index_keys(&l->attention);
        if (l->mixer == MIXER_ATTENTION && l->attention.keys_back == 0)
            e->cached[begin + at] = attention_keys(&l->attention);
        else if (l->mixer == MIXER_RECURRENT)
            e->recurrent[states + at] = &l->recurrent;
        if (l->attention.summary.together > 0) {
            e->cached[begin + e->layers[i].summary_cache] = summary_keys(&l->attention);
            e->recurrent[states + e->layers[i].state_index] = &l->recurrent;
        }
    }
    return HEARTH_OK;
}

uint64_t engine_position_bytes(const hearth_engine *engine, hearth_kv format)
{
    return engine_side_position_bytes(engine, format, false) + engine_side_position_bytes(engine, format, true);
}

uint64_t engine_side_position_bytes(const hearth_engine *engine, hearth_kv format, bool on_device)
{
    uint64_t bytes = 0;
    uint32_t begin = on_device ? engine->host_caches : 0;
    uint32_t end = begin + (on_device ? engine->device_caches : engine->host_caches);
    for (uint32_t i = begin; i < end; i++)
        bytes += kv_bytes(format, engine->cached[i], KV_PAGE);
    return (bytes + KV_PAGE - 1) / KV_PAGE;
}

double engine_side_reads_kept(const hearth_engine *engine, hearth_kv format, double positions, bool on_device)
{
    double bytes = (double)engine_side_state_bytes(engine, on_device);
    for (uint32_t i = 0; i < engine->model->hyper.layer_count; i++) {
        const model_layer *l = &engine->model->layers[i];
        const attention_shape *a = &l->attention;
        if (l->mixer != MIXER_ATTENTION || layer_uses_device(&engine->placement->layers[i]) != on_device)
            continue;
        double most = attention_sees(a), seen = most > 0 && most < positions ? most : positions;
        bool scores = a->chosen > 0 && positions > choice_limit(a);
        cached_keys scored = scored_keys(a);
        bytes += seen * (double)kv_row_bytes(format, attention_keys(a)) +
                 (scores ? positions / scored.together * (double)kv_row_bytes(format, scored) : 0) +
                 (scores ? (double)layer_scoring_bytes(l) : 0);
        uint32_t best = scores ? a->chosen / a->pool : 0;
        if (a->summary.together > 0)
            bytes += (scores ? (double)best : positions / a->summary.together) *
                     (double)kv_row_bytes(format, summary_keys(a));
    }
    return bytes;
}

uint64_t engine_side_state_bytes(const hearth_engine *engine, bool on_device)
{
    const recurrent_shape *const *shapes = engine->recurrent + (on_device ? engine->host_recurrent : 0);
    uint32_t count = on_device ? engine->device_recurrent : engine->host_recurrent;
    return recurrent_bytes(shapes, count, 1, 0) / 2; /* a sequence has two places */
}

/* Makes the coarse copies of layers that have such a predictor. */
static hearth_status copy_coarsely(hearth_engine *e, hearth_error *error)
{
    for (uint32_t i = 0; i < e->model->hyper.layer_count; i++) {
        engine_layer *l = &e->layers[i];
        if (l->selector != SELECTOR_COARSE)
            continue;
        TRY(coarse_create(&l->coarse, e->runtime->threads, layer_first_matrix(&e->model->layers[i]),
                          l->predictor.coarse_format, e->model->source->path, error));
        e->coarse_bytes += coarse_bytes(&l->coarse);
    }
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ two sides */

/* Lists the rows of the CPU in a layer of which it computes only some neurons. */
static hearth_status list_rows(hearth_engine *e, uint32_t layer, hearth_error *error)
{
    const ffn_shape *shape = &e->model->layers[layer].ffn;
    uint32_t f = shape->neuron_count, experts = shape->router.expert_count;
    engine_layer *l = &e->layers[layer];
    l->rows = mem_new_array(f, sizeof *l->rows);
    if (!l->rows)
        return fail_memory(error, "engine", f * sizeof *l->rows);
    TRY(layer_rows(&e->placement->layers[layer], PLACEMENT_CPU, e->model->layers[layer].order, f, l->rows,
                   &l->row_count, error));
    if (experts == 0)
        return HEARTH_OK;
    l->expert_begins = mem_new_array((size_t)experts + 2, sizeof *l->expert_begins);
    if (!l->expert_begins)
        return fail_memory(error, "engine", (experts + 2) * sizeof *l->expert_begins);
    layer_expert_rows(shape, l->rows, l->row_count, l->expert_begins);
    return HEARTH_OK;
}

/* Lists the rows of the CPU in all such layers. */
static hearth_status list_parts(hearth_engine *e, hearth_error *error)
{
    for (uint32_t i = 0; i < e->model->hyper.layer_count; i++)
        if (e->layers[i].form == FORM_SPLIT || layer_neurons(&e->placement->layers[i], PLACEMENT_NOBODY) > 0)
            TRY(list_rows(e, i, error));
    return HEARTH_OK;
}

/* Uploads what the placement puts on the device. */
static hearth_status use_device(hearth_engine *e, const hearth_progress *progress, hearth_error *error)
{
    if (!placement_needs_device(e->placement))
        return HEARTH_OK;
    if (!e->runtime->device)
        return fail(error, HEARTH_INVALID, "placement: side %s: the runtime has no device",
                    e->placement->sides[PLACEMENT_DEVICE]);
    device_lock(e->runtime);
    hearth_status status =
        device_weights_create(&e->uploaded, e->runtime->device, e->model, e->placement, e->layers, progress, error);
    device_unlock(e->runtime);
    return status;
}

/* ------------------------------------------------------------------ life */

/* Reports what a run will claim, and what was made for it in so many seconds. */
static void log_engine(const hearth_engine *e, double seconds)
{
    char own[16], there[16];
    log_line(&e->runtime->log, HEARTH_LOG_INFO, "engine: mode %s, guarantee %s; %s copied, %s on the device, %.2f s",
             hearth_mode_name(hearth_engine_mode(e)), hearth_guarantee_name(hearth_engine_guarantee(e)),
             text_size(own, (double)hearth_engine_own_bytes(e)),
             text_size(there, e->uploaded ? (double)e->uploaded->bytes : 0), seconds);
}

/* Creates an engine. t: has its predictors, or NULL; of: an engine whose transposed copies are shared, or NULL. */
static hearth_status create(hearth_engine **out, hearth_runtime *runtime, const hearth_model *model, const tune *t,
                            const hearth_engine_options *options, const hearth_engine *of, hearth_error *error)
{
    if (options->activations < 0 || options->activations >= HEARTH_ACTIVATIONS_COUNT)
        return fail(error, HEARTH_INVALID, "engine: activations %d: is not known", (int)options->activations);
    if (options->activations == HEARTH_ACTIVATIONS_BF16 && !runtime->kernels.to_bfloat)
        return fail(error, HEARTH_UNSUPPORTED, "engine: activations bf16: the CPU level %s multiplies no bfloat16",
                    runtime->kernels.level);
    if (options->stream < 0 || options->stream >= HEARTH_STREAM_COUNT)
        return fail(error, HEARTH_INVALID, "engine: stream %d: is not known", (int)options->stream);
    hearth_engine *e = mem_new(sizeof *e);
    if (!e)
        return fail_memory(error, "engine", sizeof *e);
    e->runtime = runtime;
    e->model = model;
    e->activations = options->activations;
    e->stream = options->stream;
    e->stream_bytes = options->stream_bytes;
    double begin = clock_seconds();
    hearth_status status;
    TRY_OR(failed, status,
           options->placement ? placement_copy(&e->placement, options->placement, error)
                              : placement_create(&e->placement, model, t, HEARTH_MODE_AUTO, error));
    TRY_OR(failed, status, placement_check_model(e->placement, model, error));
    e->recall = e->placement->recall;
    if (e->recall > 0) /* a device may have been given neurons since it was set */
        TRY_OR(failed, status, placement_check_recall(e->placement, e->recall, error));
    TRY_OR(failed, status, prepare_layers(e, t, of, &options->progress, error));
    TRY_OR(failed, status, list_shapes(e, error));
    TRY_OR(failed, status, copy_coarsely(e, error));
    TRY_OR(failed, status, list_parts(e, error));
    TRY_OR(failed, status, use_device(e, &options->progress, error));
    log_engine(e, clock_seconds() - begin);
    *out = e;
    return HEARTH_OK;
failed:
    hearth_engine_destroy(e);
    return status;
}

hearth_status hearth_engine_create_sized(hearth_engine **out, hearth_runtime *runtime, const hearth_model *model,
                                         const hearth_engine_options *options, size_t options_size, hearth_error *error)
{
    hearth_engine_options own;
    TRY(sized_read(&own, sizeof own, options, options_size, "hearth_engine_options", error));
    return create(out, runtime, model, model->tune, &own, NULL, error);
}

hearth_status engine_with_placement(hearth_engine **out, const hearth_engine *of, const tune *t,
                                    const hearth_placement *placement, hearth_error *error)
{
    hearth_engine_options options = {
        .placement = placement, .activations = of->activations, .stream = of->stream, .stream_bytes = of->stream_bytes};
    return create(out, of->runtime, of->model, t, &options, of, error);
}

void hearth_engine_destroy(hearth_engine *engine)
{
    if (!engine)
        return;
    follow_destroy(engine->follower);
    device_lock(engine->runtime);
    device_weights_destroy(engine->uploaded);
    device_unlock(engine->runtime);
    for (uint32_t i = 0; engine->layers && i < engine->model->hyper.layer_count; i++) {
        mem_free(engine->layers[i].rows);
        mem_free(engine->layers[i].expert_begins);
        coarse_free(&engine->layers[i].coarse);
    }
    for (uint32_t i = 0; engine->layers && engine->owns_copies && i < engine->model->hyper.layer_count; i++)
        for (size_t k = 0; k < 2; k++) {
            const matrix *copy = k == 0 ? &engine->layers[i].down_t : &engine->layers[i].shared_down_t;
            if (copy->data)
                mem_release((void *)copy->data, matrix_bytes(copy));
        }
    mem_free(engine->layers);
    mem_free(engine->cached);
    mem_free(engine->recurrent);
    hearth_placement_destroy(engine->placement);
    mem_free(engine);
}

const hearth_model *hearth_engine_model(const hearth_engine *engine)
{
    return engine->model;
}

uint64_t hearth_engine_own_bytes(const hearth_engine *engine)
{
    return engine->own_bytes + engine->coarse_bytes;
}

/* ------------------------------------------------------------------ bytes */

double engine_first_reads(const hearth_engine *e)
{
    const hearth_model *m = e->model;
    size_t ngrams = ngram_heads(&m->hyper.ngrams) * m->ngram_rows.row_bytes;
    for (uint32_t i = 0; i < m->hyper.layer_count; i++)
        ngrams += matrix_bytes(&m->layers[i].ngram.key) + matrix_bytes(&m->layers[i].ngram.value);
    return (double)(m->embedding.row_bytes + m->per_layer_tokens.row_bytes + matrix_bytes(&m->per_layer_projection) +
                    matrix_bytes(&m->stream_in) + ngrams);
}

double engine_last_reads(const hearth_engine *e)
{
    double norm = (double)e->model->hyper.embedding_length * sizeof(float);
    return norm +
           (double)(matrix_bytes(&e->model->head) + matrix_bytes(&e->model->stream_out) +
                    matrix_bytes(&e->model->end_connection.weights) + gated_connection_bytes(&e->model->end_gates));
}

/* Returns the bytes that a token reads of a layer whatever neurons it uses: of its mixer, norms and router. */
static double mixer_bytes(const hearth_model *model, const model_layer *l)
{
    const norm_weights *each[] = {&l->attention_norm, &l->attention_post_norm, &l->ffn_norm, &l->ffn_post_norm};
    double norms = 0;
    for (size_t n = 0; n < sizeof each / sizeof *each; n++)
        norms += each[n]->weight ? (double)model->hyper.embedding_length * sizeof(float) : 0;
    return norms +
           (double)(layer_mixer_bytes(l) - layer_scoring_bytes(l) + matrix_bytes(&l->router) +
                    matrix_bytes(&l->latent_in) + matrix_bytes(&l->latent_out) + matrix_bytes(&l->per_layer_gate) +
                    matrix_bytes(&l->per_layer_output) + layer_stream_bytes(l));
}

/* Returns the bytes that a layer reads to select its neurons: of the chosen experts alone, where they select. */
static double selecting_bytes(const engine_layer *e, const model_layer *l)
{
    const learned_predictor *p = &e->predictor;
    const router_shape *r = &l->ffn.router;
    double share = r->expert_count > 0 ? (double)r->used / r->expert_count : 1, bytes = 0;
    if (e->selector == SELECTOR_LOW_RANK)
        bytes += (double)matrix_bytes(&p->fc1) + share * (double)matrix_bytes(&p->fc2);
    bytes += share * (double)(coarse_bytes(&e->coarse) + matrix_bytes(&l->mask_in) + matrix_bytes(&l->mask_out));
    return bytes;
}

/* Fills in what a layer reads of its neurons. */
static void add_neurons(layer_reads *out, const engine_layer *e, const model_layer *l, const hearth_counts *counts)
{
    bool gated = l->ffn.gating != FFN_PLAIN;
    const router_shape *r = &l->ffn.router;
    double f = l->ffn.neuron_count, used = f;
    if (r->expert_count > 0)
        used = (double)r->used * l->ffn.expert_neurons + l->ffn.shared_neurons;
    double computed = used, fired = used, active = used;
    if (counts && counts->rows) {
        double rows = (double)counts->rows;
        computed = (double)counts->computed / rows;
        fired = (double)counts->fired / rows;
        active = (double)counts->active / rows;
    }
    /* Without down_t the whole of down is read, a share of it for each neuron. */
    double down_row =
        e->down_t.data ? (double)e->down_t.row_bytes : (double)matrix_bytes(&l->down) / ffn_routed(&l->ffn);
    out->first = computed * (double)(gated ? l->gate : l->up).row_bytes + selecting_bytes(e, l);
    out->others = active * down_row + (gated ? fired * (double)l->up.row_bytes : 0);
}

layer_reads engine_layer_reads(const hearth_engine *e, uint32_t layer, const hearth_counts *counts)
{
    const model_layer *l = &e->model->layers[layer];
    layer_reads out = {.mixer = mixer_bytes(e->model, l)};
    if (l->ffn.neuron_count > 0)
        add_neurons(&out, &e->layers[layer], l, counts);
    return out;
}

double engine_token_bytes(const hearth_engine *e, const hearth_counts *counts)
{
    double bytes = engine_first_reads(e) + engine_last_reads(e);
    for (uint32_t i = 0; i < e->model->hyper.layer_count; i++) {
        layer_reads l = engine_layer_reads(e, i, counts ? &counts[i] : NULL);
        bytes += l.mixer + l.first + l.others;
    }
    return bytes;
}

uint64_t hearth_engine_token_bytes(const hearth_engine *engine)
{
    return (uint64_t)engine_token_bytes(engine, NULL);
}

/* ------------------------------------------------------------------ claims */

hearth_pruning hearth_engine_pruning(const hearth_engine *engine)
{
    return engine->placement->pruning;
}

/* Returns the selector with the weakest guarantee; selector_kind is in that order. */
static selector_kind weakest_selector(const hearth_placement *p)
{
    selector_kind weakest = SELECTOR_ALL;
    for (uint32_t i = 0; i < p->layer_count; i++)
        if (p->layers[i].selector > weakest)
            weakest = p->layers[i].selector;
    return weakest;
}

hearth_mode hearth_engine_mode(const hearth_engine *engine)
{
    return selectors[weakest_selector(engine->placement)].mode;
}

/* Returns whether the margin of every coarse layer stays, is at least 0, so that it skips only what its copy puts below zero,
 * and at least the one with which its recall was measured: a larger margin lets through all that a smaller one does. */
static bool keeps_margins(const hearth_engine *engine)
{
    for (uint32_t i = 0; i < engine->model->hyper.layer_count; i++) {
        const engine_layer *l = &engine->layers[i];
        if (l->selector == SELECTOR_COARSE &&
            (l->threshold < 0 || l->threshold < l->predictor.threshold || engine->recall > 0))
            return false;
    }
    return true;
}

/* The weakest layer and the treatment of the down matrices decide the guarantee (docs/design.md). */
hearth_guarantee hearth_engine_guarantee(const hearth_engine *engine)
{
    hearth_guarantee weakest = selectors[weakest_selector(engine->placement)].guarantee;
    if (engine->leaves_out || !keeps_margins(engine))
        return HEARTH_GUARANTEE_LOSSY;
    if (weakest > HEARTH_GUARANTEE_REQUANTISED)
        return weakest;
    if (engine->requantised)
        return HEARTH_GUARANTEE_REQUANTISED;
    /* A device adds in another order. */
    return engine->transposed || engine->uploaded ? HEARTH_GUARANTEE_EXACT : HEARTH_GUARANTEE_BITWISE;
}

static const char *const guarantees[HEARTH_GUARANTEE_COUNT] = {
    [HEARTH_GUARANTEE_BITWISE] = "bitwise",
    [HEARTH_GUARANTEE_EXACT] = "exact",
    [HEARTH_GUARANTEE_REQUANTISED] = "requantised",
    [HEARTH_GUARANTEE_MARGIN] = "margin",
    [HEARTH_GUARANTEE_LOSSY] = "lossy",
};

const char *hearth_guarantee_name(hearth_guarantee guarantee)
{
    return (size_t)guarantee < HEARTH_GUARANTEE_COUNT ? guarantees[guarantee] : "unknown";
}
