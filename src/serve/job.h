/* job.h - a request for one or more answers, on its way through the server.
 *
 * A job has two owners: the connection that waits for it, and the driver that computes it. Each lets go of it once, and
 * the last frees it. What the driver reads (prompts, samplers, answers) is complete before the job is sent, and only the
 * driver touches it afterwards; what comes back goes through the outbox. Vectors of embedded prompts have their place in the
 * job, so that they need no memory on the way; the outbox says when each is there. */
#ifndef SERVE_JOB_H
#define SERVE_JOB_H

#include "mailbox.h"
#include "outbox.h"

#include <stdatomic.h>

/* Probabilities of tokens in an answer that is no stream: each takes nearly a kilobyte until the answer is sent. */
#define JOB_PROBABILITIES ((size_t)1 << 20)
/* Text that waits for its reader; a reader who leaves more is given up. */
#define JOB_OUTBOX_BYTES ((size_t)4 << 20)

typedef struct job_prompt {
    int32_t *ids; /* [count], freed with hearth_free */
    size_t count;
} job_prompt;

/* One of the answers of a job. */
typedef struct job_choice {
    struct job *job;
    struct job_choice *next; /* in one of the driver's lists */
    uint32_t number;
    uint32_t prompt; /* index */
    hearth_sampler *sampler;
    hearth_answer *answer;
    /* The driver's. */
    uint64_t request; /* the scheduler's number; 0: it has none */
    bool ended;
    size_t told; /* tokens of the answer            */
    double said; /* time of the last one; 0: none   */
    ending ending;
    event end; /* part of the choice, so that no end is lost for want of memory */
} job_choice;

/* Choices of a job that wait, in order. */
typedef struct choice_list {
    job_choice *first, **last;
} choice_list;

typedef struct job {
    letter letter; /* first */
    atomic_int owners;
    atomic_bool cancelled; /* by the connection, or because nobody reads */
    atomic_int socket;     /* of the connection; -1: it is gone          */
    outbox outbox;
    job_prompt *prompts; /* [prompt_count] */
    size_t prompt_count;
    hearth_grammar *grammar; /* of all answers; NULL: any text */
    job_choice *choices;     /* [choice_count] */
    size_t choice_count;
    bool streams;             /* its client reads answers as they come   */
    bool wants_probabilities; /* of each token of the answer             */
    bool scores_prompt;       /* and of the prompt                       */
    uint32_t candidate_count; /* likeliest tokens reported at each place */
    uint32_t most_tokens;     /* of each answer; of scored prompts 0 is none at all */
    double arrived;           /* time */
    struct driver *driver;    /* that computes it */
    /* [choice_count][embedding_length] of prompts that are embedded, each written before the end of its choice is told;
     * NULL: nothing is embedded. */
    float *vectors;
    size_t per_place; /* choices that count as one answer in the mailbox */
    /* The driver's. */
    struct job *next, *previous; /* all that have not ended     */
    double beat;                 /* time of its last token or beat; 0: none */
    bool is_too_slow;            /* its client                  */
    choice_list unread;          /* choices whose prompt is to be scored, and is not yet */
    choice_list waiting;         /* that have no place yet      */
    uint64_t turn;  /* when it came, or when the scorer took one of its choices: the number of such moments before */
    size_t running; /* choices that have a place   */
    size_t left;    /* choices that have not ended */
    size_t probabilities; /* told so far                 */
} job;

/* The job has one owner until it is sent. NULL: no memory. */
job *job_new(size_t prompts, size_t choices);
/* Appends a choice to one of its job's lists; takes the first one off, which there is. */
void choice_list_add(choice_list *l, job_choice *c);
job_choice *choice_list_take(choice_list *l);
/* Another owner. */
void job_share(job *j);
/* Returns whether its prompts are read by the scorer. */
bool job_is_scored(const job *j);
/* Returns the answers that its first `choices` choices count as. */
size_t job_places(const job *j, size_t choices);
/* Frees what an answer needs while it is written, which may be megabytes; others of its job may go on for long. */
void job_choice_empty(job_choice *c);
/* Lets go of a job; NULL: of none. */
void job_release(job *j);

#endif
