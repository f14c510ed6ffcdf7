/* access.c - who may ask.
 *
 * A page from anywhere can make a browser send requests to this machine. Two headers tell: Host, which is the page's own
 * name if that name was made to lead here (DNS rebinding); and Origin, which is the page's address. */
#include "server.h"

#include <string.h>
#include <strings.h>

/* Returns the name of "name:port", "[address]:port" or "name", without brackets. */
static span host_name(span host)
{
    if (host.size > 0 && host.data[0] == '[') {
        const char *end = memchr(host.data, ']', host.size);
        return end ? (span){host.data + 1, (size_t)(end - host.data - 1)} : host;
    }
    const char *colon = memchr(host.data, ':', host.size);
    return colon ? (span){host.data, (size_t)(colon - host.data)} : host;
}

static bool same_name(span a, const char *b)
{
    return a.size == strlen(b) && strncasecmp(a.data, b, a.size) == 0;
}

/* A server at loopback is known by these names, and the one that it was given. */
static bool is_own_name(const serve *s, const char *host)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "::1"};
    span name = host_name(span_of(host));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (same_name(name, names[i]))
            return true;
    return same_name(name, s->options.host);
}

/* Returns whether a page's address is that of this server: "http://HOST". */
static bool is_own_page(const credentials *c)
{
    const char *host = strstr(c->origin, "://");
    return host && c->host && strcasecmp(host + 3, c->host) == 0;
}

/* Compares in a time that depends on what was given alone. */
static bool same_key(span given, const char *key)
{
    size_t size = strlen(key);
    volatile unsigned char differs = size != given.size;
    for (size_t i = 0; i < given.size; i++)
        differs |= (unsigned char)(given.data[i] ^ key[size ? i % size : 0]);
    return !differs;
}

/* given: NULL: none */
static bool is_key(const serve *s, const char *given_text)
{
    bool found = false;
    if (!given_text)
        return false;
    span given = span_of(given_text);
    for (size_t i = 0; i < s->options.key_count; i++)
        found |= same_key(given, s->options.keys[i]);
    return found;
}

/* A client may show a key in either header, also a wrong one beside a good one. */
static bool has_key(const serve *s, const credentials *c)
{
    static const char scheme[] = "Bearer ";
    bool is_bearer = c->authorization && strncasecmp(c->authorization, scheme, strlen(scheme)) == 0;
    return is_key(s, is_bearer ? c->authorization + strlen(scheme) : NULL) || is_key(s, c->key);
}

bool access_check(const serve *s, const route *to, const credentials *c, problem *p)
{
    if (s->is_local && c->host && !is_own_name(s, c->host))
        return problem_set(p, 403, "host_not_allowed", "the header Host names another machine than this one");
    if (c->origin && !is_own_page(c))
        return problem_set(p, 403, "origin_not_allowed", "requests of pages from elsewhere are not answered");
    if (s->options.key_count > 0 && !(to && to->is_open) && !has_key(s, c))
        return problem_set(p, 401, "invalid_api_key",
                           "no valid key was given, as 'Authorization: Bearer KEY' or 'x-api-key: KEY'");
    return true;
}
