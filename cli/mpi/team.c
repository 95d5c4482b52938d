/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the processes stay together. Between two exchanges of data there is always one exchange of outcomes
 * (exchange_outcomes), and it is the first thing that a process does which has failed: so it never leaves the others
 * waiting, wherever they are. After an outcome that ends the run nothing is exchanged but the message.
 *
 * What is said goes to stderr, by code that knows nothing of this; it is kept in a file, and the first failing process's
 * is printed by rank 0.
 */
#include "team.h"

#include "output.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { OUTCOME_FAILED, OUTCOME_CANCELLED, OUTCOME_STOPPED, OUTCOME_FINE }; /* the lowest wins */
enum { SAID_MAX = 4000 };

team own_team = {0, 1};

static int stderr_kept = -1;     /* a copy of the real one; -1: nothing is kept back */
static FILE *said;               /* where fd 2 leads meanwhile */
static int ended_by = -1;        /* the rank whose outcome ended the run */
static int ended_code;           /* and its exit code */
static int reduced_in_this_step; /* did the trainer come as far as `reduce`? */

/* ---- outcomes ---- */

static int exchange_outcomes(int outcome, int code) {
    struct {
        int outcome, rank;
    } mine = {outcome, own_team.rank}, first;
    MPI_Allreduce(&mine, &first, 1, MPI_2INT, MPI_MINLOC, MPI_COMM_WORLD);
    if (first.outcome == OUTCOME_FAILED || first.outcome == OUTCOME_CANCELLED) {
        MPI_Bcast(&code, 1, MPI_INT, first.rank, MPI_COMM_WORLD);
        ended_by = first.rank;
        ended_code = code;
    }
    return first.outcome;
}

int team_all(int code) {
    if (ended_by >= 0) return ended_code;
    const int outcome = code == 0 ? OUTCOME_FINE : code == EXIT_CANCELLED ? OUTCOME_CANCELLED : OUTCOME_FAILED;
    exchange_outcomes(outcome, code);
    return ended_by >= 0 ? ended_code : 0;
}

/* A step that one process must not take is taken by none; the run may still be kept, so it has not ended yet. */
static dpmf_status share_step(dpmf_status status) {
    const int outcome = status == DPMF_OK                ? OUTCOME_FINE
                        : status == DPMF_ERROR_CANCELLED ? OUTCOME_STOPPED
                                                         : OUTCOME_FAILED;
    switch (exchange_outcomes(outcome, EXIT_UNABLE)) {
    case OUTCOME_FINE:
        return DPMF_OK;
    case OUTCOME_FAILED:
        return status != DPMF_OK ? status : DPMF_ERROR_IO;
    default:
        return DPMF_ERROR_CANCELLED;
    }
}

dpmf_status team_reduce(void *context, int64_t *sums, int64_t count) {
    const int64_t most = 1 << 28; /* numbers in a call: its count is an int */
    (void)context;
    reduced_in_this_step = 1;
    dpmf_status status = share_step(DPMF_OK);
    for (int64_t at = 0; status == DPMF_OK && at < count; at += most) {
        const int64_t part = count - at < most ? count - at : most;
        MPI_Allreduce(MPI_IN_PLACE, sums + at, (int)part, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    }
    return status;
}

/* After `reduce` all have the same sums, and what is wrong with them is wrong for all. */
dpmf_status team_step(dpmf_status status) {
    const int shared = reduced_in_this_step;
    reduced_in_this_step = 0;
    return shared ? status : share_step(status);
}

void team_send(void *bytes, int64_t size) {
    const int64_t most = 1 << 30;
    for (int64_t at = 0; at < size; at += most)
        MPI_Bcast((char *)bytes + at, (int)(size - at < most ? size - at : most), MPI_BYTE, 0, MPI_COMM_WORLD);
}

static uint64_t hash_bytes(const void *bytes, size_t size) { /* FNV-1a: against mistakes, not against enemies */
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++)
        h = (h ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
    return h;
}

int team_same_weights(training *t) {
    uint64_t own = hash_bytes(dpmf_trainer_weights(t->trainer), (size_t)t->dim * sizeof(float)), first = own;
    team_send(&first, sizeof first);
    return team_all(own == first ? 0
                                 : fail(EXIT_UNABLE,
                                        "after step %lld the weights are not those of rank 0: this MPI's "
                                        "sums are not the same everywhere",
                                        (long long)dpmf_trainer_step(t->trainer)));
}

/* ---- what is said ---- */

static void speak_freely(void) {
    if (stderr_kept < 0) return;
    dup2(stderr_kept, STDERR_FILENO);
    close(stderr_kept);
    stderr_kept = -1;
}

/* MPI itself cannot go on: its words must not stay in a file that is lost with the process. */
static void give_up(MPI_Comm *communicator, int *error, ...) {
    char words[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(*error, words, &length);
    speak_freely();
    fail(EXIT_UNABLE, "rank %d: MPI: %s", own_team.rank, words);
    MPI_Abort(*communicator, EXIT_UNABLE);
}

void team_open(void) {
    MPI_Errhandler handler;
    MPI_Comm_rank(MPI_COMM_WORLD, &own_team.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &own_team.ranks);
    if (MPI_Comm_create_errhandler(give_up, &handler) == MPI_SUCCESS) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
        MPI_Errhandler_free(&handler);
    }
    if (own_team.rank != 0 && freopen("/dev/null", "w", stdout) == NULL) close(STDOUT_FILENO);
    said = tmpfile();
    if (said == NULL) return; /* then everybody speaks for itself */
    stderr_kept = dup(STDERR_FILENO);
    if (stderr_kept >= 0 && dup2(fileno(said), STDERR_FILENO) < 0) speak_freely();
}

static void recall(char text[SAID_MAX]) {
    text[0] = '\0';
    if (said == NULL) return;
    fflush(stderr);
    rewind(said);
    text[fread(text, 1, SAID_MAX - 1, said)] = '\0';
    fclose(said);
    said = NULL;
}

/* "dpmf: WORDS" of rank r as "dpmf: rank r: WORDS". */
static void print_said(int from, const char *text) {
    static const char name[] = "dpmf: ";
    const size_t length = sizeof name - 1;
    if (from == 0 || strncmp(text, name, length) != 0)
        fputs(text, stderr);
    else
        fprintf(stderr, "%srank %d: %s", name, from, text + length);
    fflush(stderr);
}

int team_close(int code) {
    char text[SAID_MAX];
    code = team_all(code);
    const int speaker = ended_by >= 0 ? ended_by : 0;
    speak_freely();
    recall(text);
    if (speaker != 0 && own_team.rank == speaker) MPI_Send(text, SAID_MAX, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
    if (speaker != 0 && own_team.rank == 0)
        MPI_Recv(text, SAID_MAX, MPI_CHAR, speaker, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (own_team.rank == 0) print_said(speaker, text);
    return code;
}
