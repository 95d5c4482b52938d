/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Monte Carlo accounting with a certificate.
 *
 * A pass draws N independent samples of each direction (account/montecarlo/scheme.c), Y in [0, 1] with delta = M mean(Y), M known
 * beforehand (account/montecarlo/tilt.c; 1 for plain sampling).
 *
 * The bound. For a fixed 0 < lambda < 1 and independent Y_i with means that average to mu,
 *
 *     E prod_i (1 - lambda Y_i) = prod_i (1 - lambda mu_i) <= (1 - lambda mu)^N,
 *
 * so by Markov's inequality prod_i (1 - lambda Y_i) < (1 - lambda mu)^N / alpha with probability at least 1 - alpha, or
 *
 *     mu < (1 - exp(-(sum_i -ln(1 - lambda Y_i) + ln(1/alpha)) / N)) / lambda.
 *
 * This is one bet in the sense of Waudby-Smith and Ramdas 2024. To second order the right side is mean + lambda E Y^2 /
 * 2 + ln(1/alpha) / (lambda N), least at lambda = sqrt(2 ln(1/alpha) / (N E Y^2)): it adapts to the variance. Clopper
 * and Pearson's limit, on Y made into coins, does not, and E Y^2 is below E Y here. lambda is chosen from samples of an
 * earlier pass (another stream of the seed), before those that it is applied to are drawn; there is no other choice of
 * bound.
 *
 * Confidence. The two directions fail with probability alpha/2 each. epsilon and sigma are searched with the samples of
 * run 0, the same at every step of the search, to where the bound is predicted to hold with some room. The find is
 * confirmed by a pass of run 1, independent of run 0; if its bound is above delta, a larger value is confirmed by run
 * 2, and so on. Attempt j = 0, 1, ... may fail with probability alpha 3/4 4^-j: over all attempts alpha at most, no
 * matter which of them ends the search. The composed Gaussian mechanism at the largest |m| is a bound without any
 * sampling (delta is jointly convex in P and Q): no answer is above it, and where sampling cannot beat it, it is the
 * answer.
 *
 * "With probability" is over the generator's numbers taken as random. Rounding in the loss, some 1e-14, is neglected.
 */
#include "account/montecarlo/montecarlo.h"

#include "account/account.h"
#include "account/montecarlo/pass.h"
#include <inttypes.h>
#include <math.h>

enum { ATTEMPTS = 16, FIRST_LOOK = 1 << 16 };
static const double largest_bet = 0.95; /* near 1 a single Y = 1 would cost ln 20 */

/* ---- bounds; `log_failure` is ln(1/alpha) of one direction ---- */

static double best_bet(const montecarlo_side *d, double log_failure, double samples) {
    return d->square > 0 ? fmin(largest_bet, sqrt(2 * log_failure / (samples * d->square))) : largest_bet;
}

static double proven_bound(const montecarlo_side *d, double bet, double log_failure, double samples) {
    return fmin(-expm1(-d->log_bet - log_failure / samples) / bet * exp(d->log_most), 1);
}

/* The value that proven_bound is likely to have with this many other samples. */
static double likely_bound(const montecarlo_side *d, double log_failure, double samples) {
    const double bet = best_bet(d, log_failure, samples);
    return fmin((d->mean + 0.5 * bet * d->square + log_failure / (bet * samples)) * exp(d->log_most), 1);
}

static double larger_likely(const montecarlo_side d[2], double log_failure, double samples) {
    return fmax(likely_bound(&d[0], log_failure, samples), likely_bound(&d[1], log_failure, samples));
}

/* 1.3 standard deviations of the difference between two samples' means: nine of ten first attempts succeed. */
static double room(const montecarlo_side d[2], double samples, double other) {
    const double spread = 1.3 * sqrt(1 / samples + 1 / other);
    return spread * fmax(sqrt(d[0].square) * exp(d[0].log_most), sqrt(d[1].square) * exp(d[1].log_most));
}

