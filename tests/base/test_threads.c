/* SPDX-License-Identifier: Apache-2.0 */
/* The thread pool: every item once, the same answers for any number of threads, failures carried to the caller. */
#define _GNU_SOURCE /* pthread_setattr_default_np */

#include "base/memory.h"
#include "base/threads.h"
#define DPMF_EXPERIMENTAL
#include "dpmf_experimental.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ITEMS = 1000 };

typedef struct job {
    double results[ITEMS];
    atomic_int runs[ITEMS];
    atomic_int in_use[256]; /* is the scratch of this worker in use? */
    atomic_int mistakes;
    int threads;
    int64_t fail_from; /* items at and after this one fail if their index is a multiple of fail_step */
    int64_t fail_step;
} job;

static dpmf_status work(void *context, int64_t item, int worker) {
    job *j = context;
    if (worker < 0 || worker >= j->threads)
        atomic_fetch_add(&j->mistakes, 1);
    else if (atomic_fetch_add(&j->in_use[worker], 1) != 0)
        atomic_fetch_add(&j->mistakes, 1);
    atomic_fetch_add(&j->runs[item], 1);
    double x = 0.1 * (double)item;
    for (int i = 0; i < 50; i++) {
        x = sin(x) + (double)(item % 7);
    }
    j->results[item] = x;
    dpmf_status status = DPMF_OK;
    if (j->fail_step > 0 && item >= j->fail_from && item % j->fail_step == 0) {
        status = base_fail(item % 2 == 0 ? DPMF_ERROR_NUMERICAL : DPMF_ERROR_IO, "item %d failed", (int)item);
    }
    if (worker >= 0 && worker < j->threads) atomic_fetch_sub(&j->in_use[worker], 1);
    return status;
}

static job *new_job(const base_pool *pool) {
    job *j = calloc(1, sizeof *j);
    assert_non_null(j);
    j->threads = base_pool_threads(pool);
    return j;
}

static void test_every_item_runs_once_with_the_same_answer(void **state) {
    (void)state;
    double expected[ITEMS];
    static const int threads[] = {1, 2, 3, 8, 0};
    for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++) {
        base_pool *pool = NULL;
        assert_int_equal(base_pool_create(threads[i], &pool), DPMF_OK);
        if (threads[i] > 0)
            assert_int_equal(base_pool_threads(pool), threads[i]);
        else
            assert_in_range(base_pool_threads(pool), 1, 256);
        job *j = new_job(pool);
        for (int round = 1; round <= 3; round++) {
            assert_int_equal(base_pool_run(pool, ITEMS, work, j), DPMF_OK);
            for (int item = 0; item < ITEMS; item++) {
                assert_int_equal(atomic_load(&j->runs[item]), round);
            }
        }
        assert_int_equal(atomic_load(&j->mistakes), 0);
        if (i == 0) memcpy(expected, j->results, sizeof expected);
        assert_memory_equal(j->results, expected, sizeof expected);
        free(j);
        base_pool_free(pool);
    }
}

static void test_many_short_runs_lose_no_item(void **state) {
    (void)state;
    base_pool *pool = NULL;
    assert_int_equal(base_pool_create(3, &pool), DPMF_OK);
    job *j = new_job(pool);
    for (int round = 0; round < 500; round++) {
        assert_int_equal(base_pool_run(pool, round % 5, work, j), DPMF_OK);
    }
    for (int item = 0; item < 5; item++) {
        assert_int_equal(atomic_load(&j->runs[item]), 100 * (4 - item));
    }
    assert_int_equal(base_pool_run(pool, 0, work, j), DPMF_OK);
    assert_int_equal(base_pool_run(pool, 1, work, j), DPMF_OK);
    assert_int_equal(atomic_load(&j->runs[0]), 401);
    free(j);
    base_pool_free(pool);
}

static void test_the_lowest_failure_is_the_answer(void **state) {
    (void)state;
    for (int threads = 1; threads <= 4; threads++) {
        base_pool *pool = NULL;
        assert_int_equal(base_pool_create(threads, &pool), DPMF_OK);
        for (int round = 0; round < 50; round++) {
            job *j = new_job(pool);
            j->fail_from = 10 * round;
            j->fail_step = 1 + round % 3;
            int64_t lowest = j->fail_from;
            while (lowest % j->fail_step != 0) {
                lowest++;
            }
            dpmf_set_last_error("old");
            const dpmf_status expected = lowest % 2 == 0 ? DPMF_ERROR_NUMERICAL : DPMF_ERROR_IO;
            assert_int_equal(base_pool_run(pool, ITEMS, work, j), expected);
            char message[64];
            snprintf(message, sizeof message, "item %d failed", (int)lowest);
            assert_string_equal(dpmf_last_error(), message);
            for (int64_t item = 0; item <= lowest; item++) {
                assert_int_equal(atomic_load(&j->runs[item]), 1);
            }
            assert_true(atomic_load(&j->runs[ITEMS - 1]) == 0); /* far past the failure: no longer begun */
            j->fail_step = 0;
            assert_int_equal(base_pool_run(pool, ITEMS, work, j), DPMF_OK); /* and the pool lives on */
            assert_int_equal(atomic_load(&j->runs[ITEMS - 1]), 1);
            free(j);
        }
        base_pool_free(pool);
    }
}

