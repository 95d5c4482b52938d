/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bound on the regret of private online gradient descent (Denisov et al. 2022, Proposition 4.1, after Kairouz et al. 2021).
 *
 * Step t of n uses one loss l_t, convex, with gradients of norm at most L, and releases w_{t+1} = w_1 - eta (g_1 + ... + g_t +
 * noise), g_t the gradient of l_t at w_t. The clip norm is L, so that nothing is clipped. The noise of m coordinates has the
 * deviation L sigma s |B_t| in each of them, s the sensitivity. For every u with |u - w_1| <= D:
 *
 *     mean over t of E[l_t(w_t) - l_t(u)]  <=  D^2/(2 eta n) + eta L^2/2 + eta L^2 sigma sqrt(m) x RMS loss
 *
 * Proof. By convexity the left side is at most the mean of <g_t, w_t - u>. Split w_t = v_t + b_t, v_t the iterate of the
 * same gradients without noise. |v_{t+1} - u|^2 = |v_t - u|^2 - 2 eta <g_t, v_t - u> + eta^2 |g_t|^2; its sum over t gives the
 * first two terms, for any gradients. <g_t, b_t> <= L |b_t|, and by Jensen, used twice, the mean of E|b_t| is at most
 * sqrt(mean of E|b_t|^2) = eta L sigma sqrt(m) x RMS loss. All of it holds for each path, so the gradients may depend on the
 * noise before them, and u on all losses.
 *
 * The proposition's statement has eta L^2, which is twice what the proof needs, and no sqrt(m): its last line takes
 * E|B Z|_F^2 for sigma^2 |B|_F^2, which is right for m = 1; Z has m columns.
 *
 * The same holds for follow the regularized leader on a closed convex set that has w_1 and u (train/ftrl.c): with
 * F(s) = max over the set of <-s, w> - |w - w_1|^2/(2 eta), whose gradient is eta-Lipschitz, the sum of <g_t, v_t - u> is at most
 * D^2/(2 eta) + eta/2 sum |g_t|^2, and projections do not make |b_t| larger.
 *
 * Without a given rate it is the one of the least bound, eta = D/(L sqrt(n (1 + 2 sigma sqrt(m) RMS loss))), and the bound
 * is D L sqrt((1 + 2 sigma sqrt(m) RMS loss)/n).
 */
#ifndef DPMF_CLI_REGRET_H
#define DPMF_CLI_REGRET_H

#include "output.h"
#include "problem.h"

typedef struct regret {
    double distance, lipschitz, rate; /* D, L, eta */
    int64_t dim;
    double sigma;
    double steps, noise; /* the first two terms, and the third */
} regret;

/* --regret and --dim. 0, or the exit code after a message. */
int regret_read(const arguments *given, regret *out);

/* Refuses what the bound is not for, before anything is written. Without --epsilon sigma is that of the FILE. */
int regret_check(const arguments *given, const problem *p, regret *r);

/* For what was evaluated; sigma: that of --epsilon, or 0. */
int regret_evaluate(const problem *p, const dpmf_evaluation *found, double sigma, regret *r);

void json_regret(text_buffer *t, const regret *r);
void table_regret(text_buffer *t, const regret *r);

#endif
