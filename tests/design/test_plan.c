/* SPDX-License-Identifier: Apache-2.0 */
/* Plans: rows against designs, the rule against a table, parts of an epoch, what is ruled out, refusals. */
#include "design/plan.h"
#include "support/check.h"
#include "support/design_cases.h"
#include "support/failing_allocator.h"

#include <math.h>
#include <string.h>

static dpmf_plan_options small_plan(void) {
    dpmf_plan_options o = dpmf_plan_options_defaults();
    o.units = 1200;
    o.epochs_low = 1;
    o.epochs_high = 4;
    o.batch_low = 20;
    o.batch_high = 300;
    o.design.epsilon = 3;
    o.design.delta = 1e-5;
    o.design.dim = 1000;
    return o;
}

static dpmf_plan *make_plan(const dpmf_plan_options *o) {
    dpmf_plan *p = NULL;
    check_ok(dpmf_plan_create(o, &p));
    return p;
}

static dpmf_design *design_of(const dpmf_plan_options *o, const dpmf_plan_row *row) {
    dpmf_design_options d = o->design;
    d.epochs = (int64_t)row->epochs;
    return make_design(o->workload == NULL ? "prefix" : o->workload, row->steps, &d);
}

static dpmf_design *independent_of(const dpmf_plan_options *o, const dpmf_plan_row *row) {
    dpmf_plan_options own = *o;
    own.design.families = "identity";
    own.design.any_sampling = 0;
    own.design.sampling = DPMF_SAMPLING_POISSON;
    return design_of(&own, row);
}

/* ---- rows ---- */

static void check_rows(const dpmf_plan_options *o) {
    dpmf_plan *p = make_plan(o);
    for (int64_t i = 0; i < dpmf_plan_get(p).count; i++) {
        const dpmf_plan_row *row = &dpmf_plan_get(p).rows[i];
        dpmf_design *d = design_of(o, row), *independent = independent_of(o, row);
        const dpmf_candidate *c = chosen_of(d),
                             *sgd = find_candidate(independent, "identity", DPMF_SAMPLING_POISSON, -1, -1);
        const int max_loss = o->design.loss == DPMF_LOSS_MAX;
        assert_string_equal(row->chosen.family, c->family);
        assert_int_equal(row->chosen.bands, c->bands);
        assert_int_equal(row->chosen.buffers, c->buffers);
        assert_int_equal(row->chosen.sampling.kind, c->sampling.kind);
        check_near(row->noise_per_epoch, (max_loss ? c->noise_max : c->noise_rms) / row->epochs, 1e-12);
        check_near(row->independent_noise_per_epoch, (max_loss ? sgd->noise_max : sgd->noise_rms) / row->epochs, 1e-12);
        check_near(row->batch, row->epochs * (double)o->units / (double)row->steps, 1e-15);
        assert_int_equal(row->chosen.memory_bytes, c->memory_bytes);
        assert_true(row->seconds_per_step > 0);
        if (i == dpmf_plan_get(p).recommended)
            assert_string_equal(dpmf_mechanism_get(dpmf_plan_get(p).mechanism).digest,
                                dpmf_mechanism_get(dpmf_design_get(d).mechanism).digest);
        dpmf_design_free(independent);
        dpmf_design_free(d);
    }
    dpmf_plan_free(p);
}

static void test_every_row_is_the_design_of_its_steps_and_epochs(void **state) {
    (void)state;
    dpmf_plan_options o = small_plan();
    o.epochs_low = 2;
    o.batch_low = 60; /* from 60 to 120: independent noise is chosen, and is certain to lose */
    o.batch_high = 120;
    check_rows(&o);
}

static void test_rows_without_sampling_have_dp_sgd_beside_them(void **state) {
    (void)state;
    dpmf_plan_options o = small_plan();
    o.design.any_sampling = 0;
    o.design.families = "tvblt,blt,banded-toeplitz";
    o.design.loss = DPMF_LOSS_MAX;
    o.design.adjacency = DPMF_ADJACENCY_REPLACE_ONE;
    o.workload = "momentum:0.5";
    o.epochs_low = o.epochs_high = 2;
    o.batch_low = 100;
    check_rows(&o);
}

