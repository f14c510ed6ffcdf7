/* scheduler.c - hearth_scheduler: many requests at once, each in a sequence of one session (continuous batching; Yu et al.,
 * Orca, OSDI '22; prompts in parts beside answers: Agrawal et al., Sarathi, arXiv 2308.16369).
 *
 * A sequence is a place. A step gives free places to requests that wait, joins the rows that all running ones want to read,
 * feeds them together, and lets each make of its logits what it will. Where a step fails for a reason that may lie in one
 * request, its requests take their step one after the other, so that only that one ends.
 *
 * A place keeps the tokens of its last request. A new one begins where the longest match ends, in that place or in a copy
 * of it. It begins only when the cache has room for all that it and the running ones may come to read, so that none has to
 * stop for another; free places are emptied for it, the least recently used first. */
#include "answer.h"
#include "request.h"
#include "sampler.h"
#include "state.h"

#include "../base/clock.h"
#include "../base/memory.h"
#include "../base/sized.h"

#include <string.h>

/* Tokens of prompts in a step where the options do not say: as many as a CPU needs to read them nearly as fast as it can. */
#define DEFAULT_PROMPT_ROWS 64
#define DEFAULT_WAITING     256
#define MOST_OPTION         65536
/* Matches of fewer tokens are not worth a copy of a sequence. */
#define LEAST_KEPT 8

/* A request on its way through the scheduler. */
typedef struct job {
    struct job *next; /* that waits */
    uint64_t id;
    request request;
    int32_t *prompt; /* its own copy */
    uint32_t most;   /* positions that it may come to take */
    bool cancelled;
    size_t reused;                 /* tokens of the prompt that its place had read already */
    size_t rows;                   /* in the present step                                  */
    double added, begun, answered; /* times: came, got a place, chose its first token      */
    bool (*on_token)(void *user, const hearth_token *token);
    void (*on_end)(void *user, const hearth_outcome *outcome);
    void *user;
} job;

/* The part of a job in a step. */
typedef struct turn {
    uint32_t place;
    uint32_t length;     /* of its sequence before the step */
    size_t first, count; /* its rows */
    size_t outputs;      /* of these */
} turn;

/* A sequence. */
typedef struct place {
    job *job;      /* NULL: free */
    uint64_t used; /* the step in which its last job ended */
} place;

struct hearth_scheduler {
    hearth_session *session;
    uint32_t prompt_rows, idle_prompt_rows; /* the latter while no answer waits for the step */
    uint32_t most_waiting;
    bool forget;
    uint32_t place_count, most_running;
    place *places;      /* [place_count]  of which most_running have a job at most */
    turn *turns;        /* [place_count] of the present step */
    hearth_row *rows;   /* [most_running * (1 + DRAFT_MOST) + the more of both prompt_rows] */
    float *logits;      /* [output_rows][vocabulary_size] */
    job *first, **last; /* that wait */
    uint64_t last_id;
    uint64_t ended;   /* jobs that had a place                                      */
    uint64_t refused; /* the job for which there was no room in the cache, ...      */
    uint64_t tried;   /* ... when so many had ended: before the next it is not tried again */
    step_times times; /* of steps without prompts */
    hearth_load load;
};

/* ------------------------------------------------------------------ life */

static void free_job(job *j)
{
    request_free(&j->request);
    mem_free(j->prompt);
    mem_free(j);
}

/* Chooses how many tokens of prompts are in a step. A device needs more than a CPU to be as fast as it can, most of all where
 * weights are streamed for every step. */
static void choose_prompt_rows(hearth_scheduler *s, uint32_t asked)
{
    s->prompt_rows = s->idle_prompt_rows = asked ? asked : DEFAULT_PROMPT_ROWS;
    if (!asked && s->session->engine->device_layers > 0 && s->session->batch > DEFAULT_PROMPT_ROWS)
        s->idle_prompt_rows = s->session->batch;
}

