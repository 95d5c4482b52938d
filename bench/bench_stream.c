/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of a row of correlated noise compared with its parts, in one run; medians, and for one thread processor
 * time, so that other programs matter little:
 *
 *     compute     BLT and TV-BLT against i.i.d. rows, for a model that fits the cache and for one that does not
 *     look-ahead  banded C, with g += y, against reading b - 1 kept rows and writing one plus g: (b+1) x 4 bytes per coordinate at the speed of the STREAM triad (a = b + 3 c) on the same memory
 *     first       the first row of a fresh stream and the longest of later ones against their mean: memory is new to the
 *                 first, and rows are made ahead
 *     threads     two against one, by the clock
 *
 * A banded figure is the mean over as many steps as rows are made ahead, since they share the work.
 * usage: bench_stream [COORDINATES]    default 10000000
 */
#include "dpmf.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { REPEATS = 7 };

static double time_of(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double now(void) {
    return time_of(CLOCK_PROCESS_CPUTIME_ID);
}

static int smaller(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int count) {
    qsort(x, (size_t)count, sizeof *x, smaller);
    return x[count / 2];
}

static void check(dpmf_status status) {
    if (status == DPMF_OK) return;
    fprintf(stderr, "bench_stream: %s\n", dpmf_last_error());
    exit(1);
}

static float *numbers(int64_t count) {
    float *x = malloc((size_t)count * sizeof *x);
    if (x == NULL) {
        fprintf(stderr, "bench_stream: no memory for %lld numbers\n", (long long)count);
        exit(1);
    }
    for (int64_t i = 0; i < count; i++)
        x[i] = 1;
    return x;
}

/* Bytes per second of a = b + 3 c: two reads and a write, as STREAM counts them. */
static double triad(int64_t count) {
    float *a = numbers(count), *b = numbers(count), *c = numbers(count);
    double each[2 * REPEATS];
    for (int k = 0; k < 2 * REPEATS; k++) {
        double start = now();
        float *volatile out = a;
        for (float *restrict y = out, *restrict x = b, *restrict z = c; y < out + count; y++, x++, z++)
            *y = *x + 3 * *z;
        each[k] = now() - start;
    }
    free(a);
    free(b);
    free(c);
    return 12 * (double)count / median(each, 2 * REPEATS);
}

enum { STEPS = 8192 }; /* of every mechanism here: more than any figure takes */

typedef struct bench {
    const uint8_t *key;
    int threads;
    clockid_t clock;
    float *g;
} bench;

/* Nanoseconds per coordinate and row: the median of means over `steps` rows. */
static double time_rows(const bench *b, const dpmf_mechanism *m, int64_t count, int64_t lookahead, int64_t steps,
                        int add) {
    dpmf_noise_options o = dpmf_noise_options_defaults();
    o.uncalibrated = 1;
    const dpmf_segment segment = {b->g, count};
    dpmf_noise *noise = NULL;
    double each[REPEATS];
    o.run.threads = b->threads;
    o.lookahead = lookahead;
    check(dpmf_noise_create(m, count, 1, b->key, &o, &noise));
    for (int k = 0; k <= REPEATS; k++) {
        double start = time_of(b->clock);
        for (int64_t t = 0; t < steps; t++)
            check(add ? dpmf_noise_add(noise, 1, 1, &segment) : dpmf_noise_next(noise, b->g));
        if (k > 0) each[k - 1] = time_of(b->clock) - start; /* the first maps the memory */
    }
    dpmf_noise_free(noise);
    return 1e9 * median(each, REPEATS) / (double)(steps * count);
}

/* Takes ownership of the strategy. */
static dpmf_mechanism *mechanism(const dpmf_workload *a, dpmf_strategy *s) {
    dpmf_mechanism *m = NULL;
    check(dpmf_mechanism_create(a, NULL, s, NULL, &m));
    dpmf_strategy_free(s);
    return m;
}

static dpmf_mechanism *named(const dpmf_workload *a, const char *family, int64_t bands) {
    dpmf_strategy *s = NULL;
    dpmf_strategy_options o = dpmf_strategy_options_defaults();
    o.bands = bands;
    check(dpmf_strategy_create(family, a, &o, &s));
    return mechanism(a, s);
}

static dpmf_mechanism *optimized(const dpmf_workload *a, const char *family, int buffers) {
    dpmf_strategy *s = NULL;
    dpmf_optimize_options o = dpmf_optimize_options_defaults();
    dpmf_optimization result;
    o.buffers = buffers;
    check(dpmf_optimize(family, a, NULL, &o, &s, &result));
    return mechanism(a, s);
}

static void compute(const bench *b, const dpmf_workload *a, int64_t count, int64_t steps) {
    dpmf_mechanism *m[] = {named(a, "identity", 0), optimized(a, "blt", 4), optimized(a, "tvblt", 4),
                           named(a, "workload", 0), named(a, "tree-online", 0)};
    static const char *const what[] = {"i.i.d.", "BLT, d = 4", "TV-BLT, r = 4", "C = A", "tree-online"};
    double first = 0;
    printf("%lld coordinates, rows added\n", (long long)count);
    for (int k = 0; k < 5; k++) {
        double each = time_rows(b, m[k], count, 0, steps, 1);
        if (k == 0) first = each;
        printf("  %-24s %6.3f ns per number   %5.2f x i.i.d.\n", what[k], each, each / first);
        dpmf_mechanism_free(m[k]);
    }
}

static void lookahead(const bench *b, const dpmf_workload *a, int64_t count) {
    static const int64_t bands[] = {2, 4, 8, 16, 64};
    double speed = triad(count);
    printf("%lld coordinates, rows added; triad %.1f GB/s\n", (long long)count, speed / 1e9);
    for (int k = 0; k < 5; k++) {
        int64_t steps = bands[k] - 1;
        dpmf_mechanism *m = named(a, "bsr", bands[k]);
        double unit = 1e9 * 4 * (double)(bands[k] + 1) / speed;
        double ahead = time_rows(b, m, count, 0, steps, 1), none = time_rows(b, m, count, 1, steps < 8 ? steps : 8, 1);
        printf("  %2d bands: %6.3f ns per number   %5.3f of (b+1) x 4 bytes;  no look-ahead %6.3f, %5.3f\n",
               (int)bands[k], ahead, ahead / unit, none, none / unit);
        dpmf_mechanism_free(m);
    }
}

/* The first row, the mean of as many later ones as fill the rows ahead twice, and the longest of those. */
static void first_row(const bench *b, dpmf_mechanism *m, const char *what, int64_t count, int64_t steps) {
    dpmf_noise_options o = dpmf_noise_options_defaults();
    o.uncalibrated = 1;
    const dpmf_segment segment = {b->g, count};
    dpmf_noise *noise = NULL;
    double first = 0, sum = 0, longest = 0;
    o.run.threads = 1;
    check(dpmf_noise_create(m, count, 1, b->key, &o, &noise));
    for (int64_t t = 0; t < 3 * steps; t++) {
        double start = now();
        check(dpmf_noise_add(noise, 1, 1, &segment));
        const double elapsed = now() - start;
        if (t == 0) first = elapsed;
        if (t < steps) continue;
        sum += elapsed;
        if (elapsed > longest) longest = elapsed;
    }
    const double mean = sum / (double)(2 * steps);
    printf("  %-24s first %6.1f ms, %5.2f x a later one; the longest of those %5.2f x their mean\n", what, 1e3 * first,
           first / mean, longest / mean);
    dpmf_noise_free(noise);
    dpmf_mechanism_free(m);
}

static void first_rows(const bench *b, const dpmf_workload *a, int64_t count) {
    printf("%lld coordinates, rows added, fresh streams\n", (long long)count);
    first_row(b, named(a, "identity", 0), "i.i.d.", count, 4);
    first_row(b, optimized(a, "blt", 4), "BLT, d = 4", count, 4);
    first_row(b, named(a, "bsr", 16), "16 bands", count, 15);
    first_row(b, named(a, "bsr", 64), "64 bands", count, 63);
    first_row(b, named(a, "bisr", 16), "16 bands of C^-1", count, 15);
}

static void two_threads(const bench *one, const bench *two, const dpmf_workload *a, int64_t count) {
    dpmf_mechanism *m[] = {named(a, "identity", 0), optimized(a, "tvblt", 4), named(a, "bsr", 16)};
    static const char *const what[] = {"i.i.d.", "TV-BLT, r = 4", "16 bands"};
    printf("%lld coordinates, rows added, two threads\n", (long long)count);
    for (int k = 0; k < 3; k++) {
        double alone = time_rows(one, m[k], count, 0, 15, 1), both = time_rows(two, m[k], count, 0, 15, 1);
        printf("  %-24s %6.3f ns per number   %5.2f x one thread\n", what[k], both, alone / both);
        dpmf_mechanism_free(m[k]);
    }
}

int main(int argc, char **argv) {
    uint8_t key[DPMF_KEY_SIZE];
    int64_t count = argc > 1 ? atoll(argv[1]) : 10000000;
    dpmf_workload *a = NULL;
    if (count < 64 || count > 1000000000) {
        fprintf(stderr, "bench_stream: %s coordinates, accepted 64 to 1e9\n", argv[1]);
        return 2;
    }
    check(dpmf_key_testing(1, key));
    check(dpmf_workload_create(STEPS, NULL, &a));
    float *g = numbers(count < 16384 ? 16384 : count);
    const bench one = {key, 1, CLOCK_PROCESS_CPUTIME_ID, g};
    const bench one_by_the_clock = {key, 1, CLOCK_MONOTONIC, g}, two = {key, 2, CLOCK_MONOTONIC, g};
    compute(&one, a, 16384, 400);
    compute(&one, a, count, 4);
    lookahead(&one, a, count);
    first_rows(&one, a, count);
    two_threads(&one_by_the_clock, &two, a, count);
    free(g);
    dpmf_workload_free(a);
    return 0;
}
