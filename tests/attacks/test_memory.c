/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A machine that runs out of memory: each allocation in the life of a mechanism (design, file, noise, training,
 * counting) fails once, in any code: in the library, in cJSON, OpenSSL, LAPACK or the C library. Every failure must be
 * DPMF_ERROR_MEMORY without output, nothing may leak, and later calls must behave as if nothing had happened.
 *
 * This program's malloc, calloc, realloc and free stand before the C library's for all shared libraries, so the sanitizers'
 * builds, which bring their own, leave it out.
 */
#include "dpmf_train.h"
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- an allocator that fails once ---- */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void __libc_free(void *memory);

#define SEEN_BY_ALL __attribute__((visibility("default")))

static _Thread_local int watched; /* this thread's calls count */
static int64_t asked, fail_at = -1, live;

static int fails(void) {
    return watched && asked++ == fail_at;
}

SEEN_BY_ALL void *malloc(size_t size) {
    if (fails()) return NULL;
    void *memory = __libc_malloc(size);
    live += watched && memory != NULL;
    return memory;
}

SEEN_BY_ALL void *calloc(size_t count, size_t size) {
    if (fails()) return NULL;
    void *memory = __libc_calloc(count, size);
    live += watched && memory != NULL;
    return memory;
}

SEEN_BY_ALL void *realloc(void *memory, size_t size) {
    if (fails()) return NULL;
    void *moved = __libc_realloc(memory, size);
    live += watched && memory == NULL && moved != NULL;
    return moved;
}

SEEN_BY_ALL void free(void *memory) {
    live -= watched && memory != NULL;
    __libc_free(memory);
}

/* ---- a life, a stage at a time ---- */

enum { STEPS = 8, DIM = 6, UNITS = 8 };

static char directory[64], mechanism_path[96], state_path[96], other_path[96];
static uint8_t key[DPMF_KEY_SIZE];
static dpmf_mechanism *mechanism;
static dpmf_dataset *data;

/* Each ends with everything freed, its files gone, and `seen` holding its visible results. */
typedef dpmf_status stage(double seen[16]);

static dpmf_status design_stage(double seen[16]) {
    dpmf_workload *workload = NULL;
    dpmf_design *design = NULL;
    dpmf_design_options options = dpmf_design_options_defaults();
    options.epochs = 2;
    options.epsilon = 2;
    options.delta = 1e-5;
    options.dim = DIM;
    options.max_overhead = INFINITY;
    options.families = "identity,bsr,toeplitz";
    options.run.threads = 1;
    dpmf_status status = dpmf_workload_parse("prefix", STEPS, &workload);
    if (status == DPMF_OK) status = dpmf_design_create(workload, &options, &design);
    if (status == DPMF_OK) {
        seen[0] = dpmf_mechanism_get(dpmf_design_get(design).mechanism).sigma;
        seen[1] = dpmf_mechanism_get(dpmf_design_get(design).mechanism).evaluation.rms_loss;
        status = dpmf_mechanism_save(dpmf_design_get(design).mechanism, other_path);
    } else {
        assert_null(design);
    }
    dpmf_design_free(design);
    dpmf_workload_free(workload);
    return status;
}

static dpmf_status file_stage(double seen[16]) {
    dpmf_mechanism *loaded = NULL;
    dpmf_verification *verified = NULL;
    dpmf_run run = dpmf_run_defaults();
    run.threads = 1;
    dpmf_status status = dpmf_mechanism_load(mechanism_path, &loaded);
    if (status != DPMF_OK) assert_null(loaded);
    if (status == DPMF_OK) status = dpmf_verify(&(dpmf_verify_source){.mechanism = loaded}, &run, &verified);
    if (status == DPMF_OK) seen[0] = dpmf_verification_get(verified).ok;
    dpmf_verification_free(verified);
    dpmf_mechanism_free(loaded);
    return status;
}

static const uint8_t salt[DPMF_SALT_SIZE] = {7}; /* a state file that is made again has the same noise */

static dpmf_status noise_stage(double seen[16]) {
    dpmf_noise *noise = NULL;
    dpmf_noise_options options = dpmf_noise_options_defaults();
    float row[DIM] = {0};
    options.state = state_path;
    options.salt = salt;
    options.replay = 1;
    options.run.threads = 1;
    dpmf_status status = dpmf_noise_create(mechanism, DIM, 1.0, key, &options, &noise);
    if (status != DPMF_OK) assert_null(noise);
    if (status == DPMF_OK) status = dpmf_noise_seek(noise, 0);
    for (int t = 0; t < 3 && status == DPMF_OK; t++)
        status = dpmf_noise_next(noise, row);
    if (status == DPMF_OK) status = dpmf_noise_save(noise, other_path);
    if (status == DPMF_OK) status = dpmf_noise_load(noise, other_path);
    if (status == DPMF_OK) status = dpmf_noise_next(noise, row);
    for (int i = 0; i < DIM && status == DPMF_OK; i++)
        seen[i] = row[i];
    dpmf_noise_free(noise);
    return status;
}

