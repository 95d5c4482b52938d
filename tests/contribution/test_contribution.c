/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exact sums of clipped contributions: every unit's integers are within the clip norm, counted in 128 bits, and close to
 * the clipped gradient; sums do not depend on order, threads or instruction set; hostile units add 0.
 */
#include "kernels/grid/grid.h"
#include "support/check.h"
#include "support/failing_allocator.h"

#include <math.h>
#include <string.h>

enum { UNITS = 9, FIRST = 5003, SECOND = 40, DIM = FIRST + SECOND };

static float first[UNITS * FIRST], second[UNITS * SECOND];
static double wide_first[UNITS * FIRST], wide_second[UNITS * SECOND];

static void fill(void) {
    uint64_t seed = 4;
    for (int u = 0; u < UNITS; u++) { /* norms from far below the clip norm to far above it */
        const double size = pow(10, u - 5);
        for (int j = 0; j < FIRST; j++)
            first[u * FIRST + j] = (float)(size * check_random(&seed));
        for (int j = 0; j < SECOND; j++)
            second[u * SECOND + j] = (float)(size * check_random(&seed));
    }
    for (int i = 0; i < UNITS * FIRST; i++)
        wide_first[i] = first[i];
    for (int i = 0; i < UNITS * SECOND; i++)
        wide_second[i] = second[i];
}

static void add(dpmf_precision precision, int64_t from, int64_t units, double clip, double grid, int threads,
                int64_t *sum) {
    dpmf_run run = dpmf_run_defaults();
    run.threads = threads;
    const dpmf_segment parts[2] = {{first + from * FIRST, FIRST}, {second + from * SECOND, SECOND}};
    const dpmf_segment wide[2] = {{wide_first + from * FIRST, FIRST}, {wide_second + from * SECOND, SECOND}};
    assert_int_equal(
        dpmf_clip_add(clip, 0, grid, precision, units, 2, precision == DPMF_FLOAT64 ? wide : parts, sum, &run),
        DPMF_OK);
}

static double grid_of(double clip, int64_t units) {
    double grid = 0;
    assert_int_equal(dpmf_clip_grid(clip, units, &grid), DPMF_OK);
    return grid;
}

static void test_within_the_clip_norm(void **state) {
    (void)state;
    fill();
    const double clips[] = {0x1p-100, 1e-24, 0.3, 1.0, 12345.678, 0x1p100};
    for (size_t k = 0; k < sizeof clips / sizeof clips[0]; k++) {
        const double clip = clips[k], grid = grid_of(clip, 1000);
        for (int u = 0; u < UNITS; u++) {
            int64_t sum[DIM] = {0};
            add(DPMF_FLOAT32, u, 1, clip, grid, 1, sum);
            __int128 squares = 0;
            double norm = 0, off = 0;
            for (int j = 0; j < DIM; j++) {
                const double g = j < FIRST ? first[u * FIRST + j] : second[u * SECOND + j - FIRST];
                squares += (__int128)sum[j] * sum[j];
                norm += g * g;
            }
            const double most = floor(clip / grid), scale = fmin(1, clip / sqrt(norm));
            assert_true(squares <= (__int128)most * (__int128)most);
            for (int j = 0; j < DIM; j++) {
                const double g = j < FIRST ? first[u * FIRST + j] : second[u * SECOND + j - FIRST];
                off += pow((double)sum[j] * grid - scale * g, 2);
            }
            assert_true(sqrt(off) <= clip * 0x1p-20);
        }
    }
}

static void test_order_threads_precision(void **state) {
    (void)state;
    fill();
    const double grid = grid_of(1.0, 1000);
    int64_t whole[DIM] = {0}, parts[DIM] = {0}, wide[DIM] = {0}, threads[DIM] = {0};
    add(DPMF_FLOAT32, 0, UNITS, 1.0, grid, 1, whole);
    for (int u = UNITS - 1; u >= 0; u--)
        add(DPMF_FLOAT32, u, 1, 1.0, grid, 1, parts);
    add(DPMF_FLOAT64, 0, UNITS, 1.0, grid, 1, wide);
    add(DPMF_FLOAT32, 0, UNITS, 1.0, grid, 3, threads);
    assert_memory_equal(whole, parts, sizeof whole);
    assert_memory_equal(whole, wide, sizeof whole);
    assert_memory_equal(whole, threads, sizeof whole);
}

