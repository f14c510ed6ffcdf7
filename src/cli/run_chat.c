/* run_chat.c - `hearth run` with a model that answers messages.
 *
 * The messages are rendered anew for every answer, and only what differs from what the session has read is read: the rest
 * stays in its cache. So /undo, /retry, a new system message, and templates that leave old reasoning out need no care. */
#include "run.h"

#include "dialogue.h"
#include "output.h"
#include "terminal.h"

#include "../base/file.h"
#include "../model/chat.h"
#include "../model/model.h"

#include <string.h>

/* Room for the answer that must be left in a context; below it the oldest messages are left out. */
#define ANSWER_ROOM 128u

typedef struct talk {
    chat *chat;
    const chat_form *form;
    json_t *messages;
    int32_t *read; /* [read_count] what the session has read */
    size_t read_count;
    bool terminal;
} talk;

/* ------------------------------------------------------------------ messages */

/* Makes a message; NULL: no memory. */
static json_t *new_message(const char *role, span content)
{
    json_t *text = json_text(content);
    return text ? json_pack("{s:s, s:o}", "role", role, "content", text) : NULL;
}

static hearth_status add_message(json_t *messages, json_t *message, hearth_error *error)
{
    return json_array_append_new(messages, message) == 0 ? HEARTH_OK : fail_memory(error, "message", 0);
}

static bool has_role(const json_t *messages, size_t index, const char *role)
{
    const char *text = json_string_value(json_object_get(json_array_get(messages, index), "role"));
    return text && strcmp(text, role) == 0;
}

/* Returns the index of the last message of a role; the count where there is none. */
static size_t last_of_role(const json_t *messages, const char *role)
{
    size_t count = json_array_size(messages);
    for (size_t i = count; i-- > 0;)
        if (has_role(messages, i, role))
            return i;
    return count;
}

static void cut_messages(json_t *messages, size_t count)
{
    while (json_array_size(messages) > count)
        json_array_remove(messages, json_array_size(messages) - 1);
}

/* Sets, replaces or (an empty text) removes the system message. */
static hearth_status set_system(json_t *messages, const char *text, hearth_error *error)
{
    bool has_system = has_role(messages, 0, "system");
    if (*text && json_array_insert_new(messages, 0, new_message("system", span_of(text))) != 0)
        return fail_memory(error, "message", strlen(text));
    if (has_system)
        json_array_remove(messages, *text ? 1 : 0);
    return HEARTH_OK;
}

static hearth_status render(const chat *s, const chat_form *form, const json_t *messages, buffer *text,
                            hearth_error *error)
{
    conversation c = {.messages = messages, .answers = true};
    model_chat_tokens(s->loaded.model->tokenizer, &c);
    return chat_form_render(form, c, text, error);
}

hearth_status chat_open_form(const chat *s, const run_values *v, chat_form *out, hearth_error *error)
{
    span source;
    char *owned;
    TRY(chat_source(&v->chat, s->loaded.model->source, &source, &owned, error));
    hearth_status status =
        chat_form_open(out, "run", &v->chat, source, v->chat.template ? v->chat.template : "chat template", error);
    mem_free(owned);
    return status;
}

hearth_status message_render(const chat *s, const run_values *v, const chat_form *form, buffer *text,
                             hearth_error *error)
{
    json_t *messages = json_array();
    hearth_status status = messages ? HEARTH_OK : fail_memory(error, "message", 0);
    if (status == HEARTH_OK)
        status = add_message(messages, new_message("user", span_of(v->message)), error);
    if (status == HEARTH_OK)
        status = set_system(messages, v->system ? v->system : "", error);
    if (status == HEARTH_OK)
        status = render(s, form, messages, text, error);
    json_decref(messages);
    return status;
}

/* ------------------------------------------------------------------ an answer */

/* What is read for an answer. */
typedef struct reading {
    buffer text;
    int32_t *ids; /* [count] */
    size_t count;
} reading;

static void free_reading(reading *in)
{
    buffer_free(&in->text);
    hearth_free(in->ids);
    *in = (reading){0};
}

/* Returns the bytes of what a message says. */
static size_t content_bytes(const json_t *message)
{
    const json_t *content = json_object_get(message, "content");
    return json_is_string(content) ? json_string_length(content) : json_dumpb(content, NULL, 0, JSON_ENCODE_ANY);
}

/* Leaves out the oldest question with what follows it up to the next one, and adds their bytes to *bytes; false: it is the
 * last one. */
