/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that appears whole or not at all.
 *
 * A new file has no name while it is written (O_TMPFILE), so that a program that is killed leaves nothing behind. Once it
 * is synced, link gives it its own name, or, where it may replace another, link gives it a temporary name and rename its
 * own. At every moment, and after a crash at any moment, the path therefore holds the old file, the new one or nothing,
 * never a part; and of two programs that make the same new file without replacing, one fails. The directory is synced
 * last: a commit that has returned survives a power cut.
 *
 * A file system without unnamed files, or a system without /proc, through which they get a name, makes the temporary name
 * come first. Temporary names are .NAME.dpmf-RANDOM.tmp. Their files are locked while their program lives, so the next
 * program that makes a file of that NAME can remove those that a kill left.
 */
#include "base/atomic_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#if !defined(O_TMPFILE) && defined(__O_TMPFILE) /* the C library has it, and shows it to GNU programs only */
#define O_TMPFILE __O_TMPFILE
#elif !defined(O_TMPFILE)
#define O_TMPFILE (O_DIRECTORY | O_CREAT) /* refused by every system: names come first */
#endif

/* A single read or write moves at most 2^31 - 4096 bytes on Linux; ask for less. */
#define CHUNK ((size_t)1 << 30)

int file_put(int file, int64_t place, const void *bytes, size_t size) {
    for (size_t done = 0; done < size;) {
        const ssize_t put = pwrite(file, (const char *)bytes + done, size - done < CHUNK ? size - done : CHUNK,
                                   (off_t)(place + (int64_t)done));
        if (put < 0 && errno != EINTR) return errno;
        if (put > 0) done += (size_t)put;
    }
    return 0;
}

int file_get(int file, int64_t place, void *bytes, size_t size, size_t *got) {
    for (*got = 0; *got < size;) {
        const ssize_t step = pread(file, (char *)bytes + *got, size - *got < CHUNK ? size - *got : CHUNK,
                                   (off_t)(place + (int64_t)*got));
        if (step < 0 && errno != EINTR) return errno;
        if (step == 0) break;
        if (step > 0) *got += (size_t)step;
    }
    return 0;
}

const char *file_kind(mode_t mode) {
    if (S_ISDIR(mode)) return "a directory";
    return S_ISFIFO(mode) ? "a pipe" : S_ISSOCK(mode) ? "a socket" : "a device";
}

static int directory_length(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? (int)(slash - path) + 1 : 0;
}

