/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounds for balls in bins with correlated noise, without simulation, for a C whose entries are not negative.
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
#include "account/correlated.h"

#include "account/account.h"
#include "account/allocation/allocation.h"
#include "account/grid/grid.h"

#include <math.h>

enum { LOOKS = 24, FEW = 8 }; /* a few bins gain little, and their curves take long */
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

static dpmf_status parts_of(const bound *b, parts *out) {
    const account_question allocated = {.sigma = 1 / b->own, .picks = 1, .bins = b->bins, .compositions = 1};
    out->count = 0;
    out->gaussian.mu = b->shared;
    if (b->shared > 0) out->list[out->count++] = grid_gaussian_part(&out->gaussian, 1);
    TRY(allocation_blocks_create(&allocated, &out->blocks));
    for (int i = 0; i < out->blocks.count; i++)
        out->list[out->count++] = out->blocks.parts[i];
    return DPMF_OK;
}

/* Computes the answer of the bound for bins `apart` apart. */
static dpmf_status look(const montecarlo_scheme *s, int64_t apart, const account_question *q, account_answer *out) {
    const bound b = bound_of(s, apart);
    parts p;
    dpmf_status status = DPMF_OK;
    *out = (account_answer){account_least(q), DPMF_UPPER_BOUND, NULL, 1};
    if (b.bins <= 1 || b.own < 1e-3 * b.shared) {
        out->value = account_gaussian(q, hypot(b.shared, b.own));
        return DPMF_OK;
    }
    TRY(parts_of(&b, &p));
    for (int reversed = 0; reversed < 2; reversed++) {
        account_answer found;
        TRY_DONE(grid_answer(&(grid_source){.count = p.count, .reversed = reversed, .parts = p.list}, q, &found));
        account_take_worse(out, &found);
    }
done:
    allocation_blocks_free(&p.blocks);
    return status;
}

/* The distance with the least bound, by coarse evaluations. */
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

dpmf_status correlated_answer(const montecarlo_scheme *s, const account_question *q, account_answer *out) {
    int64_t apart = 1;
    TRY(best_distance(s, q, &apart));
    return look(s, apart, q, out);
}

/* ln sigma between `low`, too little, and `high`, enough: regula falsi that halves the weight of an end which stays. */
static dpmf_status close_in(montecarlo_scheme *s, int64_t apart, const account_question *q, double log_delta,
                            double low, double at_low, double *high, double at_high) {
    const double tolerance = 0.5 * q->relative;
    for (int i = 0; i<LOOKS && * high - low> tolerance; i++) {
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

dpmf_status correlated_sigma(const montecarlo_scheme *scheme, const account_question *q, double log_delta,
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
