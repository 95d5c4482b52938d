/* SPDX-License-Identifier: Apache-2.0 */
/* Design: published figures, the choice and its reasons, constraints that bind, refusals. */
#include "design/design.h"
#include "strategy/strategy.h"
#include "support/check.h"
#include "support/design_cases.h"
#include "support/failing_allocator.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- McKenna 2024, Figure 1: amplified banded mechanisms against others ---- */

static void test_the_amplified_design_at_epsilon_1_is_the_published_one(void **state) {
    (void)state;
    check_published(1, 32, 34.0015, 2.0890, 1.8590, 1.9436);
}

/* ---- one pass ---- */

static void test_one_epoch_takes_a_tvblt_next_to_the_optimum(void **state) {
    (void)state;
    dpmf_design_options o = quick_options(1);
    dpmf_design *d = NULL;
    for (int max_loss = 0; max_loss < 2; max_loss++) {
        o.loss = max_loss ? DPMF_LOSS_MAX : DPMF_LOSS_RMS;
        o.families = "identity,tvblt,blt,tree-full,banded-toeplitz";
        d = make_design("prefix", 256, &o);
        const dpmf_candidate *c = chosen_of(d);
        assert_string_equal(c->family, "tvblt");
        assert_true(c->ratio >= 1 && c->ratio < 1.0011); /* to the optimum, which is proven */
        assert_true(c->buffers <= 6);
        assert_int_equal(c->sampling.kind, DPMF_SAMPLING_NONE);
        assert_int_equal(c->sigma_kind, DPMF_EXACT);
        assert_non_null(strstr(dpmf_design_get(d).why, "tvblt"));
        dpmf_design_free(d);
    }
}

/* Every family is optimized for both losses where the max loss is asked for. */
static void test_the_design_for_the_max_loss_is_not_above_that_for_the_rms_loss(void **state) {
    (void)state;
    static const struct {
        const char *workload;
        int64_t steps, epochs;
    } CASES[] = {{"prefix", 24, 4}, {"momentum:0.9", 30, 1}, {"momentum:0.9,cooldown:0.3:0.1", 24, 2}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        dpmf_design_options o = quick_options(CASES[i].epochs);
        dpmf_design *rms = make_design(CASES[i].workload, CASES[i].steps, &o);
        o.loss = DPMF_LOSS_MAX;
        dpmf_design *max = make_design(CASES[i].workload, CASES[i].steps, &o);
        assert_true(chosen_of(max)->noise_max <= 1.001 * chosen_of(rms)->noise_max);
        dpmf_design_free(max);
        dpmf_design_free(rms);
    }
}

/* ---- properties of every design ---- */

static void check_order(const dpmf_design *d, const dpmf_design_options *o) {
    double before = 0;
    for (int64_t i = 0; i < dpmf_design_get(d).count; i++) {
        const dpmf_candidate *c = dpmf_design_candidate(d, i);
        const double noise = o->loss == DPMF_LOSS_MAX ? c->noise_max : c->noise_rms;
        check_near(c->noise_rms, c->sigma * c->rms_loss, 1e-14);
        check_near(c->noise_max, c->sigma * c->max_loss, 1e-14);
        assert_true(noise >= before);
        assert_true(c->reason[0] != 0);
        assert_true(o->memory == 0 || !c->eligible || c->memory_bytes <= o->memory);
        before = noise;
    }
    assert_null(dpmf_design_candidate(d, -1));
    assert_null(dpmf_design_candidate(d, dpmf_design_get(d).count));
    assert_null(dpmf_design_warning(d, dpmf_design_get(d).warnings));
}

