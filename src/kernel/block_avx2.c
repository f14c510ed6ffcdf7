#include "levels.h"

void avx2_add_blocks(kernels *k)
{
    (void)k;
}
