/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samplers: the same batches in any order of steps and after a saved state; their properties; offers; refusals.
 */
#include "support/check.h"
#include "support/failing_allocator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const TEXTS[] = {"cyclic:700",       "shuffled:700",  "poisson:0.02",     "block-cyclic:0.02,7",
                                    "balls-in-bins:11", "min-sep:0.1,6", "scheduled:300,4,5"};
enum { TEXT_COUNT = sizeof TEXTS / sizeof TEXTS[0], UNITS = 5001, STEPS = 40 };

static uint8_t key[DPMF_KEY_SIZE];

static dpmf_sampler *make(const char *text, int64_t units, int64_t steps, const char *label) {
    dpmf_sampler *s = NULL;
    check_ok(dpmf_sampler_create(text, units, steps, key, label, &s));
    return s;
}

/* ---- in any order ---- */

typedef struct recorded {
    int64_t count[STEPS], batch[STEPS][UNITS];
} recorded;

static void record(dpmf_sampler *s, recorded *r) {
    for (int t = 0; t < STEPS; t++) {
        assert_int_equal(dpmf_sampler_get(s).step, t);
        check_ok(dpmf_sampler_next(s, r->batch[t], &r->count[t]));
        assert_true(r->count[t] >= 0 && r->count[t] <= dpmf_sampler_get(s).capacity);
        for (int64_t i = 0; i < r->count[t]; i++)
            assert_true(r->batch[t][i] >= (i == 0 ? 0 : r->batch[t][i - 1] + 1) && r->batch[t][i] < UNITS);
    }
}

static void check_step_is(dpmf_sampler *s, const recorded *r, int64_t t) {
    static int64_t batch[UNITS];
    int64_t count = -1;
    assert_int_equal(dpmf_sampler_get(s).step, t);
    check_ok(dpmf_sampler_next(s, batch, &count));
    assert_int_equal(count, r->count[t]);
    assert_memory_equal(batch, r->batch[t], (size_t)count * sizeof *batch);
}

static void test_seeking_draws_the_batch_of_any_step(void **state) {
    (void)state;
    recorded *r = malloc(sizeof *r);
    for (int i = 0; i < TEXT_COUNT; i++) {
        uint64_t seed = 11;
        int64_t count = 7;
        dpmf_sampler *s = make(TEXTS[i], UNITS, STEPS, "run"), *longer = make(TEXTS[i], UNITS, 10 * STEPS, "run");
        record(s, r);
        check_fails(DPMF_ERROR_ARGUMENT, dpmf_sampler_next(s, r->batch[0], &count));
        check_message("past the last of 40 steps");
        assert_int_equal(count, 7);
        for (int j = 0; j < 20; j++) {
            const int64_t t = (int64_t)((check_random(&seed) + 1) / 2 * STEPS);
            check_ok(dpmf_sampler_seek(s, t));
            check_step_is(s, r, t);
        }
        check_ok(dpmf_sampler_seek(longer, STEPS - 2));
        check_step_is(longer, r, STEPS - 2);
        check_ok(dpmf_sampler_seek(s, STEPS));
        check_fails(DPMF_ERROR_ARGUMENT, dpmf_sampler_seek(s, STEPS + 1));
        check_fails(DPMF_ERROR_ARGUMENT, dpmf_sampler_seek(s, -1));
        check_message("accepted 0 to 40");
        assert_int_equal(dpmf_sampler_get(s).step, STEPS);
        dpmf_sampler_free(s);
        dpmf_sampler_free(longer);
    }
    free(r);
}

/* Another key, label, text or number of units: other batches (but for the public order). */
static void test_another_key_label_text_or_size_draws_other_batches(void **state) {
    (void)state;
    static int64_t a[UNITS], b[UNITS];
    for (int i = 1; i < TEXT_COUNT; i++) {
        int64_t count_a = 0, count_b = 0;
        dpmf_sampler *s[4] = {make(TEXTS[i], UNITS, STEPS, NULL), make(TEXTS[i], UNITS, STEPS, "x"),
                              make(TEXTS[i], UNITS - 1, STEPS, ""), NULL};
        key[5] ^= 1;
        s[3] = make(TEXTS[i], UNITS, STEPS, NULL);
        key[5] ^= 1;
        check_ok(dpmf_sampler_next(s[0], a, &count_a));
        for (int j = 1; j < 4; j++) {
            check_ok(dpmf_sampler_next(s[j], b, &count_b));
            assert_true(count_a != count_b || memcmp(a, b, (size_t)count_a * sizeof *a) != 0);
        }
        for (int j = 0; j < 4; j++)
            dpmf_sampler_free(s[j]);
    }
}

