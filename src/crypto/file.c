/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that only their owner may read.
 *
 * A new file is written under a name that nobody can guess, synced, and then given its own name: by rename, or by link
 * where an existing file must stay. So the name never leads to a part of a file, and of two programs that make the same
 * new file one fails.
 */
#include "crypto/crypto.h"

#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* A single read or write moves at most 2^31 - 4096 bytes on Linux; ask for less. */
#define CHUNK ((size_t)1 << 30)

const char *dpmf_i_crypto_secret_show(const char *path, char out[DPMF_I_CRYPTO_SHOWN_PATH]) {
    size_t length = strlen(path), used = 0;
    if (length >= DPMF_I_CRYPTO_SHOWN_PATH) {
        used = 3;
        memcpy(out, "...", used);
        path += length - (DPMF_I_CRYPTO_SHOWN_PATH - 1 - used);
    }
    for (; *path != '\0'; path++)
        out[used++] = (unsigned char)*path < ' ' || *path == 0x7f ? '?' : *path;
    out[used] = '\0';
    return out;
}

dpmf_status dpmf_i_crypto_secret_fail(const char *verb, const char *what, const char *path, int error) {
    char shown[DPMF_I_CRYPTO_SHOWN_PATH], reason[128];
    if (strerror_r(error, reason, sizeof reason) != 0) snprintf(reason, sizeof reason, "error %d", error);
    return dpmf_i_base_fail(DPMF_ERROR_IO, "cannot %s the %s '%s': %s", verb, what,
                            dpmf_i_crypto_secret_show(path, shown), reason);
}

static dpmf_status check_kind(int file, const char *path, const char *what, int64_t *size) {
    char shown[DPMF_I_CRYPTO_SHOWN_PATH];
    struct stat info;
    if (fstat(file, &info) != 0) return dpmf_i_crypto_secret_fail("read", what, path, errno);
    if (!S_ISREG(info.st_mode))
        return dpmf_i_base_fail(DPMF_ERROR_IO, "the %s '%s' is not a regular file", what,
                                dpmf_i_crypto_secret_show(path, shown));
    if ((info.st_mode & 077) != 0)
        return dpmf_i_base_fail(DPMF_ERROR_IO, "the %s '%s' has mode %03o, accepted: 600 or less, the owner alone",
                                what, dpmf_i_crypto_secret_show(path, shown), (unsigned)info.st_mode & 0777u);
    *size = (int64_t)info.st_size;
    return DPMF_OK;
}

