/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trees with a branching factor, and the smooth binary mechanism: W C = I, streams, errors and files against dense arithmetic
 * (support/check.c), against each other, and against the variance that Andersson and Pagh 2023 state. Their sensitivities are
 * compared with brute force in tests/sensitivity/test_random.c, and by two routes here.
 */
#include "support/check.h"

#include "families/tree/smooth.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dpmf_strategy *make(const char *family, const char *workload, int64_t steps, int64_t branching,
                           dpmf_decoder decoder) {
    dpmf_workload *a = workload_of(workload, steps);
    dpmf_strategy_options o = dpmf_strategy_options_defaults();
    dpmf_strategy *s = NULL;
    o.branching = branching;
    o.decoder = decoder;
    check_ok(dpmf_strategy_create(family, a, &o, &s));
    dpmf_workload_free(a);
    return s;
}

static const char *const TREES[] = {"tree", "tree-online", "tree-full"};
static const char *const WORKLOADS[] = {"prefix", "momentum:0.9,cooldown:0.5:0.1", "decay:0.2"};

/* Plain, twice side by side, and with normalized columns. */
static void check_everything(const dpmf_strategy *s, const char *workload) {
    for (int wrapping = 0; wrapping < 3; wrapping++) {
        dpmf_strategy *wrapped = NULL;
        if (wrapping < 2)
            check_ok(dpmf_strategy_create_stamped(s, 1 + wrapping, &wrapped));
        else
            check_ok(dpmf_strategy_create_normalized(s, &wrapped));
        dpmf_workload *a = workload_of(workload, dpmf_strategy_get(wrapped).steps);
        check_strategy(wrapped, 1e-11);
        check_factorization(a, wrapped, 1e-10);
        dpmf_workload_free(a);
        dpmf_strategy_free(wrapped);
    }
}

static void test_trees_of_any_branching_factor_are_their_dense_matrices(void **unused) {
    static const int64_t lengths[] = {1, 2, 3, 5, 8, 9, 10, 16, 17, 26, 27, 28, 40}, branching[] = {2, 3, 4, 5, 7, 40};
    int cases = 0;
    (void)unused;
    for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++)
        for (size_t b = 0; b < sizeof branching / sizeof *branching; b++)
            for (int kind = 0; kind < 3; kind++) {
                dpmf_strategy *s = make(TREES[kind], "prefix", lengths[n], branching[b], DPMF_DECODER_DEFAULT);
                assert_int_equal(dpmf_strategy_get(s).branching, branching[b]);
                check_everything(s, WORKLOADS[cases++ % 3]);
                dpmf_strategy_free(s);
            }
    print_message("%d trees\n", cases);
}

/* The best decoder belongs to the same C'C, and no other decoder of it has less error at any step. */
static void test_the_best_decoder_of_a_tree_has_the_same_gram_matrix_and_the_least_errors(void **unused) {
    (void)unused;
    for (int64_t n = 1; n <= 30; n++)
        for (int64_t b = 2; b <= 6; b++) {
            dpmf_strategy *online = make("tree-online", "prefix", n, b, DPMF_DECODER_DEFAULT);
            dpmf_strategy *full = make("tree-online", "prefix", n, b, DPMF_DECODER_OPTIMAL);
            double *c = check_strategy_matrix(online), *f = check_strategy_matrix(full);
            const int64_t rows = dpmf_strategy_get(online).rows;
            dpmf_workload *a = workload_of("prefix", n);
            double *errors = calloc((size_t)(2 * n), sizeof *errors);
            for (int64_t t = 0; t < n; t++)
                for (int64_t u = 0; u < n; u++) {
                    double x = 0, y = 0;
                    for (int64_t i = 0; i < rows; i++)
                        x += c[i * n + t] * c[i * n + u];
                    for (int64_t i = 0; i < n; i++)
                        y += f[i * n + t] * f[i * n + u];
                    check_near(y, x, 1e-11);
                }
            check_ok(dpmf_error_compute(a, online, NULL, errors));
            check_ok(dpmf_error_compute(a, full, NULL, errors + n));
            for (int64_t t = 0; t < n; t++)
                assert_true(errors[n + t] <= errors[t] * (1 + 1e-12));
            free(errors);
            free(c);
            free(f);
            dpmf_workload_free(a);
            dpmf_strategy_free(online);
            dpmf_strategy_free(full);
        }
}

