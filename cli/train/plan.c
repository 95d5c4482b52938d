/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dpmf train: how many steps of how many examples, for which workload, with which learning rates.
 *
 * A fixed order of M units at a time has epochs of b = ceil(units/M) steps; steps, batch and epochs are then tied by
 * b = ceil(steps/epochs), which is the separation that a designed mechanism assumes. Under sampling only the expected
 * batch units x epochs/steps counts. Where the design is free to choose (`any`), one number of steps must do for both:
 *
 *     1. whole epochs of round(units/M) steps, if the expected batch is then within a hundredth of M;
 *     2. else the nearest number of steps that keeps the expected batch that close;
 *     3. else, or where no fixed order has b batches, the plan of a fixed order, whose mean batch is the expected one.
 */
#include "train/train.h"

#include "output.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What `train` does where the command leaves it open. */
static const char DEFAULT_SAMPLING[] =
    TRAINING_ANY;                                /* batches are drawn here, in secret, so nothing speaks against it */
static const char DEFAULT_WORKLOAD[] = "prefix"; /* momentum and schedule are post-processing */
static const char OWN_WORKLOAD[] = "own";        /* the linear map of the optimizer */

static const double STEPS_MAX = 1e12; /* far above any run, and its products stay far below 2^63 */

static int64_t ceil_divide(int64_t a, int64_t b) {
    return a / b + (a % b != 0);
}

const char *training_sampling(const training *t) {
    if (option_given(t->given, OPTION_SAMPLING)) return t->given->text[OPTION_SAMPLING];
    return option_given(t->given, OPTION_NOISELESS) ? "none" : DEFAULT_SAMPLING;
}

bool training_samples(const training *t, const char *name) {
    return strcmp(training_sampling(t), name) == 0;
}

int64_t training_order(const training *t, int64_t separation) {
    const bool fits = t->batch > 0 && ceil_divide(t->units, t->batch) == separation;
    const int64_t batch = fits ? t->batch : ceil_divide(t->units, separation);
    return ceil_divide(t->units, batch) == separation ? batch : 0;
}

/* ---- the plan ---- */

/* A fixed order: the three numbers must belong to one another. */
static int plan_order(training *t, bool steps, bool batch, bool epochs) {
    if (!batch) t->batch = ceil_divide(t->units, ceil_divide(t->steps, t->epochs));
    t->epoch = ceil_divide(t->units, t->batch);
    if (!steps) t->steps = t->epoch * t->epochs;
    if (!epochs) t->epochs = ceil_divide(t->steps, t->epoch);
    if (ceil_divide(t->steps, t->epochs) == t->epoch) return 0;
    if (!batch)
        return fail(EXIT_USAGE,
                    "--steps %lld --epochs %lld: %lld units do not divide into epochs of %lld batches; give --batch "
                    "instead of --steps, or --sampling poisson",
                    (long long)t->steps, (long long)t->epochs, (long long)t->units,
                    (long long)ceil_divide(t->steps, t->epochs));
    return fail(EXIT_USAGE, "--steps %lld --batch %lld: an epoch has %lld steps, and a multiple of that is accepted",
                (long long)t->steps, (long long)t->batch, (long long)t->epoch);
}

/* Do the steps and epochs give the batch that was asked for, to a hundredth? */
static bool keeps_batch(const training *t) {
    const double expected = (double)t->units * (double)t->epochs / (double)t->steps;
    return fabs(expected - (double)t->batch) <= 0.01 * (double)t->batch;
}

/* Steps of `epochs` passes, whole ones of equal length or not. */
static int64_t steps_of(const training *t, bool whole) {
    const double once = (double)t->units / (double)t->batch;
    const double steps = whole ? round(once) * (double)t->epochs : round(once * (double)t->epochs);
    return steps < 1.0 ? 1 : (int64_t)steps;
}

/* Sampling: whole epochs, since that is what a design takes; the expected batch may move by a hundredth for it. */
static int plan_sampling(training *t, bool steps, bool batch, bool epochs) {
    const double units = (double)t->units;
    const bool even = training_samples(t, "allocation") || training_samples(t, "balls-in-bins");
    if (!steps) t->steps = steps_of(t, even);
    if (!epochs) t->epochs = (int64_t)llround((double)t->batch * (double)t->steps / units);
    if (!steps && !keeps_batch(t))
        return fail(EXIT_USAGE,
                    "--batch %lld --epochs %lld: no number of steps has batches of that size, to a hundredth, under "
                    "%s sampling; a batch that divides the %lld units is accepted",
                    (long long)t->batch, (long long)t->epochs, training_sampling(t), (long long)t->units);
    if (batch && !keeps_batch(t))
        return fail(
            EXIT_USAGE,
            "--steps %lld --batch %lld are %.4g epochs of %lld units: a whole number is accepted under sampling",
            (long long)t->steps, (long long)t->batch, (double)t->batch * (double)t->steps / units, (long long)t->units);
    if (!batch) t->batch = (int64_t)llround(units * (double)t->epochs / (double)t->steps);
    t->epoch = ceil_divide(t->steps, t->epochs);
    if (even && t->epoch * t->epochs != t->steps)
        return fail(EXIT_USAGE,
                    "--sampling %s: %lld steps are not %lld whole epochs, in each of which every unit is used once",
                    training_sampling(t), (long long)t->steps, (long long)t->epochs);
    return 0;
}

