/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step of noise for an embedding, dense against lazy: a table of ROWS x 64 floats of which each step touches 500 rows.
 * Dense: the step's row of noise is added to the whole table. Lazy: the rows that the step reads get what they missed. Rows are
 * drawn evenly, the worst case, whose gaps are longest, and as words are, by Zipf's law. One thread, processor time, means over
 * the last 200 of 1000 steps, or over 4 dense rows; then the flush, in which every row has its gap.
 * usage: bench_lazy [ROWS]    default 1000000
 */
#define DPMF_EXPERIMENTAL
#include "dpmf_experimental.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { WIDTH = 64, TOUCHED = 500, STEPS = 1000, MEASURED = 200, DENSE_ROWS = 4 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void check(dpmf_status status) {
    if (status == DPMF_OK) return;
    fprintf(stderr, "bench_lazy: %s\n", dpmf_last_error());
    exit(1);
}

static double uniform(uint64_t *state) { /* splitmix64 */
    uint64_t x = *state += 0x9e3779b97f4a7c15U;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9U;
    x = (x ^ x >> 27) * 0x94d049bb133111ebU;
    return (double)((x ^ x >> 31) >> 11) * 0x1p-53;
}

/* Even, or with probability about 1/v for word v. */
static int64_t draw_row(uint64_t *state, int64_t rows, int zipf) {
    const double u = uniform(state);
    const int64_t v = (int64_t)(zipf ? exp(u * log((double)rows)) : u * (double)rows);
    return v >= rows ? rows - 1 : v;
}

static double time_dense(const dpmf_mechanism *m, int64_t rows, const uint8_t *key, float *table, double *bytes) {
    dpmf_noise_options o = dpmf_noise_options_defaults();
    const dpmf_segment segment = {table, rows * WIDTH};
    const uint64_t before = dpmf_memory_in_use();
    dpmf_noise *noise = NULL;
    o.run.threads = 1;
    check(dpmf_noise_create(m, rows * WIDTH, 1, key, &o, &noise));
    *bytes = (double)(dpmf_memory_in_use() - before);
    check(dpmf_noise_add(noise, 1, 1, &segment)); /* memory is new to the first row */
    const double start = now();
    for (int i = 0; i < DENSE_ROWS; i++)
        check(dpmf_noise_add(noise, 1, 1, &segment));
    const double mean = (now() - start) / DENSE_ROWS;
    dpmf_noise_free(noise);
    return mean;
}

static double time_lazy(const dpmf_mechanism *m, int64_t rows, int zipf, const uint8_t *key, float *table,
                        double *bytes, double *flush) {
    dpmf_noise_options o = dpmf_noise_options_defaults();
    const uint64_t before = dpmf_memory_in_use();
    int64_t row[TOUCHED];
    uint64_t state = 1;
    double sum = 0;
    dpmf_lazy *lazy = NULL;
    o.run.threads = 1;
    check(dpmf_lazy_create(m, rows, WIDTH, 1, key, &o, &lazy));
    *bytes = (double)(dpmf_memory_in_use() - before);
    for (int t = 0; t < STEPS; t++) {
        for (int i = 0; i < TOUCHED; i++)
            row[i] = draw_row(&state, rows, zipf);
        const double start = now();
        check(dpmf_lazy_touch(lazy, TOUCHED, row, table));
        check(dpmf_lazy_next(lazy, 1));
        if (t >= STEPS - MEASURED) sum += now() - start;
    }
    const double start = now();
    check(dpmf_lazy_flush(lazy, table));
    *flush = now() - start;
    dpmf_lazy_free(lazy);
    return sum / MEASURED;
}

static void compare(const char *name, int buffers, const dpmf_workload *a, int64_t rows, const uint8_t *key,
                    float *table) {
    dpmf_optimize_options how = dpmf_optimize_options_defaults();
    dpmf_mechanism_options o = dpmf_mechanism_options_defaults();
    dpmf_optimization found;
    dpmf_strategy *s = NULL;
    dpmf_mechanism *m = NULL;
    double dense_bytes = 0, lazy_bytes = 0, flush = 0;
    how.buffers = buffers;
    o.sigma = 1;
    o.evaluate.lower_bound = DPMF_LOWER_BOUND_NONE;
    check(buffers == 0 ? dpmf_strategy_create(name, a, NULL, &s) : dpmf_optimize(name, a, NULL, &how, &s, &found));
    check(dpmf_mechanism_create(a, NULL, s, &o, &m));
    const double dense = time_dense(m, rows, key, table, &dense_bytes);
    printf("%s, %d buffers: dense %.1f ms for a step, %.1f MB\n", name, buffers, 1e3 * dense, 1e-6 * dense_bytes);
    for (int zipf = 0; zipf < 2; zipf++) {
        const double lazy = time_lazy(m, rows, zipf, key, table, &lazy_bytes, &flush);
        printf("    rows drawn %-8s lazy %7.3f ms for a step, %6.0f x faster, %.1f MB; the flush %.0f ms, %.1f dense "
               "steps\n",
               zipf ? "by Zipf:" : "evenly:", 1e3 * lazy, dense / lazy, 1e-6 * lazy_bytes, 1e3 * flush, flush / dense);
    }
    fflush(stdout);
    dpmf_mechanism_free(m);
    dpmf_strategy_free(s);
}

int main(int argc, char **argv) {
    const int64_t rows = argc > 1 ? atoll(argv[1]) : 1000000;
    uint8_t key[DPMF_KEY_SIZE];
    dpmf_workload *a = NULL;
    if (rows < 1 || rows > 100000000) {
        fprintf(stderr, "bench_lazy: %s rows, accepted 1 to 1e8\n", argv[1]);
        return 2;
    }
    float *table = calloc((size_t)(rows * WIDTH), sizeof *table);
    if (table == NULL) {
        fprintf(stderr, "bench_lazy: no memory for %lld rows\n", (long long)rows);
        return 1;
    }
    check(dpmf_key_testing(1, key));
    check(dpmf_workload_create(STEPS, NULL, &a));
    compare("identity", 0, a, rows, key, table);
    compare("blt", 2, a, rows, key, table);
    compare("tvblt", 4, a, rows, key, table);
    free(table);
    dpmf_workload_free(a);
    return 0;
}
