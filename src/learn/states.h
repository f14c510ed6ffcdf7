/* states.h - stores hidden states of a corpus on disk: for chosen tokens and every layer, the possible inputs of a
 * predictor and which neurons fired.
 *
 * A work folder holds one file per layer, with rows of one size, written in the order of the corpus
 * during profiling and mapped for reading. A row holds the root mean square of the residual stream
 * before the FFN's norm (float32), the stream divided by it (float16 [d], so that no magnitude
 * overflows), and a bit per neuron, by its original number, set where its activation is not zero; the bits that the
 * widest layer has more are 0.
 * The input of the network is the norm of that stream, so it is computed when it is read. */
#ifndef LEARN_STATES_H
#define LEARN_STATES_H

#include "corpus.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct states_writer states_writer;

/* Opens a writer that stores one of every n tokens of a corpus; n is the least for which all layers fit into disk_bytes
 * (0: no limit). Which one of the n is drawn from a fixed seed, so that no place in the windows is favoured. Rows of
 * the same model and corpus that exist there (of an interrupted run) are continued; others, and damaged ones, are
 * replaced, but not those that merely could not be read. The folder is created if missing. HEARTH_INVALID: disk_bytes
 * are less than one row of every layer. HEARTH_IO: among others, too little room on the disk, with both figures;
 * checked before anything is written. The model must outlive the writer. */
hearth_status states_writer_open(states_writer **out, const char *folder, const hearth_model *model,
                                 const corpus *texts, uint64_t disk_bytes, hearth_error *error);
/* Returns why existing rows could not be continued, for people; "" where there were none. */
const char *states_writer_note(const states_writer *w);
/* Returns the tokens of the corpus handled up to the last
 * flush, earlier runs included: a resumed run may start there. */
uint64_t states_writer_tokens(const states_writer *w);
/* The stride n (one of n tokens is stored), and how many rows there will be. */
uint64_t states_writer_stride(const states_writer *w);
uint64_t states_writer_rows(const states_writer *w);
/* Returns whether token number `token` of the corpus is to be stored and not yet written. */
bool states_writer_wants(const states_writer *w, uint64_t token);
/* Adds a row. Rows must come in the order of tokens within each layer, with the activations of all neurons; those that
 * are on disk already are not written again. A failure is reported by the next flush. */
void states_writer_add(states_writer *w, uint64_t token, const hearth_observation *seen);
/* Writes everything so far to disk: a run that is resumed after `tokens` tokens loses nothing. */
hearth_status states_writer_flush(states_writer *w, uint64_t tokens, hearth_error *error);
/* Closes the writer; what was not flushed is lost. NULL: does nothing. */
void states_writer_close(states_writer *w);

/* The rows of one layer, mapped. Any number of threads may read. */
typedef struct states states;

/* Opens the rows of a layer. HEARTH_IO: there are none. HEARTH_FORMAT: they belong to another model, or are damaged. */
hearth_status states_open(states **out, const char *folder, const hearth_model *model, uint32_t layer,
                          hearth_error *error);
/* NULL: does nothing. */
void states_close(states *s);
/* Returns the number of rows. */
size_t states_count(const states *s);
/* Returns the rows for training: all but the last tenth (at least one of two or more), which is held out. Neighbours in
 * a text are alike, so the cut is not random. */
size_t states_training_count(const states *s);
/* The same for any number of rows. */
uint64_t states_training_of(uint64_t rows);

/* Returns the words of a row's bits. */
size_t states_words(const states *s);

/* Reads rows [row_count] by number, in any order: inputs [row_count][d], the residual stream or, where normed, the
 * normed input of the network; fired [row_count][states_words], sets of neurons. Either may be NULL. */
void states_read(const states *s, const uint32_t *rows, size_t row_count, bool normed, float *inputs, uint64_t *fired);

/* Removes all hidden states from a folder, whatever state they are in, as far as possible. */
void states_remove(const char *folder);

/* ------------------------------------------------------------------ sets of neurons */

/* Neuron n is bit n % 64 of word n / 64. */

/* Returns the number of 64-bit words for n neurons. */
static inline size_t bits_words(size_t n)
{
    return (n + 63) / 64;
}

/* Packs eight bytes of 0 or 1 into eight bits, in memory order (little-endian): the product moves byte i to bit 56 + i,
 * and no two of its terms overlap. */
static inline uint64_t bits_of_bytes(const uint8_t bytes[8])
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return word * 0x0102040810204080ull >> 56;
}

static inline uint64_t bits_of_flags(const uint8_t flags[64])
{
    uint64_t word = 0;
    for (size_t i = 0; i < 8; i++)
        word |= bits_of_bytes(flags + 8 * i) << (8 * i);
    return word;
}

/* Sets words [bits_words(n)]: a bit is 1 where the value is not
 * zero or, where `above` > 0, where its magnitude exceeds `above`. */
static inline void bits_pack(const float *values, size_t n, float above, uint64_t *words)
{
    uint8_t flags[64];
    for (size_t at = 0; at < n; at += 64) {
        size_t count = n - at < 64 ? n - at : 64;
        const float *x = values + at;
        if (count < 64)
            memset(flags, 0, sizeof flags);
        /* NaN counts as not zero; both loops vectorise */
        if (above > 0)
            for (size_t i = 0; i < count; i++)
                flags[i] = !(fabsf(x[i]) <= above);
        else
            for (size_t i = 0; i < count; i++)
                flags[i] = x[i] != 0;
        words[at / 64] = bits_of_flags(flags);
    }
}

/* Returns whether a bit of [begin, end) is set. */
static inline bool bits_any(const uint64_t *words, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++)
        if (words[i / 64] >> (i % 64) & 1)
            return true;
    return false;
}

/* Returns the number of set bits. The compiler's builtin is not used: where the target does not guarantee a popcount
 * instruction, it becomes a function call. */
static inline unsigned bits_count_word(uint64_t x)
{
    x -= x >> 1 & 0x5555555555555555ull;
    x = (x & 0x3333333333333333ull) + (x >> 2 & 0x3333333333333333ull);
    x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0full;
    return (unsigned)(x * 0x0101010101010101ull >> 56);
}

static inline unsigned bits_count(const uint64_t *words, size_t count)
{
    unsigned total = 0;
    for (size_t i = 0; i < count; i++)
        total += bits_count_word(words[i]);
    return total;
}

/* Returns the number of bits that are set in both, and in the mask of every word. */
static inline unsigned bits_count_common(const uint64_t *a, const uint64_t *b, size_t count, uint64_t mask)
{
    unsigned total = 0;
    for (size_t i = 0; i < count; i++)
        total += bits_count_word(a[i] & b[i] & mask);
    return total;
}

#endif
