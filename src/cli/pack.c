/* pack.c - `hearth pack`: stores the down matrices neuron-major in a new file, and reports the cost. */
#include "../base/file.h"
#include "../engine/engine.h"
#include "../eval/perplexity.h"
#include "../learn/profile.h"
#include "common.h"
#include "output.h"
#include "writing.h"

#include <math.h>
#include <string.h>

enum { ORDER_STORED, ORDER_HOTNESS, ORDER_TOGETHER };
static const char *const orders[] = {
    [ORDER_STORED] = "stored", [ORDER_HOTNESS] = "hotness", [ORDER_TOGETHER] = "together", NULL};

/* Of the sets of neurons that fire together; a larger model is recorded for fewer tokens. */
#define TOGETHER_BYTES ((uint64_t)256 << 20)

typedef struct pack_values {
    writing_options writing;
    const char *down_type;
    unsigned order;
    const char *profile, *loss, *separator;
    bool json;
} pack_values;

static const option rows[] = {
    {OPTION_ROW(0, "down-type", TEXT, pack_values, down_type, "TYPE",
                "number format of the transposed matrices; else the same for floats, q8_0 for the other formats"),
     .list = writing_format_list},
    {OPTION_ROW(0, "order", CHOICE, pack_values, order, "stored|hotness|together",
                "hotness: the neurons that fire most often come first in each layer, after a short profile; together: "
                "so that neurons that fire together are neighbours, the hot ones first"),
     .choices = orders},
    {OPTION_ROW(
        0, "profile", TEXT, pack_values, profile, "FILE",
        "the text that is profiled; else 512 tokens that the model writes itself, or, for hotness, the tune file's "
        "counts")},
    {OPTION_ROW(0, "loss", TEXT, pack_values, loss, "FILE", "measures the perplexity of this text before and after")},
    {OPTION_ROW(
        0, "separator", TEXT, pack_values, separator, "TEXT",
        "of --loss: what stands between TEXTs is a document of its own (blanks around it do not count), of which "
        "only the first window is scored")},
    {OPTION_ROW(
        0, "json", FLAG, pack_values, json, NULL,
        "one object: path, tensors, transposed, guarantee, relative_error, order, mean_run, perplexity of both")},
};

/* The order of neurons by what fires; zeroed: not asked for. */
typedef struct new_order {
    uint64_t tokens;   /* that were counted */
    bool known;        /* taken from the tune file instead of a profile made now */
    double share_half; /* share of a layer's activations from its first half, mean over layers */
    double run,
        hot_run;     /* mean length of runs of neighbours that fire, in this order and by hotness; 0: not measured */
    uint32_t **rows; /* [layers][neurons] indices; one block after the table */
} new_order;

/* One run of the command. */
typedef struct packing {
    const pack_values *values;
    const char *from, *to;
    convert_options what;
    new_order order;
    writing_result written;
    perplexity_result before, after; /* tokens 0: not measured */
} packing;

/* ------------------------------------------------------------------ profile */

/* Loads the model in mode dense, on the CPU alone. */
static hearth_status load_dense(loaded *out, const packing *p, const char *path, progress *shown, hearth_error *error)
{
    engine_options o = {.model = {.model = path, .ffn_activation = p->values->writing.ffn_activation},
                        .threads = p->values->writing.threads,
                        .cpu = p->values->writing.cpu,
                        .sparsity = HEARTH_MODE_DENSE};
    return common_load(out, &o, shown, error);
}

/* Rejects models whose activation is never exactly zero: mode exact cannot run them, and an order would gain
 * nothing. */
static hearth_status check_zeros(const loaded *l, unsigned order, hearth_error *error)
{
    if (model_has_zeros(l->model))
        return HEARTH_OK;
    return fail(error, HEARTH_UNSUPPORTED, "%s: %s: the activation of its neurons, %s, is never exactly zero",
                l->info.path, orders[order], l->info.activation);
}

