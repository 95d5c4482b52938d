/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every mechanism that the library makes for a setting, against the one that design chooses: each family of the table,
 * optimized for the setting's loss and for the RMS loss, or in closed form; bands and buffers over powers of two, with the
 * epoch's length and all steps among them; columns normalized and not; with seeds shared and not; and, where sampling
 * is asked for, accounted for with it. The measure is sigma x loss, as for design, of those that fit the memory.
 * Nothing is timed: without measurements every candidate counts as fast enough.
 *
 * In longer runs rivals without sampling are tried only where the proven bound (optimum/bound.c, which has tests of its own)
 * leaves room for them, and banded and dense C for the max loss only where they take seconds.
 */
#ifndef DPMF_TESTS_DESIGN_RIVALS_H
#define DPMF_TESTS_DESIGN_RIVALS_H

#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct rival_setting {
    const char *workload;
    int64_t steps, epochs;
    dpmf_loss loss;
    int sampled;
    int rows; /* that the memory has room for, about; 0: any number */
    double epsilon;
} rival_setting;

enum { RIVAL_DIM = 20000, RIVAL_SIGMAS = 2048, RIVAL_SHORT = 40 };

static const double RIVAL_CLEARLY = 1.002; /* noise over a rival's */

/* n b^2 up to which banded C is optimized for the RMS loss, and for the max loss, which takes far longer. */
static const double RIVAL_BANDED = 2e6, RIVAL_BANDED_MAX = 5e4;

/* n k^2 up to which dense C is optimized for the max loss over several epochs: beyond, it takes minutes. */
static const double RIVAL_DENSE_MAX = 1500;

typedef struct rivals {
    rival_setting setting;
    dpmf_design_options options;
    const dpmf_workload *workload;
    const dpmf_participation *participation;
    double sigma[RIVAL_SIGMAS + 1]; /* for this many blocks, 0 where not calibrated yet; [0]: not sampled */
    double least;                   /* noise */
    int tried, proven;              /* proven: without sampling there is nothing clearly better */
    char best[200];
} rivals;

/* ---- one mechanism ---- */

static inline double rival_sigma(rivals *r, const dpmf_mechanism *m, const dpmf_sampling *sampling) {
    const dpmf_account_options a = dpmf_mechanism_account_options(m);
    dpmf_privacy found;
    assert_true(sampling->count <= RIVAL_SIGMAS);
    double *known = &r->sigma[dpmf_sampling_is_none(sampling) ? 0 : sampling->count];
    if (*known == 0) {
        check_ok(dpmf_calibrate_sigma(r->options.epsilon, r->options.delta, &a, &found));
        *known = found.sigma;
    }
    return *known;
}

static inline int rival_fits(const rivals *r, const dpmf_mechanism *m) {
    uint64_t bytes = 0, buffers = 0;
    if (r->options.memory == 0) return 1;
    return dpmf_noise_memory(m, r->options.dim, NULL, &bytes, &buffers) == DPMF_OK && bytes <= r->options.memory;
}

static inline void rival_weigh(rivals *r, const dpmf_strategy *s, const dpmf_sampling *sampling, const char *how) {
    dpmf_mechanism_options o = dpmf_mechanism_options_defaults();
    dpmf_mechanism *m = NULL;
    o.evaluate.lower_bound = DPMF_LOWER_BOUND_NONE;
    o.sampling = *sampling;
    if (dpmf_mechanism_create(r->workload, r->participation, s, &o, &m) != DPMF_OK) return;
    if (rival_fits(r, m)) {
        const dpmf_evaluation e = dpmf_mechanism_get(m).evaluation;
        const double loss = r->setting.loss == DPMF_LOSS_MAX ? e.max_loss : e.rms_loss;
        const double noise = rival_sigma(r, m, sampling) * loss;
        r->tried++;
        if (noise < r->least) {
            r->least = noise;
            snprintf(r->best, sizeof r->best, "%s%s, %lld buffers%s", how,
                     dpmf_strategy_get(s).is_normalized ? " normalized" : "", (long long)dpmf_strategy_get(s).buffers,
                     dpmf_sampling_is_none(sampling) ? "" : ", sampled");
        }
    }
    dpmf_mechanism_free(m);
}

/*
 * Without sampling, and with as many blocks as C has bands; as it is, and with normalized columns. More blocks than
 * steps per epoch would use a unit less often than the setting requires.
 */
