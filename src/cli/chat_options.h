/* chat_options.h - the options that say how a conversation becomes text, for `run` and `template`. */
#ifndef CLI_CHAT_OPTIONS_H
#define CLI_CHAT_OPTIONS_H

#include "../chat/conversation.h"
#include "../file/checkpoint.h"
#include "command.h"

typedef struct chat_options {
    const char *template; /* a name or a file; NULL: the model's own */
    text_list variables;  /* NAME=VALUE */
} chat_options;

#define CHAT_OPTION_COUNT 2
extern const option chat_option_rows[CHAT_OPTION_COUNT];

/* A template with what is always set for it. */
typedef struct chat_form {
    template *template;
    json_t *variables; /* of --set; an object   */
    struct tm now;     /* of --set strftime_now */
    bool has_now;
} chat_form;

/* Parses a template's source, and the values of --set: JSON where they can be read as such, else text. path: of the command, begins the
 * errors. HEARTH_INVALID: wrong use. Or as template_create. */
hearth_status chat_form_open(chat_form *out, const char *path, const chat_options *o, span source, const char *name,
                             hearth_error *error);
void chat_form_close(chat_form *f);

/* Finds the source that --chat-template names, a file's or that of a name, or the model's own; *owned is to be freed with
 * mem_free (NULL: the source is the model's). As model_chat_source. */
hearth_status chat_source(const chat_options *o, const checkpoint *c, span *out, char **owned, hearth_error *error);

/* Renders messages, with the variables and the clock of the form. As conversation_render. */
hearth_status chat_form_render(const chat_form *f, conversation c, buffer *out, hearth_error *error);

#endif
