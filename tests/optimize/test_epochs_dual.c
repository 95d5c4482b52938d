/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dual of the optimum under cyclic participation: the blocks against singular values, X against the equation that
 * defines it, gradients against differences, and the same bits from every instruction set.
 */
#include "base/linalg.h"
#include "kernels/block/block.h"
#include "optimum/epochs/epochs.h"
#include "sensitivity/sensitivity.h"
#include "support/check.h"
#include "workload/workload.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static dpmf_workload *as_matrix(const dpmf_workload *a) {
    double *matrix = check_workload_matrix(a);
    dpmf_workload *dense = NULL;
    check_ok(dpmf_workload_create_dense(a->steps, matrix, &dense));
    free(matrix);
    return dense;
}

typedef struct shape {
    const char *text;
    int64_t n, k, b;
} shape;

/* Whole and shortened last epochs, borders as long as the inner part, one and two bands. */
static const shape SHAPES[] = {{"prefix", 6, 3, 2},
                               {"prefix", 23, 4, 6},
                               {"decay:0.2", 40, 4, 10},
                               {"cooldown:0.5:0.1", 18, 4, 5},
                               {"momentum:0.9", 9, 3, 3},
                               {"momentum:0.9", 14, 4, 4},
                               {"momentum:0.9", 33, 5, 7},
                               {"momentum:0.95,cooldown:0.25:0.05", 60, 6, 10},
                               {"momentum:0.5", 24, 2, 12},
                               {"prefix", 30, 1, 30},
                               {"momentum:0.9,decay:0.1", 22, 11, 2}};
enum { SHAPE_COUNT = sizeof SHAPES / sizeof SHAPES[0] };

static void wander(epochs_climb *c, uint64_t seed) {
    for (int64_t i = 0; i < c->unknowns; i++)
        c->y[i] += 0.4 * check_random(&seed);
}

static double largest_of(int64_t count, const double *x) {
    double largest = 0;
    for (int64_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(x[i]));
    return largest;
}

static void assert_close(int64_t count, const double *got, const double *want, double tolerance, const char *what) {
    double scale = largest_of(count, want);
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(got[i] - want[i]) <= tolerance * scale))
            fail_msg("%s %lld: %.15g, wanted %.15g of %.3g", what, (long long)i, got[i], want[i], scale);
}

/* Blocks and bands against singular values, at a point that is no optimum; X whole as well. */
static void compare_routes(const shape *s, int max_loss, const double *weights) {
    base_pool *pool = NULL;
    optimum_epochs e[2] = {0};
    epochs_climb c[2] = {0};
    double f[2];
    dpmf_workload *a[2] = {workload_of(s->text, s->n), NULL};
    a[1] = as_matrix(a[0]);
    int64_t n = s->n, size = s->b * s->k * s->k;
    double *x = calloc((size_t)(2 * n * n), sizeof *x), *gradient = NULL;
    check_ok(base_pool_create(2, &pool));
    for (int i = 0; i < 2; i++) {
        check_ok(epochs_create(a[i], s->k, s->b, max_loss, weights, pool, &e[i]));
        check_ok(epochs_climb_create(&e[i], 1e-12, NULL, &c[i]));
        wander(&c[i], 7);
        gradient = calloc((size_t)c[i].unknowns, sizeof *gradient);
        check_ok(epochs_climb_value(&c[i], c[i].y, &f[i], gradient));
        free(gradient);
        check_ok(epochs_fill(&e[i], &c[i].point, x + i * n * n));
    }
    assert_int_equal(e[1].dense, 1);
    check_near(c[0].point.trace / c[1].point.trace, 1, 2e-11);
    /* the errors that the routes claim */
    assert_true(fabs(c[0].point.trace / c[1].point.trace - 1) <= c[0].point.error + c[1].point.error);
    check_near(f[0] / f[1], 1, 1e-10);
    for (int64_t t = n; t < s->k * s->b; t++) /* steps past the last exist in the blocks only */
        for (int64_t q = 0; q < s->k; q++) {
            int64_t at = t % s->b * s->k * s->k, r = t / s->b;
            c[0].point.blocks[at + r * s->k + q] = c[0].point.blocks[at + q * s->k + r] = 0;
        }
    assert_close(size, c[0].point.blocks, c[1].point.blocks, 1e-9, "block entry");
    if (max_loss) assert_close(n, c[0].point.rows, c[1].point.rows, 1e-9, "row");
    assert_close(n * n, x, x + n * n, 1e-9, "entry of X");
    double trace = 0; /* the singular values of the third route */
    double error = 0;
    check_ok(epochs_nuclear(&e[0], &c[0].point, &trace, &error));
    check_near(trace / c[1].point.trace, 1, 1e-12);
    for (int i = 0; i < 2; i++) {
        epochs_climb_free(&c[i]);
        epochs_free(&e[i]);
        dpmf_workload_free(a[i]);
    }
    base_pool_free(pool);
    free(x);
}

