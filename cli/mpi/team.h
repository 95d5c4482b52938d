/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dpmf-mpi: several processes behind one command line. Each runs the same code; the first that cannot go on takes the
 * others with it, and one message is printed.
 */
#ifndef DPMF_CLI_MPI_TEAM_H
#define DPMF_CLI_MPI_TEAM_H

#include "train/train.h"

#include <mpi.h>

typedef struct team {
    int rank, ranks;
} team;
extern team own_team;

void team_open(void);     /* after MPI_Init: what this process says is kept until team_close */
int team_close(int code); /* collective: one message, and the exit code that all end with */

/* The collective calls of train/train.h. */
int team_all(int code);
dpmf_status team_step(dpmf_status status);
dpmf_status team_reduce(void *context, int64_t *sums, int64_t count);

/* Collective: bytes of rank 0, on all. */
void team_send(void *bytes, int64_t size);

/* Checkpoints (checkpoint.c). */
int team_save(training *t);
int team_resume(training *t);

/* Collective: fails everywhere if the weights are not the same bits everywhere. */
int team_same_weights(training *t);

/* Does everybody run the same? (agree.c) */
int team_agree(training *t);

/* Those of train/train.h, for this process (training.c). */
const training_team *team_training(void);

#endif
