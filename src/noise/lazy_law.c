/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The law of the noise that a number has missed. A step of a stream with r buffers is linear (strategy/strategy.h):
 *
 *     y_u = h_u' m_u + d_u' z_u,     m_{u+1} = A_u m_u + B_u z_u,     z_u standard normal, new in every step.
 *
 * Given m_from, the sum S of f_u y_u over u = from .. to-1 and m_to are together normal. Their mean is P m_from, their
 * covariance L L', so that 1 + r normals give them, however many steps were missed. For r = 0, independent noise, this is
 * the aggregated noise of LazyDP (Lim et al. 2024). The process m is Markov, and numbers are independent of each
 * other: drawing each of them at times that depend on the data and on what was drawn before has the law of the stream that
 * draws every row and is read at the same times.
 *
 * P and L are made backwards, from `to`: with P and L those of from + 1 and e_0 the output S,
 *
 *     V = P B + e_0 f d',     L L' <- L L' + V V',     P <- P A + e_0 f h'.
 *
 * The covariance is a sum of squares, and L is kept triangular by Givens rotations.
 * So nothing is subtracted, L L' is never indefinite, and each output's deviation is right to a few roundings for each step, with
 * buffers of any size. Differences or powers of covariances, and their Cholesky factors, would lose what the buffers of two
 * nearly equal decays do not share. A column of L is 0 until as many normals are needed.
 */
#include "noise/lazy.h"

#include "base/memory.h"

#include <assert.h>
#include <math.h>
#include <string.h>

dpmf_status noise_lazy_check(const dpmf_strategy *strategy) {
    const dpmf_strategy *leaf = strategy_innermost(strategy);
    TRY(strategy_need_inverse(strategy));
    if (!strategy_can(leaf, STRATEGY_CAN_SAVE))
        return base_fail(DPMF_ERROR_UNSUPPORTED, "lazy noise: a user's operator may only be called step by step, and "
                                                 "missed steps are computed backwards");
    if (!strategy_can(strategy, STRATEGY_CAN_STEP))
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "lazy noise: the family '%s' (%s) uses seeds of other steps again, so that buffers do not "
                         "separate what was missed from what is to come; accepted: streams of up to %d buffers",
                         strategy->family, leaf->ops->class_name, NOISE_LAZY_BUFFERS);
    if (strategy_buffers(strategy) > NOISE_LAZY_BUFFERS)
        return base_fail(
            DPMF_ERROR_UNSUPPORTED,
            "lazy noise: the strategy '%s' keeps %lld rows, accepted: up to %d (a draw takes a normal number "
            "and a product for each); fewer bands or a BLT do",
            strategy->family, (long long)strategy_buffers(strategy), NOISE_LAZY_BUFFERS);
    return DPMF_OK;
}

dpmf_status noise_lazy_open(const dpmf_strategy *strategy, const double *factor, noise_lazy_law *law) {
    TRY(noise_lazy_check(strategy));
    *law = (noise_lazy_law){.strategy = strategy, .factor = factor, .buffers = strategy_buffers(strategy)};
    for (int64_t t = 0; t < strategy->steps && (t == 0 || strategy->ops->seeds != NULL); t++) {
        const int64_t seeds = dpmf_strategy_seeds(strategy, t);
        if (seeds > law->seeds_max) law->seeds_max = seeds;
    }
    const int64_t inputs = law->buffers + law->seeds_max;
    TRY(base_alloc_doubles((law->buffers + law->seeds_max + 1) * inputs, "the law of late noise", &law->memory));
    law->state = law->memory;
    law->seed = law->state + law->buffers * inputs;
    law->row = law->seed + law->seeds_max * inputs;
    return DPMF_OK;
}

void noise_lazy_close(noise_lazy_law *law) {
    base_free(law->memory);
    *law = (noise_lazy_law){0};
}

void noise_lazy_begin(noise_lazy_law *law, int64_t to) {
    const int64_t r = law->buffers;
    assert(to >= 0 && to <= law->strategy->steps);
    law->from = law->to = to;
    memset(law->p, 0, sizeof law->p);
    memset(law->l, 0, sizeof law->l);
    for (int64_t j = 0; j < r; j++)
        law->p[(1 + j) * r + j] = 1;
}

/* Unit vectors as coordinates: `state` becomes (A B) and `row` (h' d'), a column for each buffer and then for each seed. */
static int64_t read_step(noise_lazy_law *law, int64_t t) {
    const int64_t r = law->buffers, seeds = dpmf_strategy_seeds(law->strategy, t), inputs = r + seeds;
    memset(law->state, 0, (size_t)(r * inputs) * sizeof(double));
    memset(law->seed, 0, (size_t)(seeds * inputs) * sizeof(double));
    for (int64_t j = 0; j < r; j++)
        law->state[j * inputs + j] = 1;
    for (int64_t k = 0; k < seeds; k++)
        law->seed[k * inputs + r + k] = 1;
    law->strategy->ops->step(law->strategy, t, inputs, law->seed, law->state, law->row);
    return inputs;
}

/* out = column `input` of P (A B) + e_0 f (h' d'). */
static void take_column(const noise_lazy_law *law, int64_t inputs, int64_t input, double f, double *out) {
    const int64_t r = law->buffers;
    for (int64_t q = 0; q <= r; q++) {
        out[q] = q == 0 ? f * law->row[input] : 0;
        for (int64_t j = 0; j < r; j++)
            out[q] += law->p[q * r + j] * law->state[j * inputs + input];
    }
}

/* Factors of a table in float64 may be below 2^-500, or above 2^500: their squares would be 0, or infinite, and the noise 0. */
static double norm_of(double a, double b) {
    const double norm = sqrt(a * a + b * b);
    int e = 0;
    if (norm > 0x1p-500 && norm < 0x1p500) return norm;
    frexp(fmax(fabs(a), fabs(b)), &e);
    a = ldexp(a, -e);
    b = ldexp(b, -e);
    return ldexp(sqrt(a * a + b * b), e);
}

/* L L' + v v' = (L v)(L v)': a rotation of columns j and v makes v[j] = 0, one j after the other. */
static void add_square(double *l, int64_t size, double *v) {
    for (int64_t j = 0; j < size; j++) {
        const double a = l[j * size + j], b = v[j];
        if (b == 0) continue;
        const double norm = norm_of(a, b), c = a / norm, s = b / norm;
        for (int64_t i = j; i < size; i++) {
            const double held = l[i * size + j];
            l[i * size + j] = c * held + s * v[i];
            v[i] = c * v[i] - s * held;
        }
    }
}

void noise_lazy_back(noise_lazy_law *law) {
    const int64_t r = law->buffers;
    double column[NOISE_LAZY_OUTPUTS], next[NOISE_LAZY_OUTPUTS * NOISE_LAZY_BUFFERS];
    assert(law->from > 0);
    const int64_t t = --law->from, inputs = read_step(law, t);
    for (int64_t k = r; k < inputs; k++) {
        take_column(law, inputs, k, law->factor[t], column);
        add_square(law->l, 1 + r, column);
    }
    for (int64_t j = 0; j < r; j++) {
        take_column(law, inputs, j, law->factor[t], column);
        for (int64_t q = 0; q <= r; q++)
            next[q * r + j] = column[q];
    }
    memcpy(law->p, next, (size_t)((1 + r) * r) * sizeof(double));
}
