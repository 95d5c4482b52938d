/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the guarantee of a mechanism twice: sigma against (epsilon, delta).
 *
 * By the route of calibration, two-sided: the least sigma for the guarantee is computed again and must be the claimed
 * one. And from sigma back to the guarantee by a route that shares nothing with it:
 *
 *     no sampling             delta as the integral of what the shifted Gaussian has above e^epsilon times the other,
 *                             delta = int (phi(x - mu) - e^epsilon phi(x))_+ dx,  mu = 1/sigma,
 *                             by quadrature; calibration uses its closed form (Balle and Wang 2018, Theorem 8)
 *     Poisson, block-cyclic   epsilon by inversion of the moment generating function; sigma comes from the certified
 *                             bound, so the contour's epsilon, near exact, must not exceed the claim
 *     caps, allocation, bins, Poisson with several bands  epsilon at sigma and delta by the certified account, named with its theorem: the same curves, read
 *                             the other way
 *     simulation              delta at sigma and epsilon by samples with fresh randomness: the same route, other numbers
 *
 * With x = x0 + y, x0 = epsilon/mu + mu/2 where the two densities cross, delta = int_0^inf phi(x0 - mu + y)
 * (1 - e^(-mu y)) dy, smooth and falling: y = exp(s - e^-s) makes the trapezoidal rule converge doubly exponentially.
 */
#include "verify/verify.h"

#include "account/account.h"
#include "base/random.h"
#include "strategy/strategy.h"

#include <math.h>

double verify_gaussian_delta(double mu, double epsilon) {
    const double from = -5, to = 6, step = 1.0 / 64; /* y from e^-150 to e^6, by when phi is 0 in doubles */
    const double cross = epsilon / mu + mu / 2, start = cross - mu;
    double sum = 0;
    for (int i = 0; from + i * step <= to; i++) {
        const double s = from + i * step, y = exp(s - exp(-s)), x = start + y;
        sum += exp(-x * x / 2) * -expm1(-mu * y) * y * (1 + exp(-s));
    }
    return sum * step / sqrt(2 * M_PI);
}

/* An upper bound that is looser than this was not made by this library's calibration. */
static const double LOOSE = 0.02;

/* From sigma and delta back to epsilon: by the contour where `other`, else by calibration's own account, certified here too. */
static dpmf_status check_back(verify_task *v, int other) {
    static const char inverted[] =
        "inversion of the moment generating function: an estimate, not above the claim, which is "
        "an upper bound";
    const dpmf_mechanism *m = v->mechanism;
    const char *what = other ? "the contour integral" : "it";
    const double tolerance = other ? VERIFY_TOLERANCE_OTHER : 1e-3; /* of two bounds, each with a slack of its own */
    dpmf_account_options how = dpmf_mechanism_account_options(m);
    dpmf_privacy found = {0};
    int made = 1;
    how.run = *v->run;
    dpmf_status status = other ? account_estimate_epsilon(m->sigma, m->problem.delta, &how, &found.epsilon, &made)
                               : dpmf_account_epsilon(m->sigma, m->problem.delta, &how, &found);
    if (status != DPMF_OK && !verify_is_verdict(status)) return status;
    if (status != DPMF_OK || !made) {
        verify_check_skip(v->out, "epsilon", "%s cannot be computed here%s%s", what, status == DPMF_OK ? "" : ": ",
                          status == DPMF_OK ? "" : dpmf_last_error());
        return DPMF_OK;
    }
    const dpmf_check check = {.name = "epsilon",
                              .ok = found.epsilon <= m->problem.epsilon * (1 + tolerance) &&
                                    found.epsilon >= m->problem.epsilon * (1 - LOOSE),
                              .claimed = m->problem.epsilon,
                              .found = found.epsilon,
                              .tolerance = tolerance};
    if (other)
        verify_check_add(v->out, check, "at sigma and delta, by %s", inverted);
    else
        verify_check_add(v->out, check, "at sigma and delta, again: %s (%s)", found.method,
                         dpmf_certainty_name(found.kind));
    return DPMF_OK;
}

