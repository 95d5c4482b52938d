/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A user's streaming linear operator as C or as C^-1 (McKenna 2024, Appendix D.1). The one that is not given
 * follows (workload/products.c). It cannot be saved: a file has no place for a callback.
 */
#include "base/memory.h"
#include "strategy/strategy.h"
#include "workload/workload.h"

#include <math.h>

typedef struct custom {
    dpmf_strategy base;
    workload_operator *operator_;
    int inverse; /* is it C^-1? */
} custom;

STRATEGY_CAST(custom)

static void custom_release(dpmf_strategy *s) {
    workload_operator_free(((custom *)s)->operator_);
}

/* Runs the operator, or its inverse, over a whole vector. */
static dpmf_status run(const custom *s, int undo, const double *in, double *out) {
    double *state = NULL;
    int64_t buffers = undo ? workload_operator_inverse_buffers(s->operator_) : s->operator_->user.buffers;
    TRY(base_alloc_doubles(buffers, "the operator's state", &state));
    for (int64_t t = 0; t < s->base.steps; t++) {
        if (undo)
            workload_operator_inverse_step(s->operator_, t, 1, &in[t], state, &out[t]);
        else
            workload_operator_step(s->operator_, t, 1, &in[t], state, &out[t]);
    }
    base_free(state);
    return DPMF_OK;
}

static dpmf_status custom_apply(const dpmf_strategy *s, const double *x, double *y) {
    return run(cast(s), cast(s)->inverse, x, y);
}

static dpmf_status custom_solve(const dpmf_strategy *s, const double *y, double *x) {
    return run(cast(s), !cast(s)->inverse, y, x);
}

static int64_t custom_buffers(const dpmf_strategy *s) {
    const workload_operator *op = cast(s)->operator_;
    return cast(s)->inverse ? op->user.buffers : workload_operator_inverse_buffers(op);
}

static void custom_step(const dpmf_strategy *s, int64_t t, int64_t count, const double *seed, double *state,
                        double *row) {
    if (cast(s)->inverse)
        workload_operator_step(cast(s)->operator_, t, count, seed, state, row);
    else
        workload_operator_inverse_step(cast(s)->operator_, t, count, seed, state, row);
}

static const strategy_ops CUSTOM = {.class_name = "operator",
                                    .release = custom_release,
                                    .apply = custom_apply,
                                    .solve = custom_solve,
                                    .step = custom_step,
                                    .buffers = custom_buffers};

dpmf_status dpmf_strategy_create_operator(int64_t steps, const dpmf_operator *operator_, int inverse,
                                          dpmf_strategy **out) {
    custom *s = NULL;
    if (inverse != 0 && inverse != 1)
        return base_fail(DPMF_ERROR_ARGUMENT, "operator: inverse = %d, accepted 0 (C) or 1 (C^-1)", inverse);
    TRY(strategy_new(&CUSTOM, sizeof *s, "operator", steps, (dpmf_strategy **)&s));
    s->inverse = inverse;
    dpmf_status status = workload_operator_create(steps, operator_, &s->operator_);
    if (status == DPMF_OK)
        *out = &s->base;
    else
        dpmf_strategy_free(&s->base);
    return status;
}
