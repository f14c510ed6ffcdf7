/* unpickle.c - the stack machine that reads pickles and can do nothing but make data.
 *
 * The table of operations at the end lists all of them: most rows have only a name for the error text and no
 * function. The names that a program may ask for are another table, in unpickle_names.c. A row's function takes its
 * operands from the stack, checks the kind of each, and pushes one value.
 *
 * Why a small pickle cannot use much memory: an operation makes at most one value of fixed size, or a tuple or a
 * chunk from values that it removes from the stack; values are copied only from the memo, one per operation. The memo
 * is dense, as picklers number it, so an entry costs no more than its own operation. Values may refer to each other
 * in a circle; no reader follows references deeper than the levels of a state dict. */
#include "unpickle_names.h"

#include <string.h>

#define MOST_VALUES 65536 /* on the stack; a pickler stores a dictionary's items in batches of a thousand */
#define MOST_MARKS  32    /* open at a time; a state dict nests three: dictionary, arguments, persistent id */
#define QUOTED      64    /* bytes of a name in an error text                                        */

typedef struct machine {
    pickle_context context;
    const uint8_t *data;
    size_t size, at;
    size_t began; /* offset of the current operation  */
    bool stopped;
    pickle_value *stack; /* [capacity] */
    size_t count, capacity;
    size_t marks[MOST_MARKS]; /* stack positions of the open marks */
    size_t mark_count;
    pickle_value *memo; /* [memo_capacity] */
    size_t memo_count, memo_capacity;
} machine;

typedef hearth_status operation(machine *m);

#define refuse(m, ...) pickle_refuse(&(m)->context, HEARTH_FORMAT, __VA_ARGS__)

static hearth_status out_of_memory(const machine *m, size_t size_bytes)
{
    return fail_memory(m->context.error, m->context.path, size_bytes);
}

/* ------------------------------------------------------------ bytes, stack */

static hearth_status take(machine *m, void *out, size_t size_bytes)
{
    if (size_bytes > m->size - m->at)
        return refuse(m, "ends within the operation at byte %zu", m->began);
    memcpy(out, m->data + m->at, size_bytes);
    m->at += size_bytes;
    return HEARTH_OK;
}

/* Makes room for one more value in an array that doubles. */
static hearth_status make_room(machine *m, pickle_value **values, size_t *capacity, size_t count)
{
    if (count < *capacity)
        return HEARTH_OK;
    size_t wanted = *capacity ? *capacity * 2 : 64, size_bytes = wanted * sizeof **values;
    pickle_value *grown = *values ? mem_resize(*values, size_bytes) : mem_new(size_bytes);
    if (!grown)
        return out_of_memory(m, size_bytes);
    *values = grown;
    *capacity = wanted;
    return HEARTH_OK;
}

static hearth_status push(machine *m, pickle_value value)
{
    if (m->count == MOST_VALUES)
        return refuse(m, "has more than %d values at hand", MOST_VALUES);
    TRY(make_room(m, &m->stack, &m->capacity, m->count));
    m->stack[m->count++] = value;
    return HEARTH_OK;
}

/* Returns the number of values above the last mark: those that an operation may take. */
static size_t at_hand(const machine *m)
{
    return m->count - (m->mark_count ? m->marks[m->mark_count - 1] : 0);
}

/* Removes the value at the top, which must exist and be of a kind. */
static hearth_status pop(machine *m, pickle_kind kind, pickle_value *out)
{
    if (at_hand(m) == 0)
        return refuse(m, "the operation at byte %zu takes a value where there is none", m->began);
    *out = m->stack[--m->count];
    if (out->kind != kind)
        return refuse(m, "the operation at byte %zu meets %s where it takes %s", m->began,
                      pickle_kind_phrase(out->kind), pickle_kind_phrase(kind));
    return HEARTH_OK;
}

/* Removes the last mark; *begin is the stack position of its first value. */
static hearth_status pop_mark(machine *m, size_t *begin)
{
    if (m->mark_count == 0)
        return refuse(m, "the operation at byte %zu takes a mark where there is none", m->began);
    *begin = m->marks[--m->mark_count];
    return HEARTH_OK;
}

/* ------------------------------------------------------------ plain values */

static hearth_status do_proto(machine *m)
{
    uint8_t protocol = 0;
    if (m->began != 0)
        return refuse(m, "says its protocol again at byte %zu", m->began);
    TRY(take(m, &protocol, 1));
    if (protocol < 2 || protocol > 4)
        return pickle_refuse(&m->context, HEARTH_UNSUPPORTED, "protocol %u is not supported, only 2 to 4", protocol);
    return HEARTH_OK;
}