static dpmf_status train_stage(double seen[16]) {
    dpmf_sampler *sampler = NULL;
    dpmf_trainer *trainer = NULL;
    dpmf_trainer_options options = dpmf_trainer_options_defaults();
    options.state = state_path;
    options.salt = salt;
    options.run.threads = 1;
    dpmf_status status = dpmf_sampler_create("cyclic:2", UNITS, STEPS, key, NULL, &sampler);
    if (status != DPMF_OK) assert_null(sampler);
    if (status == DPMF_OK) status = dpmf_trainer_create(data, mechanism, sampler, key, &options, &trainer);
    if (status != DPMF_OK) assert_null(trainer);
    for (int t = 0; t < 3 && status == DPMF_OK; t++)
        status = dpmf_trainer_next(trainer);
    if (status == DPMF_OK) status = dpmf_trainer_save(trainer, other_path);
    if (status == DPMF_OK) status = dpmf_trainer_load(trainer, other_path);
    if (status == DPMF_OK) status = dpmf_trainer_next(trainer);
    for (int i = 0; i < 6 && status == DPMF_OK; i++)
        seen[i] = dpmf_trainer_weights(trainer)[i];
    dpmf_trainer_free(trainer);
    dpmf_sampler_free(sampler);
    return status;
}

/* A counter's new state file has new noise. What stays: how many rows it counted, and that the file has the sums that it gave. */
static dpmf_status count_stage(double seen[16]) {
    const double values[4] = {1, 2, 3, 4};
    double sums[4] = {0}, last[4] = {0};
    dpmf_counter *counter = NULL;
    dpmf_counter_options options = dpmf_counter_options_defaults();
    options.state = state_path;
    options.run.threads = 1;
    dpmf_status status = dpmf_counter_create(mechanism, 2, 1.0, key, &options, &counter);
    if (status != DPMF_OK) assert_null(counter);
    if (status == DPMF_OK) status = dpmf_counter_add(counter, 2, values, sums);
    if (status == DPMF_OK) status = dpmf_counter_add(counter, 2, values, sums);
    if (status == DPMF_OK) status = dpmf_counter_last(counter, last);
    if (status == DPMF_OK) {
        assert_memory_equal(last, sums, sizeof sums);
        seen[0] = (double)dpmf_counter_get(counter).step;
        seen[1] = (double)dpmf_counter_get(counter).last_rows;
    }
    dpmf_counter_free(counter);
    return status;
}

static dpmf_status ledger_stage(double seen[16]) {
    dpmf_ledger_options options = dpmf_ledger_options_defaults();
    dpmf_ledger *ledger = NULL;
    options.budget_epsilon = 30;
    options.budget_delta = 1e-5;
    options.run.threads = 1;
    dpmf_status status = dpmf_ledger_enter(state_path, mechanism, key, &options, NULL);
    if (status == DPMF_OK) status = dpmf_ledger_load(state_path, &ledger);
    if (status != DPMF_OK) assert_null(ledger);
    if (status == DPMF_OK) seen[0] = (double)dpmf_ledger_get(ledger).entries;
    dpmf_ledger_free(ledger);
    return status;
}

/* ---- each allocation fails once ---- */

static dpmf_status run_watched(stage *run, double seen[16], int64_t at) {
    unlink(state_path);
    unlink(other_path);
    asked = 0;
    fail_at = at;
    watched = 1;
    const dpmf_status status = run(seen);
    watched = 0;
    fail_at = -1;
    return status;
}

/* OpenSSL keeps its last 16 errors for each thread, in two blocks each. */
enum { KEPT_BY_OTHERS = 32 };

static int same(const double a[16], const double b[16], double tolerance) {
    int agree = 1;
    for (int i = 0; i < 16; i++)
        agree = agree && fabs(a[i] - b[i]) <= tolerance * fabs(b[i]);
    return agree;
}

static void check_stage(stage *run, const char *name, double tolerance) {
    double expected[16] = {0}, seen[16];
    check_ok(run_watched(run, expected, -1));
    check_ok(run_watched(run, expected, -1)); /* what is made once is made */
    const uint64_t in_use = dpmf_memory_in_use();
    const int64_t total = asked, before = live;
    int64_t refused = 0;
    assert_true(total > 0);
    for (int64_t k = 0; k < total; k++) {
        memset(seen, 0, sizeof seen);
        const dpmf_status status = run_watched(run, seen, k);
        if (status != DPMF_OK) {
            if (status != DPMF_ERROR_MEMORY)
                fail_msg("%s, allocation %lld of %lld: status %d, '%s'", name, (long long)k, (long long)total,
                         (int)status, dpmf_last_error());
            refused++;
        } else { /* the caller could do without it */
            if (!same(seen, expected, tolerance))
                fail_msg("%s, allocation %lld of %lld: %.17g and %.17g, not %.17g and %.17g", name, (long long)k,
                         (long long)total, seen[0], seen[1], expected[0], expected[1]);
        }
        if (dpmf_memory_in_use() != in_use)
            fail_msg("%s, allocation %lld: the library has %lld bytes more", name, (long long)k,
                     (long long)(dpmf_memory_in_use() - in_use));
    }
    if (live > before + KEPT_BY_OTHERS)
        fail_msg("%s: %lld blocks are left of %lld failures", name, (long long)(live - before), (long long)refused);
    memset(seen, 0, sizeof seen);
    check_ok(run_watched(run, seen, -1));
    assert_true(same(seen, expected, 0));
    print_message("%s: %lld allocations, %lld failures, %lld blocks kept\n", name, (long long)total, (long long)refused,
                  (long long)(live - before));
}

