/* serve_boxes.c - what goes between threads: the mailbox of requests, the outbox of events, and the lock of those that compute. */
#include "../src/base/memory.h"
#include "../src/serve/job.h"
#include "../src/serve/score.h"
#include "../src/serve/ticket_lock.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* ------------------------------------------------------------------ the mailbox */

static void letters_come_in_order(void **state)
{
    (void)state;
    mailbox m;
    letter letters[3] = {0};
    mailbox_init(&m, 10);
    assert_null(mailbox_take(&m, false));
    for (int i = 0; i < 3; i++)
        assert_int_equal(mailbox_put(&m, &letters[i], 1), MAILBOX_TAKEN);
    letter *l = mailbox_take(&m, true);
    for (int i = 0; i < 3; i++, l = l->next)
        assert_ptr_equal(l, &letters[i]);
    assert_null(l);
    assert_null(mailbox_take(&m, false));
    mailbox_destroy(&m);
}

static void letters_weigh(void **state)
{
    (void)state;
    mailbox m;
    letter letters[4] = {0};
    mailbox_init(&m, 10);
    assert_int_equal(mailbox_put(&m, &letters[0], 11), MAILBOX_FULL);
    assert_int_equal(mailbox_put(&m, &letters[0], SIZE_MAX), MAILBOX_FULL);
    assert_int_equal(mailbox_put(&m, &letters[0], 7), MAILBOX_TAKEN);
    assert_int_equal(mailbox_put(&m, &letters[1], 4), MAILBOX_FULL);
    assert_int_equal(mailbox_put(&m, &letters[1], 3), MAILBOX_TAKEN);
    assert_non_null(mailbox_take(&m, false)); /* taken is not done */
    assert_int_equal(mailbox_put(&m, &letters[2], 1), MAILBOX_FULL);
    mailbox_done(&m, 7);
    assert_int_equal(mailbox_weight(&m), 3);
    assert_int_equal(mailbox_put(&m, &letters[2], 7), MAILBOX_TAKEN);
    mailbox_close(&m);
    assert_int_equal(mailbox_put(&m, &letters[3], 0), MAILBOX_CLOSED);
    assert_ptr_equal(mailbox_take(&m, true), &letters[2]);
    assert_null(mailbox_take(&m, true)); /* closed: nobody waits any more */
    mailbox_destroy(&m);
}

static void pokes_are_not_lost(void **state)
{
    (void)state;
    mailbox m;
    mailbox_init(&m, 1);
    mailbox_poke(&m);
    assert_null(mailbox_take(&m, true));
    mailbox_destroy(&m);
}

enum { LETTERS = 20000, SENDERS = 4 };

static void *send_many(void *user)
{
    mailbox *m = user;
    for (int sent = 0; sent < LETTERS;) {
        letter *l = mem_new(sizeof *l);
        assert_non_null(l);
        if (mailbox_put(m, l, 1) == MAILBOX_TAKEN)
            sent++;
        else
            mem_free(l);
    }
    return NULL;
}

static void many_send_to_one(void **state)
{
    (void)state;
    mailbox m;
    pthread_t threads[SENDERS];
    mailbox_init(&m, 64);
    for (int i = 0; i < SENDERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, send_many, &m), 0);
    for (int taken = 0; taken < SENDERS * LETTERS;)
        for (letter *l = mailbox_take(&m, true), *next; l; l = next, taken++) {
            next = l->next;
            mem_free(l);
            mailbox_done(&m, 1);
        }
    for (int i = 0; i < SENDERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(mailbox_weight(&m), 0);
    mailbox_destroy(&m);
}

/* ------------------------------------------------------------------ the outbox */

static event *new_event(int32_t token)
{
    event *e = event_new(EVENT_TOKEN, 0, token, span_of("text"), 2);
    assert_non_null(e);
    return e;
}

static void events_hold_their_own(void **state)
{
    (void)state;
    char text[] = "text";
    event *e = event_new(EVENT_TOKEN, 3, 7, (span){text, 4}, 5);
    memset(text, 'x', sizeof text);
    assert_memory_equal(e->text, "text", 4);
    e->candidates[4] = (candidate){1, 2.0};
    assert_int_equal(e->candidate_count, 5);
    event_free(e);
    e = event_new(EVENT_TOKEN, 0, -1, (span){0}, 0);
    assert_int_equal(e->size, 0);
    event_free(e);
    assert_null(event_new(EVENT_TOKEN, 0, 0, (span){0}, SIZE_MAX / 4));
}

