/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ladders: every instruction set gives the bits of the reference; the values are those of dense inverses in long
 * double, entry by entry, for shifts over sixteen decades; the chains that feed them are A' and its reversal.
 */
#include "kernels/ladder/ladder.h"

#include "optimum/phi.h"
#include "support/check.h"
#include "support/failing_allocator.h"
#include "workload/workload.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const TEXTS[] = {"prefix",
                                    "decay:0.3",
                                    "cooldown:0.5:0.001",
                                    "momentum:0.9",
                                    "momentum:0.999",
                                    "momentum:0.95,cooldown:0.25:0.05",
                                    "momentum:0.5,decay:1",
                                    "nesterov:0.9",
                                    "nesterov:0.99,cooldown:0.5:0.01",
                                    "nesterov:0.9,decay:0.2,cooldown:0.3:0.5"};
enum { TEXT_COUNT = sizeof TEXTS / sizeof TEXTS[0] };

static double *numbers(int64_t count) {
    double *x = calloc((size_t)count + 1, sizeof *x);
    assert_non_null(x);
    return x;
}

static double *random_positive(int64_t count, double decades, uint64_t *seed) {
    double *x = numbers(count);
    for (int64_t i = 0; i < count; i++)
        x[i] = pow(10, decades / 2 * check_random(seed));
    return x;
}

/* ---- the instruction sets ---- */

static void run_both(const kernels_ladder_set *set, kernels_ladder_one *one, kernels_ladder_two *two, double *out) {
    one->out = out;
    two->out = out + one->n;
    set->ladder_one(one);
    set->ladder_two(two);
}

/* n around the blocks, the ends of all loops, and large; coefficients of any size, offsets and negative crosses too. */
static void test_instruction_sets_agree(void **unused) {
    static const int64_t sizes[] = {1, 2, 3, 4, 17, 127, 128, 129, 257, 1000, 30000};
    int compared = 0;
    (void)unused;
    for (int s = 0; s < (int)(sizeof sizes / sizeof *sizes); s++) {
        int64_t n = sizes[s];
        uint64_t seed = (uint64_t)(77 + n);
        double *data[9], *scratch = numbers(kernels_ladder_two_scratch(n) + 8 * n), *want = numbers(2 * n);
        double *got = numbers(2 * n);
        for (int i = 0; i < 9; i++)
            data[i] = random_positive(n, i < 3 ? 6 : 1, &seed);
        for (int64_t t = 0; t < n; t += 7)
            data[8][t] *= -0.01;
        kernels_ladder_one one = {.n = n, .diagonal = data[0], .below = data[1], .v = data[2], .scratch = scratch};
        kernels_ladder_two two = {.n = n,
                                  .keep = data[3],
                                  .momentum = data[4],
                                  .fresh = data[5],
                                  .offset = data[6],
                                  .cross = data[8],
                                  .p = data[7],
                                  .v = data[2],
                                  .scratch = scratch};
        for (int j = 0; j < KERNELS_LADDER_LANES; j++) {
            one.shift[j] = two.shift[j] = pow(10, 2 * j - 12);
            one.weight[j] = two.weight[j] = 1 + check_random(&seed);
        }
        run_both(kernels_ladder_find("ref"), &one, &two, want);
        for (int64_t i = 0; i < 2 * n; i++)
            assert_true(isfinite(want[i]));
        for (int k = 0; k < 2; k++) {
            const kernels_ladder_set *set = kernels_ladder_find(k == 0 ? "avx2" : "avx512");
            if (set == NULL) continue;
            run_both(set, &one, &two, got);
            assert_memory_equal(got, want, (size_t)(2 * n) * sizeof *got);
            compared++;
        }
        for (int i = 0; i < 9; i++)
            free(data[i]);
        free(scratch), free(want), free(got);
    }
    if (compared == 0) skip(); /* this machine has the reference alone */
}

/* ---- against dense arithmetic ---- */