/* Frames tell a reader of streams how much to read ahead; here the whole pickle is in memory, so only the size is
 * checked. */
static hearth_status do_frame(machine *m)
{
    uint64_t size_bytes = 0;
    TRY(take(m, &size_bytes, sizeof size_bytes));
    if (size_bytes > m->size - m->at)
        return refuse(m, "a frame at byte %zu goes beyond the end", m->began);
    return HEARTH_OK;
}

static hearth_status do_mark(machine *m)
{
    if (m->mark_count == MOST_MARKS)
        return refuse(m, "is nested deeper than %d", MOST_MARKS);
    m->marks[m->mark_count++] = m->count;
    return HEARTH_OK;
}

static hearth_status do_stop(machine *m)
{
    m->stopped = true;
    return HEARTH_OK;
}

static hearth_status do_none(machine *m)
{
    return push(m, (pickle_value){.kind = PICKLE_NONE});
}

static hearth_status do_true(machine *m)
{
    return push(m, (pickle_value){.kind = PICKLE_BOOL, .as.number = 1});
}

static hearth_status do_false(machine *m)
{
    return push(m, (pickle_value){.kind = PICKLE_BOOL, .as.number = 0});
}

static hearth_status push_number(machine *m, int64_t number)
{
    return push(m, (pickle_value){.kind = PICKLE_INT, .as.number = number});
}

static hearth_status do_binint(machine *m)
{
    int32_t number = 0;
    TRY(take(m, &number, sizeof number));
    return push_number(m, number);
}

static hearth_status do_binint1(machine *m)
{
    uint8_t number = 0;
    TRY(take(m, &number, sizeof number));
    return push_number(m, number);
}

static hearth_status do_binint2(machine *m)
{
    uint16_t number = 0;
    TRY(take(m, &number, sizeof number));
    return push_number(m, number);
}

/* Reads a number in two's complement with its size in front. At most 8 bytes are read: no size in a file needs
 * more. */
static hearth_status do_long1(machine *m)
{
    uint8_t size_bytes = 0;
    uint64_t bits = 0;
    TRY(take(m, &size_bytes, 1));
    if (size_bytes > sizeof bits)
        return refuse(m, "a number of %u bytes at byte %zu, at most 8 are read", size_bytes, m->began);
    TRY(take(m, &bits, size_bytes));
    if (size_bytes == 0)
        return push_number(m, 0);
    unsigned unused = 64 - 8 * (unsigned)size_bytes; /* shifting left and right again extends the sign */
    return push_number(m, (int64_t)(bits << unused) >> unused);
}

/* Pushes a text of this many bytes, which stays in the pickle. */
static hearth_status push_text(machine *m, size_t size_bytes)
{
    if (size_bytes > m->size - m->at)
        return refuse(m, "a text at byte %zu is said to have %zu bytes, but only %zu are left", m->began, size_bytes,
                      m->size - m->at);
    span text = {(const char *)m->data + m->at, size_bytes};
    if (!utf8_is_valid(text.data, text.size) || memchr(text.data, 0, text.size))
        return refuse(m, "the text at byte %zu is not valid UTF-8", m->began);
    m->at += size_bytes;
    span *kept = arena_new(m->context.memory, sizeof *kept);
    if (!kept)
        return out_of_memory(m, sizeof *kept);
    *kept = text;
    return push(m, (pickle_value){.kind = PICKLE_TEXT, .as.text = kept});
}

static hearth_status do_short_binunicode(machine *m)
{
    uint8_t size_bytes = 0;
    TRY(take(m, &size_bytes, sizeof size_bytes));
    return push_text(m, size_bytes);
}

static hearth_status do_binunicode(machine *m)
{
    uint32_t size_bytes = 0;
    TRY(take(m, &size_bytes, sizeof size_bytes));
    return push_text(m, size_bytes);
}

/* -------------------------------------------------------------------- memo */

/* Stores the value at the top in the memo. Picklers number the entries from 0 on: one may be overwritten, none may be
 * skipped. */
static hearth_status put_memo(machine *m, uint64_t index)
{
    if (at_hand(m) == 0)
        return refuse(m, "the operation at byte %zu keeps a value where there is none", m->began);
    if (index > m->memo_count)
        return refuse(m, "keeps value %llu before value %zu", (unsigned long long)index, m->memo_count);
    if (index == m->memo_count) {
        TRY(make_room(m, &m->memo, &m->memo_capacity, m->memo_count));
        m->memo_count++;
    }
    m->memo[index] = m->stack[m->count - 1];
    return HEARTH_OK;
}

