/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chains of optimum/chain.h from a workload's recursion (workload/workload.h)
 *
 *     mu_t = beta mu_{t-1} + g_t,   u_t = w mu_t + f g_t,   o_t = k_t o_{t-1} + eta_t u_t.
 *
 * A' runs it backwards: l_t = k_{t+1} l_{t+1} + y_t, then beta and w eta_t l_t into what becomes m, then x = m + f eta
 * l. (J A' J)' = J A J is the recursion itself with steps counted from the end: l is mu, x is o, and
 *
 *     x_t = k_t x_{t-1} + eta_t (w beta l_{t-1} + (w + f) y_t),     offset = f beta eta_{t+1} / k_{t+1}
 *
 * where the offset is what makes cross = fresh keep - momentum offset.
 */
#include "optimum/chain.h"

#include "base/memory.h"
#include "workload/workload.h"

#include <assert.h>

/*
 * cross is a difference with Nesterov momentum only, and then of learning rates, which is exact where they are equal or
 * nearly so: it needs a small relative error, not just a small one.
 */
static void fill_forward(const dpmf_workload *a, optimum_chain *c) {
    for (int64_t t = 0; t < a->steps; t++) {
        workload_recursion_form r = workload_recursion(a, t);
        c->fresh[t] = r.from_m * r.rate;
        c->offset[t] = r.from_y * r.rate;
        if (t + 1 == a->steps) break;
        workload_recursion_form next = workload_recursion(a, t + 1);
        c->keep[t] = next.keep;
        c->momentum[t] = r.momentum;
        c->cross[t] = r.from_m * (r.rate * next.keep - r.from_y * next.rate); /* w = beta where f = 1 */
    }
}

static dpmf_status fill_reversed(const dpmf_workload *a, optimum_chain *c) {
    for (int64_t t = 0; t < a->steps; t++) {
        int64_t i = a->steps - 1 - t;
        workload_recursion_form r = workload_recursion(a, t);
        double ahead = 0; /* f eta_{t+1} / k_{t+1} */
        if (r.from_y > 0 && t + 1 < a->steps) {
            workload_recursion_form next = workload_recursion(a, t + 1);
            if (!(next.keep > 0))
                return base_fail(
                    DPMF_ERROR_UNSUPPORTED,
                    "workload %s: decay x learning rate = 1 at step %lld; the max-loss optimum of Nesterov "
                    "momentum is known for less than 1",
                    a->text, (long long)(t + 1));
            ahead = r.from_y * next.rate / next.keep;
        }
        c->offset[i] = r.momentum * ahead;
        c->fresh[i] = r.from_y > 0 ? r.rate + r.momentum * (r.rate - ahead) : r.rate;
        if (t == 0) continue;
        c->keep[i] = r.momentum;
        c->momentum[i] = r.keep;
        c->cross[i] = r.from_m * r.momentum * (r.rate - ahead); /* w = beta where f = 1, and 1 where f = 0 */
    }
    return DPMF_OK;
}

dpmf_status optimum_chain_create(const dpmf_workload *workload, int reversed, optimum_chain *out) {
    optimum_chain c = {.n = workload->steps, .positive = 1};
    dpmf_status status = DPMF_OK;
    assert(workload->form == WORKLOAD_NAMED);
    TRY_DONE(base_alloc_doubles(c.n, "the chain of a workload", &c.keep));
    TRY_DONE(base_alloc_doubles(c.n, "the chain of a workload", &c.momentum));
    TRY_DONE(base_alloc_doubles(c.n, "the chain of a workload", &c.fresh));
    TRY_DONE(base_alloc_doubles(c.n, "the chain of a workload", &c.offset));
    TRY_DONE(base_alloc_doubles(c.n, "the chain of a workload", &c.cross));
    if (reversed)
        TRY_DONE(fill_reversed(workload, &c));
    else
        fill_forward(workload, &c);
    for (int64_t t = 0; t < c.n; t++)
        if (c.cross[t] < 0 || c.fresh[t] < 0) c.positive = 0;
    *out = c;
    c = (optimum_chain){0};
done:
    optimum_chain_free(&c);
    return status;
}

void optimum_chain_free(optimum_chain *c) {
    base_free(c->keep);
    base_free(c->momentum);
    base_free(c->fresh);
    base_free(c->offset);
    base_free(c->cross);
    *c = (optimum_chain){0};
}