/* A prefix sum is a sum of as many complete nodes as the digits of t+1 to the base B add up to. */
static void test_the_variance_of_a_tree_is_the_sum_of_the_digits(void **unused) {
    enum { N = 1000 };
    double *errors = calloc(N, sizeof *errors);
    (void)unused;
    for (int64_t b = 2; b <= 11; b++) {
        dpmf_strategy *s = make("tree", "prefix", N, b, DPMF_DECODER_DEFAULT);
        dpmf_workload *a = workload_of("prefix", N);
        check_ok(dpmf_error_compute(a, s, NULL, errors));
        for (int64_t t = 0; t < N; t++) {
            int64_t sum = 0;
            for (int64_t x = t + 1; x > 0; x /= b)
                sum += x % b;
            check_near(errors[t] * errors[t], (double)sum, 1e-12);
        }
        dpmf_workload_free(a);
        dpmf_strategy_free(s);
    }
    free(errors);
}

static void test_smooth_trees_are_their_dense_matrices(void **unused) {
    int cases = 0;
    (void)unused;
    for (int64_t n = 1; n <= 40; n++)
        for (int decoder = DPMF_DECODER_RESTART; decoder <= DPMF_DECODER_OPTIMAL; decoder++) {
            dpmf_strategy *s = make("smooth-binary", "prefix", n, 0, (dpmf_decoder)decoder);
            check_everything(s, WORKLOADS[cases++ % 3]);
            dpmf_strategy_free(s);
        }
    print_message("%d smooth trees\n", cases);
}

/*
 * Andersson and Pagh 2023, Section 4: with trees of even height h, binomial(h, h/2) - 1 prefix sums each have variance
 * (h/2)^2/(2 rho) under rho-zCDP, that is (h/2)^2 at sensitivity 1, which is (1 + o(1)) log2(n)^2/4.
 */
static void test_the_smooth_binary_mechanism_has_the_published_variance_at_every_step(void **unused) {
    double before = 2;
    (void)unused;
    for (int h = 2; h <= 22; h += 2) {
        const int64_t n = smooth_leaves(h / 2, h / 2) - 1;
        dpmf_strategy *s = make("smooth-binary", "prefix", n, 0, DPMF_DECODER_DEFAULT);
        dpmf_workload *a = workload_of("prefix", n);
        double *errors = calloc((size_t)n, sizeof *errors);
        dpmf_sensitivity found = {0};
        check_ok(dpmf_sensitivity_compute(s, NULL, NULL, &found));
        assert_int_equal(found.kind, DPMF_EXACT);
        check_near(found.value * found.value, h / 2.0, 1e-14);
        check_ok(dpmf_error_compute(a, s, NULL, errors));
        for (int64_t t = 0; t < n; t++)
            check_near(errors[t] * errors[t], h / 2.0, 1e-14);
        /* over log2(n)^2/4 it falls towards 1 */
        double ratio = n > 1 ? (double)(h * h) / (log2((double)n) * log2((double)n)) : 2;
        if (h > 6) assert_true(ratio > 1 && ratio < before);
        before = ratio;
        assert_int_equal(dpmf_strategy_get(s).buffers, h / 2);
        assert_true(dpmf_strategy_get(s).rows < 2 * n + 1); /* fewer than 2 nodes are new in a step, on average */
        free(errors);
        dpmf_workload_free(a);
        dpmf_strategy_free(s);
    }
}

/* Without the noise of empty nodes no step has more, one number is new in a step, and most steps have less. */
static void test_the_best_decoder_of_a_smooth_tree_is_square_and_never_noisier(void **unused) {
    enum { N = 923 };
    dpmf_workload *a = workload_of("prefix", N);
    dpmf_strategy *s = make("smooth-binary", "prefix", N, 0, DPMF_DECODER_OPTIMAL);
    double errors[N];
    int less = 0;
    (void)unused;
    assert_int_equal(dpmf_strategy_get(s).rows, N);
    check_ok(dpmf_error_compute(a, s, NULL, errors));
    for (int t = 0; t < N; t++) {
        uint64_t word = smooth_word((const smooth_strategy *)s, t + 1);
        check_near(errors[t] * errors[t], 6 - __builtin_ctzll(~word), 1e-13);
        less += errors[t] < sqrt(6) * (1 - 1e-6);
    }
    assert_true(less > N / 3);
    dpmf_workload_free(a);
    dpmf_strategy_free(s);
}