static void a_full_box_stays_full(void **state)
{
    (void)state;
    outbox o;
    bool ended;
    size_t count = 0;
    event end = {.kind = EVENT_END, .is_fixed = true};
    outbox_init(&o, 2000);
    for (int i = 0; outbox_put(&o, new_event(i)); i++)
        assert_true(i < 100);
    event *all = outbox_take(&o, &ended);
    for (const event *e = all; e; e = e->next)
        assert_int_equal(e->token.token, count++);
    assert_true(count > 2 && !ended);
    event_free(all);
    assert_false(outbox_put(&o, new_event(0))); /* also empty: something is missing in between */
    assert_true(outbox_put(&o, &end));
    outbox_close(&o);
    assert_ptr_equal(outbox_take(&o, &ended), &end);
    assert_true(ended);
    assert_false(outbox_put(&o, new_event(0)));
    outbox_destroy(&o);
}

typedef struct sleeper {
    int rests, wakes;
} sleeper;

static void on_rest(void *user)
{
    ((sleeper *)user)->rests++;
}

static void on_wake(void *user)
{
    ((sleeper *)user)->wakes++;
}

static void who_waits_is_woken_once(void **state)
{
    (void)state;
    outbox o;
    bool ended;
    sleeper s = {0};
    const waiter w = {on_rest, on_wake, &s};
    outbox_init(&o, 100000);
    assert_true(outbox_rest(&o, &w, 1));
    assert_true(outbox_put(&o, new_event(1)));
    assert_true(outbox_put(&o, new_event(2)));
    assert_true(s.rests == 1 && s.wakes == 1);
    assert_false(outbox_rest(&o, &w, 1)); /* there is something */
    event_free(outbox_take(&o, &ended));
    assert_true(outbox_rest(&o, &w, 1000)); /* more than an event */
    assert_true(outbox_put(&o, new_event(3)));
    assert_int_equal(s.wakes, 1);
    outbox_close(&o);
    assert_true(s.rests == 2 && s.wakes == 2);
    assert_false(outbox_rest(&o, &w, 1000));
    outbox_destroy(&o);
}

typedef struct meeting {
    outbox box;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool sleeps;
} meeting;

static void fall_asleep(void *user)
{
    meeting *m = user;
    pthread_mutex_lock(&m->lock);
    m->sleeps = true;
    pthread_mutex_unlock(&m->lock);
}

static void wake_up(void *user)
{
    meeting *m = user;
    pthread_mutex_lock(&m->lock);
    assert_true(m->sleeps);
    m->sleeps = false;
    pthread_cond_signal(&m->changed);
    pthread_mutex_unlock(&m->lock);
}

enum { EVENTS = 50000 };

static void *put_many(void *user)
{
    meeting *m = user;
    for (int i = 0; i < EVENTS; i++)
        assert_true(outbox_put(&m->box, new_event(i)));
    outbox_close(&m->box);
    return NULL;
}

static void nothing_is_missed(void **state)
{
    (void)state;
    meeting m = {.sleeps = false};
    const waiter w = {fall_asleep, wake_up, &m};
    pthread_t thread;
    int count = 0;
    outbox_init(&m.box, SIZE_MAX / 2);
    pthread_mutex_init(&m.lock, NULL);
    pthread_cond_init(&m.changed, NULL);
    assert_int_equal(pthread_create(&thread, NULL, put_many, &m), 0);
    for (bool ended = false; !ended;) {
        event *all = outbox_take(&m.box, &ended);
        for (const event *e = all; e; e = e->next)
            assert_int_equal(e->token.token, count++);
        event_free(all);
        if (ended || !outbox_rest(&m.box, &w, 1))
            continue;
        pthread_mutex_lock(&m.lock);
        while (m.sleeps)
            pthread_cond_wait(&m.changed, &m.lock);
        pthread_mutex_unlock(&m.lock);
    }
    assert_int_equal(count, EVENTS);
    pthread_join(thread, NULL);
    outbox_destroy(&m.box);
}

/* ------------------------------------------------------------------ jobs, probabilities */

static void jobs_have_owners(void **state)
{
    (void)state;
    long before = mem_live();
    job *j = job_new(2, 6);
    assert_int_equal(j->choices[5].end.choice, 5);
    job_share(j);
    job_release(j);
    assert_true(outbox_put(&j->outbox, &j->choices[5].end));
    job_release(j);
    job_release(NULL);
    for (long n = 0;; n++) {
        mem_fail_at(n);
        j = job_new(1, 1);
        mem_fail_at(-1);
        job_release(j);
        if (j)
            break;
    }
    assert_int_equal(mem_live(), before);
}

