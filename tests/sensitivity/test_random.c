/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sensitivity against brute force on random strategies of a few steps (sensitivity_reference.h). For every kind of
 * participation the following must hold: no figure called exact is below the value that vectors reach, and none is
 * above it; no upper bound is below it; where brute force is exact, so is the answer.
 */
#include "support/sensitivity_reference.h"

#include "sensitivity/sensitivity.h"

enum { CASES = 1000, STARTS = 50 };

static int whole(uint64_t *seed, int low, int high) { /* low..high */
    int x = low + (int)((check_random(seed) + 1) / 2 * (high - low + 1));
    return x > high ? high : x;
}

/* Any kind, fitting n steps; with k >= 2 where that is possible. */
static dpmf_participation *some_participation(uint64_t *seed, int index, int n) {
    static const dpmf_participation_kind kinds[] = {DPMF_PARTICIPATION_CYCLIC, DPMF_PARTICIPATION_MIN_SEPARATION,
                                                    DPMF_PARTICIPATION_SHUFFLED, DPMF_PARTICIPATION_FULL,
                                                    DPMF_PARTICIPATION_SINGLE};
    dpmf_participation_kind kind = kinds[index % 20 == 19 ? 4 : index % 4];
    dpmf_participation *p = NULL;
    int b = whole(seed, 1, n > 1 ? n - 1 : 1), k = (n - 1) / b + 1;
    if (whole(seed, 0, 2) > 0 && b > 4) b = whole(seed, 1, 4), k = (n - 1) / b + 1; /* more picks more often */
    if (kind == DPMF_PARTICIPATION_MIN_SEPARATION) k = whole(seed, k > 2 ? 2 : k, k);
    check_ok(dpmf_participation_create(kind, n, k, b, &p));
    return p;
}

/* Lower triangular, with bands or without, of either sign or mostly positive, given dense or by bands. */
static dpmf_strategy *random_matrix(uint64_t *seed, int index, int n) {
    double matrix[144] = {0}, rows[144] = {0}, shift = index % 3 == 0 ? 0.6 : index % 3 == 1 ? 0.2 : 0;
    int w = index % 2 == 0 ? n : whole(seed, 1, n);
    dpmf_strategy *s = NULL;
    for (int t = 0; t < n; t++)
        for (int j = 0; j < w && j <= t; j++)
            matrix[t * n + t - j] = rows[t * w + j] = check_random(seed) + shift;
    if (index % 8 == 3)
        check_ok(dpmf_strategy_create_banded(n, w, rows, &s));
    else
        check_ok(dpmf_strategy_create_dense(n, matrix, &s));
    return s;
}

typedef struct tally {
    int negative, exact, upper;
    double loosest; /* upper bound over what vectors reach, squared */
} tally;

static dpmf_sensitivity compute(const dpmf_strategy *s, const dpmf_participation *p, dpmf_sensitivity_bound bound) {
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    dpmf_sensitivity found = {0};
    o.run.threads = 1;
    o.sensitivity = bound;
    check_ok(dpmf_sensitivity_compute(s, p, &o, &found));
    assert_int_equal(found.of, DPMF_SENSITIVITY_PARTICIPATION);
    assert_ptr_equal(sensitivity_method(found.method), found.method);
    return found;
}

static void compare(const dpmf_strategy *s, const dpmf_participation *p, uint64_t *seed, tally *t) {
    reference r = {.starts = STARTS, .seed = *seed};
    reference_run(&r, s, p);
    *seed = r.seed;
    dpmf_sensitivity found = compute(s, p, DPMF_BOUND_AUTO);
    double square = found.value * found.value;
    t->negative += r.negative;
    if (found.kind == DPMF_EXACT) {
        t->exact++;
        if (square < r.reached * (1 - 1e-9)) fail_msg("exact %.17g, vectors reach %.17g", square, r.reached);
        check_near(square / r.reached, 1, 1e-7);
    } else {
        assert_int_equal(found.kind, DPMF_UPPER_BOUND);
        t->upper++;
        if (square < r.reached) fail_msg("upper bound %.17g, vectors reach %.17g", square, r.reached);
        t->loosest = fmax(t->loosest, square / r.reached);
    }
    if (r.absolute_exact) check_near(square / r.absolute, 1, 1e-9);
    assert_true(square <= r.absolute * (1 + 1e-12));
}

