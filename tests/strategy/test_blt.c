/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BLT: closed forms and inverse parameters against many-digit values (tests/data/blt.csv, made by
 * tests/python/reference_blt.py), the strategy against dense matrices, files, refusals.
 */
#include "oracle/oracle.h"
#include "support/check.h"

#include "families/blt/blt.h"
#include "strategy/strategy.h"
#include "support/failing_allocator.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX = BLT_MAX, FIELDS = 10 };

/* ---- the reference file ---- */

static FILE *open_reference(void) {
    const char *source = getenv("DPMF_SOURCE");
    char path[4096];
    snprintf(path, sizeof path, "%s%stests/data/blt.csv", source == NULL ? "" : source, source == NULL ? "" : "/");
    FILE *file = fopen(path, "r");
    if (file == NULL) fail_msg("%s cannot be opened", path);
    return file;
}

/* The next line of that kind, cut at its semicolons; 0 at the end. */
static int next_line(FILE *file, const char *kind, char *line, size_t size, char *fields[FIELDS]) {
    while (fgets(line, (int)size, file) != NULL) {
        int count = 0;
        line[strcspn(line, "\n")] = '\0';
        for (char *at = line; at != NULL && count < FIELDS; at = strchr(at, ';')) {
            if (*at == ';') *at++ = '\0';
            fields[count++] = at;
        }
        if (strcmp(fields[0], kind) == 0) return 1;
    }
    return 0;
}

static int numbers(const char *text, double *out) {
    int count = 0;
    for (char *end = NULL; count < MAX; count++, text = end) {
        out[count] = strtod(text, &end);
        if (end == text) break;
    }
    return count;
}

static blt_parameters parameters(const char *scales, const char *gaps) {
    double scale[MAX], gap[MAX];
    int count = numbers(scales, scale);
    assert_int_equal(numbers(gaps, gap), count);
    assert_true(count >= 1);
    return blt_make(count, scale, gap);
}

static void check_relative(double got, double want, double tolerance) {
    check_near(got / want, 1, tolerance);
}

/* ---- closed forms ---- */

static void test_closed_forms_of_a_blt_agree_with_the_reference(void **unused) {
    FILE *file = open_reference();
    char line[4096], *f[FIELDS];
    int lines = 0, large = 0;
    (void)unused;
    for (; next_line(file, "losses", line, sizeof line, f); lines++) {
        int64_t n = strtoll(f[1], NULL, 10), k = strtoll(f[2], NULL, 10), b = strtoll(f[3], NULL, 10);
        blt_parameters c = parameters(f[4], f[5]), inverse = blt_invert(&c);
        oracle_losses losses;
        double sens = strtod(f[6], NULL), row = strtod(f[7], NULL), all = strtod(f[8], NULL);
        check_relative(blt_pattern_square(&c, n, k, b), sens, 1e-13);
        check_relative(blt_last_row_square(&inverse, n), row, 1e-13);
        check_relative(blt_frobenius_square(&inverse, n), all, 1e-13);
        check_ok(oracle_blt_losses(&c, n, k, b, &losses));
        check_relative(losses.sensitivity, sqrt(sens), 1e-13);
        check_relative(losses.max_loss, sqrt(sens) * sqrt(row), 1e-13);
        check_relative(losses.rms_loss, sqrt(sens) * sqrt(all / (double)n), 1e-13);
        large += n >= 1000000000;
    }
    fclose(file);
    assert_true(lines > 60 && large > 10);
}

static void test_the_inverse_of_a_blt_agrees_with_the_reference(void **unused) {
    FILE *file = open_reference();
    char line[4096], *f[FIELDS];
    int lines = 0;
    (void)unused;
    for (; next_line(file, "inverse", line, sizeof line, f); lines++) {
        blt_parameters c = parameters(f[1], f[2]), want = parameters(f[3], f[4]);
        blt_parameters inverse = blt_invert(&c), back = blt_invert(&inverse);
        check_relative(inverse.total, 1 / c.total, 1e-13);
        for (int i = 0; i < c.count; i++) {
            check_relative(inverse.gap[i], want.gap[i], 1e-14);
            check_relative(-inverse.scale[i], want.scale[i], 1e-9); /* next to a pole the scales of two share */
        }
        for (int i = 0; i < c.count; i++) { /* the way back sorts them */
            int at = 0;
            for (int j = 0; j < c.count; j++)
                at += c.gap[j] < c.gap[i];
            check_relative(back.gap[at], c.gap[i], 1e-13);
            check_relative(back.scale[at], c.scale[i], c.scale[i] < 1e-8 && c.gap[i] > 0.01 ? 1e-4 : 1e-13);
        }
    }
    fclose(file);
    assert_true(lines >= 6);
}

