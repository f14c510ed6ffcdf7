/* file_unpickle.c - what CPython's pickler writes is read; what a pickle could be made to do is refused by name. */
#include "torch_build.h"

/* Parses, and gives the memory back that the value lies in. */
static hearth_status parse(const uint8_t *data, size_t size, hearth_error *error)
{
    arena memory = {0};
    pickle_value value;
    hearth_status status = unpickle(&value, &memory, data, size, "x.pkl", error);
    arena_clear(&memory);
    return status;
}

/* ------------------------------------------------------- what it may say */

/* One operation each, as Python's pickletools describes it. */
static void values(void **state)
{
    (void)state;
    static const struct {
        const char *data;
        size_t size;
        pickle_kind kind;
        int64_t number;
    } cases[] = {
        {BYTES("\x80\2N."), PICKLE_NONE, 0},
        {BYTES("\x80\2\x88."), PICKLE_BOOL, 1},
        {BYTES("\x80\2\x89."), PICKLE_BOOL, 0},
        {BYTES("\x80\2K\xff."), PICKLE_INT, 255},
        {BYTES("\x80\2M\1\2."), PICKLE_INT, 513},
        {BYTES("\x80\3J\xff\xff\xff\xff."), PICKLE_INT, -1},
        {BYTES("\x80\2\x8a\0."), PICKLE_INT, 0},
        {BYTES("\x80\2\x8a\1\xff."), PICKLE_INT, -1},
        {BYTES("\x80\2\x8a\2\xff\0."), PICKLE_INT, 255},
        {BYTES("\x80\2\x8a\x8\0\0\0\0\0\0\0\x80."), PICKLE_INT, INT64_MIN},
        {BYTES("\x80\2X\3\0\0\0a\xC3\xA9."), PICKLE_TEXT, 0},
        {BYTES("\x80\4\x8c\1a."), PICKLE_TEXT, 0},
        {BYTES("\x80\4\x95\2\0\0\0\0\0\0\0N."), PICKLE_NONE, 0},
        {BYTES("\x80\2)."), PICKLE_TUPLE, 0},
        {BYTES("\x80\2}(u."), PICKLE_DICT, 0},
        {BYTES("\x80\2}NNs."), PICKLE_DICT, 0},
        {BYTES("\x80\2}q\0r\1\0\0\0j\1\0\0\0h\0\x87."), PICKLE_TUPLE, 0},
        {BYTES("\x80\2ctorch\nHalfStorage\n."), PICKLE_NAME, 0},
        {BYTES("\x80\4\x8c\5torch\x8c\xbHalfStorage\x93."), PICKLE_NAME, 0},
        {BYTES("\x80\2ccollections\nOrderedDict\n)R}b."), PICKLE_DICT, 0},
        {BYTES("\x80\2ccollections\nOrderedDict\n)R}X\x9\0\0\0_metadata}sb."), PICKLE_DICT, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        arena memory = {0};
        pickle_value value = {0};
        hearth_error error = {0};
        uint8_t *data = exact_copy(cases[i].data, cases[i].size);
        if (unpickle(&value, &memory, data, cases[i].size, "x.pkl", &error) != HEARTH_OK)
            fail_msg("case %zu: %s", i, error.text);
        assert_int_equal(value.kind, cases[i].kind);
        if (value.kind == PICKLE_INT || value.kind == PICKLE_BOOL)
            assert_true(value.as.number == cases[i].number);
        arena_clear(&memory);
        free(data);
    }
}

// clang-format off
/* What CPython 3.11 makes, with protocols 2, 3 and 4, of an OrderedDict with
 *     "a": (1, -2, 300, 70000, -70000, 2**40, True, False, None),  "bé": {},
 *     "c": ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)),  "d": the value of "c",  "self": itself */
static const struct {
    const char *data;
    size_t size;
} written_by_python[] = {
    {
        "\x80\x02\x63\x63\x6f\x6c\x6c\x65\x63\x74\x69\x6f\x6e\x73\x0a\x4f\x72\x64\x65\x72\x65\x64\x44\x69\x63\x74\x0a\x71"
        "\x00\x29\x52\x71\x01\x28\x58\x01\x00\x00\x00\x61\x71\x02\x28\x4b\x01\x4a\xfe\xff\xff\xff\x4d\x2c\x01\x4a\x70\x11"
        "\x01\x00\x4a\x90\xee\xfe\xff\x8a\x06\x00\x00\x00\x00\x00\x01\x88\x89\x4e\x74\x71\x03\x58\x03\x00\x00\x00\x62\xc3"
        "\xa9\x71\x04\x7d\x71\x05\x58\x01\x00\x00\x00\x63\x71\x06\x28\x29\x4b\x01\x85\x71\x07\x4b\x01\x4b\x02\x86\x71\x08"
        "\x4b\x01\x4b\x02\x4b\x03\x87\x71\x09\x28\x4b\x01\x4b\x02\x4b\x03\x4b\x04\x74\x71\x0a\x74\x71\x0b\x58\x01\x00\x00"
        "\x00\x64\x71\x0c\x68\x0b\x58\x04\x00\x00\x00\x73\x65\x6c\x66\x71\x0d\x68\x01\x75\x2e", 161},
    {
        "\x80\x03\x63\x63\x6f\x6c\x6c\x65\x63\x74\x69\x6f\x6e\x73\x0a\x4f\x72\x64\x65\x72\x65\x64\x44\x69\x63\x74\x0a\x71"
        "\x00\x29\x52\x71\x01\x28\x58\x01\x00\x00\x00\x61\x71\x02\x28\x4b\x01\x4a\xfe\xff\xff\xff\x4d\x2c\x01\x4a\x70\x11"
        "\x01\x00\x4a\x90\xee\xfe\xff\x8a\x06\x00\x00\x00\x00\x00\x01\x88\x89\x4e\x74\x71\x03\x58\x03\x00\x00\x00\x62\xc3"
        "\xa9\x71\x04\x7d\x71\x05\x58\x01\x00\x00\x00\x63\x71\x06\x28\x29\x4b\x01\x85\x71\x07\x4b\x01\x4b\x02\x86\x71\x08"
        "\x4b\x01\x4b\x02\x4b\x03\x87\x71\x09\x28\x4b\x01\x4b\x02\x4b\x03\x4b\x04\x74\x71\x0a\x74\x71\x0b\x58\x01\x00\x00"
        "\x00\x64\x71\x0c\x68\x0b\x58\x04\x00\x00\x00\x73\x65\x6c\x66\x71\x0d\x68\x01\x75\x2e", 161},
    {
        "\x80\x04\x95\x86\x00\x00\x00\x00\x00\x00\x00\x8c\x0b\x63\x6f\x6c\x6c\x65\x63\x74\x69\x6f\x6e\x73\x94\x8c\x0b\x4f"
        "\x72\x64\x65\x72\x65\x64\x44\x69\x63\x74\x94\x93\x94\x29\x52\x94\x28\x8c\x01\x61\x94\x28\x4b\x01\x4a\xfe\xff\xff"
        "\xff\x4d\x2c\x01\x4a\x70\x11\x01\x00\x4a\x90\xee\xfe\xff\x8a\x06\x00\x00\x00\x00\x00\x01\x88\x89\x4e\x74\x94\x8c"
        "\x03\x62\xc3\xa9\x94\x7d\x94\x8c\x01\x63\x94\x28\x29\x4b\x01\x85\x94\x4b\x01\x4b\x02\x86\x94\x4b\x01\x4b\x02\x4b"
        "\x03\x87\x94\x28\x4b\x01\x4b\x02\x4b\x03\x4b\x04\x74\x94\x74\x94\x8c\x01\x64\x94\x68\x0d\x8c\x04\x73\x65\x6c\x66"
        "\x94\x68\x03\x75\x2e", 145},
};
// clang-format on

static const pickle_value *item(const pickle_value *dict, size_t at, const char *key)
{
    const pickle_items *items = dict->as.dict->first;
    assert_non_null(items);
    assert_true(at < items->count);
    assert_int_equal(items->pairs[2 * at].kind, PICKLE_TEXT);
    assert_true(span_equal(*items->pairs[2 * at].as.text, span_of(key)));
    return &items->pairs[2 * at + 1];
}

static void check_object(const pickle_value *root)
{
    static const int64_t numbers[] = {1, -2, 300, 70000, -70000, INT64_C(1) << 40};
    assert_int_equal(root->kind, PICKLE_DICT);
    assert_true(root->as.dict->ordered);
    assert_int_equal(root->as.dict->first->count, 5);
    const pickle_value *a = item(root, 0, "a");
    assert_int_equal(a->kind, PICKLE_TUPLE);
    assert_int_equal(a->as.tuple->count, 9);
    for (size_t i = 0; i < 6; i++)
        assert_true(a->as.tuple->items[i].kind == PICKLE_INT && a->as.tuple->items[i].as.number == numbers[i]);
    assert_true(a->as.tuple->items[6].kind == PICKLE_BOOL && a->as.tuple->items[6].as.number == 1);
    assert_true(a->as.tuple->items[7].kind == PICKLE_BOOL && a->as.tuple->items[7].as.number == 0);
    assert_int_equal(a->as.tuple->items[8].kind, PICKLE_NONE);
    const pickle_value *b = item(root, 1, "b\xC3\xA9");
    assert_true(b->kind == PICKLE_DICT && !b->as.dict->ordered && !b->as.dict->first);
    const pickle_value *c = item(root, 2, "c");
    assert_int_equal(c->as.tuple->count, 5);
    for (size_t i = 0; i < 5; i++) {
        const pickle_tuple *t = c->as.tuple->items[i].as.tuple;
        assert_int_equal(t->count, i);
        for (size_t k = 0; k < i; k++)
            assert_true(t->items[k].as.number == (int64_t)k + 1);
    }
    assert_ptr_equal(item(root, 3, "d")->as.tuple, c->as.tuple);
    assert_ptr_equal(item(root, 4, "self")->as.dict, root->as.dict);
}

static void pickles_of_python(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof written_by_python / sizeof *written_by_python; i++) {
        const void *data = written_by_python[i].data;
        size_t size = written_by_python[i].size;
        arena memory = {0};
        pickle_value value = {0};
        hearth_error error = {0};
        if (unpickle(&value, &memory, data, size, "x.pkl", &error) != HEARTH_OK)
            fail_msg("protocol %zu: %s", i + 2, error.text);
        check_object(&value);
        arena_clear(&memory);
        check_truncations(parse, data, size, "x.pkl: pickle: ");
        assert_true(check_flips(parse, data, size) > size);
        assert_true(check_allocation_failures(parse, data, size) >= 3);
    }
}