static void test_the_dual_is_the_same_by_both_routes(void **unused) {
    double weights[64];
    (void)unused;
    for (int t = 0; t < 64; t++)
        weights[t] = 1 + 0.5 * sin(t);
    for (int i = 0; i < SHAPE_COUNT; i++) {
        compare_routes(&SHAPES[i], 0, NULL);
        compare_routes(&SHAPES[i], 0, weights);
        compare_routes(&SHAPES[i], 1, NULL);
    }
}

/* X V X = A'PA at any point: X is the geometric mean of the dual. */
static void test_x_is_the_geometric_mean_that_the_dual_says(void **unused) {
    enum { N = 23, K = 4, B = 6 };
    base_pool *pool = NULL;
    optimum_epochs e;
    epochs_climb c;
    double x[N * N], xv[N * N], f, *gradient;
    dpmf_workload *a = workload_of("momentum:0.8", N);
    double *matrix = check_workload_matrix(a);
    (void)unused;
    check_ok(base_pool_create(1, &pool));
    check_ok(epochs_create(a, K, B, 0, NULL, pool, &e));
    check_ok(epochs_climb_create(&e, 1e-13, NULL, &c));
    wander(&c, 3);
    gradient = calloc((size_t)c.unknowns, sizeof *gradient);
    check_ok(epochs_climb_value(&c, c.y, &f, gradient));
    check_ok(epochs_fill(&e, &c.point, x));
    for (int t = 0; t < N; t++)
        for (int u = 0; u < N; u++) {
            xv[t * N + u] = 0;
            for (int j = u % B; j < N; j += B)
                for (int q = 0; q < K; q++)
                    xv[t * N + u] += x[t * N + j] * c.point.lower[(u % B * K + j / B) * K + q] *
                                     c.point.lower[(u % B * K + u / B) * K + q];
        }
    for (int t = 0; t < N; t++)
        for (int u = 0; u < N; u++) {
            double left = 0, right = 0;
            for (int j = 0; j < N; j++) {
                left += xv[t * N + j] * x[j * N + u];
                right += matrix[j * N + t] * matrix[j * N + u];
            }
            check_near(left / right, 1, 1e-9);
        }
    free(gradient);
    free(matrix);
    epochs_climb_free(&c);
    epochs_free(&e);
    base_pool_free(pool);
    dpmf_workload_free(a);
}

static void check_gradient(const shape *s, int max_loss) {
    base_pool *pool = NULL;
    optimum_epochs e;
    epochs_climb c;
    dpmf_workload *a = workload_of(s->text, s->n);
    double f;
    check_ok(base_pool_create(1, &pool));
    check_ok(epochs_create(a, s->k, s->b, max_loss, NULL, pool, &e));
    check_ok(epochs_climb_create(&e, 1e-13, NULL, &c));
    c.barrier = 0.01;
    wander(&c, 11);
    double *gradient = calloc((size_t)(2 * c.unknowns), sizeof *gradient);
    check_ok(epochs_climb_value(&c, c.y, &f, gradient));
    c.scale = 1 / f;
    check_ok(epochs_climb_value(&c, c.y, &f, gradient));
    check_near(f, 1, 1e-14);
    for (int64_t i = 0; i < c.unknowns; i++) {
        double y = c.y[i], step = 1e-5, up, down;
        c.y[i] = y + step;
        check_ok(epochs_climb_value(&c, c.y, &up, gradient + c.unknowns));
        c.y[i] = y - step;
        check_ok(epochs_climb_value(&c, c.y, &down, gradient + c.unknowns));
        c.y[i] = y;
        if (!(fabs((up - down) / (2 * step) - gradient[i]) <= 2e-8))
            fail_msg("%s, unknown %lld of %lld: gradient %.12g, differences %.12g", s->text, (long long)i,
                     (long long)c.unknowns, gradient[i], (up - down) / (2 * step));
    }
    free(gradient);
    epochs_climb_free(&c);
    epochs_free(&e);
    base_pool_free(pool);
    dpmf_workload_free(a);
}