/* There and back for random parameters of very different sizes. */
static void test_inverting_a_blt_twice_gives_it_back(void **unused) {
    uint64_t seed = 3;
    (void)unused;
    for (int trial = 0; trial < 300; trial++) {
        int d = 1 + trial % MAX;
        double scale[MAX], gap[MAX], q = log(0.9);
        for (int i = d - 1; i >= 0; i--) {
            q -= 0.3 + 32.0 / d * (1 + check_random(&seed)) / 2; /* down to about 1e-14 */
            gap[i] = exp(q);
            scale[i] = gap[i] * (0.1 + 0.4 * (1 + check_random(&seed)));
        }
        blt_parameters c = blt_make(d, scale, gap), inverse = blt_invert(&c);
        blt_parameters back = blt_invert(&inverse);
        assert_true(blt_is_positive(&c));
        check_relative(back.total, c.total, 1e-13);
        double sum = inverse.total;
        for (int i = 0; i < d; i++) {
            check_relative(back.gap[i], gap[i], 1e-13);
            check_relative(back.scale[i], scale[i], 1e-13);
            assert_true(inverse.gap[i] > gap[i] && (i + 1 == d || inverse.gap[i] < gap[i + 1]));
            sum -= inverse.scale[i] / inverse.gap[i];
        }
        check_near(sum, 1, 1e-13); /* the first entry of A C^-1 */
    }
}

/* Against sums in long double; slopes against differences of sums. */
static void test_geometric_sums_and_slopes_agree_with_long_sums(void **unused) {
    const double gaps[] = {0, 1e-20, 1e-9, 1e-4, 0.9e-3, 1.1e-3, 0.01, 0.3, 0.99, 1, 1.01, 1.5};
    const int counts[] = {1, 2, 3, 10, 100, 999, 1000, 1001};
    (void)unused;
    for (size_t g = 0; g < sizeof gaps / sizeof gaps[0]; g++)
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            long double y = gaps[g], power = 1, previous = 0, sum = 0, ramp = 0, slope = 0, ramp_slope = 0;
            int n = counts[c];
            for (int t = 0; t < n; t++) {
                sum += power;
                ramp += (n - t) * power;
                slope -= t * previous; /* d x^t / dy = -t x^(t-1) */
                ramp_slope -= (long double)(n - t) * t * previous;
                previous = power;
                power *= 1 - y;
            }
            blt_slope one = blt_geometric(n, gaps[g]), two = blt_geometric_ramp(n, gaps[g]);
            check_relative(one.value, (double)sum, 1e-14);
            check_relative(two.value, (double)ramp, 1e-14);
            if (n > 1) check_near(one.slope, (double)slope, 1e-12);
            if (n > 1) check_near(two.slope, (double)ramp_slope, 1e-12);
        }
    check_near(blt_geometric(0, 0.5).value, 0, 0);
}

static void test_coefficients_of_a_blt_are_sums_of_powers(void **unused) {
    enum { N = 3000 };
    const double scale[] = {0.2, 0.1, -0.05, 0.3}, gap[] = {0.3, 1e-3, 1e-6, 1};
    blt_parameters c = blt_make(4, scale, gap);
    double out[N];
    (void)unused;
    blt_coefficients(&c, N, out);
    check_near(out[0], 1, 0);
    for (int t = 1; t < N; t++) {
        long double want = 0;
        for (int i = 0; i < 4; i++)
            want += scale[i] * (t == 1 ? 1 : powl(1 - (long double)gap[i], t - 1));
        check_near(out[t], (double)want, 2e-15);
    }
}

/* The approximation of the square root, which is the best Toeplitz C for the max loss (Pillutla et al. 2025, Theorem
 * 2.7): with enough buffers its loss is that of the square root, and in any number it is a mechanism. */
