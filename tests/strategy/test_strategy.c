/* SPDX-License-Identifier: Apache-2.0 */
/* Strategies: every family through the one checker, with and without column normalization; refusals. */
#include "support/check.h"
#include "support/failing_allocator.h"

#include "base/memory.h"
#include "strategy/strategy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const WORKLOADS[] = {"prefix",
                                        "momentum:0.9",
                                        "nesterov:0.9",
                                        "decay:0.05",
                                        "momentum:0.95,decay:0.01,cooldown:0.25:0.05",
                                        "nesterov:0.5,cooldown:0.5:0.2"};
enum { WORKLOAD_COUNT = sizeof WORKLOADS / sizeof WORKLOADS[0] };

/* Checks it plain and normalized against every workload, then frees it. */
static void check_everywhere(dpmf_strategy *c, double tolerance) {
    int64_t n = dpmf_strategy_get(c).steps;
    dpmf_strategy *unit = NULL;
    double *norms = calloc((size_t)n, sizeof *norms);
    check_ok(dpmf_strategy_create_normalized(c, &unit));
    assert_true(dpmf_strategy_get(unit).is_normalized);
    assert_false(dpmf_strategy_get(c).is_normalized);
    check_strategy(c, tolerance);
    check_strategy(unit, tolerance);
    check_ok(dpmf_strategy_column_norms(unit, norms));
    for (int64_t t = 0; t < n; t++)
        assert_true(norms[t] == 1);
    for (int i = 0; i < WORKLOAD_COUNT; i++) {
        dpmf_workload *a = NULL;
        check_ok(dpmf_workload_parse(WORKLOADS[i], n, &a));
        check_factorization(a, c, 10 * tolerance);
        check_factorization(a, unit, 10 * tolerance);
        dpmf_workload_free(a);
    }
    free(norms);
    dpmf_strategy_free(unit);
    dpmf_strategy_free(c);
}

/* 70 is more than one block of impulse responses, 100 not a power of two. */
static void test_named_families_have_an_inverse_and_a_stream(void **unused) {
    static const struct {
        const char *family;
        int64_t bands;
        double nu;
    } cases[] = {{"identity", 0, 0}, {"workload", 0, 0}, {"toeplitz", 0, 0}, {"toeplitz", 0, 0.05}, {"bsr", 1, 0},
                 {"bsr", 8, 0},      {"bsr", 70, 0},     {"bisr", 1, 0},     {"bisr", 5, 0},        {"bisr", 70, 0}};
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int w = 0; w < WORKLOAD_COUNT; w++) {
            dpmf_workload *a = NULL;
            dpmf_strategy *c = NULL;
            dpmf_strategy_options o = dpmf_strategy_options_defaults();
            o.bands = cases[i].bands;
            o.nu = cases[i].nu;
            check_ok(dpmf_workload_parse(WORKLOADS[w], 70, &a));
            check_ok(dpmf_strategy_create(cases[i].family, a, &o, &c));
            dpmf_workload_free(a); /* the strategy has its own copy */
            assert_string_equal(dpmf_strategy_get(c).family, cases[i].family);
            check_everywhere(c, 1e-11);
        }
}

/* Trees and the FFT mechanism at sizes that are and are not powers of two; the best decoders against C^+. */
static void test_trees_and_fft_work_at_every_size(void **unused) {
    static const char *const families[] = {"tree", "tree-online", "tree-full", "fft", "fft-opt"};
    static const int64_t sizes[] = {1, 2, 3, 5, 8, 9, 13, 64, 100};
    (void)unused;
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
            dpmf_workload *a = NULL;
            dpmf_strategy *c = NULL;
            check_ok(dpmf_workload_parse("prefix", sizes[k], &a));
            check_ok(dpmf_strategy_create(families[i], a, NULL, &c));
            assert_string_equal(dpmf_strategy_get(c).family, families[i]);
            dpmf_workload_free(a);
            check_everywhere(c, 1e-13); /* B C = A to 1e-12 */
        }
}

