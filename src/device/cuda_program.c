/* cuda_program.c - programs on a CUDA device. Sealing turns a program into a graph: a chain of kernels, copies and the
 * operations of the exchange (cuda_exchange.c), which one call starts and nothing changes later. Each queue has a graph and a
 * stream. With the exchange by events it is several graphs, cut where the program publishes, awaits, signals or waits. Knows
 * nothing of how memory is allocated or how kernels are loaded.
 *
 * Only words in pinned memory differ from run to run. The CPU resets them before a start, when nothing runs. */
#include "cuda_device.h"

#include "../base/clock.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
    MOST_ARGUMENTS = 32,
    WORDS_APART = 64, /* bytes; the words that the two sides write are on different cache lines of the CPU */
    /* Copies of up to this many bytes use a kernel, which starts faster than the copy engine. For longer copies the
     * engine gains more than its start costs. */
    SHORT_COPY = 1024 * 1024,
    COPY_LANES = 128,
    JOINED_LANES = 1024,     /* of the one block of `send` and `receive` */
    JOINED_COPY = 64 * 1024, /* bytes that it copies at most; more blocks are faster for more */
    LARGE_LANES = 256,       /* of a group, for kernels with few items, where the spec does not say how many */
    TEAM_LANES = 32,
    /* Groups per compute unit: enough to fill it. Each group loops over the remaining items: on an H200 an empty launch of
     * 8 groups a unit takes 1.3 us, of 32 groups 3.2. */
    GROUPS_PER_UNIT = 8,
    ASKS_PER_QUERY = 256 /* polls of a word between queries of the driver for errors */
};

/* How long a reading of the clock stays valid; the two clocks drift apart by a few millionths. */
static const double clock_seconds_valid = 1.0;

/* A piece of a queue that is started with one call, and the command of the exchange that follows it. A queue that is not cut is
 * one piece. */
typedef struct piece {
    cuda_executable graph;        /* NULL: it has no commands */
    const device_command *follow; /* a publish, an await, a signal or a wait; NULL: none, it is the last piece */
} piece;

typedef struct cuda_pieces {
    piece *all;         /* [count] */
    size_t count, next; /* next: the first piece not started in this run */
} cuda_pieces;

typedef struct cuda_program {
    cuda_pieces pieces[DEVICE_QUEUES];
    /* Pinned words [slots], [slots], [events] and [stamps], by the CPU's addresses; below (..._at) by the device's. */
    volatile uint32_t *published, *answered, *signalled;
    volatile uint64_t *stamps;
    void *words;
    size_t words_bytes;
    cuda_address published_at, answered_at, signalled_at, stamps_at;
    /* Where the exchange is by events: those of slots, then those of device_signal; else NULL. */
    cuda_event *events;   /* [slots + events] */
    bool *recorded;       /* [slots + events] it was recorded in this run */
    size_t *publish_at;   /* [slots] the number of the command that publishes */
    size_t fails_at;      /* the command at which this run shall fail, for tests; else command_count */
    hearth_error failure; /* of cuda_answer, which cannot return it */
    unsigned asked;       /* polls in this run */
} cuda_program;

static cuda_device *device_of(const device_program *p)
{
    return (cuda_device *)p->device;
}

static cuda_stream stream_of(const cuda_device *d, device_queue queue)
{
    return queue == QUEUE_COPY ? d->copy_stream : d->stream;
}

/* ------------------------------------------------------------------ building graphs */

/* A graph that is being built; each node depends on the one before. */
typedef struct chain {
    cuda_device *d;
    device_queue queue;
    cuda_graph graph; /* NULL until there is a node */
    cuda_node last;
    cuda_node launched; /* the last kernel of kernels/: it lets the next one begin early */
} chain;

typedef struct launch_size {
    size_t groups;
    unsigned lanes;
} launch_size;

/* Makes the graph unless it exists. */
static hearth_status chain_begin(chain *c, hearth_error *error)
{
    if (c->graph == NULL)
        CUDA_TRY(c->d, c->d->api.graph_new(&c->graph, 0), "building a graph");
    return HEARTH_OK;
}

