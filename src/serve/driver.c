/* driver.c - the loop around the scheduler. */
#include "driver.h"

#include "scorer.h"

#include "../base/clock.h"
#include "../base/memory.h"
#include "../base/thread.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* How often it is asked whether clients are still there, and how often answers are listed. */
#define LOOK_SECONDS 0.1
#define LIST_SECONDS 0.02
/* How often the device is asked what it has counted, while it computes. */
#define HOT_SECONDS 1
/* Clients that are asked about at once. */
#define LOOK_SOCKETS 64
/* Answers that driver_list knows of. */
#define MOST_LISTED 256

struct driver {
    driver_options options;
    const hearth_engine *engine;
    hearth_session *session;
    hearth_scheduler *scheduler;
    scorer *scorer;
    live *live;
    size_t vocabulary;
    saved_found saved;
    mailbox box;
    pthread_t thread;
    bool has_thread;
    atomic_bool stops, has_ended;
    /* The thread's. */
    job *jobs, *newest; /* that have not ended      */
    size_t scheduled;   /* choices in the scheduler */
    uint64_t turns;     /* see job.turn             */
    double looked, published, hot_published;
    /* What others may read. */
    pthread_mutex_t lock;
    hearth_error lost; /* status other than HEARTH_OK: the device has failed */
    driver_answer listed[MOST_LISTED];
    size_t listed_count, running;
};

/* ------------------------------------------------------------------ what others may know */

/* Sets the metrics of the hot set. The device that fails to tell is left to the next step. */
static void publish_hot_set(driver *d)
{
    hearth_hot_report r;
    d->hot_published = clock_seconds();
    if (hearth_engine_hot_set(d->engine, &r, NULL) != HEARTH_OK)
        return;
    metrics_set(d->options.metrics, METRIC_HOT_ACTIVE, r.active);
    metrics_set(d->options.metrics, METRIC_HOT_ON_DEVICE, r.on_device);
    metrics_set(d->options.metrics, METRIC_HOT_SWAPS, r.swaps);
}

/* Lists what is being answered, and what was counted so far. now: else it may wait. */
static void publish(driver *d, bool now)
{
    double time = clock_seconds();
    if (!now && time - d->published < LIST_SECONDS)
        return;
    d->published = time;
    hearth_load load = hearth_scheduler_load(d->scheduler);
    metrics_set(d->options.metrics, METRIC_STEPS, load.steps);
    live_note(d->live, d->session, load.answer_tokens, d->scheduled);
    uint64_t neurons, active;
    live_totals(d->live, &neurons, &active);
    metrics_set(d->options.metrics, METRIC_NEURONS, neurons);
    metrics_set(d->options.metrics, METRIC_ACTIVE_NEURONS, active);
    metrics_set(d->options.metrics, METRIC_TOKEN_BYTES, (uint64_t)hearth_session_token_bytes(d->session));
    pthread_mutex_lock(&d->lock);
    d->running = d->scheduled;
    d->listed_count = 0;
    for (job *j = d->jobs; j; j = j->next)
        for (size_t i = 0; j->running > 0 && i < j->choice_count && d->listed_count < MOST_LISTED; i++) {
            const job_choice *c = &j->choices[i];
            if (c->request)
                d->listed[d->listed_count++] = (driver_answer){.prompt_tokens = j->prompts[c->prompt].count,
                                                               .answer_tokens = c->told,
                                                               .seconds = time - j->arrived};
        }
    pthread_mutex_unlock(&d->lock);
}

/* ------------------------------------------------------------------ choices end */

static void link_job(driver *d, job *j)
{
    j->next = NULL;
    j->previous = d->newest;
    *(d->newest ? &d->newest->next : &d->jobs) = j;
    d->newest = j;
}

static void unlink_job(driver *d, job *j)
{
    *(j->previous ? &j->previous->next : &d->jobs) = j->next;
    *(j->next ? &j->next->previous : &d->newest) = j->previous;
}

