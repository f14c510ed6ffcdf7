/* file_torch.c - archives of torch.save are read as they are; what does not fit into them is refused by name.
 * The pickles within are file_unpickle.c's. */
#include "torch_build.h"

#define GOLDEN HEARTH_DATA "/golden/pwri/llama"

static hearth_status parse(const uint8_t *data, size_t size, hearth_error *error)
{
    checkpoint *c;
    TRY(torch_parse(&c, data, size, "x.pt", error));
    checkpoint_close(c);
    return HEARTH_OK;
}

/* ----------------------------------------------------------------- goldens */

/* What torch.save wrote is what PowerInfer's converter put into its file. */
static void predictors_are_those_of_the_file(void **state)
{
    (void)state;
    static const char *const names[] = {"fc1.weight", "fc2.weight"};
    checkpoint *file, *predictor;
    hearth_error error = {0};
    long before = mem_live();
    assert_int_equal(gguf_open(&file, GOLDEN "/f16.gguf", &error), HEARTH_OK);
    for (int layer = 0; layer < 2; layer++) {
        char path[1024], name[64];
        snprintf(path, sizeof path, GOLDEN "/hf/predictors/model_%d.pt", layer);
        if (torch_open(&predictor, path, &error) != HEARTH_OK)
            fail_msg("%s", error.text);
        assert_string_equal(predictor->path, path);
        assert_int_equal(predictor->entry_count, 0);
        assert_int_equal(predictor->tensor_count, 2);
        for (size_t i = 0; i < 2; i++) {
            snprintf(name, sizeof name, "blk.%d.%s", layer, names[i]);
            const stored_tensor *want = checkpoint_find_tensor(file, name);
            const stored_tensor *found = checkpoint_find_tensor(predictor, names[i]);
            assert_non_null(want);
            assert_non_null(found);
            assert_int_equal(found->format, FORMAT_F16);
            assert_int_equal(found->rank, 2);
            assert_memory_equal(found->shape, want->shape, sizeof want->shape);
            assert_int_equal(found->size_bytes, want->size_bytes);
            assert_memory_equal(found->data, want->data, want->size_bytes);
        }
        checkpoint_close(predictor);
    }
    checkpoint_close(file);
    assert_int_equal(mem_live(), before);
}

/* Cut anywhere, or with a byte of its values changed, a file of torch is refused; cut at each byte: see below. */
static void damaged_golden(void **state)
{
    (void)state;
    size_t size;
    uint8_t *data = load_file(GOLDEN "/hf/predictors/model_0.pt", &size);
    hearth_error error = {0};
    for (size_t length = 0; length < size; length += length < 512 || size - length < 512 ? 1 : 997) {
        uint8_t *cut = exact_copy(data, length);
        assert_int_equal(parse(cut, length, &error), HEARTH_FORMAT);
        free(cut);
    }
    for (size_t at = 9000; at < 140000; at += 9973) {
        data[at] ^= 1;
        check_refusal("value", parse(data, size, &error), &error, HEARTH_FORMAT, "x.pt", "entry model_0/data/1: CRC");
        data[at] ^= 1;
    }
    free(data);
}

/* ------------------------------------------------------------------ samples */

static uint8_t value_bytes[256]; /* 0, 1, 2 ... */

/* Storage 0: 24 values of float32; 1: 60 of bfloat16; 2: 1 of float16. "part" is a piece of storage 0 and "same" its
 * whole again; dimensions of 1 may have any stride. */
static const tensor_text sample[] = {
    {"vector", "FloatStorage", "0", 24, 0, 1, {24}, {1}},
    {"part", "FloatStorage", "0", 24, 6, 2, {3, 2}, {2, 1}},
    {"same", "FloatStorage", "0", 24, 0, 2, {4, 6}, {6, 1}},
    {"four", "BFloat16Storage", "1", 60, 0, 4, {5, 1, 3, 4}, {12, 77, 4, 1}},
    {"ones", "HalfStorage", "2", 1, 0, 3, {1, 1, 1}, {5, 0, 3}},
};
enum { SAMPLE_COUNT = sizeof sample / sizeof *sample };