/* early: it may begin before the one ahead of it has ended. */
static hearth_status add_node(chain *c, cuda_function function, launch_size size, void **parameters, bool early,
                              const char *what, hearth_error *error)
{
    TRY(chain_begin(c, error));
    cuda_kernel_node node = {.function = function,
                             .grid = {(unsigned)size.groups, 1, 1},
                             .block = {size.lanes, 1, 1},
                             .parameters = parameters};
    cuda_node before = c->last;
    CUDA_TRY(c->d, c->d->api.graph_kernel(&c->last, c->graph, &before, !early && before != NULL, &node), what);
    cuda_edge edge = {.from_port = CUDA_PORT_PROGRAMMATIC, .type = CUDA_EDGE_PROGRAMMATIC};
    if (early)
        CUDA_TRY(c->d, c->d->api.graph_depend(c->graph, &before, &c->last, &edge, 1), what);
    return HEARTH_OK;
}

/* Adds a kernel that begins when all before it has ended. */
static hearth_status add_kernel(chain *c, cuda_function function, size_t groups, unsigned lanes, void **parameters,
                                const char *what, hearth_error *error)
{
    return add_node(c, function, (launch_size){groups, lanes}, parameters, false, what, error);
}

/* Adds one of the driver's own kernels that takes the address of a word. */
static hearth_status add_own(chain *c, cuda_own_kernel kernel, cuda_address word, hearth_error *error)
{
    void *parameters[] = {&word};
    return add_kernel(c, c->d->own[kernel], 1, 1, parameters, "building a graph", error);
}

/* Adds a stream memory operation: writes 1 to a word, or waits until it is at least 1. */
static hearth_status add_operation(chain *c, unsigned kind, cuda_address word, hearth_error *error)
{
    cuda_device *d = c->d;
    if (d->api.graph_operations == NULL)
        return fail(error, HEARTH_DEVICE, "cuda:%u: the driver has no memory operations in graphs",
                    d->base.options.index);
    TRY(chain_begin(c, error));
    cuda_operation operation = {.word = {.kind = kind, .address = word, .value = 1}};
    if (kind == CUDA_OPERATION_WAIT)
        operation.word.flags = CUDA_WAIT_AT_LEAST;
    cuda_operations_node node = {.context = d->context, .count = 1, .operations = &operation};
    CUDA_TRY(d, d->api.graph_operations(&c->last, c->graph, &c->last, c->last != NULL, &node), "memory operations");
    return HEARTH_OK;
}

/* Returns how many groups of how many lanes take the items of a launch. */
static launch_size launch_size_of(const cuda_device *d, const device_command *command)
{
    const device_kernel_row *row = &device_kernels[command->index];
    bool large = row->taker == BY_LARGE_GROUP && d->base.options.group == 0;
    unsigned lanes = large ? LARGE_LANES : d->base.group, most = d->kernels[command->index].most_lanes;
    lanes = lanes < most ? lanes : most;
    size_t teams = row->taker == BY_TEAM && lanes % TEAM_LANES == 0 ? lanes / TEAM_LANES : 1;
    size_t groups = items_of(command->items, teams), enough = (size_t)d->base.units * GROUPS_PER_UNIT;
    return (launch_size){groups < enough ? groups : enough, lanes};
}

static hearth_status add_launch(chain *c, const device_command *command, hearth_error *error)
{
    const cuda_kernel *kernel = &c->d->kernels[command->index];
    cuda_address addresses[MOST_ARGUMENTS];
    void *parameters[MOST_ARGUMENTS];
    if (command->count > MOST_ARGUMENTS)
        return fail(error, HEARTH_DEVICE, "cuda: %s has too many parameters", device_kernels[command->index].name);
    for (size_t i = 0; i < command->count; i++) {
        const device_argument *a = &command->arguments[i];
        addresses[i] = a->kind == ARGUMENT_BUFFER && a->buffer != NULL ? a->buffer->own + a->offset : 0;
        /* The casts drop const; the driver only reads the values. */
        parameters[i] = a->kind == ARGUMENT_BUFFER ? (void *)&addresses[i]
                        : a->kind == ARGUMENT_UINT ? (void *)(uintptr_t)&a->u
                                                   : (void *)(uintptr_t)&a->f;
    }
    bool early = c->d->base.options.early && c->last != NULL && c->last == c->launched;
    TRY(add_node(c, kernel->function, launch_size_of(c->d, command), parameters, early,
                 device_kernels[command->index].name, error));
    c->launched = c->last;
    return HEARTH_OK;
}

