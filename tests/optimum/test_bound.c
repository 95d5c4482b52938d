/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lower bounds: their routes compared with each other, published bounds, optima and random mechanisms, which none may
 * beat; and the published upper bounds on the losses of named mechanisms.
 */
#include "optimum/optimum.h"

#include "base/linalg.h"
#include "support/check.h"
#include "support/failing_allocator.h"
#include "support/sensitivity_reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double PI = 3.14159265358979323846, EULER = 0.57721566490153286061;

static dpmf_lower_bound bound_of(const dpmf_workload *a, const char *participation, const dpmf_evaluate_options *o) {
    dpmf_participation *p = NULL;
    dpmf_lower_bound found = {-1, -1, NULL};
    check_ok(dpmf_participation_parse(participation, dpmf_workload_get(a).steps, &p));
    check_ok(optimum_find_bound(a, p, o, &found));
    dpmf_participation_free(p);
    return found;
}

static dpmf_lower_bound prefix_bound(int64_t steps, const char *participation) {
    dpmf_workload *a = workload_of("prefix", steps);
    dpmf_lower_bound found = bound_of(a, participation, NULL);
    dpmf_workload_free(a);
    return found;
}

/* `low` is not above `high`, and by at most a relative `gap` below. */
static void assert_just_below(double low, double high, double gap) {
    if (low <= high && low >= high * (1 - gap)) return;
    fail_msg("%.17g is not just below %.17g: relative difference %.3g", low, high, (high - low) / high);
}

static double sum_of_cosecants(int64_t n, double divisor) {
    long double sum = 0;
    for (int64_t t = 1; t <= n; t++)
        sum += 1 / sinl((long double)(2 * t - 1) * acosl(-1) / (long double)divisor);
    return (double)sum;
}

/* ---- the nuclear norm ---- */

/* Singular values of S are 1/(2 sin((2t-1) pi/(4n+2))): against LAPACK, and the sum against extended precision. */
static void test_the_nuclear_norm_of_prefix_sums_has_its_closed_form(void **unused) {
    (void)unused;
    for (int64_t n = 1; n <= 40; n++) {
        double matrix[40 * 40] = {0}, values[40], closed = 0;
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j <= i; j++)
                matrix[i * n + j] = 1;
        check_ok(base_singular_values(n, n, matrix, values));
        for (int64_t t = 1; t <= n; t++)
            check_near(values[t - 1], 0.5 / sin((double)(2 * t - 1) * PI / (double)(4 * n + 2)), 1e-13);
        check_ok(optimum_nuclear_prefix(n, NULL, &closed));
        assert_just_below(closed, base_sum(n, values), 1e-12);
    }
    for (int64_t n = 1; n <= 3000000; n = n * 7 + 1) {
        double closed = 0;
        check_ok(optimum_nuclear_prefix(n, NULL, &closed));
        assert_just_below(closed, 0.5 * sum_of_cosecants(n, (double)(4 * n + 2)), 1e-14);
    }
}

/* Every route below the one value, and near it. */
static void test_every_route_to_the_nuclear_norm_is_just_below_it(void **unused) {
    static const char *const texts[] = {"prefix",       "decay:0.01",        "momentum:0.9",
                                        "nesterov:0.5", "cooldown:0.3:0.01", "momentum:0.95,cooldown:0.25:0.05"};
    static const int64_t steps[] = {1, 2, 3, 17, 64, 200};
    (void)unused;
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 6; k++) {
            int64_t n = steps[k];
            dpmf_workload *a = workload_of(texts[i], n);
            double *matrix = check_workload_matrix(a), *values = calloc((size_t)n, sizeof *values);
            check_ok(base_singular_values(n, n, matrix, values));
            double want = base_sum(n, values) * (1 + 1e-13), found = 0; /* its own rounding error */
            check_ok(optimum_nuclear_dense(a, NULL, &found));
            assert_just_below(found, want, 1e-8);
            if (i != 3) {
                check_ok(optimum_nuclear_banded(a, NULL, &found));
                assert_just_below(found, want, 1e-6);
            }
            if (a->toeplitz) {
                check_ok(optimum_nuclear_averaged(a, &found));
                assert_just_below(found, want, 0.25);
            }
            check_ok(optimum_nuclear_norm(a, NULL, NULL, &found));
            assert_just_below(found, want, 1e-6);
            free(matrix);
            free(values);
            dpmf_workload_free(a);
        }
}