static void fill_value_bytes(void)
{
    for (size_t i = 0; i < sizeof value_bytes; i++)
        value_bytes[i] = (uint8_t)i;
}

/* An archive of a pickle and the three storages. */
static void put_sample(buffer *b, const buffer *pickle)
{
    const zip_part parts[] = {
        {.path = "x/data.pkl", .data = pickle->data, .size = pickle->size},
        {.path = "x/byteorder", .data = "little", .size = 6},
        {.path = "x/data/0", .data = value_bytes, .size = 96},
        {.path = "x/data/1", .data = value_bytes, .size = 120},
        {.path = "x/data/2", .data = value_bytes + 7, .size = 2},
        {.path = "x/version", .data = "3\n", .size = 2},
    };
    fill_value_bytes();
    put_zip(b, parts, sizeof parts / sizeof *parts);
}

static void check_sample(const checkpoint *c)
{
    assert_int_equal(c->tensor_count, SAMPLE_COUNT);
    const stored_tensor *t = checkpoint_find_tensor(c, "vector");
    const uint8_t *whole = t->data;
    assert_int_equal(t->format, FORMAT_F32);
    assert_int_equal(t->rank, 1);
    assert_int_equal(t->shape[0], 24);
    assert_memory_equal(t->data, value_bytes, 96);
    t = checkpoint_find_tensor(c, "part");
    assert_memory_equal(t->shape, ((const uint64_t[]){2, 3, 1, 1}), sizeof t->shape);
    assert_int_equal(t->size_bytes, 24);
    assert_memory_equal(t->data, value_bytes + 24, 24);
    assert_ptr_equal(t->data, whole + 24); /* read once */
    t = checkpoint_find_tensor(c, "same");
    assert_ptr_equal(t->data, whole);
    t = checkpoint_find_tensor(c, "four");
    assert_int_equal(t->format, FORMAT_BF16);
    assert_int_equal(t->rank, 4);
    assert_memory_equal(t->shape, ((const uint64_t[]){4, 3, 1, 5}), sizeof t->shape);
    assert_memory_equal(t->data, value_bytes, 120);
    t = checkpoint_find_tensor(c, "ones");
    assert_int_equal(t->format, FORMAT_F16);
    assert_int_equal(t->rank, 3);
    assert_memory_equal(t->data, value_bytes + 7, 2);
}

/* The sample's pickle as a plain dictionary, and as Module.state_dict leaves it: an OrderedDict with _metadata, in
 * protocol 4, its last tensor a Parameter. */
static void put_module_state(buffer *b)
{
    put(b, BYTES("\x80\4\x8c\xb"
                 "collections\x8c\xb"
                 "OrderedDict\x93\x94)R\x94("));
    for (size_t i = 0; i < SAMPLE_COUNT; i++) {
        put_unicode(b, sample[i].name);
        if (i + 1 == SAMPLE_COUNT)
            put_text(b, "ctorch._utils\n_rebuild_parameter\n(");
        put_tensor_text(b, &sample[i]);
    }
    put(b, BYTES("\x88h\0)RtRu}\x8c\x9_metadatah\0)R(\x8c\0}\x8c\7versionK\1susb."));
}

static void samples(void **state)
{
    (void)state;
    for (int module = 0; module < 2; module++) {
        buffer pickle = {0}, b = {0};
        hearth_error error = {0};
        checkpoint *c;
        long before = mem_live();
        if (module)
            put_module_state(&pickle);
        else
            put_state(&pickle, sample, SAMPLE_COUNT);
        put_sample(&b, &pickle);
        uint8_t *data = exact_copy(b.data, b.size);
        if (torch_parse(&c, data, b.size, "x.pt", &error) != HEARTH_OK)
            fail_msg("%s", error.text);
        free(data); /* nothing points into it */
        check_sample(c);
        checkpoint_close(c);
        check_truncations(parse, b.data, b.size, "x.pt: ");
        size_t values = 218; /* bytes of the storages, each of which the checksum covers */
        assert_true(check_flips(parse, b.data, b.size) > 10 * (pickle.size + values));
        assert_true(check_allocation_failures(parse, (const uint8_t *)b.data, b.size) >= 7);
        buffer_free(&pickle);
        buffer_free(&b);
        assert_int_equal(mem_live(), before);
    }
}