/* --------------------------------------------------- what it may not say */

typedef struct refusal {
    const char *what, *data;
    size_t size;
    hearth_status status;
    const char *text;
} refusal;

static void check_refusals(const refusal *cases, size_t count)
{
    long before = mem_live();
    for (size_t i = 0; i < count; i++) {
        hearth_error error = {0};
        uint8_t *data = exact_copy(cases[i].data, cases[i].size);
        hearth_status status = parse(data, cases[i].size, &error);
        free(data);
        check_refusal(cases[i].what, status, &error, cases[i].status, "x.pkl: pickle: ", cases[i].text);
    }
    assert_int_equal(mem_live(), before);
}

/* The ways by which pickles are known to run code, and those by which they change objects. */
static void nothing_is_executed(void **state)
{
    (void)state;
    static const refusal cases[] = {
        {"GLOBAL", BYTES("\x80\2cos\nsystem\nX\2\0\0\0id\x85R."), HEARTH_FORMAT,
         "asks for os.system: only data is read"},
        {"GLOBAL of builtins", BYTES("\x80\2c__builtin__\neval\nX\1\0\0\0001\x85R."), HEARTH_FORMAT,
         "asks for __builtin__.eval: only data is read"},
        {"STACK_GLOBAL", BYTES("\x80\4\x8c\2os\x8c\6system\x93\x8c\2id\x85R."), HEARTH_FORMAT,
         "asks for os.system: only data is read"},
        {"a path of attributes",
         BYTES("\x80\4\x8c\xb"
               "collections\x8c\xf"
               "OrderedDict.get\x93."),
         HEARTH_FORMAT, "asks for collections.OrderedDict.get"},
        {"a name with more behind it", BYTES("\x80\2ctorch\nHalfStorage2\n."), HEARTH_FORMAT,
         "asks for torch.HalfStorage2"},
        {"a name with less", BYTES("\x80\2c\n\n."), HEARTH_FORMAT, "asks for .: only data is read"},
        {"torch's own loader", BYTES("\x80\2ctorch\nload\nX\1\0\0\0x\x85R."), HEARTH_FORMAT, "asks for torch.load"},
        {"a line that would break the text", BYTES("\x80\4\x8c\1\n\x8c\4\x1b[2J\x93."), HEARTH_FORMAT,
         "asks for ?.?[2J: only data is read"},
        {"INST", BYTES("\x80\2(X\2\0\0\0idios\nsystem\n."), HEARTH_FORMAT,
         "asks for INST at byte 10: only data is read"},
        {"OBJ", BYTES("\x80\2(ctorch\nHalfStorage\no."), HEARTH_FORMAT, "asks for OBJ"},
        {"NEWOBJ", BYTES("\x80\2ccollections\nOrderedDict\n)\x81."), HEARTH_FORMAT, "asks for NEWOBJ"},
        {"NEWOBJ_EX", BYTES("\x80\4)\x92."), HEARTH_FORMAT, "asks for NEWOBJ_EX"},
        {"EXT1", BYTES("\x80\2\x82\1."), HEARTH_FORMAT, "asks for EXT1"},
        {"PERSID", BYTES("\x80\2Pstorage\n."), HEARTH_FORMAT, "asks for PERSID"},
        {"BUILD of a dictionary", BYTES("\x80\2}}b."), HEARTH_FORMAT, "sets attributes of a dictionary"},
        {"BUILD of a name", BYTES("\x80\2ctorch\nHalfStorage\n}b."), HEARTH_FORMAT, "meets a name"},
        {"BUILD with __class__", BYTES("\x80\2ccollections\nOrderedDict\n)R}X\x9\0\0\0__class__Nsb."), HEARTH_FORMAT,
         "sets attributes other than _metadata"},
        {"BUILD with two", BYTES("\x80\2ccollections\nOrderedDict\n)R}(X\x9\0\0\0_metadataNX\1\0\0\0xNub."),
         HEARTH_FORMAT, "sets attributes other than _metadata"},
        {"BUILD with a tuple", BYTES("\x80\2ccollections\nOrderedDict\n)R)b."), HEARTH_FORMAT, "meets a tuple"},
        {"REDUCE of a type", BYTES("\x80\2ctorch\nHalfStorage\n)R."), HEARTH_FORMAT,
         "calls HalfStorage, which is not a function"},
        {"REDUCE of a text", BYTES("\x80\2X\2\0\0\0os)R."), HEARTH_FORMAT, "meets a text where it takes a name"},
        {"OrderedDict of arguments", BYTES("\x80\2ccollections\nOrderedDict\nN\x85R."), HEARTH_FORMAT,
         "OrderedDict has 1 parts, expected 0"},
    };
    check_refusals(cases, sizeof cases / sizeof *cases);
}

