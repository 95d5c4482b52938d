/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors one step after another, for a stream that is running. Most families' are all computed at once and held. Those of
 * prefix sums without a horizon are computed a stretch at a time, since there may be 2^40 of them.
 */
#include "error/error.h"

#include "base/memory.h"
#include "strategy/strategy.h"

#include <assert.h>
#include <math.h>

enum { STRETCH = 4096 };

struct error_lookup {
    const dpmf_workload *workload;
    const dpmf_strategy *strategy;
    int64_t first, count; /* held */
    double *values;
};

dpmf_status error_lookup_create(const dpmf_workload *a, const dpmf_strategy *s, const dpmf_run *run,
                                error_lookup **out) {
    error_lookup *l = NULL;
    dpmf_status status = DPMF_OK;
    const int by_stretch =
        s->steps > STRETCH && s->ops->squared_error_range != NULL && s->ops->squared_error_range(s, a, 0, 0, NULL);
    TRY_DONE(base_alloc(1, sizeof *l, "error bars", (void **)&l));
    *l = (error_lookup){.workload = a, .strategy = s, .count = by_stretch ? STRETCH : s->steps};
    TRY_DONE(base_alloc_doubles(l->count, "error bars", &l->values));
    if (by_stretch)
        TRY_DONE(dpmf_error_range(a, s, 0, l->count, run, l->values));
    else
        TRY_DONE(dpmf_error_compute(a, s, run, l->values));
    *out = l;
    l = NULL;
done:
    error_lookup_free(l);
    return status;
}

/* The next stretch needs no memory and cannot fail: its steps are within the strategy's. */
double error_lookup_at(error_lookup *l, int64_t t) {
    assert(t >= 0 && t < l->strategy->steps);
    if (t < l->first || t >= l->first + l->count) {
        l->first = t - t % STRETCH;
        l->count = l->strategy->steps - l->first < STRETCH ? l->strategy->steps - l->first : STRETCH;
        l->strategy->ops->squared_error_range(l->strategy, l->workload, l->first, l->count, l->values);
        for (int64_t i = 0; i < l->count; i++)
            l->values[i] = sqrt(l->values[i]);
    }
    return l->values[t - l->first];
}

void error_lookup_free(error_lookup *l) {
    if (l == NULL) return;
    base_free(l->values);
    base_free(l);
}
