/* file_gguf_split.c - models that are split over several GGUF files: whichever part is opened, all are; and parts that
 * are missing, damaged or of another model are refused by name. */
#include "../src/file/gguf_split.h"

#include "file_build.h"

/* One part as a test wants it. The tensors are float32 rows of 8 values, which all have the number of the tensor: "t0"
 * is full of 0. */
typedef struct part_text {
    const char *file; /* its name after "m-"; NULL: no such file */
    const char *magic;
    int number, count, total; /* split.no, split.count, split.tensors.count; below 0: without the key */
    int first, tensors;       /* the tensors: t<first> and those after it */
    uint32_t type;            /* of the first one */
    size_t cut;               /* bytes that its end lacks */
} part_text;

enum { PARTS = 3 };

static char folder[512];

static void put_text(buffer *b, const char *text)
{
    put_u64(b, strlen(text));
    put(b, text, strlen(text));
}

/* llama-gguf-split writes the first two as u16, the third as i32. */
static void put_split(buffer *b, const char *key, int value, value_type type)
{
    if (value < 0)
        return;
    put_text(b, key);
    put_u32(b, type);
    put(b, &value, value_size(type));
}

static void put_part(buffer *b, const part_text *p)
{
    int keys = (p->number >= 0) + (p->count >= 0) + (p->total >= 0) + 1;
    put(b, p->magic ? p->magic : "GGUF", 4);
    put_u32(b, 3);
    put_u64(b, (uint64_t)p->tensors);
    put_u64(b, (uint64_t)keys);
    put_split(b, "split.no", p->number, VALUE_U16);
    put_text(b, "general.name");
    put_u32(b, VALUE_STRING);
    put_text(b, p->number > 0 ? "not the first part's" : "the model");
    put_split(b, "split.tensors.count", p->total, VALUE_I32);
    put_split(b, "split.count", p->count, VALUE_U16);
    for (int i = 0; i < p->tensors; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", p->first + i);
        put_text(b, name);
        put_u32(b, 1);
        put_u64(b, 8);
        put_u32(b, i == 0 ? p->type : 0);
        put_u64(b, (uint64_t)i * 32);
    }
    put_zeros(b, (32 - b->size % 32) % 32);
    for (int i = 0; i < p->tensors * 8; i++) {
        int tensor = p->first + i / 8;
        float value = (float)tensor;
        put(b, &value, sizeof value);
    }
    b->size -= p->cut;
}

static char *part_path(char out[1024], const char *file)
{
    snprintf(out, 1024, "%s/m-%s", folder, file);
    return out;
}

static void write_parts(const part_text *parts)
{
    make_folder(folder, sizeof folder);
    for (size_t i = 0; i < PARTS && parts[i].file; i++) {
        char path[1024];
        buffer b = {0};
        put_part(&b, &parts[i]);
        write_file(part_path(path, parts[i].file), b.data, b.size);
        buffer_free(&b);
    }
}

#define ONE   "00001-of-00003.gguf"
#define TWO   "00002-of-00003.gguf"
#define THREE "00003-of-00003.gguf"

// clang-format off
static const part_text good[PARTS] = {
    {.file = ONE,   .number = 0, .count = 3, .total = 5, .first = 0, .tensors = 2},
    {.file = TWO,   .number = 1, .count = 3, .total = 5, .first = 2, .tensors = 1},
    {.file = THREE, .number = 2, .count = 3, .total = 5, .first = 3, .tensors = 2},
};
// clang-format on

/* Every part leads to the same five tensors, with the keys of the first part and none of the split's. */
static void any_part_opens_all(void **state)
{
    (void)state;
    write_parts(good);
    for (size_t i = 0; i < PARTS; i++) {
        checkpoint *c;
        hearth_error error = {0};
        char path[1024];
        if (gguf_open(&c, part_path(path, good[i].file), &error) != HEARTH_OK)
            fail_msg("%s", error.text);
        assert_string_equal(c->path, path);
        assert_int_equal(checkpoint_file_count(c), 3);
        assert_int_equal(c->entry_count, 1);
        assert_true(span_equal(checkpoint_find(c, "general.name")->as.string, span_of("the model")));
        assert_null(checkpoint_find(c, "split.count"));
        assert_int_equal(c->tensor_count, 5);
        for (int k = 0; k < 5; k++) {
            char name[16];
            snprintf(name, sizeof name, "t%d", k);
            assert_string_equal(c->tensors[k].name, name);
            const float *values = checkpoint_find_tensor(c, name)->data;
            assert_true(values[0] == (float)k && values[7] == (float)k);
        }
        checkpoint_close(c);
    }
    remove_folder(folder);
}