/* Enough of them that threads are made, and that they come in several groups. */
static void test_many_units_add_up_exactly(void **state) {
    (void)state;
    enum { MANY = 500 };
    uint64_t seed = 5;
    float *g = calloc((size_t)MANY * FIRST, sizeof *g);
    assert_non_null(g);
    for (int64_t i = 0; i < (int64_t)MANY * FIRST; i++)
        g[i] = (float)check_random(&seed);
    const double grid = grid_of(1.0, MANY);
    dpmf_run run = dpmf_run_defaults();
    int64_t sum[2][FIRST] = {{0}}, singly[FIRST] = {0};
    for (int threads = 1; threads <= 2; threads++) {
        run.threads = threads;
        const dpmf_segment part = {g, FIRST};
        assert_int_equal(dpmf_clip_add(1.0, 0, grid, DPMF_FLOAT32, MANY, 1, &part, sum[threads - 1], &run), DPMF_OK);
    }
    for (int u = 0; u < MANY; u++) {
        const dpmf_segment part = {g + (int64_t)u * FIRST, FIRST};
        assert_int_equal(dpmf_clip_add(1.0, 0, grid, DPMF_FLOAT32, 1, 1, &part, singly, NULL), DPMF_OK);
    }
    assert_memory_equal(sum[0], sum[1], sizeof sum[0]);
    assert_memory_equal(sum[0], singly, sizeof singly);
    free(g);
}

static void test_hostile_units_add_nothing(void **state) {
    (void)state;
    fill();
    const double grid = grid_of(1.0, 1000);
    int64_t without[DIM] = {0}, with[DIM] = {0};
    add(DPMF_FLOAT32, 0, 4, 1.0, grid, 1, without);
    add(DPMF_FLOAT32, 5, UNITS - 5, 1.0, grid, 1, without);
    const float hostile[] = {NAN, INFINITY, -INFINITY};
    for (int k = 0; k < 3; k++) {
        first[4 * FIRST + 17] = hostile[k];
        memset(with, 0, sizeof with);
        add(DPMF_FLOAT32, 0, UNITS, 1.0, grid, 1, with);
        assert_memory_equal(with, without, sizeof with);
    }
    fill();
    wide_first[4 * FIRST + 17] = 1e300; /* finite, but its square is not */
    memset(with, 0, sizeof with);
    add(DPMF_FLOAT64, 0, UNITS, 1.0, grid, 1, with);
    assert_memory_equal(with, without, sizeof with);
    first[4 * FIRST + 17] = 3e38F; /* clipped like any other */
    memset(with, 0, sizeof with);
    add(DPMF_FLOAT32, 4, 1, 1.0, grid, 1, with);
    assert_true((double)with[17] * grid > 0.99999);
}

static void test_instruction_sets_agree(void **state) {
    (void)state;
    fill();
    const char *const names[] = {"avx2", "avx512"};
    const kernels_grid_set *ref = kernels_grid_find("ref");
    for (int k = 0; k < 2; k++) {
        const kernels_grid_set *set = kernels_grid_find(names[k]);
        for (int count = 0; set != NULL && count < 70; count++) {
            int64_t a[70] = {0}, b[70] = {0};
            assert_true(ref->squares_float(count, first) == set->squares_float(count, first));
            assert_true(ref->squares_double(count, wide_first) == set->squares_double(count, wide_first));
            for (int64_t sign = -1; sign <= 1; sign += 2) {
                assert_true(ref->add_float(count, first, 1e14, sign, a) == set->add_float(count, first, 1e14, sign, b));
                assert_true(ref->add_double(count, wide_first, 3e13, sign, a) ==
                            set->add_double(count, wide_first, 3e13, sign, b));
            }
            assert_memory_equal(a, b, sizeof a);
            for (int j = 0; j < 70; j++)
                assert_int_equal(a[j], 0); /* added and taken out */
        }
    }
}

static void test_the_grid_is_fine_and_sums_fit(void **state) {
    (void)state;
    assert_true(grid_of(1.0, 1) == 0x1p-32);
    assert_true(grid_of(1.0, 1 << 20) == 0x1p-32);
    assert_true(grid_of(1.5, 1000) == 0x1p-32);
    assert_true(grid_of(1.0, (1 << 20) + 1) == 0x1p-31);
    assert_true(grid_of(2.0, INT64_C(1) << 30) == 0x1p-21);
    double grid = 0;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_clip_grid(0x1p-101, 1, &grid));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_clip_grid(NAN, 1, &grid));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_clip_grid(1.0, 0, &grid));
    assert_true(grid == 0);
}

