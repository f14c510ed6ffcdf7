/* inspect.c - `hearth inspect`: shows what a model file contains.
 *
 * Also works on files that hearth cannot run, and on hostile files: names and texts reach the terminal only through
 * output_safe. */

#include "../base/memory.h"
#include "../file/checkpoint_json.h"
#include "../file/gguf.h"
#include "../model/fingerprint.h"
#include "inspect_internal.h"
#include "output.h"

#include <stdio.h>
#include <string.h>

/* Long arrays and strings are cut to this. */
#define SHOWN_ITEMS 6
#define SHOWN_BYTES 120

typedef struct inspect_values {
    model_options model;
    bool json, tensors, keys;
    const char *plot;
} inspect_values;

static const option rows[] = {
    {OPTION_ROW(0, "keys", FLAG, inspect_values, keys, NULL, "only the keys")},
    {OPTION_ROW(0, "tensors", FLAG, inspect_values, tensors, NULL, "only the tensors")},
    {OPTION_ROW(0, "json", FLAG, inspect_values, json, NULL,
                "one object: path, model, layers, tune, formats, keys, tensors")},
    {OPTION_ROW(0, "plot", TEXT, inspect_values, plot, "OUT.svg",
                "instead, a picture of what the tune file counted: which neurons fire, how often, in which layer")},
};

/* ------------------------------------------------------------------ values of keys */

static void print_scalar(const key_value *e)
{
    switch (value_kind_of(e->type)) {
    case VALUE_IS_STRING:
        putchar('"');
        output_safe(stdout, e->as.string, SHOWN_BYTES);
        putchar('"');
        break;
    case VALUE_IS_BOOL:
        fputs(e->as.u ? "true" : "false", stdout);
        break;
    case VALUE_IS_FLOAT:
        printf("%.7g", e->as.f);
        break;
    case VALUE_IS_SIGNED:
        printf("%lld", (long long)e->as.i);
        break;
    case VALUE_IS_UNSIGNED:
        printf("%llu", (unsigned long long)e->as.u);
        break;
    case VALUE_IS_ARRAY:
        break;
    }
}

static void print_key(const key_value *e)
{
    output_safe(stdout, span_of(e->key), SHOWN_BYTES);
    if (e->type != VALUE_ARRAY) {
        printf(" %s = ", value_type_name(e->type));
        print_scalar(e);
    } else {
        printf(" %s[%llu] = [", value_type_name(e->item_type), (unsigned long long)e->count);
        for (uint64_t i = 0; i < e->count && i < SHOWN_ITEMS; i++) {
            key_value item = key_value_item(e, i);
            fputs(i ? ", " : "", stdout);
            print_scalar(&item);
        }
        fputs(e->count > SHOWN_ITEMS ? ", ...]" : "]", stdout);
    }
    putchar('\n');
}

static json_t *json_key(const key_value *e)
{
    json_t *value = key_value_json(e, SHOWN_ITEMS);
    if (e->type != VALUE_ARRAY)
        return json_pack("{s:s, s:o}", "type", value_type_name(e->type), "value", value);
    return json_pack("{s:s, s:s, s:I, s:o}", "type", "array", "item_type", value_type_name(e->item_type), "count",
                     (json_int_t)e->count, "first", value);
}

/* ------------------------------------------------------------------ tensors */

/* Tensor types that are listed separately. A file has a handful; a forged one may have any number, and its last entry
 * then counts all the rest. */
#define MOST_TYPES 48
#define TYPE_NAME  24

typedef struct type_sum {
    char name[TYPE_NAME];
    size_t tensors;
    uint64_t size_bytes;
} type_sum;

/* Writes a type's name: "q8_0"; "f32 of nvfp4" where rows are made when they are read; or for a type that hearth does not support
 * "q2_K" or "number 200". */
static void name_type(char out[TYPE_NAME], const stored_tensor *t)
{
    const char *name = t->foreign ? t->foreign : number_formats[t->format].name;
    const char *source = t->scaled ? scaled_source(t->scaled) : name;
    bool differs = strcmp(name, source) != 0;
    snprintf(out, TYPE_NAME, "%s%s%s", name, differs ? " of " : "", differs ? source : "");
}

