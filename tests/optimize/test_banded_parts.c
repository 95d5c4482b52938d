/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of the best banded C: errors and derivatives against the library's own errors and finite differences, the
 * class of a participation against its patterns, the start.
 */
#include "families/banded/banded.h"
#include "support/optimize_banded_cases.h"

#include "sensitivity/sensitivity.h"

#include <math.h>

/* ---- errors and derivatives ---- */

static void check_pass(const char *text, int64_t n, int64_t bands) {
    dpmf_workload *a = workload(text, n);
    dpmf_strategy *c = NULL;
    banded_pass pass = {0};
    uint64_t seed = (uint64_t)(n + bands);
    double *rows = numbers(n * bands), *d = numbers(n * bands), *squares = numbers(n), *errors = numbers(n);
    double *p = numbers(n);
    random_rows(n, bands, &seed, rows);
    for (int64_t t = 0; t < n; t++)
        p[t] = 1.5 + check_random(&seed);
    check_ok(banded_pass_create(a, bands, &pass));
    double total = weighted(&pass, rows, p, squares);
    check_ok(dpmf_strategy_create_banded(n, bands, rows, &c));
    check_ok(dpmf_error_compute(a, c, NULL, errors));
    for (int64_t t = 0; t < n; t++)
        check_near(squares[t] / (errors[t] * errors[t]), 1, 1e-12);
    banded_backward(&pass, rows, p, d, NULL);
    for (int64_t i = 0; i < n * bands; i++) {
        if (i % bands > i / bands) {
            assert_true(d[i] == 0);
            continue;
        }
        double kept = rows[i], h = 1e-5; /* central: h^2 and rounding / h are both about 1e-10 */
        rows[i] = kept + h;
        double up = weighted(&pass, rows, p, squares);
        rows[i] = kept - h;
        double down = weighted(&pass, rows, p, squares);
        rows[i] = kept;
        assert_true(fabs((up - down) / (2 * h) - d[i]) <= 1e-7 * total);
    }
    banded_pass_free(&pass);
    dpmf_strategy_free(c);
    dpmf_workload_free(a);
    free(rows), free(d), free(squares), free(errors), free(p);
}

static void test_a_pass_gives_errors_and_their_gradient(void **state) {
    (void)state;
    for (int i = 0; i < WORKLOADS_COUNT; i++) {
        check_pass(WORKLOADS[i], 1, 1);
        check_pass(WORKLOADS[i], 9, 1);
        check_pass(WORKLOADS[i], 14, 2);
        check_pass(WORKLOADS[i], 23, 6);
        check_pass(WORKLOADS[i], 12, 12);
    }
}

static void test_a_pass_over_growing_noise_says_so(void **state) {
    (void)state;
    dpmf_workload *a = workload("prefix", 2000);
    banded_pass pass = {0};
    double *rows = numbers(4000), *squares = numbers(2000);
    for (int64_t t = 0; t < 2000; t++) {
        rows[2 * t] = 1;
        rows[2 * t + 1] = t > 0 ? -2 : 0; /* y doubles in every step */
    }
    check_ok(banded_pass_create(a, 2, &pass));
    assert_false(banded_forward(&pass, rows, squares));
    banded_pass_free(&pass);
    dpmf_workload_free(a);
    free(rows), free(squares);
}

/* ---- the class ---- */

static const char *const PARTICIPATIONS[] = {"single", "cyclic:3,7", "minsep:3,7", "minsep:2,9", "cyclic:4,6"};
enum { PARTICIPATIONS_COUNT = sizeof PARTICIPATIONS / sizeof PARTICIPATIONS[0] };