/* W W' of the best decoders is (C'C)^-1 of the encoder they decode: no other left inverse makes smaller errors. */
static void test_the_best_decoders_are_the_pseudo_inverse(void **unused) {
    static const char *const pairs[][2] = {{"tree-online", "tree-full"}, {"fft", "fft-opt"}};
    enum { N = 37 };
    double x[N], first[N], gram[N], other[N];
    dpmf_workload *a = NULL;
    (void)unused;
    check_ok(dpmf_workload_parse("prefix", N, &a));
    for (int i = 0; i < 2; i++) {
        dpmf_strategy *online = NULL, *best = NULL, *switched = NULL;
        dpmf_strategy_options o = dpmf_strategy_options_defaults();
        check_ok(dpmf_strategy_create(pairs[i][0], a, NULL, &online));
        check_ok(dpmf_strategy_create(pairs[i][1], a, NULL, &best));
        for (int64_t lag = 0; lag < N; lag++) { /* the same encoder as far as privacy is concerned */
            check_ok(strategy_gram(online, lag, gram));
            check_ok(strategy_gram(best, lag, other));
            for (int64_t t = 0; t + lag < N; t++)
                check_near(gram[t], other[t], 1e-13);
        }
        int64_t rows = dpmf_strategy_get(best).rows;
        double *w = check_strategy_inverse(best);
        for (int j = 0; j < N; j++) { /* X (W W') = I */
            for (int t = 0; t < N; t++) {
                x[t] = 0;
                for (int64_t r = 0; r < rows; r++)
                    x[t] += w[t * rows + r] * w[j * rows + r];
            }
            for (int t = 0; t < N; t++)
                first[t] = 0;
            for (int64_t lag = 0; lag < N; lag++) {
                check_ok(strategy_gram(best, lag, gram));
                for (int64_t t = 0; t + lag < N; t++) {
                    first[t] += gram[t] * x[t + lag];
                    if (lag > 0) first[t + lag] += gram[t] * x[t];
                }
            }
            for (int t = 0; t < N; t++)
                check_near(first[t], t == j, 1e-12);
        }
        free(w);
        o.decoder = DPMF_DECODER_OPTIMAL; /* the first family with the other decoder is the second */
        check_ok(dpmf_strategy_create(pairs[i][0], a, &o, &switched));
        assert_string_equal(dpmf_strategy_get(switched).family, pairs[i][1]);
        dpmf_strategy_free(switched);
        o.decoder = DPMF_DECODER_RESTART;
        check_ok(dpmf_strategy_create(pairs[i][1], a, &o, &switched));
        assert_string_equal(dpmf_strategy_get(switched).family, pairs[i][0]);
        dpmf_strategy_free(switched);
        dpmf_strategy_free(online);
        dpmf_strategy_free(best);
    }
    dpmf_workload_free(a);
}

/* Every family in 2, 4 and 5 stamps. */
static void test_every_family_can_be_stamped(void **unused) {
    static const char *const families[] = {"identity", "workload",    "toeplitz",  "bsr", "bisr",
                                           "tree",     "tree-online", "tree-full", "fft", "fft-opt"};
    static const struct { int64_t steps, stamps; } cases[] = {{64, 2}, {64, 4}, {100, 5}, {100, 10}, {12, 12}};
    (void)unused;
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
            dpmf_workload *a = NULL;
            dpmf_strategy *c = NULL, *block = NULL;
            dpmf_strategy_options o = dpmf_strategy_options_defaults();
            int64_t length = cases[k].steps / cases[k].stamps;
            o.stamps = cases[k].stamps;
            if (i == 3 || i == 4) o.bands = length < 3 ? length : 3;
            check_ok(dpmf_workload_parse("prefix", cases[k].steps, &a));
            check_ok(dpmf_strategy_create(families[i], a, &o, &c));
            dpmf_workload_free(a);
            assert_int_equal(dpmf_strategy_get(c).steps, cases[k].steps);
            check_ok(dpmf_workload_parse("prefix", length, &a));
            o.stamps = 0;
            check_ok(dpmf_strategy_create(families[i], a, &o, &block));
            assert_int_equal(dpmf_strategy_get(c).buffers, dpmf_strategy_get(block).buffers);
            assert_int_equal(dpmf_strategy_get(c).rows, cases[k].stamps * dpmf_strategy_get(block).rows);
            dpmf_strategy_free(block);
            dpmf_workload_free(a);
            check_everywhere(c, 1e-13);
        }
}

