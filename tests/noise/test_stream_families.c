/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The noise stream makes the rows of W Z, for every family: C rows = Z where C is square, A rows = B Z, and in float64
 * what the strategy's own step makes.
 */
#include "noise/stream.h"
#include "support/stream_cases.h"

enum { COUNT = 70, FIRST = 30 };

static crypto_seed *open_seed(void) {
    uint8_t key[32];
    crypto_seed *seed = NULL;
    for (int i = 0; i < 32; i++)
        key[i] = (uint8_t)(7 * i + 1);
    check_ok(crypto_seed_open(key, &seed));
    return seed;
}

/* All seeds, rows x COUNT, and all rows of the stream, n x COUNT, as doubles. */
typedef struct run {
    int64_t n, seeds;
    double *z, *y;
} run;

static void to_doubles(dpmf_precision precision, const void *from, double *to) {
    for (int i = 0; i < COUNT; i++)
        to[i] = precision == DPMF_FLOAT32 ? (double)((const float *)from)[i] : ((const double *)from)[i];
}

static run run_stream(const dpmf_strategy *s, const crypto_seed *seed, dpmf_precision precision) {
    run r = {dpmf_strategy_get(s).steps, dpmf_strategy_get(s).rows, NULL, NULL};
    double row[COUNT];
    const noise_segment segment = {row, COUNT};
    const noise_stream_options o = {.precision = precision, .first = FIRST, .count = COUNT};
    noise_stream *stream = NULL;
    r.z = calloc((size_t)(r.seeds * COUNT), sizeof(double));
    r.y = calloc((size_t)(r.n * COUNT), sizeof(double));
    for (int64_t u = 0; u < r.seeds; u++) {
        crypto_seed_fill(seed, precision, (uint64_t)u, FIRST, COUNT, row);
        to_doubles(precision, row, r.z + u * COUNT);
    }
    check_ok(noise_stream_create(s, seed, &o, NULL, &stream));
    for (int64_t t = 0; t < r.n; t++) {
        check_ok(noise_stream_emit(stream, 1, 0, 1, &segment));
        to_doubles(precision, row, r.y + t * COUNT);
    }
    noise_stream_free(stream);
    return r;
}

static void free_run(run *r) {
    free(r->z);
    free(r->y);
}

static void take_column(int64_t rows, const double *matrix, int i, double *column) {
    for (int64_t t = 0; t < rows; t++)
        column[t] = matrix[t * COUNT + i];
}

static double largest(int64_t n, const double *x) {
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs(x[i]));
    return most;
}

static void compare(const char *name, const char *what, int64_t n, const double *got, const double *wanted,
                    double tolerance) {
    for (int64_t t = 0; t < n; t++)
        if (!(fabs(got[t] - wanted[t]) <= tolerance))
            fail_msg("%s, n = %lld, %s at %lld: %.17g, wanted %.17g, tolerance %g", name, (long long)n, what,
                     (long long)t, got[t], wanted[t], tolerance);
}

/* Coordinate by coordinate: C y = z, and A y = A W z for prefix sums A. `unit`: a rounding error, with room. */
static void check_products(const char *name, const dpmf_strategy *s, const run *r, double unit) {
    double *y = calloc((size_t)r->n, sizeof(double)), *z = calloc((size_t)r->seeds, sizeof(double));
    double *left = calloc((size_t)r->seeds, sizeof(double)), *wanted = calloc((size_t)r->n, sizeof(double));
    for (int i = 0; i < COUNT; i++) {
        take_column(r->n, r->y, i, y);
        take_column(r->seeds, r->z, i, z);
        double size = 1 + largest(r->n, y) + largest(r->seeds, z);
        if (r->seeds == r->n) {
            check_ok(dpmf_strategy_apply(s, y, left));
            compare(name, "C y", r->n, left, z, unit * size);
        }
        check_ok(dpmf_strategy_solve(s, z, wanted));
        for (int64_t t = 1; t < r->n; t++) {
            y[t] += y[t - 1];
            wanted[t] += wanted[t - 1];
        }
        compare(name, "A y", r->n, y, wanted, unit * size);
    }
    free(y);
    free(z);
    free(left);
    free(wanted);
}

static void check_step(const char *name, const dpmf_strategy *s, const run *r) {
    if (!dpmf_strategy_get(s).streams) return;
    double *state = calloc((size_t)(dpmf_strategy_get(s).buffers * COUNT + 1), sizeof(double)), row[COUNT];
    const double *z = r->z;
    for (int64_t t = 0; t < r->n; t++) {
        check_ok(dpmf_strategy_step(s, t, COUNT, z, state, row));
        compare(name, "a row", COUNT, r->y + t * COUNT, row, 1e-12 * (1 + largest(COUNT, row)));
        z += dpmf_strategy_seeds(s, t) * COUNT;
    }
    free(state);
}

static void check_all(int64_t n) {
    crypto_seed *seed = open_seed();
    for (int k = 0; k < STREAM_CASES; k++) {
        char name[96];
        dpmf_strategy *s = stream_case(k, n, name);
        run single = run_stream(s, seed, DPMF_FLOAT32), full = run_stream(s, seed, DPMF_FLOAT64);
        check_products(name, s, &single, 4e-5);
        check_products(name, s, &full, 1e-11);
        check_step(name, s, &full);
        free_run(&single);
        free_run(&full);
        dpmf_strategy_free(s);
    }
    crypto_seed_close(seed);
}

static void test_every_family_streams_64_steps(void **state) {
    (void)state;
    check_all(64);
}

static void test_every_family_streams_100_steps(void **state) {
    (void)state;
    check_all(100);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_family_streams_64_steps),
                                       cmocka_unit_test(test_every_family_streams_100_steps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
