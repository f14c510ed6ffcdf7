/* page.h - the files of the page (page/README.md), which are part of the program. */
#ifndef SERVE_PAGE_H
#define SERVE_PAGE_H

#include <stddef.h>

typedef struct page_file {
    const char *path; /* "/app.js" */
    const char *type;
    size_t size;
    const unsigned char *data; /* [size] */
} page_file;

/* What a browser may load for the page: its own files, and nothing from elsewhere. */
#define PAGE_POLICY                                                                                       \
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " \
    "form-action 'none'; frame-ancestors 'none'; base-uri 'none'"

/* Returns the file of a path; that of "/" is index.html. NULL: there is none. */
const page_file *page_find(const char *path);

#endif
