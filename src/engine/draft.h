/* draft.h - guesses the next tokens of a sequence, which the model then checks in one step.
 *
 * Text repeats itself: code its names, an answer its question. Where the last tokens of a sequence occurred before, what
 * followed them then is a guess for what follows now (Yang et al. 2023, arXiv 2304.04487; Saxena 2023, prompt lookup
 * decoding). A step that reads the next token and some guesses behind it gives the logits behind each, so guesses that
 * the sampler would have chosen as well cost no step of their own; the others are taken back. The text is the same as
 * without guesses.
 *
 * A guess costs one more row in a step. How many are worth it follows from what was measured: how often guesses held, and
 * how much longer steps with more rows took. */
#ifndef ENGINE_DRAFT_H
#define ENGINE_DRAFT_H

#include "../kernel/kernel.h"

#define DRAFT_MOST  (FEW_TOKENS - 1) /* guesses in a step: with more rows each would get other last digits than alone */
#define DRAFT_MATCH 8                /* tokens that a match is followed back */
#define DRAFT_LEAST 2                /* tokens that must match */

/* Guesses what follows tokens [count]: what followed the longest run of at most DRAFT_MATCH tokens that they end with and
 * that occurred before, the last one of the longest. Writes at most `most` tokens to out and returns how many; *matched is
 * the length of the run. 0: there is no run of DRAFT_LEAST tokens. */
size_t draft_guess(const int32_t *tokens, size_t count, size_t most, int32_t *out, size_t *matched);

/* How often guesses of a sequence held, by the length of the match that they came from. Older ones count less. A zeroed
 * record knows nothing. */
typedef struct draft_record {
    struct {
        double checked, held;
    } of[DRAFT_MATCH + 1];
} draft_record;

/* Notes that of the guesses behind a match of `matched` tokens `held` held, and whether the one behind them was checked
 * and did not. */
void draft_note(draft_record *record, size_t matched, size_t held, bool failed);

/* How long steps take, by their rows: seconds = of_step + rows * of_row, fitted to the last steps. A zeroed record knows
 * nothing and assumes that a row adds a quarter to the time of a step of one. */
typedef struct step_times {
    double weight, rows, seconds, rows_rows, rows_seconds; /* sums over steps, older ones count less */
} step_times;

void step_times_add(step_times *times, size_t rows, double seconds);

/* Returns how many of `guesses` guesses behind a match of `matched` tokens to read in a step that has `rows` rows without
 * them: as many as give the most tokens per second, where making a guess takes so many seconds. Where that is none, what
 * the record knows of such matches fades. */
size_t draft_worth(draft_record *record, const step_times *times, size_t matched, size_t guesses, size_t rows,
                   double guess_seconds);

#endif