static void test_the_grid_has_both_ends_and_doublings_between(void **state) {
    (void)state;
    static const struct {
        double epochs;
        int64_t steps;
    } EXPECTED[] = {{0.5, 6}, {0.5, 10}, {0.5, 20}, {0.5, 40}, {1, 12}, {1, 20},
                    {1, 40},  {1, 80},   {2, 24},   {2, 40},   {2, 80}, {2, 160}};
    dpmf_plan_options o = small_plan();
    o.units = 600;
    o.epochs_low = 0.5;
    o.epochs_high = 2;
    o.batch_low = 0;
    o.batch_high = 0;
    o.design.families = "identity";
    o.design.any_sampling = 0;
    dpmf_plan *p = make_plan(&o); /* 1 to 60: 1, 2, 4, ..., 32, 60 */
    assert_int_equal(dpmf_plan_get(p).count, 3 * 7);
    assert_int_equal(dpmf_plan_get(p).rows[7].steps, 10);
    assert_int_equal(dpmf_plan_get(p).rows[13].steps, 600);
    dpmf_plan_free(p);
    o.units = 1200;
    o.batch_low = 15; /* 15, 30, 60, 100 */
    o.batch_high = 100;
    p = make_plan(&o);
    assert_int_equal(dpmf_plan_get(p).count, 12);
    for (int64_t i = 0; i < 12; i++) {
        check_near(dpmf_plan_get(p).rows[i].epochs, EXPECTED[i].epochs, 0);
        assert_int_equal(dpmf_plan_get(p).rows[i].steps, EXPECTED[i].steps);
    }
    dpmf_plan_free(p);
    o.epochs_low = 3;
    o.epochs_high = 10; /* 3, 6, 10 */
    o.batch_low = o.batch_high = 100;
    p = make_plan(&o);
    assert_int_equal(dpmf_plan_get(p).count, 3);
    check_near(dpmf_plan_get(p).rows[2].epochs, 10, 0);
    assert_int_equal(dpmf_plan_get(p).rows[2].steps, 120);
    dpmf_plan_free(p);
}

/* ---- the rule ---- */

static void test_the_rule_walks_up_while_a_doubling_costs_little(void **state) {
    (void)state;
    /* Of 20 % at 1000 steps. 1 epoch: 9 % at 2000 (allowed 10), 5 % at 4000 (allowed 5), 3 % at 8000 (allowed 2.5); 2 epochs:
     * 5 % for 1.5 doublings to 5657 (allowed 5.35), 2 % at 11 314 (allowed 1.8). */
    dpmf_plan_row rows[] = {
        {.epochs = 1, .steps = 1000, .noise_per_epoch = 1},
        {.epochs = 1, .steps = 2000, .noise_per_epoch = 1.09},
        {.epochs = 1, .steps = 4000, .noise_per_epoch = 1.09 * 1.05},
        {.epochs = 1, .steps = 8000, .noise_per_epoch = 1.09 * 1.05 * 1.03},
        {.epochs = 2, .steps = 2000, .noise_per_epoch = 0.9},
        {.epochs = 2, .steps = 5657, .noise_per_epoch = 0.9 * 1.05},
        {.epochs = 2, .steps = 11314, .noise_per_epoch = 0.9 * 1.05 * 1.02},
    };
    assert_int_equal(plan_recommend(rows, 7, 0.2), 5);
    for (int i = 0; i < 7; i++) {
        assert_int_equal(rows[i].best_of_epochs, i == 2 || i == 5);
        rows[i].best_of_epochs = 0;
    }
    assert_int_equal(plan_recommend(rows, 7, 0), 4);
    assert_true(rows[0].best_of_epochs && rows[4].best_of_epochs);
    assert_int_equal(plan_recommend(rows, 7, 1), 6);
    rows[4].noise_per_epoch = 1; /* of equal noise the fewer epochs */
    assert_int_equal(plan_recommend(rows, 5, 0), 0);
}

