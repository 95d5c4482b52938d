/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that only their owner may read.
 *
 * A new file has no name while it is written (O_TMPFILE), so that a program that is killed leaves nothing behind; synced,
 * it is given its own name by link, or, where it replaces another, a temporary name by link and its own by rename. So the
 * name never leads to a part of a file, and of two programs that make the same new file one fails. Where a file system has
 * no files without names, the temporary name comes first. Temporary names are .NAME.dpmf-RANDOM.tmp and locked while
 * their program lives: whoever makes a file of that name next removes those that nobody holds.
 */
#include "crypto/crypto.h"

#include "base/memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#if !defined(O_TMPFILE) && defined(__O_TMPFILE) /* the C library has it, and shows it to GNU programs only */
#define O_TMPFILE __O_TMPFILE
#elif !defined(O_TMPFILE)
#define O_TMPFILE (O_DIRECTORY | O_CREAT) /* refused by every system: names come first */
#endif

/* A single read or write moves at most 2^31 - 4096 bytes on Linux; ask for less. */
#define CHUNK ((size_t)1 << 30)

const char *crypto_secret_show(const char *path, char out[CRYPTO_SHOWN_PATH]) {
    size_t length = strlen(path), used = 0;
    if (length >= CRYPTO_SHOWN_PATH) {
        used = 3;
        memcpy(out, "...", used);
        path += length - (CRYPTO_SHOWN_PATH - 1 - used);
    }
    for (; *path != '\0'; path++)
        out[used++] = (unsigned char)*path < ' ' || *path == 0x7f ? '?' : *path;
    out[used] = '\0';
    return out;
}

dpmf_status crypto_secret_fail(const char *verb, const char *what, const char *path, int error) {
    char shown[CRYPTO_SHOWN_PATH], reason[128];
    if (strerror_r(error, reason, sizeof reason) != 0) snprintf(reason, sizeof reason, "error %d", error);
    return base_fail(DPMF_ERROR_IO, "cannot %s the %s '%s': %s", verb, what, crypto_secret_show(path, shown), reason);
}

static dpmf_status check_kind(int file, const char *path, const char *what, int64_t *size) {
    char shown[CRYPTO_SHOWN_PATH];
    struct stat info;
    if (fstat(file, &info) != 0) return crypto_secret_fail("read", what, path, errno);
    if (!S_ISREG(info.st_mode))
        return base_fail(DPMF_ERROR_IO, "the %s '%s' is not a regular file", what, crypto_secret_show(path, shown));
    if (info.st_uid != geteuid())
        return base_fail(DPMF_ERROR_IO,
                         "the %s '%s' belongs to user %lld, who can read and change it: only files of user "
                         "%lld, who runs this program, are accepted",
                         what, crypto_secret_show(path, shown), (long long)info.st_uid, (long long)geteuid());
    if ((info.st_mode & 077) != 0)
        return base_fail(DPMF_ERROR_IO, "the %s '%s' has mode %03o, accepted: 600 or less, the owner alone", what,
                         crypto_secret_show(path, shown), (unsigned)info.st_mode & 0777u);
    *size = (int64_t)info.st_size;
    return DPMF_OK;
}

