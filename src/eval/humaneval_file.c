/* humaneval_file.c - reads and writes problems and completions: JSON lines, plain or gzipped.
 *
 * The files are untrusted. Sizes are checked before anything is parsed, also after unpacking; every line is an object
 * of its own, so that errors can name it. */
#include "humaneval.h"

#include "../base/file.h"
#include "../base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* HumanEval has 164 problems in 214 kB; 200 completions of each make about 30 MB. */
#define MAX_PACKED_BYTES ((size_t)64 << 20)
#define MAX_TEXT_BYTES   ((size_t)256 << 20)
/* HumanEval's longest line has 3 kB; suites with thousands of tests per function reach some MB. Parsing a hostile line
 * ("[[],[],[]...") takes forty times its size. */
#define MAX_LINE_BYTES  ((size_t)8 << 20)
#define MAX_PROBLEMS    10000
#define MAX_COMPLETIONS 1000000
/* Every problem is compared with all before it; names are short, so this takes negligible time. */
#define MAX_TASK_ID 200

/* ------------------------------------------------------------------ gzip */

static void *allocate(void *user, unsigned count, unsigned size)
{
    (void)user;
    return mem_new_array(count, size);
}

static void release(void *user, void *block)
{
    (void)user;
    mem_free(block);
}

static bool is_packed(span bytes)
{
    return bytes.size >= 2 && memcmp(bytes.data, "\x1f\x8b", 2) == 0;
}

/* Unpacks gzip members one after the other (gzip files may be concatenated) until the input ends. */
static hearth_status inflate_members(z_stream *z, buffer *out, const char *name, hearth_error *error)
{
    char block[32768];
    for (;;) {
        z->next_out = (Bytef *)block;
        z->avail_out = sizeof block;
        int code = inflate(z, Z_NO_FLUSH);
        size_t size = sizeof block - z->avail_out;
        if (code == Z_MEM_ERROR)
            return fail_memory(error, name, sizeof block);
        if (code != Z_OK && code != Z_STREAM_END)
            return fail(error, HEARTH_FORMAT, "%s: gzip: %s", name,
                        code == Z_BUF_ERROR ? "the file is cut short"
                        : z->msg            ? z->msg
                                            : "is damaged");
        if (size > MAX_TEXT_BYTES - out->size)
            return fail(error, HEARTH_FORMAT, "%s: gzip: holds more than %zu bytes", name, MAX_TEXT_BYTES);
        if (!buffer_put(out, block, size))
            return fail_memory(error, name, out->size + size);
        if (code == Z_STREAM_END && z->avail_in == 0)
            return HEARTH_OK;
        if (code == Z_STREAM_END && inflateReset(z) != Z_OK)
            return fail(error, HEARTH_FORMAT, "%s: gzip: is damaged", name);
    }
}

static hearth_status unpack(buffer *out, span packed, const char *name, hearth_error *error)
{
    z_stream z = {.zalloc = allocate, .zfree = release};
    z.next_in = (Bytef *)(uintptr_t)packed.data;
    z.avail_in = (uInt)packed.size;
    if (packed.size > MAX_PACKED_BYTES)
        return fail(error, HEARTH_FORMAT, "%s: gzip: is larger than %zu bytes", name, MAX_PACKED_BYTES);
    if (inflateInit2(&z, 16 + MAX_WBITS) != Z_OK) /* 16: expects a gzip header */
        return fail_memory(error, name, sizeof z);
    hearth_status status = inflate_members(&z, out, name, error);
    inflateEnd(&z);
    return status;
}

/* ------------------------------------------------------------------ lines */

/* Reads JSON lines: take() gets every object; the other members are for take(). */
typedef struct jsonl_reader jsonl_reader;
struct jsonl_reader {
    hearth_status (*take)(jsonl_reader *r, const json_t *line, const char *name, hearth_error *error);
    humaneval_problems *problems;
    humaneval_completions *completions;
    const humaneval_problem *first;  /* of the problems that the completions belong to */
    const humaneval_problem **known; /* [known_count] the same, sorted by name */
    size_t known_count;
};

static bool is_blank(span line)
{
    for (size_t i = 0; i < line.size; i++)
        if (!is_white(line.data[i]))
            return false;
    return true;
}

/* Parses a line and passes its object on; skips blank lines. */
static hearth_status read_line(jsonl_reader *r, span line, const char *name, hearth_error *error)
{
    json_t *o;
    if (is_blank(line))
        return HEARTH_OK;
    if (line.size > MAX_LINE_BYTES)
        return fail(error, HEARTH_FORMAT, "%s: is longer than %zu bytes", name, MAX_LINE_BYTES);
    TRY(json_parse(&o, line.data, line.size, name, error));
    hearth_status status = json_is_object(o) ? r->take(r, o, name, error)
                                             : fail(error, HEARTH_FORMAT, "%s: text: is not a JSON object", name);
    json_decref(o);
    return status;
}

