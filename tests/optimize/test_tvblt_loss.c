/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The losses that TV-BLT searches with are those of the coefficients that construction makes; the kernel behind them gives
 * the same bits on every instruction set.
 */
#include "support/check.h"

#include "families/tvblt/tvblt.h"
#include "kernels/tvblt/tvblt.h"
#include "optimum/optimum.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double *numbers(int64_t count) {
    double *x = calloc((size_t)count, sizeof *x);
    assert_non_null(x);
    return x;
}

/* Within `decades`, evenly in the logarithm. */
static double any_positive(double decades, uint64_t *seed) {
    return pow(10, decades / 2 * check_random(seed));
}

/* ---- against construction ---- */

static void fill_filter(int nodes, double low, double high, uint64_t *seed, tvblt_filter *f) {
    f->nodes = nodes;
    for (int j = 0; j < nodes; j++) { /* in any order, some of them close together */
        const double at = nodes == 1 ? 0.5 : (double)((7 * j + 3) % nodes) / (nodes - 1);
        f->shift[j] = low * pow(high / low, at) * (1 + 0.1 * check_random(seed));
        f->weight[j] = sqrt(f->shift[j]) * any_positive(1, seed);
    }
}

static void compare_with_construction(const char *text, int64_t n, int nodes, int weighted, double tolerance) {
    dpmf_workload *a = NULL;
    optimum_answer o = {.steps = n, .v = numbers(n), .p = weighted ? numbers(n) : NULL, .lower = 1};
    tvblt_problem problem;
    tvblt_work work;
    tvblt_meter meter;
    tvblt_filter f;
    uint64_t seed = (uint64_t)(n + 31 * nodes);
    double *norms = numbers(n), *squares = numbers(n);
    check_ok(dpmf_workload_parse(text, n, &a));
    for (int64_t t = 0; t < n; t++) {
        o.v[t] = any_positive(0.2, &seed);
        if (weighted) o.p[t] = any_positive(0.2, &seed);
    }
    check_ok(tvblt_problem_create(a, 0, &o, &problem));
    check_ok(tvblt_spectrum(NULL, &problem));
    check_ok(tvblt_work_alloc(&problem, nodes, &work));
    check_ok(tvblt_meter_create(&problem, &meter));
    fill_filter(nodes, problem.low, problem.high, &seed, &f);
    for (int round = 0; round < 2; round++) { /* the second after a change of the weights */
        check_ok(tvblt_build(&problem, &f, &work));
        check_ok(tvblt_measure(&problem, &f, &meter, norms, squares));
        for (int64_t t = 0; t < n; t++) {
            check_near(norms[t] / work.norms[t], 1, tolerance);
            check_near(squares[t] / work.squares[t], 1, tolerance);
            problem.v[t] *= 1 + 0.3 * check_random(&seed);
            if (weighted) problem.p[t] *= 1 + 0.3 * check_random(&seed);
        }
        tvblt_meter_weigh(&problem, &meter);
    }
    tvblt_meter_free(&meter);
    tvblt_work_free(&work);
    tvblt_problem_free(&problem);
    dpmf_workload_free(a);
    free(o.v), free(o.p), free(norms), free(squares);
}

static void test_losses_are_those_of_the_coefficients(void **unused) {
    static const char *const TEXTS[] = {"prefix",
                                        "decay:0.05",
                                        "cooldown:0.5:0.1",
                                        "momentum:0.95",
                                        "nesterov:0.9",
                                        "momentum:0.95,cooldown:0.25:0.05",
                                        "nesterov:0.5,decay:0.01,cooldown:0.5:0.2"};
    static const int64_t SIZES[] = {1, 2, 3, 4, 60, 700};
    static const int NODES[] = {1, 2, 5, 8, 9, 17};
    (void)unused;
    for (size_t w = 0; w < sizeof TEXTS / sizeof *TEXTS; w++)
        for (size_t s = 0; s < sizeof SIZES / sizeof *SIZES; s++)
            for (size_t k = 0; k < sizeof NODES / sizeof *NODES; k++)
                for (int weighted = 0; weighted <= 1; weighted++)
                    compare_with_construction(TEXTS[w], SIZES[s], NODES[k], weighted, 5e-9);
}

