/* prompt_cache.h - a file with what a session has read of a prompt, so that the next run that begins alike need not read it
 * again. */
#ifndef CLI_PROMPT_CACHE_H
#define CLI_PROMPT_CACHE_H

#include <hearth.h>

/* Brings the beginning that a file has in common with a prompt back into sequence 0, which is empty, and has the sampler
 * accept it. Stores its tokens in *reused: 0 where there is no such file yet, and always fewer than the prompt has, as the
 * last one is to be read in any case. Errors as of hearth_session_restore_file. */
hearth_status prompt_cache_load(hearth_session *session, hearth_sampler *sampler, const char *path, const int32_t *ids,
                                size_t count, size_t *reused, hearth_error *error);

/* Writes what sequence 0 has read of a prompt of `count` tokens, unless the file had that already. Cuts the sequence. */
hearth_status prompt_cache_save(hearth_session *session, const char *path, size_t count, size_t reused,
                                hearth_error *error);

#endif
