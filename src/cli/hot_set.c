/* hot_set.c - see hot_set.h. */
#include "hot_set.h"

#include "../base/file.h"
#include "../base/text.h"
#include "output.h"

#include <stdio.h>
#include <string.h>

/* The choices of --hot-set. */
enum { AUTO, OFF, FIRST /* of hearth_hot_set */ };

/* Returns whether hot sets are followed. */
static bool follows(const loaded *l, const engine_options *o)
{
    bool is_own = l->is_planned && l->planned.own && l->planned.use == USES_PLAN;
    return o->hot_set >= FIRST || (o->hot_set == AUTO && is_own);
}

static hearth_hot_report report_of(const loaded *l)
{
    hearth_hot_report r = {0};
    if (hearth_engine_hot_set(l->engine, &r, NULL) != HEARTH_OK)
        r = (hearth_hot_report){0}; /* the device failed, which its next step tells */
    return r;
}

hearth_status hot_set_follow(loaded *l, const engine_options *o, hearth_error *error)
{
    hearth_hot_set how = o->hot_set == AUTO ? HEARTH_HOT_SET_ADAPTIVE : (hearth_hot_set)(o->hot_set - FIRST);
    if (!follows(l, o))
        return HEARTH_OK;
    TRY(hearth_engine_follow(l->engine, &(hearth_hot_options){.how = how}, error));
    if (o->hot_set != AUTO && report_of(l).layers == 0 && !o->messages.quiet)
        output_note(
            "note",
            "--hot-set: no layer has neurons that it skips, or whole experts, on both sides, so that none can change");
    return HEARTH_OK;
}

static double hit_rate(const hearth_hot_report *r)
{
    return r->active > 0 ? (double)r->on_device / (double)r->active : 0;
}

void hot_set_say(const loaded *l, const engine_options *o)
{
    if (!follows(l, o) || (o->hot_set == AUTO && !o->messages.verbose))
        return;
    hearth_hot_report r = report_of(l);
    char copied[16];
    if (r.layers > 0)
        fprintf(stderr,
                "hot set: %.1f %% of the active neurons were on the device, %llu changed places (%s, %.3g ms)\n",
                100 * hit_rate(&r), (unsigned long long)r.swaps, text_size(copied, (double)r.bytes), 1e3 * r.seconds);
}

json_t *hot_set_json(const loaded *l, const engine_options *o)
{
    if (!follows(l, o))
        return json_null();
    hearth_hot_report r = report_of(l);
    return json_pack("{s:I, s:f, s:I, s:I, s:I, s:I, s:f}", "layers", (json_int_t)r.layers, "hit_rate", hit_rate(&r),
                     "active", (json_int_t)r.active, "on_device", (json_int_t)r.on_device, "swaps", (json_int_t)r.swaps,
                     "bytes", (json_int_t)r.bytes, "seconds", r.seconds);
}

hearth_status hot_set_save(const loaded *l, const char *path, hearth_error *error)
{
    hearth_placement *now;
    char *json;
    TRY(hearth_engine_placement(&now, l->engine, error));
    hearth_status status = hearth_placement_print(now, &json, error);
    hearth_placement_destroy(now);
    TRY(status);
    status = file_write(path, json, strlen(json), error);
    hearth_free(json);
    return status;
}