/* ---- properties ---- */

static void check_claims(const char *text, int64_t units, int64_t steps, const char *same, const char *participation,
                         int64_t capacity, double expected) {
    char sampling[64];
    dpmf_sampler *s = make(text, units, steps, NULL);
    assert_string_equal(dpmf_sampler_get(s).text, same);
    assert_int_equal(dpmf_sampler_get(s).capacity, capacity);
    check_near(dpmf_sampler_get(s).expected, expected, 1e-12);
    const dpmf_sampling is = dpmf_sampler_get(s).sampling;
    check_ok(dpmf_sampling_format(&is, sampling));
    if (participation == NULL) {
        assert_null(dpmf_sampler_get(s).participation);
        assert_string_equal(sampling, same);
    } else {
        assert_string_equal(dpmf_sampler_get(s).participation, participation);
        assert_string_equal(sampling, "none");
    }
    dpmf_sampler_free(s);
}

static void test_a_sampler_claims_what_it_realises(void **state) {
    (void)state;
    check_claims("cyclic:10", 100, 40, "cyclic:10", "cyclic:4,10", 10, 10);
    check_claims("cyclic:1e1", 101, 40, "cyclic:10", "cyclic:4,11", 10, 101.0 / 11);
    check_claims("cyclic:10", 1000, 40, "cyclic:10", "single", 10, 10);
    check_claims("cyclic:10", 10, 40, "cyclic:10", "full", 10, 10);
    check_claims("cyclic:10", 10, 1, "cyclic:10", "single", 10, 10);
    check_claims("shuffled:10", 100, 31, "shuffled:10", "shuffled:4,10", 10, 10);
    check_claims("shuffled:10", 100, 10, "shuffled:10", "single", 10, 10);
    check_claims("poisson:1e-2", 1000, 10, "poisson:0.01", NULL, 1000, 10);
    check_claims("block-cyclic:.01,4", 1001, 10, "block-cyclic:0.01,4", NULL, 251, 10.01);
    check_claims("block-cyclic:.5,4", 1001, 10, "block-cyclic:0.5,4", NULL, 251, 250.25);
    check_claims("balls-in-bins:4", 1001, 10, "balls-in-bins:4", NULL, 1001, 250.25);
    check_claims("min-sep:0.5,2", 8, 3, "min-sep:0.5,2", NULL, 8, 8 * (0.5 + 0.25 + 0.375) / 3);
    check_claims("min-sep:1,3", 8, 7, "min-sep:1,3", NULL, 8, 8 * 3.0 / 7);
    check_claims("scheduled:5,4,3", 100, 10, "scheduled:5,4,3", "minsep:4,3", 5, 5);
    check_claims("scheduled:5,1,3", 100, 10, "scheduled:5,1,3", "single", 5, 5);
}

/* ---- offers ---- */

