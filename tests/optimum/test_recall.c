/* SPDX-License-Identifier: Apache-2.0 */
/* Stored bounds: each belongs to its own question and equals the first result. */
#include "optimum/optimum.h"

#include "support/check.h"

#include <string.h>

enum { N = 12 };

static void digest_of(const char *workload, int64_t k, int64_t b, const double *weights, uint8_t out[32]) {
    dpmf_workload *a = workload_of(workload, N);
    check_ok(epochs_digest(a, k, b, weights, out));
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
    epochs_lower given = {.rms_loss = 2, .max_loss = 3, .rms_gap = 0.5, .max_gap = 4, .foretold = 1}, got;
    (void)unused;
    assert_int_equal(epochs_recall(digest, &got), 0);
    epochs_remember(digest, &given);
    assert_int_equal(epochs_recall(digest, &got), 1);
    assert_true(got.rms_loss == 2 && got.max_loss == 3 && got.rms_gap == 0.5 && got.max_gap == 4 && got.foretold == 1);
    for (uint8_t i = 2; i < 102; i++) {
        uint8_t other[32] = {i};
        given.rms_loss = i;
        epochs_remember(other, &given);
        assert_int_equal(epochs_recall(other, &got), 1);
        assert_true(got.rms_loss == i);
    }
    assert_int_equal(epochs_recall(digest, &got), 0);
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

/* Stores enough other answers to displace all earlier ones. */
static void forget(void) {
    const epochs_lower other = {.rms_loss = 1};
    for (uint8_t i = 0; i < 100; i++)
        epochs_remember((uint8_t[32]){200, i}, &other);
}

static void bound_of(const dpmf_workload *a, const dpmf_participation *p, epochs_losses losses, dpmf_lower_bound *out) {
    check_ok(optimum_lower_bound(a, p, NULL, losses, out));
}

/* The RMS loss alone, then both, and both at once; a climb, and a bound extrapolated from shorter epochs. */
static void test_the_rms_loss_alone_is_the_same_and_both_follow(void **unused) {
    static const struct {
        const char *workload, *participation;
        int64_t n;
    } cases[] = {{"momentum:0.5", "cyclic:3,40", 120}, {"prefix", "cyclic:8,100", 800}};
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        dpmf_workload *a = workload_of(cases[i].workload, cases[i].n);
        dpmf_participation *p = NULL;
        dpmf_lower_bound rms, known, both, once;
        check_ok(dpmf_participation_parse(cases[i].participation, cases[i].n, &p));
        forget();
        bound_of(a, p, OPTIMUM_EPOCHS_RMS, &rms);
        bound_of(a, p, EPOCHS_RMS_IF_KNOWN, &known);
        bound_of(a, p, EPOCHS_BOTH, &both);
        forget();
        bound_of(a, p, EPOCHS_RMS_IF_KNOWN, &once);
        assert_true(rms.rms_loss == once.rms_loss && both.rms_loss == once.rms_loss);
        assert_true(both.max_loss == once.max_loss && both.scope == once.scope);
        assert_true(rms.max_loss >= rms.rms_loss && rms.max_loss < once.max_loss);
        assert_true(known.max_loss == rms.max_loss && known.scope == rms.scope);
        assert_non_null(strstr(rms.scope, "for the RMS loss"));
        dpmf_participation_free(p);
        dpmf_workload_free(a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_rms_loss_alone_is_the_same_and_both_follow),
        cmocka_unit_test(test_other_questions_have_other_digests),
        cmocka_unit_test(test_an_answer_is_kept_until_many_others_came),
        cmocka_unit_test(test_the_second_answer_is_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