/* The product of zeros and ones is the least that holds n steps. */
static void test_no_smooth_tree_of_less_loss_holds_the_steps(void **unused) {
    (void)unused;
    for (int64_t n = 1; n < ((int64_t)1 << 53) / 3; n = n * 3 / 2 + 1) {
        dpmf_strategy *s = NULL;
        check_ok(smooth_create(n, 0, &s));
        const smooth_strategy *self = (const smooth_strategy *)s;
        assert_true(smooth_leaves(self->zeros, self->ones) > n && self->ones <= self->zeros);
        for (int a = 1; a < 40; a++)
            for (int b = 1; b < 22; b++)
                if (a * b < self->zeros * self->ones) assert_true(smooth_leaves(a, b) <= n);
        uint64_t last = smooth_word(self, n - 1);
        assert_true(smooth_next(last) == self->end && __builtin_popcountll(last) == self->ones);
        dpmf_strategy_free(s);
    }
}

/* Sums over C'C for every offset against counting; both are exact. */
static double by_gram(const dpmf_strategy *s, int64_t b) {
    const int64_t n = dpmf_strategy_get(s).steps;
    double *sums = calloc((size_t)b, sizeof *sums), *values = calloc((size_t)n, sizeof *values), largest = 0;
    for (int64_t lag = 0; lag < n; lag += b) {
        check_ok(strategy_gram(s, lag, values));
        for (int64_t t = 0; t + lag < n; t++)
            sums[t % b] += (lag == 0 ? 1 : 2) * values[t];
    }
    for (int64_t l = 0; l < b; l++)
        largest = fmax(largest, sums[l]);
    free(sums);
    free(values);
    return largest;
}

static void test_counting_under_nodes_is_the_sum_over_the_gram_matrix(void **unused) {
    static const int64_t separations[] = {1, 7, 50, 100, 333};
    const int64_t n = 1000;
    (void)unused;
    for (int i = 0; i < 4; i++)
        for (size_t j = 0; j < sizeof separations / sizeof *separations; j++) {
            const int64_t b = separations[j], k = (n + b - 1) / b;
            dpmf_strategy *s = i < 3 ? make(TREES[i], "prefix", n, 3 + i, DPMF_DECODER_DEFAULT)
                                     : make("smooth-binary", "prefix", n, 0, DPMF_DECODER_DEFAULT);
            dpmf_participation *p = NULL, *apart = NULL;
            dpmf_sensitivity found = {0}, more = {0};
            check_ok(dpmf_participation_create(DPMF_PARTICIPATION_CYCLIC, n, k, b, &p));
            check_ok(dpmf_participation_create(DPMF_PARTICIPATION_MIN_SEPARATION, n, k, b, &apart));
            check_ok(dpmf_sensitivity_compute(s, p, NULL, &found));
            assert_int_equal(found.kind, DPMF_EXACT);
            check_near(found.value * found.value, by_gram(s, b), 1e-12);
            check_ok(dpmf_sensitivity_compute(s, apart, NULL, &more)); /* more patterns, exact or an upper bound */
            assert_true(more.value >= found.value * (1 - 1e-14));
            dpmf_participation_free(p);
            dpmf_participation_free(apart);
            dpmf_strategy_free(s);
        }
}

/* The dynamic program of min-separation is at most the bound that larger trees get, and both hold for evenly spaced steps. */
static void test_the_bound_of_large_smooth_trees_is_above_what_steps_reach(void **unused) {
    dpmf_strategy *s = make("smooth-binary", "prefix", 200000, 0, DPMF_DECODER_DEFAULT);
    dpmf_participation *apart = NULL, *cyclic = NULL;
    dpmf_sensitivity found = {0}, even = {0};
    (void)unused;
    check_ok(dpmf_participation_parse("min-sep:20,9000", 200000, &apart));
    check_ok(dpmf_participation_parse("cyclic:20,10000", 200000, &cyclic));
    check_ok(dpmf_sensitivity_compute(s, apart, NULL, &found));
    check_ok(dpmf_sensitivity_compute(s, cyclic, NULL, &even));
    assert_int_equal(found.kind, DPMF_UPPER_BOUND);
    assert_true(found.value >= even.value && found.value < 1.5 * even.value);
    dpmf_participation_free(apart);
    dpmf_participation_free(cyclic);
    dpmf_strategy_free(s);
}

