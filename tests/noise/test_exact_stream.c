/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exact streams, for every family that has one: rows are whole numbers, C rows is off from the exactly rounded seeds by
 * rounding and by no more than the proven bound on the arithmetic, and no bit depends on tiles, look-ahead, the kernels,
 * or where a stream stops and continues. Other families are refused by name.
 */
#include "noise/plan.h"
#include "support/stream_cases.h"

enum { COUNT = 70, FIRST = 30, REFUSED_PLAIN = 17 };

static crypto_seed *open_seed(void) {
    uint8_t key[32] = {5, 7, 7, 2};
    crypto_seed *seed = NULL;
    check_ok(crypto_seed_open(key, &seed));
    return seed;
}

static noise_stream *open_stream(const dpmf_strategy *s, const crypto_seed *seed, double exact, int64_t lookahead,
                                 int64_t tile) {
    const noise_stream_options o = {.precision = DPMF_FLOAT64,
                                    .first = FIRST,
                                    .count = COUNT,
                                    .lookahead = lookahead,
                                    .tile = tile,
                                    .exact = exact};
    noise_stream *stream = NULL;
    check_ok(noise_stream_create(s, seed, &o, NULL, &stream));
    return stream;
}

static double *make_rows(const dpmf_strategy *s, const crypto_seed *seed, double exact, int64_t lookahead,
                         int64_t tile) {
    const int64_t n = dpmf_strategy_get(s).steps;
    double *rows = calloc((size_t)(n * COUNT), sizeof(double));
    noise_stream *stream = open_stream(s, seed, exact, lookahead, tile);
    for (int64_t t = 0; t < n; t++) {
        const noise_segment segment = {rows + t * COUNT, COUNT};
        check_ok(noise_stream_emit(stream, 1, NOISE_STORE, 1, &segment));
    }
    noise_stream_free(stream);
    return rows;
}

/* C whole, by unit vectors. */
static double *matrix_of(const dpmf_strategy *s) {
    const int64_t n = dpmf_strategy_get(s).steps;
    double *c = calloc((size_t)(n * n), sizeof(double)), *x = calloc((size_t)n, sizeof(double)),
           *y = calloc((size_t)n, sizeof(double));
    for (int64_t j = 0; j < n; j++) {
        memset(x, 0, (size_t)n * sizeof *x);
        x[j] = 1;
        check_ok(dpmf_strategy_apply(s, x, y));
        for (int64_t t = 0; t < n; t++)
            c[t * n + j] = y[t];
    }
    free(x);
    free(y);
    return c;
}

static int is_usable(const dpmf_strategy *s, noise_plan *plan) {
    const noise_stream_options o = {.precision = DPMF_FLOAT64, .first = FIRST, .count = COUNT, .exact = 1};
    const dpmf_status status = noise_plan_make(s, &o, 1, plan);
    if (status == DPMF_OK) return 1;
    assert_int_equal(status, DPMF_ERROR_UNSUPPORTED);
    check_message("exact");
    return 0;
}

/* C m against the seeds: a step off by (1/2 + eta) C[t,t] where C is fed back, by that times the row of |C| elsewhere. */
static void check_products(const char *name, const dpmf_strategy *s, const noise_plan *plan, const crypto_seed *seed,
                           double exact, const double *rows) {
    const int64_t n = dpmf_strategy_get(s).steps;
    const int forward = plan->route->exact == NOISE_EXACT_FILTER;
    double *c = matrix_of(s), z[COUNT];
    noise_exact_bounds b;
    check_ok(plan->bound(plan, NULL, &b));
    const double each = plan->route->exact == NOISE_EXACT_OWN ? 0 : 0.5 + b.arithmetic * exact;
    for (int64_t t = 0; t < n; t++) {
        const double diagonal = c[t * n + t];
        double size = 0, largest = 0;
        crypto_seed_fill_wholes(seed, exact / fabs(diagonal), (uint64_t)t, FIRST, COUNT, z);
        for (int64_t u = 0; u <= t; u++)
            size += fabs(c[t * n + u]);
        for (int i = 0; i < COUNT; i++) {
            double sum = 0, terms = 0;
            for (int64_t u = 0; u <= t; u++) {
                sum += c[t * n + u] * rows[u * COUNT + i];
                terms += fabs(c[t * n + u] * rows[u * COUNT + i]);
                largest = fmax(largest, fabs(rows[u * COUNT + i]));
            }
            assert_true(rows[t * COUNT + i] == rint(rows[t * COUNT + i]));
            const double off = fabs(sum - diagonal * z[i]);
            if (!(off <= each * (forward ? size : fabs(diagonal)) + 1e-12 * terms))
                fail_msg("%s, step %lld: off by %g, bound %g (rounding and %g)", name, (long long)t, off,
                         each * (forward ? size : fabs(diagonal)), b.arithmetic * exact);
        }
        assert_true(largest <= b.reach * exact);
    }
    free(c);
}

