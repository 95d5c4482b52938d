/* SPDX-License-Identifier: Apache-2.0 */
/* The safetensors container in one canonical form, which base/safetensors.c describes. */
#ifndef DPMF_BASE_SAFETENSORS_H
#define DPMF_BASE_SAFETENSORS_H

#include "base/status.h"

enum { BASE_TENSORS_MAX = 16, BASE_TENSOR_NAME_MAX = 64 };

typedef struct base_tensor {
    char name[BASE_TENSOR_NAME_MAX];
    int dimensions; /* 1 or 2 */
    int64_t shape[2];
    const double *values; /* borrowed; after reading, points into `bytes` if aligned, see below */
} base_tensor;

typedef struct base_tensors {
    int count;
    base_tensor tensor[BASE_TENSORS_MAX];
} base_tensors;

/* Adds an array (borrowed); asserts that there is room and that the name fits. shape[1] = 0 for a vector. */
void base_tensors_add(base_tensors *tensors, const char *name, int64_t rows, int64_t columns, const double *values);
const base_tensor *base_tensors_find(const base_tensors *tensors, const char *name); /* NULL if absent */

/* Metadata: "dpmf" (JSON text), "sha256" (of the text, then per array name, 0, dimensions and shape as int64 LE, bytes). */
DPMF_MUST_CHECK dpmf_status base_safetensors_digest(const char *text, const base_tensors *tensors, char digest[65]);

/* The header bytes alone (length word, JSON, padding); free with base_free. The arrays follow it in order. */
DPMF_MUST_CHECK dpmf_status base_safetensors_header(const char *text, const char *digest, const base_tensors *tensors,
                                                    uint8_t **header, size_t *size);

/*
 * Strict: the header (at most 16 MiB) must be the writer's, the digest must match, values must be finite. *text is allocated
 * (base_free); the arrays point into `bytes`, which must be 8-byte aligned and outlive them.
 */
DPMF_MUST_CHECK dpmf_status base_safetensors_read(const uint8_t *bytes, size_t size, char **text, char digest[65],
                                                  base_tensors *tensors);

/* Returns 1 for a header with our metadata and arrays that fill the rest; the reader may still refuse it. Sets no message. */
int base_safetensors_is_container(const uint8_t *bytes, size_t size);

#endif