static void test_bad_contributions_are_refused(void **state) {
    (void)state;
    fill();
    int64_t sum[DIM] = {0};
    const dpmf_segment part = {first, FIRST}, negative = {first, -1};
    const double grids[] = {0, -1, 0.3, NAN, INFINITY, 2, 0x1p-60};
    for (size_t k = 0; k < sizeof grids / sizeof grids[0]; k++)
        check_fails(DPMF_ERROR_ARGUMENT, dpmf_clip_add(1.0, 0, grids[k], DPMF_FLOAT32, 1, 1, &part, sum, NULL));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_clip_add(1.0, 0, 0x1p-5, DPMF_FLOAT32, 1, 1, &part, sum, NULL));
    check_message("too coarse");
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_clip_add(0.0, 0, 0x1p-32, DPMF_FLOAT32, 1, 1, &part, sum, NULL));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_clip_add(1.0, 0, 0x1p-32, DPMF_FLOAT32, -1, 1, &part, sum, NULL));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_clip_add(1.0, 0, 0x1p-32, DPMF_FLOAT32, 1, 1, &negative, sum, NULL));
    for (int j = 0; j < DIM; j++)
        assert_int_equal(sum[j], 0);
    FAIL_EACH(dpmf_clip_add(1.0, 0, 0x1p-32, DPMF_FLOAT32, 1, 1, &part, sum, NULL));
}

/* ---- normalised contributions ---- */

/* Adds one unit of `count` doubles, normalised; gives |q|^2 of its integers. */
static __int128 add_normalised(const double *g, int64_t count, double clip, double gamma, double grid, int64_t *sum) {
    const dpmf_segment part = {(void *)g, count};
    __int128 squares = 0;
    memset(sum, 0, (size_t)count * sizeof *sum);
    assert_int_equal(dpmf_clip_add(clip, gamma, grid, DPMF_FLOAT64, 1, 1, &part, sum, NULL), DPMF_OK);
    for (int64_t j = 0; j < count; j++)
        squares += (__int128)sum[j] * sum[j];
    return squares;
}

/* clip g / (|g| + gamma) to a 2^-20 of the clip norm, for norms from far below gamma to far above it, and never more than the bound. */
static void test_normalised_units_have_their_length(void **state) {
    (void)state;
    const double clips[] = {0x1p-100, 0.3, 1.0, 0x1p100}, gammas[] = {0x1p-100, 1e-8, 0.01, 1, 1e6, 0x1p100};
    uint64_t seed = 9;
    for (size_t c = 0; c < sizeof clips / sizeof clips[0]; c++)
        for (size_t k = 0; k < sizeof gammas / sizeof gammas[0]; k++)
            for (int size = -150; size <= 150; size += 10) {
                double g[SECOND], norm = 0, off = 0;
                int64_t sum[SECOND];
                const double clip = clips[c], grid = grid_of(clip, 1000), most = floor(clip / grid);
                for (int j = 0; j < SECOND; j++) {
                    g[j] = pow(10, size) * check_random(&seed);
                    norm += g[j] * g[j];
                }
                norm = sqrt(norm);
                const __int128 squares = add_normalised(g, SECOND, clip, gammas[k], grid, sum);
                assert_true(squares <= (__int128)most * (__int128)most);
                for (int j = 0; j < SECOND; j++)
                    off += pow((double)sum[j] * (grid / clip) - g[j] / (norm + gammas[k]), 2);
                assert_true(sqrt(off) <= 0x1p-20);
                if (norm > 1e6 * gammas[k]) assert_true((double)squares > 0.9999 * most * most);
            }
}

