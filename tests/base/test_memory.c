/* SPDX-License-Identifier: Apache-2.0 */
/* Memory: count, limit, hook, failure of each allocation in turn. */
#include "base/fft.h"
#include "base/linalg.h"
#include "base/memory.h"
#include "base/threads.h"
#define DPMF_EXPERIMENTAL
#include "dpmf_experimental.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* An allocator that counts, fails its `fail_at`-th call (0: never) and gives dirty, badly aligned memory. */
typedef struct counting {
    int calls, fail_at, live;
} counting;

static void *counting_allocate(void *context, size_t bytes) {
    counting *c = context;
    c->calls++;
    if (c->calls == c->fail_at) return NULL;
    unsigned char *start = malloc(bytes + 8);
    if (start == NULL) return NULL;
    memset(start, 0xA5, bytes + 8);
    c->live++;
    return start + 8;
}

static void counting_release(void *context, void *memory) {
    counting *c = context;
    c->live--;
    free((unsigned char *)memory - 8);
}

static int restore(void **state) {
    (void)state;
    dpmf_memory_set_allocator(NULL);
    dpmf_memory_set_limit(0);
    return 0;
}

static void assert_zeroed_and_aligned(const unsigned char *memory, size_t bytes) {
    assert_int_equal((uintptr_t)memory % 64, 0);
    for (size_t i = 0; i < bytes; i++) {
        assert_int_equal(memory[i], 0);
    }
}

static void test_blocks_are_zeroed_aligned_and_counted(void **state) {
    (void)state;
    const uint64_t before = dpmf_memory_in_use();
    void *blocks[20];
    uint64_t asked = 0;
    for (int i = 0; i < 20; i++) {
        const size_t size = (size_t)1 << i;
        assert_int_equal(base_alloc((int64_t)size, 3, "a block", &blocks[i]), DPMF_OK);
        assert_zeroed_and_aligned(blocks[i], 3 * size);
        memset(blocks[i], 0xFF, 3 * size); /* so that reused memory would show */
        asked += 3 * size;
    }
    assert_true(dpmf_memory_in_use() >= before + asked);
    assert_true(dpmf_memory_in_use() <= before + asked + 20 * 128);
    for (int i = 0; i < 20; i += 2) {
        base_free(blocks[i]);
    }
    void *again = NULL;
    assert_int_equal(base_alloc(1 << 12, 3, "a block", &again), DPMF_OK);
    assert_zeroed_and_aligned(again, 3 << 12);
    base_free(again);
    for (int i = 1; i < 20; i += 2) {
        base_free(blocks[i]);
    }
    base_free(NULL);
    assert_int_equal(dpmf_memory_in_use(), before);
}

static void test_nothing_is_a_block_too(void **state) {
    (void)state;
    const uint64_t before = dpmf_memory_in_use();
    double *a = NULL, *b = NULL;
    assert_int_equal(base_alloc_doubles(0, "nothing", &a), DPMF_OK);
    assert_int_equal(base_alloc_doubles(0, "nothing", &b), DPMF_OK);
    assert_non_null(a);
    assert_ptr_not_equal(a, b);
    base_free(a);
    base_free(b);
    assert_int_equal(dpmf_memory_in_use(), before);
}

static void test_text_is_copied(void **state) {
    (void)state;
    char text[] = "momentum:0.9";
    char *copy = NULL, *empty = NULL;
    assert_int_equal(base_copy_text(text, &copy), DPMF_OK);
    assert_int_equal(base_copy_text("", &empty), DPMF_OK);
    text[0] = 'M';
    assert_string_equal(copy, "momentum:0.9");
    assert_string_equal(empty, "");
    base_free(copy);
    base_free(empty);
}

