/* SPDX-License-Identifier: Apache-2.0 */
/* A request for an optimized Toeplitz strategy, and its evaluated result: for the tests of that name. */
#ifndef DPMF_TESTS_OPTIMIZE_TOEPLITZ_WISH_H
#define DPMF_TESTS_OPTIMIZE_TOEPLITZ_WISH_H

#include <string.h>

#include "families/toeplitz/toeplitz.h"
#include "support/check.h"

#include <math.h>

typedef struct wish {
    optimize_call family;
    const char *workload, *participation;
    int64_t steps;
    dpmf_optimize_options options;
} wish;

typedef struct made {
    dpmf_workload *workload;
    dpmf_participation *participation;
    dpmf_strategy *strategy;
    dpmf_optimization result;
    dpmf_evaluation figures;
    double loss; /* the requested one */
} made;

static void undo(made *m) {
    dpmf_workload_free(m->workload);
    dpmf_participation_free(m->participation);
    dpmf_strategy_free(m->strategy);
}

static dpmf_status try_wish(const wish *w, made *out) {
    made m = {0};
    check_ok(dpmf_workload_parse(w->workload, w->steps, &m.workload));
    check_ok(dpmf_participation_parse(w->participation, w->steps, &m.participation));
    const optimize_task task = {m.workload, m.participation, &w->options, NULL};
    dpmf_status status = w->family(&task, &m.strategy, &m.result);
    if (status != DPMF_OK) {
        assert_null(m.strategy);
        undo(&m);
        return status;
    }
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    o.weights = w->options.weights;
    o.lower_bound = DPMF_LOWER_BOUND_NONE;
    check_ok(dpmf_evaluate(m.workload, m.participation, m.strategy, &o, &m.figures, NULL));
    m.loss = w->options.loss == DPMF_LOSS_MAX ? m.figures.max_loss : m.figures.rms_loss;
    *out = m;
    return DPMF_OK;
}

static made make(const wish *w) {
    made m = {0};
    check_ok(try_wish(w, &m));
    assert_int_equal(m.result.outcome, DPMF_CONVERGED);
    assert_true(m.result.optimum_lower == 0 && m.result.optimum_upper == INFINITY && m.result.scope == NULL);
    return m;
}

static double loss_of(const wish *w) {
    made m = make(w);
    double loss = m.loss;
    if (strncmp(w->participation, "cyclic", 6) != 0) /* where signs are mixed, and a bound may be all that is known */
        assert_int_equal(m.figures.sensitivity.kind, DPMF_EXACT);
    undo(&m);
    return loss;
}

#endif
