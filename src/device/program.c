/* program.c - programs: recording and running them, and what happens when a device fails or hangs. Independent of how
 * any driver works inside.
 *
 * A device that failed is lost. Its running program is drained first: every slot is answered and the end of the program
 * awaited, so that its memory can be freed. If the program does not end even then, the device hangs. The memory that it
 * might still access is then leaked instead of freed (device->running stays set). */
#include "driver.h"
#include "times.h"

#include "../base/wait.h"

#include <assert.h>
#include <string.h>

/* The longest time that the CPU spins for a device before it offers its core to other threads. */
static const double most_eager_seconds = 100e-6;

/* The most that one moment of a wait counts. If it took longer, this process was stopped (Ctrl-Z, a debugger), not the
 * device. */
static const double most_moment_seconds = 0.1;

/* ------------------------------------------------------------------ recording */

hearth_status device_program_create(device_program **out, device *d, unsigned slots, unsigned stamps,
                                    hearth_error *error)
{
    if (d->lost)
        return device_lost(d, "recording", error);
    device_program *p = mem_new(sizeof *p);
    if (!p)
        return fail_memory(error, "device program", sizeof *p);
    *p = (device_program){.device = d, .slot_count = slots, .stamp_count = stamps, .uses_queue = {[QUEUE_MAIN] = true}};
    *out = p;
    return HEARTH_OK;
}

void device_use_queue(device_program *p, device_queue queue)
{
    p->queue = queue;
}

/* Appends a command for the chosen queue; without memory for it, device_program_seal fails. */
static void record(device_program *p, device_command command)
{
    assert(!p->sealed);
    if (p->problem != HEARTH_OK)
        return;
    command.queue = p->queue;
    p->uses_queue[p->queue] = true;
    device_command *commands = mem_grow(p->commands, &p->capacity, p->command_count, 1, sizeof *commands);
    if (!commands) {
        p->problem = HEARTH_NO_MEMORY;
        return;
    }
    p->commands = commands;
    p->commands[p->command_count++] = command;
}

/* Returns whether an argument matches a kernel's parameter (a letter of device_kernel_row); unused with NDEBUG. */
__attribute__((unused)) static bool argument_fits(const device_program *p, char parameter, const device_argument *a)
{
    if (parameter != 'b')
        return parameter == (a->kind == ARGUMENT_UINT ? 'u' : a->kind == ARGUMENT_FLOAT ? 'f' : 0);
    if (a->kind != ARGUMENT_BUFFER)
        return false;
    const device_buffer *b = a->buffer;
    return !b || (b->device == p->device && b->place == DEVICE_MEMORY && a->offset % ARGUMENT_ALIGNMENT == 0 &&
                  device_holds(b, a->offset, 0));
}

void device_launch(device_program *p, device_kernel kernel, size_t items, const device_argument *arguments,
                   size_t count)
{
    assert((size_t)kernel < DEVICE_KERNEL_COUNT && items <= UINT32_MAX); /* kernels count groups in 32 bits */
    assert(p->queue == QUEUE_MAIN);
    assert(count == strlen(device_kernels[kernel].parameters));
    for (size_t i = 0; i < count; i++)
        assert(argument_fits(p, device_kernels[kernel].parameters[i], &arguments[i]));
    if (items == 0 || p->problem != HEARTH_OK)
        return;
    device_argument *copy = arena_new_array(&p->memory, count, sizeof *copy);
    if (!copy) {
        p->problem = HEARTH_NO_MEMORY;
        return;
    }
    memcpy(copy, arguments, count * sizeof *copy);
    record(p, (device_command){
                  .kind = COMMAND_LAUNCH, .index = kernel, .items = items, .arguments = copy, .count = count});
}

void device_copy(device_program *p, device_buffer *to, size_t to_offset, const device_buffer *from, size_t from_offset,
                 size_t size_bytes)
{
    assert(to->device == p->device && from->device == p->device);
    assert(device_holds(to, to_offset, size_bytes) && device_holds(from, from_offset, size_bytes));
    assert(p->queue == QUEUE_MAIN || to->place == DEVICE_MEMORY || from->place == DEVICE_MEMORY);
    if (size_bytes == 0)
        return;
    record(p, (device_command){.kind = COMMAND_COPY,
                               .to = to,
                               .from = from,
                               .to_offset = to_offset,
                               .from_offset = from_offset,
                               .size_bytes = size_bytes});
}

void device_publish(device_program *p, unsigned slot)
{
    assert(slot < p->slot_count);
    record(p, (device_command){.kind = COMMAND_PUBLISH, .index = slot});
}

void device_await(device_program *p, unsigned slot)
{
    assert(slot < p->slot_count);
    record(p, (device_command){.kind = COMMAND_AWAIT, .index = slot});
}

void device_signal(device_program *p, unsigned event)
{
    p->event_count = event >= p->event_count ? event + 1 : p->event_count;
    record(p, (device_command){.kind = COMMAND_SIGNAL, .index = event});
}

void device_wait(device_program *p, unsigned event)
{
    assert(event < p->event_count);
    record(p, (device_command){.kind = COMMAND_WAIT, .index = event});
}

void device_stamp(device_program *p, unsigned stamp)
{
    assert(stamp < p->stamp_count);
    record(p, (device_command){.kind = COMMAND_STAMP, .index = stamp});
}