/* The triangular form: lower triangular, the same errors, a sensitivity no larger; of a square C, C itself. */
static void test_the_triangular_form_has_the_same_errors(void **unused) {
    static const char *const families[] = {"tree", "tree-online", "tree-full", "fft", "fft-opt", "toeplitz"};
    enum { N = 45 };
    (void)unused;
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        dpmf_workload *a = NULL;
        dpmf_strategy *c = NULL, *lower = NULL;
        dpmf_strategy_options o = dpmf_strategy_options_defaults();
        double errors[2][N];
        dpmf_sensitivity s[2];
        o.stamps = i % 2 == 0 ? 3 : 0;
        check_ok(dpmf_workload_parse("momentum:0.9", N, &a));
        check_ok(dpmf_strategy_create(families[i], a, &o, &c));
        check_ok(dpmf_strategy_create_triangular(c, &lower));
        check_strategy(lower, 1e-12);
        check_factorization(a, lower, 1e-11);
        check_ok(dpmf_error_compute(a, c, NULL, errors[0]));
        check_ok(dpmf_error_compute(a, lower, NULL, errors[1]));
        for (int t = 0; t < N; t++)
            check_near(errors[1][t] / errors[0][t], 1, 1e-12);
        check_ok(dpmf_sensitivity_compute(c, NULL, NULL, &s[0]));
        check_ok(dpmf_sensitivity_compute(lower, NULL, NULL, &s[1]));
        assert_true(s[1].value <= s[0].value * (1 + 1e-13));
        if (i >= 4) check_near(s[1].value, s[0].value, 1e-12); /* W = C^+: nothing was projected away */
        dpmf_strategy_free(lower);
        dpmf_strategy_free(c);
        dpmf_workload_free(a);
    }
    dpmf_strategy *big = NULL, *lower = NULL;
    dpmf_workload *a = NULL;
    check_ok(dpmf_workload_parse("prefix", 20000, &a));
    check_ok(dpmf_strategy_create("tree", a, NULL, &big));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create_triangular(big, &lower));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create_triangular(NULL, &lower));
    assert_null(lower);
    dpmf_strategy_free(big);
    dpmf_workload_free(a);
}

/* A dense workload takes the matrix route; it must agree with the recursions. */
static void test_a_dense_workload_has_the_errors_of_the_named_one(void **unused) {
    static const char *const families[] = {"tree", "tree-online", "tree-full", "fft", "fft-opt", "bsr"};
    enum { N = 50 };
    (void)unused;
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        dpmf_workload *named = NULL, *dense = NULL;
        dpmf_strategy *c = NULL;
        dpmf_strategy_options o = dpmf_strategy_options_defaults();
        double errors[2][N], *matrix = NULL;
        o.stamps = i % 2 == 1 ? 5 : 0;
        o.bands = i == 5 ? 4 : 0;
        o.column_normalize = i == 0 || i == 3;
        check_ok(dpmf_workload_parse("nesterov:0.8,cooldown:0.3:0.1", N, &named));
        matrix = check_workload_matrix(named);
        check_ok(dpmf_workload_create_dense(N, matrix, &dense));
        check_ok(dpmf_strategy_create(families[i], named, &o, &c));
        check_ok(dpmf_error_compute(named, c, NULL, errors[0]));
        check_ok(dpmf_error_compute(dense, c, NULL, errors[1]));
        for (int t = 0; t < N; t++)
            check_near(errors[1][t] / errors[0][t], 1, 1e-11);
        free(matrix);
        dpmf_strategy_free(c);
        dpmf_workload_free(named);
        dpmf_workload_free(dense);
    }
}