static void damaged(void **state)
{
    (void)state;
    static const refusal cases[] = {
        {"nothing", BYTES(""), HEARTH_FORMAT, "ends without a STOP"},
        {"no protocol", BYTES("N."), HEARTH_FORMAT, "does not begin with its protocol"},
        {"protocol 1", BYTES("\x80\1N."), HEARTH_UNSUPPORTED, "protocol 1 is not supported"},
        {"protocol 5", BYTES("\x80\5N."), HEARTH_UNSUPPORTED, "protocol 5 is not supported"},
        {"protocol twice", BYTES("\x80\2\x80\2N."), HEARTH_FORMAT, "again at byte 2"},
        {"behind the end", BYTES("\x80\2N.N"), HEARTH_FORMAT, "1 bytes behind its end"},
        {"no value", BYTES("\x80\2."), HEARTH_FORMAT, "ends with 0 values"},
        {"two values", BYTES("\x80\2NN."), HEARTH_FORMAT, "ends with 2 values"},
        {"an open mark", BYTES("\x80\2N(."), HEARTH_FORMAT, "ends with 1 values and 1 marks"},
        {"frame", BYTES("\x80\4\x95\3\0\0\0\0\0\0\0N."), HEARTH_FORMAT, "frame at byte 2"},
        {"frame of 2^64 bytes", BYTES("\x80\4\x95\xff\xff\xff\xff\xff\xff\xff\xffN."), HEARTH_FORMAT,
         "frame at byte 2"},
        {"text", BYTES("\x80\2X\4\0\0\0abc"), HEARTH_FORMAT, "is said to have 4 bytes, but only 3 are left"},
        {"text of 2^32 bytes",
         BYTES("\x80\2X\xff\xff\xff\xff"
               "abc."),
         HEARTH_FORMAT, "is said to have 4294967295 bytes"},
        {"no UTF-8", BYTES("\x80\2X\1\0\0\0\xff."), HEARTH_FORMAT, "the text at byte 2 is not valid UTF-8"},
        {"a surrogate", BYTES("\x80\2X\3\0\0\0\xED\xA0\x80."), HEARTH_FORMAT, "is not valid UTF-8"},
        {"a 0 in a text", BYTES("\x80\2X\3\0\0\0a\0b."), HEARTH_FORMAT, "is not valid UTF-8"},
        {"number of nine bytes", BYTES("\x80\2\x8a\x9\1\1\1\1\1\1\1\1\1."), HEARTH_FORMAT, "a number of 9 bytes"},
        {"name without an end", BYTES("\x80\2cos\nsystem"), HEARTH_FORMAT, "ends within the operation at byte 2"},
        {"tuple without a mark", BYTES("\x80\2Nt."), HEARTH_FORMAT, "takes a mark where there is none"},
        {"too few for a tuple", BYTES("\x80\2N\x86."), HEARTH_FORMAT, "takes 2 values where there are 1"},
        {"a tuple across a mark", BYTES("\x80\2N(\x85t."), HEARTH_FORMAT, "takes 1 values where there are 0"},
        {"a call across a mark", BYTES("\x80\2ccollections\nOrderedDict\n()R."), HEARTH_FORMAT,
         "takes a value where there is none"},
        {"kept without a value", BYTES("\x80\2q\0."), HEARTH_FORMAT, "stores a value where there is none"},
        {"kept across a mark", BYTES("\x80\2N(q\0."), HEARTH_FORMAT, "stores a value where there is none"},
        {"kept too early", BYTES("\x80\2Nq\1."), HEARTH_FORMAT, "stores value 1 before value 0"},
        {"kept far away", BYTES("\x80\2Nr\xff\xff\xff\xff."), HEARTH_FORMAT, "stores value 4294967295 before value 0"},
        {"never kept", BYTES("\x80\2h\0."), HEARTH_FORMAT, "asks for stored value 0 of 0"},
        {"never kept, far away", BYTES("\x80\2Nq\0j\xff\xff\xff\xff."), HEARTH_FORMAT,
         "asks for stored value 4294967295 of 1"},
        {"items of a tuple", BYTES("\x80\2)(NNu."), HEARTH_FORMAT, "stores into what is not a dictionary"},
        {"items of nothing", BYTES("\x80\2(NNu."), HEARTH_FORMAT, "stores into what is not a dictionary"},
        {"items across a mark", BYTES("\x80\2}((NNu."), HEARTH_FORMAT, "stores into what is not a dictionary"},
        {"half an item", BYTES("\x80\2}(Nu."), HEARTH_FORMAT, "a key without a value"},
        {"one item, too few", BYTES("\x80\2}Ns."), HEARTH_FORMAT, "takes 3 values where there are 2"},
        {"one item of None", BYTES("\x80\2NNNs."), HEARTH_FORMAT, "stores into what is not a dictionary"},
        {"a list", BYTES("\x80\2]."), HEARTH_FORMAT, "asks for EMPTY_LIST"},
        {"a float", BYTES("\x80\2G\0\0\0\0\0\0\0\0."), HEARTH_FORMAT, "asks for BINFLOAT"},
        {"POP", BYTES("\x80\2NN0."), HEARTH_FORMAT, "asks for POP at byte 4"},
        {"DUP", BYTES("\x80\2N2."), HEARTH_FORMAT, "asks for DUP"},
        {"no operation", BYTES("\x80\2\xff."), HEARTH_FORMAT, "operation 0xff at byte 2 does not exist"},
    };
    check_refusals(cases, sizeof cases / sizeof *cases);
}

