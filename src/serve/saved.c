/* saved.c - see saved.h. */
#include "saved.h"

#include "../base/clock.h"
#include "../base/file.h"
#include "../base/memory.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#define SAVE_SECONDS 3.0
/* Shorter sequences are read again as soon as their files are. */
#define LEAST_TOKENS 64

/* Writes the path of a sequence's file. false: it is too long for a path. */
static bool path_of(char path[PATH_MAX], const char *folder, const char *name, uint32_t sequence)
{
    int begin = snprintf(path, PATH_MAX, "%s/", folder);
    if (begin >= PATH_MAX)
        return false;
    int size = snprintf(path + begin, (size_t)(PATH_MAX - begin), "%s-%u.seq", name, sequence);
    if (size >= PATH_MAX - begin)
        return false;
    for (char *c = path + begin; *c; c++)
        *c = *c == '/' ? '_' : *c;
    return true;
}

hearth_status saved_load(hearth_session *session, uint32_t sequences, const char *folder, const char *name,
                         saved_found *out, hearth_error *error)
{
    char path[PATH_MAX];
    hearth_error why = {0};
    *out = (saved_found){0};
    if (!file_is_folder(folder))
        return fail(error, HEARTH_IO, "%s: is no folder", folder);
    if (access(folder, W_OK | X_OK) != 0)
        return fail_errno(error, folder, "what is read could not be stored");
    for (uint32_t i = 0; i < sequences; i++) {
        if (!path_of(path, folder, name, i))
            return fail(error, HEARTH_INVALID, "%s: is too long for a path", folder);
        if (!file_exists(path))
            continue;
        if (hearth_session_restore_file(session, out->restored, path, &why) == HEARTH_OK) {
            out->restored++;
        } else if (out->refused++ == 0) {
            out->first = why;
        }
    }
    return HEARTH_OK;
}

hearth_status saved_store(const hearth_session *session, uint32_t sequences, const char *folder, const char *name,
                          hearth_error *error)
{
    char path[PATH_MAX];
    hearth_error other;
    hearth_status first = HEARTH_OK;
    double begun = clock_seconds();
    for (uint32_t i = 0; i < sequences && path_of(path, folder, name, i); i++) {
        if (hearth_session_length(session, i) < LEAST_TOKENS || clock_seconds() - begun >= SAVE_SECONDS)
            continue;
        hearth_status status = hearth_session_save_file(session, i, path, first == HEARTH_OK ? error : &other);
        first = first == HEARTH_OK ? status : first;
    }
    return first;
}
