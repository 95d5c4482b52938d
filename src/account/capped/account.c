/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The account of capped sampling: by the curve of a step, composed (account/capped/capped.c, account/grid/grid.c), and by
 * coupling with uncapped sampling; the smaller is the answer and is named. Blocks that the units do not fill equally have two
 * sizes; a unit is in one of them, and the larger account holds for all.
 */
#include "account/capped/capped.h"

#include <math.h>

static const char METHOD_CURVE[] = "capped sampling, the curve of a step composed by tilted FFT";
static const char METHOD_COUPLING[] = "capped sampling, coupled with uncapped sampling";
static const char METHOD_KNOWN[] = "Gaussian mechanism without the sampling, closed form";
static const double COARSE = 0.02;

/* Lists the block sizes that occur and in which the cap can bind: at most two. */
static int sizes_of(const account_question *q, int64_t sizes[2]) {
    const int64_t small = q->units / q->blocks, large = small + (q->units % q->blocks != 0);
    int count = 0;
    if (large > q->cap) sizes[count++] = large;
    if (small != large && small > q->cap) sizes[count++] = small;
    return count;
}

static void keep_smaller(account_answer *best, double value, const char *method, int met) {
    if (value < best->value) *best = (account_answer){value, DPMF_UPPER_BOUND, method, met};
}

/*
 * Answers by the curve of a step. A direction that is not the first is only as fine as it takes to see that it is
 * smaller.
 */
static dpmf_status answer_curve(const account_question *q, const capped_scheme *s, account_answer *worst) {
    const grid_part part = capped_part(s, q->compositions);
    const int directions = q->adjacency == DPMF_ADJACENCY_REPLACE_ONE ? 1 : 2;
    for (int i = 0; i < directions; i++) {
        const grid_source source = {.count = 1, .reversed = i, .parts = &part};
        const int coarse_first = i > 0 && q->of_epsilon;
        account_question at = *q;
        account_answer found;
        if (coarse_first) at.relative = fmax(COARSE, q->relative);
        TRY(grid_answer(&source, &at, &found));
        if (coarse_first && found.value > worst->value) TRY(grid_answer(&source, q, &found));
        account_take_worse(worst, &found);
    }
    return DPMF_OK;
}

/* The least epsilon found with uncapped delta + coupling <= delta; INFINITY if the coupling alone is as large. */
static dpmf_status coupled_epsilon(const account_question *q, const capped_scheme *s, double *out, int *met) {
    const double n = (double)q->compositions, log_delta = q->given;
    account_question plain = *q;
    account_answer found;
    double epsilon = 0;
    *out = INFINITY;
    plain.cap = 0;
    for (int i = 0; i < 4; i++) { /* what the coupling takes grows with epsilon: from below, then confirmed */
        const double taken = capped_log_coupling(s, n, epsilon * (1 + 1e-4) + 1e-6);
        if (!(taken < log_delta - 1e-3)) return DPMF_OK;
        const double left = log_delta + log1p(-exp(taken - log_delta));
        plain.given = left - 1e-14 * fabs(left);
        TRY(composed_answer(&plain, &found));
        if (found.value <= epsilon * (1 + 1e-4) + 1e-6) {
            *out = found.value;
            *met = found.met;
            return DPMF_OK;
        }
        epsilon = found.value;
    }
    return DPMF_OK;
}

/* Uncapped ln delta and the coupling's, added. */
static dpmf_status coupled_log_delta(const account_question *q, double missed, double *out, int *met) {
    account_question plain = *q;
    account_answer uncapped;
    plain.cap = 0;
    TRY(composed_answer(&plain, &uncapped));
    const double most = fmax(uncapped.value, missed), least = fmin(uncapped.value, missed);
    const double both = most == -INFINITY ? most : most + log1p(exp(least - most)) + 1e-14;
    *out = fmin(both, 0);
    *met = uncapped.met;
    return DPMF_OK;
}

dpmf_status capped_answer(const account_question *q, account_answer *out) {
    account_answer best = {account_least(q), DPMF_UPPER_BOUND, METHOD_CURVE, 1};
    double coupled = account_least(q), missed = -INFINITY;
    int64_t sizes[2];
    int coupled_met = 1;
    const int count = sizes_of(q, sizes);
    for (int i = 0; i < count; i++) {
        capped_scheme s;
        double value = INFINITY;
        capped_make(q->probability, q->sigma, q->cap, sizes[i], q->adjacency, &s);
        TRY(answer_curve(q, &s, &best));
        if (q->of_epsilon) {
            TRY(coupled_epsilon(q, &s, &value, &coupled_met));
            coupled = fmax(coupled, value);
        } else {
            missed = fmax(missed, capped_log_coupling(&s, (double)q->compositions, q->given));
        }
    }
    if (!q->of_epsilon) TRY(coupled_log_delta(q, missed, &coupled, &coupled_met));
    keep_smaller(&best, coupled, METHOD_COUPLING, coupled_met);
    keep_smaller(&best, account_gaussian(q, account_unsampled_mu(q)), METHOD_KNOWN, 1);
    *out = best;
    return DPMF_OK;
}
