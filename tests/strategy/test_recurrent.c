/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constant-recurrent coefficients: random matrices against powers in long double, bands and BLTs as special cases, growing
 * directions that the series do not show, files, streams, refusals.
 */
#include "support/failing_allocator.h"
#include "support/own_runs.h"

#include <math.h>

enum { MAX = DPMF_RECURRENT_MAX, STEPS = 24 };

typedef struct recurrence {
    int d;
    double m[MAX * MAX], u[MAX], v[MAX];
} recurrence;

static dpmf_status create_for(const dpmf_workload *a, const recurrence *r, dpmf_strategy **out) {
    dpmf_strategy_options o = dpmf_strategy_options_defaults();
    o.matrix_rows = r->d;
    o.matrix = r->m;
    o.u = r->u;
    o.v = r->v;
    return dpmf_strategy_create("recurrent", a, &o, out);
}

static dpmf_status create(int64_t steps, const recurrence *r, dpmf_strategy **out) {
    dpmf_workload *a = workload_of("prefix", steps);
    dpmf_status status = create_for(a, r, out);
    dpmf_workload_free(a);
    return status;
}

/* c_t = u'M^t v, by powers. */
static void coefficients(const recurrence *r, int64_t steps, double *c) {
    long double x[MAX], y[MAX];
    for (int i = 0; i < r->d; i++)
        x[i] = r->v[i];
    for (int64_t t = 0; t < steps; t++) {
        long double sum = 0;
        for (int i = 0; i < r->d; i++)
            sum += r->u[i] * x[i];
        c[t] = (double)sum;
        for (int i = 0; i < r->d; i++) {
            y[i] = 0;
            for (int j = 0; j < r->d; j++)
                y[i] += r->m[i * r->d + j] * x[j];
        }
        memcpy(x, y, sizeof x);
    }
}

/* Full matrices with complex eigenvalues among others, of spectral radius below 1; c_0 is 1 or more. */
static recurrence random_recurrence(int d, uint64_t *seed) {
    recurrence r = {.d = d};
    double first = 0;
    for (int i = 0; i < d * d; i++)
        r.m[i] = check_random(seed) * 0.9 / sqrt((double)d);
    for (int i = 0; i < d; i++) {
        r.u[i] = check_random(seed);
        r.v[i] = check_random(seed) / 4;
        first += r.u[i] * r.v[i];
    }
    r.u[0] += (1 - first) / (fabs(r.v[0]) < 0.05 ? (r.v[0] = 0.5) : r.v[0]);
    return r;
}

static void check_coefficients(const recurrence *r, const dpmf_strategy *s) {
    const int64_t n = dpmf_strategy_get(s).steps;
    double *wanted = calloc((size_t)n, sizeof *wanted), *found = calloc((size_t)n, sizeof *found);
    coefficients(r, n, wanted);
    check_ok(dpmf_strategy_column(s, 0, found));
    for (int64_t t = 0; t < n; t++)
        check_near(found[t], wanted[t], 1e-12);
    free(wanted);
    free(found);
}

static void test_random_recurrences_make_their_coefficients_errors_and_streams(void **unused) {
    static const char *const workloads[] = {"prefix", "momentum:0.9", "momentum:0.9,cooldown:0.5:0.1"};
    uint64_t seed = 3;
    int made = 0;
    (void)unused;
    for (int i = 0; i < 60; i++) {
        recurrence r = random_recurrence(1 + i % 6, &seed);
        dpmf_workload *a = workload_of(workloads[i % 3], i % 5 == 0 ? 5 : STEPS); /* also fewer steps than buffers */
        dpmf_strategy *s = NULL;
        const dpmf_status status = create_for(a, &r, &s);
        if (status != DPMF_OK) { /* an inverse that grows by 1e8 */
            assert_int_equal(status, DPMF_ERROR_NUMERICAL);
            dpmf_workload_free(a);
            continue;
        }
        made++;
        assert_int_equal(dpmf_strategy_get(s).buffers, r.d);
        assert_string_equal(dpmf_strategy_get(s).family, "recurrent");
        check_coefficients(&r, s);
        check_strategy(s, 1e-7);
        check_factorization(a, s, 1e-7);
        own_check_bits(a, s);
        dpmf_strategy_free(s);
        dpmf_workload_free(a);
    }
    assert_true(made >= 50);
}