/* The averages for prefix sums and for momentum 0.9, n = 1024 (computed with NumPy), and for a size that is no power
 * of 2. */
static void test_averages_bound_the_nuclear_norm_from_below(void **unused) {
    dpmf_workload *a = workload_of("prefix", 1024), *heavy = workload_of("momentum:0.9", 1024);
    double found = 0, exact = 0;
    (void)unused;
    check_ok(optimum_nuclear_averaged(a, &found));
    check_near(found / 1024, 2.814821745349666, 1e-9);
    check_ok(optimum_nuclear_averaged(heavy, &found));
    check_near(found / 1024, 18.51285795404325, 1e-9);
    dpmf_workload_free(a);
    dpmf_workload_free(heavy);
    a = workload_of("prefix", 100000);
    check_ok(optimum_nuclear_averaged(a, &found));
    check_ok(optimum_nuclear_prefix(100000, NULL, &exact));
    assert_just_below(found, exact, 0.04);
    dpmf_workload_free(a);
}

static void test_the_nuclear_norm_takes_weights(void **unused) {
    enum { N = 30 };
    static const char *const texts[] = {"prefix", "momentum:0.9", "nesterov:0.5,decay:0.1"};
    double weights[N], values[N], found = 0;
    (void)unused;
    for (int zeros = 0; zeros < 2; zeros++)
        for (int i = 0; i < 3; i++) {
            dpmf_workload *a = workload_of(texts[i], N);
            double *matrix = check_workload_matrix(a);
            for (int t = 0; t < N; t++) {
                weights[t] = zeros && t % 4 == 1 ? 0 : 1 / (1.0 + t);
                for (int j = 0; j < N; j++)
                    matrix[t * N + j] *= sqrt(weights[t]);
            }
            check_ok(base_singular_values(N, N, matrix, values));
            check_ok(optimum_nuclear_norm(a, weights, NULL, &found));
            assert_just_below(found, base_sum(N, values) * (1 + 1e-13), 1e-9);
            free(matrix);
            dpmf_workload_free(a);
        }
}

static void test_singular_values_of_bands_are_those_of_the_matrix(void **unused) {
    enum { N = 40 };
    double rows[N * 5], matrix[N * N], want[N], got[N];
    uint64_t seed = 3;
    (void)unused;
    for (int64_t n = 1; n <= N; n += 13)
        for (int64_t bands = 1; bands <= 5 && bands <= n; bands++) {
            memset(matrix, 0, sizeof matrix);
            for (int64_t t = 0; t < n; t++)
                for (int64_t j = 0; j < bands; j++) {
                    rows[t * bands + j] = check_random(&seed); /* entries left of column 0 are ignored */
                    if (j <= t) matrix[t * n + t - j] = rows[t * bands + j];
                }
            check_ok(base_singular_values(n, n, matrix, want));
            check_ok(base_banded_singular_values(n, bands, rows, got));
            for (int64_t i = 0; i < n; i++)
                check_near(got[i], want[i], 1e-13);
        }
    rows[3] = NAN;
    check_fails(DPMF_ERROR_NUMERICAL, base_banded_singular_values(20, 2, rows, got));
}

/* ---- published values ---- */

/*
 * The nuclear norm over n, the least RMS loss and the least max loss (gamma_2) of prefix sums, certified to 7 digits.
 * The bound under single participation is the optimum itself, from below; longer runs are in optimum/test_optimum_long.c.
 */