/* The fewest buffers of the eligible within 0.1 % of the least noise. */
static void check_choice(const dpmf_design *d, const dpmf_design_options *o) {
    const dpmf_candidate *chosen = chosen_of(d);
    double least = 0;
    assert_true(chosen->eligible);
    assert_int_equal(chosen->is_search_point, 0);
    for (int64_t i = 0; i < dpmf_design_get(d).count; i++) {
        const dpmf_candidate *c = dpmf_design_candidate(d, i);
        const double noise = o->loss == DPMF_LOSS_MAX ? c->noise_max : c->noise_rms;
        if (!c->eligible) continue;
        if (least == 0) least = noise;
        if (noise <= 1.001 * least) assert_true(chosen->buffers <= c->buffers);
    }
    assert_true((o->loss == DPMF_LOSS_MAX ? chosen->noise_max : chosen->noise_rms) <= 1.001 * least);
}

/* The mechanism is the candidate, and its guarantee is found again from it alone. */
static void check_mechanism(const dpmf_design *d, const dpmf_design_options *o) {
    const dpmf_mechanism *m = dpmf_design_get(d).mechanism;
    const dpmf_candidate *c = chosen_of(d);
    const dpmf_evaluation e = dpmf_mechanism_get(m).evaluation;
    const dpmf_account_options a = dpmf_mechanism_account_options(m);
    const dpmf_privacy p = dpmf_design_get(d).privacy;
    dpmf_privacy found;
    char text[4000];
    check_near(dpmf_mechanism_get(m).sigma, c->sigma, 0);
    check_near(e.sensitivity.value, c->sensitivity.value, 1e-14);
    assert_int_equal(e.sensitivity.of, c->sensitivity.of);
    check_near(e.rms_loss, c->rms_loss, 1e-12);
    check_near(e.max_loss, c->max_loss, 1e-12);
    check_near(p.epsilon, o->epsilon, 0);
    check_near(p.delta, o->delta, 0);
    check_ok(dpmf_account_epsilon(dpmf_mechanism_get(m).sigma, o->delta, &a, &found));
    assert_true(found.epsilon <= o->epsilon * (1 + 1e-9));
    assert_true(found.epsilon >= o->epsilon * (1 - 2e-3));
    assert_true(dpmf_design_statement(d, text, sizeof text) < sizeof text);
    assert_non_null(strstr(text, "example"));
}

static void check_design(const char *workload, int64_t steps, const dpmf_design_options *o) {
    dpmf_design *d = make_design(workload, steps, o);
    check_order(d, o);
    check_choice(d, o);
    check_mechanism(d, o);
    dpmf_design_free(d);
}

static void test_every_design_keeps_its_promises(void **state) {
    (void)state;
    static const struct {
        const char *workload;
        int64_t steps, epochs;
        dpmf_sampling_kind sampling;
        dpmf_loss loss;
        dpmf_adjacency adjacency;
    } CASES[] = {
        {"prefix", 1, 1, DPMF_SAMPLING_NONE, DPMF_LOSS_RMS, DPMF_ADJACENCY_ZERO_OUT},
        {"prefix", 2, 2, DPMF_SAMPLING_BLOCK_CYCLIC, DPMF_LOSS_RMS, DPMF_ADJACENCY_ADD_REMOVE},
        {"prefix", 10, 7, DPMF_SAMPLING_BLOCK_CYCLIC, DPMF_LOSS_RMS, DPMF_ADJACENCY_ZERO_OUT},
        {"prefix", 300, 4, DPMF_SAMPLING_BLOCK_CYCLIC, DPMF_LOSS_RMS, DPMF_ADJACENCY_ZERO_OUT},
        {"prefix", 40, 4, DPMF_SAMPLING_BLOCK_CYCLIC, DPMF_LOSS_MAX, DPMF_ADJACENCY_REPLACE_ONE},
        {"momentum:0.9,cooldown:0.2:0.1", 40, 5, DPMF_SAMPLING_BLOCK_CYCLIC, DPMF_LOSS_RMS, DPMF_ADJACENCY_ZERO_OUT},
        {"nesterov:0.9,decay:0.01", 120, 1, DPMF_SAMPLING_NONE, DPMF_LOSS_RMS, DPMF_ADJACENCY_REPLACE_ONE},
        {"prefix", 60, 60, DPMF_SAMPLING_NONE, DPMF_LOSS_RMS, DPMF_ADJACENCY_ZERO_OUT},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        dpmf_design_options o = quick_options(CASES[i].epochs);
        o.sampling = CASES[i].sampling;
        o.loss = CASES[i].loss;
        o.adjacency = CASES[i].adjacency;
        check_design(CASES[i].workload, CASES[i].steps, &o);
    }
}

