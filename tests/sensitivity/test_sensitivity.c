/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sensitivity: published and closed-form values, agreement of different routes, strategies without structure, bounds of
 * larger cases. Random strategies against brute force are in sensitivity/test_random.c; refusals, threads, cancelling
 * and memory in sensitivity/test_runs.c.
 */
#include "support/sensitivity_cases.h"

#include "sensitivity/sensitivity.h"

#include <math.h>

static void check_square(const dpmf_strategy *s, const char *participation, dpmf_sensitivity_bound bound, double want,
                         dpmf_certainty kind, double tolerance) {
    dpmf_sensitivity found = compute(s, participation, bound);
    check_near(found.value * found.value / want, 1, tolerance);
    assert_int_equal(found.kind, kind);
}

static void check_family(const char *name, int64_t steps, int64_t stamps, const char *participation, double want) {
    dpmf_strategy *s = family(name, steps, stamps, 0);
    check_square(s, participation, DPMF_BOUND_AUTO, want, DPMF_EXACT, 1e-12);
    dpmf_strategy_free(s);
}

/* Small matrices worked out by hand; Choquette-Choo et al. 2023, Appendix H.2. */
static void test_small_matrices_have_the_values_worked_out_by_hand(void **unused) {
    const double four[16] = {1, 0, 0, 0, 2, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, -6};
    const double singular[25] = {[6] = 3, [18] = 1, [24] = 2};
    /* C'C = [6 3 3; 3 6 -3; 3 -3 6]/24: signs reach 1, vectors 9/8 */
    const double a = sqrt(3.0 / 16), example[9] = {0, 0, 0, a, a, 0, 0.25, -0.25, 0.5};
    dpmf_strategy *s = dense(4, four);
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    dpmf_participation *full = NULL;
    (void)unused;
    check_square(s, "minsep:2,2", DPMF_BOUND_AUTO, 41, DPMF_EXACT, 1e-15);
    check_square(s, "minsep:2,3", DPMF_BOUND_AUTO, 41, DPMF_EXACT, 1e-15);
    check_square(s, "single", DPMF_BOUND_AUTO, 36, DPMF_EXACT, 1e-15);
    assert_true(compute(s, "single", DPMF_BOUND_SPECTRAL).kind == DPMF_UPPER_BOUND);
    check_near(compute(s, "single", DPMF_BOUND_SIGNS).value, 6 * sqrt(M_PI_2), 1e-15);
    dpmf_strategy_free(s);
    s = dense(5, singular);
    check_square(s, "minsep:2,2", DPMF_BOUND_AUTO, 13, DPMF_EXACT, 1e-15);
    check_square(s, "minsep:3,2", DPMF_BOUND_AUTO, 13, DPMF_EXACT, 1e-15);
    dpmf_strategy_free(s);
    s = dense(3, example);
    dpmf_sensitivity found = compute(s, "full", DPMF_BOUND_AUTO);
    assert_int_equal(found.kind, DPMF_UPPER_BOUND);
    assert_true(found.value * found.value >= 1.125);
    check_near(found.value * found.value, 1.125, 1e-7);
    check_square(s, "full", DPMF_BOUND_SPECTRAL, 1.125, DPMF_UPPER_BOUND, 1e-12);
    check_square(s, "full", DPMF_BOUND_ABSOLUTE, 1.5, DPMF_UPPER_BOUND, 1e-12);
    check_square(s, "full", DPMF_BOUND_SIGNS, M_PI_2, DPMF_UPPER_BOUND, 1e-12);
    o.columns = 1;
    check_ok(dpmf_participation_parse("full", 3, &full));
    check_ok(dpmf_sensitivity_compute(s, full, &o, &found));
    assert_true(found.kind == DPMF_EXACT && found.columns == 1);
    check_near(found.value, 1, 1e-15);
    o.sensitivity = DPMF_BOUND_SIGNS;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_sensitivity_compute(s, full, &o, &found));
    o = dpmf_evaluate_options_defaults();
    o.columns = 2;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_sensitivity_compute(s, full, &o, &found));
    dpmf_participation_free(full);
    check_square(s, "shuffled:3,1", DPMF_BOUND_SPECTRAL, 1.125, DPMF_UPPER_BOUND, 1e-12);
    check_square(s, "minsep:3,1", DPMF_BOUND_SPECTRAL, 1.125, DPMF_UPPER_BOUND, 1e-12);
    dpmf_strategy_free(s);
}

