/* host.c - the driver for the host: threads that take the place of a GPU. For machines without a GPU, and for tests:
 * programs, slots and copies behave as on any other device, and the speed can be lowered. Independent of what the
 * kernels compute.
 *
 * A thread for each queue executes the commands of a sealed program in order; that of the copy queue is started for the first
 * program that needs it. With more threads, a pool shares the groups of a launch. Every run has a number. A published or
 * answered slot, an event, a failure and the end of a run are signalled by storing that number, so that nothing needs to be
 * reset between two runs. */
#include "driver.h"

#include "../base/clock.h"
#include "../base/pool.h"
#include "../base/text.h"
#include "../base/thread.h"
#include "../base/wait.h"
#include "../kernel/kernel.h"
#include "../kernel/topology.h"
#include "kernels/host_table.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { CACHE_LINE = 64 };

/* How long the idle device thread polls for the next program before it sleeps. Tokens follow each other within
 * microseconds; while hearth waits for a user, the thread should use no CPU time. */
static const double idle_seconds = 50e-6;

/* The longest time that the device thread spins for the CPU's answer before it offers its core to others, about the
 * time of a layer. It is shortened when spinning did not help (wait_learn): with this fixed value, two threads that
 * share a core need 600 us for each exchange. */
static const double most_eager_seconds = 0.5e-3;

/* Buffers up to this size come from malloc, where AddressSanitizer checks their bounds; larger ones use large pages. */
static const size_t small_bytes = 4 << 20;

/* Assumed if the size of main memory is unknown. */
static const uint64_t least_memory_bytes = (uint64_t)1 << 30;

/* The number of the last run that published or answered a slot. Different threads write these, so they are on different
 * cache lines. */
typedef struct host_slot {
    _Alignas(CACHE_LINE) _Atomic uint32_t published;
    _Alignas(CACHE_LINE) _Atomic uint32_t answered;
} host_slot;

typedef struct host_program {
    device_program *recorded;
    host_slot *slots;            /* [slot_count]  */
    _Atomic uint32_t *signalled; /* [event_count] number of the last run that signalled it */
    double *stamps;              /* [stamp_count] */
    uint32_t run;                /* its number; raised by start */
    _Atomic uint32_t failing,
        failed; /* number of the last run that failed; `failing` is set first, by one queue alone */
    _Atomic uint32_t done[DEVICE_QUEUES]; /* number of the last run that ended there                 */
    hearth_error problem;                 /* of the run that failed; written between these two       */
} host_program;

/* A queue and its thread. */
typedef struct host_queue {
    struct host_device *device;
    device_queue which;
    pthread_t thread;
    bool started;
    double eager_seconds;
    _Alignas(CACHE_LINE) _Atomic uint32_t ticket; /* raised for each run; a futex */
    _Atomic bool sleeps;
} host_queue;

typedef struct host_device {
    device base;
    const host_table *kernels;
    pool *pool;         /* of launches, which only the main queue has */
    host_program *next; /* written before the tickets                 */
    _Atomic bool stops; /* likewise                                   */
    host_queue queues[DEVICE_QUEUES];
} host_device;

/* ------------------------------------------------------------------ carrying out a program */

typedef struct launch {
    host_kernel *kernel;
    const device_command *command;
} launch;

/* Runs each item as a group of its own, for the pool. */
static void run_groups(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const launch *l = context;
    for (size_t group = begin; group < end; group++)
        l->kernel(l->command->arguments, (uint32_t)group, (uint32_t)l->command->items);
}

static void do_launch(host_device *h, const device_command *c)
{
    launch l = {h->kernels->run[c->index], c};
    if (pool_threads(h->pool) > 1)
        pool_run(h->pool, c->items, 1, run_groups, &l);
    else
        l.kernel(c->arguments, 0, 1);
}

static bool has_failed(const host_program *p)
{
    return atomic_load_explicit(&p->failed, memory_order_acquire) == p->run;
}

/* Waits until a word has the number of the run: the CPU's answer to a slot, or an event of the other queue. gives_up: returns as
 * well when the run fails, since nobody may signal the event then. Answers are given even then (drain in program.c). */