/* Returns the number of samples after which the bound is within 5 % of the mean, at most `cap`. */
static int64_t enough(const montecarlo_side d[2], double log_failure, int64_t cap) {
    const double mean = fmax(d[0].mean * exp(d[0].log_most), d[1].mean * exp(d[1].log_most));
    int64_t samples = 1 << 16;
    while (samples < cap && larger_likely(d, log_failure, (double)samples) > 1.05 * mean) {
        samples += samples / 4;
    }
    return samples < cap ? samples : cap;
}

/*
 * The default number takes some ten seconds on two processors, but is no less than delta needs (log 1/alpha over N is
 * well below).
 */
static int64_t default_cap(const montecarlo_draws *draws, double delta) {
    const double by_work = fmin(fmax(0x1p30 / (double)draws->dimension, 0x1p22), 0x1p25);
    return (int64_t)fmax(by_work, 30 / delta);
}

/* ---- checks ---- */

static dpmf_status check_options(const montecarlo_options *options) {
    if (!(options->confidence > 0 && options->confidence < 1)) {
        return base_fail(DPMF_ERROR_ARGUMENT, "a confidence of %g: (0, 1) is accepted", options->confidence);
    }
    if (options->samples < 0 || options->samples > MONTECARLO_SAMPLES_MAX) {
        return base_fail(DPMF_ERROR_ARGUMENT, "%" PRId64 " samples: 0 (chosen from delta) to %" PRId64 " are accepted",
                         options->samples, MONTECARLO_SAMPLES_MAX);
    }
    return DPMF_OK;
}

dpmf_status montecarlo_check_epsilon(double epsilon) {
    if (epsilon >= 0 && isfinite(epsilon)) return DPMF_OK;
    return base_fail(DPMF_ERROR_ARGUMENT, "epsilon = %g: 0 or more is accepted", epsilon);
}

static dpmf_status check_delta(double delta) {
    if (delta >= 1e-6 && delta < 1) return DPMF_OK;
    return base_fail(DPMF_ERROR_ARGUMENT, "delta = %g by Monte Carlo: [1e-6, 1) is accepted", delta);
}

/* ---- delta ---- */

dpmf_status montecarlo_delta(const montecarlo_scheme *scheme, double epsilon, const montecarlo_options *options,
                             double *delta) {
    TRY(check_options(options));
    TRY(montecarlo_check_epsilon(epsilon));
    montecarlo_passes a;
    TRY(montecarlo_passes_open(scheme, options->seed, options->run, &a));
    const double log_failure = -log(0.5 * (1 - options->confidence));
    int64_t samples = options->samples > 0 ? options->samples / 8 + 1 : 1 << 20;
    if (samples > 1 << 20) samples = 1 << 20;
    double bet[2] = {0, 0};
    montecarlo_side found[2];
    dpmf_status status = DPMF_OK;
    montecarlo_draws_aim(&a.draws, scheme->sigma, epsilon, 1);
    TRY_DONE(montecarlo_passes_draw(&a, 0, bet, &samples, found));
    samples = options->samples > 0 ? options->samples : enough(found, log_failure, default_cap(&a.draws, 1));
    for (int d = 0; d < 2; d++) {
        bet[d] = best_bet(&found[d], log_failure, (double)samples);
    }
    TRY_DONE(montecarlo_passes_draw(&a, 1, bet, &samples, found));
    const double bound = fmax(proven_bound(&found[0], bet[0], log_failure, (double)samples),
                              proven_bound(&found[1], bet[1], log_failure, (double)samples));
    *delta = fmin(bound, exp(account_gaussian_log_delta(sqrt(a.draws.largest) / scheme->sigma, epsilon)));
done:
    montecarlo_passes_close(&a);
    return status;
}

/* ---- the search over x = epsilon, or x = ln(scale of sigma) ---- */