static void test_bounds_are_just_below_the_known_optima(void **unused) {
    static const struct {
        int64_t n;
        double nuclear, rms, max;
    } table[] = {{8, 1.438375, 1.494414, 1.510484},      {64, 2.040128, 2.099856, 2.111367},
                 {256, 2.471446, 2.524414, 2.532716},    {1024, 2.909584, 2.955452, 2.961465},
                 {2048, 3.129608, 3.172315, 3.177477},   {8192, 3.570367, 3.607685, 3.611574},
                 {131072, 4.452719, 4.482308, 4.484709}, {1048576, 5.114611, 5.140191, 5.141968}};
    (void)unused;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        double nuclear = 0, n = (double)table[i].n;
        check_ok(optimum_nuclear_prefix(table[i].n, NULL, &nuclear));
        check_near(nuclear / n, table[i].nuclear, 3e-7);
        assert_true(nuclear / n < table[i].rms);
        if (table[i].n > 8192) continue;
        dpmf_lower_bound found = prefix_bound(table[i].n, "single");
        assert_just_below(found.rms_loss, table[i].rms * (1 + 4e-7), 2e-6);
        assert_just_below(found.max_loss, table[i].max * (1 + 4e-7), 2e-6);
        assert_string_equal(found.scope, "any mechanism: dual of the optimum");
    }
}

/* Above 131072 steps: below the optimum (docs/optimum.csv), within 1e-6 and 1e-5 of it, and the search that can be asked for. */
static void test_long_runs_have_the_bound_of_a_short_search(void **unused) {
    dpmf_workload *a = workload_of("prefix", 131073);
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    (void)unused;
    dpmf_lower_bound quick = bound_of(a, "single", &o);
    o.lower_bound = DPMF_LOWER_BOUND_FORCE;
    dpmf_lower_bound full = bound_of(a, "single", &o);
    assert_string_equal(quick.scope, "any mechanism: dual of the optimum, short search");
    assert_string_equal(full.scope, "any mechanism: dual of the optimum");
    assert_just_below(quick.rms_loss, 4.482309 * (1 + 4e-7), 2e-6);
    assert_just_below(quick.max_loss, 4.484711 * (1 + 4e-7), 1e-5);
    assert_just_below(full.rms_loss, 4.482309 * (1 + 4e-7), 6e-6);
    assert_just_below(full.max_loss, 4.484711 * (1 + 4e-7), 6e-6);
    /* a file's bound is found again by the search that its scope names */
    dpmf_lower_bound again = {0};
    double tolerance = 0;
    check_ok(optimum_lower_bound_like(a, NULL, &o, quick.scope, &again, &tolerance));
    assert_ptr_equal(again.scope, quick.scope);
    assert_true(again.rms_loss == quick.rms_loss && again.max_loss == quick.max_loss);
    dpmf_workload_free(a);
}

/*
 * The other bounds for prefix sums lie below the one that is used: ln(2n+1)/pi (Pillutla et al. 2025, Theorem 2.4),
 * Mathias 1993 (quoted there), and that of Henzinger, Upadhyay and Upadhyay 2023.
 */
static void test_the_bound_is_above_the_published_ones(void **unused) {
    (void)unused;
    for (int64_t n = 2; n <= 1000; n += n < 100 ? 1 : 37) {
        double steps = (double)n, used = prefix_bound(n, "single").rms_loss;
        assert_true(log(2 * steps + 1) / PI < used);
        assert_true(1 / (2 * steps) + sum_of_cosecants(n, 2 * steps) / (2 * steps) < used);
        assert_true((2 + log((2 * steps + 1) / 3) + log(2 * steps + 1) / (2 * steps)) / PI < used);
    }
}

