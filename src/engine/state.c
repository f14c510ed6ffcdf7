/* state.c - the kinds of state, and the functions of a session that treat sequences as a whole: truncate, fork, save,
 * restore. */
#include "state.h"

#include "device_session.h"

#include "../base/memory.h"

#include <string.h>

/* ------------------------------------------------------------------ pages of the cache */

static bool pages_present(const hearth_session *s)
{
    (void)s;
    return true;
}

static hearth_status cut_pages(hearth_session *s, uint32_t sequence, uint32_t now, uint32_t length, hearth_error *error)
{
    (void)now, (void)error;
    kv_pages_cut(&s->pages, sequence, length);
    return HEARTH_OK;
}

static size_t no_bytes(const hearth_session *s, uint32_t length)
{
    (void)s, (void)length;
    return 0;
}

static hearth_status share_pages(hearth_session *s, uint32_t from, uint32_t to, uint32_t length, hearth_error *error)
{
    (void)error;
    kv_pages_share(&s->pages, from, to);
    kv_pages_cut(&s->pages, to, length);
    return HEARTH_OK;
}

static hearth_status take_pages(hearth_session *s, uint32_t sequence, uint32_t length, const void *block,
                                hearth_error *error)
{
    (void)block, (void)error;
    kv_pages_grow(&s->pages, sequence, length);
    return HEARTH_OK;
}

/* Gives a sequence a page of its own in place of one that it writes to and others have, too. */
static hearth_status own_page(hearth_session *s, uint32_t sequence, hearth_error *error)
{
    kv_pages *p = &s->pages;
    uint32_t index = s->lengths[sequence] / p->positions, filled = s->lengths[sequence] % p->positions;
    if (filled == 0 || p->references[kv_pages_row(p, sequence)[index]] == 1)
        return HEARTH_OK;
    uint32_t from = kv_pages_row(p, sequence)[index], to = kv_pages_find(p, sequence, index);
    kv_copy_page(&s->cache, from, to, filled);
    if (s->device)
        TRY(device_kv_copy_page(s, from, to, error));
    kv_pages_replace(p, sequence, index, to);
    return HEARTH_OK;
}

hearth_status state_make_room(hearth_session *s, const uint32_t *later, hearth_error *error)
{
    hearth_status status = HEARTH_OK;
    for (uint32_t i = 0; status == HEARTH_OK && i < s->sequences; i++)
        if (later[i] > s->lengths[i]) {
            status = own_page(s, i, error);
            if (status == HEARTH_OK)
                kv_pages_grow(&s->pages, i, later[i]);
        }
    if (status != HEARTH_OK)
        state_give_back(s);
    return status;
}

void state_give_back(hearth_session *s)
{
    for (uint32_t i = 0; i < s->sequences; i++)
        kv_pages_cut(&s->pages, i, s->lengths[i]);
}

/* ------------------------------------------------------------------ keys and values of the CPU */

static bool host_present(const hearth_session *s)
{
    return s->cache.layer_count > 0;
}

static size_t host_bytes(const hearth_session *s, uint32_t length)
{
    return kv_saved_bytes(&s->cache, length);
}

static hearth_status host_save(const hearth_session *s, uint32_t sequence, uint32_t length, void *block,
                               hearth_error *error)
{
    (void)error;
    kv_save(&s->cache, sequence, length, block);
    return HEARTH_OK;
}

