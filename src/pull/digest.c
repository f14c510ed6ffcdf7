/* digest.c - the kinds of digests, and their digits. */
#include "digest.h"

#include <string.h>

static const struct {
    const char *name, *key;
    size_t digits;
} kinds[DIGEST_KIND_COUNT] = {
    [DIGEST_SHA256] = {"SHA-256", "sha256", 64},
    [DIGEST_GIT_BLOB] = {"git's SHA-1", "git_sha1", 40},
};

bool digest_parse(digest *out, digest_kind kind, const char *text)
{
    *out = (digest){.kind = kind};
    if (strlen(text) != kinds[kind].digits || strspn(text, "0123456789abcdefABCDEF") != kinds[kind].digits)
        return false;
    for (size_t i = 0; i < kinds[kind].digits; i++)
        out->hex[i] = (char)(text[i] >= 'A' && text[i] <= 'F' ? text[i] - 'A' + 'a' : text[i]);
    return true;
}

bool digest_is_known(const digest *d)
{
    return d->hex[0] != 0;
}

const char *digest_kind_name(digest_kind kind)
{
    return kinds[kind].name;
}

const char *digest_kind_key(digest_kind kind)
{
    return kinds[kind].key;
}
