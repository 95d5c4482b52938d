/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Agreement between processes: failures are reported to all, and the processes compare their arguments. Rank 0
 * broadcasts its fields, every process compares them with its own, and the first that differs reports it. The key is
 * compared by HMAC-SHA256(key, a constant), which is equal for equal keys and reveals nothing of the key.
 */
#include "shared.h"

#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGE = 600 };
static _Thread_local char message[MESSAGE];

const char *dpmf_mpi_last_error(void) {
    return message;
}

dpmf_status mpi_fail(dpmf_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return status;
}

dpmf_status mpi_took(dpmf_status status) {
    return status == DPMF_OK ? DPMF_OK : mpi_fail(status, "%s", dpmf_last_error());
}

dpmf_status mpi_check(int answer, const char *what) {
    char words[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (answer == MPI_SUCCESS) return DPMF_OK;
    MPI_Error_string(answer, words, &length);
    return mpi_fail(DPMF_ERROR_IO, "MPI could not %s: %s", what, words);
}

/* All processes return the status and message of the first failing rank. */
dpmf_status mpi_together(MPI_Comm communicator, dpmf_status mine) {
    struct {
        int place, rank;
    } own, first;
    char words[MESSAGE + 40];
    int rank = 0, status = (int)mine;
    MPI_Comm_rank(communicator, &rank);
    own.place = mine == DPMF_OK;
    own.rank = rank;
    dpmf_status told = mpi_check(MPI_Allreduce(&own, &first, 1, MPI_2INT, MPI_MINLOC, communicator),
                                 "compare the outcomes of the processes");
    if (told != DPMF_OK || first.place == 1) return told;
    snprintf(words, sizeof words, "rank %d: %s", first.rank, message);
    MPI_Bcast(&status, 1, MPI_INT, first.rank, communicator);
    MPI_Bcast(words, sizeof words, MPI_CHAR, first.rank, communicator);
    return mpi_fail((dpmf_status)status, "%s", words);
}

dpmf_status dpmf_mpi_shard(MPI_Comm communicator, int64_t dim, int64_t *offset, int64_t *count) {
    const int64_t unit = 64; /* noise is made 64 numbers at a time, so a cut inside would make some of them twice */
    int rank = 0, ranks = 1;
    if (dim < 1) return mpi_fail(DPMF_ERROR_ARGUMENT, "dim = %" PRId64 ", accepted 1 and up", dim);
    MPI_Comm_rank(communicator, &rank);
    MPI_Comm_size(communicator, &ranks);
    const int64_t units = (dim + unit - 1) / unit, each = units / ranks, more = units % ranks;
    const int64_t from = unit * (each * rank + (rank < more ? rank : more));
    const int64_t to = from + unit * (each + (rank < more));
    *offset = from < dim ? from : dim;
    *count = (to < dim ? to : dim) - *offset;
    return DPMF_OK;
}

/* ---- the comparison ---- */

typedef struct terms {
    char digest[72];
    uint8_t commitment[32], label[32];
    int64_t dim, row;
    double clip;
} terms;

static dpmf_status commit(const void *key, int key_size, const char *text, uint8_t out[32]) {
    unsigned int length = 0;
    if (HMAC(EVP_sha256(), key, key_size, (const unsigned char *)text, strlen(text), out, &length) == NULL)
        return mpi_fail(DPMF_ERROR_MEMORY, "OpenSSL could not compute an HMAC");
    return DPMF_OK;
}

static dpmf_status compare_terms(const terms *own, const terms *first) {
    if (strcmp(own->digest, first->digest) != 0)
        return mpi_fail(DPMF_ERROR_ARGUMENT,
                        "another mechanism than on rank 0: digest %.12s... here, %.12s... on rank 0", own->digest,
                        first->digest);
    if (CRYPTO_memcmp(own->commitment, first->commitment, sizeof own->commitment) != 0)
        return mpi_fail(DPMF_ERROR_ARGUMENT, "another key than on rank 0");
    if (memcmp(own->label, first->label, sizeof own->label) != 0)
        return mpi_fail(DPMF_ERROR_ARGUMENT, "another label than on rank 0");
    if (own->dim != first->dim)
        return mpi_fail(DPMF_ERROR_ARGUMENT, "dim = %" PRId64 " here, %" PRId64 " on rank 0", own->dim, first->dim);
    if (memcmp(&own->clip, &first->clip, sizeof own->clip) != 0)
        return mpi_fail(DPMF_ERROR_ARGUMENT, "clip = %.17g here, %.17g on rank 0", own->clip, first->clip);
    if (own->row != first->row)
        return mpi_fail(DPMF_ERROR_ARGUMENT, "at row %" PRId64 " here, %" PRId64 " on rank 0", own->row, first->row);
    return DPMF_OK;
}

dpmf_status dpmf_mpi_agree(MPI_Comm communicator, const dpmf_mechanism *mechanism, int64_t dim, double clip,
                           const uint8_t key[DPMF_KEY_SIZE], const char *label, int64_t row) {
    terms own, first;
    dpmf_status status = DPMF_OK;
    memset(&own, 0, sizeof own);
    own.dim = dim;
    own.clip = clip;
    own.row = row;
    if (mechanism == NULL || key == NULL)
        status = mpi_fail(DPMF_ERROR_ARGUMENT, "the mechanism or the key is NULL");
    else
        snprintf(own.digest, sizeof own.digest, "%s", dpmf_mechanism_get(mechanism).digest);
    if (status == DPMF_OK) status = commit(key, DPMF_KEY_SIZE, "dpmf mpi agreement 1", own.commitment);
    if (status == DPMF_OK) status = commit("label", 5, label == NULL ? "" : label, own.label);
    status = mpi_together(communicator, status);
    if (status != DPMF_OK) return status;
    first = own;
    status = mpi_check(MPI_Bcast(&first, sizeof first, MPI_BYTE, 0, communicator), "send the terms of rank 0");
    if (status == DPMF_OK) status = compare_terms(&own, &first);
    return mpi_together(communicator, status);
}
