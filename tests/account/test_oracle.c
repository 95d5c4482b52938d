/* SPDX-License-Identifier: Apache-2.0 */
/* The accounting engines against values of 32 digits that share no code with them. */
#include "support/account_ask.h"
#include "support/account_rows.h"
#include "support/check.h"

#include <math.h>

static account_row rows[ACCOUNT_ROWS_MAX];
static int count;

static int read_rows(void **state) {
    (void)state;
    count = account_rows_read(rows);
    return 0;
}

/* The expected contents of the file. */
static void test_the_reference_file_covers_what_it_should(void **state) {
    (void)state;
    int direct = 0, direction[3] = {0}, gaussian = 0, tiny = 0;
    for (int i = 0; i < count; i++) {
        direct += rows[i].direct;
        direction[rows[i].pair.direction]++;
        gaussian += rows[i].pair.probability == 1;
        tiny += rows[i].log_delta < -50;
    }
    assert_true(count >= 300 && direct >= 50 && gaussian >= 10 && tiny >= 6);
    assert_true(direction[0] >= 80 && direction[1] >= 80 && direction[2] >= 50);
}

/* ln delta and epsilon within the stated errors; it may fail, but rarely, and never with a wrong value. */
static void test_the_contour_is_within_its_error_of_the_reference(void **state) {
    (void)state;
    int failed = 0, few = 0;
    for (int i = 0; i < count; i++) {
        const account_row *r = &rows[i];
        double log_delta = NAN, delta_error = NAN, epsilon = NAN, epsilon_error = NAN;
        check_ok(ask_contour(&r->pair, log_delta_at((account_question){0}, r->epsilon), &log_delta, &delta_error));
        check_ok(ask_contour(&r->pair, epsilon_at((account_question){0}, r->log_delta), &epsilon, &epsilon_error));
        if (isinf(delta_error) || isinf(epsilon_error)) {
            failed++;
            few += r->pair.compositions <= 3;
            continue;
        }
        if (!(fabs(log_delta - r->log_delta) <= delta_error && delta_error < 1e-4))
            fail_msg("%.15g +- %g for " ACCOUNT_ROW_FORMAT, log_delta, delta_error, ACCOUNT_ROW_VALUES(r));
        if (!(fabs(epsilon - r->epsilon) <= epsilon_error && epsilon_error < 1e-4 * r->epsilon + 1e-9))
            fail_msg("%.15g +- %g for " ACCOUNT_ROW_FORMAT, epsilon, epsilon_error, ACCOUNT_ROW_VALUES(r));
    }
    print_message("contour: %d of %d rows failed, %d of them of at most 3 steps\n", failed, count, few);
    assert_true(failed - few <= count / 50 && failed <= count / 10);
}

/* An upper bound, and for the Gaussian mechanism, whose divergence is known, not a loose one. */
static void test_renyi_bounds_are_above_the_reference(void **state) {
    (void)state;
    for (int i = 0; i < count; i++) {
        const account_row *r = &rows[i];
        double log_delta = NAN, epsilon = NAN;
        check_ok(ask_rdp(&r->pair, log_delta_at((account_question){0}, r->epsilon), &log_delta));
        check_ok(ask_rdp(&r->pair, epsilon_at((account_question){0}, r->log_delta), &epsilon));
        if (!(log_delta >= r->log_delta && epsilon >= r->epsilon && isfinite(epsilon)))
            fail_msg("rdp %.15g %.15g for " ACCOUNT_ROW_FORMAT, log_delta, epsilon, ACCOUNT_ROW_VALUES(r));
        if (r->pair.probability == 1) assert_true(epsilon < 1.5 * r->epsilon + 0.1);
    }
}

static void test_gaussian_rows_of_the_reference_are_exact(void **state) {
    (void)state;
    for (int i = 0; i < count; i++) {
        const account_row *r = &rows[i];
        if (r->pair.probability != 1) continue;
        const double twice = r->pair.direction == ACCOUNT_REPLACE ? 2 : 1;
        const double mu = twice * sqrt((double)r->pair.compositions) / r->pair.sigma;
        check_near(account_gaussian_log_delta(mu, r->epsilon), r->log_delta, 1e-14);
        check_near(account_gaussian_epsilon(mu, r->log_delta), r->epsilon, 1e-13);
        check_near(account_gaussian_mu(r->epsilon, r->log_delta), mu, 1e-13);
    }
}

/* Every fifth row here, all of them in the long test. */
static void test_every_fifth_row_of_the_reference_is_certified(void **state) {
    (void)state;
    for (int i = 0; i < count; i += 5) {
        account_row_certified(&rows[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_reference_file_covers_what_it_should),
                                       cmocka_unit_test(test_the_contour_is_within_its_error_of_the_reference),
                                       cmocka_unit_test(test_renyi_bounds_are_above_the_reference),
                                       cmocka_unit_test(test_gaussian_rows_of_the_reference_are_exact),
                                       cmocka_unit_test(test_every_fifth_row_of_the_reference_is_certified)};
    return cmocka_run_group_tests_name("accounting against 32 digits", tests, read_rows, NULL);
}