/* Parts may hold types that hearth lacks where that is asked for; the name of the type outlives the part. A first part
 * with keys alone is what converters write. */
static void parts_may_be_special(void **state)
{
    (void)state;
    part_text parts[PARTS];
    memcpy(parts, good, sizeof parts);
    parts[0] = (part_text){.file = ONE, .number = 0, .count = 3, .total = 3};
    parts[1].total = parts[2].total = 3;
    parts[1].type = 200;
    write_parts(parts);
    checkpoint *c;
    hearth_error error = {0};
    char path[1024], second[1024];
    part_path(second, TWO);
    check_refusal("strict", gguf_open(&c, part_path(path, ONE), &error), &error, HEARTH_UNSUPPORTED, second,
                  "tensor t2: is of type number 200");
    assert_int_equal(gguf_open_any(&c, path, &error), HEARTH_OK);
    assert_int_equal(c->tensor_count, 3);
    assert_string_equal(c->tensors[0].foreign, "number 200");
    assert_int_equal(c->tensors[0].size_bytes, 32);
    checkpoint_close(c);
    remove_folder(folder);
}

/* Files that were merged again, or never split, keep their keys. */
static void a_single_file_stays_as_it_is(void **state)
{
    (void)state;
    for (int count = 0; count < 2; count++) {
        const part_text parts[PARTS] = {{.file = "whole", .number = 0, .count = count, .total = 2, .tensors = 2}};
        checkpoint *c;
        hearth_error error = {0};
        char path[1024];
        write_parts(parts);
        assert_int_equal(gguf_open(&c, part_path(path, "whole"), &error), HEARTH_OK);
        assert_int_equal(c->entry_count, 4);
        assert_int_equal(checkpoint_file_count(c), 1);
        checkpoint_close(c);
        remove_folder(folder);
    }
}

/* What is changed of the good parts, which one is opened, which file the error must name, and what it says. */
// clang-format off
static const struct {
    const char *what;
    size_t changed;
    part_text change;
    const char *opened, *blamed, *fragment;
} wrong[] = {
    {"missing", 1, {.file = "gone"}, ONE, TWO, "is missing: the model has 3 parts"},
    {"missing first", 0, {.file = "gone"}, THREE, ONE, "is missing: the model has 3 parts"},
    {"renamed", 0, {.file = "x.gguf", .number = 0, .count = 3, .total = 5, .tensors = 2}, "x.gguf", "x.gguf",
     "is part 1 of 3, so its name must end in -00001-of-00003.gguf"},
    {"called otherwise", 0, {.file = ONE, .number = 1, .count = 3, .total = 5, .tensors = 2}, ONE, ONE,
     "is part 2 of 3, so its name must end in -00002-of-00003.gguf"},
    {"number", 0, {.file = ONE, .number = 3, .count = 3, .total = 5, .tensors = 2}, ONE, ONE,
     "key split.no: is 3, expected 0 to 2"},
    {"no number", 0, {.file = ONE, .number = -1, .count = 3, .total = 5, .tensors = 2}, ONE, ONE,
     "key split.no: is missing"},
    {"no total", 0, {.file = ONE, .number = 0, .count = 3, .total = -1, .tensors = 2}, ONE, ONE,
     "key split.tensors.count: is missing"},
    {"other count", 1, {.file = TWO, .number = 1, .count = 4, .total = 5, .first = 2, .tensors = 1}, ONE, TWO,
     "is of another model: it says that it is part 2 of 4, with 5 tensors in all, expected part 2 of 3 with 5"},
    {"not split", 1, {.file = TWO, .number = -1, .count = -1, .total = -1, .first = 2, .tensors = 1}, ONE, TWO,
     "is of another model: it says that it is part 1 of 1"},
    {"other order", 2, {.file = THREE, .number = 1, .count = 3, .total = 5, .first = 3, .tensors = 2}, ONE, THREE,
     "it says that it is part 2 of 3"},
    {"other total", 2, {.file = THREE, .number = 2, .count = 3, .total = 6, .first = 3, .tensors = 2}, TWO, THREE,
     "with 6 tensors in all, expected part 3 of 3 with 5"},
    {"other magic", 1, {.file = TWO, .magic = "PWRI", .number = 1, .count = 3, .total = 5, .first = 2, .tensors = 1}, ONE,
     TWO, "is of another model: its magic differs from that of part 1"},
    {"twice", 2, {.file = THREE, .number = 2, .count = 3, .total = 5, .first = 2, .tensors = 2}, THREE, THREE,
     "tensor t2: is in an earlier part, too"},
    {"too few", 2, {.file = THREE, .number = 2, .count = 3, .total = 5, .first = 3, .tensors = 1}, TWO, TWO,
     "key split.tensors.count: is 5, but the parts have 4"},
    {"cut short", 2, {.file = THREE, .number = 2, .count = 3, .total = 5, .first = 3, .tensors = 2, .cut = 1}, ONE, THREE,
     "tensor t4: ends at byte 64 of the data, but the file has only 63"},
    {"no GGUF", 2, {.file = THREE, .magic = "GGUX", .number = 2, .count = 3, .total = 5, .first = 3, .tensors = 2}, ONE,
     THREE, "is not a GGUF file"},
};
// clang-format on

