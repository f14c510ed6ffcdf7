/* opencl_program.c - programs on an OpenCL device: how they are sealed and run.
 *
 * Sealing makes a kernel object per launch and sets its arguments, so that a start only enqueues commands. Queues are
 * in order: each command waits for the one before it. A publish is a marker whose event the CPU polls; a stamp is a
 * marker whose profile is read when the program is done; a signal is a marker too, and a wait for it a barrier in the other
 * queue, which is enqueued once the marker is. Events last for one run, since OpenCL cannot reuse them.
 *
 * Commands after an await are enqueued only when the CPU answers: OpenCL may read the source of a copy from main memory
 * as soon as the copy is enqueued, and the CPU writes there until it answers. So no command in the queue ever waits for
 * the CPU, and an await adds nothing to the queue.
 *
 * If a command fails to be enqueued, the run ends there: no later command is enqueued, the earlier ones go on, and a
 * call that asks for a later one gets the error.
 *
 * PoCL compiles a kernel at its first launch with a given number of lanes. So that no run waits for a compiler, sealing
 * launches every kernel that the device has not run yet once, on a step without rows, where it does no work.
 *
 * Buffers as arguments: OpenCL has no pointers into buffers, and sub-buffers must begin at multiples of some hundreds
 * of bytes. So every buffer is two arguments, the whole buffer and an offset in units of OFFSET_UNIT bytes, which the
 * kernels add (for_opencl.h). */
#include "opencl_api.h"

#ifdef HEARTH_HAVE_OPENCL

#include "../base/clock.h"
#include "../base/thread.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { OFFSET_UNIT = 16 };

/* A launch as it is enqueued. */
typedef struct launch {
    cl_kernel kernel; /* NULL: this command is not a launch */
    size_t lanes;     /* of a group */
    size_t threads;   /* in all, the global work size */
} launch;

typedef struct run {
    arena memory;         /* of the arrays here */
    launch *launches;     /* [command_count] */
    device_buffer middle; /* for copies from pinned to pinned memory */
    /* Of the current or last run. An event that is NULL does not exist (yet). */
    size_t next[DEVICE_QUEUES]; /* the first command of the queue that was not enqueued; command_count: none is left */
    bool *answered;             /* [slot_count]  */
    cl_event *published;        /* [slot_count]  */
    cl_event *signalled;        /* [event_count] */
    cl_event *stamps;           /* [stamp_count] */
    cl_event last[DEVICE_QUEUES]; /* the markers after all commands */
    double *seconds;              /* [stamp_count] the stamps of the last run */
    double enqueued_last;         /* when that of the main queue was enqueued, on the clock of clock_seconds() */
    hearth_error failure;         /* status HEARTH_OK: none */
    bool over;                    /* nothing of it is in the queue any more */
    /* After a failure that left no marker to ask; see is_over. */
    bool finishing; /* the thread was started */
    pthread_t finisher;
    atomic_bool finished; /* the thread has seen the queues empty */
} run;

static opencl_device *own(const device_program *p)
{
    return (opencl_device *)p->device;
}

static cl_command_queue queue_of(const opencl_device *d, device_queue queue)
{
    return queue == QUEUE_COPY ? d->copy_queue : d->queue;
}

/* ------------------------------------------------------------------ sealing */

/* Sets the two arguments of a buffer, see the head of the file. */
static cl_int set_buffer(const opencl_device *d, cl_kernel kernel, cl_uint *index, cl_mem memory, size_t offset)
{
    const cl_uint units = (cl_uint)(offset / OFFSET_UNIT);
    cl_int code = d->cl.SetKernelArg(kernel, (*index)++, sizeof memory, memory ? &memory : NULL);
    return code == CL_SUCCESS ? d->cl.SetKernelArg(kernel, (*index)++, sizeof units, &units) : code;
}

static cl_int set_arguments(const opencl_device *d, cl_kernel kernel, const device_argument *arguments, size_t count)
{
    cl_uint index = 0;
    cl_int code = CL_SUCCESS;
    for (size_t i = 0; i < count && code == CL_SUCCESS; i++) {
        const device_argument *a = &arguments[i];
        if (a->kind == ARGUMENT_BUFFER)
            code = set_buffer(d, kernel, &index, a->buffer ? opencl_memory(a->buffer) : NULL, a->offset);
        else if (a->kind == ARGUMENT_UINT)
            code = d->cl.SetKernelArg(kernel, index++, sizeof a->u, &a->u);
        else
            code = d->cl.SetKernelArg(kernel, index++, sizeof a->f, &a->f);
    }
    return code;
}

