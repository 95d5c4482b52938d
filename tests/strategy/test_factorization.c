/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Factorizations of the user's own: random C of any shape, with the pseudo-inverse and with other decoders, against plain
 * algebra in long double; what is refused.
 */
#include "support/failing_allocator.h"
#include "support/own_runs.h"

#include <math.h>
#include <stdio.h>

enum { CASES = 50, N = 12, M = 26 };

/* One random factorization: n steps, m rows. */
typedef struct factorization {
    int64_t n, m;
    double c[M * N], b[N * M]; /* b: a decoder that is not the pseudo-inverse's */
    dpmf_workload *a;
    double *workload; /* A, from malloc */
} factorization;

/* inverse <- matrix^-1, n x n, by elimination with pivots. */
static void invert(int64_t n, const long double *matrix, long double *inverse) {
    long double work[N * 2 * N] = {0};
    for (int64_t i = 0; i < n; i++) {
        memcpy(work + i * 2 * n, matrix + i * n, (size_t)n * sizeof *matrix);
        work[i * 2 * n + n + i] = 1;
    }
    for (int64_t j = 0; j < n; j++) {
        int64_t best = j;
        for (int64_t i = j + 1; i < n; i++)
            if (fabsl(work[i * 2 * n + j]) > fabsl(work[best * 2 * n + j])) best = i;
        for (int64_t k = 0; k < 2 * n; k++) {
            long double swap = work[j * 2 * n + k];
            work[j * 2 * n + k] = work[best * 2 * n + k];
            work[best * 2 * n + k] = swap;
        }
        for (int64_t i = 0; i < n; i++) {
            const long double factor = work[i * 2 * n + j] / work[j * 2 * n + j];
            for (int64_t k = 0; i != j && k < 2 * n; k++)
                work[i * 2 * n + k] -= factor * work[j * 2 * n + k];
        }
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < n; k++)
            inverse[i * n + k] = work[i * 2 * n + n + k] / work[i * 2 * n + i];
}

/* X = C'C of a matrix with m rows. */
static void gram(int64_t m, int64_t n, const double *c, long double *x) {
    memset(x, 0, (size_t)(n * n) * sizeof *x);
    for (int64_t k = 0; k < m; k++)
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++)
                x[i * n + j] += (long double)c[k * n + i] * c[k * n + j];
}

/* C^+ = (C'C)^-1 C', n x m. */
static void pseudo_inverse(int64_t m, int64_t n, const double *c, long double *out) {
    long double x[N * N], inverse[N * N];
    gram(m, n, c, x);
    invert(n, x, inverse);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < m; k++) {
            out[i * m + k] = 0;
            for (int64_t j = 0; j < n; j++)
                out[i * m + k] += inverse[i * n + j] * c[k * n + j];
        }
}

/* Columns of sizes apart, other workloads in turn; B = A C^+ + R (I - C C^+), R random: B C = A for any R. */
static factorization make_case(int which, uint64_t *seed) {
    static const char *const texts[] = {"prefix", "momentum:0.9", "decay:0.1", "momentum:0.5,cooldown:0.5:0.1"};
    factorization f = {.n = 2 + which % (N - 1)};
    long double plus[N * M], r[N * M];
    f.m = f.n + (which * 7) % (M - N);
    f.a = workload_of(texts[which % 4], f.n);
    f.workload = check_workload_matrix(f.a);
    for (int64_t i = 0; i < f.m * f.n; i++)
        f.c[i] = check_random(seed) * pow(10, (double)(i % f.n % 3) - 1);
    pseudo_inverse(f.m, f.n, f.c, plus);
    for (int64_t i = 0; i < f.n; i++) {
        for (int64_t k = 0; k < f.m; k++)
            r[i * f.m + k] = check_random(seed);
        for (int64_t k = 0; k < f.m; k++) {
            long double sum = r[i * f.m + k];
            for (int64_t j = 0; j < f.n; j++) {
                long double seen = f.workload[i * f.n + j];
                for (int64_t l = 0; l < f.m; l++)
                    seen -= r[i * f.m + l] * f.c[l * f.n + j];
                sum += seen * plus[j * f.m + k];
            }
            f.b[i * f.m + k] = (double)sum;
        }
    }
    return f;
}

static void free_case(factorization *f) {
    dpmf_workload_free(f->a);
    free(f->workload);
}

