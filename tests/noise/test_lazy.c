/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Noise that is drawn when it is needed has the law of the noise that every step adds.
 *
 * Exactly: the covariance of what is drawn at random times, composed of the laws from one time to the next, is T W W' T', where
 * T sums up the steps between the times, for every family that offers it.
 *
 * By simulation: 100 000 numbers in 2000 rows, each with touches of its own at random steps. A row's draws are L^-1 whitened,
 * L the Cholesky factor of its T W W' T'. Over the rows the second moments, less I, have standard deviation 1/sqrt(N) off the
 * diagonal and sqrt(2/N) on it: 136 entries, each refused beyond 6.5 of them, and the sum of the squares of all numbers, a
 * chi-squared of M degrees of freedom, beyond 6.5 sqrt(2 M). A normal number passes 6.5 with probability 8e-11: a false alarm
 * in fewer than one of 1e6 runs of all cases together, and none as the key is fixed.
 */
#include "base/linalg.h"
#include "noise/lazy.h"
#include "support/noise_cases.h"

#include <math.h>

enum { N = 16, ROWS = 2000, WIDTH = 50 };

typedef struct offered {
    const char *family, *workload;
    int64_t bands, stamps;
    int normalize, optimized, buffers;
} offered;

static const offered OFFERED[] = {
    {"identity", "prefix", 0, 0, 0, 0, 0},
    {"workload", "momentum:0.9", 0, 0, 0, 0, 0},
    {"bsr", "prefix", 5, 0, 0, 0, 0},
    {"bisr", "momentum:0.5", 5, 0, 0, 0, 0},
    {"bsr", "prefix", 3, 4, 1, 0, 0},
    {"tree", "prefix", 0, 0, 0, 0, 0},
    {"tree-online", "prefix", 0, 2, 0, 0, 0},
    {"tree-full", "prefix", 0, 0, 0, 0, 0},
    {"smooth-binary", "prefix", 0, 0, 0, 0, 0},
    {"banded", "momentum:0.9", 4, 0, 0, 1, 0},
    {"banded-toeplitz", "prefix", 4, 0, 0, 1, 0},
    {"blt", "prefix", 0, 0, 0, 1, 2},
    {"blt", "prefix", 0, 0, 0, 1, 3},
    {"blt-rational", "prefix", 0, 0, 0, 0, 0},
    {"blt-tree", "momentum:0.9", 0, 2, 1, 0, 0},
    {"tvblt", "prefix", 0, 0, 0, 1, 3},
    {"tvblt", "momentum:0.9", 0, 0, 0, 1, 2},
    {"lowrank", "prefix", 3, 0, 0, 1, 2},
};
enum { OFFERS = sizeof OFFERED / sizeof OFFERED[0] };

static dpmf_strategy *make_strategy(const offered *o, const dpmf_workload *a) {
    dpmf_strategy *s = NULL;
    if (o->optimized) {
        dpmf_optimize_options how = dpmf_optimize_options_defaults();
        dpmf_optimization found;
        how.bands = o->bands;
        how.buffers = o->buffers;
        check_ok(dpmf_optimize(o->family, a, NULL, &how, &s, &found));
    } else {
        dpmf_strategy_options how = dpmf_strategy_options_defaults();
        how.bands = o->bands;
        how.stamps = o->stamps;
        how.column_normalize = o->normalize;
        check_ok(dpmf_strategy_create(o->family, a, &how, &s));
    }
    return s;
}

/* S = W W' (n x n), W by solving with unit vectors. */
static void covariance_of(const dpmf_strategy *s, int64_t n, double *out) {
    const int64_t rows = dpmf_strategy_get(s).rows;
    double *unit = calloc((size_t)rows, sizeof *unit), *column = calloc((size_t)n, sizeof *column);
    assert_true(unit != NULL && column != NULL);
    memset(out, 0, (size_t)(n * n) * sizeof *out);
    for (int64_t j = 0; j < rows; j++) {
        unit[j] = 1;
        check_ok(dpmf_strategy_solve(s, unit, column));
        unit[j] = 0;
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = 0; k < n; k++)
                out[i * n + k] += column[i] * column[k];
    }
    free(unit);
    free(column);
}

/* The covariance of the sums of factor x row over [time[i], time[i+1]), i = 0 .. draws-1. */
static void summed(const double *full, int64_t n, const double *factor, int draws, const int64_t *time, double *out) {
    for (int a = 0; a < draws; a++)
        for (int b = 0; b < draws; b++) {
            double sum = 0;
            for (int64_t i = time[a]; i < time[a + 1]; i++)
                for (int64_t k = time[b]; k < time[b + 1]; k++)
                    sum += factor[i] * factor[k] * full[i * n + k];
            out[a * draws + b] = sum;
        }
}

