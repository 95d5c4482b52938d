/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prefetch: noise does not depend on data, so the next row is made while the caller computes gradients, at scale 1, which is
 * exact; the caller's scale is applied later by the stream's own kernels, so that no bit depends on prefetching.
 */
#include "noise/stream.h"

#include "base/memory.h"
#include "kernels/combine/combine.h"
#include "kernels/whole/whole.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

typedef enum phase { RESTING, ASKED, READY, CLOSING } phase;

struct noise_prefetch {
    noise_stream *stream;
    dpmf_precision precision;
    int64_t count;
    void *row;
    pthread_t thread;
    pthread_mutex_t mutex; /* guards `phase`; while it is ASKED the thread owns the fields below and the stream */
    pthread_cond_t changed;
    phase phase;
    int pending; /* the caller's: a row was requested and not taken */
    dpmf_status status;
    char message[512];
};

static size_t number_size(dpmf_precision precision) {
    return precision == DPMF_FLOAT32 ? sizeof(float) : sizeof(double);
}

uint64_t noise_prefetch_memory(dpmf_precision precision, int64_t count) {
    return (uint64_t)count * number_size(precision) + sizeof(noise_prefetch);
}

static void *thread_main(void *argument) {
    noise_prefetch *p = argument;
    pthread_mutex_lock(&p->mutex);
    for (;;) {
        while (p->phase == RESTING || p->phase == READY)
            pthread_cond_wait(&p->changed, &p->mutex);
        if (p->phase == CLOSING) break;
        pthread_mutex_unlock(&p->mutex);
        const noise_segment whole = {p->row, p->count};
        p->status = noise_stream_emit(p->stream, 1.0, NOISE_STORE, 1, &whole);
        if (p->status != DPMF_OK) snprintf(p->message, sizeof p->message, "%s", dpmf_last_error());
        pthread_mutex_lock(&p->mutex);
        p->phase = READY;
        pthread_cond_broadcast(&p->changed);
    }
    pthread_mutex_unlock(&p->mutex);
    return NULL;
}

/* The thread blocks all signals, so that the program's own threads get them. Returns 0 or an errno. */
static int start_thread(noise_prefetch *p) {
    sigset_t all, callers;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &callers);
    int error = pthread_create(&p->thread, NULL, thread_main, p);
    pthread_sigmask(SIG_SETMASK, &callers, NULL);
    return error;
}

dpmf_status noise_prefetch_create(noise_stream *stream, dpmf_precision precision, int64_t count, noise_prefetch **out) {
    dpmf_status status = DPMF_OK;
    noise_prefetch *p = NULL;
    void *row = NULL;
    int made = 0;
    TRY_DONE(base_alloc(1, sizeof *p, "prefetching", (void **)&p));
    TRY_DONE(base_alloc(count, number_size(precision), "a prefetched row", &row));
    p->stream = stream;
    p->precision = precision;
    p->count = count;
    p->row = row;
    if (pthread_mutex_init(&p->mutex, NULL) == 0) made++;
    if (made == 1 && pthread_cond_init(&p->changed, NULL) == 0) made++;
    if (made == 2 && start_thread(p) == 0) made++;
    if (made < 3) status = base_fail(DPMF_ERROR_MEMORY, "the system has no thread for prefetching");
done:
    if (status == DPMF_OK) {
        *out = p;
        return DPMF_OK;
    }
    if (made > 1) pthread_cond_destroy(&p->changed);
    if (made > 0) pthread_mutex_destroy(&p->mutex);
    base_free(row);
    base_free(p);
    return status;
}

static void set_phase(noise_prefetch *p, phase next) {
    pthread_mutex_lock(&p->mutex);
    p->phase = next;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->mutex);
}

static void wait_ready(noise_prefetch *p) {
    pthread_mutex_lock(&p->mutex);
    while (p->phase == ASKED)
        pthread_cond_wait(&p->changed, &p->mutex);
    pthread_mutex_unlock(&p->mutex);
}

void noise_prefetch_ask(noise_prefetch *p) {
    if (p->pending) return;
    p->pending = 1;
    set_phase(p, ASKED);
}

int noise_prefetch_pending(const noise_prefetch *p) {
    return p->pending;
}

void noise_prefetch_drop(noise_prefetch *p) {
    if (!p->pending) return;
    wait_ready(p);
    p->pending = 0;
}

dpmf_status noise_prefetch_take(noise_prefetch *p, double scale, noise_how how, int64_t segments,
                                const noise_segment *segment) {
    assert(p->pending);
    wait_ready(p);
    p->pending = 0;
    if (p->status != DPMF_OK) {
        dpmf_set_last_error(p->message);
        return p->status;
    }
    const kernels_combine_set *sets = kernels_combine_get();
    const kernels_combine *kernels = p->precision == DPMF_FLOAT32 ? &sets->single : &sets->full;
    const char *x = p->row;
    for (int64_t i = 0; i < segments; i++) {
        if (how == NOISE_ADD_WHOLE)
            kernels_whole_get()->add(segment[i].count, (const double *)x, segment[i].memory);
        else if (segment[i].count > 0)
            (how == NOISE_ADD ? kernels->add : kernels->store)(segment[i].count, scale, x, segment[i].memory);
        x += (size_t)segment[i].count * number_size(p->precision);
    }
    return DPMF_OK;
}

void noise_prefetch_free(noise_prefetch *p, int forked) {
    if (p == NULL) return;
    if (!forked) {
        wait_ready(p);
        set_phase(p, CLOSING);
        pthread_join(p->thread, NULL);
        pthread_cond_destroy(&p->changed);
        pthread_mutex_destroy(&p->mutex);
    }
    crypto_wipe(p->row, (size_t)p->count * number_size(p->precision));
    base_free(p->row);
    base_free(p);
}
