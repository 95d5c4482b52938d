/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of a data file, plain or in gzip. */
#ifndef TRAIN_PACKED_H
#define TRAIN_PACKED_H

#include "base/status.h"

#include <zlib.h>

enum { TRAIN_PACKED_RATIO = 1032 }; /* deflate cannot shrink by more */

/* Plain bytes, or a gzip stream over them: where the next byte comes from. */
typedef struct train_packed {
    const uint8_t *bytes;
    size_t size, used;
    int gzip, ended;
    z_stream stream;
    const char *name; /* as messages show it */
} train_packed;

/* The bytes and the name are borrowed. */
DPMF_MUST_CHECK dpmf_status train_packed_open(const uint8_t *bytes, size_t size, const char *name, train_packed *s);
void train_packed_close(train_packed *s);

/* Up to `size` bytes; *got is less at the end only. */
DPMF_MUST_CHECK dpmf_status train_packed_read(train_packed *s, uint8_t *out, size_t size, size_t *got);

/* After what was read nothing may follow: no byte, and no second gzip stream. */
DPMF_MUST_CHECK dpmf_status train_packed_end(train_packed *s);

/* A file whole, as it is on the disk (base_free), and its path as messages show it. */
DPMF_MUST_CHECK dpmf_status train_packed_load(const char *path, char name[64], uint8_t **bytes, size_t *size);

#endif