static hearth_status host_restore(hearth_session *s, uint32_t sequence, uint32_t length, const void *block,
                                  hearth_error *error)
{
    (void)error;
    kv_restore(&s->cache, sequence, length, block);
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ recurrent states */

size_t session_recurrents(const hearth_session *s, recurrent_states *out[RECURRENT_SIDES])
{
    recurrent_states *there = device_recurrent(s);
    size_t count = 0;
    if (s->recurrent.layer_count > 0)
        out[count++] = (recurrent_states *)&s->recurrent;
    if (there && there->layer_count > 0)
        out[count++] = there;
    return count;
}

static bool recurrent_present(const hearth_session *s)
{
    recurrent_states *each[RECURRENT_SIDES];
    return session_recurrents(s, each) > 0;
}

/* Both sides keep the same lengths, unless a device failed to copy one. */
static uint32_t reach(const hearth_session *s, uint32_t sequence, uint32_t now, uint32_t length)
{
    recurrent_states *each[RECURRENT_SIDES];
    size_t count = session_recurrents(s, each);
    for (uint32_t before = UINT32_MAX; length < before;) {
        before = length;
        for (size_t i = 0; i < count; i++)
            length = recurrent_reach(each[i], sequence, now, length);
    }
    return length;
}

static hearth_status cut(hearth_session *s, uint32_t sequence, uint32_t now, uint32_t length, hearth_error *error)
{
    recurrent_states *each[RECURRENT_SIDES];
    for (size_t i = session_recurrents(s, each); i-- > 0;)
        TRY(recurrent_cut(each[i], sequence, now, length, error));
    return HEARTH_OK;
}

/* The same for any number of tokens, but none. */
static size_t recurrent_saved_bytes(const hearth_session *s, uint32_t length)
{
    recurrent_states *each[RECURRENT_SIDES];
    size_t bytes = 0;
    for (size_t i = session_recurrents(s, each); length > 0 && i-- > 0;)
        bytes += each[i]->length * sizeof(float);
    return bytes;
}

static hearth_status copy_recurrents(hearth_session *s, uint32_t from, uint32_t to, uint32_t length,
                                     hearth_error *error)
{
    recurrent_states *each[RECURRENT_SIDES];
    for (size_t i = session_recurrents(s, each); i-- > 0;)
        TRY(recurrent_copy(each[i], from, to, s->lengths[from], length, error));
    return HEARTH_OK;
}

static hearth_status save_recurrents(const hearth_session *s, uint32_t sequence, uint32_t length, void *block,
                                     hearth_error *error)
{
    recurrent_states *each[RECURRENT_SIDES];
    float *to = block;
    for (size_t i = session_recurrents(s, each); length > 0 && i-- > 0; to += each[i]->length)
        TRY(recurrent_save(each[i], sequence, to, error));
    return HEARTH_OK;
}

static hearth_status restore_recurrents(hearth_session *s, uint32_t sequence, uint32_t length, const void *block,
                                        hearth_error *error)
{
    recurrent_states *each[RECURRENT_SIDES];
    const float *from = block;
    for (size_t i = session_recurrents(s, each); i-- > 0; from += each[i]->length)
        TRY(recurrent_restore(each[i], sequence, length > 0 ? from : NULL, error));
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ the kinds */

static bool device_present(const hearth_session *s)
{
    return s->device != NULL;
}

/* Pages come first: the others write to them. */
const state_kind state_kinds[] = {
    {"pages", pages_present, NULL, cut_pages, no_bytes, share_pages, NULL, take_pages},
    {"keys and values", host_present, NULL, NULL, host_bytes, NULL, host_save, host_restore},
    {"recurrent state", recurrent_present, reach, cut, recurrent_saved_bytes, copy_recurrents, save_recurrents,
     restore_recurrents},
    {"keys and values on the device", device_present, NULL, NULL, device_kv_bytes, NULL, device_kv_save,
     device_kv_restore},
};
const size_t state_kind_count = sizeof state_kinds / sizeof *state_kinds;

/* ------------------------------------------------------------------ sequences */

static hearth_status check_sequence(const hearth_session *s, uint32_t sequence, hearth_error *error)
{
    if (sequence >= s->sequences)
        return fail(error, HEARTH_INVALID, "session: sequence %u: there are only %u", sequence, s->sequences);
    return HEARTH_OK;
}

/* Makes a sequence empty. */
static void empty(hearth_session *s, uint32_t sequence)
{
    s->lengths[sequence] = 0;
    kv_pages_cut(&s->pages, sequence, 0);
}

uint32_t hearth_session_reach(const hearth_session *session, uint32_t sequence, uint32_t length)
{
    uint32_t now = hearth_session_length(session, sequence);
    length = length < now ? length : now;
    for (const state_kind *k = state_kinds; k < state_kinds + state_kind_count; k++)
        if (k->reach && k->present(session))
            length = k->reach(session, sequence, now, length);
    return length;
}

hearth_status hearth_session_truncate(hearth_session *session, uint32_t sequence, uint32_t length, hearth_error *error)
{
    TRY(check_sequence(session, sequence, error));
    uint32_t before = session->lengths[sequence];
    if (length > before)
        return fail(error, HEARTH_INVALID, "session: sequence %u: cannot be cut to %u, it has %u tokens", sequence,
                    length, before);
    for (const state_kind *k = state_kinds; k < state_kinds + state_kind_count; k++)
        if (k->reach && k->present(session) && k->reach(session, sequence, before, length) != length)
            return fail(error, HEARTH_UNSUPPORTED,
                        "session: sequence %u: its %s is not kept of %u tokens; the next shorter one is of %u",
                        sequence, k->name, length, k->reach(session, sequence, before, length));
    hearth_status status = HEARTH_OK;
    for (const state_kind *k = state_kinds; k < state_kinds + state_kind_count && status == HEARTH_OK; k++)
        if (k->cut && k->present(session))
            status = k->cut(session, sequence, before, length, error);
    if (status == HEARTH_OK)
        session->lengths[sequence] = length;
    else
        empty(session, sequence);
    return status;
}

hearth_status hearth_session_fork(hearth_session *session, uint32_t from, uint32_t to, hearth_error *error)
{
    TRY(check_sequence(session, from, error));
    TRY(check_sequence(session, to, error));
    return from == to ? HEARTH_OK : session_fork_at(session, from, to, session->lengths[from], error);
}

hearth_status session_fork_at(hearth_session *session, uint32_t from, uint32_t to, uint32_t length, hearth_error *error)
{
    empty(session, to);
    hearth_status status = HEARTH_OK;
    for (const state_kind *k = state_kinds; k < state_kinds + state_kind_count && status == HEARTH_OK; k++)
        if (k->copy && k->present(session))
            status = k->copy(session, from, to, length, error);
    if (status != HEARTH_OK) {
        empty(session, to);
        return status;
    }
    memcpy(session_tokens(session, to), session_tokens(session, from), length * sizeof *session->tokens);
    session->lengths[to] = length;
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ checkpoints */

size_t state_saved_bytes(const hearth_session *s, uint32_t length)
{
    size_t bytes = 0;
    for (const state_kind *k = state_kinds; k < state_kinds + state_kind_count; k++)
        bytes += k->present(s) ? k->saved_bytes(s, length) : 0;
    return bytes;
}

/* Saves all kinds to a block of saved_bytes. */
static hearth_status save_all(const hearth_session *s, uint32_t sequence, uint32_t length, char *block,
                              hearth_error *error)
{
    for (const state_kind *k = state_kinds; k < state_kinds + state_kind_count; k++)
        if (k->save && k->present(s)) {
            TRY(k->save(s, sequence, length, block, error));
            block += k->saved_bytes(s, length);
        }
    return HEARTH_OK;
}

hearth_status checkpoint_new(hearth_checkpoint **out, const hearth_session *s, uint32_t length, hearth_error *error)
{
    size_t bytes = state_saved_bytes(s, length);
    hearth_checkpoint *c = mem_new(sizeof *c);
    if (!c)
        return fail_memory(error, "session: checkpoint", sizeof *c);
    *c = (hearth_checkpoint){.engine = s->engine,
                             .format = s->cache.format,
                             .length = length,
                             .tokens = mem_new_array(length, sizeof *c->tokens),
                             .state = mem_new(bytes),
                             .state_bytes = bytes};
    if (!c->tokens || !c->state) {
        hearth_checkpoint_destroy(c);
        return fail_memory(error, "session: checkpoint", bytes);
    }
    *out = c;
    return HEARTH_OK;
}

hearth_status hearth_session_save(const hearth_session *session, uint32_t sequence, hearth_checkpoint **out,
                                  hearth_error *error)
{
    TRY(check_sequence(session, sequence, error));
    uint32_t length = session->lengths[sequence];
    hearth_checkpoint *c;
    TRY(checkpoint_new(&c, session, length, error));
    hearth_status status = save_all(session, sequence, length, c->state, error);
    if (status != HEARTH_OK) {
        hearth_checkpoint_destroy(c);
        return status;
    }
    memcpy(c->tokens, session_tokens(session, sequence), length * sizeof *c->tokens);
    *out = c;
    return HEARTH_OK;
}

hearth_status hearth_session_restore(hearth_session *session, uint32_t sequence, const hearth_checkpoint *saved,
                                     hearth_error *error)
{
    TRY(check_sequence(session, sequence, error));
    if (saved->engine != session->engine || saved->format != session->cache.format)
        return fail(error, HEARTH_INVALID, "session: checkpoint: is of another engine or KV format");
    if (saved->length > session->context)
        return fail(error, HEARTH_FULL, "session: checkpoint: has %u tokens, the context only %u", saved->length,
                    session->context);
    const kv_pages *p = &session->pages;
    uint32_t room = p->free_count + kv_pages_own(p, sequence);
    if (kv_pages_of(p, saved->length) > room)
        return fail(error, HEARTH_FULL, "session: checkpoint: has %u tokens, the cache room for only %llu more",
                    saved->length, (unsigned long long)kv_pages_positions(p, room));
    const char *block = saved->state;
    hearth_status status = HEARTH_OK;
    empty(session, sequence);
    for (const state_kind *k = state_kinds; k < state_kinds + state_kind_count && status == HEARTH_OK; k++)
        if (k->present(session)) {
            status = k->restore(session, sequence, saved->length, block, error);
            block += k->saved_bytes(session, saved->length);
        }
    if (status != HEARTH_OK) {
        empty(session, sequence);
        return status;
    }
    memcpy(session_tokens(session, sequence), saved->tokens, saved->length * sizeof *saved->tokens);
    session->lengths[sequence] = saved->length;
    return HEARTH_OK;
}

void hearth_checkpoint_destroy(hearth_checkpoint *saved)
{
    if (!saved)
        return;
    mem_free(saved->tokens);
    mem_free(saved->state);
    mem_free(saved);
}
