/* SPDX-License-Identifier: Apache-2.0 */
/* The sensitivity over patterns from a file: against brute force, and named kinds written out. */
#include "support/patterns_files.h"
#include "support/sensitivity_reference.h"

enum { N = 12, CASES = 200 };

/* The largest |C u|^2 over the patterns and all signs on them: f where an exact value is claimed, never more than it. */
static double brute_force(const double *c, int rows, int patterns, int sizes[], int steps[][N], int *positive) {
    double best = 0;
    *positive = 1;
    for (int q = 0; q < patterns; q++)
        for (unsigned signs = 0; signs < 1u << (sizes[q] - 1); signs++) {
            double square = 0;
            for (int i = 0; i < rows; i++) {
                double sum = 0;
                for (int j = 0; j < sizes[q]; j++)
                    sum += (signs >> j & 1 ? -1 : 1) * c[i * N + steps[q][j]];
                square += sum * sum;
            }
            best = fmax(best, square);
        }
    for (int a = 0; a < N; a++)
        for (int b = 0; b < N; b++) {
            double x = 0;
            for (int i = 0; i < rows; i++)
                x += c[i * N + a] * c[i * N + b];
            if (x < 0) *positive = 0;
        }
    return best;
}

/* What vectors reach on the patterns, by an ascent that shares no code with the library. */
static double climbed(const double *c, int patterns, int sizes[], int steps[][N], uint64_t seed) {
    reference r = {.n = N, .seed = seed};
    double best = 0;
    for (int q = 0; q < patterns; q++) {
        reference_square x;
        for (int a = 0; a < sizes[q]; a++)
            for (int b = 0; b < sizes[q]; b++) {
                x[a][b] = 0;
                for (int i = 0; i < N; i++)
                    x[a][b] += c[i * N + steps[q][a]] * c[i * N + steps[q][b]];
            }
        for (int start = 0; start < 3; start++)
            best = fmax(best, reference_climb(&r, sizes[q], x, 400, 1e-14));
    }
    return sqrt(best);
}

static dpmf_strategy *random_strategy(uint64_t *seed, int positive, double *c) {
    dpmf_strategy *s = NULL;
    for (int i = 0; i < N * N; i++) {
        const double x = check_random(seed);
        c[i] = i % N > i / N ? 0 : i % N == i / N ? 1 + fabs(x) : positive ? fabs(x) : x;
    }
    check_ok(dpmf_strategy_create_dense(N, c, &s));
    return s;
}

static void test_brute_force_over_200_random_lists_agrees(void **unused) {
    uint64_t seed = 20230501;
    int exact = 0, bounds = 0;
    (void)unused;
    for (int run = 0; run < CASES; run++) {
        double c[N * N];
        dpmf_strategy *s = random_strategy(&seed, run % 2, c);
        int sizes[9] = {0}, steps[9][N], positive = 0;
        const int patterns = 1 + (int)(4 * (1 + check_random(&seed)));
        char text[2000] = "";
        for (int q = 0; q < patterns; q++) {
            for (int t = 0; t < N; t++)
                if (check_random(&seed) > 0.4 || (t == N - 1 && sizes[q] == 0)) steps[q][sizes[q]++] = t;
            for (int j = sizes[q] - 1; j >= 0; j--)
                snprintf(text + strlen(text), sizeof text - strlen(text), "%d%c", steps[q][j], j == 0 ? '\n' : ' ');
        }
        dpmf_participation *p = patterns_of_text(text, N);
        dpmf_sensitivity found, named;
        dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
        check_ok(dpmf_sensitivity_compute(s, p, &o, &found));
        const double want = sqrt(brute_force(c, N, patterns, sizes, steps, &positive));
        if (run % 2) assert_true(positive && found.kind == DPMF_EXACT);
        if (found.kind == DPMF_EXACT) check_near(found.value, want, 1e-13);
        assert_true(found.value >= want * (1 - 1e-13) && found.value <= want * sqrt(M_PI_2) * (1 + 1e-12));
        assert_true(found.value >= climbed(c, patterns, sizes, steps, seed) * (1 - 1e-12));
        exact += found.kind == DPMF_EXACT;
        bounds += found.kind == DPMF_UPPER_BOUND;
        for (o.sensitivity = DPMF_BOUND_SPECTRAL; o.sensitivity <= DPMF_BOUND_SIGNS; o.sensitivity++) {
            check_ok(dpmf_sensitivity_compute(s, p, &o, &named)); /* bounds by name are never below */
            assert_true(named.kind == DPMF_UPPER_BOUND && named.value >= found.value * (1 - 1e-12));
        }
        dpmf_participation_free(p);
        dpmf_strategy_free(s);
    }
    assert_true(exact > 120 && bounds > 5); /* both are met */
}

