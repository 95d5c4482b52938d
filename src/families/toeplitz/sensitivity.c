/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The squared norm of s = C[:,0] + C[:,b] + ... + C[:,(k-1)b] for a banded Toeplitz C, with its gradient.
 *
 *     s_t = c_t + c_{t-b} + ... + c_{t-(k-1)b}   (t < n),   S = |s|^2,   dS/dc_i = 2 (s_i + s_{i+b} + ...)
 *
 * bands <= b: the columns do not meet, S = sum_i N_i c_i^2 with N_i the number of columns that reach their i-th entry
 * before row n: min(k, floor((n-1-i)/b) + 1). No pattern has a larger sum, since every column that is shorter than
 * another is a part of it; so S is the squared sensitivity whatever the signs.
 *
 * bands > b: many columns are alike. Taking away one period of b steps in the middle takes away |P|^2 as soon as k b
 * passes the bands, with P_r = c_r + c_{r+b} + ... the sums over residues, so that
 *
 *     S(n, k) = S(n - (k - k0) b, k0) + (k - k0) |P|^2,   k0 = ceil(bands/b) + 1,
 *
 * and the work is O(bands) times a few, whatever n.
 */
#include "families/toeplitz/toeplitz.h"

#include "base/memory.h"
#include "workload/workload.h"

#include <assert.h>
#include <string.h>

dpmf_status toeplitz_pattern_of(const dpmf_participation *participation, int64_t n, toeplitz_pattern *out) {
    if (participation->pattern != WORKLOAD_EPOCHS) {
        *out = (toeplitz_pattern){n, participation->count, participation->separation};
        assert((out->k - 1) * out->b < n);
        return DPMF_OK;
    }
    return base_fail(DPMF_ERROR_UNSUPPORTED,
                     "Toeplitz strategies are not optimized for participation %s, accepted: single, cyclic, min-sep, "
                     "full; optimize for one of them (--optimize-participation) and evaluate for this one",
                     participation->text);
}

/* The columns do not meet. */
static double apart(const toeplitz_pattern *p, int64_t bands, const double *c, double *gradient) {
    double sum = 0;
    for (int64_t i = 0; i < bands; i++) {
        int64_t reach = (p->n - 1 - i) / p->b + 1;
        double times = (double)(reach < p->k ? reach : p->k);
        sum += times * c[i] * c[i];
        if (gradient != NULL) gradient[i] = 2 * times * c[i];
    }
    return sum;
}

/* All of s and of its sums, each from its neighbour one period away; `s` has 2n numbers. */
static double together(const toeplitz_pattern *p, int64_t bands, const double *c, double *s, double *gradient) {
    const int64_t n = p->n, b = p->b, whole = p->k * b;
    double square = 0, *sums = s + n;
    for (int64_t t = 0; t < n; t++) {
        double here = (t < bands ? c[t] : 0) + (t >= b ? s[t - b] : 0);
        if (t >= whole && t - whole < bands) here -= c[t - whole];
        s[t] = here;
        square += here * here;
    }
    if (gradient == NULL) return square;
    for (int64_t t = n - 1; t >= 0; t--) {
        sums[t] = s[t] + (t + b < n ? sums[t + b] : 0) - (t + whole < n ? s[t + whole] : 0);
        if (t < bands) gradient[t] = 2 * sums[t];
    }
    return square;
}

/* times |P|^2; `sums` has b numbers. */
static double periods(double times, int64_t b, int64_t bands, const double *c, double *sums, double *gradient) {
    double square = 0;
    memset(sums, 0, (size_t)b * sizeof *sums);
    for (int64_t i = 0; i < bands; i++)
        sums[i % b] += c[i];
    for (int64_t r = 0; r < b; r++)
        square += sums[r] * sums[r];
    for (int64_t i = 0; gradient != NULL && i < bands; i++)
        gradient[i] += 2 * times * sums[i % b];
    return times * square;
}

dpmf_status toeplitz_square(const toeplitz_pattern *pattern, int64_t bands, const double *c, double *value,
                            double *gradient) {
    toeplitz_pattern p = *pattern;
    double *s = NULL;
    assert(bands >= 1 && bands <= p.n);
    if (bands <= p.b) {
        *value = apart(&p, bands, c, gradient);
        return DPMF_OK;
    }
    int64_t least = (bands + p.b - 1) / p.b + 1, left_out = p.k > least ? p.k - least : 0;
    p.k -= left_out;
    p.n -= left_out * p.b;
    int64_t reach = (p.k - 1) * p.b + bands; /* s is zero from there on */
    if (p.n > reach) p.n = reach;
    TRY(base_alloc_doubles(2 * p.n + p.b, "sums of columns", &s));
    double square = together(&p, bands, c, s, gradient);
    if (left_out > 0) square += periods((double)left_out, p.b, bands, c, s + 2 * p.n, gradient);
    *value = square;
    base_free(s);
    return DPMF_OK;
}