static cl_int enqueue_launch(const opencl_device *d, const launch *l)
{
    return d->cl.EnqueueNDRangeKernel(d->queue, l->kernel, 1, NULL, &l->threads, &l->lanes, 0, NULL, NULL);
}

/* Launches a kernel once without work, so that PoCL compiles it; see the head of the file. */
static cl_int warm_up(opencl_device *d, const device_command *c, const launch *l)
{
    if (d->warm[c->index])
        return CL_SUCCESS;
    cl_uint index = 0;
    cl_int code = set_buffer(d, l->kernel, &index, d->no_rows, 0);
    if (code == CL_SUCCESS)
        code = enqueue_launch(d, l);
    if (code == CL_SUCCESS)
        code = d->cl.Finish(d->queue);
    index = 0;
    if (code == CL_SUCCESS)
        code = set_buffer(d, l->kernel, &index, opencl_memory(c->arguments[0].buffer), c->arguments[0].offset);
    d->warm[c->index] = code == CL_SUCCESS;
    return code;
}

static hearth_status seal_launch(device_program *p, const device_command *c, launch *l, hearth_error *error)
{
    opencl_device *d = own(p);
    const char *name = device_kernels[c->index].name;
    cl_int code;
    l->kernel = d->cl.CreateKernel(d->program, name, &code);
    if (code == CL_SUCCESS)
        code = set_arguments(d, l->kernel, c->arguments, c->count);
    if (code != CL_SUCCESS)
        return opencl_fail(d, name, code, error);
    l->lanes = d->base.group;
    if (!size_multiply(c->items, l->lanes, &l->threads))
        return fail(error, HEARTH_INVALID, "%s: %s: %zu items are too many", d->base.name, name, c->items);
    code = warm_up(d, c, l);
    return code == CL_SUCCESS ? HEARTH_OK : opencl_fail(d, name, code, error);
}

/* Allocates the arrays of the run, prepares each launch, and makes the buffer between two pinned ones. */
static hearth_status seal_commands(device_program *p, run *r, hearth_error *error)
{
    const opencl_device *d = own(p);
    r->launches = arena_new_array(&r->memory, p->command_count, sizeof *r->launches);
    r->answered = arena_new_array(&r->memory, p->slot_count, sizeof *r->answered);
    r->published = arena_new_array(&r->memory, p->slot_count, sizeof(cl_event));
    r->signalled = arena_new_array(&r->memory, p->event_count, sizeof(cl_event));
    r->stamps = arena_new_array(&r->memory, p->stamp_count, sizeof(cl_event));
    r->seconds = arena_new_array(&r->memory, p->stamp_count, sizeof *r->seconds);
    if (!r->launches || !r->answered || !r->published || !r->signalled || !r->stamps || !r->seconds)
        return fail_memory(error, "opencl: program", p->command_count * sizeof *r->launches);
    for (size_t i = 0; i < p->command_count; i++) {
        const device_command *c = &p->commands[i];
        if (c->kind == COMMAND_LAUNCH)
            TRY(seal_launch(p, c, &r->launches[i], error));
        else if (c->kind == COMMAND_COPY && c->to->host && c->from->host && r->middle.size_bytes < c->size_bytes)
            r->middle.size_bytes = c->size_bytes;
    }
    if (r->middle.size_bytes == 0)
        return HEARTH_OK;
    cl_int code;
    r->middle.own = (uintptr_t)d->cl.CreateBuffer(d->context, CL_MEM_READ_WRITE, r->middle.size_bytes, NULL, &code);
    return code == CL_SUCCESS ? HEARTH_OK : opencl_fail(d, "memory between two copies", code, error);
}

hearth_status opencl_seal(device_program *p, hearth_error *error)
{
    run *r = mem_new(sizeof *r);
    if (!r)
        return fail_memory(error, "opencl: program", sizeof *r);
    p->own = r;
    opencl_device *d = own(p);
    cl_int code = p->uses_queue[QUEUE_COPY] && !d->copy_queue ? opencl_create_queue(d, &d->copy_queue) : CL_SUCCESS;
    hearth_status status =
        code == CL_SUCCESS ? seal_commands(p, r, error) : opencl_fail(d, "queue for copies", code, error);
    if (status != HEARTH_OK)
        opencl_program_destroy(p);
    return status;
}