static void wait_for(host_queue *q, const host_program *p, const _Atomic uint32_t *word, bool gives_up)
{
    double waited = 0;
    waiter w = {0};
    while (atomic_load_explicit(word, memory_order_acquire) != p->run && !(gives_up && has_failed(p)))
        waited = wait_once(&w, q->eager_seconds);
    q->eager_seconds = wait_learn(q->eager_seconds, waited, most_eager_seconds);
}

/* Waits for the additional time that a device with the fraction `speed` of this speed would need for the same work. */
static void linger(double speed, double work_seconds)
{
    double rest = work_seconds * (1 / speed - 1);
    for (waiter w = {0}; wait_once(&w, 0) < rest;)
        ;
}

/* Executes a launch or a copy, and waits afterwards if the speed is lowered. */
static void work(host_device *h, const device_command *c)
{
    double speed = h->base.options.speed;
    double begin = speed > 0 && speed < 1 ? clock_seconds() : 0;
    if (c->kind == COMMAND_LAUNCH)
        do_launch(h, c);
    else
        memcpy((char *)c->to->host + c->to_offset, (const char *)c->from->host + c->from_offset, c->size_bytes);
    if (begin > 0)
        linger(speed, clock_seconds() - begin);
}

static void carry_out(host_queue *q, host_program *p, const device_command *c)
{
    switch (c->kind) {
    case COMMAND_LAUNCH:
    case COMMAND_COPY:
        work(q->device, c);
        break;
    case COMMAND_PUBLISH:
        atomic_store_explicit(&p->slots[c->index].published, p->run, memory_order_release);
        break;
    case COMMAND_AWAIT:
        wait_for(q, p, &p->slots[c->index].answered, false);
        break;
    case COMMAND_SIGNAL:
        atomic_store_explicit(&p->signalled[c->index], p->run, memory_order_release);
        break;
    case COMMAND_WAIT:
        wait_for(q, p, &p->signalled[c->index], true);
        break;
    case COMMAND_STAMP:
        p->stamps[c->index] = clock_seconds();
        break;
    }
}

static const char *command_name(const device_command *c)
{
    static const char *const names[] = {[COMMAND_COPY] = "a copy",
                                        [COMMAND_PUBLISH] = "raising a slot",
                                        [COMMAND_AWAIT] = "waiting for a slot",
                                        [COMMAND_SIGNAL] = "signalling an event",
                                        [COMMAND_WAIT] = "waiting for an event",
                                        [COMMAND_STAMP] = "a stamp"};
    return c->kind == COMMAND_LAUNCH ? device_kernels[c->index].name : names[c->kind];
}

/* Records that a command failed; of two queues that fail the first one says why. */
static void fail_run(host_program *p, const device_command *c)
{
    if (atomic_exchange(&p->failing, p->run) == p->run)
        return;
    device_injected(p->recorded->device, command_name(c), &p->problem);
    atomic_store_explicit(&p->failed, p->run, memory_order_release);
}

/* Runs the commands of a queue; an injected fault skips the rest of them, and those of the other queue. */
static void run_program(host_queue *q, host_program *p)
{
    const device_program *recorded = p->recorded;
    for (size_t i = 0; i < recorded->command_count && !has_failed(p); i++) {
        const device_command *c = &recorded->commands[i];
        if (c->queue != q->which)
            continue;
        if (device_must_fail()) {
            fail_run(p, c);
            break;
        }
        carry_out(q, p, c);
    }
    atomic_store_explicit(&p->done[q->which], p->run, memory_order_release);
}

/* Waits until the ticket differs from `seen` and returns it. The sleeper stores `sleeps` and then reads the ticket; the
 * waker stores the ticket and then reads `sleeps`. So at least one of them sees the other's store. */
static uint32_t wait_for_ticket(host_queue *q, uint32_t seen)
{
    uint32_t ticket;
    waiter w = {0};
    while ((ticket = atomic_load(&q->ticket)) == seen) {
        if (wait_once(&w, 0) < idle_seconds)
            continue;
        atomic_store(&q->sleeps, true);
        if (atomic_load(&q->ticket) == seen)
            futex_wait(&q->ticket, seen);
        atomic_store(&q->sleeps, false);
    }
    return ticket;
}

