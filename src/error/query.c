/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How sure an answer is that somebody computes from a released stream. Every linear question on it is q'x, x_t = g_t +
 * scale (W Z)_t the noisy sums of the steps: c'o on the answers o = A x has q = A'c. Its noise has the variance
 *
 *     scale^2 |W'q|^2,
 *
 * exactly, with all covariances between steps. W' is not formed:
 *
 *     C Toeplitz     W'q = P W P q with P the reversal: one solve
 *     C a matrix     one triangular solve with its transpose
 *     otherwise      q'x is the last answer of prefix sums under the "learning rates" q, which may be 0 or negative here;
 *                    the covariance recursions of error/error.c give its variance in O(n r^2)
 *
 * Several intervals at once: by the Gaussian correlation inequality (Royen 2014) centred jointly normal numbers stay within
 * symmetric limits together with at least the probability that independent ones would, so that each of k intervals at
 * level^(1/k) is enough (Sidak 1967) for any correlations.
 *
 * Totals of numbers that are not negative do not fall. The nearest such sequence, by weights 1/variance, is found by pooling
 * adjacent violators; since the true totals are such a sequence, and a projection to a convex set brings no point of the set
 * further away, the weighted squared error does not grow, for any data.
 */
#include "error/error.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "base/special.h"
#include "strategy/strategy.h"
#include "workload/workload.h"

#include <math.h>
#include <string.h>

static dpmf_status deviation_toeplitz(const dpmf_strategy *s, int64_t count, const double *q, double *out) {
    double *x = NULL;
    TRY(base_alloc_doubles(s->steps, "a question", &x));
    for (int64_t t = 0; t < count; t++)
        x[s->steps - 1 - t] = q[t];
    dpmf_status status = dpmf_strategy_solve(s, x, x);
    if (status == DPMF_OK) *out = base_norm(s->steps, x);
    base_free(x);
    return status;
}

/* x = C'^-1 q, the last row first. */
static dpmf_status deviation_dense(int64_t n, const double *c, int64_t count, const double *q, double *out) {
    double *x = NULL;
    TRY(base_alloc_doubles(n, "a question", &x));
    memcpy(x, q, (size_t)count * sizeof *x);
    for (int64_t t = count - 1; t >= 0; t--) {
        x[t] /= c[t * n + t];
        for (int64_t u = 0; u < t; u++)
            x[u] -= c[t * n + u] * x[t];
    }
    *out = base_norm(count, x);
    base_free(x);
    return DPMF_OK;
}

/* Prefix sums whose step t is weighed by q_t. No such workload leaves this file: others may trust that rates are positive. */
static dpmf_status make_weighed(int64_t n, int64_t count, const double *q, dpmf_workload **out) {
    double *rates = NULL;
    dpmf_workload *a = NULL;
    dpmf_workload_options o = dpmf_workload_options_defaults();
    TRY(base_alloc_doubles(n, "a question", &rates));
    for (int64_t t = 0; t < n; t++)
        rates[t] = 1;
    o.learning_rate = rates;
    dpmf_status status = dpmf_workload_create(n, &o, &a);
    base_free(rates);
    if (status != DPMF_OK) return status;
    a->toeplitz = 0;
    memset(a->learning_rate, 0, (size_t)n * sizeof *a->learning_rate);
    memcpy(a->learning_rate, q, (size_t)count * sizeof *q);
    *out = a;
    return DPMF_OK;
}

static dpmf_status deviation_driven(const dpmf_strategy *s, int64_t count, const double *q, const dpmf_run *run,
                                    double *out) {
    dpmf_workload *a = NULL;
    double *errors = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(make_weighed(s->steps, count, q, &a));
    TRY_DONE(base_alloc_doubles(s->steps, "the errors", &errors));
    TRY_DONE(dpmf_error_compute(a, s, run, errors));
    *out = errors[s->steps - 1];
done:
    base_free(errors);
    dpmf_workload_free(a);
    return status;
}