typedef struct search {
    montecarlo_passes *owner;
    const montecarlo_options *options;
    double sigma, epsilon, delta; /* those that do not move */
    int over_sigma;
    double log_failure; /* of one direction, first attempt */
} search;

typedef struct point {
    double x, excess; /* excess: ln(likely bound / delta); the point is good if it is at most 0 */
    double slope;     /* of the excess, downwards in x; 0: not known */
    int64_t samples;  /* that a confirmation here would take */
    montecarlo_side found[2];
} point;

static void aim(const search *s, double x) {
    montecarlo_draws_aim(&s->owner->draws, s->over_sigma ? s->sigma * exp(x) : s->sigma, s->over_sigma ? s->epsilon : x,
                         1);
}

/* Is delta clearly above the one wanted, so that the point only ends the search on its side? */
static int is_far(const montecarlo_side d[2], double samples, double delta) {
    for (int i = 0; i < 2; i++) {
        const double most = exp(d[i].log_most), error = sqrt(d[i].square / samples);
        if (most * (d[i].mean - 5 * error) > 3 * delta) return 1;
    }
    return 0;
}

static dpmf_status look_at_point(const search *s, double x, point *out) {
    const double unused[2] = {0, 0};
    const montecarlo_draws *draws = &s->owner->draws;
    point at = {.x = x};
    aim(s, x);
    /* 30 plain hits of full value each: enough to lead, and the confirmation decides */
    const double most = exp(fmax(draws->log_most_remove, draws->log_most_add));
    int64_t samples = FIRST_LOOK, wanted = (int64_t)fmin(fmax(30 * most / s->delta, (double)FIRST_LOOK), 0x1p23);
    if (s->options->samples > 0 && wanted > s->options->samples) wanted = s->options->samples;
    if (samples > wanted) samples = wanted;
    TRY(montecarlo_passes_draw(s->owner, 0, unused, &samples, at.found));
    if (samples < wanted && !is_far(at.found, (double)samples, s->delta)) { /* too near for a decision by few samples */
        samples = wanted;
        TRY(montecarlo_passes_draw(s->owner, 0, unused, &samples, at.found));
    }
    at.samples =
        s->options->samples > 0 ? s->options->samples : enough(at.found, s->log_failure, default_cap(draws, s->delta));
    const double likely = larger_likely(at.found, s->log_failure, (double)at.samples) +
                          room(at.found, (double)samples, (double)at.samples);
    at.excess = log(likely / s->delta);
    *out = at;
    return DPMF_OK;
}

/*
 * Finds the least good x between a bad and a good point, by false position with the Illinois weights. It ends within
 * 0.2 % of `scale`, or where the likely bound is within 2 % of delta.
 */
static dpmf_status narrow(const search *s, const point *bad, double scale, point *good) {
    double low = bad->x, bad_excess = bad->excess, low_excess = bad_excess, high_excess = good->excess;
    int last = 0; /* which end stayed: its weight is halved */
    for (int step = 0; step < 40 && good->x - low > 2e-3 * scale && good->excess < -0.02; step++) {
        double x = good->x - (good->x - low) * high_excess / (high_excess - low_excess);
        const double margin = 0.02 * (good->x - low); /* never stuck at an end */
        x = fmin(fmax(x, low + margin), good->x - margin);
        point next;
        TRY(look_at_point(s, x, &next));
        if (next.excess <= 0) {
            *good = next;
            high_excess = next.excess;
            if (last == 1) low_excess *= 0.5;
            last = 1;
        } else {
            low = x;
            low_excess = bad_excess = next.excess;
            if (last == -1) high_excess *= 0.5;
            last = -1;
        }
    }
    good->slope = (bad_excess - good->excess) / (good->x - low);
    return DPMF_OK;
}

/*
 * Draws fresh samples at x, then at larger values until the bound holds. x moves as far as the slope predicts with some
 * room, or by `step` where there is none, twice as much each time. `limit` needs no samples.
 */