dpmf_status dpmf_i_crypto_secret_open(const char *path, const char *what, int write, int *file, int64_t *size) {
    /* O_NONBLOCK: opening a pipe must not wait for somebody at its other end. */
    int flags = (write ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    int opened = open(path, flags);
    if (opened < 0 && errno == ENOENT) {
        *file = -1;
        *size = 0;
        return DPMF_OK;
    }
    if (opened < 0) return dpmf_i_crypto_secret_fail("open", what, path, errno);
    dpmf_status status = check_kind(opened, path, what, size);
    if (status == DPMF_OK)
        *file = opened;
    else
        close(opened);
    return status;
}

dpmf_status dpmf_i_crypto_secret_read(int file, const char *path, const char *what, int64_t place, void *bytes,
                                      size_t size) {
    char shown[DPMF_I_CRYPTO_SHOWN_PATH];
    size_t done = 0;
    while (done < size) {
        ssize_t got = pread(file, (uint8_t *)bytes + done, size - done < CHUNK ? size - done : CHUNK,
                            (off_t)(place + (int64_t)done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return dpmf_i_crypto_secret_fail("read", what, path, errno);
        if (got == 0)
            return dpmf_i_base_fail(DPMF_ERROR_FORMAT, "the %s '%s' is too short", what,
                                    dpmf_i_crypto_secret_show(path, shown));
        done += (size_t)got;
    }
    return DPMF_OK;
}

dpmf_status dpmf_i_crypto_secret_write(int file, const char *path, const char *what, int64_t place, const void *bytes,
                                       size_t size) {
    size_t done = 0;
    while (done < size) {
        ssize_t put = pwrite(file, (const uint8_t *)bytes + done, size - done < CHUNK ? size - done : CHUNK,
                             (off_t)(place + (int64_t)done));
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return dpmf_i_crypto_secret_fail("write", what, path, errno);
        done += (size_t)put;
    }
    if (fdatasync(file) != 0) return dpmf_i_crypto_secret_fail("sync", what, path, errno);
    return DPMF_OK;
}

/* So that a new name survives a power cut. Not every file system can. */
static dpmf_status sync_directory(const char *directory, const char *path, const char *what) {
    dpmf_status status = DPMF_OK;
    int file = open(directory, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    if (file < 0 && errno == EACCES) return DPMF_OK; /* a directory that one may write to but not list */
    if (file < 0) return dpmf_i_crypto_secret_fail("sync the directory of", what, path, errno);
    if (fsync(file) != 0 && errno != EINVAL && errno != ENOTSUP && errno != EROFS)
        status = dpmf_i_crypto_secret_fail("sync the directory of", what, path, errno);
    close(file);
    return status;
}

/* The directory part of `path`, a dot and 64 random bits; allocated. */
static dpmf_status temporary_name(const char *path, size_t directory_length, char **name) {
    uint8_t random[32];
    char *text = NULL;
    enum { ROOM = sizeof ".dpmf-0123456789abcdef.tmp" };
    TRY(dpmf_i_crypto_key_random(random));
    TRY(dpmf_i_base_alloc((int64_t)directory_length + ROOM, 1, "a file name", (void **)&text));
    memcpy(text, path, directory_length);
    char *end = text + directory_length;
    end += snprintf(end, ROOM, ".dpmf-");
    for (int i = 0; i < 8; i++)
        end += snprintf(end, 3, "%02x", random[i]);
    snprintf(end, 5, ".tmp");
    *name = text;
    return DPMF_OK;
}

/* Gives the temporary file its name, or fails and says whether that was taken. */
static dpmf_status give_name(const char *temporary, const char *path, const char *what, int replace, int *existed) {
    if (replace) return rename(temporary, path) == 0 ? DPMF_OK : dpmf_i_crypto_secret_fail("write", what, path, errno);
    if (link(temporary, path) != 0) {
        int error = errno;
        if (existed != NULL) *existed = error == EEXIST;
        return dpmf_i_crypto_secret_fail("make", what, path, error);
    }
    unlink(temporary);
    return DPMF_OK;
}

dpmf_status dpmf_i_crypto_secret_create(const char *path, const char *what, const void *bytes, size_t size, int replace,
                                        int *existed, int *file) {
    dpmf_status status = DPMF_OK;
    const char *slash = strrchr(path, '/');
    const size_t directory_length = slash != NULL ? (size_t)(slash - path) + 1 : 0;
    char *temporary = NULL;
    int opened = -1;
    if (existed != NULL) *existed = 0;
    TRY(temporary_name(path, directory_length, &temporary));
    opened = open(temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0600);
    if (opened < 0) {
        status = dpmf_i_crypto_secret_fail("write", what, path, errno);
        goto done;
    }
    status = dpmf_i_crypto_secret_write(opened, path, what, 0, bytes, size);
    if (status == DPMF_OK && file != NULL && flock(opened, LOCK_EX | LOCK_NB) != 0)
        status = dpmf_i_crypto_secret_fail("lock", what, path, errno);
    if (status == DPMF_OK) status = give_name(temporary, path, what, replace, existed);
    if (status != DPMF_OK) {
        unlink(temporary);
        goto done;
    }
    temporary[directory_length] = '\0'; /* what is left of it is the directory */
    TRY_DONE(sync_directory(directory_length > 0 ? temporary : ".", path, what));
    if (file != NULL) {
        *file = opened;
        opened = -1;
    }
done:
    if (opened >= 0) close(opened);
    dpmf_i_base_free(temporary);
    return status;
}