static bool drop_oldest(json_t *messages, size_t *bytes)
{
    size_t first = has_role(messages, 0, "system"), next = first + 1;
    while (next < json_array_size(messages) && !has_role(messages, next, "user"))
        next++;
    if (next >= json_array_size(messages))
        return false;
    for (size_t i = first; i < next; i++) {
        *bytes += content_bytes(json_array_get(messages, first));
        json_array_remove(messages, first);
    }
    return true;
}

/* Leaves out the oldest questions, by half of what is too much, as the length of the texts tells it: a long conversation
 * then takes few renderings, and loses no more than it has to. share: of the tokens, which is too much. false: there is
 * only one question. */
static bool drop_share(json_t *messages, double share)
{
    size_t all = 0, dropped = 0;
    for (size_t i = 0; i < json_array_size(messages); i++)
        all += content_bytes(json_array_get(messages, i));
    bool any = drop_oldest(messages, &dropped);
    while (any && (double)dropped < share / 2 * (double)all && drop_oldest(messages, &dropped))
        continue;
    return any;
}

/* Renders the messages; leaves out the oldest ones until there is room for an answer. */
static hearth_status read_messages(talk *t, reading *in, hearth_error *error)
{
    const chat *s = t->chat;
    size_t context = hearth_session_context(s->session), before = json_array_size(t->messages);
    size_t room = ANSWER_ROOM < context / 4 ? ANSWER_ROOM : context / 4;
    for (;;) {
        TRY(render(s, t->form, t->messages, &in->text, error));
        TRY(model_chat_encode(s->loaded.model->tokenizer, (span){in->text.data, in->text.size}, &in->ids, &in->count,
                              error));
        double room_left = (double)context - (double)room - (double)in->count;
        if (room_left >= 0 || !drop_share(t->messages, -room_left / (double)in->count))
            break;
        free_reading(in);
    }
    size_t dropped = before - json_array_size(t->messages);
    if (dropped > 0 && !s->messages.quiet)
        output_note("note", "context full: goes on without the oldest %zu message%s", dropped, dropped == 1 ? "" : "s");
    if (in->count > context)
        return fail(error, HEARTH_FULL,
                    "run: chat: the message needs %zu tokens, the context has %zu; -c makes it larger", in->count,
                    context);
    return HEARTH_OK;
}

/* Makes the session forget all that differs from what is to be read now; returns how many of the ids it knows. At least
 * the last one is read again, for its logits. */
static hearth_status keep_common(talk *t, const reading *in, size_t *common, hearth_error *error)
{
    size_t n = 0;
    while (n < t->read_count && n + 1 < in->count && t->read[n] == in->ids[n])
        n++;
    n = hearth_session_reach(t->chat->session, 0, (uint32_t)n); /* fewer where the state of that length was not kept */
    *common = n;
    t->read_count = n;
    return hearth_session_truncate(t->chat->session, 0, (uint32_t)n, error);
}

/* Remembers what the session has read by now: the messages, and the answer without the tokens it did not get to. */
static hearth_status remember_read(talk *t, const reading *in, hearth_error *error)
{
    const chat *s = t->chat;
    size_t length = hearth_session_length(s->session, 0), given = length < in->count ? length : in->count;
    int32_t *all = mem_resize(t->read, (length ? length : 1) * sizeof *all);
    if (!all)
        return fail_memory(error, "chat", length * sizeof *all);
    t->read = all;
    memcpy(all, in->ids, given * sizeof *all);
    if (length > given)
        memcpy(all + given, s->ids, (length - given) * sizeof *all);
    t->read_count = length;
    return HEARTH_OK;
}

/* Adds the answer to the messages, with its reasoning in the members that templates look for. */
static hearth_status add_answer(talk *t, hearth_error *error)
{
    const chat *s = t->chat;
    json_t *message = new_message("assistant", (span){s->text.data, s->text.size});
    static const char *const members[] = {"reasoning_content", "thinking"};
    for (size_t i = 0; message && s->thoughts.size > 0 && i < sizeof members / sizeof *members; i++)
        if (json_object_set_new(message, members[i], json_text((span){s->thoughts.data, s->thoughts.size})) != 0)
            break;
    return add_message(t->messages, message, error);
}

static void report(talk *t, const hearth_result *result)
{
    chat *s = t->chat;
    if (s->last != '\n')
        chat_print(s, "\n", 1);
    if (ferror(stdout))
        return;
    chat_report(s, result);
    if (t->terminal && result->stop == HEARTH_STOP_CONTEXT && !s->messages.quiet)
        output_note("note", "the context is full; the next answer goes on without the oldest messages");
}

