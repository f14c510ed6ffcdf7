/* huggingface_family.c - the family that a config.json names. */
#include "folder_reader.h"

#include <string.h>

/* Returns whether a config names recurrent layers among others: as they were published, or as transformers 5 names them. */
static bool names_recurrent(const json_t *config)
{
    const json_t *list = json_object_get(config, "layer_types");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *type = json_string_value(json_array_get(list, i));
        if (type && (strcmp(type, "mamba") == 0 || strcmp(type, "linear_attention") == 0))
            return true;
    }
    return false;
}

/* Finds a family by model_type, or by architecture where model_type is NULL. Of those with one model_type the architecture tells
 * which, if it is given; of two with the same names one has experts, or recurrent layers. */
static const family *by_model_type(const char *model_type, const char *architecture, const json_t *config)
{
    bool experts = folder_has_expert_blocks(config), recurrent = names_recurrent(config);
    const family *best = NULL;
    unsigned most = 0;
    for (size_t i = 0; i < family_count; i++) {
        const family *f = &families[i];
        bool named = !architecture || strcmp(f->architecture, architecture) == 0;
        bool alike = f->mixture == experts && (f->mixers == MIXERS_KEYS) == recurrent;
        unsigned agrees = 2u * named + alike;
        if ((model_type ? strcmp(f->model_type, model_type) == 0 : named) && (!best || agrees > most)) {
            best = f;
            most = agrees;
        }
    }
    return best;
}

hearth_status folder_find_family(folder_reader *r)
{
    const char *model_type = NULL, *architecture = NULL;
    bool found;
    TRY(json_get_string(r->config, "model_type", &model_type, &found, r->name, r->error));
    const json_t *architectures = json_object_get(r->config, "architectures");
    if (architectures && !json_is_null(architectures)) {
        architecture = json_string_value(json_array_get(architectures, 0));
        if (!architecture)
            return fail(r->error, HEARTH_FORMAT, "%s: architectures: is not an array of strings", r->name);
    }
    if (!model_type && !architecture)
        return fail(r->error, HEARTH_FORMAT, "%s: model_type: is missing", r->name);
    r->family = by_model_type(model_type, model_type && r->nested ? NULL : architecture, r->config);
    if (!r->family)
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: %s: %.64s is not supported " FAMILIES_HINT, r->name,
                    model_type ? "model_type" : "architectures", model_type ? model_type : architecture);
    if (architecture && !r->nested && strcmp(architecture, r->family->architecture) != 0)
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: architectures: %.64s is not supported (known for %s: %s)",
                    r->name, architecture, r->family->model_type, r->family->architecture);
    return checkpoint_set_string(r->out, "general.architecture", span_of(r->family->name), r->error);
}