static inline void rival_enter(rivals *r, const dpmf_strategy *s, const char *how) {
    const double q = (double)r->setting.epochs / (double)r->setting.steps;
    const int64_t bands = dpmf_strategy_get(s).bands, epoch = dpmf_participation_get(r->participation).separation;
    const dpmf_sampling none = {0}, poisson = {DPMF_SAMPLING_POISSON, q, 1, 0, 0, 0},
                        blocks = {DPMF_SAMPLING_BLOCK_CYCLIC, q, bands, 0, 0, 0};
    dpmf_strategy *normalized = NULL;
    if (!r->proven) rival_weigh(r, s, &none, how);
    if (r->setting.sampled && bands > 0 && bands <= epoch) rival_weigh(r, s, bands == 1 ? &poisson : &blocks, how);
    if (dpmf_strategy_get(s).is_normalized || dpmf_strategy_create_normalized(s, &normalized) != DPMF_OK) return;
    if (!r->proven) rival_weigh(r, normalized, &none, how);
    if (r->setting.sampled && bands > 1 && bands <= epoch) rival_weigh(r, normalized, &blocks, how);
    dpmf_strategy_free(normalized);
}

/* ---- all of a family ---- */

static inline int rival_takes_long(const rivals *r, const char *family, int64_t bands, int max_loss) {
    const double n = (double)r->setting.steps, k = (double)r->setting.epochs, b = (double)bands;
    if (strcmp(family, DPMF_FAMILY_BANDED) == 0) return n * b * b > (max_loss ? RIVAL_BANDED_MAX : RIVAL_BANDED);
    return strcmp(family, DPMF_FAMILY_DENSE) == 0 && max_loss && k > 1 && n * k * k > RIVAL_DENSE_MAX;
}

static inline void rival_optimize(rivals *r, const char *family, const dpmf_participation *p, dpmf_optimize_options o) {
    for (int loss = 0; loss <= (int)r->setting.loss; loss++) {
        dpmf_optimization found;
        dpmf_strategy *s = NULL;
        char how[120];
        if (rival_takes_long(r, family, o.bands, loss)) continue;
        o.loss = (dpmf_loss)loss;
        snprintf(how, sizeof how, "%s for the %s loss, %s, bands %lld buffers %d seeds %d normalize %d", family,
                 loss ? "max" : "RMS", p == NULL ? "single" : dpmf_participation_get(p).text, (long long)o.bands,
                 o.buffers, o.shared_seeds, (int)o.normalize);
        if (dpmf_optimize(family, r->workload, p, &o, &s, &found) != DPMF_OK || s == NULL) continue;
        rival_enter(r, s, how);
        dpmf_strategy_free(s);
    }
}

static inline void rival_variants(rivals *r, const dpmf_family *f, dpmf_optimize_options o) {
    const dpmf_participation *single = NULL;
    if (r->setting.rows > 0 && o.bands + o.buffers > r->setting.rows + 1) return; /* would not fit */
    for (int normalize = 0; normalize <= (f->optimize_normalize ? DPMF_NORMALIZE_WITHIN : 0); normalize++) {
        if (normalize == DPMF_NORMALIZE_AFTER) continue; /* every strategy is normalized when it is entered */
        o.normalize = (dpmf_normalize)normalize;
        if (!r->proven || r->setting.epochs == 1) rival_optimize(r, f->name, r->participation, o);
        if (r->setting.sampled && f->optimize_bands && r->setting.epochs > 1) rival_optimize(r, f->name, single, o);
    }
    o.normalize = DPMF_NORMALIZE_NONE;
    o.shared_seeds = 2;
    if (!r->proven && f->optimize_shared_seeds >= 2 && o.buffers == 4 && r->setting.epochs > 1)
        rival_optimize(r, f->name, r->participation, o);
}

/* The next size after `at`: powers of two, the epoch's length and all steps. */
static inline int64_t rival_next(const rivals *r, int64_t at) {
    const int64_t epoch = dpmf_participation_get(r->participation).separation, n = r->setting.steps;
    int64_t next = 1;
    while (next <= at)
        next *= 2;
    if (epoch > at && epoch < next) next = epoch;
    return next < n || at >= n ? next : n;
}

static inline void rival_family(rivals *r, const dpmf_family *f) {
    dpmf_optimize_options o = dpmf_optimize_options_defaults();
    dpmf_strategy_options c = dpmf_strategy_options_defaults();
    const int64_t n = r->setting.steps, most_buffers = f->optimize_buffers < 8 ? f->optimize_buffers : 8;
    o.tolerance = f->optimize_shared_seeds > 0 && r->setting.epochs > 1 ? 0.1 : 1e-3; /* of a bound that is not read */
    o.run.threads = 1;
    if (f->optimized != 0 && f->optimize_bands && f->optimize_buffers == 0)
        for (o.bands = 2; o.bands <= n; o.bands = rival_next(r, o.bands))
            rival_variants(r, f, o);
    else if (f->optimized != 0) {
        o.bands = f->optimize_bands ? 2 : 0;
        for (o.buffers = most_buffers > 0; o.buffers <= most_buffers && o.bands <= n; o.buffers *= 2) {
            rival_variants(r, f, o);
            if (o.buffers == 0) break;
        }
    }
    for (c.bands = f->bands ? 2 : 0; f->closed_form && c.bands <= n; c.bands = rival_next(r, c.bands)) {
        dpmf_strategy *s = NULL;
        if (dpmf_strategy_create(f->name, r->workload, &c, &s) == DPMF_OK) rival_enter(r, s, f->name);
        dpmf_strategy_free(s);
        if (c.bands == 0) break;
    }
}

