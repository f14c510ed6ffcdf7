/* draft.c - see draft.h. */
#include "draft.h"

/* What older observations weigh when a new one is added. */
#define RECORD_DECAY 0.9
#define TIMES_DECAY  0.95
/* What is assumed before anything was measured: the share of guesses that hold, counted as so many observations, and what
 * a row adds to a step of one row. */
#define ASSUMED_SHARE   0.6
#define ASSUMED_CHECKED 2.0
#define ASSUMED_ROW     0.25
/* How many rows the assumption about them weighs, in squared rows of observation. */
#define ASSUMED_ROWS 0.5
/* No step is expected to take less than this part of the mean. */
#define LEAST_TIME 0.01
/* What observations still weigh after guesses were not worth it: some time later they are tried again. */
#define SKIP_DECAY 0.97

/* ------------------------------------------------------------------ guesses */

/* Returns how many tokens before `end` and before `count` are the same, at most DRAFT_MATCH. */
static size_t match_length(const int32_t *tokens, size_t end, size_t count)
{
    size_t most = end < DRAFT_MATCH ? end : DRAFT_MATCH, n = 0;
    while (n < most && tokens[end - 1 - n] == tokens[count - 1 - n])
        n++;
    return n;
}

size_t draft_guess(const int32_t *tokens, size_t count, size_t most, int32_t *out, size_t *matched)
{
    size_t best = 0, follows = 0;
    for (size_t end = count; end-- > 1 && best < DRAFT_MATCH;) {
        size_t n = tokens[end - 1] == tokens[count - 1] ? match_length(tokens, end, count) : 0;
        if (n > best) {
            best = n;
            follows = end;
        }
    }
    *matched = best;
    if (best < DRAFT_LEAST)
        return 0;
    size_t n = 0;
    /* What was guessed may itself go on: a period shorter than the guess repeats. */
    for (; n < most; n++)
        out[n] = follows + n < count ? tokens[follows + n] : out[follows + n - count];
    return n;
}

/* ------------------------------------------------------------------ what they are worth */

void draft_note(draft_record *record, size_t matched, size_t held, bool failed)
{
    size_t checked = held + failed;
    for (size_t i = 0; i < checked; i++) {
        record->of[matched].checked = record->of[matched].checked * RECORD_DECAY + 1;
        record->of[matched].held = record->of[matched].held * RECORD_DECAY + (i < held);
    }
}

/* Returns the share of guesses that are expected to hold. */
static double expected_share(const draft_record *record, size_t matched)
{
    double checked = record->of[matched].checked + ASSUMED_CHECKED;
    return (record->of[matched].held + ASSUMED_SHARE * ASSUMED_CHECKED) / checked;
}

void step_times_add(step_times *times, size_t rows, double seconds)
{
    double n = (double)rows;
    step_times *t = times;
    t->weight = t->weight * TIMES_DECAY + 1;
    t->rows = t->rows * TIMES_DECAY + n;
    t->seconds = t->seconds * TIMES_DECAY + seconds;
    t->rows_rows = t->rows_rows * TIMES_DECAY + n * n;
    t->rows_seconds = t->rows_seconds * TIMES_DECAY + n * seconds;
}

/* Returns the expected time of a step. The slope is that of the least squares, drawn to the assumed one as long as steps
 * had hardly differed in their rows. */
static double expected_seconds(const step_times *t, size_t rows)
{
    if (t->weight <= 0)
        return 1 + ASSUMED_ROW * ((double)rows - 1);
    double mean_rows = t->rows / t->weight, mean = t->seconds / t->weight;
    double spread = t->rows_rows - t->rows * mean_rows, together = t->rows_seconds - t->rows * mean;
    double assumed = mean * ASSUMED_ROW / (1 + ASSUMED_ROW * (mean_rows - 1));
    double slope = (together + ASSUMED_ROWS * assumed) / (spread + ASSUMED_ROWS);
    double seconds = mean + (slope > 0 ? slope : 0) * ((double)rows - mean_rows), least = mean * LEAST_TIME;
    return seconds > least ? seconds : least;
}

size_t draft_worth(draft_record *record, const step_times *times, size_t matched, size_t guesses, size_t rows,
                   double guess_seconds)
{
    double share = expected_share(record, matched), chance = 1, tokens = (double)rows;
    double most = tokens / expected_seconds(times, rows);
    size_t best = 0;
    for (size_t n = 1; n <= guesses; n++) {
        chance *= share;
        tokens += chance;
        double seconds = expected_seconds(times, rows + n) + (double)n * guess_seconds;
        if (tokens / seconds > most) {
            most = tokens / seconds;
            best = n;
        }
    }
    if (best == 0) {
        record->of[matched].checked *= SKIP_DECAY;
        record->of[matched].held *= SKIP_DECAY;
    }
    return best;
}
