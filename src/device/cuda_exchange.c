/* cuda_exchange.c - the exchange between the CPU and a CUDA device while a program runs, and the device's clock.
 * docs/decisions/005-the-exchange.md gives the reasons for this design.
 *
 * A slot has two words in pinned main memory. To publish, the program sets the first to 1. At an await, it waits until
 * the CPU has set the second. There are three ways to access these words on the device:
 *
 *     kernel   kernels of one thread, or of one block that copies as well
 *     memory   stream memory operations, as nodes of the graph, without starting a kernel
 *     events   no access: the graph is cut there; the CPU polls an event and starts the next piece itself
 *
 * An event of two queues (device_signal) is a word that one sets and the other waits for, in the same ways; with events the
 * graphs are cut there too, and one stream waits for an event of the other.
 */
#include "cuda_device.h"

#include "../base/wait.h"

#include <stdlib.h>
#include <string.h>

/* How long to spin before offering this core to others. A GPU answers within microseconds. */
static const double eager_seconds = 100e-6;

/* How `send` and `receive` begin; how the lanes of a block copy. */
#define JOINED(name)                                                                                   \
    ".visible .entry " name "(.param .u64 to, .param .u64 from, .param .u32 size, .param .u64 word)\n" \
    "{\n"                                                                                              \
    "    .reg .u64 %to, %from, %word, %offset, %source, %target;\n"                                    \
    "    .reg .u32 %lane, %lanes, %step, %at, %whole, %size, %value, %a, %b, %c, %d;\n"                \
    "    .reg .pred %beyond, %first;\n"                                                                \
    "    ld.param.u64 %word, [word];\n"                                                                \
    "    mov.u32 %lane, %tid.x;\n"                                                                     \
    "    setp.eq.u32 %first, %lane, 0;\n"
#define COPY_TOGETHER                                              \
    "    ld.param.u64 %to, [to];\n"                                \
    "    ld.param.u64 %from, [from];\n"                            \
    "    ld.param.u32 %size, [size];\n"                            \
    "    mov.u32 %lanes, %ntid.x;\n"                               \
    "    shl.b32 %step, %lanes, 4;\n"                              \
    "    shl.b32 %at, %lane, 4;\n"                                 \
    "    and.b32 %whole, %size, -16;\n"                            \
    "vectors:\n"                                                   \
    "    setp.ge.u32 %beyond, %at, %whole;\n"                      \
    "    @%beyond bra bytes;\n"                                    \
    "    cvt.u64.u32 %offset, %at;\n"                              \
    "    add.u64 %source, %from, %offset;\n"                       \
    "    add.u64 %target, %to, %offset;\n"                         \
    "    ld.volatile.global.v4.u32 {%a, %b, %c, %d}, [%source];\n" \
    "    st.global.v4.u32 [%target], {%a, %b, %c, %d};\n"          \
    "    add.u32 %at, %at, %step;\n"                               \
    "    bra vectors;\n"                                           \
    "bytes:\n"                                                     \
    "    add.u32 %at, %whole, %lane;\n"                            \
    "    setp.ge.u32 %beyond, %at, %size;\n"                       \
    "    @%beyond bra copied;\n"                                   \
    "    cvt.u64.u32 %offset, %at;\n"                              \
    "    add.u64 %source, %from, %offset;\n"                       \
    "    add.u64 %target, %to, %offset;\n"                         \
    "    ld.volatile.global.u8 %a, [%source];\n"                   \
    "    st.global.u8 [%target], %a;\n"                            \
    "copied:\n"

/* The driver's own kernels, in PTX, so that they do not depend on how the other kernels were compiled. volatile
 * bypasses the caches; membar.sys makes earlier writes visible to the CPU first. The spinning kernel `await` needs no
 * exit of its own, because giving up a program sets all its words. `copy` moves 16 bytes per thread; one more thread
 * copies the remaining bytes one by one. `send` is copy and then publish, and `receive` is await and then copy, each by one
 * block: a launch less on either way, and there is nothing but the word to wait for in between. */
