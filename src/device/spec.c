/* spec.c - parses the spec of a device. Anything it does not understand is an error that names it. Of the drivers it
 * only knows the names, for keys that only one driver has. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_DEVICES = 1000, MOST_LANES = 1024, MOST_THREADS = 4096 };

/* Each reads the value of a key; false: the text is not a valid value. */
static bool read_size(span text, device_options *out);
static bool read_group(span text, device_options *out);
static bool read_threads(span text, device_options *out);
static bool read_speed(span text, device_options *out);
static bool read_exchange(span text, device_options *out);
static bool read_launch(span text, device_options *out);
static bool read_times(span text, device_options *out);

static const struct key {
    const char *name;
    const char *driver; /* the only driver that has it; NULL: all have it */
    bool (*read)(span text, device_options *out);
    const char *expected;
} keys[] = {
    // clang-format off
    {"memory",   NULL,   read_size,     "a size as 1000000, 512M or 8G"},
    {"group",    NULL,   read_group,    "a number of lanes from 1 to 1024"},
    {"threads",  "host", read_threads,  "a number of threads from 1 to 4096"},
    {"speed",    "host", read_speed,    "a number above 0 and at most 1"},
    {"exchange", "cuda", read_exchange, "memory, kernel or events"},
    {"launch",   "cuda", read_launch,   "early or late"},
    {"times",    NULL,   read_times,    "the name of a file, of at most 255 bytes"},
    // clang-format on
};

enum { KEYS = sizeof keys / sizeof *keys };

/* Reads a whole number from `least` to `most`, without sign or blanks. */
static bool read_whole(span text, uint64_t least, uint64_t most, uint64_t *out)
{
    uint64_t value = 0;
    if (text.size == 0)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        if (c < '0' || c > '9' || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(c - '0'), &value))
            return false;
    }
    *out = value;
    return value >= least && value <= most;
}

/* Units are decimal, as everywhere in hearth's output. */
static bool read_size(span text, device_options *out)
{
    static const struct {
        char letter;
        uint64_t bytes;
    } units[] = {{'K', 1000}, {'M', 1000000}, {'G', 1000000000}};
    uint64_t unit = 1, value;
    for (size_t i = 0; i < sizeof units / sizeof *units && text.size > 0 && unit == 1; i++) {
        if (text.data[text.size - 1] == units[i].letter)
            unit = units[i].bytes;
    }
    if (unit > 1)
        text.size--;
    return read_whole(text, 1, UINT64_MAX, &value) && !__builtin_mul_overflow(value, unit, &out->memory_bytes);
}

static bool read_unsigned(span text, unsigned most, unsigned *out)
{
    uint64_t value;
    if (!read_whole(text, 1, most, &value))
        return false;
    *out = (unsigned)value;
    return true;
}

static bool read_group(span text, device_options *out)
{
    return read_unsigned(text, MOST_LANES, &out->group);
}

static bool read_threads(span text, device_options *out)
{
    return read_unsigned(text, MOST_THREADS, &out->threads);
}

/* Accepts digits and a point only; strtod alone would also accept blanks, signs, "inf" and hexadecimal. */
static bool read_speed(span text, device_options *out)
{
    char copy[32], *end;
    if (text.size == 0 || text.size >= sizeof copy)
        return false;
    memcpy(copy, text.data, text.size);
    copy[text.size] = 0;
    if (strspn(copy, "0123456789.") != text.size)
        return false;
    out->speed = strtod(copy, &end);
    return *end == 0 && out->speed > 0 && out->speed <= 1;
}

static bool read_exchange(span text, device_options *out)
{
    static const char *const ways[] = {"memory", "kernel", "events"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (span_equal(text, span_of(ways[i]))) {
            memcpy(out->exchange, text.data, text.size);
            return true;
        }
    }
    return false;
}

static bool read_launch(span text, device_options *out)
{
    out->early = span_equal(text, span_of("early"));
    return out->early || span_equal(text, span_of("late"));
}

static bool read_times(span text, device_options *out)
{
    if (text.size == 0 || text.size >= sizeof out->times)
        return false;
    memcpy(out->times, text.data, text.size);
    return true;
}

span spec_name(const char *spec)
{
    return (span){spec, strcspn(spec, ":,")};
}

/* Reads one KEY=VALUE; `seen` has a bit for each key already read. */
static hearth_status read_pair(const char *spec, span pair, unsigned *seen, device_options *out, hearth_error *error)
{
    const char *equals = memchr(pair.data, '=', pair.size);
    span key = {pair.data, equals ? (size_t)(equals - pair.data) : pair.size};
    size_t i = 0;
    while (i < KEYS && !span_equal(key, span_of(keys[i].name)))
        i++;
    if (i == KEYS)
        return fail(error, HEARTH_INVALID,
                    "device %s: '%.*s': no such key: there are memory, group, threads, speed, exchange and times", spec,
                    (int)key.size, key.data);
    if (keys[i].driver && !span_equal(spec_name(spec), span_of(keys[i].driver)))
        return fail(error, HEARTH_INVALID, "device %s: %s: only for %s", spec, keys[i].name, keys[i].driver);
    if (*seen & 1u << i)
        return fail(error, HEARTH_INVALID, "device %s: %s: given twice", spec, keys[i].name);
    *seen |= 1u << i;
    span value = equals ? (span){equals + 1, pair.size - key.size - 1} : (span){pair.data, 0};
    if (!keys[i].read(value, out))
        return fail(error, HEARTH_INVALID, "device %s: %s: '%.*s': expected %s", spec, keys[i].name, (int)value.size,
                    value.data, keys[i].expected);
    return HEARTH_OK;
}

hearth_status spec_options(const char *spec, device_options *out, hearth_error *error)
{
    *out = (device_options){0};
    const char *at = spec + spec_name(spec).size;
    if (*at == ':') {
        span index = {at + 1, strcspn(at + 1, ",")};
        uint64_t value;
        if (!read_whole(index, 0, MOST_DEVICES, &value))
            return fail(error, HEARTH_INVALID, "device %s: '%.*s': expected the number of a device", spec,
                        (int)index.size, index.data);
        out->index = (unsigned)value;
        at = index.data + index.size;
    }
    for (unsigned seen = 0; *at == ',';) {
        span pair = {at + 1, strcspn(at + 1, ",")};
        TRY(read_pair(spec, pair, &seen, out, error));
        at = pair.data + pair.size;
    }
    return HEARTH_OK;
}
