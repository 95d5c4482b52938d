/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Renyi divergences of the composed mechanism, and the bounds that they prove.
 *
 * Of order a = 1 + t the divergence of one step is ln M(t) / t, M(t) = E_P[e^(tL)]; composition adds. With K the upper
 * bound of n ln M(t), for every t > 0 (Canonne, Kamath and Steinke 2020, Proposition 12)
 *
 *     ln delta <= K(t) - t epsilon + t ln t - (1+t) ln(1+t),
 *
 * in the other direction epsilon = r + ln(1 - 1/a) - ln(delta a)/(a - 1) with r = K/t. The right-hand side is convex in
 * t; at its least, epsilon = K'(t) + ln(t/(1+t)) and ln delta = K - t K' - ln(1+t): one equation in t for either
 * question, solved by bisection of ln t. Any t gives a bound, so t needs no care; K does.
 *
 * The bound K: n times the quadrature of account/pair.c, plus its roundings, plus a proven bound on its error (account/pair.c),
 * plus 1e-13 of it for the arithmetic after it. The step is halved while what is added counts.
 */
#include "account/pair.h"

#include <math.h>

static const double ADDED = 1e-12; /* part of ln M */

double account_rdp_cumulant(const account_pair *pair, double t) {
    enum { FINEST = 8 };
    const double n = (double)pair->compositions;
    double value = 0, added = INFINITY, off = INFINITY;
    for (int fineness = 1; fineness <= FINEST && !(off <= ADDED * fabs(value)); fineness *= 2) {
        const account_cumulant k = pair_cumulant(pair, INFINITY, t, fineness);
        if (!isfinite(k.error)) break;
        /* M <= m e^error + off, so ln M <= ln m + error + off / m */
        const double enough = k.value + log(0.1 * ADDED * fabs(k.value));
        off = exp(pair_log_error(pair, INFINITY, t, 0, fineness, enough) - k.value) * (1 + 1e-9);
        if (!(k.error + off < added)) continue;
        added = k.error + off;
        value = k.value + added;
    }
    if (!isfinite(added)) return INFINITY;
    return n * value * (1 + (value > 0 ? 1e-13 : -1e-13));
}

/* epsilon or ln delta where order 1 + t is the best; NAN where K fails. */
static void best_at(const account_pair *pair, double t, double *epsilon, double *log_delta) {
    const account_cumulant k = pair_cumulant(pair, INFINITY, t, 1);
    const double n = (double)pair->compositions;
    *epsilon = isfinite(k.error) ? n * k.first - log1p(1 / t) : NAN;
    *log_delta = isfinite(k.error) ? n * (k.value - t * k.first) - log1p(t) : NAN;
}

/*
 * The t at which the best epsilon, or else ln delta, is the one given: the first grows with t, the second falls.
 * Orders where K fails count as too large.
 */
static double best_order(const account_pair *pair, const account_question *q) {
    double low = -30, high = 60; /* ln t */
    for (int round = 0; round < 60 && high - low > 1e-7; round++) {
        const double middle = round == 0 ? 1 : 0.5 * (low + high);
        double epsilon, log_delta;
        best_at(pair, exp(middle), &epsilon, &log_delta);
        const int small = q->of_epsilon ? log_delta > q->given : epsilon < q->given;
        if (small) { /* false for NAN */
            low = middle;
        } else {
            high = middle;
        }
    }
    return exp(low);
}

dpmf_status account_rdp_answer(const account_pair *pair, const account_question *q, double *out) {
    TRY(pair_check(pair));
    TRY(account_check_given(q));
    const double given = q->given, t = best_order(pair, q), k = account_rdp_cumulant(pair, t);
    if (q->of_epsilon) {
        /* t ln t - (1+t) ln(1+t) = -t ln(1 + 1/t) - ln(1+t), without cancellation */
        const double bound = (k - given - log1p(t)) / t - log1p(1 / t);
        *out = fmax(0, bound + 1e-14 * ((fabs(k) + fabs(given)) / t + log1p(1 / t)));
    } else {
        const double bound = k - t * given - t * log1p(1 / t) - log1p(t);
        *out = fmin(0, bound + 1e-14 * (fabs(k) + t * given + 1));
    }
    if (isnan(*out)) *out = account_worst(q);
    return DPMF_OK;
}
