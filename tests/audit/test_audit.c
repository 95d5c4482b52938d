/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Audits of honest runs stay below the claim and near it; with a tenth of the noise they pass it. Keys are fixed, so that a run
 * gives the same answer every time: with a fresh key an honest one would pass its claim in at most 5 of 100 (1 - confidence).
 */
#include "audit/audit.h"
#include "dpmf_train.h"
#include "support/check.h"
#include "support/failing_allocator.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct audited {
    const char *family, *participation, *sampling;
    int64_t steps, bands;
    double epsilon;
    dpmf_adjacency adjacency;
    int trained;
} audited;

static const double DELTA = 1e-5;

static dpmf_mechanism *make_mechanism(const audited *c) {
    dpmf_workload *workload = NULL;
    dpmf_strategy *strategy = NULL;
    dpmf_participation *participation = NULL;
    dpmf_mechanism *plain = NULL, *calibrated = NULL;
    dpmf_strategy_options shape = dpmf_strategy_options_defaults();
    dpmf_mechanism_options about = dpmf_mechanism_options_defaults();
    dpmf_sampling sampling = {0};
    shape.bands = c->bands;
    about.evaluate.adjacency = c->adjacency;
    about.evaluate.lower_bound = DPMF_LOWER_BOUND_NONE;
    if (c->sampling != NULL) check_ok(dpmf_sampling_parse(c->sampling, &sampling));
    check_ok(dpmf_workload_parse("prefix", c->steps, &workload));
    check_ok(dpmf_participation_parse(c->participation, c->steps, &participation));
    check_ok(dpmf_strategy_create(c->family, workload, &shape, &strategy));
    check_ok(dpmf_mechanism_create(workload, participation, strategy, &about, &plain));
    check_ok(dpmf_mechanism_calibrate(plain, c->epsilon, DELTA, c->sampling != NULL ? &sampling : NULL, NULL, NULL,
                                      &calibrated, NULL));
    dpmf_mechanism_free(plain);
    dpmf_strategy_free(strategy);
    dpmf_participation_free(participation);
    dpmf_workload_free(workload);
    return calibrated;
}

static dpmf_audit_result run_audit(const dpmf_mechanism *m, const audited *c, uint64_t seed, double factor) {
    dpmf_audit_options options = dpmf_audit_options_defaults();
    dpmf_audit *audit = NULL;
    uint8_t key[DPMF_KEY_SIZE];
    check_ok(dpmf_key_testing(seed, key));
    options.key = key;
    options.train = c->trained ? dpmf_trainer_audit : NULL;
    options.noise_factor = factor;
    options.run.threads = 1;
    check_ok(dpmf_audit_create(m, &options, &audit));
    const dpmf_audit_result found = dpmf_audit_get(audit).result;
    dpmf_audit_free(audit);
    return found;
}

/* Honest: at most the claim and at least a fifth of it, for 3 keys; a tenth of the noise: past it. */
static void check_audits(const audited *c) {
    dpmf_mechanism *m = make_mechanism(c);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        const dpmf_audit_result honest = run_audit(m, c, seed, 1), weak = run_audit(m, c, seed, 0.1);
        print_message(
            "%s %s %s %s: claimed %.3f, honest %.3f (guesses %.3f: %d of %d), a tenth %.3f (guesses %.3f), tpr "
            "%.3f/%.3f, sigma %.3f of %.3f\n",
            c->trained ? "trainer" : "noise", c->family, c->participation, c->sampling != NULL ? c->sampling : "",
            honest.epsilon_claimed, honest.epsilon_lower, honest.epsilon_guesses, (int)honest.correct,
            (int)honest.guesses, weak.epsilon_lower, weak.epsilon_guesses, honest.tpr, weak.tpr, honest.sigma_measured,
            honest.sigma_claimed);
        assert_true(honest.canaries >= 1000 && honest.guesses <= honest.canaries);
        assert_true(fabs(honest.epsilon_claimed - c->epsilon) <= 1e-3 * c->epsilon);
        assert_true(honest.epsilon_lower <= honest.epsilon_claimed);
        assert_true(honest.epsilon_lower >= 0.2 * honest.epsilon_claimed);
        assert_true(honest.epsilon_guesses <= honest.epsilon_claimed);
        assert_true(weak.epsilon_lower > weak.epsilon_claimed);
        assert_true(honest.fpr <= 0.01 && weak.tpr > honest.tpr);
    }
    dpmf_mechanism_free(m);
}

