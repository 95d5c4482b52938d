/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory: one hook, overflow checked, a limit on the sum in use, 64-byte aligned. The count is the state of the process, and
 * everything here reaches it through the public calls: a library with objects of base/ in it has no count of its own.
 */
#ifndef DPMF_BASE_MEMORY_H
#define DPMF_BASE_MEMORY_H

#include "base/status.h"

#include <string.h>

/*
 * `*out` = zeroed memory for count items of `size` bytes; count >= 0. `what` names it in the message
 * ("the coefficients"). On failure *out is unchanged.
 */
DPMF_MUST_CHECK static inline dpmf_status base_alloc(int64_t count, size_t size, const char *what, void **out) {
    return dpmf_bytes_allocate(count, size, what, out);
}

static inline void base_free(void *memory) { /* NULL is fine */
    dpmf_bytes_free(memory);
}

/* A double array; the cast in one place. */
DPMF_MUST_CHECK static inline dpmf_status base_alloc_doubles(int64_t count, const char *what, double **out) {
    void *memory = NULL;
    TRY(base_alloc(count, sizeof(double), what, &memory));
    *out = memory;
    return DPMF_OK;
}

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
DPMF_MUST_CHECK static inline dpmf_status base_copy_text(const char *text, char **out) {
    const size_t size = strlen(text) + 1;
    void *memory = NULL;
    TRY(base_alloc((int64_t)size, 1, "a text", &memory));
    *out = memcpy(memory, text, size);
    return DPMF_OK;
}

/* Bytes that may be in use together: as set, or this machine's memory. */
uint64_t base_memory_limit(void);

#endif