/* Replacing a unit moves twice as far as taking it out, so that without sampling the noise doubles. */
static void test_replacing_a_unit_doubles_the_noise(void **state) {
    (void)state;
    dpmf_design_options o = quick_options(4);
    o.families = "identity,blt";
    dpmf_design *out = make_design("prefix", 64, &o);
    o.adjacency = DPMF_ADJACENCY_REPLACE_ONE;
    dpmf_design *replaced = make_design("prefix", 64, &o);
    check_near(chosen_of(replaced)->noise_rms, 2 * chosen_of(out)->noise_rms, 1e-9);
    check_near(chosen_of(replaced)->ratio, chosen_of(out)->ratio, 1e-9);
    dpmf_design_free(replaced);
    dpmf_design_free(out);
}

/* ---- constraints ---- */

static void test_the_choice_fits_the_memory(void **state) {
    (void)state;
    dpmf_design_options o = quick_options(4);
    o.families = "banded-toeplitz,blt,identity";
    o.dim = 1000000;
    dpmf_design *d = make_design("prefix", 120, &o);
    const int64_t free_buffers = chosen_of(d)->buffers;
    dpmf_design_free(d);
    o.memory = 11000000; /* room for two rows of 4 MB, not for three */
    d = make_design("prefix", 120, &o);
    assert_true(free_buffers > 2);
    assert_true(chosen_of(d)->buffers == 2);
    assert_true(chosen_of(d)->memory_bytes <= o.memory);
    assert_non_null(strstr(dpmf_design_get(d).why, "MiB"));
    dpmf_design_free(d);
    o.memory = 3000000; /* independent noise keeps no rows */
    d = make_design("prefix", 120, &o);
    assert_string_equal(chosen_of(d)->family, "identity");
    dpmf_design_free(d);
    d = NULL;
    o.families = "blt,banded-toeplitz";
    check_refused("prefix", 120, &o, DPMF_ERROR_UNSUPPORTED, "3000000 bytes; the smallest, ");
    o.memory = 2; /* 1 is DPMF_MEMORY_NO_ROWS */
    o.families = NULL;
    check_refused("prefix", 20, &o, DPMF_ERROR_UNSUPPORTED, "the smallest, identity with 0 buffers");
}

/* Candidates with times that are given: nothing is measured. */
static candidate timed(const char *family, int64_t buffers, double noise, double overhead) {
    return (candidate){
        .compared = noise,
        .info = {.family = family, .buffers = buffers, .memory_bytes = (uint64_t)buffers, .overhead = overhead}};
}

static void test_the_choice_is_fast_enough_with_the_fewest_buffers(void **state) {
    (void)state;
    candidate entry[] = {timed("identity", 0, 9, 1),  timed("banded", 50, 1, 6), timed("banded", 30, 1.5, 4.5),
                         timed("blt", 4, 2.001, 1.5), timed("tvblt", 6, 2, 2),   timed("blt", 3, 2.01, 1.4)};
    dpmf_design p = {.count = 6, .capacity = 6, .candidates = entry};
    int64_t chosen = -1;
    p.options.max_overhead = 4;
    check_ok(design_choose(&p, &chosen));
    assert_int_equal(chosen, 3); /* 0.05 % more noise than tvblt with 6 buffers, but 4 */
    assert_string_equal(entry[3].info.family, "blt");
    assert_int_equal(entry[3].info.buffers, 4);
    assert_false(entry[0].info.eligible || entry[1].info.eligible);
    assert_true(entry[2].info.eligible && entry[5].info.eligible);
    p.options.max_overhead = 5;
    check_ok(design_choose(&p, &chosen));
    assert_int_equal(entry[chosen].info.buffers, 30);
    p.options.memory = 20;
    check_ok(design_choose(&p, &chosen));
    assert_int_equal(entry[chosen].info.buffers, 4);
    p.options.max_overhead = 1.2;
    p.count = 5; /* all but independent noise */
    check_fails(DPMF_ERROR_UNSUPPORTED, design_choose(&p, &chosen));
    check_message("the fastest, blt with 3 buffers, takes 1.4 times");
    p.count = 0;
    check_fails(DPMF_ERROR_UNSUPPORTED, design_choose(&p, &chosen));
}

