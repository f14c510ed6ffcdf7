/* HumanEval: hostile files, where completions are cut, which programs pass, and what the figures are. */
#include "../src/base/file.h"
#include "../src/base/memory.h"
#include "../src/eval/humaneval.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "skip.h"

#define PROBLEMS HEARTH_DATA "/corpora/HumanEval.jsonl.gz"
#define MODEL    HEARTH_DATA "/models/stories260K-relu"

#define LINE(id, name)                                                                   \
    "{\"task_id\":\"" id "\",\"prompt\":\"def " name "(x):\\n\",\"entry_point\":\"" name \
    "\",\"test\":\"def check(f):\\n    assert f(20) == 21\\n\",\"canonical_solution\":\"    return x + 1\\n\"}\n"

/* ------------------------------------------------------------------ files */

static void problems_are_read(void **state)
{
    (void)state;
    humaneval_problems p = {0};
    assert_int_equal(humaneval_parse(&p, span_of(LINE("a/0", "f") "  \r\n\n" LINE("a/1", "_g2")), "x", NULL),
                     HEARTH_OK);
    assert_int_equal(p.count, 2);
    assert_string_equal(p.items[0].task_id, "a/0");
    assert_string_equal(p.items[1].prompt, "def _g2(x):\n");
    assert_string_equal(p.items[1].entry_point, "_g2");
    assert_string_equal(p.items[1].canonical, "    return x + 1\n");
    humaneval_problems_free(&p);
    assert_int_equal(p.count, 0);
}

static void the_real_ones_are_read(void **state)
{
    (void)state;
    humaneval_problems p = {0};
    assert_int_equal(humaneval_read(&p, PROBLEMS, NULL), HEARTH_OK);
    assert_int_equal(p.count, 164);
    assert_string_equal(p.items[163].task_id, "HumanEval/163");
    assert_string_equal(p.items[163].entry_point, "generate_integers");
    humaneval_problems_free(&p);
}

static void hostile_lines_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"", "x: problems: there are none"},
        {"\n \n", "x: problems: there are none"},
        {"nonsense", "x: line 1: line 1, column 8: "},
        {"[1]", "x: line 1: text: is not a JSON object"},
        {"{\"task_id\":\"a\"}", "x: line 1: prompt: is missing"},
        {"{\"task_id\":7}", "x: line 1: task_id: "},
        {LINE("a", "f") LINE("a", "f"), "x: line 2: task_id: 'a' is there twice"},
        {LINE("a", "f") "{\"task_id\":\"b\",\"task_id\":\"c\"}", "x: line 2: line 1, column "},
        {LINE("a", "f(0) or exec"), "x: line 1: entry_point: 'f(0) or exec' is not the name of a function"},
        {LINE("a", "9f"), "x: line 1: entry_point: '9f' is not the name of a function"},
        {LINE("a", ""), "x: line 1: entry_point: '' is not the name of a function"},
        {LINE("a\\u0000b", "f"), "x: line 1: line 1, column "},
        {LINE("\xff", "f"), "x: line 1: line 1, column "},
        {LINE("a", "f") "{\"task_id\":\"b\"", "x: line 2: line 1, column "},
        {"\x1f\x8b", "x: gzip: the file is cut short"},
        {"\x1f\x8bnonsense", "x: gzip: "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        humaneval_problems p = {0};
        hearth_error error = {.text = ""};
        assert_int_equal(humaneval_parse(&p, span_of(rows[i].text), "x", &error), HEARTH_FORMAT);
        if (strncmp(error.text, rows[i].message, strlen(rows[i].message)) != 0)
            fail_msg("'%s' does not begin with '%s'", error.text, rows[i].message);
        humaneval_problems_free(&p);
    }
}

