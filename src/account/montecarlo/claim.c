/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Monte Carlo test that is part of the mechanism, so that its answer holds without a confidence.
 *
 * N and a claim delta_b are fixed beforehand; the mechanism runs only if the mean of N samples of (1 - e^{epsilon -
 * L})_+ is at most delta_b, in both directions. Let the true delta of a direction be x. If x <= tau delta_b, the
 * mechanism is (epsilon, tau delta_b). If not, the test passes with probability at most exp(-N KL(delta_b || tau
 * delta_b)) (Hoeffding 1963, Theorem 1: samples in [0, 1], independent; their means may differ), and what runs then is
 * at worst not private at all. Hence, for any tau > 1, delta = tau delta_b + (1 - tau delta_b) exp(-N KL(delta_b || tau
 * delta_b)) holds for any outcome of the samples; the best tau is fixed by N and delta_b. The idea is that of Wang et
 * al. 2023: estimate, verify, release.
 */
#include "account/montecarlo/pass.h"

#include <inttypes.h>
#include <math.h>

/* KL(a || x) of two coins, 0 < a <= x < 1. */
static double divergence(double a, double x) {
    return (1 - a) * log1p((x - a) / (1 - x)) - a * log(x / a);
}

/* delta with x = tau delta_b */
static double with_tau(double delta_b, double x, double samples) {
    return x + (1 - x) * exp(-samples * divergence(delta_b, x));
}

double montecarlo_unconditional(double delta_b, int64_t samples) {
    static const double golden = 0.61803398874989484820;
    const double count = (double)samples, span = -log(delta_b); /* z = ln(x / delta_b) from 0 to span */
    enum { GRID = 256 };
    double best = 1, at = 0;
    for (int i = 1; i < GRID; i++) {
        const double z = span * i * i / (GRID * GRID), value = with_tau(delta_b, delta_b * exp(z), count);
        if (value < best) best = value, at = i;
    }
    if (at == 0) return 1;
    double low = span * (at - 1) * (at - 1) / (GRID * GRID), high = span * fmin((at + 1) * (at + 1) / (GRID * GRID), 1);
    while (high - low > 1e-9 * high) { /* any tau is valid: this only makes the answer small */
        const double left = high - golden * (high - low), right = low + golden * (high - low);
        if (with_tau(delta_b, delta_b * exp(left), count) < with_tau(delta_b, delta_b * exp(right), count))
            high = right;
        else
            low = left;
    }
    return fmin(best, with_tau(delta_b, delta_b * exp(low), count));
}

dpmf_status montecarlo_claim(double delta, int64_t samples, double *delta_b) {
    if (!(delta > 0 && delta < 1)) {
        return base_fail(DPMF_ERROR_ARGUMENT, "delta = %g: (0, 1) is accepted", delta);
    }
    if (samples < 1 || samples > MONTECARLO_SAMPLES_MAX) {
        return base_fail(DPMF_ERROR_ARGUMENT, "%" PRId64 " samples: 1 to %" PRId64 " are accepted", samples,
                         MONTECARLO_SAMPLES_MAX);
    }
    double low = 1e-6 * delta, high = delta; /* a claim below a millionth of delta would never pass */
    if (montecarlo_unconditional(low, samples) > delta) {
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "delta = %g is out of reach of %" PRId64
                         " samples, for any claim: usually %.3g are too few, and %.3g are enough",
                         delta, samples, 10 / delta, 100 / delta);
    }
    while (high - low > 1e-9 * high) {
        const double middle = sqrt(low * high);
        if (montecarlo_unconditional(middle, samples) <= delta)
            low = middle;
        else
            high = middle;
    }
    *delta_b = low;
    return DPMF_OK;
}

dpmf_status montecarlo_test(const montecarlo_scheme *scheme, double epsilon, double delta_b, int64_t samples,
                            uint64_t seed, const dpmf_run *run, int *passed, double *mean) {
    TRY(montecarlo_check_epsilon(epsilon));
    if (!(delta_b > 0 && delta_b < 1)) {
        return base_fail(DPMF_ERROR_ARGUMENT, "a claim of delta = %g: (0, 1) is accepted", delta_b);
    }
    if (samples < 1 || samples > MONTECARLO_SAMPLES_MAX) {
        return base_fail(DPMF_ERROR_ARGUMENT, "%" PRId64 " samples: 1 to %" PRId64 " are accepted", samples,
                         MONTECARLO_SAMPLES_MAX);
    }
    montecarlo_passes a;
    TRY(montecarlo_passes_open(scheme, seed, run, &a));
    const double unused[2] = {0, 0};
    int64_t drawn = samples;
    montecarlo_side found[2];
    dpmf_status status = DPMF_OK;
    montecarlo_draws_aim(&a.draws, scheme->sigma, epsilon, 0); /* the theorem's samples: plain, in [0, 1] */
    /* a run that no search uses, so that what they found with the same seed is tested on other samples */
    TRY_DONE(montecarlo_passes_draw(&a, 1 << 20, unused, &drawn, found));
    *mean = fmax(found[0].mean, found[1].mean);
    *passed = *mean <= delta_b;
done:
    montecarlo_passes_close(&a);
    return status;
}