hearth_status device_program_seal(device_program *p, hearth_error *error)
{
    device *d = p->device;
    assert(!p->sealed);
    if (p->problem != HEARTH_OK)
        return fail(error, p->problem, "%s: recording a program: out of memory", d->driver->name);
    if (d->lost)
        return device_lost(d, "sealing", error);
    if (device_must_fail())
        return device_injected(d, "sealing", error);
    TRY(times_record(p, error));
    TRY(d->driver->seal(p, error));
    p->sealed = true;
    return HEARTH_OK;
}

void device_program_destroy(device_program *p)
{
    if (!p)
        return;
    device_abandon(p);
    if (p->device->running == p)
        return; /* it hangs: leaked, see the head of the file */
    times_write(p);
    if (p->own)
        p->device->driver->program_destroy(p);
    arena_clear(&p->memory);
    mem_free(p->commands);
    mem_free(p);
}

/* ------------------------------------------------------------------ running */

/* A wait for a device, and how much of it counts towards the time limit. Zeroed at its beginning. */
typedef struct patience {
    waiter w;
    double waited, counted; /* seconds */
} patience;

/* Waits a moment and counts its time. */
static void wait_patiently(patience *t, double eager_seconds)
{
    double waited = wait_once(&t->w, eager_seconds), moment = waited - t->waited;
    t->counted += moment < most_moment_seconds ? moment : most_moment_seconds;
    t->waited = waited;
}

/* Returns whether the time limit is over. Read before the device is asked, so that it is asked once more afterwards. */
static bool is_last_chance(const patience *t, const device *d)
{
    return t->counted > d->patience_seconds;
}

/* Lets a program that was given up run to its end. HEARTH_DEVICE: it failed before its end, or hangs. */
static hearth_status drain(device_program *p)
{
    device *d = p->device;
    p->given_up = true;
    for (unsigned slot = 0; slot < p->slot_count; slot++)
        d->driver->answer(p, slot);
    hearth_status status = HEARTH_OK;
    patience t = {0};
    for (bool done = false; !done && status == HEARTH_OK; wait_patiently(&t, 0)) {
        bool last = is_last_chance(&t, d);
        status = d->driver->done(p, &done, NULL);
        if (last && !done && status == HEARTH_OK)
            return HEARTH_DEVICE;
    }
    d->running = NULL;
    return status;
}

/* Marks a failed device as lost and drains its program. Returns HEARTH_DEVICE; the caller has written the text. */
static hearth_status lose(device *d)
{
    d->lost = true;
    if (d->running)
        (void)drain(d->running);
    return HEARTH_DEVICE;
}

/* Checks that this program is running and that its device is not lost. */
static hearth_status check_running(const device_program *p, const char *what, hearth_error *error)
{
    const device *d = p->device;
    if (d->lost)
        return device_lost(d, what, error);
    return d->running == p ? HEARTH_OK
                           : fail(error, HEARTH_INVALID, "%s: %s: the program does not run", d->driver->name, what);
}

hearth_status device_start(device_program *p, hearth_error *error)
{
    device *d = p->device;
    assert(p->sealed);
    if (d->lost)
        return device_lost(d, "starting", error);
    if (d->running)
        return fail(error, HEARTH_INVALID, "%s: starting: a program runs already", d->driver->name);
    p->given_up = false;
    hearth_status status = device_must_fail() ? device_injected(d, "starting", error) : d->driver->start(p, error);
    if (status != HEARTH_OK)
        return lose(d);
    d->running = p;
    return HEARTH_OK;
}

hearth_status device_await_published(device_program *p, unsigned slot, hearth_error *error)
{
    device *d = p->device;
    assert(slot < p->slot_count);
    TRY(check_running(p, "waiting for a slot", error));
    bool published = false;
    hearth_status status = HEARTH_OK;
    patience t = {0};
    while (status == HEARTH_OK) {
        bool last = is_last_chance(&t, d);
        status = d->driver->published(p, slot, &published, error);
        if (status != HEARTH_OK || published)
            break;
        if (last)
            status = fail(error, HEARTH_DEVICE, "%s: slot %u was not published within %g seconds", d->driver->name,
                          slot, d->patience_seconds);
        else
            wait_patiently(&t, d->eager_seconds);
    }
    d->eager_seconds = wait_learn(d->eager_seconds, t.waited, most_eager_seconds);
    return status == HEARTH_OK ? status : lose(d);
}

void device_answer(device_program *p, unsigned slot)
{
    assert(slot < p->slot_count);
    if (p->device->running == p && !p->device->lost)
        p->device->driver->answer(p, slot);
}

hearth_status device_finish(device_program *p, hearth_error *error)
{
    device *d = p->device;
    TRY(check_running(p, "finishing", error));
    bool done = false;
    hearth_status status = HEARTH_OK;
    patience t = {0};
    while (status == HEARTH_OK) {
        bool last = is_last_chance(&t, d);
        status = d->driver->done(p, &done, error);
        if (status != HEARTH_OK || done)
            break;
        if (last)
            status = fail(error, HEARTH_DEVICE, "%s: a program was not done within %g seconds", d->driver->name,
                          d->patience_seconds);
        else
            wait_patiently(&t, d->eager_seconds);
    }
    if (status != HEARTH_OK)
        return lose(d);
    d->running = NULL;
    times_note(p);
    return HEARTH_OK;
}

void device_abandon(device_program *p)
{
    device *d = p->device;
    if (d->running == p && !d->lost && drain(p) != HEARTH_OK)
        d->lost = true;
}

double device_stamp_seconds(const device_program *p, unsigned stamp)
{
    assert(stamp < p->stamp_count);
    return p->device->driver->stamp_seconds(p, stamp);
}
