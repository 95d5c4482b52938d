/* SPDX-License-Identifier: Apache-2.0 */
/* Ten thousand evaluations of small mechanisms of many families, all participations: none is below its bound. */
#include "optimum/optimum.h"

#include "support/check.h"
#include "support/sensitivity_reference.h"

#include <math.h>
#include <stdio.h>

static int64_t draw(uint64_t *seed, int64_t low, int64_t high) {
    return low + (int64_t)(0.5 * (check_random(seed) + 1) * (double)(high - low + 1)) % (high - low + 1);
}

static dpmf_strategy *random_strategy(const dpmf_workload *a, int64_t n, uint64_t *seed) {
    static const char *const families[] = {"identity", "toeplitz", "bsr", "bisr", "tree-online", "fft", "workload"};
    dpmf_strategy_options o = dpmf_strategy_options_defaults();
    dpmf_strategy *s = NULL;
    int64_t which = draw(seed, 0, 9);
    o.bands = draw(seed, 2, n);
    if (which < 7 && dpmf_strategy_create(families[which], a, &o, &s) == DPMF_OK) return s;
    double c[12 * 12] = {0};
    for (int64_t t = 0; t < n; t++)
        for (int64_t j = 0; j <= t; j++)
            c[t * n + j] = t == j ? 1 : 0.4 * check_random(seed) + (which == 9 ? 0.4 / (double)(t - j) : 0);
    check_ok(dpmf_strategy_create_dense(n, c, &s));
    return s;
}

/* The losses with the sensitivity that vectors reach by brute force, which is never above the truth. */
static dpmf_evaluation by_brute_force(const dpmf_strategy *c, const dpmf_participation *p, dpmf_evaluation e) {
    reference r = {.starts = 10, .seed = 5};
    reference_run(&r, c, p);
    const double share = sqrt(r.reached) / e.sensitivity.value;
    assert_true(share <= 1 + 1e-9);
    e.rms_loss *= share;
    e.max_loss *= share;
    return e;
}

static void test_nothing_is_below_the_bound(void **unused) {
    static const char *const workloads[] = {"prefix", "momentum:0.9", "nesterov:0.7", "decay:0.05",
                                            "momentum:0.8,cooldown:0.5:0.1"};
    static const char *const kinds[] = {"single", "full", "cyclic:%d,%d", "shuffled:%d,%d", "min-sep:%d,%d"};
    enum { SETTINGS = 500, EACH = 20 };
    uint64_t seed = 2026;
    (void)unused;
    for (int i = 0; i < SETTINGS; i++) {
        int64_t k = draw(&seed, 2, 4), b = draw(&seed, 1, 3), n = k * b;
        int64_t kind = draw(&seed, 0, 4);
        char text[64];
        dpmf_workload *a = workload_of(workloads[draw(&seed, 0, 4)], n);
        dpmf_participation *p = NULL;
        dpmf_lower_bound least = {0};
        snprintf(text, sizeof text, kinds[kind], (int)k, (int)b);
        check_ok(dpmf_participation_parse(text, n, &p));
        check_ok(optimum_find_bound(a, p, NULL, &least));
        for (int j = 0; j < EACH; j++) {
            dpmf_strategy *c = random_strategy(a, n, &seed);
            dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
            dpmf_evaluation e;
            o.lower_bound = DPMF_LOWER_BOUND_NONE;
            check_ok(dpmf_evaluate(a, p, c, &o, &e, NULL));
            if (j % 4 == 0) e = by_brute_force(c, p, e);
            if (e.rms_loss < least.rms_loss * (1 - 1e-9) || e.max_loss < least.max_loss * (1 - 1e-9))
                fail_msg("%s, %s, %s: losses %.9g and %.9g below the bounds %.9g and %.9g", dpmf_workload_get(a).text,
                         text, dpmf_strategy_get(c).family, e.rms_loss, e.max_loss, least.rms_loss, least.max_loss);
            dpmf_strategy_free(c);
        }
        dpmf_participation_free(p);
        dpmf_workload_free(a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nothing_is_below_the_bound)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
