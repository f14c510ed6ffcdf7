/* pull.h - from what a user names to files with sources and targets. */
#ifndef PULL_PULL_H
#define PULL_PULL_H

#include "choose.h"
#include "hub.h"

typedef struct pull_request {
    const char *name;     /* a URL, or a name on the Hub (reference.h) */
    const char *output;   /* a file or a folder; NULL: the name of what is pulled, in the current folder */
    const char *endpoint; /* of the Hub */
    const char *revision;
    digest digest; /* of the file; unknown: as the Hub says, if that */
} pull_request;

typedef struct pull_file {
    fetch_source source;
    const char *target;
    const char *label; /* for progress: the name, and which of how many it is */
} pull_file;

/* What there is to do; all of it lies in an arena. */
typedef struct pull_plan {
    pull_file *files; /* [count] */
    size_t count;
    const char *model;  /* what `hearth run` or `hearth convert` takes: the first file, or the folder */
    const char *folder; /* that all files go to, and that has to be there; NULL: none                */
} pull_plan;

/* Finds out what there is to do; asks the Hub for a name on it. HEARTH_INVALID: a URL without a file's name, or of a forbidden
 * kind; one file as output for several; a digest for several; a wrong name. Else errors as of hub_list and choose_files. */
hearth_status pull_plan_make(pull_plan *out, fetcher *f, const pull_request *request, arena *memory,
                             hearth_error *error);
/* Makes the folder of a plan, with those above it. HEARTH_IO: it cannot be made. */
hearth_status pull_make_folder(const pull_plan *plan, hearth_error *error);

#endif