/* Participations counted under the nodes of trees: complete nodes alone, and every touched node. */
static void test_trees_count_participations_under_their_nodes(void **unused) {
    static const struct {
        const char *participation;
        int64_t steps;
        double complete, touched;
    } table[] = {{"single", 8, 4, 4},         {"minsep:3,4", 9, 11, 23},    {"minsep:3,3", 7, 9, 20},
                 {"minsep:8,3", 24, 88, 156}, {"full", 8, 120, 120},        {"minsep:8,1", 8, 120, 120},
                 {"cyclic:8,3", 24, 86, 154}, {"shuffled:8,1", 8, 120, 120}};
    static const int stamps[] = {1, 2, 4, 5, 10, 20};
    static const double squares[] = {926, 524, 320, 300, 220, 160}; /* n = 2000, cyclic (20, 100) */
    (void)unused;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        check_family("tree", table[i].steps, 1, table[i].participation, table[i].complete);
        check_family("tree-online", table[i].steps, 1, table[i].participation, table[i].touched);
        check_family("tree-full", table[i].steps, 1, table[i].participation, table[i].touched);
    }
    for (int i = 0; i < 6; i++)
        check_family("tree-full", 2000, stamps[i], "cyclic:20,100", squares[i]);
    check_family("tree-online", 2000, 1, "minsep:20,100", 928);
    check_family("tree", 2000, 1, "minsep:20,100", 425);
    dpmf_strategy *s = family("tree-online", 24, 1, 1); /* columns of norm sqrt 6 */
    check_square(s, "minsep:8,3", DPMF_BOUND_AUTO, 26, DPMF_EXACT, 1e-14);
    check_square(s, "minsep:8,3", DPMF_BOUND_SIGNS, 13 * M_PI, DPMF_UPPER_BOUND, 1e-13);
    dpmf_strategy_free(s);
}

/* The FFT mechanism, Choquette-Choo et al. 2023, Table 1: n = 2000, (20, 100). Negative entries, and yet exact. */
static void test_the_fft_mechanism_is_exact_in_spite_of_negative_entries(void **unused) {
    static const int stamps[] = {1, 2, 5, 10, 20};
    static const double exact[] = {339.148651, 185.206839, 93.379054, 63.355375, 48.942696};
    static const double spectral[] = {344.641928, 187.718755, 93.986491, 63.355375, 48.942696};
    (void)unused;
    for (int i = 0; i < 5; i++) {
        dpmf_strategy *s = family(i % 2 ? "fft-opt" : "fft", 2000, stamps[i], 0);
        check_square(s, "cyclic:20,100", DPMF_BOUND_AUTO, exact[i], DPMF_EXACT, 1e-8);
        check_square(s, "cyclic:20,100", DPMF_BOUND_SPECTRAL, spectral[i], DPMF_UPPER_BOUND, 1e-8);
        dpmf_strategy_free(s);
    }
}

static void test_identity_prefix_and_stamps_have_closed_forms(void **unused) {
    (void)unused;
    dpmf_strategy *s = family("identity", 1000, 1, 0);
    static const char *const kinds[] = {"cyclic:10,100", "minsep:10,100", "shuffled:10,100", "minsep:10,7"};
    for (int i = 0; i < 4; i++) {
        dpmf_sensitivity found = compute(s, kinds[i], DPMF_BOUND_AUTO);
        check_near(found.value, sqrt(10), 1e-15); /* independent noise */
        assert_int_equal(found.kind, DPMF_EXACT);
    }
    check_square(s, "full", DPMF_BOUND_AUTO, 1000, DPMF_EXACT, 1e-15);
    check_square(s, "minsep:10,7", DPMF_BOUND_SPECTRAL, 10, DPMF_UPPER_BOUND, 1e-12);
    check_square(s, "minsep:10,7", DPMF_BOUND_SIGNS, 5 * M_PI, DPMF_UPPER_BOUND, 1e-12);
    dpmf_strategy_free(s);
    const double padded[5] = {2, -1, 0, 0, 0}; /* two bands, for any length of the list */
    check_ok(dpmf_strategy_create_toeplitz(100, DPMF_TOEPLITZ, 5, padded, &s));
    check_square(s, "minsep:10,2", DPMF_BOUND_AUTO, 50, DPMF_EXACT, 1e-15);
    dpmf_strategy_free(s);
    s = family("workload", 1000, 1, 0); /* prefix sums: sum over steps of (participations so far)^2 */
    check_square(s, "cyclic:10,100", DPMF_BOUND_AUTO, 100 * 385.0, DPMF_EXACT, 1e-14);
    check_square(s, "minsep:3,100", DPMF_BOUND_AUTO, 100 * (1 + 4) + 800 * 9.0, DPMF_EXACT, 1e-14);
    check_square(s, "full", DPMF_BOUND_AUTO, 1000 * 1001 * 2001 / 6.0, DPMF_EXACT, 1e-14);
    dpmf_strategy_free(s);
    s = family("toeplitz", 1000, 10, 0); /* restarted with every epoch: k x the square of the largest column norm */
    dpmf_strategy *block = family("toeplitz", 100, 1, 0);
    double norm = compute(block, "single", DPMF_BOUND_AUTO).value;
    check_square(s, "shuffled:10,100", DPMF_BOUND_AUTO, 10 * norm * norm, DPMF_EXACT, 1e-13);
    check_square(s, "cyclic:10,100", DPMF_BOUND_AUTO, 10 * norm * norm, DPMF_EXACT, 1e-13);
    dpmf_strategy_free(s);
    dpmf_strategy_free(block);
}

