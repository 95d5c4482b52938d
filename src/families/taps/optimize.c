/* SPDX-License-Identifier: Apache-2.0 */
/* The best taps: checks, the two searches one after the other (search.c, tune.c), and the candidates of a design. */
#include "families/taps/taps.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "design/design.h"
#include "workload/workload.h"

#include <math.h>

/* A' diag(weights) A / n, column by column. */
static dpmf_status make_gram(taps_problem *p) {
    const int64_t n = p->n;
    TRY(base_alloc_square(n, "A'A", &p->gram));
    for (int64_t u = 0; u < n; u++) {
        double *column = p->gram + u * n;
        column[u] = 1;
        TRY(dpmf_workload_apply(p->workload, column, column));
        for (int64_t t = 0; t < n; t++)
            column[t] *= (p->weights == NULL ? 1 : p->weights[t]) / (double)n;
        TRY(workload_apply_transpose(p->workload, column, column));
    }
    return DPMF_OK;
}

static dpmf_status open_problem(const optimize_task *task, taps_problem *p) {
    const dpmf_workload *a = task->workload;
    const dpmf_participation *one = task->participation;
    if (task->options->loss != DPMF_LOSS_RMS)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "family taps is optimized for the RMS loss alone");
    if (one->pattern != WORKLOAD_FIXED)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "family taps is not optimized for participation %s, accepted: single, cyclic and full "
                         "(--optimize-participation)",
                         one->text);
    if (a->form != WORKLOAD_NAMED && a->form != WORKLOAD_DENSE)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "family taps is not optimized for workload %s", a->text);
    *p = (taps_problem){.workload = a,
                        .n = a->steps,
                        .b = one->separation < a->steps ? one->separation : a->steps,
                        .weights = task->options->weights,
                        .run = &task->options->run};
    if (one->count == 1) p->b = p->n;
    p->k = (p->n - 1) / p->b + 1;
    if (p->n <= TAPS_TUNED_STEPS) return make_gram(p);
    if (a->toeplitz && p->weights == NULL) return DPMF_OK;
    return base_fail(DPMF_ERROR_UNSUPPORTED,
                     "family taps is optimized for schedules, weights and matrices up to %d steps, %lld were given",
                     TAPS_TUNED_STEPS, (long long)p->n);
}

dpmf_status taps_optimize(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result) {
    const int64_t taps = task->options->bands;
    taps_problem p = {0};
    int64_t lag[TAPS_MAX] = {0};
    double start[TAPS_MAX] = {1}, loss = 0, tuned = INFINITY, *weight = NULL;
    base_minimum found = {.converged = 1};
    int iterations = 0;
    dpmf_status status = DPMF_OK;
    if (taps > TAPS_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "family taps: %lld taps (bands), accepted 1 to %d", (long long)taps,
                         TAPS_MAX);
    TRY_DONE(open_problem(task, &p));
    if (taps > 1) TRY_DONE(taps_choose(&p, taps, lag, start, &loss, &iterations));
    const int by_step = p.gram != NULL && taps > 1;
    if (by_step) {
        TRY_DONE(base_alloc_doubles(p.n * taps, "the weights", &weight));
        TRY_DONE(taps_tune(&p, taps, lag, start, weight, &tuned, &found));
    }
    if (out != NULL) TRY_DONE(taps_create(p.n, taps, lag, by_step ? p.n : 1, by_step ? weight : start, out));
    *result = (dpmf_optimization){.outcome = found.converged ? DPMF_CONVERGED : DPMF_ITERATION_LIMIT,
                                  .iterations = iterations + found.iterations,
                                  .optimum_upper = INFINITY};
done:
    base_free(p.gram);
    base_free(weight);
    return status;
}

enum { MOST = 8 }; /* more take long to search for little gain (docs/noise.md) */

/* Of the numbers of taps that a row's time may allow; where rows may be kept, they are not tried: there are better mechanisms. */
dpmf_status taps_candidates(dpmf_design *d) {
    const int named = design_is_named(d, DPMF_FAMILY_TAPS);
    double noise = 0;
    if (!named && (d->options.memory != DPMF_MEMORY_NO_ROWS || !design_is_allowed(d, DPMF_FAMILY_TAPS))) return DPMF_OK;
    for (int64_t taps = 2; taps <= MOST && taps < d->problem.steps; taps *= 2) {
        const search_request request = {.family = DPMF_FAMILY_TAPS,
                                        .bands = taps,
                                        .for_rms_loss = 1,
                                        .tolerance = 1e-4,
                                        .without_schedule = d->problem.steps > TAPS_TUNED_STEPS};
        if (!named && (double)taps > d->options.max_overhead) break;
        TRY(design_add_best(d, &request, &noise));
        if (!isfinite(noise)) break;
    }
    return DPMF_OK;
}
