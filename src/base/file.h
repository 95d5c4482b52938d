/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files in, whole files out, messages about files, and SHA-256. */
#ifndef DPMF_BASE_FILE_H
#define DPMF_BASE_FILE_H

#include "base/status.h"

/* Reads a regular file whole; free with base_free. `what` names it in messages ("mechanism file"). */
DPMF_MUST_CHECK dpmf_status base_file_read(const char *path, const char *what, uint8_t **bytes, size_t *size);

/* Writes parts one after the other to a file that appears whole and synced, or not at all (base/atomic_file.h). */
typedef struct base_part {
    const void *bytes;
    size_t size;
} base_part;
DPMF_MUST_CHECK dpmf_status base_file_write(const char *path, const char *what, int part_count, const base_part *parts);

/* The path as a message can show it: one line, and of a long one the end. Returns `out`. */
enum { BASE_SHOWN_PATH = 320 };
const char *base_show_path(const char *path, char out[BASE_SHOWN_PATH]);

/* DPMF_ERROR_IO: "cannot read the mechanism file 'x': No such file or directory"; `error` is an errno. */
dpmf_status base_file_fail(const char *verb, const char *what, const char *path, int error);

struct atomic_file;
dpmf_status base_atomic_fail(const struct atomic_file *a, const char *what);

/* SHA-256 of the parts one after the other (OpenSSL). */
DPMF_MUST_CHECK dpmf_status base_sha256_bytes(int part_count, const base_part *parts, uint8_t out[32]);

/* As 64 lower-case hexadecimal digits and a zero. */
DPMF_MUST_CHECK dpmf_status base_sha256(int part_count, const base_part *parts, char out[65]);

#endif