/* Tells the end of a choice, and lets go of its job with the last one. */
static void end_choice(driver *d, job_choice *c)
{
    job *j = c->job;
    metrics *m = d->options.metrics;
    c->ended = true;
    job_choice_empty(c);
    metrics_add(m, METRIC_PROMPT_TOKENS, c->ending.prompt_tokens);
    metrics_add(m, METRIC_REUSED_TOKENS, c->ending.reused_tokens);
    if (c->ending.code && strcmp(c->ending.code, "too_slow") == 0) {
        atomic_store(&j->cancelled, true);
        j->is_too_slow = true;
    }
    j->left--;
    mailbox_done(&d->box, job_places(j, j->left + 1) - job_places(j, j->left));
    (void)outbox_put(&j->outbox, &c->end);
    if (j->left > 0)
        return;
    if (atomic_load(&j->cancelled))
        metrics_add(m, j->is_too_slow ? METRIC_TOO_SLOW : METRIC_CANCELLED, 1);
    unlink_job(d, j);
    outbox_close(&j->outbox);
    job_release(j);
}

static void on_end(void *user, const hearth_outcome *outcome)
{
    job_choice *c = user;
    driver *d = c->job->driver;
    c->request = 0;
    c->job->running--;
    d->scheduled--;
    c->ending.stop = outcome->stop;
    c->ending.prompt_tokens = outcome->prompt_tokens;
    c->ending.reused_tokens = outcome->reused_tokens;
    c->ending.answer_tokens = outcome->answer_tokens;
    if (outcome->status != HEARTH_OK && c->ending.status == HEARTH_OK)
        choice_fail(c, outcome->status, NULL, outcome->error);
    publish(d, true); /* whoever learns of the end finds it counted */
    end_choice(d, c);
}

/* ------------------------------------------------------------------ choices begin */

static void count_token(driver *d, job_choice *c)
{
    double now = clock_seconds();
    metrics_add(d->options.metrics, METRIC_ANSWER_TOKENS, 1);
    if (c->said > 0)
        metrics_observe(d->options.metrics, HISTOGRAM_NEXT_TOKEN, now - c->said);
    else
        metrics_observe(d->options.metrics, HISTOGRAM_FIRST_TOKEN, now - c->job->arrived);
    c->said = c->job->beat = now;
    c->told++;
}

static bool on_token(void *user, const hearth_token *token)
{
    job_choice *c = user;
    driver *d = c->job->driver;
    if (atomic_load(&c->job->cancelled))
        return false;
    if (token->token >= 0)
        count_token(d, c);
    return choice_tell(c, EVENT_TOKEN, token->token, (span){token->text, token->size},
                       c->job->wants_probabilities ? token->logits : NULL, d->vocabulary);
}

/* Gives a place to a choice. */
static void schedule(driver *d, job_choice *c)
{
    const job_prompt *p = &c->job->prompts[c->prompt];
    hearth_error error = {0};
    hearth_request request = {.prompt = p->ids,
                              .prompt_count = p->count,
                              .sampler = c->sampler,
                              .answer = c->answer,
                              .on_token = on_token,
                              .on_end = on_end,
                              .user = c};
    hearth_status status = hearth_scheduler_add(d->scheduler, &request, &c->request, &error);
    if (status == HEARTH_OK) {
        c->job->running++;
        d->scheduled++;
        return;
    }
    choice_fail(c, status, NULL, error.text);
    end_choice(d, c);
}

/* Returns whether a choice may begin: several answers to one prompt begin once the first of them has read it, as they then
 * have it from there. */
static bool may_begin(const job_choice *c)
{
    const job *j = c->job;
    const job_choice *first = &j->choices[c->prompt * (j->choice_count / j->prompt_count)];
    return c == first || first->told > 0 || first->ended;
}

/* Returns the job whose turn it is to get a place: that which has the fewest, of these the oldest. So one that asks for
 * many answers does not keep others waiting until it has them all. NULL: nobody can begin. */
static job *next_job(const driver *d)
{
    job *found = NULL;
    for (job *j = d->jobs; j; j = j->next)
        if (j->waiting.first && may_begin(j->waiting.first) && (!found || j->running < found->running))
            found = j;
    return found;
}