#define AUDIT(name, ...)                                                                                               \
    static void name(void **unused) {                                                                                  \
        const audited c = {__VA_ARGS__};                                                                               \
        (void)unused;                                                                                                  \
        check_audits(&c);                                                                                              \
    }

AUDIT(test_the_bound_of_independent_noise_is_honest, .family = "identity", .participation = "single", .steps = 20,
      .epsilon = 2)
AUDIT(test_the_bound_of_correlated_noise_is_honest, .family = "toeplitz", .participation = "single", .steps = 64,
      .epsilon = 1)
AUDIT(test_the_bound_of_several_epochs_is_honest, .family = "bsr", .bands = 4, .participation = "cyclic:4,16",
      .steps = 64, .epsilon = 8)
AUDIT(test_the_bound_of_replaced_units_is_honest, .family = "bsr", .bands = 4, .participation = "min-sep:4,8",
      .steps = 32, .epsilon = 3, .adjacency = DPMF_ADJACENCY_REPLACE_ONE)
AUDIT(test_the_bound_under_poisson_sampling_is_honest, .family = "identity", .participation = "full", .steps = 50,
      .sampling = "poisson:0.1", .epsilon = 4)
AUDIT(test_the_bound_of_the_trainer_is_honest, .trained = 1, .family = "bsr", .bands = 4,
      .participation = "cyclic:4,10", .steps = 40, .epsilon = 3)
AUDIT(test_the_bound_of_the_trainer_with_replaced_units_is_honest, .trained = 1, .family = "identity",
      .participation = "cyclic:4,5", .steps = 20, .epsilon = 2, .adjacency = DPMF_ADJACENCY_REPLACE_ONE)
AUDIT(test_the_bound_of_the_trainer_under_block_cyclic_sampling_is_honest, .trained = 1, .family = "bsr", .bands = 4,
      .participation = "min-sep:10,4", .steps = 40, .sampling = "block-cyclic:0.1,4", .epsilon = 4)

/* ---- the bounds alone ---- */

/* All r right and no delta: Pr = p^r, so that epsilon = ln(p/(1-p)) at p = failure^(1/r). */
static void test_the_bound_of_guesses_that_are_all_right_is_known(void **unused) {
    (void)unused;
    for (int64_t r = 10; r <= 1000; r *= 10) {
        const double p = pow(0.05, 1 / (double)r), expected = log(p / (1 - p));
        const double found = audit_guess_epsilon(1000, r, r, 0, 0.05);
        assert_true(fabs(found - expected) <= 1e-5 * expected);
        assert_true(audit_guess_epsilon(1000, r, r, 1e-5, 0.05) < found);
    }
    assert_true(audit_guess_epsilon(1000, 1000, 500, 0, 0.05) == 0);
}

/* By the definition: the sum of binomial terms, and the largest of the terms of delta with no stop. */
static double bound_by_definition(int m, int r, int v, double epsilon, double delta) {
    const double p = 1 / (1 + exp(-epsilon));
    double tail = 0, between = 0, worst = 0;
    double term[41];
    for (int k = 0; k <= r; k++)
        term[k] = exp(lgamma(r + 1.0) - lgamma(k + 1.0) - lgamma(r - k + 1.0) + k * log(p) + (r - k) * log1p(-p));
    for (int k = v; k <= r; k++)
        tail += term[k];
    for (int i = 1; i <= v; i++) {
        between += term[v - i];
        worst = fmax(worst, 2.0 / i * between);
    }
    return tail + m * delta * worst;
}

static void test_the_bound_of_guesses_solves_the_theorem(void **unused) {
    (void)unused;
    for (int v = 26; v <= 40; v++) {
        const double found = audit_guess_epsilon(200, 40, v, 1e-4, 0.1);
        if (found == 0)
            assert_true(bound_by_definition(200, 40, v, 0, 1e-4) > 0.1);
        else
            assert_true(fabs(bound_by_definition(200, 40, v, found, 1e-4) - 0.1) <= 1e-5);
    }
}

/* ---- how often an honest run is accused ---- */