static int happens(uint64_t *seed, double probability) {
    return (1 + check_random(seed)) / 2 < probability;
}

/* Random times 0 = time[0] < ... < time[draws] = n, each step one of them with this probability. */
static int draw_times(uint64_t *seed, int64_t n, double probability, int64_t *time) {
    int draws = 0;
    time[0] = 0;
    for (int64_t t = 1; t <= n; t++)
        if (t == n || happens(seed, probability)) time[++draws] = t;
    return draws;
}

/* The draws as linear maps of their normals, one after the other: their products are the covariance. */
static void composed(noise_lazy_law *law, int draws, const int64_t *time, double *out) {
    const int64_t r = law->buffers, normals = draws * (1 + r);
    double *m = calloc((size_t)(r * normals + 1), sizeof *m), *next = calloc((size_t)(r * normals + 1), sizeof *next);
    double *sums = calloc((size_t)(draws * normals), sizeof *sums);
    assert_true(m != NULL && next != NULL && sums != NULL);
    for (int i = 0; i < draws; i++) {
        noise_lazy_begin(law, time[i + 1]);
        while (law->from > time[i])
            noise_lazy_back(law);
        for (int64_t q = 0; q <= r; q++) {
            double *line = q == 0 ? sums + i * normals : next + (q - 1) * normals;
            for (int64_t x = 0; x < normals; x++) {
                line[x] = x / (1 + r) == i ? law->l[q * (1 + r) + x % (1 + r)] : 0;
                for (int64_t j = 0; j < r; j++)
                    line[x] += law->p[q * r + j] * m[j * normals + x];
            }
        }
        memcpy(m, next, (size_t)(r * normals) * sizeof *m);
    }
    for (int a = 0; a < draws; a++)
        for (int b = 0; b < draws; b++)
            out[a * draws + b] = base_dot(normals, sums + a * normals, sums + b * normals);
    free(m);
    free(next);
    free(sums);
}

static void check_composed(const char *name, const dpmf_strategy *s, int64_t n, double probability) {
    double *full = calloc((size_t)(n * n), sizeof *full), *want = calloc((size_t)(n * n), sizeof *want);
    double *got = calloc((size_t)(n * n), sizeof *got), *factor = calloc((size_t)n, sizeof *factor);
    int64_t *time = calloc((size_t)(n + 1), sizeof *time);
    uint64_t seed = 5;
    noise_lazy_law law;
    assert_true(full != NULL && want != NULL && got != NULL && factor != NULL && time != NULL);
    for (int64_t t = 0; t < n; t++)
        factor[t] = t % 7 == 3 ? 0 : 0.5 + check_random(&seed);
    covariance_of(s, n, full);
    check_ok(noise_lazy_open(s, factor, &law));
    for (int pattern = 0; pattern < 3; pattern++) {
        const int draws = draw_times(&seed, n, probability, time);
        summed(full, n, factor, draws, time, want);
        composed(&law, draws, time, got);
        for (int a = 0; a < draws; a++)
            for (int b = 0; b < draws; b++) {
                const double size = sqrt(want[a * draws + a] * want[b * draws + b]);
                if (!(fabs(got[a * draws + b] - want[a * draws + b]) <= 1e-11 * size))
                    fail_msg("%s: draws %d, %d: covariance %.17g, wanted %.17g", name, a, b, got[a * draws + b],
                             want[a * draws + b]);
            }
    }
    noise_lazy_close(&law);
    free(full);
    free(want);
    free(got);
    free(factor);
    free(time);
}

static void test_the_law_of_draws_at_random_steps_is_that_of_the_sums_between_them(void **unused) {
    (void)unused;
    for (int i = 0; i < OFFERS; i++) {
        dpmf_workload *a = NULL;
        check_ok(dpmf_workload_parse(OFFERED[i].workload, N, &a));
        dpmf_strategy *s = make_strategy(&OFFERED[i], a);
        check_composed(OFFERED[i].family, s, N, 0.4);
        dpmf_strategy_free(s);
        dpmf_workload_free(a);
    }
}

