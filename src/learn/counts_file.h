/* counts_file.h - stores the counters of a profile, so that it
 * can be resumed: whole or not at all, only by the same run. */
#ifndef LEARN_COUNTS_FILE_H
#define LEARN_COUNTS_FILE_H

#include "../base/hash.h"
#include "tally.h"

typedef struct counts_state {
    char key[HASH_TEXT_SIZE]; /* hash of model, corpus and settings                   */
    uint64_t windows, tokens; /* counted so far                                       */
    uint64_t measured;        /* of these tokens, those whose magnitudes were counted */
    double seconds;           /* spent counting, earlier runs included                */
} counts_state;

/* Writes state and counters to the folder, in place of those that are there. */
hearth_status counts_save(const char *folder, const counts_state *s, const tallies *t, hearth_error *error);
/* Fills s and t if the file in the folder has the key s->key. Otherwise leaves both as
 * they are and writes the reason to note ("" where there is no file). Counters of
 * another run are renamed to KEPT_OLD_NAME; damaged ones are ignored. HEARTH_NO_MEMORY. */
hearth_status counts_load(const char *folder, counts_state *s, tallies *t, char *note, size_t note_size,
                          hearth_error *error);

#define KEPT_NAME     "profile"
#define KEPT_OLD_NAME "profile.old"

#endif
