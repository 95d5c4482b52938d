/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dpmf over many machines: the noise of a model that lives on several processes (libdpmf_mpi, beside libdpmf).
 *
 * Every number of a row of noise is a function of (key, mechanism, row, coordinate), so each process makes the noise of
 * its own coordinates and nothing is exchanged before that noise is added (McKenna 2024, Section 3.3). What is exchanged
 * is agreement: at the start, that all have the same mechanism, key, clip, dim and row; when something fails on one,
 * that it failed, on all; and the names of the files of a checkpoint.
 *
 *     dpmf_mpi_noise *noise = NULL;
 *     dpmf_mpi_noise_create(MPI_COMM_WORLD, mechanism, dim, clip, key, NULL, &noise);
 *     dpmf_mpi_noise_shard(noise, &offset, &count);
 *     for each step: dpmf_mpi_noise_add(noise, 1.0, 1, &(dpmf_segment){my_gradients, count});   // no communication
 *
 * Calls marked collective are made by every process of the communicator, in the same order, and answer the same on all
 * of them: if one fails, all do, and dpmf_mpi_last_error() names the process that failed first. The others are local.
 */
#ifndef DPMF_MPI_H
#define DPMF_MPI_H

#include "dpmf.h"

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The message of the last call of this library that failed in this thread, with the rank it came from. */
DPMF_API const char *dpmf_mpi_last_error(void);

/*
 * An even part of [0, dim) for this process: consecutive in the order of ranks, cut at multiples of 64 numbers where
 * there are enough. count may be 0 when there are more processes than that. Local.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_mpi_shard(MPI_Comm communicator, int64_t dim, int64_t *offset,
                                                    int64_t *count);

/*
 * Collective: do all processes have the same mechanism (its digest), key (a commitment, which gives nothing of it away),
 * label, dim, clip and row? Otherwise DPMF_ERROR_ARGUMENT on every one, naming what differs and where.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_mpi_agree(MPI_Comm communicator, const dpmf_mechanism *mechanism, int64_t dim,
                                                    double clip, const uint8_t key[DPMF_KEY_SIZE], const char *label,
                                                    int64_t row);

typedef struct dpmf_mpi_noise dpmf_mpi_noise;

/*
 * Collective. Options as for dpmf_noise_create. offset and count: the shard of this process, as the parameters are
 * sharded; count 0 on all of them: even parts. Together the shards must hold every coordinate once, in the order of
 * ranks. state: one file for all, kept by rank 0 (a path that rank 0 can write; the others do not look at it). A row
 * counts as used when rank 0's part is: nothing that needs every part can be released before that.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_mpi_noise_create(MPI_Comm communicator, const dpmf_mechanism *mechanism,
                                                           int64_t dim, double clip, const uint8_t key[DPMF_KEY_SIZE],
                                                           const dpmf_noise_options *options, dpmf_mpi_noise **out);
DPMF_API void dpmf_mpi_noise_free(dpmf_mpi_noise *noise); /* local */

DPMF_API void dpmf_mpi_noise_shard(const dpmf_mpi_noise *noise, int64_t *offset, int64_t *count);
DPMF_API int64_t dpmf_mpi_noise_step(const dpmf_mpi_noise *noise); /* of the next row */

/* Local, without communication: the next row of this process's shard. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_mpi_noise_next(dpmf_mpi_noise *noise, void *row);
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_mpi_noise_add(dpmf_mpi_noise *noise, double factor, int64_t segments,
                                                        const dpmf_segment *segment);

/* Collective: the next row whole, dim numbers, on `root`; `row` is not looked at elsewhere. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_mpi_noise_gather(dpmf_mpi_noise *noise, int root, void *row);

/* Collective: to any row, under the rules of dpmf_noise_seek. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_mpi_noise_seek(dpmf_mpi_noise *noise, int64_t step);

/*
 * Collective: a checkpoint. Every process writes its buffers to a file of its own beside `path`, and when all are on the
 * disk rank 0 gives `path`, a list of them, its name: a run that is killed at any moment leaves the last complete one.
 * Loading takes any number of processes and any sharding. `path` must be on a disk that all of them see. As secret as
 * the key.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_mpi_noise_save(dpmf_mpi_noise *noise, const char *path);
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_mpi_noise_load(dpmf_mpi_noise *noise, const char *path);

#ifdef __cplusplus
}
#endif
#endif