/* Of the same Toeplitz matrix by another family: the same figures, and a stream of as many buffers. */
static void check_same(const recurrence *r, const dpmf_strategy *other) {
    const int64_t n = dpmf_strategy_get(other).steps;
    static const char *const participations[] = {"single", "cyclic:4,15", "min-sep:3,10"};
    dpmf_workload *a = workload_of("prefix", n);
    dpmf_strategy *s = NULL;
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    o.lower_bound = DPMF_LOWER_BOUND_NONE;
    check_ok(create(n, r, &s));
    for (int i = 0; i < 3; i++) {
        dpmf_participation *p = NULL;
        dpmf_evaluation one, two;
        check_ok(dpmf_participation_parse(participations[i], n, &p));
        check_ok(dpmf_evaluate(a, p, s, &o, &one, NULL));
        check_ok(dpmf_evaluate(a, p, other, &o, &two, NULL));
        check_near(one.sensitivity.value / two.sensitivity.value, 1, 1e-12);
        check_near(one.rms_loss / two.rms_loss, 1, 1e-11);
        check_near(one.max_loss / two.max_loss, 1, 1e-11);
        dpmf_participation_free(p);
    }
    dpmf_strategy_free(s);
    dpmf_workload_free(a);
}

static void test_a_blt_is_a_recurrence(void **unused) {
    const double scale[] = {0.3, 0.15}, decay[] = {0.9, 0.4};
    /* One state is the input itself, which the next step feeds to the others: c_0 = 1. */
    const recurrence r = {.d = 3, .m = {0, 0, 0, 0.3, 0.9, 0, 0.15, 0, 0.4}, .u = {1, 1, 1}, .v = {1}};
    dpmf_strategy *blt = NULL;
    (void)unused;
    check_ok(dpmf_strategy_create_blt(60, 2, scale, decay, NULL, &blt));
    check_same(&r, blt);
    dpmf_strategy_free(blt);
}

static void test_bands_are_a_recurrence(void **unused) {
    const double c[] = {1, 0.5, 0.375, 0.25};
    const recurrence r = {
        .d = 4, .m = {0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0}, .u = {1, 0.5, 0.375, 0.25}, .v = {1}};
    dpmf_strategy *banded = NULL;
    (void)unused;
    check_ok(dpmf_strategy_create_toeplitz(60, DPMF_TOEPLITZ_BANDED, 4, c, &banded));
    check_same(&r, banded);
    dpmf_strategy_free(banded);
}

/* T M T^-1 with T a rotation by 1 radian, and u and v to match. */
static recurrence rotated(double first, double second, const double u[2], const double v[2]) {
    const double c = cos(1), s = sin(1);
    return (recurrence){.d = 2,
                        .m = {c * c * first + s * s * second, c * s * (first - second), c * s * (first - second),
                              s * s * first + c * c * second},
                        .u = {c * u[0] - s * u[1], s * u[0] + c * u[1]},
                        .v = {c * v[0] - s * v[1], s * v[0] + c * v[1]}};
}

/* The series of both are those of 0.5^t; the second state doubles at every step, and is 0 but for rounding. */
static void test_a_growing_direction_that_the_series_do_not_show_is_refused(void **unused) {
    const double both[] = {1, 1}, first[] = {1, 0};
    recurrence unexcited = rotated(0.5, 2, both, first), unseen = rotated(0.5, 2, first, both);
    recurrence harmless = rotated(0.5, 0.9, both, first);
    dpmf_strategy *s = NULL;
    (void)unused;
    check_fails(DPMF_ERROR_NUMERICAL, create(100, &unexcited, &s));
    check_message("rounding could change a row of the noise");
    assert_int_not_equal(create(2000, &unseen, &s), DPMF_OK); /* its state overflows */
    assert_null(s);
    check_ok(create(100, &harmless, &s));
    dpmf_strategy_free(s);
    s = NULL;
    check_ok(create(12, &unexcited, &s)); /* over few steps it does not matter */
    dpmf_strategy_free(s);
}

static void test_an_inverse_that_grows_is_refused_by_its_size(void **unused) {
    const recurrence r = {.d = 2, .m = {0, 0, 1, 0}, .u = {1, 3}, .v = {1, 0}}; /* C = 1 + 3 x */
    dpmf_strategy *s = NULL;
    (void)unused;
    check_ok(create(10, &r, &s));
    dpmf_strategy_free(s);
    s = NULL;
    check_fails(DPMF_ERROR_NUMERICAL, create(100, &r, &s));
    check_message("over 100 steps the recursion of C^-1 grows");
    check_fails(DPMF_ERROR_NUMERICAL, create(100000, &r, &s));
    assert_null(s);
}

/* C^-1 = prefix sums does not grow but never forgets either: a million steps are no trouble. */
static void test_a_million_steps_of_a_recurrence_are_accepted(void **unused) {
    const recurrence r = {.d = 2, .m = {0, 0, 1, 0}, .u = {1, -1}, .v = {1, 0}};
    const recurrence wave = {.d = 2, .m = {0.99, 0.1, -0.1, 0.99}, .u = {1, 0}, .v = {1, 0.1}};
    dpmf_strategy *s = NULL;
    (void)unused;
    check_ok(create(1000000, &r, &s));
    dpmf_strategy_free(s);
    s = NULL;
    check_ok(create(1000000, &wave, &s));
    dpmf_strategy_free(s);
}