static void test_random_matrices_are_exact_or_bounded_from_above(void **unused) {
    uint64_t seed = 1;
    tally t = {0};
    (void)unused;
    for (int i = 0; i < CASES; i++) {
        int n = whole(&seed, 1, 12);
        dpmf_strategy *s = random_matrix(&seed, i, n);
        dpmf_participation *p = some_participation(&seed, i, n);
        compare(s, p, &seed, &t);
        dpmf_strategy_free(s);
        dpmf_participation_free(p);
    }
    print_message("%d random cases, %d with negative entries of C'C on a pattern: %d exact, %d upper bounds\n", CASES,
                  t.negative, t.exact, t.upper);
    assert_int_equal(t.exact + t.upper, CASES);
    assert_true(t.negative >= 300);
    assert_true(t.upper >= 50 && t.exact >= 500); /* both are met */
    assert_true(t.loosest < 1 + 1e-4);            /* with few patterns the bound is the semidefinite one */
}

/* Toeplitz, monotone or not, of either sign; trees of any branching factor, smooth ones; FFT; all of them also repeated and normalized. */
static dpmf_strategy *some_family(uint64_t *seed, int index, int *n) {
    static const char *const names[] = {"tree", "tree-online", "tree-full", "fft", "fft-opt", "", "", "smooth-binary"};
    dpmf_strategy_options o = dpmf_strategy_options_defaults();
    int stamps = index % 3 == 0 ? whole(seed, 2, 3) : 1, length = whole(seed, 1, 12 / stamps), kind = index % 8;
    double c[12];
    dpmf_workload *a = NULL;
    dpmf_strategy *s = NULL, *repeated = NULL, *out = NULL;
    *n = stamps * length;
    for (int i = 0; i < length; i++)
        c[i] = kind == 5 ? (i == 0 ? 1 : c[i - 1] * (check_random(seed) + 1) / 2)
                         : check_random(seed) + (kind == 6 ? 0 : 1.001);
    c[0] = copysign(fmax(fabs(c[0]), 0.5), c[0]); /* the inverse of a small one exceeds what doubles can check */
    check_ok(dpmf_workload_parse("prefix", length, &a));
    if (kind < 3) o.branching = 2 + index / 8 % 4;
    if (kind < 5 || kind == 7)
        check_ok(dpmf_strategy_create(names[kind], a, &o, &s));
    else
        check_ok(dpmf_strategy_create_toeplitz(length, DPMF_TOEPLITZ, whole(seed, 1, length), c, &s));
    check_ok(dpmf_strategy_create_stamped(s, stamps, &repeated));
    if (index % 5 == 0)
        check_ok(dpmf_strategy_create_normalized(repeated, &out));
    else
        out = strategy_retain(repeated);
    dpmf_workload_free(a);
    dpmf_strategy_free(s);
    dpmf_strategy_free(repeated);
    return out;
}

static void test_random_families_are_exact_or_bounded_from_above(void **unused) {
    uint64_t seed = 2;
    tally t = {0};
    (void)unused;
    for (int i = 0; i < CASES; i++) {
        int n = 0;
        dpmf_strategy *s = some_family(&seed, i, &n);
        dpmf_participation *p = some_participation(&seed, i / 2, n);
        compare(s, p, &seed, &t);
        dpmf_strategy_free(s);
        dpmf_participation_free(p);
    }
    assert_true(t.exact >= 900);
}

/* Each bound by name: what its formula says, never below what vectors reach. */
static void test_each_bound_by_name_is_its_formula(void **unused) {
    uint64_t seed = 3;
    (void)unused;
    for (int i = 0; i < 300; i++) {
        int n = whole(&seed, 1, 12);
        dpmf_strategy *s = i % 2 ? random_matrix(&seed, i, n) : some_family(&seed, i, &n);
        dpmf_participation *p = some_participation(&seed, i, n);
        reference r = {.starts = 5, .seed = seed};
        reference_run(&r, s, p);
        seed = r.seed;
        for (int bound = DPMF_BOUND_SPECTRAL; bound <= DPMF_BOUND_SIGNS; bound++) {
            dpmf_sensitivity found = compute(s, p, (dpmf_sensitivity_bound)bound);
            double square = found.value * found.value;
            double formula = bound == DPMF_BOUND_SPECTRAL   ? r.spectral
                             : bound == DPMF_BOUND_ABSOLUTE ? r.absolute
                                                            : M_PI_2 * r.best_signs;
            assert_int_equal(found.kind, DPMF_UPPER_BOUND);
            check_near(square / formula, 1, 1e-11);
            assert_true(square >= r.reached * (1 - 1e-15));
        }
        dpmf_strategy_free(s);
        dpmf_participation_free(p);
    }
}

