/* SPDX-License-Identifier: Apache-2.0 */
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
#include "shared.h"

#include "base/atomic_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    return mpi_fail(DPMF_ERROR_ARGUMENT, "the path of the checkpoint is longer than %d bytes", PATH_SIZE - 64);
}

/* ---- reading the list ---- */

static dpmf_status fail_list(const char *path, const char *what) {
    return mpi_fail(DPMF_ERROR_FORMAT, "'%.300s' is not the list of a checkpoint: %s", path, what);
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
        if (out->path[i] == NULL) return mpi_fail(DPMF_ERROR_MEMORY, "no memory for a path");
        snprintf(out->path[i], size, "%.*s%s", directory, path, line);
    }
    return read_line(file, line) ? fail_list(path, "there is text after the parts") : DPMF_OK;
}

static dpmf_status read_list(const char *path, list *out) {
    char line[LINE_SIZE], end = 0;
    FILE *file = fopen(path, "r");
    dpmf_status status = DPMF_OK;
    if (file == NULL) return mpi_fail(DPMF_ERROR_IO, "cannot read the checkpoint '%.300s': %s", path, strerror(errno));
    if (!read_line(file, line) || strcmp(line, MAGIC) != 0)
        status = fail_list(path, "it has another beginning");
    else if (!read_line(file, line) || sscanf(line, "row %lld%c", &out->row, &end) != 1 || out->row < 0)
        status = fail_list(path, "its second line is no row");
    else if (!read_line(file, line) || sscanf(line, "parts %lld%c", &out->parts, &end) != 1 || out->parts < 1 ||
             out->parts > PARTS_MAX)
        status = fail_list(path, "its third line is no number of parts");
    if (status == DPMF_OK) {
        out->path = calloc((size_t)out->parts, sizeof *out->path);
        status = out->path == NULL ? mpi_fail(DPMF_ERROR_MEMORY, "no memory for paths") : read_names(file, path, out);
    }
    fclose(file);
    if (status != DPMF_OK) list_free(out);
    return status;
}

/* ---- writing it ---- */

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
    return mpi_fail(DPMF_ERROR_IO, "cannot %s the checkpoint '%.300s': %s", file.failed, path, file.reason);
}

/* What the list before named and the new one does not. */
static void remove_old(const dpmf_mpi_noise *n, const char *path, int64_t row, list *old) {
    char kept[PATH_SIZE];
    for (long long i = 0; i < old->parts; i++) {
        int again = 0;
        for (int r = 0; r < n->ranks && !again; r++)
            again = part_path(path, row, r, n->ranks, kept) == DPMF_OK && strcmp(kept, old->path[i]) == 0;
        if (!again) unlink(old->path[i]); /* one that cannot be removed does no harm */
    }
}

dpmf_status dpmf_mpi_noise_save(dpmf_mpi_noise *n, const char *path) {
    char own[PATH_SIZE];
    list old = {0};
    const int64_t row = dpmf_mpi_noise_step(n);
    dpmf_status status = DPMF_OK;
    if (path == NULL || *path == '\0') status = mpi_fail(DPMF_ERROR_ARGUMENT, "checkpoint: the path is NULL or empty");
    if (status == DPMF_OK) status = part_path(path, row, n->rank, n->ranks, own);
    if (status == DPMF_OK && n->local != NULL) status = mpi_took(dpmf_noise_save(n->local, own));
    status = mpi_together(n->communicator, status);
    if (status != DPMF_OK) return status;
    if (n->rank == 0) {
        if (read_list(path, &old) != DPMF_OK) old = (list){0}; /* the first one, or something else of that name */
        status = write_list(n, path, row);
        if (status == DPMF_OK) remove_old(n, path, row, &old);
        list_free(&old);
    }
    return mpi_together(n->communicator, status);
}

dpmf_status dpmf_mpi_noise_load(dpmf_mpi_noise *n, const char *path) {
    list parts = {0};
    dpmf_status status = DPMF_OK;
    if (path == NULL || *path == '\0') status = mpi_fail(DPMF_ERROR_ARGUMENT, "checkpoint: the path is NULL or empty");
    if (status == DPMF_OK) status = read_list(path, &parts);
    status = mpi_together(n->communicator, status);
    /* Rank 0 first: only it knows whether the state file allows it. */
    for (int turn = 0; turn < 2 && status == DPMF_OK; turn++) {
        if ((n->rank == 0) == (turn == 0) && n->local != NULL)
            status = mpi_took(dpmf_noise_load_parts(n->local, parts.parts, (const char *const *)parts.path));
        status = mpi_together(n->communicator, status);
    }
    if (status == DPMF_OK) {
        n->step = parts.row;
        n->in_doubt = 0;
    }
    list_free(&parts);
    return status;
}
