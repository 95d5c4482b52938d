/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random allocation against simulation: 50 settings, for test_allocation.c (some) and test_allocation_long.c (all).
 *
 * The simulation shares nothing with the account: samples of the loss with importance weights (account/montecarlo/). At the epsilon
 * of the account its mean is not above delta by more than 5 standard errors, so that the account is not below the lower
 * confidence bound (a false alarm in 3e-7 of the settings); at an epsilon 1 % smaller it is above delta, so that the account is within
 * 1 % of the simulated epsilon. Samples are doubled until 3 standard errors decide the latter.
 */
#ifndef DPMF_TESTS_SUPPORT_ALLOCATION_SIMULATED_H
#define DPMF_TESTS_SUPPORT_ALLOCATION_SIMULATED_H

#include "account/montecarlo/scheme.h"
#include "support/check.h"

#include <math.h>
#include <stdlib.h>

enum { ALLOCATION_SETTINGS = 50 };

typedef struct simulated {
    double mean, error; /* of delta, the larger direction; its standard error */
} simulated;

static inline simulated simulate(montecarlo_passes *a, double sigma, double epsilon, int64_t samples) {
    const double unused[2] = {0, 0};
    montecarlo_side found[2];
    simulated out = {0, 0};
    montecarlo_draws_aim(&a->draws, sigma, epsilon, 1);
    check_ok(montecarlo_passes_draw(a, 0, unused, &samples, found));
    for (int d = 0; d < 2; d++) {
        const double most = exp(found[d].log_most), mean = most * found[d].mean;
        if (!(mean > out.mean)) continue;
        out.mean = mean;
        out.error = most * sqrt(fmax(found[d].square - found[d].mean * found[d].mean, 0) / (double)samples);
    }
    return out;
}

static inline void check_allocation_setting(int number) {
    static const int64_t bins[] = {2, 3, 5, 12, 30};
    static const double deltas[] = {1e-3, 1e-5, 1e-6};
    const double sigma = 0.5 + 0.2 * (number % 10), delta = deltas[number % 3];
    const int64_t t = bins[number / 10];
    double *gram = calloc((size_t)(t * t), sizeof *gram);
    dpmf_account_options o = dpmf_account_options_defaults();
    montecarlo_passes a;
    dpmf_privacy p;
    const dpmf_run run = {.threads = 1};
    assert_non_null(gram);
    for (int64_t j = 0; j < t; j++)
        gram[j * t + j] = 1;
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_ALLOCATION, 0, t, 1, 0, 0};
    check_ok(dpmf_account_epsilon(sigma, delta, &o, &p));
    const montecarlo_scheme s = {.kind = MONTECARLO_SCHEME_BINS, .sigma = sigma, .bins = t, .gram = gram};
    check_ok(montecarlo_passes_open(&s, (uint64_t)(1000 + number), &run, &a));
    int64_t samples = 1 << 14;
    simulated below = {0, 0};
    do {
        samples *= 2;
        below = simulate(&a, sigma, 0.99 * p.epsilon, samples);
    } while (fabs(below.mean - delta) < 3 * below.error && samples < (int64_t)1 << 22);
    const simulated here = simulate(&a, sigma, p.epsilon, samples);
    if (!(here.mean - 5 * here.error <= delta && below.mean - 3 * below.error >= delta))
        fail_msg(
            "sigma %g, 1 of %lld, delta %g: epsilon %g, where simulation has %g (error %g), and 1 %% below it %g (%g)",
            sigma, (long long)t, delta, p.epsilon, here.mean, here.error, below.mean, below.error);
    montecarlo_passes_close(&a);
    free(gram);
}

/*
 * delta falls with epsilon and with sigma. Once an end of the grid and the end of the payoff, one number computed in two ways, differed
 * in the last bit at single epsilons, and all that pays nothing was counted: sigma was up to 47 % too large there.
 */
static double allocation_log_delta(double sigma, int64_t bins, double epsilon) {
    dpmf_account_options o = dpmf_account_options_defaults();
    dpmf_privacy p;
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_ALLOCATION, 0, bins, 1, 0, 0};
    check_ok(dpmf_account_delta(sigma, epsilon, &o, &p));
    return log(p.delta);
}

static inline void check_allocation_falls(int64_t bins, int sigmas, int epsilons, double width) {
    static const double SIGMAS[] = {.7, 1, 1.4, .6, .8, .9, 1.2, 2, 3, 5};
    /* A bound of ln delta may be above its value by this, the slack in epsilon times the slope. */
    for (int s = 0; s < sigmas; s++) {
        double before = 0, at = 0;
        for (int i = 1; i <= epsilons; i++, before = at) {
            at = allocation_log_delta(SIGMAS[s], bins, i * width);
            if (!(at <= before + 1e-3))
                fail_msg("sigma %g, 1 of %lld, epsilon %g: ln delta rises from %.9g to %.9g", SIGMAS[s],
                         (long long)bins, i * width, before, at);
            if (at < -300) break;
        }
    }
}

#endif
