/* tuning_train.c - makes the candidates: estimates every rank untrained, chooses the rank that each layer's share of
 * the budget buys, trains that one, and calibrates the margins of coarse copies.
 *
 * The untrained start of a low-rank predictor takes seconds, training takes minutes. So the starts decide on rank and
 * input, and only one predictor per layer is trained. */
#include "tuning_internal.h"

#include "../base/memory.h"
#include "../engine/engine.h"
#include "measure.h"
#include "work.h"

#include <stdio.h>
#include <string.h>

/* Expected share of a start's false positives (let through, but not firing) that remain after training. Expecting 1
 * would leave out layers that are worth training. */
#define VAIN_LEFT 0.6
/* Seed of the order of training rows. */
#define SEED 1

/* One layer at work. */
typedef struct trainer {
    tuning *t;
    tuning_layer *layer;
    uint32_t number;
    states *rows;
    number_format format;
    char key[128]; /* key of the records of candidates */
} trainer;

/* ------------------------------------------------------------------ candidates as records */

/* What was measured on a predictor, as stored. Everything else of a candidate follows from the request and is not read
 * back: a record's checksum detects accidents, not malice. All members have 8 bytes, so that there is no padding. */
typedef struct finding {
    double threshold, recall, density, fired;
} finding;

/* Builds a candidate from the request and the measurement. wanted: kind, format and, if low-rank, rank and input. */
static candidate candidate_of(const trainer *r, const candidate *wanted, const finding *found)
{
    candidate c = *wanted;
    c.threshold = (float)found->threshold;
    c.recall = found->recall;
    c.density = found->density;
    c.fired = found->fired;
    choose_count_bytes(&c, r->t->model, &r->layer->shape);
    return c;
}

/* Prints "LAYER.NAME", the file name of a record of this layer. */
static void print_record_name(char out[64], const trainer *r, const char *name)
{
    snprintf(out, 64, "%u.%s", r->number, name);
}

/* Reads a record; false where there is none under this key. */
static bool read_record(const trainer *r, const char *name, const char *key, void *data, size_t size_bytes)
{
    char file[64];
    print_record_name(file, r, name);
    return record_get(r->t->options->folder, file, key, data, size_bytes);
}

static hearth_status write_record(const trainer *r, const char *name, const char *key, const void *data,
                                  size_t size_bytes, hearth_error *error)
{
    char file[64];
    print_record_name(file, r, name);
    return record_put(r->t->options->folder, file, key, data, size_bytes, error);
}

/* ------------------------------------------------------------------ low-rank */

/* Returns the options of a training; epochs 0: only the start, which stores no state. */
static lowrank_options train_options(const trainer *r, uint32_t rank, bool normed, uint32_t epochs)
{
    const tuning_options *o = r->t->options;
    return (lowrank_options){.rank = rank,
                             .normed = normed,
                             .recall = o->recall,
                             .format = r->format,
                             .epochs = epochs,
                             .memory_bytes = o->memory_bytes,
                             .seed = SEED,
                             .folder = epochs > 0 ? o->folder : NULL,
                             .kernels = &r->t->runtime->kernels,
                             .threads = r->t->runtime->threads,
                             .progress = tuning_progress(r->t)};
}

/* Returns the request for a low-rank candidate. */
static candidate low_rank(const trainer *r, uint32_t rank, bool normed)
{
    return (candidate){.kind = PREDICTOR_LOW_RANK, .normed = normed, .format = r->format, .rank = rank};
}

static finding finding_of(const lowrank *l)
{
    return (finding){(double)l->threshold, l->recall, l->density, l->fired};
}

