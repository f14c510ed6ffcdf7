/* perplexity.h - measures how well a model predicts a text.
 *
 * Whole windows (hearth's own protocol): the text is tokenized as a whole and cut, without overlap, into windows of N -
 * 1 tokens, each preceded by BOS where the model has one; every token is scored. Where the model has no BOS the windows
 * have N tokens and the first token of each only serves as context.
 * Half windows (llama.cpp's protocol, docs/files.md): windows of N tokens whose first is replaced by BOS where the
 * vocabulary adds it; positions N / 2 .. N - 2 predict the token after them, the first half is context. */
#ifndef EVAL_PERPLEXITY_H
#define EVAL_PERPLEXITY_H

#include "../base/text.h"

typedef struct perplexity_options {
    uint32_t context; /* N; 0: the model's                                                   */
    hearth_kv kv;
    /* between documents, whose surrounding ASCII blanks are left out; only the first window of each is scored. NULL:
     * one text */
    const char *separator;
    uint32_t document_limit; /* at most this many documents; 0: all */
    bool half_windows;
    hearth_progress progress; /* counts windows, or documents */
} perplexity_options;

typedef struct perplexity_result {
    uint64_t tokens; /* scored    */
    uint64_t windows;
    double nll;       /* sum of -log p, natural logarithm, in double */
    uint32_t context; /* N as it was used */
} perplexity_result;

/* Scores the text. HEARTH_UNSUPPORTED: the model has no tokenizer. HEARTH_FORMAT: the text is too short to score. */
hearth_status perplexity_measure(perplexity_result *out, const hearth_engine *engine, span text, const char *text_name,
                                 const perplexity_options *options, hearth_error *error);

#endif
