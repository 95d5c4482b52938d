/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small pthread pool. Work is a fixed list of `count` items whose results may not depend on which thread ran them:
 * anything that is summed is summed by the caller, in item order, so that answers are the same for any thread count.
 */
#ifndef DPMF_BASE_THREADS_H
#define DPMF_BASE_THREADS_H

#include "base/status.h"

typedef struct base_pool base_pool;

/* threads = 0: one per processor; 1: no threads are made; 1..256 accepted. The caller's thread works too. */
DPMF_MUST_CHECK dpmf_status base_pool_create(int threads, base_pool **out);
void base_pool_free(base_pool *pool); /* NULL is fine */
int base_pool_threads(const base_pool *pool);

/*
 * Runs work(context, item, worker) for item = 0..count-1; worker < threads is the index of the scratch memory to use.
 * If items fail, the others still run or are skipped, and the caller gets the status and message of the failing item
 * with the lowest index among those that ran.
 */
typedef dpmf_status (*base_work)(void *context, int64_t item, int worker);
DPMF_MUST_CHECK dpmf_status base_pool_run(base_pool *pool, int64_t count, base_work work, void *context);

#endif