static void test_the_gradient_of_the_dual_is_that_of_differences(void **unused) {
    static const shape few[] = {{"prefix", 11, 3, 4}, {"momentum:0.9", 14, 4, 4}, {"nesterov:0.9", 12, 3, 4}};
    (void)unused;
    for (int i = 0; i < 3; i++)
        for (int max_loss = 0; max_loss < 2; max_loss++)
            check_gradient(&few[i], max_loss);
}

/*
 * The matrix added to the block of class i makes it diagonal, is positive semidefinite and costs f; returns the trace.
 */
static double check_cover(const epochs_climb *c, int64_t i) {
    const optimum_epochs *e = c->epochs;
    const int64_t k = e->k, m = (e->n - i + e->b - 1) / e->b;
    double *x = calloc((size_t)(m * m), sizeof *x), *added = calloc((size_t)(m * m), sizeof *added);
    double *values = calloc((size_t)m, sizeof *values), trace = 0;
    sensitivity_found found;
    for (int64_t r = 0; r < m; r++)
        for (int64_t q = 0; q < m; q++) {
            x[r * m + q] = c->point.blocks[(i * k + r) * k + q];
            added[r * m + q] = c->point.added[(i * k + r) * k + q];
            if (r == q) trace += x[r * m + q] + added[r * m + q];
            if (r != q) assert_true(fabs(x[r * m + q] + added[r * m + q]) <= 1e-12 * fabs(x[0]));
        }
    check_ok(sensitivity_pattern_evaluate(m, x, DPMF_BOUND_AUTO, &found));
    check_ok(base_symmetric_eigen(m, added, values));
    assert_true(values[0] >= -1e-13 * trace);
    assert_true(trace >= found.square * (1 - 1e-6)); /* the other bound comes from another start */
    free(x);
    free(added);
    free(values);
    return trace;
}

/* Where the climb stands, after a wander: any V, none near its top. */
static void test_the_smallest_diagonal_covers_x_at_any_point(void **unused) {
    (void)unused;
    for (int i = 0; i < SHAPE_COUNT; i++) {
        const shape *s = &SHAPES[i];
        base_pool *pool = NULL;
        optimum_epochs e;
        epochs_climb c;
        dpmf_workload *a = workload_of(s->text, s->n);
        double f, largest = 0, seen = 0, sums = 0;
        check_ok(base_pool_create(1, &pool));
        check_ok(epochs_create(a, s->k, s->b, 0, NULL, pool, &e));
        check_ok(epochs_climb_create(&e, 1e-13, NULL, &c));
        wander(&c, 17);
        double *gradient = calloc((size_t)c.unknowns, sizeof *gradient);
        check_ok(epochs_climb_value(&c, c.y, &f, gradient));
        check_ok(epochs_cover(&e, &c.point, 1, &largest));
        for (int64_t class = 0; class < s->b; class ++) {
            double sum = 0;
            for (int64_t r = 0; r < s->k * s->k; r++)
                if (class + r / s->k * s->b < s->n && class + r % s->k * s->b < s->n)
                    sum += fabs(c.point.blocks[class * s->k * s->k + r]);
            sums = fmax(sums, sum);
            seen = fmax(seen, check_cover(&c, class));
        }
        check_near(seen / largest, 1, 1e-12);
        assert_true(largest <= sums * (1 + 1e-6));
        free(gradient);
        epochs_climb_free(&c);
        epochs_free(&e);
        base_pool_free(pool);
        dpmf_workload_free(a);
    }
}

enum { ROWS = 13, COLUMNS = 48, INNER = 11 };

static void fill_randomly(int64_t count, uint64_t *seed, double *out) {
    for (int64_t j = 0; j < count; j++)
        out[j] = check_random(seed);
}

static void check_products(const kernels_block_set *ref, const kernels_block_set *set) {
    double a[2][ROWS * COLUMNS] = {{0}}, b[INNER * COLUMNS], left[ROWS * INNER], plain = 0;
    uint64_t seed = 5;
    fill_randomly(INNER * COLUMNS, &seed, b);
    fill_randomly(ROWS * INNER, &seed, left);
    ref->multiply(ROWS, INNER, COLUMNS - 8, left, INNER, b, COLUMNS, a[0], COLUMNS);
    set->multiply(ROWS, INNER, COLUMNS - 8, left, INNER, b, COLUMNS, a[1], COLUMNS);
    assert_memory_equal(a[0], a[1], sizeof a[0]);
    for (int j = 0; j < INNER; j++)
        plain += left[3 * INNER + j] * b[j * COLUMNS + 7];
    check_near(a[0][3 * COLUMNS + 7], plain, 1e-14);
}

