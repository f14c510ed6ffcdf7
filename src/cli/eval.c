/* eval.c - `hearth eval`: the table of its subcommands, one for each measure of a model's output. */
#include "eval_internal.h"

static const command *const subcommands[] = {&eval_ppl, &eval_kl, &eval_humaneval, &eval_logits, &eval_sparsity, NULL};

const command command_eval = {
    .name = "eval",
    .path = "eval",
    .summary = "measure what a model says: perplexity, divergence, HumanEval, logits, what sparsity costs",
    .usage = "ppl|kl|humaneval|logits|sparsity MODEL ... [options]",
    .about = "Measures a model's output.",
    .example =
        "  $ hearth eval ppl stories-relu-q8_0.gguf text.txt --json\n"
        "  {\"tokens\":952,\"mean_nll\":1.6386900935,\"perplexity\":5.14842114301,\"windows\":2,\"context\":512,\n"
        "   \"mode\":\"exact\",\"guarantee\":\"bitwise\"}\n"
        "  $ hearth eval kl stories-relu-q8_0.gguf text.txt --against dense\n"
        "  $ hearth eval humaneval model.gguf --problems HumanEval.jsonl.gz\n"
        "  $ hearth eval logits model.gguf --ids 1,2,3 --out logits.f32",
    .subcommands = subcommands,
};
