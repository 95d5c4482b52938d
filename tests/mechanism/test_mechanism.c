/* SPDX-License-Identifier: Apache-2.0 */
/* Mechanisms and their file: everything comes back, any change is noticed, every allocation may fail. */
#include "mechanism/mechanism.h"
#include "support/check.h"
#include "support/failing_allocator.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N = 24, BANDS = 3 };

static double rates[N], weights[N], rows[N * BANDS], matrix[N * N], coefficients[N];

static int fill_arrays(void **unused) {
    uint64_t seed = 31;
    (void)unused;
    for (int t = 0; t < N; t++) {
        rates[t] = 1 + 0.5 * check_random(&seed);
        weights[t] = 1 + check_random(&seed);
        coefficients[t] = pow(0.8, t);
        for (int j = 0; j <= t; j++) {
            double x = t == t - j ? 2 : 0.3 * check_random(&seed);
            matrix[t * N + t - j] = x;
            if (j < BANDS) rows[t * BANDS + j] = x;
        }
    }
    return 0;
}

enum { KINDS = 16 };

/* One mechanism of each representation, with every optional part used by some. */
static dpmf_mechanism *make(int kind) {
    static const char *const families[] = {"identity", "workload", "toeplitz", "bsr", "bisr"};
    static const char *const more[] = {"tree", "tree-online", "tree-full", "fft", "fft-opt", "tree-online", "fft"};
    dpmf_workload *a = NULL;
    dpmf_strategy *c = NULL, *unit = NULL;
    dpmf_mechanism *m = NULL;
    dpmf_participation *p = NULL;
    dpmf_mechanism_options o = dpmf_mechanism_options_defaults();
    dpmf_workload_options w = dpmf_workload_options_defaults();
    dpmf_strategy_options s = dpmf_strategy_options_defaults();
    o.made_by = "closed form: \"σ\" \\ test";
    s.bands = kind == 3 || kind == 4 ? BANDS : 0;
    if (kind == 8)
        check_ok(dpmf_workload_create_dense(N, matrix, &a));
    else if (kind % 2 == 0)
        check_ok(dpmf_workload_parse("momentum:0.9,cooldown:0.25:0.05", N, &a));
    else {
        w.nesterov = 1;
        w.momentum = 0.5;
        w.decay = 0.125;
        w.learning_rate = rates;
        check_ok(dpmf_workload_create(N, &w, &a));
    }
    if (kind < 5)
        check_ok(dpmf_strategy_create(families[kind], a, &s, &c));
    else if (kind == 5)
        check_ok(dpmf_strategy_create_banded(N, BANDS, rows, &c));
    else if (kind == 6)
        check_ok(dpmf_strategy_create_dense(N, matrix, &c));
    else if (kind == 7)
        check_ok(dpmf_strategy_create_toeplitz(N, DPMF_TOEPLITZ, 6, coefficients, &c));
    else if (kind == 8)
        check_ok(dpmf_strategy_create("workload", a, &s, &c));
    else {
        s.stamps = kind % 2 == 0 ? 4 : 1;
        check_ok(dpmf_strategy_create(more[kind - 9], a, &s, &c));
    }
    if (kind % 3 == 1) {
        check_ok(dpmf_strategy_create_normalized(c, &unit));
        o.sigma = 0.1 + kind / 3.0;
        o.evaluate.adjacency = DPMF_ADJACENCY_REPLACE_ONE;
    }
    if (kind % 3 == 2) {
        o.evaluate.weights = weights;
        check_ok(dpmf_participation_parse("minsep:1,5", N, &p));
    }
    if (kind == 12 || kind == 15) check_ok(dpmf_participation_parse("cyclic:3,8", N, &p));
    if (kind == 15) o.evaluate.sensitivity = DPMF_BOUND_SPECTRAL;
    if (kind == 5) o.evaluate.lower_bound = DPMF_LOWER_BOUND_NONE;
    check_ok(dpmf_mechanism_create(a, p, unit == NULL ? c : unit, &o, &m));
    dpmf_workload_free(a);
    dpmf_strategy_free(c);
    dpmf_strategy_free(unit);
    dpmf_participation_free(p);
    return m;
}