/* Copies the order by hotness from a tune record of the model, so that it outlives both. */
static hearth_status copy_order(new_order *to, const tune *t, const hearth_model *model, hearth_error *error)
{
    size_t layers = t->layer_count, most = model_largest(model).neurons;
    to->rows = mem_new_array(layers, sizeof *to->rows + most * sizeof **to->rows);
    if (!to->rows)
        return fail_memory(error, "order", layers * most * sizeof **to->rows);
    to->tokens = t->tokens;
    for (size_t i = 0; i < layers; i++) {
        to->rows[i] = (uint32_t *)(to->rows + layers) + i * most;
        if (t->layers[i].neuron_count > 0)
            memcpy(to->rows[i], t->layers[i].order, t->layers[i].neuron_count * sizeof **to->rows);
    }
    return HEARTH_OK;
}

/* Measures what the first half of the layers makes in the order, by the counts of a record. */
static void measure_half(new_order *to, const tune *t, const hearth_model *model)
{
    for (size_t i = 0; i < t->layer_count; i++) {
        const tune_layer *l = &t->layers[i];
        double all = 0, hot = 0;
        for (size_t n = 0; n < l->neuron_count; n++) {
            int32_t count = l->counts[to->rows[i][n]];
            all += count;
            hot += n < l->neuron_count / 2 ? count : 0;
        }
        to->share_half += all > 0 ? hot / all / (double)model_networks(model) : 0;
    }
}

/* Replaces the order by hotness by one of what fired together; both are measured. */
static hearth_status chain(new_order *to, const together *fired, const loaded *l, hearth_error *error)
{
    to->hot_run = together_mean_run(fired, (const uint32_t *const *)to->rows);
    TRY(together_order(fired, l->runtime->threads, to->rows, error));
    to->run = together_mean_run(fired, (const uint32_t *const *)to->rows);
    return HEARTH_OK;
}

/* Profiles the given text, or else text that the model generates itself. */
static hearth_status count(packing *p, const loaded *l, progress *shown, hearth_error *error)
{
    corpus texts;
    profile counted = {0};
    together fired = {0};
    tune *t = NULL;
    hearth_status status = HEARTH_OK;
    hearth_progress to = progress_to(shown);
    profile_options o = {.progress = to};
    if (p->values->profile)
        TRY(corpus_read(&texts, l->model, &p->values->profile, 1, NULL, 0, error));
    else
        TRY(corpus_written(&texts, l->engine, 0, 0, &to, error));
    if (p->values->order == ORDER_TOGETHER) {
        TRY_OR(done, status, together_create(&fired, l->model, &texts, TOGETHER_BYTES, error));
        o.together = &fired;
    }
    TRY_OR(done, status, profile_take(&counted, l->engine, &texts, &o, error));
    TRY_OR(done, status, profile_record(&t, &counted, l->model, error));
    TRY_OR(done, status, copy_order(&p->order, t, l->model, error));
    if (o.together)
        TRY_OR(done, status, chain(&p->order, &fired, l, error));
    measure_half(&p->order, t, l->model);
done:
    tune_close(t);
    together_free(&fired);
    profile_free(&counted);
    corpus_free(&texts);
    return status;
}

/* Takes the order from the tune file's counts. */
static hearth_status recall(packing *p, const loaded *l, hearth_error *error)
{
    p->order.known = true;
    TRY(copy_order(&p->order, l->model->tune, l->model, error));
    measure_half(&p->order, l->model->tune, l->model);
    return HEARTH_OK;
}

/* Takes the order by hotness from the tune file where it has one and no text was named, else any from a profile made
 * now. */
static hearth_status find_order(packing *p, hearth_error *error)
{
    loaded l;
    progress shown;
    TRY(load_dense(&l, p, p->from, &shown, error));
    bool known =
        !p->values->profile && p->values->order == ORDER_HOTNESS && l.model->tune && tune_first(l.model->tune)->counts;
    hearth_status status = check_zeros(&l, p->values->order, error);
    if (status == HEARTH_OK)
        status = known ? recall(p, &l, error) : count(p, &l, &shown, error);
    progress_clear(&shown);
    common_unload(&l);
    p->what.order = (const uint32_t *const *)p->order.rows;
    return status;
}

/* -------------------------------------------------------------------- loss */

