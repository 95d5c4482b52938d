/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers questions about balls-in-bins and min-sep sampling by Monte Carlo from delta = 1e-6 up. Below, simulation
 * does not see the event, and the answer is the guarantee without amplification, which always holds: C x is then one
 * Gaussian release of the sensitivity under cyclic or min-separation participation.
 *
 * `unconditional`: the number of samples and the claimed delta_b are fixed first; the mechanism is released only if the
 * test passes, so that the guarantee holds with no "with probability" (account/montecarlo/montecarlo.h). The tested
 * candidate is found with other samples beforehand.
 */
#include "account/question.h"

#include "account/allocation/allocation.h"

#include <math.h>

/*
 * ---- balls in bins with correlated noise, without simulation ----
 *
 * These bounds are for a C whose entries are not negative.
 *
 * Notation: m_j = C x_j, x_j the steps of bin j; G = the Gram matrix of the m_j; d and rho its largest diagonal and off-diagonal
 * entries; b bins. Without the unit the outcome is N(0, sigma^2), with it the mixture of the N(m_j, sigma^2) over all j.
 *
 * Both curves rise with every entry of G: the likelihood ratio is a mean of log-normals of covariance G/sigma^2, and means of
 * convex functions of such sums rise with every covariance (Kahane 1985; docs/accounting.md). So G may be replaced by
 *
 *     rho 1 1' + (d - rho) I  >=  G      entry by entry,
 *
 * which is that of m_j = sqrt(rho) e_0 + sqrt(d - rho) e_j: a Gaussian release of mu = sqrt(rho)/sigma, composed with
 * random allocation of one of b steps at sigma/sqrt(d - rho) (account/allocation/allocation.c). If j mod r is revealed
 * besides, there are left floor(b/r) bins or one more, r apart, and a smaller rho; revealing more only raises delta,
 * and so do fewer bins (means of more independent ratios are less spread). r runs from 1, where nothing is revealed, to
 * b, where everything is revealed (the Gaussian mechanism): the best of the powers of 2 and b is taken.
 */

enum { LOOKS = 24, FEW = 8 }; /* a few bins gain little, and their curves take long */
static const double COARSE = 0.02;

/* Computes the answer of the bound for bins `apart` apart. */
static dpmf_status look(const montecarlo_scheme *s, int64_t apart, const account_question *q, account_answer *out) {
    const int64_t b = s->bins, bins = b / apart;
    double diagonal = 0, off = 0;
    for (int64_t i = 0; i < b; i++) {
        diagonal = fmax(diagonal, s->gram[i * b + i]);
        for (int64_t j = i + apart; j < b; j += apart)
            off = fmax(off, s->gram[i * b + j]);
    }
    diagonal *= 1 + 1e-12; /* of rounding in the products */
    off = fmin(off * (1 + 1e-12), diagonal);
    /* mu of what all bins share, and of what each has to itself */
    const double shared = sqrt(off) / s->sigma, own = sqrt(diagonal - off) / s->sigma;
    *out = (account_answer){account_least(q), DPMF_UPPER_BOUND, NULL, 1};
    if (bins <= 1 || own < 1e-3 * shared) {
        out->value = account_gaussian(q, hypot(shared, own));
        return DPMF_OK;
    }
    const account_question allocated = {.sigma = 1 / own, .picks = 1, .bins = bins, .compositions = 1};
    const grid_gaussian gaussian = {.mu = shared};
    allocation_blocks blocks;
    grid_part list[1 + ALLOCATION_PARTS];
    int count = 0;
    dpmf_status status = DPMF_OK;
    if (shared > 0) list[count++] = grid_gaussian_part(&gaussian, 1);
    TRY(allocation_blocks_create(&allocated, &blocks));
    for (int i = 0; i < blocks.count; i++)
        list[count++] = blocks.parts[i];
    for (int reversed = 0; reversed < 2; reversed++) {
        account_answer found;
        TRY_DONE(grid_answer(&(grid_source){.count = count, .reversed = reversed, .parts = list}, q, &found));
        account_take_worse(out, &found);
    }
done:
    allocation_blocks_free(&blocks);
    return status;
}

static dpmf_status best_distance(const montecarlo_scheme *s, const account_question *q, int64_t *out) {
    account_question coarse = *q;
    double least = INFINITY;
    coarse.relative = fmax(COARSE, q->relative);
    *out = s->bins;
    for (int64_t apart = 1; apart < 2 * s->bins; apart *= 2) {
        const int64_t here = apart < s->bins ? apart : s->bins, left = s->bins / here;
        account_answer found;
        if (apart > 1 && left > 1 && left < FEW) continue;
        TRY(look(s, here, &coarse, &found));
        if (found.value < least) {
            least = found.value;
            *out = here;
        } else if (apart >= 4 && found.value > 1.2 * least && q->of_epsilon)
            break; /* it rises on from here */
    }
    return DPMF_OK;
}

