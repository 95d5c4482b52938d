/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Claims about delta that samples decide: one that somebody else made, tested with other randomness, and one that is tested as a part
 * of the mechanism. Y, M and mu are those of account/montecarlo/montecarlo.c, which also has the reason why the bets are bounds.
 */
#include "account/montecarlo/montecarlo.h"

#include "account/montecarlo/scheme.h"
#include "base/special.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/*
 * ---- a claim, tested with other randomness ----
 *
 * Somebody claims delta(epsilon) <= delta, in a file for example, and a reader of it draws samples of their own. With c = delta/M of a
 * direction, a bet lambda and n samples, n a whole number of rounds over the bins,
 *
 *     K_n = prod_{i <= n} (1 - lambda Y_i) / (1 - lambda c)
 *
 * is a supermartingale if mu >= c, by the inequality of montecarlo.c, and so is the mean of the K_n of several bets. By
 * Ville's inequality that mean ever reaches 1/alpha with probability at most alpha. So samples are added until it does: more
 * samples are not another try. A false claim is false in one direction, which would have to reach 1/alpha too, so that alpha
 * is not shared between the directions. The bets are powers of 2, fixed beforehand: one of them is near the best, lambda = (c -
 * mu) / E Y^2.
 *
 * A clearly false claim is given up early: if it were true, the mean of n samples would reach x > c with probability at most
 * exp(-n KL(x || c)) (Hoeffding 1963, Theorem 1), which is to be e^-25.
 *
 * How often a true claim is not shown by N samples: if mu and the mean of Y^2 are at most m and s, then for every theta > 0
 *
 *     P[sum_i -ln(1 - lambda Y_i) > x] <= e^(-theta x) (1 + theta lambda m + k s)^N,    k = (1 - lambda)^-theta - 1 - theta lambda,
 *
 * by Markov's inequality, since ((1 - lambda y)^-theta - 1 - theta lambda y) / y^2 rises with y, up to k. Calibration looks for a
 * sigma where this, with x at K = BETS/alpha, is at most 1e-6. m is its own proven bound, and s follows from the mean q of Y^2 in
 * its samples: q < s - sqrt(2 s l / N) has probability at most e^-l (Chernoff's bound for numbers in [0, 1]).
 */

static const double HOPELESS = 25;
enum { CLAIM_ROUNDS = 64, CLAIM_RUN = 1 << 21 }; /* run: that no search uses */

/* ln of the mean K_n; at most 0 for an impossible claim. */
static double log_wealth(const double log_bets[MONTECARLO_BETS], double samples, double c) {
    double sum = -INFINITY;
    for (int i = 0; i < MONTECARLO_BETS; i++)
        sum = base_log_add(sum, -samples * log1p(-montecarlo_bet(i) * c) - log_bets[i]);
    return sum - log(MONTECARLO_BETS);
}

/* What samples of several passes come to, of one direction. */
typedef struct tally {
    double log_most, mean; /* mean: the sum of the Y */
    double log_bets[MONTECARLO_BETS];
} tally;

static int is_hopeless(const tally *t, double samples, double c) {
    const double x = fmin(t->mean / samples, 1);
    if (x <= c) return 0;
    const double rest = x < 1 ? (1 - x) * log((1 - x) / (1 - c)) : 0;
    return samples * (x * log(x / c) + rest) > HOPELESS;
}

/* The least delta for which K_n reaches e^level. */
static double least_shown(const tally *t, double samples, double level, double c) {
    double low = fmin(t->mean / samples, c), high = c;
    while (high - low > 1e-6 * high) {
        const double middle = 0.5 * (low + high);
        *(log_wealth(t->log_bets, samples, middle) >= level ? &high : &low) = middle;
    }
    return exp(t->log_most) * high;
}

/* Adds a pass; *done: it is decided, *shown how. */
static void judge(tally both[2], const montecarlo_side found[2], int64_t drawn, double samples, double delta,
                  double level, int *done, int *shown, double *delta_found) {
    *shown = 1;
    *done = 0;
    *delta_found = 0;
    for (int d = 0; d < 2; d++) {
        tally *t = &both[d];
        const double c = delta / exp(found[d].log_most);
        t->log_most = found[d].log_most;
        t->mean += found[d].mean * (double)drawn;
        for (int i = 0; i < MONTECARLO_BETS; i++)
            t->log_bets[i] += found[d].log_bets[i] * (double)drawn;
        const int here = c >= 1 || log_wealth(t->log_bets, samples, c) >= level; /* c >= 1: no sample is above M */
        *shown = *shown && here;
        *done = *done || (c < 1 && is_hopeless(t, samples, c));
        const double at = c >= 1 ? exp(t->log_most) : least_shown(t, samples, level, c);
        *delta_found = fmax(*delta_found, here ? at : t->mean / samples * exp(t->log_most));
    }
    *done = *done || *shown;
}

dpmf_status montecarlo_shows(const montecarlo_scheme *scheme, double epsilon, double delta,
                             const montecarlo_options *options, int *shown, double *found) {
    TRY(montecarlo_check_options(options));
    TRY(montecarlo_check_epsilon(epsilon));
    if (!(delta > 0 && delta < 1)) return base_fail(DPMF_ERROR_ARGUMENT, "delta = %g: (0, 1) is accepted", delta);
    montecarlo_passes a;
    TRY(montecarlo_passes_open(scheme, options->seed, options->run, &a));
    const double level = -log(1 - options->confidence), most = montecarlo_claim_samples(&a.draws, delta),
                 unused[2] = {0, 0};
    tally both[2];
    double samples = 0;
    int64_t drawn = 1 << 18;
    int done = 0;
    dpmf_status status = DPMF_OK;
    memset(both, 0, sizeof both);
    a.counts_bets = 1;
    *shown = 0;
    montecarlo_draws_aim(&a.draws, scheme->sigma, epsilon, 1);
    for (int round = 0; round < CLAIM_ROUNDS && !done && samples < most; round++) {
        montecarlo_side side[2];
        drawn = (int64_t)fmin(fmax((double)drawn, 0.5 * samples), ceil(most - samples));
        TRY_DONE(montecarlo_passes_draw(&a, CLAIM_RUN + round, unused, &drawn, side));
        samples += (double)drawn;
        judge(both, side, drawn, samples, delta, level, &done, shown, found);
    }
done:
    montecarlo_passes_close(&a);
    return status;
}

/*
 * ---- the test inside the mechanism ----
 *
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

/* delta with x = tau delta_b */
static double with_tau(double delta_b, double x, double samples) {
    const double divergence = (1 - delta_b) * log1p((x - delta_b) / (1 - x)) - delta_b * log(x / delta_b); /* KL */
    return x + (1 - x) * exp(-samples * divergence);
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
    if (!(delta > 0 && delta < 1)) return base_fail(DPMF_ERROR_ARGUMENT, "delta = %g: (0, 1) is accepted", delta);
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
    if (!(delta_b > 0 && delta_b < 1))
        return base_fail(DPMF_ERROR_ARGUMENT, "a claim of delta = %g: (0, 1) is accepted", delta_b);
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
