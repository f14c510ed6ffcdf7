/* measure.c - measures bandwidths and latencies of a device through its public interface. The CPU takes the times, from
 * starting a program to seeing its end. */
#include "measure.h"

#include "../base/clock.h"
#include "../base/median.h"
#include "../base/memory.h"
#include "../base/random.h"

#include <assert.h>
#include <string.h>

enum {
    MOST_READ_BYTES = 256000000, /* far more than any cache holds */
    MOST_COPY_BYTES = 64000000,  /* enough to measure a bus without taking much main memory */
    MOST_REPEATS = 4096,         /* commands of one timed program */
    BEST_OF = 3,
    SHARE = 10, /* one of so many rows is listed for a token, as where a tenth of the neurons fire */
    EXCHANGES = 100,
    STARTS = 51
};

/* The least duration of a timed program, so that the time to start it hardly counts. */
static const double enough_seconds = 20e-3;

typedef struct meter {
    device *d;
    device_buffer *step, *data, *sums, *pinned;
    size_t data_bytes, copy_bytes;
    /* For scattered rows of float32, which take the least work per byte. */
    device_buffer *lists, *listed, *input, *products;
    size_t columns, stride; /* stride: of lists and products, by token */
} meter;

/* ------------------------------------------------------------------ what is timed */

/* Reads all of `data` with a kernel. */
static void record_read(const meter *m, device_program *p)
{
    size_t items = m->data_bytes / READ_BYTES;
    const device_argument arguments[] = {BUFFER(m->step), BUFFER(m->data), BUFFER(m->sums), UINT(items)};
    device_launch(p, DEVICE_read, items, arguments, sizeof arguments / sizeof *arguments);
}

static void record_copy_to(const meter *m, device_program *p)
{
    device_copy(p, m->data, 0, m->pinned, 0, m->copy_bytes);
}

static void record_copy_from(const meter *m, device_program *p)
{
    device_copy(p, m->pinned, 0, m->data, 0, m->copy_bytes);
}

/* Launches a kernel that does no work, because the step has no rows. */
static void record_idle_kernel(const meter *m, device_program *p)
{
    const device_argument arguments[] = {BUFFER(m->step), BUFFER(m->data), BUFFER(m->sums), UINT(1)};
    device_launch(p, DEVICE_argmax, STEP_ROWS, arguments, sizeof arguments / sizeof *arguments);
}

/* Multiplies the listed rows of `data` with all tokens. */
static void record_rows(const meter *m, device_program *p)
{
    const device_argument arguments[] = {BUFFER(m->step),   BUFFER(m->data),  NO_BUFFER,           BUFFER(m->lists),
                                         BUFFER(m->listed), BUFFER(m->input), BUFFER(m->products), UINT(m->stride),
                                         UINT(m->columns),  UINT(m->stride),  UINT(FINISH_STORE)};
    device_launch(p, DEVICE_product_f32, (m->stride + PRODUCT_ROWS - 1) / PRODUCT_ROWS, arguments,
                  sizeof arguments / sizeof *arguments);
}

/* Fills `data`: memory that was never written may be a single page of zeros, mapped many times. */
static void record_fill(const meter *m, device_program *p)
{
    for (size_t at = 0; at < m->data_bytes; at += m->copy_bytes) {
        size_t left = m->data_bytes - at;
        device_copy(p, m->data, at, m->pinned, 0, left < m->copy_bytes ? left : m->copy_bytes);
    }
}

typedef void recorder(const meter *m, device_program *p);

/* ------------------------------------------------------------------ rates */

/* Records `what` `repeats` times in one program and runs it; *out is the shortest of `runs` times, in seconds. */
static hearth_status time_program(const meter *m, recorder *what, size_t repeats, unsigned runs, double *out,
                                  hearth_error *error)
{
    device_program *p;
    TRY(device_program_create(&p, m->d, 0, 0, error));
    for (size_t i = 0; i < repeats; i++)
        what(m, p);
    hearth_status status;
    TRY_OR(done, status, device_program_seal(p, error));
    for (unsigned i = 0; i < runs; i++) {
        double begin = clock_seconds();
        TRY_OR(done, status, device_start(p, error));
        TRY_OR(done, status, device_finish(p, error));
        double seconds = clock_seconds() - begin;
        if (i == 0 || seconds < *out)
            *out = seconds;
    }
done:
    device_program_destroy(p);
    return status;
}