hearth_status hearth_scheduler_create_sized(hearth_scheduler **out, hearth_session *session,
                                            const hearth_scheduler_options *options, size_t options_size,
                                            hearth_error *error)
{
    hearth_scheduler_options own;
    TRY(sized_read(&own, sizeof own, options, options_size, "hearth_scheduler_options", error));
    if (own.prompt_rows > MOST_OPTION || own.waiting > MOST_OPTION)
        return fail(error, HEARTH_INVALID, "scheduler: %u prompt rows, %u waiting requests: at most %u of each",
                    own.prompt_rows, own.waiting, MOST_OPTION);
    uint32_t most_running = session->sequences - session->spare;
    if (session->output_rows < most_running)
        return fail(error, HEARTH_INVALID, "scheduler: the session has %u output rows, fewer than its %u sequences",
                    session->output_rows, most_running);
    hearth_scheduler *s = mem_new(sizeof *s);
    if (!s)
        return fail_memory(error, "scheduler", sizeof *s);
    s->session = session;
    choose_prompt_rows(s, own.prompt_rows);
    s->most_waiting = own.waiting ? own.waiting : DEFAULT_WAITING;
    s->forget = own.forget;
    s->place_count = session->sequences;
    s->most_running = most_running;
    s->last = &s->first;
    size_t rows = (size_t)s->most_running * (1 + DRAFT_MOST) + s->idle_prompt_rows;
    s->places = mem_new_array(s->place_count, sizeof *s->places);
    s->turns = mem_new_array(s->place_count, sizeof *s->turns);
    s->rows = mem_new_array(rows, sizeof *s->rows);
    s->logits = mem_new_array(session->output_rows, session->engine->model->hyper.vocabulary_size * sizeof *s->logits);
    if (!s->places || !s->turns || !s->rows || !s->logits) {
        hearth_scheduler_destroy(s);
        return fail(error, HEARTH_NO_MEMORY, "scheduler: no memory for %u sequences", session->sequences);
    }
    *out = s;
    return HEARTH_OK;
}

void hearth_scheduler_destroy(hearth_scheduler *scheduler)
{
    hearth_scheduler *s = scheduler;
    if (!s)
        return;
    for (job *j = s->first, *next; j; j = next) {
        next = j->next;
        free_job(j);
    }
    for (uint32_t i = 0; s->places && i < s->place_count; i++)
        if (s->places[i].job)
            free_job(s->places[i].job);
    mem_free(s->places);
    mem_free(s->turns);
    mem_free(s->rows);
    mem_free(s->logits);
    mem_free(s);
}

void hearth_scheduler_load_sized(const hearth_scheduler *scheduler, hearth_load *out, size_t out_size)
{
    sized_write(out, out_size, &scheduler->load, sizeof scheduler->load);
}

/* ------------------------------------------------------------------ requests come */

/* Returns the positions that a sequence can have if no other one has any. */
static uint32_t most_positions(const hearth_scheduler *s)
{
    const kv_pages *p = &s->session->pages;
    uint64_t all = kv_pages_positions(p, p->count);
    return all < s->session->context ? (uint32_t)all : s->session->context;
}

static hearth_status check_request(const hearth_scheduler *s, const hearth_request *r, hearth_error *error)
{
    uint32_t vocabulary = s->session->engine->model->hyper.vocabulary_size, most = most_positions(s);
    if (r->prompt_count == 0)
        return fail(error, HEARTH_INVALID, "request: its prompt is empty, there is nothing to continue");
    for (size_t i = 0; i < r->prompt_count; i++)
        if (r->prompt[i] < 0 || (uint32_t)r->prompt[i] >= vocabulary)
            return fail(error, HEARTH_INVALID, "request: token %d is not one of the vocabulary's %u", r->prompt[i],
                        vocabulary);
    if (r->answer && answer_draft(r->answer))
        return fail(error, HEARTH_UNSUPPORTED,
                    "request: its answer has a draft model; requests guess from their text alone");
    if (!r->sampler || !r->answer)
        return fail(error, HEARTH_INVALID, "request: has no %s", r->sampler ? "answer" : "sampler");
    if (r->prompt_count > most)
        return fail(error, HEARTH_FULL, "request: its prompt has %zu tokens, the %s only %u", r->prompt_count,
                    most == s->session->context ? "context" : "cache", most);
    if (s->load.waiting >= s->most_waiting)
        return fail(error, HEARTH_FULL, "scheduler: %zu requests wait already", s->load.waiting);
    return HEARTH_OK;
}

/* Returns how many positions a request may come to take: those of its prompt, its answer and guesses behind that. */
static uint32_t positions_of(const hearth_scheduler *s, const hearth_request *r)
{
    uint32_t most = most_positions(s), answer = answer_max_tokens(r->answer);
    uint64_t all = r->prompt_count + (uint64_t)answer + DRAFT_MOST;
    return answer > 0 && all < most ? (uint32_t)all : most;
}