/* Measures a rank by its untrained start. */
static hearth_status try_rank(trainer *r, candidate *out, uint32_t rank, bool normed, hearth_error *error)
{
    char name[48];
    finding found;
    candidate wanted = low_rank(r, rank, normed);
    TRY(tuning_unit(r->t, error));
    snprintf(name, sizeof name, "start-%u-%s", rank, normed ? "normed" : "residual");
    if (!read_record(r, name, r->key, &found, sizeof found)) {
        lowrank l = {0};
        lowrank_options o = train_options(r, rank, normed, 0);
        TRY(lowrank_train(&l, r->t->model, r->number, r->rows, &o, error));
        found = finding_of(&l);
        lowrank_free(&l);
        TRY(write_record(r, name, r->key, &found, sizeof found, error));
    }
    *out = candidate_of(r, &wanted, &found);
    return HEARTH_OK;
}

/* Chooses the input for all ranks: the one with which a middle rank reads fewer bytes per token. */
static hearth_status choose_input(trainer *r, uint32_t rank, bool *normed, hearth_error *error)
{
    candidate residual, other;
    *normed = false;
    if (r->t->options->for_powerinfer)
        return HEARTH_OK;
    TRY(try_rank(r, &residual, rank, false, error));
    TRY(try_rank(r, &other, rank, true, error));
    *normed = other.token_bytes < residual.token_bytes;
    return HEARTH_OK;
}

/* Returns the number of epochs: the option, or enough for TUNING_ROWS within limits. */
static uint32_t epochs_of(const trainer *r)
{
    enum { LEAST = 2, MOST = 20 };
    size_t rows = states_training_count(r->rows), epochs = rows > 0 ? TUNING_ROWS / rows : 0;
    if (r->t->options->epochs > 0)
        return r->t->options->epochs;
    return epochs < LEAST ? LEAST : epochs > MOST ? MOST : (uint32_t)epochs;
}

/* Leaves out ranks that cannot be trained: too large for the model or for the memory limit. */
static hearth_status drop_ranks(const trainer *r, uint32_t *ranks, size_t *count, hearth_error *error)
{
    size_t possible = 0;
    for (size_t i = 0; i < *count; i++) {
        hearth_error why;
        lowrank_options o = train_options(r, ranks[i], false, epochs_of(r));
        hearth_status status = lowrank_check(r->t->model, r->number, r->rows, &o, &why);
        if (status == HEARTH_OK)
            ranks[possible++] = ranks[i];
        else if (status != HEARTH_NO_MEMORY && status != HEARTH_UNSUPPORTED)
            return fail(error, status, "%s", why.text);
        else if (!r->layer->dropped[0])
            snprintf(r->layer->dropped, sizeof r->layer->dropped, "%.*s", (int)sizeof r->layer->dropped - 1, why.text);
    }
    *count = possible;
    if (possible == 0 && r->t->options->for_powerinfer)
        return fail(error, HEARTH_UNSUPPORTED, "%s", r->layer->dropped);
    return HEARTH_OK;
}

/* Measures the starts of all possible ranks. */
static hearth_status try_ranks(trainer *r, const uint32_t *wanted, size_t count, hearth_error *error)
{
    bool normed;
    uint32_t ranks[CHOOSE_RANKS];
    memcpy(ranks, wanted, count * sizeof *ranks);
    TRY(drop_ranks(r, ranks, &count, error));
    if (count == 0)
        return HEARTH_OK;
    TRY(choose_input(r, ranks[count / 2], &normed, error));
    for (size_t i = 0; i < count; i++)
        TRY(try_rank(r, &r->layer->starts[i], ranks[i], normed, error));
    r->layer->start_count = r->layer->aim = count;
    return HEARTH_OK;
}

/* Returns a start as training is expected to improve it. */
static candidate expect(const trainer *r, const candidate *start)
{
    candidate c = *start;
    double met = c.density * c.fired;
    c.density = met + VAIN_LEFT * (c.density - met);
    c.fired = c.density > 0 ? met / c.density : 0;
    choose_count_bytes(&c, r->t->model, &r->layer->shape);
    return c;
}

