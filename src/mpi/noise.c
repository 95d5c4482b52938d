/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The noise of one shard, after all processes have agreed on it. libdpmf makes the rows of the shard [offset, offset +
 * count): their bits do not depend on the number of processes. Only creating, gathering, seeking and checkpoints
 * communicate.
 */
#include "shared.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Rank r has [bounds[r], bounds[r+1]): every coordinate once, in the order of ranks. */
static dpmf_status share_bounds(dpmf_mpi_noise *n) {
    int64_t at = 0, *counts = calloc((size_t)n->ranks, sizeof *counts);
    n->bounds = calloc((size_t)n->ranks + 1, sizeof *n->bounds);
    dpmf_status status = DPMF_OK;
    if (counts == NULL || n->bounds == NULL) status = mpi_fail(DPMF_ERROR_MEMORY, "no memory for the shards");
    status = mpi_together(n->communicator, status);
    if (status == DPMF_OK)
        status = mpi_check(MPI_Allgather(&n->count, 1, MPI_INT64_T, counts, 1, MPI_INT64_T, n->communicator),
                           "gather the sizes of the shards");
    if (status == DPMF_OK) {
        for (int r = 0; r < n->ranks; r++) {
            n->bounds[r] = at;
            at += counts[r];
        }
        n->bounds[n->ranks] = at;
        if (n->bounds[n->rank] != n->offset || at != n->dim)
            status =
                mpi_fail(DPMF_ERROR_ARGUMENT,
                         "the shard [%" PRId64 ", %" PRId64 ") does not follow those of the ranks before it, or the "
                         "shards do not end at dim = %" PRId64,
                         n->offset, n->offset + n->count, n->dim);
    }
    free(counts);
    return mpi_together(n->communicator, status);
}

static dpmf_status choose_shard(dpmf_mpi_noise *n, const dpmf_noise_options *o) {
    int given = o->count != 0, most = 0, least = 0;
    MPI_Allreduce(&given, &most, 1, MPI_INT, MPI_MAX, n->communicator);
    MPI_Allreduce(&given, &least, 1, MPI_INT, MPI_MIN, n->communicator);
    n->offset = o->offset;
    n->count = o->count;
    if (most == 0) return dpmf_mpi_shard(n->communicator, n->dim, &n->offset, &n->count);
    if (least == most || n->offset >= 0) return DPMF_OK; /* a process with offset but no count has no coordinates */
    return mpi_fail(DPMF_ERROR_ARGUMENT, "offset = %" PRId64 ", accepted 0 and up", n->offset);
}

static dpmf_status open_local(dpmf_mpi_noise *n, const dpmf_mechanism *mechanism, double clip, const uint8_t *key,
                              dpmf_noise_options o) {
    o.offset = n->offset;
    o.count = n->count;
    o.whole_state = n->rank == 0 && o.state != NULL;
    if (n->rank != 0) {
        o.state = NULL;
        o.replay = 0;
    }
    if (n->count == 0 && n->rank == 0)
        return mpi_fail(DPMF_ERROR_ARGUMENT, "rank 0 has no coordinates, but it keeps the state of the run");
    if (n->count == 0) return DPMF_OK;
    return mpi_took(dpmf_noise_create(mechanism, n->dim, clip, key, &o, &n->local));
}

/* Seeks to the row of rank 0's state file, on all processes. */
static dpmf_status adopt_row(dpmf_mpi_noise *n) {
    int64_t row = n->local == NULL ? 0 : dpmf_noise_get(n->local).step;
    int doubt = n->rank == 0 && dpmf_noise_get(n->local).in_doubt;
    dpmf_status status = DPMF_OK;
    MPI_Bcast(&row, 1, MPI_INT64_T, 0, n->communicator);
    MPI_Bcast(&doubt, 1, MPI_INT, 0, n->communicator);
    n->step = row;
    n->in_doubt = doubt;
    if (n->rank != 0 && n->local != NULL && row > 0 && !doubt) status = mpi_took(dpmf_noise_seek(n->local, row));
    return mpi_together(n->communicator, status);
}