/* Adds what was answered; fails if the user stopped it before there was anything. */
static hearth_status take_answer(talk *t, const hearth_result *result, hearth_error *error)
{
    if (result->stop == HEARTH_STOP_CANCELLED && t->chat->id_count == 0)
        return fail(error, HEARTH_CANCELLED, "stopped before the answer began; the message is taken back");
    report(t, result);
    return add_answer(t, error);
}

/* Answers the messages, of which the last is the user's. */
static hearth_status answer(talk *t, hearth_error *error)
{
    chat *s = t->chat;
    reading in = {0};
    hearth_result result;
    size_t common = 0;
    hearth_status status = read_messages(t, &in, error);
    if (status == HEARTH_OK)
        status = keep_common(t, &in, &common, error);
    if (status == HEARTH_OK)
        status = chat_hold(s, (span){in.text.data, in.text.size}, error);
    if (status == HEARTH_OK) {
        reasoning_begin(&s->reasoning, (span){in.text.data, in.text.size});
        s->last = 0;
        status = chat_answer(s, in.ids + common, in.count - common, &result, error);
    }
    if (status == HEARTH_OK)
        status = remember_read(t, &in, error);
    else
        t->read_count = 0; /* what the session has read of it is not known */
    if (status == HEARTH_OK)
        status = take_answer(t, &result, error);
    free_reading(&in);
    return status;
}

/* ------------------------------------------------------------------ lines */

/* Whether the user wants to read what a word did. */
static bool tells(const talk *t)
{
    return t->terminal && !t->chat->messages.quiet;
}

/* Answers the first `kept` messages, and `question` where it is not NULL; if that fails, all stays as it was. */
static hearth_status ask(talk *t, size_t kept, const char *question, hearth_error *error)
{
    json_t *before = json_copy(t->messages);
    if (!before)
        return fail_memory(error, "message", 0);
    cut_messages(t->messages, kept);
    hearth_status status = HEARTH_OK;
    if (question)
        status = add_message(t->messages, new_message("user", span_of(question)), error);
    if (status == HEARTH_OK)
        status = answer(t, error);
    json_t *dropped = before;
    if (status != HEARTH_OK) {
        dropped = t->messages;
        t->messages = before;
    }
    json_decref(dropped);
    return status;
}

static hearth_status say(void *user, const char *text, hearth_error *error)
{
    talk *t = user;
    return *text ? ask(t, json_array_size(t->messages), text, error) : HEARTH_OK;
}

static hearth_status clear(void *user, const char *argument, hearth_error *error)
{
    (void)argument, (void)error;
    talk *t = user;
    bool has_system = has_role(t->messages, 0, "system");
    cut_messages(t->messages, has_system);
    hearth_sampler_reset(t->chat->sampler);
    if (tells(t))
        output_note("note", "a new conversation%s", has_system ? ", with the system message" : "");
    return HEARTH_OK;
}

static hearth_status undo(void *user, const char *argument, hearth_error *error)
{
    (void)argument;
    talk *t = user;
    size_t last = last_of_role(t->messages, "user");
    if (last == json_array_size(t->messages))
        return fail(error, HEARTH_INVALID, "run: /undo: nothing has been said yet");
    const char *text = json_string_value(json_object_get(json_array_get(t->messages, last), "content"));
    if (tells(t) && text)
        output_note("note", "taken back: %.*s%s", (int)strcspn(text, "\n"), text, strchr(text, '\n') ? " ..." : "");
    cut_messages(t->messages, last);
    return HEARTH_OK;
}

static hearth_status retry(void *user, const char *argument, hearth_error *error)
{
    (void)argument;
    talk *t = user;
    size_t last = last_of_role(t->messages, "user");
    if (last == json_array_size(t->messages))
        return fail(error, HEARTH_INVALID, "run: /retry: nothing has been said yet");
    return ask(t, last + 1, NULL, error);
}

static hearth_status change_system(void *user, const char *argument, hearth_error *error)
{
    talk *t = user;
    if (*argument) {
        TRY(set_system(t->messages, argument, error));
        if (tells(t))
            output_note("note", "the system message is set");
        return HEARTH_OK;
    }
    const char *text = NULL; /* that of a loaded conversation may be no text, or may have controls in it */
    if (has_role(t->messages, 0, "system"))
        text = json_string_value(json_object_get(json_array_get(t->messages, 0), "content"));
    output_terminal(stderr, span_of(text ? text : "(none)"));
    fputc('\n', stderr);
    return HEARTH_OK;
}