static void test_the_rational_start_nears_the_square_root(void **unused) {
    const int64_t steps[] = {8, 64, 1024, 8192};
    const double root[] = {1.718379, 2.388848, 3.272554, 3.934529}; /* max loss of the square root */
    (void)unused;
    for (int i = 0; i < 4; i++)
        for (int d = 1; d <= MAX; d++) {
            blt_parameters c = blt_rational(d, 4 * (double)steps[i]);
            oracle_losses losses;
            double sum = 0;
            assert_true(blt_is_positive(&c));
            for (int j = 0; j < d; j++)
                sum += c.scale[j];
            assert_true(sum < 1);
            check_ok(oracle_blt_losses(&c, steps[i], 1, steps[i], &losses));
            assert_true(losses.max_loss > root[i] * (1 - 1e-6));
            if (d >= 4 + 2 * i) assert_true(losses.max_loss < root[i] * 1.01);
            if (d == MAX) check_relative(losses.max_loss, root[i], 1e-4);
        }
}

static void test_closed_forms_refuse_what_they_do_not_hold_for(void **unused) {
    const double half[] = {0.5, 0.6}, negative[] = {0.5, -0.1}, gap[] = {0.5, 0.1}, same[] = {0.1, 0.1};
    blt_parameters rising = blt_make(2, half, gap), mixed = blt_make(2, negative, gap);
    blt_parameters twice = blt_make(2, half, same);
    oracle_losses losses = {9, 9, 9};
    (void)unused;
    check_fails(DPMF_ERROR_UNSUPPORTED, oracle_blt_losses(&rising, 8, 2, 4, &losses));
    check_message("1.1");
    check_fails(DPMF_ERROR_UNSUPPORTED, oracle_blt_losses(&mixed, 8, 1, 8, &losses));
    check_fails(DPMF_ERROR_UNSUPPORTED, oracle_blt_losses(&twice, 8, 1, 8, &losses));
    check_near(losses.sensitivity, 9, 0);
    check_ok(oracle_blt_losses(&rising, 8, 1, 8, &losses));
}

/* ---- the strategy ---- */

static dpmf_strategy *make(int64_t n, int d, const double *scale, const double *decay) {
    dpmf_strategy *s = NULL;
    check_ok(dpmf_strategy_create_blt(n, d, scale, decay, NULL, &s));
    assert_string_equal(dpmf_strategy_get(s).family, "blt");
    assert_int_equal(dpmf_strategy_get(s).buffers, d);
    return s;
}

static const double SCALES[][3] = {{0.3},           {0.25, 0.1}, {0.2, 0.1, 0.05}, {-0.3, 0.2, 0.9},
                                   {0.1, 0.1, 0.1}, {0, 0.5, 0}};
static const double DECAYS[][3] = {{0.5},           {0.9, 0},        {0.2, 0.8, 0.999999},
                                   {0.5, 0.9, 0.1}, {0.7, 0.7, 0.7}, {0.5, 0.5, 0}};
static const int COUNTS[] = {1, 2, 3, 3, 3, 3};

static void test_a_blt_is_what_its_matrix_is(void **unused) {
    static const char *const workloads[] = {"prefix", "momentum:0.9", "nesterov:0.8,decay:0.1", "cooldown:0.5:0.1",
                                            "momentum:0.95,cooldown:0.25:0.05"};
    (void)unused;
    for (int i = 0; i < 6; i++)
        for (int64_t n = 1; n <= 40; n += 13) {
            dpmf_strategy *s = make(n, COUNTS[i], SCALES[i], DECAYS[i]), *normal = NULL, *stamped = NULL, *both = NULL;
            check_strategy(s, 1e-12);
            check_ok(dpmf_strategy_create_normalized(s, &normal));
            check_strategy(normal, 1e-12);
            check_ok(dpmf_strategy_create_stamped(s, 2, &stamped));
            check_strategy(stamped, 1e-12);
            check_ok(dpmf_strategy_create_normalized(stamped, &both));
            for (size_t w = 0; w < sizeof workloads / sizeof workloads[0]; w++) {
                dpmf_workload *a = NULL, *twice = NULL;
                check_ok(dpmf_workload_parse(workloads[w], n, &a));
                check_ok(dpmf_workload_parse(workloads[w], 2 * n, &twice));
                check_factorization(a, s, 1e-11);
                check_factorization(a, normal, 1e-11);
                check_factorization(twice, stamped, 1e-11);
                check_factorization(twice, both, 1e-11);
                dpmf_workload_free(a);
                dpmf_workload_free(twice);
            }
            dpmf_strategy_free(s);
            dpmf_strategy_free(normal);
            dpmf_strategy_free(stamped);
            dpmf_strategy_free(both);
        }
}

