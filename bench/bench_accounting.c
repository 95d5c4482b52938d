/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certified calibration of sigma on thirty Poisson-sampled queries, and epsilon at the sigma found: medians of repeats, as
 * CSV on stdout. bench/peers/accounting.py runs it beside other accountants and writes bench/results.csv; alone it only
 * prints the time of each query.
 */
#include "dpmf.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { REPEATS = 5 };

/* epsilon is that of the sigma in the first column, to seven digits; calibration starts from it. */
static const struct query {
    double sigma, probability;
    long long steps;
    double delta, epsilon;
} QUERIES[] = {
    {0.8, 1e-3, 100, 1e-6, 0.260337095}, {3, 1e-3, 100, 1e-6, 0.01120411},      {0.8, 0.2, 100, 1e-6, 24.32262},
    {1.5, 0.05, 1000, 1e-6, 6.199692},   {2, 1e-3, 20000, 1e-6, 0.295801},      {0.8, 1e-3, 100000, 1e-6, 2.914478},
    {0.8, 0.05, 50000, 1e-6, 291.3699},  {1, 1e-5, 1000000, 1e-8, 0.0591},      {10, 1e-3, 100000, 1e-10, 0.1751628},
    {1, 1e-3, 1000000, 1e-10, 8.883},    {1, 0.01, 1000, 1e-5, 1.828237},       {1.1, 0.01, 10000, 1e-6, 5.806935},
    {0.7, 0.004, 3000, 1e-5, 3.005569},  {4, 0.1, 500, 1e-6, 2.648202},         {0.6, 0.02, 200, 1e-5, 7.26016},
    {1.3, 0.005, 40000, 1e-7, 4.80341},  {2.5, 0.25, 50, 1e-6, 3.755973},       {6, 0.01, 100000, 1e-8, 2.89126},
    {0.9, 5e-4, 500000, 1e-6, 2.533961}, {20, 0.05, 20000, 1e-9, 2.015259},     {1, 0.1, 30, 1e-5, 4.178224},
    {0.5, 1e-3, 10000, 1e-6, 6.346113},  {1.5, 1e-4, 1000000, 1e-9, 0.3965324}, {3, 0.02, 5000, 1e-12, 3.392364},
    {8, 0.5, 100, 1e-6, 2.929495},       {1.2, 0.03, 2000, 1e-4, 5.597454},     {0.8, 0.01, 20, 1e-6, 1.544481},
    {50, 0.2, 3000, 1e-5, 0.8021244},    {2, 0.004, 60000, 1e-10, 3.268372},    {1, 0.5, 3, 1e-5, 5.840844},
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
