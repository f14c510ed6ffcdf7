/* saved.h - what a server has read, in a folder: stored when it ends, brought back when it starts again. */
#ifndef SERVE_SAVED_H
#define SERVE_SAVED_H

#include "../base/error.h"

/* What was found in the folder. */
typedef struct saved_found {
    uint32_t restored, refused; /* sequences                     */
    hearth_error first;         /* why the first one was refused */
} saved_found;

/* Bring sequences back into a session that has read nothing, and store them. Their files are FOLDER/NAME-0.seq ...; a slash in
 * the name is written as _. A file that the session does not take stays out of use, until another sequence takes its place. HEARTH_IO: there is no such folder, or
 * nothing can be written there.
 * saved_store stores as many as it can begin within three seconds, of those that have at least 64 tokens; the files of others stay
 * as they were. It goes on where one fails; the error is that of the first. */
hearth_status saved_load(hearth_session *session, uint32_t sequences, const char *folder, const char *name,
                         saved_found *out, hearth_error *error);
hearth_status saved_store(const hearth_session *session, uint32_t sequences, const char *folder, const char *name,
                          hearth_error *error);

#endif