/* Tells the caller of a job about a token. */
static bool tell(void *user, int32_t token, span text, const float *logits)
{
    job *j = user;
    hearth_token told = {j->id, token, text.data, text.size, logits};
    return !j->on_token || j->on_token(j->user, &told);
}

hearth_status hearth_scheduler_add_sized(hearth_scheduler *scheduler, const hearth_request *given, size_t request_size,
                                         uint64_t *id, hearth_error *error)
{
    hearth_scheduler *s = scheduler;
    hearth_request r;
    TRY(sized_read(&r, sizeof r, given, request_size, "hearth_request", error));
    TRY(check_request(s, &r, error));
    job *j = mem_new(sizeof *j);
    int32_t *prompt = mem_new_array(r.prompt_count, sizeof *prompt);
    if (!j || !prompt) {
        mem_free(j);
        mem_free(prompt);
        return fail_memory(error, "request", sizeof *j + r.prompt_count * sizeof *prompt);
    }
    memcpy(prompt, r.prompt, r.prompt_count * sizeof *prompt);
    *j = (job){.prompt = prompt,
               .most = positions_of(s, &r),
               .request = {.session = s->session,
                           .sampler = r.sampler,
                           .answer = r.answer,
                           .show = tell,
                           .user = j,
                           .prompt = prompt,
                           .prompt_count = r.prompt_count},
               .added = clock_seconds(),
               .on_token = r.on_token,
               .on_end = r.on_end,
               .user = r.user};
    hearth_status status = request_begin(&j->request, error);
    if (status != HEARTH_OK) {
        free_job(j);
        return status;
    }
    j->id = ++s->last_id;
    *s->last = j;
    s->last = &j->next;
    s->load.waiting++;
    if (id)
        *id = j->id;
    return HEARTH_OK;
}

void hearth_scheduler_cancel(hearth_scheduler *scheduler, uint64_t id)
{
    for (uint32_t i = 0; i < scheduler->place_count; i++) {
        job *j = scheduler->places[i].job;
        if (j && j->id == id)
            j->cancelled = true;
    }
    for (job *j = scheduler->first; j; j = j->next)
        if (j->id == id)
            j->cancelled = true;
}

/* Removes the job that has waited longest from the queue; there is one. */
static job *take_first(hearth_scheduler *s)
{
    job *j = s->first;
    s->first = j->next;
    s->last = s->first ? s->last : &s->first;
    s->load.waiting--;
    return j;
}

/* ------------------------------------------------------------------ requests end */

/* Tells the caller that a job has ended, and frees it; it has no place any more. */
static void end_job(job *j, hearth_status status, const char *text)
{
    const request *r = &j->request;
    double now = clock_seconds(), begun = j->begun > 0 ? j->begun : now, answered = j->answered > 0 ? j->answered : now;
    hearth_outcome outcome = {.request = j->id,
                              .status = status,
                              .error = text,
                              .stop = r->stop,
                              .prompt_tokens = r->prompt_count,
                              .reused_tokens = j->reused,
                              .answer_tokens = r->answer_tokens,
                              .draft_tokens = r->drafted,
                              .accepted_tokens = r->accepted,
                              .waited_seconds = begun - j->added,
                              .prompt_seconds = answered - begun,
                              .answer_seconds = now - answered};
    if (j->on_end)
        j->on_end(j->user, &outcome);
    free_job(j);
}

/* Ends the job of a place with what stopped it; a status other than HEARTH_OK is an error. */
static void leave(hearth_scheduler *s, place *p, hearth_stop stop, hearth_status status, const char *text)
{
    job *j = p->job;
    p->job = NULL;
    p->used = s->load.steps;
    s->load.running--;
    s->ended++;
    request_end(&j->request, stop);
    if (s->forget || status != HEARTH_OK)
        (void)hearth_session_truncate(s->session, j->request.sequence, 0, NULL);
    end_job(j, status, text);
}

/* Ends the jobs that were cancelled. */
static void end_cancelled(hearth_scheduler *s)
{
    for (uint32_t i = 0; i < s->place_count; i++)
        if (s->places[i].job && s->places[i].job->cancelled)
            leave(s, &s->places[i], HEARTH_STOP_CANCELLED, HEARTH_OK, "");
    job *ended = NULL;
    for (job **at = &s->first; *at;) {
        job *j = *at;
        if (!j->cancelled) {
            at = &j->next;
            continue;
        }
        *at = j->next;
        j->next = ended;
        ended = j;
        s->load.waiting--;
    }
    for (s->last = &s->first; *s->last;)
        s->last = &(*s->last)->next;
    for (job *next; ended; ended = next) { /* its callback may add jobs */
        next = ended->next;
        ended->request.stop = HEARTH_STOP_CANCELLED;
        end_job(ended, HEARTH_OK, "");
    }
}

