/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Balls in bins with correlated noise, C of entries that are not negative, without simulation.
 *
 * Notation: m_j = C x_j, x_j the steps of bin j; G = the Gram matrix of the m_j; d and rho its largest diagonal and off-diagonal
 * entries; b bins. Without the unit the outcome is N(0, sigma^2), with it the mixture of the N(m_j, sigma^2) over all j.
 *
 * Both curves rise with every entry of G: the likelihood ratio is a mean of log-normals of covariance G/sigma^2, and means of
 * convex functions of such sums rise with every covariance (Kahane 1985; docs/accounting.md). So G may be replaced by
 *
 *     rho 1 1' + (d - rho) I  >=  G      entry by entry,
 *
 * which is that of m_j = sqrt(rho) e_0 + sqrt(d - rho) e_j: a Gaussian release of mu = sqrt(rho)/sigma, composed with random
 * allocation of one of b steps at sigma/sqrt(d - rho) (account/allocation/allocation.c). Whoever is told j mod r besides is left
 * with floor(b/r) bins or one more, r apart, and a smaller rho; telling more only raises delta, and so do fewer bins (means of
 * more independent ratios are less spread). r from 1, nothing told, to b, everything told, the Gaussian mechanism: the best of
 * the powers of 2 and b is taken.
 */
#include "account/correlated.h"

#include "account/account.h"
#include "account/allocation/allocation.h"
#include "account/grid/curves.h"

#include <math.h>

enum { LOOKS = 24, FEW = 8 }; /* few bins gain little, and their curves take long */
static const double COARSE = 0.02;

typedef struct bound {
    int64_t bins;
    double shared, own; /* mu of what all bins share, and of what each has to itself */
} bound;

static bound bound_of(const montecarlo_scheme *s, int64_t apart) {
    const int64_t b = s->bins;
    double diagonal = 0, off = 0;
    for (int64_t i = 0; i < b; i++) {
        diagonal = fmax(diagonal, s->gram[i * b + i]);
        for (int64_t j = i + apart; j < b; j += apart)
            off = fmax(off, s->gram[i * b + j]);
    }
    diagonal *= 1 + 1e-12; /* of rounding in the products */
    off = fmin(off * (1 + 1e-12), diagonal);
    return (bound){b / apart, sqrt(off) / s->sigma, sqrt(diagonal - off) / s->sigma};
}

typedef struct parts {
    int count;
    grid_gaussian gaussian;
    allocation_blocks blocks;
    grid_part list[1 + ALLOCATION_PARTS];
} parts;

static dpmf_status parts_of(const bound *b, const grid_list_options *how, parts *out) {
    const account_allocation a = {.sigma = 1 / b->own,
                                  .picks = 1,
                                  .bins = b->bins,
                                  .epochs = 1,
                                  .relative = how->relative,
                                  .absolute = how->absolute,
                                  .run = how->run};
    out->count = 0;
    out->gaussian.mu = b->shared;
    if (b->shared > 0) out->list[out->count++] = grid_gaussian_part(&out->gaussian, 1);
    TRY(allocation_blocks_create(&a, &out->blocks));
    for (int i = 0; i < out->blocks.count; i++)
        out->list[out->count++] = out->blocks.parts[i];
    return DPMF_OK;
}

/* One answer of the bound for bins `apart` apart: epsilon for a ln delta, or (`of_delta`) ln delta for an epsilon. */
static dpmf_status look(const montecarlo_scheme *s, int64_t apart, int of_delta, double at,
                        const grid_list_options *how, double *out, int *met) {
    const bound b = bound_of(s, apart);
    parts p;
    dpmf_status status = DPMF_OK;
    *met = 1;
    if (b.bins <= 1 || b.own < 1e-3 * b.shared) {
        const double mu = hypot(b.shared, b.own);
        *out = of_delta ? account_gaussian_log_delta(mu, at) : account_gaussian_epsilon(mu, at);
        return DPMF_OK;
    }
    TRY(parts_of(&b, how, &p));
    *out = of_delta ? -INFINITY : 0;
    for (int reversed = 0; reversed < 2; reversed++) {
        double found = of_delta ? 0 : INFINITY;
        int fine = 0;
        if (of_delta)
            TRY_DONE(grid_list_log_delta(p.count, p.list, reversed, at, how, &found, &fine));
        else
            TRY_DONE(grid_list_epsilon(p.count, p.list, reversed, at, how, &found, &fine));
        if (found > *out) *met = fine;
        *out = fmax(*out, found);
    }
done:
    allocation_blocks_free(&p.blocks);
    return status;
}

