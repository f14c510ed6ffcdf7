/* fail_malloc.c - preloaded: makes the n-th allocation of the program fail, and every one after it; those of the libraries
 * that it uses do not count. For cli_memory.sh.
 *
 *     FAIL_MALLOC_AT=N        which, from 0 on; absent: none
 *     FAIL_MALLOC_COUNT=FILE  where the number of allocations is written when the program ends */
#define _GNU_SOURCE /* dl_iterate_phdr */
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* glibc's own, below the names that are replaced here. */
void *__libc_malloc(size_t size_bytes);
void *__libc_calloc(size_t count, size_t size_bytes);

static uintptr_t program_begin, program_end;
static long fail_at = -1;
static atomic_long allocations;

/* The first object is the program; where it lies in memory. */
static int look_at_program(struct dl_phdr_info *info, size_t size, void *user)
{
    (void)size, (void)user;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        if (info->dlpi_phdr[i].p_type != PT_LOAD)
            continue;
        if (program_begin == 0 || begin < program_begin)
            program_begin = begin;
        if (begin + info->dlpi_phdr[i].p_memsz > program_end)
            program_end = begin + info->dlpi_phdr[i].p_memsz;
    }
    return 1;
}

static void __attribute__((constructor)) begin(void)
{
    const char *at = getenv("FAIL_MALLOC_AT");
    dl_iterate_phdr(look_at_program, NULL);
    fail_at = at ? strtol(at, NULL, 10) : -1;
}

static void __attribute__((destructor)) end(void)
{
    const char *path = getenv("FAIL_MALLOC_COUNT");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file)
        return;
    fprintf(file, "%ld\n", atomic_load(&allocations));
    fclose(file);
}

static int must_fail(const void *caller)
{
    uintptr_t at = (uintptr_t)caller;
    if (at < program_begin || at >= program_end)
        return 0;
    long number = atomic_fetch_add(&allocations, 1);
    return fail_at >= 0 && number >= fail_at;
}

__attribute__((visibility("default"))) void *malloc(size_t size_bytes)
{
    return must_fail(__builtin_return_address(0)) ? NULL : __libc_malloc(size_bytes);
}

__attribute__((visibility("default"))) void *calloc(size_t count, size_t size_bytes)
{
    return must_fail(__builtin_return_address(0)) ? NULL : __libc_calloc(count, size_bytes);
}