/* Lists the options of a layer: option 0 is no predictor (never taken for PowerInfer), the others are its ranks. */
static void list_aims(tuning *t, tuning_layer *l, choose_option *options)
{
    trainer r = {.t = t, .layer = l};
    options[0] = t->options->for_powerinfer ? CHOOSE_NEVER : (choose_option){0, 0};
    for (size_t k = 0; k < CHOOSE_RANKS; k++) {
        options[1 + k] = CHOOSE_NEVER;
        if (k < l->start_count) {
            candidate c = expect(&r, &l->starts[k]);
            options[1 + k] = (choose_option){c.own_bytes, choose_exact_bytes(&l->shape) - c.token_bytes};
        }
    }
}

/* Chooses a rank for every layer, or none, within the budget. */
static hearth_status choose_aims(tuning *t, hearth_error *error)
{
    size_t layers = t->out->layer_count, count = 1 + CHOOSE_RANKS;
    choose_option *options = mem_new_array(layers * count, sizeof *options);
    size_t *chosen = mem_new_array(layers, sizeof *chosen);
    hearth_status status =
        options && chosen ? HEARTH_OK : fail_memory(error, "ranks", layers * count * sizeof *options);
    for (size_t i = 0; status == HEARTH_OK && i < layers; i++) {
        list_aims(t, &t->out->layers[i], options + i * count);
        chosen[i] = t->options->for_powerinfer; /* for PowerInfer at least the smallest rank */
    }
    if (status == HEARTH_OK)
        choose_within(chosen, options, layers, count, t->out->budget_bytes);
    for (size_t i = 0; status == HEARTH_OK && i < layers; i++)
        t->out->layers[i].aim = chosen[i] > 0 ? chosen[i] - 1 : t->out->layers[i].start_count;
    mem_free(options);
    mem_free(chosen);
    return status;
}

/* ------------------------------------------------------------------ a trained predictor as records */

/* Allocates a matrix of the predictor. */
static hearth_status make_matrix(matrix *m, uint32_t rows, uint32_t columns, number_format format, hearth_error *error)
{
    *m = (matrix){.format = format, .rows = rows, .columns = columns};
    if (!number_row_bytes(format, columns, &m->row_bytes))
        return fail(error, HEARTH_UNSUPPORTED, "predictor: rows of %u values are not whole blocks", columns);
    m->data = mem_new_array(rows, m->row_bytes);
    return m->data ? HEARTH_OK : fail_memory(error, "predictor", rows * m->row_bytes);
}

static bool read_matrix(const trainer *r, const char *name, const char *key, matrix *m)
{
    /* the cast is safe: the block was just allocated here */
    return read_record(r, name, key, (void *)(uintptr_t)m->data, m->rows * m->row_bytes);
}

/* Reads the trained predictor from its records; *known is false where one is missing. */
static hearth_status read_trained(const trainer *r, const char *key, const candidate *wanted, bool *known,
                                  hearth_error *error)
{
    const hyperparameters *h = &r->t->model->hyper;
    lowrank *l = &r->layer->trained;
    finding found;
    *known = false;
    if (!read_record(r, "trained", key, &found, sizeof found))
        return HEARTH_OK;
    TRY(make_matrix(&l->fc1, wanted->rank, h->embedding_length, r->format, error));
    TRY(make_matrix(&l->fc2, r->t->model->layers[r->number].ffn.neuron_count, wanted->rank, r->format, error));
    *known = read_matrix(r, "fc1", key, &l->fc1) && read_matrix(r, "fc2", key, &l->fc2);
    if (*known)
        r->layer->candidates[TUNING_LOW_RANK] = candidate_of(r, wanted, &found);
    else
        lowrank_free(l);
    return HEARTH_OK;
}

/* Stores the trained predictor. The finding is written last: its record says that the others are complete. */
static hearth_status write_trained(const trainer *r, const char *key, const finding *found, hearth_error *error)
{
    const matrix *fc1 = &r->layer->trained.fc1, *fc2 = &r->layer->trained.fc2;
    TRY(write_record(r, "fc1", key, fc1->data, fc1->rows * fc1->row_bytes, error));
    TRY(write_record(r, "fc2", key, fc2->data, fc2->rows * fc2->row_bytes, error));
    return write_record(r, "trained", key, found, sizeof *found, error);
}