static void test_families_keep_as_many_rows_as_they_need(void **unused) {
    static const struct {
        const char *family;
        int64_t bands, buffers, c_bands;
    } cases[] = {{"identity", 0, 0, 1},      {"workload", 0, 1, 100},  {"toeplitz", 0, 99, 100},
                 {"bsr", 8, 7, 8},           {"bisr", 6, 5, 100},      {"tree", 0, 7, 100},
                 {"tree-online", 0, 7, 100}, {"tree-full", 0, 7, 100}, {"fft", 0, 100, 100}};
    dpmf_workload *a = NULL;
    (void)unused;
    check_ok(dpmf_workload_parse("prefix", 100, &a));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        dpmf_strategy *c = NULL;
        dpmf_strategy_options o = dpmf_strategy_options_defaults();
        o.bands = cases[i].bands;
        check_ok(dpmf_strategy_create(cases[i].family, a, &o, &c));
        assert_int_equal(dpmf_strategy_get(c).buffers, cases[i].buffers);
        assert_int_equal(dpmf_strategy_get(c).bands, cases[i].c_bands);
        dpmf_strategy_free(c);
    }
    dpmf_workload_free(a);
}

static void test_given_coefficients_make_a_toeplitz_strategy(void **unused) {
    double c[100];
    dpmf_strategy *s = NULL;
    (void)unused;
    for (int i = 0; i < 100; i++)
        c[i] = pow(0.7, i) * (i % 3 == 1 ? -0.5 : 1);
    check_ok(dpmf_strategy_create_toeplitz(100, DPMF_TOEPLITZ, 100, c, &s));
    assert_string_equal(dpmf_strategy_get(s).family, "toeplitz");
    check_everywhere(s, 1e-11);
    check_ok(dpmf_strategy_create_toeplitz(100, DPMF_TOEPLITZ, 7, c, &s));
    assert_string_equal(dpmf_strategy_get(s).family, "banded-toeplitz");
    check_everywhere(s, 1e-11);
    check_ok(dpmf_strategy_create_toeplitz(100, DPMF_TOEPLITZ_INVERSE, 7, c, &s));
    check_everywhere(s, 1e-11);
    check_ok(dpmf_strategy_create_toeplitz(1, DPMF_TOEPLITZ, 1, c, &s));
    check_everywhere(s, 1e-13);
}

static void test_a_banded_strategy_is_its_dense_matrix(void **unused) {
    enum { N = 66, B = 5 };
    double rows[N * B] = {0}, matrix[N * N] = {0};
    uint64_t seed = 17;
    dpmf_strategy *banded = NULL, *dense = NULL;
    (void)unused;
    for (int t = 0; t < N; t++)
        for (int j = 0; j < B && j <= t; j++) {
            rows[t * B + j] = j == 0 ? 1.5 + 0.4 * check_random(&seed) : 0.3 * check_random(&seed);
            matrix[t * N + t - j] = rows[t * B + j];
        }
    check_ok(dpmf_strategy_create_banded(N, B, rows, &banded));
    check_ok(dpmf_strategy_create_dense(N, matrix, &dense));
    assert_int_equal(dpmf_strategy_get(banded).buffers, B - 1);
    assert_int_equal(dpmf_strategy_get(dense).buffers, N - 1);
    double errors[2][N];
    dpmf_workload *a = NULL;
    check_ok(dpmf_workload_parse("momentum:0.9", N, &a));
    check_ok(dpmf_error_compute(a, banded, NULL, errors[0]));
    check_ok(dpmf_error_compute(a, dense, NULL, errors[1]));
    for (int t = 0; t < N; t++)
        check_near(errors[0][t] / errors[1][t], 1, 1e-12);
    dpmf_workload_free(a);
    check_everywhere(banded, 1e-11);
    check_everywhere(dense, 1e-11);
}

/* Two-sided: an operator as C and as C^-1, with a diagonal that varies. */
static void varying_step(void *context, int64_t t, int64_t count, const double *x, double *state, double *y) {
    (void)context;
    for (int64_t i = 0; i < count; i++) {
        double before = state[i];
        state[i] = 0.5 * state[i] + x[i];
        y[i] = (1 + 0.1 * (double)(t % 4)) * x[i] - 0.25 * before;
    }
}