static hearth_status read_lines(jsonl_reader *r, span text, const char *name, hearth_error *error)
{
    for (size_t at = 0, number = 1; at < text.size; number++) {
        char line_name[512];
        const char *from = text.data + at, *end = memchr(from, '\n', text.size - at);
        size_t size = end ? (size_t)(end - from) : text.size - at;
        snprintf(line_name, sizeof line_name, "%.400s: line %zu", name, number);
        TRY(read_line(r, (span){from, size}, line_name, error));
        at += size + 1;
    }
    return HEARTH_OK;
}

/* Reads the lines of plain or gzipped bytes. */
static hearth_status read_bytes(jsonl_reader *r, span bytes, const char *name, hearth_error *error)
{
    buffer text = {0};
    if (!is_packed(bytes))
        return read_lines(r, bytes, name, error);
    hearth_status status = unpack(&text, bytes, name, error);
    if (status == HEARTH_OK)
        status = read_lines(r, (span){text.data, text.size}, name, error);
    buffer_free(&text);
    return status;
}

/* Copies a member that is a string; a missing optional one leaves *out unchanged. */
static hearth_status copy_member(const char **out, arena *memory, const json_t *line, const char *key, bool optional,
                                 const char *name, hearth_error *error)
{
    const char *text = NULL;
    bool found;
    TRY(json_get_string(line, key, &text, optional ? &found : NULL, name, error));
    if (!text)
        return HEARTH_OK;
    *out = arena_copy_text(memory, text, strlen(text));
    return *out ? HEARTH_OK : fail_memory(error, name, strlen(text));
}

/* ------------------------------------------------------------------ problems */

static bool has_task(const humaneval_problems *p, const char *task_id)
{
    for (size_t i = 0; i < p->count; i++)
        if (strcmp(p->items[i].task_id, task_id) == 0)
            return true;
    return false;
}

/* Returns whether the text can be inserted into a program as a name. */
static bool is_identifier(const char *text)
{
    const char *letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    size_t size = strlen(text);
    return size > 0 && size <= 200 && strspn(text, letters) == size && !(*text >= '0' && *text <= '9');
}

/* Checks and stores one problem. */
static hearth_status take_problem(jsonl_reader *r, const json_t *line, const char *name, hearth_error *error)
{
    humaneval_problems *p = r->problems;
    humaneval_problem one = {"", "", "", "", NULL};
    TRY(copy_member(&one.task_id, &p->memory, line, "task_id", false, name, error));
    TRY(copy_member(&one.prompt, &p->memory, line, "prompt", false, name, error));
    TRY(copy_member(&one.entry_point, &p->memory, line, "entry_point", false, name, error));
    TRY(copy_member(&one.test, &p->memory, line, "test", false, name, error));
    TRY(copy_member(&one.canonical, &p->memory, line, "canonical_solution", true, name, error));
    if (!is_identifier(one.entry_point))
        return fail(error, HEARTH_FORMAT, "%s: entry_point: '%.80s' is not the name of a function", name,
                    one.entry_point);
    if (strlen(one.task_id) > MAX_TASK_ID)
        return fail(error, HEARTH_FORMAT, "%s: task_id: is longer than %d bytes", name, MAX_TASK_ID);
    if (has_task(p, one.task_id))
        return fail(error, HEARTH_FORMAT, "%s: task_id: '%.80s' is there twice", name, one.task_id);
    if (p->count >= MAX_PROBLEMS)
        return fail(error, HEARTH_FORMAT, "%s: problems: are more than %d", name, MAX_PROBLEMS);
    void *grown = mem_grow(p->items, &p->capacity, p->count, 1, sizeof *p->items);
    if (!grown)
        return fail_memory(error, "humaneval", p->count * sizeof *p->items);
    p->items = grown;
    p->items[p->count++] = one;
    return HEARTH_OK;
}

hearth_status humaneval_parse(humaneval_problems *out, span bytes, const char *name, hearth_error *error)
{
    jsonl_reader r = {.take = take_problem, .problems = out};
    TRY(read_bytes(&r, bytes, name, error));
    return out->count > 0 ? HEARTH_OK : fail(error, HEARTH_FORMAT, "%s: problems: there are none", name);
}

hearth_status humaneval_read(humaneval_problems *out, const char *path, hearth_error *error)
{
    char *data;
    size_t size;
    TRY(file_read(&data, &size, path, MAX_TEXT_BYTES, error));
    hearth_status status = humaneval_parse(out, (span){data, size}, path, error);
    mem_free(data);
    return status;
}

void humaneval_problems_free(humaneval_problems *p)
{
    mem_free(p->items);
    arena_clear(&p->memory);
    *p = (humaneval_problems){0};
}

/* ------------------------------------------------------------------ completions */

