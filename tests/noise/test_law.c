/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The law of the rows, and what they do to a workload, for every family, from the public calls alone.
 *
 * Law: with W the left inverse that the strategy solves with, columns of the rows are independent and normal with
 * covariance S = scale^2 W W'. L^-1 rows, L the Cholesky factor of S, are then white: over N columns the entries of
 * their second moments, less I, have standard deviation 1/sqrt(N) off the diagonal and sqrt(2/N) on it. 136 entries per
 * case, each refused beyond 6.5 of them, which a normal number passes with probability 8e-11: a false alarm in fewer
 * than one of 1e7 runs of all cases together, and none as the key is fixed.
 */
#include "base/linalg.h"
#include "support/check.h"
#include "support/replay_strategy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 16, COLUMNS = 100000 };

typedef struct made {
    const char *name, *workload;
    dpmf_strategy *(*make)(const dpmf_workload *a);
} made;

static dpmf_strategy *create(const char *family, const dpmf_workload *a, int64_t bands, int64_t stamps, int normalize) {
    dpmf_strategy_options o = dpmf_strategy_options_defaults();
    dpmf_strategy *s = NULL;
    o.bands = bands;
    o.stamps = stamps;
    o.column_normalize = normalize;
    check_ok(dpmf_strategy_create(family, a, &o, &s));
    return s;
}

static dpmf_strategy *optimize(const char *family, const dpmf_workload *a, int64_t bands, int buffers) {
    dpmf_optimize_options o = dpmf_optimize_options_defaults();
    dpmf_optimization found;
    dpmf_strategy *s = NULL;
    o.bands = bands;
    o.buffers = buffers;
    check_ok(dpmf_optimize(family, a, NULL, &o, &s, &found));
    return s;
}

static dpmf_strategy *make_identity(const dpmf_workload *a) {
    return create("identity", a, 0, 0, 0);
}
static dpmf_strategy *make_workload(const dpmf_workload *a) {
    return create("workload", a, 0, 0, 0);
}
static dpmf_strategy *make_toeplitz(const dpmf_workload *a) {
    return create("toeplitz", a, 0, 0, 0);
}
static dpmf_strategy *make_normalized(const dpmf_workload *a) {
    return create("toeplitz", a, 0, 0, 1);
}
static dpmf_strategy *make_bsr(const dpmf_workload *a) {
    return create("bsr", a, 5, 0, 0);
}
static dpmf_strategy *make_bisr(const dpmf_workload *a) {
    return create("bisr", a, 5, 0, 0);
}
static dpmf_strategy *make_stamped(const dpmf_workload *a) {
    return create("bsr", a, 3, 4, 1);
}
static dpmf_strategy *make_tree(const dpmf_workload *a) {
    return create("tree", a, 0, 0, 0);
}
static dpmf_strategy *make_tree_online(const dpmf_workload *a) {
    return create("tree-online", a, 0, 2, 0);
}
static dpmf_strategy *make_tree_full(const dpmf_workload *a) {
    return create("tree-full", a, 0, 0, 0);
}
static dpmf_strategy *make_blt_rational(const dpmf_workload *a) {
    return create("blt-rational", a, 0, 0, 0);
}
static dpmf_strategy *make_blt_tree(const dpmf_workload *a) {
    return create("blt-tree", a, 0, 0, 0);
}
static dpmf_strategy *make_blt_tree_stamped(const dpmf_workload *a) {
    return create("blt-tree", a, 0, 2, 1);
}
static dpmf_strategy *make_branching(const dpmf_workload *a) {
    dpmf_strategy_options o = {.branching = 3};
    dpmf_strategy *s = NULL;
    check_ok(dpmf_strategy_create("tree-full", a, &o, &s));
    return s;
}
static dpmf_strategy *make_smooth(const dpmf_workload *a) {
    return create("smooth-binary", a, 0, 0, 0);
}
static dpmf_strategy *make_fft(const dpmf_workload *a) {
    return create("fft", a, 0, 0, 0);
}
static dpmf_strategy *make_fft_opt(const dpmf_workload *a) {
    return create("fft-opt", a, 0, 0, 0);
}
static dpmf_strategy *make_dense(const dpmf_workload *a) {
    return optimize("dense", a, 0, 0);
}
static dpmf_strategy *make_banded(const dpmf_workload *a) {
    return optimize("banded", a, 4, 0);
}
static dpmf_strategy *make_banded_toeplitz(const dpmf_workload *a) {
    return optimize("banded-toeplitz", a, 4, 0);
}
static dpmf_strategy *make_blt(const dpmf_workload *a) {
    return optimize("blt", a, 0, 2);
}
static dpmf_strategy *make_tvblt(const dpmf_workload *a) {
    return optimize("tvblt", a, 0, 3);
}
static dpmf_strategy *make_replayed(const dpmf_workload *a) {
    return replay_strategy(dpmf_workload_get(a).steps, 5, 3, 0);
}
static dpmf_strategy *make_shared(const dpmf_workload *a) {
    return replay_strategy(dpmf_workload_get(a).steps, 4, 2, 2);
}
static dpmf_strategy *make_lowrank(const dpmf_workload *a) {
    return optimize("lowrank", a, 3, 2);
}