/* ------------------------------------------------------------------ events */

static void release(const opencl_device *d, cl_event *event)
{
    if (*event)
        d->cl.ReleaseEvent(*event);
    *event = NULL;
}

static void release_events(device_program *p)
{
    const opencl_device *d = own(p);
    run *r = p->own;
    for (unsigned i = 0; i < p->slot_count && r->published; i++)
        release(d, &r->published[i]);
    for (unsigned i = 0; i < p->event_count && r->signalled; i++)
        release(d, &r->signalled[i]);
    for (unsigned i = 0; i < p->stamp_count && r->stamps; i++)
        release(d, &r->stamps[i]);
    for (unsigned i = 0; i < DEVICE_QUEUES; i++)
        release(d, &r->last[i]);
}

void opencl_program_destroy(device_program *p)
{
    const opencl_device *d = own(p);
    run *r = p->own;
    if (!r)
        return;
    release_events(p);
    for (size_t i = 0; i < p->command_count && r->launches; i++) {
        if (r->launches[i].kernel)
            d->cl.ReleaseKernel(r->launches[i].kernel);
    }
    if (r->middle.own)
        d->cl.ReleaseMemObject(opencl_memory(&r->middle));
    arena_clear(&r->memory);
    mem_free(r);
    p->own = NULL;
}