/* Derivatives by the unknowns, and the sensitivity, which the library finds from C alone. */
static void check_class(const char *text, int64_t n, int64_t bands) {
    dpmf_workload *a = workload("prefix", n);
    dpmf_participation *who = participation(text, n);
    banded_class class_ = {0};
    banded_pass pass = {0};
    dpmf_strategy *c = NULL;
    dpmf_sensitivity s;
    uint64_t seed = 11;
    check_ok(banded_class_create(who, bands, &class_));
    check_ok(banded_pass_create(a, bands, &pass));
    double *rows = numbers(n * bands), *d = numbers(n * bands), *squares = numbers(n), *p = numbers(n);
    double *x = numbers(class_.unknowns), *gradient = numbers(class_.unknowns), *back = numbers(class_.unknowns);
    random_rows(n, bands, &seed, rows);
    for (int64_t t = 0; t < n; t++) {
        class_.scale[t] = 1.5 + check_random(&seed);
        p[t] = 1.5 + check_random(&seed);
    }
    for (int64_t i = 0; i <= class_.windows; i++)
        class_.tension[i] = 1.5 + check_random(&seed);
    banded_class_unknowns(&class_, rows, x);
    for (int64_t i = n * bands; i < class_.unknowns; i++)
        x[i] = check_random(&seed);
    assert_true(banded_class_build(&class_, x, rows));
    check_ok(dpmf_strategy_create_banded(n, bands, rows, &c));
    check_ok(dpmf_sensitivity_compute(c, who, NULL, &s));
    assert_int_equal(s.kind, DPMF_EXACT);
    assert_true(s.value <= 1 + 1e-13);
    if (class_.kind != BANDED_SEPARATED) check_near(s.value, 1, 1e-13);
    double total = weighted(&pass, rows, p, squares);
    banded_backward(&pass, rows, p, d, NULL);
    banded_class_pull(&class_, rows, d, gradient);
    for (int64_t i = 0; i < class_.unknowns; i++) {
        double kept = x[i], h = 1e-5;
        x[i] = kept + h;
        assert_true(banded_class_build(&class_, x, rows));
        double up = weighted(&pass, rows, p, squares);
        x[i] = kept - h;
        assert_true(banded_class_build(&class_, x, rows));
        double down = weighted(&pass, rows, p, squares);
        x[i] = kept;
        assert_true(fabs((up - down) / (2 * h) - gradient[i]) <= 1e-7 * total);
    }
    /* new scales change the unknowns, not C, but for windows that are brought into use */
    assert_true(banded_class_build(&class_, x, rows));
    banded_class_rescale(&class_, rows, d, total);
    banded_class_unknowns(&class_, rows, x);
    double *again = numbers(n * bands);
    assert_true(banded_class_build(&class_, x, again));
    for (int64_t i = 0; i < n * bands; i++)
        check_near(again[i], rows[i], class_.kind == BANDED_SEPARATED ? 1e-3 : 1e-13);
    banded_class_free(&class_);
    banded_pass_free(&pass);
    dpmf_strategy_free(c);
    dpmf_workload_free(a);
    dpmf_participation_free(who);
    free(rows), free(d), free(squares), free(p), free(x), free(gradient), free(back), free(again);
}

static void test_the_class_of_a_participation_is_its_patterns(void **state) {
    (void)state;
    for (int i = 0; i < PARTICIPATIONS_COUNT; i++) {
        check_class(PARTICIPATIONS[i], 19, 1);
        check_class(PARTICIPATIONS[i], 19, 4);
        check_class(PARTICIPATIONS[i], 19, 6);
    }
}

/*
 * Every d whose patterns sum to 1 at most has sum nu d <= support(nu) (the duality that `separated` rests on), and for
 * each nu there is one that comes up to it: here the best over the patterns themselves.
 */
static void test_no_diagonal_of_the_class_passes_its_support(void **state) {
    (void)state;
    int64_t n = 23, k = 3, b = 7;
    uint64_t seed = 3;
    dpmf_participation *who = participation("minsep:3,7", n);
    banded_class class_ = {0};
    double d[23], nu[23], work[46];
    check_ok(banded_class_create(who, 5, &class_));
    for (int trial = 0; trial < 2000; trial++) {
        double sum = 0, power = 1 + 4 * fabs(check_random(&seed));
        for (int64_t t = 0; t < n; t++) {
            d[t] = pow(fabs(check_random(&seed)), power);
            nu[t] = pow(fabs(check_random(&seed)), power);
        }
        double most = sensitivity_place(n, k, b, d, work, NULL);
        for (int64_t t = 0; t < n; t++)
            sum += nu[t] * d[t] / most;
        assert_true(sum <= banded_class_support(&class_, nu) * (1 + 1e-13));
        /* the level makes it hold for a given sum */
        for (int64_t t = 0; t < n; t++)
            class_.diagonal[t] = d[t] / most;
        banded_class_level(&class_, sum, nu);
        assert_true(banded_class_support(&class_, nu) <= sum * (1 + 1e-13));
    }
    banded_class_free(&class_);
    dpmf_participation_free(who);
}

/* Columns that follow a number + another / sqrt(steps to go) still do so, with their own steps to go; the end is kept. */
static void test_a_stretched_start_keeps_its_end_and_its_trend(void **state) {
    (void)state;
    int64_t small = 400, n = 1300, b = 5;
    double *from = numbers(small * b), *rows = numbers(n * b);
    for (int64_t s = 0; s < small; s++)
        for (int64_t j = 0; j < b && s + j < small; j++)
            from[(s + j) * b + j] = 1 / (double)(j + 1) + (double)(j - 2) / sqrt((double)(small - s));
    banded_start_stretch(small, n, b, from, rows);
    for (int64_t s = 0; s < n; s++)
        for (int64_t j = 0; j < b && s + j < n; j++) {
            double value = rows[(s + j) * b + j], want = 1 / (double)(j + 1) + (double)(j - 2) / sqrt((double)(n - s));
            if (s >= n - 200) assert_true(value == from[(s + j - n + small) * b + j]);
            check_near(value, want, 1e-3); /* the means of the trend are taken over curved pieces */
        }
    free(from), free(rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_pass_gives_errors_and_their_gradient),
        cmocka_unit_test(test_a_pass_over_growing_noise_says_so),
        cmocka_unit_test(test_the_class_of_a_participation_is_its_patterns),
        cmocka_unit_test(test_no_diagonal_of_the_class_passes_its_support),
        cmocka_unit_test(test_a_stretched_start_keeps_its_end_and_its_trend),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
