/* remote_name.h - names of files that a server chose: which of them may become names here.
 *
 * A listing is written by whoever owns the repository, and a URL by whoever posted it. Neither may write outside of the
 * folder that the user meant, nor send control characters to a terminal. */
#ifndef PULL_REMOTE_NAME_H
#define PULL_REMOTE_NAME_H

#include "../base/text.h"

/* Returns whether a path is relative, at most 1024 bytes of UTF-8, free of control characters and backslashes, and made of
 * parts that are neither empty nor "." nor "..". */
bool remote_path_is_safe(const char *path);
/* Returns whether a name is such a path of one part. */
bool remote_name_is_safe(const char *name);
/* Returns the last part of a path; it points into it. */
const char *remote_path_name(const char *path);

#endif
