/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that appears whole or not at all, and reads and writes that move all bytes.
 *
 * This header and its source include nothing of dpmf and call the C library only, because three products share them:
 * libdpmf, the program, which links the library's objects, and libdpmf_mpi, which compiles the source into itself. Those two
 * stand on the public headers otherwise, and a public call would promise users what only dpmf needs. Failures are
 * words, which every product puts into a message of its own.
 */
#ifndef DPMF_BASE_ATOMIC_FILE_H
#define DPMF_BASE_ATOMIC_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct atomic_file {
    const char *path;   /* where it will be; the caller's */
    int directory;      /* bytes of the path up to its last slash, with it */
    int file;           /* open for reading and writing; -1: none, or the caller has taken it */
    int lock_error;     /* 0: it is locked with flock as long as it is open; or an errno */
    bool named;         /* it has its temporary name */
    bool existed;       /* a commit that must not replace found the path taken */
    const char *failed; /* after a failure, "cannot FAILED the file: REASON" */
    char reason[128];
    char temporary[PATH_MAX];
} atomic_file;

/* A new file for `path`, of mode 0600 if `secret`; no directory, pipe or device. False: see failed, reason; nothing is open. */
bool atomic_file_open(atomic_file *a, const char *path, bool secret);

/* Appends; callers may also write to a->file themselves. */
bool atomic_file_write(atomic_file *a, const void *bytes, size_t size);

/* Syncs and names the file, syncs the directory; it stays open. Without `replace` a file at the path is a failure and stays. */
bool atomic_file_commit(atomic_file *a, bool replace);

/* Closes the file, unless the caller has set a->file to -1 to keep it, and removes what was not committed. */
void atomic_file_close(atomic_file *a);

/* Makes the names in the directory of `path` survive a power cut, where the file system can. 0 or an errno. */
int file_sync_directory(const char *path);

/* "a directory", "a pipe", ...: what is no regular file, by its mode (st_mode). */
const char *file_kind(mode_t mode);

/* All bytes at `place`. 0 or an errno. */
int file_put(int file, int64_t place, const void *bytes, size_t size);

/* As many bytes from `place` on as the file has: *got. 0 or an errno. */
int file_get(int file, int64_t place, void *bytes, size_t size, size_t *got);

#endif