/* Upper bounds on mechanisms and on the optimum, against losses that are computed here. */
static void test_losses_keep_the_published_upper_bounds(void **unused) {
    static const int64_t steps[] = {1, 2, 8, 100, 1024, 3000};
    (void)unused;
    for (int i = 0; i < 6; i++) {
        int64_t n = steps[i];
        double size = (double)n, mathias = 0.5 + sum_of_cosecants(n, 2 * size) / (2 * size);
        dpmf_workload *a = workload_of("prefix", n);
        for (int k = 0; k < 4; k++) {
            static const char *const families[] = {"toeplitz", "toeplitz", "fft", "fft-opt"};
            dpmf_strategy_options o = dpmf_strategy_options_defaults();
            dpmf_strategy *c = NULL;
            dpmf_evaluation e;
            o.column_normalize = k == 1;
            check_ok(dpmf_strategy_create(families[k], a, &o, &c));
            check_ok(dpmf_evaluate(a, NULL, c, NULL, &e, NULL));
            assert_true(e.rms_loss >= e.lower_bound.rms_loss && e.max_loss >= e.lower_bound.max_loss);
            if (k == 0) assert_true(e.max_loss <= 1 + (EULER + log(size)) / PI); /* Pillutla et al. 2025, Thm 2.7 */
            if (k == 1) assert_true(e.max_loss <= (1 + log(size) / PI) * (1 + 1e-15)); /* Theorem 2.11 */
            if (k == 2) { /* the FFT mechanism attains Mathias' upper bound on gamma_2, in every step */
                check_near(e.max_loss, mathias, 1e-12);
                check_near(e.rms_loss, mathias, 1e-12);
                /* Choquette-Choo et al. 2023, Corollary J.1, with 2 rho sigma^2 = 1: the square of |DFT(v)|_1/n */
                assert_true(e.rms_loss <= (size + sum_of_cosecants(n, 2 * size)) / size);
            }
            if (k == 3) assert_true(e.max_loss <= mathias * (1 + 1e-12) && e.rms_loss <= mathias * (1 + 1e-12));
            dpmf_strategy_free(c);
        }
        dpmf_workload_free(a);
    }
}

/* ---- several participations ---- */

/* Mechanism files carry the scope in these words. */
static void test_the_scopes_of_files_are_known(void **unused) {
#define DUAL "any mechanism (contributions of k or more coordinates): dual of the optimum"
    static const char *const known[] = {
        DUAL " for the RMS loss, at a point extrapolated from shorter epochs",
        DUAL ", at a point extrapolated from shorter epochs",
        DUAL " under cyclic participation, which is part of this one",
    };
    (void)unused;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_string_equal(optimum_lower_bound_scope(known[i]), known[i]);
    assert_null(optimum_lower_bound_scope(DUAL ", guessed"));
#undef DUAL
}

/* The optima of prefix sums: n = 2000, (20,100), total 653163.05; n = 6, (3,2), total 41.743 (Choquette-Choo et al.
 * 2023). */
static void test_bounds_of_several_participations_are_the_known_ones(void **unused) {
    dpmf_lower_bound b = prefix_bound(2000, "cyclic:20,100");
    (void)unused;
    assert_just_below(b.rms_loss * b.rms_loss * 2000, 653163.05, 0.003);
    /* above one unit's contribution, 20, and below the max loss of the RMS optimum */
    assert_true(b.max_loss > 21.6 && b.max_loss < 26.637682);
    assert_non_null(strstr(b.scope, "extrapolated from shorter epochs"));
    dpmf_lower_bound other = prefix_bound(2000, "shuffled:20,100");
    assert_true(other.rms_loss == b.rms_loss && other.max_loss == b.max_loss);
    assert_non_null(strstr(other.scope, "which is part of this one"));
    other = prefix_bound(2000, "minsep:20,100");
    assert_true(other.rms_loss == b.rms_loss && other.max_loss == b.max_loss);
    dpmf_lower_bound even = prefix_bound(200, "cyclic:5,40");
    other = prefix_bound(200, "minsep:5,10"); /* spread evenly: 40 apart */
    assert_true(other.rms_loss == even.rms_loss && other.max_loss == even.max_loss);
    /* max losses of mechanisms that `optimize --family dense --loss max` found */
    assert_just_below(prefix_bound(300, "cyclic:5,60").max_loss, 6.4800315, 1e-3);
    assert_just_below(prefix_bound(1000, "cyclic:10,100").max_loss, 11.7751916, 1e-3);
    dpmf_lower_bound single = prefix_bound(2000, "single");
    other = prefix_bound(2000, "minsep:1,100");
    assert_true(other.rms_loss == single.rms_loss && other.max_loss == single.max_loss);

    b = prefix_bound(6, "cyclic:3,2");
    assert_just_below(b.rms_loss * b.rms_loss * 6, 41.743, 1e-4);
    assert_non_null(strstr(b.scope, "contributions of k or more coordinates"));

    b = prefix_bound(100, "full"); /* independent noise attains the max; the RMS: sums of the norms of columns */
    double norms = 0;
    for (int t = 1; t <= 100; t++)
        norms += sqrt(t);
    assert_just_below(b.max_loss, 100, 1e-11);
    assert_just_below(b.rms_loss, norms / 10, 2e-6);
}

