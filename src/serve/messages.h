/* messages.h - what the two files of Anthropic's API share. */
#ifndef SERVE_MESSAGES_H
#define SERVE_MESSAGES_H

#include "api.h"

/* Reads the conversation of a request and puts it into the body, in the form that templates take. */
bool messages_read(json_t *body, conversation_fields *out, problem *p);

#endif
