/* job.c - the life of a job. */
#include "job.h"

#include "../base/clock.h"
#include "../base/memory.h"

job *job_new(size_t prompts, size_t choices)
{
    job *j = mem_new(sizeof *j);
    job_prompt *p = mem_new_array(prompts, sizeof *p);
    job_choice *c = mem_new_array(choices, sizeof *c);
    if (!j || !p || !c) {
        mem_free(j);
        mem_free(p);
        mem_free(c);
        return NULL;
    }
    *j = (job){.prompts = p,
               .prompt_count = prompts,
               .choices = c,
               .choice_count = choices,
               .per_place = 1,
               .arrived = clock_seconds()};
    atomic_init(&j->owners, 1);
    atomic_init(&j->cancelled, false);
    atomic_init(&j->socket, -1);
    outbox_init(&j->outbox, JOB_OUTBOX_BYTES);
    j->unread.last = &j->unread.first;
    j->waiting.last = &j->waiting.first;
    for (size_t i = 0; i < choices; i++) {
        c[i].job = j;
        c[i].number = (uint32_t)i;
        c[i].end = (event){.kind = EVENT_END, .is_fixed = true, .choice = (uint32_t)i, .ending = &c[i].ending};
    }
    return j;
}

void choice_list_add(choice_list *l, job_choice *c)
{
    c->next = NULL;
    *l->last = c;
    l->last = &c->next;
}

job_choice *choice_list_take(choice_list *l)
{
    job_choice *c = l->first;
    l->first = c->next;
    l->last = l->first ? l->last : &l->first;
    return c;
}

void job_share(job *j)
{
    atomic_fetch_add(&j->owners, 1);
}

bool job_is_scored(const job *j)
{
    return j->scores_prompt || j->vectors;
}

size_t job_places(const job *j, size_t choices)
{
    return (choices + j->per_place - 1) / j->per_place;
}

void job_choice_empty(job_choice *c)
{
    hearth_sampler_destroy(c->sampler);
    hearth_answer_destroy(c->answer);
    c->sampler = NULL;
    c->answer = NULL;
}

void job_release(job *j)
{
    if (!j || atomic_fetch_sub(&j->owners, 1) > 1)
        return;
    outbox_destroy(&j->outbox);
    for (size_t i = 0; i < j->choice_count; i++)
        job_choice_empty(&j->choices[i]);
    hearth_grammar_destroy(j->grammar);
    for (size_t i = 0; i < j->prompt_count; i++)
        hearth_free(j->prompts[i].ids);
    mem_free(j->prompts);
    mem_free(j->choices);
    mem_free(j->vectors);
    mem_free(j);
}
