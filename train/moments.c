/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Second moments and the noise.
 *
 * Scale, then privatize (Ganesh, McMahan and Thakurta 2025). Noise is equal in all coordinates, and an adaptive optimizer divides by the
 * size that each coordinate usually has: where gradients are small it multiplies the noise. With a scale s_t > 0 for each
 * coordinate a unit adds clip(s_t g) instead, on the same grid, and the noisy sum is divided by s_t before the optimizer sees it:
 *
 *     s = (1 + f) / ((v / mean v)^(1/2) + f),        v the second moments before the step, f a floor; 1 in the first step
 *
 * A gradient whose squares are v keeps its norm. s_t is a function of what was released before step t, so what a unit adds is a
 * function of the unit and of earlier releases, of norm at most the clip norm, as a gradient is: the guarantee is the same, with
 * correlated noise by Theorem 2.1 of Denisov et al. 2022. It is computed once for each step, the same on all machines and parts.
 *
 * Correction (Tang, Shpilevskiy and Lecuyer 2024). Row t of the noise has the standard deviation clip sigma sensitivity |W[t,:]| in
 * every coordinate, which over the expected batch, squared, is taken off g^2. v may become negative, so that no less is used
 * than the standard deviation of v's own noise as if rows were independent, a number for each step:
 *
 *     n_t = beta2^2 n_{t-1} + (1 - beta2)^2 2 variance_t^2,        v_t used = max(v_t, n_t^(1/2)).
 */
#include "train/train.h"

#include "base/memory.h"

#include <math.h>

static const double FLOOR_MIN = 0x1p-20, FLOOR_MAX = 0x1p20;
static const float SCALE_MIN = 0x1p-60F; /* of moments that are about to leave the range of floats */

dpmf_status train_check_moments(const dpmf_trainer_options *o) {
    const int adaptive = o->optimizer == DPMF_OPTIMIZER_ADAM || o->optimizer == DPMF_OPTIMIZER_ADAGRAD ||
                         o->optimizer == DPMF_OPTIMIZER_RMSPROP;
    if (o->correct != 0 && o->optimizer != DPMF_OPTIMIZER_ADAM)
        return base_fail(DPMF_ERROR_ARGUMENT, "correct with optimizer %d, accepted: with 1 (Adam)", (int)o->optimizer);
    if (o->correct != 0 && o->noiseless)
        return base_fail(DPMF_ERROR_ARGUMENT, "correct without noise, accepted: with noise");
    if (o->precondition == 0.0) return DPMF_OK;
    if (!(o->precondition >= FLOOR_MIN && o->precondition <= FLOOR_MAX))
        return base_fail(DPMF_ERROR_ARGUMENT, "precondition = %g, accepted: 0 (none), or %g to %g", o->precondition,
                         FLOOR_MIN, FLOOR_MAX);
    if (!adaptive)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "precondition with optimizer %d, which has no second moments, accepted: with 1 (Adam), 2 "
                         "(Adagrad), 3 (RMSprop)",
                         (int)o->optimizer);
    if (o->correct != 0) return base_fail(DPMF_ERROR_ARGUMENT, "precondition and correct, accepted: one of them");
    if (isinf(o->clip) || o->zero_above > 0.0 || o->local_steps > 0)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "precondition without a clip norm, with zero_above or with local_steps, accepted: with a clip "
                         "norm alone");
    return DPMF_OK;
}

void train_stepper_scales(const train_stepper *s, double floor, float *scale) {
    const float *v = s->kind == DPMF_OPTIMIZER_ADAM ? s->state + s->dim : s->state;
    double mean = 0;
    for (int64_t i = 0; i < s->dim; i++)
        mean += (double)v[i] / (double)s->dim;
    for (int64_t i = 0; i < s->dim; i++) {
        const double size = mean > 0 && isfinite(mean) ? sqrt((double)v[i] / mean) : 1;
        scale[i] = fmaxf((float)((1 + floor) / (size + floor)), SCALE_MIN);
    }
}

dpmf_status train_stepper_correct(train_stepper *s, const dpmf_mechanism *mechanism, double deviation,
                                  const dpmf_run *run) {
    const dpmf_strategy *strategy = dpmf_mechanism_get(mechanism).strategy;
    const int64_t n = dpmf_strategy_get(strategy).steps;
    dpmf_workload *identity = NULL;
    double noise = 0;
    dpmf_status status = DPMF_OK;
    TRY(base_alloc_doubles(n, "the variances of the noise", &s->variance));
    TRY(base_alloc_doubles(n, "the least second moments", &s->least));
    TRY(dpmf_workload_parse("identity", n, &identity));
    status = dpmf_error_compute(identity, strategy, run, s->variance);
    dpmf_workload_free(identity);
    for (int64_t t = 0; t < n && status == DPMF_OK; t++) {
        const double one = s->variance[t] * deviation;
        s->variance[t] = one * one;
        noise = s->beta2 * s->beta2 * noise + (1 - s->beta2) * (1 - s->beta2) * 2 * s->variance[t] * s->variance[t];
        s->least[t] = sqrt(noise);
    }
    return status;
}
