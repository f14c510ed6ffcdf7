/* plant.h - the mathematics of planted sparsity: how often each neuron fires, and what a predictor must know of it.
 *
 * A neuron computes Z - t, where Z is a standard normal variable over the tokens, and fires where that is positive: so
 * with probability p where t is the quantile of 1 - p. The predictor sees S, another standard normal variable,
 * correlated with Z by rho, and lets the neuron through where S >= tau. Of the tokens that the neuron fires for it
 * finds the share P(S >= tau | Z > t), the recall.
 *
 * Nothing is taken from libm: its functions may differ in the last bit from machine to machine, and these numbers decide
 * bytes of files. Additions, multiplications, divisions and square roots are the same everywhere (IEEE 754, no
 * contraction: see CMakeLists.txt). */
#ifndef BENCH_PLANT_H
#define BENCH_PLANT_H

#include "counter.h"

#include "../src/base/error.h"

/* e^x for |x| < 700; the natural logarithm of x > 0. */
double plant_exp(double x);
double plant_log(double x);
/* The standard normal distribution: its density at x; P(Z > x), good to 1e-15 (and 0 beyond 8); the x with
 * P(Z > x) = p, 0 < p < 1, within +-8. */
double normal_density(double x);
double normal_tail(double x);
double normal_quantile(double p);

void normal_table_fill(normal_table *table);

/* P(S >= tau | Z > t) for correlation rho < 1. */
double plant_recall(double rho, double t, double tau);

/* What is wanted of a layer. */
typedef struct plant_wish {
    uint32_t neurons;    /* f */
    double density;      /* mean probability to fire                                            */
    double hot, share;   /* the hottest `hot` of the neurons make `share` of all activations    */
    double recall, over; /* of the predictor: its recall; neurons let through for each that fires */
} plant_wish;

/* What follows from it, neurons sorted from the hottest to the coldest. */
typedef struct plant_curve {
    double *t;     /* [f] the neuron fires where Z > t                        */
    double *tau;   /* [f] the predictor lets it through where S >= tau        */
    double rho;    /* correlation of Z and S                                  */
    double square; /* sum over the neurons of the mean of max(0, Z - t)^2      */
    double fourth; /* and of max(0, Z - t)^4                                   */
} plant_curve;

/* Probabilities follow min(0.95, a u^-g) over the rank u in (0, 1); a and g make density and share come out. Where
 * share <= hot all are equal. HEARTH_INVALID: a wish that no curve fulfils; the text says what the most would be. */
hearth_status plant_curve_make(plant_curve *c, const plant_wish *wish, hearth_error *error);
void plant_curve_free(plant_curve *c);

#endif