static hearth_status measure_text(const packing *p, const char *path, span text, perplexity_result *out,
                                  hearth_error *error)
{
    loaded l;
    progress shown;
    TRY(load_dense(&l, p, path, &shown, error));
    perplexity_options o = {.separator = p->values->separator, .progress = progress_to(&shown)};
    hearth_status status = perplexity_measure(out, l.engine, text, p->values->loss, &o, error);
    progress_clear(&shown);
    common_unload(&l);
    return status;
}

static double perplexity_of(const perplexity_result *r)
{
    return exp(r->nll / (double)r->tokens);
}

/* ------------------------------------------------------------------- report */

static const char *guarantee_of(const packing *p)
{
    return hearth_guarantee_name(p->written.requantised ? HEARTH_GUARANTEE_REQUANTISED : HEARTH_GUARANTEE_BITWISE);
}

static void print_guarantee(const packing *p)
{
    const writing_result *w = &p->written;
    if (w->relative_error > 0)
        printf(
            "guarantee %s: the down matrices were rounded %sto %s; the largest relative error of a layer's is %.2g\n",
            guarantee_of(p), w->requantised ? "once more, " : "", number_formats[w->down_format].name,
            w->relative_error);
    else
        printf("guarantee %s: every weight is what it was\n", guarantee_of(p));
}

static void print_path(const char *path)
{
    output_safe(stdout, span_of(path), 200);
}

static void print_loss(const packing *p)
{
    double before = perplexity_of(&p->before), after = perplexity_of(&p->after);
    fputs("loss on ", stdout);
    print_path(p->values->loss);
    printf(", %llu tokens: perplexity %.4f -> %.4f (%+.3f %%)\nagain: hearth eval ppl ",
           (unsigned long long)p->after.tokens, before, after, 100 * (after / before - 1));
    print_path(p->from);
    putchar(' ');
    print_path(p->values->loss);
    if (p->values->separator) {
        fputs(" --separator ", stdout);
        output_safe(stdout, span_of(p->values->separator), 200);
    }
    fputs(" --sparsity dense, and the same with ", stdout);
    print_path(p->to);
    putchar('\n');
}

static void print_report(const packing *p)
{
    if (p->order.tokens > 0)
        printf("ordered by %s after %llu tokens%s: the first half of a layer makes %.0f %% of its activations\n",
               p->values->order == ORDER_TOGETHER ? "what fires together" : "hotness",
               (unsigned long long)p->order.tokens, p->order.known ? " (the tune file's)" : "",
               100 * p->order.share_half);
    if (p->order.run > 0)
        printf("neurons that fire stand in runs of %.2f, by hotness of %.2f\n", p->order.run, p->order.hot_run);
    print_guarantee(p);
    if (p->after.tokens > 0)
        print_loss(p);
    else if (p->written.relative_error > 0)
        printf("what that costs: hearth pack ... --loss FILE, a text to measure the perplexity of\n");
}

static hearth_status print_json(const packing *p, hearth_error *error)
{
    const writing_result *w = &p->written;
    json_t *o = json_pack("{s:o, s:I, s:I, s:I, s:I, s:s, s:s, s:f, s:s, s:f}", "path", json_text(span_of(p->to)),
                          "tensors", (json_int_t)w->tensors, "transposed", (json_int_t)w->transposed, "from_bytes",
                          (json_int_t)w->from_bytes, "to_bytes", (json_int_t)w->to_bytes, "guarantee", guarantee_of(p),
                          "down_type", number_formats[w->down_format].name, "relative_error", w->relative_error,
                          "order", orders[p->values->order], "seconds", w->seconds);
    if (o && p->order.tokens > 0) {
        json_object_set_new(o, "profile_tokens", json_integer((json_int_t)p->order.tokens));
        json_object_set_new(o, "profile_of", json_string(p->order.known ? "tune file" : "this run"));
        json_object_set_new(o, "hotter_half_share", json_real(p->order.share_half));
        if (p->order.run > 0) {
            json_object_set_new(o, "mean_run", json_real(p->order.run));
            json_object_set_new(o, "mean_run_by_hotness", json_real(p->order.hot_run));
        }
    }
    if (o && p->after.tokens > 0) {
        json_object_set_new(o, "perplexity_before", json_real(perplexity_of(&p->before)));
        json_object_set_new(o, "perplexity_after", json_real(perplexity_of(&p->after)));
        json_object_set_new(o, "perplexity_tokens", json_integer((json_int_t)p->after.tokens));
    }
    return output_json(o, JSON_COMPACT, error);
}

