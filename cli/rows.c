/* SPDX-License-Identifier: Apache-2.0 */
#include "rows.h"

#include "output.h"
#include "progress.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#if !defined(O_TMPFILE) && defined(__O_TMPFILE) /* the C library has it, and shows it to GNU programs only */
#define O_TMPFILE __O_TMPFILE
#elif !defined(O_TMPFILE)
#define O_TMPFILE (O_DIRECTORY | O_CREAT) /* every system refuses this, and the file gets a name at once */
#endif

static int fail_file(const row_output *out, int error) {
    char shown[SHOWN];
    if (interrupted()) return fail(EXIT_CANCELLED, "cancelled");
    if (out->path == NULL) return fail(EXIT_UNABLE, "cannot write to standard output: %s", strerror(error));
    return fail(EXIT_UNABLE, "cannot write %s: %s", show(out->path, shown), strerror(error));
}

static size_t directory_length(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? (size_t)(slash - path) + 1 : 0;
}

static int open_directory(const char *path) {
    char directory[PATH_MAX];
    const size_t length = directory_length(path);
    if (length >= sizeof directory) return -1;
    memcpy(directory, path, length);
    memcpy(directory + length, ".", 2);
    return open(directory, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
}

/* .NAME.dpmf-, which temporary names of the path begin with. */
static void name_start(const char *path, char out[NAME_MAX + 1]) {
    snprintf(out, NAME_MAX + 1, ".%.200s.dpmf-", path + directory_length(path));
}

/* That in the path's directory, and letters for mkstemp; NULL: no memory. */
static char *temporary_name(const char *path) {
    char start[NAME_MAX + 1];
    name_start(path, start);
    const size_t length = directory_length(path), room = length + strlen(start) + sizeof "XXXXXX";
    char *name = malloc(room);
    if (name != NULL) snprintf(name, room, "%.*s%sXXXXXX", (int)length, path, start);
    return name;
}

/* Removes files of programs that were killed: a file whose program lives is locked. */
static void clean_up(const char *path) {
    char start[NAME_MAX + 1];
    const int place = open_directory(path);
    DIR *list = place >= 0 ? fdopendir(place) : NULL;
    if (list == NULL && place >= 0) close(place);
    if (list == NULL) return;
    name_start(path, start);
    for (const struct dirent *entry = readdir(list); entry != NULL; entry = readdir(list)) {
        if (strncmp(entry->d_name, start, strlen(start)) != 0) continue;
        const int left = openat(place, entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (left >= 0 && flock(left, LOCK_EX | LOCK_NB) == 0) unlinkat(place, entry->d_name, 0);
        if (left >= 0) close(left);
    }
    closedir(list);
}

/* Opens a file without a name if the system can, mode 0600; -1 and errno. */
static int open_unnamed(row_output *out) {
    const int place = open_directory(out->path);
    int file = place >= 0 ? openat(place, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600) : -1;
    if (place >= 0) close(place);
    if (file < 0) {
        file = mkstemp(out->temporary);
        out->named = file >= 0;
    }
    if (file >= 0) flock(file, LOCK_EX | LOCK_NB); /* no other process knows the name yet */
    return file;
}

/* A name that a rename can move over what is there; 0 or an errno. */
static int name_file(row_output *out) {
    char open_file[64], *letters = out->temporary + strlen(out->temporary) - 6;
    snprintf(open_file, sizeof open_file, "/proc/self/fd/%d", out->file);
    for (unsigned i = (unsigned)getpid(); !out->named; i++) {
        snprintf(letters, 7, "%06x", i & 0xffffffu);
        out->named = linkat(AT_FDCWD, open_file, AT_FDCWD, out->temporary, AT_SYMLINK_FOLLOW) == 0;
        if (!out->named && errno != EEXIST) return errno;
    }
    return 0;
}

int rows_open(const char *path, bool secret, row_output *out) {
    struct stat info;
    char shown[SHOWN];
    end_later();
    *out = (row_output){.file = STDOUT_FILENO, .path = path};
    if (path == NULL) return 0;
    out->file = -1;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) /* a rename would replace a device or a pipe */
        return fail(EXIT_UNABLE, "cannot write %s: it is not a regular file", show(path, shown));
    out->temporary = temporary_name(path);
    if (out->temporary == NULL) return fail_memory();
    clean_up(path);
    out->file = open_unnamed(out);
    if (out->file < 0) {
        int error = errno;
        free(out->temporary);
        out->temporary = NULL;
        return fail_file(out, error);
    }
    if (!secret) {
        mode_t mask = umask(0);
        umask(mask);
        if (fchmod(out->file, 0666 & ~mask) != 0) return fail_file(out, errno);
    }
    return 0;
}

/* A stopped program finishes its row if the reader still reads: a second without progress means that it does not. */
static bool still_taken(int file) {
    struct pollfd wanted = {.fd = file, .events = POLLOUT};
    return poll(&wanted, 1, 1000) > 0 && (wanted.revents & POLLOUT) != 0;
}

int rows_write(row_output *out, const void *bytes, size_t size) {
    const char *at = bytes;
    while (size > 0) {
        if (interrupted() && !still_taken(out->file)) return fail_file(out, EINTR);
        ssize_t written = write(out->file, at, size < (1u << 30) ? size : 1u << 30);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return fail_file(out, errno);
        at += written;
        size -= (size_t)written;
    }
    return 0;
}

int rows_finish(row_output *out) {
    int file = out->file;
    if (out->path == NULL) {
        /* Some file systems only report a full disk when the file is closed. */
        return close(file) == 0 ? 0 : fail_file(out, errno);
    }
    bool ok = fsync(file) == 0;
    int error = errno;
    if (ok) error = name_file(out), ok = error == 0;
    if (ok && rename(out->temporary, out->path) != 0) ok = false, error = errno;
    if (ok) out->named = false;
    out->file = -1;
    if (close(file) != 0 && ok) ok = false, error = errno;
    if (!ok) return fail_file(out, error);
    free(out->temporary);
    out->temporary = NULL;
    return 0;
}

const char *rows_left_behind(const row_output *out) {
    return out->named ? out->temporary : NULL;
}

void rows_close(row_output *out) {
    if (out->named) unlink(out->temporary);
    if (out->temporary != NULL && out->file >= 0) close(out->file);
    free(out->temporary);
    out->temporary = NULL;
}