static void test_thread_counts_out_of_range_are_refused(void **state) {
    (void)state;
    static const int bad[] = {-1, 257, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        base_pool *pool = NULL;
        assert_int_equal(base_pool_create(bad[i], &pool), DPMF_ERROR_ARGUMENT);
        assert_null(pool);
        assert_non_null(strstr(dpmf_last_error(), "1 to 256"));
    }
    base_pool_free(NULL);
}

/* Thread stacks larger than the address space: the system refuses every thread. */
static void test_without_threads_the_caller_does_the_work(void **state) {
    (void)state;
    pthread_attr_t usual, impossible;
    assert_int_equal(pthread_getattr_default_np(&usual), 0);
    assert_int_equal(pthread_attr_init(&impossible), 0);
    assert_int_equal(pthread_attr_setstacksize(&impossible, (size_t)1 << 60), 0);
    assert_int_equal(pthread_setattr_default_np(&impossible), 0);
    base_pool *pool = NULL;
    const dpmf_status status = base_pool_create(3, &pool);
    assert_int_equal(pthread_setattr_default_np(&usual), 0);
    pthread_attr_destroy(&usual);
    pthread_attr_destroy(&impossible);
    assert_int_equal(status, DPMF_OK);
    assert_int_equal(base_pool_threads(pool), 1);
    job *j = new_job(pool);
    assert_int_equal(base_pool_run(pool, ITEMS, work, j), DPMF_OK);
    assert_int_equal(atomic_load(&j->runs[ITEMS - 1]), 1);
    assert_int_equal(atomic_load(&j->mistakes), 0);
    free(j);
    base_pool_free(pool);
}

static dpmf_status look_at_signals(void *context, int64_t item, int worker) {
    (void)item;
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    if (worker > 0 && !sigismember(&blocked, SIGINT)) atomic_fetch_add((atomic_int *)context, 1);
    if (worker == 0 && sigismember(&blocked, SIGINT)) atomic_fetch_add((atomic_int *)context, 1);
    return DPMF_OK;
}

static void test_signals_stay_with_the_caller(void **state) {
    (void)state;
    base_pool *pool = NULL;
    atomic_int mistakes = 0;
    assert_int_equal(base_pool_create(3, &pool), DPMF_OK);
    assert_int_equal(base_pool_run(pool, ITEMS, look_at_signals, &mistakes), DPMF_OK);
    assert_int_equal(atomic_load(&mistakes), 0);
    base_pool_free(pool);
}

/* Allocations, releases and messages from several threads at once: the count is exact, the messages do not mix. */
static dpmf_status allocate_and_fail(void *context, int64_t item, int worker) {
    (void)context;
    (void)worker;
    void *blocks[10];
    char expected[32];
    for (int i = 0; i < 10; i++) {
        TRY(base_alloc(item % 100 + 1, 8, "a block", &blocks[i]));
    }
    (void)base_fail(DPMF_ERROR_IO, "message %d", (int)item);
    for (int i = 0; i < 10; i++) {
        base_free(blocks[i]);
    }
    snprintf(expected, sizeof expected, "message %d", (int)item);
    return strcmp(dpmf_last_error(), expected) == 0 ? DPMF_OK : DPMF_ERROR_NUMERICAL;
}

static void test_memory_and_messages_know_threads(void **state) {
    (void)state;
    base_pool *pool = NULL;
    assert_int_equal(base_pool_create(4, &pool), DPMF_OK);
    const uint64_t before = dpmf_memory_in_use();
    assert_int_equal(base_pool_run(pool, 5000, allocate_and_fail, NULL), DPMF_OK);
    assert_int_equal(dpmf_memory_in_use(), before);
    base_pool_free(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_item_runs_once_with_the_same_answer),
        cmocka_unit_test(test_many_short_runs_lose_no_item),
        cmocka_unit_test(test_the_lowest_failure_is_the_answer),
        cmocka_unit_test(test_thread_counts_out_of_range_are_refused),
        cmocka_unit_test(test_without_threads_the_caller_does_the_work),
        cmocka_unit_test(test_signals_stay_with_the_caller),
        cmocka_unit_test(test_memory_and_messages_know_threads),
    };
    return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
