/* text_splitter.c - words by expressions: those that are run in another form find the same, and no pre-tokenizer needs
 * minutes for a text that is hard on it. */
#include "../src/text/pre_tokenizers.h"
#include "../src/text/splitter.h"

#include "text_helpers.h"

enum { WORDS_MAX = 256, TEXT_MAX = 120 };

/* The words of a text, as bounds in it. */
typedef struct words {
    const char *text;
    size_t ends[WORDS_MAX], count, bytes;
} words;

static hearth_status note_word(void *user, span word, hearth_error *error)
{
    words *w = user;
    (void)error;
    assert_ptr_equal(word.data, w->text + w->bytes);
    w->bytes += word.size;
    if (w->count < WORDS_MAX)
        w->ends[w->count++] = w->bytes;
    return HEARTH_OK;
}

/* Cuts a text, of which every byte has to come back, in order. */
static words words_of(const splitter *s, span text)
{
    words w = {.text = text.data};
    split_memory memory = {0};
    hearth_error error = {0};
    if (splitter_split(s, text, &memory, note_word, &w, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    split_memory_free(&memory);
    assert_int_equal(w.bytes, text.size);
    return w;
}

static splitter *new_splitter(const char *const *expressions, size_t count)
{
    split_rule rules[PRE_TOKENIZER_RULES];
    for (size_t i = 0; i < count; i++)
        rules[i] = (split_rule){expressions[i], SPLIT_ISOLATED, false};
    splitter *s;
    assert_int_equal(splitter_create(&s, rules, count, "test", NULL), HEARTH_OK);
    return s;
}

/* An empty group behind an expression changes nothing but its spelling: it is run as it stands. */
static void groups_of_digits(void **state)
{
    (void)state;
    static const char *const both[][2] = {
        {"\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))", "\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))(?:)"},
        {"\\d{1,3}(?=(?:\\d{3})*\\b)", "\\d{1,3}(?=(?:\\d{3})*\\b)(?:)"},
        {"(?=(\\d{3})+(?!\\d))", "(?=(\\d{3})+(?!\\d))(?:)"},
    };
    /* Digits most of all; numbers that are no digits (a power, a numeral), a letter, marks, a blank. */
    static const char *const pieces[] = {"1", "2", "3", "12", "456", "\xc2\xb2", "\xe2\x85\xa7", "a", "_", ".", " "};
    uint32_t seed = 7;
    for (size_t e = 0; e < COUNT(both); e++) {
        splitter *fast = new_splitter(&both[e][0], 1), *slow = new_splitter(&both[e][1], 1);
        size_t cuts = 0;
        for (int round = 0; round < 3000; round++) {
            char text[TEXT_MAX];
            size_t size = 0, wanted = (seed = seed * 1664525 + 1013904223) >> 24;
            while (size < wanted % (TEXT_MAX - 4)) {
                seed = seed * 1664525 + 1013904223;
                size_t drawn = (seed >> 24) % 16;
                const char *put = pieces[drawn < COUNT(pieces) ? drawn : drawn % 3];
                for (const char *c = put; *c; c++)
                    text[size++] = *c;
            }
            words one = words_of(fast, (span){text, size}), other = words_of(slow, (span){text, size});
            if (one.count != other.count || memcmp(one.ends, other.ends, one.count * sizeof *one.ends) != 0)
                fail_msg("%s: '%.*s' is cut in another way", both[e][0], (int)size, text);
            cuts += one.count;
        }
        assert_true(cuts > 3000 * 5);
        splitter_destroy(fast);
        splitter_destroy(slow);
    }
}

/* A quarter of a million times one character and an end, for every pre-tokenizer: what takes a square of steps takes
 * minutes or hours, which is what this would fail by; and all of them take words of that length. */
static void long_runs(void **state)
{
    (void)state;
    enum { TIMES = 1 << 18 };
    static const char *const units[] = {"1", "a", "A", " ", "\n", "!", "'", " 1", "\xe4\xb8\xad", "\xcc\x81"};
    static const char *const ends[] = {"", "a", " ", "\n"};
    char *text = mem_new(TIMES * 4);
    assert_non_null(text);
    for (size_t p = 0; pre_tokenizer_at(p); p++) {
        const pre_tokenizer *row = pre_tokenizer_at(p);
        size_t count = 0;
        while (count < PRE_TOKENIZER_RULES && row->expressions[count])
            count++;
        splitter *s = new_splitter(row->expressions, count);
        for (size_t u = 0; u < COUNT(units); u++) {
            size_t size = strlen(units[u]);
            for (size_t i = 0; i < TIMES; i++)
                memcpy(text + i * size, units[u], size);
            for (size_t e = 0; e < COUNT(ends); e++) {
                memcpy(text + TIMES * size, ends[e], strlen(ends[e]));
                assert_true(words_of(s, (span){text, TIMES * size + strlen(ends[e])}).count > 0);
            }
        }
        splitter_destroy(s);
    }
    mem_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_of_digits),
        cmocka_unit_test(long_runs),
    };
    return run_group(tests, NULL, NULL);
}
