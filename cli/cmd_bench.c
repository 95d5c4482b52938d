/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Benchmarks: ratios to a limit or to a peer measured in the same run, medians of repeats. Times alone mean little,
 * since machines differ and are shared.
 */
#include "dpmf.h"
#include "options/verbs.h"
#include "output.h"

#include <lapacke.h>
#include <stdlib.h>
#include <string.h>

typedef struct row {
    const char *name;
    double value, reference; /* seconds */
    double goal;             /* value/reference should not exceed it */
} row;

enum { REPEATS = 5, ROWS_MAX = 16 };

typedef struct rows {
    int count;
    row row[ROWS_MAX];
} rows;

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *times, int count) {
    qsort(times, (size_t)count, sizeof *times, by_size);
    return times[count / 2];
}

/* ---- optimum ---- */

/* The median time of an optimization, and the strategy that it finds if `out` is not NULL; negative after a message. */
static double time_family(const char *family, const char *text, const char *participation, int64_t steps, int64_t bands,
                          int repeats, int threads, dpmf_strategy **out) {
    double times[REPEATS];
    dpmf_workload *workload = NULL;
    dpmf_participation *pattern = NULL;
    dpmf_optimize_options how = dpmf_optimize_options_defaults();
    how.run = run_with(threads);
    how.bands = bands;
    if (strcmp(text, "prefix") != 0) how.tolerance = 1e-5; /* its goal with momentum */
    dpmf_status status = dpmf_workload_parse(text, steps, &workload);
    if (status == DPMF_OK) status = dpmf_participation_parse(participation, steps, &pattern);
    for (int i = 0; i < repeats && status == DPMF_OK; i++) {
        dpmf_optimization found;
        dpmf_strategy *strategy = NULL;
        double start = seconds_now();
        status = dpmf_optimize(family, workload, pattern, &how, out == NULL ? NULL : &strategy, &found);
        times[i] = seconds_now() - start;
        if (out != NULL && i + 1 == repeats)
            *out = strategy;
        else
            dpmf_strategy_free(strategy);
    }
    dpmf_workload_free(workload);
    dpmf_participation_free(pattern);
    if (status != DPMF_OK) {
        fail_status(status, NULL);
        return -1.0;
    }
    return median(times, repeats);
}

/* One eigendecomposition of a symmetric matrix of that order, which the published route needs in every iteration. */
static double time_eigen(int order, int repeats) {
    double times[REPEATS], *a = allocate((int64_t)order * order, sizeof *a), *values = allocate(order, sizeof *values);
    int repeat = 0;
    for (; repeat < repeats && a != NULL && values != NULL; repeat++) {
        for (int i = 0; i < order; i++)
            for (int j = 0; j < order; j++)
                a[(size_t)i * (size_t)order + (size_t)j] = (double)(order - (i > j ? i : j));
        double start = seconds_now();
        if (LAPACKE_dsyevd(LAPACK_COL_MAJOR, 'V', 'L', order, a, order, values) != 0) break;
        times[repeat] = seconds_now() - start;
    }
    free(a);
    free(values);
    if (repeat < repeats) {
        fail(EXIT_UNABLE, "bench: LAPACK's dsyevd of order %d failed", order);
        return -1.0;
    }
    return median(times, repeats);
}

static int bench_optimum(int threads, rows *out) {
    double small = time_family(DPMF_FAMILY_DENSE, "prefix", "single", 2048, 0, REPEATS, threads, NULL),
           eigen = small < 0.0 ? -1.0 : time_eigen(2048, 3);
    if (eigen < 0.0) return EXIT_UNABLE;
    out->row[out->count++] = (row){"dense optimum, 2048 steps, against one dsyevd(2048)", small, eigen, 1.0 / 50};
    double long_run = time_family(DPMF_FAMILY_DENSE, "prefix", "single", 100000, 0, 3, threads, NULL);
    double longer =
        long_run < 0.0 ? -1.0 : time_family(DPMF_FAMILY_DENSE, "prefix", "single", 1000000, 0, 3, threads, NULL);
    if (longer < 0.0) return EXIT_UNABLE;
    out->row[out->count++] = (row){"dense optimum, 1e6 steps against 1e5", longer, long_run, 13.0};
    return 0;
}

/* ---- optimizers ---- */

/* The errors of all steps of a banded Toeplitz strategy, O(n b). */
static double time_errors(const dpmf_strategy *strategy, int repeats, int threads) {
    double times[REPEATS];
    int64_t steps = dpmf_strategy_get(strategy).steps;
    double *errors = allocate(steps, sizeof *errors);
    dpmf_workload *workload = NULL;
    dpmf_run run = run_with(threads);
    dpmf_status status = errors == NULL ? DPMF_ERROR_MEMORY : dpmf_workload_parse("prefix", steps, &workload);
    for (int i = 0; i < repeats && status == DPMF_OK; i++) {
        double start = seconds_now();
        status = dpmf_error_compute(workload, strategy, &run, errors);
        times[i] = seconds_now() - start;
    }
    free(errors);
    dpmf_workload_free(workload);
    if (status != DPMF_OK) {
        fail_status(status, NULL);
        return -1.0;
    }
    return median(times, repeats);
}

