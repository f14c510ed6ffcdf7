/* members_file.c - finds descriptions that come with hearth by their names. */
#include "members.h"

#include "../base/file.h"
#include "../base/memory.h"

#include <string.h>

/* Returns "FOLDER/name.json" for NAME; mem_free. NULL: no memory. */
static char *shipped_path(const char *folder, const char *name)
{
    buffer small = {0};
    bool ok = true;
    for (const char *c = name; ok && *c; c++) { /* ASCII, whatever the locale */
        char lower = *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c;
        ok = buffer_put(&small, &lower, 1);
    }
    char *path = ok && buffer_put(&small, ".json", sizeof ".json") ? file_join(folder, small.data) : NULL;
    buffer_free(&small);
    return path;
}

hearth_status members_read_file(json_t **out, const char *path, const char *folder, const char *what,
                                hearth_error *error)
{
    if (file_exists(path))
        return json_parse_small(out, path, error);
    if (!folder || strchr(path, '/'))
        return fail(error, HEARTH_IO, "%s: no such file", path);
    char *shipped = shipped_path(folder, path);
    if (!shipped)
        return fail_memory(error, path, strlen(path));
    hearth_status status =
        file_exists(shipped)
            ? json_parse_small(out, shipped, error)
            : fail(error, HEARTH_IO, "%s: no such file, and no %s of that name in %s", path, what, folder);
    mem_free(shipped);
    return status;
}