static void test_the_law_holds_over_long_gaps(void **unused) {
    static const offered LONG[] = {{"blt-rational", "prefix", 0, 0, 0, 0, 0},
                                   {"tvblt", "prefix", 0, 0, 0, 1, 3},
                                   {"tree-online", "prefix", 0, 0, 0, 0, 0},
                                   {"identity", "prefix", 0, 0, 0, 0, 0}};
    (void)unused;
    for (int i = 0; i < 4; i++) {
        dpmf_workload *a = NULL;
        check_ok(dpmf_workload_parse(LONG[i].workload, 300, &a));
        dpmf_strategy *s = make_strategy(&LONG[i], a);
        check_composed(LONG[i].family, s, 300, 0.02);
        dpmf_strategy_free(s);
        dpmf_workload_free(a);
    }
}

/* float64 allows such factors, whose squares are 0 or infinite: the sum's deviation is the factor times that of factor 1. */
static void test_tiny_and_large_factors_keep_their_noise(void **unused) {
    static const double factors[] = {1, 0x1p-900, 0x1p900, 0x1p-520, 0x1p520};
    (void)unused;
    for (int i = 0; i < OFFERS; i++) {
        double factor[N], wanted = 0;
        dpmf_workload *a = NULL;
        noise_lazy_law law;
        check_ok(dpmf_workload_parse(OFFERED[i].workload, N, &a));
        dpmf_strategy *s = make_strategy(&OFFERED[i], a);
        check_ok(noise_lazy_open(s, factor, &law));
        for (int c = 0; c < 5; c++) {
            for (int t = 0; t < N; t++)
                factor[t] = factors[c];
            noise_lazy_begin(&law, N);
            while (law.from > 0)
                noise_lazy_back(&law);
            if (c == 0) wanted = fabs(law.l[0]);
            assert_true(wanted > 0.1);
            check_near(fabs(law.l[0]) / factors[c], wanted, 1e-12 * wanted);
        }
        noise_lazy_close(&law);
        dpmf_strategy_free(s);
        dpmf_workload_free(a);
    }
}

/* ---- by simulation ---- */

/* Rows of a table that are touched at random steps, each with its own; draws[v] at the steps time[v]. */
typedef struct simulation {
    double factor[N], *table, *draw; /* draw: (v N + i) WIDTH */
    int64_t *time;
    int *draws;
} simulation;

static void touch_and_note(dpmf_lazy *lazy, simulation *s, int64_t count, const int64_t *row) {
    for (int64_t i = 0; i < count; i++)
        memcpy(s->draw + (row[i] * N + s->draws[row[i]]) * WIDTH, s->table + row[i] * WIDTH, WIDTH * sizeof(double));
    check_ok(dpmf_lazy_touch(lazy, count, row, s->table));
    for (int64_t i = 0; i < count; i++) {
        double *drawn = s->draw + (row[i] * N + s->draws[row[i]]) * WIDTH;
        for (int j = 0; j < WIDTH; j++)
            drawn[j] = s->table[row[i] * WIDTH + j] - drawn[j];
        s->time[row[i] * (N + 1) + ++s->draws[row[i]]] = dpmf_lazy_get(lazy).step;
    }
}

static void simulate(const dpmf_mechanism *m, simulation *s, double *scale) {
    dpmf_noise_options o = dpmf_noise_options_defaults();
    dpmf_lazy *lazy = NULL;
    int64_t *row = calloc(ROWS, sizeof *row);
    uint64_t seed = 11;
    assert_non_null(row);
    o.precision = DPMF_FLOAT64;
    check_ok(dpmf_lazy_create(m, ROWS, WIDTH, 0.3, case_key, &o, &lazy));
    for (int t = 0; t < N; t++) {
        int64_t count = 0;
        for (int64_t v = 0; v < ROWS && t > 0; v++)
            if (happens(&seed, v % 3 == 0 ? 0.7 : 0.15)) row[count++] = v;
        touch_and_note(lazy, s, count, row);
        check_ok(dpmf_lazy_next(lazy, s->factor[t]));
    }
    for (int64_t v = 0; v < ROWS; v++) /* the flush, noted */
        memcpy(s->draw + (v * N + s->draws[v]) * WIDTH, s->table + v * WIDTH, WIDTH * sizeof(double));
    check_ok(dpmf_lazy_flush(lazy, s->table));
    for (int64_t v = 0; v < ROWS; v++) {
        double *drawn = s->draw + (v * N + s->draws[v]) * WIDTH;
        for (int j = 0; j < WIDTH; j++)
            drawn[j] = s->table[v * WIDTH + j] - drawn[j];
        s->time[v * (N + 1) + ++s->draws[v]] = N;
    }
    *scale = dpmf_lazy_get(lazy).scale;
    dpmf_lazy_free(lazy);
    free(row);
}

