/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Optimize: the best strategy of a family under single participation, with the bounds that say how far from the best
 * possible one it is.
 *
 *     dense   the optimum itself (optimum.h); explicit C up to DPMF_DENSE_STEPS_MAX steps, bounds alone above
 *     tvblt   the optimum as a stream with few buffers (optimize_tvblt.c)
 */
#include "base/memory.h"
#include "base/text.h"
#include "optimum.h"
#include "strategy.h"
#include "tvblt.h"
#include "workload.h"

#include <math.h>
#include <string.h>

dpmf_optimize_options dpmf_optimize_options_defaults(void) {
    return (dpmf_optimize_options){.tolerance = 1e-6, .run = dpmf_run_defaults()};
}

static dpmf_status check_options(const char *family, const dpmf_optimize_options *o) {
    int tvblt = strcmp(family, "tvblt") == 0;
    if ((int)o->loss < 0 || o->loss > DPMF_LOSS_MAX)
        return dpmf_i_fail(DPMF_ERROR_ARGUMENT, "loss %d, accepted 0 (rms) or 1 (max)", (int)o->loss);
    if (tvblt && (o->nodes < 0 || o->nodes > DPMF_I_TVBLT_NODES_MAX))
        return dpmf_i_fail(DPMF_ERROR_ARGUMENT, "family tvblt: %d nodes, accepted 1 to %d, or 0 to choose", o->nodes,
                           DPMF_I_TVBLT_NODES_MAX);
    if (!tvblt && o->nodes != 0)
        return dpmf_i_fail(DPMF_ERROR_ARGUMENT, "family %s: %d nodes, but it has none to choose", family, o->nodes);
    if (tvblt && o->nodes == 0 && !(o->wanted_ratio == 0 || (o->wanted_ratio > 1 && isfinite(o->wanted_ratio))))
        return dpmf_i_fail(DPMF_ERROR_ARGUMENT, "wanted ratio %g, accepted: above 1", o->wanted_ratio);
    return DPMF_OK;
}

static const char *const OUTCOMES[] = {[DPMF_CONVERGED] = "converged", [DPMF_ITERATION_LIMIT] = "iteration limit"};

const char *dpmf_outcome_name(dpmf_outcome outcome) {
    return (unsigned)outcome < sizeof OUTCOMES / sizeof OUTCOMES[0] ? OUTCOMES[outcome] : "unknown";
}

static dpmf_status make_strategy(const char *family, const dpmf_workload *workload, const dpmf_optimize_options *o,
                                 const dpmf_i_optimum *optimum, dpmf_strategy **out) {
    if (strcmp(family, "tvblt") == 0) {
        double wanted = o->wanted_ratio > 1 ? o->wanted_ratio : 1.001;
        return dpmf_i_tvblt_optimize(workload, o->loss == DPMF_LOSS_MAX, o->nodes, wanted, optimum, &o->run, out, NULL);
    }
    if (workload->steps > DPMF_DENSE_STEPS_MAX) return DPMF_OK; /* the bounds are the answer */
    return dpmf_i_optimum_explicit(workload, optimum, &o->run, out);
}

dpmf_status dpmf_optimize(const char *family, const dpmf_workload *workload, const dpmf_optimize_options *options,
                          dpmf_strategy **out, dpmf_optimization *result) {
    dpmf_optimize_options o = options == NULL ? dpmf_optimize_options_defaults() : *options;
    dpmf_i_optimum optimum = {0};
    dpmf_strategy *strategy = NULL;
    dpmf_status status = DPMF_OK;
    char shown[64];
    if (family == NULL || workload == NULL)
        return dpmf_i_fail(DPMF_ERROR_ARGUMENT, "optimize: the family or the workload is NULL");
    if (strcmp(family, "dense") != 0 && strcmp(family, "tvblt") != 0)
        return dpmf_i_fail(DPMF_ERROR_ARGUMENT, "optimize: family '%s', accepted: dense, tvblt",
                           dpmf_i_show(family, strlen(family), shown));
    TRY(check_options(family, &o));
    TRY_DONE(dpmf_i_optimum_solve(workload, o.loss == DPMF_LOSS_MAX, o.weights, o.tolerance, &o.run, &optimum));
    if (out != NULL) TRY_DONE(make_strategy(family, workload, &o, &optimum, &strategy));
    const dpmf_i_tvblt *tvblt = strategy == NULL ? NULL : dpmf_i_strategy_tvblt(strategy);
    *result = (dpmf_optimization){.nodes = tvblt == NULL ? 0 : tvblt->nodes,
                                  .outcome = optimum.converged ? DPMF_CONVERGED : DPMF_ITERATION_LIMIT,
                                  .iterations = optimum.iterations,
                                  .optimum_lower = optimum.lower,
                                  .optimum_upper = optimum.upper};
    if (out != NULL) *out = strategy;
done:
    dpmf_i_optimum_free(&optimum);
    return status;
}