static void assert_same(const dpmf_mechanism *a, const dpmf_mechanism *b) {
    dpmf_evaluation ea = dpmf_mechanism_get(a).evaluation, eb = dpmf_mechanism_get(b).evaluation;
    const dpmf_strategy *sa = dpmf_mechanism_get(a).strategy, *sb = dpmf_mechanism_get(b).strategy;
    double x[3 * N], ya[N], yb[N], za[N], zb[N];
    uint64_t seed = 41;
    assert_in_range(dpmf_strategy_get(sa).rows, N, 3 * N);
    for (int t = 0; t < 3 * N; t++)
        x[t] = check_random(&seed);
    assert_string_equal(dpmf_mechanism_get(a).digest, dpmf_mechanism_get(b).digest);
    assert_string_equal(dpmf_strategy_get(sa).family, dpmf_strategy_get(sb).family);
    assert_int_equal(dpmf_strategy_get(sa).is_normalized, dpmf_strategy_get(sb).is_normalized);
    assert_string_equal(dpmf_workload_get(dpmf_mechanism_get(a).workload).text,
                        dpmf_workload_get(dpmf_mechanism_get(b).workload).text);
    assert_string_equal(dpmf_participation_get(dpmf_mechanism_get(a).participation).text,
                        dpmf_participation_get(dpmf_mechanism_get(b).participation).text);
    assert_string_equal(dpmf_mechanism_get(a).made_by, dpmf_mechanism_get(b).made_by);
    assert_true(dpmf_mechanism_get(a).sigma == dpmf_mechanism_get(b).sigma);
    assert_int_equal(dpmf_mechanism_get(a).adjacency, dpmf_mechanism_get(b).adjacency);
    assert_true(ea.rms_loss == eb.rms_loss && ea.max_loss == eb.max_loss);
    assert_true(ea.total_squared_loss == eb.total_squared_loss && ea.sensitivity.value == eb.sensitivity.value);
    assert_ptr_equal(ea.sensitivity.method, eb.sensitivity.method);
    assert_int_equal(ea.sensitivity.kind, eb.sensitivity.kind);
    assert_int_equal(dpmf_mechanism_get(a).sensitivity_bound, dpmf_mechanism_get(b).sensitivity_bound);
    assert_true(ea.lower_bound.rms_loss == eb.lower_bound.rms_loss);
    assert_true(ea.lower_bound.max_loss == eb.lower_bound.max_loss);
    assert_ptr_equal(ea.lower_bound.scope, eb.lower_bound.scope);
    assert_int_equal(dpmf_strategy_get(sa).stamps, dpmf_strategy_get(sb).stamps);
    assert_int_equal(dpmf_strategy_get(sa).rows, dpmf_strategy_get(sb).rows);
    assert_int_equal(dpmf_mechanism_get(a).weights == NULL, dpmf_mechanism_get(b).weights == NULL);
    if (dpmf_mechanism_get(a).weights != NULL)
        assert_memory_equal(dpmf_mechanism_get(a).weights, dpmf_mechanism_get(b).weights, sizeof weights);
    check_ok(dpmf_strategy_solve(sa, x, ya));
    check_ok(dpmf_strategy_solve(sb, x, yb));
    assert_memory_equal(ya, yb, sizeof ya); /* the same noise, to the bit */
    check_ok(dpmf_workload_apply(dpmf_mechanism_get(a).workload, x, za));
    check_ok(dpmf_workload_apply(dpmf_mechanism_get(b).workload, x, zb));
    assert_memory_equal(za, zb, sizeof za);
}

