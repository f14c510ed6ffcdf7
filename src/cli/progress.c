/* progress.c - the progress line and the signals. */
#include "progress.h"

#include "lost_file.h"
#include "terminal.h"

#include "../base/clock.h"
#include "../base/wakeup.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

/* Shorter work shows no progress; the line changes at most at this interval. */
#define PATIENCE_SECONDS 1.0
#define REFRESH_SECONDS  0.1

/* The bar of the line, in columns; a shorter one says nothing. */
#define BAR_FULL  "##############################"
#define BAR_EMPTY ".............................."
#define BAR_MOST  ((int)sizeof BAR_FULL - 1)
#define BAR_LEAST 5

/* A second signal this long after the first ends the program at once. One that follows sooner is taken as the same
 * request (`timeout` sends it to the process and to its group). */
#define INSIST_SECONDS 0.5

static volatile sig_atomic_t raised;
static volatile double raised_at;

static void on_signal(int number)
{
    double now = clock_seconds(); /* clock_gettime: allowed in handlers */
    wakeup_raise();
    if (!raised) {
        raised = number;
        raised_at = now;
    } else if (now - raised_at > INSIST_SECONDS) {
        signal(number, SIG_DFL);
        raise(number);
    }
}

/* In interactive use Ctrl-C may come any number of times. */
static void on_patient_signal(int number)
{
    raised = number;
    wakeup_raise();
}

static void install(int number, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

/* A parent process that set a signal to ignored (nohup, a script's background job) wants it ignored. */
static bool is_ignored(int number)
{
    struct sigaction now;
    return sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

void interrupt_install(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    wakeup_prepare();
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!is_ignored(numbers[i]))
            install(numbers[i], on_signal);
    lost_file_install();
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

int interrupt_signal(void)
{
    return raised;
}

void interrupt_only_flag(void)
{
    install(SIGINT, on_patient_signal);
}

void interrupt_reset(void)
{
    raised = 0;
    wakeup_reset();
}

void progress_init(progress *p)
{
    *p = (progress){.terminal = terminal_can_replace(stderr)};
}

/* Writes, for example, " 45 %, 12 s left". */
static void write_share(char *out, size_t size, double share, double seconds)
{
    unsigned long s = (unsigned long)(seconds + 0.5);
    if (s < 60)
        snprintf(out, size, "%3.0f %%, %lu s left", 100 * share, s);
    else if (s < 3600)
        snprintf(out, size, "%3.0f %%, %lu:%02lu min left", 100 * share, s / 60, s % 60);
    else
        snprintf(out, size, "%3.0f %%, %lu:%02lu h left", 100 * share, s / 3600, s / 60 % 60);
}

/* Prints, for example, "reading [#########...........]  45 %, 12 s left": no bar where the terminal is narrow, and
 * never wider than the terminal; its last column stays free, since some terminals break the line there. */
static void print_bar(const char *what, double share, double seconds)
{
    char figures[64], line[256];
    write_share(figures, sizeof figures, share, seconds);
    int room = terminal_width(stderr) - 1;
    int bar = room - (int)strlen(what) - (int)strlen(figures) - (int)strlen(" [] ");
    bar = bar < BAR_MOST ? bar : BAR_MOST;
    int full = (int)(share * bar);
    if (bar >= BAR_LEAST)
        snprintf(line, sizeof line, "%s [%.*s%.*s] %s", what, full, BAR_FULL, bar - full, BAR_EMPTY, figures);
    else
        snprintf(line, sizeof line, "%s %s", what, figures);
    terminal_clear_line(stderr);
    fprintf(stderr, "%.*s", room, line);
}

static bool report(void *user, const char *what, uint64_t done, uint64_t total)
{
    progress *p = user;
    double now = clock_seconds();
    if (!p->what || strcmp(p->what, what) != 0 || done < p->done) {
        p->what = what;
        p->start = now;
        p->first = done;
    }
    p->done = done;
    bool due = now - p->start >= PATIENCE_SECONDS && now - p->printed >= REFRESH_SECONDS;
    if (p->terminal && due && total > 0 && done > p->first && done < total) {
        double left = (now - p->start) * (double)(total - done) / (double)(done - p->first);
        print_bar(what, (double)done / (double)total, left);
        p->printed = now;
        p->shown = true;
    }
    return !raised;
}

hearth_progress progress_to(progress *p)
{
    return (hearth_progress){report, p};
}

void progress_clear(progress *p)
{
    if (p->shown)
        terminal_clear_line(stderr);
    p->shown = false;
}