/* Tells whether an event is complete. HEARTH_DEVICE: its command failed. */
static hearth_status poll(device_program *p, cl_event event, const char *what, bool *out, hearth_error *error)
{
    const opencl_device *d = own(p);
    cl_int state = CL_QUEUED;
    cl_int code = d->cl.GetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    if (code != CL_SUCCESS || state < 0)
        return opencl_fail(d, what, code != CL_SUCCESS ? code : state, error);
    *out = state == CL_COMPLETE;
    /* Polling does not synchronise memory in OpenCL; a wait does, and returns at once for a complete event. */
    if (*out)
        d->cl.WaitForEvents(1, &event);
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ running */

static cl_int start_launch(device_program *p, const device_command *c)
{
    const run *r = p->own;
    return enqueue_launch(own(p), &r->launches[c - p->commands]);
}

/* Enqueues a copy; two pinned buffers need one in the device's memory between them. */
static cl_int start_copy(device_program *p, const device_command *c)
{
    const opencl_device *d = own(p);
    const run *r = p->own;
    cl_command_queue queue = queue_of(d, c->queue);
    if (!c->to->host || !c->from->host)
        return opencl_enqueue_copy(d, queue, c->to, c->to_offset, c->from, c->from_offset, c->size_bytes);
    cl_int code = opencl_enqueue_copy(d, queue, &r->middle, 0, c->from, c->from_offset, c->size_bytes);
    return code == CL_SUCCESS ? opencl_enqueue_copy(d, queue, c->to, c->to_offset, &r->middle, 0, c->size_bytes) : code;
}

/* Enqueues a marker; *event is the marker's. */
static cl_int enqueue_marker(const opencl_device *d, device_queue queue, cl_event *event)
{
    release(d, event);
    return d->cl.EnqueueMarkerWithWaitList(queue_of(d, queue), 0, NULL, event);
}

static cl_int start_publish(device_program *p, const device_command *c)
{
    const opencl_device *d = own(p);
    cl_int code = enqueue_marker(d, c->queue, &((run *)p->own)->published[c->index]);
    /* The device can begin with these commands while the rest is being enqueued. */
    return code == CL_SUCCESS ? d->cl.Flush(queue_of(d, c->queue)) : code;
}

static cl_int start_signal(device_program *p, const device_command *c)
{
    const opencl_device *d = own(p);
    cl_int code = enqueue_marker(d, c->queue, &((run *)p->own)->signalled[c->index]);
    /* A queue may only wait for what was flushed. */
    return code == CL_SUCCESS ? d->cl.Flush(queue_of(d, c->queue)) : code;
}

static cl_int start_wait(device_program *p, const device_command *c)
{
    const opencl_device *d = own(p);
    return d->cl.EnqueueBarrierWithWaitList(queue_of(d, c->queue), 1, &((run *)p->own)->signalled[c->index], NULL);
}

/* Does nothing: it is called when the answer has come, so the following commands may be enqueued. */
static cl_int start_await(device_program *p, const device_command *c)
{
    (void)p;
    (void)c;
    return CL_SUCCESS;
}

static cl_int start_stamp(device_program *p, const device_command *c)
{
    return enqueue_marker(own(p), c->queue, &((run *)p->own)->stamps[c->index]);
}

static const struct {
    const char *what;
    cl_int (*start)(device_program *p, const device_command *c);
} starters[] = {
    [COMMAND_LAUNCH] = {"launch", start_launch},    [COMMAND_COPY] = {"copy", start_copy},
    [COMMAND_PUBLISH] = {"publish", start_publish}, [COMMAND_AWAIT] = {"await", start_await},
    [COMMAND_SIGNAL] = {"signal", start_signal},    [COMMAND_WAIT] = {"wait", start_wait},
    [COMMAND_STAMP] = {"stamp", start_stamp},
};

static bool has_failed(const run *r)
{
    return r->failure.status != HEARTH_OK;
}

/* Enqueues the last marker of each queue and records the time of that of the main one. */
static cl_int enqueue_last(const device_program *p, run *r)
{
    const opencl_device *d = own(p);
    cl_int code = CL_SUCCESS;
    for (unsigned i = 0; i < DEVICE_QUEUES && code == CL_SUCCESS; i++) {
        double before = clock_seconds();
        if (!p->uses_queue[i])
            continue;
        code = enqueue_marker(d, (device_queue)i, &r->last[i]);
        r->enqueued_last = i == QUEUE_MAIN ? 0.5 * (before + clock_seconds()) : r->enqueued_last;
        code = code == CL_SUCCESS ? d->cl.Flush(queue_of(d, (device_queue)i)) : code;
    }
    return code;
}

/* Returns the first command of a queue from number `from` on. */
static size_t next_of(const device_program *p, device_queue queue, size_t from)
{
    while (from < p->command_count && p->commands[from].queue != queue)
        from++;
    return from;
}

/* Enqueues the next command of a queue; records a failure in the run. */
static void enqueue_next(device_program *p, device_queue queue)
{
    run *r = p->own;
    const device_command *c = &p->commands[r->next[queue]];
    const char *what = c->kind == COMMAND_LAUNCH ? device_kernels[c->index].name : starters[c->kind].what;
    if (device_must_fail()) {
        device_injected(p->device, what, &r->failure);
        return;
    }
    cl_int code = starters[c->kind].start(p, c);
    if (code == CL_SUCCESS)
        r->next[queue] = next_of(p, queue, r->next[queue] + 1);
    else
        opencl_fail(own(p), what, code, &r->failure);
}

/* Returns whether a queue has a command that may be enqueued: not an await without an answer, nor a wait for an event whose
 * signal was not enqueued. */
static bool may_enqueue(const device_program *p, device_queue queue)
{
    const run *r = p->own;
    if (r->next[queue] == p->command_count || has_failed(r))
        return false;
    const device_command *c = &p->commands[r->next[queue]];
    return c->kind == COMMAND_AWAIT ? r->answered[c->index] : c->kind != COMMAND_WAIT || r->signalled[c->index];
}

/* Returns whether no further command will be enqueued in this run. */
static bool is_enqueued(const device_program *p)
{
    const run *r = p->own;
    bool all = true;
    for (unsigned i = 0; i < DEVICE_QUEUES; i++)
        all &= r->next[i] == p->command_count;
    return all || has_failed(r);
}

/* Enqueues commands of both queues as long as any may be enqueued. After the last one, or after a failure, enqueues the last
 * markers. */
static void advance(device_program *p)
{
    const opencl_device *d = own(p);
    run *r = p->own;
    while (may_enqueue(p, QUEUE_MAIN) || may_enqueue(p, QUEUE_COPY))
        for (unsigned i = 0; i < DEVICE_QUEUES; i++)
            while (may_enqueue(p, (device_queue)i))
                enqueue_next(p, (device_queue)i);
    for (unsigned i = 0; i < DEVICE_QUEUES && !is_enqueued(p); i++) {
        /* The commands before the await shall begin. */
        cl_int code = p->uses_queue[i] ? d->cl.Flush(queue_of(d, (device_queue)i)) : CL_SUCCESS;
        if (code != CL_SUCCESS)
            opencl_fail(d, starters[COMMAND_AWAIT].what, code, &r->failure);
    }
    if (!is_enqueued(p))
        return;
    cl_int code = enqueue_last(p, r);
    if (code != CL_SUCCESS && !has_failed(r))
        opencl_fail(d, "the end of a program", code, &r->failure);
}

hearth_status opencl_start(device_program *p, hearth_error *error)
{
    (void)error; /* opencl_published and opencl_done report a failure */
    run *r = p->own;
    r->failure = (hearth_error){.status = HEARTH_OK};
    for (unsigned i = 0; i < DEVICE_QUEUES; i++)
        r->next[i] = next_of(p, (device_queue)i, 0);
    r->over = false;
    for (unsigned i = 0; i < p->slot_count; i++)
        r->answered[i] = false;
    advance(p);
    return HEARTH_OK;
}

static hearth_status tell_failure(const run *r, hearth_error *error)
{
    return fail(error, r->failure.status, "%s", r->failure.text);
}

hearth_status opencl_published(device_program *p, unsigned slot, bool *out, hearth_error *error)
{
    run *r = p->own;
    *out = false;
    if (r->published[slot])
        return poll(p, r->published[slot], "publish", out, error);
    return has_failed(r) ? tell_failure(r, error) : HEARTH_OK;
}

void opencl_answer(device_program *p, unsigned slot)
{
    run *r = p->own;
    if (r->answered[slot])
        return;
    r->answered[slot] = true;
    if (!is_enqueued(p))
        advance(p);
}

static double profile_seconds(const opencl_device *d, cl_event event, cl_profiling_info what)
{
    cl_ulong nanoseconds = 0;
    if (event)
        d->cl.GetEventProfilingInfo(event, what, sizeof nanoseconds, &nanoseconds, NULL);
    return 1e-9 * (double)nanoseconds;
}

/* Reads the stamps from the events and converts them to the CPU's clock. Both clocks recorded when the last marker was
 * enqueued, which gives their difference. They drift apart, so it is computed in every run. */
static void note_stamps(device_program *p)
{
    const opencl_device *d = own(p);
    run *r = p->own;
    double difference = r->enqueued_last - profile_seconds(d, r->last[QUEUE_MAIN], CL_PROFILING_COMMAND_QUEUED);
    for (unsigned i = 0; i < p->stamp_count; i++)
        r->seconds[i] = profile_seconds(d, r->stamps[i], CL_PROFILING_COMMAND_END) + difference;
}

/* Waits for the whole queues. */
static void *finish_queues(void *program)
{
    device_program *p = program;
    run *r = p->own;
    for (unsigned i = 0; i < DEVICE_QUEUES; i++)
        if (p->uses_queue[i])
            own(p)->cl.Finish(queue_of(own(p), (device_queue)i));
    atomic_store(&r->finished, true);
    return NULL;
}

/* Tells in *out whether the last markers of all queues are complete. HEARTH_DEVICE: one is missing, or failed. */
static hearth_status poll_last(device_program *p, bool *out)
{
    run *r = p->own;
    *out = true;
    for (unsigned i = 0; i < DEVICE_QUEUES; i++) {
        bool complete = true;
        if (p->uses_queue[i] && !r->last[i])
            return HEARTH_DEVICE;
        if (p->uses_queue[i])
            TRY(poll(p, r->last[i], "program", &complete, has_failed(r) ? NULL : &r->failure));
        *out &= complete;
    }
    return HEARTH_OK;
}

/* A run is over when its last markers are complete, also after a failure. Only then may its memory be freed. If a
 * marker is missing, or its state cannot be read, only clFinish tells. It has no time limit, so a thread calls it: if
 * it does not return, program.c gives the device up, and the program is leaked with the thread. */
static bool is_over(device_program *p)
{
    run *r = p->own;
    bool complete = false;
    if (r->over)
        return true;
    if (!r->finishing && poll_last(p, &complete) == HEARTH_OK)
        return r->over = complete;
    if (!r->finishing)
        r->finishing = thread_start(&r->finisher, finish_queues, p);
    if (!atomic_load(&r->finished))
        return false;
    pthread_join(r->finisher, NULL);
    r->finishing = false;
    atomic_store(&r->finished, false);
    return r->over = true;
}

hearth_status opencl_done(device_program *p, bool *out, hearth_error *error)
{
    const run *r = p->own;
    *out = false;
    if (!is_enqueued(p) || !is_over(p))
        return HEARTH_OK;
    if (!has_failed(r))
        note_stamps(p);
    release_events(p);
    *out = !has_failed(r);
    return has_failed(r) ? tell_failure(r, error) : HEARTH_OK;
}

double opencl_stamp_seconds(const device_program *p, unsigned stamp)
{
    return ((const run *)p->own)->seconds[stamp];
}

#endif
