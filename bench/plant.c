/* plant.c - see plant.h. */
#include "plant.h"

#include "../src/base/memory.h"

#include <math.h> /* sqrt, frexp, ldexp: exact by IEEE 754 */

#define HOTTEST 0.95 /* no neuron fires more often */

/* ------------------------------------------------------- elementary functions */

/* 1 / n! */
static const double taylor[] = {
    1.0,
    1.0,
    1.0 / 2,
    1.0 / 6,
    1.0 / 24,
    1.0 / 120,
    1.0 / 720,
    1.0 / 5040,
    1.0 / 40320,
    1.0 / 362880,
    1.0 / 3628800,
    1.0 / 39916800,
    1.0 / 479001600,
    1.0 / 6227020800,
    1.0 / 87178291200,
};

double plant_exp(double x)
{
    /* x = k ln 2 + r with |r| <= 0.35; ln 2 in two parts, so that k times the first is exact. */
    const double high = 0x1.62e42fee00000p-1, low = 0x1.a39ef35793c76p-33;
    int k = (int)(x * 0x1.71547652b82fep0 + (x < 0 ? -0.5 : 0.5));
    double r = (x - k * high) - k * low, sum = 0;
    for (size_t n = sizeof taylor / sizeof taylor[0]; n-- > 0;)
        sum = taylor[n] + r * sum;
    return ldexp(sum, k);
}

double plant_log(double x)
{
    int k;
    double m = frexp(x, &k);
    if (m < 0x1.6a09e667f3bcdp-1) { /* sqrt(1/2): m in [0.707, 1.414) */
        m *= 2;
        k--;
    }
    /* 2 artanh(s), |s| <= 0.172 */
    double s = (m - 1) / (m + 1), square = s * s, sum = 0;
    for (int n = 23; n >= 1; n -= 2)
        sum = sum * square + 1.0 / n;
    return 2 * s * sum + k * 0x1.62e42fefa39efp-1;
}

double normal_density(double x)
{
    return 0x1.9884533d43651p-2 * plant_exp(-0.5 * x * x); /* 1 / sqrt(2 pi) */
}

double normal_tail(double x)
{
    double a = x < 0 ? -x : x;
    if (a > 8)
        return x < 0 ? 1 : 0;
    /* P(0 < Z < a) = density(a) (a + a^3 / 3 + a^5 / (3 * 5) + ...) */
    double sum = a, term = a;
    for (int k = 3; term > sum * 1e-17; k += 2) {
        term *= a * a / k;
        sum += term;
    }
    double half = normal_density(a) * sum;
    double tail = half < 0.5 ? 0.5 - half : 0;
    return x < 0 ? 1 - tail : tail;
}

/* x between low and high at which the falling function f(x, context) reaches y. */
static double solve_falling(double (*f)(double, const void *), const void *context, double y, double low, double high,
                            int steps)
{
    for (int i = 0; i < steps; i++) {
        double middle = 0.5 * (low + high);
        if (f(middle, context) > y)
            low = middle;
        else
            high = middle;
    }
    return 0.5 * (low + high);
}

static double tail_of(double x, const void *context)
{
    (void)context;
    return normal_tail(x);
}

double normal_quantile(double p)
{
    return solve_falling(tail_of, NULL, p, -8, 8, 56);
}

void normal_table_fill(normal_table *table)
{
    double upper[COUNTER_NORMALS / 2], square = 0;
    for (int i = 0; i < COUNTER_NORMALS / 2; i++) {
        upper[i] = normal_quantile((i + 0.5) / COUNTER_NORMALS);
        square += 2 * upper[i] * upper[i];
    }
    double scale = 1 / sqrt(square / COUNTER_NORMALS);
    for (int i = 0; i < COUNTER_NORMALS / 2; i++) {
        table->value[COUNTER_NORMALS - 1 - i] = (float)(scale * upper[i]);
        table->value[i] = (float)(scale * -upper[i]);
    }
}

/* ---------------------------------------------------------------- power law */

typedef struct power_law {
    const plant_wish *wish;
    const double *log_u; /* [f] logarithm of a neuron's rank in (0, 1) */
    double *p;           /* [f] */
    double g;
} power_law;

/* Mean of min(HOTTEST, a u^-g) for a given logarithm of 1 / a; fills p. */
static double mean_of(double minus_log_a, const void *context)
{
    const power_law *law = context;
    uint32_t f = law->wish->neurons;
    double sum = 0, top = plant_log(HOTTEST);
    for (uint32_t i = 0; i < f; i++) {
        double log_p = -minus_log_a - law->g * law->log_u[i];
        law->p[i] = log_p > top ? HOTTEST : log_p < -40 ? 0 : plant_exp(log_p);
        sum += law->p[i];
    }
    return sum / f;
}

/* Share of the activations that the hottest make, for an exponent; fills p. */
static double share_of(power_law *law, double g)
{
    const plant_wish *w = law->wish;
    law->g = g;
    mean_of(solve_falling(mean_of, law, w->density, -1, 40, 52), law);
    uint32_t hot = (uint32_t)(w->hot * w->neurons);
    double sum = 0, all = 0;
    for (uint32_t i = 0; i < w->neurons; i++) {
        sum += i < hot ? law->p[i] : 0;
        all += law->p[i];
    }
    return sum / all;
}

