/* tally.c - see tally.h. */
#include "tally.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *name, *text;
} parts[TALLY_PARTS] = {
#define X(id, name, text) {name, text},
    TALLY_PART_LIST(X)
#undef X
};

/* ------------------------------------------------------------------ counting */

/* Takes the neurons of the layer that is over. */
static void end_layer(tally *t, uint32_t next)
{
    t->neurons += t->latest;
    t->latest = 0;
    t->layer = next;
}

/* Tracer: the spans of a layer follow one another, those of both sides. */
static void see(void *user, const hearth_span *s)
{
    tally *t = user;
    if (s->layer != t->layer)
        end_layer(t, s->layer);
    if (strcmp(s->what, "attention") == 0)
        t->mixers += s->end - s->begin;
    else if (strcmp(s->what, "neurons") == 0)
        t->latest = fmax(t->latest, s->end - s->begin);
    if (t->next.see)
        t->next.see(t->next.user, s);
}

hearth_tracer tally_to(tally *t)
{
    return (hearth_tracer){see, t};
}

void tally_reset(tally *t)
{
    *t = (tally){.next = t->next};
}

/* ------------------------------------------------------------------ comparing */

tally_report tally_compare(const tally *t, const planned *p, size_t tokens, double seconds, double cached)
{
    const double *terms = p->plan.terms;
    double count = (double)tokens, later = (cached - p->request.cached) * p->plan.position_seconds;
    tally_report r = {.all = {seconds / count, planned_seconds(p, cached)}, .has_parts = p->use == USES_PLAN};
    r.parts[TALLY_MIXERS] = (tally_row){t->mixers / count, terms[COST_CPU_MIXERS] + terms[COST_DEVICE_MIXERS] + later};
    r.parts[TALLY_NEURONS] =
        (tally_row){(t->neurons + t->latest) / count, terms[COST_CPU_NEURONS] + terms[COST_DEVICE_NEURONS]};
    r.parts[TALLY_REST] = (tally_row){r.all.achieved - r.parts[TALLY_MIXERS].achieved - r.parts[TALLY_NEURONS].achieved,
                                      terms[COST_EXCHANGE] + terms[COST_HEAD] + terms[COST_REST]};
    return r;
}

bool tally_print(buffer *out, const tally_report *r)
{
    bool ok = buffer_print(out, "achieved: %.3g ms per token, predicted %.3g (%+.0f %%)", 1e3 * r->all.achieved,
                           1e3 * r->all.predicted, 100 * (r->all.achieved / r->all.predicted - 1));
    for (int k = 0; k < TALLY_PARTS && r->has_parts; k++)
        ok = ok && buffer_print(out, "%s%s %.3g for %.3g", k == 0 ? ": " : ", ", parts[k].text,
                                1e3 * r->parts[k].achieved, 1e3 * r->parts[k].predicted);
    return ok && buffer_print(out, "\n");
}

static json_t *row_json(const tally_row *r)
{
    return json_pack("{s:o, s:o}", "achieved", json_number(r->achieved), "predicted", json_number(r->predicted));
}

json_t *tally_json(const tally_report *r)
{
    json_t *out = json_pack("{s:o}", "token_seconds", row_json(&r->all));
    for (int k = 0; k < TALLY_PARTS && r->has_parts; k++)
        json_object_set_new(out, parts[k].name, row_json(&r->parts[k]));
    return out;
}
