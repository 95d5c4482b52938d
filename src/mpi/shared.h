/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of libdpmf_mpi, a separate library that uses dpmf.h only. */
#ifndef DPMF_MPI_SHARED_H
#define DPMF_MPI_SHARED_H

#include "dpmf_mpi.h"

struct dpmf_mpi_noise {
    MPI_Comm communicator; /* a copy of the caller's communicator, so that our messages never mix with theirs */
    int rank, ranks;
    int64_t dim, offset, count;
    dpmf_precision precision;
    int64_t step;
    int in_doubt;      /* rank 0's state file has a row that may not have arrived: all processes wait for a seek */
    dpmf_noise *local; /* NULL: this process has no coordinates */
    int64_t *bounds;   /* ranks + 1: where each shard begins */
    int64_t steps;
    char digest[65];
};

/* Keeps the message and returns the status. */
DPMF_MUST_CHECK dpmf_status mpi_fail(dpmf_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The status of a call of libdpmf, its message kept. */
DPMF_MUST_CHECK dpmf_status mpi_took(dpmf_status status);

/* Collective: OK if it is on every process; else the first failing rank's status and message, on all. */
DPMF_MUST_CHECK dpmf_status mpi_together(MPI_Comm communicator, dpmf_status mine);

/* The result of an MPI call as a status. */
DPMF_MUST_CHECK dpmf_status mpi_check(int answer, const char *what);

#endif