static void test_the_recommendation_is_the_rule_of_the_rows(void **state) {
    (void)state;
    static const double WITHIN[] = {0.05, 0.25};
    for (int j = 0; j < 2; j++) {
        dpmf_plan_options o = small_plan();
        o.design.families = "identity,banded-toeplitz";
        o.design.any_sampling = 0;
        o.design.sampling = DPMF_SAMPLING_BLOCK_CYCLIC;
        o.within = WITHIN[j];
        dpmf_plan *p = make_plan(&o);
        dpmf_plan_row copy[32];
        const dpmf_plan_info found = dpmf_plan_get(p);
        assert_true(found.count <= 32);
        for (int64_t i = 0; i < found.count; i++)
            copy[i] = dpmf_plan_get(p).rows[i];
        assert_int_equal(plan_recommend(copy, found.count, o.within), found.recommended);
        assert_non_null(strstr(found.why, "DP-SGD"));
        assert_non_null(strstr(found.rule, j == 0 ? "5 %" : "25 %"));
        assert_non_null(strstr(found.text, "Rule:"));
        assert_non_null(strstr(found.text, "\n>"));
        dpmf_plan_free(p);
    }
}

/* ---- a part of an epoch ---- */

static void test_half_an_epoch_uses_each_unit_at_most_once(void **state) {
    (void)state;
    dpmf_plan_options o = small_plan();
    o.epochs_low = o.epochs_high = 0.5;
    o.batch_low = o.batch_high = 20;
    dpmf_plan *p = make_plan(&o);
    const dpmf_plan_row *row = &dpmf_plan_get(p).rows[0];
    dpmf_account_options a = dpmf_account_options_defaults();
    dpmf_privacy found;
    assert_int_equal(row->steps, 30);
    check_near(row->batch, 20, 1e-15);
    check_near(row->independent.sampling.probability, 0.5 / 30, 1e-15);
    a.sampling = (dpmf_sampling){.kind = DPMF_SAMPLING_POISSON, .probability = 0.5 / 30};
    a.compositions = 30;
    check_ok(dpmf_account_epsilon(row->independent.sigma, 1e-5, &a, &found));
    assert_true(found.epsilon <= 3 && found.epsilon > 2.99);
    assert_true(row->chosen.sampling.kind != DPMF_SAMPLING_ALLOCATION);
    assert_true(row->noise_per_epoch <= 1.001 * row->independent_noise_per_epoch);
    dpmf_plan_free(p);
    o.design.any_sampling = 0; /* in a fixed order: as one pass of 30 steps, for which a unit takes part once */
    p = make_plan(&o);
    o.epochs_low = 1;
    dpmf_plan_row whole = dpmf_plan_get(p).rows[0];
    whole.epochs = 1;
    dpmf_design *d = design_of(&o, &whole);
    check_near(dpmf_plan_get(p).rows[0].chosen.noise_rms, chosen_of(d)->noise_rms, 1e-12);
    check_near(dpmf_plan_get(p).rows[0].noise_per_epoch, chosen_of(d)->noise_rms / 0.5, 1e-12);
    dpmf_design_free(d);
    dpmf_plan_free(p);
}

/* ---- what is ruled out ---- */

/* The attack is never above the account's certified upper bound, and it finds something where sigma is far too small. */
static void test_the_attack_on_allocation_is_below_its_account(void **state) {
    (void)state;
    static const struct {
        int64_t bins, epochs;
        double sigma, epsilon;
    } CASES[] = {{10, 1, 0.5, 1}, {10, 3, 0.7, 2},   {50, 2, 0.4, 3},  {200, 1, 0.35, 3},
                 {6, 10, 2, 2},   {100, 4, 0.45, 4}, {25, 8, 0.8, 1.5}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        dpmf_account_options a = dpmf_account_options_defaults();
        dpmf_privacy found;
        const int64_t steps = CASES[i].bins * CASES[i].epochs;
        a.sampling = (dpmf_sampling){.kind = DPMF_SAMPLING_ALLOCATION, .count = CASES[i].bins, .picks = 1};
        a.compositions = steps;
        a.epochs = CASES[i].epochs;
        check_ok(dpmf_account_delta(CASES[i].sigma, CASES[i].epsilon, &a, &found));
        assert_false(design_allocation_exceeds(steps, CASES[i].epochs, CASES[i].sigma, CASES[i].epsilon, found.delta));
        assert_true(
            design_allocation_exceeds(steps, CASES[i].epochs, CASES[i].sigma, CASES[i].epsilon, found.delta / 50));
    }
}

/* ---- refusals ---- */

