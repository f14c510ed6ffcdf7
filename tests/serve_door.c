/* serve_door.c - servers that end while clients come and go: no connection is accepted after that, and nothing fails. */
#include "../src/base/clock.h"
#include "../src/serve/server.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "skip.h"

#define CLIENTS 4
#define ENDS    200

/* Returns a connection; -1: there is none. */
static int call(uint16_t port)
{
    const struct timeval patience = {.tv_sec = 5};
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0 &&
        connect(fd, (const struct sockaddr *)&at, sizeof at) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

typedef struct client {
    pthread_t thread;
    uint16_t port;
    atomic_size_t *answers;
} client;

/* Asks for what is not there, with a connection of its own for each request, until it is refused one. */
static void *ask_on(void *user)
{
    client *c = user;
    static const char request[] = "GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    for (int fd; (fd = call(c->port)) >= 0; close(fd)) {
        char answer[12] = {0};
        if (send(fd, request, sizeof request - 1, MSG_NOSIGNAL) == (ssize_t)sizeof request - 1 &&
            recv(fd, answer, sizeof answer, MSG_WAITALL) == (ssize_t)sizeof answer)
            atomic_fetch_add(c->answers, memcmp(answer, "HTTP/1.1 404", sizeof answer) == 0);
    }
    return NULL;
}

/* Has clients ask until some have been answered, then ends. */
static void end_once(uint32_t connections)
{
    static const struct timespec moment = {.tv_nsec = 200000};
    static serve s;
    client clients[CLIENTS];
    atomic_size_t answers = 0;
    hearth_error error;
    s = (serve){.options = {.host = "127.0.0.1", .connections = connections, .patience = 5, .body_bytes = 100}};
    assert_int_equal(http_open(&s, &error), HEARTH_OK);
    uint16_t port = (uint16_t)strtoul(strrchr(s.url, ':') + 1, NULL, 10);
    for (size_t i = 0; i < CLIENTS; i++) {
        clients[i].port = port;
        clients[i].answers = &answers;
        assert_int_equal(pthread_create(&clients[i].thread, NULL, ask_on, &clients[i]), 0);
    }
    for (double begin = clock_seconds(); atomic_load(&answers) < 3 * (size_t)CLIENTS; nanosleep(&moment, NULL))
        assert_true(clock_seconds() - begin < 60);
    atomic_store(&s.closing, true);
    http_close_door(&s);
    assert_int_equal(call(port), -1);
    for (size_t i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_join(clients[i].thread, NULL), 0);
    http_close(&s);
    assert_int_equal(atomic_load(&s.exchanges), 0);
}

/* Also where there are fewer connections than clients, so that the door is shut now and then before the end. */
static void ends_while_clients_come(void **state)
{
    (void)state;
    for (size_t i = 0; i < ENDS; i++)
        end_once(i % 2 == 0 ? 100 : 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ends_while_clients_come)};
    if (serve_check(NULL) != HEARTH_OK) {
        print_message("skipped: libmicrohttpd is missing\n");
        return SKIPPED;
    }
    return run_group(tests, NULL, NULL);
}
