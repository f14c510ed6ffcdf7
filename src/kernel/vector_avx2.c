#include "levels.h"

void avx2_add_vectors(kernels *k)
{
    (void)k;
}