static void check_plan_refused(const dpmf_plan_options *o, dpmf_status expected, const char *part) {
    dpmf_plan *p = NULL;
    check_fails(expected, dpmf_plan_create(o, &p));
    check_message(part);
    assert_null(p);
}

static void test_ranges_that_are_not_possible_are_refused_by_name(void **state) {
    (void)state;
    dpmf_plan_options o = small_plan();
    o.units = 0;
    check_plan_refused(&o, DPMF_ERROR_ARGUMENT, "0 units");
    o = small_plan();
    o.batch_low = 500;
    check_plan_refused(&o, DPMF_ERROR_ARGUMENT, "batches from 500 to 300");
    o = small_plan();
    o.batch_high = 1201;
    check_plan_refused(&o, DPMF_ERROR_ARGUMENT, "<= 1200");
    o = small_plan();
    o.batch_low = 0;
    check_plan_refused(&o, DPMF_ERROR_ARGUMENT, "batches from 0");
    o = small_plan();
    o.epochs_low = 1.5;
    check_plan_refused(&o, DPMF_ERROR_ARGUMENT, "1.5 epochs");
    o.epochs_low = 0;
    check_plan_refused(&o, DPMF_ERROR_ARGUMENT, "0 epochs");
    o.epochs_low = 8;
    check_plan_refused(&o, DPMF_ERROR_ARGUMENT, "epochs from 8 to 4");
    o.epochs_low = NAN;
    check_plan_refused(&o, DPMF_ERROR_ARGUMENT, "nan epochs");
    o = small_plan();
    o.within = -0.1;
    check_plan_refused(&o, DPMF_ERROR_ARGUMENT, "within -0.1");
    o = small_plan();
    o.design.batch_cap = 10;
    check_plan_refused(&o, DPMF_ERROR_UNSUPPORTED, "cap");
    o = small_plan();
    o.design.epsilon = 0;
    check_plan_refused(&o, DPMF_ERROR_ARGUMENT, "epsilon 0");
    o = small_plan();
    o.design.families = "nothing";
    check_plan_refused(&o, DPMF_ERROR_ARGUMENT, "nothing");
    o = small_plan();
    o.workload = "nothing";
    check_plan_refused(&o, DPMF_ERROR_ARGUMENT, "nothing");
    o = small_plan();
    o.units = (int64_t)1 << 40;
    o.batch_low = 1;
    check_plan_refused(&o, DPMF_ERROR_ARGUMENT, "2^31 steps");
}

static int stop_at_once(void *context, const char *what, double done) {
    (void)what;
    (void)done;
    return --*(int *)context < 0;
}

static void test_a_plan_can_be_cancelled(void **state) {
    (void)state;
    dpmf_plan_options o = small_plan();
    dpmf_plan *p = NULL;
    int calls = 5;
    o.design.run.progress = stop_at_once;
    o.design.run.context = &calls;
    check_fails(DPMF_ERROR_CANCELLED, dpmf_plan_create(&o, &p));
    assert_null(p);
}

static void test_any_allocation_of_a_plan_may_fail(void **state) {
    (void)state;
    dpmf_plan_options o = small_plan();
    dpmf_plan *p = NULL;
    o.units = 4;
    o.epochs_low = o.epochs_high = 1;
    o.batch_low = o.batch_high = 4; /* one step with every unit: nothing to integrate */
    o.design.families = "identity";
    o.design.any_sampling = 0;
    o.design.run.threads = 1;
    FAIL_EACH(dpmf_plan_create(&o, &p));
    dpmf_plan_free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_row_is_the_design_of_its_steps_and_epochs),
        cmocka_unit_test(test_rows_without_sampling_have_dp_sgd_beside_them),
        cmocka_unit_test(test_the_grid_has_both_ends_and_doublings_between),
        cmocka_unit_test(test_the_rule_walks_up_while_a_doubling_costs_little),
        cmocka_unit_test(test_the_recommendation_is_the_rule_of_the_rows),
        cmocka_unit_test(test_half_an_epoch_uses_each_unit_at_most_once),
        cmocka_unit_test(test_the_attack_on_allocation_is_below_its_account),
        cmocka_unit_test(test_ranges_that_are_not_possible_are_refused_by_name),
        cmocka_unit_test(test_a_plan_can_be_cancelled),
        cmocka_unit_test(test_any_allocation_of_a_plan_may_fail),
    };
    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