/* Every argument of the calls that there are, left out, one too many, and of another kind. */
static void arguments_are_checked(void **state)
{
    (void)state;
#define STORAGE   "(X\7\0\0\0storagectorch\nHalfStorage\nX\1\0\0\0000X\3\0\0\0cpuK\4tQ"
#define TENSOR(x) "\x80\2ctorch._utils\n_rebuild_tensor_v2\n(" x "tR."
    static const refusal cases[] = {
        {"persistent id that is a text", BYTES("\x80\2X\1\0\0\0000Q."), HEARTH_FORMAT,
         "meets a text where it takes a tuple"},
        {"persistent id of four", BYTES("\x80\2(X\7\0\0\0storagectorch\nHalfStorage\nX\1\0\0\0000X\3\0\0\0cputQ."),
         HEARTH_FORMAT, "a persistent id has 4 parts, expected 5"},
        {"persistent id of another thing",
         BYTES("\x80\2(X\7\0\0\0modulesctorch\nHalfStorage\nX\1\0\0\0000X\3\0\0\0cpuK\4tQ."), HEARTH_FORMAT,
         "a persistent id is not a storage"},
        {"a function as a type",
         BYTES("\x80\2(X\7\0\0\0storageccollections\nOrderedDict\nX\1\0\0\0000X\3\0\0\0cpuK\4tQ."), HEARTH_FORMAT,
         "a persistent id is not a storage"},
        {"a text as a type", BYTES("\x80\2(X\7\0\0\0storageX\1\0\0\0000X\1\0\0\0000X\3\0\0\0cpuK\4tQ."), HEARTH_FORMAT,
         "part 2 of a persistent id is wrong: it is a text"},
        {"a number as a key", BYTES("\x80\2(X\7\0\0\0storagectorch\nHalfStorage\nK\0X\3\0\0\0cpuK\4tQ."), HEARTH_FORMAT,
         "part 3 of a persistent id is wrong: it is a number"},
        {"a count below 0",
         BYTES("\x80\2(X\7\0\0\0storagectorch\nHalfStorage\nX\1\0\0\0000X\3\0\0\0cpuJ\xff\xff\xff\xfftQ."),
         HEARTH_FORMAT, "part 5 of a persistent id is wrong: it is a number"},
        {"tensor of five", BYTES(TENSOR(STORAGE "K\0K\4\x85K\1\x85\x89")), HEARTH_FORMAT,
         "_rebuild_tensor_v2 has 5 parts, expected 6"},
        {"tensor without a storage", BYTES(TENSOR("NK\0K\4\x85K\1\x85\x89N")), HEARTH_FORMAT,
         "part 1 of _rebuild_tensor_v2 is wrong: it is None"},
        {"offset below 0", BYTES(TENSOR(STORAGE "J\xff\xff\xff\xffK\4\x85K\1\x85\x89N")), HEARTH_FORMAT,
         "part 2 of _rebuild_tensor_v2"},
        {"shape below 0", BYTES(TENSOR(STORAGE "K\0J\xff\xff\xff\xff\x85K\1\x85\x89N")), HEARTH_FORMAT,
         "part 3 of _rebuild_tensor_v2"},
        {"shape of texts", BYTES(TENSOR(STORAGE "K\0X\1\0\0\0004\x85K\1\x85\x89N")), HEARTH_FORMAT,
         "part 3 of _rebuild_tensor_v2"},
        {"stride below 0", BYTES(TENSOR(STORAGE "K\0K\4\x85J\xff\xff\xff\xff\x85\x89N")), HEARTH_FORMAT,
         "part 4 of _rebuild_tensor_v2"},
        {"a number for a bool", BYTES(TENSOR(STORAGE "K\0K\4\x85K\1\x85K\0N")), HEARTH_FORMAT,
         "part 5 of _rebuild_tensor_v2"},
        {"hooks that are a name",
         BYTES(TENSOR(STORAGE "K\0K\4\x85K\1\x85\x89"
                              "ctorch\nHalfStorage\n")),
         HEARTH_FORMAT, "part 6 of _rebuild_tensor_v2 is wrong: it is a name"},
        {"fewer strides", BYTES(TENSOR(STORAGE "K\0K\4\x85)\x89N")), HEARTH_FORMAT, "has 1 dimensions and 0 strides"},
        {"parameter of a storage", BYTES("\x80\2ctorch._utils\n_rebuild_parameter\n(" STORAGE "\x88NtR."),
         HEARTH_FORMAT, "part 1 of _rebuild_parameter is wrong: it is a storage"},
    };
    check_refusals(cases, sizeof cases / sizeof *cases);
#undef STORAGE
#undef TENSOR
}