/* Stopped in the middle and continued from its bytes, and from a seek. */
static void check_resumed(const char *name, const dpmf_strategy *s, const crypto_seed *seed, double exact,
                          const double *rows) {
    const int64_t n = dpmf_strategy_get(s).steps, stop = n / 3;
    double row[COUNT];
    const noise_segment segment = {row, COUNT};
    noise_stream *first = open_stream(s, seed, exact, 0, 0), *then = open_stream(s, seed, exact, 0, 64);
    uint8_t *bytes = malloc((size_t)noise_stream_state_size(first) + 1);
    check_ok(noise_stream_seek(first, stop, NULL));
    check_ok(noise_stream_state_save(first, bytes));
    check_ok(noise_stream_state_load(then, stop, bytes));
    for (int64_t t = stop; t < n; t++) {
        check_ok(noise_stream_emit(first, 1, NOISE_STORE, 1, &segment));
        if (memcmp(row, rows + t * COUNT, sizeof row) != 0) fail_msg("%s: row %lld after a seek", name, (long long)t);
        check_ok(noise_stream_emit(then, 1, NOISE_STORE, 1, &segment));
        if (memcmp(row, rows + t * COUNT, sizeof row) != 0) fail_msg("%s: row %lld resumed", name, (long long)t);
    }
    free(bytes);
    noise_stream_free(first);
    noise_stream_free(then);
}

static void test_c_times_the_rows_is_the_seeds_but_for_the_proven_error(void **state) {
    static const double scales[] = {3.7, 0x1.3p36};
    crypto_seed *seed = open_seed();
    int refused = 0;
    (void)state;
    for (int k = 0; k < STREAM_CASES; k++) {
        char name[96];
        dpmf_strategy *s = stream_case(k, 48, name);
        noise_plan plan;
        if (!is_usable(s, &plan)) {
            refused += k < PLAIN_CASES;
            dpmf_strategy_free(s);
            continue;
        }
        for (int i = 0; i < 2; i++) {
            double *rows = make_rows(s, seed, scales[i], 0, 0), *other = make_rows(s, seed, scales[i], 1, 64);
            check_products(name, s, &plan, seed, scales[i], rows);
            assert_memory_equal(rows, other, (size_t)(48 * COUNT) * sizeof *rows);
            check_resumed(name, s, seed, scales[i], rows);
            free(rows);
            free(other);
        }
        dpmf_strategy_free(s);
    }
    assert_int_equal(
        refused, REFUSED_PLAIN); /* trees (nine), Fourier, low rank, operators, shared seeds, no horizon, Nesterov */
    crypto_seed_close(seed);
}

static void fill_numbers(int64_t count, double scale, double *out) {
    uint64_t x = 17;
    for (int64_t i = 0; i < count; i++)
        out[i] = rint(scale * (check_random(&x) - 0.5));
}

/* Every kernel of every set, on the same whole numbers, gives the bits of the portable one. */
static void test_sets_have_the_same_bits(void **state) {
    enum { WIDTH = 128, LAGS = 7, STATES = 9 };
    static const char *const names[] = {"ref", "avx2", "avx512"};
    double out[3][WIDTH * 4 * 16];
    (void)state;
    for (int k = 0; k < 3; k++) {
        const kernels_whole_set *set = kernels_whole_find(names[k]);
        if (set == NULL) continue;
        double *at = out[k], ring[LAGS * WIDTH], seed[4 * WIDTH], weight[64], near[16], buffers[2 * STATES * WIDTH];
        memset(out[k], 0, sizeof out[k]);
        fill_numbers(64, 3, weight);
        for (int i = 0; i < 64; i++)
            weight[i] = (weight[i] + 0.37) / (7 + i);
        memcpy(near, weight, sizeof near);
        fill_numbers(LAGS * WIDTH, 1e9, ring);
        fill_numbers(4 * WIDTH, 1e9, seed);
        const kernels_feedback feedback = {.count = WIDTH,
                                           .lags = LAGS,
                                           .past = LAGS,
                                           .rows = 4,
                                           .slot = 5,
                                           .stride = WIDTH,
                                           .factor = weight,
                                           .near = near,
                                           .seed = seed,
                                           .ring = ring};
        set->feedback(&feedback);
        memcpy(at, ring, sizeof ring);
        at += LAGS * WIDTH;
        for (int states = 4; states <= STATES; states += STATES - 4) {
            kernels_recursion_job job = {
                .count = WIDTH, .stride = WIDTH, .states = states, .weight = weight, .state = buffers, .row = seed};
            fill_numbers(2 * STATES * WIDTH, 1e9, buffers);
            set->blt(&job);
            set->tvblt(&job);
            set->tvblt_second(&job);
            set->replay(&job, seed + WIDTH);
            set->finish(WIDTH, seed + 2 * WIDTH, seed);
            memcpy(at, seed, WIDTH * sizeof *at);
            at += WIDTH;
            memcpy(at, buffers, sizeof buffers);
            at += 2 * STATES * WIDTH;
        }
        assert_memory_equal(out[k], out[0], sizeof out[0]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_c_times_the_rows_is_the_seeds_but_for_the_proven_error),
        cmocka_unit_test(test_sets_have_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
