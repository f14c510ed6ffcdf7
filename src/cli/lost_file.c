/* lost_file.c - see lost_file.h. A signal handler may call very little: open, read, write and _exit are allowed, and
 * data that no other thread changes. So the file's name is looked up in /proc/self/maps, by the address that could not
 * be read. */
#include "lost_file.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* A line of /proc/self/maps: "7f10-7f20 r--p 00000000 08:01 1234   /path". */
typedef struct map_line {
    char text[4352]; /* the longest path and what comes before it; anything longer is cut */
    size_t size;
} map_line;

static bool read_line(int maps, map_line *out)
{
    char c;
    out->size = 0;
    while (read(maps, &c, 1) == 1) {
        if (c == '\n') {
            out->text[out->size] = 0;
            return true;
        }
        if (out->size + 1 < sizeof out->text)
            out->text[out->size++] = c;
    }
    return false;
}

/* Reads a hexadecimal number; *at moves to what follows it. */
static uintptr_t read_number(const char **at)
{
    static const char digits[] = "0123456789abcdef";
    uintptr_t value = 0;
    for (const char *digit; **at && (digit = strchr(digits, **at)) != NULL; ++*at)
        value = value * 16 + (uintptr_t)(digit - digits);
    return value;
}

/* Returns the path of the mapping that contains the address, stored in `line`; NULL: it has none. */
static const char *find_path(map_line *line, uintptr_t address)
{
    int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    const char *path = NULL;
    while (maps >= 0 && !path && read_line(maps, line)) {
        const char *at = line->text;
        uintptr_t begin = read_number(&at), end = *at == '-' ? (at++, read_number(&at)) : 0;
        if (begin <= address && address < end)
            path = strchr(at, '/');
    }
    if (maps >= 0)
        close(maps);
    return path;
}

static void say(const char *text)
{
    ssize_t written = write(STDERR_FILENO, text, strlen(text));
    (void)written;
}

/* Only the first thread that gets the signal prints the message. */
static void on_lost_file(int number, siginfo_t *info, void *context)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    static map_line line;
    (void)number, (void)context;
    while (atomic_flag_test_and_set(&said))
        pause();
    const char *path = find_path(&line, (uintptr_t)info->si_addr);
    for (char *c = line.text; path && *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    say("hearth: ");
    say(path ? path : "a file in use");
    say(": was cut short while it was in use, or cannot be read any more\n");
    _exit(1);
}

void lost_file_install(void)
{
    struct sigaction action = {.sa_sigaction = on_lost_file, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}
