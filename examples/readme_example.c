/* SPDX-License-Identifier: Apache-2.0 */
#include <dpmf.h>
#include <stdio.h>

int main(void) {
    dpmf_workload *workload = NULL;
    dpmf_strategy *strategy = NULL;
    dpmf_mechanism *mechanism = NULL;
    dpmf_status status = dpmf_workload_parse("momentum:0.9", 2000, &workload);
    if (status == DPMF_OK) status = dpmf_strategy_create("toeplitz", workload, NULL, &strategy);
    if (status == DPMF_OK) status = dpmf_mechanism_create(workload, NULL, strategy, NULL, &mechanism);
    if (status == DPMF_OK) status = dpmf_mechanism_save(mechanism, "momentum.dpmf");
    if (status == DPMF_OK) {
        dpmf_evaluation found = dpmf_mechanism_get(mechanism).evaluation;
        printf("RMS loss %.4f at sensitivity %.4f\n", found.rms_loss, found.sensitivity.value);
    } else {
        fprintf(stderr, "%s\n", dpmf_last_error());
    }
    dpmf_mechanism_free(mechanism);
    dpmf_strategy_free(strategy);
    dpmf_workload_free(workload);
    return status == DPMF_OK ? 0 : 1;
}