static void test_any_allocation_of_a_design_may_fail(void **unused) {
    (void)unused;
    check_stage(design_stage, "design", 0);
}

static void test_any_allocation_of_reading_a_file_may_fail(void **unused) {
    (void)unused;
    check_stage(file_stage, "file", 0);
}

static void test_any_allocation_of_noise_with_a_state_may_fail(void **unused) {
    (void)unused;
    check_stage(noise_stage, "noise", 0);
}

static void test_any_allocation_of_training_may_fail(void **unused) {
    (void)unused;
    check_stage(train_stage, "train", 0);
}

static void test_any_allocation_of_counting_may_fail(void **unused) {
    (void)unused;
    check_stage(count_stage, "count", 0);
}

static void test_any_allocation_of_a_ledger_may_fail(void **unused) {
    (void)unused;
    check_stage(ledger_stage, "ledger", 0);
}

/* ---- 10^4 lives leave nothing behind ---- */

static void test_ten_thousand_streams_leave_nothing_behind(void **unused) {
    float row[DIM];
    const uint64_t in_use = dpmf_memory_in_use();
    int64_t before = 0;
    (void)unused;
    watched = 1;
    for (int i = 0; i < 10000; i++) {
        dpmf_noise *noise = NULL;
        dpmf_sampler *sampler = NULL;
        if (i == 100) before = live;
        check_ok(dpmf_noise_create(mechanism, DIM, 1.0, key, NULL, &noise));
        check_ok(dpmf_noise_next(noise, row));
        check_ok(dpmf_sampler_create("poisson:0.5", UNITS, STEPS, key, NULL, &sampler));
        dpmf_sampler_free(sampler);
        dpmf_noise_free(noise);
    }
    watched = 0;
    assert_int_equal(live, before);
    assert_int_equal(dpmf_memory_in_use(), in_use);
}

/* ---- */

static int set_up(void **unused) {
    float x[UNITS * 2];
    int32_t label[UNITS];
    dpmf_workload *workload = NULL;
    dpmf_strategy *strategy = NULL;
    dpmf_participation *participation = NULL;
    dpmf_strategy_options shape = dpmf_strategy_options_defaults();
    dpmf_mechanism_options about = dpmf_mechanism_options_defaults();
    (void)unused;
    /* in memory, where syncing takes no time */
    strcpy(directory, access("/dev/shm", W_OK) == 0 ? "/dev/shm/dpmf-memory-XXXXXX" : "memory-XXXXXX");
    assert_non_null(mkdtemp(directory));
    snprintf(mechanism_path, sizeof mechanism_path, "%s/mechanism", directory);
    snprintf(state_path, sizeof state_path, "%s/state", directory);
    snprintf(other_path, sizeof other_path, "%s/other", directory);
    for (int i = 0; i < UNITS; i++) {
        x[2 * i] = (float)i;
        x[2 * i + 1] = 1;
        label[i] = i % 2;
    }
    shape.bands = 3;
    about.sigma = 0.8;
    check_ok(dpmf_key_testing(1, key));
    check_ok(dpmf_dataset_create(UNITS, 2, 2, x, label, NULL, &data));
    check_ok(dpmf_workload_parse("prefix", STEPS, &workload));
    check_ok(dpmf_participation_parse("cyclic:2,4", STEPS, &participation));
    check_ok(dpmf_strategy_create("bsr", workload, &shape, &strategy));
    check_ok(dpmf_mechanism_create(workload, participation, strategy, &about, &mechanism));
    check_ok(dpmf_mechanism_save(mechanism, mechanism_path));
    dpmf_strategy_free(strategy);
    dpmf_participation_free(participation);
    dpmf_workload_free(workload);
    return 0;
}

static int tear_down(void **unused) {
    (void)unused;
    unlink(mechanism_path);
    unlink(state_path);
    unlink(other_path);
    rmdir(directory);
    dpmf_mechanism_free(mechanism);
    dpmf_dataset_free(data);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_any_allocation_of_a_design_may_fail),
                                       cmocka_unit_test(test_any_allocation_of_reading_a_file_may_fail),
                                       cmocka_unit_test(test_any_allocation_of_noise_with_a_state_may_fail),
                                       cmocka_unit_test(test_any_allocation_of_training_may_fail),
                                       cmocka_unit_test(test_any_allocation_of_counting_may_fail),
                                       cmocka_unit_test(test_any_allocation_of_a_ledger_may_fail),
                                       cmocka_unit_test(test_ten_thousand_streams_leave_nothing_behind)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
