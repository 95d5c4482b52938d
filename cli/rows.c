/* SPDX-License-Identifier: Apache-2.0 */
#include "rows.h"

#include "output.h"
#include "progress.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail_file(const row_output *out, int error) {
    char shown[SHOWN];
    if (interrupted()) return fail(EXIT_CANCELLED, "cancelled");
    if (out->path == NULL) return fail(EXIT_UNABLE, "cannot write to standard output: %s", strerror(error));
    return fail(EXIT_UNABLE, "cannot write %s: %s", show(out->path, shown), strerror(error));
}

/* The directory of the path, a dot, and letters for mkstemp; NULL: no memory. */
static char *temporary_name(const char *path) {
    static const char pattern[] = ".dpmf-XXXXXX";
    const char *slash = strrchr(path, '/');
    size_t length = slash != NULL ? (size_t)(slash - path) + 1 : 0;
    char *name = malloc(length + sizeof pattern);
    if (name == NULL) return NULL;
    memcpy(name, path, length);
    memcpy(name + length, pattern, sizeof pattern);
    return name;
}

int rows_open(const char *path, bool secret, row_output *out) {
    struct stat info;
    char shown[SHOWN];
    *out = (row_output){.file = STDOUT_FILENO, .path = path};
    if (path == NULL) return 0;
    out->file = -1;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) /* a rename would replace a device or a pipe */
        return fail(EXIT_UNABLE, "cannot write %s: it is not a regular file", show(path, shown));
    out->temporary = temporary_name(path);
    if (out->temporary == NULL) return fail_memory();
    out->file = mkstemp(out->temporary); /* mode 0600 */
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

/* A stopped program finishes its row unless nobody takes it: a second without progress is enough to know. */
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
    out->file = -1;
    bool ok = fsync(file) == 0;
    int error = errno;
    if (close(file) != 0 && ok) ok = false, error = errno;
    if (ok && rename(out->temporary, out->path) != 0) ok = false, error = errno;
    if (!ok) return fail_file(out, error);
    free(out->temporary);
    out->temporary = NULL;
    return 0;
}

void rows_close(row_output *out) {
    if (out->temporary != NULL) unlink(out->temporary);
    if (out->temporary != NULL && out->file >= 0) close(out->file);
    free(out->temporary);
    out->temporary = NULL;
}