/* ---------------------------------------------------------------------- run */

/* Runs the command. The text to score is read first, so that a misspelt path is reported before the work. */
static hearth_status pack(packing *p, arena *memory, hearth_error *error)
{
    const pack_values *v = p->values;
    char *text = NULL;
    size_t size = 0;
    hearth_status status = HEARTH_OK;
    if (v->loss)
        TRY(file_read(&text, &size, v->loss, COMMON_TEXT_BYTES, error));
    if (v->loss) /* before anything is written: a model that cannot be scored leaves no file */
        TRY_OR(done, status, measure_text(p, p->from, (span){text, size}, &p->before, error));
    if (v->order != ORDER_STORED)
        TRY_OR(done, status, find_order(p, error));
    TRY_OR(done, status, writing_run("pack", p->from, p->to, p->what, &v->writing, &p->written, memory, error));
    if (v->loss)
        TRY_OR(done, status, measure_text(p, p->to, (span){text, size}, &p->after, error));
done:
    mem_free(text);
    return status;
}

static hearth_status run_pack(void *values, operands *rest, hearth_error *error)
{
    pack_values *v = values;
    packing p = {.values = v,
                 .from = rest->items[0],
                 .to = rest->items[1],
                 .what = {.format = FORMAT_COUNT, .neuron_major = true, .down_format = FORMAT_COUNT}};
    if (v->down_type)
        TRY(writing_format("pack", v->down_type, &p.what.down_format, error));
    if (v->profile && v->order == ORDER_STORED)
        return fail(error, HEARTH_INVALID, "pack: --profile: is the text for --order hotness and together");
    if (v->separator && (!v->loss || !*v->separator))
        return fail(error, HEARTH_INVALID, "pack: --separator: %s", v->loss ? "is empty" : "is for the text of --loss");
    hearth_status status = pack(&p, rest->memory, error);
    if (status == HEARTH_OK && v->json)
        status = print_json(&p, error);
    else if (status == HEARTH_OK)
        print_report(&p);
    mem_free(p.order.rows);
    return status;
}

const command command_pack = {
    .name = "pack",
    .path = "pack",
    .summary = "store down matrices a row per neuron, hot neurons first",
    .usage = "IN OUT [--down-type TYPE] [--order hotness|together] [--loss FILE [--separator TEXT]] [options]",
    .about =
        "Writes the model IN (GGUF file or folder) as the GGUF file OUT with the down matrices of its feed-forward "
        "networks transposed, so that a neuron that is skipped costs nothing and nothing has to be transposed "
        "when the model is loaded. Floats stay what they are. The blocks of other formats lie across neurons: "
        "those weights are rounded once more, to q8_0 or to --down-type, which is best done from the float "
        "original. Reports speak of neurons by their original numbers, whatever their order.",
    .example =
        "  $ hearth pack stories-q8_0.gguf packed.gguf --order hotness --loss text.txt\n"
        "  ...\n"
        "  ordered by hotness after 512 tokens: the first half of a layer makes 98 % of its activations\n"
        "  guarantee requantised: the down matrices were rounded once more, to q8_0; the largest relative error of a "
        "layer's is 0.0057\n"
        "  loss on text.txt, 121 tokens: perplexity 2.4219 -> 2.4252 (+0.133 %)\n"
        "  $ hearth pack stories-relu packed-q4_0.gguf --down-type q4_0",
    .tables = {OPTION_TABLE("packing", rows, 0),
               {"writing", writing_option_rows, WRITING_OPTION_COUNT, offsetof(pack_values, writing)}},
    .values_size = sizeof(pack_values),
    .operands_least = 2,
    .operands_most = 2,
    .run = run_pack,
};
