/* SPDX-License-Identifier: Apache-2.0 */
/* The line search: both conditions at its end, on the functions of its paper; walls; how it gives up. */
#include "base/minimize.h"

#include "support/check.h"

#include <math.h>

/* A function of the step, with its slope. */
typedef void line(double t, double *value, double *slope);

typedef struct outcome {
    minimize_line_end end;
    int trials, walls;
    double step, value, slope;
} outcome;

static outcome search_along(line *phi, double first) {
    outcome o = {.end = MINIMIZE_LINE_GOES_ON};
    minimize_line_search search;
    double value, slope;
    phi(0, &value, &slope);
    minimize_line_start(&search, value, slope, first);
    while (o.end == MINIMIZE_LINE_GOES_ON) {
        o.step = search.next;
        phi(o.step, &o.value, &o.slope);
        o.trials++;
        o.walls += !isfinite(o.value);
        o.end = isfinite(o.value) ? minimize_line_take(&search, o.value, o.slope) : minimize_line_take_wall(&search);
        assert_true(o.trials <= 40);
    }
    return o;
}

/* The strong conditions of Wolfe, with the constants of base/minimize.c. */
static void check_conditions(line *phi, const outcome *o) {
    double value, slope;
    phi(0, &value, &slope);
    assert_int_equal(o->end, MINIMIZE_LINE_FOUND);
    assert_true(o->value <= value + 1e-4 * slope * o->step);
    assert_true(fabs(o->slope) <= -0.9 * slope);
}

/* ---- More and Thuente 1994, Section 5, functions (5.1) with beta = 2, (5.2) with 0.004, and (5.4) with 0.001, 0.01 ---- */

static void concave_then_flat(double t, double *value, double *slope) {
    const double square = t * t + 2;
    *value = -t / square;
    *slope = (t * t - 2) / (square * square);
}

static void steep_and_flat(double t, double *value, double *slope) {
    const double u = t + 0.004;
    *value = pow(u, 5) - 2 * pow(u, 4);
    *slope = 5 * pow(u, 4) - 8 * pow(u, 3);
}

static double gamma_of(double b) {
    return sqrt(1 + b * b) - b;
}

static void two_bends(double t, double *value, double *slope) {
    const double a = 0.001, b = 0.01, left = sqrt((1 - t) * (1 - t) + b * b), right = sqrt(t * t + a * a);
    *value = gamma_of(a) * left + gamma_of(b) * right;
    *slope = -gamma_of(a) * (1 - t) / left + gamma_of(b) * t / right;
}

static void test_both_conditions_hold_at_the_end_from_any_first_step(void **unused) {
    line *const lines[] = {concave_then_flat, steep_and_flat, two_bends};
    (void)unused;
    for (int k = 0; k < 3; k++)
        for (int power = -3; power <= 3; power++) { /* the paper: first steps 1e-3 to 1e3, 1 to some 20 trials */
            outcome o = search_along(lines[k], pow(10, power));
            check_conditions(lines[k], &o);
            assert_true(o.trials <= 20);
        }
}

/* ---- a parabola, whose minimum one interpolation finds ---- */

static void parabola(double t, double *value, double *slope) {
    *value = 5 + (t - 3) * (t - 3);
    *slope = 2 * (t - 3);
}

static void test_a_parabola_takes_two_trials_from_too_far_away(void **unused) {
    (void)unused;
    outcome o = search_along(parabola, 7);
    check_conditions(parabola, &o);
    assert_int_equal(o.trials, 2);
    check_near(o.step, 3, 1e-12);
    o = search_along(parabola, 3);
    assert_int_equal(o.trials, 1);
    o = search_along(parabola, 0.01); /* too steep there still: steps grow at most fivefold */
    check_conditions(parabola, &o);
    assert_true(o.trials >= 2 && o.trials <= 5);
}

/* ---- walls ---- */

static void logarithm(double t, double *value, double *slope) { /* least at 1/2, infinite from 1 on */
    *value = t < 1 ? -log(1 - t) - 2 * t : t < 100 ? INFINITY : NAN;
    *slope = t < 1 ? 1 / (1 - t) - 2 : NAN;
}

static void test_a_wall_is_halved_away(void **unused) {
    (void)unused;
    outcome o = search_along(logarithm, 1000);
    check_conditions(logarithm, &o);
    assert_int_equal(o.walls, 10); /* 1000 halved ten times is below 1 */
    assert_true(o.trials <= 14);
}

/* ---- how it gives up ---- */

static void cliff(double t, double *value, double *slope) { /* falls up to 1, where there is nothing */
    *value = t <= 1 ? -t : INFINITY;
    *slope = -1;
}

static void falls_for_ever(double t, double *value, double *slope) {
    *value = -t;
    *slope = -1;
}

static void lies(double t, double *value, double *slope) { /* rises, against its slope */
    *value = t;
    *slope = -1;
}

static void test_a_line_without_such_a_step_is_given_up(void **unused) {
    line *const lines[] = {cliff, falls_for_ever, lies};
    (void)unused;
    for (int k = 0; k < 3; k++)
        for (int power = -2; power <= 2; power++) {
            outcome o = search_along(lines[k], pow(10, power));
            assert_int_equal(o.end, MINIMIZE_LINE_STUCK);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_both_conditions_hold_at_the_end_from_any_first_step),
                                       cmocka_unit_test(test_a_parabola_takes_two_trials_from_too_far_away),
                                       cmocka_unit_test(test_a_wall_is_halved_away),
                                       cmocka_unit_test(test_a_line_without_such_a_step_is_given_up)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
