/* unpickle.c - the stack machine that reads pickles and can do nothing but make data.
 *
 * The table of operations at the end lists all of them: most rows have only a name for the error text and no
 * function. The names that a program may ask for are another table, in unpickle_names.c. The number that follows an
 * operation's code is read before its function is called, which takes values from the stack, checks the kind of each,
 * and pushes one value.
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
    size_t began;     /* offset of the current operation */
    uint64_t operand; /* its number: from the pickle, or from its row */
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

static hearth_status push(machine *m, pickle_value value)
{
    if (m->count == MOST_VALUES)
        return refuse(m, "has more than %d values at hand", MOST_VALUES);
    pickle_value *stack = mem_grow(m->stack, &m->capacity, m->count, 1, sizeof *stack);
    if (!stack)
        return out_of_memory(m, 2 * m->count * sizeof *stack);
    m->stack = stack;
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
    if (m->began != 0)
        return refuse(m, "says its protocol again at byte %zu", m->began);
    if (m->operand < 2 || m->operand > 4)
        return pickle_refuse(&m->context, HEARTH_UNSUPPORTED, "protocol %u is not supported, only 2 to 4",
                             (unsigned)m->operand);
    return HEARTH_OK;
}

/* Frames tell a reader of streams how much to read ahead; here the whole pickle is in memory, so only the size is
 * checked. */