/* A line that would take gigabytes once taken apart is not: the bound comes before that. */
static void long_lines_are_refused(void **state)
{
    (void)state;
    const size_t most = (size_t)8 << 20, size = most + 2;
    char *text = malloc(size + 1);
    humaneval_problems p = {0};
    hearth_error error = {.text = ""};
    assert_non_null(text);
    memset(text, '[', size);
    text[0] = '\n';
    text[size] = 0;
    assert_int_equal(humaneval_parse(&p, (span){text, size}, "x", &error), HEARTH_FORMAT);
    assert_string_equal(error.text, "x: line 2: is longer than 8388608 bytes");
    assert_int_equal(humaneval_parse(&p, (span){text, size - 1}, "x", &error), HEARTH_FORMAT); /* just not */
    assert_non_null(strstr(error.text, "x: line 2: line 1, column "));
    humaneval_problems_free(&p);
    free(text);
}

/* gzip of text, by zlib; the caller's to free. */
static char *pack(const void *data, size_t size, size_t *packed)
{
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY), Z_OK);
    size_t room = deflateBound(&z, size) + 64;
    char *out = malloc(room);
    z.next_in = (Bytef *)(uintptr_t)data;
    z.avail_in = (uInt)size;
    z.next_out = (Bytef *)out;
    z.avail_out = (uInt)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    *packed = room - z.avail_out;
    deflateEnd(&z);
    return out;
}

static void packed_files_are_read(void **state)
{
    (void)state;
    const char *text = LINE("a/0", "f") LINE("a/1", "g");
    size_t size, bomb_size;
    char *packed = pack(text, strlen(text), &size);
    humaneval_problems p = {0};
    assert_int_equal(humaneval_parse(&p, (span){packed, size}, "x", NULL), HEARTH_OK);
    assert_int_equal(p.count, 2);
    humaneval_problems_free(&p);
    /* Cut short anywhere. */
    for (size_t cut = 2; cut < size; cut++) {
        hearth_error error;
        assert_int_equal(humaneval_parse(&p, (span){packed, cut}, "x", &error), HEARTH_FORMAT);
        assert_string_equal(error.text, "x: gzip: the file is cut short");
        humaneval_problems_free(&p);
    }
    /* A byte of the checksum, and what stands behind the end. */
    char *twice = malloc(2 * size);
    memcpy(twice, packed, size);
    twice[size - 6] ^= 1;
    assert_int_equal(humaneval_parse(&p, (span){twice, size}, "x", NULL), HEARTH_FORMAT);
    humaneval_problems_free(&p);
    memcpy(twice, packed, size);
    memcpy(twice + size, packed, size);
    hearth_error error;
    assert_int_equal(humaneval_parse(&p, (span){twice, 2 * size}, "x", &error), HEARTH_FORMAT);
    assert_string_equal(error.text, "x: line 3: task_id: 'a/0' is there twice"); /* joined files are read */
    humaneval_problems_free(&p);
    memset(twice + size, 'z', size);
    assert_int_equal(humaneval_parse(&p, (span){twice, size + 9}, "x", NULL), HEARTH_FORMAT);
    humaneval_problems_free(&p);
    free(twice);
    free(packed);
    /* A bomb: 300 MB of blanks. */
    char *blanks = malloc((size_t)300 << 20);
    memset(blanks, '\n', (size_t)300 << 20);
    packed = pack(blanks, (size_t)300 << 20, &bomb_size);
    free(blanks);
    assert_int_equal(humaneval_parse(&p, (span){packed, bomb_size}, "x", &error), HEARTH_FORMAT);
    assert_non_null(strstr(error.text, "x: gzip: holds more than"));
    humaneval_problems_free(&p);
    free(packed);
}