/* ---- a setting ---- */

static inline dpmf_design_options rival_options(const rival_setting *s) {
    dpmf_design_options o = dpmf_design_options_defaults();
    o.epochs = s->epochs;
    o.max_overhead = INFINITY;
    o.dim = RIVAL_DIM;
    o.loss = s->loss;
    o.epsilon = s->epsilon;
    o.memory = (uint64_t)s->rows * RIVAL_DIM * sizeof(float);
    if (s->sampled) o.sampling = DPMF_SAMPLING_BLOCK_CYCLIC;
    return o;
}

/* The chosen one's noise over the least of all rivals; `r` names that one. */
static inline double rival_ratio(const rival_setting *s, rivals *r) {
    dpmf_workload *a = workload_of(s->workload, s->steps);
    dpmf_design *d = NULL;
    *r = (rivals){.setting = *s, .options = rival_options(s), .workload = a, .least = INFINITY};
    check_ok(dpmf_design_create(a, &r->options, &d));
    const dpmf_candidate *chosen = dpmf_design_candidate(d, dpmf_design_get(d).chosen);
    r->participation = dpmf_mechanism_get(dpmf_design_get(d).mechanism).participation;
    r->proven = s->steps > RIVAL_SHORT && chosen->ratio > 0 && chosen->ratio <= RIVAL_CLEARLY;
    for (int64_t i = 0; dpmf_family_info(i) != NULL && (!r->proven || s->sampled); i++)
        rival_family(r, dpmf_family_info(i));
    const double noise = s->loss == DPMF_LOSS_MAX ? chosen->noise_max : chosen->noise_rms;
    assert_true(r->tried > 0 || r->proven);
    dpmf_design_free(d);
    dpmf_workload_free(a);
    return noise / r->least;
}

static inline void check_no_rival(const rival_setting *s) {
    static rivals r; /* large */
    const double ratio = rival_ratio(s, &r);
    if (ratio > RIVAL_CLEARLY)
        fail_msg("%s, %lld steps, %lld epochs, %s loss, %s, memory for %d rows, epsilon %g: %.6g times the noise of %s",
                 s->workload, (long long)s->steps, (long long)s->epochs, s->loss ? "max" : "RMS",
                 s->sampled ? "sampled" : "not sampled", s->rows, s->epsilon, ratio, r.best);
}

/* Setting number i of the sequence that begins with `seed`, with steps from `least` to `most`, mostly few. */
static inline rival_setting rival_random(int i, uint64_t *seed, int64_t least, int64_t most) {
    static const char *const workloads[] = {"prefix",
                                            "momentum:0.9",
                                            "decay:0.01",
                                            "nesterov:0.8",
                                            "momentum:0.9,cooldown:0.3:0.01",
                                            "cooldown:0.5:0.1",
                                            "momentum:0.6,decay:0.02,cooldown:0.2:0.1"};
    static const int rows[] = {0, 0, 4, 7, 40};
    static const double epsilons[] = {8, 1, 3};
    const double at = 0.5 * (check_random(seed) + 1), passes = 0.5 * (check_random(seed) + 1);
    const int64_t steps = (int64_t)((double)least * pow((double)most / (double)least, at * at));
    int64_t epochs = i % 4 == 0 ? 1 : 2 + (int64_t)(8 * passes * passes);
    if (epochs > steps / 2) epochs = steps / 2;
    return (rival_setting){workloads[i % 7], steps,       epochs,         i % 3 == 2 ? DPMF_LOSS_MAX : DPMF_LOSS_RMS,
                           i / 2 % 2,        rows[i % 5], epsilons[i % 3]};
}

/* The first settings of up to 300 steps, or 40 for the max loss, which takes longer. */
static inline void check_short_rivals(int count) {
    uint64_t seed = 2026;
    for (int i = 0; i < count; i++) {
        const int max_loss = i % 3 == 2;
        const rival_setting s = rival_random(i, &seed, 6, max_loss ? 40 : 300);
        assert_true(max_loss == (s.loss == DPMF_LOSS_MAX));
        check_no_rival(&s);
    }
}

#endif
