/* SPDX-License-Identifier: Apache-2.0 */
/* TV-BLT with replayed seeds as a strategy: products, columns, sensitivity and errors against dense matrices. */
#include "support/check.h"

#include "support/replay_strategy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct setting {
    int64_t n, b;
    int buffers, seeds;
} setting;

static const setting SETTINGS[] = {{24, 6, 2, 0}, {23, 6, 3, 0}, {12, 12, 1, 0}, {9, 1, 1, 0}, {40, 10, 4, 0},
                                   {24, 6, 2, 1}, {23, 6, 3, 2}, {40, 10, 4, 3}, {9, 1, 1, 2}};
enum { COUNT = sizeof SETTINGS / sizeof *SETTINGS };

static void test_replayed_strategies_are_consistent(void **unused) {
    (void)unused;
    for (int i = 0; i < COUNT; i++) {
        const setting s = SETTINGS[i];
        dpmf_strategy *c = replay_strategy(s.n, s.b, s.buffers, s.seeds), *normalized = NULL, *stamped = NULL;
        assert_string_equal(dpmf_strategy_get(c).family, "tvblt");
        assert_int_equal(dpmf_strategy_get(c).buffers, s.buffers);
        assert_int_equal(dpmf_strategy_get(c).rows, s.n + s.b * s.seeds);
        check_strategy(c, 1e-11);
        check_ok(dpmf_strategy_create_normalized(c, &normalized));
        check_strategy(normalized, 1e-11);
        check_ok(dpmf_strategy_create_stamped(c, 2, &stamped));
        check_strategy(stamped, 1e-11);
        dpmf_strategy_free(c), dpmf_strategy_free(normalized), dpmf_strategy_free(stamped);
    }
}

/* The largest value of signs and of unit vectors of two coordinates over a class. */
static double tried(int64_t n, int64_t rows, int64_t b, const double *c, int64_t p, uint64_t *seed) {
    double best = 0;
    for (int trial = 0; trial < 400; trial++) {
        double value = 0, angle[64];
        for (int64_t t = p, i = 0; t < n; t += b, i++)
            angle[i] = trial == 0 ? 0 : trial < 100 ? (check_random(seed) > 0 ? 0 : M_PI) : 4 * check_random(seed);
        for (int64_t row = 0; row < rows; row++) {
            double x = 0, y = 0;
            for (int64_t t = p, i = 0; t < n; t += b, i++) {
                x += c[row * n + t] * cos(angle[i]);
                y += c[row * n + t] * sin(angle[i]);
            }
            value += x * x + y * y;
        }
        best = fmax(best, value);
    }
    return sqrt(best);
}

static void test_no_unit_moves_a_replayed_strategy_further_than_its_sensitivity(void **unused) {
    uint64_t seed = 5;
    (void)unused;
    for (int i = 0; i < COUNT; i++) {
        const setting s = SETTINGS[i];
        dpmf_strategy *c = replay_strategy(s.n, s.b, s.buffers, s.seeds);
        double *matrix = check_strategy_matrix(c);
        for (int64_t period = s.b; period < s.n; period *= 2) { /* its own participation, and rarer ones */
            const int64_t k = (s.n + period - 1) / period;
            dpmf_participation *p = NULL;
            dpmf_sensitivity found;
            double best = 0;
            char text[64];
            snprintf(text, sizeof text, "cyclic:%lld,%lld", (long long)k, (long long)period);
            check_ok(dpmf_participation_parse(text, s.n, &p));
            check_ok(dpmf_sensitivity_compute(c, p, NULL, &found));
            for (int64_t l = 0; l < period; l++)
                best = fmax(best, tried(s.n, dpmf_strategy_get(c).rows, period, matrix, l, &seed));
            assert_true(best <= found.value * (1 + 1e-12));
            if (s.seeds == 0 || period == s.b) assert_true(found.value <= 1 + 1e-12);
            if (s.seeds == 0) {
                assert_int_equal(found.kind, DPMF_EXACT);
                check_near(found.value / best, 1, 1e-11);
            }
            dpmf_participation_free(p);
        }
        free(matrix);
        dpmf_strategy_free(c);
    }
}

static void test_errors_of_replayed_strategies_are_those_of_their_matrices(void **unused) {
    static const char *const workloads[] = {"prefix", "momentum:0.9", "nesterov:0.9,cooldown:0.5:0.1"};
    (void)unused;
    for (int i = 0; i < COUNT; i++)
        for (int j = 0; j < 3; j++) {
            const setting s = SETTINGS[i];
            dpmf_strategy *c = replay_strategy(s.n, s.b, s.buffers, s.seeds), *normalized = NULL;
            dpmf_workload *a = NULL;
            check_ok(dpmf_workload_parse(workloads[j], s.n, &a));
            check_ok(dpmf_strategy_create_normalized(c, &normalized));
            check_factorization(a, c, 1e-10);
            check_factorization(a, normalized, 1e-10);
            dpmf_workload_free(a);
            dpmf_strategy_free(c), dpmf_strategy_free(normalized);
        }
}

static void test_other_participations_get_a_bound(void **unused) {
    dpmf_strategy *c = replay_strategy(24, 6, 2, 0);
    static const char *const texts[] = {"single", "min-sep:4,6", "shuffled:4,6", "cyclic:6,4", "full"};
    double *matrix = check_strategy_matrix(c);
    dpmf_strategy *dense = NULL;
    (void)unused;
    check_ok(dpmf_strategy_create_dense(24, matrix, &dense));
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        dpmf_participation *p = NULL;
        dpmf_sensitivity ours, theirs;
        check_ok(dpmf_participation_parse(texts[i], 24, &p));
        check_ok(dpmf_sensitivity_compute(c, p, NULL, &ours));
        check_ok(dpmf_sensitivity_compute(dense, p, NULL, &theirs));
        check_near(ours.value / theirs.value, 1, 1e-11);
        dpmf_participation_free(p);
    }
    free(matrix);
    dpmf_strategy_free(c), dpmf_strategy_free(dense);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replayed_strategies_are_consistent),
        cmocka_unit_test(test_no_unit_moves_a_replayed_strategy_further_than_its_sensitivity),
        cmocka_unit_test(test_errors_of_replayed_strategies_are_those_of_their_matrices),
        cmocka_unit_test(test_other_participations_get_a_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