static const made CASES[] = {
    {"identity", "prefix", make_identity},
    {"workload", "momentum:0.9", make_workload},
    {"toeplitz", "prefix", make_toeplitz},
    {"toeplitz normalized", "prefix", make_normalized},
    {"bsr", "prefix", make_bsr},
    {"bisr", "momentum:0.5", make_bisr},
    {"bsr stamped, normalized", "prefix", make_stamped},
    {"tree", "prefix", make_tree},
    {"tree-online stamped", "prefix", make_tree_online},
    {"tree-full", "prefix", make_tree_full},
    {"tree-full of branching factor 3", "prefix", make_branching},
    {"smooth-binary", "prefix", make_smooth},
    {"fft", "prefix", make_fft},
    {"fft-opt", "prefix", make_fft_opt},
    {"dense", "prefix", make_dense},
    {"banded", "momentum:0.9", make_banded},
    {"banded-toeplitz", "prefix", make_banded_toeplitz},
    {"blt", "prefix", make_blt},
    {"blt-rational", "prefix", make_blt_rational},
    {"blt-tree", "prefix", make_blt_tree},
    {"blt-tree stamped, normalized", "momentum:0.9", make_blt_tree_stamped},
    {"tvblt", "prefix", make_tvblt},
    {"tvblt momentum", "momentum:0.9", make_tvblt},
    {"tvblt, replayed seeds", "prefix", make_replayed},
    {"tvblt, shared seeds", "prefix", make_shared},
    {"lowrank", "prefix", make_lowrank},
};

/* S = W W' (N x N), W by solving with unit vectors. */
static void covariance_of(const dpmf_strategy *s, double *out) {
    int64_t rows = dpmf_strategy_get(s).rows;
    double *unit = calloc((size_t)rows, sizeof *unit), column[N];
    assert_non_null(unit);
    memset(out, 0, N * N * sizeof *out);
    for (int64_t j = 0; j < rows; j++) {
        unit[j] = 1;
        check_ok(dpmf_strategy_solve(s, unit, column));
        unit[j] = 0;
        for (int i = 0; i < N; i++)
            for (int k = 0; k < N; k++)
                out[i * N + k] += column[i] * column[k];
    }
    free(unit);
}

static double *rows_of(const dpmf_mechanism *m, double clip, double *scale) {
    uint8_t key[DPMF_KEY_SIZE];
    dpmf_noise *noise = NULL;
    float *row = calloc(COLUMNS, sizeof *row);
    double *rows = calloc((size_t)N * COLUMNS, sizeof *rows);
    assert_true(row != NULL && rows != NULL);
    check_ok(dpmf_key_testing(42, key));
    check_ok(dpmf_noise_create(m, COLUMNS, clip, key, NULL, &noise));
    *scale = dpmf_noise_get(noise).release.scale;
    for (int t = 0; t < N; t++) {
        check_ok(dpmf_noise_next(noise, row));
        for (int i = 0; i < COLUMNS; i++)
            rows[(size_t)t * COLUMNS + (size_t)i] = (double)row[i];
    }
    dpmf_noise_free(noise);
    free(row);
    return rows;
}

/* rows <- L^-1 rows / scale. */
static void whiten(const double *lower, double scale, double *rows) {
    for (int t = 0; t < N; t++) {
        double *row = rows + (size_t)t * COLUMNS;
        for (int i = 0; i < COLUMNS; i++)
            row[i] /= scale;
        for (int u = 0; u < t; u++)
            for (int i = 0; i < COLUMNS; i++)
                row[i] -= lower[t * N + u] * rows[(size_t)u * COLUMNS + (size_t)i];
        for (int i = 0; i < COLUMNS; i++)
            row[i] /= lower[t * N + t];
    }
}

static void check_white(const char *name, const double *rows) {
    for (int t = 0; t < N; t++)
        for (int u = 0; u <= t; u++) {
            double mean = base_dot(COLUMNS, rows + (size_t)t * COLUMNS, rows + (size_t)u * COLUMNS) / COLUMNS;
            double deviation = (mean - (t == u)) / sqrt((t == u ? 2.0 : 1.0) / COLUMNS);
            if (!(fabs(deviation) < 6.5)) fail_msg("%s: steps %d, %d: %g deviations", name, t, u, deviation);
        }
}

static void test_whitened_rows_have_the_normal_law(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        dpmf_workload *a = NULL;
        dpmf_mechanism *m = NULL;
        dpmf_mechanism_options o = dpmf_mechanism_options_defaults();
        double lower[N * N], scale = 0;
        const double sigma = 1.7, clip = 0.3;
        o.sigma = sigma;
        o.evaluate.lower_bound = DPMF_LOWER_BOUND_NONE;
        check_ok(dpmf_workload_parse(CASES[i].workload, N, &a));
        dpmf_strategy *s = CASES[i].make(a);
        check_ok(dpmf_mechanism_create(a, NULL, s, &o, &m));
        double *rows = rows_of(m, clip, &scale);
        double wanted = clip * sigma * dpmf_mechanism_get(m).evaluation.sensitivity.value;
        assert_true(fabs(scale / wanted - 1) < 1e-14);
        covariance_of(s, lower);
        check_ok(base_cholesky(N, lower));
        whiten(lower, scale, rows);
        check_white(CASES[i].name, rows);
        free(rows);
        dpmf_mechanism_free(m);
        dpmf_strategy_free(s);
        dpmf_workload_free(a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_whitened_rows_have_the_normal_law)};
    return cmocka_run_group_tests_name("the law of the rows", tests, NULL, NULL);
}