static void test_a_users_operator_is_a_strategy_either_way(void **unused) {
    dpmf_operator op = {NULL, 1, varying_step, NULL};
    (void)unused;
    for (int inverse = 0; inverse < 2; inverse++) {
        dpmf_strategy *c = NULL;
        check_ok(dpmf_strategy_create_operator(70, &op, inverse, &c));
        assert_string_equal(dpmf_strategy_get(c).family, "operator");
        check_everywhere(c, 1e-11);
    }
    dpmf_strategy *c = NULL;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create_operator(70, &op, 2, &c));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create_operator(0, &op, 0, &c));
    assert_null(c);
}

static void count_release(void *context) {
    ++*(int *)context;
}

static void test_an_operator_stays_the_callers_where_memory_ends(void **unused) {
    int released = 0;
    dpmf_operator op = {&released, 1, varying_step, count_release};
    (void)unused;
    for (int inverse = 0; inverse < 2; inverse++) {
        dpmf_strategy *c = NULL;
        FAIL_EACH(dpmf_strategy_create_operator(300, &op, inverse, &c));
        assert_int_equal(released, inverse);
        dpmf_strategy_free(c);
        assert_int_equal(released, inverse + 1);
    }
}

/* The columns of a short operator are held, those of a long one are made when they are asked for. */
static void test_held_columns_are_those_of_a_long_operator(void **unused) {
    dpmf_operator op = {NULL, 1, varying_step, NULL};
    dpmf_strategy *shorter = NULL, *longer = NULL;
    static double one[1000], other[1100];
    (void)unused;
    for (int inverse = 0; inverse < 2; inverse++) {
        check_ok(dpmf_strategy_create_operator(1000, &op, inverse, &shorter));
        check_ok(dpmf_strategy_create_operator(1100, &op, inverse, &longer));
        for (int64_t j = 0; j < 1000; j += 333) {
            check_ok(dpmf_strategy_column(shorter, j, one));
            check_ok(dpmf_strategy_column(longer, j, other));
            for (int t = 0; t < 1000; t++)
                check_near(one[t], other[t], 1e-14);
        }
        dpmf_strategy_free(shorter);
        dpmf_strategy_free(longer);
    }
}

/* A singular C has a sensitivity, but no noise. */
static void test_a_singular_strategy_has_a_sensitivity_but_no_noise(void **unused) {
    const double rows[5] = {0, 3, 0, 1, 2}, zero[5] = {0};
    double x[5] = {7, 7, 7, 7, 7}, row = 7, matrix[25] = {0};
    dpmf_strategy *c = NULL, *other = NULL;
    dpmf_sensitivity sensitivity;
    dpmf_workload *a = NULL;
    (void)unused;
    check_ok(dpmf_workload_parse("prefix", 5, &a));
    for (int kind = 0; kind < 2; kind++) {
        for (int t = 0; t < 5; t++)
            matrix[6 * t] = rows[t];
        if (kind == 0)
            check_ok(dpmf_strategy_create_banded(5, 1, rows, &c));
        else
            check_ok(dpmf_strategy_create_dense(5, matrix, &c));
        check_ok(dpmf_sensitivity_compute(c, NULL, NULL, &sensitivity));
        check_near(sensitivity.value, 3, 1e-15);
        check_fails(DPMF_ERROR_NUMERICAL, dpmf_strategy_solve(c, zero, x));
        check_message("C[0,0] = 0");
        check_fails(DPMF_ERROR_NUMERICAL, dpmf_strategy_step(c, 0, 1, zero, NULL, &row));
        check_fails(DPMF_ERROR_NUMERICAL, dpmf_error_compute(a, c, NULL, x));
        check_fails(DPMF_ERROR_NUMERICAL, dpmf_strategy_create_normalized(c, &other));
        assert_true(x[0] == 7 && row == 7 && other == NULL);
        dpmf_strategy_free(c);
        c = NULL;
    }
    dpmf_workload_free(a);
}

