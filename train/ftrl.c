/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follow the regularized leader: from the private prefix sum to weights (Pillutla et al. 2025, Section 1.10.2).
 *
 *     w = argmin over Theta of  <s, w> + h(w)/eta
 *
 * Squared distance, h(w) = |w - w_0|^2/2: with z = w_0 - eta s this is the point of Theta nearest to z. The stepper keeps z,
 * never its projection, so the sum of all gradients counts (lazy projection):
 *
 *     ball      z min(1, R/|z|)
 *     box       each entry to [-R, R]
 *     simplex   max(z_i - tau, 0) with the tau for which they sum to R. With the entries in falling order u_1 >= u_2 >= ...,
 *               tau = (u_1 + ... + u_k - R)/k for the largest k with u_k above it (Duchi et al. 2008), which is the largest of
 *               these quotients.
 *
 * L1 (Xiao 2009, regularized dual averaging): the penalty adds threshold |w|_1 to |w - z|^2/2, so that every entry first moves by
 * `threshold` towards 0, and is 0 if it would pass it. Then comes the projection: for a box because entries are separate and
 * the best point of an interval is the one nearest to the free optimum; for a ball because the minimum with a multiplier mu,
 * (1 + mu) w - z + threshold d|w|_1 = 0, is that point divided by 1 + mu. On a simplex |w|_1 is constant.
 *
 * Entropy on the simplex, h(w) = sum w ln w: with z = -eta s the derivative ln w_i + 1 - z_i is the same for all i, so that
 * w_i = R exp(z_i)/(sum of exp(z_j)). Only differences of z matter, so its largest entry is moved to 0: floats keep their
 * digits, and exp never overflows.
 *
 * Everything is one loop in one order in double, of basic operations alone: the same bits everywhere.
 */
#include "train/train.h"

#include "base/memory.h"
#include "train/basic.h"

#include <math.h>
#include <stdlib.h>

static const double LARGEST = 1e30; /* as the optimizer's */

static dpmf_status check_leader(const dpmf_trainer_options *o) {
    const int constraint = (int)o->constraint, regularizer = (int)o->regularizer;
    if (constraint < 0 || constraint > DPMF_WEIGHTS_SIMPLEX)
        return base_fail(DPMF_ERROR_ARGUMENT, "constraint %d, accepted: 0 (none), 1 (ball), 2 (box), 3 (simplex)",
                         constraint);
    if (regularizer < 0 || regularizer > DPMF_REGULARIZER_ENTROPY)
        return base_fail(DPMF_ERROR_ARGUMENT, "regularizer %d, accepted: 0 (squared distance), 1 (l1), 2 (entropy)",
                         regularizer);
    if (o->optimizer != DPMF_OPTIMIZER_FTRL && (constraint != 0 || regularizer != 0))
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "constraint %d and regularizer %d with optimizer %d, accepted: 0 and 0; 4 (FTRL) has them",
                         constraint, regularizer, (int)o->optimizer);
    if (constraint == 0 && o->radius != 0.0)
        return base_fail(DPMF_ERROR_ARGUMENT, "radius = %g without a constraint, accepted: 0", o->radius);
    if (constraint != 0 && (!(o->radius > 0.0) || !(o->radius < LARGEST)))
        return base_fail(DPMF_ERROR_ARGUMENT, "radius = %g, accepted: above 0 and below %g", o->radius, LARGEST);
    if (regularizer != DPMF_REGULARIZER_L1 && o->l1 != 0.0)
        return base_fail(DPMF_ERROR_ARGUMENT, "l1 = %g without the regularizer l1, accepted: 0", o->l1);
    if (regularizer == DPMF_REGULARIZER_L1 && (!(o->l1 > 0.0) || !(o->l1 < LARGEST)))
        return base_fail(DPMF_ERROR_ARGUMENT, "l1 = %g, accepted: above 0 and below %g", o->l1, LARGEST);
    if (regularizer == DPMF_REGULARIZER_L1 && constraint == DPMF_WEIGHTS_SIMPLEX)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "regularizer l1 on a simplex, where the l1 norm is constant: accepted are "
                         "no constraint, a ball and a box");
    if (regularizer == DPMF_REGULARIZER_ENTROPY && constraint != DPMF_WEIGHTS_SIMPLEX)
        return base_fail(DPMF_ERROR_ARGUMENT, "regularizer entropy with constraint %d, accepted: 3 (simplex)",
                         constraint);
    return DPMF_OK;
}

