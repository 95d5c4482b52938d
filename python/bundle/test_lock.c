/* SPDX-License-Identifier: Apache-2.0
 *
 * Does the lock of bundle.c keep OpenBLAS from handing one work buffer to two threads? scripts/build_wheels.sh links this with both
 * and runs it: eight threads take and return buffers, and each looks whether somebody else is in its own. Without the lock, four
 * of six runs on two cores found hundreds to thousands of shared buffers; with it there must be none.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>

enum { THREADS = 8, TIMES = 1000000 };

void *blas_memory_alloc(int position);
void blas_memory_free(void *buffer);

static atomic_int shared;

static void *take_and_return(void *unused) {
    for (int i = 0; i < TIMES; i++) {
        atomic_int *buffer = blas_memory_alloc(1);
        if (atomic_exchange(buffer, 1) != 0) shared++;
        if (i % 64 == 0) sched_yield(); /* so that others come while it is taken */
        atomic_store(buffer, 0);
        blas_memory_free(buffer);
    }
    return unused;
}

int main(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, take_and_return, NULL) != 0) return 1;
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("%d work buffers were in use by two threads\n", (int)shared);
    return shared == 0 ? 0 : 1;
}