/* Several participations: the general code on the materialized column, and the closed form. */
static void test_the_closed_form_is_the_general_sensitivity(void **unused) {
    static const char *const texts[] = {"single", "cyclic:4,25", "minsep:4,25", "minsep:3,20", "full", "cyclic:7,15"};
    dpmf_strategy *s = make(100, COUNTS[2], SCALES[2], DECAYS[2]);
    (void)unused;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        dpmf_participation *p = NULL;
        dpmf_sensitivity found;
        check_ok(dpmf_participation_parse(texts[i], 100, &p));
        check_ok(dpmf_sensitivity_compute(s, p, NULL, &found));
        double want =
            blt_pattern_square(blt_of(s), 100, dpmf_participation_get(p).count, dpmf_participation_get(p).separation);
        check_relative(found.value, sqrt(want), 1e-13);
        assert_int_equal(found.kind, DPMF_EXACT);
        dpmf_participation_free(p);
    }
    dpmf_strategy_free(s);
}

/* Two buffers for 100 000 steps; sensitivity and errors were computed independently from the matrix. */
static void test_a_blt_of_100000_steps_has_its_known_losses(void **unused) {
    const double scale[] = {0.0122853238, 0.1878393665}, decay[] = {0.9999528892, 0.9857068667};
    const int64_t n = 100000;
    dpmf_strategy *s = make(n, 2, scale, decay);
    dpmf_workload *a = NULL;
    dpmf_evaluation e;
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    (void)unused;
    o.lower_bound = DPMF_LOWER_BOUND_NONE;
    check_ok(dpmf_workload_parse("prefix", n, &a));
    check_ok(dpmf_evaluate(a, NULL, s, &o, &e, NULL));
    check_relative(e.sensitivity.value * e.sensitivity.value, 4.166791846703, 1e-11);
    check_relative(pow(e.max_loss / e.sensitivity.value, 2), 6.733124995055, 1e-11);
    oracle_losses closed;
    check_ok(oracle_blt_losses(blt_of(s), n, 1, n, &closed));
    check_relative(closed.sensitivity, e.sensitivity.value, 1e-13);
    check_relative(closed.max_loss, e.max_loss, 1e-12);
    check_relative(closed.rms_loss, e.rms_loss, 1e-12);
    double total = 0, largest = 0;
    assert_true(error_sums(a, s, &total, &largest));
    check_relative(total * pow(e.sensitivity.value, 2), e.total_squared_loss, 1e-12);
    check_relative(largest, pow(e.max_loss / e.sensitivity.value, 2), 1e-12);
    dpmf_workload_free(a);
    check_ok(dpmf_workload_parse("momentum:0.5", n, &a));
    assert_false(error_sums(a, s, &total, &largest));
    dpmf_workload_free(a);
    dpmf_strategy_free(s);
}

/* Nothing of it grows with the steps. */
static void test_a_blt_of_ten_billion_steps_takes_no_memory(void **unused) {
    const double scale[] = {1e-5, 0.3}, gap[] = {1e-10, 0.2}, *found_scale = NULL, *found_gap = NULL;
    double state[2] = {0}, row = 0, seed = 1;
    uint64_t before = dpmf_memory_in_use();
    dpmf_strategy *s = NULL;
    (void)unused;
    check_ok(dpmf_strategy_create_blt(10000000000, 2, scale, NULL, gap, &s));
    assert_true(dpmf_memory_in_use() - before < 4096);
    assert_int_equal(check_blt(s, &found_scale, &found_gap), 2);
    assert_memory_equal(found_scale, scale, sizeof scale);
    assert_memory_equal(found_gap, gap, sizeof gap);
    check_ok(dpmf_strategy_step(s, 0, 1, &seed, state, &row));
    check_near(row, 1, 0);
    seed = 0;
    check_ok(dpmf_strategy_step(s, 1, 1, &seed, state, &row));
    check_near(row, -(0.3 + 1e-5), 1e-16);
    dpmf_strategy_free(s);
}

/* ---- files ---- */

