/* SPDX-License-Identifier: Apache-2.0 */
/* Sensitivity of BLTs that are too long to be held: closed forms. Shorter ones are Toeplitz matrices like any other. */
#include "families/blt/blt.h"

#include "workload/workload.h"

#include <math.h>

int blt_longest_column(const dpmf_strategy *s, dpmf_sensitivity *out) {
    if (strategy_can(s, STRATEGY_CAN_TOEPLITZ)) return 0;
    *out = (dpmf_sensitivity){.value = sqrt(blt_pattern_square(blt_of(s), s->steps, 1, s->steps)),
                              .kind = DPMF_EXACT,
                              .method = sensitivity_method_text(SENSITIVITY_METHOD_COLUMN)};
    return 1;
}

/* Non-negative and falling coefficients: the earliest pattern is the worst. */
dpmf_status blt_sensitivity(const dpmf_strategy *s, const sensitivity_task *task, int *done, sensitivity_found *out) {
    const blt_parameters *c = blt_of(s);
    double sum = 0;
    *done = 0;
    if (strategy_can(s, STRATEGY_CAN_TOEPLITZ) || task->strategy != s || task->bound != DPMF_BOUND_AUTO ||
        sensitivity_task_pattern(task) == WORKLOAD_EPOCHS)
        return DPMF_OK;
    for (int i = 0; i < c->count; i++) {
        if (!(c->scale[i] >= 0)) return DPMF_OK;
        sum += c->scale[i];
    }
    *done = sum <= 1;
    if (*done)
        *out = (sensitivity_found){blt_pattern_square(c, s->steps, task->k, task->b), DPMF_EXACT,
                                   SENSITIVITY_METHOD_EARLIEST};
    return DPMF_OK;
}