hearth_status humaneval_add(humaneval_completions *c, size_t problem, span text, hearth_error *error)
{
    const char *copy = arena_copy_text(&c->memory, text.size > 0 ? text.data : "", text.size);
    if (!copy)
        return fail_memory(error, "completion", text.size);
    void *grown = mem_grow(c->items, &c->capacity, c->count, 1, sizeof *c->items);
    if (!grown)
        return fail_memory(error, "humaneval", c->count * sizeof *c->items);
    c->items = grown;
    c->items[c->count++] = (humaneval_completion){problem, {copy, text.size}, false};
    return HEARTH_OK;
}

static int compare_tasks(const void *a, const void *b)
{
    return strcmp((*(const humaneval_problem *const *)a)->task_id, (*(const humaneval_problem *const *)b)->task_id);
}

static int compare_task(const void *task_id, const void *problem)
{
    return strcmp(task_id, (*(const humaneval_problem *const *)problem)->task_id);
}

/* Finds the problem of a completion by its name, and stores the completion. */
static hearth_status take_completion(jsonl_reader *r, const json_t *line, const char *name, hearth_error *error)
{
    humaneval_completions *c = r->completions;
    const char *task_id = "", *text = "";
    TRY(json_get_string(line, "task_id", &task_id, NULL, name, error));
    TRY(json_get_string(line, "completion", &text, NULL, name, error));
    const humaneval_problem **found = bsearch(task_id, r->known, r->known_count, sizeof(void *), compare_task);
    if (!found)
        return fail(error, HEARTH_FORMAT, "%s: task_id: '%.80s' is not one of the problems", name, task_id);
    if (c->count >= MAX_COMPLETIONS)
        return fail(error, HEARTH_FORMAT, "%s: completions: are more than %d", name, MAX_COMPLETIONS);
    return humaneval_add(c, (size_t)(*found - r->first), span_of(text), error);
}

hearth_status humaneval_parse_completions(humaneval_completions *out, span bytes, const char *name,
                                          const humaneval_problems *problems, hearth_error *error)
{
    size_t count = problems->count;
    const humaneval_problem **known = mem_new_array(count, sizeof *known);
    if (!known)
        return fail_memory(error, name, count * sizeof *known);
    for (size_t i = 0; i < count; i++)
        known[i] = &problems->items[i];
    qsort(known, count, sizeof *known, compare_tasks);
    jsonl_reader r = {
        .take = take_completion, .completions = out, .first = problems->items, .known = known, .known_count = count};
    hearth_status status = read_bytes(&r, bytes, name, error);
    mem_free(known);
    return status;
}

hearth_status humaneval_read_completions(humaneval_completions *out, const char *path,
                                         const humaneval_problems *problems, hearth_error *error)
{
    char *data;
    size_t size;
    TRY(file_read(&data, &size, path, MAX_TEXT_BYTES, error));
    hearth_status status = humaneval_parse_completions(out, (span){data, size}, path, problems, error);
    mem_free(data);
    return status;
}

static hearth_status put_completion(file_writer *writer, const char *task_id, span text, hearth_error *error)
{
    json_t *o = json_pack("{s:s, s:s%}", "task_id", task_id, "completion", text.data, text.size);
    char *line = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    if (!line)
        return fail_memory(error, "completion", text.size);
    hearth_status status = file_writer_put(writer, line, strlen(line), error);
    if (status == HEARTH_OK)
        status = file_writer_put(writer, "\n", 1, error);
    free(line);
    return status;
}

hearth_status humaneval_save(const char *path, const humaneval_problems *problems,
                             const humaneval_completions *completions, hearth_error *error)
{
    file_writer *writer;
    TRY(file_writer_open(&writer, path, error));
    for (size_t i = 0; i < completions->count; i++) {
        const humaneval_completion *c = &completions->items[i];
        hearth_status status = put_completion(writer, problems->items[c->problem].task_id, c->text, error);
        if (status != HEARTH_OK) {
            file_writer_discard(writer);
            return status;
        }
    }
    return file_writer_commit(writer, error);
}

hearth_status humaneval_check_complete(const humaneval_completions *completions, const humaneval_problems *problems,
                                       size_t limit, const char *name, hearth_error *error)
{
    size_t count = limit > 0 && limit < problems->count ? limit : problems->count, i = 0;
    bool *seen = mem_new_array(count, sizeof *seen);
    if (!seen)
        return fail_memory(error, name, count);
    for (size_t k = 0; k < completions->count; k++)
        if (completions->items[k].problem < count)
            seen[completions->items[k].problem] = true;
    while (i < count && seen[i])
        i++;
    mem_free(seen);
    if (i < count)
        return fail(error, HEARTH_FORMAT, "%s: %.80s: there is none", name, problems->items[i].task_id);
    return HEARTH_OK;
}

void humaneval_completions_free(humaneval_completions *c)
{
    mem_free(c->items);
    arena_clear(&c->memory);
    *c = (humaneval_completions){0};
}
