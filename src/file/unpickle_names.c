/* unpickle_names.c - the names that a pickle of a state dict asks for, and what each of them does.
 *
 * Everything else that Python could import is missing here on purpose. A function of this table makes data from data:
 * it has no side effects, and its arguments are checked one by one. */
#include "unpickle_names.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* torch's own limit. It also bounds the time of a call: one long tuple could be the shape of a hundred thousand
 * tensors. */
#define MOST_DIMENSIONS 64

hearth_status pickle_refuse(const pickle_context *x, hearth_status status, const char *format, ...)
{
    char reason[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    return fail(x->error, status, "%s: pickle: %s", x->path, reason);
}

const char *pickle_kind_phrase(pickle_kind kind)
{
    static const char *const phrases[PICKLE_KIND_COUNT] = {
        [PICKLE_NONE] = "None",   [PICKLE_BOOL] = "a bool",       [PICKLE_INT] = "a number",
        [PICKLE_TEXT] = "a text", [PICKLE_TUPLE] = "a tuple",     [PICKLE_DICT] = "a dictionary",
        [PICKLE_NAME] = "a name", [PICKLE_STORAGE] = "a storage", [PICKLE_TENSOR] = "a tensor",
    };
    return phrases[kind];
}

hearth_status pickle_new_dict(const pickle_context *x, bool ordered, pickle_value *out)
{
    pickle_dict *dict = arena_new(x->memory, sizeof *dict);
    if (!dict)
        return fail_memory(x->error, x->path, sizeof *dict);
    dict->ordered = ordered;
    *out = (pickle_value){.kind = PICKLE_DICT, .as.dict = dict};
    return HEARTH_OK;
}

/* --------------------------------------------------------------- arguments */

/* Returns true where a value is of the kind that a letter stands for: (t)ext, (n)umber of at least 0, tuple of such
 * (s)izes, (b)ool, (d)ictionary or None, stora(g)e, (T)ensor, (N)ame. */
static bool fits(const pickle_value *value, char letter)
{
    static const struct {
        char letter;
        pickle_kind kind;
    } kinds[] = {
        {'t', PICKLE_TEXT}, {'n', PICKLE_INT},     {'s', PICKLE_TUPLE},  {'b', PICKLE_BOOL},
        {'d', PICKLE_DICT}, {'g', PICKLE_STORAGE}, {'T', PICKLE_TENSOR}, {'N', PICKLE_NAME},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].letter == letter && kinds[i].kind != value->kind)
            return letter == 'd' && value->kind == PICKLE_NONE;
    if (letter == 'n')
        return value->as.number >= 0;
    if (letter == 's' && value->as.tuple->count > MOST_DIMENSIONS)
        return false;
    for (size_t i = 0; letter == 's' && i < value->as.tuple->count; i++)
        if (!fits(&value->as.tuple->items[i], 'n'))
            return false;
    return true;
}

/* Checks the arguments of a call, or the parts of a persistent id: one letter of fits() for each. */
static hearth_status check_arguments(const pickle_context *x, const char *what, const pickle_tuple *arguments,
                                     const char *letters)
{
    size_t count = strlen(letters);
    if (arguments->count != count)
        return pickle_refuse(x, HEARTH_FORMAT, "%s has %zu parts, expected %zu", what, arguments->count, count);
    for (size_t i = 0; i < count; i++)
        if (!fits(&arguments->items[i], letters[i]))
            return pickle_refuse(x, HEARTH_FORMAT, "part %zu of %s is wrong: it is %s", i + 1, what,
                                 pickle_kind_phrase(arguments->items[i].kind));
    return HEARTH_OK;
}

/* ------------------------------------------------------------------- names */

/* Makes an ordered dictionary: OrderedDict(). */
static hearth_status call_ordered_dict(const pickle_context *x, const pickle_tuple *arguments, pickle_value *out)
{
    TRY(check_arguments(x, "OrderedDict", arguments, ""));
    return pickle_new_dict(x, true, out);
}

