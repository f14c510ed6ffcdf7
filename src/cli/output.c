/* output.c - writes text for the terminal, and JSON for programs. */
#include "output.h"

#include "../base/file.h"
#include "terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void output_guard(void)
{
    /* open() takes the lowest free number. The opening mode is the wrong one on purpose, so that using the descriptor
     * fails. */
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)!open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
}

/* errno of the first failed write to standard output; 0: none failed. stdio does not store it. */
static int lost_errno;

void output_flush(void)
{
    if (fflush(stdout) != 0 && lost_errno == 0)
        lost_errno = errno;
}

hearth_status output_close(hearth_error *error)
{
    output_flush();
    if (!ferror(stdout) && lost_errno == 0)
        return HEARTH_OK;
    /* An earlier flush of a full buffer failed, and its errno is lost. The output is unusable already, so writing one
     * more byte, to learn the reason, does no harm. */
    if (lost_errno == 0 && write(STDOUT_FILENO, "\n", 1) < 0)
        lost_errno = errno;
    if (lost_errno == 0)
        return fail(error, HEARTH_IO, "standard output: write: failed");
    errno = lost_errno;
    return fail_errno(error, "standard output", "write");
}

/* C0, DEL and C1 control characters. */
static bool is_control(const char *c, size_t length)
{
    const unsigned char *u = (const unsigned char *)c;
    if (length == 1)
        return u[0] < 0x20 || u[0] == 0x7f;
    return length == 2 && u[0] == 0xc2 && u[1] < 0xa0;
}

/* Control characters and those that change the direction of text. */
static bool is_unsafe(const char *c, size_t length)
{
    const unsigned char *u = (const unsigned char *)c;
    if (is_control(c, length))
        return true;
    if (length == 3 && u[0] == 0xe2)
        return (u[1] == 0x80 && ((u[2] >= 0xa8 && u[2] <= 0xae) || u[2] == 0x8e || u[2] == 0x8f)) ||
               (u[1] == 0x81 && u[2] >= 0xa6 && u[2] <= 0xa9);
    return false;
}

void output_safe(FILE *to, span text, size_t limit)
{
    size_t at = 0;
    while (at < text.size && at < limit) {
        size_t length = utf8_length(text.data + at, text.size - at);
        if (length > 0 && !is_unsafe(text.data + at, length)) {
            fwrite(text.data + at, 1, length, to);
            at += length;
            continue;
        }
        for (size_t end = at + (length > 0 ? length : 1); at < end; at++)
            fprintf(to, "\\x%02x", (unsigned char)text.data[at]);
    }
    if (at < text.size)
        fputs("...", to);
}

void output_terminal(FILE *to, span text)
{
    for (size_t at = 0; at < text.size;) {
        const char *c = text.data + at;
        size_t length = utf8_length(c, text.size - at);
        if (length > 0 && (*c == '\n' || *c == '\t' || !is_control(c, length)))
            fwrite(c, 1, length, to);
        else
            fputs("\xef\xbf\xbd", to);
        at += length > 0 ? length : 1;
    }
}

static void begin_line(terminal_style style, const char *word)
{
    terminal_begin(stderr, style);
    fprintf(stderr, "%s:", word);
    terminal_end(stderr);
    fputc(' ', stderr);
}

void output_error(const char *text)
{
    begin_line(STYLE_ERROR, "hearth");
    fprintf(stderr, "%s\n", text);
}

void output_note(const char *word, const char *format, ...)
{
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    begin_line(STYLE_WARNING, word);
    output_safe(stderr, span_of(text), sizeof text);
    fputc('\n', stderr);
}

/* Returns whether a shell takes a word as it is. */
static bool is_plain(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,%@";
    return *word && word[strspn(word, plain)] == 0;
}

/* Appends a word in single quotes; one within it is written outside of them, behind a backslash. */
static bool put_quoted(buffer *b, const char *word)
{
    bool ok = buffer_put(b, "'", 1);
    for (; ok && *word; word++)
        ok = *word == '\'' ? buffer_put(b, "'\\''", 4) : buffer_put(b, word, 1);
    return ok && buffer_put(b, "'", 1);
}

const char *output_command_line(const char *path, char *const *arguments, size_t count, arena *memory)
{
    buffer b = {0};
    bool ok = buffer_print(&b, "hearth %s", path);
    for (size_t i = 0; ok && i < count; i++) {
        const char *word = arguments[i];
        ok = buffer_put(&b, " ", 1) && (is_plain(word) ? buffer_put(&b, word, strlen(word)) : put_quoted(&b, word));
    }
    const char *line = ok ? arena_copy_text(memory, b.data, b.size) : NULL;
    buffer_free(&b);
    return line;
}

const char *output_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

char *output_size(char text[16], double size_bytes)
{
    return text_size(text, size_bytes);
}

hearth_status output_check_file(const char *what, const char *path, bool may_stream, hearth_error *error)
{
    file_writer *writer;
    if (!path || (may_stream && strcmp(path, "-") == 0))
        return HEARTH_OK;
    if (!*path || strcmp(path, "-") == 0)
        return fail(error, HEARTH_INVALID, "%s: needs the name of a file", what);
    TRY(file_writer_open(&writer, path, error));
    file_writer_discard(writer);
    return HEARTH_OK;
}

hearth_status output_json(json_t *value, size_t flags, hearth_error *error)
{
    char *text = value ? json_dumps(value, flags | JSON_REAL_PRECISION(12)) : NULL;
    json_decref(value);
    if (!text)
        return fail(error, HEARTH_NO_MEMORY, "JSON: out of memory, or a number in it is not finite");
    puts(text);
    free(text);
    return HEARTH_OK;
}
