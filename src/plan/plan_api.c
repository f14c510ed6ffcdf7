/* plan_api.c - plans for users of hearth.h. */
#include "report.h"

#include "../engine/engine.h"
#include "../kernel/topology.h"

#include <stdlib.h>
#include <string.h>

struct hearth_plan {
    planned planned;
    char *folder;
};

static hearth_status open_plan(hearth_plan *p, hearth_runtime *runtime, const hearth_model *model,
                               const hearth_plan_options *from, hearth_error *error)
{
    machine on;
    char problem[MACHINE_PROBLEM];
    machine_options measure = {.threads = hearth_runtime_threads(runtime),
                               .cpu_level = hearth_runtime_cpu_level(runtime),
                               .device = runtime->device_spec ? runtime->device_spec : "",
                               .cache_folder = from->cache_folder,
                               .again = from->again,
                               .progress = from->progress};
    planned_options options = {.mode = from->mode,
                               .activations = from->activations,
                               .no_guard = from->no_guard,
                               .again = from->again,
                               .device_bytes = from->device_bytes,
                               .host_bytes = from->host_bytes,
                               .context = from->context,
                               .sequences = from->sequences,
                               .kv = from->kv,
                               .layers = PLAN_FREE,
                               .neurons = PLAN_FREE,
                               .cache_bytes = topology_cache_bytes(),
                               .folder = from->cache_folder,
                               .progress = from->progress};
    TRY(machine_measure(&on, &measure, problem, error));
    return planned_open(&p->planned, runtime, model, &on, &options, error);
}

hearth_status hearth_plan_create(hearth_plan **out, hearth_runtime *runtime, const hearth_model *model,
                                 const hearth_plan_options *options, hearth_error *error)
{
    const hearth_plan_options none = {0}, *from = options ? options : &none;
    const char *folder = from->cache_folder ? from->cache_folder : "";
    hearth_plan *p = mem_new(sizeof *p);
    char *copy = mem_copy_text(folder, strlen(folder));
    if (!p || !copy) {
        mem_free(p);
        mem_free(copy);
        return fail_memory(error, "plan", sizeof *p);
    }
    *p = (hearth_plan){.folder = copy};
    hearth_status status = open_plan(p, runtime, model, from, error);
    if (status == HEARTH_OK)
        *out = p;
    else
        hearth_plan_destroy(p);
    return status;
}

void hearth_plan_destroy(hearth_plan *p)
{
    if (!p)
        return;
    planned_close(&p->planned);
    mem_free(p->folder);
    mem_free(p);
}

const hearth_engine *hearth_plan_engine(const hearth_plan *p)
{
    return p->planned.engine;
}

double hearth_plan_seconds(const hearth_plan *p)
{
    return planned_seconds(&p->planned, p->planned.request.cached);
}

/* Returns the plan in words, terminated; NULL: no memory. */
static char *words_of(const plan_view *v)
{
    buffer text = {0};
    bool ok = plan_print(&text, v) && buffer_put(&text, "", 1);
    if (!ok)
        buffer_free(&text);
    return text.data;
}

/* Returns the plan as JSON, terminated; NULL: no memory. */
static char *json_of(const plan_view *v)
{
    json_t *root = plan_json(v);
    char *printed = root ? json_dumps(root, JSON_COMPACT) : NULL;
    char *copy = printed ? mem_copy_text(printed, strlen(printed)) : NULL;
    free(printed);
    json_decref(root);
    return copy;
}

hearth_status hearth_plan_describe(const hearth_plan *p, char **text, char **json, hearth_error *error)
{
    plan_view v = plan_view_of(&p->planned);
    char *words = text ? words_of(&v) : NULL, *object = json ? json_of(&v) : NULL;
    if ((text && !words) || (json && !object)) {
        mem_free(words);
        mem_free(object);
        return fail_memory(error, "plan", 0);
    }
    if (text)
        *text = words;
    if (json)
        *json = object;
    return HEARTH_OK;
}

bool hearth_plan_check(const hearth_plan *p, double token_seconds, uint32_t cached)
{
    return planned_check(&p->planned, token_seconds, cached, *p->folder ? p->folder : NULL);
}
