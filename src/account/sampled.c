/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions about balls-in-bins and min-sep sampling: Monte Carlo from delta = 1e-6 up. Below, simulation cannot see
 * the event, and the answer is the guarantee without amplification, which always holds: C x is then one Gaussian
 * release of the sensitivity under cyclic or min-separation participation.
 *
 * `unconditional`: the number of samples and the claimed delta_b are fixed first; the mechanism is released only if the
 * test passes, so that the guarantee holds with no "with probability" (account/montecarlo/montecarlo.h). What candidate is tested
 * is searched for with other samples beforehand.
 */
#include "account/correlated.h"
#include "account/question.h"

#include <math.h>

static const double DELTA_MIN = 1e-6;

static const char METHOD_CONFIDENCE[] = "Monte Carlo, with the confidence stated";
static const char METHOD_UNCONDITIONAL[] = "Monte Carlo test as a part of the mechanism";
static const char METHOD_COUPLED[] = "Monte Carlo, with the confidence stated, coupled with uncapped sampling";
static const char METHOD_COUPLED_TEST[] = "Monte Carlo test as a part of the mechanism, coupled with uncapped sampling";
static const char METHOD_BOUNDED[] = "correlated balls in bins, Gram matrix bounded by a shared part and allocation";
static const char METHOD_UNSAMPLED[] = "without amplification, in closed form: smaller here than Monte Carlo can prove";
static const char METHOD_UNAMPLIFIED[] = "without amplification: Monte Carlo needs a delta of at least 1e-06";

static montecarlo_scheme scheme_at(const account_question *q, double sigma) {
    montecarlo_scheme s = q->scheme.scheme;
    s.sigma = sigma * q->options.sigma_unit * q->scheme.norm;
    return s;
}

/* With a cap: what coupling adds to delta (account/capped/separated.c). */
static double coupling(const account_question *q, double epsilon) {
    return q->missed > 0 ? q->missed * (1 + exp(epsilon)) * (1 + 1e-12) : 0;
}

/* Bins are bounded without simulation where simulation cannot see, or where certainty is asked for. */
static int is_bounded(const account_question *q, double delta) {
    return q->scheme.scheme.kind == MONTECARLO_SCHEME_BINS && !q->options.unconditional &&
           (delta < DELTA_MIN || q->options.engine == DPMF_ENGINE_CONNECT_THE_DOTS) &&
           q->options.engine != DPMF_ENGINE_MONTE_CARLO;
}

static grid_list_options bounding(const account_question *q) {
    return (grid_list_options){q->options.slack, 0.1 * q->options.slack, &q->options.run};
}

static dpmf_status bounded_epsilon(const account_question *q, const montecarlo_scheme *s, double delta,
                                   dpmf_privacy *out) {
    const grid_list_options options = bounding(q);
    double found = INFINITY;
    int met = 0;
    TRY(account_correlated_epsilon(s, log(delta), &options, &found, &met));
    out->epsilon = fmin(found, out->without_sampling);
    out->method = found < out->without_sampling ? METHOD_BOUNDED : METHOD_UNSAMPLED;
    out->slack_met = met;
    return DPMF_OK;
}

static montecarlo_options how(const account_question *q) {
    return (montecarlo_options){.samples = q->options.samples,
                                .confidence = q->options.confidence,
                                .seed = q->options.seed,
                                .run = &q->options.run};
}

/* For the test: as many samples as let delta_b be about half of delta. */
static int64_t test_samples(const account_question *q, double delta) {
    return q->options.samples > 0 ? q->options.samples : (int64_t)(110 / delta);
}

static void with_confidence(const account_question *q, dpmf_privacy *out) {
    out->method = METHOD_CONFIDENCE;
    out->confidence = q->options.confidence;
}

static void name_method(const account_question *q, dpmf_privacy *out) {
    if (!q->options.unconditional) with_confidence(q, out);
    if (q->options.unconditional) out->method = METHOD_UNCONDITIONAL;
    if (q->missed > 0) out->method = q->options.unconditional ? METHOD_COUPLED_TEST : METHOD_COUPLED;
}

static uint64_t other_seed(const account_question *q) {
    return q->options.seed ^ 0x9e3779b97f4a7c15u; /* the test's samples must not be those of the search */
}

/* Tests (epsilon, sigma) against the claim; DPMF_ERROR_NUMERICAL if it does not pass. */
static dpmf_status pass_test(const account_question *q, const montecarlo_scheme *s, double epsilon, double delta_b,
                             int64_t samples) {
    int passed = 0;
    double mean = 0;
    TRY(montecarlo_test(s, epsilon, delta_b, samples, other_seed(q), &q->options.run, &passed, &mean));
    if (passed) return DPMF_OK;
    return base_fail(
        DPMF_ERROR_NUMERICAL,
        "the unconditional test failed (mean %.4g, claim %.4g): do not release the mechanism on it; try more samples",
        mean, delta_b);
}

