/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the parameters of a TV-BLT with replayed seeds sit: nodes at distances 0, 1, 2, 4, ... from both ends of an
 * epoch, and its middle, with straight lines between them. The optimal coefficients bend near the ends of epochs on the
 * scale of the distance from the end and hardly in between, so a logarithmic number of nodes follows them, and the
 * number of parameters, 2 k r + k + 1 a node, does not grow with n. Where the last epoch is partial, classes on the two
 * sides of its end have different numbers of steps: nodes gather there too.
 */
#include "families/replay/replay.h"

#include "base/memory.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef replay_shape shape_t;

enum { NODES_MAX = REPLAY_NODES_MAX };

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Distances 0, 1, 2, 4, ... below `limit` on one or both sides of [low, high]. */
static int add_from_ends(int64_t low, int64_t high, double limit, int density, int64_t *node, int count) {
    double ratio = pow(2, 1.0 / density), x = 1;
    int64_t distance = 0;
    while ((double)distance < limit && count + 2 < NODES_MAX) {
        node[count++] = low + distance;
        node[count++] = high - distance;
        int64_t next = (int64_t)floor(x + 0.5);
        distance = next > distance ? next : distance + 1;
        x *= ratio;
        if (x < (double)distance) x = (double)distance * (density > 1 ? ratio : 2);
    }
    return count;
}

static int keep_distinct(int64_t b, int64_t *node, int count) {
    int kept = 0;
    qsort(node, (size_t)count, sizeof *node, compare);
    for (int i = 0; i < count; i++)
        if (node[i] >= 0 && node[i] < b && (kept == 0 || node[i] > node[kept - 1])) node[kept++] = node[i];
    return kept;
}

static int usual_nodes(int64_t b, int64_t last, int density, int64_t *node) {
    double half = (double)b / 2 - 0.5;
    int count = add_from_ends(0, b - 1, half, density, node, 0);
    node[count++] = b / 2;
    if (b % 2 == 0) node[count++] = b / 2 - 1;
    if (last < b) { /* from the end of the last epoch, both ways: half as far as the nearer end of an epoch */
        double reach = fmax(1, (double)(last < b - last ? last : b - last) / 2);
        count = add_from_ends(last, last - 1, reach, density, node, count);
    }
    return keep_distinct(b, node, count);
}

static dpmf_status check_shape(int64_t steps, int64_t period, int buffers) {
    if (period < 1 || period > steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "replayed seeds: a period of %lld steps, accepted 1 to %lld",
                         (long long)period, (long long)steps);
    if ((steps + period - 1) / period > REPLAY_EPOCHS_MAX)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "replayed seeds: %lld epochs, accepted up to %d",
                         (long long)((steps + period - 1) / period), REPLAY_EPOCHS_MAX);
    const int64_t epochs = (steps + period - 1) / period;
    if (period > REPLAY_PAIRS_MAX / (epochs * (epochs + 1) / 2))
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "replayed seeds: %lld epochs of %lld steps, accepted up to %d pairs of steps of one unit",
                         (long long)epochs, (long long)period, REPLAY_PAIRS_MAX);
    if (buffers < 1 || buffers > REPLAY_BUFFERS_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "replayed seeds: %d buffers, accepted 1 to %d", buffers,
                         REPLAY_BUFFERS_MAX);
    return DPMF_OK;
}

dpmf_status replay_shape_from(int64_t steps, int64_t period, int buffers, int nodes, const int64_t *node,
                              shape_t *out) {
    shape_t s = {.steps = steps, .period = period, .buffers = buffers, .nodes = nodes};
    TRY(check_shape(steps, period, buffers));
    if (nodes < 1 || nodes > NODES_MAX || node[0] != 0 || node[nodes - 1] != period - 1)
        return base_fail(DPMF_ERROR_ARGUMENT, "replayed seeds: %d nodes, accepted 1 to %d, from 0 to %lld", nodes,
                         NODES_MAX, (long long)(period - 1));
    for (int i = 1; i < nodes; i++)
        if (node[i] <= node[i - 1])
            return base_fail(DPMF_ERROR_ARGUMENT, "replayed seeds: node %d is %lld, accepted: above %lld", i,
                             (long long)node[i], (long long)node[i - 1]);
    s.epochs = (int)((steps + period - 1) / period);
    s.last = steps - (int64_t)(s.epochs - 1) * period;
    TRY(base_alloc(nodes, sizeof *s.node, "the nodes", (void **)&s.node));
    memcpy(s.node, node, (size_t)nodes * sizeof *node);
    *out = s;
    return DPMF_OK;
}

dpmf_status replay_shape_create(int64_t steps, int64_t period, int buffers, int density, shape_t *out) {
    int64_t *node = NULL;
    assert(density >= 1);
    TRY(check_shape(steps, period, buffers));
    TRY(base_alloc(2 * NODES_MAX, sizeof *node, "the nodes", (void **)&node));
    int64_t last = steps - (steps - 1) / period * period;
    int count = usual_nodes(period, last, density, node);
    dpmf_status status = replay_shape_from(steps, period, buffers, count, node, out);
    base_free(node);
    return status;
}

dpmf_status replay_shape_copy(const shape_t *s, shape_t *out) {
    return replay_shape_from(s->steps, s->period, s->buffers, s->nodes, s->node, out);
}

void replay_shape_free(shape_t *s) {
    base_free(s->node);
    *s = (shape_t){0};
}

/* ---- the vector of parameters ---- */

int64_t replay_count(const shape_t *s) {
    return (int64_t)s->epochs * s->nodes * (2 * s->buffers + 1) + s->buffers + s->nodes;
}

replay_view replay_look(const shape_t *s, double *parameters) {
    int64_t filter = (int64_t)s->epochs * s->nodes * s->buffers;
    replay_view v = {.h = parameters};
    v.kappa = v.h + filter;
    v.logit = v.kappa + filter;
    v.profile = v.logit + s->buffers;
    v.scale = v.profile + (int64_t)s->epochs * s->nodes;
    return v;
}

/* ---- straight lines ---- */

/* Position p lies `part` of the way from node *at to the next one. */
static double locate(const shape_t *s, int64_t p, int *at) {
    while (*at + 2 < s->nodes && p >= s->node[*at + 1])
        ++*at;
    if (s->nodes == 1) return 0;
    return (double)(p - s->node[*at]) / (double)(s->node[*at + 1] - s->node[*at]);
}

void replay_spread(const shape_t *s, int width, const double *node, double *position) {
    int at = 0;
    for (int64_t p = 0; p < s->period; p++) {
        double part = locate(s, p, &at);
        const double *one = node + (int64_t)at * width, *two = s->nodes > 1 ? one + width : one;
        for (int j = 0; j < width; j++)
            position[p * width + j] = (1 - part) * one[j] + part * two[j];
    }
}

void replay_gather(const shape_t *s, int width, const double *position, double *node) {
    int at = 0;
    for (int64_t p = 0; p < s->period; p++) {
        double part = locate(s, p, &at);
        double *one = node + (int64_t)at * width, *two = s->nodes > 1 ? one + width : one;
        for (int j = 0; j < width; j++) {
            one[j] += (1 - part) * position[p * width + j];
            two[j] += part * position[p * width + j];
        }
    }
}
