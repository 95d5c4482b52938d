/* SPDX-License-Identifier: Apache-2.0 */
/* Sensitivity: adjacency, refusals; on every path threads, cancelling and failing allocations; memory. */
#include "support/failing_allocator.h"
#include "support/sensitivity_cases.h"

#include "sensitivity/sensitivity.h"

#include <math.h>

static void test_replacing_a_unit_doubles_the_sensitivity(void **unused) {
    dpmf_strategy *s = random_dense(30, 0, 1);
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    double value = compute_with(s, "cyclic:3,10", o).value;
    (void)unused;
    o.adjacency = DPMF_ADJACENCY_ADD_REMOVE;
    assert_true(compute_with(s, "cyclic:3,10", o).value == value);
    o.adjacency = DPMF_ADJACENCY_REPLACE_ONE;
    assert_true(compute_with(s, "cyclic:3,10", o).value == 2 * value);
    assert_true(compute_with(s, "single", o).value == 2 * compute(s, "single", DPMF_BOUND_AUTO).value);
    dpmf_strategy_free(s);
}

static void test_bounds_that_cannot_be_had_are_refused(void **unused) {
    dpmf_strategy *s = family("tree-online", 1000, 1, 0);
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    dpmf_sensitivity found = {0};
    (void)unused;
    o.sensitivity = DPMF_BOUND_SIGNS;
    check_fails(DPMF_ERROR_ARGUMENT, status_of(s, "cyclic:25,40", o));
    check_message("25 participations, accepted up to 20");
    check_ok(status_of(s, "cyclic:20,50", o));
    o.sensitivity = DPMF_BOUND_SPECTRAL;
    check_fails(DPMF_ERROR_UNSUPPORTED, status_of(s, "minsep:10,50", o));
    check_message("too many to try");
    check_fails(DPMF_ERROR_UNSUPPORTED, status_of(s, "shuffled:10,100", o));
    check_ok(status_of(s, "cyclic:20,50", o));
    o.sensitivity = (dpmf_sensitivity_bound)4;
    check_fails(DPMF_ERROR_ARGUMENT, status_of(s, "single", o));
    o = dpmf_evaluate_options_defaults();
    o.run.threads = -1;
    check_fails(DPMF_ERROR_ARGUMENT, status_of(s, "cyclic:20,50", o));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_sensitivity_compute(NULL, NULL, NULL, &found));
    dpmf_participation *other = NULL;
    check_ok(dpmf_participation_parse("single", 999, &other));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_sensitivity_compute(s, other, NULL, &found));
    dpmf_participation_free(other);
    o = dpmf_evaluate_options_defaults();
    o.adjacency = (dpmf_adjacency)3;
    check_fails(DPMF_ERROR_ARGUMENT, status_of(s, "single", o));
    dpmf_strategy_free(s);
    /* too large for a double: an error, not a figure */
    for (int i = 0; i < 2; i++) {
        const double x = i == 0 ? 1e160 : 9e153, huge[4] = {x, 0, x, x}; /* entries of X, or their sum */
        s = dense(2, huge);
        check_fails(DPMF_ERROR_NUMERICAL, status_of(s, "full", dpmf_evaluate_options_defaults()));
        dpmf_strategy_free(s);
    }
    assert_null(sensitivity_method("guessed"));
    assert_string_equal(sensitivity_method("largest column norm"), "largest column norm");
}

/* ---- every path: threads, cancelling, failing allocations ---- */

typedef struct path {
    const char *participation;
    dpmf_sensitivity_bound bound;
    const char *name; /* of a family of 48 steps; NULL: random and dense */
    int64_t stamps, bands;
    int normalize;
} path;

static const path PATHS[] = {
    {"cyclic:4,12", DPMF_BOUND_AUTO, NULL, 0, 0, 0},        {"cyclic:4,12", DPMF_BOUND_SPECTRAL, NULL, 0, 0, 0},
    {"cyclic:4,12", DPMF_BOUND_SIGNS, NULL, 0, 0, 0},       {"full", DPMF_BOUND_AUTO, NULL, 0, 0, 0},
    {"minsep:4,5", DPMF_BOUND_AUTO, NULL, 0, 5, 0},         {"minsep:4,5", DPMF_BOUND_AUTO, NULL, 0, 9, 0},
    {"minsep:3,12", DPMF_BOUND_AUTO, NULL, 0, 0, 0},        {"minsep:9,3", DPMF_BOUND_AUTO, NULL, 0, 0, 0},
    {"minsep:9,3", DPMF_BOUND_ABSOLUTE, NULL, 0, 8, 0},     {"shuffled:8,6", DPMF_BOUND_AUTO, NULL, 0, 7, 0},
    {"shuffled:8,6", DPMF_BOUND_AUTO, NULL, 0, 0, 0},       {"shuffled:4,12", DPMF_BOUND_AUTO, "toeplitz", 2, 0, 0},
    {"minsep:6,7", DPMF_BOUND_AUTO, "toeplitz", 1, 0, 1},   {"minsep:6,7", DPMF_BOUND_AUTO, "tree-online", 2, 0, 0},
    {"shuffled:8,6", DPMF_BOUND_AUTO, "tree", 1, 0, 0},     {"cyclic:4,12", DPMF_BOUND_AUTO, "tree", 1, 0, 1},
    {"cyclic:4,12", DPMF_BOUND_AUTO, "fft", 1, 0, 0},       {"minsep:6,7", DPMF_BOUND_AUTO, "fft", 1, 0, 1},
    {"shuffled:8,6", DPMF_BOUND_AUTO, "toeplitz", 1, 0, 1}, {"cyclic:4,12", DPMF_BOUND_AUTO, "operator", 1, 0, 0},
    {"minsep:6,7", DPMF_BOUND_AUTO, "operator", 1, 0, 0},
};
enum { PATH_COUNT = sizeof PATHS / sizeof PATHS[0] };