dpmf_status dpmf_mpi_noise_create(MPI_Comm communicator, const dpmf_mechanism *mechanism, int64_t dim, double clip,
                                  const uint8_t key[DPMF_KEY_SIZE], const dpmf_noise_options *options,
                                  dpmf_mpi_noise **out) {
    dpmf_noise_options o = options == NULL ? dpmf_noise_options_defaults() : *options;
    dpmf_mpi_noise *n = calloc(1, sizeof *n);
    dpmf_status status = n == NULL ? mpi_fail(DPMF_ERROR_MEMORY, "no memory for a noise stream") : DPMF_OK;
    status = mpi_together(communicator, status);
    if (status == DPMF_OK) status = dpmf_mpi_agree(communicator, mechanism, dim, clip, key, o.label, 0);
    if (status != DPMF_OK) goto done;
    status = mpi_check(MPI_Comm_dup(communicator, &n->communicator), "copy the communicator");
    if (status != DPMF_OK) {
        n->communicator = MPI_COMM_NULL;
        goto done;
    }
    MPI_Comm_rank(n->communicator, &n->rank);
    MPI_Comm_size(n->communicator, &n->ranks);
    n->dim = dim;
    n->precision = o.exact ? DPMF_FLOAT64 : o.precision;
    n->steps = dpmf_strategy_get(dpmf_mechanism_get(mechanism).strategy).steps;
    memcpy(n->digest, dpmf_mechanism_get(mechanism).digest, strlen(dpmf_mechanism_get(mechanism).digest) + 1);
    status = mpi_together(n->communicator, choose_shard(n, &o));
    if (status == DPMF_OK) status = share_bounds(n);
    if (status == DPMF_OK) status = mpi_together(n->communicator, open_local(n, mechanism, clip, key, o));
    if (status == DPMF_OK) status = adopt_row(n);
    if (status == DPMF_OK) {
        *out = n;
        n = NULL;
    }
done:
    dpmf_mpi_noise_free(n);
    return status;
}

void dpmf_mpi_noise_free(dpmf_mpi_noise *n) {
    int over = 0;
    if (n == NULL) return;
    dpmf_noise_free(n->local);
    MPI_Finalized(&over);
    if (!over && n->bounds != NULL && n->communicator != MPI_COMM_NULL) MPI_Comm_free(&n->communicator);
    free(n->bounds);
    free(n);
}

void dpmf_mpi_noise_shard(const dpmf_mpi_noise *n, int64_t *offset, int64_t *count) {
    *offset = n->offset;
    *count = n->count;
}

int64_t dpmf_mpi_noise_step(const dpmf_mpi_noise *n) {
    return n->local == NULL ? n->step : dpmf_noise_get(n->local).step;
}

/* ---- rows ---- */

/* A process without coordinates counts the rows, so that it ends with the others. */
static dpmf_status no_row(dpmf_mpi_noise *n) {
    if (n->step >= n->steps)
        return mpi_fail(DPMF_ERROR_ARGUMENT, "row %" PRId64 ", accepted 0 to %" PRId64, n->step, n->steps - 1);
    n->step++;
    return DPMF_OK;
}

static dpmf_status check_doubt(const dpmf_mpi_noise *n) {
    if (!n->in_doubt) return DPMF_OK;
    return mpi_fail(DPMF_ERROR_ARGUMENT,
                    "row %" PRId64 " was reserved when a program ended, and it is not known if it arrived: seek to row "
                    "%" PRId64 " if it did, or to the row itself, with the option replay, if not",
                    n->step - 1, n->step);
}

