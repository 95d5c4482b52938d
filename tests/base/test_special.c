/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Special functions against constants of 20 digits, and against one another.
 *
 * The constants were computed with mpmath 1.3.0 (Johansson and others) at 60 digits: Phi from erfc, ln Phi in the far
 * tail from the continued fraction of Mills' ratio.
 */
#include "base/special.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void assert_relative(double got, double expected, double tolerance) {
    assert_true(fabs(got - expected) <= tolerance * fabs(expected));
}

static const struct {
    double x, cdf, log_cdf;
} normal[] = {
    {-37.5, 4.6053530095819548438e-308, -707.66898931750719107},
    {-30.0, 4.9067139271481870595e-198, -454.32124395634319711},
    {-20.0, 2.7536241186062336951e-89, -203.91715537109726394},
    {-12.5, 3.7325642988777133772e-36, -81.575967870743883217},
    {-10.0, 7.6198530241605260660e-24, -53.231285150512470578},
    {-5.0, 2.8665157187919391167e-7, -15.064998393988725736},
    {-3.0, 0.0013498980316300945267, -6.6077262215103495433},
    {-2.0, 0.022750131948179207200, -3.7831843336820319488},
    {-1.25, 0.10564977366685525769, -2.2476256772143181847},
    {-1.0, 0.15865525393145705141, -1.8410216450092635058},
    {-0.5, 0.30853753872598689636, -1.1759117615936186089},
    {-0.001, 0.49960105778608893741, -0.69394538346696517879},
    {0.0, 0.50000000000000000000, -0.69314718055994530942},
    {1e-9, 0.50000000039894228040, -0.69314717976206074893},
    {0.25, 0.59870632568292372424, -0.51298407540943043213},
    {0.5, 0.69146246127401310364, -0.36894641528865639307},
    {1.0, 0.84134474606854294859, -0.17275377902344988953},
    {1.96875, 0.97550909673576672573, -0.024795793759204328846},
    {2.0, 0.97724986805182079280, -0.023012909328963488465},
    {3.0, 0.99865010196836990547, -0.0013508099647481937988},
    {5.0, 0.99999971334842812081, -2.8665161296376359338e-7},
    {8.0, 0.99999999999999937790, -6.2209605742717860585e-16},
};

static void test_the_normal_distribution_is_accurate_in_both_tails(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof normal / sizeof normal[0]; i++) {
        assert_relative(base_normal_cdf(normal[i].x), normal[i].cdf, 1e-15);
        assert_relative(base_log_normal_cdf(normal[i].x), normal[i].log_cdf, 1e-15);
    }
    assert_relative(base_normal_cdf(-38), 2.8854283600687843084e-316, 1e-7); /* subnormal: 8 digits are left */
}

static void test_the_far_tail_has_its_logarithm(void **state) {
    (void)state;
    static const double tail[][2] = {
        {-34.5, -599.58573625947235769},
        {-35.0, -616.97510126192251347},
        {-35.5, -634.61426315508838500},
        {-38.0, -726.55721601882013010},
        {-40.0, -804.60844201375378817},
        {-100.0, -5005.5242086942050886},
        {-1000.0, -5.0000782669481218431e+5},
        {-12345.678, -7.6207892979841859620e+7},
        {-100000000.0, -5.0000000000000193396e+15},
        {-1e100, -5.0000000000000001590e+199},
        {-1e150, -4.9999999999999998084e+299},
    };
    for (size_t i = 0; i < sizeof tail / sizeof tail[0]; i++) {
        assert_relative(base_log_normal_cdf(tail[i][0]), tail[i][1], 1e-15);
    }
    /* The two methods meet at -35 without a step. */
    const double below = base_log_normal_cdf(nextafter(-35, -36)), above = base_log_normal_cdf(-35);
    assert_true(below <= above && above - below <= 1e-15 * 617);
}