// clang-format off
static const char own_kernels[] =
    ".version 6.0\n"
    ".target sm_60\n"
    ".address_size 64\n"
    ".visible .entry publish(.param .u64 word)\n"
    "{\n"
    "    .reg .u64 %at;\n"
    "    ld.param.u64 %at, [word];\n"
    "    membar.sys;\n"
    "    st.volatile.global.u32 [%at], 1;\n"
    "    ret;\n"
    "}\n"
    ".visible .entry await(.param .u64 word)\n"
    "{\n"
    "    .reg .u64 %at;\n"
    "    .reg .u32 %value;\n"
    "    .reg .pred %zero;\n"
    "    ld.param.u64 %at, [word];\n"
    "again:\n"
    "    ld.volatile.global.u32 %value, [%at];\n"
    "    setp.eq.u32 %zero, %value, 0;\n"
    "    @%zero bra again;\n"
    "    membar.sys;\n"
    "    ret;\n"
    "}\n"
    ".visible .entry stamp(.param .u64 word)\n"
    "{\n"
    "    .reg .u64 %at, %now;\n"
    "    ld.param.u64 %at, [word];\n"
    "    mov.u64 %now, %globaltimer;\n"
    "    st.volatile.global.u64 [%at], %now;\n"
    "    ret;\n"
    "}\n"
    ".visible .entry copy(.param .u64 to, .param .u64 from, .param .u32 size)\n"
    "{\n"
    "    .reg .u64 %to, %from, %offset;\n"
    "    .reg .u32 %group, %lanes, %lane, %i, %size, %whole, %at, %a, %b, %c, %d;\n"
    "    .reg .pred %beyond;\n"
    "    ld.param.u64 %to, [to];\n"
    "    ld.param.u64 %from, [from];\n"
    "    ld.param.u32 %size, [size];\n"
    "    mov.u32 %group, %ctaid.x;\n"
    "    mov.u32 %lanes, %ntid.x;\n"
    "    mov.u32 %lane, %tid.x;\n"
    "    mad.lo.u32 %i, %group, %lanes, %lane;\n"
    "    shl.b32 %at, %i, 4;\n"
    "    cvt.u64.u32 %offset, %at;\n"
    "    add.u64 %to, %to, %offset;\n"
    "    add.u64 %from, %from, %offset;\n"
    "    shr.u32 %whole, %size, 4;\n"
    "    setp.ge.u32 %beyond, %i, %whole;\n"
    "    @%beyond bra rest;\n"
    "    ld.volatile.global.v4.u32 {%a, %b, %c, %d}, [%from];\n"
    "    st.global.v4.u32 [%to], {%a, %b, %c, %d};\n"
    "    ret;\n"
    "rest:\n"
    "    setp.gt.u32 %beyond, %i, %whole;\n"
    "    @%beyond ret;\n"
    "next:\n"
    "    setp.ge.u32 %beyond, %at, %size;\n"
    "    @%beyond ret;\n"
    "    ld.volatile.global.u8 %a, [%from];\n"
    "    st.global.u8 [%to], %a;\n"
    "    add.u64 %to, %to, 1;\n"
    "    add.u64 %from, %from, 1;\n"
    "    add.u32 %at, %at, 1;\n"
    "    bra next;\n"
    "}\n"
    JOINED("send")
    COPY_TOGETHER
    "    membar.sys;\n"
    "    bar.sync 0;\n"
    "    @!%first ret;\n"
    "    membar.sys;\n"
    "    st.volatile.global.u32 [%word], 1;\n"
    "    ret;\n"
    "}\n"
    JOINED("receive")
    "    @!%first bra together;\n"
    "again:\n"
    "    ld.volatile.global.u32 %value, [%word];\n"
    "    setp.eq.u32 %beyond, %value, 0;\n"
    "    @%beyond bra again;\n"
    "    membar.sys;\n"
    "together:\n"
    "    bar.sync 0;\n"
    COPY_TOGETHER
    "    ret;\n"
    "}\n";
// clang-format on

const char *cuda_exchange_ptx(void)
{
    return own_kernels;
}

/* The ways, in the order in which they are tried. */
static const cuda_exchange exchanges[] = {
    {"kernel", "a spinning kernel", CUDA_BY_KERNEL},
    {"memory", "stream memory operations", CUDA_BY_MEMORY},
    {"events", "events, the graph cut in pieces", CUDA_BY_EVENTS},
};

enum { EXCHANGES = sizeof exchanges / sizeof *exchanges };

/* ------------------------------------------------------------------ the clock */

/* Takes the least offset of several readings. The CPU sees each stamp only after the device wrote it, so every reading
 * is an upper bound of the true offset, and the quickest one is the closest. The error is the time across the bus,
 * about a microsecond. */
