/* fuzz_listing.c - what a hostile Hub sends: a line with what the user asked for, a line as a header, and the rest as a
 * listing.
 *
 * Covers: src/pull/listing.c
 * Covers: src/pull/choose.c
 * Covers: src/pull/reference.c
 * Covers: src/pull/remote_name.c
 * Covers: src/pull/http_values.c
 *
 * What is accepted has safe paths, a reference is no URL, and what is chosen is part of the listing, each file once. */
#include "touch.h"

#include "../src/pull/choose.h"
#include "../src/pull/http_values.h"
#include "../src/pull/remote_name.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Takes a line off the input, as a text of its own. */
static char *take_line(span *input)
{
    const char *end = memchr(input->data, '\n', input->size);
    size_t size = end ? (size_t)(end - input->data) : input->size;
    char *line = calloc(size + 1, 1);
    if (!line)
        abort();
    if (size > 0)
        memcpy(line, input->data, size);
    size_t taken = size + (end != NULL);
    *input = (span){input->data + taken, input->size - taken};
    return line;
}

static void touch_header(const char *text)
{
    content_range range;
    span next;
    if (content_range_parse(&range, text) && (range.first > range.last || range.last >= range.total))
        abort();
    if (link_next(&next, text) && (next.data < text || next.data + next.size > text + strlen(text)))
        abort();
    (void)etag_is_strong(text);
}

static void touch_reference(const reference *r, const char *name)
{
    if (reference_is_url(name) || strchr(r->repository, '/') != strrchr(r->repository, '/'))
        abort();
    if (r->file && (!reference_is_revision(r->file) || r->quantization))
        abort();
}

static void touch_listing(const listing *l)
{
    for (size_t i = 0; i < l->count; i++) {
        const listed_file *f = &l->files[i];
        if (!remote_path_is_safe(f->path) || strstr(f->path, "/../") || strncmp(f->path, "../", 3) == 0 ||
            f->path[0] == '/' || !listing_find(l, f->path))
            abort();
        if (!remote_name_is_safe(remote_path_name(f->path)) || f->size > INT64_MAX)
            abort();
        touch_bytes(f->digest.hex, strlen(f->digest.hex));
    }
}

static void touch_chosen(const chosen *c, const listing *l)
{
    if (c->count == 0)
        abort();
    for (size_t i = 0; i < c->count; i++)
        if (c->files[i] < l->files || c->files[i] >= l->files + l->count)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    long before = mem_live();
    span input = {size > 0 ? (const char *)data : "", size};
    char *name = take_line(&input), *header = take_line(&input);
    arena memory = {0};
    listing l = {0};
    reference r;
    chosen c;
    hearth_error error = {0};
    touch_header(header);
    hearth_status status = reference_parse(&r, name, &memory, &error);
    if (status == HEARTH_OK)
        touch_reference(&r, name);
    if (status == HEARTH_OK)
        status = listing_add(&l, input, "fuzz", &error);
    touch_listing(&l);
    if (status == HEARTH_OK)
        status = choose_files(&c, &l, &r, &memory, &error);
    if (status == HEARTH_OK)
        touch_chosen(&c, &l);
    listing_free(&l);
    arena_clear(&memory);
    free(name);
    free(header);
    check_end(status, &error, before);
    return 0;
}
