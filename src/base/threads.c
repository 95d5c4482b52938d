/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small pool of threads.
 *
 * The workers sleep until a run is posted (`round` increases). Then they and the caller take items from one counter
 * until it ends; the caller sleeps until the last worker has left the run. Items are taken in rising order, and after a
 * failure no more are taken. So every item below one that was taken has been taken too, and the lowest item that fails
 * is the same for any number of threads: its status and message are those of the run.
 *
 * A pool belongs to one caller and does one run at a time: work must not run its own pool.
 */
#include "base/threads.h"

#include "base/memory.h"
#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum { MOST_THREADS = 256 };

typedef struct worker {
    base_pool *pool;
    pthread_t thread;
    int index; /* 1 .. threads-1; 0 is the caller */
} worker;

struct base_pool {
    int threads;
    worker *workers; /* threads - 1 of them */

    pthread_mutex_t mutex; /* guards everything below but the two atomics */
    pthread_cond_t posted, finished;
    uint64_t round;
    int busy; /* workers that have not left the run */
    int closing;

    int64_t count;
    base_work work;
    void *context;
    atomic_int_fast64_t next;
    atomic_bool stop;

    int64_t failed_item; /* -1: none */
    dpmf_status failed_status;
    char failed_message[BASE_MESSAGE_SIZE];
};

static void record_failure(base_pool *pool, int64_t item, dpmf_status status) {
    atomic_store(&pool->stop, 1);
    pthread_mutex_lock(&pool->mutex);
    if (pool->failed_item < 0 || item < pool->failed_item) {
        pool->failed_item = item;
        pool->failed_status = status;
        snprintf(pool->failed_message, sizeof pool->failed_message, "%s", dpmf_last_error());
    }
    pthread_mutex_unlock(&pool->mutex);
}

static void take_items(base_pool *pool, int index) {
    while (!atomic_load(&pool->stop)) {
        const int64_t item = atomic_fetch_add(&pool->next, 1);
        if (item >= pool->count) return;
        const dpmf_status status = pool->work(pool->context, item, index);
        if (status != DPMF_OK) record_failure(pool, item, status);
    }
}

static void *worker_main(void *argument) {
    const worker *self = argument;
    base_pool *pool = self->pool;
    uint64_t seen = 0;
    pthread_mutex_lock(&pool->mutex);
    for (;;) {
        while (pool->round == seen && !pool->closing)
            pthread_cond_wait(&pool->posted, &pool->mutex);
        if (pool->closing) break;
        seen = pool->round;
        pthread_mutex_unlock(&pool->mutex);
        take_items(pool, self->index);
        pthread_mutex_lock(&pool->mutex);
        if (--pool->busy == 0) pthread_cond_signal(&pool->finished);
    }
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

static int processor_count(void) {
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    return processors < 1 ? 1 : processors > MOST_THREADS ? MOST_THREADS : (int)processors;
}

dpmf_status base_pool_create(int threads, base_pool **out) {
    if (threads < 0 || threads > MOST_THREADS)
        return base_fail(DPMF_ERROR_ARGUMENT, "%d threads: 1 to %d are accepted, or 0 for one per processor", threads,
                         MOST_THREADS);
    const int wanted = threads == 0 ? processor_count() : threads;
    void *memory = NULL, *workers = NULL;
    int made = 0; /* the number of the mutex and the two conditions that exist */
    base_pool *pool = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc(1, sizeof(base_pool), "a pool of threads", &memory));
    TRY_DONE(base_alloc(wanted, sizeof(worker), "a pool of threads", &workers));
    pool = memory;
    if (pthread_mutex_init(&pool->mutex, NULL) == 0) made++;
    if (made == 1 && pthread_cond_init(&pool->posted, NULL) == 0) made++;
    if (made == 2 && pthread_cond_init(&pool->finished, NULL) == 0) made++;
    if (made < 3) {
        status = base_fail(DPMF_ERROR_MEMORY, "the system has no more locks for a pool of %d threads", wanted);
        goto done;
    }
    atomic_init(&pool->next, 0);
    atomic_init(&pool->stop, 0);
    pool->workers = workers;
    pool->threads = 1;
    pool->failed_item = -1;
    /* Signals stay with the program's own threads, so that its handlers do not run on ours. */
    sigset_t all, callers;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &callers);
    while (pool->threads < wanted) {
        worker *next = &pool->workers[pool->threads - 1];
        next->pool = pool;
        next->index = pool->threads;
        /* The machine may refuse a thread; the existing ones then do the work. */
        if (pthread_create(&next->thread, NULL, worker_main, next) != 0) break;
        pool->threads++;
    }
    pthread_sigmask(SIG_SETMASK, &callers, NULL);
    *out = pool;
done:
    if (status != DPMF_OK) {
        if (made > 1) pthread_cond_destroy(&pool->posted);
        if (made > 0) pthread_mutex_destroy(&pool->mutex);
        base_free(workers);
        base_free(memory);
    }
    return status;
}

void base_pool_free(base_pool *pool) {
    if (pool == NULL) return;
    pthread_mutex_lock(&pool->mutex);
    assert(pool->busy == 0);
    pool->closing = 1;
    pthread_cond_broadcast(&pool->posted);
    pthread_mutex_unlock(&pool->mutex);
    for (int i = 0; i < pool->threads - 1; i++)
        pthread_join(pool->workers[i].thread, NULL);
    pthread_cond_destroy(&pool->finished);
    pthread_cond_destroy(&pool->posted);
    pthread_mutex_destroy(&pool->mutex);
    base_free(pool->workers);
    base_free(pool);
}

int base_pool_threads(const base_pool *pool) {
    return pool->threads;
}

dpmf_status base_pool_run(base_pool *pool, int64_t count, base_work work, void *context) {
    if (count <= 0) return DPMF_OK;
    pthread_mutex_lock(&pool->mutex);
    assert(pool->busy == 0);
    pool->count = count;
    pool->work = work;
    pool->context = context;
    pool->failed_item = -1;
    atomic_store(&pool->next, 0);
    atomic_store(&pool->stop, 0);
    pool->busy = pool->threads - 1;
    pool->round++;
    if (pool->busy > 0) pthread_cond_broadcast(&pool->posted);
    pthread_mutex_unlock(&pool->mutex);

    take_items(pool, 0);

    pthread_mutex_lock(&pool->mutex);
    while (pool->busy > 0)
        pthread_cond_wait(&pool->finished, &pool->mutex);
    pthread_mutex_unlock(&pool->mutex);
    if (pool->failed_item < 0) return DPMF_OK;
    dpmf_set_last_error(pool->failed_message);
    return pool->failed_status;
}
