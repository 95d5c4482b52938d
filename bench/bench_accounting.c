/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certified calibration of sigma on ten Poisson-sampled queries, and epsilon at the sigma found: medians of repeats, as
 * CSV on stdout. bench/peers/accounting.py runs it beside other accountants and writes bench/results.csv; alone it
 * only says how long each query takes.
 */
#include "dpmf.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { REPEATS = 5 };

/* epsilon is the tight value at the sigma of the first column (remove direction). */
static const struct query {
    double sigma, probability;
    long long steps;
    double delta, epsilon;
} QUERIES[] = {
    {0.8, 1e-3, 100, 1e-6, 0.260337095},     {3, 1e-3, 100, 1e-6, 0.011204115},
    {0.8, 0.2, 100, 1e-6, 24.322620180},     {1.5, 0.05, 1000, 1e-6, 6.199691689},
    {2, 1e-3, 20000, 1e-6, 0.295801002},     {0.8, 1e-3, 100000, 1e-6, 2.914478209},
    {0.8, 0.05, 50000, 1e-6, 291.369926153}, {1, 1e-5, 1000000, 1e-8, 0.059100002},
    {10, 1e-3, 100000, 1e-10, 0.175162821},  {1, 1e-3, 1000000, 1e-10, 8.883000319},
};

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int run(const struct query *q) {
    dpmf_account_options options = dpmf_account_options_defaults();
    dpmf_privacy found, checked;
    double times[REPEATS];
    options.sampling = (dpmf_sampling){DPMF_SAMPLING_POISSON, q->probability, 0, 0, 0, 0};
    options.compositions = q->steps;
    for (int i = 0; i < REPEATS; i++) {
        double start = seconds_now();
        if (dpmf_calibrate_sigma(q->epsilon, q->delta, &options, &found) != DPMF_OK) return 1;
        times[i] = seconds_now() - start;
    }
    qsort(times, REPEATS, sizeof *times, by_size);
    double start = seconds_now();
    if (dpmf_account_epsilon(q->sigma, q->delta, &options, &checked) != DPMF_OK) return 1;
    double once = seconds_now() - start;
    printf("%.17g,%.17g,%lld,%.17g,%.17g,%.6e,%.17g,%.6e,%.17g\n", q->sigma, q->probability, q->steps, q->delta,
           q->epsilon, times[REPEATS / 2], found.sigma, once, checked.epsilon);
    return 0;
}

int main(void) {
    printf(
        "sigma,probability,steps,delta,epsilon,calibrate_seconds,calibrated_sigma,epsilon_seconds,epsilon_certified\n");
    for (size_t i = 0; i < sizeof QUERIES / sizeof QUERIES[0]; i++)
        if (run(&QUERIES[i]) != 0) {
            fprintf(stderr, "bench_accounting: %s\n", dpmf_last_error());
            return 1;
        }
    return 0;
}
