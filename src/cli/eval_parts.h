/* eval_parts.h - the parts of `hearth eval`, a file each. */
#ifndef CLI_EVAL_PARTS_H
#define CLI_EVAL_PARTS_H

#include "command.h"

extern const command eval_ppl;
extern const command eval_kl;
extern const command eval_humaneval;
extern const command eval_logits;
extern const command eval_sparsity;

#endif
