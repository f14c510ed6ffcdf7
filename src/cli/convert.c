/* convert.c - `hearth convert`: turns a Hugging Face folder into a GGUF file. */
#include "writing.h"

typedef struct convert_values {
    writing_options writing;
    const char *out;
    const char *type;
    const char *predictors;
} convert_values;

static const option rows[] = {
    {OPTION_ROW('o', "out", TEXT, convert_values, out, "FILE", "the GGUF file to write"), .alias = "outfile"},
    {OPTION_ROW(0, "type", TEXT, convert_values, type, "TYPE",
                "number format of the matrices, else as they are stored"),
     .alias = "outtype", .list = writing_format_list},
    {OPTION_ROW(
        0, "predictors", TEXT, convert_values, predictors, "FOLDER",
        "adds the predictors model_0.pt, model_1.pt ... (and config.json's sparse_threshold), or those of a tune "
        "file: a PowerInfer file")},
};

static hearth_status run_convert(void *values, operands *rest, hearth_error *error)
{
    convert_values *v = values;
    number_format format = FORMAT_COUNT;
    if (!v->out)
        return fail(error, HEARTH_INVALID, "convert: -o: is missing; it names the file to write");
    if (v->type)
        TRY(writing_format("convert", v->type, &format, error));
    convert_options what = {.format = format, .predictors = v->predictors};
    return writing_run("convert", rest->items[0], v->out, what, &v->writing, NULL, rest->memory, error);
}

const command command_convert = {
    .name = "convert",
    .path = "convert",
    .summary = "make a GGUF file of a Hugging Face folder",
    .usage = "FOLDER -o FILE [--type TYPE] [--predictors FOLDER] [options]",
    .about =
        "Writes a folder with config.json, safetensors and tokenizer as one GGUF file that hearth and other programs "
        "read. Nothing is written unless the folder is a model that hearth understands; one-dimensional tensors "
        "stay float32. The file appears under its name when it is whole. With --predictors it is a PowerInfer file: "
        "down matrices transposed, and beside each layer the small network that foretells which neurons fire, which "
        "`--sparsity predicted` runs. A tune file will do in place of the folder where all its predictors are of "
        "PowerInfer's kind (`hearth tune --for-powerinfer`); they are scaled so that one threshold serves all layers.",
    .example = "  $ hearth convert stories-relu -o stories-relu.gguf\n"
               "  token_embd.weight                       512 x 128  bf16\n"
               "  output_norm.weight                        1 x 128  bf16 -> f32  (norm)\n"
               "  ...\n"
               "  stories-relu.gguf: 56 tensors, 3.08 MB -> 3.09 MB in 0.1 s, 41 MB/s\n"
               "  $ hearth convert ReluLLaMA-7B --predictors ReluLLaMA-7B-Predictor --type q4_0 -o relullama.gguf\n"
               "  $ hearth convert stories-relu --predictors stories-relu.tune -o stories-relu.powerinfer.gguf",
    .tables = {OPTION_TABLE("writing", rows, 0),
               {"computing", writing_option_rows, WRITING_OPTION_COUNT, offsetof(convert_values, writing)}},
    .values_size = sizeof(convert_values),
    .operands_least = 1,
    .operands_most = 1,
    .run = run_convert,
};
