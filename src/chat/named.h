/* named.h - templates for models whose files have none, by the names that llama.cpp's users know. */
#ifndef CHAT_NAMED_H
#define CHAT_NAMED_H

#include "../base/text.h"

/* Returns the source of a template by its name; size 0: there is none of that name. */
span named_template_find(const char *name);
/* Returns the names one by one; NULL: no more. */
const char *named_template_at(size_t index);

#endif