/* ----------------------------------------------------------------- bombs */

/* The head, `count` times the middle, and the tail. */
static hearth_status parse_repeated(const char *head, size_t head_size, const char *middle, size_t middle_size,
                                    size_t count, const char *tail, size_t tail_size, hearth_error *error)
{
    buffer b = {0};
    arena memory = {0};
    pickle_value value;
    put(&b, head, head_size);
    for (size_t i = 0; i < count; i++)
        put(&b, middle, middle_size);
    put(&b, tail, tail_size);
    size_t before = mem_live_bytes();
    hearth_status status = unpickle(&value, &memory, (const uint8_t *)b.data, b.size, "x.pkl", error);
    /* What stays for the values; unpickle.c says why an operation cannot take more. */
    if (mem_live_bytes() - before > 64 * b.size + 65536)
        fail_msg("%zu bytes took %zu", b.size, mem_live_bytes() - before);
    arena_clear(&memory);
    buffer_free(&b);
    return status;
}

static void bombs(void **state)
{
    (void)state;
    static const struct {
        const char *what, *middle;
        size_t size, count;
        const char *text;
    } cases[] = {
        {"marks", BYTES("("), 1000, "is nested deeper than 32"},
        {"dictionaries", BYTES("}"), 1000000, "more than 65536 values at hand"},
        {"kept again and again", BYTES("N\x94"), 1000000, "more than 65536 values at hand"},
        {"tuples of tuples", BYTES("\x85"), 1000000, NULL},
        {"doubled tuples", BYTES("\x94h\0\x86"), 100000, NULL},
        {"keeping alone", BYTES("\x94"), 1000000, NULL},
        {"items of items", BYTES("K\1h\0s"), 100000, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hearth_error error = {0};
        hearth_status status =
            parse_repeated(BYTES("\x80\2}q\0"), cases[i].middle, cases[i].size, cases[i].count, BYTES("."), &error);
        if (cases[i].text)
            check_refusal(cases[i].what, status, &error, HEARTH_FORMAT, "x.pkl: ", cases[i].text);
        else if (status != HEARTH_OK)
            fail_msg("%s: %s", cases[i].what, error.text);
    }
}

/* One large thing that many short operations look at: each look must be short. Half a million of them took minutes
 * when all of it was looked at; here the refusal comes at the first. */
static void long_looks(void **state)
{
    (void)state;
    hearth_error error = {0};
    hearth_status status = parse_repeated(BYTES("\x80\2ccollections\nOrderedDict\n)R}("), BYTES("X\x9\0\0\0_metadataN"),
                                          10000, BYTES("ub."), &error);
    check_refusal("state", status, &error, HEARTH_FORMAT, "x.pkl: ", "sets attributes other than _metadata");
    status = parse_repeated(BYTES("\x80\2ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nHalfStorage\n"
                                  "X\1\0\0\0000X\3\0\0\0cpuK\4tQK\0("),
                            BYTES("K\1"), 65, BYTES("tK\1\x85\x89NtR."), &error);
    check_refusal("shape", status, &error, HEARTH_FORMAT, "x.pkl: ", "part 3 of _rebuild_tensor_v2 is wrong");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values),     cmocka_unit_test(pickles_of_python),     cmocka_unit_test(nothing_is_executed),
        cmocka_unit_test(damaged),    cmocka_unit_test(arguments_are_checked), cmocka_unit_test(bombs),
        cmocka_unit_test(long_looks),
    };
    return run_group(tests, NULL, NULL);
}