dpmf_status crypto_secret_open(const char *path, const char *what, int write, int *file, int64_t *size) {
    /* O_NONBLOCK: opening a pipe must not wait for somebody at its other end. */
    int flags = (write ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    int opened = open(path, flags);
    if (opened < 0 && errno == ENOENT) {
        *file = -1;
        *size = 0;
        return DPMF_OK;
    }
    if (opened < 0) return crypto_secret_fail("open", what, path, errno);
    dpmf_status status = check_kind(opened, path, what, size);
    if (status == DPMF_OK)
        *file = opened;
    else
        close(opened);
    return status;
}

dpmf_status crypto_secret_read(int file, const char *path, const char *what, int64_t place, void *bytes, size_t size) {
    char shown[CRYPTO_SHOWN_PATH];
    size_t done = 0;
    while (done < size) {
        ssize_t got = pread(file, (uint8_t *)bytes + done, size - done < CHUNK ? size - done : CHUNK,
                            (off_t)(place + (int64_t)done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return crypto_secret_fail("read", what, path, errno);
        if (got == 0)
            return base_fail(DPMF_ERROR_FORMAT, "the %s '%s' is too short", what, crypto_secret_show(path, shown));
        done += (size_t)got;
    }
    return DPMF_OK;
}

dpmf_status crypto_secret_put(int file, const char *path, const char *what, int64_t place, const void *bytes,
                              size_t size) {
    size_t done = 0;
    while (done < size) {
        ssize_t put = pwrite(file, (const uint8_t *)bytes + done, size - done < CHUNK ? size - done : CHUNK,
                             (off_t)(place + (int64_t)done));
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return crypto_secret_fail("write", what, path, errno);
        done += (size_t)put;
    }
    return DPMF_OK;
}

dpmf_status crypto_secret_write(int file, const char *path, const char *what, int64_t place, const void *bytes,
                                size_t size) {
    TRY(crypto_secret_put(file, path, what, place, bytes, size));
    if (fdatasync(file) != 0) return crypto_secret_fail("sync", what, path, errno);
    return DPMF_OK;
}

/* ---- new files ---- */

/* One that is being made. */
typedef struct fresh {
    const char *path, *what;
    size_t directory; /* bytes of the path up to its last slash, with it */
    char *temporary;  /* a name for it; allocated */
    int named;        /* it has that name */
    int file;
} fresh;

static int open_directory(const fresh *f) {
    char directory[PATH_MAX];
    if (f->directory >= sizeof directory) return -1;
    memcpy(directory, f->directory > 0 ? f->path : ".", f->directory > 0 ? f->directory : 1);
    directory[f->directory > 0 ? f->directory : 1] = '\0';
    return open(directory, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
}

/* So that a new name survives a power cut. Not every file system can. */
static dpmf_status sync_directory(const fresh *f) {
    dpmf_status status = DPMF_OK;
    const int place = open_directory(f);
    if (place < 0 && errno == EACCES) return DPMF_OK; /* a directory that one may write to but not list */
    if (place < 0) return crypto_secret_fail("sync the directory of", f->what, f->path, errno);
    if (fsync(place) != 0 && errno != EINVAL && errno != ENOTSUP && errno != EROFS)
        status = crypto_secret_fail("sync the directory of", f->what, f->path, errno);
    close(place);
    return status;
}

/* .NAME.dpmf- and what follows: how the temporary names of a path begin. */
static void temporary_start(const fresh *f, char out[NAME_MAX + 1]) {
    snprintf(out, NAME_MAX + 1, ".%.200s.dpmf-", f->path + f->directory);
}

static dpmf_status name_temporary(fresh *f) {
    char start[NAME_MAX + 1];
    uint8_t random[32];
    temporary_start(f, start);
    const size_t room = f->directory + strlen(start) + 16 + sizeof ".tmp";
    TRY(crypto_key_random(random));
    TRY(base_alloc((int64_t)room, 1, "a file name", (void **)&f->temporary));
    int used = snprintf(f->temporary, room, "%.*s%s", (int)f->directory, f->path, start);
    for (int i = 0; i < 8; i++)
        used += snprintf(f->temporary + used, room - (size_t)used, "%02x", random[i]);
    snprintf(f->temporary + used, room - (size_t)used, ".tmp");
    return DPMF_OK;
}

/* Removes what programs that were killed have left of this path. What cannot be removed is nobody's fault. */
static void clean_up(const fresh *f) {
    char start[NAME_MAX + 1];
    const int place = open_directory(f);
    DIR *list = place >= 0 ? fdopendir(place) : NULL;
    if (list == NULL && place >= 0) close(place);
    if (list == NULL) return;
    temporary_start(f, start);
    for (const struct dirent *entry = readdir(list); entry != NULL; entry = readdir(list)) {
        if (strncmp(entry->d_name, start, strlen(start)) != 0) continue;
        const int left = openat(place, entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (left >= 0 && flock(left, LOCK_EX | LOCK_NB) == 0) unlinkat(place, entry->d_name, 0);
        if (left >= 0) close(left);
    }
    closedir(list);
}

/* Open, locked, without a name if that can be had. */
static dpmf_status open_fresh(fresh *f) {
    const int flags = O_RDWR | O_CLOEXEC | O_NOCTTY;
    const int place = open_directory(f);
    f->file = place >= 0 ? openat(place, ".", flags | O_TMPFILE, 0600) : -1;
    if (place >= 0) close(place);
    if (f->file < 0) {
        f->file = open(f->temporary, flags | O_CREAT | O_EXCL, 0600);
        f->named = f->file >= 0;
    }
    if (f->file < 0) return crypto_secret_fail("write", f->what, f->path, errno);
    if (flock(f->file, LOCK_EX | LOCK_NB) != 0) return crypto_secret_fail("lock", f->what, f->path, errno);
    return DPMF_OK;
}

/* A name for a file that may have none yet; 0 or an errno. */
static int link_as(fresh *f, const char *name) {
    char open_file[64];
    if (f->named) return link(f->temporary, name) == 0 ? 0 : errno;
    snprintf(open_file, sizeof open_file, "/proc/self/fd/%d", f->file);
    return linkat(AT_FDCWD, open_file, AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
}

/* Gives the file its name, or fails and says whether that was taken. */
static dpmf_status give_name(fresh *f, int replace, int *existed) {
    int error = 0;
    if (!replace) {
        error = link_as(f, f->path);
        if (error == 0 && f->named) unlink(f->temporary);
        if (error == 0) f->named = 0;
        if (existed != NULL) *existed = error == EEXIST;
        return error == 0 ? DPMF_OK : crypto_secret_fail("make", f->what, f->path, error);
    }
    if (!f->named) {
        error = link_as(f, f->temporary);
        f->named = error == 0;
    }
    if (error == 0 && rename(f->temporary, f->path) != 0) error = errno;
    if (error == 0) f->named = 0;
    return error == 0 ? DPMF_OK : crypto_secret_fail("write", f->what, f->path, error);
}

dpmf_status crypto_secret_create(const char *path, const char *what, const void *bytes, size_t size, int replace,
                                 int *existed, int *file) {
    dpmf_status status = DPMF_OK;
    const char *slash = strrchr(path, '/');
    fresh f = {.path = path, .what = what, .directory = slash != NULL ? (size_t)(slash - path) + 1 : 0, .file = -1};
    if (existed != NULL) *existed = 0;
    TRY(name_temporary(&f));
    clean_up(&f);
    TRY_DONE(open_fresh(&f));
    TRY_DONE(crypto_secret_write(f.file, path, what, 0, bytes, size));
    TRY_DONE(give_name(&f, replace, existed));
    TRY_DONE(sync_directory(&f));
    if (file != NULL) {
        *file = f.file;
        f.file = -1;
    }
done:
    if (f.named) unlink(f.temporary);
    if (f.file >= 0) close(f.file);
    base_free(f.temporary);
    return status;
}