/* -1 and errno, or the directory of the path. */
static int open_directory(const char *path) {
    char directory[PATH_MAX + 2];
    const int length = directory_length(path);
    if (length > PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    snprintf(directory, sizeof directory, "%.*s.", length, path);
    return open(directory, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
}

int file_sync_directory(const char *path) {
    int error = 0;
    const int place = open_directory(path);
    if (place < 0) return errno == EACCES ? 0 : errno; /* a directory that one may write to but not list */
    if (fsync(place) != 0 && errno != EINVAL && errno != ENOTSUP && errno != EROFS) error = errno;
    close(place);
    return error;
}

static bool fail(atomic_file *a, const char *failed, int error) {
    a->failed = failed;
    if (strerror_r(error, a->reason, sizeof a->reason) != 0) snprintf(a->reason, sizeof a->reason, "error %d", error);
    return false;
}

/* .NAME.dpmf-, with which temporary names of the path begin. */
static void name_start(const atomic_file *a, char out[NAME_MAX + 1]) {
    snprintf(out, NAME_MAX + 1, ".%.200s.dpmf-", a->path + a->directory);
}

/* Removes what programs that were killed have left of this path. What cannot be removed stays: it does no harm. */
static void clean_up(const atomic_file *a) {
    char start[NAME_MAX + 1];
    const int place = open_directory(a->path);
    DIR *list = place >= 0 ? fdopendir(place) : NULL;
    if (list == NULL && place >= 0) close(place);
    if (list == NULL) return;
    name_start(a, start);
    for (const struct dirent *entry = readdir(list); entry != NULL; entry = readdir(list)) {
        if (strncmp(entry->d_name, start, strlen(start)) != 0) continue;
        const int left = openat(place, entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (left >= 0 && flock(left, LOCK_EX | LOCK_NB) == 0) unlinkat(place, entry->d_name, 0);
        if (left >= 0) close(left);
    }
    closedir(list);
}

static bool name_temporary(atomic_file *a) {
    char start[NAME_MAX + 1];
    unsigned char random[8];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) return fail(a, "write", errno);
    name_start(a, start);
    const size_t room = sizeof a->temporary;
    size_t used = (size_t)snprintf(a->temporary, room, "%.*s%s", a->directory, a->path, start);
    if (used + 2 * sizeof random + sizeof ".tmp" > room) return fail(a, "write", ENAMETOOLONG);
    for (size_t i = 0; i < sizeof random; i++)
        used += (size_t)snprintf(a->temporary + used, room - used, "%02x", random[i]);
    snprintf(a->temporary + used, room - used, ".tmp");
    return true;
}

bool atomic_file_open(atomic_file *a, const char *path, bool secret) {
    const int flags = O_RDWR | O_CLOEXEC | O_NOCTTY;
    const mode_t mode = secret ? 0600 : 0666;
    struct stat info;
    *a = (atomic_file){.path = path, .directory = directory_length(path), .file = -1};
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) { /* rename would replace a device or a pipe by the file */
        a->failed = "write";
        snprintf(a->reason, sizeof a->reason, "it is %s, not a regular file", file_kind(info.st_mode));
        return false;
    }
    if (!name_temporary(a)) return false;
    clean_up(a);
    const int place = access("/proc/self/fd", X_OK) == 0 ? open_directory(path) : -1;
    if (place >= 0) {
        a->file = openat(place, ".", flags | O_TMPFILE, mode);
        close(place);
    }
    if (a->file < 0) {
        a->file = open(a->temporary, flags | O_CREAT | O_EXCL, mode);
        a->named = a->file >= 0;
    }
    if (a->file < 0) return fail(a, "write", errno);
    a->lock_error = flock(a->file, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    return true;
}

bool atomic_file_write(atomic_file *a, const void *bytes, size_t size) {
    const off_t end = lseek(a->file, 0, SEEK_END);
    const int error = end < 0 ? errno : file_put(a->file, (int64_t)end, bytes, size);
    return error == 0 || fail(a, "write", error);
}

/* A further name for a file that may have none yet. 0 or an errno. */
static int link_as(const atomic_file *a, const char *name) {
    char unnamed[64];
    snprintf(unnamed, sizeof unnamed, "/proc/self/fd/%d", a->file);
    return linkat(AT_FDCWD, a->named ? a->temporary : unnamed, AT_FDCWD, name, a->named ? 0 : AT_SYMLINK_FOLLOW) == 0
               ? 0
               : errno;
}

bool atomic_file_commit(atomic_file *a, bool replace) {
    int error = 0;
    if (fsync(a->file) != 0) return fail(a, "write", errno);
    if (replace) {
        if (!a->named) error = link_as(a, a->temporary);
        a->named = a->named || error == 0;
        if (error == 0 && rename(a->temporary, a->path) != 0) error = errno;
        if (error != 0) return fail(a, "write", error);
    } else {
        error = link_as(a, a->path);
        a->existed = error == EEXIST;
        if (error != 0) return fail(a, "make", error);
        if (a->named) unlink(a->temporary);
    }
    a->named = false;
    error = file_sync_directory(a->path);
    return error == 0 || fail(a, "sync the directory of", error);
}

void atomic_file_close(atomic_file *a) {
    if (a->named) unlink(a->temporary);
    if (a->file >= 0) close(a->file);
    a->named = false;
    a->file = -1;
}
