/* driver.h - the thread that computes: it alone uses the session and its scheduler.
 *
 * It takes jobs from its mailbox, lets the scheduler step as long as there is one, and puts what comes of it into the
 * jobs' outboxes. Between steps it ends jobs whose client has gone. Threads that speak HTTP never compute. */
#ifndef SERVE_DRIVER_H
#define SERVE_DRIVER_H

#include "job.h"
#include "live.h"
#include "metrics.h"
#include "pooling.h"
#include "saved.h"
#include "ticket_lock.h"

typedef struct driver driver;

typedef struct driver_options {
    hearth_session_options session;
    uint32_t prompt_rows;   /* of a step; 0: the scheduler's own choice */
    uint32_t queue;         /* most answers that wait                   */
    pooling pooling;        /* of prompts that are embedded             */
    uint32_t beat;          /* seconds after which a silent stream says that it is worked on; 0: it never does */
    ticket_lock *computing; /* held for each step; NULL: nobody else computes */
    metrics *metrics;
    double predicted;            /* tokens per second of one answer, by the plan; 0: unknown */
    const char *folder, *name;   /* of what is kept, see saved.h; folder NULL: nothing is */
    void (*on_lost)(void *user); /* called once, from the thread, when the device has failed for good */
    void *user;
} driver_options;

/* Takes the session's memory and starts the thread. */
hearth_status driver_create(driver **out, const hearth_engine *engine, const driver_options *options,
                            hearth_error *error);
/* Refuses jobs from now on, and ends the present step as soon as its layer is done. Where several drivers share a lock, all of
 * them are asked before the first is waited for. */
void driver_ask_stop(driver *d);
/* Does the same, and waits until all jobs and the thread have ended. */
void driver_stop(driver *d);
/* Stops it if it runs, and stores what was read in the folder, if one was named and the device is well. */
hearth_status driver_save(driver *d, hearth_error *error);
/* Stops it if it runs, and frees it. */
void driver_destroy(driver *d);

/* Shares in a complete job. MAILBOX_FULL: too many wait; MAILBOX_CLOSED: it was stopped. */
mailbox_result driver_send(driver *d, job *j);
/* Asks to end a job: its client has gone. */
void driver_cancel(driver *d, job *j);

/* Returns the most answers (job_places) of one job that could ever be taken, and the positions of a sequence. */
size_t driver_room(const driver *d);
uint32_t driver_context(const driver *d);
/* Returns what the folder had; all zero where none was named. */
const saved_found *driver_saved(const driver *d);
/* Returns false once the device has failed; then *error says how. */
bool driver_is_well(driver *d, hearth_error *error);

/* An answer that is being written. */
typedef struct driver_answer {
    size_t prompt_tokens, answer_tokens;
    double seconds; /* since it came */
} driver_answer;

/* Copies what is known of the answers that were being written after the last step, oldest first, at most `most`. Returns
 * their number. *running, *waiting: of all answers. */
size_t driver_list(driver *d, driver_answer *out, size_t most, size_t *running, size_t *waiting);

/* Returns what the live view shows, see live_json. */
json_t *driver_live(driver *d);

#endif
