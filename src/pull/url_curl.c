/* url_curl.c - URLs, read by libcurl. */
#include "url.h"

#include "../base/memory.h"
#include "remote_name.h"

#include <curl/curl.h>
#include <string.h>
#include <strings.h>

/* Returns a part of a URL (free it with curl_free); NULL: it has none, or no memory. */
static char *get_part(const char *url, CURLUPart part, unsigned flags)
{
    CURLU *parsed = curl_url();
    char *text = NULL;
    if (parsed && curl_url_set(parsed, CURLUPART_URL, url, CURLU_DISALLOW_USER) == CURLUE_OK)
        (void)curl_url_get(parsed, part, &text, flags);
    curl_url_cleanup(parsed);
    return text;
}

static bool has_scheme(const char *url, const char *expected)
{
    char *scheme = get_part(url, CURLUPART_SCHEME, 0);
    bool same = scheme && strcasecmp(scheme, expected) == 0;
    curl_free(scheme);
    return same;
}

/* Turns what libcurl says of a URL into an error. */
static hearth_status judge(const char *url, CURLUcode code, const char *scheme, hearth_error *error)
{
    if (code == CURLUE_OUT_OF_MEMORY)
        return fail_memory(error, "URL", strlen(url));
    if (code == CURLUE_USER_NOT_ALLOWED)
        return fail(error, HEARTH_INVALID, "pull: the URL has a user's name in it; --token-file is for secrets");
    if (code != CURLUE_OK)
        return fail(error, HEARTH_INVALID, "pull: %.300s: is not a URL: %s", url, curl_url_strerror(code));
    if (strcasecmp(scheme, "http") != 0 && strcasecmp(scheme, "https") != 0)
        return fail(error, HEARTH_INVALID, "pull: %.300s: is neither http nor https", url);
    return HEARTH_OK;
}

hearth_status url_check(const char *url, hearth_error *error)
{
    CURLU *parsed = curl_url();
    char *scheme = NULL;
    CURLUcode code = parsed ? curl_url_set(parsed, CURLUPART_URL, url, CURLU_DISALLOW_USER) : CURLUE_OUT_OF_MEMORY;
    if (code == CURLUE_OK)
        code = curl_url_get(parsed, CURLUPART_SCHEME, &scheme, 0);
    hearth_status status = judge(url, code, scheme, error);
    curl_free(scheme);
    curl_url_cleanup(parsed);
    return status;
}

bool url_same_origin(const char *a, const char *b)
{
    static const CURLUPart parts[] = {CURLUPART_SCHEME, CURLUPART_HOST, CURLUPART_PORT};
    bool same = true;
    for (size_t i = 0; same && i < sizeof parts / sizeof *parts; i++) {
        char *of_a = get_part(a, parts[i], CURLU_DEFAULT_PORT), *of_b = get_part(b, parts[i], CURLU_DEFAULT_PORT);
        same = of_a && of_b && strcasecmp(of_a, of_b) == 0;
        curl_free(of_a);
        curl_free(of_b);
    }
    return same;
}

/* Without memory for an answer the answer is no. */
bool url_may_redirect(const char *from, const char *to)
{
    return has_scheme(to, "https") || has_scheme(from, "http");
}

char *url_file_name(const char *url)
{
    char *path = get_part(url, CURLUPART_PATH, 0), *name = NULL;
    if (path) {
        int size;
        const char *last = remote_path_name(path);
        char *decoded = curl_easy_unescape(NULL, last, (int)strlen(last), &size);
        if (decoded && strlen(decoded) == (size_t)size && remote_name_is_safe(decoded))
            name = mem_copy_text(decoded, (size_t)size);
        curl_free(decoded);
    }
    curl_free(path);
    return name;
}