dpmf_status dpmf_query_deviation(const dpmf_strategy *strategy, int64_t count, const double *weights,
                                 const dpmf_run *run, double *deviation) {
    dpmf_strategy *s = NULL;
    double found = 0;
    if (strategy == NULL || weights == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "query: the strategy or the weights are NULL");
    if (count < 1 || count > strategy->steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "query: %lld steps, accepted 1 to %lld", (long long)count,
                         (long long)strategy->steps);
    for (int64_t t = 0; t < count; t++)
        if (!isfinite(weights[t]))
            return base_fail(DPMF_ERROR_ARGUMENT, "query: weight %lld = %g, accepted: finite", (long long)t,
                             weights[t]);
    TRY(strategy_need_inverse(strategy));
    TRY(strategy_cut(strategy, count, &s));
    const double *matrix = strategy_matrix(s);
    dpmf_status status;
    if (strategy_can(s, STRATEGY_CAN_TOEPLITZ) || s->ops->is_toeplitz)
        status = deviation_toeplitz(s, count, weights, &found);
    else if (matrix != NULL)
        status = deviation_dense(s->steps, matrix, count, weights, &found);
    else
        status = deviation_driven(s, count, weights, run, &found);
    dpmf_strategy_free(s);
    if (status == DPMF_OK) *deviation = found;
    return status;
}

dpmf_status dpmf_query_multiplier(double level, int64_t intervals, double *out) {
    if (!(level > 0 && level < 1) || intervals < 1)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "query: level %g of %lld intervals, accepted 0 < level < 1 and 1 interval or more", level,
                         (long long)intervals);
    const double tail = -expm1(log(level) / (double)intervals) / 2; /* of one side of one interval */
    double low = 0, high = 40;
    while (high - low > 1e-13 * high) { /* to the side that is too wide */
        double middle = low + (high - low) / 2;
        if (!(middle > low && middle < high)) break;
        if (base_normal_cdf(-middle) > tail)
            low = middle;
        else
            high = middle;
    }
    *out = high;
    return DPMF_OK;
}

typedef struct pool {
    double mean, weight;
    int64_t count;
} pool;

dpmf_status dpmf_query_monotone(int64_t count, const double *values, const double *deviations, double least,
                                double *out) {
    pool *stack = NULL;
    int64_t top = 0, at = 0;
    if (count < 1 || values == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "query: no values");
    for (int64_t t = 0; t < count; t++)
        if (!isfinite(values[t]) || (deviations != NULL && !(deviations[t] > 0 && isfinite(deviations[t]))))
            return base_fail(DPMF_ERROR_ARGUMENT, "query: value %lld, accepted: finite, with a deviation above 0",
                             (long long)t);
    TRY(base_alloc(count, sizeof *stack, "pools of values", (void **)&stack));
    for (int64_t t = 0; t < count; t++) {
        pool now = {values[t], deviations == NULL ? 1 : 1 / (deviations[t] * deviations[t]), 1};
        while (top > 0 && stack[top - 1].mean >= now.mean) {
            const pool *before = &stack[--top];
            now.mean = before->mean + (now.mean - before->mean) * (now.weight / (now.weight + before->weight));
            now.weight += before->weight;
            now.count += before->count;
        }
        stack[top++] = now;
    }
    for (int64_t i = 0; i < top; i++)
        for (int64_t k = 0; k < stack[i].count; k++)
            out[at++] = fmax(stack[i].mean, least);
    base_free(stack);
    return DPMF_OK;
}

void dpmf_query_monotone_bands(int64_t count, double *lower, double *upper) {
    for (int64_t t = 1; t < count; t++)
        lower[t] = fmax(lower[t], lower[t - 1]);
    for (int64_t t = count - 2; t >= 0; t--)
        upper[t] = fmin(upper[t], upper[t + 1]);
}