static dpmf_status create(const factorization *f, int with_decoder, dpmf_strategy **out) {
    dpmf_strategy_options o = dpmf_strategy_options_defaults();
    o.matrix_rows = f->m;
    o.matrix = f->c;
    o.decoder_matrix = with_decoder ? f->b : NULL;
    return dpmf_strategy_create("dense", f->a, &o, out);
}

/* B B' at the outputs: of a decoder (n x m), or of A C^+ where there is none. */
static void wanted_covariance(const factorization *f, int with_decoder, long double *out) {
    long double b[N * M], plus[N * M];
    pseudo_inverse(f->m, f->n, f->c, plus);
    for (int64_t i = 0; i < f->n; i++)
        for (int64_t k = 0; k < f->m; k++) {
            b[i * f->m + k] = with_decoder ? (long double)f->b[i * f->m + k] : 0;
            for (int64_t j = 0; j < f->n && !with_decoder; j++)
                b[i * f->m + k] += f->workload[i * f->n + j] * plus[j * f->m + k];
        }
    for (int64_t i = 0; i < f->n; i++)
        for (int64_t j = 0; j < f->n; j++) {
            out[i * f->n + j] = 0;
            for (int64_t k = 0; k < f->m; k++)
                out[i * f->n + j] += b[i * f->m + k] * b[j * f->m + k];
        }
}

/* The largest difference of A W W'A' from what is wanted, over the largest entry. */
static double covariance_error(const factorization *f, const dpmf_strategy *s, int with_decoder) {
    const int64_t n = f->n;
    long double wanted[N * N], size = 0, most = 0;
    double *w = check_strategy_inverse(s), b[N * N] = {0};
    wanted_covariance(f, with_decoder, wanted);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < n; k++)
            for (int64_t j = 0; j < n; j++)
                b[i * n + k] += f->workload[i * n + j] * w[j * n + k];
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            long double found = 0;
            for (int64_t k = 0; k < n; k++)
                found += (long double)b[i * n + k] * b[j * n + k];
            size = fmaxl(size, fabsl(wanted[i * n + j]));
            most = fmaxl(most, fabsl(found - wanted[i * n + j]));
        }
    free(w);
    return (double)(most / size);
}

/*
 * The exact sensitivity of a matrix where a unit takes part once, or twice at steps that are at least b apart (exactly b where
 * `cyclic`): two vectors of length 1 move C g by at most sqrt(X_ii + X_jj + 2 |X_ij|), and do for the right signs.
 */
static double brute_force(int64_t m, int64_t n, const double *c, int64_t b, int cyclic) {
    long double x[N * N], most = 0;
    gram(m, n, c, x);
    for (int64_t i = 0; i < n; i++) {
        most = fmaxl(most, x[i * n + i]);
        for (int64_t j = i + b; j < n && b > 0; j += cyclic ? n : 1)
            most = fmaxl(most, x[i * n + i] + x[j * n + j] + 2 * fabsl(x[i * n + j]));
    }
    return (double)sqrtl(most);
}

static double sensitivity(const factorization *f, const dpmf_strategy *s, const char *text) {
    dpmf_participation *p = NULL;
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    dpmf_evaluation found;
    o.lower_bound = DPMF_LOWER_BOUND_NONE;
    check_ok(dpmf_participation_parse(text, f->n, &p));
    check_ok(dpmf_evaluate(f->a, p, s, &o, &found, NULL));
    dpmf_participation_free(p);
    return found.sensitivity.value;
}

/* `equal`: with the pseudo-inverse it is that of C; else no larger. Never below that of the C' that is stored. */
static void check_sensitivity(const factorization *f, const dpmf_strategy *s, int equal) {
    const int64_t n = f->n, b = (n + 1) / 2;
    double *own = check_strategy_matrix(s);
    char text[40];
    for (int kind = 0; kind < 3; kind++) {
        const int64_t apart = kind == 0 ? 0 : b;
        if (kind > 0) snprintf(text, sizeof text, "%s:2,%lld", kind == 1 ? "cyclic" : "min-sep", (long long)b);
        const double given = brute_force(f->m, n, f->c, apart, kind == 1);
        const double stored = brute_force(n, n, own, apart, kind == 1);
        const double found = sensitivity(f, s, kind == 0 ? "single" : text);
        if (!(found >= stored * (1 - 1e-13))) fail_msg("sensitivity %.17g below %.17g", found, stored);
        if (!(found <= given * (1 + 1e-12))) fail_msg("sensitivity %.17g, of C %.17g", found, given);
        if (equal && !(found >= given * (1 - 1e-12))) fail_msg("sensitivity %.17g, of C %.17g", found, given);
    }
    free(own);
}

