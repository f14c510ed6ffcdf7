/* draft_session.c - see draft_session.h. */
#include "draft_session.h"

hearth_status draft_session_open(draft_session *out, hearth_runtime *runtime, const char *path, uint32_t context,
                                 hearth_error *error)
{
    hearth_model_info info;
    TRY(hearth_model_open(&out->model, path, NULL, error));
    hearth_model_describe(out->model, &info);
    const hearth_session_options options = {.context = context < info.context_length ? context : info.context_length};
    TRY(hearth_engine_create(&out->engine, runtime, out->model, NULL, error));
    return hearth_session_create(&out->session, out->engine, &options, error);
}

void draft_session_close(draft_session *d)
{
    hearth_session_destroy(d->session);
    hearth_engine_destroy(d->engine);
    hearth_model_close(d->model);
    *d = (draft_session){0};
}