/* The distance for which the bound is least, as far as coarse looks tell. */
static dpmf_status best_distance(const montecarlo_scheme *s, int of_delta, double at, const grid_list_options *how,
                                 int64_t *out) {
    const grid_list_options coarse = {fmax(COARSE, how->relative), how->absolute, how->run};
    double least = INFINITY;
    *out = s->bins;
    for (int64_t apart = 1; apart < 2 * s->bins; apart *= 2) {
        const int64_t here = apart < s->bins ? apart : s->bins, left = s->bins / here;
        if (apart > 1 && left > 1 && left < FEW) continue;
        double found = 0;
        int met = 0;
        TRY(look(s, here, of_delta, at, &coarse, &found, &met));
        if (found < least) {
            least = found;
            *out = here;
        } else if (apart >= 4 && found > 1.2 * least && !of_delta)
            break; /* it rises on from here */
    }
    return DPMF_OK;
}

dpmf_status account_correlated_epsilon(const montecarlo_scheme *s, double log_delta, const grid_list_options *how,
                                       double *epsilon, int *met) {
    int64_t apart = 1;
    TRY(best_distance(s, 0, log_delta, how, &apart));
    return look(s, apart, 0, log_delta, how, epsilon, met);
}

dpmf_status account_correlated_log_delta(const montecarlo_scheme *s, double epsilon, const grid_list_options *how,
                                         double *log_delta, int *met) {
    int64_t apart = 1;
    TRY(best_distance(s, 1, epsilon, how, &apart));
    return look(s, apart, 1, epsilon, how, log_delta, met);
}

/* ln sigma between `low`, too little, and `high`, enough: regula falsi that halves the weight of an end which stays. */
static dpmf_status close_in(montecarlo_scheme *s, int64_t apart, double epsilon, double log_delta,
                            const grid_list_options *how, double tolerance, double low, double at_low, double *high,
                            double at_high) {
    for (int i = 0; i<LOOKS && * high - low> tolerance; i++) {
        double x = low + (*high - low) * at_low / (at_low - at_high), value = 0;
        const double margin = 0.05 * (*high - low);
        int met = 0;
        x = fmin(fmax(x, low + margin), *high - margin);
        s->sigma = exp(x);
        TRY(look(s, apart, 1, epsilon, how, &value, &met));
        const double excess = fmax(value, -1e6) - log_delta;
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

dpmf_status account_correlated_sigma(const montecarlo_scheme *scheme, double epsilon, double log_delta,
                                     const grid_list_options *how, double *sigma) {
    montecarlo_scheme s = *scheme;
    double diagonal = 0, excess = 0, found = 0;
    int64_t apart = 1;
    int met = 0;
    for (int64_t i = 0; i < s.bins; i++)
        diagonal = fmax(diagonal, s.gram[i * s.bins + i]);
    const double most = log(sqrt(diagonal) / account_gaussian_mu(epsilon, log_delta)) + 1e-9;
    double high = most, low = most, at_high = -1e-9;
    do { /* the Gaussian mechanism is enough; down to where the bound is not */
        if (low < most) {
            high = low;
            at_high = excess;
        }
        low -= 0.3;
        s.sigma = exp(low);
        if (low > most - 1.3) TRY(best_distance(&s, 1, epsilon, how, &apart));
        TRY(look(&s, apart, 1, epsilon, how, &found, &met));
        excess = fmax(found, -1e6) - log_delta;
    } while (excess <= 0 && low > most - 12);
    if (excess > 0) TRY(close_in(&s, apart, epsilon, log_delta, how, 0.5 * how->relative, low, excess, &high, at_high));
    *sigma = exp(high);
    return DPMF_OK;
}
