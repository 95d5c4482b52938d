/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files in, whole files out (temporary file, fsync, rename), and SHA-256. */
#ifndef DPMF_BASE_FILE_H
#define DPMF_BASE_FILE_H

#include "base/status.h"

/* Reads a regular file whole; free with base_free. `what` names it in messages ("mechanism file"). */
DPMF_MUST_CHECK dpmf_status base_file_read(const char *path, const char *what, uint8_t **bytes, size_t *size);

/* Writes parts one after the other to a temporary file beside `path`, syncs, renames. Nothing is left on failure. */
typedef struct base_part {
    const void *bytes;
    size_t size;
} base_part;
DPMF_MUST_CHECK dpmf_status base_file_write(const char *path, const char *what, int part_count, const base_part *parts);

/* SHA-256 of the parts one after the other (OpenSSL). */
DPMF_MUST_CHECK dpmf_status base_sha256_bytes(int part_count, const base_part *parts, uint8_t out[32]);

/* As 64 lower-case hexadecimal digits and a zero. */
DPMF_MUST_CHECK dpmf_status base_sha256(int part_count, const base_part *parts, char out[65]);

#endif
