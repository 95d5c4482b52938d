/* SPDX-License-Identifier: Apache-2.0 */
/* Memory: one hook, overflow checked, a limit on the sum in use (base/process.c keeps the count), 64-byte aligned. */
#ifndef DPMF_BASE_MEMORY_H
#define DPMF_BASE_MEMORY_H

#include "base/status.h"

/* *out = zeroed memory for count >= 0 items of `size` bytes; `what` names it in messages. On failure *out is unchanged. */
#define base_alloc dpmf_bytes_allocate
#define base_free(memory) dpmf_bytes_free((void *)(memory)) /* NULL is fine */

DPMF_MUST_CHECK dpmf_status base_alloc_doubles(int64_t count, const char *what, double **out);

/* Zeroed, aligned arrays in one piece of memory, freed by the first: BASE_ARRAYS("sums", {&c.row, n}, {&c.column, m}). */
typedef struct base_place {
    double **array;
    int64_t count;
} base_place;
DPMF_MUST_CHECK dpmf_status base_alloc_arrays(const char *what, const base_place *places, size_t count);
#define BASE_ARRAYS(what, ...)                                                                                         \
    base_alloc_arrays(what, (const base_place[]){__VA_ARGS__},                                                         \
                      sizeof((const base_place[]){__VA_ARGS__}) / sizeof(base_place))

DPMF_MUST_CHECK dpmf_status base_copy_text(const char *text, char **out);

/* Bytes that may be in use together: as set, or this machine's memory. */
uint64_t base_memory_limit(void);

#endif