/* Opens the path that a user typed, where ~ is the home folder, for `act`. */
static hearth_status with_path(talk *t, const char *word, const char *typed,
                               hearth_status (*act)(talk *t, const char *path, hearth_error *error),
                               hearth_error *error)
{
    const char *home = strncmp(typed, "~/", 2) == 0 ? getenv("HOME") : NULL;
    buffer path = {0};
    if (!*typed)
        return fail(error, HEARTH_INVALID, "run: %s: needs the name of a file", word);
    if (!buffer_print(&path, "%s%s", home ? home : "", home ? typed + 1 : typed) || !buffer_put(&path, "", 1)) {
        buffer_free(&path);
        return fail_memory(error, typed, strlen(typed));
    }
    hearth_status status = act(t, path.data, error);
    buffer_free(&path);
    return status;
}

static void tell_count(const talk *t, const char *how, const char *path)
{
    size_t count = json_array_size(t->messages);
    if (tells(t))
        output_note("note", "%zu message%s %s %s", count, count == 1 ? "" : "s", how, path);
}

static hearth_status save_to(talk *t, const char *path, hearth_error *error)
{
    file_writer *file;
    char *text = json_dumps(t->messages, JSON_INDENT(1));
    if (!text)
        return fail_memory(error, path, 0);
    hearth_status status = file_writer_open(&file, path, error);
    if (status == HEARTH_OK) {
        status = file_writer_put(file, text, strlen(text), error);
        if (status == HEARTH_OK)
            status = file_writer_put(file, "\n", 1, error);
        if (status == HEARTH_OK)
            status = file_writer_commit(file, error);
        else
            file_writer_discard(file);
    }
    free(text); /* jansson's own */
    if (status == HEARTH_OK)
        tell_count(t, "written to", path);
    return status;
}

static hearth_status save(void *user, const char *argument, hearth_error *error)
{
    return with_path(user, "/save", argument, save_to, error);
}

static hearth_status load_from(talk *t, const char *path, hearth_error *error)
{
    json_t *messages;
    TRY(json_parse_file(&messages, path, error));
    const conversation c = {.messages = messages};
    hearth_status status = conversation_check(&c, path, error);
    if (status != HEARTH_OK) {
        json_decref(messages);
        return status;
    }
    json_decref(t->messages);
    t->messages = messages;
    tell_count(t, "read from", path);
    return HEARTH_OK;
}

static hearth_status load(void *user, const char *argument, hearth_error *error)
{
    return with_path(user, "/load", argument, load_from, error);
}

static hearth_status refuse_image(void *user, const char *argument, hearth_error *error)
{
    (void)user, (void)argument;
    return fail(error, HEARTH_UNSUPPORTED, "run: /image: hearth reads text only");
}

static const dialogue_word words[] = {
    {"/clear", NULL, "begin a new conversation; the system message stays", clear},
    {"/reset", NULL, NULL, clear},
    {"/undo", NULL, "take back the last question and its answer", undo},
    {"/retry", NULL, "answer the last question again", retry},
    {"/regen", NULL, NULL, retry},
    {"/system", "TEXT", "set the system message; without TEXT: show it", change_system},
    {"/set system", "TEXT", NULL, change_system},
    {"/save", "FILE", "write the messages to FILE, as JSON", save},
    {"/load", "FILE", "go on with the messages of FILE", load},
    {"/image", "FILE", NULL, refuse_image},
};

hearth_status conversation_run(chat *s, const run_values *v, const chat_form *form, hearth_error *error)
{
    talk t = {.chat = s, .form = form, .messages = json_array()};
    dialogue d = {.about = "Type a message. A line that ends with a backslash goes on in the next one;\n"
                           "\"\"\" begins and ends a text of several lines.\n",
                  .words = words,
                  .word_count = sizeof words / sizeof *words,
                  .joins_lines = true,
                  .say = say,
                  .user = &t};
    if (!t.messages)
        return fail_memory(error, "chat", 0);
    s->talks = true;
    line_editor_open(&d.editor);
    t.terminal = d.editor.terminal;
    if (t.terminal && !s->messages.quiet)
        dialogue_greet(&d);
    hearth_status status = set_system(t.messages, v->system ? v->system : "", error);
    if (status == HEARTH_OK)
        status = dialogue_run(&d, error);
    if (t.terminal && status == HEARTH_OK && !d.done)
        fputc('\n', stderr);
    line_editor_close(&d.editor);
    json_decref(t.messages);
    mem_free(t.read);
    return status;
}
