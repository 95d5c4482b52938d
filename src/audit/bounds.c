/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lower bound on epsilon from one run: Steinke, Nasr and Jagielski 2023, Theorem 5.2.
 *
 * m fair coins decide which canaries are in. From the release an attacker guesses r of them and abstains from the rest,
 * r fixed beforehand. If the run is (epsilon, delta)-DP, then for every v
 *
 *     Pr[v or more are right] <= Pr[W >= v] + m delta max_{1 <= i <= v} (2/i) Pr[v > W >= v - i],   W ~ Binomial(r, e^eps/(1+e^eps)).
 *
 * The right side grows with epsilon. If it is at most `failure` for the v that was seen, then the run has no smaller
 * epsilon, except with that probability. The theorem assumes nothing about noise, canaries or scores.
 *
 * An attacker who guesses all must be right about the doubtful ones, and few guesses prove little. The best number
 * depends on the mechanism, and choosing it by the outcome would invalidate the confidence. So all of a short list are
 * tried, each with its share of `failure`: the r canaries of the highest scores as in, or half of them so and those
 * with the lowest as out.
 */
#include "audit/audit.h"

#include "base/memory.h"
#include "base/special.h"

#include <math.h>
#include <stdlib.h>

enum { WAYS = 7 };
static const double PART[WAYS] = {1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01};
static const double FPR = 0.01;
static const double EPSILON_MAX = 50; /* no run has e^50 guesses */

/* The right side of the inequality. */
static double success_bound(int64_t m, int64_t r, int64_t v, double epsilon, double delta) {
    const double p = 1 / (1 + exp(-epsilon)), tail = base_binomial_at_least(v, r, p);
    double worst = 0;
    for (int64_t i = 1; i <= v; i++) {
        const double between = base_binomial_at_least(v - i, r, p) - tail;
        worst = fmax(worst, 2 / (double)i * between);
        if (2 / (double)(i + 1) <= worst) break; /* all later terms are smaller */
    }
    return fmin(1, tail + (double)m * delta * worst);
}

double audit_guess_epsilon(int64_t canaries, int64_t guesses, int64_t correct, double delta, double failure) {
    double low = 0, high = EPSILON_MAX;
    if (guesses < 1 || success_bound(canaries, guesses, correct, 0, delta) > failure) return 0;
    while (high - low > 1e-6 * (1 + low)) {
        const double middle = (low + high) / 2;
        if (success_bound(canaries, guesses, correct, middle, delta) <= failure)
            low = middle;
        else
            high = middle;
    }
    return low;
}

typedef struct ranked {
    double score;
    int64_t canary; /* makes the order unique where scores are equal */
    int included;
} ranked;

static int compare_ranked(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? 1 : -1;
    return x->canary < y->canary ? -1 : 1;
}

static void guess_some(dpmf_audit *a, const ranked *order, int64_t in, int64_t out, double failure) {
    int64_t correct = 0;
    for (int64_t i = 0; i < in; i++)
        correct += order[i].included;
    for (int64_t i = 0; i < out; i++)
        correct += !order[a->canaries - 1 - i].included;
    const double epsilon = audit_guess_epsilon(a->canaries, in + out, correct, a->options.delta, failure);
    if (epsilon <= a->result.epsilon_guesses && a->result.guesses > 0) return;
    a->result.epsilon_guesses = epsilon;
    a->result.guesses = in + out;
    a->result.correct = correct;
}

dpmf_status audit_guess(dpmf_audit *a, double failure) {
    ranked *order = NULL;
    TRY(base_alloc(a->canaries, sizeof *order, "the ranks of the canaries", (void **)&order));
    for (int64_t i = 0; i < a->canaries; i++)
        order[i] = (ranked){a->score[i], i, a->included[i]};
    qsort(order, (size_t)a->canaries, sizeof *order, compare_ranked);
    for (int i = 0; i < WAYS; i++) {
        const int64_t r = (int64_t)ceil(PART[i] * (double)a->canaries), half = r / 2;
        guess_some(a, order, r, 0, failure / (2 * WAYS));
        guess_some(a, order, half, r - half, failure / (2 * WAYS));
    }
    /* The largest number of canaries found while at most FPR of the others are accused. */
    const int64_t out = a->canaries - a->result.included;
    int64_t found = 0, accused = 0;
    for (int64_t i = 0; i < a->canaries; i++) {
        found += order[i].included;
        accused += !order[i].included;
        if ((double)accused > FPR * (double)out) break;
        a->result.tpr = (double)found / (double)a->result.included;
        a->result.fpr = (double)accused / (double)out;
    }
    base_free(order);
    return DPMF_OK;
}