dpmf_status train_leader_open(const dpmf_trainer_options *o, int64_t dim, train_leader *out) {
    train_leader made = {o->constraint, o->radius, o->regularizer, o->l1, NULL};
    TRY(check_leader(o));
    if (o->constraint == DPMF_WEIGHTS_SIMPLEX && o->regularizer == DPMF_REGULARIZER_SQUARED)
        TRY(base_alloc_doubles(dim, "the projection on a simplex", &made.room));
    *out = made;
    return DPMF_OK;
}

void train_leader_close(train_leader *leader) {
    base_free(leader->room);
    *leader = (train_leader){0};
}

static double shrink(double x, double threshold) {
    const double size = fabs(x) - threshold;
    return size >= 0.0 ? copysign(size, x) : 0.0; /* threshold 0: x itself, with its sign */
}

static void to_ball(double radius, int64_t dim, double threshold, const float *z, float *weights) {
    double square = 0.0;
    for (int64_t i = 0; i < dim; i++) {
        const double x = shrink((double)z[i], threshold);
        square += x * x;
    }
    const double norm = sqrt(square), factor = norm > radius ? radius / norm : 1.0;
    for (int64_t i = 0; i < dim; i++)
        weights[i] = (float)(factor * shrink((double)z[i], threshold));
}

static void to_box(double radius, int64_t dim, double threshold, const float *z, float *weights) {
    for (int64_t i = 0; i < dim; i++)
        weights[i] = (float)fmin(fmax(shrink((double)z[i], threshold), -radius), radius);
}

static int compare_falling(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* tau of the entries, whose order may change. tau is the largest (u_1 + ... + u_k - R)/k of all k. */
static double tau_of(double radius, int64_t count, double *entries) {
    enum { ROUNDS = 10 };
    double sum = 0.0, tau = 0.0;
    /* The quotient of any entries is at most tau: those below it are no part of the sum. Often a few rounds leave the rest. */
    for (int round = 0; round < ROUNDS; round++) {
        int64_t kept = 0;
        sum = 0.0;
        for (int64_t i = 0; i < count; i++)
            sum += entries[i];
        tau = (sum - radius) / (double)count;
        for (int64_t i = 0; i < count; i++)
            if (entries[i] > tau) entries[kept++] = entries[i];
        if (kept == count) return tau;
        if (kept == 0) break; /* rounding: R is far below the digits of the entries */
        count = kept;
    }
    qsort(entries, (size_t)count, sizeof *entries, compare_falling);
    sum = 0.0;
    for (int64_t k = 0; k < count; k++) {
        sum += entries[k];
        const double candidate = (sum - radius) / (double)(k + 1);
        if (!(entries[k] > candidate)) break; /* and no later one is above its own */
        tau = candidate;
    }
    return tau;
}

/* Entries relative to the largest one: sums keep their digits however far z is from the simplex. */
static void to_simplex(double radius, int64_t dim, double largest, double *room, const float *z, float *weights) {
    for (int64_t i = 0; i < dim; i++)
        room[i] = (double)z[i] - largest;
    const double tau = tau_of(radius, dim, room);
    for (int64_t i = 0; i < dim; i++)
        weights[i] = (float)fmax(((double)z[i] - largest) - tau, 0.0);
}

static void by_entropy(double radius, int64_t dim, double largest, float *z, float *weights) {
    double sum = 0.0;
    for (int64_t i = 0; i < dim; i++) {
        z[i] = (float)((double)z[i] - largest);
        sum += train_exp_negative((double)z[i]);
    }
    for (int64_t i = 0; i < dim; i++)
        weights[i] = (float)(radius * (train_exp_negative((double)z[i]) / sum));
}

void train_leader_weights(const train_leader *leader, int64_t dim, double threshold, float *z, float *weights) {
    float largest = -INFINITY;
    int finite = isfinite(threshold);
    for (int64_t i = 0; i < dim; i++) {
        finite &= isfinite(z[i]) != 0;
        largest = fmaxf(largest, z[i]); /* a float: gcc 12 for aarch64 fails on the larger of doubles made of floats */
    }
    if (!finite) { /* a constraint must not hide it */
        for (int64_t i = 0; i < dim; i++)
            weights[i] = NAN;
        return;
    }
    switch (leader->constraint) {
    case DPMF_WEIGHTS_FREE:
        to_box(INFINITY, dim, threshold, z, weights);
        break;
    case DPMF_WEIGHTS_BALL:
        to_ball(leader->radius, dim, threshold, z, weights);
        break;
    case DPMF_WEIGHTS_BOX:
        to_box(leader->radius, dim, threshold, z, weights);
        break;
    case DPMF_WEIGHTS_SIMPLEX:
        if (leader->regularizer == DPMF_REGULARIZER_ENTROPY)
            by_entropy(leader->radius, dim, (double)largest, z, weights);
        else
            to_simplex(leader->radius, dim, (double)largest, leader->room, z, weights);
        break;
    }
}
