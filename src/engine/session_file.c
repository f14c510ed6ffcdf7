/* session_file.c - hearth_session_save_file and hearth_session_restore_file: a checkpoint in a file (state_file.h). */
#include "state.h"
#include "state_file.h"

#include "../base/file.h"
#include "../base/memory.h"
#include "../model/fingerprint.h"

#include <string.h>

/* ------------------------------------------------------------------ what it has to agree with */

/* Hashes what decides which numbers the state holds, and in which order, beyond the model itself. To skip zeros or not to
 * makes no difference (both give the same), nor does the side of neurons; what leaves neurons out does, and the side of
 * keys and values. */
static void hash_layout(hash128 *h, const hearth_session *s)
{
    const hearth_engine *e = s->engine;
    const checkpoint *source = e->model->source;
    for (size_t i = 0; i < source->tensor_count; i++) {
        hash_text(h, source->tensors[i].name);
        hash_number(h, source->tensors[i].format);
    }
    for (uint32_t i = 0; i < e->model->hyper.layer_count; i++) {
        const engine_layer *l = &e->layers[i];
        bool is_exact = l->selector == SELECTOR_ALL || l->selector == SELECTOR_SIGN;
        hash_number(h, l->form == FORM_HOST);
        hash_number(h, is_exact ? SELECTOR_ALL : l->selector);
        hash_bytes(h, &l->threshold, is_exact ? 0 : sizeof l->threshold);
    }
    hash_bytes(h, &e->recall, e->recall > 0 ? sizeof e->recall : 0);
    hash_number(h, e->activations);
    hash_number(h, e->leaves_out);
    hash_number(h, s->pages.positions);
}

static state_identity identity_of(const hearth_session *s)
{
    state_identity is = {
        .format = s->cache.format, .context = s->context, .vocabulary = s->engine->model->hyper.vocabulary_size};
    hash128 layout = hash_begin();
    hash_layout(&layout, s);
    hash_print(is.layout, &layout);
    model_fingerprint(is.fingerprint, s->engine->model);
    return is;
}

/* ------------------------------------------------------------------ files */

static hearth_status put_all(file_writer *w, const state_identity *is, const hearth_checkpoint *c, hearth_error *error)
{
    uint8_t head[STATE_FILE_HEAD];
    const state_view v = {c->length, (const uint8_t *)c->tokens, (const uint8_t *)c->state, c->state_bytes};
    state_file_head(head, is, &v);
    TRY(file_writer_put(w, head, sizeof head, error));
    TRY(file_writer_put(w, v.tokens, v.length * sizeof(int32_t), error));
    return file_writer_put(w, v.state, v.state_bytes, error);
}

hearth_status hearth_session_save_file(const hearth_session *session, uint32_t sequence, const char *path,
                                       hearth_error *error)
{
    hearth_checkpoint *c;
    file_writer *w;
    state_identity is = identity_of(session);
    TRY(hearth_session_save(session, sequence, &c, error));
    hearth_status status = file_writer_open(&w, path, error);
    if (status == HEARTH_OK) {
        status = put_all(w, &is, c, error);
        if (status == HEARTH_OK)
            status = file_writer_commit(w, error);
        else
            file_writer_discard(w);
    }
    hearth_checkpoint_destroy(c);
    return status;
}

hearth_status hearth_session_restore_file(hearth_session *session, uint32_t sequence, const char *path,
                                          hearth_error *error)
{
    file_map map;
    state_view v;
    hearth_checkpoint *c = NULL;
    state_identity is = identity_of(session);
    TRY(file_map_open(&map, path, error));
    hearth_status status = state_file_parse(&v, map.data, map.size_bytes, &is, path, error);
    if (status == HEARTH_OK && v.state_bytes != state_saved_bytes(session, (uint32_t)v.length))
        status = fail(error, HEARTH_FORMAT, "%s: its state has %zu bytes, that of %zu tokens has %zu", path,
                      v.state_bytes, v.length, state_saved_bytes(session, (uint32_t)v.length));
    if (status == HEARTH_OK)
        status = checkpoint_new(&c, session, (uint32_t)v.length, error);
    if (status == HEARTH_OK) {
        memcpy(c->tokens, v.tokens, v.length * sizeof *c->tokens);
        memcpy(c->state, v.state, v.state_bytes);
        status = hearth_session_restore(session, sequence, c, error);
    }
    hearth_checkpoint_destroy(c);
    file_map_close(&map);
    return status;
}
