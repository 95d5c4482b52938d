/* SPDX-License-Identifier: Apache-2.0 */
/* Random settings for design, and every mechanism that the optimizers make for each: none is clearly better. */
#ifndef DPMF_TESTS_DESIGN_RIVALS_H
#define DPMF_TESTS_DESIGN_RIVALS_H

#include "support/check.h"

#include <math.h>

static inline void rival(const char *family, const dpmf_workload *a, const dpmf_participation *p, dpmf_loss loss,
                         int64_t size, double most) {
    dpmf_optimize_options o = dpmf_optimize_options_defaults();
    dpmf_evaluate_options how = dpmf_evaluate_options_defaults();
    dpmf_optimization found;
    dpmf_evaluation e;
    dpmf_strategy *s = NULL;
    o.loss = loss;
    o.bands = size;
    o.buffers = (int)size;
    o.tolerance = 1e-3;
    how.lower_bound = DPMF_LOWER_BOUND_NONE;
    if (dpmf_optimize(family, a, p, &o, &s, &found) != DPMF_OK || s == NULL) return;
    check_ok(dpmf_evaluate(a, p, s, &how, &e, NULL));
    double is = loss == DPMF_LOSS_MAX ? e.max_loss : e.rms_loss;
    if (most > 1.002 * is)
        fail_msg("%s of size %lld, %s, %s: %.9g, chosen %.9g", family, (long long)size, dpmf_workload_text(a),
                 dpmf_participation_text(p), is, most);
    dpmf_strategy_free(s);
}

/* Without sampling sigma is the same for all: losses are compared. */
static inline void check_no_rival(int64_t n, int64_t epochs, const char *workload, dpmf_loss loss, int sampled) {
    static const char *const families[] = {"dense", "toeplitz", "banded-toeplitz", "banded", "blt", "tvblt", "bisr"};
    dpmf_workload *a = workload_of(workload, n);
    dpmf_design_options o = dpmf_design_options_defaults();
    dpmf_design *d = NULL;
    o.epochs = epochs;
    o.no_bench = 1;
    o.dim = 10;
    o.loss = loss;
    if (sampled) o.sampling = DPMF_SAMPLING_BLOCK_CYCLIC;
    check_ok(dpmf_design_create(a, &o, &d));
    const dpmf_candidate *chosen = dpmf_design_candidate(d, dpmf_design_chosen(d)), *best = NULL;
    for (int64_t i = 0; i < dpmf_design_count(d); i++) { /* the least without sampling */
        const dpmf_candidate *c = dpmf_design_candidate(d, i);
        double noise = loss == DPMF_LOSS_MAX ? c->noise_max : c->noise_rms;
        assert_true((loss == DPMF_LOSS_MAX ? chosen->noise_max : chosen->noise_rms) <= 1.002 * noise);
        assert_true(c->normals_per_number == 1);
        if (dpmf_sampling_is_none(&c->sampling) &&
            (best == NULL || noise < (loss == DPMF_LOSS_MAX ? best->noise_max : best->noise_rms)))
            best = c;
    }
    assert_non_null(best);
    const dpmf_participation *p = dpmf_mechanism_participation(dpmf_design_mechanism(d));
    double most = loss == DPMF_LOSS_MAX ? best->max_loss : best->rms_loss;
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        for (int64_t size = 2; size <= 8 && size < n; size *= 2)
            rival(families[i], a, p, loss, size, most);
    dpmf_design_free(d);
    dpmf_workload_free(a);
}

#endif
