/* members.h - strict reading of the small JSON files that people write for the planner: machines and shapes.
 *
 * A member that is misspelled would otherwise count as absent, and the plan would be for another machine. So unknown
 * members are errors, and every number has a range. `name` begins each error text: the file, and the object in it. */
#ifndef PLAN_MEMBERS_H
#define PLAN_MEMBERS_H

#include "../base/json.h"

/* Reads the file that a user names: the path if there is such a file, else NAME.json in `folder` (NULL: nowhere), in small
 * letters. what: "machine", for the error. HEARTH_IO: neither is there. HEARTH_FORMAT: it is not JSON. */
hearth_status members_read_file(json_t **out, const char *path, const char *folder, const char *what,
                                hearth_error *error);

#define MEMBERS_PLACE 320

/* Writes "NAME: PLACE", the name of an object inside another one, for errors. A long name is cut, its place is not. */
void members_place(char out[MEMBERS_PLACE], const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* HEARTH_FORMAT: not an object, or it has a member that is not among names [count]. */
hearth_status members_known(const json_t *object, const char *const *names, size_t count, const char *name,
                            hearth_error *error);

/* Read a member as json_get_number and its like do, which say what `found` means. HEARTH_FORMAT: also if the value is not
 * from least to most; for a text, if it has more than size - 1 bytes. */
hearth_status members_number(const json_t *object, const char *key, double least, double most, double *out, bool *found,
                             const char *name, hearth_error *error);
hearth_status members_count(const json_t *object, const char *key, uint32_t least, uint32_t most, uint32_t *out,
                            bool *found, const char *name, hearth_error *error);
hearth_status members_text(const json_t *object, const char *key, char *out, size_t size, bool *found, const char *name,
                           hearth_error *error);

/* Gets a list of at most `most` items, of any type. */
hearth_status members_list(const json_t *object, const char *key, size_t most, const json_t **out, bool *found,
                           const char *name, hearth_error *error);

#endif
