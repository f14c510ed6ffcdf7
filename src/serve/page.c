/* page.c - see page.h. The rows are made from the files when hearth is built (page/embed.cmake). */
#include "page.h"

#include <string.h>

static const page_file files[] = {
#include <page_files.inc>
};

const page_file *page_find(const char *path)
{
    if (strcmp(path, "/") == 0)
        path = "/index.html";
    for (const page_file *f = files; f < files + sizeof files / sizeof *files; f++)
        if (strcmp(f->path, path) == 0)
            return f;
    return NULL;
}
