/* SPDX-License-Identifier: Apache-2.0 */
/* What the routes share: the norms that scale a row, and the seeds that a step takes. */
#include "noise/plan.h"

double noise_route_factor(const noise_plan *plan, int64_t t) {
    const dpmf_strategy *s = plan->strategy;
    double factor = 1;
    while (s != plan->leaf) {
        const double *norms = NULL;
        int64_t stamps = 1;
        s = strategy_scaled(s, &norms);
        if (norms != NULL) factor *= norms[t];
        s = strategy_block(s, &stamps);
        t %= s->steps;
    }
    return factor;
}

/* Block by block, then step by step inside one: few families take other than one seed a step. */
uint64_t noise_route_seed_row(noise_stream *s, int64_t t) {
    const noise_plan *plan = &s->plan;
    int64_t local = t % plan->length, start = t - local;
    uint64_t before = (uint64_t)(t / plan->length) * (uint64_t)plan->leaf_rows;
    if (plan->leaf->ops->seeds == NULL) return before + (uint64_t)local;
    if (s->seed_step > t || s->seed_step < start) {
        s->seed_step = start;
        s->seed_row = before;
    }
    for (; s->seed_step < t; s->seed_step++)
        s->seed_row += (uint64_t)dpmf_strategy_seeds(plan->leaf, s->seed_step - start);
    return s->seed_row;
}