/* Sums the tensors by type; returns how many sums there are. */
static size_t sum_types(const checkpoint *c, type_sum sums[MOST_TYPES])
{
    size_t count = 0;
    for (size_t i = 0; i < c->tensor_count; i++) {
        char name[TYPE_NAME];
        size_t k = 0;
        name_type(name, &c->tensors[i]);
        while (k < count && strcmp(sums[k].name, name) != 0)
            k++;
        if (k == MOST_TYPES)
            snprintf(sums[--k].name, TYPE_NAME, "others");
        if (k == count) {
            sums[count] = (type_sum){0};
            memcpy(sums[count++].name, name, TYPE_NAME);
        }
        sums[k].tensors++;
        sums[k].size_bytes += c->tensors[i].size_bytes;
    }
    return count;
}

/* Prints name, shape (the last stored dimension first), format and size. */
static void print_tensor(const checkpoint *c, size_t index)
{
    const stored_tensor *t = &c->tensors[index];
    char type[TYPE_NAME];
    name_type(type, t);
    char size[16], shape[96];
    int used = snprintf(shape, sizeof shape, "%llu", (unsigned long long)t->shape[t->rank ? t->rank - 1 : 0]);
    for (uint32_t i = t->rank; i > 1; i--)
        used += snprintf(shape + used, sizeof shape - (size_t)used, " x %llu", (unsigned long long)t->shape[i - 2]);
    output_safe(stdout, span_of(t->name), SHOWN_BYTES);
    int blanks = 34 - (int)strnlen(t->name, 34);
    printf("%*s %16s  %-5s %s\n", blanks, "", shape, type, output_size(size, (double)t->size_bytes));
}

static json_t *json_tensor(const checkpoint *c, size_t index)
{
    const stored_tensor *t = &c->tensors[index];
    char type[TYPE_NAME];
    name_type(type, t);
    json_t *shape = json_array();
    for (uint32_t i = t->rank; i > 0; i--)
        json_array_append_new(shape, json_integer((json_int_t)t->shape[i - 1]));
    return json_pack("{s:o, s:o, s:s, s:I}", "name", json_text(span_of(t->name)), "shape", shape, "format", type,
                     "size_bytes", (json_int_t)t->size_bytes);
}

/* ------------------------------------------------------------------ the model */

/* model: NULL where hearth cannot run the file, for the reason given. */
typedef struct inspection {
    const checkpoint *file;
    const hearth_model *model;
    const char *why;
    inspected_tune tune;
    layer_words *layers; /* [layer_count]; NULL without a model */
} inspection;

/* Finds the smallest and the largest rank of the layers' predictors. */
static void find_ranks(const hearth_model *m, uint32_t *least, uint32_t *most)
{
    *least = *most = m->layers[0].fc1.rows;
    for (uint32_t i = 1; i < m->hyper.layer_count; i++) {
        uint32_t rank = m->layers[i].fc1.rows;
        *least = rank < *least ? rank : *least;
        *most = rank > *most ? rank : *most;
    }
}

static void print_neurons(const hearth_model *m)
{
    printf("layout    %s%s%s%s\n", m->powerinfer ? "PowerInfer's, " : "", m->neuron_major ? "neuron-major" : "stock",
           m->layers[model_first_network(m)].order ? ", neurons in another order" : "",
           m->requantised ? ", down was rounded once more for it" : "");
    if (!m->predictors)
        return;
    uint32_t least, most;
    find_ranks(m, &least, &most);
    printf("predictor rank %u", least);
    if (most > least)
        printf(" to %u", most);
    printf(", threshold %g\n", (double)m->hyper.predictor_threshold);
}

static void print_model(const hearth_model *model)
{
    char size[16];
    hearth_model_info m;
    hearth_model_describe(model, &m);
    fputs("name      ", stdout);
    output_safe(stdout, span_of(m.name ? m.name : ""), SHOWN_BYTES);
    printf("\nfamily    %s, %s, %.4g million parameters, %s\n", m.family, m.activation,
           (double)m.parameter_count * 1e-6, output_size(size, (double)m.weight_bytes));
    printf("layers    %u, width %u, context %u\n", m.layer_count, m.embedding_length, m.context_length);
    print_neurons(model);
    printf("tokens    %u, %s\n", m.vocabulary_size, m.has_tokenizer ? "with a tokenizer" : "without a tokenizer");
    char fingerprint[FINGERPRINT_SIZE];
    model_fingerprint(fingerprint, model);
    printf("identity  %s\n", fingerprint);
}