static void test_every_kind_of_mechanism_comes_back(void **unused) {
    char folder[] = "/tmp/dpmf_mechanism_XXXXXX", path[80];
    (void)unused;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/m.dpmf", folder);
    for (int kind = 0; kind < KINDS; kind++) {
        dpmf_mechanism *m = make(kind), *again = NULL, *decoded = NULL;
        uint8_t *bytes = NULL, *second = NULL;
        size_t size = 0, second_size = 0;
        struct stat info;
        assert_int_equal(strlen(dpmf_mechanism_get(m).digest), 64);
        check_ok(dpmf_mechanism_save(m, path));
        check_ok(dpmf_mechanism_load(path, &again));
        assert_same(m, again);
        check_ok(dpmf_mechanism_encode(m, &bytes, &size));
        assert_int_equal(stat(path, &info), 0);
        assert_int_equal(info.st_size, size);
        check_ok(dpmf_mechanism_decode(bytes, size, &decoded));
        check_ok(dpmf_mechanism_encode(decoded, &second, &second_size));
        assert_int_equal(size, second_size);
        assert_memory_equal(bytes, second, size);
        dpmf_mechanism_free(decoded);
        decoded = NULL;
        uint8_t *odd = malloc(size + 1); /* bytes at any address */
        memcpy(odd + 1, bytes, size);
        check_ok(dpmf_mechanism_decode(odd + 1, size, &decoded));
        free(odd);
        dpmf_bytes_free(bytes);
        dpmf_bytes_free(second);
        dpmf_mechanism_free(m);
        dpmf_mechanism_free(again);
        dpmf_mechanism_free(decoded);
    }
    unlink(path);
    assert_int_equal(rmdir(folder), 0); /* nothing else was left there */
}

static dpmf_status copied(const dpmf_mechanism *m, dpmf_mechanism **out) {
    uint8_t *bytes = NULL;
    size_t size = 0;
    check_ok(dpmf_mechanism_encode(m, &bytes, &size));
    dpmf_status status = dpmf_mechanism_decode(bytes, size, out);
    dpmf_bytes_free(bytes);
    return status;
}

/* Files with the right digest whose lower bound or sensitivity no version writes. */
static void test_bounds_that_no_version_writes_are_refused(void **unused) {
    dpmf_mechanism *m = make(14), *other = NULL;
    const dpmf_evaluation good = m->problem.evaluation;
    (void)unused;
    assert_non_null(good.lower_bound.scope);
    for (int i = 0; i < 7; i++) {
        m->problem.evaluation = good;
        m->bound = i == 6 ? (dpmf_sensitivity_bound)7 : DPMF_BOUND_AUTO;
        if (i == 0) m->problem.evaluation.lower_bound.scope = "any mechanism: trust me";
        if (i == 1) m->problem.evaluation.lower_bound.scope = "";
        if (i == 2) m->problem.evaluation.lower_bound.rms_loss = 0;
        if (i == 3) m->problem.evaluation.lower_bound.max_loss = -1;
        if (i == 4) m->problem.evaluation.sensitivity.method = "trust me";
        if (i == 5) m->problem.evaluation.sensitivity.kind = (dpmf_certainty)9;
        check_ok(mechanism_finish(m));
        check_fails(DPMF_ERROR_FORMAT, copied(m, &other));
        assert_null(other);
    }
    m->problem.evaluation = good;
    m->bound = DPMF_BOUND_AUTO;
    m->problem.evaluation.lower_bound = (dpmf_lower_bound){0}; /* none: that is fine */
    check_ok(mechanism_finish(m));
    check_ok(copied(m, &other));
    assert_null(dpmf_mechanism_get(other).evaluation.lower_bound.scope);
    dpmf_mechanism_free(other);
    dpmf_mechanism_free(m);
}

/* Every byte, changed in three ways; every shorter file; one longer. */
static void test_any_change_of_a_file_is_noticed(void **unused) {
    static const int kinds[] = {1, 5, 7};
    (void)unused;
    for (int i = 0; i < 3; i++) {
        dpmf_mechanism *m = make(kinds[i]), *other = NULL;
        uint8_t *bytes = NULL, *copy = NULL;
        size_t size = 0;
        check_ok(dpmf_mechanism_encode(m, &bytes, &size));
        copy = calloc(size + 1, 1);
        memcpy(copy, bytes, size);
        for (size_t at = 0; at < size; at++) {
            static const uint8_t masks[] = {0x01, 0x20, 0xff};
            for (int k = 0; k < 3; k++) {
                copy[at] ^= masks[k];
                assert_int_not_equal(dpmf_mechanism_decode(copy, size, &other), DPMF_OK);
                copy[at] ^= masks[k];
            }
        }
        for (size_t shorter = 0; shorter < size; shorter++)
            assert_int_not_equal(dpmf_mechanism_decode(copy, shorter, &other), DPMF_OK);
        assert_int_not_equal(dpmf_mechanism_decode(copy, size + 1, &other), DPMF_OK);
        check_ok(dpmf_mechanism_decode(copy, size, &other));
        dpmf_mechanism_free(other);
        free(copy);
        dpmf_bytes_free(bytes);
        dpmf_mechanism_free(m);
    }
}