/* Trains the chosen rank of a layer, or reads the predictor that an earlier run trained. */
static hearth_status train(trainer *r, hearth_error *error)
{
    char key[192];
    bool known;
    uint32_t epochs = epochs_of(r);
    const candidate *start = &r->layer->starts[r->layer->aim];
    candidate wanted = low_rank(r, start->rank, start->normed);
    snprintf(key, sizeof key, "%s rank %u %s epochs %u", r->key, wanted.rank, wanted.normed ? "normed" : "residual",
             epochs);
    TRY(read_trained(r, key, &wanted, &known, error));
    if (known)
        return HEARTH_OK;
    lowrank_options o = train_options(r, wanted.rank, wanted.normed, epochs);
    TRY(lowrank_train(&r->layer->trained, r->t->model, r->number, r->rows, &o, error));
    finding found = finding_of(&r->layer->trained);
    r->layer->candidates[TUNING_LOW_RANK] = candidate_of(r, &wanted, &found);
    if (r->layer->trained.state_damaged)
        tuning_note(r->t->out, "what training had stored of an earlier run was damaged, and was begun anew");
    return write_trained(r, key, &found, error);
}

/* ------------------------------------------------------------------ coarse */

/* Measures the margin of a coarse copy in one format, or reads the stored one. */
static hearth_status calibrate(trainer *r, candidate *out, number_format format, hearth_error *error)
{
    char name[48];
    finding found;
    candidate wanted = {.kind = PREDICTOR_COARSE, .normed = true, .format = format};
    snprintf(name, sizeof name, "coarse-%s", number_formats[format].name);
    if (!read_record(r, name, r->key, &found, sizeof found)) {
        recall_result m;
        TRY(measure_coarse(&m, r->t->model, r->number, r->rows, format, r->t->options->recall, &r->t->runtime->kernels,
                           r->t->runtime->threads, error));
        found = (finding){(double)m.threshold, m.recall, m.density, m.fired};
        TRY(write_record(r, name, r->key, &found, sizeof found, error));
    }
    *out = candidate_of(r, &wanted, &found);
    return HEARTH_OK;
}

