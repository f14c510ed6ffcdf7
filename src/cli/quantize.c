/* quantize.c - `hearth quantize`: writes the same model in fewer bytes. */
#include "writing.h"

typedef struct quantize_values {
    writing_options writing;
} quantize_values;

static hearth_status run_quantize(void *values, operands *rest, hearth_error *error)
{
    quantize_values *v = values;
    number_format format;
    TRY(writing_format("quantize", rest->items[2], &format, error));
    convert_options what = {.format = format, .head_apart = true};
    return writing_run("quantize", rest->items[0], rest->items[1], what, &v->writing, NULL, rest->memory, error);
}

const command command_quantize = {
    .name = "quantize",
    .path = "quantize",
    .summary = "write a model in a smaller number format",
    .usage = "IN OUT TYPE [--tensor-type NAME=TYPE ...] [options]",
    .about = "Writes the model IN (GGUF file or folder) as the GGUF file OUT, its matrices in TYPE, one of those that "
             "--tensor-type takes. The output head stays finer (q6_K, or q8_0 where its rows do not fit), norms stay "
             "float32, "
             "and a row that TYPE's blocks do not divide falls back to q8_0 or f16; the report says where.",
    .example = "  $ hearth quantize stories-relu stories-relu-q8_0.gguf q8_0\n"
               "  token_embd.weight                       512 x 128  bf16 -> q8_0\n"
               "  ...\n"
               "  stories-relu-q8_0.gguf: 56 tensors, 3.08 MB -> 1.64 MB in 0.1 s, 38 MB/s",
    .tables = {{"writing", writing_option_rows, WRITING_OPTION_COUNT, offsetof(quantize_values, writing)}},
    .values_size = sizeof(quantize_values),
    .operands_least = 3,
    .operands_most = 3,
    .run = run_quantize,
};