/* Gives away all places that are free. */
static void schedule_some(driver *d)
{
    for (job *j; d->scheduled < d->options.session.sequences && (j = next_job(d));)
        schedule(d, choice_list_take(&j->waiting));
}

/* Lets the scorer, if it is free, read the prompt of the job that has waited longest since it was taken care of. So one with
 * thousands of texts does not keep others waiting until it has them all. */
static void score_next(driver *d)
{
    job *found = NULL;
    for (job *j = d->jobs; j && !scorer_is_busy(d->scorer); j = j->next)
        if (j->unread.first && (!found || j->turn < found->turn))
            found = j;
    if (!found)
        return;
    found->turn = d->turns++;
    scorer_begin(d->scorer, choice_list_take(&found->unread));
}

/* Takes what came, in order. */
static void take_jobs(driver *d, bool waits)
{
    letter *next;
    for (letter *l = mailbox_take(&d->box, waits); l; l = next) {
        job *j = (job *)l;
        next = l->next;
        link_job(d, j);
        j->left = j->choice_count;
        j->turn = d->turns++;
        for (size_t i = 0; i < j->choice_count; i++)
            choice_list_add(job_is_scored(j) ? &j->unread : &j->waiting, &j->choices[i]);
    }
}

/* ------------------------------------------------------------------ clients go */

static void look_at_some(job **jobs, struct pollfd *sockets, nfds_t count)
{
    if (poll(sockets, count, 0) <= 0)
        return;
    for (nfds_t i = 0; i < count; i++)
        if (sockets[i].revents)
            atomic_store(&jobs[i]->cancelled, true);
}

/* Asks whether clients have closed their side. While a connection only waits, nobody else listens to its socket. */
static void look_for_clients(driver *d)
{
    struct pollfd sockets[LOOK_SOCKETS];
    job *jobs[LOOK_SOCKETS];
    nfds_t count = 0;
    for (job *j = d->jobs; j; j = j->next) {
        int socket = atomic_load(&j->socket);
        if (socket < 0)
            continue;
        jobs[count] = j;
        sockets[count++] = (struct pollfd){.fd = socket, .events = POLLRDHUP};
        if (count == LOOK_SOCKETS) {
            look_at_some(jobs, sockets, count);
            count = 0;
        }
    }
    look_at_some(jobs, sockets, count);
}

/* Lets streams that wait say so, for clients and proxies that give up what is silent for long. */
static void beat(driver *d, double now)
{
    for (job *j = d->jobs; d->options.beat > 0 && j; j = j->next) {
        if (!j->streams || now - (j->beat > 0 ? j->beat : j->arrived) < d->options.beat)
            continue;
        event *e = event_new(EVENT_BEAT, 0, -1, (span){0}, 0);
        j->beat = now;
        if (e)
            (void)outbox_put(&j->outbox, e);
    }
}

/* Ends the choices of a job: those that wait now, which may be the end of the job; those with a place in the scheduler's next
 * step; that of the scorer in its next one. */
static void cancel_job(driver *d, job *j)
{
    for (size_t i = 0; j->running > 0 && i < j->choice_count; i++)
        if (j->choices[i].request)
            hearth_scheduler_cancel(d->scheduler, j->choices[i].request);
    for (size_t all = j->left; all > 0 && (j->waiting.first || j->unread.first); all--) {
        job_choice *c = choice_list_take(j->waiting.first ? &j->waiting : &j->unread);
        c->ending.stop = HEARTH_STOP_CANCELLED;
        end_choice(d, c);
    }
}

static void cancel_jobs(driver *d)
{
    for (job *j = d->jobs, *next; j; j = next) {
        next = j->next;
        if (atomic_load(&j->cancelled))
            cancel_job(d, j);
    }
}

/* ------------------------------------------------------------------ what others ask */

size_t driver_list(driver *d, driver_answer *out, size_t most, size_t *running, size_t *waiting)
{
    pthread_mutex_lock(&d->lock);
    size_t count = d->listed_count < most ? d->listed_count : most;
    memcpy(out, d->listed, count * sizeof *out);
    size_t all = mailbox_weight(&d->box);
    *running = d->running < all ? d->running : all;
    *waiting = all - *running;
    pthread_mutex_unlock(&d->lock);
    return count;
}

