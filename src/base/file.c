/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files in, whole files out, messages about files, and SHA-256. */
#include "base/file.h"
#include "base/atomic_file.h"
#include "base/memory.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *base_show_path(const char *path, char out[BASE_SHOWN_PATH]) {
    size_t length = strlen(path), used = 0;
    if (length >= BASE_SHOWN_PATH) {
        used = 3;
        memcpy(out, "...", used);
        path += length - (BASE_SHOWN_PATH - 1 - used);
    }
    for (; *path != '\0'; path++)
        out[used++] = (unsigned char)*path < ' ' || *path == 0x7f ? '?' : *path;
    out[used] = '\0';
    return out;
}

static dpmf_status fail_file(const char *verb, const char *what, const char *path, const char *reason) {
    char shown[BASE_SHOWN_PATH];
    return base_fail(DPMF_ERROR_IO, "cannot %s the %s '%s': %s", verb, what, base_show_path(path, shown), reason);
}

dpmf_status base_file_fail(const char *verb, const char *what, const char *path, int error) {
    char reason[128];
    if (strerror_r(error, reason, sizeof reason) != 0) snprintf(reason, sizeof reason, "error %d", error);
    return fail_file(verb, what, path, reason);
}

dpmf_status base_atomic_fail(const atomic_file *a, const char *what) {
    return fail_file(a->failed, what, a->path, a->reason);
}

static dpmf_status read_open_file(int file, const char *path, const char *what, uint8_t **bytes, size_t *size) {
    char reason[128];
    struct stat info;
    uint8_t *memory = NULL;
    size_t got = 0;
    if (fstat(file, &info) != 0) return base_file_fail("read", what, path, errno);
    if (!S_ISREG(info.st_mode)) {
        snprintf(reason, sizeof reason, "it is %s, not a regular file", file_kind(info.st_mode));
        return fail_file("read", what, path, reason);
    }
    const size_t expected = (size_t)info.st_size;
    TRY(base_alloc((int64_t)expected + 1, 1, what, (void **)&memory)); /* one byte more, to see that the file ends */
    const int error = file_get(file, 0, memory, expected + 1, &got);
    if (error == 0 && got == expected) {
        *bytes = memory;
        *size = expected;
        return DPMF_OK;
    }
    base_free(memory);
    if (error != 0) return base_file_fail("read", what, path, error);
    snprintf(reason, sizeof reason, "it %s while it was read (%zu bytes before)", got > expected ? "grew" : "shrank",
             expected);
    return fail_file("read", what, path, reason);
}

dpmf_status base_file_read(const char *path, const char *what, uint8_t **bytes, size_t *size) {
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); /* opening a pipe must not wait for a writer */
    if (file < 0) return base_file_fail("read", what, path, errno);
    dpmf_status status = read_open_file(file, path, what, bytes, size);
    close(file);
    return status;
}

dpmf_status base_file_write(const char *path, const char *what, int part_count, const base_part *parts) {
    atomic_file a;
    bool ok = atomic_file_open(&a, path, false);
    for (int i = 0; ok && i < part_count; i++)
        ok = atomic_file_write(&a, parts[i].bytes, parts[i].size);
    ok = ok && atomic_file_commit(&a, true);
    atomic_file_close(&a);
    return ok ? DPMF_OK : base_atomic_fail(&a, what);
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