/* ------------------------------------------------------------------ requests get places */

/* Returns how many tokens a sequence has read in common with a prompt; the last token of the prompt is to be read in any
 * case, as its logits are wanted. */
static uint32_t common_length(const hearth_session *session, uint32_t sequence, const request *r)
{
    const int32_t *tokens = session_tokens(session, sequence);
    uint32_t length = hearth_session_length(session, sequence), n = 0;
    length = length < r->prompt_count - 1 ? length : (uint32_t)(r->prompt_count - 1);
    while (n < length && tokens[n] == r->prompt[n])
        n++;
    return hearth_session_reach(session, sequence, n);
}

/* Returns when a place was last used; 0: it is empty. */
static uint64_t last_use(const hearth_scheduler *s, uint32_t at)
{
    return hearth_session_length(s->session, at) > 0 ? s->places[at].used + 1 : 0;
}

/* Returns the free place that was used least recently, but not place `but`, whose last use is at least `least`;
 * place_count: there is none. */
static uint32_t oldest_place(const hearth_scheduler *s, uint32_t but, uint64_t least)
{
    uint32_t best = s->place_count;
    for (uint32_t i = 0; i < s->place_count; i++)
        if (!s->places[i].job && i != but && last_use(s, i) >= least &&
            (best == s->place_count || last_use(s, i) < last_use(s, best)))
            best = i;
    return best;
}

/* Readies a place for a job: cuts a place that keeps the beginning of its prompt, or a copy of such a place, to that. A
 * place is not taken by a prompt that has less than half of its tokens, but copied, if there is another one. */
static uint32_t ready_place(hearth_scheduler *s, job *j)
{
    uint32_t most = 0, source = s->place_count, to = oldest_place(s, s->place_count, 0);
    for (uint32_t i = 0; !s->forget && i < s->place_count; i++) {
        uint32_t n = common_length(s->session, i, &j->request);
        if (n > most) {
            most = n;
            source = i;
        }
    }
    if (most < LEAST_KEPT)
        most = 0;
    else if (!s->places[source].job && most >= hearth_session_length(s->session, source) / 2)
        to = source;
    else if (source != to && session_fork_at(s->session, source, to, most, NULL) != HEARTH_OK)
        most = 0;
    if (hearth_session_truncate(s->session, to, most, NULL) != HEARTH_OK) {
        most = 0;
        (void)hearth_session_truncate(s->session, to, 0, NULL);
    }
    j->reused = most;
    return to;
}

/* Returns the free pages that the running jobs may come to take. */
static uint64_t promised_pages(const hearth_scheduler *s)
{
    uint64_t pages = 0;
    for (uint32_t i = 0; i < s->place_count; i++)
        if (s->places[i].job)
            pages +=
                kv_pages_to_come(&s->session->pages, i, hearth_session_length(s->session, i), s->places[i].job->most);
    return pages;
}

/* Empties a free place, which always can be. */
static void give_up(hearth_scheduler *s, uint32_t at)
{
    (void)hearth_session_truncate(s->session, at, 0, NULL);
}

/* Returns whether the cache has room for all that a job may read in a free place, beside the running ones. Empties others as
 * long as it has not; and that one, too, where it would take from the running ones by sharing their pages. */
static bool make_room(hearth_scheduler *s, const job *j, uint32_t at)
{
    const kv_pages *p = &s->session->pages;
    uint32_t length = hearth_session_length(s->session, at), oldest;
    while (promised_pages(s) + kv_pages_to_come(p, at, length, j->most) > p->free_count) {
        oldest = oldest_place(s, at, 1);
        if (oldest == s->place_count) {
            if (promised_pages(s) > p->free_count)
                give_up(s, at);
            return false;
        }
        give_up(s, oldest);
    }
    return true;
}

/* Gives free places to jobs that wait, in the order in which they came. One for which there is no room waits, and so do
 * those behind it. */
