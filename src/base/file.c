/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole files in, whole files out, and SHA-256.
 *
 * A file is written beside its place under a name that nobody can guess, synced and renamed, so at every moment, and
 * after a crash at any moment, the path holds the old file, the new one, or nothing: never a part.
 */
#include "base/file.h"
#include "base/memory.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A single read or write moves at most 2^31 - 4096 bytes on Linux; ask for less. */
#define CHUNK ((size_t)1 << 30)

enum { SHOWN_MAX = 320 };

/* The path as a message can show it: one line, and of a long one the end. */
static const char *show_path(const char *path, char out[SHOWN_MAX]) {
    size_t length = strlen(path), used = 0;
    if (length >= SHOWN_MAX) {
        used = 3;
        memcpy(out, "...", used);
        path += length - (SHOWN_MAX - 1 - used);
    }
    for (; *path != '\0'; path++)
        out[used++] = (unsigned char)*path < ' ' || *path == 0x7f ? '?' : *path;
    out[used] = '\0';
    return out;
}

/* "cannot read the mechanism file 'x': No such file or directory"; `error` is an errno. */
static dpmf_status fail_io(const char *verb, const char *what, const char *path, int error) {
    char shown[SHOWN_MAX], reason[128];
    if (strerror_r(error, reason, sizeof reason) != 0) snprintf(reason, sizeof reason, "error %d", error);
    return base_fail(DPMF_ERROR_IO, "cannot %s the %s '%s': %s", verb, what, show_path(path, shown), reason);
}

static dpmf_status fail_kind(const char *verb, const char *what, const char *path, const struct stat *info) {
    char shown[SHOWN_MAX];
    return base_fail(DPMF_ERROR_IO, "cannot %s the %s '%s': it is %s, not a regular file", verb, what,
                     show_path(path, shown),
                     S_ISDIR(info->st_mode)    ? "a directory"
                     : S_ISFIFO(info->st_mode) ? "a pipe"
                     : S_ISSOCK(info->st_mode) ? "a socket"
                                               : "a device");
}

/* `size` bytes, less at the end of the file: *got says how many. 0 or an errno. */
static int read_fully(int file, uint8_t *bytes, size_t size, size_t *got) {
    size_t done = 0;
    while (done < size) {
        ssize_t step = read(file, bytes + done, size - done < CHUNK ? size - done : CHUNK);
        if (step < 0 && errno == EINTR) continue;
        if (step < 0) return errno;
        if (step == 0) break;
        done += (size_t)step;
    }
    *got = done;
    return 0;
}

static dpmf_status read_open_file(int file, const char *path, const char *what, uint8_t **bytes, size_t *size) {
    dpmf_status status = DPMF_OK;
    struct stat info;
    void *memory = NULL;
    if (fstat(file, &info) != 0) return fail_io("read", what, path, errno);
    if (!S_ISREG(info.st_mode)) return fail_kind("read", what, path, &info);
    const size_t expected = (size_t)info.st_size;
    size_t got = 0, more = 0;
    uint8_t next;
    TRY_DONE(base_alloc((int64_t)expected + 1, 1, what, &memory)); /* + 1: an empty file has an address too */
    int error = read_fully(file, memory, expected, &got);
    if (error == 0 && got == expected) error = read_fully(file, &next, 1, &more);
    if (error != 0) {
        status = fail_io("read", what, path, error);
        goto done;
    }
    if (got != expected || more != 0) {
        char shown[SHOWN_MAX];
        status = base_fail(DPMF_ERROR_IO, "cannot read the %s '%s': it %s while it was read (%zu bytes before)", what,
                           show_path(path, shown), more != 0 ? "grew" : "shrank", expected);
        goto done;
    }
    *bytes = memory;
    *size = expected;
    memory = NULL;
done:
    base_free(memory);
    return status;
}

dpmf_status base_file_read(const char *path, const char *what, uint8_t **bytes, size_t *size) {
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); /* opening a pipe must not wait for a writer */
    if (file < 0) return fail_io("read", what, path, errno);
    dpmf_status status = read_open_file(file, path, what, bytes, size);
    close(file);
    return status;
}

