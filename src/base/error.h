/* error.h - statuses, and the functions that write error texts and log lines.
 *
 * A function that can fail returns hearth_status. The function that knows the cause writes the text
 * with fail(); all callers above it only pass the status on. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <hearth.h>

/* Fills error (may be NULL) with "FORMAT..." and returns status, so that
 * `return fail(error, HEARTH_FORMAT, "%s: %s: ...", path, thing)` is one line.
 * The text is cut to fit and control characters become '?', since it may quote a hostile file. */
hearth_status fail(hearth_error *error, hearth_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* fail() with HEARTH_NO_MEMORY: "what: out of memory (N bytes wanted)". */
hearth_status fail_memory(hearth_error *error, const char *what, size_t size_bytes);

/* fail() with HEARTH_IO and the text of errno: "path: what: No space left on device". */
hearth_status fail_errno(hearth_error *error, const char *path, const char *what);

/* Reports a line to the log callback, if there is one; the line is cleaned as an error text is. */
void log_line(const hearth_log *log, hearth_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Tells the static analyser, which sees one file at a time, that these functions never return HEARTH_OK. */
#if defined(__clang_analyzer__) && !defined(BASE_ERROR_ITSELF)
#define fail(error, status, ...) ((fail)(error, status, __VA_ARGS__), (status))
#define fail_memory(...)         ((fail_memory)(__VA_ARGS__), HEARTH_NO_MEMORY)
#define fail_errno(...)          ((fail_errno)(__VA_ARGS__), HEARTH_IO)
#endif

/* Returns from the calling function if the expression is not HEARTH_OK. */
// clang-format off
#define TRY(expression)                               \
    do {                                              \
        hearth_status try_status = (expression);      \
        if (try_status != HEARTH_OK)                  \
            return try_status;                        \
    } while (0)

/* Jumps to `label` on an error: for functions with one exit label that frees half-built objects. */
#define TRY_OR(label, status, expression)             \
    do {                                              \
        (status) = (expression);                      \
        if ((status) != HEARTH_OK)                    \
            goto label;                               \
    } while (0)
// clang-format on

#endif