/* Values of an independent program (tests/python/reference_bound.py): the least loss of all mechanisms. */
static void test_the_bound_is_the_least_loss_of_all_mechanisms(void **unused) {
    char path[4096], line[256];
    int rows = 0;
    (void)unused;
    snprintf(path, sizeof path, "%s/tests/data/bound.csv", getenv("DPMF_SOURCE"));
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        char workload[64], participation[64];
        long long n = 0;
        double least = 0;
        if (sscanf(line, "%lld;%63[^;];%63[^;];%lf", &n, workload, participation, &least) != 4) continue;
        dpmf_workload *a = workload_of(workload, n);
        assert_just_below(bound_of(a, participation, NULL).rms_loss, least, 5e-5);
        dpmf_workload_free(a);
        rows++;
    }
    fclose(file);
    assert_int_equal(rows, 20);
}

/* By brute force over vector contributions: what these reach, never above the truth. */
static double sensitivity_of(const dpmf_strategy *c, const char *participation) {
    dpmf_participation *p = NULL;
    reference r = {.starts = 10, .seed = 11};
    check_ok(dpmf_participation_parse(participation, dpmf_strategy_get(c).steps, &p));
    reference_run(&r, c, p);
    dpmf_participation_free(p);
    return sqrt(r.reached);
}

/* Random workloads, weights and strategies, all participations: nothing is below the bound. */
static void test_no_random_mechanism_is_below_the_bound(void **unused) {
    enum { N = 6 };
    static const char *const participations[] = {"single",     "cyclic:3,2",   "cyclic:2,4",   "minsep:2,2",
                                                 "minsep:3,1", "shuffled:3,2", "shuffled:2,4", "full"};
    uint64_t seed = 97;
    (void)unused;
    for (int round = 0; round < 20; round++) {
        double matrix[N * N] = {0}, c[N * N] = {0}, weights[N], errors[N];
        dpmf_workload *a = NULL;
        dpmf_strategy *strategy = NULL;
        dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
        for (int t = 0; t < N; t++) {
            weights[t] = 1 + check_random(&seed);
            for (int j = 0; j <= t; j++) {
                matrix[t * N + j] = round % 2 == 0 ? 1 : check_random(&seed) + 2 * (t == j);
                c[t * N + j] = t == j ? 1 : 0.4 * check_random(&seed) + (round % 4 < 2 ? 0.3 / (t - j) : 0);
            }
        }
        check_ok(dpmf_workload_create_dense(N, matrix, &a));
        check_ok(dpmf_strategy_create_dense(N, c, &strategy));
        check_ok(dpmf_error_compute(a, strategy, NULL, errors));
        if (round % 3 == 0) o.weights = weights;
        for (size_t i = 0; i < sizeof participations / sizeof participations[0]; i++) {
            double s = sensitivity_of(strategy, participations[i]);
            double total = 0, worst = 0;
            for (int t = 0; t < N; t++) {
                double e = errors[t] * (o.weights == NULL ? 1 : sqrt(weights[t]));
                total += e * e;
                worst = fmax(worst, e);
            }
            dpmf_lower_bound b = bound_of(a, participations[i], &o);
            assert_true(b.rms_loss > 0 && b.max_loss >= b.rms_loss);
            assert_true(b.rms_loss <= s * sqrt(total / N) * (1 + 1e-9) && b.max_loss <= s * worst * (1 + 1e-9));
        }
        dpmf_workload_free(a);
        dpmf_strategy_free(strategy);
    }
}