bool driver_is_well(driver *d, hearth_error *error)
{
    pthread_mutex_lock(&d->lock);
    *error = d->lost;
    pthread_mutex_unlock(&d->lock);
    return error->status == HEARTH_OK;
}

/* Says that nothing can be computed any more. */
static void lose(driver *d, const char *text)
{
    pthread_mutex_lock(&d->lock);
    bool first = d->lost.status == HEARTH_OK;
    if (first)
        (void)fail(&d->lost, HEARTH_DEVICE, "%s", text);
    pthread_mutex_unlock(&d->lock);
    mailbox_close(&d->box);
    if (first)
        d->options.on_lost(d->options.user);
}

/* ------------------------------------------------------------------ the loop */

static void score_part(driver *d)
{
    job_choice *c;
    scorer_result result = scorer_step(d->scorer, &c);
    if (result == SCORER_SCORED)
        choice_list_add(&c->job->waiting, c);
    if (result != SCORER_ENDED)
        return;
    if (c->ending.status == HEARTH_DEVICE)
        lose(d, c->ending.error);
    if (c->ending.answer_tokens > 0)
        count_token(d, c);
    end_choice(d, c);
}

static void step(driver *d)
{
    hearth_error error = {0};
    if (clock_seconds() - d->looked >= LOOK_SECONDS) {
        look_for_clients(d);
        d->looked = clock_seconds();
        beat(d, d->looked);
    }
    cancel_jobs(d);
    schedule_some(d);
    score_next(d);
    if (d->scheduled == 0 && !scorer_is_busy(d->scorer))
        return;
    if (d->options.computing)
        ticket_lock_take(d->options.computing);
    if (d->scheduled > 0 && hearth_scheduler_step(d->scheduler, NULL, &error) == HEARTH_DEVICE)
        lose(d, error.text);
    if (scorer_is_busy(d->scorer))
        score_part(d);
    if (d->options.computing)
        ticket_lock_release(d->options.computing);
}

/* Ends all jobs, also those that nobody has taken from the box yet. */
static void end_jobs(driver *d)
{
    mailbox_close(&d->box);
    hearth_scheduler_destroy(d->scheduler); /* calls nobody back */
    d->scheduler = NULL;
    for (letter *l = mailbox_take(&d->box, false), *next; l; l = next) {
        next = l->next;
        link_job(d, (job *)l);
        ((job *)l)->left = ((job *)l)->choice_count;
    }
    for (job *j = d->jobs, *next; j; j = next) {
        next = j->next;
        for (size_t i = 0, left = j->left; left > 0; i++) {
            job_choice *c = &j->choices[i];
            if (c->ended)
                continue;
            choice_fail(c, HEARTH_CANCELLED, "shutting_down", "the server is shutting down");
            left--;
            end_choice(d, c);
        }
    }
}

static void *work(void *user)
{
    driver *d = user;
    while (!atomic_load(&d->stops)) {
        bool is_idle = !d->jobs;
        if (is_idle)
            publish(d, true);
        if (is_idle || clock_seconds() - d->hot_published >= HOT_SECONDS)
            publish_hot_set(d);
        take_jobs(d, is_idle);
        step(d);
        publish(d, false);
        hearth_error error;
        if (!driver_is_well(d, &error))
            break;
    }
    end_jobs(d);
    atomic_store(&d->has_ended, true);
    return NULL;
}

/* ------------------------------------------------------------------ life */

/* Returns the sequences of the session. */
static uint32_t sequences(const driver *d)
{
    return d->options.session.sequences + (uint32_t)d->options.session.spare_sequences;
}

/* Sets the metrics of memory, which stay. */
static hearth_status note_memory(const driver *d, const hearth_engine *engine, hearth_error *error)
{
    hearth_memory m;
    TRY(hearth_session_memory(engine, &d->options.session, &m, error));
    metrics_set(d->options.metrics, METRIC_MAIN_MEMORY, m.weight_bytes + m.own_bytes + m.kv_bytes + m.scratch_bytes);
    metrics_set(d->options.metrics, METRIC_DEVICE_MEMORY, m.device_bytes);
    return HEARTH_OK;
}