/* One C by several routes: as a Toeplitz matrix, by its bands, dense, as a user's operator. */
static void routes(const filter *f, int64_t n, dpmf_strategy *s[4]) {
    double *rows = calloc((size_t)(n * f->count), sizeof *rows), *matrix = calloc((size_t)(n * n), sizeof *matrix);
    const dpmf_operator operator_ = {(void *)f, f->count - 1, filter_step, NULL};
    for (int64_t t = 0; t < n; t++)
        for (int64_t j = 0; j < f->count && j <= t; j++)
            rows[t * f->count + j] = matrix[t * n + t - j] = f->c[j];
    check_ok(dpmf_strategy_create_toeplitz(n, DPMF_TOEPLITZ, f->count, f->c, &s[0]));
    check_ok(dpmf_strategy_create_banded(n, f->count, rows, &s[1]));
    check_ok(dpmf_strategy_create_dense(n, matrix, &s[2]));
    check_ok(dpmf_strategy_create_operator(n, &operator_, 0, &s[3]));
    free(rows);
    free(matrix);
}

static void check_routes(const filter *f, const char *participation, int exact) {
    enum { N = 120 };
    dpmf_strategy *s[4] = {0};
    routes(f, N, s);
    dpmf_sensitivity first = compute(s[0], participation, DPMF_BOUND_AUTO);
    for (int i = 0; i < 4; i++) {
        dpmf_sensitivity found = compute(s[i], participation, DPMF_BOUND_AUTO);
        if (exact) {
            check_near(found.value / first.value, 1, 1e-13);
            assert_int_equal(found.kind, DPMF_EXACT);
        } else {
            assert_true(found.value >= first.value * (1 - 1e-13)); /* others may only know a bound */
        }
    }
    for (int i = 0; i < 4; i++)
        dpmf_strategy_free(s[i]);
}

static void test_a_filter_has_one_sensitivity_by_every_route(void **unused) {
    filter falling = {.count = 30}, swinging = {.count = 14};
    (void)unused;
    for (int j = 0; j < 40; j++) {
        falling.c[j] = 1 / sqrt(1 + j);
        swinging.c[j] = cos(2.5 * j) / (1 + j);
    }
    check_routes(&falling, "cyclic:8,15", 1);
    check_routes(&falling, "minsep:3,30", 1);
    check_routes(&falling, "minsep:4,16", 1);
    check_routes(&falling, "shuffled:4,30", 1);
    check_routes(&falling, "shuffled:5,29", 1);
    check_routes(&falling, "minsep:6,5", 0);
    check_routes(&falling, "shuffled:12,10", 0);
    check_routes(&swinging, "cyclic:8,15", 1);
    check_routes(&swinging, "minsep:5,14", 1);
    check_routes(&swinging, "minsep:5,7", 1);
    check_routes(&swinging, "shuffled:9,14", 1);
    check_routes(&swinging, "shuffled:10,13", 1);
    check_routes(&swinging, "cyclic:30,4", 0);
}

/* A long operator has no X to look at: the sum of column norms bounds its sensitivity. */
static void test_a_long_operator_is_bounded_by_its_column_norms(void **unused) {
    enum { N = SENSITIVITY_COLUMNS_MAX + 104 };
    filter f = {.count = 3, .c = {1, 0.5, 0.25}};
    const dpmf_operator operator_ = {&f, 2, filter_step, NULL};
    dpmf_strategy *s = NULL, *known = NULL;
    static const char *const kinds[] = {"cyclic:6,700", "minsep:6,700", "shuffled:6,700"};
    (void)unused;
    check_ok(dpmf_strategy_create_operator(N, &operator_, 0, &s));
    check_ok(dpmf_strategy_create_toeplitz(N, DPMF_TOEPLITZ, 3, f.c, &known));
    for (int i = 0; i < 3; i++) {
        dpmf_sensitivity found = compute(s, kinds[i], DPMF_BOUND_AUTO),
                         truth = compute(known, kinds[i], DPMF_BOUND_AUTO);
        assert_true(found.kind == DPMF_UPPER_BOUND && truth.kind == DPMF_EXACT);
        assert_true(found.value >= truth.value);
        check_near(found.value, 6 * sqrt(1 + 0.25 + 0.0625), 1e-12);
    }
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    o.sensitivity = DPMF_BOUND_SPECTRAL;
    check_fails(DPMF_ERROR_UNSUPPORTED, status_of(s, "cyclic:6,700", o));
    dpmf_strategy_free(s);
    dpmf_strategy_free(known);
}