static void admit(hearth_scheduler *s)
{
    while (s->first && s->load.running < s->most_running) {
        job *j = s->first;
        if (s->refused == j->id && s->tried == s->ended)
            return;
        uint32_t at = ready_place(s, j);
        if (!make_room(s, j, at)) {
            s->refused = j->id;
            s->tried = s->ended;
            return;
        }
        (void)take_first(s);
        s->load.running++;
        s->places[at].job = j;
        j->begun = clock_seconds();
        j->request.sequence = at;
        j->request.prompt_read = j->reused;
        s->load.reused_tokens += j->reused;
        for (size_t i = 0; i < j->reused; i++)
            hearth_sampler_accept(j->request.sampler, j->prompt[i]);
    }
}

/* ------------------------------------------------------------------ a step */

static size_t prompt_left(const job *j)
{
    return j->request.prompt_count - j->request.prompt_read;
}

/* Returns how much of its prompt a job can read in a step. With recurrent layers no further than to the end of a page: there,
 * where steps end, their states are kept, and a prompt that begins as far alike finds them. */
static size_t prompt_part(const hearth_scheduler *s, const job *j)
{
    recurrent_states *each[RECURRENT_SIDES];
    size_t left = prompt_left(j), page = KV_PAGE - j->request.prompt_read % KV_PAGE;
    return left > page && session_recurrents(s->session, each) > 0 ? page : left;
}

/* Finds the running job that reads its prompt and comes first by `before`; NULL: none reads. */
static job *find_reader(const hearth_scheduler *s, bool (*before)(const job *a, const job *b))
{
    job *found = NULL;
    for (uint32_t i = 0; i < s->place_count; i++) {
        job *j = s->places[i].job;
        if (j && !request_answers(&j->request) && j->rows < prompt_part(s, j) && (!found || before(j, found)))
            found = j;
    }
    return found;
}

static bool is_older(const job *a, const job *b)
{
    return a->id < b->id;
}

static bool is_shorter(const job *a, const job *b)
{
    size_t left_a = prompt_left(a) - a->rows, left_b = prompt_left(b) - b->rows;
    return left_a < left_b || (left_a == left_b && a->id < b->id);
}

/* Shares out the rows that prompts may have: half of them to the prompt that has the fewest tokens left, so that short ones
 * do not wait behind long ones, the rest to those that came first, so that every long one gets on. */
static void share_prompt_rows(hearth_scheduler *s, size_t left)
{
    size_t half = left / 2;
    for (job *j; left > 0 && (j = find_reader(s, left > half ? is_shorter : is_older));) {
        size_t most = left > half ? left - half : left, wanted = prompt_part(s, j) - j->rows;
        size_t n = wanted < most ? wanted : most;
        j->rows += n;
        left -= n;
    }
}

/* The rows of a step. */
typedef struct step {
    size_t turns;       /* in s->turns                        */
    size_t rows;        /* in s->rows, those of answers first */
    size_t prompt_rows; /* of these                           */
    size_t outputs;
} step;

/* Adds what a job reads next, at most `most` rows, to a step. */
static void add_rows(hearth_scheduler *s, step *to, uint32_t at, size_t most)
{
    job *j = s->places[at].job;
    (void)request_guess(&j->request, most, &s->times, to->rows, NULL); /* from the text: it cannot fail */
    j->rows = request_rows(&j->request, most, s->rows + to->rows);
    turn t = {.place = at,
              .length = hearth_session_length(s->session, at),
              .first = to->rows,
              .count = j->rows,
              .outputs = request_answers(&j->request) ? j->rows : j->rows == prompt_left(j)};
    s->turns[to->turns++] = t;
    to->rows += t.count;
    to->outputs += t.outputs;
}

/* Collects the rows of all running jobs. Each may need one of the session's output rows; what remains is for guesses. */
static step collect_rows(hearth_scheduler *s)
{
    step to = {0};
    size_t others = s->load.running;
    for (uint32_t i = 0; i < s->place_count; i++)
        if (s->places[i].job) {
            s->places[i].job->rows = 0;
            if (request_answers(&s->places[i].job->request))
                add_rows(s, &to, i, s->session->output_rows - to.outputs - --others);
        }
    share_prompt_rows(s, to.rows > 0 ? s->prompt_rows : s->idle_prompt_rows);
    size_t answers = to.rows;
    for (uint32_t i = 0; i < s->place_count; i++)
        if (s->places[i].job && !request_answers(&s->places[i].job->request) && s->places[i].job->rows > 0)
            add_rows(s, &to, i, s->places[i].job->rows);
    to.prompt_rows = to.rows - answers;
    return to;
}

