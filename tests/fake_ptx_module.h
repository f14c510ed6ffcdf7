/* fake_ptx_module.h - a module of PTX as fake_ptx_parse.c makes it of a text and fake_ptx.c runs it.
 *
 * A register is 32 words, one for each lane of a warp. Numbers in the text, addresses of variables and special registers are
 * registers, too, which are filled when a block begins. So nearly every instruction is a function of registers
 * (fake_ptx_operations.c); what moves data or changes the way of lanes is a kind of its own. */
#ifndef TESTS_FAKE_PTX_MODULE_H
#define TESTS_FAKE_PTX_MODULE_H

#include "fake_ptx.h"

#include <stddef.h>

enum { WARP = 32, NAME = 160, MOST_OPERANDS = 5, MOST_ARGUMENTS = 32 };

typedef uint64_t lanes[WARP];

/* Where generic addresses mean shared or local memory: from here on, WINDOW_BYTES each. Other addresses are above. */
enum { WINDOW_BYTES = 1 << 20 };
static const uint64_t shared_window = 1u << 30, local_window = 1u << 31;

/* Computes a register for the active lanes. */
typedef void compute(uint64_t *to, const uint64_t *const of[MOST_OPERANDS], uint32_t active);

/* Returns what an instruction such as "add.s32" computes; NULL: it is unknown, or not one that computes. */
compute *ptx_operation(const char *opcode);

/* Writes what is wrong unless something was before. Returns false. */
__attribute__((format(printf, 2, 3))) bool ptx_complain(char *problem, const char *format, ...);

typedef enum kind {
    KIND_COMPUTE,
    KIND_LOAD,    /* to[0 .. count - 1] from address of[0] + offset */
    KIND_STORE,   /* of[1 .. count] to address of[0] + offset */
    KIND_SHUFFLE, /* to[0] from of[0] of another lane: of[1] the distance, of[3] the lanes that take part */
    KIND_MATRIX,  /* to[0 .. 1] = of[2], of[4] + the products of of[0] and of[1], by all lanes: of[3] are all */
    KIND_BRANCH,
    KIND_CALL,
    KIND_RETURN,
    KIND_BARRIER,
    KIND_NOTHING
} kind;

typedef enum space { SPACE_GENERIC, SPACE_GLOBAL, SPACE_SHARED, SPACE_LOCAL } space;

typedef struct instruction {
    kind kind;
    compute *compute;
    uint32_t to[4], of[MOST_OPERANDS];
    uint32_t predicate; /* a register, 0: none */
    bool unless;        /* the predicate is false */
    bool is_signed;     /* a load that extends the sign */
    bool crosses; /* a shuffle to the lane whose number differs in the bits of the distance, not to one further on */
    space space;
    unsigned bytes, count; /* of each element; elements */
    int64_t offset;
    uint32_t target; /* of a branch: an instruction; of a call: a function */
} instruction;

/* A register that holds the same from the beginning of a block on: a number, or one of the special registers. */
typedef enum filling { FILL_NUMBER, FILL_LANE, FILL_LANES, FILL_GROUP, FILL_GROUPS, FILL_PARAMETER, FILL_TIME } filling;
typedef struct filled {
    uint32_t number;
    filling with;
    uint64_t value; /* or which parameter */
} filled;

typedef struct function {
    char name[NAME];
    bool is_entry;
    uint32_t begin, first_register, registers; /* an entry's come behind those of all functions */
    uint32_t parameters, shared_bytes, local_bytes;
    uint32_t parameter[MOST_ARGUMENTS];
    filled *filled;
    size_t filled_count;
} function;

struct ptx_module {
    instruction *code;
    size_t code_count, code_room;
    function *functions;
    size_t function_count;
    uint32_t function_registers; /* of all functions that are not entries; 0 is never used, 1 is where to return to */
    struct spare *spare;         /* for the next run; NULL: somebody has it */
};

/* Memory for the registers of a run; the module saves one for the next. */
struct spare {
    size_t size_bytes;
    lanes room[];
};

#endif
