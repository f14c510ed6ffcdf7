/* counts_file.h - counters of a profile in a file, to go on from: whole or not at all, and only for the run they are of. */
#ifndef LEARN_COUNTS_FILE_H
#define LEARN_COUNTS_FILE_H

#include "../base/hash.h"
#include "tally.h"

typedef struct counts_state {
    char key[HASH_TEXT_SIZE]; /* model, corpus and settings                    */
    uint64_t windows, tokens; /* counted                                       */
    uint64_t measured;        /* of these tokens, those with magnitudes        */
    double seconds;
} counts_state;

/* Replaces what is kept in the folder. */
hearth_status counts_save(const char *folder, const counts_state *s, const tallies *t, hearth_error *error);
/* Fills s and t where what lies there has s->key; else leaves both and says in note why not ("" where nothing was
 * there). Counters of another run are set aside under another name, damaged ones are ignored. HEARTH_NO_MEMORY. */
hearth_status counts_load(const char *folder, counts_state *s, tallies *t, char *note, size_t note_size,
                          hearth_error *error);

#define KEPT_NAME     "profile"
#define KEPT_OLD_NAME "profile.old"

#endif
