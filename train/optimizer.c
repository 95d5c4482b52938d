/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What becomes of a private gradient g: post-processing, which costs no privacy.
 *
 *     SGD    m <- beta m + g,  u = m, or g + beta m (Nesterov),      w <- (1 - eta lambda) w - eta u
 *     Adam   m <- beta1 m + (1-beta1) g,  v <- beta2 v + (1-beta2) g^2,
 *            u = m/(1 - beta1^(t+1)) / (sqrt(v/(1 - beta2^(t+1))) + epsilon)       (Kingma and Ba 2015), decay as above
 *
 * with eta = learning rate x schedule[t]. SGD is the recursion of the named workloads (dpmf.h, section 2), so that
 * w_t - w_0 = -rate (A g)_t where lambda = 0.
 */
#include "train/train.h"

#include "base/memory.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static dpmf_status check_between(const char *name, double value, double low, double high) {
    if (value >= low && value < high) return DPMF_OK;
    return base_fail(DPMF_ERROR_ARGUMENT, "%s = %g, accepted: %g to below %g", name, value, low, high);
}

static dpmf_status check_options(const dpmf_trainer_options *o) {
    const double largest = 1e30; /* beyond what float weights can follow */
    if (o->optimizer != DPMF_OPTIMIZER_SGD && o->optimizer != DPMF_OPTIMIZER_ADAM)
        return base_fail(DPMF_ERROR_ARGUMENT, "optimizer %d, accepted: 0 (SGD), 1 (Adam)", (int)o->optimizer);
    if (!(o->learning_rate > 0.0) || !(o->learning_rate < largest))
        return base_fail(DPMF_ERROR_ARGUMENT, "learning_rate = %g, accepted: above 0 and below %g", o->learning_rate,
                         largest);
    TRY(check_between("momentum", o->momentum, 0.0, 1.0));
    TRY(check_between("beta1", o->beta1, 0.0, 1.0));
    TRY(check_between("beta2", o->beta2, 0.0, 1.0));
    TRY(check_between("decay", o->decay, 0.0, largest));
    if (!(o->adam_epsilon > 0.0) || !(o->adam_epsilon < largest))
        return base_fail(DPMF_ERROR_ARGUMENT, "adam_epsilon = %g, accepted: above 0 and below %g", o->adam_epsilon,
                         largest);
    if (o->optimizer == DPMF_OPTIMIZER_ADAM && (o->momentum != 0.0 || o->nesterov))
        return base_fail(DPMF_ERROR_ARGUMENT, "momentum = %g with Adam, accepted: 0; Adam has beta1", o->momentum);
    return DPMF_OK;
}

/* Every step's rate: positive, and the decay keeps the sign of the weights. */
static dpmf_status check_schedule(const dpmf_trainer_options *o, int64_t steps) {
    for (int64_t t = 0; t < (o->schedule != NULL ? steps : 1); t++) {
        const double factor = o->schedule != NULL ? o->schedule[t] : 1.0;
        if (!(factor > 0.0) || !(factor < 1e30))
            return base_fail(DPMF_ERROR_ARGUMENT, "schedule[%" PRId64 "] = %g, accepted: above 0 and below 1e30", t,
                             factor);
        if (!(o->learning_rate * factor * o->decay < 1.0))
            return base_fail(DPMF_ERROR_ARGUMENT,
                             "decay = %g with learning rate %g, accepted: a product below 1 in every step", o->decay,
                             o->learning_rate * factor);
    }
    return DPMF_OK;
}

dpmf_status train_stepper_open(const dpmf_trainer_options *o, int64_t steps, int64_t dim, train_stepper *out) {
    dpmf_status status = DPMF_OK;
    train_stepper made = {.kind = o->optimizer,
                          .learning_rate = o->learning_rate,
                          .momentum = o->momentum,
                          .beta1 = o->beta1,
                          .beta2 = o->beta2,
                          .adam_epsilon = o->adam_epsilon,
                          .decay = o->decay,
                          .nesterov = o->nesterov != 0,
                          .dim = dim};
    TRY(check_options(o));
    TRY(check_schedule(o, steps));
    made.states = o->optimizer == DPMF_OPTIMIZER_ADAM ? 2 : o->momentum > 0.0;
    TRY_DONE(base_alloc(made.states * dim, sizeof(float), "the optimizer", (void **)&made.state));
    if (o->schedule != NULL) {
        TRY_DONE(base_alloc_doubles(steps, "the schedule", &made.schedule));
        memcpy(made.schedule, o->schedule, (size_t)steps * sizeof *made.schedule);
    }
done:
    if (status == DPMF_OK)
        *out = made;
    else
        train_stepper_close(&made);
    return status;
}

void train_stepper_close(train_stepper *stepper) {
    base_free(stepper->state);
    base_free(stepper->schedule);
    *stepper = (train_stepper){0};
}

static void step_sgd(train_stepper *s, double rate, const float *sums, double scale, float *weights) {
    const double keep = 1.0 - rate * s->decay, beta = s->momentum;
    for (int64_t i = 0; i < s->dim; i++) {
        const double g = (double)sums[i] * scale;
        double u = g;
        if (s->states > 0) {
            const double m = beta * (double)s->state[i] + g;
            s->state[i] = (float)m;
            u = s->nesterov ? g + beta * m : m;
        }
        weights[i] = (float)(keep * (double)weights[i] - rate * u);
    }
}

/* x^n by squaring: the same bits everywhere, which pow does not promise. */
static double power(double x, int64_t n) {
    double result = 1.0;
    for (; n > 0; n /= 2, x *= x)
        if (n % 2 != 0) result *= x;
    return result;
}

static void step_adam(train_stepper *s, int64_t t, double rate, const float *sums, double scale, float *weights) {
    float *first = s->state, *second = s->state + s->dim;
    const double keep = 1.0 - rate * s->decay;
    const double unbias1 = 1.0 / (1.0 - power(s->beta1, t + 1));
    const double unbias2 = 1.0 / (1.0 - power(s->beta2, t + 1));
    for (int64_t i = 0; i < s->dim; i++) {
        const double g = (double)sums[i] * scale;
        const double m = s->beta1 * (double)first[i] + (1.0 - s->beta1) * g;
        const double v = s->beta2 * (double)second[i] + (1.0 - s->beta2) * g * g;
        first[i] = (float)m;
        second[i] = (float)v;
        weights[i] = (float)(keep * (double)weights[i] - rate * (m * unbias1) / (sqrt(v * unbias2) + s->adam_epsilon));
    }
}

void train_stepper_step(train_stepper *s, int64_t t, const float *sums, double expected, float *weights) {
    const double rate = s->learning_rate * (s->schedule != NULL ? s->schedule[t] : 1.0);
    if (s->kind == DPMF_OPTIMIZER_ADAM)
        step_adam(s, t, rate, sums, 1.0 / expected, weights);
    else
        step_sgd(s, rate, sums, 1.0 / expected, weights);
}
