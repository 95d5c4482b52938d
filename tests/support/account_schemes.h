/* SPDX-License-Identifier: Apache-2.0 */
/* Small sampling schemes and their exact delta, for the Monte Carlo tests, short and long. */
#ifndef DPMF_TESTS_ACCOUNT_SCHEMES_H
#define DPMF_TESTS_ACCOUNT_SCHEMES_H

#include "account/montecarlo/montecarlo.h"
#include "base/special.h"
#include <math.h>
#include <stdlib.h>

/* Gram matrix (malloc'ed) of the bins of a Toeplitz C: bin j touches steps j, j + bins, ... */
static double *toeplitz_gram(int64_t steps, int64_t bins, int64_t count, const double *c) {
    double *m = calloc((size_t)(bins * steps), sizeof *m), *gram = calloc((size_t)(bins * bins), sizeof *gram);
    for (int64_t i = 0; i < steps; i++)
        for (int64_t j = 0; j < count && i + j < steps; j++)
            m[i % bins * steps + i + j] += c[j];
    for (int64_t i = 0; i < bins; i++)
        for (int64_t j = 0; j < bins; j++)
            for (int64_t t = 0; t < steps; t++)
                gram[i * bins + j] += m[i * steps + t] * m[j * steps + t];
    free(m);
    return gram;
}

/* Columns (malloc'ed) of a Toeplitz C. */
static double *toeplitz_columns(int64_t steps, int64_t bands, const double *c) {
    double *columns = calloc((size_t)(steps * bands), sizeof *columns);
    for (int64_t i = 0; i < steps; i++)
        for (int64_t j = 0; j < bands && i + j < steps; j++)
            columns[i * bands + j] = c[j];
    return columns;
}

/* delta of the Gaussian mechanism, by its formula. */
static double gaussian_delta(double mu, double epsilon) {
    return base_normal_cdf(mu / 2 - epsilon / mu) - exp(epsilon) * base_normal_cdf(-mu / 2 - epsilon / mu);
}

/* delta of one step of the Poisson-subsampled Gaussian, remove direction: q delta(ln(1 + (e^epsilon - 1)/q)). */
static double subsampled_delta(double q, double mu, double epsilon) {
    return q * gaussian_delta(mu, log1p(expm1(epsilon) / q));
}

#endif
