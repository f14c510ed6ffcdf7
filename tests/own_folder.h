/* own_folder.h - a folder of a test program's own, where what is left behind shows. Comes behind the includes of a
 * test, as skip.h does; own_folder_make and own_folder_remove are for run_group. */
#ifndef TESTS_OWN_FOLDER_H
#define TESTS_OWN_FOLDER_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "skip.h"

static char own_folder[] = "/tmp/hearth-folder.XXXXXX";
static char own_path[64]; /* of the one file that may be there in the end */

/* Temporary files go there as well. */
static int own_folder_make(void **state)
{
    (void)state;
    if (!mkdtemp(own_folder))
        return -1;
    snprintf(own_path, sizeof own_path, "%s/file", own_folder);
    return setenv("TMPDIR", own_folder, 1);
}

/* With HEARTH_KEEP=FILE in the environment the file goes there, to be looked at. Fails where anything else was left. */
static int own_folder_remove(void **state)
{
    (void)state;
    const char *keep = getenv("HEARTH_KEEP");
    if (!keep || !*keep || rename(own_path, keep) != 0)
        remove(own_path);
    return rmdir(own_folder);
}

/* Hidden ones too. */
static inline size_t own_folder_files(void)
{
    size_t count = 0;
    DIR *listing = opendir(own_folder);
    assert_non_null(listing);
    for (const struct dirent *entry; (entry = readdir(listing));)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(listing);
    return count;
}

#endif