/* Returns null where the layers have no predictors. */
static json_t *json_predictors(const hearth_model *m)
{
    uint32_t least, most;
    if (!m->predictors)
        return json_null();
    find_ranks(m, &least, &most);
    return json_pack("{s:i, s:i, s:o}", "rank_least", (int)least, "rank_most", (int)most, "threshold",
                     json_number((double)m->hyper.predictor_threshold));
}

static json_t *json_model(const hearth_model *model)
{
    hearth_model_info m;
    hearth_model_describe(model, &m);
    json_t *object = json_pack(
        "{s:o, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:b, s:i, s:i}", "name",
        json_text(span_of(m.name ? m.name : "")), "family", m.family, "activation", m.activation, "layer_count",
        (int)m.layer_count, "embedding_length", (int)m.embedding_length, "neuron_count", (int)m.neuron_count,
        "head_count", (int)m.head_count, "kv_head_count", (int)m.kv_head_count, "head_length", (int)m.head_length,
        "vocabulary_size", (int)m.vocabulary_size, "context_length", (int)m.context_length, "parameter_count",
        (json_int_t)m.parameter_count, "weight_bytes", (json_int_t)m.weight_bytes, "has_tokenizer",
        (int)m.has_tokenizer, "bos", (int)m.bos, "eos", (int)m.eos);
    json_t *neurons = json_array();
    for (uint32_t i = 0; i < m.layer_count; i++)
        json_array_append_new(neurons, json_integer(model->layers[i].ffn.neuron_count));
    json_object_set_new(object, "layer_neurons", neurons);
    json_object_set_new(object, "powerinfer", json_boolean(m.powerinfer));
    json_object_set_new(object, "neuron_major", json_boolean(m.neuron_major));
    json_object_set_new(object, "ordered", json_boolean(model->layers[model_first_network(model)].order));
    json_object_set_new(object, "requantised", json_boolean(model->requantised));
    json_object_set_new(object, "predictors", json_predictors(model));
    char fingerprint[FINGERPRINT_SIZE];
    model_fingerprint(fingerprint, model);
    json_object_set_new(object, "fingerprint", json_string(fingerprint));
    return object;
}

/* ------------------------------------------------------------------ the command */

static void print_formats(const checkpoint *c)
{
    type_sum sums[MOST_TYPES];
    char size[16];
    size_t count = sum_types(c, sums);
    int width = 9;
    for (size_t i = 0; i < count; i++)
        width = (int)strlen(sums[i].name) > width ? (int)strlen(sums[i].name) : width;
    for (size_t i = 0; i < count; i++)
        printf("%-*s %zu tensor%s, %s\n", width, sums[i].name, sums[i].tensors, sums[i].tensors == 1 ? "" : "s",
               output_size(size, (double)sums[i].size_bytes));
}

static void print_inspection(const inspection *in, const inspect_values *v)
{
    const checkpoint *c = in->file;
    bool all = !v->keys && !v->tensors;
    if (all) {
        fputs("file      ", stdout);
        output_safe(stdout, span_of(c->path), 4096);
        putchar('\n');
        if (checkpoint_file_count(c) > 1)
            printf("parts     %zu files\n", checkpoint_file_count(c));
        if (in->model) {
            print_model(in->model);
            inspect_layers_print(in->layers, in->model->hyper.layer_count);
        } else if (inspect_is_tune(c)) {
            inspect_tune_print_file(c);
        } else {
            fputs("hearth cannot run it: ", stdout);
            output_safe(stdout, span_of(in->why), 1024);
            putchar('\n');
        }
        print_formats(c);
        if (in->model)
            inspect_tune_print(&in->tune, in->model);
        printf("\n%zu key%s\n", c->entry_count, c->entry_count == 1 ? "" : "s");
    }
    for (size_t i = 0; (all || v->keys) && i < c->entry_count; i++)
        print_key(&c->entries[i]);
    if (all)
        printf("\n%zu tensor%s\n", c->tensor_count, c->tensor_count == 1 ? "" : "s");
    for (size_t i = 0; (all || v->tensors) && i < c->tensor_count; i++)
        print_tensor(c, i);
}