static long double *square(int64_t n) {
    long double *x = calloc((size_t)(n * n), sizeof *x);
    assert_non_null(x);
    return x;
}

/* The map y -> x of the chain in long double, from the definition of A: A', or A with steps counted from the end. */
static long double *dense_chain(const dpmf_workload *a, int reversed) {
    int64_t n = a->steps;
    long double *out = square(n);
    for (int64_t u = 0; u < n; u++) {
        long double m = 0, o = 0;
        for (int64_t t = 0; t < n; t++) {
            workload_recursion_form r = workload_recursion(a, t);
            long double g = t == u;
            m = r.momentum * m + g;
            o = r.keep * o + r.rate * (r.from_m * m + r.from_y * g);
            out[reversed ? (n - 1 - t) * n + n - 1 - u : u * n + t] = o;
        }
    }
    return out;
}

/* x = M^-1 y for all columns of y, by Gauss with partial pivoting; m and y are lost, y becomes x. */
static void gauss(int64_t n, long double *m, long double *y) {
    for (int64_t k = 0; k < n; k++) {
        int64_t best = k;
        for (int64_t i = k + 1; i < n; i++)
            if (fabsl(m[i * n + k]) > fabsl(m[best * n + k])) best = i;
        for (int64_t j = 0; j < n && best != k; j++) {
            long double a = m[k * n + j], b = y[k * n + j];
            m[k * n + j] = m[best * n + j], y[k * n + j] = y[best * n + j];
            m[best * n + j] = a, y[best * n + j] = b;
        }
        for (int64_t i = 0; i < n; i++) {
            if (i == k) continue;
            long double f = m[i * n + k] / m[k * n + k];
            for (int64_t j = k; j < n; j++)
                m[i * n + j] -= f * m[k * n + j];
            for (int64_t j = 0; j < n; j++)
                y[i * n + j] -= f * y[k * n + j];
        }
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            y[i * n + j] /= m[i * n + i];
}

/*
 * diag of (K + sV)^-1 for the chain x = M y: with K = M^-T P^-1 M^-1 for large shifts and as G (I + s V G)^-1 with
 * G = M P M' for small ones, where either is well conditioned.
 */
static void dense_diagonal(const dpmf_workload *a, int reversed, const double *v, const double *p, double shift,
                           double *out) {
    int64_t n = a->steps;
    long double *map = dense_chain(a, reversed), *inverse = square(n), *m = square(n), *y = square(n);
    int large = shift > 1e-2;
    for (int64_t i = 0; i < n && large; i++)
        inverse[i * n + i] = y[i * n + i] = 1;
    if (large) gauss(n, map, inverse);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            long double sum = 0;
            for (int64_t k = 0; k < n; k++)
                sum += large ? inverse[k * n + i] * inverse[k * n + j] / p[k] : map[i * n + k] * map[j * n + k] * p[k];
            if (large)
                m[i * n + j] = sum + (i == j ? (long double)shift * v[i] : 0);
            else
                y[i * n + j] = sum;
        }
    for (int64_t i = 0; i < n && !large; i++)
        for (int64_t j = 0; j < n; j++)
            m[i * n + j] = (i == j) + (long double)shift * y[i * n + j] * v[j];
    gauss(n, m, y);
    for (int64_t i = 0; i < n; i++)
        out[i] = (double)y[i * n + i];
    free(map), free(inverse), free(m), free(y);
}

/* The same by the kernels; the shift is in one lane, and the other lanes weigh nothing. */
static void ladder_diagonal(const dpmf_workload *a, int reversed, const double *v, const double *p, double shift,
                            int lane, double *out) {
    int64_t n = a->steps;
    optimum_chain c = {0};
    double *scratch = numbers(kernels_ladder_two_scratch(n));
    check_ok(optimum_chain_create(a, reversed, &c));
    kernels_ladder_two job = {.n = n,
                              .keep = c.keep,
                              .momentum = c.momentum,
                              .fresh = c.fresh,
                              .offset = c.offset,
                              .cross = c.cross,
                              .p = p,
                              .v = v,
                              .scratch = scratch,
                              .out = out};
    for (int j = 0; j < KERNELS_LADDER_LANES; j++)
        job.shift[j] = 1 + j;
    job.shift[lane] = shift;
    job.weight[lane] = 1;
    kernels_ladder_get()->ladder_two(&job);
    optimum_chain_free(&c);
    free(scratch);
}

