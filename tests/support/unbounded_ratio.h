/* SPDX-License-Identifier: Apache-2.0 */
/* The error of a stream without a horizon at step t over the certified optimum for t steps, from above. */
#ifndef DPMF_TESTS_UNBOUNDED_RATIO_H
#define DPMF_TESTS_UNBOUNDED_RATIO_H

#include "optimum/optimum.h"
#include "strategy/strategy.h"
#include "support/check.h"

#include <math.h>
#include <stdlib.h>

/* The certified optimum of the max loss for n steps of prefix sums, from below or from above. */
static double certified_optimum(int64_t n, int from_above) {
    dpmf_workload *a = workload_of("prefix", n);
    dpmf_run run = dpmf_run_defaults();
    optimum_answer found = {0};
    check_ok(optimum_solve(a, 1, NULL, n <= 131072 ? 1e-6 : 5e-6, &run, &found));
    double value = from_above ? found.upper : found.lower;
    optimum_free(&found);
    dpmf_workload_free(a);
    return value;
}

/* The standard deviation at the t-th step, t from 1. */
static double unbounded_error(const dpmf_strategy *endless, int64_t t) {
    dpmf_workload *a = workload_of("prefix", dpmf_strategy_get(endless).steps);
    double error = 0;
    check_ok(dpmf_error_range(a, endless, t - 1, 1, NULL, &error));
    dpmf_workload_free(a);
    return error;
}

static dpmf_strategy *endless_strategy(void) {
    dpmf_workload *a = workload_of("prefix", DPMF_UNBOUNDED_STEPS_MAX);
    dpmf_strategy *s = NULL;
    check_ok(dpmf_strategy_create("unbounded", a, NULL, &s));
    dpmf_workload_free(a);
    return s;
}

static void check_ratio(const dpmf_strategy *endless, int64_t t, double optimum) {
    double error = unbounded_error(endless, t);
    if (!(error <= 1.29 * optimum && error >= optimum))
        fail_msg("step %lld: error %.9g, optimum %.9g, ratio %.6f", (long long)t, error, optimum, error / optimum);
}

/*
 * The least ratio to the optimum that a mechanism without a horizon can keep at all of the first n steps: gamma_2 of
 * diag(1/opt) A, from below. Reversed and transposed it is A diag(w), w_t = 1/opt(n - t): prefix sums under a schedule.
 */
static double least_ratio(int64_t n, const double *optimum) {
    double *rate = calloc((size_t)n, sizeof *rate);
    dpmf_workload_options o = dpmf_workload_options_defaults();
    dpmf_workload *a = NULL;
    dpmf_run run = dpmf_run_defaults();
    optimum_answer found = {0};
    for (int64_t t = 0; t < n; t++)
        rate[t] = 1 / optimum[n - 1 - t];
    o.learning_rate = rate;
    check_ok(dpmf_workload_create(n, &o, &a));
    check_ok(optimum_solve(a, 1, NULL, 1e-5, &run, &found));
    double lower = found.lower;
    optimum_free(&found);
    dpmf_workload_free(a);
    free(rate);
    return lower;
}

#endif