/*
 * Contributions of one number: the maximum over all signs and patterns, which brute force finds (up to 12 steps of a
 * pattern). Where the value for vectors is a larger one, the answer says that it is for one column alone.
 */
static void test_one_column_has_the_maximum_over_signs(void **unused) {
    uint64_t seed = 11;
    int smaller = 0, alike = 0;
    double apart = 0, gained = 1;
    (void)unused;
    for (int i = 0; i < CASES; i++) {
        int n = whole(&seed, 1, 12);
        dpmf_strategy *s = i % 4 == 0 ? some_family(&seed, i, &n) : random_matrix(&seed, i, n);
        dpmf_participation *p = some_participation(&seed, i, n);
        dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
        dpmf_sensitivity one = {0}, vectors = compute(s, p, DPMF_BOUND_AUTO);
        reference r = {.seed = seed};
        reference_run(&r, s, p);
        o.columns = 1;
        o.run.threads = i % 2 ? 1 : 3;
        check_ok(dpmf_sensitivity_compute(s, p, &o, &one));
        assert_ptr_equal(sensitivity_method(one.method), one.method);
        assert_int_equal(vectors.columns, 0);
        assert_true(one.kind == DPMF_EXACT && one.value <= vectors.value);
        assert_int_equal(one.columns, one.value < vectors.value);
        apart = fmax(apart, fabs(one.value * one.value / r.best_signs - 1));
        gained = fmin(gained, one.value / vectors.value);
        smaller += one.columns == 1;
        alike += one.columns == 0;
        dpmf_strategy_free(s);
        dpmf_participation_free(p);
    }
    print_message("one column: %d cases, %d of them below vectors, down to %.4f of them; off by %.2g\n", CASES, smaller,
                  gained, apart);
    assert_true(smaller >= 50 && alike >= 300);
    assert_true(apart < 1e-12);
}

/* Up to 20 connected steps by Gray code, against every choice of signs from its definition; beyond, a bound. */
static void test_one_column_of_many_steps_is_exact_up_to_twenty(void **unused) {
    enum { N = 24 };
    uint64_t seed = 12;
    (void)unused;
    for (int k = 13; k <= N; k += k < 17 ? 1 : k == 17 ? 3 : 4) {
        double matrix[N * N] = {0}, best = 0;
        dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
        dpmf_sensitivity one = {0}, vectors = {0};
        dpmf_strategy *s = NULL;
        dpmf_participation *full = NULL;
        for (int i = 0; i < k; i++)
            for (int j = 0; j <= i; j++)
                matrix[i * k + j] = check_random(&seed);
        check_ok(dpmf_strategy_create_dense(k, matrix, &s));
        check_ok(dpmf_participation_parse("full", k, &full));
        check_ok(dpmf_sensitivity_compute(s, full, &o, &vectors));
        o.columns = 1;
        check_ok(dpmf_sensitivity_compute(s, full, &o, &one));
        for (uint32_t code = 0; k <= 20 && code < 1u << (k - 1); code++) {
            double square = 0;
            for (int i = 0; i < k; i++) {
                double sum = 0;
                for (int j = 0; j <= i; j++)
                    sum += (code >> j & 1 ? -1 : 1) * matrix[i * k + j];
                square += sum * sum;
            }
            best = fmax(best, square);
        }
        if (k <= 20) {
            assert_true(one.kind == DPMF_EXACT && one.columns == 1 && one.value < vectors.value);
            check_near(one.value * one.value / best, 1, 1e-12);
        } else {
            assert_true(one.kind == DPMF_UPPER_BOUND && one.columns == 0 && one.value == vectors.value);
        }
        dpmf_strategy_free(s);
        dpmf_participation_free(full);
    }
}

/* ---- the bounds that small cases do not need, asked for directly ---- */

static void open_task(const dpmf_strategy *s, const dpmf_participation *p, const dpmf_run *run,
                      sensitivity_task *task) {
    *task = (sensitivity_task){.strategy = s,
                               .pattern = p->pattern,
                               .n = dpmf_strategy_get(s).steps,
                               .k = dpmf_participation_get(p).count,
                               .b = dpmf_participation_get(p).separation,
                               .run = run};
    check_ok(sensitivity_task_open(task));
    check_ok(base_pool_create(1, &task->pool));
}

