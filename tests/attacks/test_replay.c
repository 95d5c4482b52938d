/* SPDX-License-Identifier: Apache-2.0 */
/* Attacks on the use of noise: one row over two sums, rows used twice, and mechanisms that promise too much. */
#include "support/check.h"
#include "support/train_cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char place[] = "/tmp/dpmf-attack-XXXXXX";
static char state[64], key_path[64];

static int setup(void **unused) {
    (void)unused;
    if (mkdtemp(place) == NULL) return -1;
    snprintf(state, sizeof state, "%s/state", place);
    snprintf(key_path, sizeof key_path, "%s/key", place);
    return 0;
}

static int teardown(void **unused) {
    char beside[80];
    (void)unused;
    snprintf(beside, sizeof beside, "%s.state", key_path);
    unlink(beside);
    unlink(state);
    unlink(key_path);
    return rmdir(place);
}

enum { STEPS = 12, DIM = 5 };

static dpmf_mechanism *mechanism_of(void) {
    dpmf_workload *workload = NULL;
    dpmf_strategy *strategy = NULL;
    dpmf_mechanism *made = NULL;
    check_ok(dpmf_workload_parse("prefix", STEPS, &workload));
    check_ok(dpmf_strategy_create("identity", workload, NULL, &strategy));
    check_ok(dpmf_mechanism_create(workload, NULL, strategy, NULL, &made));
    dpmf_strategy_free(strategy);
    dpmf_workload_free(workload);
    return made;
}

static dpmf_noise *stream(const dpmf_mechanism *mechanism, int replay) {
    uint8_t key[DPMF_KEY_SIZE];
    dpmf_noise_options o = dpmf_noise_options_defaults();
    dpmf_noise *noise = NULL;
    o.state = state;
    o.replay = replay;
    o.uncalibrated = 1;
    o.run.threads = 1;
    check_ok(dpmf_key_testing(7, key));
    check_ok(dpmf_noise_create(mechanism, DIM, 1.0, key, &o, &noise));
    return noise;
}

/*
 * The attacker sees a run that was resumed. Its batches went through dropout again, so that the sums of the repeated
 * steps differ while the rows of noise are the same: the difference of the releases before and after the crash has no
 * noise. Promised now: a row that was used for one sum is given again for that sum only.
 */
static void test_replay_over_another_sum(void **unused) {
    dpmf_mechanism *mechanism = mechanism_of();
    uint8_t sums[STEPS][DPMF_DIGEST_SIZE] = {{0}};
    float first[DIM], again[DIM], untouched[DIM] = {0};
    (void)unused;
    dpmf_noise *noise = stream(mechanism, 0);
    for (int t = 0; t < 6; t++) {
        sums[t][0] = (uint8_t)(t + 1);
        check_ok(dpmf_noise_bind_sum(noise, sums[t]));
        check_ok(dpmf_noise_next(noise, t == 3 ? first : again));
    }
    dpmf_noise_free(noise);
    noise = stream(mechanism, 1);
    assert_int_equal(dpmf_noise_get(noise).reserved, 6);
    check_ok(dpmf_noise_seek(noise, 3));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_bind_sum(noise, sums[4]));
    check_message("row 3 was used for another sum");
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_next(noise, untouched)); /* nor by not naming one */
    check_message("row 3");
    for (int i = 0; i < DIM; i++)
        assert_true(untouched[i] == 0);
    check_ok(dpmf_noise_bind_sum(noise, sums[3]));
    check_ok(dpmf_noise_next(noise, again));
    assert_memory_equal(first, again, sizeof first);
    check_ok(dpmf_noise_seek(noise, 6));
    check_ok(dpmf_noise_next(noise, again)); /* a row for no named sum cannot be bound to one later */
    check_ok(dpmf_noise_seek(noise, 6));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_bind_sum(noise, sums[5]));
    check_message("does not record for which sum");
    dpmf_noise_free(noise);
    unlink(state);
    dpmf_mechanism_free(mechanism);
}

