/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lower bound on epsilon from the measured size of the noise, for noise that is normal.
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
#include "audit/audit.h"

#include "base/special.h"

#include <math.h>

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

/* The quantile of chi^2 with `degrees` >= 10 at `p` < 1/2; Wilson and Hilferty 1931: within 1% there. */
static double chi_square_low(double degrees, double p) {
    const double k = 2 / (9 * degrees), root = 1 - k - normal_quantile(1 - p) * sqrt(k);
    return degrees * root * root * root;
}

typedef struct fit {
    double slope, scale, q;
    int64_t degrees;
} fit;

static fit fit_projections(const dpmf_audit *a) {
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
    return f;
}

/*
 * The epsilon of sigma, or of a larger sigma where the accountant has no answer: never more than the run's epsilon.
 * Precision does not matter far above the claim.
 */
static dpmf_status account(const dpmf_audit *a, double sigma, double *out) {
    dpmf_account_options how = dpmf_mechanism_account(a->mechanism);
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
    const fit f = fit_projections(a);
    a->result.sigma_highest = a->result.sigma_measured = INFINITY;
    if (f.degrees < 10 || !(f.q > 0)) return DPMF_OK;
    const double degrees = (double)f.degrees;
    const double highest = f.scale * sqrt(degrees / chi_square_low(degrees, failure / 2));
    const double lowest = f.slope - highest * normal_quantile(1 - failure / 2) / sqrt(f.q);
    if (f.slope > 0) a->result.sigma_measured = f.scale / (f.slope * a->largest);
    if (!(lowest > 0)) return DPMF_OK;
    a->result.sigma_highest = highest / (lowest * a->largest);
    /* Noise that is missing, or below what accounting accepts: more noise has the smaller epsilon. */
    return account(a, fmax(a->result.sigma_highest, SIGMA_LEAST), &a->result.epsilon_gaussian);
}
