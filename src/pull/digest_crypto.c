/* digest_crypto.c - hashes by libcrypto, which uses the processor's instructions for them where it has any. */
#include "digest.h"

#include "../base/memory.h"

#include <openssl/evp.h>
#include <stdio.h>

struct hasher {
    EVP_MD_CTX *context;
    digest_kind kind;
    uint64_t size_bytes; /* of the whole content */
};

static const EVP_MD *method_of(digest_kind kind)
{
    return kind == DIGEST_GIT_BLOB ? EVP_sha1() : EVP_sha256();
}

/* libcrypto does not tell a missing method from missing memory. */
static hearth_status fail_hash(const hasher *h, hearth_error *error)
{
    return fail(error, HEARTH_UNSUPPORTED, "%s: libcrypto does not compute it, or is out of memory",
                digest_kind_name(h->kind));
}

hearth_status hasher_create(hasher **out, digest_kind kind, uint64_t size_bytes, hearth_error *error)
{
    hasher *h = mem_new(sizeof *h);
    if (!h)
        return fail_memory(error, digest_kind_name(kind), sizeof *h);
    *h = (hasher){EVP_MD_CTX_new(), kind, size_bytes};
    hearth_status status = h->context ? hasher_restart(h, error) : fail_memory(error, digest_kind_name(kind), 0);
    if (status != HEARTH_OK) {
        hasher_destroy(h);
        return status;
    }
    *out = h;
    return HEARTH_OK;
}

hearth_status hasher_restart(hasher *h, hearth_error *error)
{
    char head[64];
    if (EVP_DigestInit_ex(h->context, method_of(h->kind), NULL) != 1)
        return fail_hash(h, error);
    if (h->kind != DIGEST_GIT_BLOB)
        return HEARTH_OK;
    int size = snprintf(head, sizeof head, "blob %llu", (unsigned long long)h->size_bytes);
    return hasher_add(h, head, (size_t)size + 1, error); /* with the zero byte */
}

hearth_status hasher_add(hasher *h, const void *data, size_t size_bytes, hearth_error *error)
{
    return EVP_DigestUpdate(h->context, data, size_bytes) == 1 ? HEARTH_OK : fail_hash(h, error);
}

hearth_status hasher_end(hasher *h, digest *out, hearth_error *error)
{
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    *out = (digest){.kind = h->kind};
    if (EVP_DigestFinal_ex(h->context, bytes, &size) != 1)
        return fail_hash(h, error);
    for (unsigned i = 0; i < size && 2 * i + 2 < sizeof out->hex; i++)
        snprintf(out->hex + 2 * (size_t)i, 3, "%02x", bytes[i]);
    return HEARTH_OK;
}

void hasher_destroy(hasher *h)
{
    if (!h)
        return;
    EVP_MD_CTX_free(h->context);
    mem_free(h);
}
