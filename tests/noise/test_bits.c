/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 1.2e7 numbers of a stream, made in different ways side by side: look-ahead on and off, threads, prefetching, one buffer
 * or many of odd sizes. Every byte is compared. (Kernels, shards and resuming: tests/cli/test_noise_bits.py.)
 */
#include "support/noise_cases.h"

enum { DIM = 1000003, STEPS = 12, PIECES = 5 };

typedef struct way {
    int64_t lookahead;
    int threads, prefetch, pieces;
} way;

static dpmf_noise *open_way(const dpmf_mechanism *m, const way *w) {
    dpmf_noise *noise = NULL;
    dpmf_noise_options o = dpmf_noise_options_defaults();
    o.lookahead = w->lookahead;
    o.prefetch = w->prefetch;
    o.run.threads = w->threads;
    check_ok(dpmf_noise_create(m, DIM, 0.7, case_key, &o, &noise));
    return noise;
}

/* Added to zeros in odd pieces, or stored whole: x + 0 is x, but for the sign of a zero, which noise is not. */
static void next_row(dpmf_noise *noise, const way *w, float *row) {
    static const int64_t ends[PIECES] = {1, 12346, 12347, 700001, DIM};
    dpmf_segment segment[PIECES];
    if (!w->pieces) {
        check_ok(dpmf_noise_next(noise, row));
        return;
    }
    memset(row, 0, DIM * sizeof *row);
    for (int i = 0; i < PIECES; i++) {
        int64_t begin = i == 0 ? 0 : ends[i - 1];
        segment[i] = (dpmf_segment){row + begin, ends[i] - begin};
    }
    check_ok(dpmf_noise_add(noise, 1, PIECES, segment));
}

static void test_long_rows_have_the_same_bits_in_every_way(void **unused) {
    static const way plain = {1, 1, 0, 0},
                     ways[] = {{0, 1, 0, 0}, {3, 2, 0, 0}, {0, 3, 0, 1}, {1, 2, 1, 1}, {0, 2, 1, 0}};
    static const char *const families[] = {"bsr", "blt", "tree-online"};
    float *one = malloc(DIM * sizeof *one), *other = malloc(DIM * sizeof *other);
    (void)unused;
    assert_true(one != NULL && other != NULL);
    for (size_t f = 0; f < sizeof families / sizeof families[0]; f++) {
        dpmf_mechanism *m = case_mechanism(families[f], STEPS, 1.3);
        for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
            dpmf_noise *first = open_way(m, &plain), *second = open_way(m, &ways[i]);
            for (int t = 0; t < STEPS; t++) {
                next_row(first, &plain, one);
                next_row(second, &ways[i], other);
                if (memcmp(one, other, DIM * sizeof *one) != 0)
                    fail_msg("%s, way %zu: row %d differs", families[f], i, t);
            }
            dpmf_noise_free(first);
            dpmf_noise_free(second);
        }
        dpmf_mechanism_free(m);
    }
    free(one);
    free(other);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_long_rows_have_the_same_bits_in_every_way)};
    return cmocka_run_group_tests_name("bits of the stream", tests, case_setup, case_teardown);
}