static void completions_come_back(void **state)
{
    (void)state;
    humaneval_problems p = {0};
    humaneval_completions c = {0}, again = {0};
    hearth_error error;
    char path[] = "/tmp/hearth-test-completions.XXXXXX";
    assert_int_equal(humaneval_parse(&p, span_of(LINE("a", "f") LINE("b", "g")), "x", NULL), HEARTH_OK);
    assert_int_equal(humaneval_add(&c, 1, span_of("    return \"\\\n\t\xc3\xa4\"\n"), NULL), HEARTH_OK);
    assert_int_equal(humaneval_add(&c, 0, span_of(""), NULL), HEARTH_OK);
    assert_int_equal(humaneval_add(&c, 1, span_of("pass"), NULL), HEARTH_OK);
    close(mkstemp(path));
    assert_int_equal(humaneval_save(path, &p, &c, NULL), HEARTH_OK);
    assert_int_equal(humaneval_read_completions(&again, path, &p, NULL), HEARTH_OK);
    assert_int_equal(again.count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(again.items[i].problem, c.items[i].problem);
        assert_true(span_equal(again.items[i].text, c.items[i].text));
    }
    humaneval_completions_free(&again);
    unlink(path);
    static const char *const bad[] = {"{\"task_id\":\"c\",\"completion\":\"\"}", "{\"task_id\":\"a\"}", "3", "{",
                                      "{\"task_id\":\"a\",\"completion\":null}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(humaneval_parse_completions(&again, span_of(bad[i]), "y", &p, &error), HEARTH_FORMAT);
        assert_memory_equal(error.text, "y: line 1: ", 11);
        humaneval_completions_free(&again);
    }
    /* Writing that fails leaves no file. */
    for (long n = 0, status = HEARTH_IO; status != HEARTH_OK; n++) {
        file_fail_at(n);
        status = (long)humaneval_save(path, &p, &c, NULL);
        file_fail_at(-1);
        assert_true(status == HEARTH_OK || access(path, F_OK) != 0);
    }
    unlink(path);
    humaneval_completions_free(&c);
    humaneval_problems_free(&p);
}

static void failing_allocations_leave_nothing(void **state)
{
    (void)state;
    const char *text = LINE("a", "f") LINE("b", "g");
    size_t size;
    char *packed = pack(text, strlen(text), &size);
    long live = mem_live(), n = 0;
    hearth_status status;
    do {
        humaneval_problems p = {0};
        humaneval_completions c = {0};
        mem_fail_at(n++);
        status = humaneval_parse(&p, (span){packed, size}, "x", NULL);
        if (status == HEARTH_OK)
            status =
                humaneval_parse_completions(&c, span_of("{\"task_id\":\"b\",\"completion\":\"x\"}"), "y", &p, NULL);
        mem_fail_at(-1);
        humaneval_completions_free(&c);
        humaneval_problems_free(&p);
        assert_int_equal(mem_live(), live);
        assert_true(status == HEARTH_OK || status == HEARTH_NO_MEMORY);
    } while (status != HEARTH_OK);
    assert_true(n > 5);
    free(packed);
}

/* ------------------------------------------------------------------ cutting */

/* The answer to a model that says `text`, token by token. (This one's tokenizer folds blanks, and begins with one.) */
static void cut(const hearth_model *model, const char *text, const char *expected)
{
    const hearth_answer_options options = {.stops = humaneval_stops, .stop_count = humaneval_stop_count};
    hearth_answer *answer;
    int32_t *ids;
    size_t count, size;
    buffer all = {0};
    const char *piece;
    hearth_stop stop = HEARTH_STOP_NONE;
    assert_int_equal(hearth_answer_create(&answer, model, &options, NULL), HEARTH_OK);
    assert_int_equal(hearth_tokenize(model, text, strlen(text), 0, &ids, &count, NULL), HEARTH_OK);
    for (size_t i = 0; i < count && stop == HEARTH_STOP_NONE; i++) {
        assert_int_equal(hearth_answer_push(answer, ids[i], &piece, &size, &stop, NULL), HEARTH_OK);
        assert_true(buffer_put(&all, piece, size));
    }
    hearth_answer_finish(answer, &piece, &size);
    assert_true(buffer_put(&all, piece, size) && buffer_put(&all, "", 1));
    assert_string_equal(all.data + (all.data[0] == ' ' && text[0] != ' '), expected);
    buffer_free(&all);
    hearth_free(ids);
    hearth_answer_destroy(answer);
}

