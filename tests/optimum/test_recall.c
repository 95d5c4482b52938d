/* SPDX-License-Identifier: Apache-2.0 */
/* Bounds that were found before: each for its own question, the same as when it is asked for the first time. */
#include "optimum/optimum.h"

#include "support/check.h"

#include <string.h>

enum { N = 12 };

static void digest_of(const char *workload, int64_t k, int64_t b, const double *weights, uint8_t out[32]) {
    dpmf_workload *a = workload_of(workload, N);
    check_ok(dpmf_i_optimum_epochs_digest(a, k, b, weights, out));
    dpmf_workload_free(a);
}

static void test_other_questions_have_other_digests(void **unused) {
    static const char *const workloads[] = {"prefix",     "momentum:0.9",     "nesterov:0.9",
                                            "decay:0.01", "cooldown:0.5:0.1", "cooldown:0.5:0.2"};
    static const int64_t shapes[][2] = {{3, 4}, {4, 3}, {2, 6}};
    enum { WORKLOADS = 6, SHAPES = 3, WEIGHTS = 3, ALL = WORKLOADS * SHAPES * WEIGHTS };
    uint8_t digest[ALL][32], again[32];
    double weights[2][N];
    int count = 0;
    (void)unused;
    for (int t = 0; t < N; t++) {
        weights[0][t] = 1;
        weights[1][t] = t == 7 ? 1 + 1e-15 : 1;
    }
    for (int i = 0; i < WORKLOADS; i++)
        for (int j = 0; j < SHAPES; j++)
            for (int w = 0; w < WEIGHTS; w++)
                digest_of(workloads[i], shapes[j][0], shapes[j][1], w == 0 ? NULL : weights[w - 1], digest[count++]);
    for (int i = 0; i < ALL; i++)
        for (int j = 0; j < i; j++)
            assert_int_not_equal(memcmp(digest[i], digest[j], sizeof digest[i]), 0);
    digest_of("prefix", 3, 4, NULL, again);
    assert_memory_equal(again, digest[0], sizeof again);
}

static void test_an_answer_is_kept_until_many_others_came(void **unused) {
    uint8_t digest[32] = {1};
    dpmf_i_optimum_epochs_lower given = {.rms_loss = 2, .max_loss = 3, .rms_gap = 0.5, .max_gap = 4, .foretold = 1},
                                got;
    (void)unused;
    assert_int_equal(dpmf_i_optimum_epochs_recall(digest, &got), 0);
    dpmf_i_optimum_epochs_remember(digest, &given);
    assert_int_equal(dpmf_i_optimum_epochs_recall(digest, &got), 1);
    assert_true(got.rms_loss == 2 && got.max_loss == 3 && got.rms_gap == 0.5 && got.max_gap == 4 && got.foretold == 1);
    for (uint8_t i = 2; i < 102; i++) {
        uint8_t other[32] = {i};
        given.rms_loss = i;
        dpmf_i_optimum_epochs_remember(other, &given);
        assert_int_equal(dpmf_i_optimum_epochs_recall(other, &got), 1);
        assert_true(got.rms_loss == i);
    }
    assert_int_equal(dpmf_i_optimum_epochs_recall(digest, &got), 0);
}

/* The first answer and the second, with another question between them. */
static void test_the_second_answer_is_the_first(void **unused) {
    dpmf_workload *a = workload_of("momentum:0.5", N), *other = workload_of("prefix", N);
    dpmf_participation *p = NULL;
    dpmf_lower_bound first, second, between;
    (void)unused;
    check_ok(dpmf_participation_parse("cyclic:3,4", N, &p));
    check_ok(dpmf_lower_bound_compute(a, p, NULL, &first));
    check_ok(dpmf_lower_bound_compute(other, p, NULL, &between));
    check_ok(dpmf_lower_bound_compute(a, p, NULL, &second));
    assert_true(first.rms_loss == second.rms_loss && first.max_loss == second.max_loss && first.scope == second.scope);
    assert_true(between.rms_loss < first.rms_loss);
    dpmf_participation_free(p);
    dpmf_workload_free(a);
    dpmf_workload_free(other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_questions_have_other_digests),
        cmocka_unit_test(test_an_answer_is_kept_until_many_others_came),
        cmocka_unit_test(test_the_second_answer_is_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