dpmf_status account_correlated(const montecarlo_scheme *s, const account_question *q, account_answer *out) {
    int64_t apart = 1;
    TRY(best_distance(s, q, &apart));
    return look(s, apart, q, out);
}

/* ln sigma between `low`, too little, and `high`, enough: regula falsi that halves the weight of an end which stays. */
static dpmf_status close_in(montecarlo_scheme *s, int64_t apart, const account_question *q, double log_delta,
                            double low, double at_low, double *high, double at_high) {
    for (int i = 0; i < LOOKS && (*high - low) > 0.5 * q->relative; i++) {
        const double margin = 0.05 * (*high - low);
        double x = low + (*high - low) * at_low / (at_low - at_high);
        account_answer found;
        x = fmin(fmax(x, low + margin), *high - margin);
        s->sigma = exp(x);
        TRY(look(s, apart, q, &found));
        const double excess = fmax(found.value, -1e6) - log_delta;
        if (excess > 0) {
            low = x;
            at_low = excess;
            at_high *= 0.5;
        } else {
            *high = x;
            at_high = excess;
            at_low *= 0.5;
        }
    }
    return DPMF_OK;
}

dpmf_status account_correlated_sigma(const montecarlo_scheme *scheme, const account_question *q, double log_delta,
                                     double *sigma) {
    montecarlo_scheme s = *scheme;
    account_answer found;
    double diagonal = 0, excess = 0;
    int64_t apart = 1;
    for (int64_t i = 0; i < s.bins; i++)
        diagonal = fmax(diagonal, s.gram[i * s.bins + i]);
    const double most = log(sqrt(diagonal) / account_gaussian_mu(q->given, log_delta)) + 1e-9;
    double high = most, low = most, at_high = -1e-9;
    do { /* the Gaussian mechanism is enough; down to where the bound is not */
        if (low < most) {
            high = low;
            at_high = excess;
        }
        low -= 0.3;
        s.sigma = exp(low);
        if (low > most - 1.3) TRY(best_distance(&s, q, &apart));
        TRY(look(&s, apart, q, &found));
        excess = fmax(found.value, -1e6) - log_delta;
    } while (excess <= 0 && low > most - 12);
    if (excess > 0) TRY(close_in(&s, apart, q, log_delta, low, excess, &high, at_high));
    *sigma = exp(high);
    return DPMF_OK;
}

static const double DELTA_MIN = 1e-6;

static const char METHOD_CONFIDENCE[] = "Monte Carlo, with the confidence stated";
static const char METHOD_UNCONDITIONAL[] = "Monte Carlo test as a part of the mechanism";
static const char METHOD_COUPLED[] = "Monte Carlo, with the confidence stated, coupled with uncapped sampling";
static const char METHOD_COUPLED_TEST[] = "Monte Carlo test as a part of the mechanism, coupled with uncapped sampling";
static const char METHOD_BOUNDED[] = "correlated balls in bins, Gram matrix bounded by a shared part and allocation";
static const char METHOD_UNSAMPLED[] = "without amplification, in closed form: smaller here than Monte Carlo can prove";
static const char METHOD_UNAMPLIFIED[] = "without amplification: Monte Carlo needs a delta of at least 1e-06";

static montecarlo_scheme scheme_at(const account_request *r, double sigma) {
    montecarlo_scheme s = r->scheme.scheme;
    s.sigma = sigma * r->options.sigma_unit * r->scheme.norm;
    return s;
}

/* Returns what coupling adds to delta under a cap (account/capped/capped.c). */
static double coupling(const account_request *r, double epsilon) {
    return r->missed > 0 ? r->missed * (1 + exp(epsilon)) * (1 + 1e-12) : 0;
}

/* Bins are bounded without simulation where delta is too small for one, or where certainty is requested. */
static int is_bounded(const account_request *r, double delta) {
    return r->scheme.scheme.kind == MONTECARLO_SCHEME_BINS && !r->options.unconditional &&
           (delta < DELTA_MIN || r->options.engine == DPMF_ENGINE_CONNECT_THE_DOTS) &&
           r->options.engine != DPMF_ENGINE_MONTE_CARLO;
}