static double normal(uint64_t *seed) {
    const double u = (check_random(seed) + 1) / 2 + 1e-18, v = (check_random(seed) + 1) / 2;
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

/*
 * 400 runs whose noise is normal and exactly what is claimed: each accuses with probability at most 0.05, so that more than 40
 * accusations have a probability below 1e-5.
 */
static void test_honest_runs_are_accused_as_seldom_as_promised(void **unused) {
    const audited c = {.family = "identity", .participation = "single", .steps = 1, .epsilon = 1};
    enum { CANARIES = 400 };
    static double released[CANARIES];
    static uint8_t included[CANARIES], taken[CANARIES];
    const dpmf_audit_record record = {included, taken, released};
    dpmf_mechanism *m = make_mechanism(&c);
    dpmf_audit_options options = dpmf_audit_options_defaults();
    uint64_t seed = 77;
    int accused = 0;
    (void)unused;
    options.canaries = CANARIES;
    options.record = &record;
    for (int run = 0; run < 400; run++) {
        dpmf_audit *audit = NULL;
        for (int i = 0; i < CANARIES; i++) {
            included[i] = check_random(&seed) < 0;
            taken[i] = 1;
            released[i] = included[i] + dpmf_mechanism_get(m).sigma * normal(&seed);
        }
        check_ok(dpmf_audit_create(m, &options, &audit));
        const dpmf_audit_result found = dpmf_audit_get(audit).result;
        accused += found.epsilon_lower > found.epsilon_claimed;
        dpmf_audit_free(audit);
    }
    print_message("%d of 400 honest runs accused\n", accused);
    assert_true(accused <= 40);
    dpmf_mechanism_free(m);
}

/* ---- refusals and memory ---- */

static void test_what_cannot_be_audited_is_refused(void **unused) {
    const audited tree = {.family = "tree", .participation = "single", .steps = 8, .epsilon = 1},
                  plain = {.family = "identity", .participation = "single", .steps = 2, .epsilon = 1};
    dpmf_mechanism *nodes = make_mechanism(&tree), *m = make_mechanism(&plain);
    dpmf_audit_options options = dpmf_audit_options_defaults();
    dpmf_audit *none = NULL;
    uint8_t included[20] = {1}, taken[40] = {0};
    double released[40] = {0};
    const dpmf_audit_record record = {included, taken, released};
    (void)unused;
    check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_audit_create(nodes, &options, &none));
    check_message("a square C");
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_audit_create(NULL, &options, &none));
    options.canaries = 19;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_audit_create(m, &options, &none));
    check_message("19 canaries");
    options.canaries = 20;
    options.confidence = 1;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_audit_create(m, &options, &none));
    check_message("confidence");
    options.confidence = 0.95;
    released[39] = NAN;
    options.record = &record;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_audit_create(m, &options, &none));
    check_message("not finite");
    released[39] = 0;
    included[0] = 0;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_audit_create(m, &options, &none));
    check_message("0 of 20 canaries are in");
    assert_null(none);
    dpmf_mechanism_free(nodes);
    dpmf_mechanism_free(m);
}

static void test_any_allocation_of_an_audit_may_fail(void **unused) {
    const audited c = {.family = "bsr", .bands = 2, .participation = "cyclic:2,2", .steps = 4, .epsilon = 1};
    dpmf_mechanism *m = make_mechanism(&c);
    dpmf_audit_options options = dpmf_audit_options_defaults();
    uint8_t key[DPMF_KEY_SIZE];
    (void)unused;
    check_ok(dpmf_key_testing(1, key));
    options.key = key;
    options.canaries = 20;
    options.run.threads = 1;
    for (int route = 0; route < 2; route++) {
        dpmf_audit *audit = NULL;
        options.train = route == 0 ? NULL : dpmf_trainer_audit;
        FAIL_EACH(dpmf_audit_create(m, &options, &audit));
        dpmf_audit_free(audit);
    }
    dpmf_mechanism_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_bound_of_independent_noise_is_honest),
        cmocka_unit_test(test_the_bound_of_correlated_noise_is_honest),
        cmocka_unit_test(test_the_bound_of_several_epochs_is_honest),
        cmocka_unit_test(test_the_bound_of_replaced_units_is_honest),
        cmocka_unit_test(test_the_bound_under_poisson_sampling_is_honest),
        cmocka_unit_test(test_the_bound_of_the_trainer_is_honest),
        cmocka_unit_test(test_the_bound_of_the_trainer_with_replaced_units_is_honest),
        cmocka_unit_test(test_the_bound_of_the_trainer_under_block_cyclic_sampling_is_honest),
        cmocka_unit_test(test_the_bound_of_guesses_that_are_all_right_is_known),
        cmocka_unit_test(test_the_bound_of_guesses_solves_the_theorem),
        cmocka_unit_test(test_honest_runs_are_accused_as_seldom_as_promised),
        cmocka_unit_test(test_what_cannot_be_audited_is_refused),
        cmocka_unit_test(test_any_allocation_of_an_audit_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
