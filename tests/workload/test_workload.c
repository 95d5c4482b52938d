/* SPDX-License-Identifier: Apache-2.0 */
/* Workloads: against their definitions, their bands, their text, their powers; refusals. */
#include "support/check.h"

#include "workload/workload.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static dpmf_workload *parse(const char *text, int64_t steps) {
    dpmf_workload *w = NULL;
    check_ok(dpmf_workload_parse(text, steps, &w));
    return w;
}

/* o from g straight from the recursion in the header's section 2. */
static void simulate(int64_t n, double beta, int nesterov, double lambda, const double *eta, const double *g,
                     double *out) {
    double m = 0, o = 0;
    for (int64_t t = 0; t < n; t++) {
        m = beta * m + g[t];
        double u = nesterov ? g[t] + beta * m : m;
        double rate = eta == NULL ? 1 : eta[t];
        o = (1 - rate * lambda) * o + rate * u;
        out[t] = o;
    }
}

static void test_named_workloads_are_what_an_optimizer_does(void **unused) {
    static const struct {
        const char *text;
        double beta, lambda;
        int nesterov, cooldown;
    } cases[] = {{"prefix", 0, 0, 0, 0},
                 {"momentum:0.9", 0.9, 0, 0, 0},
                 {"nesterov:0.9", 0.9, 0, 1, 0},
                 {"decay:0.01", 0, 0.01, 0, 0},
                 {"cooldown:0.25:0.05", 0, 0, 0, 1},
                 {"momentum:0.95,decay:0.02,cooldown:0.25:0.05", 0.95, 0.02, 0, 1},
                 {"nesterov:0.5,decay:0.1,cooldown:0.25:0.05", 0.5, 0.1, 1, 1}};
    enum { N = 40 };
    double eta[N], g[N], want[N], got[N];
    uint64_t seed = 3;
    (void)unused;
    for (int t = 0; t < N; t++) {
        eta[t] = t < 30 ? 1 : 1 - 0.95 * (t - 29) / 10.0;
        g[t] = check_random(&seed);
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        dpmf_workload *w = parse(cases[i].text, N);
        assert_string_equal(dpmf_workload_get(w).text, cases[i].text);
        simulate(N, cases[i].beta, cases[i].nesterov, cases[i].lambda, cases[i].cooldown ? eta : NULL, g, want);
        check_ok(dpmf_workload_apply(w, g, got));
        for (int t = 0; t < N; t++)
            check_near(got[t], want[t], 1e-13);
        check_workload(w, 1e-12);
        assert_int_equal(dpmf_workload_get(w).is_toeplitz, !cases[i].cooldown);
        dpmf_workload_free(w);
    }
}

/* A^-1 for heavy ball with a schedule, written out: (I - beta N) diag(1/eta) S^-1 has three bands. */
static void test_the_inverse_of_momentum_with_a_schedule_has_three_bands(void **unused) {
    const double eta[4] = {1, 0.5, 2, 0.25};
    dpmf_workload_options o = dpmf_workload_options_defaults();
    dpmf_workload *w = NULL;
    double q[3], r[2];
    int q_bands = 0, r_bands = 0;
    (void)unused;
    o.momentum = 0.9;
    o.learning_rate = eta;
    check_ok(dpmf_workload_create(4, &o, &w));
    assert_string_equal(dpmf_workload_get(w).text, "momentum:0.9,lr");
    workload_inverse_bands(w, &q_bands, &r_bands);
    assert_int_equal(q_bands, 2);
    assert_int_equal(r_bands, 0);
    check_ok(dpmf_workload_inverse_row(w, 3, q, r));
    check_near(q[0], 4, 1e-15);
    check_near(q[1], -4 - 0.9 / 2, 1e-15);
    check_near(q[2], 0.9 / 2, 1e-15);
    check_workload(w, 1e-12);
    dpmf_workload_free(w);
}