static void test_every_route_bounds_what_vectors_reach(void **unused) {
    uint64_t seed = 4;
    const dpmf_run run = dpmf_run_defaults();
    double sum = 0;
    int count = 0;
    (void)unused;
    for (int i = 0; i < 400; i++) {
        int n = whole(&seed, 2, 12), there = 0;
        dpmf_strategy *s = i % 2 ? random_matrix(&seed, i, n) : some_family(&seed, i, &n);
        dpmf_participation *p = some_participation(&seed, 1 + i / 2 % 2, n); /* min-separation, shuffled */
        sensitivity_task task;
        open_task(s, p, &run, &task);
        if (task.k >= 2) {
            sensitivity_found rows = SENSITIVITY_NOT_FOUND, distance = rows, norms = rows, monotone = rows,
                              tried = rows;
            reference r = {.starts = 5, .seed = seed};
            reference_run(&r, s, p);
            check_ok(sensitivity_bound_rows(&task, &rows));
            check_ok(sensitivity_bound_distance(&task, &distance));
            check_ok(sensitivity_bound_norms(&task, &norms));
            check_ok(sensitivity_monotone(&task, &monotone));
            check_ok(sensitivity_enumerate(&task, &there, &tried));
            double least = r.absolute * (1 - 1e-13); /* they all bound the sum of |X| */
            assert_true(rows.square >= least && distance.square >= least && norms.square >= least);
            assert_true(monotone.square < 0 || monotone.square >= least);
            assert_true(rows.square <= distance.square * (1 + 1e-13));
            assert_true(there && tried.square <= r.absolute * (1 + 1e-13) && tried.square >= r.reached * (1 - 1e-13));
            if (monotone.kind == DPMF_EXACT) check_near(monotone.square / r.reached, 1, 1e-9);
            sum += sqrt(rows.square / r.reached);
            count++;
        }
        sensitivity_task_close(&task);
        base_pool_free(task.pool);
        dpmf_strategy_free(s);
        dpmf_participation_free(p);
    }
    print_message("rows of |C'C|: on average %.3f of what vectors reach, %d cases\n", sum / count, count);
    assert_true(count > 200 && sum / count < 1.3);
}

/* Epochs longer than are looked at step by step: places taken together bound what each of them gives, and not far
 * above. */
static void test_places_taken_together_bound_each_of_them(void **unused) {
    enum { N = 1000 };
    const dpmf_run run = dpmf_run_defaults();
    double c[N];
    dpmf_strategy *s = NULL;
    dpmf_participation *p = NULL;
    sensitivity_task task;
    sensitivity_found places = SENSITIVITY_NOT_FOUND, rows = SENSITIVITY_NOT_FOUND;
    (void)unused;
    for (int i = 0; i < N; i++)
        c[i] = 1 / sqrt(1 + i);
    check_ok(dpmf_strategy_create_toeplitz(N, DPMF_TOEPLITZ, N, c, &s));
    check_ok(dpmf_participation_parse("shuffled:4,260", N, &p));
    open_task(s, p, &run, &task);
    check_ok(sensitivity_monotone(&task, &places));
    check_ok(sensitivity_bound_rows(&task, &rows));
    assert_true(places.square >= rows.square * (1 - 1e-13) && places.square < rows.square * 1.01);
    sensitivity_task_close(&task);
    base_pool_free(task.pool);
    dpmf_strategy_free(s);
    dpmf_participation_free(p);
}

/* With less work and memory allowed, other routes are taken, and the same properties hold. */
static void test_less_work_and_memory_still_gives_bounds(void **unused) {
    uint64_t seed = 7;
    const dpmf_run run = dpmf_run_defaults();
    int exact = 0, upper = 0;
    (void)unused;
    for (int i = 0; i < 1500; i++) {
        int n = whole(&seed, 2, 12);
        dpmf_strategy *s = i % 2 ? random_matrix(&seed, i, n) : some_family(&seed, i, &n);
        dpmf_participation *p = some_participation(&seed, i / 4, n);
        sensitivity_task task;
        open_task(s, p, &run, &task);
        task.work_max = pow(10, whole(&seed, 0, 5));
        task.search_max = pow(10, whole(&seed, 0, 6));
        task.bytes_max = (int64_t)8 << whole(&seed, 0, 10);
        if (task.k >= 2) {
            sensitivity_found found = SENSITIVITY_NOT_FOUND;
            reference r = {.starts = 5, .seed = seed};
            reference_run(&r, s, p);
            if (task.pattern == WORKLOAD_APART)
                check_ok(sensitivity_separated(&task, &found));
            else if (task.pattern == WORKLOAD_EPOCHS)
                check_ok(sensitivity_shuffled(&task, &found));
            else
                check_ok(sensitivity_cyclic(&task, &found));
            if (found.kind == DPMF_EXACT) check_near(found.square / r.reached, 1, 1e-7);
            assert_true(found.square >= r.reached * (1 - 1e-13));
            exact += found.kind == DPMF_EXACT;
            upper += found.kind == DPMF_UPPER_BOUND;
        }
        sensitivity_task_close(&task);
        base_pool_free(task.pool);
        dpmf_strategy_free(s);
        dpmf_participation_free(p);
    }
    assert_true(exact > 300 && upper > 300);
}