/* Calibrates all formats of coarse copies; none for PowerInfer, which cannot run them. */
static hearth_status calibrate_all(trainer *r, hearth_error *error)
{
    number_format formats[CHOOSE_COARSE];
    size_t count = choose_coarse_formats(formats, r->t->model, r->number);
    TRY(tuning_unit(r->t, error));
    for (size_t i = 0; i < count && !r->t->options->for_powerinfer; i++)
        TRY(calibrate(r, &r->layer->candidates[TUNING_COARSE + i], formats[i], error));
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ all layers */

/* Opens a layer's hidden states. The caller closes r->rows. */
static hearth_status open_trainer(trainer *r, tuning *t, uint32_t layer, hearth_error *error)
{
    *r =
        (trainer){.t = t, .layer = &t->out->layers[layer], .number = layer, .format = choose_low_rank_format(t->model)};
    snprintf(r->key, sizeof r->key, "recall %.9g seed %d memory %llu %s", (double)t->options->recall, SEED,
             (unsigned long long)t->options->memory_bytes, number_formats[r->format].name);
    return states_open(&r->rows, t->options->folder, t->model, layer, error);
}

/* Handles a failure: a model that no rank fits gets no low-rank predictors, which is reported and is not an error. */
static hearth_status forgive(tuning *t, hearth_status status, const hearth_error *found, hearth_error *error)
{
    if (status == HEARTH_UNSUPPORTED && !t->options->for_powerinfer) {
        snprintf(t->out->no_low_rank, sizeof t->out->no_low_rank, "%.*s", (int)sizeof t->out->no_low_rank - 1,
                 found->text);
        return HEARTH_OK;
    }
    return fail(error, status, "%s", found->text);
}

/* Counts what fires on the held-out rows, where candidates are measured too: shares of different texts must not be
 * compared. *all: neurons fired, over all rows. */
static hearth_status count_held_out(const trainer *r, uint64_t *all, hearth_error *error)
{
    enum { AT_ONCE = 64 };
    uint32_t numbers[AT_ONCE];
    size_t words = states_words(r->rows), count = states_count(r->rows), rows = 0;
    uint64_t fired = 0, *bits = mem_new_array(AT_ONCE, words * sizeof *bits);
    if (!bits)
        return fail_memory(error, "tuning", AT_ONCE * words * sizeof *bits);
    for (size_t at = states_training_count(r->rows); at < count; at += AT_ONCE) {
        size_t n = count - at < AT_ONCE ? count - at : AT_ONCE;
        for (size_t i = 0; i < n; i++)
            numbers[i] = (uint32_t)(at + i);
        states_read(r->rows, numbers, n, false, NULL, bits);
        fired += bits_count(bits, n * words);
        rows += n;
    }
    mem_free(bits);
    if (rows > 0)
        r->layer->shape.fires = (double)fired / ((double)rows * r->t->model->layers[r->number].ffn.neuron_count);
    candidate *none = &r->layer->candidates[TUNING_NONE];
    none->fired = r->layer->shape.fires;
    choose_count_bytes(none, r->t->model, &r->layer->shape);
    *all = fired;
    return HEARTH_OK;
}

/* Leaves a layer without a predictor, for this reason. */
static hearth_status leave_out(const trainer *r, const char *why, hearth_error *error)
{
    snprintf(r->layer->dropped, sizeof r->layer->dropped, "layer %u: %s", r->number, why);
    if (r->t->options->for_powerinfer)
        return fail(error, HEARTH_UNSUPPORTED, "%s: %s", r->t->model->source->path, r->layer->dropped);
    return HEARTH_OK;
}

/* Makes all untrained candidates of a layer. */
static hearth_status explore_layer(trainer *r, const uint32_t *ranks, size_t count, hearth_error *error)
{
    hearth_error found;
    uint64_t fired = 0;
    tuning *t = r->t;
    TRY(count_held_out(r, &fired, error));
    if (t->model->layers[r->number].mask_in.data)
        return leave_out(r, "its experts choose their neurons by themselves", error);
    if (fired == 0) /* no threshold can be placed, and any choice would make the whole layer zero */
        return leave_out(r, "none of its neurons fired in the text that was held out; take more text", error);
    TRY(calibrate_all(r, error));
    if (t->out->no_low_rank[0])
        return HEARTH_OK;
    hearth_status status = try_ranks(r, ranks, count, &found);
    return status == HEARTH_OK ? status : forgive(t, status, &found, error);
}

/* Makes all untrained candidates of all layers. */
static hearth_status explore(tuning *t, hearth_error *error)
{
    uint32_t ranks[CHOOSE_RANKS];
    size_t count = choose_ranks(ranks, t->model->hyper.embedding_length);
    TRY(tuning_stage(t, "looking at predictors", model_networks(t->model) * (count + 3), error));
    for (uint32_t i = 0; i < t->out->layer_count; i++) {
        trainer r;
        if (t->model->layers[i].ffn.neuron_count == 0)
            continue;
        TRY(open_trainer(&r, t, i, error));
        hearth_status status = explore_layer(&r, ranks, count, error);
        states_close(r.rows);
        TRY(status);
    }
    return HEARTH_OK;
}

hearth_status tuning_make_candidates(tuning *t, hearth_error *error)
{
    uint64_t aims = 0;
    TRY(explore(t, error));
    TRY(choose_aims(t, error));
    for (uint32_t i = 0; i < t->out->layer_count; i++)
        aims += t->out->layers[i].aim < t->out->layers[i].start_count;
    TRY(tuning_stage(t, "training predictors", aims > 0 ? aims : 1, error));
    for (uint32_t i = 0; i < t->out->layer_count; i++) {
        trainer r;
        if (t->out->layers[i].aim == t->out->layers[i].start_count)
            continue;
        TRY(tuning_unit(t, error));
        TRY(open_trainer(&r, t, i, error));
        hearth_status status = train(&r, error);
        states_close(r.rows);
        TRY(status);
    }
    return HEARTH_OK;
}