static int plan_any(training *t, bool steps, bool batch, bool epochs) {
    const int64_t steps_given = t->steps, epochs_given = t->epochs;
    for (int whole = 1; batch && whole >= 0; whole--) {
        if (!steps) t->steps = steps_of(t, whole != 0);
        if (!epochs) t->epochs = (int64_t)llround((double)t->batch * (double)t->steps / (double)t->units);
        if (t->epochs < 1 || !keeps_batch(t)) continue;
        t->epoch = ceil_divide(t->steps, t->epochs);
        if (training_order(t, t->epoch) > 0) return 0;
    }
    t->steps = steps_given;
    t->epochs = epochs_given;
    return plan_order(t, steps, batch, epochs);
}

int training_plan(training *t) {
    const arguments *given = t->given;
    const bool steps = option_given(given, OPTION_STEPS), batch = option_given(given, OPTION_BATCH);
    const bool epochs = option_given(given, OPTION_EPOCHS);
    t->steps = given->count[OPTION_STEPS];
    t->batch = given->count[OPTION_BATCH];
    t->epochs = given->count[OPTION_EPOCHS];
    if (batch && t->batch > t->units)
        return fail(EXIT_USAGE, "--batch %lld: at most the %lld %s are accepted", (long long)t->batch,
                    (long long)t->units, training_by_user(t) ? "users" : "training examples");
    if (given->operand != NULL) return 0;
    if (steps + batch + epochs != 2) return fail(EXIT_USAGE, "train needs two of --steps N, --batch M and --epochs K");
    if (steps && epochs && t->epochs > t->steps)
        return fail(EXIT_USAGE, "--epochs %lld: at most the %lld steps are accepted", (long long)t->epochs,
                    (long long)t->steps);
    if (!steps && (double)t->units / (double)t->batch * (double)t->epochs > STEPS_MAX)
        return fail(EXIT_USAGE, "--batch %lld --epochs %lld: more than %g steps of %lld units; fewer are accepted",
                    (long long)t->batch, (long long)t->epochs, STEPS_MAX, (long long)t->units);
    if (training_samples(t, "none")) return plan_order(t, steps, batch, epochs);
    return training_samples(t, TRAINING_ANY) ? plan_any(t, steps, batch, epochs)
                                             : plan_sampling(t, steps, batch, epochs);
}

/* ---- the schedule and the workload ---- */

static bool is_constant(const training *t) {
    return option_is(t->given, OPTION_SCHEDULE, "constant");
}

static int read_schedule(training *t) {
    if (is_constant(t)) return 0;
    t->schedule = allocate(t->steps, sizeof *t->schedule);
    if (t->schedule == NULL) return fail_memory();
    dpmf_status status = dpmf_schedule_parse(option_text(t->given, OPTION_SCHEDULE), t->steps, t->schedule);
    return status == DPMF_OK ? 0 : fail_status(status, "--schedule");
}

uint64_t training_schedule_hash(const training *t) {
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a, over the bytes of the factors */
    for (int64_t i = 0; t->schedule != NULL && i < t->steps; ++i) {
        unsigned char bytes[sizeof *t->schedule];
        memcpy(bytes, &t->schedule[i], sizeof bytes);
        for (size_t j = 0; j < sizeof bytes; ++j)
            hash = (hash ^ bytes[j]) * 0x100000001b3u;
    }
    return hash;
}

/* SGD with its momentum, schedule and decay, as a workload. The sums that ftrl projects are the same map. */
static void add_own_workload(const training *t, text_buffer *text) {
    const arguments *given = t->given;
    const double momentum = given->number[OPTION_MOMENTUM];
    const double decay = given->number[OPTION_DECAY] * given->number[OPTION_LEARNING_RATE];
    if (momentum > 0.0) text_add(text, "momentum:%.17g", momentum);
    if (!is_constant(t)) text_add(text, "%s%s", text->length > 0 ? "," : "", option_text(given, OPTION_SCHEDULE));
    if (decay > 0.0) text_add(text, "%sdecay:%.17g", text->length > 0 ? "," : "", decay);
    if (text->length == 0) text_add(text, "prefix");
}

int training_workload(training *t) {
    const arguments *given = t->given;
    const char *wanted = option_given(given, OPTION_WORKLOAD) ? given->text[OPTION_WORKLOAD] : DEFAULT_WORKLOAD;
    const bool own = strcmp(wanted, OWN_WORKLOAD) == 0;
    text_buffer text = {0};
    int code = read_schedule(t);
    if (code != 0 || given->operand != NULL) return code;
    if (own && !option_is(given, OPTION_OPTIMIZER, "sgd") && !option_is(given, OPTION_OPTIMIZER, "ftrl"))
        return fail(EXIT_USAGE, "--workload own: %s is not a linear map and has no workload; prefix is accepted",
                    option_text(given, OPTION_OPTIMIZER));
    if (own)
        add_own_workload(t, &text);
    else
        text_add(&text, "%s", wanted);
    dpmf_status status = text.failed ? DPMF_ERROR_MEMORY : dpmf_workload_parse(text.bytes, t->steps, &t->workload);
    text_free(&text);
    return status == DPMF_OK ? 0 : fail_status(status, own ? "--workload own" : "--workload");
}