/* Returns whether a copy is made by a kernel of up to `most` bytes. */
static bool is_short_copy(const device_command *command, size_t most)
{
    cuda_address to = command->to->own + command->to_offset, from = command->from->own + command->from_offset;
    return command->size_bytes <= most && to % 16 == 0 && from % 16 == 0;
}

static cuda_place copy_place(const device_buffer *b, size_t offset)
{
    return b->place == DEVICE_PINNED ? (cuda_place){.kind = CUDA_MEMORY_HOST, .host = (char *)b->host + offset}
                                     : (cuda_place){.kind = CUDA_MEMORY_DEVICE, .address = b->own + offset};
}

static hearth_status add_copy(chain *c, const device_command *command, hearth_error *error)
{
    cuda_address to = command->to->own + command->to_offset, from = command->from->own + command->from_offset;
    if (is_short_copy(command, SHORT_COPY)) {
        uint32_t size = (uint32_t)command->size_bytes;
        void *parameters[] = {&to, &from, &size};
        return add_kernel(c, c->d->own[CUDA_OWN_copy], items_of(size / 16 + 1, COPY_LANES), COPY_LANES, parameters,
                          "building a graph", error);
    }
    TRY(chain_begin(c, error));
    cuda_copy_node node = {.from = copy_place(command->from, command->from_offset),
                           .to = copy_place(command->to, command->to_offset),
                           .width_bytes = command->size_bytes,
                           .height = 1,
                           .depth = 1};
    CUDA_TRY(c->d, c->d->api.graph_copy(&c->last, c->graph, &c->last, c->last != NULL, &node, c->d->context),
             "building a graph");
    return HEARTH_OK;
}

/* Ends a chain and uploads it to the device. *out is the executable graph; unchanged if the chain has no nodes. */
static hearth_status chain_end(chain *c, cuda_executable *out, hearth_error *error)
{
    cuda_device *d = c->d;
    if (c->graph == NULL)
        return HEARTH_OK;
    cuda_result result = d->api.graph_finish(out, c->graph, 0);
    d->api.graph_free(c->graph);
    *c = (chain){.d = d, .queue = c->queue};
    if (result == CUDA_OK) {
        result = d->api.executable_upload(*out, stream_of(d, c->queue));
        if (result == CUDA_OK)
            result = d->api.stream_wait(stream_of(d, c->queue));
    } else {
        *out = NULL;
    }
    return result == CUDA_OK ? HEARTH_OK : cuda_fail(d, result, "making a graph ready", error);
}

static hearth_status add_command(chain *c, const cuda_program *own, const device_command *command, hearth_error *error)
{
    bool memory = c->d->exchange->how == CUDA_BY_MEMORY;
    cuda_address published = own->published_at + sizeof(uint32_t) * command->index;
    cuda_address answered = own->answered_at + sizeof(uint32_t) * command->index;
    cuda_address signalled = own->signalled_at + sizeof(uint32_t) * command->index;
    switch (command->kind) {
    case COMMAND_LAUNCH:
        return add_launch(c, command, error);
    case COMMAND_COPY:
        return add_copy(c, command, error);
    case COMMAND_PUBLISH:
        return memory ? add_operation(c, CUDA_OPERATION_WRITE, published, error)
                      : add_own(c, CUDA_OWN_publish, published, error);
    case COMMAND_AWAIT:
        return memory ? add_operation(c, CUDA_OPERATION_WAIT, answered, error)
                      : add_own(c, CUDA_OWN_await, answered, error);
    case COMMAND_SIGNAL:
        return memory ? add_operation(c, CUDA_OPERATION_WRITE, signalled, error)
                      : add_own(c, CUDA_OWN_publish, signalled, error);
    case COMMAND_WAIT:
        return memory ? add_operation(c, CUDA_OPERATION_WAIT, signalled, error)
                      : add_own(c, CUDA_OWN_await, signalled, error);
    case COMMAND_STAMP:
        break;
    }
    return add_own(c, CUDA_OWN_stamp, own->stamps_at + sizeof(uint64_t) * command->index, error);
}