hearth_status driver_create(driver **out, const hearth_engine *engine, const driver_options *options,
                            hearth_error *error)
{
    driver *d = mem_new(sizeof *d);
    hearth_model_info info;
    hearth_scheduler_options scheduler = {.prompt_rows = options->prompt_rows};
    hearth_status status;
    if (!d)
        return fail_memory(error, "driver", sizeof *d);
    hearth_model_describe(hearth_engine_model(engine), &info);
    d->options = *options;
    d->engine = engine;
    d->vocabulary = info.vocabulary_size;
    pthread_mutex_init(&d->lock, NULL);
    mailbox_init(&d->box, (size_t)options->session.sequences + options->queue);
    TRY_OR(failed, status, hearth_session_create(&d->session, engine, &options->session, error));
    if (options->folder)
        TRY_OR(failed, status, saved_load(d->session, sequences(d), options->folder, options->name, &d->saved, error));
    TRY_OR(failed, status, hearth_scheduler_create(&d->scheduler, d->session, &scheduler, error));
    d->options.session.context = hearth_session_context(d->session);
    TRY_OR(failed, status, note_memory(d, engine, error));
    TRY_OR(failed, status, scorer_create(&d->scorer, engine, &d->options.session, options->pooling, error));
    d->live = live_create(engine, options->predicted);
    if (!d->live) {
        status = fail_memory(error, "driver", info.layer_count);
        goto failed;
    }
    d->has_thread = thread_start(&d->thread, work, d);
    if (!d->has_thread) {
        status = fail(error, HEARTH_NO_MEMORY, "serve: the system cannot create a thread");
        goto failed;
    }
    *out = d;
    return HEARTH_OK;
failed:
    driver_destroy(d);
    return status;
}

void driver_ask_stop(driver *d)
{
    atomic_store(&d->stops, true);
    mailbox_close(&d->box);
    hearth_session_cancel(d->session);
    scorer_cancel(d->scorer);
}

void driver_stop(driver *d)
{
    const struct timespec moment = {.tv_nsec = 10000000};
    if (!d->has_thread)
        return;
    while (!atomic_load(&d->has_ended)) { /* a cancel that comes between two steps has no effect */
        driver_ask_stop(d);
        nanosleep(&moment, NULL);
    }
    pthread_join(d->thread, NULL);
    d->has_thread = false;
}

hearth_status driver_save(driver *d, hearth_error *error)
{
    driver_stop(d);
    if (!d->options.folder || d->lost.status != HEARTH_OK)
        return HEARTH_OK;
    return saved_store(d->session, sequences(d), d->options.folder, d->options.name, error);
}

void driver_destroy(driver *d)
{
    if (!d)
        return;
    driver_stop(d);
    hearth_scheduler_destroy(d->scheduler);
    scorer_destroy(d->scorer);
    live_destroy(d->live);
    hearth_session_destroy(d->session);
    mailbox_destroy(&d->box);
    pthread_mutex_destroy(&d->lock);
    mem_free(d);
}

/* ------------------------------------------------------------------ jobs come */

mailbox_result driver_send(driver *d, job *j)
{
    j->driver = d;
    if (!j->streams) /* it is not the client that takes events of whole answers, whose memory is bounded otherwise */
        j->outbox.most_bytes = SIZE_MAX;
    job_share(j);
    mailbox_result result = mailbox_put(&d->box, &j->letter, job_places(j, j->choice_count));
    if (result != MAILBOX_TAKEN)
        job_release(j);
    return result;
}

void driver_cancel(driver *d, job *j)
{
    atomic_store(&j->cancelled, true);
    mailbox_poke(&d->box);
}

size_t driver_room(const driver *d)
{
    return d->box.most;
}

const saved_found *driver_saved(const driver *d)
{
    return &d->saved;
}

uint32_t driver_context(const driver *d)
{
    return d->options.session.context;
}

json_t *driver_live(driver *d)
{
    return live_json(d->live);
}