hearth_status cuda_clock_read(cuda_device *d, hearth_error *error)
{
    enum { READINGS = 8 };
    double best = 0;
    for (int i = 0; i < READINGS; i++) {
        *d->clock_word = 0;
        void *parameters[] = {&d->clock_address};
        CUDA_TRY(d, d->api.launch(d->own[CUDA_OWN_stamp], 1, 1, 1, 1, 1, 1, 0, d->stream, parameters, NULL),
                 "reading its clock");
        for (waiter w = {0}; *d->clock_word == 0 && wait_once(&w, eager_seconds) < 0.1;)
            ;
        bool came = *d->clock_word != 0;
        double seen = clock_seconds();
        CUDA_TRY(d, d->api.stream_wait(d->stream), "reading its clock");
        seen = came ? seen : clock_seconds(); /* a device that is busy with others: late, but a bound as well */
        double offset = seen - 1e-9 * (double)*d->clock_word;
        if (i == 0 || offset < best)
            best = offset;
    }
    d->clock_offset = best;
    d->clock_read_at = clock_seconds();
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ choosing */

typedef hearth_status ask_function(device_program *p, bool *out, hearth_error *error);

static hearth_status ask_published(device_program *p, bool *out, hearth_error *error)
{
    return cuda_published(p, 0, out, error);
}

/* Spins until `ask` says yes, for at most a second. */
static hearth_status spin(device_program *p, ask_function *ask, hearth_error *error)
{
    bool published = false;
    for (waiter w = {0}; !published;) {
        TRY(ask(p, &published, error));
        if (!published && wait_once(&w, eager_seconds) > 1)
            return fail(error, HEARTH_DEVICE, "cuda:%u: the exchange does not come back", p->device->options.index);
    }
    return HEARTH_OK;
}

/* Runs one round trip twice, to test that the words are reset in between. */
static hearth_status go_round(device_program *p, hearth_error *error)
{
    for (int i = 0; i < 2; i++) {
        TRY(cuda_run(p, error));
        hearth_status status = spin(p, ask_published, error);
        cuda_answer(p, 0);
        hearth_status ended = spin(p, cuda_done, status == HEARTH_OK ? error : NULL);
        TRY(status != HEARTH_OK ? status : ended);
    }
    return HEARTH_OK;
}

/* Tests one way with a small program. Sets d->stuck if that program hangs. */
static hearth_status try_exchange(cuda_device *d, const cuda_exchange *way, hearth_error *error)
{
    d->exchange = way;
    device_command commands[] = {
        {.kind = COMMAND_STAMP}, {.kind = COMMAND_PUBLISH}, {.kind = COMMAND_AWAIT}, {.kind = COMMAND_STAMP}};
    device_program p = {.device = &d->base,
                        .slot_count = 1,
                        .stamp_count = 1,
                        .commands = commands,
                        .command_count = sizeof commands / sizeof *commands,
                        .uses_queue = {[QUEUE_MAIN] = true}};
    TRY(cuda_seal(&p, error));
    hearth_status status = go_round(&p, error);
    d->stuck = status != HEARTH_OK && d->api.stream_query(d->stream) == CUDA_NOT_READY;
    if (!d->stuck)
        cuda_program_destroy(&p);
    return status;
}

/* Returns the setting that makes a queue wait for ever that waits for a word: launches return only when what they launched has
 * ended; or all streams are one queue of the device, so that the other never begins. NULL: none is set so. */
static const char *endless_setting(void)
{
    const char *blocks = getenv("CUDA_LAUNCH_BLOCKING"), *queues = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    if (blocks && *blocks && strcmp(blocks, "0") != 0)
        return "CUDA_LAUNCH_BLOCKING is set";
    return queues && strcmp(queues, "1") == 0 ? "CUDA_DEVICE_MAX_CONNECTIONS is 1" : NULL;
}

/* Takes the first way that works. If none works, reports the error of the first; later ones are only fallbacks. */
hearth_status cuda_exchange_choose(cuda_device *d, hearth_error *error)
{
    const char *wanted = d->base.options.exchange;
    hearth_error reasons[EXCHANGES] = {0};
    hearth_status first = HEARTH_OK;
    const char *text = "";
    for (size_t i = 0; i < EXCHANGES && first != HEARTH_NO_MEMORY && !d->stuck; i++) {
        bool limited = d->kernels_limited && exchanges[i].how == CUDA_BY_KERNEL; /* the CPU may take longer */
        if (*wanted ? strcmp(wanted, exchanges[i].name) != 0 : limited)
            continue;
        const char *hangs = exchanges[i].how == CUDA_BY_EVENTS ? NULL : endless_setting();
        hearth_status status = hangs ? fail(&reasons[i], HEARTH_DEVICE, "cuda:%u: %s", d->base.options.index, hangs)
                                     : try_exchange(d, &exchanges[i], &reasons[i]);
        if (status == HEARTH_OK) {
            d->base.exchange = exchanges[i].text;
            return HEARTH_OK;
        }
        if (first == HEARTH_OK) {
            first = status;
            text = reasons[i].text;
        }
    }
    return fail(error, first, "%s", text);
}
