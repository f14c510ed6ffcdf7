/* UTF-8 against the definition, buffers, and the text of errors.
 * (fail) in parentheses is the function under test, not cmocka's macro of that name. */
#include "../src/base/memory.h"
#include "../src/base/text.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* The definition, the other way round: encodes a code point; returns the length. */
static size_t encode(uint32_t point, char out[4])
{
    static const uint32_t limits[] = {0x80, 0x800, 0x10000, 0x110000};
    static const uint8_t marks[] = {0, 0xc0, 0xe0, 0xf0};
    size_t length = 1;
    while (point >= limits[length - 1])
        length++;
    for (size_t i = length; i-- > 1; point >>= 6)
        out[i] = (char)(0x80 | (point & 0x3f));
    out[0] = (char)(marks[length - 1] | point);
    return length;
}

static void every_code_point_has_its_length(void **state)
{
    (void)state;
    for (uint32_t point = 0; point < 0x110000; point++) {
        char text[5] = "....x";
        size_t length = encode(point, text);
        bool is_surrogate = point >= 0xd800 && point <= 0xdfff;
        size_t got = utf8_length(text, length);
        if (got != (is_surrogate ? 0 : length) || utf8_is_valid(text, length) == is_surrogate)
            fail_msg("U+%04X: length %zu", point, got);
        for (size_t cut = 1; cut < length; cut++) {
            bool partial = utf8_is_partial(text, cut);
            /* A surrogate's first byte alone (ED) may still become something else. */
            if (utf8_length(text, cut) != 0 || partial != (!is_surrogate || cut == 1))
                fail_msg("U+%04X cut to %zu", point, cut);
        }
        if (utf8_is_partial(text, length))
            fail_msg("U+%04X: complete, yet partial", point);
    }
}

/* Counts the two-byte and three-byte strings that are one character: every valid one is an encoding. */
static void no_other_bytes_are_characters(void **state)
{
    (void)state;
    size_t pairs = 0, triples = 0;
    for (unsigned value = 0; value < 1u << 24; value++) {
        char text[3] = {(char)(value >> 16), (char)(value >> 8), (char)value};
        if (value < 1u << 16)
            pairs += utf8_length(text + 1, 2) == 2;
        triples += utf8_length(text, 3) == 3;
    }
    assert_int_equal(pairs, 0x800 - 0x80);
    assert_int_equal(triples, 0x10000 - 0x800 - 0x800); /* less the surrogates */
    static const char *const bad[] = {"\x80",
                                      "\xbf",
                                      "\xc0\x80",
                                      "\xc1\xbf",
                                      "\xe0\x80\x80",
                                      "\xed\xa0\x80",
                                      "\xf0\x80\x80\x80",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xff",
                                      "\xc3("};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(utf8_length(bad[i], strlen(bad[i])), 0);
        assert_false(utf8_is_valid(bad[i], strlen(bad[i])));
        assert_false(utf8_is_partial(bad[i], strlen(bad[i])));
    }
    assert_true(utf8_is_valid("", 0));
    assert_false(utf8_is_partial("", 0));
    assert_true(utf8_is_valid("gr\xc3\xbc\xc3\x9f", 6));
    assert_false(utf8_is_valid("gr\xc3\xbc\xc3", 5));
}

static void spans_compare_by_content(void **state)
{
    (void)state;
    char other[] = "ember";
    assert_true(span_equal(span_of("ember"), (span){other, 5}));
    assert_false(span_equal(span_of("ember"), (span){other, 4}));
    assert_false(span_equal(span_of("embed"), (span){other, 5}));
    assert_true(span_equal((span){0}, span_of("")));
}

static void buffers_grow(void **state)
{
    (void)state;
    long before = mem_live();
    buffer b = {0};
    for (int i = 0; i < 1000; i++) {
        assert_true(buffer_print(&b, "%03d", i));
        assert_true(buffer_put(&b, ",", 1));
    }
    assert_true(buffer_put(&b, NULL, 0));
    assert_int_equal(b.size, 4000);
    assert_memory_equal(b.data, "000,001,002", 11);
    assert_memory_equal(b.data + 3996, "999,", 4);
    assert_false(buffer_put(&b, "x", SIZE_MAX));
    assert_int_equal(b.size, 4000);
    mem_fail_at(0);
    size_t room = b.capacity - b.size;
    assert_false(buffer_print(&b, "%*s", (int)room, "")); /* its 0 does not fit any more */
    mem_fail_at(-1);
    assert_int_equal(b.size, 4000);
    buffer_free(&b);
    assert_null(b.data);
    assert_int_equal(mem_live(), before);
}

static void errors_are_one_printable_line(void **state)
{
    (void)state;
    hearth_error error;
    assert_int_equal((fail)(&error, HEARTH_FORMAT, "%s: %d", "a\nb\x1b[1m\x7f", 5), HEARTH_FORMAT);
    assert_int_equal(error.status, HEARTH_FORMAT);
    assert_string_equal(error.text, "a?b?[1m?: 5");
    (fail)(&error, HEARTH_FORMAT, "%s",
           "gr\xc3\xbc\xc3\x9f \xff\xc3 \xc2\x9b"
           "1m");
    assert_string_equal(error.text, "gr\xc3\xbc\xc3\x9f ?? ??1m");
    assert_int_equal((fail)(NULL, HEARTH_FULL, "nobody listens"), HEARTH_FULL);
}

static void long_errors_are_cut_between_characters(void **state)
{
    (void)state;
    char text[3000];
    for (size_t shift = 0; shift < 4; shift++) {
        memset(text, 'x', shift);
        for (size_t i = shift; i + 4 < sizeof text; i += 3)
            memcpy(text + i, "\xe2\x82\xac", 4); /* U+20AC and the 0 */
        hearth_error error;
        (fail)(&error, HEARTH_IO, "%s", text);
        size_t length = strlen(error.text);
        assert_true(length > sizeof error.text - 8 && length < sizeof error.text);
        assert_string_equal(error.text + length - 3, "...");
        assert_true(utf8_is_valid(error.text, length));
        assert_null(strchr(error.text, '?'));
    }
}

static void errors_name_their_cause(void **state)
{
    (void)state;
    hearth_error error;
    errno = ENOSPC;
    assert_int_equal(fail_errno(&error, "out.gguf", "cannot write"), HEARTH_IO);
    assert_string_equal(error.text, "out.gguf: cannot write: No space left on device");
    assert_int_equal(fail_memory(&error, "KV cache", 12345), HEARTH_NO_MEMORY);
    assert_string_equal(error.text, "KV cache: out of memory (12345 bytes wanted)");
    assert_string_equal(hearth_status_text(HEARTH_OK), "success");
    assert_string_equal(hearth_status_text(HEARTH_DEVICE), "device failed");
    assert_string_equal(hearth_status_text((hearth_status)99), "unknown status");
    assert_string_equal(hearth_status_text((hearth_status)-1), "unknown status");
    hearth_free(mem_new(1));
    hearth_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_point_has_its_length), cmocka_unit_test(no_other_bytes_are_characters),
        cmocka_unit_test(spans_compare_by_content),        cmocka_unit_test(buffers_grow),
        cmocka_unit_test(errors_are_one_printable_line),   cmocka_unit_test(long_errors_are_cut_between_characters),
        cmocka_unit_test(errors_name_their_cause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