static dpmf_status uncapped_epsilon(const account_question *q, double sigma, double delta, dpmf_privacy *out) {
    montecarlo_scheme s = scheme_at(q, sigma);
    montecarlo_options o = how(q);
    if (is_bounded(q, delta)) return bounded_epsilon(q, &s, delta, out);
    if (delta < DELTA_MIN) {
        out->epsilon = out->without_sampling;
        out->method = METHOD_UNAMPLIFIED;
        return DPMF_OK;
    }
    if (!q->options.unconditional) {
        TRY(montecarlo_epsilon(&s, delta, &o, &out->epsilon));
        with_confidence(q, out);
    } else {
        int64_t samples = test_samples(q, delta);
        double delta_b = 0;
        TRY(montecarlo_claim(delta, samples, &delta_b));
        TRY(montecarlo_epsilon(&s, delta_b, &o, &out->epsilon));
        TRY(pass_test(q, &s, out->epsilon, delta_b, samples));
        out->method = METHOD_UNCONDITIONAL;
    }
    if (out->epsilon >= out->without_sampling) {
        out->epsilon = out->without_sampling;
        out->method = METHOD_UNSAMPLED;
        out->confidence = 0;
    }
    return DPMF_OK;
}

/* With a cap: a part of delta is set aside for the coupling, more where that turns out to be too little. */
dpmf_status account_sampled_epsilon(const account_question *q, double sigma, double delta, dpmf_privacy *out) {
    static const double parts[] = {0.01, 0.1, 0.5};
    const dpmf_privacy asked = *out;
    if (q->missed == 0) return uncapped_epsilon(q, sigma, delta, out);
    for (int i = 0; i < (int)(sizeof parts / sizeof *parts); i++) {
        if (coupling(q, 0) > parts[i] * delta) continue;
        *out = asked;
        TRY(uncapped_epsilon(q, sigma, (1 - parts[i]) * delta, out));
        if (out->method == METHOD_UNSAMPLED || out->method == METHOD_UNAMPLIFIED) break;
        if (coupling(q, out->epsilon) > parts[i] * delta) continue;
        out->method = q->options.unconditional ? METHOD_COUPLED_TEST : METHOD_COUPLED;
        return DPMF_OK;
    }
    *out = asked;
    out->epsilon = out->without_sampling;
    out->method = METHOD_UNSAMPLED;
    return DPMF_OK;
}

static dpmf_status unconditional_delta(const account_question *q, const montecarlo_scheme *s, double epsilon,
                                       double delta_b, double *delta) {
    int64_t samples = test_samples(q, 2 * delta_b);
    TRY(pass_test(q, s, epsilon, delta_b, samples));
    *delta = montecarlo_unconditional(delta_b, samples);
    return DPMF_OK;
}

dpmf_status account_sampled_delta(const account_question *q, double sigma, double epsilon, dpmf_privacy *out) {
    montecarlo_scheme s = scheme_at(q, sigma);
    montecarlo_options o = how(q);
    double delta = 1, unamplified;
    if (is_bounded(q, 1)) {
        const grid_list_options options = bounding(q);
        int met = 0;
        TRY(account_correlated_log_delta(&s, epsilon, &options, &delta, &met));
        *out = account_question_answer(q, sigma, epsilon, fmin(exp(delta), 1));
        out->method = METHOD_BOUNDED;
        out->slack_met = met;
        return DPMF_OK;
    }
    TRY(montecarlo_delta(&s, epsilon, &o, &delta));
    if (q->options.unconditional) TRY(unconditional_delta(q, &s, epsilon, delta, &delta));
    delta = fmin(delta + coupling(q, epsilon), 1);
    *out = account_question_answer(q, sigma, epsilon, delta);
    name_method(q, out);
    unamplified = exp(
        account_gaussian_log_delta(q->scheme.sensed.value / (sigma * q->options.sigma_unit * q->scheme.norm), epsilon));
    if (unamplified < delta) {
        out->delta = unamplified;
        out->method = METHOD_UNSAMPLED;
        out->confidence = 0;
    }
    return DPMF_OK;
}

/* The sigma that is enough without amplification. */
static double unamplified_sigma(const account_question *q, double epsilon, double delta) {
    return q->scheme.sensed.value / q->scheme.norm / q->options.sigma_unit / account_gaussian_mu(epsilon, log(delta));
}

dpmf_status account_sampled_sigma(const account_question *q, double epsilon, double delta, dpmf_privacy *out) {
    montecarlo_scheme s = scheme_at(q, 1);
    montecarlo_options o = how(q);
    double sigma = unamplified_sigma(q, epsilon, delta);
    const double whole = delta;
    if (is_bounded(q, delta)) {
        grid_list_options options = bounding(q);
        double found = 0;
        if (q->unasked_slack) options.relative *= 1.6; /* coarser than a look back at epsilon, which must not fail */
        TRY(account_correlated_sigma(&s, epsilon, log(delta), &options, &found));
        found /= q->options.sigma_unit * q->scheme.norm;
        *out = account_question_answer(q, fmin(found, sigma), epsilon, delta);
        out->method = found < sigma ? METHOD_BOUNDED : METHOD_UNSAMPLED;
        return DPMF_OK;
    }
    delta -= coupling(q, epsilon);
    if (delta < DELTA_MIN) {
        delta = whole;
        *out = account_question_answer(q, sigma, epsilon, delta);
        out->method = METHOD_UNAMPLIFIED;
        return DPMF_OK;
    }
    double delta_b = delta;
    int64_t samples = test_samples(q, delta);
    if (q->options.unconditional) TRY(montecarlo_claim(delta, samples, &delta_b));
    TRY(montecarlo_scale(&s, epsilon, delta_b, &o, &sigma));
    if (q->options.unconditional) {
        montecarlo_scheme found = scheme_at(q, sigma);
        TRY(pass_test(q, &found, epsilon, delta_b, samples));
    }
    *out = account_question_answer(q, sigma, epsilon, whole);
    name_method(q, out);
    return DPMF_OK;
}
