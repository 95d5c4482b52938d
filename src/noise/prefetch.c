/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prefetch: noise does not depend on data, so the next row can be made while the caller computes gradients. The thread
 * makes rows with scale 1, which is exact; the caller's scale is applied when a row is taken, by the same
 * kernels as the stream's own, so that no bit depends on prefetching.
 */
#include "noise/prefetch.h"

#include "base/memory.h"
#include "kernels/combine.h"
#include "kernels/whole/whole.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

typedef enum phase { RESTING, ASKED, READY, CLOSING } phase;

struct dpmf_i_noise_prefetch {
    dpmf_i_noise_stream *stream;
    dpmf_precision precision;
    int64_t count;
    void *row;
    pthread_t thread;
    pthread_mutex_t mutex; /* guards `phase`; while it is ASKED the rest below and the stream are the thread's */
    pthread_cond_t changed;
    phase phase;
    int pending; /* the caller's: asked for and not taken */
    dpmf_status status;
    char message[512];
};

static size_t number_size(dpmf_precision precision) {
    return precision == DPMF_FLOAT32 ? sizeof(float) : sizeof(double);
}

uint64_t dpmf_i_noise_prefetch_memory(dpmf_precision precision, int64_t count) {
    return (uint64_t)count * number_size(precision) + sizeof(dpmf_i_noise_prefetch);
}

static void *thread_main(void *argument) {
    dpmf_i_noise_prefetch *p = argument;
    pthread_mutex_lock(&p->mutex);
    for (;;) {
        while (p->phase == RESTING || p->phase == READY)
            pthread_cond_wait(&p->changed, &p->mutex);
        if (p->phase == CLOSING) break;
        pthread_mutex_unlock(&p->mutex);
        const dpmf_i_noise_segment whole = {p->row, p->count};
        p->status = dpmf_i_noise_stream_emit(p->stream, 1.0, DPMF_I_NOISE_STORE, 1, &whole);
        if (p->status != DPMF_OK) snprintf(p->message, sizeof p->message, "%s", dpmf_last_error());
        pthread_mutex_lock(&p->mutex);
        p->phase = READY;
        pthread_cond_broadcast(&p->changed);
    }
    pthread_mutex_unlock(&p->mutex);
    return NULL;
}

/* Signals stay with the program's own threads. 0 or an errno. */
static int start_thread(dpmf_i_noise_prefetch *p) {
    sigset_t all, callers;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &callers);
    int error = pthread_create(&p->thread, NULL, thread_main, p);
    pthread_sigmask(SIG_SETMASK, &callers, NULL);
    return error;
}

dpmf_status dpmf_i_noise_prefetch_create(dpmf_i_noise_stream *stream, dpmf_precision precision, int64_t count,
                                         dpmf_i_noise_prefetch **out) {
    dpmf_status status = DPMF_OK;
    dpmf_i_noise_prefetch *p = NULL;
    void *row = NULL;
    int made = 0;
    TRY_DONE(dpmf_i_base_alloc(1, sizeof *p, "prefetching", (void **)&p));
    TRY_DONE(dpmf_i_base_alloc(count, number_size(precision), "a prefetched row", &row));
    p->stream = stream;
    p->precision = precision;
    p->count = count;
    p->row = row;
    if (pthread_mutex_init(&p->mutex, NULL) == 0) made++;
    if (made == 1 && pthread_cond_init(&p->changed, NULL) == 0) made++;
    if (made == 2 && start_thread(p) == 0) made++;
    if (made < 3) status = dpmf_i_base_fail(DPMF_ERROR_MEMORY, "the system has no thread for prefetching");
done:
    if (status == DPMF_OK) {
        *out = p;
        return DPMF_OK;
    }
    if (made > 1) pthread_cond_destroy(&p->changed);
    if (made > 0) pthread_mutex_destroy(&p->mutex);
    dpmf_i_base_free(row);
    dpmf_i_base_free(p);
    return status;
}

static void set_phase(dpmf_i_noise_prefetch *p, phase next) {
    pthread_mutex_lock(&p->mutex);
    p->phase = next;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->mutex);
}

static void wait_ready(dpmf_i_noise_prefetch *p) {
    pthread_mutex_lock(&p->mutex);
    while (p->phase == ASKED)
        pthread_cond_wait(&p->changed, &p->mutex);
    pthread_mutex_unlock(&p->mutex);
}

void dpmf_i_noise_prefetch_ask(dpmf_i_noise_prefetch *p) {
    if (p->pending) return;
    p->pending = 1;
    set_phase(p, ASKED);
}

int dpmf_i_noise_prefetch_pending(const dpmf_i_noise_prefetch *p) {
    return p->pending;
}

void dpmf_i_noise_prefetch_drop(dpmf_i_noise_prefetch *p) {
    if (!p->pending) return;
    wait_ready(p);
    p->pending = 0;
}

dpmf_status dpmf_i_noise_prefetch_take(dpmf_i_noise_prefetch *p, double scale, dpmf_i_noise_how how, int64_t segments,
                                       const dpmf_i_noise_segment *segment) {
    assert(p->pending);
    wait_ready(p);
    p->pending = 0;
    if (p->status != DPMF_OK) {
        dpmf_i_base_set_message(p->message);
        return p->status;
    }
    const dpmf_i_kernels_combine_set *sets = dpmf_i_kernels_combine_get();
    const dpmf_i_kernels_combine *kernels = p->precision == DPMF_FLOAT32 ? &sets->single : &sets->full;
    const char *x = p->row;
    for (int64_t i = 0; i < segments; i++) {
        if (how == DPMF_I_NOISE_ADD_WHOLE)
            dpmf_i_kernels_whole_get()->add(segment[i].count, (const double *)x, segment[i].memory);
        else if (segment[i].count > 0)
            (how == DPMF_I_NOISE_ADD ? kernels->add : kernels->store)(segment[i].count, scale, x, segment[i].memory);
        x += (size_t)segment[i].count * number_size(p->precision);
    }
    return DPMF_OK;
}

void dpmf_i_noise_prefetch_free(dpmf_i_noise_prefetch *p, int forked) {
    if (p == NULL) return;
    if (!forked) {
        wait_ready(p);
        set_phase(p, CLOSING);
        pthread_join(p->thread, NULL);
        pthread_cond_destroy(&p->changed);
        pthread_mutex_destroy(&p->mutex);
    }
    dpmf_i_crypto_wipe(p->row, (size_t)p->count * number_size(p->precision));
    dpmf_i_base_free(p->row);
    dpmf_i_base_free(p);
}
