/* SPDX-License-Identifier: Apache-2.0 */
/* A user's program: it checks that the linked library belongs to the header that was read, and that it works. */
#include <dpmf.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

int main(void) {
    dpmf_workload *workload = NULL;
    dpmf_strategy *strategy = NULL;
    dpmf_evaluation found;
    if (strcmp(dpmf_version(), DPMF_VERSION) != 0) {
        fprintf(stderr, "header %s, library %s\n", DPMF_VERSION, dpmf_version());
        return 1;
    }
    if (dpmf_workload_parse("prefix", 4, &workload) != DPMF_OK ||
        dpmf_strategy_create("workload", workload, NULL, &strategy) != DPMF_OK ||
        dpmf_evaluate(workload, NULL, strategy, NULL, &found, NULL) != DPMF_OK) {
        fprintf(stderr, "%s\n", dpmf_last_error());
        return 1;
    }
    dpmf_strategy_free(strategy);
    dpmf_workload_free(workload);
    /* Output perturbation of n prefix sums: B = I, and the first column of C has norm sqrt(n). */
    return fabs(found.rms_loss - 2) < 1e-14 && fabs(found.max_loss - 2) < 1e-14 ? 0 : 1;
}
