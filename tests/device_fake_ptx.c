/* The machine that runs PTX (fake_ptx.h): what it computes in lanes that part and meet, and what it reports. The kernels of
 * devices are asked of it by kcheck. */
#include "fake_ptx.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void *memory_at(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

/* An entry `test(out)` with lane in %l, out + 4 * lane in %at, and a body. */
#define TEST_OF(body)                                                                                             \
    ".version 6.0\n.target sm_60\n.address_size 64\n.visible .entry test(.param .u64 out)\n{\n"                   \
    ".reg .b32 %l, %v, %w;\n.reg .b64 %at, %offset;\n.reg .pred %p;\n.shared .align 4 .b8 words[256];\n"          \
    "ld.param.u64 %at, [out]; mov.u32 %l, %tid.x; mul.wide.u32 %offset, %l, 4; add.s64 %at, %at, %offset;\n" body \
    "\nst.global.u32 [%at], %v;\nret;\n}\n"

static void run(const char *text, unsigned lanes, uint32_t *out, char problem[PTX_PROBLEM])
{
    ptx_module *m = ptx_parse(text, problem);
    uint64_t parameters[] = {(uint64_t)(uintptr_t)out};
    if (m)
        (void)ptx_run(m, "test", 1, lanes, parameters, memory_at, problem);
    ptx_free(m);
}

/* Runs 64 lanes of what is in order. */
static void run_well(const char *text, uint32_t out[64])
{
    char problem[PTX_PROBLEM];
    run(text, 64, out, problem);
    assert_string_equal(problem, "");
}

static void lanes_part_and_meet(void **state)
{
    (void)state;
    /* Odd lanes go another way; all meet to add up the halves of each pair. */
    static const char text[] =
        TEST_OF("and.b32 %v, %l, 1; setp.ne.s32 %p, %v, 0; @%p bra odd; mul.lo.s32 %v, %l, 10; bra "
                "together;\nodd:\nadd.s32 %v, %l, 1000;\ntogether:\n"
                "shfl.sync.bfly.b32 %w, %v, 1, 31, 0xffffffff; add.s32 %v, %v, %w;");
    uint32_t out[64];
    run_well(text, out);
    for (uint32_t i = 0; i < 64; i++)
        assert_int_equal(out[i], 10 * (i & ~1u) + 1000 + (i | 1u));
}

static void barriers_order_lanes(void **state)
{
    (void)state;
    /* Each lane reads what the lane on the other side of the group wrote. */
    static const char text[] = TEST_OF("mul.lo.s32 %w, %l, 4; add.s32 %v, %l, 7; st.shared.u32 [%w], %v; bar.sync 0;"
                                       "xor.b32 %w, %w, 252; ld.shared.u32 %v, [%w];");
    uint32_t out[64];
    run_well(text, out);
    for (uint32_t i = 0; i < 64; i++)
        assert_int_equal(out[i], 63 - i + 7);
}

/* Of each lane's four bytes of A only the first is not zero: row r has 4 r + k at depth 4 k. B has the complement there. */
static void matrices_are_multiplied(void **state)
{
    (void)state;
    static const char text[] =
        TEST_OF("mov.u32 %v, 5; and.b32 %l, %l, 31; not.b32 %w, %l;"
                "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%v, %l}, {%l}, {%w}, {%v, %v}; sub.s32 %v, %v, %l;");
    uint32_t out[64];
    run_well(text, out);
    for (int lane = 0; lane < 64; lane++) {
        int sums[2] = {0};
        for (int c = 0; c < 2; c++)
            for (int k = 0; k < 4; k++) {
                int row = lane % 32 / 4, column = 2 * (lane % 4) + c;
                sums[c] += (4 * row + k) * -(4 * column + k + 1);
            }
        assert_int_equal((int32_t)out[lane], sums[0] - sums[1]);
    }
}

static void faults_are_told(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {TEST_OF("mul.lo.s32 %w, %l, 4; st.shared.u32 [%w], %l; xor.b32 %w, %w, 4; ld.shared.u32 %v, [%w];"),
         "no barrier between"},
        {TEST_OF("mov.u32 %w, 0; st.shared.u32 [%w], %l; mov.u32 %v, 0;"), "no barrier between"},
        {TEST_OF("mov.u32 %v, 0; setp.lt.u32 %p, %l, 3; @%p bar.sync 0;"), "a barrier that some lanes"},
        {TEST_OF("mov.u32 %v, 0; setp.lt.u32 %p, %l, 3; @%p ret; bar.sync 0;"), "a barrier that some lanes"},
        {TEST_OF("mov.u32 %v, 0; setp.lt.u32 %p, %l, 3; @%p ret; shfl.sync.bfly.b32 %v, %l, 1, 31, 0xffffffff;"),
         "shuffles with lanes that do not"},
        {TEST_OF("mov.u32 %v, 0; setp.lt.u32 %p, %l, 3; @%p ret;"
                 "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%v, %w}, {%l}, {%l}, {%v, %v};"),
         "matrices in group 0 without all lanes"},
        {TEST_OF("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%v, %w}, {%l}, {%l}, {%v, %v};"), "unknown: mma"},
        {TEST_OF("mov.u32 %w, 256; ld.shared.u32 %v, [%w];"), "beyond its shared memory"},
        {TEST_OF("mov.u32 %w, 2; ld.shared.u32 %v, [%w];"), "no multiple of 4"},
        {TEST_OF("popc.b32 %v, %l;"), "unknown instruction popc.b32"},
        {TEST_OF("mov.u32 %v, nowhere;"), "what is nowhere?"},
        {TEST_OF("mov.u32 %v, 0; bra nowhere;"), "no label nowhere"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t out[64];
        char problem[PTX_PROBLEM];
        run(cases[i].text, 64, out, problem);
        if (!strstr(problem, cases[i].says))
            fail_msg("case %zu: '%s', not '%s'", i, problem, cases[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_part_and_meet),
        cmocka_unit_test(barriers_order_lanes),
        cmocka_unit_test(matrices_are_multiplied),
        cmocka_unit_test(faults_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
