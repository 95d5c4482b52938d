/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The family tvblt under cyclic participation: the search of optimize/replay/search.c (replayed seeds) or shared.c (shared
 * class seeds), with the certified lower bound for every mechanism beside it: the one that evaluations print, and for the max
 * loss of short runs, where that one is weak, the dense optimum's own, climbed as far as takes about as long as the search.
 */
#include "optimize/replay/shared.h"

#include "optimize/optimize.h"
#include "optimum/optimum.h"
#include "workload/workload.h"

#include <math.h>

static const double MAX_WORK = 3e5; /* n k^2 up to which the climb for the max loss takes no longer than the search */
static const double MAX_TOLERANCE = 1e-3;
static const double WANTED_RATIO = 1.001; /* unless the caller says otherwise */
static const double SETTLED = 2e-4;       /* and then a buffer that gains less is one too many */
enum { THREADS_STEPS_MIN = 512 };
enum { SHARED_BUFFERS = 4 }; /* what few shared seeds can use */

static dpmf_status check_task(const optimize_task *task) {
    const dpmf_participation *p = task->participation;
    if (p->pattern != WORKLOAD_FIXED)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "family tvblt is optimized for single and cyclic participation, not for %s "
                         "(--optimize-participation cyclic:%lld,%lld evaluates the result under another)",
                         p->text, (long long)p->count, (long long)p->separation);
    if (task->workload->form != WORKLOAD_NAMED)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "tvblt: workload %s, accepted: named workloads", task->workload->text);
    if (task->options->buffers > REPLAY_BUFFERS_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "tvblt over several epochs: %d buffers, accepted 1 to %d",
                         task->options->buffers, REPLAY_BUFFERS_MAX);
    return DPMF_OK;
}

static dpmf_status find_bound(const optimize_task *task, dpmf_optimization *bound) {
    const dpmf_optimize_options *o = task->options;
    const double n = (double)task->workload->steps, k = (double)task->participation->count;
    const int max_loss = o->loss == DPMF_LOSS_MAX;
    dpmf_evaluate_options how = dpmf_evaluate_options_defaults();
    dpmf_lower_bound found = {0};
    if (max_loss && n * k * k <= MAX_WORK) return optimize_epochs_bound(task, fmax(MAX_TOLERANCE, o->tolerance), bound);
    how.weights = o->weights;
    how.run = o->run;
    const problem_facts *p = task->problem;
    if (p != NULL && p->bound_known >= (max_loss ? PROBLEM_BOUND_BOTH : PROBLEM_BOUND_RMS)) {
        const double times = p->adjacency == DPMF_ADJACENCY_REPLACE_ONE ? 2 : 1;
        found = p->evaluation.lower_bound;
        found.rms_loss /= times;
        found.max_loss /= times;
    } else {
        TRY(optimum_lower_bound(task->workload, task->participation, &how, max_loss ? EPOCHS_BOTH : EPOCHS_RMS_LOSS,
                                NULL, &found));
    }
    *bound = (dpmf_optimization){
        .optimum_lower = max_loss ? found.max_loss : found.rms_loss, .optimum_upper = INFINITY, .scope = found.scope};
    return DPMF_OK;
}

typedef struct found {
    dpmf_strategy *strategy;
    double loss;
    int iterations, converged;
} found;

static dpmf_status search_replayed(const optimize_task *task, int64_t b, const replay_options *how, found *out) {
    replay_result r = {0};
    TRY(optimize_replay(task->workload, b, how, &r));
    dpmf_status status = replay_make(&r.shape, 0, r.parameters, how->pool, &out->strategy);
    out->loss = r.loss;
    out->iterations = r.iterations;
    out->converged = r.converged;
    replay_result_free(&r);
    return status;
}

static dpmf_status search_shared(const optimize_task *task, int64_t b, int seeds, const replay_options *how,
                                 found *out) {
    replay_shared_result r = {0};
    TRY(optimize_replay_shared(task->workload, b, seeds, how, &r));
    dpmf_status status = replay_make(&r.shape, seeds, r.parameters, how->pool, &out->strategy);
    out->loss = r.loss;
    out->iterations = r.evaluations;
    out->converged = 1;
    replay_shared_result_free(&r);
    return status;
}

static dpmf_status search(const optimize_task *task, double lower, found *out) {
    const dpmf_optimize_options *o = task->options;
    const int64_t n = task->workload->steps;
    const int64_t b = task->participation->separation < n ? task->participation->separation : n;
    replay_options how = {.max_loss = o->loss == DPMF_LOSS_MAX,
                          .buffers = o->buffers == 0 && o->shared_seeds > 0 ? SHARED_BUFFERS : o->buffers,
                          .wanted_ratio = o->wanted_ratio > 1 ? o->wanted_ratio : WANTED_RATIO,
                          .settled = o->wanted_ratio > 1 && lower > 0 ? 0 : SETTLED,
                          .lower = lower,
                          .enough = o->buffers > 0 ? (1 + o->tolerance) * lower : 0,
                          .weights = o->weights,
                          .run = &o->run};
    TRY(base_pool_create(n < THREADS_STEPS_MIN ? 1 : o->run.threads, &how.pool));
    dpmf_status status =
        o->shared_seeds > 0 ? search_shared(task, b, o->shared_seeds, &how, out) : search_replayed(task, b, &how, out);
    base_pool_free(how.pool);
    return status;
}

dpmf_status replay_epochs(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result) {
    dpmf_optimization bound;
    found f = {.loss = INFINITY, .converged = 1};
    TRY(check_task(task));
    TRY(find_bound(task, &bound));
    if (out != NULL) TRY(search(task, bound.optimum_lower, &f));
    *result = (dpmf_optimization){.outcome = f.converged ? DPMF_CONVERGED : DPMF_ITERATION_LIMIT,
                                  .iterations = f.iterations,
                                  .nodes = f.strategy == NULL ? 0 : (int)dpmf_strategy_buffers(f.strategy),
                                  .optimum_lower = bound.optimum_lower,
                                  .optimum_upper = fmin(bound.optimum_upper, f.loss),
                                  .scope = bound.optimum_lower > 0 ? bound.scope : NULL};
    if (out != NULL) *out = f.strategy;
    return DPMF_OK;
}