static void check_cases(int with_decoder) {
    uint64_t seed = with_decoder ? 11 : 3;
    double worst = 0;
    for (int i = 0; i < CASES; i++) {
        factorization f = make_case(i, &seed);
        dpmf_strategy *s = NULL;
        check_ok(create(&f, with_decoder, &s));
        assert_int_equal(dpmf_strategy_get(s).rows, f.n);
        assert_int_equal(dpmf_strategy_get(s).streams, 1);
        const double error = covariance_error(&f, s, with_decoder);
        if (!(error <= 1e-10)) fail_msg("case %d, %lld x %lld: %g", i, (long long)f.m, (long long)f.n, error);
        worst = fmax(worst, error);
        check_sensitivity(&f, s, !with_decoder);
        check_strategy(s, 1e-8);
        check_factorization(f.a, s, 1e-8);
        own_check_bits(f.a, s);
        dpmf_strategy_free(s);
        free_case(&f);
    }
    print_message("%d cases, largest difference of a covariance %.2g\n", CASES, worst);
}

static void test_any_c_has_the_noise_of_its_pseudo_inverse_and_its_sensitivity(void **unused) {
    (void)unused;
    check_cases(0);
}

static void test_a_given_decoder_keeps_its_law_at_a_sensitivity_no_larger(void **unused) {
    (void)unused;
    check_cases(1);
}

static void test_a_decoder_that_leaves_rows_unused_can_beat_the_pseudo_inverse(void **unused) {
    const double c[] = {1, 0, 0, 1, 10, 0}, b[] = {1, 0, 0, 1, 1, 0};
    dpmf_strategy_options o = dpmf_strategy_options_defaults();
    dpmf_workload *a = workload_of("prefix", 2);
    dpmf_strategy *plus = NULL, *own = NULL;
    dpmf_evaluation with_plus, with_own;
    (void)unused;
    o.matrix_rows = 3;
    o.matrix = c;
    check_ok(dpmf_strategy_create("dense", a, &o, &plus));
    o.decoder_matrix = b;
    check_ok(dpmf_strategy_create("dense", a, &o, &own));
    check_ok(dpmf_evaluate(a, NULL, plus, NULL, &with_plus, NULL));
    check_ok(dpmf_evaluate(a, NULL, own, NULL, &with_own, NULL));
    check_near(with_plus.total_squared_loss, 101 * (1 / 101.0 + 1 / 101.0 + 1), 1e-13);
    check_near(with_own.total_squared_loss, 3, 1e-13); /* C' = I */
    dpmf_strategy_free(plus);
    dpmf_strategy_free(own);
    dpmf_workload_free(a);
}

static void test_a_lower_triangular_c_stays_as_it_is(void **unused) {
    const double c[] = {-2, 0, 0, 1, 3, 0, 0.5, 0, -1},
                 b[] = {-0.5, 0, 0, -1 / 3.0, 1 / 3.0, 0, -7 / 12.0, 1 / 3.0, -1};
    dpmf_strategy_options o = dpmf_strategy_options_defaults();
    dpmf_workload *a = workload_of("prefix", 3);
    (void)unused;
    o.matrix_rows = 3;
    o.matrix = c;
    for (int i = 0; i < 2; i++) {
        dpmf_strategy *s = NULL;
        check_ok(dpmf_strategy_create("dense", a, &o, &s));
        double *found = check_strategy_matrix(s);
        assert_memory_equal(found, c, sizeof c);
        free(found);
        dpmf_strategy_free(s);
        o.decoder_matrix = b;
    }
    dpmf_workload_free(a);
}

/* C of one stamp, repeated; the decoder is for the workload of one stamp. */
static void test_stamps_and_norms_apply_to_a_factorization(void **unused) {
    uint64_t seed = 5;
    factorization f = make_case(4, &seed); /* prefix sums of 6 steps */
    dpmf_workload *whole = workload_of("prefix", 3 * f.n);
    dpmf_strategy_options o = dpmf_strategy_options_defaults();
    dpmf_strategy *s = NULL;
    (void)unused;
    o.matrix_rows = f.m;
    o.matrix = f.c;
    o.decoder_matrix = f.b;
    o.stamps = 3;
    o.column_normalize = 1;
    check_ok(dpmf_strategy_create("dense", whole, &o, &s));
    assert_int_equal(dpmf_strategy_get(s).stamps, 3);
    assert_int_equal(dpmf_strategy_get(s).is_normalized, 1);
    check_strategy(s, 1e-9);
    check_factorization(whole, s, 1e-9);
    dpmf_strategy_free(s);
    dpmf_workload_free(whole);
    free_case(&f);
}