static void one_band_diagonal(const dpmf_workload *a, const double *v, const double *p, double shift, double *out) {
    int64_t n = a->steps;
    double *diagonal = numbers(n), *below = numbers(n), *scratch = numbers(n * KERNELS_LADDER_LANES);
    for (int64_t t = 0; t < n; t++) {
        double q[3], r[2];
        check_ok(dpmf_workload_inverse_row(a, t, q, r));
        diagonal[t] = q[0] * q[0] / p[t];
        below[t] = t > 0 ? q[1] * q[1] / p[t - 1] : 0;
    }
    kernels_ladder_one job = {.n = n, .diagonal = diagonal, .below = below, .v = v, .scratch = scratch, .out = out};
    for (int j = 0; j < KERNELS_LADDER_LANES; j++) { /* all lanes alike: the weights add up */
        job.shift[j] = shift;
        job.weight[j] = 0.125;
    }
    kernels_ladder_get()->ladder_one(&job);
    free(diagonal), free(below), free(scratch);
}

static void assert_close(const char *text, int64_t n, double shift, const double *got, const double *want,
                         double tolerance) {
    for (int64_t t = 0; t < n; t++)
        if (!(fabs(got[t] / want[t] - 1) <= tolerance))
            fail_msg("%s, n = %lld, shift %g, entry %lld: %.17g, not %.17g (%.2g)", text, (long long)n, shift,
                     (long long)t, got[t], want[t], got[t] / want[t] - 1);
}

static void compare_all(const char *text, int64_t n, double decades, double least, double most, double tolerance) {
    dpmf_workload *a = workload_of(text, n);
    uint64_t seed = (uint64_t)n;
    double *v = random_positive(n, decades, &seed), *p = random_positive(n, decades, &seed);
    double *got = numbers(n), *want = numbers(n);
    int lane = 0;
    for (double shift = least; shift < most * 1.1; shift *= 10, lane = (lane + 3) % KERNELS_LADDER_LANES) {
        for (int reversed = 0; reversed < 2; reversed++) {
            if (reversed && a->nesterov && a->decay == 1) continue;
            dense_diagonal(a, reversed, v, p, shift, want);
            ladder_diagonal(a, reversed, v, p, shift, lane, got);
            assert_close(text, n, shift, got, want, tolerance);
            if (reversed || a->momentum > 0) continue;
            one_band_diagonal(a, v, p, shift, got);
            assert_close(text, n, shift, got, want, tolerance);
        }
    }
    free(v), free(p), free(got), free(want);
    dpmf_workload_free(a);
}

static void test_ladders_agree_with_dense_inverses(void **unused) {
    static const int64_t sizes[] = {1, 2, 3, 5, 24};
    (void)unused;
    for (int i = 0; i < TEXT_COUNT; i++)
        for (int k = 0; k < 5; k++)
            compare_all(TEXTS[i], sizes[k], 6, 1e-14, 1e2, 1e-12);
}

/* Longer than a block, where the condition number has grown: long double is still accurate for small shifts. */
static void test_nothing_cancels_at_small_shifts(void **unused) {
    static const int which[] = {0, 4, 5, 8};
    (void)unused;
    for (int i = 0; i < 4; i++)
        compare_all(TEXTS[which[i]], 150, 1, 1e-14, 1e-6, 1e-12);
}

/* ---- the chains ---- */

/* x = A'y by the chain. */
static void run_chain(const optimum_chain *c, const double *y, double *x) {
    double l = 0, after = 0;
    for (int64_t t = c->n - 1; t >= 0; t--) {
        double m = c->momentum[t] * after + c->cross[t] * l + c->fresh[t] * y[t];
        l = c->keep[t] * l + y[t];
        x[t] = after = m + c->offset[t] * l;
    }
}