static void test_a_blt_comes_back_from_its_bytes(void **unused) {
    const double scale[] = {1e-3, 0.3, 0.02}, gap[] = {3.3333333333333333e-17, 0.25, 1e-3};
    dpmf_strategy *s = NULL, *normal = NULL;
    dpmf_workload *a = NULL;
    (void)unused;
    check_ok(dpmf_strategy_create_blt(50, 3, scale, NULL, gap, &s));
    check_ok(dpmf_strategy_create_normalized(s, &normal));
    check_ok(dpmf_workload_parse("momentum:0.5", 50, &a));
    for (int i = 0; i < 2; i++) {
        dpmf_mechanism *m = NULL, *again = NULL;
        uint8_t *bytes = NULL, *same = NULL;
        size_t size = 0, same_size = 0;
        const double *got = NULL, *got_gap = NULL;
        check_ok(dpmf_mechanism_create(a, NULL, i == 0 ? s : normal, NULL, &m));
        check_ok(dpmf_mechanism_encode(m, &bytes, &size));
        check_ok(dpmf_mechanism_decode(bytes, size, &again));
        check_ok(dpmf_mechanism_encode(again, &same, &same_size));
        assert_int_equal(size, same_size);
        assert_memory_equal(bytes, same, size);
        const dpmf_strategy *read = dpmf_mechanism_get(again).strategy;
        assert_string_equal(dpmf_strategy_get(read).family, "blt");
        check_strategy(read, 1e-12);
        assert_int_equal(check_blt(read, &got, &got_gap), 3); /* with normalized columns: those before */
        assert_memory_equal(got, scale, sizeof scale);
        assert_memory_equal(got_gap, gap, sizeof gap);
        dpmf_bytes_free(bytes);
        dpmf_bytes_free(same);
        dpmf_mechanism_free(m);
        dpmf_mechanism_free(again);
    }
    dpmf_strategy_free(s);
    dpmf_strategy_free(normal);
    dpmf_workload_free(a);
}

static void test_a_file_with_a_bad_blt_is_refused(void **unused) {
    const double scale[17] = {0.1, 0.2}, gap[17] = {0.5, 0.1}, zero[] = {0.5, 0}, above[] = {0.5, 1.5};
    const struct {
        int64_t count, gaps;
        const double *gap;
    } cases[] = {{2, 3, gap}, {17, 17, gap}, {2, 2, zero}, {2, 2, above}};
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        base_tensors tensors = {0};
        strategy_source source = {.tensors = &tensors, .family = "blt", .steps = 8};
        dpmf_strategy *s = NULL;
        base_tensors_add(&tensors, "strategy.scale", cases[i].count, 0, scale);
        check_fails(DPMF_ERROR_FORMAT, blt_read(&source, &s));
        base_tensors_add(&tensors, "strategy.gap", cases[i].gaps, 0, cases[i].gap);
        check_fails(DPMF_ERROR_FORMAT, blt_read(&source, &s));
        assert_null(s);
    }
}

/* ---- refusals ---- */

/* Pillutla et al. 2025, Lemmas 2.16 and 4.13: (scale, gap) to (gap, inverse gap) and back, 60 random BLTs. */
static void test_the_decays_of_a_blt_and_its_inverse_make_it_again(void **unused) {
    uint64_t seed = 5;
    (void)unused;
    for (int trial = 0; trial < 60; trial++) {
        enum { N = 40 };
        const int d = 1 + trial % 5;
        double scale[MAX], gaps[2 * MAX], columns[2][N];
        dpmf_strategy *s = NULL, *again = NULL;
        for (int i = 0; i < d; i++) {
            scale[i] = (0.05 + fabs(check_random(&seed))) / (3 * d);
            gaps[i] = 0.9 * (i + 0.1 + 0.8 * fabs(check_random(&seed))) / d;
        }
        check_ok(dpmf_strategy_create_blt(N, d, scale, NULL, gaps, &s));
        const dpmf_strategy_info info = dpmf_strategy_get(s);
        assert_non_null(info.blt_inverse_gap);
        for (int i = 0; i < d; i++) {
            gaps[d + i] = info.blt_inverse_gap[i];
            assert_true(info.blt_inverse_scale[i] < 0);
        }
        check_ok(dpmf_strategy_create_blt(N, d, NULL, NULL, gaps, &again));
        for (int i = 0; i < d; i++)
            check_near(dpmf_strategy_get(again).blt_scale[i], scale[i], 1e-12);
        /* C^-1 = BLT(inverse scale, inverse gap): its first column is what solving gives. */
        memset(columns, 0, sizeof columns);
        columns[0][0] = 1;
        check_ok(dpmf_strategy_solve(s, columns[0], columns[0]));
        for (int t = 0; t < N; t++)
            for (int i = 0; i < d; i++)
                columns[1][t] += t == 0 ? 1.0 / d : info.blt_inverse_scale[i] * pow(1 - gaps[d + i], t - 1);
        for (int t = 0; t < N; t++)
            check_near(columns[0][t], columns[1][t], 1e-13);
        dpmf_strategy_free(again);
        dpmf_strategy_free(s);
    }
}