static bool is_exchange(const device_command *command)
{
    return command->kind == COMMAND_PUBLISH || command->kind == COMMAND_AWAIT || command->kind == COMMAND_SIGNAL ||
           command->kind == COMMAND_WAIT;
}

/* Returns the next command of a queue after the i-th; NULL: that is the last. */
static const device_command *next_of_queue(const device_program *p, size_t i)
{
    const device_command *before = &p->commands[i], *end = p->commands + p->command_count;
    for (const device_command *c = before + 1; c < end; c++)
        if (c->queue == before->queue)
            return c;
    return NULL;
}

/* Adds a short copy and the publish behind it, or an await and the short copy behind that, as one kernel, where the exchange is
 * by kernels. *joined: whether it did. */
static hearth_status add_joined(chain *c, const cuda_program *own, const device_command *first,
                                const device_command *second, bool *joined, hearth_error *error)
{
    bool sends = second && first->kind == COMMAND_COPY && second->kind == COMMAND_PUBLISH;
    bool receives = second && first->kind == COMMAND_AWAIT && second->kind == COMMAND_COPY;
    const device_command *copy = sends ? first : second, *slot = sends ? second : first;
    *joined = c->d->exchange->how == CUDA_BY_KERNEL && (sends || receives) && is_short_copy(copy, JOINED_COPY);
    if (!*joined)
        return HEARTH_OK;
    cuda_address to = copy->to->own + copy->to_offset, from = copy->from->own + copy->from_offset;
    cuda_address word = (sends ? own->published_at : own->answered_at) + sizeof(uint32_t) * slot->index;
    uint32_t size = (uint32_t)copy->size_bytes;
    void *parameters[] = {&to, &from, &size, &word};
    return add_kernel(c, c->d->own[sends ? CUDA_OWN_send : CUDA_OWN_receive], 1, JOINED_LANES, parameters,
                      "building a graph", error);
}

/* Adds all commands of a queue to graphs. Only the exchange by events ends a piece at each command of it. */
static hearth_status build_pieces(device_program *p, cuda_program *own, chain *c, hearth_error *error)
{
    bool cut = c->d->exchange->how == CUDA_BY_EVENTS;
    cuda_pieces *pieces = &own->pieces[c->queue];
    const device_command *added = NULL; /* with the one before it */
    for (size_t i = 0; i < p->command_count; i++) {
        const device_command *command = &p->commands[i];
        if (command->queue != c->queue)
            continue;
        if (command->kind == COMMAND_PUBLISH)
            own->publish_at[command->index] = i;
        if (command == added)
            continue;
        const device_command *next = next_of_queue(p, i);
        bool joined;
        TRY(add_joined(c, own, command, next, &joined, error));
        if (joined) {
            added = next;
            continue;
        }
        if (!cut || !is_exchange(command)) {
            TRY(add_command(c, own, command, error));
            continue;
        }
        piece *done = &pieces->all[pieces->count++];
        done->follow = command;
        TRY(chain_end(c, &done->graph, error));
    }
    return chain_end(c, &pieces->all[pieces->count++].graph, error);
}

/* ------------------------------------------------------------------ sealing */

static size_t round_up(size_t size_bytes)
{
    return (size_bytes + WORDS_APART - 1) / WORDS_APART * WORDS_APART;
}

/* Allocates the pinned words: published, answered, signalled and stamps, each on cache lines of its own. */
static hearth_status make_words(device_program *p, cuda_program *own, hearth_error *error)
{
    cuda_device *d = device_of(p);
    size_t slots = round_up(p->slot_count * sizeof(uint32_t)), stamps = round_up(p->stamp_count * sizeof(uint64_t));
    size_t events = round_up(p->event_count * sizeof(uint32_t)), size = 2 * slots + events + stamps;
    if (size == 0)
        return HEARTH_OK;
    CUDA_TRY(d, d->api.host_new(&own->words, size, CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED), "words of the exchange");
    memset(own->words, 0, size);
    cuda_address at = 0;
    CUDA_TRY(d, d->api.host_address(&at, own->words, 0), "words of the exchange");
    own->words_bytes = size;
    own->published = own->words;
    own->answered = (volatile uint32_t *)((char *)own->words + slots);
    own->signalled = (volatile uint32_t *)((char *)own->words + 2 * slots);
    own->stamps = (volatile uint64_t *)((char *)own->words + 2 * slots + events);
    own->published_at = at;
    own->answered_at = at + slots;
    own->signalled_at = at + 2 * slots;
    own->stamps_at = at + 2 * slots + events;
    return HEARTH_OK;
}

