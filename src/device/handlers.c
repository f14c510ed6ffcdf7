/* handlers.c - see handlers.h. */
#include "handlers.h"

#include <stdbool.h>

/* SIGKILL and SIGSTOP cannot be read on every system: they count as not handled. */
static struct sigaction read_handler(int number)
{
    struct sigaction now;
    return sigaction(number, NULL, &now) == 0 ? now : (struct sigaction){.sa_handler = SIG_DFL};
}

/* sa_handler and sa_sigaction share their memory, so one comparison does for both. Of a mask only those bits are known. */
static bool is_same(const struct sigaction *a, const struct sigaction *b)
{
    bool same = a->sa_handler == b->sa_handler && a->sa_flags == b->sa_flags;
    for (int i = 1; i < HANDLERS_END; i++)
        same &= sigismember(&a->sa_mask, i) == sigismember(&b->sa_mask, i);
    return same;
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