static void test_a_recurrence_comes_back_from_a_file(void **unused) {
    uint64_t seed = 8;
    recurrence r = random_recurrence(3, &seed);
    dpmf_workload *a = workload_of("prefix", STEPS);
    dpmf_strategy *s = NULL, *shorter = NULL;
    dpmf_mechanism *m = NULL, *back = NULL;
    uint8_t *bytes = NULL;
    size_t size = 0;
    (void)unused;
    check_ok(create_for(a, &r, &s));
    check_ok(dpmf_mechanism_create(a, NULL, s, NULL, &m));
    check_ok(dpmf_mechanism_encode(m, &bytes, &size));
    check_ok(dpmf_mechanism_decode(bytes, size, &back));
    assert_string_equal(dpmf_mechanism_get(back).digest, dpmf_mechanism_get(m).digest);
    check_coefficients(&r, dpmf_mechanism_get(back).strategy);
    check_ok(dpmf_strategy_create_stamped(s, 2, &shorter));
    check_strategy(shorter, 1e-9);
    dpmf_strategy_free(shorter);
    dpmf_bytes_free(bytes);
    dpmf_mechanism_free(m);
    dpmf_mechanism_free(back);
    dpmf_strategy_free(s);
    dpmf_workload_free(a);
}

static void test_wrong_numbers_of_a_recurrence_are_refused(void **unused) {
    uint64_t seed = 8;
    const recurrence good = random_recurrence(3, &seed);
    recurrence r = good;
    dpmf_workload *a = workload_of("prefix", STEPS);
    dpmf_strategy_options o = dpmf_strategy_options_defaults();
    dpmf_strategy *s = NULL;
    (void)unused;
    r.d = MAX + 1;
    check_fails(DPMF_ERROR_ARGUMENT, create(STEPS, &r, &s));
    check_message("33 rows, accepted 1 to 32");
    r.d = MAX;
    check_fails(DPMF_ERROR_ARGUMENT, create((1 << 20) + 1, &r, &s));
    check_message("accepted up to 1048576 steps");
    check_fails(DPMF_ERROR_ARGUMENT, create((1 << 23) + 1, &r, &s));
    check_message("accepted 1 to 2^23");
    r = (recurrence){.d = 2, .m = {0.5, 0, 0, 0.5}, .u = {1, -1}, .v = {1, 1}};
    check_fails(DPMF_ERROR_ARGUMENT, create(STEPS, &r, &s));
    check_message("c_0 = u'v = 0");
    r = good;
    r.m[4] = NAN;
    check_fails(DPMF_ERROR_ARGUMENT, create(STEPS, &r, &s));
    check_message("matrix entry 4");
    r = good;
    r.v[2] = INFINITY;
    check_fails(DPMF_ERROR_ARGUMENT, create(STEPS, &r, &s));
    check_message("v entry 2");
    r = (recurrence){.d = 1, .m = {3}, .u = {1}, .v = {1}};
    check_fails(DPMF_ERROR_ARGUMENT, create(1000, &r, &s));
    check_message("overflow");
    o.matrix_rows = 3;
    o.matrix = good.m;
    o.u = good.u;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create("recurrent", a, &o, &s));
    check_message("all three");
    o.v = good.v;
    o.decoder_matrix = good.m;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create("recurrent", a, &o, &s));
    check_message("only one");
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create("recurrent", a, NULL, &s));
    assert_null(s);
    dpmf_workload_free(a);
}

static void test_any_allocation_of_a_recurrence_may_fail(void **unused) {
    uint64_t seed = 8;
    const recurrence r = random_recurrence(3, &seed);
    dpmf_workload *a = workload_of("prefix", STEPS);
    dpmf_strategy *s = NULL;
    (void)unused;
    FAIL_EACH(create_for(a, &r, &s));
    dpmf_strategy_free(s);
    dpmf_workload_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_recurrences_make_their_coefficients_errors_and_streams),
        cmocka_unit_test(test_a_blt_is_a_recurrence),
        cmocka_unit_test(test_bands_are_a_recurrence),
        cmocka_unit_test(test_a_growing_direction_that_the_series_do_not_show_is_refused),
        cmocka_unit_test(test_an_inverse_that_grows_is_refused_by_its_size),
        cmocka_unit_test(test_a_million_steps_of_a_recurrence_are_accepted),
        cmocka_unit_test(test_a_recurrence_comes_back_from_a_file),
        cmocka_unit_test(test_wrong_numbers_of_a_recurrence_are_refused),
        cmocka_unit_test(test_any_allocation_of_a_recurrence_may_fail),
    };
    return cmocka_run_group_tests_name("constant-recurrent coefficients", tests, NULL, NULL);
}