/* Lets a job make what it will of its logits, and ends it if it is done. */
static void take(hearth_scheduler *s, place *p, const float *logits)
{
    job *j = p->job;
    request *r = &j->request;
    hearth_error error = {0};
    bool answered = request_answers(r);
    size_t before = r->answer_tokens;
    s->load.rows += j->rows;
    s->load.prompt_tokens += answered ? 0 : j->rows;
    hearth_status status = request_take(r, j->rows, logits, &error);
    s->load.answer_tokens += r->answer_tokens - before;
    if (!answered && request_answers(r))
        j->answered = clock_seconds();
    if (status != HEARTH_OK)
        leave(s, p, HEARTH_STOP_NONE, status, error.text);
    else if (r->stop != HEARTH_STOP_NONE)
        leave(s, p, r->stop, HEARTH_OK, "");
}

/* Feeds rows and reads the logits of the outputs among them. */
static hearth_status feed(hearth_scheduler *s, const hearth_row *rows, size_t count, hearth_error *error)
{
    TRY(session_feed(s->session, rows, count, error));
    return hearth_session_logits(s->session, 0, hearth_session_output_count(s->session), s->logits, error);
}

/* Takes back the rows of a step that was not taken to its end. */
static void take_back(hearth_scheduler *s, const turn *t)
{
    hearth_error error = {0};
    hearth_status status = hearth_session_truncate(s->session, t->place, t->length, &error);
    if (status != HEARTH_OK)
        leave(s, &s->places[t->place], HEARTH_STOP_NONE, status, error.text);
}

/* Ends all jobs with an error, but those that their callbacks add. */
static void end_all(hearth_scheduler *s, hearth_status status, const char *text)
{
    uint64_t newest = s->last_id;
    for (uint32_t i = 0; i < s->place_count; i++)
        if (s->places[i].job)
            leave(s, &s->places[i], HEARTH_STOP_NONE, status, text);
    while (s->first && s->first->id <= newest)
        end_job(take_first(s), status, text);
}

/* Returns whether a failure may be the matter of one sequence. */
static bool concerns_one(hearth_status status)
{
    return status != HEARTH_DEVICE && status != HEARTH_CANCELLED;
}

/* Takes the turns of a step one after the other; a job that fails ends. */
static hearth_status step_one_by_one(hearth_scheduler *s, const step *now, hearth_error *error)
{
    for (const turn *t = s->turns; t < s->turns + now->turns; t++) {
        place *p = &s->places[t->place];
        hearth_error own = {0};
        if (!p->job) /* it could not be taken back */
            continue;
        hearth_status status = feed(s, s->rows + t->first, t->count, &own);
        if (status == HEARTH_OK)
            take(s, p, s->logits);
        else if (concerns_one(status))
            leave(s, p, HEARTH_STOP_NONE, status, own.text);
        else
            return fail(error, status, "%s", own.text);
    }
    return HEARTH_OK;
}

/* Takes the step of all jobs together; where that fails none of them takes it. */
static hearth_status step_together(hearth_scheduler *s, const step *now, hearth_error *error)
{
    size_t vocabulary = s->session->engine->model->hyper.vocabulary_size;
    const float *logits = s->logits;
    double start = clock_seconds();
    hearth_status status = feed(s, s->rows, now->rows, error);
    if (status == HEARTH_OK && now->prompt_rows == 0)
        step_times_add(&s->times, now->rows, clock_seconds() - start);
    for (const turn *t = s->turns; t < s->turns + now->turns; t++) {
        if (status != HEARTH_OK)
            take_back(s, t);
        else
            take(s, &s->places[t->place], logits);
        logits += t->outputs * vocabulary;
    }
    return status;
}

hearth_status hearth_scheduler_step(hearth_scheduler *scheduler, size_t *left, hearth_error *error)
{
    hearth_scheduler *s = scheduler;
    hearth_status status = HEARTH_OK;
    session_forget_cancel(s->session);
    end_cancelled(s);
    admit(s);
    step now = collect_rows(s);
    if (now.rows > 0) {
        hearth_error own = {0};
        s->load.steps++;
        status = step_together(s, &now, &own);
        if (status != HEARTH_OK && concerns_one(status))
            status = step_one_by_one(s, &now, &own);
        if (status == HEARTH_DEVICE)
            end_all(s, status, own.text);
        if (status != HEARTH_OK)
            fail(error, status, "%s", own.text);
    }
    if (left)
        *left = s->load.running + s->load.waiting;
    return status;
}