/* A = I: independent noise attains the bound, in every step. */
static void test_independent_noise_attains_the_bound_of_the_identity(void **unused) {
    enum { N = 5 };
    double matrix[N * N] = {0};
    dpmf_workload *a = NULL;
    (void)unused;
    for (int i = 0; i < N; i++)
        matrix[i * N + i] = 1;
    check_ok(dpmf_workload_create_dense(N, matrix, &a));
    dpmf_lower_bound b = bound_of(a, "single", NULL);
    assert_just_below(b.rms_loss, 1, 1e-6);
    assert_just_below(b.max_loss, 1, 1e-6);
    dpmf_workload_free(a);
    assert_just_below(prefix_bound(1, "single").rms_loss, 1, 1e-6);
}

/* ---- options ---- */

static void step_identity(void *context, int64_t t, int64_t count, const double *x, double *state, double *y) {
    (void)context, (void)t, (void)state;
    memcpy(y, x, (size_t)count * sizeof *y);
}

static void test_the_bound_is_given_where_it_is_asked_for(void **unused) {
    dpmf_operator op = {NULL, 0, step_identity, NULL};
    dpmf_workload *small = workload_of("prefix", 50), *large = workload_of("prefix", 2000001), *custom = NULL;
    dpmf_workload *schedule = workload_of("momentum:0.5,cooldown:0.5:0.1", 200);
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    dpmf_lower_bound b = {-1, -1, NULL};
    (void)unused;
    check_ok(optimum_find_bound(small, NULL, NULL, &b));
    double plain = b.rms_loss, plain_max = b.max_loss;
    assert_true(plain > 0 && plain_max > plain);
    o.adjacency = DPMF_ADJACENCY_REPLACE_ONE;
    b = bound_of(small, "single", &o);
    assert_true(b.rms_loss == 2 * plain && b.max_loss == 2 * plain_max);
    o.adjacency = DPMF_ADJACENCY_ADD_REMOVE;
    assert_true(bound_of(small, "single", &o).rms_loss == plain);
    o.lower_bound = DPMF_LOWER_BOUND_NONE;
    b = bound_of(small, "single", &o);
    assert_true(b.rms_loss == 0 && b.max_loss == 0 && b.scope == NULL);

    b = bound_of(large, "single", NULL); /* auto: not at this size */
    assert_true(b.rms_loss == 0 && b.scope == NULL);
    o.lower_bound = DPMF_LOWER_BOUND_FORCE;
    b = bound_of(large, "cyclic:3,700000", &o); /* above the nuclear norm, and not by very much */
    const double nuclear = 0.5 * sum_of_cosecants(2000001, 8000006.0) / sqrt(2000001 * 7e5);
    assert_true(b.rms_loss > 1.002 * nuclear && b.rms_loss < 1.05 * nuclear);

    /* a schedule has one from the optimum; an operator has none */
    b = bound_of(schedule, "single", NULL);
    assert_true(b.rms_loss > 0 && b.max_loss >= b.rms_loss);
    assert_true(bound_of(schedule, "cyclic:4,50", &o).rms_loss > b.rms_loss);
    check_ok(dpmf_workload_create_operator(50, &op, &custom));
    assert_null(bound_of(custom, "full", NULL).scope);
    b.rms_loss = -7;
    check_fails(DPMF_ERROR_UNSUPPORTED, optimum_find_bound(custom, NULL, &o, &b));
    check_message("50 steps under participation single");
    assert_true(b.rms_loss == -7);
    dpmf_workload_free(small);
    dpmf_workload_free(large);
    dpmf_workload_free(custom);
    dpmf_workload_free(schedule);
}