/* Returns how many events a program has where the exchange is by events. */
static size_t event_count(const device_program *p)
{
    return (size_t)p->slot_count + p->event_count;
}

static hearth_status make_lists(device_program *p, cuda_program *own, hearth_error *error)
{
    size_t pieces = 1;
    for (size_t i = 0; i < p->command_count; i++)
        pieces += is_exchange(&p->commands[i]);
    bool all = true;
    for (size_t i = 0; i < DEVICE_QUEUES; i++) {
        own->pieces[i].all = p->uses_queue[i] ? mem_new_array(pieces, sizeof *own->pieces[i].all) : NULL;
        all &= !p->uses_queue[i] || own->pieces[i].all != NULL;
    }
    own->events = mem_new_array(event_count(p), sizeof *own->events);
    own->recorded = mem_new_array(event_count(p), sizeof *own->recorded);
    own->publish_at = mem_new_array(p->slot_count, sizeof *own->publish_at);
    if (!all || own->events == NULL || own->recorded == NULL || own->publish_at == NULL)
        return fail_memory(error, "cuda: program", pieces * sizeof(piece));
    return HEARTH_OK;
}

static hearth_status make_events(device_program *p, cuda_program *own, hearth_error *error)
{
    cuda_device *d = device_of(p);
    for (size_t i = 0; i < event_count(p) && d->exchange->how == CUDA_BY_EVENTS; i++)
        CUDA_TRY(d, d->api.event_new(&own->events[i], CUDA_EVENT_UNTIMED), "making an event");
    return HEARTH_OK;
}

/* Builds the graphs of every queue. c: without a graph at the beginning; on failure it may have one. */
static hearth_status build_queues(device_program *p, cuda_program *own, chain *c, hearth_error *error)
{
    for (unsigned i = 0; i < DEVICE_QUEUES; i++) {
        *c = (chain){.d = c->d, .queue = (device_queue)i};
        if (p->uses_queue[i])
            TRY(build_pieces(p, own, c, error));
    }
    return HEARTH_OK;
}

hearth_status cuda_seal(device_program *p, hearth_error *error)
{
    cuda_program *own = mem_new(sizeof *own);
    if (own == NULL)
        return fail_memory(error, "cuda: program", sizeof *own);
    p->own = own;
    chain c = {.d = device_of(p)};
    hearth_status status;
    TRY_OR(end, status, cuda_enter(p->device, error));
    TRY_OR(end, status, make_lists(p, own, error));
    TRY_OR(end, status, make_words(p, own, error));
    TRY_OR(end, status, make_events(p, own, error));
    TRY_OR(end, status, build_queues(p, own, &c, error));
    if (p->stamp_count > 0)
        status = cuda_clock_read(c.d, error);
end:
    if (c.graph != NULL)
        c.d->api.graph_free(c.graph);
    if (status != HEARTH_OK) {
        cuda_program_destroy(p);
        p->own = NULL;
    }
    return status;
}

void cuda_program_destroy(device_program *p)
{
    cuda_program *own = p->own;
    cuda_device *d = device_of(p);
    (void)cuda_enter(p->device, NULL);
    for (size_t queue = 0; queue < DEVICE_QUEUES; queue++) {
        const cuda_pieces *pieces = &own->pieces[queue];
        for (size_t i = 0; pieces->all != NULL && i < pieces->count; i++)
            if (pieces->all[i].graph != NULL)
                d->api.executable_free(pieces->all[i].graph);
        mem_free(pieces->all);
    }
    for (size_t i = 0; own->events != NULL && i < event_count(p); i++) {
        if (own->events[i] != NULL)
            d->api.event_free(own->events[i]);
    }
    if (own->words != NULL)
        d->api.host_free(own->words);
    mem_free(own->events);
    mem_free(own->recorded);
    mem_free(own->publish_at);
    mem_free(own);
}