/* Mechanisms that differ in anything have different digests. */
static void test_the_digest_tells_apart_whatever_differs(void **unused) {
    dpmf_workload *a = NULL;
    dpmf_strategy *c = NULL, *d = NULL;
    dpmf_mechanism *m[5] = {0};
    dpmf_mechanism_options o = dpmf_mechanism_options_defaults();
    (void)unused;
    check_ok(dpmf_workload_parse("prefix", N, &a));
    check_ok(dpmf_strategy_create_banded(N, BANDS, rows, &c));
    check_ok(dpmf_mechanism_create(a, NULL, c, &o, &m[0]));
    check_ok(dpmf_mechanism_create(a, NULL, c, &o, &m[1]));
    assert_string_equal(dpmf_mechanism_get(m[0]).digest, dpmf_mechanism_get(m[1]).digest);
    o.sigma = 1;
    check_ok(dpmf_mechanism_create(a, NULL, c, &o, &m[2]));
    o.sigma = 1 + 0x1p-52;
    check_ok(dpmf_mechanism_create(a, NULL, c, &o, &m[3]));
    double kept = rows[N * BANDS - 1];
    rows[N * BANDS - 1] *= 1 + 1e-15;
    check_ok(dpmf_strategy_create_banded(N, BANDS, rows, &d));
    rows[N * BANDS - 1] = kept;
    check_ok(dpmf_mechanism_create(a, NULL, d, &o, &m[4]));
    for (int i = 1; i < 5; i++)
        for (int j = i + 1; j < 5; j++)
            assert_string_not_equal(dpmf_mechanism_get(m[i]).digest, dpmf_mechanism_get(m[j]).digest);
    for (int i = 0; i < 5; i++)
        dpmf_mechanism_free(m[i]);
    dpmf_strategy_free(c);
    dpmf_strategy_free(d);
    dpmf_workload_free(a);
}

/* The same bytes for any number of threads. */
static void test_a_mechanism_has_the_same_bytes_for_any_threads(void **unused) {
    uint8_t *bytes[3] = {0};
    size_t size[3] = {0};
    dpmf_workload *a = NULL;
    dpmf_strategy *c = NULL;
    dpmf_strategy_options o = dpmf_strategy_options_defaults();
    (void)unused;
    o.column_normalize = 1;
    check_ok(dpmf_workload_parse("momentum:0.9", 1000, &a));
    check_ok(dpmf_strategy_create("toeplitz", a, &o, &c));
    for (int i = 0; i < 3; i++) {
        dpmf_mechanism *m = NULL;
        dpmf_mechanism_options options = dpmf_mechanism_options_defaults();
        options.evaluate.run.threads = i + 1;
        check_ok(dpmf_mechanism_create(a, NULL, c, &options, &m));
        check_ok(dpmf_mechanism_encode(m, &bytes[i], &size[i]));
        assert_int_equal(size[i], size[0]);
        assert_memory_equal(bytes[i], bytes[0], size[0]);
        dpmf_mechanism_free(m);
    }
    for (int i = 0; i < 3; i++)
        dpmf_bytes_free(bytes[i]);
    dpmf_strategy_free(c);
    dpmf_workload_free(a);
}

/* Evaluate, save, load, free: one status for the whole cycle. */
static dpmf_status cycle(int kind, const char *path) {
    dpmf_workload *a = NULL;
    dpmf_strategy *c = NULL, *unit = NULL;
    dpmf_mechanism *m = NULL, *again = NULL;
    dpmf_mechanism_options o = dpmf_mechanism_options_defaults();
    dpmf_strategy_options s = dpmf_strategy_options_defaults();
    o.evaluate.weights = weights;
    o.evaluate.run.threads = 1;
    s.bands = BANDS;
    dpmf_status status = dpmf_workload_parse("momentum:0.5,decay:0.1,cooldown:0.5:0.1", N, &a);
    if (status == DPMF_OK) {
        if (kind == 0)
            status = dpmf_strategy_create("bsr", a, &s, &c);
        else if (kind == 1)
            status = dpmf_strategy_create_dense(N, matrix, &c);
        else
            status = dpmf_strategy_create("workload", a, NULL, &c);
    }
    if (status == DPMF_OK) status = dpmf_strategy_create_normalized(c, &unit);
    if (status == DPMF_OK) status = dpmf_mechanism_create(a, NULL, unit, &o, &m);
    if (status == DPMF_OK) status = dpmf_mechanism_save(m, path);
    if (status == DPMF_OK) status = dpmf_mechanism_load(path, &again);
    dpmf_workload_free(a);
    dpmf_strategy_free(c);
    dpmf_strategy_free(unit);
    dpmf_mechanism_free(m);
    dpmf_mechanism_free(again);
    return status;
}

