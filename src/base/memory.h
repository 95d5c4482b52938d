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

/* A copy of a zero-terminated string. */
DPMF_MUST_CHECK dpmf_status base_copy_text(const char *text, char **out);

/* Bytes that may be in use together: as set, or this machine's memory. */
uint64_t base_memory_limit(void);

#endif