static void wrong_parts_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        part_text parts[PARTS];
        checkpoint *c;
        hearth_error error = {0};
        char path[1024], blamed[1024];
        memcpy(parts, good, sizeof parts);
        parts[wrong[i].changed] = wrong[i].change;
        write_parts(parts);
        long before = mem_live();
        hearth_status status = gguf_open(&c, part_path(path, wrong[i].opened), &error);
        check_refusal(wrong[i].what, status, &error, HEARTH_FORMAT, part_path(blamed, wrong[i].blamed),
                      wrong[i].fragment);
        assert_int_equal(mem_live(), before);
        remove_folder(folder);
    }
}

static void names_of_parts(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        uint32_t number, count; /* 0: it is no name of a part */
    } rows[] = {{"a-00001-of-00002.gguf", 1, 2}, {"x/y-00012-of-99999.gguf", 12, 99999},
                {"-00001-of-00001.gguf", 0, 0},  {"a-00000-of-00002.gguf", 0, 0},
                {"a-00003-of-00002.gguf", 0, 0}, {"a-0001-of-00002.gguf", 0, 0},
                {"a-00001-of-00002.GGUF", 0, 0}, {"a-00001-of-00002.gguf.tune", 0, 0},
                {"a-0000x-of-00002.gguf", 0, 0}, {"", 0, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gguf_part_name name = {0};
        assert_int_equal(gguf_part_name_read(&name, rows[i].path), rows[i].number > 0);
        assert_int_equal(name.number, rows[i].number);
        assert_int_equal(name.count, rows[i].count);
        assert_int_equal(name.base_bytes, rows[i].number ? strlen(rows[i].path) - 20 : 0);
    }
    char *other = gguf_part_path("x/y-00012-of-00300.gguf", 7);
    assert_string_equal(other, "x/y-00007-of-00300.gguf");
    mem_free(other);
}

/* Opening three parts, with each allocation and each read failing in turn. */
static void failed_opens(void **state)
{
    (void)state;
    static void (*const fault[])(long) = {file_fail_at, mem_fail_at};
    static const hearth_status expected[] = {HEARTH_IO, HEARTH_NO_MEMORY};
    static const long least[] = {3, 20};
    char path[1024];
    write_parts(good);
    part_path(path, TWO);
    long before = mem_live();
    for (size_t kind = 0; kind < 2; kind++) {
        hearth_status status = HEARTH_IO;
        long n = 0;
        for (; status != HEARTH_OK; n++) {
            checkpoint *c;
            hearth_error error = {0};
            fault[kind](n);
            status = gguf_open(&c, path, &error);
            fault[kind](-1);
            if (status == HEARTH_OK)
                checkpoint_close(c);
            else
                assert_int_equal(status, expected[kind]);
            assert_int_equal(mem_live(), before);
        }
        assert_true(n > least[kind]);
    }
    remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_part_opens_all),
        cmocka_unit_test(parts_may_be_special),
        cmocka_unit_test(a_single_file_stays_as_it_is),
        cmocka_unit_test(wrong_parts_are_named),
        cmocka_unit_test(names_of_parts),
        cmocka_unit_test(failed_opens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