/* ------------------------------------------------------------------ running */

/* Returns the event of a command of the exchange. */
static size_t event_of(const device_program *p, const device_command *c)
{
    return c->kind == COMMAND_SIGNAL || c->kind == COMMAND_WAIT ? p->slot_count + c->index : c->index;
}

/* Returns whether the next piece of a queue may be started: there is one, and what follows the piece before it, an await or a
 * wait, has come. */
static bool may_start(const device_program *p, device_queue queue)
{
    const cuda_program *own = p->own;
    const cuda_pieces *pieces = &own->pieces[queue];
    if (pieces->next == pieces->count)
        return false;
    const device_command *before = pieces->next > 0 ? pieces->all[pieces->next - 1].follow : NULL;
    if (before && before->kind == COMMAND_AWAIT)
        return own->answered[before->index];
    return !before || before->kind != COMMAND_WAIT || own->recorded[event_of(p, before)];
}

/* Starts the next piece of a queue, and records the event that follows it or makes the stream wait for it. */
static hearth_status start_piece(device_program *p, device_queue queue, hearth_error *error)
{
    cuda_program *own = p->own;
    cuda_device *d = device_of(p);
    cuda_pieces *pieces = &own->pieces[queue];
    const device_command *before = pieces->next > 0 ? pieces->all[pieces->next - 1].follow : NULL;
    const piece *now = &pieces->all[pieces->next++];
    cuda_stream stream = stream_of(d, queue);
    if (before && before->kind == COMMAND_WAIT)
        CUDA_TRY(d, d->api.stream_wait_event(stream, own->events[event_of(p, before)], 0), "waiting");
    if (now->graph != NULL)
        CUDA_TRY(d, d->api.executable_launch(now->graph, stream), "starting");
    if (now->follow && (now->follow->kind == COMMAND_PUBLISH || now->follow->kind == COMMAND_SIGNAL)) {
        CUDA_TRY(d, d->api.event_record(own->events[event_of(p, now->follow)], stream), "publishing");
        own->recorded[event_of(p, now->follow)] = true;
    }
    return HEARTH_OK;
}

/* Starts piece after piece of both queues, as long as any may be started. */
static hearth_status advance(device_program *p, hearth_error *error)
{
    assert(((const cuda_program *)p->own)->pieces[QUEUE_MAIN].all != NULL);
    while (may_start(p, QUEUE_MAIN) || may_start(p, QUEUE_COPY))
        for (unsigned i = 0; i < DEVICE_QUEUES; i++)
            while (may_start(p, (device_queue)i))
                TRY(start_piece(p, (device_queue)i, error));
    return HEARTH_OK;
}

/* Lets both queues run to their ends: nothing waits for the CPU or for the other queue any more, which may be one that cannot
 * begin before this one has ended. */
static void let_go(device_program *p)
{
    cuda_program *own = p->own;
    for (unsigned i = 0; i < p->slot_count; i++)
        __atomic_store_n((uint32_t *)&own->answered[i], 1, __ATOMIC_RELEASE);
    for (unsigned i = 0; i < p->event_count; i++)
        __atomic_store_n((uint32_t *)&own->signalled[i], 1, __ATOMIC_RELEASE);
}

/* Waits for what was started of a run of which a part could not be. */
static void drain(device_program *p)
{
    cuda_device *d = device_of(p);
    let_go(p);
    for (unsigned i = 0; i < DEVICE_QUEUES; i++)
        if (p->uses_queue[i])
            (void)d->api.stream_wait(stream_of(d, (device_queue)i));
}

hearth_status cuda_run(device_program *p, hearth_error *error)
{
    cuda_program *own = p->own;
    cuda_device *d = device_of(p);
    TRY(cuda_enter(p->device, error));
    if (p->stamp_count > 0 && clock_seconds() - d->clock_read_at > clock_seconds_valid)
        TRY(cuda_clock_read(d, error));
    if (p->uses_queue[QUEUE_COPY]) /* it does not wait for what the other stream still writes */
        TRY(cuda_settle(d, error));
    if (own->words != NULL)
        memset(own->words, 0, own->words_bytes);
    if (event_count(p) > 0)
        memset(own->recorded, 0, event_count(p) * sizeof *own->recorded);
    own->failure = (hearth_error){0};
    own->fails_at = p->command_count;
    own->asked = 0;
    for (size_t i = 0; i < DEVICE_QUEUES; i++)
        own->pieces[i].next = 0;
    hearth_status status = advance(p, error);
    if (status != HEARTH_OK)
        drain(p);
    return status;
}

