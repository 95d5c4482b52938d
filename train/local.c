/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Local training. Purpose: what a user adds to a round of federated averaging in place of a gradient.
 *
 *     w_0 = w,   w_l = w_{l-1} - R (1/|B_l|) sum over i in B_l of the gradient of loss_i at w_{l-1},   l = 1..L,   u = w - w_L
 *
 * with the server's weights w and the user's own examples. The server clips u, adds up the users', adds the round's row of noise
 * and takes the result for a gradient (McMahan et al. 2018; Pillutla et al. 2025, Eq. 1.27, clip u/R: their clip norm is
 * this one over R).
 *
 * Route. u is what is kept, u <- fl(u + R g), and w_l = fl(w - u) follows from it: u has its own 24 bits, which a difference of
 * two close vectors of floats would not have. One local step from all of a user's examples is R times its gradient.
 *
 * B_l: all of the user's examples, in the order of the data set; or the next M of a pass through them in a random order, the
 * last of a pass may be fewer, and every pass has its own order. The orders are a function of the run's public seed, the round
 * and the user's number: privacy does not rest on them, because u is bounded however it was found.
 *
 * Nothing here can fail for the data: weights that overflow give an u that is not finite, and such a user adds 0.
 */
#include "train/train.h"

#include "base/memory.h"
#include "base/random.h"

#include <string.h>

/* One thread's. */
struct train_local_room {
    float *weights, *gradient;
    train_turned turned;
    train_block block; /* TRAIN_LANES examples */
    int64_t *order;    /* of the largest user's examples */
};

static dpmf_status open_room(const train_model *m, int64_t largest, train_local_room *r) {
    TRY(base_alloc(m->dim, sizeof(float), "local weights", (void **)&r->weights));
    TRY(base_alloc(m->dim, sizeof(float), "a local gradient", (void **)&r->gradient));
    TRY(base_alloc(m->outputs * m->features, sizeof(float), "the model", (void **)&r->turned.first));
    TRY(base_alloc(m->classes * m->hidden, sizeof(float), "the model", (void **)&r->turned.second));
    TRY(base_alloc(largest, sizeof *r->order, "local batches", (void **)&r->order));
    return train_block_create(m, TRAIN_LANES, &r->block);
}

dpmf_status train_local_open(const train_model *model, int threads, int64_t largest, train_local *out) {
    TRY(base_alloc(threads, sizeof *out->room, "local training", (void **)&out->room));
    out->rooms = threads;
    for (int i = 0; i < threads; i++)
        TRY(open_room(model, largest, &out->room[i]));
    return DPMF_OK;
}

void train_local_close(train_local *local) {
    for (int i = 0; local->room != NULL && i < local->rooms; i++) {
        train_local_room *r = &local->room[i];
        base_free(r->weights);
        base_free(r->gradient);
        base_free(r->turned.first);
        base_free(r->turned.second);
        base_free(r->order);
        train_block_free(&r->block);
    }
    base_free(local->room);
    local->room = NULL;
}

/* The order of one pass: Fisher and Yates, over the words of splitmix64. Their bias, n/2^64, does not matter here. */
static void shuffle(uint64_t seed, uint64_t round, uint64_t user, uint64_t pass, int64_t count, int64_t *order) {
    uint64_t state = seed;
    state = base_splitmix(&state) ^ round;
    state = base_splitmix(&state) ^ user;
    state = base_splitmix(&state) ^ pass;
    for (int64_t i = 0; i < count; i++)
        order[i] = i;
    for (int64_t i = count - 1; i > 0; i--) {
        const unsigned __int128 product = (unsigned __int128)base_splitmix(&state) * (uint64_t)(i + 1);
        const int64_t j = (int64_t)(product >> 64), other = order[j];
        order[j] = order[i];
        order[i] = other;
    }
}

/* u <- u + R/|B| sum of gradients at the room's weights, over the examples `order` [from, to); NULL: in their own order. */
static void step_locally(const train_local *local, const train_model *m, const train_local_user *user,
                         const int64_t *order, int64_t from, int64_t to, train_lanes *lanes, train_local_room *r,
                         float *update) {
    train_block *b = &r->block;
    memset(r->gradient, 0, (size_t)m->dim * sizeof(float));
    train_model_turn(m, r->weights, &r->turned);
    for (int64_t at = from; at < to; at += TRAIN_LANES) {
        const int64_t count = to - at < TRAIN_LANES ? to - at : TRAIN_LANES;
        for (int64_t i = 0; i < count; i++) {
            const int64_t example = order != NULL ? order[at + i] : at + i;
            b->x[i] = user->x[example];
            b->label[i] = user->label[example];
        }
        train_block_derive(m, r->weights, &r->turned, 0, count, lanes, b);
        for (int64_t k = 0; k < train_block_items(m); k++)
            train_block_add(m, b, 0, count, k, r->gradient);
    }
    const double share = local->rate / (double)(to - from);
    for (int64_t i = 0; i < m->dim; i++)
        update[i] = (float)((double)update[i] + share * (double)r->gradient[i]);
}

void train_local_update(const train_local *local, const train_model *m, const float *weights, int64_t round,
                        const train_local_user *user, int worker, train_lanes *lanes, float *update) {
    train_local_room *r = &local->room[worker];
    const int64_t n = user->count;
    const int whole = local->batch == 0 || local->batch >= n;
    int64_t at = n, pass = 0;
    memset(update, 0, (size_t)m->dim * sizeof *update);
    memcpy(r->weights, weights, (size_t)m->dim * sizeof *weights);
    for (int64_t l = 0; l < local->steps; l++) {
        if (!whole && at == n) {
            shuffle(local->seed, (uint64_t)round, (uint64_t)user->number, (uint64_t)pass++, n, r->order);
            at = 0;
        }
        const int64_t from = whole ? 0 : at, to = whole || n - at < local->batch ? n : at + local->batch;
        step_locally(local, m, user, whole ? NULL : r->order, from, to, lanes, r, update);
        at = to;
        for (int64_t i = 0; i < m->dim; i++)
            r->weights[i] = (float)((double)weights[i] - (double)update[i]);
    }
}