static hearth_status get_memo(machine *m, uint64_t index)
{
    if (index >= m->memo_count)
        return refuse(m, "asks for kept value %llu of %zu", (unsigned long long)index, m->memo_count);
    return push(m, m->memo[index]);
}

static hearth_status do_binput(machine *m)
{
    uint8_t index = 0;
    TRY(take(m, &index, sizeof index));
    return put_memo(m, index);
}

static hearth_status do_long_binput(machine *m)
{
    uint32_t index = 0;
    TRY(take(m, &index, sizeof index));
    return put_memo(m, index);
}

static hearth_status do_memoize(machine *m)
{
    return put_memo(m, m->memo_count);
}

static hearth_status do_binget(machine *m)
{
    uint8_t index = 0;
    TRY(take(m, &index, sizeof index));
    return get_memo(m, index);
}

static hearth_status do_long_binget(machine *m)
{
    uint32_t index = 0;
    TRY(take(m, &index, sizeof index));
    return get_memo(m, index);
}

/* ---------------------------------------------------- tuples, dictionaries */

/* Replaces the values from `begin` on by one tuple of them. */
static hearth_status fold_tuple(machine *m, size_t begin)
{
    size_t count = m->count - begin;
    pickle_tuple *tuple = arena_new(m->context.memory, sizeof *tuple + count * sizeof *tuple->items);
    if (!tuple)
        return out_of_memory(m, sizeof *tuple + count * sizeof *tuple->items);
    tuple->count = count;
    if (count)
        memcpy(tuple->items, m->stack + begin, count * sizeof *tuple->items);
    m->count = begin;
    return push(m, (pickle_value){.kind = PICKLE_TUPLE, .as.tuple = tuple});
}

/* Replaces the last `count` values by one tuple of them. */
static hearth_status fold_last(machine *m, size_t count)
{
    if (at_hand(m) < count)
        return refuse(m, "the operation at byte %zu takes %zu values where there are %zu", m->began, count, at_hand(m));
    return fold_tuple(m, m->count - count);
}

static hearth_status do_empty_tuple(machine *m)
{
    return fold_last(m, 0);
}

static hearth_status do_tuple1(machine *m)
{
    return fold_last(m, 1);
}

static hearth_status do_tuple2(machine *m)
{
    return fold_last(m, 2);
}

static hearth_status do_tuple3(machine *m)
{
    return fold_last(m, 3);
}

static hearth_status do_tuple(machine *m)
{
    size_t begin = 0;
    TRY(pop_mark(m, &begin));
    return fold_tuple(m, begin);
}

static hearth_status do_empty_dict(machine *m)
{
    pickle_value value = {0};
    TRY(pickle_new_dict(&m->context, false, &value));
    return push(m, value);
}

/* Moves the values from `begin` on from the stack to a new chunk at the end of the dictionary. */
static hearth_status append_items(machine *m, pickle_dict *dict, size_t begin)
{
    size_t count = m->count - begin;
    if (count == 0)
        return HEARTH_OK;
    pickle_items *chunk = arena_new(m->context.memory, sizeof *chunk);
    pickle_value *pairs = arena_new_array(m->context.memory, count, sizeof *pairs);
    if (!chunk || !pairs)
        return out_of_memory(m, count * sizeof *pairs);
    memcpy(pairs, m->stack + begin, count * sizeof *pairs);
    *chunk = (pickle_items){.count = count / 2, .pairs = pairs};
    *(dict->last ? &dict->last->next : &dict->first) = chunk;
    dict->last = chunk;
    m->count = begin;
    return HEARTH_OK;
}

/* Adds the values from `begin` on, alternately keys and values, to the dictionary below them, which stays on the
 * stack. */
static hearth_status store_items(machine *m, size_t begin)
{
    size_t below = m->mark_count ? m->marks[m->mark_count - 1] : 0;
    if ((m->count - begin) % 2 != 0)
        return refuse(m, "stores a key without a value at byte %zu", m->began);
    if (begin <= below || m->stack[begin - 1].kind != PICKLE_DICT)
        return refuse(m, "stores into what is not a dictionary at byte %zu", m->began);
    return append_items(m, m->stack[begin - 1].as.dict, begin);
}