/* Two nodes in one place, weights decades apart: the zeros of f lie on its poles, or all but. */
static void test_nodes_may_meet(void **unused) {
    dpmf_workload *a = NULL;
    double v[40], norms[2][40], squares[2][40];
    optimum_answer o = {.steps = 40, .v = v, .lower = 1};
    tvblt_problem problem;
    tvblt_meter meter;
    const tvblt_filter two = {.nodes = 2, .shift = {0.1, 1}, .weight = {1, 3}};
    const tvblt_filter more[] = {
        {.nodes = 3, .shift = {1, 0.1, 1}, .weight = {1, 1, 2}},
        {.nodes = 3, .shift = {1 + 1e-13, 0.1, 1}, .weight = {1, 1, 2}},
        {.nodes = 4, .shift = {1, 0.1, 0.5, 0.7}, .weight = {3, 1, 1e-18, 1e-25}},
    };
    (void)unused;
    for (int t = 0; t < 40; t++)
        v[t] = 1 + t % 3;
    check_ok(dpmf_workload_parse("prefix", 40, &a));
    check_ok(tvblt_problem_create(a, 0, &o, &problem));
    check_ok(tvblt_spectrum(NULL, &problem));
    check_ok(tvblt_meter_create(&problem, &meter));
    check_ok(tvblt_measure(&problem, &two, &meter, norms[0], squares[0]));
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        check_ok(tvblt_measure(&problem, &more[i], &meter, norms[1], squares[1]));
        for (int t = 0; t < 40; t++) {
            check_near(norms[1][t] / norms[0][t], 1, 1e-12);
            check_near(squares[1][t] / squares[0][t], 1, 1e-12);
        }
    }
    tvblt_meter_free(&meter);
    tvblt_problem_free(&problem);
    dpmf_workload_free(a);
}

/* ---- the instruction sets ---- */

enum { INPUTS = 9 };

static void run_both(const kernels_tvblt_set *set, int64_t n, double *const *in, double *scratch, double *out) {
    kernels_tvblt_one one = {.n = n,
                             .diagonal = in[0],
                             .below = in[1],
                             .couple = in[2],
                             .v = in[3],
                             .keep = in[4],
                             .drive = in[5],
                             .scratch = scratch,
                             .variance = out,
                             .with_o = out + n};
    kernels_tvblt_two two = {.n = n,
                             .r0 = 1.9,
                             .r1 = -0.9,
                             .beta = 0.9,
                             .top = in[0],
                             .middle = in[1],
                             .bottom = in[2],
                             .v = in[3],
                             .root_v = in[4],
                             .keep = in[5],
                             .pass = in[6],
                             .gain = in[7],
                             .drive = in[8],
                             .scratch = scratch,
                             .variance = out + 2 * n,
                             .with_m = out + 3 * n,
                             .with_o = out + 4 * n};
    for (int j = 0; j < KERNELS_TVBLT_LANES; j++) {
        one.shift[j] = two.shift[j] = pow(10, j - 5);
        one.weight[j] = two.weight[j] = 1 + j;
    }
    set->one(&one);
    set->two(&two);
}

static void test_instruction_sets_agree(void **unused) {
    static const int64_t SIZES[] = {1, 2, 3, 17, 400};
    int compared = 0;
    (void)unused;
    for (size_t s = 0; s < sizeof SIZES / sizeof *SIZES; s++) {
        const int64_t n = SIZES[s];
        uint64_t seed = (uint64_t)(5 + n);
        double *in[INPUTS], *scratch = numbers(n * kernels_tvblt_scratch(2)), *want = numbers(5 * n);
        double *got = numbers(5 * n);
        for (int i = 0; i < INPUTS; i++) {
            in[i] = numbers(n);
            for (int64_t t = 0; t < n; t++)
                in[i][t] = any_positive(0.2, &seed) * (i == 5 ? 0.1 : 1);
        }
        run_both(kernels_tvblt_find("ref"), n, in, scratch, want);
        for (int64_t i = 0; i < 5 * n; i++)
            assert_true(isfinite(want[i]));
        for (int k = 0; k < 2; k++) {
            const kernels_tvblt_set *set = kernels_tvblt_find(k == 0 ? "avx2" : "avx512");
            if (set == NULL) continue;
            run_both(set, n, in, scratch, got);
            assert_memory_equal(got, want, (size_t)(5 * n) * sizeof *got);
            compared++;
        }
        for (int i = 0; i < INPUTS; i++)
            free(in[i]);
        free(scratch), free(want), free(got);
    }
    if (compared == 0) skip(); /* this machine has the reference alone */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_losses_are_those_of_the_coefficients),
                                       cmocka_unit_test(test_nodes_may_meet),
                                       cmocka_unit_test(test_instruction_sets_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
