/* handlers.c - see handlers.h. */
#include "handlers.h"

#include <stdbool.h>
#include <string.h>

/* SIGKILL and SIGSTOP cannot be read on every system: they count as not handled. */
static struct sigaction read_handler(int number)
{
    struct sigaction now;
    return sigaction(number, NULL, &now) == 0 ? now : (struct sigaction){.sa_handler = SIG_DFL};
}

/* sa_handler and sa_sigaction share their memory, so one comparison does for both. */
static bool is_same(const struct sigaction *a, const struct sigaction *b)
{
    return a->sa_handler == b->sa_handler && a->sa_flags == b->sa_flags &&
           memcmp(&a->sa_mask, &b->sa_mask, sizeof a->sa_mask) == 0;
}

void handlers_save(handlers *out)
{
    for (int i = 1; i < HANDLERS_END; i++)
        out->of[i] = read_handler(i);
}

void handlers_restore(const handlers *saved)
{
    for (int i = 1; i < HANDLERS_END; i++) {
        const struct sigaction *before = &saved->of[i], now = read_handler(i);
        if (before->sa_handler != SIG_DFL && !is_same(before, &now))
            sigaction(i, before, NULL);
    }
}