/*
 * A ring of k steps, each coupled with the next by 1 but the last with the first by -1: no signs satisfy all of them,
 * and the best vectors turn by pi/k from each to the next, f = 2k + 2k cos(pi/k). The ascent is slow to find that, and
 * its bound must hold wherever it stops.
 */
static void test_the_ascent_bounds_a_frustrated_ring(void **unused) {
    static const int sizes[] = {3, 4, 10, 50, 200};
    int short_of = 0;
    (void)unused;
    for (int i = 0; i < 5; i++) {
        int k = sizes[i];
        double truth = 2 * k + 2 * k * cos(M_PI / k), low = 0, high = 0, spectral = 0;
        double *x = calloc((size_t)(k * k), sizeof *x), *work = malloc((size_t)(k * k + k) * sizeof *work);
        double *vectors = malloc((size_t)(sensitivity_ascent_room(k) + k) * sizeof *vectors);
        sensitivity_found found;
        for (int t = 0; t < k; t++) {
            int next = (t + 1) % k;
            x[t * k + t] = 2;
            x[t * k + next] = x[next * k + t] = next == 0 ? -1 : 1;
        }
        check_ok(sensitivity_ascent(k, x, work, vectors, vectors + sensitivity_ascent_room(k), &low, &high));
        assert_true(low <= truth * (1 + 1e-14) && high >= truth);
        check_near(high / truth, 1, 1e-3);
        short_of += low < truth * (1 - 1e-13);
        check_ok(
            sensitivity_pattern_spectral(k, x, work, &spectral)); /* here the bound of the eigenvalue is attained */
        assert_true(spectral >= truth);
        check_near(spectral / truth, 1, 1e-11);
        check_ok(sensitivity_pattern_evaluate(k, x, DPMF_BOUND_AUTO, &found));
        assert_true(found.kind == DPMF_UPPER_BOUND && found.square >= truth);
        check_near(found.square / truth, 1, 1e-8);
        free(x);
        free(work);
        free(vectors);
    }
    assert_true(short_of > 0); /* some ascent was stopped, else this would show little */
}

/* Many patterns: batches of the search, with negative entries everywhere. */
static void test_many_patterns_with_negative_entries_are_searched(void **unused) {
    enum { N = 600 };
    uint64_t seed = 5;
    double c[N];
    dpmf_strategy *plain = NULL, *s = NULL;
    dpmf_participation *p = NULL;
    tally t = {0};
    (void)unused;
    for (int i = 0; i < N; i++)
        c[i] = 0.02 * check_random(&seed); /* so small that the inverse does not grow */
    c[0] = 1;
    check_ok(dpmf_strategy_create_toeplitz(N, DPMF_TOEPLITZ, N, c, &plain));
    check_ok(dpmf_strategy_create_normalized(plain, &s));
    check_ok(dpmf_participation_parse("cyclic:4,150", N, &p));
    compare(s, p, &seed, &t);
    compare(plain, p, &seed, &t);
    assert_int_equal(t.negative, 2);
    dpmf_strategy_free(plain);
    dpmf_strategy_free(s);
    dpmf_participation_free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_matrices_are_exact_or_bounded_from_above),
        cmocka_unit_test(test_random_families_are_exact_or_bounded_from_above),
        cmocka_unit_test(test_each_bound_by_name_is_its_formula),
        cmocka_unit_test(test_one_column_has_the_maximum_over_signs),
        cmocka_unit_test(test_one_column_of_many_steps_is_exact_up_to_twenty),
        cmocka_unit_test(test_every_route_bounds_what_vectors_reach),
        cmocka_unit_test(test_places_taken_together_bound_each_of_them),
        cmocka_unit_test(test_less_work_and_memory_still_gives_bounds),
        cmocka_unit_test(test_the_ascent_bounds_a_frustrated_ring),
        cmocka_unit_test(test_many_patterns_with_negative_entries_are_searched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