/* Makes a tensor: _rebuild_tensor_v2(storage, offset, shape, strides, requires_grad, hooks). */
static hearth_status call_rebuild_tensor(const pickle_context *x, const pickle_tuple *arguments, pickle_value *out)
{
    TRY(check_arguments(x, "_rebuild_tensor_v2", arguments, "gnssbd"));
    const pickle_value *a = arguments->items;
    if (a[2].as.tuple->count != a[3].as.tuple->count)
        return pickle_refuse(x, HEARTH_FORMAT, "a tensor has %zu dimensions and %zu strides", a[2].as.tuple->count,
                             a[3].as.tuple->count);
    pickle_tensor *tensor = arena_new(x->memory, sizeof *tensor);
    if (!tensor)
        return fail_memory(x->error, x->path, sizeof *tensor);
    *tensor = (pickle_tensor){.storage = a[0].as.storage,
                              .offset = (uint64_t)a[1].as.number,
                              .shape = a[2].as.tuple,
                              .strides = a[3].as.tuple};
    *out = (pickle_value){.kind = PICKLE_TENSOR, .as.tensor = tensor};
    return HEARTH_OK;
}

/* Returns the tensor itself, which is all the data of _rebuild_parameter(tensor, requires_grad, hooks). */
static hearth_status call_rebuild_parameter(const pickle_context *x, const pickle_tuple *arguments, pickle_value *out)
{
    TRY(check_arguments(x, "_rebuild_parameter", arguments, "Tbd"));
    *out = arguments->items[0];
    return HEARTH_OK;
}

// clang-format off
static const pickle_name names[] = {
    /* module        name                  call                     storage of           */
    {"collections",  "OrderedDict",        call_ordered_dict,       FORMAT_STORED_COUNT},
    {"torch._utils", "_rebuild_tensor_v2", call_rebuild_tensor,     FORMAT_STORED_COUNT},
    {"torch._utils", "_rebuild_parameter", call_rebuild_parameter,  FORMAT_STORED_COUNT},
    {"torch",        "FloatStorage",       NULL,                    FORMAT_F32},
    {"torch",        "HalfStorage",        NULL,                    FORMAT_F16},
    {"torch",        "BFloat16Storage",    NULL,                    FORMAT_BF16},
    /* Not read; listed so that the error can name the tensor. */
    {"torch",        "DoubleStorage",      NULL,                    FORMAT_STORED_COUNT},
    {"torch",        "LongStorage",        NULL,                    FORMAT_STORED_COUNT},
    {"torch",        "IntStorage",         NULL,                    FORMAT_STORED_COUNT},
    {"torch",        "ShortStorage",       NULL,                    FORMAT_STORED_COUNT},
    {"torch",        "CharStorage",        NULL,                    FORMAT_STORED_COUNT},
    {"torch",        "ByteStorage",        NULL,                    FORMAT_STORED_COUNT},
    {"torch",        "BoolStorage",        NULL,                    FORMAT_STORED_COUNT},
};
// clang-format on

const pickle_name *pickle_find_name(span module, span name)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (span_equal(module, span_of(names[i].module)) && span_equal(name, span_of(names[i].name)))
            return &names[i];
    return NULL;
}

/* A persistent id is ("storage", type, key, place, count). The place, such as "cpu" or "cuda:0", is where the storage
 * was when it was saved; it is not used. */
hearth_status pickle_find_storage(const pickle_context *x, const pickle_tuple *id, pickle_value *out)
{
    TRY(check_arguments(x, "a persistent id", id, "tNttn"));
    const pickle_value *a = id->items;
    const pickle_name *type = a[1].as.name;
    if (!span_equal(*a[0].as.text, span_of("storage")) || type->call)
        return pickle_refuse(x, HEARTH_FORMAT, "a persistent id is not a storage");
    pickle_storage *storage = arena_new(x->memory, sizeof *storage);
    if (!storage)
        return fail_memory(x->error, x->path, sizeof *storage);
    *storage = (pickle_storage){
        .type = type->name, .format = type->format, .key = *a[2].as.text, .count = (uint64_t)a[4].as.number};
    *out = (pickle_value){.kind = PICKLE_STORAGE, .as.storage = storage};
    return HEARTH_OK;
}