static void test_c_of_lower_rank_is_refused_by_name(void **unused) {
    uint64_t seed = 9;
    factorization f = make_case(5, &seed), good = f;
    dpmf_strategy *s = NULL;
    (void)unused;
    for (int64_t k = 0; k < f.m; k++)
        f.c[k * f.n + 1] = 2 * f.c[k * f.n + 3] - f.c[k * f.n + 4];
    check_fails(DPMF_ERROR_NUMERICAL, create(&f, 0, &s));
    check_message("rank-deficient");
    check_message("column 1");
    f = good;
    for (int64_t k = 0; k < f.m; k++)
        f.c[k * f.n + 2] = 0;
    check_fails(DPMF_ERROR_NUMERICAL, create(&f, 0, &s));
    check_message("column 2 is 0");
    f = good;
    f.m = f.n - 1;
    check_fails(DPMF_ERROR_ARGUMENT, create(&f, 0, &s));
    check_message("full column rank");
    f = good; /* a column that is only short is not lost */
    for (int64_t k = 0; k < f.m; k++)
        f.c[k * f.n + 2] *= 1e-200;
    check_ok(create(&f, 0, &s));
    dpmf_strategy_free(s);
    free_case(&good);
}

static void test_wrong_numbers_of_a_factorization_are_refused(void **unused) {
    uint64_t seed = 9;
    factorization f = make_case(5, &seed);
    dpmf_strategy_options o = dpmf_strategy_options_defaults();
    dpmf_strategy *s = NULL;
    (void)unused;
    f.b[2 * f.m + 1] += 1e-3;
    check_fails(DPMF_ERROR_ARGUMENT, create(&f, 1, &s));
    check_message("(B C)[2,");
    f.b[3] = NAN;
    check_fails(DPMF_ERROR_ARGUMENT, create(&f, 1, &s));
    check_message("the decoder: entry 3");
    o.matrix_rows = f.m;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create("dense", f.a, &o, &s));
    check_message("without a matrix");
    o.matrix = f.c;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create("toeplitz", f.a, &o, &s));
    check_message("family toeplitz: a matrix is given");
    o.u = f.c;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create("dense", f.a, &o, &s));
    check_message("u and v");
    o.u = NULL;
    o.matrix_rows = 0;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create("dense", f.a, &o, &s));
    check_message("0 rows");
    f.c[1] = INFINITY;
    check_fails(DPMF_ERROR_ARGUMENT, create(&f, 0, &s));
    check_message("entry 1");
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create("dense", f.a, NULL, &s));
    assert_null(s);
    free_case(&f);
}

static void test_any_allocation_of_a_factorization_may_fail(void **unused) {
    uint64_t seed = 9;
    factorization f = make_case(5, &seed);
    (void)unused;
    for (int with_decoder = 0; with_decoder < 2; with_decoder++) {
        dpmf_strategy *s = NULL;
        FAIL_EACH(create(&f, with_decoder, &s));
        dpmf_strategy_free(s);
    }
    free_case(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_c_has_the_noise_of_its_pseudo_inverse_and_its_sensitivity),
        cmocka_unit_test(test_a_given_decoder_keeps_its_law_at_a_sensitivity_no_larger),
        cmocka_unit_test(test_a_decoder_that_leaves_rows_unused_can_beat_the_pseudo_inverse),
        cmocka_unit_test(test_a_lower_triangular_c_stays_as_it_is),
        cmocka_unit_test(test_stamps_and_norms_apply_to_a_factorization),
        cmocka_unit_test(test_c_of_lower_rank_is_refused_by_name),
        cmocka_unit_test(test_wrong_numbers_of_a_factorization_are_refused),
        cmocka_unit_test(test_any_allocation_of_a_factorization_may_fail),
    };
    return cmocka_run_group_tests_name("factorizations of the user's own", tests, NULL, NULL);
}