/* 0 or an errno. */
static int write_fully(int file, const uint8_t *bytes, size_t size) {
    size_t done = 0;
    while (done < size) {
        ssize_t step = write(file, bytes + done, size - done < CHUNK ? size - done : CHUNK);
        if (step < 0 && errno == EINTR) continue;
        if (step < 0) return errno;
        done += (size_t)step;
    }
    return 0;
}

static int write_parts(int file, int part_count, const base_part *parts) {
    for (int i = 0; i < part_count; i++) {
        int error = write_fully(file, parts[i].bytes, parts[i].size);
        if (error != 0) return error;
    }
    return fsync(file) == 0 ? 0 : errno;
}

/* After a rename, so that the new name survives a power cut. 0 or an errno; not every file system can. */
static int sync_directory(const char *directory) {
    int error = 0;
    int file = open(directory, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    if (file < 0) return errno == EACCES ? 0 : errno; /* a directory that one may write to but not list */
    if (fsync(file) != 0 && errno != EINVAL && errno != ENOTSUP && errno != EROFS) error = errno;
    close(file);
    return error;
}

/* The temporary file, open; its name (the directory, a dot, 64 random bits) is allocated. */
static dpmf_status open_temporary(const char *path, const char *what, size_t directory_length, char **name, int *out) {
    const char pattern[] = ".dpmf-0123456789abcdef.tmp";
    unsigned char random[8];
    void *memory = NULL;
    TRY(base_alloc((int64_t)(directory_length + sizeof pattern), 1, "a file name", &memory));
    if (RAND_bytes(random, (int)sizeof random) != 1) {
        base_free(memory);
        return base_fail(DPMF_ERROR_IO, "no random bits for the name of a temporary file");
    }
    memcpy(memory, path, directory_length);
    char *end = (char *)memory + directory_length;
    end += snprintf(end, sizeof pattern, ".dpmf-");
    for (size_t i = 0; i < sizeof random; i++)
        end += snprintf(end, 3, "%02x", random[i]);
    snprintf(end, 5, ".tmp");
    int file = open(memory, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0666);
    if (file < 0) {
        int error = errno;
        base_free(memory);
        return fail_io("write", what, path, error);
    }
    *name = memory;
    *out = file;
    return DPMF_OK;
}

/* rename would replace a device or a pipe by a file. A symbolic link to a file is replaced, not followed. */
static dpmf_status check_target(const char *path, const char *what) {
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) return fail_kind("write", what, path, &info);
    return DPMF_OK;
}

dpmf_status base_file_write(const char *path, const char *what, int part_count, const base_part *parts) {
    dpmf_status status = DPMF_OK;
    const char *slash = strrchr(path, '/');
    size_t directory_length = slash != NULL ? (size_t)(slash - path) + 1 : 0;
    char *temporary = NULL;
    int file = -1, error = 0;
    TRY(check_target(path, what));
    TRY(open_temporary(path, what, directory_length, &temporary, &file));
    error = write_parts(file, part_count, parts);
    if (close(file) != 0 && error == 0) error = errno;
    if (error == 0 && rename(temporary, path) != 0) error = errno;
    if (error != 0) {
        unlink(temporary);
        status = fail_io("write", what, path, error);
        goto done;
    }
    temporary[directory_length] = '\0'; /* what is left of it is the directory */
    error = sync_directory(directory_length > 0 ? temporary : ".");
    if (error != 0) status = fail_io("sync the directory of", what, path, error);
done:
    base_free(temporary);
    return status;
}

dpmf_status base_sha256_bytes(int part_count, const base_part *parts, uint8_t out[32]) {
    unsigned char digest[32];
    unsigned int size = 0;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    int ok = context != NULL && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1;
    for (int i = 0; ok && i < part_count; i++)
        ok = EVP_DigestUpdate(context, parts[i].bytes, parts[i].size) == 1;
    ok = ok && EVP_DigestFinal_ex(context, digest, &size) == 1;
    EVP_MD_CTX_free(context);
    if (!ok) return base_fail(DPMF_ERROR_MEMORY, "OpenSSL could not compute a SHA-256 digest");
    assert(size == sizeof digest);
    memcpy(out, digest, sizeof digest);
    return DPMF_OK;
}

dpmf_status base_sha256(int part_count, const base_part *parts, char out[65]) {
    uint8_t digest[32];
    TRY(base_sha256_bytes(part_count, parts, digest));
    for (size_t i = 0; i < sizeof digest; i++)
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
    return DPMF_OK;
}
