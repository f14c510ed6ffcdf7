/* score.c - log-probabilities, of the model itself: before temperature and the like. */
#include "score.h"

#include <math.h>

static double plain(float logit)
{
    return isnan(logit) ? -INFINITY : isinf(logit) && logit > 0 ? (double)__FLT_MAX__ : (double)logit;
}

/* Returns the logarithm of the sum that makes probabilities of logits. */
static double log_sum(const float *logits, size_t n)
{
    double most = -INFINITY, sum = 0;
    for (size_t i = 0; i < n; i++)
        most = plain(logits[i]) > most ? plain(logits[i]) : most;
    for (size_t i = 0; i < n && !isinf(most); i++)
        sum += (double)expf((float)(plain(logits[i]) - most));
    return isinf(most) ? INFINITY : most + log(sum);
}

/* Keeps the likeliest so far, in order; of equal ones the lowest number. */
static void insert(candidate *likeliest, size_t *held, size_t count, candidate c)
{
    size_t at = *held < count ? (*held)++ : count - 1;
    while (at > 0 && likeliest[at - 1].log_probability < c.log_probability) {
        likeliest[at] = likeliest[at - 1];
        at--;
    }
    likeliest[at] = c;
}

void score_token(const float *logits, size_t n, candidate *token, candidate *likeliest, size_t count)
{
    double sum = log_sum(logits, n);
    bool known = token->token >= 0 && (size_t)token->token < n;
    size_t held = 0;
    token->log_probability = known ? plain(logits[token->token]) - sum : -INFINITY;
    for (size_t i = 0; i < n && count > 0; i++) {
        double value = plain(logits[i]) - sum;
        if (held < count || value > likeliest[count - 1].log_probability)
            insert(likeliest, &held, count, (candidate){(int32_t)i, value});
    }
}