/* The marks cannot be moved from row to row, or changed: then no sum fits. */
static void test_marks_are_authentic(void **unused) {
    dpmf_mechanism *mechanism = mechanism_of();
    uint8_t sum[DPMF_DIGEST_SIZE] = {9}, marks[64];
    float row[DIM];
    (void)unused;
    dpmf_noise *noise = stream(mechanism, 0);
    for (int t = 0; t < 2; t++) {
        check_ok(dpmf_noise_bind_sum(noise, sum));
        check_ok(dpmf_noise_next(noise, row));
    }
    dpmf_noise_free(noise);
    FILE *file = fopen(state, "r+b");
    assert_non_null(file);
    fseek(file, 1536, SEEK_SET);
    assert_int_equal(fread(marks, 1, 64, file), 64);
    assert_memory_not_equal(marks, marks + 32, 32); /* equal sums of two rows cannot be recognised */
    fseek(file, 1536, SEEK_SET);
    assert_int_equal(fwrite(marks + 32, 1, 32, file), 32);
    fclose(file);
    noise = stream(mechanism, 1);
    check_ok(dpmf_noise_seek(noise, 0));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_bind_sum(noise, sum));
    check_ok(dpmf_noise_seek(noise, 1));
    check_ok(dpmf_noise_bind_sum(noise, sum));
    dpmf_noise_free(noise);
    unlink(state);
    dpmf_mechanism_free(mechanism);
}

/*
 * The same in a whole trainer: a run is begun, lost, and begun again with weights that are not the ones it had, so that
 * its first sum is another. Before, it released that sum under the same row. Promised now: refused, naming the step.
 */
static void test_trainer_with_another_sum(void **unused) {
    dpmf_dataset *data = case_data(3);
    case_plan plan = case_defaults();
    (void)unused;
    plan.options.state = state;
    case_run run = case_open(data, &plan);
    case_steps(&run, 4);
    float *kept = malloc((size_t)run.trainer->model.dim * sizeof *kept);
    memcpy(kept, dpmf_trainer_weights(run.trainer), (size_t)run.trainer->model.dim * sizeof *kept);
    case_close(&run);
    run = case_open(data, &plan);
    assert_int_equal(dpmf_trainer_begun(run.trainer), 4);
    run.trainer->weights[0] = 1;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_trainer_next(run.trainer));
    check_message("row 0 was used for another sum than that of step 0");
    assert_int_equal(dpmf_trainer_step(run.trainer), 0);
    run.trainer->weights[0] = 0;
    case_steps(&run, 4); /* the same sums: the same weights */
    assert_memory_equal(kept, dpmf_trainer_weights(run.trainer), (size_t)run.trainer->model.dim * sizeof *kept);
    case_close(&run);
    free(kept);
    unlink(state);
    dpmf_dataset_free(data);
}

/*
 * The attacker has a script run twice with one key file and no state file: both runs get the same noise, over other data.
 * Promised now: a key that comes from a file has its state beside it, and an explicit option is needed to go without.
 */
static void test_key_file_without_state(void **unused) {
    dpmf_mechanism *mechanism = mechanism_of();
    uint8_t key[DPMF_KEY_SIZE];
    float first[DIM], row[DIM];
    dpmf_noise_options o = dpmf_noise_options_defaults();
    (void)unused;
    o.key_file = key_path;
    o.uncalibrated = 1;
    for (int run = 0; run < 4; run++) {
        dpmf_noise *noise = NULL;
        o.rows_may_repeat = run == 3;
        check_ok(dpmf_key_load(key_path, 1, key));
        check_ok(dpmf_noise_create(mechanism, DIM, 1.0, key, &o, &noise));
        if (run == 1) check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_seek(noise, 0));
        if (run == 3)
            assert_int_equal(dpmf_noise_get(noise).step, 0);
        else
            assert_int_equal(dpmf_noise_get(noise).step, run); /* it continues where the last one ended */
        check_ok(dpmf_noise_next(noise, row));
        if (run == 0) memcpy(first, row, sizeof first);
        if (run > 0) assert_memory_not_equal(first, row, sizeof first);
        dpmf_noise_free(noise);
    }
    o.rows_may_repeat = 0;
    dpmf_noise *none = NULL;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_create(mechanism, DIM, 2.0, key, &o, &none));
    check_message("clip is 1 in it and 2 here; a key file serves one run");
    dpmf_mechanism_free(mechanism);
}

/*
 * The attacker offers a mechanism that claims more than its noise gives: here epsilon, which its maker can set freely.
 * Before, every command that printed the claim believed it. Promised now: dpmf_mechanism_confirm finds it, and a second
 * call answers at once.
 */