/* Draws of row v <- L^-1 draws / scale. */
static void whiten(const simulation *s, int64_t v, const double *full, double scale) {
    const int draws = s->draws[v];
    double lower[N * N];
    summed(full, N, s->factor, draws, s->time + v * (N + 1), lower);
    check_ok(base_cholesky(draws, lower));
    for (int i = 0; i < draws; i++) {
        double *x = s->draw + (v * N + i) * WIDTH;
        for (int j = 0; j < WIDTH; j++)
            x[j] /= scale;
        for (int k = 0; k < i; k++)
            for (int j = 0; j < WIDTH; j++)
                x[j] -= lower[i * draws + k] * s->draw[(v * N + k) * WIDTH + j];
        for (int j = 0; j < WIDTH; j++)
            x[j] /= lower[i * draws + i];
    }
}

static void check_white(const char *name, const simulation *s) {
    double squares = 0, degrees = 0;
    for (int i = 0; i < N; i++)
        for (int k = 0; k <= i; k++) {
            double sum = 0, count = 0;
            for (int64_t v = 0; v < ROWS; v++) {
                if (s->draws[v] <= i) continue;
                sum += base_dot(WIDTH, s->draw + (v * N + i) * WIDTH, s->draw + (v * N + k) * WIDTH);
                count += WIDTH;
            }
            if (count == 0) continue;
            const double deviation = (sum / count - (i == k)) / sqrt((i == k ? 2.0 : 1.0) / count);
            if (count >= 5000 && !(fabs(deviation) < 6.5))
                fail_msg("%s: draws %d, %d: %g deviations", name, i, k, deviation);
            if (i == k) squares += sum, degrees += count;
        }
    assert_true(degrees > 5.0 * ROWS * WIDTH);
    if (!(fabs(squares - degrees) < 6.5 * sqrt(2 * degrees)))
        fail_msg("%s: chi-squared %.1f of %.0f degrees of freedom", name, squares, degrees);
}

static void test_draws_of_rows_with_touches_of_their_own_are_white_after_whitening(void **unused) {
    simulation s;
    (void)unused;
    s.table = malloc((size_t)ROWS * WIDTH * sizeof(double));
    s.draw = malloc((size_t)ROWS * N * WIDTH * sizeof(double));
    s.time = malloc((size_t)ROWS * (N + 1) * sizeof(int64_t));
    s.draws = malloc(ROWS * sizeof(int));
    assert_true(s.table != NULL && s.draw != NULL && s.time != NULL && s.draws != NULL);
    for (int i = 0; i < OFFERS; i++) {
        dpmf_workload *a = NULL;
        dpmf_mechanism *m = NULL;
        dpmf_mechanism_options o = dpmf_mechanism_options_defaults();
        double full[N * N], scale = 0;
        o.sigma = 1.7;
        o.evaluate.lower_bound = DPMF_LOWER_BOUND_NONE;
        memset(s.table, 0, (size_t)ROWS * WIDTH * sizeof(double));
        memset(s.time, 0, (size_t)ROWS * (N + 1) * sizeof(int64_t));
        memset(s.draws, 0, ROWS * sizeof(int));
        for (int t = 0; t < N; t++)
            s.factor[t] = -0.5 - 0.1 * (t % 3);
        check_ok(dpmf_workload_parse(OFFERED[i].workload, N, &a));
        dpmf_strategy *strategy = make_strategy(&OFFERED[i], a);
        check_ok(dpmf_mechanism_create(a, NULL, strategy, &o, &m));
        simulate(m, &s, &scale);
        covariance_of(strategy, N, full);
        for (int64_t v = 0; v < ROWS; v++)
            whiten(&s, v, full, scale);
        check_white(OFFERED[i].family, &s);
        dpmf_mechanism_free(m);
        dpmf_strategy_free(strategy);
        dpmf_workload_free(a);
    }
    free(s.table);
    free(s.draw);
    free(s.time);
    free(s.draws);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_law_of_draws_at_random_steps_is_that_of_the_sums_between_them),
        cmocka_unit_test(test_the_law_holds_over_long_gaps),
        cmocka_unit_test(test_tiny_and_large_factors_keep_their_noise),
        cmocka_unit_test(test_draws_of_rows_with_touches_of_their_own_are_white_after_whitening)};
    return cmocka_run_group_tests_name("the law of noise that is drawn late", tests, case_setup, case_teardown);
}