/* Several shifts side by side: one reflection keeps inner products of columns, a triangle is divided by, rows are multiplied. */
static void check_sides(const kernels_block_set *ref, const kernels_block_set *set) {
    enum { SIDE = KERNELS_BLOCK_SIDE };
    static kernels_block_side pivot[2][COLUMNS], m[2][ROWS * COLUMNS], x[ROWS], start[ROWS * COLUMNS],
        product[2][ROWS * INNER];
    uint64_t seed = 6;
    fill_randomly(COLUMNS * SIDE, &seed, (double *)pivot[0]);
    fill_randomly((int64_t)ROWS * COLUMNS * SIDE, &seed, (double *)m[0]);
    for (int r = 0; r < ROWS; r++)
        m[0][r * COLUMNS][1] = 0; /* nothing to eliminate for one of the shifts */
    memcpy(pivot[1], pivot[0], sizeof pivot[0]);
    memcpy(m[1], m[0], sizeof m[0]);
    memcpy(start, m[0], sizeof start);
    kernels_block_side inner = pivot[0][3] * pivot[0][47], after = {0}, top = pivot[0][3];
    for (int r = 0; r < ROWS; r++)
        inner += m[0][r * COLUMNS + 3] * m[0][r * COLUMNS + 47];
    ref->eliminate(ROWS, COLUMNS, x, pivot[0], m[0], COLUMNS);
    set->eliminate(ROWS, COLUMNS, x, pivot[1], m[1], COLUMNS);
    assert_memory_equal(pivot[0], pivot[1], sizeof pivot[0]);
    assert_memory_equal(m[0], m[1], sizeof m[0]);
    after = pivot[0][3] * pivot[0][47];
    for (int r = 0; r < ROWS; r++)
        after += m[0][r * COLUMNS + 3] * m[0][r * COLUMNS + 47];
    for (int j = 0; j < SIDE; j++) {
        check_near(after[j], inner[j], 1e-13);
        check_near(m[0][5 * COLUMNS][j], 0, 0);
    }
    check_near(pivot[0][3][1], top[1], 0); /* untouched */
    ref->multiply_rows(ROWS, COLUMNS, INNER, start, COLUMNS, m[0], COLUMNS, product[0], INNER);
    set->multiply_rows(ROWS, COLUMNS, INNER, start, COLUMNS, m[0], COLUMNS, product[1], INNER);
    assert_memory_equal(product[0], product[1], sizeof product[0]);
    kernels_block_side plain = {0}, solved = {0};
    for (int j = 0; j < COLUMNS; j++)
        plain += start[12 * COLUMNS + j] * m[0][10 * COLUMNS + j];
    for (int r = 0; r < ROWS; r++)
        start[r * COLUMNS + r] += 3.0;
    memcpy(m[1], m[0], sizeof m[0]);
    memcpy(x, m[0] + 7 * COLUMNS, sizeof x);
    ref->solve_upper(ROWS, COLUMNS, start, COLUMNS, m[0], COLUMNS);
    set->solve_upper(ROWS, COLUMNS, start, COLUMNS, m[1], COLUMNS);
    assert_memory_equal(m[0], m[1], sizeof m[0]);
    for (int j = 7; j < ROWS; j++)
        solved += start[7 * COLUMNS + j] * m[0][j * COLUMNS + 9];
    for (int j = 0; j < SIDE; j++) {
        check_near(product[0][12 * INNER + 10][j], plain[j], 1e-13);
        check_near(solved[j], x[9][j], 1e-13);
    }
}

/* Every instruction set gives the same bits. */
static void test_instruction_sets_agree_on_the_small_blocks(void **unused) {
    static const char *const names[] = {"ref", "avx2", "avx512"};
    const kernels_block_set *ref = kernels_block_find("ref");
    (void)unused;
    assert_non_null(ref);
    assert_null(kernels_block_find("abacus"));
    for (int i = 0; i < 3; i++) {
        const kernels_block_set *set = kernels_block_find(names[i]);
        if (set == NULL) continue;
        check_products(ref, set);
        check_sides(ref, set);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_instruction_sets_agree_on_the_small_blocks),
        cmocka_unit_test(test_the_dual_is_the_same_by_both_routes),
        cmocka_unit_test(test_x_is_the_geometric_mean_that_the_dual_says),
        cmocka_unit_test(test_the_gradient_of_the_dual_is_that_of_differences),
        cmocka_unit_test(test_the_smallest_diagonal_covers_x_at_any_point),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
