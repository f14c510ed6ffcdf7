/* tiktoken_list.h - writes lists of pieces as tiktoken's files have them. */
#ifndef TESTS_TIKTOKEN_LIST_H
#define TESTS_TIKTOKEN_LIST_H

#include "../src/base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include "skip.h"

/* Adds a line for the bytes [size], in base64. */
static inline void add_piece(buffer *list, const char *bytes, size_t size, size_t rank)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < size; i += 3) {
        uint32_t group = 0;
        for (size_t k = i; k < i + 3; k++)
            group = group << 8 | (k < size ? (uint8_t)bytes[k] : 0);
        for (size_t k = 0; k < 4; k++) {
            char c = i + k <= size ? alphabet[group >> (18 - 6 * k) & 63] : '=';
            assert_true(buffer_print(list, "%c", c));
        }
    }
    assert_true(buffer_print(list, " %zu\n", rank));
}

/* A list of all bytes. */
static inline buffer all_bytes(void)
{
    buffer list = {0};
    for (unsigned byte = 0; byte < 256; byte++)
        add_piece(&list, &(char){(char)byte}, 1, byte);
    return list;
}

#endif
