/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fails one allocation after the other: `FAIL_EACH(call)` runs `call` with its first allocation failing, then its
 * second, ..., until it needs no more; each failure must be DPMF_ERROR_MEMORY and leave no memory behind. The call that
 * succeeds is the last; what it made is the caller's to free, after FAIL_EACH has put the default allocator back.
 */
#ifndef DPMF_TESTS_FAILING_ALLOCATOR_H
#define DPMF_TESTS_FAILING_ALLOCATOR_H

#define DPMF_EXPERIMENTAL
#include "dpmf_experimental.h"

#include <stdlib.h>

typedef struct failing_allocator {
    int64_t asked, fail_at;
} failing_allocator;

static void *failing_allocate(void *context, size_t bytes) {
    failing_allocator *f = context;
    return f->asked++ == f->fail_at ? NULL : malloc(bytes);
}

static void failing_release(void *context, void *memory) {
    (void)context;
    free(memory);
}

#define FAIL_EACH(call)                                                                                                \
    do {                                                                                                               \
        failing_allocator failing_ = {0, 0};                                                                           \
        const dpmf_allocator hook_ = {failing_allocate, failing_release, &failing_};                                   \
        const uint64_t before_ = dpmf_memory_in_use();                                                                 \
        dpmf_status status_ = DPMF_ERROR_MEMORY;                                                                       \
        dpmf_memory_set_allocator(&hook_);                                                                             \
        for (; status_ != DPMF_OK; failing_.fail_at++) {                                                               \
            failing_.asked = 0;                                                                                        \
            status_ = (call);                                                                                          \
            if (status_ == DPMF_OK) break;                                                                             \
            assert_int_equal(status_, DPMF_ERROR_MEMORY);                                                              \
            assert_int_equal(failing_.asked, failing_.fail_at + 1); /* it stopped where it failed */                   \
            assert_int_equal(dpmf_memory_in_use(), before_);                                                           \
        }                                                                                                              \
        dpmf_memory_set_allocator(NULL);                                                                               \
        assert_true(failing_.fail_at > 0);                                                                             \
    } while (0)

/* The call succeeds without asking for memory. */
#define NEEDS_NO_MEMORY(call)                                                                                          \
    do {                                                                                                               \
        failing_allocator failing_ = {0, 0};                                                                           \
        const dpmf_allocator hook_ = {failing_allocate, failing_release, &failing_};                                   \
        dpmf_memory_set_allocator(&hook_);                                                                             \
        const dpmf_status status_ = (call);                                                                            \
        dpmf_memory_set_allocator(NULL);                                                                               \
        assert_int_equal(status_, DPMF_OK);                                                                            \
        assert_int_equal(failing_.asked, 0);                                                                           \
    } while (0)

#endif