/* Times are measured; their values are not tested. */
static void test_times_are_measured(void **state) {
    (void)state;
    dpmf_design_options o = quick_options(2);
    o.measure = 1;
    o.families = "identity,blt";
    o.max_overhead = 1e6;
    o.dim = 1000;
    for (int64_t steps = 3; steps <= 1200; steps *= 20) {
        dpmf_design *d = make_design("prefix", steps, &o);
        assert_true(chosen_of(d)->overhead > 0 && chosen_of(d)->seconds_per_step > 0);
        dpmf_design_free(d);
    }
}

/* ---- texts ---- */

static void test_a_design_says_why_and_what_to_see_to(void **state) {
    (void)state;
    dpmf_design_options o = quick_options(8);
    o.sampling = DPMF_SAMPLING_BLOCK_CYCLIC;
    o.families = "identity,banded-toeplitz";
    o.epsilon = 2;
    dpmf_design *d = make_design("prefix", 1024, &o);
    assert_int_equal(chosen_of(d)->sampling.kind, DPMF_SAMPLING_BLOCK_CYCLIC);
    assert_non_null(strstr(dpmf_design_get(d).why, "independent noise (DP-SGD)"));
    assert_non_null(strstr(dpmf_design_get(d).why, "McKenna 2024, Section 4.2"));
    assert_non_null(strstr(dpmf_design_warning(d, 0), "block-cyclic Poisson"));
    dpmf_design_free(d);
    o.sampling = DPMF_SAMPLING_NONE;
    d = make_design("prefix", 1024, &o);
    assert_non_null(strstr(dpmf_design_warning(d, 0), "shuffles again"));
    dpmf_design_free(d);
}

/* ---- refusals ---- */

static void test_design_options_out_of_range_are_refused(void **state) {
    (void)state;
    dpmf_design *d = NULL;
    dpmf_design_options o = quick_options(1);
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_design_create(NULL, &o, &d));
#define REFUSED(change, part)                                                                                          \
    do {                                                                                                               \
        o = quick_options(1);                                                                                          \
        change;                                                                                                        \
        check_refused("prefix", 16, &o, DPMF_ERROR_ARGUMENT, part);                                                    \
    } while (0)
    REFUSED(o.epochs = 0, "0 epochs, accepted 1 to 16");
    REFUSED(o.epochs = 17, "17 epochs");
    REFUSED(o.epsilon = 0, "epsilon 0");
    REFUSED(o.epsilon = NAN, "epsilon");
    REFUSED(o.delta = 1, "delta 1");
    REFUSED(o.delta = 0, "delta 0");
    REFUSED(o.dim = -1, "dim -1");
    REFUSED(o.max_overhead = 0.5, "at most 0.5");
    REFUSED(o.sampling = (dpmf_sampling_kind)99, "sampling");
    REFUSED(o.families = "blt,nonsense", "'nonsense', accepted: identity");
    REFUSED(o.families = "blt,", "family ''");
    REFUSED(o.loss = (dpmf_loss)7, "loss 7");
    REFUSED(o.adjacency = (dpmf_adjacency)7, "adjacency 7");
    REFUSED(o.precision = (dpmf_precision)7, "precision 7");
    REFUSED(o.tolerance = 2, "tolerance 2");
    REFUSED((o.federated = 1, o.separation_low = 5, o.separation_high = 4), "separations 5 to 4");
    REFUSED((o.federated = 1, o.separation_low = 8, o.separation_high = 9, o.epochs = 3), "at most 2");
    REFUSED((o.federated = 1, o.separation_low = o.separation_high = 4, o.epochs = 2),
            "name the unit, for example user");
    REFUSED(o.unit = "user. In truth epsilon = 0.01", "up to 40 letters");