/* Upper bounds of larger cases stand above evenly spaced steps, and of Toeplitz matrices not far above. */
static void test_bounds_of_larger_cases_are_close(void **unused) {
    (void)unused;
    for (int normalize = 0; normalize < 2; normalize++) {
        dpmf_strategy *s = family("toeplitz", 2000, 1, normalize);
        double even = compute(s, "cyclic:20,100", DPMF_BOUND_AUTO).value;
        dpmf_sensitivity separated = compute(s, "minsep:20,100", DPMF_BOUND_AUTO);
        dpmf_sensitivity shuffled = compute(s, "shuffled:20,100", DPMF_BOUND_AUTO);
        assert_int_equal(separated.kind, DPMF_EXACT); /* evenly spaced steps attain the bound */
        check_near(separated.value / even, 1, 1e-12);
        assert_int_equal(shuffled.kind, DPMF_UPPER_BOUND);
        assert_true(shuffled.value >= even && shuffled.value < 1.2 * even);
        dpmf_strategy_free(s);
    }
    dpmf_strategy *s = family("fft", 2000, 1, 0);
    dpmf_sensitivity found = compute(s, "minsep:20,100", DPMF_BOUND_AUTO);
    assert_int_equal(found.kind, DPMF_UPPER_BOUND);
    assert_true(found.value * found.value >= 339.148651 && found.value * found.value < 1.03 * 339.148651);
    dpmf_strategy_free(s);
}

/* Too large for the sharper methods: the remaining bounds, where they are attained or known in closed form. */
static void test_bounds_are_left_where_the_closer_ways_are_too_large(void **unused) {
    enum { N = 1000000 };
    const double two[2] = {1, -0.5}, three[3] = {1, -0.5, 0.25};
    double *c = malloc(N * sizeof *c);
    dpmf_strategy *s = NULL, *positive = NULL;
    (void)unused;
    check_ok(dpmf_strategy_create_toeplitz(N, DPMF_TOEPLITZ, 2, two, &s)); /* 2 10^5 columns of square norm 1.25 */
    check_square(s, "minsep:200000,5", DPMF_BOUND_AUTO, 250000, DPMF_UPPER_BOUND, 1e-9);
    check_square(s, "full", DPMF_BOUND_AUTO, 1.25 * N - 0.25 + (N - 1), DPMF_EXACT, 1e-12); /* tridiagonal */
    dpmf_strategy_free(s);
    check_ok(dpmf_strategy_create_toeplitz(5000, DPMF_TOEPLITZ, 3, three,
                                           &s)); /* X has 21/16, -5/8 and 1/4, less at the end */
    check_square(s, "full", DPMF_BOUND_AUTO, 5000 * (1.3125 + 1.25 + 0.5), DPMF_UPPER_BOUND, 1e-3);
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    o.sensitivity = DPMF_BOUND_SPECTRAL;
    check_fails(DPMF_ERROR_UNSUPPORTED, status_of(s, "full", o));
    check_message("5000 participations, accepted up to 4096");
    dpmf_strategy_free(s);
    /* signs that alternate, seen every ten steps: those of |c| */
    for (int i = 0; i < N; i++)
        c[i] = (i % 2 ? -1 : 1) / sqrt(1 + i);
    check_ok(dpmf_strategy_create_toeplitz(N, DPMF_TOEPLITZ, N, c, &s));
    for (int i = 0; i < N; i++)
        c[i] = fabs(c[i]);
    check_ok(dpmf_strategy_create_toeplitz(N, DPMF_TOEPLITZ, N, c, &positive));
    dpmf_sensitivity bound = compute(s, "cyclic:100000,10", DPMF_BOUND_AUTO);
    dpmf_sensitivity exact = compute(positive, "cyclic:100000,10", DPMF_BOUND_AUTO);
    assert_true(bound.kind == DPMF_UPPER_BOUND && exact.kind == DPMF_EXACT);
    assert_true(bound.value >= exact.value);
    check_near(bound.value / exact.value, 1, 1e-9);
    dpmf_strategy_free(s);
    dpmf_strategy_free(positive);
    free(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_matrices_have_the_values_worked_out_by_hand),
        cmocka_unit_test(test_trees_count_participations_under_their_nodes),
        cmocka_unit_test(test_the_fft_mechanism_is_exact_in_spite_of_negative_entries),
        cmocka_unit_test(test_identity_prefix_and_stamps_have_closed_forms),
        cmocka_unit_test(test_a_filter_has_one_sensitivity_by_every_route),
        cmocka_unit_test(test_a_long_operator_is_bounded_by_its_column_norms),
        cmocka_unit_test(test_bounds_of_larger_cases_are_close),
        cmocka_unit_test(test_bounds_are_left_where_the_closer_ways_are_too_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
