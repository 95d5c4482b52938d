/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time of an evaluation in units that do not depend much on the machine: the time to copy n doubles in memory, n
 * being the number of steps. The growth column is the time at n over the time at n/10: 10 is linear. Each figure is the
 * median of REPEATS runs; a run of the copy repeats it until it takes a millisecond.
 */
#include "dpmf.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REPEATS = 5 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double values[REPEATS]) {
    qsort(values, REPEATS, sizeof values[0], ascending);
    return values[REPEATS / 2];
}

/* Seconds to copy n doubles. The copy is through a volatile pointer to memcpy, so that it is not optimised away. */
static double time_copy(int64_t n) {
    void *(*volatile copy)(void *, const void *, size_t) = memcpy;
    size_t bytes = (size_t)n * sizeof(double);
    void *from = calloc(1, bytes), *to = calloc(1, bytes);
    double seconds[REPEATS];
    if (!from || !to) {
        fprintf(stderr, "bench_evaluate: no memory for %lld numbers\n", (long long)n);
        exit(1);
    }
    copy(from, to, bytes); /* both are mapped from here on */
    for (int i = 0; i < REPEATS; i++) {
        double start = now(), elapsed;
        int64_t copies = 0;
        do {
            copy(to, from, bytes);
            copies++;
            elapsed = now() - start;
        } while (elapsed < 1e-3);
        seconds[i] = elapsed / (double)copies;
    }
    free(from);
    free(to);
    return median(seconds);
}

static void check(dpmf_status status) {
    if (status == DPMF_OK) return;
    fprintf(stderr, "bench_evaluate: %s\n", dpmf_last_error());
    exit(1);
}

/* Seconds to evaluate a strategy of the family, made before the clock starts. */
static double time_evaluate(const char *workload_text, const char *family, int64_t bands, int64_t n) {
    dpmf_workload *workload = NULL;
    dpmf_strategy *strategy = NULL;
    dpmf_strategy_options options = dpmf_strategy_options_defaults();
    double seconds[REPEATS];
    options.bands = bands;
    check(dpmf_workload_parse(workload_text, n, &workload));
    check(dpmf_strategy_create(family, workload, &options, &strategy));
    for (int i = 0; i < REPEATS; i++) {
        dpmf_evaluation found;
        double start = now();
        check(dpmf_evaluate(workload, NULL, strategy, NULL, &found, NULL));
        seconds[i] = now() - start;
    }
    dpmf_strategy_free(strategy);
    dpmf_workload_free(workload);
    return median(seconds);
}

int main(void) {
    static const struct {
        const char *workload, *family;
        int64_t bands;
    } cases[] = {{"prefix", "identity", 0}, {"prefix", "toeplitz", 0},       {"prefix", "bsr", 16},
                 {"prefix", "bisr", 16},    {"momentum:0.9", "toeplitz", 0}, {"momentum:0.9", "bsr", 16}};
    static const int64_t steps[] = {10000, 100000, 1000000};

    printf("evaluate, median of %d runs\n\n", (int)REPEATS);
    printf("%-14s%-10s%6s%10s%14s%14s%8s\n", "workload", "family", "bands", "steps", "milliseconds", "copies of n",
           "growth");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double before = 0;
        for (size_t j = 0; j < sizeof steps / sizeof steps[0]; j++) {
            double seconds = time_evaluate(cases[i].workload, cases[i].family, cases[i].bands, steps[j]);
            printf("%-14s%-10s%6lld%10lld%14.3f%14.1f", cases[i].workload, cases[i].family, (long long)cases[i].bands,
                   (long long)steps[j], 1e3 * seconds, seconds / time_copy(steps[j]));
            if (j > 0) printf("%8.1f", seconds / before);
            printf("\n");
            before = seconds;
        }
    }
    return 0;
}