/* (A^1/2)^2 = A and A^1/2 A^-1/2 = 1 as power series; prefix sums against binomial(2k, k)/4^k. */
static void test_powers_of_a_workload_multiply_as_series(void **unused) {
    static const char *const texts[] = {
        "prefix", "momentum:0.9", "nesterov:0.9", "decay:0.05", "momentum:0.99,decay:0.001", "nesterov:0.8,decay:0.3"};
    enum { N = 200 };
    double root[N], inverse[N], whole[N];
    (void)unused;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        dpmf_workload *w = parse(texts[i], N);
        double unit[N] = {1}, column[N];
        check_ok(workload_series(w, 0.5, N, root));
        check_ok(workload_series(w, -0.5, N, inverse));
        check_ok(workload_series(w, 1, N, whole));
        check_ok(dpmf_workload_apply(w, unit, column));
        for (int t = 0; t < N; t++) {
            double square = 0, one = 0;
            for (int j = 0; j <= t; j++) {
                square += root[j] * root[t - j];
                one += root[j] * inverse[t - j];
            }
            check_near(square, column[t], 1e-12);
            check_near(whole[t], column[t], 1e-12);
            check_near(one, t == 0, 1e-12);
        }
        dpmf_workload_free(w);
    }
    dpmf_workload *w = parse("prefix", N);
    long double binomial = 1;
    check_ok(workload_series(w, 0.5, N, root));
    for (int k = 0; k < N; k++) {
        check_near(root[k] / (double)binomial, 1, 1e-14);
        binomial *= (2.0L * k + 1) / (2.0L * k + 2);
    }
    dpmf_workload_free(w);
}

/* A constant learning rate leaves A Toeplitz; a schedule is left out of the square root. */
static void test_a_schedule_is_left_out_of_the_square_root(void **unused) {
    enum { N = 20 };
    double constant[N], root[N], plain[N];
    dpmf_workload_options o = dpmf_workload_options_defaults();
    dpmf_workload *w = NULL, *prefix = parse("prefix", N), *cooled = parse("cooldown:0.5:0.1", N);
    (void)unused;
    for (int t = 0; t < N; t++)
        constant[t] = 4;
    o.learning_rate = constant;
    check_ok(dpmf_workload_create(N, &o, &w));
    assert_true(dpmf_workload_get(w).is_toeplitz);
    check_ok(workload_series(w, 0.5, N, root));
    check_ok(workload_series(prefix, 0.5, N, plain));
    for (int t = 0; t < N; t++)
        check_near(root[t], 2 * plain[t], 1e-14);
    check_ok(workload_series(cooled, 0.5, N, root));
    for (int t = 0; t < N; t++)
        check_near(root[t], plain[t], 1e-15);
    dpmf_workload_free(w);
    dpmf_workload_free(prefix);
    dpmf_workload_free(cooled);
}

static void test_a_dense_matrix_is_a_workload(void **unused) {
    enum { N = 12 };
    double matrix[N * N] = {0}, root[N];
    uint64_t seed = 5;
    dpmf_workload *w = NULL;
    (void)unused;
    for (int t = 0; t < N; t++)
        for (int u = 0; u <= t; u++)
            matrix[t * N + u] = check_random(&seed) + (t == u ? 3 : 0);
    check_ok(dpmf_workload_create_dense(N, matrix, &w));
    check_workload(w, 1e-11);
    assert_false(dpmf_workload_get(w).is_toeplitz);
    check_fails(DPMF_ERROR_UNSUPPORTED, workload_series(w, 0.5, N, root));
    dpmf_workload_free(w);

    for (int t = 0; t < N; t++)
        for (int u = 0; u <= t; u++)
            matrix[t * N + u] = pow(0.5, t - u) * 4;
    check_ok(dpmf_workload_create_dense(N, matrix, &w));
    assert_true(dpmf_workload_get(w).is_toeplitz);
    check_ok(workload_series(w, 0.5, N, root));
    for (int t = 0; t < N; t++) {
        double square = 0;
        for (int j = 0; j <= t; j++)
            square += root[j] * root[t - j];
        check_near(square, matrix[t * N], 1e-13);
    }
    dpmf_workload_free(w);
}