static void test_a_blt_whose_decays_meet_those_of_its_inverse_is_refused(void **unused) {
    static const double same[] = {0.5, 0.5}, far[] = {0.5, 2.5};
    static const double scale[] = {0.5, -0.25}, gaps[] = {0.5, 0.75};
    dpmf_strategy *s = NULL;
    (void)unused;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create_blt(9, 1, NULL, NULL, same, &s));
    check_message("twice");
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create_blt(9, 1, NULL, NULL, far, &s));
    check_message("C^-1");
    assert_null(s);
    check_ok(dpmf_strategy_create_blt(9, 2, scale, NULL, gaps, &s));
    assert_null(dpmf_strategy_get(s).blt_inverse_gap); /* signs differ: its decays may be complex */
    dpmf_strategy_free(s);
}

static void test_a_blt_out_of_range_is_refused(void **unused) {
    const double scale[17] = {0.1, 0.2}, good[17] = {0.5, 0.1}, one[] = {0.5, 1}, below[] = {0.5, -1e-9};
    const double nan_decay[] = {0.5, NAN}, infinite[] = {0.1, INFINITY}, zero[] = {0.5, 0}, huge[] = {1e308, 1e308};
    dpmf_strategy *s = NULL;
    const double *p = NULL, *q = NULL;
    dpmf_workload *a = NULL;
    (void)unused;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create_blt(8, 0, scale, good, NULL, &s));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create_blt(8, 17, scale, good, NULL, &s));
    check_message("17");
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create_blt(8, 2, scale, one, NULL, &s));
    check_message("decay 1");
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create_blt(8, 2, scale, below, NULL, &s));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create_blt(8, 2, scale, nan_decay, NULL, &s));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create_blt(8, 2, infinite, good, NULL, &s));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create_blt(8, 2, NULL, good, NULL, &s));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create_blt(8, 2, scale, NULL, NULL, &s));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create_blt(0, 2, scale, good, NULL, &s));
    check_fails(DPMF_ERROR_ARGUMENT,
                dpmf_strategy_create_blt(8, 2, huge, good, NULL, &s)); /* a coefficient overflows */
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create_blt(8, 2, scale, NULL, zero, &s));
    check_message("gap 1");
    assert_null(s);
    check_ok(dpmf_workload_parse("prefix", 8, &a));
    check_ok(dpmf_strategy_create("toeplitz", a, NULL, &s));
    assert_int_equal(check_blt(s, &p, &q), 0);
    assert_null(p);
    dpmf_strategy_free(s);
    dpmf_workload_free(a);
}

static void test_any_allocation_of_a_blt_may_fail(void **unused) {
    const double scale[] = {0.2, 0.1}, decay[] = {0.5, 0.9};
    dpmf_strategy *s = NULL;
    (void)unused;
    FAIL_EACH(dpmf_strategy_create_blt(100, 2, scale, decay, NULL, &s));
    dpmf_strategy_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_closed_forms_of_a_blt_agree_with_the_reference),
        cmocka_unit_test(test_the_inverse_of_a_blt_agrees_with_the_reference),
        cmocka_unit_test(test_inverting_a_blt_twice_gives_it_back),
        cmocka_unit_test(test_geometric_sums_and_slopes_agree_with_long_sums),
        cmocka_unit_test(test_coefficients_of_a_blt_are_sums_of_powers),
        cmocka_unit_test(test_the_decays_of_a_blt_and_its_inverse_make_it_again),
        cmocka_unit_test(test_a_blt_whose_decays_meet_those_of_its_inverse_is_refused),
        cmocka_unit_test(test_the_rational_start_nears_the_square_root),
        cmocka_unit_test(test_closed_forms_refuse_what_they_do_not_hold_for),
        cmocka_unit_test(test_a_blt_is_what_its_matrix_is),
        cmocka_unit_test(test_the_closed_form_is_the_general_sensitivity),
        cmocka_unit_test(test_a_blt_of_100000_steps_has_its_known_losses),
        cmocka_unit_test(test_a_blt_of_ten_billion_steps_takes_no_memory),
        cmocka_unit_test(test_a_blt_comes_back_from_its_bytes),
        cmocka_unit_test(test_a_file_with_a_bad_blt_is_refused),
        cmocka_unit_test(test_a_blt_out_of_range_is_refused),
        cmocka_unit_test(test_any_allocation_of_a_blt_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