static void test_sizes_that_overflow_are_refused(void **state) {
    (void)state;
    static const struct {
        int64_t count;
        size_t size;
    } cases[] = {{INT64_MAX, 8},
                 {INT64_MAX, 1},
                 {INT64_MAX / 8, 8},
                 {(int64_t)1 << 61, 8},
                 {(int64_t)1 << 32, SIZE_MAX},
                 {1, SIZE_MAX},
                 {2, SIZE_MAX / 2 + 1},
                 {1, (size_t)PTRDIFF_MAX}};
    dpmf_memory_set_limit(UINT64_MAX);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        void *out = &out;
        const uint64_t before = dpmf_memory_in_use();
        assert_int_equal(base_alloc(cases[i].count, cases[i].size, "the coefficients", &out), DPMF_ERROR_MEMORY);
        assert_ptr_equal(out, &out);
        assert_int_equal(dpmf_memory_in_use(), before);
        assert_non_null(strstr(dpmf_last_error(), "the coefficients"));
    }
    void *none = NULL;
    assert_int_equal(dpmf_bytes_allocate(-1, 8, "the coefficients", &none), DPMF_ERROR_ARGUMENT);
    assert_int_equal(dpmf_bytes_allocate(1, 0, "the coefficients", &none), DPMF_ERROR_ARGUMENT);
    assert_null(none);
}

static void test_the_limit_bounds_the_sum(void **state) {
    (void)state;
    const uint64_t before = dpmf_memory_in_use();
    dpmf_memory_set_limit(before + 3 * (1u << 20));
    void *first = NULL, *second = NULL, *third = NULL;
    assert_int_equal(base_alloc(1 << 20, 2, "the first", &first), DPMF_OK);
    assert_int_equal(base_alloc(1 << 20, 1, "the second", &second), DPMF_ERROR_MEMORY);
    assert_null(second);
    assert_non_null(strstr(dpmf_last_error(), "the second"));
    assert_non_null(strstr(dpmf_last_error(), "needs 1.0 MiB"));
    assert_non_null(strstr(dpmf_last_error(), "2.0 MiB are in use"));
    assert_non_null(strstr(dpmf_last_error(), "limit of 3.0 MiB"));
    assert_int_equal(base_alloc((1 << 20) - 256, 1, "the third", &third), DPMF_OK);
    base_free(first);
    assert_int_equal(base_alloc(1 << 20, 1, "the second", &second), DPMF_OK);
    dpmf_memory_set_limit(1); /* below what is in use: nothing more, and no wrap-around */
    assert_int_equal(base_alloc(1, 1, "one byte", &first), DPMF_ERROR_MEMORY);
    base_free(second);
    base_free(third);
    assert_int_equal(dpmf_memory_in_use(), before);
    dpmf_memory_set_limit(0);
    assert_int_equal(base_alloc((int64_t)1 << 50, 8, "nine petabytes", &first), DPMF_ERROR_MEMORY);
    assert_non_null(strstr(dpmf_last_error(), "8.0 PiB"));
}

static void test_the_hook_gets_every_call(void **state) {
    (void)state;
    counting c = {0, 0, 0};
    const dpmf_allocator hook = {counting_allocate, counting_release, &c};
    void *old = NULL, *block = NULL;
    assert_int_equal(base_alloc(10, 8, "made before", &old), DPMF_OK);
    dpmf_memory_set_allocator(&hook);
    assert_int_equal(base_alloc(100, 8, "made by the hook", &block), DPMF_OK);
    assert_int_equal(c.calls, 1);
    assert_zeroed_and_aligned(block, 800);
    dpmf_memory_set_allocator(NULL);
    base_free(block); /* goes back to where it came from */
    base_free(old);
    assert_int_equal(c.live, 0);
}

/* Things that allocate; each writes 8 numbers to `out` when it succeeds. */
enum { SIZE = 300 };

static void fill(double *x) {
    for (int i = 0; i < SIZE; i++) {
        x[i] = 1.0 / (1 + i);
    }
}

static dpmf_status make_convolution(double *out) {
    double x[SIZE], y[SIZE], product[SIZE];
    fill(x);
    fill(y);
    memset(product, 0, sizeof product);
    const dpmf_status status = base_convolve(SIZE, x, SIZE, y, SIZE, product);
    for (int i = 0; i < SIZE && status != DPMF_OK; i++) {
        assert_true(product[i] == 0);
    }
    if (status == DPMF_OK) memcpy(out, product, 8 * sizeof(double));
    return status;
}

static dpmf_status make_inverse(double *out) {
    double x[SIZE], inverse[SIZE];
    fill(x);
    memset(inverse, 0, sizeof inverse);
    const dpmf_status status = base_series_inverse(SIZE, x, SIZE, inverse);
    for (int i = 0; i < SIZE && status != DPMF_OK; i++) {
        assert_true(inverse[i] == 0);
    }
    if (status == DPMF_OK) memcpy(out, inverse, 8 * sizeof(double));
    return status;
}