static hearth_status json_inspection(const inspection *in, const inspect_values *v, hearth_error *error)
{
    const checkpoint *c = in->file;
    bool all = !v->keys && !v->tensors;
    json_t *object = json_object();
    json_object_set_new(object, "path", json_text(span_of(c->path)));
    json_object_set_new(object, "parts", json_integer((json_int_t)checkpoint_file_count(c)));
    if (all) {
        type_sum sums[MOST_TYPES];
        json_t *formats = json_object();
        size_t count = sum_types(c, sums);
        for (size_t i = 0; i < count; i++)
            json_object_set_new(formats, sums[i].name,
                                json_pack("{s:I, s:I}", "tensors", (json_int_t)sums[i].tensors, "size_bytes",
                                          (json_int_t)sums[i].size_bytes));
        json_object_set_new(object, "formats", formats);
        json_object_set_new(object, "model", in->model ? json_model(in->model) : json_null());
        if (in->model) {
            json_object_set_new(object, "layers", inspect_layers_json(in->layers, in->model));
            json_object_set_new(object, "tune", inspect_tune_json(&in->tune, in->model));
        } else if (inspect_is_tune(c))
            json_object_set_new(object, "tune_file", inspect_tune_json_file(c));
        else
            json_object_set_new(object, "why", json_text(span_of(in->why)));
    }
    if (all || v->keys) {
        json_t *keys = json_object();
        for (size_t i = 0; i < c->entry_count; i++)
            json_object_set_new(keys, c->entries[i].key, json_key(&c->entries[i]));
        json_object_set_new(object, "keys", keys);
    }
    if (all || v->tensors) {
        json_t *tensors = json_array();
        for (size_t i = 0; i < c->tensor_count; i++)
            json_array_append_new(tensors, json_tensor(c, i));
        json_object_set_new(object, "tensors", tensors);
    }
    return output_json(object, JSON_INDENT(1) | JSON_ENSURE_ASCII, error);
}

static hearth_status inspect_file(inspection *in, const inspect_values *v, hearth_error *error)
{
    if (in->model) {
        TRY(inspect_layers_open(&in->layers, in->model, error));
        TRY(inspect_tune_open(&in->tune, v->model.model, v->model.tune, in->model, error));
    }
    if (v->json)
        return json_inspection(in, v, error);
    print_inspection(in, v);
    return HEARTH_OK;
}

static hearth_status run_inspect(void *values, operands *rest, hearth_error *error)
{
    inspect_values *v = values;
    checkpoint *c;
    hearth_model *model = NULL;
    hearth_error why = {0};
    TRY(common_take_model("inspect", &v->model, rest, 0, false, error));
    if (v->plot)
        return inspect_plot(&v->model, v->plot, error);
    TRY(model_open_checkpoint(&c, v->model.model, error));
    inspection in = {.file = c, .why = why.text};
    const hearth_model_options options = {.ffn_activation = v->model.ffn_activation};
    if (model_check(&model, c, &options, &why) == HEARTH_OK)
        in.model = model;
    hearth_status status = inspect_file(&in, v, error);
    inspect_tune_close(&in.tune);
    mem_free(in.layers);
    hearth_model_close(model);
    checkpoint_close(c);
    return status;
}

const command command_inspect = {
    .name = "inspect",
    .path = "inspect",
    .summary = "show what a model file holds, and what was learnt about it",
    .usage = "MODEL [--keys | --tensors] [--tune FILE] [--json] [--plot OUT.svg]",
    .about =
        "Shows the keys (long lists shortened), the tensors with their shapes and formats, and, where hearth can run "
        "the model, its hyperparameters, what each layer computes, and what its tune file holds: hot neurons, "
        "predictors, thresholds. Any valid GGUF will do, also one that hearth cannot run (it says why), whose family "
        "or number formats it does not know, or that is only a vocabulary.",
    .example = "  $ hearth inspect stories-relu-q8_0.gguf\n"
               "  file      stories-relu-q8_0.gguf\n"
               "  name      stories-relu\n"
               "  family    llama, relu, 1.542 million parameters, 1.64 MB\n"
               "  layers    6, width 128, context 512\n"
               "  ...\n"
               "  llama.block_count u32 = 6",
    .tables = {OPTION_TABLE("options", rows, 0),
               {"model", model_option_rows, MODEL_OPTION_COUNT, offsetof(inspect_values, model)}},
    .values_size = sizeof(inspect_values),
    .operands_most = 1,
    .run = run_inspect,
};