static hearth_status do_setitem(machine *m)
{
    if (at_hand(m) < 3)
        return refuse(m, "the operation at byte %zu takes 3 values where there are %zu", m->began, at_hand(m));
    return store_items(m, m->count - 2);
}

static hearth_status do_setitems(machine *m)
{
    size_t begin = 0;
    TRY(pop_mark(m, &begin));
    return store_items(m, begin);
}

/* ------------------------------------------------------------ names, calls */

/* Pushes a name of the table; any other name is refused. */
static hearth_status push_name(machine *m, span module, span name)
{
    const pickle_name *found = pickle_find_name(module, name);
    if (found)
        return push(m, (pickle_value){.kind = PICKLE_NAME, .as.name = found});
    return refuse(m, "asks for %.*s.%.*s: only data is read", module.size < QUOTED ? (int)module.size : QUOTED,
                  module.data, name.size < QUOTED ? (int)name.size : QUOTED, name.data);
}

/* Reads a text up to the end of its line; the line break is skipped. */
static hearth_status take_line(machine *m, span *out)
{
    const char *text = (const char *)m->data + m->at, *end = memchr(text, '\n', m->size - m->at);
    if (!end)
        return refuse(m, "ends within the operation at byte %zu", m->began);
    *out = (span){text, (size_t)(end - text)};
    m->at += out->size + 1;
    return HEARTH_OK;
}

static hearth_status do_global(machine *m)
{
    span module = {0}, name = {0};
    TRY(take_line(m, &module));
    TRY(take_line(m, &name));
    return push_name(m, module, name);
}

static hearth_status do_stack_global(machine *m)
{
    pickle_value module = {0}, name = {0};
    TRY(pop(m, PICKLE_TEXT, &name));
    TRY(pop(m, PICKLE_TEXT, &module));
    return push_name(m, *module.as.text, *name.as.text);
}

/* Calls a function of the table with a tuple of arguments. */
static hearth_status do_reduce(machine *m)
{
    pickle_value arguments = {0}, name = {0}, out = {0};
    TRY(pop(m, PICKLE_TUPLE, &arguments));
    TRY(pop(m, PICKLE_NAME, &name));
    if (!name.as.name->call)
        return refuse(m, "calls %s, which is not a function", name.as.name->name);
    TRY(name.as.name->call(&m->context, arguments.as.tuple, &out));
    return push(m, out);
}

/* Ignores the one attribute that Module.state_dict sets on its OrderedDict, _metadata (the versions of the modules);
 * any other is refused. */
static hearth_status do_build(machine *m)
{
    pickle_value state = {0}, object = {0};
    TRY(pop(m, PICKLE_DICT, &state));
    TRY(pop(m, PICKLE_DICT, &object));
    if (!object.as.dict->ordered)
        return refuse(m, "sets attributes of %s: only data is read", pickle_kind_phrase(object.kind));
    const pickle_items *set = state.as.dict->first;
    bool plain = !set || (!set->next && set->count == 1 && set->pairs[0].kind == PICKLE_TEXT &&
                          span_equal(*set->pairs[0].as.text, span_of("_metadata")));
    if (!plain)
        return refuse(m, "sets attributes other than _metadata: only data is read");
    return push(m, object);
}

static hearth_status do_binpersid(machine *m)
{
    pickle_value id = {0}, out = {0};
    TRY(pop(m, PICKLE_TUPLE, &id));
    TRY(pickle_find_storage(&m->context, id.as.tuple, &out));
    return push(m, out);
}

/* -------------------------------------------------------------- operations */

// clang-format off
/* All operations up to protocol 5. Those without a function are refused by name: no state dict of torch.save needs
 * them. */