static void test_offered_clients_are_taken_as_often_as_they_may(void **state) {
    (void)state;
    enum { CLIENTS = 3000, ROUNDS = 60, M = 50, K = 3, B = 7 };
    static int64_t times[CLIENTS], last[CLIENTS], offer[CLIENTS], batch[M];
    uint64_t seed = 5;
    dpmf_sampler *s = make("scheduled:50,3,7", CLIENTS, ROUNDS, NULL);
    memset(times, 0, sizeof times);
    for (int i = 0; i < CLIENTS; i++)
        last[i] = -B;
    for (int t = 0; t < ROUNDS; t++) {
        int64_t available = 0, able = 0, count = 0, fewest_left = K, most_taken = -1;
        for (int i = 0; i < CLIENTS; i++) /* one client in thirty, and now and then none */
            if (t % 10 != 9 && check_random(&seed) > 0.93) offer[available++] = i;
        for (int64_t i = 0; i < available; i++)
            able += times[offer[i]] < K && t - last[offer[i]] >= B;
        check_ok(dpmf_sampler_offer(s, available, available == 0 ? NULL : offer, batch, &count));
        assert_int_equal(count, able < M ? able : M);
        for (int64_t i = 0, at = 0; i < count; i++) {
            const int64_t u = batch[i];
            while (at < available && offer[at] < u)
                at++;
            assert_true(at < available && offer[at] == u && (i == 0 || batch[i - 1] < u));
            assert_true(times[u] < K && t - last[u] >= B);
            if (times[u] > most_taken) most_taken = times[u];
            last[u] = t;
        }
        for (int64_t i = 0; i < available;
             i++) /* able and left out: with at least as many participations as any unit taken */
            if (last[offer[i]] != t && times[offer[i]] < K && t - last[offer[i]] >= B && times[offer[i]] < fewest_left)
                fewest_left = times[offer[i]];
        assert_true(most_taken <= fewest_left);
        for (int64_t i = 0; i < count; i++)
            times[batch[i]]++;
    }
    check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_sampler_seek(s, 3));
    check_message("after offers");
    check_ok(dpmf_sampler_seek(s, ROUNDS));
    dpmf_sampler_free(s);
}

static void test_offers_that_do_not_rise_or_fit_are_refused(void **state) {
    (void)state;
    int64_t batch[4], count = 9;
    dpmf_sampler *s = make("scheduled:4,2,2", 10, 5, NULL), *other = make("cyclic:4", 10, 5, NULL);
    check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_sampler_offer(other, 1, (int64_t[]){1}, batch, &count));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_sampler_offer(s, 2, (int64_t[]){1, 1}, batch, &count));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_sampler_offer(s, 2, (int64_t[]){3, 1}, batch, &count));
    check_message("unit 1 at place 1");
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_sampler_offer(s, 1, (int64_t[]){10}, batch, &count));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_sampler_offer(s, 1, (int64_t[]){-1}, batch, &count));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_sampler_offer(s, -1, (int64_t[]){1}, batch, &count));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_sampler_offer(s, 11, (int64_t[]){1}, batch, &count));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_sampler_offer(s, 1, NULL, batch, &count));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_sampler_next(s, NULL, &count));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_sampler_next(s, batch, NULL));
    assert_int_equal(dpmf_sampler_get(s).step, 0);
    assert_int_equal(count, 9);
    for (int t = 0; t < 5; t++)
        check_ok(dpmf_sampler_offer(s, 1, (int64_t[]){6}, batch, &count));
    assert_int_equal(count, 0); /* it took part twice */
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_sampler_offer(s, 1, (int64_t[]){1}, batch, &count));
    dpmf_sampler_free(s);
    dpmf_sampler_free(other);
}

/* ---- refusals ---- */

