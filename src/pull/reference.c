/* reference.c - names of models on the Hub. */
#include "reference.h"

#include "remote_name.h"

#include <string.h>

/* What names of owners, repositories and quantizations are made of. */
#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."

/* Returns whether size bytes are a name: of those letters, at most 96, and not beginning with a dot or a dash. */
static bool is_name(const char *text, size_t size)
{
    return size > 0 && size <= 96 && strspn(text, NAME_LETTERS) >= size && text[0] != '.' && text[0] != '-';
}

hearth_status reference_parse(reference *out, const char *text, arena *memory, hearth_error *error)
{
    size_t owner = strcspn(text, "/");
    const char *repo = text + owner + (text[owner] == '/');
    size_t repo_size = strcspn(repo, "/:");
    const char *rest = repo + repo_size;
    bool ok = is_name(text, owner) && is_name(repo, repo_size);
    if (ok && *rest == ':')
        ok = is_name(rest + 1, strlen(rest + 1));
    else if (ok && *rest == '/')
        ok = remote_path_is_safe(rest + 1);
    if (!ok)
        return fail(error, HEARTH_INVALID,
                    "pull: %.200s: is neither a URL nor of the form OWNER/REPO, OWNER/REPO:QUANT or OWNER/REPO/FILE",
                    text);
    *out = (reference){.repository = arena_copy_text(memory, text, (size_t)(rest - text))};
    const char *detail = *rest ? arena_copy_text(memory, rest + 1, strlen(rest + 1)) : NULL;
    if (!out->repository || (*rest && !detail))
        return fail_memory(error, "pull", strlen(text));
    if (*rest == ':')
        out->quantization = detail;
    else
        out->file = detail;
    return HEARTH_OK;
}

bool reference_is_url(const char *name)
{
    return strstr(name, "://") != NULL;
}

bool reference_is_revision(const char *text)
{
    return remote_path_is_safe(text);
}