static account_question bounding(const account_request *r, int of_epsilon, double given) {
    return (account_question){.of_epsilon = of_epsilon,
                              .given = given,
                              .relative = r->options.slack,
                              .absolute = 0.1 * r->options.slack,
                              .run = &r->options.run};
}

static montecarlo_options how(const account_request *r) {
    return (montecarlo_options){.samples = r->options.samples,
                                .confidence = r->options.confidence,
                                .seed = r->options.seed,
                                .run = &r->options.run};
}

/* Returns the number of samples of the test, with which delta_b is about half of delta. */
static int64_t test_samples(const account_request *r, double delta) {
    return r->options.samples > 0 ? r->options.samples : (int64_t)(110 / delta);
}

static void with_confidence(const account_request *r, dpmf_privacy *out) {
    out->method = METHOD_CONFIDENCE;
    out->confidence = r->options.confidence;
}

static void name_method(const account_request *r, dpmf_privacy *out) {
    if (!r->options.unconditional) with_confidence(r, out);
    if (r->options.unconditional) out->method = METHOD_UNCONDITIONAL;
    if (r->missed > 0) out->method = r->options.unconditional ? METHOD_COUPLED_TEST : METHOD_COUPLED;
}

/* Tests (epsilon, sigma) against the claim; DPMF_ERROR_NUMERICAL if it does not pass. */
static dpmf_status pass_test(const account_request *r, const montecarlo_scheme *s, double epsilon, double delta_b,
                             int64_t samples) {
    int passed = 0;
    double mean = 0;
    const uint64_t seed = r->options.seed ^ 0x9e3779b97f4a7c15u; /* the test's samples are not those of the search */
    TRY(montecarlo_test(s, epsilon, delta_b, samples, seed, &r->options.run, &passed, &mean));
    if (passed) return DPMF_OK;
    return base_fail(
        DPMF_ERROR_NUMERICAL,
        "the unconditional test failed (mean %.4g, claim %.4g): do not release the mechanism on it; try more samples",
        mean, delta_b);
}

static dpmf_status uncapped_epsilon(const account_request *r, double sigma, double delta, dpmf_privacy *out) {
    montecarlo_scheme s = scheme_at(r, sigma);
    montecarlo_options o = how(r);
    if (is_bounded(r, delta)) {
        const account_question q = bounding(r, 1, log(delta));
        account_answer found;
        TRY(account_correlated(&s, &q, &found));
        out->epsilon = fmin(found.value, out->without_sampling);
        out->method = found.value < out->without_sampling ? METHOD_BOUNDED : METHOD_UNSAMPLED;
        out->slack_met = found.met;
        return DPMF_OK;
    }
    if (delta < DELTA_MIN) {
        out->epsilon = out->without_sampling;
        out->method = METHOD_UNAMPLIFIED;
        return DPMF_OK;
    }
    if (!r->options.unconditional) {
        TRY(montecarlo_epsilon(&s, delta, &o, &out->epsilon));
        with_confidence(r, out);
    } else {
        int64_t samples = test_samples(r, delta);
        double delta_b = 0;
        TRY(montecarlo_claim(delta, samples, &delta_b));
        TRY(montecarlo_epsilon(&s, delta_b, &o, &out->epsilon));
        TRY(pass_test(r, &s, out->epsilon, delta_b, samples));
        out->method = METHOD_UNCONDITIONAL;
    }
    if (out->epsilon >= out->without_sampling) {
        out->epsilon = out->without_sampling;
        out->method = METHOD_UNSAMPLED;
        out->confidence = 0;
    }
    return DPMF_OK;
}

/* With a cap, a part of delta is set aside for the coupling, and a larger part if that is too little. */
static dpmf_status epsilon_at(const account_request *r, double sigma, double delta, dpmf_privacy *out) {
    static const double shares[] = {0.01, 0.1, 0.5};
    const dpmf_privacy asked = *out;
    if (r->missed == 0) return uncapped_epsilon(r, sigma, delta, out);
    for (int i = 0; i < (int)(sizeof shares / sizeof *shares); i++) {
        if (coupling(r, 0) > shares[i] * delta) continue;
        *out = asked;
        TRY(uncapped_epsilon(r, sigma, (1 - shares[i]) * delta, out));
        if (out->method == METHOD_UNSAMPLED || out->method == METHOD_UNAMPLIFIED) break;
        if (coupling(r, out->epsilon) > shares[i] * delta) continue;
        out->method = r->options.unconditional ? METHOD_COUPLED_TEST : METHOD_COUPLED;
        return DPMF_OK;
    }
    *out = asked;
    out->epsilon = out->without_sampling;
    out->method = METHOD_UNSAMPLED;
    return DPMF_OK;
}