/*
 * ---- from the size of normal noise ----
 *
 * Guesses are bits: a thousand of them prove at most an epsilon of about 5, and almost nothing for weak signals. The
 * scores contain more information: the projections of audit/score.c are
 *
 *     y_i = x_i a |C u_i| + s z_i,    z_i independent and standard normal,
 *
 * x_i the canary's sign, s the actual noise and a the actual size after clipping (1: the clip norm). With m canaries, Q
 * = sum x_i^2 |C u_i|^2, a^ = sum x_i |C u_i| y_i / Q and s^^2 = sum (y_i - x_i a^ |C u_i|)^2 / (m - 1):
 *
 *     s <= s+ = s^ sqrt((m-1)/chi^2_{m-1}(f/2))     and then     a >= a- = a^ - s+ z(1 - f/2) / sqrt(Q)
 *
 * with probability 1 - f together. The run then is no better than one with sigma+ = s+ / (a- D), D the largest change
 * that one of the canaries can make (it is a unit like any other). The claim's own accountant gives the epsilon of
 * sigma+, with sampling for the same sampling.
 *
 * The bound assumes independent normal noise after C has undone its correlation. A stream whose noise has another law
 * can pass this test; only the guesses detect it. This is the one-run audit with normal statistics of Andrew et al.
 * 2024, with an exact interval in place of a fit.
 */

static const double SIGMA_LEAST = 1e-6; /* of dpmf_account_epsilon */

/* z with Phi(z) = p, p >= 1/2. */
static double normal_quantile(double p) {
    double low = 0, high = 40;
    for (int i = 0; i < 100; i++) {
        const double middle = (low + high) / 2;
        if (1 - base_normal_cdf(-middle) < p)
            low = middle;
        else
            high = middle;
    }
    return (low + high) / 2;
}

typedef struct fit {
    double slope, scale, q;
    int64_t degrees;
} fit;

/* The epsilon of sigma, or of a larger one where there is no answer, so never above the run's; coarse far above the claim. */
static dpmf_status account(const dpmf_audit *a, double sigma, double *out) {
    dpmf_account_options how = dpmf_mechanism_account_options(a->mechanism);
    dpmf_status status = DPMF_OK;
    how.run = a->options.run;
    for (int tries = 0; tries < 8; tries++, sigma *= 2) {
        dpmf_privacy found = {0};
        status = dpmf_account_epsilon(sigma, a->options.delta, &how, &found);
        if (status == DPMF_OK) *out = found.epsilon;
        if (status != DPMF_ERROR_NUMERICAL && status != DPMF_ERROR_UNSUPPORTED) return status;
    }
    return status;
}

dpmf_status audit_gaussian(dpmf_audit *a, double failure) {
    fit f = {.degrees = -1};
    double product = 0, squares = 0;
    for (int64_t i = 0; i < a->canaries; i++) {
        const double size = audit_sign(a, i) * a->norm[i];
        f.q += size * size;
        product += size * a->projected[i];
        f.degrees += a->norm[i] > 0;
    }
    f.slope = f.q > 0 ? product / f.q : 0;
    for (int64_t i = 0; i < a->canaries; i++) {
        const double left = a->projected[i] - audit_sign(a, i) * f.slope * a->norm[i];
        if (a->norm[i] > 0) squares += left * left;
    }
    f.scale = f.degrees > 0 ? sqrt(squares / (double)f.degrees) : 0;
    a->result.sigma_highest = a->result.sigma_measured = INFINITY;
    if (f.degrees < 10 || !(f.q > 0)) return DPMF_OK;
    const double degrees = (double)f.degrees;
    const double quantile = normal_quantile(1 - failure / 2);
    /* The quantile of chi^2, `degrees` times root^3, by Wilson and Hilferty 1931: within 1% for 10 degrees or more. */
    const double k = 2 / (9 * degrees), root = 1 - k - quantile * sqrt(k);
    const double highest = f.scale * sqrt(degrees / (degrees * root * root * root));
    const double lowest = f.slope - highest * quantile / sqrt(f.q);
    if (f.slope > 0) a->result.sigma_measured = f.scale / (f.slope * a->largest);
    if (!(lowest > 0)) return DPMF_OK;
    a->result.sigma_highest = highest / (lowest * a->largest);
    /* Noise that is missing, or below what accounting accepts: more noise has the smaller epsilon. */
    return account(a, fmax(a->result.sigma_highest, SIGMA_LEAST), &a->result.epsilon_gaussian);
}