static void test_the_normal_distribution_has_its_limits(void **state) {
    (void)state;
    assert_true(base_normal_cdf(-INFINITY) == 0 && base_normal_cdf(INFINITY) == 1);
    assert_true(base_normal_cdf(-40) == 0 && base_normal_cdf(40) == 1);
    assert_true(base_normal_cdf(-1e300) == 0 && base_normal_cdf(1e300) == 1);
    assert_true(base_log_normal_cdf(-INFINITY) == -INFINITY && base_log_normal_cdf(INFINITY) == 0);
    assert_true(isnan(base_normal_cdf(NAN)) && isnan(base_log_normal_cdf(NAN)));
    for (double x = 0; x < 8; x += 0.03125) {
        assert_relative(base_normal_cdf(x), 1 - base_normal_cdf(-x), 4e-16);
    }
}

static void test_logarithms_of_sums_and_differences_are_accurate(void **state) {
    (void)state;
    assert_relative(base_log_add(1, 2), 2.3132616875182228340, 1e-15);
    assert_relative(base_log_add(2, 1), 2.3132616875182228340, 1e-15);
    assert_relative(base_log_add(-1000, -1001), -999.68673831248177717, 1e-15);
    assert_relative(base_log_add(0, -40), 4.2483542552915889863e-18, 1e-15);
    assert_true(base_log_add(1e308, 1) == 1e308);
    assert_true(base_log_add(-INFINITY, 3) == 3 && base_log_add(3, -INFINITY) == 3);
    assert_true(base_log_add(-INFINITY, -INFINITY) == -INFINITY);
    assert_true(base_log_add(INFINITY, -INFINITY) == INFINITY && base_log_add(INFINITY, INFINITY) == INFINITY);
    assert_true(isnan(base_log_add(NAN, 1)) && isnan(base_log_add(1, NAN)));

    assert_relative(base_log_sub(2, 1), 1.5413248546129181090, 1e-15);
    assert_relative(base_log_sub(0, -0x1p-40), -27.725887222398267124, 1e-15);
    assert_relative(base_log_sub(0, -40), -4.2483542552915890044e-18, 1e-15);
    assert_relative(base_log_sub(-1000, -1001), -1000.4586751453870819, 1e-15);
    assert_true(base_log_sub(5, 5) == -INFINITY && base_log_sub(-INFINITY, -INFINITY) == -INFINITY);
    assert_true(base_log_sub(5, -INFINITY) == 5 && base_log_sub(INFINITY, 5) == INFINITY);
    assert_true(isnan(base_log_sub(1, 2)) && isnan(base_log_sub(NAN, 1)) && isnan(base_log_sub(1, NAN)));
}

static void test_the_agm_is_accurate(void **state) {
    (void)state;
    static const double means[][3] = {
        {1, 2, 1.4567910310469068692},
        {24, 6, 13.458171481725615421},
        {1, 1e-10, 0.064344870476013323025},
        {1e300, 3e300, 1.8636167832448966402e+300},
        {1e-300, 1e300, 1.1358405546107696693e+297},
    };
    for (size_t i = 0; i < sizeof means / sizeof means[0]; i++) {
        assert_relative(base_agm(means[i][0], means[i][1]), means[i][2], 1e-15);
        assert_relative(base_agm(means[i][1], means[i][0]), means[i][2], 1e-15);
    }
    assert_relative(1 / base_agm(1, sqrt(2)), 0.83462684167407318628, 1e-15); /* Gauss's constant */
    assert_true(base_agm(3, 3) == 3 && base_agm(DBL_MAX, DBL_MAX) == DBL_MAX);
    assert_true(base_agm(DBL_TRUE_MIN, DBL_TRUE_MIN) == DBL_TRUE_MIN);
    assert_true(fabs(base_agm(DBL_TRUE_MIN, 2 * DBL_TRUE_MIN) - 1.5 * DBL_TRUE_MIN) <= DBL_TRUE_MIN);
    assert_true(base_agm(0, 1) == 0 && isinf(base_agm(1, INFINITY)));
    assert_true(isnan(base_agm(-1, 1)) && isnan(base_agm(1, NAN)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_normal_distribution_is_accurate_in_both_tails),
        cmocka_unit_test(test_the_far_tail_has_its_logarithm),
        cmocka_unit_test(test_the_normal_distribution_has_its_limits),
        cmocka_unit_test(test_logarithms_of_sums_and_differences_are_accurate),
        cmocka_unit_test(test_the_agm_is_accurate),
    };
    return cmocka_run_group_tests_name("special functions", tests, NULL, NULL);
}