hearth_status cuda_start(device_program *p, hearth_error *error)
{
    size_t fails_at = 0;
    while (fails_at < p->command_count && !device_must_fail())
        fails_at++;
    TRY(cuda_run(p, error));
    ((cuda_program *)p->own)->fails_at = fails_at;
    return HEARTH_OK;
}

/* Reports an error of the device, which then runs nothing more. *idle: no part of the program is running. */
static hearth_status check(device_program *p, bool *idle, hearth_error *error)
{
    cuda_device *d = device_of(p);
    TRY(cuda_enter(p->device, error));
    *idle = true;
    for (unsigned i = 0; i < DEVICE_QUEUES; i++) {
        cuda_result result = p->uses_queue[i] ? d->api.stream_query(stream_of(d, (device_queue)i)) : CUDA_OK;
        *idle &= result != CUDA_NOT_READY;
        if (result != CUDA_OK && result != CUDA_NOT_READY)
            return cuda_fail(d, result, "running a program", error);
    }
    return HEARTH_OK;
}

/* Reports an error of cuda_answer. */
static hearth_status tell_failure(const cuda_program *own, hearth_error *error)
{
    return own->failure.status == HEARTH_OK ? HEARTH_OK : fail(error, own->failure.status, "%s", own->failure.text);
}

/* Polls the word or event of a slot. */
static hearth_status ask_slot(device_program *p, unsigned slot, bool *out, hearth_error *error)
{
    cuda_program *own = p->own;
    cuda_device *d = device_of(p);
    if (d->exchange->how != CUDA_BY_EVENTS) {
        *out = __atomic_load_n((const uint32_t *)&own->published[slot], __ATOMIC_ACQUIRE) != 0;
        return HEARTH_OK;
    }
    *out = false;
    if (!own->recorded[slot])
        return HEARTH_OK;
    TRY(cuda_enter(p->device, error));
    cuda_result result = d->api.event_query(own->events[slot]);
    *out = result == CUDA_OK;
    return result == CUDA_OK || result == CUDA_NOT_READY ? HEARTH_OK : cuda_fail(d, result, "running a program", error);
}

hearth_status cuda_published(device_program *p, unsigned slot, bool *out, hearth_error *error)
{
    cuda_program *own = p->own;
    if (own->publish_at[slot] >= own->fails_at)
        return device_injected(p->device, "running a program", error);
    TRY(ask_slot(p, slot, out, error));
    if (*out || ++own->asked % ASKS_PER_QUERY != 0)
        return HEARTH_OK;
    bool idle;
    TRY(check(p, &idle, error));
    return tell_failure(own, error);
}

void cuda_answer(device_program *p, unsigned slot)
{
    cuda_program *own = p->own;
    if (p->given_up)
        let_go(p);
    __atomic_store_n((uint32_t *)&own->answered[slot], 1, __ATOMIC_RELEASE);
    if (device_of(p)->exchange->how == CUDA_BY_EVENTS && own->failure.status == HEARTH_OK &&
        cuda_enter(p->device, &own->failure) == HEARTH_OK)
        (void)advance(p, &own->failure);
}

hearth_status cuda_done(device_program *p, bool *out, hearth_error *error)
{
    cuda_program *own = p->own;
    bool idle;
    TRY(check(p, &idle, error));
    /* Until the stream is idle, pieces that were started before the failure may still run. */
    if (idle)
        TRY(tell_failure(own, error));
    *out = idle;
    for (size_t i = 0; i < DEVICE_QUEUES; i++)
        *out &= own->pieces[i].next == own->pieces[i].count;
    if (*out && own->fails_at < p->command_count)
        return device_injected(p->device, "running a program", error);
    return HEARTH_OK;
}

double cuda_stamp_seconds(const device_program *p, unsigned stamp)
{
    const cuda_program *own = p->own;
    return 1e-9 * (double)own->stamps[stamp] + device_of(p)->clock_offset;
}
