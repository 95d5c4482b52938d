/* SPDX-License-Identifier: Apache-2.0 */
/* Ownership of a problem that outlives the call it came with. */
#include "problem/problem.h"

#include "base/memory.h"
#include "workload/workload.h"

#include <string.h>

dpmf_status problem_hold(problem_facts *p) {
    const dpmf_participation *participation = p->participation;
    const double *weights = p->weights;
    dpmf_participation *single = NULL;
    double *copy = NULL;
    dpmf_status status = DPMF_OK;
    p->workload = workload_retain(p->workload);
    p->participation = NULL;
    p->weights = NULL;
    if (participation == NULL) TRY_DONE(workload_participation_single(p->steps, &single));
    p->participation = participation == NULL ? single : workload_participation_retain(participation);
    if (weights != NULL) {
        TRY_DONE(base_alloc_doubles(p->steps, "the weights", &copy));
        memcpy(copy, weights, (size_t)p->steps * sizeof *copy);
        p->weights = copy;
    }
done:
    if (status != DPMF_OK) problem_release(p);
    return status;
}

void problem_release(problem_facts *p) {
    dpmf_workload_free((dpmf_workload *)p->workload);
    dpmf_participation_free((dpmf_participation *)p->participation);
    base_free((double *)p->weights);
    *p = (problem_facts){0};
}
