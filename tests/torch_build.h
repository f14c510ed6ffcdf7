/* torch_build.h - pickles made by hand, right ones and wrong ones. Archives: zip_build.h. */
#ifndef TESTS_TORCH_BUILD_H
#define TESTS_TORCH_BUILD_H

#include "../src/file/torch_archive.h"
#include "../src/file/unpickle.h"

#include "file_build.h"
#include "zip_build.h"

/* ------------------------------------------------------------------ pickle */

/* Operations as text: what has no zeros in it. */
static inline void put_text(buffer *b, const char *text)
{
    put(b, text, strlen(text));
}

/* BINUNICODE */
static inline void put_unicode(buffer *b, const char *text)
{
    put_text(b, "X");
    put_u32(b, (uint32_t)strlen(text));
    put_text(b, text);
}

/* LONG1 of eight bytes */
static inline void put_number(buffer *b, int64_t number)
{
    put_text(b, "\x8a\x08");
    put(b, &number, sizeof number);
}

static inline void put_numbers(buffer *b, const int64_t *numbers, size_t count)
{
    put_text(b, "(");
    for (size_t i = 0; i < count; i++)
        put_number(b, numbers[i]);
    put_text(b, "t");
}

/* A tensor as torch.save writes it. */
typedef struct tensor_text {
    const char *name, *type, *key;
    int64_t values, offset; /* of the storage; in it */
    size_t rank;
    int64_t shape[5], strides[5];
} tensor_text;

/* Its persistent id, on the stack. */
static inline void put_storage(buffer *b, const tensor_text *t)
{
    put_text(b, "(");
    put_unicode(b, "storage");
    put_text(b, "ctorch\n");
    put_text(b, t->type);
    put_text(b, "\n");
    put_unicode(b, t->key);
    put_unicode(b, "cpu");
    put_number(b, t->values);
    put_text(b, "tQ");
}

static inline void put_tensor_text(buffer *b, const tensor_text *t)
{
    put_text(b, "ctorch._utils\n_rebuild_tensor_v2\n(");
    put_storage(b, t);
    put_number(b, t->offset);
    put_numbers(b, t->shape, t->rank);
    put_numbers(b, t->strides, t->rank);
    put_text(b, "\x89"
                "ccollections\nOrderedDict\n)RtR");
}

/* A plain dictionary of tensors, whole from PROTO to STOP. */
static inline void put_state(buffer *b, const tensor_text *tensors, size_t count)
{
    put(b, BYTES("\x80\x02}("));
    for (size_t i = 0; i < count; i++) {
        put_unicode(b, tensors[i].name);
        put_tensor_text(b, &tensors[i]);
    }
    put_text(b, "u.");
}

#endif
