/* hub.c - lists repositories, makes URLs. */
#include "hub.h"

#include "url.h"

#include <string.h>

/* The largest answer with a listing, and how many of them; the Hub lists a thousand files at a time. */
#define MOST_ANSWER_BYTES ((size_t)16 << 20)
#define MOST_ANSWERS      64

/* Appends a path, every byte of which that has a meaning in URLs as %XX (RFC 3986); slashes stay unless `whole`. */
static bool put_encoded(buffer *b, const char *path, bool whole)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
    bool ok = true;
    for (; ok && *path; path++)
        ok = strchr(plain, *path) || (*path == '/' && !whole) ? buffer_put(b, path, 1)
                                                              : buffer_print(b, "%%%02X", (unsigned char)*path);
    return ok;
}

/* Appends the endpoint without the slashes at its end. */
static bool put_endpoint(buffer *b, const char *endpoint)
{
    size_t size = strlen(endpoint);
    while (size > 0 && endpoint[size - 1] == '/')
        size--;
    return buffer_put(b, endpoint, size);
}

/* Returns the text in a buffer, which is then the caller's; NULL and an empty buffer where it is not complete. */
static char *finish(buffer *b, bool complete)
{
    if (complete && buffer_put(b, "", 1))
        return b->data;
    buffer_free(b);
    return NULL;
}

char *hub_file_url(const hub_place *place, const char *path)
{
    buffer b = {0};
    return finish(&b, put_endpoint(&b, place->endpoint) && buffer_print(&b, "/%s/resolve/", place->repository) &&
                          put_encoded(&b, place->revision, true) && buffer_put(&b, "/", 1) &&
                          put_encoded(&b, path, false));
}

static char *listing_url(const hub_place *place)
{
    buffer b = {0};
    return finish(&b, put_endpoint(&b, place->endpoint) &&
                          buffer_print(&b, "/api/models/%s/tree/", place->repository) &&
                          put_encoded(&b, place->revision, true) && buffer_print(&b, "?recursive=true"));
}

hearth_status hub_list(listing *out, fetcher *f, const hub_place *place, hearth_error *error)
{
    char *url = listing_url(place);
    if (!url)
        return fail_memory(error, place->repository, strlen(place->endpoint));
    hearth_status status = HEARTH_OK;
    for (int answers = 0; status == HEARTH_OK && url; answers++) {
        buffer text = {0};
        char *next = NULL;
        status = answers < MOST_ANSWERS ? fetch_text(f, url, MOST_ANSWER_BYTES, &text, &next, error)
                                        : fail(error, HEARTH_FORMAT, "%s: its listing does not end", place->repository);
        if (status == HEARTH_OK)
            status = listing_add(out, (span){text.data, text.size}, url, error);
        if (status == HEARTH_OK && next && (url_check(next, NULL) != HEARTH_OK || !url_same_origin(next, url)))
            status = fail(error, HEARTH_FORMAT, "%s: its listing goes on at another host", place->repository);
        buffer_free(&text);
        mem_free(url);
        url = next;
    }
    mem_free(url);
    return status;
}
