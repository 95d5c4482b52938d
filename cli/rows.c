/* SPDX-License-Identifier: Apache-2.0 */
#include "rows.h"

#include "output.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

static int fail_rows(const row_output *out, const char *reason) {
    char shown[SHOWN];
    if (interrupted()) return fail(EXIT_CANCELLED, "cancelled");
    if (out->path == NULL) return fail(EXIT_UNABLE, "cannot write to standard output: %s", reason);
    return fail(EXIT_UNABLE, "cannot write %s: %s", show(out->path, shown), reason);
}

int rows_open(const char *path, bool secret, row_output *out) {
    end_later();
    *out = (row_output){.file = STDOUT_FILENO, .path = path};
    if (path == NULL) return 0;
    const bool opened = atomic_file_open(&out->complete, path, secret);
    out->file = out->complete.file;
    return opened ? 0 : fail_rows(out, out->complete.reason);
}

/* A stopped program finishes its row unless the reader has stopped too, as a second without progress shows. */
static bool still_taken(int file) {
    struct pollfd wanted = {.fd = file, .events = POLLOUT};
    return poll(&wanted, 1, 1000) > 0 && (wanted.revents & POLLOUT) != 0;
}

int rows_write(row_output *out, const void *bytes, size_t size) {
    const char *at = bytes;
    while (size > 0) {
        if (interrupted() && !still_taken(out->file)) return fail_rows(out, strerror(EINTR));
        ssize_t written = write(out->file, at, size < (1u << 30) ? size : 1u << 30);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return fail_rows(out, strerror(errno));
        at += written;
        size -= (size_t)written;
    }
    return 0;
}

int rows_finish(row_output *out) {
    /* Some file systems only report a full disk when the file is closed. */
    if (out->path == NULL) return close(out->file) == 0 ? 0 : fail_rows(out, strerror(errno));
    return atomic_file_commit(&out->complete, true) ? 0 : fail_rows(out, out->complete.reason);
}

const char *rows_left_behind(const row_output *out) {
    return out->path != NULL && out->complete.named ? out->complete.temporary : NULL;
}

void rows_close(row_output *out) {
    if (out->path != NULL) atomic_file_close(&out->complete);
}