dpmf_status dpmf_mpi_noise_next(dpmf_mpi_noise *n, void *row) {
    dpmf_status status = check_doubt(n);
    if (status != DPMF_OK) return status;
    return n->local == NULL ? no_row(n) : mpi_took(dpmf_noise_next(n->local, row));
}

dpmf_status dpmf_mpi_noise_add(dpmf_mpi_noise *n, double factor, int64_t segments, const dpmf_segment *segment) {
    dpmf_status status = check_doubt(n);
    if (status != DPMF_OK) return status;
    return n->local == NULL ? no_row(n) : mpi_took(dpmf_noise_add(n->local, factor, segments, segment));
}

/* Sends pieces whose length an int can hold. */
static dpmf_status receive(const dpmf_mpi_noise *n, int from, char *row, size_t size) {
    const int64_t most = INT_MAX / 16;
    for (int64_t at = n->bounds[from]; at < n->bounds[from + 1]; at += most) {
        const int64_t left = n->bounds[from + 1] - at, part = left < most ? left : most;
        dpmf_status status = mpi_check(MPI_Recv(row + (size_t)at * size, (int)(part * (int64_t)size), MPI_BYTE, from, 0,
                                                n->communicator, MPI_STATUS_IGNORE),
                                       "receive a part of a row");
        if (status != DPMF_OK) return status;
    }
    return DPMF_OK;
}

static dpmf_status send(const dpmf_mpi_noise *n, int to, const char *part, size_t size) {
    const int64_t most = INT_MAX / 16;
    for (int64_t at = 0; at < n->count; at += most) {
        const int64_t left = n->count - at, count = left < most ? left : most;
        dpmf_status status = mpi_check(
            MPI_Send(part + (size_t)at * size, (int)(count * (int64_t)size), MPI_BYTE, to, 0, n->communicator),
            "send a part of a row");
        if (status != DPMF_OK) return status;
    }
    return DPMF_OK;
}

dpmf_status dpmf_mpi_noise_gather(dpmf_mpi_noise *n, int root, void *row) {
    const size_t size = n->precision == DPMF_FLOAT32 ? sizeof(float) : sizeof(double);
    char *part = NULL;
    dpmf_status status = DPMF_OK;
    if (root < 0 || root >= n->ranks)
        return mpi_fail(DPMF_ERROR_ARGUMENT, "root %d, accepted 0 to %d", root, n->ranks - 1);
    if (n->rank == root && row == NULL) status = mpi_fail(DPMF_ERROR_ARGUMENT, "the row is NULL");
    if (status == DPMF_OK && n->rank != root && n->count > 0) {
        part = malloc((size_t)n->count * size);
        if (part == NULL) status = mpi_fail(DPMF_ERROR_MEMORY, "no memory for a part of a row");
    }
    status = mpi_together(n->communicator, status);
    if (status != DPMF_OK) goto done;
    char *into = n->rank == root ? (char *)row + (size_t)n->offset * size : part;
    status = mpi_together(n->communicator, dpmf_mpi_noise_next(n, into));
    if (status != DPMF_OK) goto done;
    if (n->rank != root) status = send(n, root, part, size);
    for (int r = 0; n->rank == root && r < n->ranks && status == DPMF_OK; r++)
        if (r != root) status = receive(n, r, row, size);
done:
    free(part);
    return status;
}

dpmf_status dpmf_mpi_noise_seek(dpmf_mpi_noise *n, int64_t step) {
    dpmf_status status = DPMF_OK;
    /* Rank 0 seeks first, since only its state file decides whether the seek is allowed. */
    if (n->rank == 0) status = mpi_took(dpmf_noise_seek(n->local, step));
    status = mpi_together(n->communicator, status);
    if (status != DPMF_OK) return status;
    if (n->rank != 0 && n->local != NULL) status = mpi_took(dpmf_noise_seek(n->local, step));
    if (status == DPMF_OK) {
        n->step = step;
        n->in_doubt = 0;
    }
    return mpi_together(n->communicator, status);
}