static hearth_status do_frame(machine *m)
{
    if (m->operand > m->size - m->at)
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

static hearth_status do_bool(machine *m)
{
    return push(m, (pickle_value){.kind = PICKLE_BOOL, .as.number = (int64_t)m->operand});
}

static hearth_status push_number(machine *m, int64_t number)
{
    return push(m, (pickle_value){.kind = PICKLE_INT, .as.number = number});
}

static hearth_status do_unsigned(machine *m)
{
    return push_number(m, (int64_t)m->operand);
}

static hearth_status do_binint(machine *m)
{
    return push_number(m, (int32_t)(uint32_t)m->operand);
}

/* Reads a number in two's complement with its size in front. At most 8 bytes are read: no size in a file needs
 * more. */
static hearth_status do_long1(machine *m)
{
    unsigned size_bytes = (unsigned)m->operand;
    uint64_t bits = 0;
    if (size_bytes > sizeof bits)
        return refuse(m, "a number of %u bytes at byte %zu, at most 8 are read", size_bytes, m->began);
    TRY(take(m, &bits, size_bytes));
    if (size_bytes == 0)
        return push_number(m, 0);
    unsigned unused = 64 - 8 * size_bytes; /* shifting left and right again extends the sign */
    return push_number(m, (int64_t)(bits << unused) >> unused);
}

/* Pushes a text, which stays in the pickle; the operand is its size. */
static hearth_status do_text(machine *m)
{
    size_t size_bytes = m->operand;
    if (size_bytes > m->size - m->at)
        return refuse(m, "a text at byte %zu is said to have %zu bytes, but only %zu are left", m->began, size_bytes,
                      m->size - m->at);
    span text = {(const char *)m->data + m->at, size_bytes};
    if (!utf8_is_valid(text.data, text.size) || memchr(text.data, 0, text.size))
        return refuse(m, "the text at byte %zu is not valid UTF-8", m->began);
    m->at += size_bytes;
    span *stored = arena_new(m->context.memory, sizeof *stored);
    if (!stored)
        return out_of_memory(m, sizeof *stored);
    *stored = text;
    return push(m, (pickle_value){.kind = PICKLE_TEXT, .as.text = stored});
}

/* -------------------------------------------------------------------- memo */

/* Stores the value at the top in the memo. Picklers number the entries from 0 on: one may be overwritten, none may be
 * skipped. */
static hearth_status do_put(machine *m)
{
    uint64_t index = m->operand;
    if (at_hand(m) == 0)
        return refuse(m, "the operation at byte %zu stores a value where there is none", m->began);
    if (index > m->memo_count)
        return refuse(m, "stores value %llu before value %zu", (unsigned long long)index, m->memo_count);
    if (index == m->memo_count) {
        pickle_value *memo = mem_grow(m->memo, &m->memo_capacity, m->memo_count, 1, sizeof *memo);
        if (!memo)
            return out_of_memory(m, 2 * m->memo_count * sizeof *memo);
        m->memo = memo;
        m->memo_count++;
    }
    m->memo[index] = m->stack[m->count - 1];
    return HEARTH_OK;
}

static hearth_status do_memoize(machine *m)
{
    m->operand = m->memo_count;
    return do_put(m);
}

static hearth_status do_get(machine *m)
{
    if (m->operand >= m->memo_count)
        return refuse(m, "asks for stored value %llu of %zu", (unsigned long long)m->operand, m->memo_count);
    return push(m, m->memo[m->operand]);
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

/* Replaces as many values as the operand says by one tuple of them. */
static hearth_status do_last_tuple(machine *m)
{
    size_t count = m->operand;
    if (at_hand(m) < count)
        return refuse(m, "the operation at byte %zu takes %zu values where there are %zu", m->began, count, at_hand(m));
    return fold_tuple(m, m->count - count);
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
    uint8_t operand_bytes; /* of the little-endian number that follows the code */
    uint8_t operand;       /* where none follows                                */
} operations[256] = {
    [0x80] = {"PROTO", do_proto, 1, 0},           [0x95] = {"FRAME", do_frame, 8, 0},
    ['('] = {"MARK", do_mark, 0, 0},              ['.'] = {"STOP", do_stop, 0, 0},
    ['N'] = {"NONE", do_none, 0, 0},              ['J'] = {"BININT", do_binint, 4, 0},
    [0x88] = {"NEWTRUE", do_bool, 0, true},       [0x89] = {"NEWFALSE", do_bool, 0, false},
    ['K'] = {"BININT1", do_unsigned, 1, 0},       ['M'] = {"BININT2", do_unsigned, 2, 0},
    [0x8a] = {"LONG1", do_long1, 1, 0},           [0x94] = {"MEMOIZE", do_memoize, 0, 0},
    ['X'] = {"BINUNICODE", do_text, 4, 0},        [0x8c] = {"SHORT_BINUNICODE", do_text, 1, 0},
    ['q'] = {"BINPUT", do_put, 1, 0},             ['r'] = {"LONG_BINPUT", do_put, 4, 0},
    ['h'] = {"BINGET", do_get, 1, 0},             ['j'] = {"LONG_BINGET", do_get, 4, 0},
    [')'] = {"EMPTY_TUPLE", do_last_tuple, 0, 0}, [0x85] = {"TUPLE1", do_last_tuple, 0, 1},
    [0x86] = {"TUPLE2", do_last_tuple, 0, 2},     [0x87] = {"TUPLE3", do_last_tuple, 0, 3},
    ['t'] = {"TUPLE", do_tuple, 0, 0},            ['}'] = {"EMPTY_DICT", do_empty_dict, 0, 0},
    ['s'] = {"SETITEM", do_setitem, 0, 0},        ['u'] = {"SETITEMS", do_setitems, 0, 0},
    ['c'] = {"GLOBAL", do_global, 0, 0},          [0x93] = {"STACK_GLOBAL", do_stack_global, 0, 0},
    ['R'] = {"REDUCE", do_reduce, 0, 0},          ['Q'] = {"BINPERSID", do_binpersid, 0, 0},
    ['b'] = {"BUILD", do_build, 0, 0},
    /* Refused. */
    ['0'] = {.name = "POP"},             ['1'] = {.name = "POP_MARK"},       ['2'] = {.name = "DUP"},
    ['F'] = {.name = "FLOAT"},           ['G'] = {.name = "BINFLOAT"},       ['I'] = {.name = "INT"},
    ['L'] = {.name = "LONG"},            [0x8b] = {.name = "LONG4"},         ['P'] = {.name = "PERSID"},
    ['S'] = {.name = "STRING"},          ['T'] = {.name = "BINSTRING"},      ['U'] = {.name = "SHORT_BINSTRING"},
    ['V'] = {.name = "UNICODE"},         [0x8d] = {.name = "BINUNICODE8"},   ['B'] = {.name = "BINBYTES"},
    ['C'] = {.name = "SHORT_BINBYTES"},  [0x8e] = {.name = "BINBYTES8"},     [0x96] = {.name = "BYTEARRAY8"},
    ['a'] = {.name = "APPEND"},          ['e'] = {.name = "APPENDS"},        [']'] = {.name = "EMPTY_LIST"},
    ['l'] = {.name = "LIST"},            ['d'] = {.name = "DICT"},           [0x8f] = {.name = "EMPTY_SET"},
    [0x90] = {.name = "ADDITEMS"},       [0x91] = {.name = "FROZENSET"},     ['g'] = {.name = "GET"},
    ['p'] = {.name = "PUT"},             ['i'] = {.name = "INST"},           ['o'] = {.name = "OBJ"},
    [0x81] = {.name = "NEWOBJ"},         [0x92] = {.name = "NEWOBJ_EX"},     [0x82] = {.name = "EXT1"},
    [0x83] = {.name = "EXT2"},           [0x84] = {.name = "EXT4"},          [0x97] = {.name = "NEXT_BUFFER"},
    [0x98] = {.name = "READONLY_BUFFER"},
};
// clang-format on

/* Runs one operation. The first one must be PROTO. */
static hearth_status run_operation(machine *m)
{
    uint8_t code = 0;
    m->began = m->at;
    if (m->at == m->size)
        return refuse(m, "ends without a STOP after %zu bytes", m->size);
    TRY(take(m, &code, 1));
    if (m->began == 0 && operations[code].run != do_proto)
        return refuse(m, "does not begin with its protocol");
    if (operations[code].run) {
        m->operand = operations[code].operand;
        TRY(take(m, &m->operand, operations[code].operand_bytes));
        return operations[code].run(m);
    }
    if (operations[code].name)
        return refuse(m, "asks for %s at byte %zu: only data is read", operations[code].name, m->began);
    return refuse(m, "operation 0x%02x at byte %zu does not exist", code, m->began);
}

/* Runs the program up to STOP, which must be its last byte and leave exactly one value. */
static hearth_status execute(machine *m, pickle_value *out)
{
    while (!m->stopped)
        TRY(run_operation(m));
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