static dpmf_status make_toeplitz_in_place(double *out) {
    double c[SIZE], x[SIZE], kept[SIZE];
    fill(c);
    fill(x);
    memcpy(kept, x, sizeof x);
    const dpmf_status status = base_toeplitz_apply(SIZE, SIZE, c, x, x);
    if (status == DPMF_OK)
        memcpy(out, x, 8 * sizeof(double));
    else
        assert_memory_equal(x, kept, sizeof x);
    return status;
}

static dpmf_status make_eigenvalues(double *out) {
    enum { N = BASE_EIGEN_SMALL + 1 }; /* smaller ones take no memory */
    double a[N * N], values[N] = {0};
    for (int i = 0; i < N * N; i++) {
        a[i] = 1.0 / (1 + i / N + i % N);
    }
    const dpmf_status status = base_symmetric_eigen(N, a, values);
    for (int i = 0; i < N && status != DPMF_OK; i++) {
        assert_true(values[i] == 0);
    }
    if (status == DPMF_OK) memcpy(out, values, 8 * sizeof(double));
    return status;
}

static dpmf_status make_singular_values(double *out) {
    double a[64], values[8] = {0};
    for (int i = 0; i < 64; i++) {
        a[i] = i % 8 <= i / 8;
    }
    const dpmf_status status = base_singular_values(8, 8, a, values);
    for (int i = 0; i < 8 && status != DPMF_OK; i++) {
        assert_true(values[i] == 0);
    }
    if (status == DPMF_OK) memcpy(out, values, sizeof values);
    return status;
}

static dpmf_status make_lq(double *out) {
    double a[32], lower[16] = {0};
    for (int i = 0; i < 32; i++) {
        a[i] = 1.0 / (1 + i);
    }
    const dpmf_status status = base_lq(4, 8, a, lower);
    for (int i = 0; i < 16 && status != DPMF_OK; i++) {
        assert_true(lower[i] == 0);
    }
    if (status == DPMF_OK) memcpy(out, lower, 8 * sizeof(double));
    return status;
}

static dpmf_status make_pool(double *out) {
    base_pool *pool = NULL;
    const dpmf_status status = base_pool_create(2, &pool);
    if (status != DPMF_OK)
        assert_null(pool);
    else
        out[0] = 1;
    base_pool_free(pool);
    return status;
}

static void test_each_allocation_of_linear_algebra_may_fail(void **state) {
    (void)state;
    dpmf_status (*const makers[])(double *) = {make_convolution, make_inverse,         make_toeplitz_in_place,
                                               make_eigenvalues, make_singular_values, make_lq,
                                               make_pool};
    for (size_t m = 0; m < sizeof makers / sizeof makers[0]; m++) {
        double expected[8] = {0}, got[8] = {0};
        assert_int_equal(makers[m](expected), DPMF_OK);
        const uint64_t before = dpmf_memory_in_use();
        dpmf_status status = DPMF_ERROR_MEMORY;
        int failures = 0;
        for (int k = 1; status != DPMF_OK; k++) {
            counting c = {0, k, 0};
            const dpmf_allocator hook = {counting_allocate, counting_release, &c};
            dpmf_memory_set_allocator(&hook);
            status = makers[m](got);
            dpmf_memory_set_allocator(NULL);
            assert_int_equal(c.live, 0);
            assert_int_equal(dpmf_memory_in_use(), before);
            if (status == DPMF_OK) break;
            assert_int_equal(status, DPMF_ERROR_MEMORY);
            assert_non_null(strstr(dpmf_last_error(), "the allocator refused"));
            failures++;
        }
        assert_true(failures >= 1);
        assert_memory_equal(got, expected, sizeof got);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_blocks_are_zeroed_aligned_and_counted, restore),
        cmocka_unit_test_teardown(test_nothing_is_a_block_too, restore),
        cmocka_unit_test_teardown(test_text_is_copied, restore),
        cmocka_unit_test_teardown(test_sizes_that_overflow_are_refused, restore),
        cmocka_unit_test_teardown(test_the_limit_bounds_the_sum, restore),
        cmocka_unit_test_teardown(test_the_hook_gets_every_call, restore),
        cmocka_unit_test_teardown(test_each_allocation_of_linear_algebra_may_fail, restore),
    };
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
