/* error.c - writes error texts and log lines; also the smallest functions of the public header.
 *
 * A text may quote names from a hostile file and is shown on terminals and in JSON answers.
 * So every text is one line of valid UTF-8 without control characters. */
#define BASE_ERROR_ITSELF /* define the functions, not the analyser's macros of error.h */
#include "error.h"

#include "memory.h"
#include "text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Replaces control characters and bytes that are not UTF-8 by '?'. U+0080 to U+009F (C2 80 to C2 9F)
 * are control characters too: some terminals act on them. */
static void make_printable(char *text, size_t size)
{
    size_t i = 0;
    while (i < size) {
        unsigned char byte = (unsigned char)text[i];
        size_t length = utf8_length(text + i, size - i);
        bool is_control = byte < 0x20 || byte == 0x7f || (byte == 0xc2 && (unsigned char)text[i + 1] < 0xa0);
        if (length == 0)
            length = 1;
        else if (!is_control) {
            i += length;
            continue;
        }
        memset(text + i, '?', length);
        i += length;
    }
}

/* Ends a text that was cut with "...", and never with half a character. */
static void mark_cut(char *text, size_t capacity)
{
    size_t end = capacity - sizeof "...";
    while (end > 0 && ((unsigned char)text[end] & 0xc0) == 0x80)
        end--;
    memcpy(text + end, "...", sizeof "...");
}

/* Writes a formatted text, cut to fit and made printable. */
static void write_text(char *text, size_t capacity, const char *format, va_list arguments)
{
    int length = vsnprintf(text, capacity, format, arguments);
    if (length < 0)
        text[0] = 0;
    else if ((size_t)length >= capacity)
        mark_cut(text, capacity);
    make_printable(text, strlen(text));
}

hearth_status fail(hearth_error *error, hearth_status status, const char *format, ...)
{
    if (!error)
        return status;
    error->status = status;
    va_list arguments;
    va_start(arguments, format);
    write_text(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    return status;
}

void log_line(const hearth_log *log, hearth_log_level level, const char *format, ...)
{
    char text[sizeof((hearth_error *)0)->text];
    if (!log->line)
        return;
    va_list arguments;
    va_start(arguments, format);
    write_text(text, sizeof text, format, arguments);
    va_end(arguments);
    log->line(log->user, level, text);
}

hearth_status fail_memory(hearth_error *error, const char *what, size_t size_bytes)
{
    return fail(error, HEARTH_NO_MEMORY, "%s: out of memory (%zu bytes wanted)", what, size_bytes);
}

hearth_status fail_errno(hearth_error *error, const char *path, const char *what)
{
    char reason[128];
    const char *text = strerror_r(errno, reason, sizeof reason);
    return fail(error, HEARTH_IO, "%s: %s: %s", path, what, text);
}

const char *hearth_version(void)
{
    return HEARTH_VERSION;
}

const char *hearth_status_text(hearth_status status)
{
    static const char *const texts[] = {
#define X(name, value, text) [value] = text,
        HEARTH_STATUSES(X)
#undef X
    };
    size_t count = sizeof texts / sizeof *texts;
    return (size_t)status < count ? texts[status] : "unknown status";
}

void hearth_free(void *memory)
{
    mem_free(memory);
}
