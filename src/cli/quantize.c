/* quantize.c - `hearth quantize`: writes the same model in fewer bytes. */
#include "../model/mix.h"
#include "writing.h"

#include <stdio.h>

typedef struct quantize_values {
    writing_options writing;
    const char *importance;
} quantize_values;

static const option rows[] = {
    {OPTION_ROW(0, "importance", TEXT, quantize_values, importance, "FILE",
                "an importance matrix, as `hearth profile` and llama.cpp's imatrix write it: errors count more in "
                "columns that are used more "
                "(in q4_0 to q5_1, q2_K to q6_K, iq4_nl and iq4_xs)"),
     .alias = "imatrix"},
};

/* Finds the mix, or else the format, that TYPE names. HEARTH_INVALID: neither; the error lists both. */
static hearth_status find_type(convert_options *what, const char *type, hearth_error *error)
{
    what->mix = mix_by_name(type);
    what->format = what->mix ? what->mix->base : number_format_by_name(type);
    if (what->format != FORMAT_COUNT && number_is_written(what->format))
        return HEARTH_OK;
    char all[256], mixes[256];
    writing_format_list(all, sizeof all);
    mix_list(mixes, sizeof mixes);
    return fail(error, HEARTH_INVALID, "quantize: %s: %s; the mixes are %s; the formats are %s", type,
                what->format == FORMAT_COUNT ? "cannot be written" : "can be read, not written", mixes, all);
}

/* Lists what find_type knows: mixes, and the formats that are none. */
static void list_types(char *text, size_t size)
{
    mix_list(text, size);
    for (size_t i = 0; i < FORMAT_COUNT; i++)
        if (number_is_written((number_format)i) && !mix_by_name(number_formats[i].name))
            append_name(text, size, number_formats[i].name);
}

static hearth_status run_quantize(void *values, operands *rest, hearth_error *error)
{
    quantize_values *v = values;
    convert_options what = {.head_apart = true};
    writing_result result;
    what.importance = v->importance;
    TRY(find_type(&what, rest->items[2], error));
    TRY(writing_run("quantize", rest->items[0], rest->items[1], what, &v->writing, &result, rest->memory, error));
    if (v->importance)
        fprintf(stderr, "importance: %zu of %zu tensors\n", result.weighed, result.tensors);
    return HEARTH_OK;
}

const command command_quantize = {
    .name = "quantize",
    .path = "quantize",
    .summary = "write a model in a smaller number format",
    .usage = "IN OUT TYPE [--importance FILE] [--tensor-type NAME=TYPE ...] [options]",
    .about =
        "Writes the model IN (GGUF file or folder) as the GGUF file OUT, its matrices in TYPE. TYPE is one of "
        "llama.cpp's "
        "mixes, which give more bits to matrices where rounding costs most: q2_k, q3_k_s, q3_k_m, q3_k_l, q4_k_s, "
        "q4_k_m, q5_k_s, q5_k_m, q6_k, q4_0, q4_1, q5_0, q5_1, q8_0, iq4_nl, iq4_xs or mxfp4_moe (experts in mxfp4, "
        "the "
        "rest in q8_0). Any other format that --tensor-type takes (f16, q4_K, tq2_0 ...) is used for all matrices. The "
        "output head stays finer (q6_K, or q8_0 where its rows do not fit), norms stay float32, and a matrix whose "
        "rows "
        "the blocks of its format do not divide falls back to one of similar size with blocks of 32, or f16; the "
        "report says where. docs/formats.md compares the formats.",
    .example = "  $ hearth quantize stories-relu stories-relu-q8_0.gguf q8_0\n"
               "  token_embd.weight                       512 x 128  bf16 -> q8_0\n"
               "  ...\n"
               "  stories-relu-q8_0.gguf: 56 tensors, 3.08 MB -> 1.64 MB in 0.1 s, 38 MB/s\n"
               "  $ hearth quantize tinyllama tinyllama-q4_k_m.gguf q4_k_m",
    .tables = {OPTION_TABLE("quantize", rows, 0),
               {"writing", writing_option_rows, WRITING_OPTION_COUNT, offsetof(quantize_values, writing)}},
    .values_size = sizeof(quantize_values),
    .operands_least = 3,
    .operands_most = 3,
    .last_operand = list_types,
    .run = run_quantize,
};
