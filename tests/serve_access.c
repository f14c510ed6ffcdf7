/* serve_access.c - who is let in: keys, names of the machine, pages from elsewhere; and which path leads where. */
#include "../src/serve/server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const route closed = {.method = "GET", .path = "/x"},
                   open_route = {.method = "GET", .path = "/y", .is_open = true};

/* Returns the status that a request gets; 0: it is let in. */
static unsigned status_of(const serve *s, const route *to, const char *host, const char *origin,
                          const char *authorization)
{
    const credentials c = {host, origin, authorization, NULL};
    problem p = {0};
    bool in = access_check(s, to, &c, &p);
    assert_int_equal(in, p.status == 0);
    return p.status;
}

static void names_of_this_machine(void **state)
{
    (void)state;
    serve local = {.is_local = true, .options.host = "my.machine"}, other = {.options.host = "0.0.0.0"};
    static const char *const own[] = {"localhost",  "LOCALHOST:1", "127.0.0.1:8080",
                                      "[::1]:8080", "my.machine",  "[::1]"};
    static const char *const foreign[] = {"example.com", "",           "localhost.example.com", "127.0.0.1.example.com",
                                          "[::2]",       "[localhost", "[example.com]:1",       ":80"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        assert_int_equal(status_of(&local, &closed, own[i], NULL, NULL), 0);
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        assert_int_equal(status_of(&local, &open_route, foreign[i], NULL, NULL), 403);
        assert_int_equal(status_of(&other, &closed, foreign[i], NULL, NULL), 0);
    }
    assert_int_equal(status_of(&local, &closed, NULL, NULL, NULL), 0);
}

static void pages_from_elsewhere(void **state)
{
    (void)state;
    serve s = {.is_local = true, .options.host = "127.0.0.1"};
    assert_int_equal(status_of(&s, &closed, "localhost:80", "http://localhost:80", NULL), 0);
    assert_int_equal(status_of(&s, &closed, "localhost:80", "http://localhost:81", NULL), 403);
    assert_int_equal(status_of(&s, &closed, "localhost:80", "null", NULL), 403);
    assert_int_equal(status_of(&s, &closed, "localhost:80", "http://example.com", NULL), 403);
    assert_int_equal(status_of(&s, &closed, NULL, "http://localhost", NULL), 403);
}

static void keys(void **state)
{
    (void)state;
    static const char *const some[] = {"first", "second key", "x"};
    static const char *const wrong[] = {"Bearer ",  "Bearer firs", "Bearer first ", "Bearer firstfirst",
                                        "first",    "Basic first", "Bearer",        "",
                                        "Bearer xx"};
    serve s = {.options = {.host = "h", .keys = some, .key_count = 3}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(status_of(&s, &closed, NULL, NULL, wrong[i]), 401);
    assert_int_equal(status_of(&s, &closed, NULL, NULL, NULL), 401);
    assert_int_equal(status_of(&s, NULL, NULL, NULL, NULL), 401);
    assert_int_equal(status_of(&s, &open_route, NULL, NULL, NULL), 0);
    assert_int_equal(status_of(&s, &closed, NULL, NULL, "Bearer first"), 0);
    assert_int_equal(status_of(&s, &closed, NULL, NULL, "bearer second key"), 0);
    assert_int_equal(status_of(&s, NULL, NULL, NULL, "Bearer x"), 0);
}

/* A key in the header x-api-key, where Anthropic's clients have it. */
static void keys_of_their_own_header(void **state)
{
    (void)state;
    static const char *const some[] = {"first"};
    static const credentials right[] = {
        {.key = "first"}, {.authorization = "Bearer x", .key = "first"}, {.authorization = "Bearer first", .key = "x"}};
    static const credentials wrong[] = {{.key = ""}, {.key = "firs"}, {.key = "Bearer first"}};
    serve s = {.options = {.host = "h", .keys = some, .key_count = 1}};
    problem p;
    for (size_t i = 0; i < sizeof right / sizeof *right; i++)
        assert_true(access_check(&s, &closed, &right[i], &p));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(access_check(&s, &closed, &wrong[i], &p));
}

static void paths(void **state)
{
    (void)state;
    const route *nearest;
    problem p = {0};
    assert_non_null(route_find("GET", "/health", &nearest, &p));
    assert_non_null(route_find("HEAD", "/health", &nearest, &p));
    assert_null(route_find("POST", "/health", &nearest, &p));
    assert_int_equal(p.status, 405);
    assert_string_equal(nearest->method, "GET");
    assert_null(route_find("GET", "/Health", &nearest, &p));
    assert_int_equal(p.status, 404);
    assert_null(nearest);
    assert_ptr_not_equal(route_find("GET", "/v1/models", &nearest, &p),
                         route_find("GET", "/v1/models/x/y", &nearest, &p));
    assert_null(route_find("GET", "/v1/modelsx", &nearest, &p));
    assert_int_equal(p.status, 404);
    assert_null(route_find("GET", "", &nearest, &p));
    assert_null(route_find("", "/v1/completions", &nearest, &p));
    assert_int_equal(p.status, 405);
    assert_ptr_equal(nearest->errors, &problem_openai);
    assert_null(route_find("PUT", "/", &nearest, &p));
    assert_string_equal(nearest->method, "GET");
    assert_non_null(route_find("GET", "/", &nearest, &p));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_this_machine),
        cmocka_unit_test(pages_from_elsewhere),
        cmocka_unit_test(keys),
        cmocka_unit_test(keys_of_their_own_header),
        cmocka_unit_test(paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