static void test_sampler_texts_out_of_range_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
        int64_t units, steps;
    } bad[] = {
        {"cyclic:0", "M = 0, accepted 1 to 10 (the units)", 10, 5},
        {"shuffled:11", "M = 11, accepted 1 to 10 (the units)", 10, 5},
        {"cyclic", "too few values", 10, 5},
        {"cyclic:", "whole numbers", 10, 5},
        {"cyclic:2.5", "whole numbers", 10, 5},
        {"cyclic:2,3", "too many values", 10, 5},
        {"scheduled:2,3", "too few values", 10, 5},
        {"scheduled:2,3,1,", "too many values", 10, 5},
        {"scheduled:11,1,1", "M = 11, accepted 1 to 10", 10, 5},
        {"scheduled:2,4,2", "K = 4, accepted 1 to 3", 10, 5},
        {"scheduled:2,0,2", "K = 0", 10, 5},
        {"scheduled:2,1,6", "B = 6, accepted 1 to 5 (the steps)", 10, 5},
        {"scheduled:2,1,0", "B = 0", 10, 5},
        {"poisson:0", "a probability of 0, accepted above 0", 10, 5},
        {"poisson:1.5", "a probability from 0 to 1", 10, 5},
        {"poisson:-0.1", "a probability from 0 to 1", 10, 5},
        {"poisson:nan", "a probability from 0 to 1", 10, 5},
        {"block-cyclic:0.1,6", "B = 6, accepted 1 to 5 (the steps)", 10, 5},
        {"block-cyclic:0.1,0", "at least 1", 10, 5},
        {"block-cyclic:0.1", "number of values", 10, 5},
        {"balls-in-bins:6", "B = 6, accepted 1 to 5 (the steps)", 10, 5},
        {"min-sep:0.1,6", "B = 6, accepted 1 to 5 (the steps)", 10, 5},
        {"min-sep:0,2", "a probability of 0", 10, 5},
        {"min-sep:0.1,2", "accepted 1 to 2^28", 10, ((int64_t)1 << 28) + 1},
        {"none", "not a sampler", 10, 5},
        {"Poisson:0.1", "not a sampler", 10, 5},
        {"", "not a sampler", 10, 5},
        {"cyclic:1", "units = 0, accepted 1 to 2^53", 0, 5},
        {"poisson:0.1", "units = 9007199254740993", ((int64_t)1 << 53) + 1, 5},
        {"cyclic:1", "steps = 0, accepted 1 to 2^53", 10, 0},
        {"cyclic:1", "steps = -3", 10, -3},
        {NULL, "text is NULL", 10, 5},
    };
    dpmf_sampler *s = (dpmf_sampler *)(void *)key;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        check_fails(DPMF_ERROR_ARGUMENT, dpmf_sampler_create(bad[i].text, bad[i].units, bad[i].steps, key, NULL, &s));
        check_message(bad[i].says);
        assert_ptr_equal(s, key);
    }
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_sampler_create("cyclic:1", 10, 5, NULL, NULL, &s));
    dpmf_sampler_free(NULL);
}

/* Many units cost nothing where nothing is kept of each. */
static void test_many_units_cost_nothing_where_nothing_is_kept(void **state) {
    (void)state;
    const int64_t most = (int64_t)1 << 53;
    int64_t batch[3], count = 0;
    dpmf_sampler *s = make("cyclic:3", most, most, NULL);
    check_ok(dpmf_sampler_seek(s, most / 3));
    check_ok(dpmf_sampler_next(s, batch, &count));
    assert_int_equal(count, most % 3);
    assert_int_equal(batch[0], most - most % 3);
    dpmf_sampler_free(s);
}

/* ---- saved states ---- */

static void check_state(const char *text, recorded *r) {
    dpmf_sampler *s = make(text, UNITS, STEPS, "run"), *again = make(text, UNITS, STEPS, "run");
    dpmf_sampler *others[4] = {make(text, UNITS - 1, STEPS, "run"), make(text, UNITS, STEPS + 1, "run"),
                               make(text, UNITS, STEPS, NULL), make("cyclic:3", UNITS, STEPS, "run")};
    static const char *const names[] = {"5001 units in it and 5000 here", "40 steps in it and 41 here", "label",
                                        "cyclic:3 here"};
    uint8_t *bytes = NULL;
    size_t size = 0;
    record(s, r);
    check_ok(dpmf_sampler_seek(s, STEPS / 2));
    check_ok(dpmf_sampler_encode(s, &bytes, &size));
    check_ok(dpmf_sampler_decode(again, bytes, size));
    for (int t = STEPS / 2; t < STEPS; t++)
        check_step_is(again, r, t);
    check_ok(dpmf_sampler_seek(again, 3));
    check_step_is(again, r, 3);
    for (int i = 0; i < 4; i++) {
        check_fails(DPMF_ERROR_ARGUMENT, dpmf_sampler_decode(others[i], bytes, size));
        check_message(names[i]);
        assert_int_equal(dpmf_sampler_get(others[i]).step, 0);
        dpmf_sampler_free(others[i]);
    }
    key[0] ^= 1;
    dpmf_sampler *other_key = make(text, UNITS, STEPS, "run");
    key[0] ^= 1;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_sampler_decode(other_key, bytes, size));
    check_message("it has another key");
    dpmf_sampler_free(other_key);
    for (size_t i = 0; i < size; i += 1 + i / 256 * 97) { /* every byte of the head, some of the rest */
        bytes[i] ^= 4;
        assert_true(dpmf_sampler_decode(again, bytes, size) != DPMF_OK);
        bytes[i] ^= 4;
    }
    for (size_t cut = 1; cut < size; cut = 2 * cut + 1)
        check_fails(DPMF_ERROR_FORMAT, dpmf_sampler_decode(again, bytes, size - cut));
    check_fails(DPMF_ERROR_FORMAT, dpmf_sampler_decode(again, NULL, size));
    assert_int_equal(dpmf_sampler_get(again).step, 4);
    check_step_is(again, r, 4); /* nothing of what was refused was taken over */
    dpmf_bytes_free(bytes);
    dpmf_sampler_free(s);
    dpmf_sampler_free(again);
}