static int bench_optimizers(int threads, rows *out) {
    dpmf_strategy *strategy = NULL;
    double toeplitz =
        time_family(DPMF_FAMILY_BANDED_TOEPLITZ, "prefix", "single", 10000000, 64, REPEATS, threads, &strategy);
    double errors = toeplitz < 0.0 ? -1.0 : time_errors(strategy, 3, threads);
    dpmf_strategy_free(strategy);
    if (errors < 0.0) return EXIT_UNABLE;
    out->row[out->count++] = (row){"banded Toeplitz, 1e7 steps, 64 bands, against its errors", toeplitz, errors, 1.0};
    double epochs = time_family(DPMF_FAMILY_DENSE, "prefix", "cyclic:20,100", 2000, 0, 3, threads, NULL);
    double eigen = epochs < 0.0 ? -1.0 : time_eigen(2000, 3);
    double momentum =
        eigen < 0.0 ? -1.0 : time_family(DPMF_FAMILY_DENSE, "momentum:0.9", "cyclic:20,100", 2000, 0, 1, threads, NULL);
    if (momentum < 0.0) return EXIT_UNABLE;
    out->row[out->count++] = (row){"dense, 20 epochs of 100, against one dsyevd(2000)", epochs, eigen, 20.0};
    out->row[out->count++] = (row){"the same with momentum 0.9, to 1e-5", momentum, eigen, 20.0};
    return 0;
}

/* ---- noise ---- */

/* A mechanism of prefix sums: `family` optimized, or named. NULL after a message. */
static dpmf_mechanism *noise_mechanism(const char *family, int64_t steps, int64_t bands, int buffers) {
    dpmf_workload *workload = NULL;
    dpmf_strategy *strategy = NULL;
    dpmf_mechanism *mechanism = NULL;
    dpmf_strategy_options named = dpmf_strategy_options_defaults();
    dpmf_optimize_options how = dpmf_optimize_options_defaults();
    dpmf_mechanism_options kept = dpmf_mechanism_options_defaults();
    dpmf_optimization found;
    kept.evaluate.lower_bound = DPMF_LOWER_BOUND_NONE;
    named.bands = bands;
    how.buffers = buffers;
    dpmf_status status = dpmf_workload_parse("prefix", steps, &workload);
    if (status == DPMF_OK)
        status = buffers > 0 ? dpmf_optimize(family, workload, NULL, &how, &strategy, &found)
                             : dpmf_strategy_create(family, workload, &named, &strategy);
    if (status == DPMF_OK) status = dpmf_mechanism_create(workload, NULL, strategy, &kept, &mechanism);
    if (status != DPMF_OK) fail_status(status, NULL);
    dpmf_strategy_free(strategy);
    dpmf_workload_free(workload);
    return mechanism;
}

/*
 * The mean time of a row added to `sum`, over all steps (look-ahead makes some rows expensive); negative after a
 * message.
 */
static double time_noise(const char *family, int64_t steps, int64_t bands, int buffers, int64_t dim, int threads,
                         float *sum) {
    uint8_t key[DPMF_KEY_SIZE];
    dpmf_noise *noise = NULL;
    dpmf_noise_options how = dpmf_noise_options_defaults();
    dpmf_mechanism *mechanism = noise_mechanism(family, steps, bands, buffers);
    double best = -1.0;
    how.run.threads = threads;
    how.uncalibrated = 1; /* for the clock alone */
    dpmf_status status = mechanism == NULL ? DPMF_ERROR_ARGUMENT : dpmf_key_testing(1, key);
    if (status == DPMF_OK) status = dpmf_noise_create(mechanism, dim, 1.0, key, &how, &noise);
    for (int repeat = 0; repeat < 3 && status == DPMF_OK; repeat++) {
        double start = seconds_now();
        for (int64_t t = 0; t < steps && status == DPMF_OK; t++)
            status = dpmf_noise_add(noise, 1.0, 1, &(dpmf_segment){sum, dim});
        double each = (seconds_now() - start) / (double)steps;
        if (best < 0.0 || each < best) best = each;
        if (status == DPMF_OK) status = dpmf_noise_seek(noise, 0);
    }
    dpmf_noise_free(noise);
    if (status != DPMF_OK && mechanism != NULL) fail_status(status, NULL);
    dpmf_mechanism_free(mechanism);
    return status == DPMF_OK ? best : -1.0;
}

/* Seconds per byte of a + s b -> c over three arrays of `count` floats: the speed of memory. */
static double time_triad(int64_t count, float *a) {
    float *b = allocate(count, sizeof *b), *c = allocate(count, sizeof *c);
    double best = -1.0;
    for (int repeat = 0; repeat < 5 && b != NULL && c != NULL; repeat++) {
        double start = seconds_now();
        for (int64_t i = 0; i < count; i++)
            c[i] = a[i] + 0.5f * b[i];
        double each = (seconds_now() - start) / (12.0 * (double)count);
        if (best < 0.0 || each < best) best = each;
        b[repeat] = c[count - 1 - repeat]; /* the next round needs this one */
    }
    free(b);
    free(c);
    if (best < 0.0) fail_memory();
    return best;
}