static dpmf_status confirm(const search *s, const point *at, double step, double limit, double *out) {
    double x = at->x, more = 0.01;
    for (int attempt = 0; attempt < ATTEMPTS && x < limit; attempt++, more *= 2) {
        const double log_failure = s->log_failure + attempt * log(4.0);
        double bet[2], bound[2];
        montecarlo_side found[2];
        int64_t samples = at->samples;
        for (int d = 0; d < 2; d++) {
            bet[d] = best_bet(&at->found[d], log_failure, (double)samples);
        }
        aim(s, x);
        TRY(montecarlo_passes_draw(s->owner, 1 + attempt, bet, &samples, found));
        for (int d = 0; d < 2; d++) {
            bound[d] = proven_bound(&found[d], bet[d], log_failure, (double)samples);
        }
        const double excess = log(fmax(bound[0], bound[1]) / s->delta);
        if (excess <= 0) {
            *out = x;
            return DPMF_OK;
        }
        x += at->slope > 0 ? (excess + more) / at->slope : step * more / 0.01;
    }
    *out = limit;
    return DPMF_OK;
}

static search search_of(montecarlo_passes *a, const montecarlo_options *options, double sigma, double delta) {
    /* 3/4 of the failures belong to the first attempt, half of those to each montecarlo_side */
    return (search){.owner = a,
                    .options = options,
                    .sigma = sigma,
                    .delta = delta,
                    .log_failure = -log(0.375 * (1 - options->confidence))};
}

dpmf_status montecarlo_epsilon(const montecarlo_scheme *scheme, double delta, const montecarlo_options *options,
                               double *epsilon) {
    TRY(check_options(options));
    TRY(check_delta(delta));
    montecarlo_passes a;
    TRY(montecarlo_passes_open(scheme, options->seed, options->run, &a));
    const search s = search_of(&a, options, scheme->sigma, delta);
    const double limit = account_gaussian_epsilon(sqrt(a.draws.largest) / scheme->sigma, log(delta));
    double answer = limit;
    point bad, good;
    dpmf_status status = DPMF_OK;
    TRY_DONE(look_at_point(&s, limit, &good));
    if (good.excess <= 0 && limit > 0) {
        TRY_DONE(look_at_point(&s, 0, &bad));
        if (bad.excess <= 0)
            good = bad;
        else
            TRY_DONE(narrow(&s, &bad, limit, &good));
        TRY_DONE(confirm(&s, &good, 0.01 * good.x + 1e-4, limit, &answer));
    }
    *epsilon = answer;
done:
    montecarlo_passes_close(&a);
    return status;
}

dpmf_status montecarlo_scale(const montecarlo_scheme *scheme, double epsilon, double delta,
                             const montecarlo_options *options, double *scale) {
    TRY(check_options(options));
    TRY(montecarlo_check_epsilon(epsilon));
    TRY(check_delta(delta));
    montecarlo_passes a;
    TRY(montecarlo_passes_open(scheme, options->seed, options->run, &a));
    search s = search_of(&a, options, scheme->sigma, delta);
    s.over_sigma = 1;
    s.epsilon = epsilon;
    const double limit = log(sqrt(a.draws.largest) / (scheme->sigma * account_gaussian_mu(epsilon, log(delta))));
    double answer = limit;
    point bad, good;
    dpmf_status status = DPMF_OK;
    TRY_DONE(look_at_point(&s, limit, &bad));
    if (bad.excess <= 0) {
        do { /* ends: without noise delta is 1 - pi(no step joined) or more, and the bound is above 1e-6 */
            good = bad;
            TRY_DONE(look_at_point(&s, good.x - log(2.0), &bad));
        } while (bad.excess <= 0 && bad.x > limit - 50);
        if (bad.excess > 0) TRY_DONE(narrow(&s, &bad, 1, &good));
        TRY_DONE(confirm(&s, &good, 0.005, limit, &answer));
    }
    *scale = exp(answer);
done:
    montecarlo_passes_close(&a);
    return status;
}