static void check_file(const dpmf_strategy *s, const char *member, const char *bad) {
    dpmf_workload *a = workload_of("prefix", dpmf_strategy_get(s).steps);
    dpmf_mechanism *m = NULL, *back = NULL;
    uint8_t *bytes = NULL;
    size_t size = 0;
    check_ok(dpmf_mechanism_create(a, NULL, s, NULL, &m));
    check_ok(dpmf_mechanism_encode(m, &bytes, &size));
    check_ok(dpmf_mechanism_decode(bytes, size, &back));
    assert_string_equal(dpmf_mechanism_get(back).digest, dpmf_mechanism_get(m).digest);
    assert_int_equal(dpmf_strategy_get(dpmf_mechanism_get(back).strategy).rows, dpmf_strategy_get(s).rows);
    assert_int_equal(dpmf_strategy_get(dpmf_mechanism_get(back).strategy).branching, dpmf_strategy_get(s).branching);
    dpmf_mechanism_free(back);
    back = NULL;
    uint8_t *at = bytes;
    while (at + strlen(member) < bytes + size && memcmp(at, member, strlen(member)) != 0)
        at++;
    assert_true(at + strlen(member) < bytes + size);
    memcpy(at, bad, strlen(bad));
    assert_true(dpmf_mechanism_decode(bytes, size, &back) != DPMF_OK);
    assert_null(back);
    dpmf_bytes_free(bytes);
    dpmf_mechanism_free(m);
    dpmf_workload_free(a);
}

static void test_files_bring_trees_back_and_refuse_other_numbers(void **unused) {
    dpmf_strategy *tree = make("tree-full", "prefix", 50, 5, DPMF_DECODER_DEFAULT);
    dpmf_strategy *smooth = make("smooth-binary", "prefix", 50, 0, DPMF_DECODER_OPTIMAL);
    (void)unused;
    check_file(tree, "\\\"branching\\\":5", "\\\"branching\\\":1");
    check_file(smooth, "\\\"best\\\":1", "\\\"best\\\":2");
    dpmf_strategy_free(tree);
    dpmf_strategy_free(smooth);
}

static void test_branching_outside_its_range_or_for_other_families_is_refused(void **unused) {
    dpmf_workload *a = workload_of("prefix", 16);
    dpmf_strategy_options o = dpmf_strategy_options_defaults();
    dpmf_strategy *s = NULL;
    (void)unused;
    static const int64_t refused[] = {-1, 1, 1025};
    for (int i = 0; i < 3; i++) {
        o.branching = refused[i];
        check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create("tree", a, &o, &s));
        check_message("accepted 2 to 1024");
    }
    o.branching = 4;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create("smooth-binary", a, &o, &s));
    check_message("only tree, tree-online and tree-full");
    assert_null(s);
    dpmf_workload_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trees_of_any_branching_factor_are_their_dense_matrices),
        cmocka_unit_test(test_the_best_decoder_of_a_tree_has_the_same_gram_matrix_and_the_least_errors),
        cmocka_unit_test(test_the_variance_of_a_tree_is_the_sum_of_the_digits),
        cmocka_unit_test(test_smooth_trees_are_their_dense_matrices),
        cmocka_unit_test(test_the_smooth_binary_mechanism_has_the_published_variance_at_every_step),
        cmocka_unit_test(test_the_best_decoder_of_a_smooth_tree_is_square_and_never_noisier),
        cmocka_unit_test(test_no_smooth_tree_of_less_loss_holds_the_steps),
        cmocka_unit_test(test_counting_under_nodes_is_the_sum_over_the_gram_matrix),
        cmocka_unit_test(test_the_bound_of_large_smooth_trees_is_above_what_steps_reach),
        cmocka_unit_test(test_files_bring_trees_back_and_refuse_other_numbers),
        cmocka_unit_test(test_branching_outside_its_range_or_for_other_families_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