static const struct {
    const char *name;
    operation *run;
} operations[256] = {
    [0x80] = {"PROTO", do_proto},               [0x95] = {"FRAME", do_frame},
    ['('] = {"MARK", do_mark},                  ['.'] = {"STOP", do_stop},
    ['N'] = {"NONE", do_none},                  [0x88] = {"NEWTRUE", do_true},
    [0x89] = {"NEWFALSE", do_false},            ['J'] = {"BININT", do_binint},
    ['K'] = {"BININT1", do_binint1},            ['M'] = {"BININT2", do_binint2},
    [0x8a] = {"LONG1", do_long1},               ['X'] = {"BINUNICODE", do_binunicode},
    [0x8c] = {"SHORT_BINUNICODE", do_short_binunicode},
    ['q'] = {"BINPUT", do_binput},              ['r'] = {"LONG_BINPUT", do_long_binput},
    [0x94] = {"MEMOIZE", do_memoize},           ['h'] = {"BINGET", do_binget},
    ['j'] = {"LONG_BINGET", do_long_binget},    [')'] = {"EMPTY_TUPLE", do_empty_tuple},
    [0x85] = {"TUPLE1", do_tuple1},             [0x86] = {"TUPLE2", do_tuple2},
    [0x87] = {"TUPLE3", do_tuple3},             ['t'] = {"TUPLE", do_tuple},
    ['}'] = {"EMPTY_DICT", do_empty_dict},      ['s'] = {"SETITEM", do_setitem},
    ['u'] = {"SETITEMS", do_setitems},          ['c'] = {"GLOBAL", do_global},
    [0x93] = {"STACK_GLOBAL", do_stack_global}, ['R'] = {"REDUCE", do_reduce},
    ['b'] = {"BUILD", do_build},                ['Q'] = {"BINPERSID", do_binpersid},
    ['0'] = {"POP", NULL},             ['1'] = {"POP_MARK", NULL},       ['2'] = {"DUP", NULL},
    ['F'] = {"FLOAT", NULL},           ['G'] = {"BINFLOAT", NULL},       ['I'] = {"INT", NULL},
    ['L'] = {"LONG", NULL},            [0x8b] = {"LONG4", NULL},         ['P'] = {"PERSID", NULL},
    ['S'] = {"STRING", NULL},          ['T'] = {"BINSTRING", NULL},      ['U'] = {"SHORT_BINSTRING", NULL},
    ['V'] = {"UNICODE", NULL},         [0x8d] = {"BINUNICODE8", NULL},   ['B'] = {"BINBYTES", NULL},
    ['C'] = {"SHORT_BINBYTES", NULL},  [0x8e] = {"BINBYTES8", NULL},     [0x96] = {"BYTEARRAY8", NULL},
    ['a'] = {"APPEND", NULL},          ['e'] = {"APPENDS", NULL},        [']'] = {"EMPTY_LIST", NULL},
    ['l'] = {"LIST", NULL},            ['d'] = {"DICT", NULL},           [0x8f] = {"EMPTY_SET", NULL},
    [0x90] = {"ADDITEMS", NULL},       [0x91] = {"FROZENSET", NULL},     ['g'] = {"GET", NULL},
    ['p'] = {"PUT", NULL},             ['i'] = {"INST", NULL},           ['o'] = {"OBJ", NULL},
    [0x81] = {"NEWOBJ", NULL},         [0x92] = {"NEWOBJ_EX", NULL},     [0x82] = {"EXT1", NULL},
    [0x83] = {"EXT2", NULL},           [0x84] = {"EXT4", NULL},          [0x97] = {"NEXT_BUFFER", NULL},
    [0x98] = {"READONLY_BUFFER", NULL},
};
// clang-format on

/* Runs one operation. The first one must be PROTO. */
static hearth_status step(machine *m)
{
    uint8_t code = 0;
    m->began = m->at;
    if (m->at == m->size)
        return refuse(m, "ends without a STOP after %zu bytes", m->size);
    TRY(take(m, &code, 1));
    if (m->began == 0 && operations[code].run != do_proto)
        return refuse(m, "does not begin with its protocol");
    if (operations[code].run)
        return operations[code].run(m);
    if (operations[code].name)
        return refuse(m, "asks for %s at byte %zu: only data is read", operations[code].name, m->began);
    return refuse(m, "operation 0x%02x at byte %zu does not exist", code, m->began);
}

/* Runs the program up to STOP, which must be its last byte and leave exactly one value. */
static hearth_status execute(machine *m, pickle_value *out)
{
    while (!m->stopped)
        TRY(step(m));
    if (m->at != m->size)
        return refuse(m, "%zu bytes behind its end", m->size - m->at);
    if (m->count != 1 || m->mark_count != 0)
        return refuse(m, "ends with %zu values and %zu marks, expected one value", m->count, m->mark_count);
    *out = m->stack[0];
    return HEARTH_OK;
}

hearth_status unpickle(pickle_value *out, arena *memory, const uint8_t *data, size_t size_bytes, const char *path,
                       hearth_error *error)
{
    machine m = {.context = {memory, path, error}, .data = data, .size = size_bytes};
    hearth_status status = execute(&m, out);
    mem_free(m.stack);
    mem_free(m.memo);
    return status;
}
