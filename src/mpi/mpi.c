/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Noise of many processes, a library on top of dpmf.h: agreement between them, the noise of one shard, checkpoints.
 *
 * Agreement: failures are reported to all, and the processes compare their arguments. Rank 0
 * broadcasts its fields, every process compares them with its own, and the first that differs reports it. The key is
 * compared by HMAC-SHA256(key, a constant), which is equal for equal keys and reveals nothing of the key.
 */
#include "dpmf_mpi.h"

#include "base/atomic_file.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    uint8_t salt[DPMF_SALT_SIZE]; /* of rank 0's state file; zeros: there is none */
};

enum { MESSAGE = 600 };
static _Thread_local char message[MESSAGE];

const char *dpmf_mpi_last_error(void) {
    return message;
}

static dpmf_status __attribute__((format(printf, 2, 3))) fail(dpmf_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return status;
}

static dpmf_status took(dpmf_status status) {
    return status == DPMF_OK ? DPMF_OK : fail(status, "%s", dpmf_last_error());
}

static dpmf_status check(int answer, const char *what) {
    char words[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (answer == MPI_SUCCESS) return DPMF_OK;
    MPI_Error_string(answer, words, &length);
    return fail(DPMF_ERROR_IO, "MPI could not %s: %s", what, words);
}

/* All processes return the status and message of the first failing rank. */
static dpmf_status together(MPI_Comm communicator, dpmf_status mine) {
    struct {
        int place, rank;
    } own, first;
    char words[MESSAGE + 40];
    int rank = 0, status = (int)mine;
    MPI_Comm_rank(communicator, &rank);
    own.place = mine == DPMF_OK;
    own.rank = rank;
    dpmf_status told = check(MPI_Allreduce(&own, &first, 1, MPI_2INT, MPI_MINLOC, communicator),
                             "compare the outcomes of the processes");
    if (told != DPMF_OK || first.place == 1) return told;
    snprintf(words, sizeof words, "rank %d: %s", first.rank, message);
    MPI_Bcast(&status, 1, MPI_INT, first.rank, communicator);
    MPI_Bcast(words, sizeof words, MPI_CHAR, first.rank, communicator);
    return fail((dpmf_status)status, "%s", words);
}

dpmf_status dpmf_mpi_shard(MPI_Comm communicator, int64_t dim, int64_t *offset, int64_t *count) {
    const int64_t unit = 64; /* noise is made 64 numbers at a time, so a cut inside would make some of them twice */
    int rank = 0, ranks = 1;
    if (dim < 1) return fail(DPMF_ERROR_ARGUMENT, "dim = %" PRId64 ", accepted 1 and up", dim);
    MPI_Comm_rank(communicator, &rank);
    MPI_Comm_size(communicator, &ranks);
    const int64_t units = (dim + unit - 1) / unit, each = units / ranks, more = units % ranks;
    const int64_t from = unit * (each * rank + (rank < more ? rank : more));
    const int64_t to = from + unit * (each + (rank < more));
    *offset = from < dim ? from : dim;
    *count = (to < dim ? to : dim) - *offset;
    return DPMF_OK;
}

typedef struct terms {
    char digest[72];
    uint8_t commitment[32], label[32];
    int64_t dim, row;
    double clip;
} terms;

static dpmf_status commit(const void *key, int key_size, const char *text, uint8_t out[32]) {
    unsigned int length = 0;
    if (HMAC(EVP_sha256(), key, key_size, (const unsigned char *)text, strlen(text), out, &length) == NULL)
        return fail(DPMF_ERROR_MEMORY, "OpenSSL could not compute an HMAC");
    return DPMF_OK;
}

static dpmf_status compare_terms(const terms *own, const terms *first) {
    if (strcmp(own->digest, first->digest) != 0)
        return fail(DPMF_ERROR_ARGUMENT, "another mechanism than on rank 0: digest %.12s... here, %.12s... on rank 0",
                    own->digest, first->digest);
    if (CRYPTO_memcmp(own->commitment, first->commitment, sizeof own->commitment) != 0)
        return fail(DPMF_ERROR_ARGUMENT, "another key than on rank 0");
    if (memcmp(own->label, first->label, sizeof own->label) != 0)
        return fail(DPMF_ERROR_ARGUMENT, "another label than on rank 0");
    if (own->dim != first->dim)
        return fail(DPMF_ERROR_ARGUMENT, "dim = %" PRId64 " here, %" PRId64 " on rank 0", own->dim, first->dim);
    if (memcmp(&own->clip, &first->clip, sizeof own->clip) != 0)
        return fail(DPMF_ERROR_ARGUMENT, "clip = %.17g here, %.17g on rank 0", own->clip, first->clip);
    if (own->row != first->row)
        return fail(DPMF_ERROR_ARGUMENT, "at row %" PRId64 " here, %" PRId64 " on rank 0", own->row, first->row);
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
        status = fail(DPMF_ERROR_ARGUMENT, "the mechanism or the key is NULL");
    else
        snprintf(own.digest, sizeof own.digest, "%s", dpmf_mechanism_get(mechanism).digest);
    if (status == DPMF_OK) status = commit(key, DPMF_KEY_SIZE, "dpmf mpi agreement 1", own.commitment);
    if (status == DPMF_OK) status = commit("label", 5, label == NULL ? "" : label, own.label);
    status = together(communicator, status);
    if (status != DPMF_OK) return status;
    first = own;
    status = check(MPI_Bcast(&first, sizeof first, MPI_BYTE, 0, communicator), "send the terms of rank 0");
    if (status == DPMF_OK) status = compare_terms(&own, &first);
    return together(communicator, status);
}

/* ---- one shard: the same bits for any number of processes; only create, gather, seek and checkpoints communicate ---- */

/* Rank r has [bounds[r], bounds[r+1]): every coordinate once, in the order of ranks. */
static dpmf_status share_bounds(dpmf_mpi_noise *n) {
    int64_t at = 0, *counts = calloc((size_t)n->ranks, sizeof *counts);
    n->bounds = calloc((size_t)n->ranks + 1, sizeof *n->bounds);
    dpmf_status status = DPMF_OK;
    if (counts == NULL || n->bounds == NULL) status = fail(DPMF_ERROR_MEMORY, "no memory for the shards");
    status = together(n->communicator, status);
    if (status == DPMF_OK)
        status = check(MPI_Allgather(&n->count, 1, MPI_INT64_T, counts, 1, MPI_INT64_T, n->communicator),
                       "gather the sizes of the shards");
    if (status == DPMF_OK) {
        for (int r = 0; r < n->ranks; r++) {
            n->bounds[r] = at;
            at += counts[r];
        }
        n->bounds[n->ranks] = at;
        if (n->bounds[n->rank] != n->offset || at != n->dim)
            status = fail(DPMF_ERROR_ARGUMENT,
                          "the shard [%" PRId64 ", %" PRId64 ") does not follow those of the ranks before it, or the "
                          "shards do not end at dim = %" PRId64,
                          n->offset, n->offset + n->count, n->dim);
    }
    free(counts);
    return together(n->communicator, status);
}

static dpmf_status choose_shard(dpmf_mpi_noise *n, const dpmf_noise_options *o) {
    int given = o->count != 0, most = 0, least = 0;
    MPI_Allreduce(&given, &most, 1, MPI_INT, MPI_MAX, n->communicator);
    MPI_Allreduce(&given, &least, 1, MPI_INT, MPI_MIN, n->communicator);
    n->offset = o->offset;
    n->count = o->count;
    if (most == 0) return dpmf_mpi_shard(n->communicator, n->dim, &n->offset, &n->count);
    if (least == most || n->offset >= 0) return DPMF_OK; /* a process with offset but no count has no coordinates */
    return fail(DPMF_ERROR_ARGUMENT, "offset = %" PRId64 ", accepted 0 and up", n->offset);
}

static dpmf_status open_local(dpmf_mpi_noise *n, const dpmf_mechanism *mechanism, double clip, const uint8_t *key,
                              dpmf_noise_options o) {
    o.offset = n->offset;
    o.count = n->count;
    o.whole_state = n->rank == 0 && (o.state != NULL || (o.key_file != NULL && !o.rows_may_repeat));
    if (n->rank != 0) {
        o.state = o.key_file = NULL;
        o.replay = o.state_now = 0;
        o.salt = n->salt;
    }
    if (n->count == 0 && n->rank == 0)
        return fail(DPMF_ERROR_ARGUMENT, "rank 0 has no coordinates, but it keeps the state of the run");
    if (n->count == 0) return DPMF_OK;
    return took(dpmf_noise_create(mechanism, n->dim, clip, key, &o, &n->local));
}

/* Rank 0 opens its state file first: its salt is that of the run, and without it the shards would not be parts of one row. */
static dpmf_status open_all(dpmf_mpi_noise *n, const dpmf_mechanism *mechanism, double clip, const uint8_t *key,
                            const dpmf_noise_options *o) {
    dpmf_status status = together(n->communicator, n->rank == 0 ? open_local(n, mechanism, clip, key, *o) : DPMF_OK);
    if (status != DPMF_OK) return status;
    if (n->rank == 0) memcpy(n->salt, dpmf_noise_get(n->local).salt, sizeof n->salt);
    status = check(MPI_Bcast(n->salt, sizeof n->salt, MPI_BYTE, 0, n->communicator), "send the salt of the state file");
    if (status == DPMF_OK && n->rank != 0) status = open_local(n, mechanism, clip, key, *o);
    return together(n->communicator, status);
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
    if (n->rank != 0 && n->local != NULL && row > 0 && !doubt) status = took(dpmf_noise_seek(n->local, row));
    return together(n->communicator, status);
}

dpmf_status dpmf_mpi_noise_create(MPI_Comm communicator, const dpmf_mechanism *mechanism, int64_t dim, double clip,
                                  const uint8_t key[DPMF_KEY_SIZE], const dpmf_noise_options *options,
                                  dpmf_mpi_noise **out) {
    dpmf_noise_options o = options == NULL ? dpmf_noise_options_defaults() : *options;
    dpmf_mpi_noise *n = calloc(1, sizeof *n);
    dpmf_status status = n == NULL ? fail(DPMF_ERROR_MEMORY, "no memory for a noise stream") : DPMF_OK;
    status = together(communicator, status);
    if (status == DPMF_OK) status = dpmf_mpi_agree(communicator, mechanism, dim, clip, key, o.label, 0);
    if (status != DPMF_OK) goto done;
    status = check(MPI_Comm_dup(communicator, &n->communicator), "copy the communicator");
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
    status = together(n->communicator, choose_shard(n, &o));
    if (status == DPMF_OK) status = share_bounds(n);
    if (status == DPMF_OK) status = open_all(n, mechanism, clip, key, &o);
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

/* A process without coordinates counts the rows, so that it ends with the others. */
static dpmf_status no_row(dpmf_mpi_noise *n) {
    if (n->step >= n->steps)
        return fail(DPMF_ERROR_ARGUMENT, "row %" PRId64 ", accepted 0 to %" PRId64, n->step, n->steps - 1);
    n->step++;
    return DPMF_OK;
}

static dpmf_status check_doubt(const dpmf_mpi_noise *n) {
    if (!n->in_doubt) return DPMF_OK;
    return fail(DPMF_ERROR_ARGUMENT,
                "row %" PRId64 " was reserved when a program ended, and it is not known if it arrived: seek to row "
                "%" PRId64 " if it did, or to the row itself, with the option replay, if not",
                n->step - 1, n->step);
}

dpmf_status dpmf_mpi_noise_next(dpmf_mpi_noise *n, void *row) {
    dpmf_status status = check_doubt(n);
    if (status != DPMF_OK) return status;
    return n->local == NULL ? no_row(n) : took(dpmf_noise_next(n->local, row));
}

dpmf_status dpmf_mpi_noise_add(dpmf_mpi_noise *n, double factor, int64_t segments, const dpmf_segment *segment) {
    dpmf_status status = check_doubt(n);
    if (status != DPMF_OK) return status;
    return n->local == NULL ? no_row(n) : took(dpmf_noise_add(n->local, factor, segments, segment));
}

/* Sends pieces whose length an int can hold. */
static dpmf_status receive(const dpmf_mpi_noise *n, int from, char *row, size_t size) {
    const int64_t most = INT_MAX / 16;
    for (int64_t at = n->bounds[from]; at < n->bounds[from + 1]; at += most) {
        const int64_t left = n->bounds[from + 1] - at, part = left < most ? left : most;
        dpmf_status status = check(MPI_Recv(row + (size_t)at * size, (int)(part * (int64_t)size), MPI_BYTE, from, 0,
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
        dpmf_status status =
            check(MPI_Send(part + (size_t)at * size, (int)(count * (int64_t)size), MPI_BYTE, to, 0, n->communicator),
                  "send a part of a row");
        if (status != DPMF_OK) return status;
    }
    return DPMF_OK;
}

dpmf_status dpmf_mpi_noise_gather(dpmf_mpi_noise *n, int root, void *row) {
    const size_t size = n->precision == DPMF_FLOAT32 ? sizeof(float) : sizeof(double);
    char *part = NULL;
    dpmf_status status = DPMF_OK;
    if (root < 0 || root >= n->ranks) return fail(DPMF_ERROR_ARGUMENT, "root %d, accepted 0 to %d", root, n->ranks - 1);
    if (n->rank == root && row == NULL) status = fail(DPMF_ERROR_ARGUMENT, "the row is NULL");
    if (status == DPMF_OK && n->rank != root && n->count > 0) {
        part = malloc((size_t)n->count * size);
        if (part == NULL) status = fail(DPMF_ERROR_MEMORY, "no memory for a part of a row");
    }
    status = together(n->communicator, status);
    if (status != DPMF_OK) goto done;
    char *into = n->rank == root ? (char *)row + (size_t)n->offset * size : part;
    status = together(n->communicator, dpmf_mpi_noise_next(n, into));
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
    if (n->rank == 0) status = took(dpmf_noise_seek(n->local, step));
    status = together(n->communicator, status);
    if (status != DPMF_OK) return status;
    if (n->rank != 0 && n->local != NULL) status = took(dpmf_noise_seek(n->local, step));
    if (status == DPMF_OK) {
        n->step = step;
        n->in_doubt = 0;
    }
    return together(n->communicator, status);
}

/*
 * Checkpoints of many processes. Rank r of P at row s writes its buffers (libdpmf's own checkpoint: authenticated, mode
 * 0600) to PATH.s.r-of-P. When all are on the disk, rank 0 writes the list of their names to PATH, whole or not at all,
 * and removes the files of the list before:
 *
 *     dpmf mpi checkpoint 1
 *     row 120
 *     parts 2
 *     run.ckpt.120.0-of-2
 *     run.ckpt.120.1-of-2
 *
 * A run killed anywhere therefore leaves a list whose files are all there. The list itself is not authenticated: it can
 * only name files, each of which is, and which must be of one row and cover every coordinate once.
 */

static const char MAGIC[] = "dpmf mpi checkpoint 1";
enum { PATH_SIZE = 4096, LINE_SIZE = 1024, PARTS_MAX = 1 << 20 };

typedef struct list {
    long long row, parts;
    char **path; /* parts of them, allocated */
} list;

static void list_free(list *l) {
    for (long long i = 0; l->path != NULL && i < l->parts; i++)
        free(l->path[i]);
    free(l->path);
    *l = (list){0};
}

/* The directory of `path`, with its slash; the length of it, 0 if there is none. */
static int directory_length(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash == NULL ? 0 : (int)(slash - path) + 1;
}

static dpmf_status part_path(const char *path, int64_t row, int rank, int ranks, char out[PATH_SIZE]) {
    int length = snprintf(out, PATH_SIZE, "%s.%lld.%d-of-%d", path, (long long)row, rank, ranks);
    if (length > 0 && length < PATH_SIZE) return DPMF_OK;
    return fail(DPMF_ERROR_ARGUMENT, "the path of the checkpoint is longer than %d bytes", PATH_SIZE - 64);
}

static dpmf_status fail_list(const char *path, const char *what) {
    return fail(DPMF_ERROR_FORMAT, "'%.300s' is not the list of a checkpoint: %s", path, what);
}

static int read_line(FILE *file, char line[LINE_SIZE]) {
    if (fgets(line, LINE_SIZE, file) == NULL) return 0;
    size_t length = strlen(line);
    if (length == 0 || line[length - 1] != '\n') return 0;
    line[length - 1] = '\0';
    return 1;
}

/* Names are plain: files beside the list, nowhere else. */
static dpmf_status read_names(FILE *file, const char *path, list *out) {
    const int directory = directory_length(path);
    char line[LINE_SIZE];
    for (long long i = 0; i < out->parts; i++) {
        if (!read_line(file, line) || line[0] == '\0' || strchr(line, '/') != NULL)
            return fail_list(path, "a name is missing, or leads to another directory");
        size_t size = (size_t)directory + strlen(line) + 1;
        out->path[i] = malloc(size);
        if (out->path[i] == NULL) return fail(DPMF_ERROR_MEMORY, "no memory for a path");
        snprintf(out->path[i], size, "%.*s%s", directory, path, line);
    }
    return read_line(file, line) ? fail_list(path, "there is text after the parts") : DPMF_OK;
}

static dpmf_status read_list(const char *path, list *out) {
    char line[LINE_SIZE], end = 0;
    FILE *file = fopen(path, "r");
    dpmf_status status = DPMF_OK;
    if (file == NULL) return fail(DPMF_ERROR_IO, "cannot read the checkpoint '%.300s': %s", path, strerror(errno));
    if (!read_line(file, line) || strcmp(line, MAGIC) != 0)
        status = fail_list(path, "it has another beginning");
    else if (!read_line(file, line) || sscanf(line, "row %lld%c", &out->row, &end) != 1 || out->row < 0)
        status = fail_list(path, "its second line is no row");
    else if (!read_line(file, line) || sscanf(line, "parts %lld%c", &out->parts, &end) != 1 || out->parts < 1 ||
             out->parts > PARTS_MAX)
        status = fail_list(path, "its third line is no number of parts");
    if (status == DPMF_OK) {
        out->path = calloc((size_t)out->parts, sizeof *out->path);
        status = out->path == NULL ? fail(DPMF_ERROR_MEMORY, "no memory for paths") : read_names(file, path, out);
    }
    fclose(file);
    if (status != DPMF_OK) list_free(out);
    return status;
}

static bool write_names(atomic_file *file, const dpmf_mpi_noise *n, const char *name, int64_t row) {
    char line[PATH_SIZE];
    int parts = 0;
    for (int r = 0; r < n->ranks; r++)
        parts += n->bounds[r + 1] > n->bounds[r];
    int length = snprintf(line, sizeof line, "%s\nrow %lld\nparts %d\n", MAGIC, (long long)row, parts);
    bool ok = atomic_file_write(file, line, (size_t)length);
    for (int r = 0; r < n->ranks && ok; r++) {
        if (n->bounds[r + 1] == n->bounds[r]) continue;
        length = snprintf(line, sizeof line, "%s.%lld.%d-of-%d\n", name, (long long)row, r, n->ranks);
        ok = atomic_file_write(file, line, (size_t)length);
    }
    return ok;
}

static dpmf_status write_list(const dpmf_mpi_noise *n, const char *path, int64_t row) {
    atomic_file file;
    const bool ok = atomic_file_open(&file, path, true) && write_names(&file, n, path + directory_length(path), row) &&
                    atomic_file_commit(&file, true);
    atomic_file_close(&file);
    if (ok) return DPMF_OK;
    return fail(DPMF_ERROR_IO, "cannot %s the checkpoint '%.300s': %s", file.failed, path, file.reason);
}

dpmf_status dpmf_mpi_noise_save(dpmf_mpi_noise *n, const char *path) {
    char own[PATH_SIZE];
    list old = {0};
    const int64_t row = dpmf_mpi_noise_step(n);
    dpmf_status status = DPMF_OK;
    if (path == NULL || *path == '\0') status = fail(DPMF_ERROR_ARGUMENT, "checkpoint: the path is NULL or empty");
    if (status == DPMF_OK) status = part_path(path, row, n->rank, n->ranks, own);
    if (status == DPMF_OK && n->local != NULL) status = took(dpmf_noise_save(n->local, own));
    status = together(n->communicator, status);
    if (status != DPMF_OK) return status;
    if (n->rank == 0) {
        if (read_list(path, &old) != DPMF_OK) old = (list){0}; /* the first one, or something else of that name */
        status = write_list(n, path, row);
        if (status == DPMF_OK) {
            /* What the list before named and the new one does not. */
            char kept[PATH_SIZE];
            for (long long i = 0; i < old.parts; i++) {
                int again = 0;
                for (int r = 0; r < n->ranks && !again; r++)
                    again = part_path(path, row, r, n->ranks, kept) == DPMF_OK && strcmp(kept, old.path[i]) == 0;
                if (!again) unlink(old.path[i]); /* one that cannot be removed does no harm */
            }
        }
        list_free(&old);
    }
    return together(n->communicator, status);
}

dpmf_status dpmf_mpi_noise_load(dpmf_mpi_noise *n, const char *path) {
    list parts = {0};
    dpmf_status status = DPMF_OK;
    if (path == NULL || *path == '\0') status = fail(DPMF_ERROR_ARGUMENT, "checkpoint: the path is NULL or empty");
    if (status == DPMF_OK) status = read_list(path, &parts);
    status = together(n->communicator, status);
    /* Rank 0 first: only it knows whether the state file allows it. */
    for (int turn = 0; turn < 2 && status == DPMF_OK; turn++) {
        if ((n->rank == 0) == (turn == 0) && n->local != NULL)
            status = took(dpmf_noise_load_parts(n->local, parts.parts, (const char *const *)parts.path));
        status = together(n->communicator, status);
    }
    if (status == DPMF_OK) {
        n->step = parts.row;
        n->in_doubt = 0;
    }
    list_free(&parts);
    return status;
}