/* Wakes the thread of a queue, for a new run or to stop. */
static void raise_ticket(host_queue *q)
{
    atomic_fetch_add(&q->ticket, 1);
    if (atomic_load(&q->sleeps))
        futex_wake(&q->ticket, INT_MAX);
}

static void *queue_thread(void *argument)
{
    host_queue *q = argument;
    for (uint32_t seen = 0;;) {
        seen = wait_for_ticket(q, seen);
        if (atomic_load(&q->device->stops))
            return NULL;
        run_program(q, q->device->next);
    }
}

static hearth_status start_queue(host_queue *q, hearth_error *error)
{
    if (!q->started)
        q->started = thread_start(&q->thread, queue_thread, q);
    return q->started ? HEARTH_OK : fail(error, HEARTH_NO_MEMORY, "host: the system gives no thread");
}

/* ------------------------------------------------------------------ devices */

static uint64_t memory_bytes(void)
{
    uint64_t size = topology_memory_bytes();
    return size > 0 ? size : least_memory_bytes;
}

static size_t host_list(device_found *rows, size_t capacity)
{
    if (capacity > 0) {
        rows[0] = (device_found){.spec = "host", .memory_bytes = memory_bytes(), .usable = true};
        topology_cpu_name(rows[0].name, sizeof rows[0].name);
    }
    return 1;
}

static void host_close(device *d)
{
    host_device *h = (host_device *)d;
    atomic_store(&h->stops, true);
    for (size_t i = 0; i < DEVICE_QUEUES; i++)
        if (h->queues[i].started) {
            raise_ticket(&h->queues[i]);
            pthread_join(h->queues[i].thread, NULL);
        }
    pool_destroy(h->pool);
    mem_free(h);
}

static hearth_status check_options(const device_options *options, hearth_error *error)
{
    if (options->index > 0)
        return fail(error, HEARTH_DEVICE, "host:%u: there is only host:0", options->index);
    if (options->group > 1)
        return fail(error, HEARTH_INVALID, "host: group=%u: its groups have one lane", options->group);
    if (options->memory_bytes > memory_bytes()) {
        char asked[16], total[16];
        return fail(error, HEARTH_INVALID, "host: memory: %s asked for, this machine has %s",
                    text_size(asked, (double)options->memory_bytes), text_size(total, (double)memory_bytes()));
    }
    return HEARTH_OK;
}

static void fill_in(host_device *h, unsigned threads, size_t level)
{
    device *d = &h->base;
    h->kernels = host_table_for(kernel_level_features(level));
    topology_cpu_name(d->name, sizeof d->name);
    d->kernels = h->kernels->name;
    d->exchange = "memory";
    d->memory_bytes = memory_bytes();
    d->budget_bytes = d->memory_bytes / 4; /* the rest is for the CPU's part of the model */
    d->units = threads;
    d->group = 1;
    for (size_t i = 0; i < DEVICE_QUEUES; i++)
        h->queues[i] = (host_queue){.device = h, .which = (device_queue)i, .eager_seconds = most_eager_seconds};
}

static hearth_status host_open(device **out, const device_options *options, hearth_error *error)
{
    size_t level;
    TRY(check_options(options, error));
    TRY(kernel_level_choose(&level, NULL, error));
    host_device *h = mem_new(sizeof *h);
    if (!h)
        return fail_memory(error, "host device", sizeof *h);
    unsigned threads = options->threads > 0 ? options->threads : 1;
    fill_in(h, threads, level);
    h->base.options = *options;
    hearth_status status;
    TRY_OR(failed, status, pool_create(&h->pool, threads, error));
    TRY_OR(failed, status, start_queue(&h->queues[QUEUE_MAIN], error));
    *out = &h->base;
    return HEARTH_OK;
failed:
    host_close(&h->base);
    return status;
}

/* ------------------------------------------------------------------ memory */

static hearth_status host_buffer_create(device_buffer *b, hearth_error *error)
{
    b->host = b->size_bytes <= small_bytes ? mem_new(b->size_bytes) : mem_reserve(b->size_bytes, MEM_WHOLE);
    b->own = (uintptr_t)b->host;
    return b->host ? HEARTH_OK : fail_memory(error, "main memory", b->size_bytes);
}

