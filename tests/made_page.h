/* made_page.h - pages in docs/ with a part that a test makes.
 *
 * The part lies between the lines "<!-- made by tests/NAME.c: PART -->" and "<!-- end -->". The test makes it again and
 * compares; with HEARTH_WRITE_PAGES=1 in the environment it writes the part into the page instead. */
#ifndef TESTS_MADE_PAGE_H
#define TESTS_MADE_PAGE_H

#include "golden.h"

/* Reports the first line that differs. */
static inline void page_compare(const char *name, const char *made, const char *page, size_t page_size)
{
    const char *end = page + page_size;
    while (*made && page < end) {
        size_t n = strcspn(made, "\n"), m = strcspn(page, "\n");
        if (n != m || memcmp(made, page, n) != 0)
            fail_msg("docs/%s is not what is seen (HEARTH_WRITE_PAGES=1 writes it):\n page %.*s\n seen %.*s", name,
                     (int)m, page, (int)n, made);
        made += n + 1;
        page += m + 1;
    }
    if (*made || page < end)
        fail_msg("docs/%s has not the rows that are seen (HEARTH_WRITE_PAGES=1 writes them)", name);
}

/* Compares what `print` writes with the part of docs/NAME that tests/TEST.c makes, or writes it there. */
static inline void check_page(const char *name, const char *test, const char *part, void (*print)(FILE *out))
{
    char path[512], begin_mark[128], *made = NULL, *page = NULL;
    const char *write = getenv("HEARTH_WRITE_PAGES");
    size_t size, page_size;
    snprintf(path, sizeof path, HEARTH_MODELS "/../docs/%s", name);
    snprintf(begin_mark, sizeof begin_mark, "<!-- made by tests/%s.c: %s -->\n", test, part);
    FILE *out = open_memstream(&made, &size);
    assert_non_null(out);
    print(out);
    assert_int_equal(fclose(out), 0);
    if (file_read(&page, &page_size, path, 1 << 20, NULL) != HEARTH_OK)
        fail_msg("cannot read %s", path);
    char *begin = strstr(page, begin_mark);
    char *end = begin ? strstr(begin, "<!-- end -->\n") : NULL;
    assert_non_null(end);
    begin += strlen(begin_mark);
    if (write && *write) {
        out = fopen(path, "wb");
        assert_non_null(out);
        fprintf(out, "%.*s%s%s", (int)(begin - page), page, made, end);
        assert_int_equal(fclose(out), 0);
    } else
        page_compare(name, made, begin, (size_t)(end - begin));
    free(made);
    mem_free(page);
}

#endif