static void completions_are_cut(void **state)
{
    (void)state;
    hearth_model *model;
    assert_int_equal(hearth_model_open(&model, MODEL, NULL, NULL), HEARTH_OK);
    static const char *const ends[] = {"\ndef next():", "\nclass A:", "\n# and",   "\n@cache",
                                       "\nif __name__", "\nprint(1)", "\n```\nnow"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char text[200];
        snprintf(text, sizeof text, "x = 1\n if x:\n print(x) # one\n return x%s\n pass\n", ends[i]);
        cut(model, text, "x = 1\n if x:\n print(x) # one\n return x");
    }
    cut(model, "return x\n\n\ndef g():\n", "return x\n\n");
    cut(model, "return x\nde\ncl\n``\n", "return x\nde\ncl\n``\n");
    hearth_model_close(model);
}

/* ------------------------------------------------------------------ checking */

static void need_sandbox(const char *file, int line)
{
    hearth_error error;
    if (humaneval_can_check(NULL, &error) == HEARTH_OK)
        return;
    print_message("skipped: %s\n", error.text);
    skipped_tests++;
    _skip(file, line);
}

static void ends_with(const char *completion, const char *why)
{
    humaneval_problems p = {0};
    humaneval_completions c = {0};
    humaneval_result r = {0};
    hearth_error error;
    const humaneval_options options = {.timeout_seconds = 3};
    char kept[HUMANEVAL_WHY];
    assert_int_equal(humaneval_parse(&p, span_of(LINE("a", "f")), "x", NULL), HEARTH_OK);
    assert_int_equal(humaneval_add(&c, 0, span_of(completion), NULL), HEARTH_OK);
    if (humaneval_check(&r, &p, &c, &options, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    memcpy(kept, r.verdicts[0].why, sizeof kept);
    assert_true(utf8_is_valid(kept, strlen(kept)));
    assert_int_equal(r.passed, *why ? 0 : 1);
    assert_true(r.pass_at_1 == (*why ? 0 : 1));
    humaneval_result_free(&r);
    humaneval_completions_free(&c);
    humaneval_problems_free(&p);
    if (strncmp(kept, why, strlen(why)) != 0)
        fail_msg("%s: '%s' does not begin with '%s'", completion, kept, why);
}

static void verdicts_are_right(void **state)
{
    (void)state;
    need_sandbox(__FILE__, __LINE__);
    ends_with("    return x + 1\n", "");
    ends_with("    print('x' * 100000)\n    return x + 1\n", "");
    /* Also past Python, to the descriptors, more than is kept of an output; or when these are closed. */
    ends_with("    import os\n    for i in range(300): os.write(1, b'x' * 100), os.write(2, b'y' * 100)\n"
              "    return x + 1\n",
              "");
    ends_with("    import os\n    os.close(1)\n    os.close(2)\n    return x + 1\n", "");
    ends_with("    return x + 2\n", "AssertionError");
    ends_with("    return y\n", "NameError: name 'y' is not defined");
    ends_with("    return x +\n", "SyntaxError: ");
    ends_with("", "IndentationError: ");
    ends_with("    while True: pass\n", "took too long");
    ends_with("    return input()\n", "EOFError");
    ends_with("    return f(x)\n", "RecursionError");
    ends_with("    raise BaseException\n", "BaseException");
    /* Ending early is not passing, however well it is done. */
    ends_with("    raise SystemExit(0)\n", "SystemExit: 0");
    ends_with("    import os\n    os.write(1, b'x')\n    os._exit(0)\n", "ended with status 0 before its test did");
    ends_with("    import os\n    os.lseek(0, 0, 0)\n    os.write(3, os.read(0, 99))\n    os._exit(0)\n",
              "ended with status 0 before its test did"); /* the word is not to be read again */
    ends_with("    exit(0)\n", "NameError");
    ends_with("    import sys\n    sys.exit()\n", "SystemExit");
    ends_with("    return x + 2\ntry:\n    pass\nexcept AssertionError:\n    pass\n", "AssertionError");
    ends_with("    import os\n    os.kill(os.getpid(), 11)\n", "killed by signal 11");
    ends_with("    import os\n    while True: os.write(3, b'x' * 65536)\n", "wrote too much"); /* the runner's own */
    ends_with("    import os\n    return os.fork()\n", "PermissionError: ");
    ends_with("    open('/x', 'w')\n    return x + 1\n", "OSError: ");
    ends_with("    class E(Exception):\n        def __str__(self): raise self\n    raise E\n",
              "an exception without a text");
    ends_with("    raise ValueError('\\udc80' * 1000)\n", "ValueError: ???");
    ends_with("    raise ValueError('\u00e9' * 1000)\n", "ValueError: \u00e9\u00e9"); /* not cut inside one */
    ends_with("    raise ValueError('x' + '\u00e9' * 1000)\n", "ValueError: x\u00e9");
    ends_with("    return x + 1\nif __name__ == '__main__':\n    raise ValueError\n", "");
}

/* A timeout in which not even Python begins makes programs fail; it does not mean that there is no Python. */
static void a_short_timeout_is_the_users_own(void **state)
{
    (void)state;
    need_sandbox(__FILE__, __LINE__);
    humaneval_problems p = {0};
    humaneval_completions c = {0};
    humaneval_result r = {0};
    hearth_error error;
    const humaneval_options options = {.timeout_seconds = 1e-4};
    assert_int_equal(humaneval_parse(&p, span_of(LINE("a", "f")), "x", NULL), HEARTH_OK);
    assert_int_equal(humaneval_add(&c, 0, span_of("    return x + 1\n"), NULL), HEARTH_OK);
    if (humaneval_check(&r, &p, &c, &options, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    assert_int_equal(r.timeouts, 1);
    assert_int_equal(r.passed, 0);
    humaneval_result_free(&r);
    humaneval_completions_free(&c);
    humaneval_problems_free(&p);
}

/* Hundreds of programs would take their time: some here, all of them in the shell's test of the command. */
static void canonical_solutions_pass_and_mutants_fail(void **state)
{
    (void)state;
    need_sandbox(__FILE__, __LINE__);
    humaneval_problems p = {0};
    humaneval_completions c = {0};
    humaneval_result r = {0};
    const humaneval_options options = {.limit = 12, .timeout_seconds = 60};
    assert_int_equal(humaneval_read(&p, PROBLEMS, NULL), HEARTH_OK);
    for (size_t i = 0; i < 12; i++) {
        assert_non_null(p.items[i].canonical);
        assert_int_equal(humaneval_add(&c, i, span_of(p.items[i].canonical), NULL), HEARTH_OK);
    }
    for (size_t i = 0; i < 4; i++) /* and three times, of four tries, what a function must not return */
        for (size_t k = 0; k < 3; k++)
            assert_int_equal(humaneval_add(&c, i, span_of("    return 'no'\n"), NULL), HEARTH_OK);
    assert_int_equal(humaneval_check(&r, &p, &c, &options, NULL), HEARTH_OK);
    assert_int_equal(r.count, 12);
    assert_int_equal(r.tried, 24);
    assert_int_equal(r.passed, 12);
    assert_int_equal(r.solved, 8);
    for (size_t i = 0; i < 12; i++) {
        assert_string_equal(r.verdicts[i].task_id, p.items[i].task_id);
        assert_int_equal(r.verdicts[i].passed, 1);
        assert_int_equal(r.verdicts[i].tried, i < 4 ? 4 : 1);
        assert_int_equal(r.verdicts[i].why[0] == 0, i >= 4);
    }
    /* Mean of eight ones and four quarters; their variance is 12/11 x 1/8. */
    assert_true(fabs(r.pass_at_1 - 0.75) < 1e-12);
    assert_true(fabs(r.standard_error - sqrt(0.125 / 11)) < 1e-12);
    humaneval_result_free(&r);
    /* A problem without a completion has no verdict. */
    hearth_error error;
    const humaneval_options more = {.limit = 13};
    assert_int_equal(humaneval_check(&r, &p, &c, &more, &error), HEARTH_FORMAT);
    assert_string_equal(error.text, "completions: HumanEval/12: there is none");
    humaneval_result_free(&r);
    humaneval_completions_free(&c);
    humaneval_problems_free(&p);
}

/* ------------------------------------------------------------------ with a model */

static bool never(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)user, (void)what, (void)done, (void)total;
    return false;
}

static void a_model_is_asked(void **state)
{
    (void)state;
    need_sandbox(__FILE__, __LINE__);
    hearth_runtime *runtime;
    hearth_model *model;
    hearth_engine *engine;
    humaneval_problems p = {0};
    humaneval_result r = {0};
    hearth_error error;
    hearth_runtime_options one = {.threads = 1};
    assert_int_equal(hearth_runtime_create(&runtime, &one, NULL), HEARTH_OK);
    assert_int_equal(hearth_model_open(&model, MODEL, NULL, NULL), HEARTH_OK);
    assert_int_equal(hearth_engine_create(&engine, runtime, model, NULL, NULL), HEARTH_OK);
    assert_int_equal(humaneval_parse(&p, span_of(LINE("a", "f") LINE("b", "g")), "x", NULL), HEARTH_OK);
    humaneval_options options = {.max_tokens = 8, .context = 64};
    assert_int_equal(humaneval_run(&r, engine, &p, &options, NULL), HEARTH_OK);
    assert_int_equal(r.count, 2);
    assert_int_equal(r.passed, 0); /* it has read stories only */
    assert_true(r.tokens > 0 && r.tokens <= 16);
    assert_true(r.no_room == 0 && r.sandbox != NULL);
    humaneval_result_free(&r);
    options.context = 4; /* the prompt does not fit */
    assert_int_equal(humaneval_run(&r, engine, &p, &options, NULL), HEARTH_OK);
    assert_int_equal(r.no_room, 2);
    assert_int_equal(r.tokens, 0);
    assert_string_equal(r.verdicts[1].why, "the prompt does not fit the context");
    humaneval_result_free(&r);
    options.context = 64;
    options.progress.report = never;
    assert_int_equal(humaneval_run(&r, engine, &p, &options, &error), HEARTH_CANCELLED);
    humaneval_result_free(&r);
    options.progress.report = NULL;
    /* Alike for every allocation that fails, those of completing above all. */
    long live = mem_live(), n = 0;
    hearth_status status;
    do {
        humaneval_completions c = {0};
        uint64_t tokens;
        mem_fail_at(n);
        status = humaneval_complete(&c, &tokens, engine, &p, &options, NULL);
        mem_fail_at(-1);
        humaneval_completions_free(&c);
        assert_int_equal(mem_live(), live);
        assert_true(status == HEARTH_OK || status == HEARTH_NO_MEMORY);
        n++;
    } while (status != HEARTH_OK);
    assert_true(n > 10);
    humaneval_problems_free(&p);
    hearth_engine_destroy(engine);
    hearth_model_close(model);
    hearth_runtime_destroy(runtime);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(problems_are_read),
        cmocka_unit_test(the_real_ones_are_read),
        cmocka_unit_test(hostile_lines_are_refused),
        cmocka_unit_test(long_lines_are_refused),
        cmocka_unit_test(packed_files_are_read),
        cmocka_unit_test(completions_come_back),
        cmocka_unit_test(failing_allocations_leave_nothing),
        cmocka_unit_test(completions_are_cut),
        cmocka_unit_test(verdicts_are_right),
        cmocka_unit_test(a_short_timeout_is_the_users_own),
        cmocka_unit_test(canonical_solutions_pass_and_mutants_fail),
        cmocka_unit_test(a_model_is_asked),
    };
    return run_group(tests, NULL, NULL);
}
