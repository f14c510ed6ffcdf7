/* cache_folder.h - a folder for what is remembered between runs, for tests that read, damage and remove it. Comes last
 * among the includes, as skip.h does; cache_folder_make and cache_folder_remove are for run_group. */
#ifndef TESTS_CACHE_FOLDER_H
#define TESTS_CACHE_FOLDER_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "skip.h"

static char folder[64];

static int cache_folder_make(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/hearth-cache.XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

/* Calls `see` with the path of every file there. */
static void cache_folder_each(void (*see)(const char *path))
{
    DIR *d = opendir(folder);
    struct dirent *entry;
    char path[512];
    while (d && (entry = readdir(d)) != NULL) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            see(path);
    }
    if (d)
        closedir(d);
}

static void cache_folder_unlink(const char *path)
{
    unlink(path);
}

static void cache_folder_empty(void)
{
    cache_folder_each(cache_folder_unlink);
}

static int cache_folder_remove(void **state)
{
    (void)state;
    cache_folder_empty();
    return rmdir(folder);
}

#endif