static void probabilities_are_those_of_the_library(void **state)
{
    (void)state;
    float logits[] = {1, 3, -2, 3, 0.5F, (float)NAN};
    candidate c = {.token = 0}, best[4];
    score_token(logits, 6, &c, best, 4);
    assert_true(fabs(c.log_probability - hearth_log_probability(logits, 6, 0)) < 1e-5);
    static const int32_t order[] = {1, 3, 0, 4};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(best[i].token, order[i]);
        assert_true(fabs(best[i].log_probability - hearth_log_probability(logits, 6, order[i])) < 1e-5);
    }
    c.token = 1;
    score_token(logits, 6, &c, best, 1);
    assert_true(c.log_probability == best[0].log_probability);
    c.token = 5;
    score_token(logits, 6, &c, NULL, 0);
    assert_true(isinf(c.log_probability));
}

/* ------------------------------------------------------------------ the lock */

#define LOCK_THREADS 4
#define LOCK_STEPS   2000

typedef struct contest {
    ticket_lock lock;
    int inside;              /* threads that have it                    */
    int order[LOCK_THREADS]; /* of the threads, as they got it          */
    int count;
} contest;

typedef struct contestant {
    contest *contest;
    int number;
} contestant;

static void *get_it_often(void *user)
{
    contest *c = ((contestant *)user)->contest;
    for (int i = 0; i < LOCK_STEPS; i++) {
        ticket_lock_take(&c->lock);
        assert_int_equal(++c->inside, 1);
        c->count++;
        c->inside--;
        ticket_lock_release(&c->lock);
    }
    return NULL;
}

static void one_has_the_lock(void **state)
{
    (void)state;
    contest c = {0};
    contestant each = {&c, 0};
    pthread_t threads[LOCK_THREADS];
    ticket_lock_init(&c.lock);
    for (int i = 0; i < LOCK_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, get_it_often, &each), 0);
    for (int i = 0; i < LOCK_THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(c.count, LOCK_THREADS * LOCK_STEPS);
    ticket_lock_destroy(&c.lock);
}

static void *get_it_once(void *user)
{
    const contestant *own = user;
    contest *c = own->contest;
    ticket_lock_take(&c->lock);
    c->order[c->count++] = own->number;
    ticket_lock_release(&c->lock);
    return NULL;
}

/* Returns how many tickets have been given away. */
static uint64_t asked(ticket_lock *l)
{
    pthread_mutex_lock(&l->lock);
    uint64_t next = l->next;
    pthread_mutex_unlock(&l->lock);
    return next;
}

/* The thread that has the lock and asks again comes behind all that wait. */
static void the_lock_is_fair(void **state)
{
    (void)state;
    contest c = {0};
    contestant each[LOCK_THREADS];
    pthread_t threads[LOCK_THREADS];
    ticket_lock_init(&c.lock);
    ticket_lock_take(&c.lock);
    for (int i = 0; i < LOCK_THREADS; i++) {
        each[i] = (contestant){&c, i};
        assert_int_equal(pthread_create(&threads[i], NULL, get_it_once, &each[i]), 0);
        while (asked(&c.lock) < (uint64_t)i + 2)
            sched_yield();
    }
    ticket_lock_release(&c.lock);
    ticket_lock_take(&c.lock);
    assert_int_equal(c.count, LOCK_THREADS);
    for (int i = 0; i < LOCK_THREADS; i++)
        assert_int_equal(c.order[i], i);
    ticket_lock_release(&c.lock);
    for (int i = 0; i < LOCK_THREADS; i++)
        pthread_join(threads[i], NULL);
    ticket_lock_destroy(&c.lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(letters_come_in_order),   cmocka_unit_test(letters_weigh),
        cmocka_unit_test(pokes_are_not_lost),      cmocka_unit_test(many_send_to_one),
        cmocka_unit_test(events_hold_their_own),   cmocka_unit_test(a_full_box_stays_full),
        cmocka_unit_test(who_waits_is_woken_once), cmocka_unit_test(nothing_is_missed),
        cmocka_unit_test(jobs_have_owners),        cmocka_unit_test(probabilities_are_those_of_the_library),
        cmocka_unit_test(one_has_the_lock),        cmocka_unit_test(the_lock_is_fair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
