/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpirun -n P dpmf-mpi VERB [OPTION]... [FILE]: dpmf on several processes. `train` uses all of them; any other verb is
 * run by rank 0, as dpmf does.
 */
#include "team.h"

#include <string.h>

/* The main of cli/main.c. */
int run_alone(int argc, char **argv);
#define main run_alone
#include "../main.c"
#undef main

int main(int argc, char **argv) {
    int given = 0, code = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &given);
    team_open();
    const bool all = argc > 1 && strcmp(argv[1], "train") == 0;
    if (all && own_team.ranks > 1) training_together = team_training();
    if (all || own_team.rank == 0) code = run_alone(argc, argv);
    code = team_close(code);
    MPI_Finalize();
    return code;
}
