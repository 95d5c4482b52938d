/* SPDX-License-Identifier: Apache-2.0 */
/* Bounds in two parts: the RMS loss first, then both with what is known, which is the same as both at once. */
#include "optimum/optimum.h"

#include "support/check.h"

#include <string.h>

/* A climb, and a bound extrapolated from shorter epochs, whose RMS loss is not computed a second time. */
static void test_the_rms_loss_alone_is_the_same_and_both_follow(void **unused) {
    static const struct {
        const char *workload, *participation;
        int64_t n;
    } cases[] = {{"momentum:0.5", "cyclic:3,40", 120}, {"prefix", "cyclic:8,100", 800}};
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int adjacency = 0; adjacency <= DPMF_ADJACENCY_REPLACE_ONE; adjacency += DPMF_ADJACENCY_REPLACE_ONE) {
            dpmf_workload *a = workload_of(cases[i].workload, cases[i].n);
            dpmf_participation *p = NULL;
            dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
            dpmf_lower_bound rms, both, once;
            o.adjacency = (dpmf_adjacency)adjacency;
            check_ok(dpmf_participation_parse(cases[i].participation, cases[i].n, &p));
            check_ok(optimum_lower_bound(a, p, &o, EPOCHS_RMS_LOSS, NULL, &rms));
            check_ok(optimum_lower_bound(a, p, &o, EPOCHS_BOTH, &rms, &both));
            check_ok(optimum_lower_bound(a, p, &o, EPOCHS_BOTH, NULL, &once));
            assert_true(rms.rms_loss == once.rms_loss && both.rms_loss == once.rms_loss);
            assert_true(both.max_loss == once.max_loss && both.scope == once.scope);
            assert_true(rms.max_loss >= rms.rms_loss && rms.max_loss < once.max_loss);
            assert_non_null(strstr(rms.scope, "for the RMS loss"));
            dpmf_participation_free(p);
            dpmf_workload_free(a);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_rms_loss_alone_is_the_same_and_both_follow)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