static void test_families_options_and_coefficients_out_of_range_are_refused(void **unused) {
    dpmf_workload *a = NULL;
    dpmf_strategy *c = NULL;
    dpmf_strategy_options o = dpmf_strategy_options_defaults();
    const double bad[2] = {1, NAN}, zero[1] = {0}, rows[4] = {1, 5, 1, 1}, upper[4] = {1, 1, 0, 1};
    (void)unused;
    check_ok(dpmf_workload_parse("prefix", 10, &a));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create("cubic", a, NULL, &c));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create(NULL, a, NULL, &c));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create("bsr", a, NULL, &c)); /* bands not given */
    o.bands = 11;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create("bsr", a, &o, &c));
    check_message("accepted 1 to 10");
    o.bands = 3;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create("toeplitz", a, &o, &c));
    o.bands = 0;
    o.nu = 1;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create("toeplitz", a, &o, &c));
    o.nu = NAN;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create("toeplitz", a, &o, &c));
    o.nu = 0.1;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create("identity", a, &o, &c));
    o.nu = 0;
    o.stamps = 3; /* does not divide 10 */
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create("identity", a, &o, &c));
    o.stamps = -1;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create("identity", a, &o, &c));
    o.stamps = 5;
    o.bands = 3; /* more than the 2 steps of a stamp */
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create("bsr", a, &o, &c));
    check_message("of a stamp");
    o.stamps = o.bands = 0;
    o.decoder = DPMF_DECODER_OPTIMAL;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create("tree", a, &o, &c));
    o.decoder = (dpmf_decoder)5;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create("fft", a, &o, &c));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create_stamped(NULL, 2, &c));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create_toeplitz(10, DPMF_TOEPLITZ, 0, bad, &c));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create_toeplitz(10, DPMF_TOEPLITZ, 11, bad, &c));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create_toeplitz(0, DPMF_TOEPLITZ, 1, bad, &c));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create_toeplitz(10, DPMF_TOEPLITZ, 2, bad, &c));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create_toeplitz(10, DPMF_TOEPLITZ, 1, zero, &c));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create_toeplitz(10, DPMF_TOEPLITZ_INVERSE, 1, zero, &c));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create_banded(2, 2, rows, &c)); /* left of column 0 */
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create_banded(2, 3, rows, &c));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create_banded(2, 2, NULL, &c));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create_dense(2, upper, &c));
    check_fails(DPMF_ERROR_MEMORY, dpmf_strategy_create_dense((int64_t)1 << 32, upper, &c));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create_normalized(NULL, &c));
    assert_null(c);
    dpmf_workload_free(a);
    dpmf_strategy_free(NULL);
    /* an inverse series that overflows is refused, not passed on */
    const double growing[2] = {1, -3};
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create_toeplitz(2000, DPMF_TOEPLITZ_INVERSE, 2, growing, &c));
    check_ok(dpmf_workload_parse("prefix", (int64_t)1 << 45, &a));
    check_fails(DPMF_ERROR_MEMORY, dpmf_strategy_create("toeplitz", a, NULL, &c));
    assert_null(c);
    dpmf_workload_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_named_families_have_an_inverse_and_a_stream),
        cmocka_unit_test(test_families_keep_as_many_rows_as_they_need),
        cmocka_unit_test(test_given_coefficients_make_a_toeplitz_strategy),
        cmocka_unit_test(test_a_users_operator_is_a_strategy_either_way),
        cmocka_unit_test(test_an_operator_stays_the_callers_where_memory_ends),
        cmocka_unit_test(test_held_columns_are_those_of_a_long_operator),
        cmocka_unit_test(test_a_singular_strategy_has_a_sensitivity_but_no_noise),
        cmocka_unit_test(test_a_banded_strategy_is_its_dense_matrix),
        cmocka_unit_test(test_trees_and_fft_work_at_every_size),
        cmocka_unit_test(test_every_family_can_be_stamped),
        cmocka_unit_test(test_the_best_decoders_are_the_pseudo_inverse),
        cmocka_unit_test(test_the_triangular_form_has_the_same_errors),
        cmocka_unit_test(test_a_dense_workload_has_the_errors_of_the_named_one),
        cmocka_unit_test(test_families_options_and_coefficients_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
