/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Noise of a model on P processes, one thread each; under mpirun.
 *
 *     noise_ranks [COORDINATES [FAMILY[:SIZE]]...]
 *         the slowest rank's median over steps of g += row, and the buffers that it needs. With P = 1 in the same sitting
 *         it is what P = 2 is compared with (run.sh does both). SIZE: bands, or buffers. Default 10000000, the usual ones
 *         prints FAMILY:SIZE,P,COORDINATES,SECONDS PER STEP,THE LEAST OF THEM,BYTES OF BUFFERS PER COORDINATE
 *     noise_ranks visit COORDINATES SHARD ROWS [FAMILY[:SIZE]]...
 *         a model that is larger than the memory, SHARD coordinates at a time: a hash of every block of it over all
 *         rows. Blocks do not depend on SHARD, so that the same answer for another one shows that the bytes are the
 *         same prints FAMILY:SIZE,COORDINATES,SHARD,ROWS,SECONDS,HASH OF ALL BLOCKS
 */
#include "dpmf_mpi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 256, MEASURED = 41, BLOCK = 500000 };

static const char *const usual[] = {"identity", "tvblt:4", "blt:4", "banded-toeplitz:16"};
static int rank, ranks;

static void check(dpmf_status status) {
    if (status == DPMF_OK) return;
    fprintf(stderr, "noise_ranks: rank %d: %s %s\n", rank, dpmf_mpi_last_error(), dpmf_last_error());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void *memory(int64_t count, size_t size) {
    void *made = calloc((size_t)(count > 0 ? count : 1), size);
    if (made != NULL) return made;
    fprintf(stderr, "noise_ranks: rank %d: no memory for %lld numbers\n", rank, (long long)count);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* *together: rows that are made at a time, and share the work: a figure is the mean over them. */
static dpmf_mechanism *make(const char *text, int *together) {
    dpmf_workload *workload = NULL;
    dpmf_strategy *strategy = NULL;
    dpmf_mechanism *mechanism = NULL;
    const char *colon = strchr(text, ':');
    const int size = colon != NULL ? atoi(colon + 1) : 4;
    char family[40];
    snprintf(family, sizeof family, "%.*s", colon != NULL ? (int)(colon - text) : 39, text);
    *together = 1;
    check(dpmf_workload_create(STEPS, NULL, &workload));
    if (strcmp(family, "identity") == 0) {
        check(dpmf_strategy_create(family, workload, NULL, &strategy));
    } else {
        dpmf_optimize_options how = dpmf_optimize_options_defaults();
        dpmf_optimization found;
        const int banded = strncmp(family, "banded", 6) == 0;
        if (banded) *together = size > 1 ? size - 1 : 1;
        how.bands = banded ? size : 0;
        how.buffers = banded ? 0 : size;
        check(dpmf_optimize(family, workload, NULL, &how, &strategy, &found));
    }
    check(dpmf_mechanism_create(workload, NULL, strategy, NULL, &mechanism));
    dpmf_strategy_free(strategy);
    dpmf_workload_free(workload);
    return mechanism;
}

/* ---- time ---- */

/* The median; *least: the least, which is closer to the true cost on a busy machine. */
static double seconds_a_step(const dpmf_mechanism *mechanism, int together, int64_t dim, double *least) {
    const int repeats = together == 1 ? MEASURED : together < 20 ? 13 : 3;
    dpmf_noise_options o = dpmf_noise_options_defaults();
    dpmf_mpi_noise *noise = NULL;
    uint8_t key[DPMF_KEY_SIZE];
    double time[MEASURED];
    int64_t offset = 0, count = 0;
    o.run.threads = 1;
    o.uncalibrated = 1;
    check(dpmf_key_testing(1, key));
    check(dpmf_mpi_noise_create(MPI_COMM_WORLD, mechanism, dim, 1, key, &o, &noise));
    dpmf_mpi_noise_shard(noise, &offset, &count);
    float *sums = memory(count, sizeof *sums);
    for (int i = together < 20 ? -2 : -1; i < repeats; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        const double start = MPI_Wtime();
        for (int k = 0; k < together; k++)
            check(dpmf_mpi_noise_add(noise, 1, 1, &(dpmf_segment){sums, count}));
        double mine = (MPI_Wtime() - start) / together, slowest = 0;
        MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (i >= 0) time[i] = slowest; /* the ones before fill memory */
    }
    qsort(time, (size_t)repeats, sizeof *time, by_size);
    free(sums);
    dpmf_mpi_noise_free(noise);
    *least = time[0];
    return time[repeats / 2];
}

static void measure(const char *text, int64_t dim) {
    int together = 1;
    uint64_t all = 0, buffers = 0;
    dpmf_mechanism *mechanism = make(text, &together);
    check(dpmf_noise_memory(mechanism, dim, NULL, &all, &buffers));
    double least = 0;
    const double seconds = seconds_a_step(mechanism, together, dim, &least);
    if (rank == 0)
        printf("%s,%d,%lld,%.9g,%.9g,%.6g\n", text, ranks, (long long)dim, seconds, least,
               (double)buffers / (double)dim);
    fflush(stdout);
    dpmf_mechanism_free(mechanism);
}

/* ---- a visit ---- */

static uint64_t mix(uint64_t h, const float *x, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits = 0;
        memcpy(&bits, x + i, sizeof bits);
        h = (h ^ bits) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    return h;
}

/* Shards are distributed over the ranks; a shard consists of whole blocks. */
static void visit_shard(const dpmf_mechanism *mechanism, int64_t dim, int64_t from, int64_t count, int rows,
                        uint64_t *hash) {
    dpmf_noise_options o = dpmf_noise_options_defaults();
    dpmf_noise *noise = NULL;
    uint8_t key[DPMF_KEY_SIZE];
    float *row = memory(count, sizeof *row);
    o.offset = from;
    o.count = count;
    o.run.threads = 1;
    o.uncalibrated = 1;
    check(dpmf_key_testing(1, key));
    check(dpmf_noise_create(mechanism, dim, 1, key, &o, &noise));
    for (int t = 0; t < rows; t++) {
        check(dpmf_noise_next(noise, row));
        for (int64_t at = 0; at < count; at += BLOCK)
            hash[(from + at) / BLOCK] =
                mix(hash[(from + at) / BLOCK], row + at, count - at < BLOCK ? count - at : BLOCK);
    }
    dpmf_noise_free(noise);
    free(row);
}

static void visit(const char *text, int64_t dim, int64_t shard, int rows) {
    const int64_t blocks = (dim + BLOCK - 1) / BLOCK;
    int together = 1;
    dpmf_mechanism *mechanism = make(text, &together);
    uint64_t *hash = memory(blocks, sizeof *hash), *all = memory(blocks, sizeof *all), whole = 0;
    shard = (shard + BLOCK - 1) / BLOCK * BLOCK;
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    for (int64_t from = 0, i = 0; from < dim; from += shard, i++)
        if (i % ranks == rank) visit_shard(mechanism, dim, from, dim - from < shard ? dim - from : shard, rows, hash);
    MPI_Reduce(hash, all, (int)blocks, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD); /* one of them has it, the rest 0 */
    for (int64_t i = 0; i < blocks; i++)
        whole = (whole ^ all[i]) * 0x9e3779b97f4a7c15u + (whole >> 31);
    if (rank == 0)
        printf("%s,%lld,%lld,%d,%.3f,%016llx\n", text, (long long)dim, (long long)shard, rows, MPI_Wtime() - start,
               (unsigned long long)whole);
    fflush(stdout);
    free(hash);
    free(all);
    dpmf_mechanism_free(mechanism);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const int visiting = argc >= 5 && strcmp(argv[1], "visit") == 0, first = visiting ? 5 : 2;
    const int given = argc - first, total = given > 0 ? given : (int)(sizeof usual / sizeof *usual);
    for (int i = 0; i < total; i++) {
        const char *text = given > 0 ? argv[first + i] : usual[i];
        if (visiting)
            visit(text, (int64_t)atof(argv[2]), (int64_t)atof(argv[3]), atoi(argv[4]));
        else
            measure(text, argc > 1 ? (int64_t)atof(argv[1]) : 10000000);
    }
    MPI_Finalize();
    return 0;
}