static void test_any_allocation_of_a_mechanism_may_fail(void **unused) {
    char folder[] = "/tmp/dpmf_alloc_XXXXXX", path[80];
    (void)unused;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/m.dpmf", folder);
    for (int kind = 0; kind < 3; kind++)
        FAIL_EACH(cycle(kind, path));
    unlink(path);
    assert_int_equal(rmdir(folder), 0);
}

static void identity_step(void *context, int64_t t, int64_t count, const double *x, double *state, double *y) {
    (void)context, (void)t, (void)state;
    memcpy(y, x, (size_t)count * sizeof *y);
}

static void test_bad_sigmas_and_texts_and_operators_are_refused(void **unused) {
    dpmf_workload *a = NULL;
    dpmf_strategy *c = NULL, *custom = NULL;
    dpmf_mechanism *m = NULL;
    dpmf_mechanism_options o = dpmf_mechanism_options_defaults();
    dpmf_operator op = {NULL, 0, identity_step, NULL};
    static const double bad_sigmas[] = {-1, INFINITY, NAN};
    (void)unused;
    check_ok(dpmf_workload_parse("prefix", N, &a));
    check_ok(dpmf_strategy_create("identity", a, NULL, &c));
    for (int i = 0; i < 3; i++) {
        o.sigma = bad_sigmas[i];
        check_fails(DPMF_ERROR_ARGUMENT, dpmf_mechanism_create(a, NULL, c, &o, &m));
    }
    o.sigma = 0;
    o.made_by = "\xff";
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_mechanism_create(a, NULL, c, &o, &m));
    o.made_by = "two\nlines";
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_mechanism_create(a, NULL, c, &o, &m));
    char long_text[1200];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    o.made_by = long_text;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_mechanism_create(a, NULL, c, &o, &m));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_mechanism_create(NULL, NULL, c, NULL, &m));
    check_fails(DPMF_ERROR_IO, dpmf_mechanism_load("/nonexistent/m.dpmf", &m));
    check_fails(DPMF_ERROR_IO, dpmf_mechanism_load("/tmp", &m));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_mechanism_load(NULL, &m));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_mechanism_decode(NULL, 0, &m));
    check_fails(DPMF_ERROR_FORMAT, dpmf_mechanism_decode((const uint8_t *)"", 0, &m));
    assert_null(m);

    /* a user's operator can be used, not saved */
    check_ok(dpmf_strategy_create_operator(N, &op, 0, &custom));
    check_ok(dpmf_mechanism_create(a, NULL, custom, NULL, &m));
    assert_string_equal(dpmf_mechanism_get(m).digest, "");
    check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_mechanism_save(m, "/tmp/dpmf_never_written"));
    assert_int_not_equal(access("/tmp/dpmf_never_written", F_OK), 0);
    dpmf_mechanism_free(m);
    dpmf_mechanism_free(NULL);
    dpmf_strategy_free(custom);
    dpmf_strategy_free(c);
    dpmf_workload_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind_of_mechanism_comes_back),
        cmocka_unit_test(test_bounds_that_no_version_writes_are_refused),
        cmocka_unit_test(test_any_change_of_a_file_is_noticed),
        cmocka_unit_test(test_the_digest_tells_apart_whatever_differs),
        cmocka_unit_test(test_a_mechanism_has_the_same_bytes_for_any_threads),
        cmocka_unit_test(test_bad_sigmas_and_texts_and_operators_are_refused),
        cmocka_unit_test(test_any_allocation_of_a_mechanism_may_fail),
    };
    return cmocka_run_group_tests(tests, fill_arrays, NULL);
}
