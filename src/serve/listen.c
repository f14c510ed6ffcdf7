/* listen.c - from a name and a port to a socket. */
#include "listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Connections that wait to be accepted. */
#define BACKLOG 1024

/* Returns a socket, or -1 with errno set. */
static int listen_at(const struct addrinfo *at)
{
    int yes = 1, fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int cause = errno;
    close(fd);
    errno = cause;
    return -1;
}

static bool is_loopback(const struct sockaddr_storage *a)
{
    if (a->ss_family == AF_INET)
        return (ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24) == 127;
    return a->ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

/* Says where a socket listens, with the port that it was given. */
static bool describe(int fd, char *url, size_t size, bool *is_local)
{
    struct sockaddr_storage own = {0};
    socklen_t length = sizeof own;
    char name[NI_MAXHOST], port[NI_MAXSERV];
    if (getsockname(fd, (struct sockaddr *)&own, &length) != 0 ||
        getnameinfo((struct sockaddr *)&own, length, name, sizeof name, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return false;
    bool is_long = strchr(name, ':');
    snprintf(url, size, "http://%s%.200s%s:%s", is_long ? "[" : "", name, is_long ? "]" : "", port);
    *is_local = is_loopback(&own);
    return true;
}

hearth_status listen_open(int *out, const char *host, uint16_t port, char *url, size_t size, bool *is_local,
                          hearth_error *error)
{
    struct addrinfo wish = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV}, *found = NULL;
    char digits[8], where[300];
    snprintf(digits, sizeof digits, "%u", port);
    snprintf(where, sizeof where, "%.255s, port %u", host, port);
    int problem = getaddrinfo(host, digits, &wish, &found), fd = -1;
    if (problem != 0)
        return fail(error, HEARTH_IO, "%s: %s", where, gai_strerror(problem));
    for (const struct addrinfo *at = found; at && fd < 0; at = at->ai_next)
        fd = listen_at(at);
    int cause = errno;
    freeaddrinfo(found);
    errno = cause;
    if (fd < 0)
        return fail_errno(error, where, "listen");
    if (!describe(fd, url, size, is_local)) {
        hearth_status status = fail_errno(error, where, "address");
        close(fd);
        return status;
    }
    *out = fd;
    return HEARTH_OK;
}
