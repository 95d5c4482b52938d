/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program of the tests on many processes: rows.c MODE MECHANISM DIM [ARGUMENT]..., under mpirun.
 *
 *     bytes FILE DIM even|odd        every row, gathered, equals the row of one process, byte for byte
 *     save FILE DIM PATH ROWS        that many rows, then a checkpoint; prints a hash of all rows after it
 *     resume FILE DIM PATH           loads it on any number of processes; prints the same hash
 *     run FILE DIM PATH STATE DIE    rows with a state file and a checkpoint every 3; rank 1 kills itself at row DIE
 *     again FILE DIM PATH STATE      continues from there
 *     differ FILE DIM WHAT [FILE2]   rank 1 has another key, clip, dim or mechanism: refused on every rank
 *     count FILE DIM                 communication that adding noise takes, by counting the calls of MPI
 */
#include "dpmf_mpi.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NEED(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "rank %d, line %d: %s (%s; %s)\n", rank, __LINE__, #condition, dpmf_mpi_last_error(),      \
                    dpmf_last_error());                                                                                \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                                              \
        }                                                                                                              \
    } while (0)

static int rank, ranks;

/* Every call that moves anything between processes. */
static long calls;
int MPI_Allreduce(const void *a, void *b, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c) {
    calls++;
    return PMPI_Allreduce(a, b, n, t, op, c);
}
int MPI_Bcast(void *a, int n, MPI_Datatype t, int root, MPI_Comm c) {
    calls++;
    return PMPI_Bcast(a, n, t, root, c);
}
int MPI_Send(const void *a, int n, MPI_Datatype t, int to, int tag, MPI_Comm c) {
    calls++;
    return PMPI_Send(a, n, t, to, tag, c);
}
int MPI_Recv(void *a, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Status *s) {
    calls++;
    return PMPI_Recv(a, n, t, from, tag, c, s);
}

