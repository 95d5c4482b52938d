/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the tests of design. */
#ifndef DPMF_TESTS_DESIGN_CASES_H
#define DPMF_TESTS_DESIGN_CASES_H

#include "support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Figures are tested, and not how fast a stream is: no time is too long. */
static inline dpmf_design_options quick_options(int64_t epochs) {
    dpmf_design_options o = dpmf_design_options_defaults();
    o.epochs = epochs;
    o.delta = 1e-6;
    o.max_overhead = INFINITY;
    return o;
}

static inline dpmf_design *make_design(const char *workload, int64_t steps, const dpmf_design_options *o) {
    dpmf_workload *a = NULL;
    dpmf_design *d = NULL;
    check_ok(dpmf_workload_parse(workload, steps, &a));
    check_ok(dpmf_design_create(a, o, &d));
    dpmf_workload_free(a);
    return d;
}

static inline void check_refused(const char *workload, int64_t steps, const dpmf_design_options *o,
                                 dpmf_status expected, const char *part) {
    dpmf_workload *a = NULL;
    dpmf_design *d = NULL;
    check_ok(dpmf_workload_parse(workload, steps, &a));
    check_fails(expected, dpmf_design_create(a, o, &d));
    check_message(part);
    assert_null(d);
    dpmf_workload_free(a);
}

static inline const dpmf_candidate *chosen_of(const dpmf_design *d) {
    return dpmf_design_candidate(d, dpmf_design_get(d).chosen);
}

/* The candidate of this family, sampling and size with the least noise, or NULL. bands, buffers: -1 any. */
static inline const dpmf_candidate *find_candidate(const dpmf_design *d, const char *family, dpmf_sampling_kind kind,
                                                   int64_t bands, int64_t buffers) {
    for (int64_t i = 0; i < dpmf_design_get(d).count; i++) {
        const dpmf_candidate *c = dpmf_design_candidate(d, i);
        if (strcmp(c->family, family) == 0 && c->sampling.kind == kind && (bands < 0 || c->bands == bands) &&
            (buffers < 0 || c->buffers == buffers))
            return c;
    }
    fail_msg("no candidate %s", family);
    return NULL;
}

/*
 * 16384 steps, 8 epochs, delta 1e-8 (the setting of McKenna 2024, Figure 1): the RMS noise of the amplified banded
 * mechanism with the best power of two for its bands, and that of others over it. The figures were computed apart from
 * this library, with an accountant that is exact to 1e-8.
 */
static inline void check_published(double epsilon, int64_t bands, double noise, double sgd, double unamplified,
                                   double blt) {
    dpmf_design_options o = quick_options(8);
    o.epsilon = epsilon;
    o.delta = 1e-8;
    o.dim = 1000000;
    o.memory = (uint64_t)4 << 30;
    o.sampling = DPMF_SAMPLING_BLOCK_CYCLIC;
    o.families = "identity,banded-toeplitz,blt";
    dpmf_design *d = make_design("prefix", 16384, &o);
    check_near(find_candidate(d, "banded-toeplitz", DPMF_SAMPLING_BLOCK_CYCLIC, bands, -1)->noise_rms, noise, 1e-3);
    check_near(find_candidate(d, "identity", DPMF_SAMPLING_POISSON, -1, -1)->noise_rms / noise, sgd, 1e-3);
    check_near(find_candidate(d, "banded-toeplitz", DPMF_SAMPLING_NONE, 2048, -1)->noise_rms / noise, unamplified,
               1e-4);
    check_near(find_candidate(d, "blt", DPMF_SAMPLING_NONE, -1, 5)->noise_rms / noise, blt, 1e-4);
    assert_true(chosen_of(d)->noise_rms <= 1.001 * noise);
    assert_int_equal(chosen_of(d)->sampling.kind, DPMF_SAMPLING_BLOCK_CYCLIC);
    assert_false(find_candidate(d, "banded-toeplitz", DPMF_SAMPLING_NONE, 2048, -1)->eligible); /* 8 GB */
    dpmf_design_free(d);
}

#endif