/* What only a simulation can tell is tested with fresh randomness, on which the claim could not depend. */
static dpmf_status check_by_samples(verify_task *v) {
    const dpmf_mechanism *m = v->mechanism;
    dpmf_account_options how = dpmf_mechanism_account_options(m);
    dpmf_privacy found = {0};
    int asked = 0, shown = 0;
    how.run = *v->run;
    TRY(base_random_seed(&how.seed));
    TRY(account_confirm(m->sigma, m->problem.epsilon, m->problem.delta, &how, &found, &asked, &shown));
    if (!asked) {
        verify_check_skip(v->out, "epsilon", "simulation is the only method for this sampling");
        return DPMF_OK;
    }
    const dpmf_check check = {
        .name = "delta", .ok = shown, .claimed = m->problem.delta, .found = found.delta, .tolerance = 0};
    verify_check_add(v->out, check,
                     shown
                         ? "at most this at the claimed epsilon, by a simulation with fresh randomness (confidence %g; "
                           "it fails a true claim of calibration with probability 1e-6)"
                         : "estimated: a simulation with fresh randomness does not show the claim (confidence %g)",
                     found.confidence);
    return DPMF_OK;
}

/* Without sampling sigma is exact; else accounts get tighter: an older file may have more noise than is needed, never less. */
static const double OLDER = 1e-3;

dpmf_status verify_privacy(verify_task *v) {
    const dpmf_mechanism *m = v->mechanism;
    dpmf_account_options how = dpmf_mechanism_account_options(m);
    dpmf_privacy found = {0};
    if (m->problem.epsilon == 0) {
        verify_check_skip(v->out, "sigma",
                          m->sigma == 0 ? "not calibrated: no guarantee is claimed"
                                        : "no guarantee is claimed to compare it with");
        return DPMF_OK;
    }
    TRY(base_progress(v->run, "verify: privacy", 0));
    how.run = *v->run;
    dpmf_status status = dpmf_calibrate_sigma(m->problem.epsilon, m->problem.delta, &how, &found);
    if (status != DPMF_OK && !verify_is_verdict(status)) return status;
    if (status != DPMF_OK) {
        const dpmf_check check = {.name = "sigma", .claimed = m->sigma, .found = NAN};
        verify_check_add(v->out, check, "the guarantee cannot be computed: %s", dpmf_last_error());
        return DPMF_OK;
    }
    const double more = dpmf_sampling_is_none(&m->sampling) ? VERIFY_TOLERANCE_OTHER : OLDER;
    const int above = m->sigma > found.sigma * (1 + VERIFY_TOLERANCE_OTHER);
    const dpmf_check check = {.name = "sigma",
                              .ok = m->sigma >= found.sigma * (1 - VERIFY_TOLERANCE_OTHER) &&
                                    m->sigma <= found.sigma * (1 + more),
                              .claimed = m->sigma,
                              .found = found.sigma,
                              .tolerance = above ? more : VERIFY_TOLERANCE_OTHER};
    verify_check_add(v->out, check, "the least sigma for the guarantee, again: %s (%s)%s", found.method,
                     dpmf_certainty_name(found.kind),
                     above && check.ok ? "; the file has a little more noise than this account needs" : "");
    if (dpmf_sampling_is_none(&m->sampling))
        verify_check_equal(v->out, "delta", m->problem.delta,
                           verify_gaussian_delta((m->group > 1 ? (double)m->group : 1) / m->sigma, m->problem.epsilon),
                           VERIFY_TOLERANCE_OTHER,
                           "delta of the Gaussian mechanism at sigma and epsilon, by quadrature");
    else if (account_sampling_composes(&m->sampling) && m->sampling.cap == 0 &&
             account_sampling_draws(&m->sampling, NULL) == 0)
        return check_back(v, !account_sampling_overlaps(&m->sampling) || strategy_bands(m->strategy) == 1);
    else if (found.confidence == 0)
        return check_back(v, 0);
    else
        return check_by_samples(v);
    return DPMF_OK;
}