static dpmf_strategy *path_strategy(const path *x) {
    static filter f = {.count = 12, .c = {1, -0.7, 0.4, 0.9, -0.5, 0.2, 0.3, -0.8, 0.1, 0.6, -0.4, 0.5}};
    const dpmf_operator operator_ = {&f, 11, filter_step, NULL};
    dpmf_strategy *s = NULL;
    if (x->name != NULL && strcmp(x->name, "operator") == 0) {
        check_ok(dpmf_strategy_create_operator(48, &operator_, 0, &s));
        return s;
    }
    return x->name != NULL ? family(x->name, 48, x->stamps, x->normalize) : random_dense(48, x->bands, 9);
}

static int stop_at(void *context, const char *what, double done) {
    int64_t *left = context;
    assert_non_null(what);
    assert_true(done <= 1);
    return --*left == 0;
}

static void test_every_path_survives_threads_stops_and_lost_memory(void **unused) {
    (void)unused;
    for (int i = 0; i < PATH_COUNT; i++) {
        const path *x = &PATHS[i];
        dpmf_strategy *s = path_strategy(x);
        dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
        o.sensitivity = x->bound;
        o.run.threads = 1;
        double value = compute_with(s, x->participation, o).value;
        for (int threads = 2; threads <= 4; threads++) { /* the same bits for any number of threads */
            o.run.threads = threads;
            assert_true(compute_with(s, x->participation, o).value == value);
        }
        const uint64_t before = dpmf_memory_in_use();
        for (int64_t at = 1;; at++) { /* cancelled at each call in turn */
            int64_t left = at;
            o.run.progress = stop_at;
            o.run.context = &left;
            dpmf_status status = status_of(s, x->participation, o);
            assert_true(dpmf_memory_in_use() == before);
            if (status == DPMF_OK) break;
            assert_int_equal(status, DPMF_ERROR_CANCELLED);
        }
        o.run = (dpmf_run){.threads = 1};
        dpmf_participation *p = NULL;
        dpmf_sensitivity found = {0};
        check_ok(dpmf_participation_parse(x->participation, 48, &p));
        FAIL_EACH(dpmf_sensitivity_compute(s, p, &o, &found));
        assert_true(found.value == value);
        dpmf_participation_free(p);
        dpmf_strategy_free(s);
    }
}

/* ---- a million steps ---- */

typedef struct meter {
    size_t now, peak;
} meter;

/* Each block begins with its size. */
static void *meter_allocate(void *context, size_t bytes) {
    meter *m = context;
    size_t *block = malloc(bytes + 64);
    if (block == NULL) return NULL;
    *block = bytes;
    size_t now = __atomic_add_fetch(&m->now, bytes, __ATOMIC_RELAXED),
           peak = __atomic_load_n(&m->peak, __ATOMIC_RELAXED);
    while (now > peak && !__atomic_compare_exchange_n(&m->peak, &peak, now, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
    return (char *)block + 64;
}

static void meter_release(void *context, void *memory) {
    meter *m = context;
    size_t *block = (size_t *)(void *)((char *)memory - 64);
    __atomic_sub_fetch(&m->now, *block, __ATOMIC_RELAXED);
    free(block);
}

static void test_a_million_steps_fit_in_memory(void **unused) {
    enum { N = 1000000 };
    static const struct {
        const char *name, *participation;
        int normalize;
        dpmf_certainty kind;
    } table[] = {
        {"tree-online", "cyclic:10,100000", 0, DPMF_EXACT}, {"toeplitz", "cyclic:10,100000", 0, DPMF_EXACT},
        {"toeplitz", "minsep:10,100000", 0, DPMF_EXACT},    {"tree-online", "shuffled:10,100000", 0, DPMF_EXACT},
        {"tree", "minsep:10,100000", 0, DPMF_UPPER_BOUND},  {"toeplitz", "cyclic:10,100000", 1, DPMF_EXACT}};
    meter m = {0};
    const dpmf_allocator hook = {meter_allocate, meter_release, &m};
    (void)unused;
    dpmf_memory_set_allocator(&hook);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        dpmf_workload *a = NULL;
        dpmf_participation *p = NULL;
        dpmf_evaluation e;
        check_ok(dpmf_workload_parse("prefix", N, &a));
        check_ok(dpmf_participation_parse(table[i].participation, N, &p));
        dpmf_strategy *s = family(table[i].name, N, 1, table[i].normalize);
        if (i < 2) { /* the whole evaluation */
            check_ok(dpmf_evaluate(a, p, s, NULL, &e, NULL));
        } else {
            check_ok(dpmf_sensitivity_compute(s, p, NULL, &e.sensitivity));
        }
        assert_int_equal(e.sensitivity.kind, table[i].kind);
        assert_true(e.sensitivity.value > sqrt(10) && e.sensitivity.value < 25);
        dpmf_workload_free(a);
        dpmf_participation_free(p);
        dpmf_strategy_free(s);
    }
    dpmf_memory_set_allocator(NULL);
    assert_int_equal(m.now, 0);
    print_message("a million steps: at most %zu MiB in use\n", m.peak >> 20);
    assert_true(m.peak < (size_t)400 << 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replacing_a_unit_doubles_the_sensitivity),
        cmocka_unit_test(test_bounds_that_cannot_be_had_are_refused),
        cmocka_unit_test(test_every_path_survives_threads_stops_and_lost_memory),
        cmocka_unit_test(test_a_million_steps_fit_in_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