/* The user's operator: a leaky sum with one buffer; released exactly once. */
static void leaky_step(void *context, int64_t t, int64_t count, const double *x, double *state, double *y) {
    (void)context, (void)t;
    for (int64_t i = 0; i < count; i++)
        y[i] = state[i] = 0.75 * state[i] + 2 * x[i];
}

static void squaring_step(void *context, int64_t t, int64_t count, const double *x, double *state, double *y) {
    (void)context, (void)t, (void)state;
    for (int64_t i = 0; i < count; i++)
        y[i] = x[i] * x[i];
}

static void deaf_step(void *context, int64_t t, int64_t count, const double *x, double *state, double *y) {
    (void)context, (void)state;
    for (int64_t i = 0; i < count; i++)
        y[i] = t == 5 ? 0 : x[i];
}

static void shifting_step(void *context, int64_t t, int64_t count, const double *x, double *state, double *y) {
    (void)context, (void)t, (void)state;
    for (int64_t i = 0; i < count; i++)
        y[i] = x[i] + 1;
}

static void count_release(void *context) {
    ++*(int *)context;
}

static void test_a_users_operator_is_a_workload_if_it_is_linear(void **unused) {
    int released = 0;
    dpmf_operator op = {&released, 1, leaky_step, count_release};
    dpmf_workload *w = NULL;
    double unit[10] = {1}, column[10];
    (void)unused;
    check_ok(dpmf_workload_create_operator(10, &op, &w));
    check_ok(dpmf_workload_apply(w, unit, column));
    for (int t = 0; t < 10; t++)
        check_near(column[t], 2 * pow(0.75, t), 1e-15);
    check_workload(w, 1e-12);
    assert_int_equal(released, 0);
    dpmf_workload_free(w);
    assert_int_equal(released, 1);

    w = NULL;
    op.step = squaring_step;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_workload_create_operator(10, &op, &w));
    op.step = shifting_step; /* f(2a - b) = 2 f(a) - f(b) holds for it */
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_workload_create_operator(10, &op, &w));
    check_message("not linear");
    op.step = deaf_step;
    check_fails(DPMF_ERROR_NUMERICAL, dpmf_workload_create_operator(10, &op, &w));
    check_message("step 5");
    op.step = NULL;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_workload_create_operator(10, &op, &w));
    op = (dpmf_operator){&released, -1, leaky_step, count_release};
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_workload_create_operator(10, &op, &w));
    assert_null(w);
    assert_int_equal(released, 1); /* a refused operator stays the caller's */
}

static void test_rates_and_matrices_are_read_from_files(void **unused) {
    char rates[] = "/tmp/dpmf_rates_XXXXXX", text[64];
    int file = mkstemp(rates);
    double values[4] = {1, 0.5, 0.25, 0.125};
    dpmf_array array = {1, {4, 1}, values};
    dpmf_workload *w = NULL;
    (void)unused;
    assert_true(file >= 0);
    close(file);
    check_ok(dpmf_array_save(rates, &array));
    snprintf(text, sizeof text, "lr:%s,momentum:0.5", rates);
    check_ok(dpmf_workload_parse(text, 4, &w));
    assert_string_equal(dpmf_workload_get(w).text, "momentum:0.5,lr"); /* no path in it */
    check_workload(w, 1e-12);
    dpmf_workload_free(w);
    w = NULL;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_workload_parse(text, 5, &w));
    check_message("4 numbers");
    double matrix[9] = {1, 0, 0, 2, 3, 0, 4, 5, 6};
    array = (dpmf_array){2, {3, 3}, matrix};
    check_ok(dpmf_array_save(rates, &array));
    snprintf(text, sizeof text, "file:%s", rates);
    check_ok(dpmf_workload_parse(text, 3, &w));
    assert_string_equal(dpmf_workload_get(w).text, "file");
    check_workload(w, 1e-12);
    dpmf_workload_free(w);
    w = NULL;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_workload_parse(text, 4, &w));
    matrix[1] = 1e-300; /* above the diagonal */
    check_ok(dpmf_array_save(rates, &array));
    check_ok(dpmf_workload_parse(text, 3,
                                 &w)); /* no triangular matrix any more: its first row waits for the second column */
    assert_string_equal(dpmf_workload_get(w).text, "rows");
    dpmf_workload_free(w);
    w = NULL;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_workload_create_dense(3, matrix, &w));
    check_message("[0,1]");
    assert_null(w);
    unlink(rates);
}

