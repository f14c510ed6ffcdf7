/* scorer.h - reads prompts for what is known of their own tokens: probabilities (`echo` with `logprobs`, what evaluations
 * need), or hidden states, which are pooled to one vector (/v1/embeddings).
 *
 * The scheduler hands out logits of answers only. So such a prompt is read in a session of its own, with one sequence, a
 * part at a time, between the steps of the scheduler: others wait for a part, not for a prompt. It costs a second cache of
 * keys and values for one sequence (taken when the first such request comes), and prompts are read one after the other,
 * not together. An answer of one token is taken from the prompt's last logits; a longer one reads the prompt again, in the
 * scheduler. */
#ifndef SERVE_SCORER_H
#define SERVE_SCORER_H

#include "job.h"
#include "pooling.h"

typedef struct scorer scorer;

/* options: of the session; its sequences and output rows are the scorer's own. how: of prompts that are embedded. */
hearth_status scorer_create(scorer **out, const hearth_engine *engine, const hearth_session_options *options,
                            pooling how, hearth_error *error);
void scorer_destroy(scorer *s);
/* Ends a part that is being read; from any thread. */
void scorer_cancel(scorer *s);
/* Takes a choice of a job that is scored (job_is_scored). The scorer is not busy. */
void scorer_begin(scorer *s, job_choice *c);
bool scorer_is_busy(const scorer *s);

typedef enum scorer_result {
    SCORER_GOES_ON,
    SCORER_SCORED, /* the prompt has been told; the answer is still to be written */
    SCORER_ENDED   /* also the answer, or the prompt is embedded: c->ending is filled in */
} scorer_result;

/* Reads a part of the prompt; *done is its choice, which is the caller's again unless it goes on. The scorer is busy. */
scorer_result scorer_step(scorer *s, job_choice **done);

/* Fills in the ending of a choice that failed. */
void choice_fail(job_choice *c, hearth_status status, const char *code, const char *text);
/* Puts an event of a token with its probabilities into the job's outbox; logits [vocabulary], NULL: none. false: the
 * job is to be given up; the ending says why. */
bool choice_tell(job_choice *c, event_kind kind, int32_t token, span text, const float *logits, size_t vocabulary);

#endif
