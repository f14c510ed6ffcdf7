/* pooling.c - vectors of texts. */
#include "pooling.h"

#include <math.h>

void pooling_add(pooling how, const float *hidden, size_t count, size_t d, double *sum)
{
    for (size_t i = how == POOLING_LAST ? count - 1 : 0; i < count; i++)
        for (size_t k = 0; k < d; k++)
            sum[k] = (how == POOLING_LAST ? 0 : sum[k]) + (double)hidden[i * d + k];
}

void pooling_finish(pooling how, const double *sum, size_t count, size_t d, float *out)
{
    for (size_t k = 0; k < d; k++)
        out[k] = (float)(how == POOLING_LAST ? sum[k] : sum[k] / (double)count);
}

void pooling_normalize(float *v, size_t n)
{
    double square = 0;
    for (size_t k = 0; k < n; k++)
        square += (double)v[k] * (double)v[k];
    for (size_t k = 0; k < n && square > 0; k++)
        v[k] = (float)((double)v[k] / sqrt(square));
}
