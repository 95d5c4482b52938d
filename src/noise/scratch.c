/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps a file for rows made ahead, instead of memory (Pillutla et al. 2025, Section 4.4.5: noise does not depend on data,
 * so it can be made before training). The file is readable by its owner alone, and its name is removed as soon as it exists:
 * nothing is left of it after a crash. Its space is reserved first, so that a full disk is an error here and not a fault
 * later.
 */
#include "noise/plan.h"

#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static dpmf_status map_file(int file, const char *directory, int64_t bytes, char **out) {
    int error = posix_fallocate(file, 0, (off_t)bytes);
    if (error != 0)
        return base_fail(DPMF_ERROR_IO, "scratch directory %s: no room for %lld bytes (%s)", directory,
                         (long long)bytes, strerror(error));
    void *memory = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED)
        return base_fail(DPMF_ERROR_IO, "scratch directory %s: %lld bytes cannot be mapped (%s)", directory,
                         (long long)bytes, strerror(errno));
    *out = memory;
    return DPMF_OK;
}

dpmf_status noise_scratch_map(const char *directory, int64_t bytes, char **out) {
    static const char name[] = "/dpmf-noise-XXXXXX";
    char *path = NULL;
    size_t length = strlen(directory) + sizeof name;
    TRY(base_alloc((int64_t)length, 1, "the name of a scratch file", (void **)&path));
    snprintf(path, length, "%s%s", directory, name);
    int file = mkstemp(path);
    dpmf_status status = DPMF_OK;
    if (file < 0) {
        status = base_fail(DPMF_ERROR_IO, "scratch directory %s: no file can be made in it (%s)", directory,
                           strerror(errno));
    } else {
        unlink(path);
        status = map_file(file, directory, bytes, out);
        close(file); /* the mapping keeps the file */
    }
    base_free(path);
    return status;
}

void noise_scratch_unmap(char *memory, int64_t bytes) {
    munmap(memory, (size_t)bytes);
}
