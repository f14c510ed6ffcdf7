/* eval_internal.h - the subcommands of `hearth eval`, one file each, and what they share. */
#ifndef CLI_EVAL_INTERNAL_H
#define CLI_EVAL_INTERNAL_H

#include "command.h"

extern const command eval_ppl;
extern const command eval_kl;
extern const command eval_humaneval;
extern const command eval_logits;
extern const command eval_sparsity;

/* Warns on standard error that programs written by a model are run here, and how they are isolated; `sandbox` comes
 * from humaneval_can_check. Defined in eval_humaneval.c. */
void eval_say_sandbox(const char *sandbox, double timeout_seconds);

#endif