static int bench_noise(int threads, rows *out) {
    enum { NEAR = 16384, FAR = 10000000 };
    static const struct {
        const char *name;
        int64_t bands;
        double goal;
    } banded[] = {{"8 bands, 1e7 numbers, against (b+1) x 4 bytes each", 8, 0.55},
                  {"16 bands, the same", 16, 0.32},
                  {"64 bands, the same", 64, 0.13}};
    float *sum = allocate(FAR, sizeof *sum);
    int code = sum == NULL ? fail_memory() : 0;
    (void)threads; /* one thread, and two compared with one */
    double near = code == 0 ? time_noise(DPMF_FAMILY_IDENTITY, 512, 0, 0, NEAR, 1, sum) : -1.0;
    double blt = near < 0.0 ? -1.0 : time_noise(DPMF_FAMILY_BLT, 512, 0, 4, NEAR, 1, sum);
    double tvblt = blt < 0.0 ? -1.0 : time_noise(DPMF_FAMILY_TVBLT, 512, 0, 4, NEAR, 1, sum);
    double triad = tvblt < 0.0 ? -1.0 : time_triad(FAR, sum);
    if (code == 0 && triad < 0.0) code = EXIT_UNABLE;
    if (code == 0) {
        out->row[out->count++] = (row){"BLT of 4 buffers against independent noise, in cache", blt, near, 1.5};
        out->row[out->count++] = (row){"TV-BLT of 4 nodes, the same", tvblt, near, 1.5};
    }
    for (int i = 0; i < 3 && code == 0; i++) {
        double each = time_noise(DPMF_FAMILY_BSR, 130, banded[i].bands, 0, FAR, 1, sum);
        if (each < 0.0) code = EXIT_UNABLE;
        out->row[out->count++] =
            (row){banded[i].name, each, triad * 4.0 * (double)(banded[i].bands + 1) * FAR, banded[i].goal};
    }
    double one = code == 0 ? time_noise(DPMF_FAMILY_BSR, 64, 16, 0, FAR, 1, sum) : -1.0;
    double two = one < 0.0 ? -1.0 : time_noise(DPMF_FAMILY_BSR, 64, 16, 0, FAR, 2, sum);
    if (code == 0 && two < 0.0) code = EXIT_UNABLE;
    if (code == 0) out->row[out->count++] = (row){"16 bands, two threads against one", two, one, 1.0 / 1.8};
    free(sum);
    return code;
}

/* ---- */

typedef struct group {
    const char *name;
    int (*run)(int threads, rows *out);
} group;

static const group GROUPS[] = {{"optimum", bench_optimum}, {"optimizers", bench_optimizers}, {"noise", bench_noise}};

static void print_rows(const arguments *given, const rows *found, text_buffer *t) {
    if (!option_given(given, OPTION_JSON)) {
        text_add(t, "%-56s%12s%12s%12s%10s\n", "", "seconds", "reference", "ratio", "goal");
        for (int i = 0; i < found->count; i++) {
            const row *r = &found->row[i];
            text_add(t, "%-56s%12.4g%12.4g%12.4g%10.3g\n", r->name, r->value, r->reference, r->value / r->reference,
                     r->goal);
        }
        return;
    }
    json_begin(t);
    json_open(t, "results", '[');
    for (int i = 0; i < found->count; i++) {
        const row *r = &found->row[i];
        json_open(t, NULL, '{');
        json_text(t, "name", r->name);
        json_double(t, "value", r->value);
        json_double(t, "reference", r->reference);
        json_double(t, "ratio", r->value / r->reference);
        json_double(t, "goal", r->goal);
        json_close(t, '}');
    }
    json_close(t, ']');
    json_end(t);
}

int cmd_bench(const arguments *given) {
    rows found = {0};
    text_buffer t = {0};
    int code = 0, known = given->operand == NULL;
    /* LAPACK's decompositions take seconds and cannot be cancelled, and no file can be left incomplete. */
    if (!end_at_once(NULL)) return fail(EXIT_CANCELLED, "cancelled");
    for (size_t i = 0; i < sizeof GROUPS / sizeof GROUPS[0] && code == 0; i++) {
        if (given->operand != NULL && strcmp(given->operand, GROUPS[i].name) != 0) continue;
        known = 1;
        code = GROUPS[i].run((int)given->count[OPTION_THREADS], &found);
    }
    if (!known)
        return fail(EXIT_USAGE, "bench %s: accepted: optimum, optimizers and noise, or nothing for all",
                    given->operand);
    if (code == 0 && interrupted()) code = fail(EXIT_CANCELLED, "cancelled");
    if (code == 0) {
        print_rows(given, &found, &t);
        code = text_print(&t);
    }
    text_free(&t);
    return code;
}