static dpmf_status delta_at(const account_request *r, double sigma, double epsilon, dpmf_privacy *out) {
    montecarlo_scheme s = scheme_at(r, sigma);
    montecarlo_options o = how(r);
    double delta = 1;
    if (is_bounded(r, 1)) {
        const account_question q = bounding(r, 0, epsilon);
        account_answer found;
        TRY(account_correlated(&s, &q, &found));
        *out = account_privacy(r, sigma, epsilon, account_read_delta(&found));
        out->method = METHOD_BOUNDED;
        out->slack_met = found.met;
        return DPMF_OK;
    }
    TRY(montecarlo_delta(&s, epsilon, &o, &delta));
    if (r->options.unconditional) {
        const int64_t samples = test_samples(r, 2 * delta);
        TRY(pass_test(r, &s, epsilon, delta, samples));
        delta = montecarlo_unconditional(delta, samples);
    }
    delta = fmin(delta + coupling(r, epsilon), 1);
    *out = account_privacy(r, sigma, epsilon, delta);
    name_method(r, out);
    const double unamplified = exp(
        account_gaussian_log_delta(r->scheme.sensed.value / (sigma * r->options.sigma_unit * r->scheme.norm), epsilon));
    if (unamplified < delta) {
        out->delta = unamplified;
        out->method = METHOD_UNSAMPLED;
        out->confidence = 0;
    }
    return DPMF_OK;
}

dpmf_status account_sampled_answer(const account_request *r, int of_epsilon, double sigma, dpmf_privacy *out) {
    return of_epsilon ? epsilon_at(r, sigma, out->delta, out) : delta_at(r, sigma, out->epsilon, out);
}

dpmf_status account_sampled_sigma(const account_request *r, double epsilon, double delta, dpmf_privacy *out) {
    montecarlo_scheme s = scheme_at(r, 1);
    montecarlo_options o = how(r);
    /* The sigma that is enough without amplification. */
    double sigma =
        r->scheme.sensed.value / r->scheme.norm / r->options.sigma_unit / account_gaussian_mu(epsilon, log(delta));
    const double whole = delta;
    if (is_bounded(r, delta)) {
        account_question q = bounding(r, 0, epsilon);
        double found = 0;
        if (r->default_slack) q.relative *= 1.6; /* coarser than a look back at epsilon, which must not fail */
        TRY(account_correlated_sigma(&s, &q, log(delta), &found));
        found /= r->options.sigma_unit * r->scheme.norm;
        *out = account_privacy(r, fmin(found, sigma), epsilon, delta);
        out->method = found < sigma ? METHOD_BOUNDED : METHOD_UNSAMPLED;
        return DPMF_OK;
    }
    delta -= coupling(r, epsilon);
    if (delta < DELTA_MIN) {
        *out = account_privacy(r, sigma, epsilon, whole);
        out->method = METHOD_UNAMPLIFIED;
        return DPMF_OK;
    }
    double delta_b = delta;
    int64_t samples = test_samples(r, delta);
    if (r->options.unconditional) TRY(montecarlo_claim(delta, samples, &delta_b));
    TRY(montecarlo_scale(&s, epsilon, delta_b, &o, &sigma));
    if (r->options.unconditional) {
        montecarlo_scheme found = scheme_at(r, sigma);
        TRY(pass_test(r, &found, epsilon, delta_b, samples));
    }
    *out = account_privacy(r, sigma, epsilon, whole);
    name_method(r, out);
    return DPMF_OK;
}

dpmf_status account_sampled_claim(const account_request *r, double sigma, double epsilon, double delta,
                                  dpmf_privacy *out, int *asked, int *shown) {
    montecarlo_scheme s = scheme_at(r, sigma);
    montecarlo_options o = how(r);
    double found = 1;
    *out = account_privacy(r, sigma, epsilon, delta);
    out->method = METHOD_UNSAMPLED;
    *shown = out->without_sampling <= epsilon; /* without a sample */
    if (*shown) out->epsilon = out->without_sampling;
    *asked = !is_bounded(r, delta) && (*shown || delta - coupling(r, epsilon) >= DELTA_MIN);
    if (!*asked || *shown) return DPMF_OK;
    TRY(montecarlo_shows(&s, epsilon, delta - coupling(r, epsilon), &o, shown, &found));
    name_method(r, out);
    out->delta = fmin(found + coupling(r, epsilon), 1);
    return DPMF_OK;
}