/* Measures bytes per second; doubles the number of commands until they take enough_seconds. */
static hearth_status measure_rate(const meter *m, recorder *what, size_t size_bytes, double *out, hearth_error *error)
{
    double seconds;
    TRY(time_program(m, what, 1, 2, &seconds, error)); /* the first run warms up */
    size_t repeats = 1;
    while (repeats < MOST_REPEATS && (double)repeats * seconds < enough_seconds)
        repeats *= 2;
    TRY(time_program(m, what, repeats, BEST_OF, &seconds, error));
    *out = (double)size_bytes * (double)repeats / seconds;
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ latencies */

static void record_nothing(const meter *m, device_program *p)
{
    (void)m;
    (void)p;
}

static hearth_status run_starts(device_program *p, double *out, hearth_error *error)
{
    double seconds[STARTS];
    TRY(device_program_seal(p, error));
    for (size_t i = 0; i < STARTS; i++) {
        double begin = clock_seconds();
        TRY(device_start(p, error));
        TRY(device_finish(p, error));
        seconds[i] = clock_seconds() - begin;
    }
    *out = median(seconds, STARTS);
    return HEARTH_OK;
}

static hearth_status measure_start(const meter *m, double *out, hearth_error *error)
{
    device_program *p;
    TRY(device_program_create(&p, m->d, 0, 0, error));
    hearth_status status = run_starts(p, out, error);
    device_program_destroy(p);
    return status;
}

/* Times the exchanges of a program: from each answer until the next slot is seen. */
static hearth_status run_exchanges(device_program *p, double *out, hearth_error *error)
{
    double seconds[EXCHANGES], answered = 0;
    TRY(device_program_seal(p, error));
    for (unsigned run = 0; run < 2; run++) { /* the first warms up */
        TRY(device_start(p, error));
        for (unsigned slot = 0; slot <= EXCHANGES; slot++) {
            TRY(device_await_published(p, slot, error));
            double now = clock_seconds();
            if (slot > 0)
                seconds[slot - 1] = now - answered;
            answered = now;
            device_answer(p, slot);
        }
        TRY(device_finish(p, error));
    }
    *out = median(seconds, EXCHANGES);
    return HEARTH_OK;
}

/* Measures the median exchange, with `between` recorded after each await. */
static hearth_status measure_exchange(const meter *m, recorder *between, double *out, hearth_error *error)
{
    device_program *p;
    TRY(device_program_create(&p, m->d, EXCHANGES + 1, 0, error));
    for (unsigned slot = 0; slot <= EXCHANGES; slot++) {
        device_publish(p, slot);
        device_await(p, slot);
        between(m, p);
    }
    hearth_status status = run_exchanges(p, out, error);
    device_program_destroy(p);
    return status;
}

/* ------------------------------------------------------------------ all of it */

/* Allocates the buffers within half of the budget that is left, and fills `data`. */
static hearth_status prepare(meter *m, hearth_error *error)
{
    device_info info;
    device_describe(m->d, &info);
    uint64_t half = (info.budget_bytes - info.used_bytes) / 2;
    size_t items = (size_t)(half < MOST_READ_BYTES ? half : MOST_READ_BYTES) / READ_BYTES;
    m->data_bytes = (items > 0 ? items : 1) * READ_BYTES;
    m->copy_bytes = m->data_bytes < MOST_COPY_BYTES ? m->data_bytes : MOST_COPY_BYTES;
    static const char what[] = "measuring";
    TRY(device_buffer_create(&m->data, m->d, DEVICE_MEMORY, m->data_bytes, what, error));
    TRY(device_buffer_create(&m->sums, m->d, DEVICE_MEMORY, m->data_bytes / READ_BYTES * sizeof(uint32_t), what,
                             error));
    TRY(device_buffer_create(&m->step, m->d, DEVICE_MEMORY, sizeof(step_record), what, error));
    TRY(device_buffer_create(&m->pinned, m->d, DEVICE_PINNED, m->copy_bytes, what, error));
    memset(device_buffer_host(m->pinned), 1, m->copy_bytes);
    double unused;
    return time_program(m, record_fill, 1, 1, &unused, error);
}

static hearth_status measure_all(meter *m, device_figures *out, hearth_error *error)
{
    TRY(prepare(m, error));
    TRY(measure_rate(m, record_read, m->data_bytes, &out->read_rate, error));
    TRY(measure_rate(m, record_copy_to, m->copy_bytes, &out->to_device_rate, error));
    TRY(measure_rate(m, record_copy_from, m->copy_bytes, &out->from_device_rate, error));
    TRY(measure_start(m, &out->start_seconds, error));
    TRY(measure_exchange(m, record_nothing, &out->exchange_seconds, error));
    return measure_exchange(m, record_idle_kernel, &out->kernel_seconds, error);
}

static void release(meter *m)
{
    device_buffer *all[] = {m->products, m->input, m->listed, m->lists, m->pinned, m->step, m->sums, m->data};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        device_buffer_destroy(all[i]);
}

hearth_status device_measure(device *d, device_figures *out, hearth_error *error)
{
    meter m = {.d = d};
    *out = (device_figures){0};
    hearth_status status = measure_all(&m, out, error);
    release(&m);
    return status;
}

static hearth_status measure_read(meter *m, double *out, hearth_error *error)
{
    TRY(prepare(m, error));
    return measure_rate(m, record_read, m->data_bytes, out, error);
}

hearth_status device_measure_read(device *d, double *out, hearth_error *error)
{
    meter m = {.d = d};
    hearth_status status = measure_read(&m, out, error);
    release(&m);
    return status;
}

/* ------------------------------------------------------------------ scattered rows */

/* Deals `rows` rows among SHARE lists by chance; those of the first STEP_ROWS are the tokens'. lists [STEP_ROWS][rows],
 * each ascending; *longest: of their lengths. */
static void deal_rows(uint32_t *lists, uint32_t lengths[STEP_ROWS], size_t rows, size_t *longest)
{
    memset(lengths, 0, STEP_ROWS * sizeof *lengths);
    for (uint32_t row = 0; row < rows; row++) {
        uint64_t token = random_at(rows, row) % SHARE;
        if (token < STEP_ROWS)
            lists[token * rows + lengths[token]++] = row;
    }
    *longest = 0;
    for (size_t t = 0; t < STEP_ROWS; t++) {
        if (lengths[t] == 0) /* so few rows fit into the budget that chance left a token without: the first */
            lists[t * rows + lengths[t]++] = 0;
        *longest = lengths[t] > *longest ? lengths[t] : *longest;
    }
}

/* Allocates and fills what record_rows needs; lists [STEP_ROWS][rows]. */
static hearth_status upload_lists(meter *m, const uint32_t *lists, const uint32_t lengths[STEP_ROWS], size_t rows,
                                  hearth_error *error)
{
    static const char what[] = "measuring";
    const step_record step = {.count = STEP_ROWS};
    size_t list_bytes = m->stride * sizeof *lists;
    TRY(device_buffer_create(&m->lists, m->d, DEVICE_MEMORY, STEP_ROWS * list_bytes, what, error));
    TRY(device_buffer_create(&m->listed, m->d, DEVICE_MEMORY, STEP_ROWS * sizeof *lengths, what, error));
    TRY(device_buffer_create(&m->input, m->d, DEVICE_MEMORY, STEP_ROWS * m->columns * sizeof(float), what, error));
    TRY(device_buffer_create(&m->products, m->d, DEVICE_MEMORY, STEP_ROWS * m->stride * sizeof(float), what, error));
    for (size_t t = 0; t < STEP_ROWS; t++)
        TRY(device_write(m->lists, t * list_bytes, lists + t * rows, lengths[t] * sizeof *lists, error));
    TRY(device_write(m->listed, 0, lengths, STEP_ROWS * sizeof *lengths, error));
    return device_write(m->step, 0, &step, sizeof step, error);
}

static hearth_status measure_rows(meter *m, size_t row_bytes, double *out, hearth_error *error)
{
    uint32_t lengths[STEP_ROWS];
    size_t listed = 0;
    TRY(prepare(m, error));
    size_t rows = m->data_bytes / row_bytes;
    uint32_t *lists = mem_new_array(STEP_ROWS * rows, sizeof *lists);
    if (!lists)
        return fail_memory(error, "measuring: lists of rows", STEP_ROWS * rows * sizeof *lists);
    deal_rows(lists, lengths, rows, &m->stride);
    for (size_t t = 0; t < STEP_ROWS; t++)
        listed += lengths[t];
    m->columns = row_bytes / sizeof(float);
    hearth_status status = upload_lists(m, lists, lengths, rows, error);
    mem_free(lists);
    TRY(status);
    return measure_rate(m, record_rows, listed * row_bytes, out, error);
}

hearth_status device_measure_rows(device *d, size_t row_bytes, double *out, hearth_error *error)
{
    meter m = {.d = d};
    assert(row_bytes > 0 && row_bytes % 64 == 0 && row_bytes <= READ_BYTES);
    hearth_status status = measure_rows(&m, row_bytes, out, error);
    release(&m);
    return status;
}