/* Single, cyclic, min-sep, shuffled and full, for families with routes of their own and for a C of any sign. */
static void test_named_kinds_written_out_have_the_same_sensitivity(void **unused) {
    static const char *const kinds[] = {"single",      "full",        "cyclic:3,4",   "min-sep:2,3",
                                        "min-sep:3,4", "min-sep:4,1", "shuffled:3,4", "shuffled:4,3"};
    static const char *const families[] = {"identity", "toeplitz", "tree-full", "tree-online"};
    uint64_t seed = 7;
    double c[N * N];
    (void)unused;
    for (int f = 0; f < 6; f++) {
        dpmf_workload *a = workload_of("prefix", N);
        dpmf_strategy *s = NULL;
        if (f < 4)
            check_ok(dpmf_strategy_create(families[f], a, NULL, &s));
        else
            s = random_strategy(&seed, f % 2, c);
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
            dpmf_participation *p = NULL, *listed = patterns_written_out(kinds[i], N);
            dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
            dpmf_evaluation named, found;
            double steps[2][N];
            check_ok(dpmf_participation_parse(kinds[i], N, &p));
            o.lower_bound = DPMF_LOWER_BOUND_NONE;
            check_ok(dpmf_evaluate(a, p, s, &o, &named, steps[0]));
            check_ok(dpmf_evaluate(a, listed, s, &o, &found, steps[1]));
            if (named.sensitivity.kind == DPMF_EXACT && found.sensitivity.kind == DPMF_EXACT) {
                check_near(found.sensitivity.value, named.sensitivity.value, 1e-12);
                check_near(found.rms_loss, named.rms_loss, 1e-12);
                check_near(found.max_loss, named.max_loss, 1e-12);
                for (int t = 0; t < N; t++)
                    check_near(steps[1][t], steps[0][t], 1e-12);
            }
            assert_true(f == 4 || found.sensitivity.kind == DPMF_EXACT);
            if (found.sensitivity.kind == DPMF_EXACT) /* what else there is must not be below */
                assert_true(named.sensitivity.value >= found.sensitivity.value * (1 - 1e-12));
            dpmf_participation_free(p);
            dpmf_participation_free(listed);
        }
        dpmf_strategy_free(s);
        dpmf_workload_free(a);
    }
}

/* Only the columns of steps that are in a pattern count, and none below. */
static void test_steps_in_no_pattern_do_not_count(void **unused) {
    const double diagonal[] = {1, 5, 2, 3};
    dpmf_strategy *s = NULL;
    dpmf_participation *p = patterns_of_text("0\n3\n", 4);
    dpmf_sensitivity found;
    (void)unused;
    check_ok(dpmf_strategy_create_banded(4, 1, diagonal, &s));
    check_ok(dpmf_sensitivity_compute(s, p, NULL, &found));
    check_near(found.value, 3, 1e-15);
    assert_int_equal(found.kind, DPMF_EXACT);
    dpmf_participation_free(p);
    dpmf_strategy_free(s);
}

/* More patterns than one block of the sums has, and any number of threads: the same bits. */
static void test_many_patterns_give_the_same_bits_on_any_number_of_threads(void **unused) {
    const int64_t n = 300;
    uint64_t seed = 99;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    dpmf_workload *a = workload_of("prefix", n);
    dpmf_strategy *s = NULL;
    dpmf_participation *p = NULL;
    dpmf_sensitivity found[2];
    double *c = NULL, best = 0;
    (void)unused;
    for (int q = 0; q < 2500; q++) {
        for (int64_t t = (int64_t)(20 * (1 + check_random(&seed))); t < n;
             t += 1 + (int64_t)(15 * (1 + check_random(&seed))))
            fprintf(out, "%lld ", (long long)t);
        fprintf(out, "\n");
    }
    fclose(out);
    check_ok(patterns_read(text, size, n, &p));
    check_ok(dpmf_strategy_create("toeplitz", a, NULL, &s));
    for (int i = 0; i < 2; i++) {
        dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
        o.run.threads = 1 + 2 * i;
        check_ok(dpmf_sensitivity_compute(s, p, &o, &found[i]));
    }
    assert_true(found[0].value == found[1].value && found[0].kind == DPMF_EXACT);
    c = check_strategy_matrix(s);
    for (int64_t q = 0; q < p->patterns; q++) {
        double square = 0;
        for (int64_t i = 0; i < n; i++) {
            double sum = 0;
            for (int64_t j = p->begins[q]; j < p->begins[q + 1]; j++)
                sum += c[i * n + p->listed[j]];
            square += sum * sum;
        }
        best = fmax(best, square);
    }
    check_near(found[0].value, sqrt(best), 1e-13);
    free(c);
    free(text);
    dpmf_participation_free(p);
    dpmf_strategy_free(s);
    dpmf_workload_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_brute_force_over_200_random_lists_agrees),
        cmocka_unit_test(test_named_kinds_written_out_have_the_same_sensitivity),
        cmocka_unit_test(test_steps_in_no_pattern_do_not_count),
        cmocka_unit_test(test_many_patterns_give_the_same_bits_on_any_number_of_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
