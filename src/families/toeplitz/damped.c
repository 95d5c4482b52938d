/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The best damped square root: c_t = [A^(1/2)]_t (1 - nu)^t (Pillutla et al. 2025, Eq. 3.27), one parameter, chosen by the
 * loss that is asked for. nu > 0 shortens the memory of C: under several participations the columns of one unit then overlap
 * less, and where the workload forgets by itself less noise has to be cancelled.
 *
 * ln loss is evaluated exactly, O(n log n), for nu = 0 and at GRID values of nu from LEAST/n to 1/2, two per decade, which
 * is finer than what c resolves (a factor of (1-nu)^t matters once nu t is about 1). Golden sections between the neighbours of
 * the best value then find nu to REFINED steps. Losses with two minima that the grid separates are so decided by the grid;
 * no search in coefficients is needed, so that there is no limit on the steps but the memory.
 */
#include "families/toeplitz/toeplitz.h"

#include "base/memory.h"
#include "error/error.h"
#include "sensitivity/sensitivity.h"
#include "workload/workload.h"

#include <math.h>

enum { PER_DECADE = 2, REFINED = 30 };
static const double LEAST = 0.01, MOST = 0.5; /* LEAST is over the steps: below it c is that of nu = 0 to a percent */

typedef struct damped_search {
    const optimize_task *task;
    double *errors; /* one per step */
    int evaluations;
    double nu, loss; /* the best so far */
} damped_search;

static dpmf_status make_damped(const optimize_task *task, double nu, dpmf_strategy **out) {
    dpmf_strategy_options o = dpmf_strategy_options_defaults();
    dpmf_strategy *plain = NULL;
    o.nu = nu;
    TRY(toeplitz_create_root(task->workload, &o, &plain));
    if (task->options->normalize == DPMF_NORMALIZE_NONE) {
        *out = plain;
        return DPMF_OK;
    }
    dpmf_status status = dpmf_strategy_create_normalized(plain, out);
    dpmf_strategy_free(plain);
    return status;
}

/* sensitivity x error of the loss asked for; the best is kept. A sum of weighted squares is as good as its mean here. */
static dpmf_status loss_at(damped_search *s, double nu, double *loss) {
    const dpmf_optimize_options *o = s->task->options;
    const int64_t n = s->task->workload->steps;
    dpmf_evaluate_options how = dpmf_evaluate_options_defaults();
    dpmf_sensitivity sensitivity = {0};
    dpmf_strategy *strategy = NULL;
    double sum = 0, largest = 0;
    dpmf_status status = DPMF_OK;
    how.run = o->run;
    TRY_DONE(make_damped(s->task, nu, &strategy));
    TRY_DONE(dpmf_sensitivity_compute(strategy, s->task->participation, &how, &sensitivity));
    TRY_DONE(dpmf_error_compute(s->task->workload, strategy, &how.run, s->errors));
    for (int64_t t = 0; t < n; t++) {
        sum += (o->weights == NULL ? 1 : o->weights[t]) * s->errors[t] * s->errors[t];
        largest = fmax(largest, s->errors[t]);
    }
    *loss = sensitivity.value * (o->loss == DPMF_LOSS_MAX ? largest : sqrt(sum));
    s->evaluations++;
    if (*loss < s->loss) {
        s->loss = *loss;
        s->nu = nu;
    }
done:
    dpmf_strategy_free(strategy);
    return status;
}

/* The minimum between two values of ln nu, by golden sections; the ends have been evaluated. */
static dpmf_status refine(damped_search *s, double low, double high) {
    const double golden = 0.5 * (sqrt(5) - 1);
    double left = high - golden * (high - low), right = low + golden * (high - low), at_left = 0, at_right = 0;
    TRY(loss_at(s, exp(left), &at_left));
    TRY(loss_at(s, exp(right), &at_right));
    for (int i = 0; i < REFINED && high - low > 1e-6; i++) {
        if (at_left < at_right) {
            high = right;
            right = left;
            at_right = at_left;
            left = high - golden * (high - low);
            TRY(loss_at(s, exp(left), &at_left));
        } else {
            low = left;
            left = right;
            at_left = at_right;
            right = low + golden * (high - low);
            TRY(loss_at(s, exp(right), &at_right));
        }
    }
    return DPMF_OK;
}

static dpmf_status check_damped(const optimize_task *task) {
    if (task->options->normalize == DPMF_NORMALIZE_WITHIN)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "the damped square root is normalized after, not within");
    return DPMF_OK;
}

dpmf_status toeplitz_optimize_damped(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result) {
    const double first = log(fmin(LEAST / (double)task->workload->steps, 0.5 * MOST)), last = log(MOST);
    const int points = (int)ceil((last - first) / log(10) * PER_DECADE) + 1;
    const double step = (last - first) / (points - 1);
    damped_search s = {.task = task, .loss = INFINITY};
    double loss = 0;
    dpmf_status status = DPMF_OK;
    TRY(check_damped(task));
    TRY_DONE(base_alloc_doubles(task->workload->steps, "the errors", &s.errors));
    TRY_DONE(loss_at(&s, 0, &loss));
    for (int i = 0; i < points; i++) {
        TRY_DONE(base_progress(&task->options->run, "damped square root", (double)i / points));
        TRY_DONE(loss_at(&s, exp(first + i * step), &loss));
    }
    if (!isfinite(s.loss)) {
        status = base_fail(DPMF_ERROR_NUMERICAL, "the damped square root: no nu has a finite loss");
        goto done;
    }
    if (s.nu > 0) TRY_DONE(refine(&s, fmax(first, log(s.nu) - step), fmin(last, log(s.nu) + step)));
    if (out != NULL) TRY_DONE(make_damped(task, s.nu, out));
    *result = (dpmf_optimization){.outcome = DPMF_CONVERGED,
                                  .iterations = s.evaluations,
                                  .optimum_upper = INFINITY,
                                  .searched = "the damped square roots of the workload",
                                  .nu = s.nu};
done:
    base_free(s.errors);
    return status;
}
