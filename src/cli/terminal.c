/* terminal.c - the only place that writes escape sequences. */
#include "terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define DEFAULT_WIDTH 80

/* SGR sequences of ECMA-48: 1 bold, 2 dim, 31 red, 33 yellow. */
static const char *const styles[STYLE_COUNT] = {
    [STYLE_PROMPT] = "\033[1m",   [STYLE_THOUGHT] = "\033[2m", [STYLE_STATUS] = "\033[2m",
    [STYLE_WARNING] = "\033[33m", [STYLE_ERROR] = "\033[31m",
};

bool terminal_can_replace(FILE *to)
{
    const char *kind = getenv("TERM");
    return isatty(fileno(to)) == 1 && kind && *kind && strcmp(kind, "dumb") != 0;
}

static bool has_colour(FILE *to)
{
    const char *none = getenv("NO_COLOR");
    return terminal_can_replace(to) && !(none && *none);
}

void terminal_begin(FILE *to, terminal_style style)
{
    if (has_colour(to))
        fputs(styles[style], to);
}

void terminal_end(FILE *to)
{
    if (has_colour(to))
        fputs("\033[0m", to);
}

void terminal_clear_line(FILE *to)
{
    fputs("\r\033[K", to);
}

void terminal_mark_pastes(FILE *to, bool marks)
{
    if (terminal_can_replace(to))
        fputs(marks ? "\033[?2004h" : "\033[?2004l", to);
}

int terminal_width(FILE *to)
{
    struct winsize size;
    return ioctl(fileno(to), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : DEFAULT_WIDTH;
}