/* Every input: the bound holds in integers, what is not finite and what is zero add nothing, and nothing fails. */
static void test_hostile_units_stay_within_the_bound_when_normalised(void **state) {
    (void)state;
    const double words[] = {NAN,   INFINITY, -INFINITY, 0,     -0.0,  1e-300,   -1e-300, 5e-324, 1e-162,
                            1e-30, 1e30,     -1e30,     1e153, 1e154, -1.7e308, 1,       -1,     0x1p-126};
    const double gammas[] = {0x1p-100, 0.01, 0x1p100};
    enum { COUNT = 37 };
    const double grid = grid_of(1.0, 1000), most = floor(1.0 / grid);
    uint64_t seed = 12;
    int nothing = 0, full = 0;
    for (int t = 0; t < 3000; t++) {
        double g[COUNT];
        int64_t sum[COUNT];
        int finite = 1;
        double two[2];
        for (int k = 0; k < 2; k++)
            two[k] = words[(int)((check_random(&seed) + 1) * 8.999)];
        for (int j = 0; j < COUNT; j++) {
            g[j] = two[check_random(&seed) > 0];
            finite = finite && isfinite(g[j]);
        }
        const __int128 squares = add_normalised(g, COUNT, 1.0, gammas[t % 3], grid, sum);
        assert_true(squares <= (__int128)most * (__int128)most);
        if (!finite) assert_true(squares == 0);
        nothing += squares == 0;
        full += (double)squares > 0.9999 * most * most;
    }
    assert_true(nothing > 100 && full > 100);
    const double alone[] = {0, 1e-300, 5e-324, 1e-162, 0x1p-511};
    for (int k = 0; k < 5; k++)
        for (int c = 0; c < 3; c++) {
            double g[COUNT];
            int64_t sum[COUNT];
            for (int j = 0; j < COUNT; j++)
                g[j] = alone[k];
            assert_true(add_normalised(g, COUNT, 1.0, gammas[c], grid, sum) == 0);
        }
}

static void test_normalised_sums_do_not_depend_on_order_threads_or_precision(void **state) {
    (void)state;
    fill();
    const double grid = grid_of(1.0, 1000);
    int64_t whole[FIRST] = {0}, singly[FIRST] = {0}, wide[FIRST] = {0};
    dpmf_run run = dpmf_run_defaults();
    run.threads = 3;
    const dpmf_segment part = {first, FIRST}, doubles = {wide_first, FIRST};
    assert_int_equal(dpmf_clip_add(1.0, 0.01, grid, DPMF_FLOAT32, UNITS, 1, &part, whole, &run), DPMF_OK);
    for (int u = UNITS - 1; u >= 0; u--) {
        const dpmf_segment one = {first + u * FIRST, FIRST};
        assert_int_equal(dpmf_clip_add(1.0, 0.01, grid, DPMF_FLOAT32, 1, 1, &one, singly, NULL), DPMF_OK);
    }
    assert_int_equal(dpmf_clip_add(1.0, 0.01, grid, DPMF_FLOAT64, UNITS, 1, &doubles, wide, NULL), DPMF_OK);
    assert_memory_equal(whole, singly, sizeof whole);
    assert_memory_equal(whole, wide, sizeof whole);
}

static void test_a_gamma_out_of_range_is_refused(void **state) {
    (void)state;
    fill();
    int64_t sum[FIRST] = {0};
    const dpmf_segment part = {first, FIRST};
    const double gammas[] = {-1, -0x1p-100, 0x1p-101, 5e-324, 0x1p101, INFINITY, NAN};
    for (size_t k = 0; k < sizeof gammas / sizeof gammas[0]; k++) {
        check_fails(DPMF_ERROR_ARGUMENT, dpmf_clip_add(1.0, gammas[k], 0x1p-32, DPMF_FLOAT32, 1, 1, &part, sum, NULL));
        check_message("accepted: 0 (not normalised), or 2^-100 to 2^100");
    }
    for (int j = 0; j < FIRST; j++)
        assert_int_equal(sum[j], 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_within_the_clip_norm),
        cmocka_unit_test(test_order_threads_precision),
        cmocka_unit_test(test_many_units_add_up_exactly),
        cmocka_unit_test(test_hostile_units_add_nothing),
        cmocka_unit_test(test_instruction_sets_agree),
        cmocka_unit_test(test_the_grid_is_fine_and_sums_fit),
        cmocka_unit_test(test_bad_contributions_are_refused),
        cmocka_unit_test(test_normalised_units_have_their_length),
        cmocka_unit_test(test_hostile_units_stay_within_the_bound_when_normalised),
        cmocka_unit_test(test_normalised_sums_do_not_depend_on_order_threads_or_precision),
        cmocka_unit_test(test_a_gamma_out_of_range_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