static uint64_t hash(uint64_t h, const void *bytes, size_t size) { /* FNV-1a */
    for (size_t i = 0; i < size; i++)
        h = (h ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
    return h;
}

/* Shards of sizes that fit no cache line or tile: the first gets 1, the others the rest, unevenly. */
static void odd_shard(int64_t dim, dpmf_noise_options *o) {
    int64_t at = 0;
    for (int r = 0; r <= rank; r++) {
        int64_t count = r == ranks - 1 ? dim - at : r == 0 ? 1 : (dim - at) / 3 + 1;
        o->offset = at;
        o->count = count;
        at += count;
    }
}

static void test_bytes(const dpmf_mechanism *m, int64_t dim, const uint8_t *key, const char *how) {
    const int64_t steps = dpmf_strategy_get(dpmf_mechanism_get(m).strategy).steps;
    dpmf_noise_options o = dpmf_noise_options_defaults();
    dpmf_mpi_noise *noise = NULL;
    dpmf_noise *alone = NULL;
    o.uncalibrated = 1;
    const dpmf_noise_options whole = o;
    float *row = malloc((size_t)dim * sizeof *row), *wanted = malloc((size_t)dim * sizeof *row);
    if (strcmp(how, "odd") == 0) odd_shard(dim, &o);
    NEED(row != NULL && wanted != NULL);
    NEED(dpmf_mpi_noise_create(MPI_COMM_WORLD, m, dim, 0.5, key, &o, &noise) == DPMF_OK);
    NEED(dpmf_noise_create(m, dim, 0.5, key, &whole, &alone) == DPMF_OK);
    for (int64_t t = 0; t < steps; t++) {
        const int root = (int)(t % ranks);
        NEED(dpmf_mpi_noise_gather(noise, root, row) == DPMF_OK);
        NEED(dpmf_noise_next(alone, wanted) == DPMF_OK);
        if (rank == root) NEED(memcmp(row, wanted, (size_t)dim * sizeof *row) == 0);
    }
    NEED(dpmf_mpi_noise_gather(noise, 0, row) == DPMF_ERROR_ARGUMENT); /* past the last */
    dpmf_mpi_noise_free(noise);
    dpmf_noise_free(alone);
    free(row);
    free(wanted);
}

/* Rank 0 alone has the salt, in place of a new one of its state file: the others get it from rank 0. */
static dpmf_noise_options salted(void) {
    static const uint8_t salt[DPMF_SALT_SIZE] = {5, 6};
    dpmf_noise_options o = dpmf_noise_options_defaults();
    o.uncalibrated = 1;
    if (rank == 0) o.salt = salt;
    return o;
}

/* Rows from here to the end. */
static void print_rest(dpmf_mpi_noise *noise, int64_t dim, int64_t steps) {
    float *row = malloc((size_t)dim * sizeof *row);
    uint64_t h = 0xcbf29ce484222325u;
    NEED(row != NULL);
    while (dpmf_mpi_noise_step(noise) < steps) {
        NEED(dpmf_mpi_noise_gather(noise, 0, row) == DPMF_OK);
        if (rank == 0) h = hash(h, row, (size_t)dim * sizeof *row);
    }
    if (rank == 0) printf("%016llx\n", (unsigned long long)h);
    free(row);
}

static void test_save(const dpmf_mechanism *m, int64_t dim, const uint8_t *key, const char *path, int rows) {
    dpmf_mpi_noise *noise = NULL;
    const dpmf_noise_options o = salted();
    float *row = malloc((size_t)dim * sizeof *row);
    NEED(dpmf_mpi_noise_create(MPI_COMM_WORLD, m, dim, 1, key, &o, &noise) == DPMF_OK);
    for (int t = 0; t < rows; t++)
        NEED(dpmf_mpi_noise_next(noise, row) == DPMF_OK);
    NEED(dpmf_mpi_noise_save(noise, path) == DPMF_OK);
    print_rest(noise, dim, dpmf_strategy_get(dpmf_mechanism_get(m).strategy).steps);
    dpmf_mpi_noise_free(noise);
    free(row);
}

static void test_resume(const dpmf_mechanism *m, int64_t dim, const uint8_t *key, const char *path, const char *state) {
    dpmf_noise_options o = salted();
    dpmf_mpi_noise *noise = NULL;
    o.state = state;
    o.replay = state != NULL;
    NEED(dpmf_mpi_noise_create(MPI_COMM_WORLD, m, dim, 1, key, &o, &noise) == DPMF_OK);
    NEED(dpmf_mpi_noise_load(noise, path) == DPMF_OK);
    if (rank == 0) fprintf(stderr, "row %lld\n", (long long)dpmf_mpi_noise_step(noise));
    print_rest(noise, dim, dpmf_strategy_get(dpmf_mechanism_get(m).strategy).steps);
    dpmf_mpi_noise_free(noise);
}

static void test_run(const dpmf_mechanism *m, int64_t dim, const uint8_t *key, const char *path, const char *state,
                     int die) {
    dpmf_noise_options o = salted();
    dpmf_mpi_noise *noise = NULL;
    float *row = malloc((size_t)dim * sizeof *row);
    o.state = state;
    NEED(dpmf_mpi_noise_create(MPI_COMM_WORLD, m, dim, 1, key, &o, &noise) == DPMF_OK);
    for (int t = 0;; t++) {
        if (t % 3 == 0) NEED(dpmf_mpi_noise_save(noise, path) == DPMF_OK);
        if (t == die && rank == 1) raise(SIGKILL);
        NEED(dpmf_mpi_noise_gather(noise, 0, row) == DPMF_OK);
    }
}

static void test_differ(const dpmf_mechanism *m, int64_t dim, uint8_t *key, const char *what, const char *other) {
    dpmf_noise_options o = dpmf_noise_options_defaults();
    dpmf_mechanism *second = NULL;
    dpmf_mpi_noise *noise = NULL;
    double clip = 1;
    o.uncalibrated = 1;
    if (rank == 1 && strcmp(what, "key") == 0) key[3] ^= 1;
    if (rank == 1 && strcmp(what, "clip") == 0) clip = 1.0000001;
    if (rank == 1 && strcmp(what, "dim") == 0) dim++;
    if (rank == 1 && strcmp(what, "mechanism") == 0) {
        NEED(dpmf_mechanism_load(other, &second) == DPMF_OK);
        m = second;
    }
    NEED(dpmf_mpi_noise_create(MPI_COMM_WORLD, m, dim, clip, key, &o, &noise) == DPMF_ERROR_ARGUMENT);
    NEED(noise == NULL);
    NEED(strstr(dpmf_mpi_last_error(), "rank 1") != NULL && strstr(dpmf_mpi_last_error(), what) != NULL);
    dpmf_mechanism_free(second);
    printf("refused\n");
}

static void test_count(const dpmf_mechanism *m, int64_t dim, const uint8_t *key) {
    dpmf_noise_options o = dpmf_noise_options_defaults();
    dpmf_mpi_noise *noise = NULL;
    int64_t offset = 0, count = 0;
    o.uncalibrated = 1;
    NEED(dpmf_mpi_noise_create(MPI_COMM_WORLD, m, dim, 1, key, &o, &noise) == DPMF_OK);
    dpmf_mpi_noise_shard(noise, &offset, &count);
    float *sums = calloc((size_t)count + 1, sizeof *sums);
    NEED(sums != NULL && calls > 0);
    calls = 0;
    while (dpmf_mpi_noise_step(noise) < dpmf_strategy_get(dpmf_mechanism_get(m).strategy).steps)
        NEED(dpmf_mpi_noise_add(noise, 1, 1, &(dpmf_segment){sums, count}) == DPMF_OK);
    NEED(calls == 0);
    free(sums);
    dpmf_mpi_noise_free(noise);
    printf("none\n");
}

int main(int argc, char **argv) {
    dpmf_mechanism *m = NULL;
    uint8_t key[DPMF_KEY_SIZE];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    NEED(argc >= 4);
    const char *mode = argv[1], *first = argc > 4 ? argv[4] : "", *next = argc > 5 ? argv[5] : NULL;
    const int64_t dim = atoll(argv[3]);
    NEED(dpmf_mechanism_load(argv[2], &m) == DPMF_OK && dpmf_key_testing(7, key) == DPMF_OK);
    if (strcmp(mode, "bytes") == 0) test_bytes(m, dim, key, first);
    if (strcmp(mode, "save") == 0) test_save(m, dim, key, first, atoi(next));
    if (strcmp(mode, "resume") == 0) test_resume(m, dim, key, first, NULL);
    if (strcmp(mode, "again") == 0) test_resume(m, dim, key, first, next);
    if (strcmp(mode, "run") == 0) test_run(m, dim, key, first, next, argc > 6 ? atoi(argv[6]) : 1000);
    if (strcmp(mode, "differ") == 0) test_differ(m, dim, key, first, next);
    if (strcmp(mode, "count") == 0) test_count(m, dim, key);
    dpmf_mechanism_free(m);
    MPI_Finalize();
    return 0;
}