static void test_a_state_goes_on_with_the_same_batches(void **state) {
    (void)state;
    recorded *r = malloc(sizeof *r);
    for (int i = 1; i < TEXT_COUNT; i++)
        check_state(TEXTS[i], r);
    free(r);
}

/* A state with offers in its past continues as the sampler itself does, and refuses to seek. */
static void test_a_state_with_offers_goes_on_but_cannot_seek(void **state) {
    (void)state;
    int64_t offer[50], batch[2][10], count[2];
    uint8_t *bytes = NULL;
    size_t size = 0;
    dpmf_sampler *s[2] = {make("scheduled:10,3,2", 50, 20, NULL), make("scheduled:10,3,2", 50, 20, NULL)};
    for (int t = 0; t < 20; t++) {
        int64_t available = 0;
        for (int u = t % 3; u < 50; u += 2)
            offer[available++] = u;
        for (int i = t < 7; i < 2; i++)
            check_ok(dpmf_sampler_offer(s[i], available, offer, batch[i], &count[i]));
        if (t == 6) {
            check_ok(dpmf_sampler_encode(s[1], &bytes, &size));
            check_ok(dpmf_sampler_decode(s[0], bytes, size));
            check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_sampler_seek(s[0], 0));
        }
        if (t < 7) continue;
        assert_int_equal(count[0], count[1]);
        assert_memory_equal(batch[0], batch[1], (size_t)count[0] * sizeof batch[0][0]);
    }
    dpmf_bytes_free(bytes);
    dpmf_sampler_free(s[0]);
    dpmf_sampler_free(s[1]);
}

/* ---- memory ---- */

static void test_any_allocation_of_a_sampler_may_fail(void **state) {
    (void)state;
    for (int i = 0; i < TEXT_COUNT; i++) {
        const uint64_t before = dpmf_memory_in_use();
        dpmf_sampler *s = NULL;
        uint8_t *bytes = NULL;
        size_t size = 0;
        FAIL_EACH(dpmf_sampler_create(TEXTS[i], UNITS, STEPS, key, "run", &s));
        FAIL_EACH(dpmf_sampler_encode(s, &bytes, &size));
        dpmf_bytes_free(bytes);
        dpmf_sampler_free(s);
        assert_int_equal(dpmf_memory_in_use(), before);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seeking_draws_the_batch_of_any_step),
        cmocka_unit_test(test_another_key_label_text_or_size_draws_other_batches),
        cmocka_unit_test(test_a_sampler_claims_what_it_realises),
        cmocka_unit_test(test_offered_clients_are_taken_as_often_as_they_may),
        cmocka_unit_test(test_offers_that_do_not_rise_or_fit_are_refused),
        cmocka_unit_test(test_sampler_texts_out_of_range_are_refused),
        cmocka_unit_test(test_many_units_cost_nothing_where_nothing_is_kept),
        cmocka_unit_test(test_a_state_goes_on_with_the_same_batches),
        cmocka_unit_test(test_a_state_with_offers_goes_on_but_cannot_seek),
        cmocka_unit_test(test_any_allocation_of_a_sampler_may_fail),
    };
    if (dpmf_key_testing(5, key) != DPMF_OK) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