static void test_a_file_that_claims_too_much_is_refused(void **unused) {
    dpmf_workload *workload = NULL;
    dpmf_strategy *strategy = NULL;
    dpmf_mechanism *honest = NULL, *boast = NULL;
    dpmf_mechanism_options about = dpmf_mechanism_options_defaults();
    dpmf_privacy found = {0}, again = {0};
    (void)unused;
    check_ok(dpmf_workload_parse("prefix", STEPS, &workload));
    check_ok(dpmf_strategy_create("identity", workload, NULL, &strategy));
    check_ok(dpmf_calibrate_sigma(2.0, 1e-5, NULL, &found));
    about.sigma = found.sigma;
    about.epsilon = 2;
    about.delta = 1e-5;
    check_ok(dpmf_mechanism_create(workload, NULL, strategy, &about, &honest));
    about.epsilon = 1;
    check_ok(dpmf_mechanism_create(workload, NULL, strategy, &about, &boast));
    check_ok(dpmf_mechanism_confirm(honest, NULL, &found));
    check_near(found.epsilon, 2, 1e-6);
    check_ok(dpmf_mechanism_confirm(honest, NULL, &again));
    assert_true(again.epsilon == found.epsilon);
    check_fails(DPMF_ERROR_FORMAT, dpmf_mechanism_confirm(boast, NULL, &again));
    check_message("claims epsilon = 1 at delta = 1e-05, but it is 2");
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_mechanism_confirm(NULL, NULL, NULL));
    dpmf_mechanism_free(honest);
    dpmf_mechanism_free(boast);
    dpmf_strategy_free(strategy);
    dpmf_workload_free(workload);
}

/*
 * The same where only a simulation can tell: the attacker claims 3 % less than sigma gives. Before, simulations were allowed to scatter
 * by 5 %, and the claim was believed; and their samples were known beforehand. Promised now: fresh samples must show the claim,
 * and verification tests it too.
 */
static void test_a_simulated_claim_that_is_too_small_is_refused(void **unused) {
    dpmf_workload *workload = NULL;
    dpmf_strategy *strategy = NULL;
    dpmf_mechanism *plain = NULL, *honest = NULL, *boast = NULL;
    dpmf_mechanism_options about = dpmf_mechanism_options_defaults();
    dpmf_strategy_options bands = dpmf_strategy_options_defaults();
    dpmf_verification *checks = NULL;
    dpmf_privacy found = {0};
    (void)unused;
    bands.bands = 4;
    check_ok(dpmf_workload_parse("prefix", STEPS, &workload));
    check_ok(dpmf_strategy_create("bsr", workload, &bands, &strategy));
    check_ok(dpmf_sampling_parse("min-sep:0.1,4", &about.sampling));
    check_ok(dpmf_mechanism_create(workload, NULL, strategy, &about, &plain));
    check_ok(dpmf_mechanism_calibrate(plain, 2, 1e-3, NULL, NULL, NULL, &honest, NULL));
    check_ok(dpmf_mechanism_confirm(honest, NULL, &found));
    assert_true(found.epsilon == 2 && found.delta <= 1e-3 && found.confidence == 0.999);
    about.sigma = dpmf_mechanism_get(honest).sigma;
    about.epsilon = 1.94;
    about.delta = 1e-3;
    check_ok(dpmf_mechanism_create(workload, NULL, strategy, &about, &boast));
    check_fails(DPMF_ERROR_FORMAT, dpmf_mechanism_confirm(boast, NULL, &found));
    check_message("claims epsilon = 1.94 at delta = 0.001, but a simulation with fresh randomness does not show it");
    check_ok(dpmf_verify(&(dpmf_verify_source){.mechanism = boast}, NULL, &checks));
    int tested = 0;
    for (int64_t i = 0; i < dpmf_verification_get(checks).count; i++) {
        const dpmf_check *check = dpmf_verification_check(checks, i);
        if (strcmp(check->name, "delta") != 0) continue;
        assert_int_equal(check->ok, 0);
        assert_true(check->found > check->claimed);
        tested++;
    }
    assert_int_equal(tested, 1);
    dpmf_verification_free(checks);
    dpmf_mechanism_free(plain);
    dpmf_mechanism_free(honest);
    dpmf_mechanism_free(boast);
    dpmf_strategy_free(strategy);
    dpmf_workload_free(workload);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replay_over_another_sum),
        cmocka_unit_test(test_marks_are_authentic),
        cmocka_unit_test(test_trainer_with_another_sum),
        cmocka_unit_test(test_key_file_without_state),
        cmocka_unit_test(test_a_file_that_claims_too_much_is_refused),
        cmocka_unit_test(test_a_simulated_claim_that_is_too_small_is_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
