/* SPDX-License-Identifier: Apache-2.0 */
/* The search for TV-BLT with shared class seeds: 1 + l normal numbers a number of noise, however many epochs. */
#ifndef DPMF_OPTIMIZE_REPLAY_SHARED_H
#define DPMF_OPTIMIZE_REPLAY_SHARED_H

#include "families/replay/search.h"

typedef struct replay_shared_work {
    replay_work base; /* its parameters and scales are not used */
    replay_shared shared;
    double *multiplier; /* pairs: m */
    double smoothing;   /* eps; 0: |x| itself */
    double *scales, *parameters;
    double *weight_bar; /* within an evaluation */
} replay_shared_work;

DPMF_MUST_CHECK dpmf_status replay_shared_work_alloc(const dpmf_workload *workload, const replay_shape *shape,
                                                     int seeds, base_pool *pool, replay_shared_work *out);
void replay_shared_work_free(replay_shared_work *s);

/* log of the loss at these parameters (INFINITY: none), with the smoothed sensitivity. gradient may be NULL. */
DPMF_MUST_CHECK dpmf_status replay_shared_loss(replay_shared_work *s, const double *parameters, double *loss,
                                               double *gradient);
/* m <- clip(m + x/eps) for what was evaluated last. */
void replay_shared_multiply(replay_shared_work *s);

/* shared_start.c: s->parameters from a mechanism with replayed seeds and the parameters it came from; and s->scales. */
DPMF_MUST_CHECK dpmf_status replay_shared_start(const replay_coefficients *c, double *parameters,
                                                replay_shared_work *s);

typedef struct replay_shared_result {
    replay_shape shape;
    int seeds;
    double *parameters; /* what replay_shared_create takes */
    double loss;        /* at a sensitivity of at most 1 */
    int evaluations;
} replay_shared_result;

/* The options' buffers are needed; max_loss is refused. */
DPMF_MUST_CHECK dpmf_status replay_shared_search(const dpmf_workload *workload, int64_t period, int seeds,
                                                 const replay_options *options, replay_shared_result *out);
void replay_shared_result_free(replay_shared_result *result);

#endif