/* Fills p, hottest first. */
static hearth_status power_law_make(double *p, const plant_wish *w, hearth_error *error)
{
    for (uint32_t i = 0; i < w->neurons; i++)
        p[i] = w->density;
    if (w->share <= w->hot)
        return HEARTH_OK;
    double *log_u = mem_new_array(w->neurons, sizeof *log_u);
    if (!log_u)
        return fail_memory(error, "power law", w->neurons * sizeof *log_u);
    for (uint32_t i = 0; i < w->neurons; i++)
        log_u[i] = plant_log((i + 0.5) / w->neurons);
    power_law law = {.wish = w, .log_u = log_u, .p = p};
    double low = 0, high = 4, most = share_of(&law, high);
    for (int i = 0; most >= w->share && i < 36; i++) {
        law.g = 0.5 * (low + high);
        if (share_of(&law, law.g) < w->share)
            low = law.g;
        else
            high = law.g;
    }
    mem_free(log_u);
    if (most >= w->share)
        return HEARTH_OK;
    return fail(error, HEARTH_INVALID,
                "density %g: the hottest %g of the neurons cannot make %g of the activations, at most %.2f", w->density,
                w->hot, w->share, most);
}

/* ---------------------------------------------------------------- predictors */

double plant_recall(double rho, double t, double tau)
{
    /* Simpson's rule over z from t to t + 8, of density(z) P(S >= tau | Z = z); S given z is normal around rho z. */
    enum { STEPS = 48 };
    const double h = 8.0 / STEPS;
    double spread = 1 / sqrt(1 - rho * rho), found = 0, all = 0;
    for (int i = 0; i <= STEPS; i++) {
        double z = t + i * h;
        double weight = (i == 0 || i == STEPS ? 1 : i % 2 ? 4 : 2) * normal_density(z);
        found += weight * normal_tail((tau - rho * z) * spread);
        all += weight;
    }
    return found / all;
}

typedef struct recall_at {
    double rho, t;
} recall_at;

static double recall_of(double tau, const void *context)
{
    const recall_at *at = context;
    return plant_recall(at->rho, at->t, tau);
}

/* Fills tau for a correlation, and returns how many neurons are let through for each that fires. tau is a smooth function
 * of t: it is solved on a grid and interpolated. */
static double thresholds_for(const plant_curve *c, const plant_wish *w, double rho)
{
    enum { GRID = 33 };
    double tau[GRID], low = c->t[0], high = c->t[0], through = 0;
    for (uint32_t i = 1; i < w->neurons; i++)
        high = c->t[i] > high ? c->t[i] : high;
    double step = high > low ? (high - low) / (GRID - 1) : 1;
    for (int i = 0; i < GRID; i++) {
        recall_at at = {rho, low + i * step};
        tau[i] = solve_falling(recall_of, &at, w->recall, -10, 10, 26);
    }
    for (uint32_t i = 0; i < w->neurons; i++) {
        double place = (c->t[i] - low) / step;
        int cell = (int)place < GRID - 2 ? (int)place : GRID - 2;
        c->tau[i] = tau[cell] + (place - cell) * (tau[cell + 1] - tau[cell]);
        through += normal_tail(c->tau[i]);
    }
    return through / (w->density * w->neurons);
}

/* The better the predictor knows, the fewer neurons it has to let through for the same recall. */
static hearth_status find_rho(plant_curve *c, const plant_wish *w, hearth_error *error)
{
    const double best = 0.9995;
    double low = 0, high = best, least = thresholds_for(c, w, best), most = thresholds_for(c, w, 0);
    if (w->over < least || w->over > most)
        return fail(error, HEARTH_INVALID,
                    "recall %g: a predictor lets through %.2f to %.2f neurons for each that fires, not %g", w->recall,
                    least, most, w->over);
    for (int i = 0; i < 18; i++) {
        c->rho = 0.5 * (low + high);
        if (thresholds_for(c, w, c->rho) > w->over)
            low = c->rho;
        else
            high = c->rho;
    }
    thresholds_for(c, w, c->rho);
    return HEARTH_OK;
}

hearth_status plant_curve_make(plant_curve *c, const plant_wish *wish, hearth_error *error)
{
    *c = (plant_curve){.t = mem_new_array(wish->neurons, sizeof(double)),
                       .tau = mem_new_array(wish->neurons, sizeof(double))};
    hearth_status status = HEARTH_OK;
    if (!c->t || !c->tau) {
        status = fail_memory(error, "thresholds", 2 * wish->neurons * sizeof(double));
        goto done;
    }
    TRY_OR(done, status, power_law_make(c->t, wish, error));
    for (uint32_t i = 0; i < wish->neurons; i++) {
        double t = c->t[i] > 1e-12 ? normal_quantile(c->t[i]) : 8;
        c->t[i] = t;
        c->square += (1 + t * t) * normal_tail(t) - t * normal_density(t);
        c->fourth += (3 + 6 * t * t + t * t * t * t) * normal_tail(t) - (5 * t + t * t * t) * normal_density(t);
    }
    TRY_OR(done, status, find_rho(c, wish, error));
done:
    if (status != HEARTH_OK)
        plant_curve_free(c);
    return status;
}

void plant_curve_free(plant_curve *c)
{
    mem_free(c->t);
    mem_free(c->tau);
    *c = (plant_curve){0};
}
