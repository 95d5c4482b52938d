/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory: one hook, overflow checked, a limit on the sum in use, 64-byte aligned. The count is the state of the process
 * (base/process.c), and everything here reaches it through the public calls.
 */
#ifndef DPMF_BASE_MEMORY_H
#define DPMF_BASE_MEMORY_H

#include "base/status.h"

/*
 * `*out` = zeroed memory for count items of `size` bytes; count >= 0. `what` names it in the message
 * ("the coefficients"). On failure *out is unchanged.
 */
#define base_alloc dpmf_bytes_allocate
#define base_free(memory) dpmf_bytes_free((void *)(memory)) /* NULL is fine */

/* A double array; the cast in one place. */
DPMF_MUST_CHECK dpmf_status base_alloc_doubles(int64_t count, const char *what, double **out);

/*
 * Arrays of doubles in one piece of memory, zeroed, each aligned: BASE_ARRAYS("sums", {&c.row, n}, {&c.column, m}). Freeing
 * the first of them frees all.
 */
typedef struct base_place {
    double **array;
    int64_t count;
} base_place;
DPMF_MUST_CHECK dpmf_status base_alloc_arrays(const char *what, const base_place *places, size_t count);
#define BASE_ARRAYS(what, ...)                                                                                         \
    base_alloc_arrays(what, (const base_place[]){__VA_ARGS__},                                                         \
                      sizeof((const base_place[]){__VA_ARGS__}) / sizeof(base_place))

/* A copy of a zero-terminated string. */
DPMF_MUST_CHECK dpmf_status base_copy_text(const char *text, char **out);

/* Bytes that may be in use together: as set, or this machine's memory. */
uint64_t base_memory_limit(void);

#endif
