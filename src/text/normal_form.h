/* normal_form.h - Unicode's normal forms (UAX #15), which some vocabularies ask for.
 *
 * Private to the text module. */
#ifndef TEXT_NORMAL_FORM_H
#define TEXT_NORMAL_FORM_H

#include "../base/error.h"
#include "../base/text.h"

typedef enum normal_form { FORM_NONE, FORM_NFC, FORM_NFD, FORM_NFKC, FORM_NFKD, FORM_COUNT } normal_form;

/* Finds a form by its name ("nfc" ...). Returns false where there is none of that name. */
bool normal_form_find(normal_form *out, span name);

/* Writes a text in a form to an emptied buffer; bytes that are not UTF-8 stay as they are. HEARTH_UNSUPPORTED: more than
 * MARKS_LIMIT combining marks in a row: ordering them takes the square of their number. */
enum { MARKS_LIMIT = 1024 };
hearth_status normal_form_write(normal_form form, span text, buffer *out, hearth_error *error);

#endif