static void host_buffer_destroy(device_buffer *b)
{
    if (b->size_bytes <= small_bytes)
        mem_free(b->host);
    else
        mem_release(b->host, b->size_bytes);
}

static hearth_status host_write(device_buffer *to, size_t offset, const void *from, size_t size_bytes,
                                hearth_error *error)
{
    (void)error;
    memcpy((char *)to->host + offset, from, size_bytes);
    return HEARTH_OK;
}

static hearth_status host_read(const device_buffer *from, size_t offset, void *to, size_t size_bytes,
                               hearth_error *error)
{
    (void)error;
    memcpy(to, (const char *)from->host + offset, size_bytes);
    return HEARTH_OK;
}

static hearth_status host_move(device_buffer *to, size_t to_offset, const device_buffer *from, size_t from_offset,
                               size_t size_bytes, hearth_error *error)
{
    (void)error;
    memmove((char *)to->host + to_offset, (const char *)from->host + from_offset, size_bytes);
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ programs */

static void host_program_destroy(device_program *p)
{
    host_program *own = p->own;
    mem_free(own->slots);
    mem_free(own->signalled);
    mem_free(own->stamps);
    mem_free(own);
    p->own = NULL;
}

static hearth_status host_seal(device_program *p, hearth_error *error)
{
    host_program *own = mem_new(sizeof *own);
    if (!own)
        return fail_memory(error, "device program", sizeof *own);
    p->own = own;
    own->recorded = p;
    own->slots = mem_new_array(p->slot_count, sizeof *own->slots);
    own->signalled = mem_new_array(p->event_count, sizeof *own->signalled);
    own->stamps = mem_new_array(p->stamp_count, sizeof *own->stamps);
    hearth_status status = own->slots && own->signalled && own->stamps
                               ? HEARTH_OK
                               : fail_memory(error, "device program", p->slot_count * sizeof *own->slots);
    for (size_t i = 0; status == HEARTH_OK && i < DEVICE_QUEUES; i++)
        if (p->uses_queue[i])
            status = start_queue(&((host_device *)p->device)->queues[i], error);
    if (status != HEARTH_OK)
        host_program_destroy(p);
    return status;
}

static hearth_status host_start(device_program *p, hearth_error *error)
{
    (void)error;
    host_device *h = (host_device *)p->device;
    host_program *own = p->own;
    own->run++;
    h->next = own;
    for (size_t i = 0; i < DEVICE_QUEUES; i++)
        if (p->uses_queue[i])
            raise_ticket(&h->queues[i]);
    return HEARTH_OK;
}

static hearth_status check_run(const host_program *own, hearth_error *error)
{
    return has_failed(own) ? fail(error, HEARTH_DEVICE, "%s", own->problem.text) : HEARTH_OK;
}

static hearth_status host_published(device_program *p, unsigned slot, bool *out, hearth_error *error)
{
    const host_program *own = p->own;
    *out = atomic_load_explicit(&own->slots[slot].published, memory_order_acquire) == own->run;
    return *out ? HEARTH_OK : check_run(own, error);
}

static void host_answer(device_program *p, unsigned slot)
{
    host_program *own = p->own;
    atomic_store_explicit(&own->slots[slot].answered, own->run, memory_order_release);
}

static hearth_status host_done(device_program *p, bool *out, hearth_error *error)
{
    const host_program *own = p->own;
    *out = true;
    for (size_t i = 0; i < DEVICE_QUEUES; i++)
        *out &= !p->uses_queue[i] || atomic_load_explicit(&own->done[i], memory_order_acquire) == own->run;
    return *out ? check_run(own, error) : HEARTH_OK;
}

static double host_stamp_seconds(const device_program *p, unsigned stamp)
{
    const host_program *own = p->own;
    return own->stamps[stamp];
}

const driver driver_host = {
    .name = "host",
    .list = host_list,
    .open = host_open,
    .close = host_close,
    .buffer_create = host_buffer_create,
    .buffer_destroy = host_buffer_destroy,
    .write = host_write,
    .read = host_read,
    .move = host_move,
    .seal = host_seal,
    .program_destroy = host_program_destroy,
    .start = host_start,
    .published = host_published,
    .answer = host_answer,
    .done = host_done,
    .stamp_seconds = host_stamp_seconds,
};