static void test_texts_and_options_out_of_range_are_refused(void **unused) {
    static const struct {
        const char *text, *message;
    } bad[] = {{"", "''"},
               {"prefix,", "''"},
               {"momentum", "'momentum'"},
               {"momentum:", "momentum = ''"},
               {"momentum:1", "momentum = 1"},
               {"momentum:-0.1", "-0.1"},
               {"momentum:nan", "nan"},
               {"momentum:0.9x", "0.9x"},
               {"momentum:0.9,momentum:0.9", "twice"},
               {"momentum:0.9,nesterov:0.9", "twice"},
               {"decay:2", "decay = 2"},
               {"decay:0.1,decay:0.1", "twice"},
               {"cooldown:0.5", "FRACTION:FLOOR"},
               {"cooldown:1.5:0.1", "1.5"},
               {"cooldown:0.5:0", "floor = 0"},
               {"cooldown:0.5:0.1:0.1", "floor"},
               {"lr:/nonexistent/file.npy", "/nonexistent/file.npy"},
               {"cubic", "cubic"}};
    dpmf_workload *w = NULL;
    (void)unused;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        dpmf_status status = dpmf_workload_parse(bad[i].text, 10, &w);
        assert_true(status == DPMF_ERROR_ARGUMENT || status == DPMF_ERROR_IO);
        check_message(bad[i].message);
        assert_null(w);
    }
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_workload_parse(NULL, 10, &w));
    static const int64_t steps[] = {0, -1, INT64_MIN, INT64_MAX};
    for (int i = 0; i < 4; i++)
        check_fails(DPMF_ERROR_ARGUMENT, dpmf_workload_parse("prefix", steps[i], &w));
    dpmf_workload_options o = dpmf_workload_options_defaults();
    double rates[2] = {1, NAN};
    o.learning_rate = rates;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_workload_create(2, &o, &w));
    rates[1] = 0;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_workload_create(2, &o, &w));
    rates[1] = 3;
    o.decay = 0.5; /* 1 - 3 x 0.5 < 0 */
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_workload_create(2, &o, &w));
    double singular[4] = {1, 0, 1, 0};
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_workload_create_dense(2, singular, &w));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_workload_create_dense(2, NULL, &w));
    /* a schedule for more steps than any memory holds is refused at once */
    check_fails(DPMF_ERROR_MEMORY, dpmf_workload_parse("cooldown:0.5:0.1", (int64_t)1 << 50, &w));
    assert_null(w);
    dpmf_workload_free(NULL);
}

static void test_one_to_three_steps_are_enough(void **unused) {
    static const char *const texts[] = {"prefix", "momentum:0.9", "nesterov:0.9,decay:0.1", "cooldown:1:0.5"};
    (void)unused;
    for (int i = 0; i < 4; i++)
        for (int64_t n = 1; n <= 3; n++) {
            dpmf_workload *w = parse(texts[i], n);
            check_workload(w, 1e-13);
            dpmf_workload_free(w);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_named_workloads_are_what_an_optimizer_does),
        cmocka_unit_test(test_the_inverse_of_momentum_with_a_schedule_has_three_bands),
        cmocka_unit_test(test_powers_of_a_workload_multiply_as_series),
        cmocka_unit_test(test_a_schedule_is_left_out_of_the_square_root),
        cmocka_unit_test(test_a_dense_matrix_is_a_workload),
        cmocka_unit_test(test_a_users_operator_is_a_workload_if_it_is_linear),
        cmocka_unit_test(test_rates_and_matrices_are_read_from_files),
        cmocka_unit_test(test_texts_and_options_out_of_range_are_refused),
        cmocka_unit_test(test_one_to_three_steps_are_enough),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
