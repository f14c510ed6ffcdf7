/* progress.c - the progress line and the signals. */
#include "progress.h"

#include "lost_file.h"

#include "../base/clock.h"
#include "../base/wakeup.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Shorter work shows no progress; the line changes at most at this interval. */
#define PATIENCE_SECONDS 1.0
#define REFRESH_SECONDS  0.1

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
    *p = (progress){.terminal = isatty(STDERR_FILENO) == 1};
}

static void print_left(double seconds)
{
    unsigned long s = (unsigned long)(seconds + 0.5);
    if (s < 60)
        fprintf(stderr, ", %lu s left", s);
    else if (s < 3600)
        fprintf(stderr, ", %lu:%02lu min left", s / 60, s % 60);
    else
        fprintf(stderr, ", %lu:%02lu h left", s / 3600, s / 60 % 60);
}

static bool report(void *user, const char *what, uint64_t done, uint64_t total)
{
    progress *p = user;
    double now = clock_seconds();
    if (!p->what || strcmp(p->what, what) != 0 || done < p->done) {
        p->what = what;
        p->start = now;
    }
    p->done = done;
    bool due = now - p->start >= PATIENCE_SECONDS && now - p->printed >= REFRESH_SECONDS;
    if (p->terminal && due && total > 0 && done > 0 && done < total) {
        double share = (double)done / (double)total;
        fprintf(stderr, "\r\033[K%s %.0f %%", what, 100 * share);
        print_left((now - p->start) * (1 - share) / share);
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
        fputs("\r\033[K", stderr);
    p->shown = false;
}