/* torch_open on a file, on one that is not there, and with each read failing. */
static void files(void **state)
{
    (void)state;
    char folder[512], path[1024];
    buffer pickle = {0}, b = {0};
    checkpoint *c;
    hearth_error error = {0};
    make_folder(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/x.pt", folder);
    put_state(&pickle, sample, SAMPLE_COUNT);
    put_sample(&b, &pickle);
    write_file(path, b.data, b.size);
    long before = mem_live();
    for (long n = 0;; n++) {
        file_fail_at(n);
        hearth_status status = torch_open(&c, path, &error);
        file_fail_at(-1);
        if (status == HEARTH_OK)
            break;
        check_refusal("read", status, &error, HEARTH_IO, path, "");
    }
    check_sample(c);
    checkpoint_close(c);
    write_file(path, "", 0);
    check_refusal("empty", torch_open(&c, path, &error), &error, HEARTH_FORMAT, path,
                  "is not an archive of torch.save");
    check_refusal("folder", torch_open(&c, folder, &error), &error, HEARTH_IO, folder, "");
    check_refusal("nowhere", torch_open(&c, "/nonexistent/x.pt", &error), &error, HEARTH_IO, "/nonexistent/x.pt", "");
    assert_int_equal(mem_live(), before);
    buffer_free(&pickle);
    buffer_free(&b);
    remove_folder(folder);
}

/* -------------------------------------------------------------- bad tensors */

/* Storage 0 has 96 bytes, 1 has 120 and 2 has 2. */
static const struct {
    tensor_text tensor;
    hearth_status status;
    const char *text;
} bad_tensors[] = {
    {{"", "FloatStorage", "0", 24, 0, 1, {24}, {1}}, HEARTH_FORMAT, "tensor : the name has 0 bytes"},
    {{"t", "DoubleStorage", "0", 12, 0, 1, {12}, {1}}, HEARTH_UNSUPPORTED, "tensor t: lies in a DoubleStorage"},
    {{"t", "LongStorage", "0", 12, 0, 1, {12}, {1}}, HEARTH_UNSUPPORTED, "tensor t: lies in a LongStorage"},
    {{"t", "ComplexFloatStorage", "0", 12, 0, 1, {12}, {1}}, HEARTH_FORMAT, "pickle: asks for torch.ComplexFloat"},
    {{"t", "FloatStorage", "0", 24, 0, 5, {1, 1, 1, 1, 24}, {1, 1, 1, 1, 1}}, HEARTH_UNSUPPORTED, "has 5 dimensions"},
    {{"t", "FloatStorage", "0", 24, 0, 2, {0, 24}, {24, 1}}, HEARTH_FORMAT, "tensor t: dimension 0 is 0"},
    {{"t", "FloatStorage", "0", 24, 0, 2, {4, 6}, {1, 4}}, HEARTH_UNSUPPORTED, "stride 1 is 4, only contiguous"},
    {{"t", "FloatStorage", "0", 24, 0, 2, {4, 3}, {6, 1}}, HEARTH_UNSUPPORTED, "stride 0 is 6, only contiguous"},
    {{"t", "FloatStorage", "0", 24, 0, 2, {4, 6}, {0, 1}}, HEARTH_UNSUPPORTED, "stride 0 is 0, only contiguous"},
    {{"t", "FloatStorage", "0", 24, 0, 1, {25}, {1}}, HEARTH_FORMAT, "25 values from 0 on, but its storage has 24"},
    {{"t", "FloatStorage", "0", 24, 1, 1, {24}, {1}}, HEARTH_FORMAT, "24 values from 1 on, but its storage has 24"},
    {{"t", "FloatStorage", "0", 24, INT64_MAX, 1, {24}, {1}}, HEARTH_FORMAT, "its storage has 24"},
    {{"t", "FloatStorage", "0", 23, 0, 1, {23}, {1}}, HEARTH_FORMAT, "should have 23 f32 values, but has 96 bytes"},
    {{"t", "FloatStorage", "0", 25, 0, 1, {25}, {1}}, HEARTH_FORMAT, "should have 25 f32 values, but has 96 bytes"},
    {{"t", "HalfStorage", "0", 24, 0, 1, {24}, {1}}, HEARTH_FORMAT, "should have 24 f16 values, but has 96 bytes"},
    /* 2^62 values of 4 bytes are 0 bytes modulo 2^64; the storage of 0 bytes is not there, one of 96 is */
    {{"t", "FloatStorage", "0", (INT64_C(1) << 62) + 24, 0, 1, {24}, {1}}, HEARTH_FORMAT, "but has 96 bytes"},
    {{"t", "FloatStorage", "0", INT64_MAX, 0, 1, {INT64_MAX}, {1}}, HEARTH_FORMAT, "but has 96 bytes"},
    {{"t", "FloatStorage", "0", INT64_MAX, INT64_MAX, 1, {INT64_MAX}, {1}}, HEARTH_FORMAT, "but its storage has"},
    {{"t", "FloatStorage", "0", 24, 0, 2, {INT64_C(1) << 32, INT64_C(1) << 32}, {INT64_C(1) << 32, 1}},
     HEARTH_FORMAT,
     "tensor t: the shape is too large"},
    {{"t", "FloatStorage", "0", 24, 0, 3, {24, INT64_C(1) << 62, 4}, {0, 4, 1}},
     HEARTH_FORMAT,
     "the shape is too large"},
    {{"t", "FloatStorage", "7", 24, 0, 1, {24}, {1}}, HEARTH_FORMAT, "its values, data/7, are not in the archive"},
    {{"t", "FloatStorage", "", 24, 0, 1, {24}, {1}}, HEARTH_FORMAT, "its values, data/, are not in the archive"},
    {{"t", "FloatStorage", "../data/0", 24, 0, 1, {24}, {1}}, HEARTH_FORMAT, "are not in the archive"},
};

static void bad_tensors_are_refused(void **state)
{
    (void)state;
    long before = mem_live();
    for (size_t i = 0; i < sizeof bad_tensors / sizeof *bad_tensors; i++) {
        buffer pickle = {0}, b = {0};
        hearth_error error = {0};
        put_state(&pickle, &bad_tensors[i].tensor, 1);
        put_sample(&b, &pickle);
        hearth_status status = parse((const uint8_t *)b.data, b.size, &error);
        check_refusal("tensor", status, &error, bad_tensors[i].status, "x.pt: ", bad_tensors[i].text);
        buffer_free(&pickle);
        buffer_free(&b);
    }
    assert_int_equal(mem_live(), before);
}

static void bad_names(void **state)
{
    (void)state;
    char name[300];
    memset(name, 'n', sizeof name);
    for (size_t length = 255; length <= 256; length++) {
        buffer pickle = {0}, b = {0};
        hearth_error error = {0};
        tensor_text t = sample[0];
        name[length] = 0;
        t.name = name;
        put_state(&pickle, &t, 1);
        put_sample(&b, &pickle);
        hearth_status status = parse((const uint8_t *)b.data, b.size, &error);
        name[length] = 'n';
        if (length == 255)
            assert_int_equal(status, HEARTH_OK);
        else
            check_refusal("name", status, &error, HEARTH_FORMAT, "x.pt: ", "the name has 256 bytes, expected 1 to 255");
        buffer_free(&pickle);
        buffer_free(&b);
    }
}

/* What is not a dictionary of tensors. */
static void other_objects(void **state)
{
    (void)state;
    static const struct {
        const char *data;
        size_t size;
        hearth_status status;
        const char *text;
    } cases[] = {
        {BYTES("\x80\2N."), HEARTH_FORMAT, "pickle: is None, expected a dictionary of tensors"},
        {BYTES("\x80\2cos\nsystem\nX\2\0\0\0id\x85R."), HEARTH_FORMAT, "pickle: asks for os.system: only data is read"},
        {BYTES("\x80\2}K\1K\2s."), HEARTH_FORMAT, "pickle: a key is a number, expected the name of a tensor"},
        {BYTES("\x80\2}X\5\0\0\0epochK\2s."), HEARTH_UNSUPPORTED, "key epoch: is a number, expected a tensor"},
        {BYTES("\x80\2}q\0X\4\0\0\0selfh\0s."), HEARTH_UNSUPPORTED, "key self: is a dictionary, expected a tensor"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        buffer pickle = {0}, b = {0};
        hearth_error error = {0};
        put(&pickle, cases[i].data, cases[i].size);
        put_sample(&b, &pickle);
        hearth_status status = parse((const uint8_t *)b.data, b.size, &error);
        check_refusal("object", status, &error, cases[i].status, "x.pt: ", cases[i].text);
        buffer_free(&pickle);
        buffer_free(&b);
    }
    tensor_text twice[2] = {sample[0], sample[0]};
    buffer pickle = {0}, b = {0};
    hearth_error error = {0};
    put_state(&pickle, twice, 2);
    put_sample(&b, &pickle);
    check_refusal("twice", parse((const uint8_t *)b.data, b.size, &error), &error, HEARTH_FORMAT,
                  "x.pt: ", "tensor vector: appears twice");
    buffer_free(&pickle);
    buffer_free(&b);
}

/* ------------------------------------------------------------- bad archives */

/* A pickle of one tensor, its storage, and what else is in the archive. NULL paths end a list; "PICKLE" and "VALUES" as
 * data stand for the two. */
#define PICKLE                                 \
    {                                          \
        .path = "x/data.pkl", .data = "PICKLE" \
    }
#define VALUES                               \
    {                                        \
        .path = "x/data/0", .data = "VALUES" \
    }
static const struct {
    const char *what;
    zip_part parts[5];
    hearth_status status;
    const char *text;
} bad_archives[] = {
    {"nothing wrong", {PICKLE, VALUES}, HEARTH_OK, ""},
    {"no pickle", {VALUES}, HEARTH_FORMAT, "archive: has no data.pkl"},
    {"a pickle too deep", {{.path = "x/y/data.pkl", .data = "PICKLE"}, VALUES}, HEARTH_FORMAT, "has no data.pkl"},
    {"a pickle without a folder", {{.path = "data.pkl", .data = "PICKLE"}, VALUES}, HEARTH_FORMAT, "has no data.pkl"},
    {"two pickles",
     {PICKLE, VALUES, {.path = "y/data.pkl", .data = "PICKLE"}},
     HEARTH_FORMAT,
     "entry y/data.pkl: is a second pickle"},
    {"the same pickle twice", {PICKLE, PICKLE, VALUES}, HEARTH_FORMAT, "entry x/data.pkl: appears twice"},
    {"the same values twice", {PICKLE, VALUES, VALUES}, HEARTH_FORMAT, "entry x/data/0: appears twice"},
    {"values elsewhere", {PICKLE, {.path = "y/data/0", .data = "VALUES"}}, HEARTH_FORMAT, "are not in the archive"},
    {"a path upwards",
     {PICKLE, VALUES, {.path = "../x", .data = "", .size = 0}},
     HEARTH_FORMAT,
     "entry ../x: is not a path"},
    {"a path upwards within", {PICKLE, VALUES, {.path = "x/../../y", .data = ""}}, HEARTH_FORMAT, "is not a path"},
    {"a path that ends upwards",
     {PICKLE, VALUES, {.path = "x/..", .data = ""}},
     HEARTH_FORMAT,
     "entry x/..: is not a path"},
    {"a path of one dot", {PICKLE, VALUES, {.path = "x/./y", .data = ""}}, HEARTH_FORMAT, "is not a path"},
    {"an absolute path",
     {PICKLE, VALUES, {.path = "/etc/x", .data = ""}},
     HEARTH_FORMAT,
     "entry /etc/x: is not a path"},
    {"a path of Windows", {PICKLE, VALUES, {.path = "..\\x", .data = ""}}, HEARTH_FORMAT, "is not a path"},
    {"a path that is not UTF-8",
     {PICKLE, VALUES, {.path = "x/\xff", .data = ""}},
     HEARTH_FORMAT,
     "entry x/?: is not a path"},
    {"no path", {PICKLE, VALUES, {.path = "", .data = ""}}, HEARTH_FORMAT, "entry : is not a path"},
    {"compressed",
     {PICKLE, {.path = "x/data/0", .data = "VALUES", .method = 8}},
     HEARTH_UNSUPPORTED,
     "entry x/data/0: is compressed or encrypted"},
    {"a compressed pickle",
     {{.path = "x/data.pkl", .data = "PICKLE", .method = 8}, VALUES},
     HEARTH_UNSUPPORTED,
     "entry x/data.pkl: is compressed"},
    {"encrypted",
     {PICKLE, {.path = "x/data/0", .data = "VALUES", .flags = 1}},
     HEARTH_UNSUPPORTED,
     "entry x/data/0: is compressed or encrypted"},
    {"damaged values",
     {PICKLE, {.path = "x/data/0", .data = "VALUES", .wrong_sum = 1}},
     HEARTH_FORMAT,
     "entry x/data/0: CRC error"},
    {"a damaged pickle",
     {{.path = "x/data.pkl", .data = "PICKLE", .wrong_sum = 1}, VALUES},
     HEARTH_FORMAT,
     "entry x/data.pkl: CRC error"},
    {"a pickle beyond the file",
     {{.path = "x/data.pkl", .data = "PICKLE", .claimed = 100000}, VALUES},
     HEARTH_FORMAT,
     "entry x/data.pkl: is said to have 100000 bytes, for which the file is too small"},
    {"values beyond the file",
     {PICKLE, {.path = "x/data/0", .data = "VALUES", .claimed = 4000000000}},
     HEARTH_FORMAT,
     "entry x/data/0: is said to have 4000000000 bytes, for which the file is too small"},
    {"big-endian",
     {PICKLE, VALUES, {.path = "x/byteorder", .data = "big", .size = 3}},
     HEARTH_UNSUPPORTED,
     "byteorder: only little-endian files are supported"},
    {"byteorder of another archive",
     {PICKLE, VALUES, {.path = "y/byteorder", .data = "big", .size = 3}},
     HEARTH_OK,
     ""},
    {"a long byteorder",
     {PICKLE, VALUES, {.path = "x/byteorder", .data = "little little little", .size = 20}},
     HEARTH_FORMAT,
     "entry x/byteorder: has 20 bytes, expected at most 16"},
};

static void bad_archives_are_refused(void **state)
{
    (void)state;
    buffer pickle = {0};
    long before = mem_live();
    put_state(&pickle, sample, 1);
    fill_value_bytes();
    for (size_t i = 0; i < sizeof bad_archives / sizeof *bad_archives; i++) {
        zip_part parts[5];
        size_t count = 0;
        for (; count < 5 && bad_archives[i].parts[count].path; count++) {
            zip_part *p = &parts[count];
            *p = bad_archives[i].parts[count];
            if (strcmp(p->data, "PICKLE") == 0)
                p->data = pickle.data, p->size = pickle.size;
            else if (strcmp(p->data, "VALUES") == 0)
                p->data = value_bytes, p->size = 96;
        }
        buffer b = {0};
        hearth_error error = {0};
        put_zip(&b, parts, count);
        hearth_status status = parse((const uint8_t *)b.data, b.size, &error);
        if (bad_archives[i].status == HEARTH_OK) {
            if (status != HEARTH_OK)
                fail_msg("%s: %s", bad_archives[i].what, error.text);
        } else {
            check_refusal(bad_archives[i].what, status, &error, bad_archives[i].status, "x.pt: ", bad_archives[i].text);
        }
        buffer_free(&b);
    }
    buffer_free(&pickle);
    assert_int_equal(mem_live(), before);
}

/* Entries that show the same bytes: the only way for an archive without compression to be larger within than
 * without. */
static void shared_bytes(void **state)
{
    (void)state;
    static const char *const paths[] = {"x/data/0", "x/data/1", "x/data/2", "x/data/3", "x/data/4", "x/data/5"};
    static uint8_t zeros[4096];
    tensor_text tensors[6];
    zip_part parts[7] = {{.path = "x/data.pkl"}};
    buffer pickle = {0}, b = {0};
    hearth_error error = {0};
    for (size_t i = 0; i < 6; i++) {
        tensors[i] = (tensor_text){paths[i], "FloatStorage", paths[i] + 7, 1024, 0, 1, {1024}, {1}};
        parts[i + 1] = (zip_part){.path = paths[i], .data = zeros, .size = 4096, .shared_with = i ? paths[0] : NULL};
    }
    put_state(&pickle, tensors, 6);
    parts[0].data = pickle.data;
    parts[0].size = pickle.size;
    put_zip(&b, parts, 7);
    assert_true(b.size < 2 * 4096);
    check_refusal("shared", parse((const uint8_t *)b.data, b.size, &error), &error, HEARTH_FORMAT,
                  "x.pt: ", "entry x/data/1: is said to have 4096 bytes, for which the file is too small");
    buffer_free(&pickle);
    buffer_free(&b);
}

/* The record at the end of an archive is 22 bytes; what looks like more of them makes libzip read the directory
 * again. */
static void ends(void **state)
{
    (void)state;
    static const uint8_t end[] = {'P', 'K', 5, 6};
    buffer pickle = {0};
    put_state(&pickle, sample, 1);
    for (size_t extra = 0; extra < 6; extra++) {
        uint8_t values[96] = {0};
        for (size_t i = 0; i < extra; i++)
            memcpy(values + 7 * i, end, sizeof end);
        const zip_part parts[] = {
            {.path = "x/data.pkl", .data = pickle.data, .size = pickle.size},
            {.path = "x/data/0", .data = values, .size = 96},
        };
        buffer b = {0};
        hearth_error error = {0};
        put_zip(&b, parts, 2);
        hearth_status status = parse((const uint8_t *)b.data, b.size, &error);
        if (extra < 4)
            assert_int_equal(status, HEARTH_OK);
        else
            check_refusal("ends", status, &error, HEARTH_FORMAT, "x.pt: ", "archive: has more than 4 ends");
        put(&b, "x", 1);
        check_refusal("added", parse((const uint8_t *)b.data, b.size, &error), &error, HEARTH_FORMAT,
                      "x.pt: ", "archive: was cut short, or something was added");
        buffer_free(&b);
    }
    buffer_free(&pickle);
}

/* Directories of a mebibyte and a byte, whose size stands in 32 bits or, as torch writes it, in 64. */
static void long_directories(void **state)
{
    (void)state;
    const uint32_t size = (1 << 20) + 1;
    for (int wide = 0; wide < 2; wide++) {
        buffer b = {0};
        hearth_error error = {0};
        put(&b, BYTES("PK\3\4"));
        put_zeros(&b, size);
        uint64_t at = b.size;
        if (wide) {
            put(&b, BYTES("PK\6\6\54\0\0\0\0\0\0\0"));
            put_zeros(&b, 28);
            put_u64(&b, size);
            put_u64(&b, 4);
            put(&b, BYTES("PK\6\7\0\0\0\0"));
            put_u64(&b, at);
            put_u32(&b, 1);
        }
        put(&b, BYTES("PK\5\6\0\0\0\0\xff\xff\xff\xff"));
        put_u32(&b, wide ? UINT32_MAX : size);
        put_u32(&b, wide ? UINT32_MAX : 4);
        put_zeros(&b, 2);
        check_refusal("directory", parse((const uint8_t *)b.data, b.size, &error), &error, HEARTH_FORMAT,
                      "x.pt: ", "archive: has a directory of more than 1048576 bytes");
        buffer_free(&b);
    }
}

/* A pickle larger than any state dict's is not even read. */
static void a_large_pickle(void **state)
{
    (void)state;
    size_t size = (4 << 20) + 1;
    char *pickle = malloc(size);
    assert_non_null(pickle);
    memset(pickle, '}', size);
    zip_part part = {.path = "x/data.pkl", .data = pickle, .size = size};
    buffer b = {0};
    hearth_error error = {0};
    put_zip(&b, &part, 1);
    check_refusal("pickle", parse((const uint8_t *)b.data, b.size, &error), &error, HEARTH_FORMAT,
                  "x.pt: ", "entry x/data.pkl: has 4194305 bytes, expected at most 4194304");
    buffer_free(&b);
    free(pickle);
}

static void other_files(void **state)
{
    (void)state;
    static const struct {
        const char *what, *data;
        size_t size;
        hearth_status status;
        const char *text;
    } cases[] = {
        {"nothing", BYTES(""), HEARTH_FORMAT, "header: is not an archive of torch.save"},
        {"before 1.6", BYTES("\x80\2\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.\x80\2M\xe9\3."), HEARTH_UNSUPPORTED,
         "header: is a file of torch before 1.6"},
        {"a pickle", BYTES("\x80\2}."), HEARTH_FORMAT, "is not an archive of torch.save"},
        {"GGUF", BYTES("GGUF\3\0\0\0"), HEARTH_FORMAT, "is not an archive of torch.save"},
        {"four bytes of an archive", BYTES("PK\3\4"), HEARTH_FORMAT, "archive: "},
        {"an end alone", BYTES("PK\3\4PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\4\0\0\0\0\0"), HEARTH_FORMAT, "archive: "},
        {"a directory of 65535 entries that is not there",
         BYTES("PK\3\4PK\5\6\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\4\0\0\0\0\0"), HEARTH_FORMAT, "archive: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hearth_error error = {0};
        uint8_t *data = exact_copy(cases[i].data, cases[i].size);
        check_refusal(cases[i].what, parse(data, cases[i].size, &error), &error, cases[i].status,
                      "x.pt: ", cases[i].text);
        free(data);
    }
}

/* A file of a model: tensors of other types are there without their values, and what moves to another checkpoint lives
 * on without the first. */
static void a_model_file(void **state)
{
    (void)state;
    tensor_text tensors[SAMPLE_COUNT + 1];
    buffer pickle = {0}, file = {0};
    checkpoint *c, *to;
    hearth_error error;
    char path[] = "/tmp/hearth-torch.XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    memcpy(tensors, sample, sizeof sample);
    tensors[SAMPLE_COUNT] = (tensor_text){"mask", "ByteStorage", "9", 1, 0, 1, {1}, {1}};
    put_state(&pickle, tensors, SAMPLE_COUNT + 1);
    put_sample(&file, &pickle);
    write_file(path, file.data, file.size);
    assert_int_equal(torch_open(&c, path, &error), HEARTH_UNSUPPORTED);
    assert_int_equal(checkpoint_create(&c, "folder", &error), HEARTH_OK);
    if (torch_add(c, path, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    assert_int_equal(c->tensor_count, SAMPLE_COUNT + 1);
    assert_string_equal(checkpoint_find_tensor(c, "mask")->foreign, "ByteStorage");
    assert_int_equal(checkpoint_create(&to, "model", &error), HEARTH_OK);
    for (size_t i = 0; i < SAMPLE_COUNT; i++)
        assert_int_equal(checkpoint_add_tensor(to, checkpoint_find_tensor(c, sample[i].name), &error), HEARTH_OK);
    assert_int_equal(checkpoint_take_data(to, c, &error), HEARTH_OK);
    checkpoint_close(c);
    check_sample(to);
    checkpoint_close(to);
    unlink(path);
    buffer_free(&pickle);
    buffer_free(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(predictors_are_those_of_the_file),
        cmocka_unit_test(damaged_golden),
        cmocka_unit_test(samples),
        cmocka_unit_test(files),
        cmocka_unit_test(bad_tensors_are_refused),
        cmocka_unit_test(bad_names),
        cmocka_unit_test(other_objects),
        cmocka_unit_test(bad_archives_are_refused),
        cmocka_unit_test(shared_bytes),
        cmocka_unit_test(ends),
        cmocka_unit_test(long_directories),
        cmocka_unit_test(a_large_pickle),
        cmocka_unit_test(other_files),
        cmocka_unit_test(a_model_file),
    };
    return run_group(tests, NULL, NULL);
}