static void reverse(int64_t n, const double *from, double *to) {
    for (int64_t t = 0; t < n; t++)
        to[t] = from[n - 1 - t];
}

static void test_chains_are_the_transposed_workload(void **unused) {
    static const int64_t sizes[] = {1, 2, 3, 40};
    (void)unused;
    for (int i = 0; i < TEXT_COUNT; i++)
        for (int k = 0; k < 4; k++) {
            int64_t n = sizes[k];
            uint64_t seed = 5;
            dpmf_workload *a = workload_of(TEXTS[i], n);
            double *y = random_positive(n, 1, &seed), *want = numbers(n), *got = numbers(n), *back = numbers(n);
            for (int reversed = 0; reversed < 2; reversed++) {
                optimum_chain c = {0};
                check_ok(optimum_chain_create(a, reversed, &c));
                run_chain(&c, y, got);
                if (reversed) { /* J A J y */
                    reverse(n, y, back);
                    check_ok(dpmf_workload_apply(a, back, back));
                    reverse(n, back, want);
                } else {
                    check_ok(workload_apply_transpose(a, y, want));
                }
                assert_close(TEXTS[i], n, 0, got, want, 1e-13);
                for (int64_t t = 0; t + 1 < n; t++) {
                    double rest = c.fresh[t] * c.keep[t] - c.momentum[t] * c.offset[t + 1];
                    assert_true(fabs(c.cross[t] - rest) <= 4e-16 * (c.fresh[t] * c.keep[t] + 1e-300));
                }
                optimum_chain_free(&c);
            }
            free(y), free(want), free(got), free(back);
            dpmf_workload_free(a);
        }
}

/* A chain without subtractions is marked as such; rising rates make a Nesterov chain subtract. */
static void test_a_chain_says_when_nothing_is_subtracted(void **unused) {
    static const double rising[] = {0.1, 0.5, 1};
    const struct {
        const char *text;
        int positive;
    } cases[] = {{"momentum:0.9", 1},
                 {"momentum:0.9,decay:0.5", 1},
                 {"nesterov:0.9", 1},
                 {"nesterov:0.9,cooldown:0.5:0.1", 1},
                 {"nesterov:0.9,decay:0.1", 0}};
    (void)unused;
    for (int i = 0; i < 5; i++)
        for (int reversed = 0; reversed < 2; reversed++) {
            dpmf_workload *a = workload_of(cases[i].text, 20);
            optimum_chain c = {0};
            check_ok(optimum_chain_create(a, reversed, &c));
            assert_int_equal(c.positive, cases[i].positive);
            optimum_chain_free(&c);
            dpmf_workload_free(a);
        }
    dpmf_workload_options o = {.momentum = 0.9, .nesterov = 1, .learning_rate = rising};
    dpmf_workload *a = NULL;
    optimum_chain c = {0};
    check_ok(dpmf_workload_create(3, &o, &a));
    check_ok(optimum_chain_create(a, 0, &c));
    assert_int_equal(c.positive, 0);
    optimum_chain_free(&c);
    FAIL_EACH(optimum_chain_create(a, 1, &c));
    optimum_chain_free(&c);
    dpmf_workload_free(a);
    a = workload_of("nesterov:0.9,decay:1", 4);
    check_fails(DPMF_ERROR_UNSUPPORTED, optimum_chain_create(a, 1, &c));
    check_message("decay x learning rate = 1");
    assert_null(c.keep);
    dpmf_workload_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_instruction_sets_agree),
                                       cmocka_unit_test(test_ladders_agree_with_dense_inverses),
                                       cmocka_unit_test(test_nothing_cancels_at_small_shifts),
                                       cmocka_unit_test(test_chains_are_the_transposed_workload),
                                       cmocka_unit_test(test_a_chain_says_when_nothing_is_subtracted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
