/* prompt_cache.c - see prompt_cache.h. */
#include "prompt_cache.h"

#include "../base/file.h"

hearth_status prompt_cache_load(hearth_session *session, hearth_sampler *sampler, const char *path, const int32_t *ids,
                                size_t count, size_t *reused, hearth_error *error)
{
    uint32_t n = 0;
    *reused = 0;
    if (!file_exists(path))
        return HEARTH_OK;
    TRY(hearth_session_restore_file(session, 0, path, error));
    const int32_t *had = hearth_session_tokens(session, 0);
    while (n < hearth_session_length(session, 0) && n + 1 < count && had[n] == ids[n])
        n++;
    n = hearth_session_reach(session, 0, n);
    TRY(hearth_session_truncate(session, 0, n, error));
    for (uint32_t i = 0; i < n; i++)
        hearth_sampler_accept(sampler, ids[i]);
    *reused = n;
    return HEARTH_OK;
}

hearth_status prompt_cache_save(hearth_session *session, const char *path, size_t count, size_t reused,
                                hearth_error *error)
{
    uint32_t length = hearth_session_length(session, 0);
    uint32_t n = hearth_session_reach(session, 0, count < length ? (uint32_t)count : length);
    if (n <= reused + 1) /* nothing new but the last token, which is read each time */
        return HEARTH_OK;
    TRY(hearth_session_truncate(session, 0, n, error));
    return hearth_session_save_file(session, 0, path, error);
}
