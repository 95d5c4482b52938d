/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The account of capped sampling: by the curve of a step, composed (account/capped/capped.c, account/grid/product.c), and by
 * coupling with uncapped sampling; the smaller is the answer and is named. Blocks that the units do not fill equally have two
 * sizes; a unit is in one of them, and the larger account holds for all.
 */
#include "account/capped/capped.h"

#include <math.h>

static const char METHOD_CURVE[] = "capped sampling, the curve of a step composed by tilted FFT";
static const char METHOD_COUPLING[] = "capped sampling, coupled with uncapped sampling";
static const char METHOD_KNOWN[] = "Gaussian mechanism without the sampling, closed form";
static const double COARSE = 0.02;

int capped_binds(const account_composed *c) {
    return c->cap > 0 && c->cap < (c->units + c->blocks - 1) / c->blocks;
}

/* Block sizes that occur and in which the cap can bind: at most two. */
static int sizes_of(const account_composed *c, int64_t sizes[2]) {
    const int64_t small = c->units / c->blocks, large = small + (c->units % c->blocks != 0);
    int count = 0;
    if (large > c->cap) sizes[count++] = large;
    if (small != large && small > c->cap) sizes[count++] = small;
    return count;
}

static account_composed without_cap(const account_composed *c) {
    account_composed plain = *c;
    plain.cap = 0;
    return plain;
}

static void keep_smaller(account_answer *best, double value, const char *method, int met) {
    if (value < best->value) *best = (account_answer){value, DPMF_UPPER_BOUND, method, met};
}

/* ---- epsilon ---- */

static dpmf_status curve_epsilon(const account_composed *c, const capped_scheme *s, double log_delta, double *worst,
                                 int *met) {
    const grid_part part = account_capped_part(s, c->compositions);
    const int directions = c->adjacency == DPMF_ADJACENCY_REPLACE_ONE ? 1 : 2;
    for (int i = 0; i < directions; i++) {
        grid_list_options how = {i == 0 ? c->relative : fmax(COARSE, c->relative), c->absolute, c->run};
        double found = INFINITY;
        int fine = 0;
        TRY(grid_list_epsilon(1, &part, i, log_delta, &how, &found, &fine));
        how.relative = c->relative;
        if (i > 0 && found > *worst) TRY(grid_list_epsilon(1, &part, i, log_delta, &how, &found, &fine));
        if (found > *worst) *met = fine;
        *worst = fmax(*worst, found);
    }
    return DPMF_OK;
}

/* The least epsilon found with uncapped delta + coupling <= delta; INFINITY if the coupling alone is as large. */
static dpmf_status coupled_epsilon(const account_composed *c, const capped_scheme *s, double log_delta, double *out,
                                   int *met) {
    const account_composed plain = without_cap(c);
    const double n = (double)c->compositions;
    account_answer found;
    double epsilon = 0;
    *out = INFINITY;
    for (int i = 0; i < 4; i++) { /* what the coupling takes grows with epsilon: from below, then confirmed */
        const double taken = capped_log_coupling(s, n, epsilon * (1 + 1e-4) + 1e-6);
        if (!(taken < log_delta - 1e-3)) return DPMF_OK;
        const double left = log_delta + log1p(-exp(taken - log_delta));
        TRY(account_composed_epsilon(&plain, left - 1e-14 * fabs(left), &found));
        if (found.value <= epsilon * (1 + 1e-4) + 1e-6) {
            *out = found.value;
            *met = found.met;
            return DPMF_OK;
        }
        epsilon = found.value;
    }
    return DPMF_OK;
}

dpmf_status capped_epsilon(const account_composed *c, double log_delta, account_answer *out) {
    double curve = 0, coupled = 0;
    int64_t sizes[2];
    int curve_met = 1, coupled_met = 1;
    const int count = sizes_of(c, sizes);
    for (int i = 0; i < count; i++) {
        capped_scheme s;
        double value = INFINITY;
        capped_make(c->probability, c->sigma, c->cap, sizes[i], c->adjacency, &s);
        TRY(curve_epsilon(c, &s, log_delta, &curve, &curve_met));
        TRY(coupled_epsilon(c, &s, log_delta, &value, &coupled_met));
        coupled = fmax(coupled, value);
    }
    account_answer best = {curve, DPMF_UPPER_BOUND, METHOD_CURVE, curve_met};
    keep_smaller(&best, coupled, METHOD_COUPLING, coupled_met);
    keep_smaller(&best, account_gaussian_epsilon(account_composed_mu(c), log_delta), METHOD_KNOWN, 1);
    *out = best;
    return DPMF_OK;
}

/* ---- ln delta ---- */

static dpmf_status curve_log_delta(const account_composed *c, const capped_scheme *s, double epsilon, double *worst,
                                   int *met) {
    const grid_part part = account_capped_part(s, c->compositions);
    const grid_list_options how = {c->relative, c->absolute, c->run};
    const int directions = c->adjacency == DPMF_ADJACENCY_REPLACE_ONE ? 1 : 2;
    for (int i = 0; i < directions; i++) {
        double found = 0;
        int fine = 0;
        TRY(grid_list_log_delta(1, &part, i, epsilon, &how, &found, &fine));
        if (found > *worst) *met = fine;
        *worst = fmax(*worst, found);
    }
    return DPMF_OK;
}

dpmf_status capped_log_delta(const account_composed *c, double epsilon, account_answer *out) {
    const account_composed plain = without_cap(c);
    double curve = -INFINITY, missed = -INFINITY;
    int64_t sizes[2];
    int met = 1;
    account_answer uncapped;
    const int count = sizes_of(c, sizes);
    for (int i = 0; i < count; i++) {
        capped_scheme s;
        capped_make(c->probability, c->sigma, c->cap, sizes[i], c->adjacency, &s);
        TRY(curve_log_delta(c, &s, epsilon, &curve, &met));
        missed = fmax(missed, capped_log_coupling(&s, (double)c->compositions, epsilon));
    }
    TRY(account_composed_log_delta(&plain, epsilon, &uncapped));
    account_answer best = {curve, DPMF_UPPER_BOUND, METHOD_CURVE, met};
    const double most = fmax(uncapped.value, missed), least = fmin(uncapped.value, missed);
    const double both = most == -INFINITY ? most : most + log1p(exp(least - most)) + 1e-14;
    keep_smaller(&best, fmin(both, 0), METHOD_COUPLING, uncapped.met);
    keep_smaller(&best, account_gaussian_log_delta(account_composed_mu(c), epsilon), METHOD_KNOWN, 1);
    *out = best;
    return DPMF_OK;
}
