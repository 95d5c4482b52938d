/* SPDX-License-Identifier: Apache-2.0 */
/* Your own noise stream, y_t = z_t - a s_t, s_{t+1} = b s_t + z_t, and the best values of its two parameters. */
#define DPMF_EXPERIMENTAL
#include <dpmf_experimental.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 300 };

/* Row t of C^-1 Z, for `count` coordinates at once; one buffer s. */
static void step(void *context, int64_t t, int64_t count, const double *z, double *s, double *y) {
    const double *theta = context;
    (void)t;
    for (int64_t i = 0; i < count; i++) {
        y[i] = z[i] - theta[0] * s[i];
        s[i] = theta[1] * s[i] + z[i];
    }
}

static dpmf_status make(void *context, const double *theta, dpmf_strategy **out) {
    double *own = malloc(2 * sizeof *own);
    (void)context;
    if (own == NULL) return DPMF_ERROR_MEMORY;
    memcpy(own, theta, 2 * sizeof *own);
    const dpmf_operator stream = {.context = own, .buffers = 1, .step = step, .release = free};
    dpmf_status status = dpmf_strategy_create_operator(STEPS, &stream, 1, out); /* 1: this is C^-1 */
    if (status != DPMF_OK) free(own);
    return status;
}

int main(void) {
    const dpmf_parametric family = {.parameters = 2, .make = make};
    dpmf_workload *workload = NULL;
    dpmf_strategy *strategy = NULL;
    dpmf_optimization how;
    dpmf_evaluation found;
    double theta[2] = {0.2, 0.5};
    dpmf_status status = dpmf_workload_parse("momentum:0.9", STEPS, &workload);
    if (status == DPMF_OK) status = dpmf_optimize_parametric(&family, workload, NULL, NULL, theta, &strategy, &how);
    if (status == DPMF_OK) status = dpmf_evaluate(workload, NULL, strategy, NULL, &found, NULL);
    if (status == DPMF_OK)
        printf("a = %.4f, b = %.4f: RMS loss %.4f, at best %.4f (%s, %d iterations)\n", theta[0], theta[1],
               found.rms_loss, found.lower_bound.rms_loss, dpmf_outcome_name(how.outcome), how.iterations);
    else
        fprintf(stderr, "%s\n", dpmf_last_error());
    dpmf_strategy_free(strategy);
    dpmf_workload_free(workload);
    return status == DPMF_OK ? 0 : 1;
}