static int stop(void *context, const char *what, double done) {
    (void)context, (void)what, (void)done;
    return 1;
}

static void test_the_bound_refuses_other_steps_and_bad_weights(void **unused) {
    dpmf_workload *a = workload_of("prefix", 50);
    dpmf_participation *p = NULL;
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    dpmf_lower_bound b = {-7, -7, NULL};
    double weights[50] = {0};
    (void)unused;
    check_ok(dpmf_participation_parse("single", 51, &p));
    check_fails(DPMF_ERROR_ARGUMENT, optimum_find_bound(a, p, NULL, &b));
    check_message("51 steps");
    check_fails(DPMF_ERROR_ARGUMENT, optimum_find_bound(NULL, NULL, NULL, &b));
    o.weights = weights;
    check_fails(DPMF_ERROR_ARGUMENT, optimum_find_bound(a, NULL, &o, &b));
    weights[7] = -1;
    check_fails(DPMF_ERROR_ARGUMENT, optimum_find_bound(a, NULL, &o, &b));
    check_message("step 7 = -1");
    o = dpmf_evaluate_options_defaults();
    o.lower_bound = (dpmf_lower_bound_mode)3;
    check_fails(DPMF_ERROR_ARGUMENT, optimum_find_bound(a, NULL, &o, &b));
    check_message("mode 3");
    o = dpmf_evaluate_options_defaults();
    o.adjacency = (dpmf_adjacency)-1;
    check_fails(DPMF_ERROR_ARGUMENT, optimum_find_bound(a, NULL, &o, &b));
    o = dpmf_evaluate_options_defaults();
    o.run.progress = stop;
    check_fails(DPMF_ERROR_CANCELLED, optimum_find_bound(a, NULL, &o, &b));
    assert_true(b.rms_loss == -7 && b.max_loss == -7);
    dpmf_participation_free(p);
    dpmf_workload_free(a);
}

static void test_any_allocation_of_a_bound_may_fail(void **unused) {
    static const char *const texts[] = {"momentum:0.9", "nesterov:0.5", "prefix"};
    dpmf_lower_bound b;
    double averaged = 0;
    (void)unused;
    for (int i = 0; i < 3; i++) {
        dpmf_workload *a = workload_of(texts[i], 8);
        dpmf_participation *p = NULL;
        check_ok(dpmf_participation_parse("cyclic:2,4", 8, &p));
        FAIL_EACH(optimum_find_bound(a, p, NULL, &b));
        FAIL_EACH(optimum_nuclear_averaged(a, &averaged));
        dpmf_participation_free(p);
        dpmf_workload_free(a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_nuclear_norm_of_prefix_sums_has_its_closed_form),
        cmocka_unit_test(test_every_route_to_the_nuclear_norm_is_just_below_it),
        cmocka_unit_test(test_averages_bound_the_nuclear_norm_from_below),
        cmocka_unit_test(test_the_nuclear_norm_takes_weights),
        cmocka_unit_test(test_singular_values_of_bands_are_those_of_the_matrix),
        cmocka_unit_test(test_bounds_are_just_below_the_known_optima),
        cmocka_unit_test(test_long_runs_have_the_bound_of_a_short_search),
        cmocka_unit_test(test_the_bound_is_above_the_published_ones),
        cmocka_unit_test(test_losses_keep_the_published_upper_bounds),
        cmocka_unit_test(test_the_bound_is_the_least_loss_of_all_mechanisms),
        cmocka_unit_test(test_the_scopes_of_files_are_known),
        cmocka_unit_test(test_bounds_of_several_participations_are_the_known_ones),
        cmocka_unit_test(test_no_random_mechanism_is_below_the_bound),
        cmocka_unit_test(test_independent_noise_attains_the_bound_of_the_identity),
        cmocka_unit_test(test_the_bound_is_given_where_it_is_asked_for),
        cmocka_unit_test(test_the_bound_refuses_other_steps_and_bad_weights),
        cmocka_unit_test(test_any_allocation_of_a_bound_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