#undef REFUSED
}

static void test_design_offers_tvblt_over_several_epochs(void **unused) {
    dpmf_design_options o = quick_options(4);
    (void)unused;
    o.families = "tvblt,blt";
    dpmf_design *d = make_design("prefix", 64, &o);
    const dpmf_candidate *c = chosen_of(d);
    assert_string_equal(c->family, "tvblt");
    assert_true(c->buffers <= 4 && (c->normals_per_number == 2.5 || c->normals_per_number == 3));
    check_near(c->sensitivity.value, 1, 1e-11);
    assert_true(dpmf_sampling_is_none(&c->sampling));
    dpmf_design_free(d);
}

static int stop_soon(void *context, const char *what, double done) {
    int *left = context;
    (void)what;
    (void)done;
    return --*left < 0;
}

static void test_a_cancelled_design_leaves_nothing(void **state) {
    (void)state;
    for (int calls = 0; calls < 200; calls += 23) {
        const uint64_t before = dpmf_memory_in_use();
        int left = calls;
        dpmf_design_options o = quick_options(4);
        o.sampling = DPMF_SAMPLING_BLOCK_CYCLIC;
        o.run.progress = stop_soon;
        o.run.context = &left;
        check_refused("prefix", 256, &o, DPMF_ERROR_CANCELLED, "");
        assert_int_equal(dpmf_memory_in_use(), before);
    }
}

static void fail_each(const char *families, dpmf_sampling_kind sampling, int measure) {
    dpmf_design_options o = quick_options(2);
    dpmf_workload *a = NULL;
    dpmf_design *d = NULL;
    o.sampling = sampling;
    o.families = families;
    o.measure = measure;
    o.max_overhead = 1e9;
    o.dim = 10;
    o.run.threads = 1;
    check_ok(dpmf_workload_parse("prefix", 4, &a));
    FAIL_EACH(dpmf_design_create(a, &o, &d));
    dpmf_design_free(d);
    dpmf_workload_free(a);
}

static void test_any_allocation_of_a_design_may_fail(void **state) {
    (void)state;
    fail_each("banded-toeplitz,tree-full", DPMF_SAMPLING_BLOCK_CYCLIC, 0); /* 2 blocks of all: nothing to integrate */
    fail_each("identity", DPMF_SAMPLING_NONE, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_amplified_design_at_epsilon_1_is_the_published_one),
        cmocka_unit_test(test_one_epoch_takes_a_tvblt_next_to_the_optimum),
        cmocka_unit_test(test_the_design_for_the_max_loss_is_not_above_that_for_the_rms_loss),
        cmocka_unit_test(test_every_design_keeps_its_promises),
        cmocka_unit_test(test_replacing_a_unit_doubles_the_noise),
        cmocka_unit_test(test_the_choice_fits_the_memory),
        cmocka_unit_test(test_the_choice_is_fast_enough_with_the_fewest_buffers),
        cmocka_unit_test(test_times_are_measured),
        cmocka_unit_test(test_a_design_says_why_and_what_to_see_to),
        cmocka_unit_test(test_design_offers_tvblt_over_several_epochs),
        cmocka_unit_test(test_design_options_out_of_range_are_refused),
        cmocka_unit_test(test_a_cancelled_design_leaves_nothing),
        cmocka_unit_test(test_any_allocation_of_a_design_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
