/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processor time per number of noise: a device's rows beside the library's own, by the clock that counts all threads of
 * this process, so that other programs on the machine matter little. For OpenCL devices that are the processor itself
 * (PoCL).
 *
 * usage: bench_device [COORDINATES]    default 4000000
 */
#include "dpmf_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { STEPS = 8 };

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void stop(const char *why) {
    fprintf(stderr, "bench_device: %s\n", why);
    exit(1);
}

static void need(dpmf_status status) {
    if (status != DPMF_OK) stop(dpmf_last_error());
}

static void need_device(dpmf_status status) {
    if (status != DPMF_OK) stop(dpmf_device_last_error());
}

static dpmf_mechanism *mechanism_of(int buffers) {
    dpmf_workload *workload = NULL;
    dpmf_strategy *strategy = NULL;
    dpmf_mechanism *mechanism = NULL;
    dpmf_optimize_options o = dpmf_optimize_options_defaults();
    dpmf_mechanism_options about = dpmf_mechanism_options_defaults();
    dpmf_optimization found;
    about.sigma = 1;
    o.buffers = buffers;
    need(dpmf_workload_parse("prefix", STEPS, &workload));
    if (buffers == 0)
        need(dpmf_strategy_create("identity", workload, NULL, &strategy));
    else
        need(dpmf_optimize("tvblt", workload, NULL, &o, &strategy, &found));
    need(dpmf_mechanism_create(workload, NULL, strategy, &about, &mechanism));
    dpmf_strategy_free(strategy);
    dpmf_workload_free(workload);
    return mechanism;
}

static void measure(dpmf_device *device, const char *name, int buffers, int64_t count, float *sums) {
    const uint8_t key[DPMF_KEY_SIZE] = {1};
    const dpmf_segment whole = {sums, count};
    dpmf_mechanism *mechanism = mechanism_of(buffers);
    dpmf_noise *own = NULL;
    dpmf_device_noise *other = NULL;
    double took[2] = {0, 0};
    need(dpmf_noise_create(mechanism, count, 1, key, NULL, &own));
    need_device(dpmf_device_noise_create(device, mechanism, count, 1, key, NULL, &other));
    for (int t = 0; t < STEPS; t++) { /* alternating; the first row finds untouched memory */
        const double start = seconds();
        need(dpmf_noise_add(own, 1, 1, &whole));
        const double middle = seconds();
        need_device(dpmf_device_noise_add(other, 1, DPMF_DEVICE_FLOAT32, 1, &whole, NULL));
        if (t == 0) continue;
        took[0] += middle - start;
        took[1] += seconds() - middle;
    }
    const double each = 1e9 / ((double)count * (STEPS - 1));
    printf("%-18s library %6.2f ns per number, device %6.2f: %5.1f times\n", name, took[0] * each, took[1] * each,
           took[1] / took[0]);
    dpmf_noise_free(own);
    dpmf_device_noise_free(other);
    dpmf_mechanism_free(mechanism);
}

int main(int argc, char **argv) {
    const long long count = argc > 1 ? atoll(argv[1]) : 4000000;
    dpmf_device *device = NULL;
    float *sums = count > 0 ? calloc((size_t)count, sizeof *sums) : NULL;
    if (sums == NULL) stop("COORDINATES: a number above 0 that fits in memory");
    need_device(dpmf_device_open("opencl", NULL, &device));
    printf("%s\n", dpmf_device_name(device));
    measure(device, "independent noise", 0, count, sums);
    measure(device, "TV-BLT, 4 buffers", 4, count, sums);
    dpmf_device_close(device);
    free(sums);
    return 0;
}
