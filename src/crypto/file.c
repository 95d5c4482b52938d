/* SPDX-License-Identifier: Apache-2.0 */
/* Files that only their owner may read. New ones are atomic files (base/atomic_file.h) of mode 0600. */
#include "crypto/crypto.h"

#include "base/atomic_file.h"
#include "base/file.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static dpmf_status check_owner(int file, const char *path, const char *what, int64_t *size) {
    char shown[BASE_SHOWN_PATH];
    struct stat info;
    if (fstat(file, &info) != 0) return base_file_fail("read", what, path, errno);
    base_show_path(path, shown);
    if (!S_ISREG(info.st_mode))
        return base_fail(DPMF_ERROR_IO, "the %s '%s' is %s, not a regular file", what, shown, file_kind(info.st_mode));
    if (info.st_uid != geteuid())
        return base_fail(DPMF_ERROR_IO,
                         "the %s '%s' belongs to user %lld, who can read and change it: only files of user "
                         "%lld, who runs this program, are accepted",
                         what, shown, (long long)info.st_uid, (long long)geteuid());
    if ((info.st_mode & 077) != 0)
        return base_fail(DPMF_ERROR_IO, "the %s '%s' has mode %03o, accepted: 600 or less, the owner alone", what,
                         shown, (unsigned)info.st_mode & 0777u);
    *size = (int64_t)info.st_size;
    return DPMF_OK;
}

dpmf_status crypto_secret_open(const char *path, const char *what, int write, int *file, int64_t *size) {
    /* O_NONBLOCK: opening a pipe must not wait for its other end. */
    const int opened = open(path, (write ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (opened < 0 && errno == ENOENT) {
        *file = -1;
        *size = 0;
        return DPMF_OK;
    }
    if (opened < 0) return base_file_fail("open", what, path, errno);
    dpmf_status status = check_owner(opened, path, what, size);
    if (status == DPMF_OK)
        *file = opened;
    else
        close(opened);
    return status;
}

dpmf_status crypto_secret_load(const char *path, const char *what, uint8_t **bytes, int64_t *size) {
    char shown[BASE_SHOWN_PATH];
    dpmf_status status = DPMF_OK;
    uint8_t *memory = NULL;
    int file = -1;
    TRY(crypto_secret_open(path, what, 0, &file, size));
    if (file < 0)
        return base_fail(DPMF_ERROR_IO, "cannot read the %s '%s': it does not exist", what,
                         base_show_path(path, shown));
    TRY_DONE(base_alloc(*size + 1, 1, what, (void **)&memory)); /* + 1: an empty file has an address too */
    TRY_DONE(crypto_secret_read(file, path, what, 0, memory, (size_t)*size));
    *bytes = memory;
    memory = NULL;
done:
    crypto_wipe_free(memory, *size);
    close(file);
    return status;
}

dpmf_status crypto_secret_read(int file, const char *path, const char *what, int64_t place, void *bytes, size_t size) {
    char shown[BASE_SHOWN_PATH];
    size_t got = 0;
    const int error = file_get(file, place, bytes, size, &got);
    if (error != 0) return base_file_fail("read", what, path, error);
    if (got == size) return DPMF_OK;
    return base_fail(DPMF_ERROR_FORMAT, "the %s '%s' is too short", what, base_show_path(path, shown));
}

dpmf_status crypto_secret_put(int file, const char *path, const char *what, int64_t place, const void *bytes,
                              size_t size) {
    const int error = file_put(file, place, bytes, size);
    return error == 0 ? DPMF_OK : base_file_fail("write", what, path, error);
}

dpmf_status crypto_secret_write(int file, const char *path, const char *what, int64_t place, const void *bytes,
                                size_t size) {
    TRY(crypto_secret_put(file, path, what, place, bytes, size));
    return fdatasync(file) == 0 ? DPMF_OK : base_file_fail("sync", what, path, errno);
}

dpmf_status crypto_secret_create(const char *path, const char *what, const void *bytes, size_t size, int replace,
                                 int *existed, int *file) {
    atomic_file a;
    const bool opened = atomic_file_open(&a, path, true);
    const bool ok =
        opened && a.lock_error == 0 && atomic_file_write(&a, bytes, size) && atomic_file_commit(&a, replace != 0);
    if (existed != NULL) *existed = a.existed;
    if (ok && file != NULL) {
        *file = a.file;
        a.file = -1;
    }
    atomic_file_close(&a);
    if (opened && a.lock_error != 0) return base_file_fail("lock", what, path, a.lock_error);
    return ok ? DPMF_OK : base_atomic_fail(&a, what);
}
