#include "levels.h"

void avx2_add_floats(kernels *k)
{
    (void)k;
}
