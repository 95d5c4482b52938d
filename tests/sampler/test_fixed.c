/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches of a fixed size: every batch has M units of the block whose turn it is, every set (or list of draws) is as likely, and a
 * batch is a function of the key and the step. Statistical tests fail with probability below 1e-9 for a right sampler, and
 * keys are fixed.
 */
#include "sampler/sampler.h"
#include "support/check.h"

#include <math.h>
#include <string.h>

static dpmf_sampler *make(const char *text, int64_t units, int64_t steps) {
    uint8_t key[DPMF_KEY_SIZE];
    dpmf_sampler *s = NULL;
    check_ok(dpmf_key_testing(9, key));
    check_ok(dpmf_sampler_create(text, units, steps, key, NULL, &s));
    return s;
}

/* All 20 sets of 3 of 6 units: counts within 6.5 deviations. */
static void test_all_sets_are_as_likely(void **state) {
    enum { STEPS = 40000 };
    dpmf_sampler *s = make("fixed:3,6", 6, STEPS);
    int64_t batch[6], count = 0, seen[64] = {0};
    (void)state;
    assert_int_equal(dpmf_sampler_get(s).capacity, 3);
    check_near(dpmf_sampler_get(s).expected, 3, 0);
    for (int t = 0; t < STEPS; t++) {
        unsigned set = 0;
        check_ok(dpmf_sampler_next(s, batch, &count));
        assert_int_equal(count, 3);
        for (int i = 0; i < 3; i++) {
            assert_true(i == 0 || batch[i] > batch[i - 1]);
            set |= 1u << batch[i];
        }
        seen[set]++;
    }
    for (unsigned set = 0; set < 64; set++)
        check_near((double)seen[set] / STEPS, __builtin_popcount(set) == 3 ? 0.05 : 0, 6.5 * sqrt(0.05 * 0.95 / STEPS));
    dpmf_sampler_free(s);
}

/* With replacement: how often a unit is drawn has the law Bin(4, 1/5). */
static void test_draws_with_replacement_are_independent(void **state) {
    enum { STEPS = 40000 };
    static const double law[5] = {0.4096, 0.4096, 0.1536, 0.0256, 0.0016};
    dpmf_sampler *s = make("fixed-replace:4,5", 5, STEPS);
    int64_t batch[4], count = 0, seen[5][5] = {{0}};
    (void)state;
    assert_int_equal(dpmf_sampler_get(s).capacity, 4);
    for (int t = 0; t < STEPS; t++) {
        int times[5] = {0};
        check_ok(dpmf_sampler_next(s, batch, &count));
        assert_int_equal(count, 4);
        for (int i = 0; i < 4; i++) {
            assert_true(i == 0 || batch[i] >= batch[i - 1]);
            times[batch[i]]++;
        }
        for (int u = 0; u < 5; u++)
            seen[u][times[u]]++;
    }
    for (int u = 0; u < 5; u++)
        for (int j = 0; j < 5; j++)
            check_near((double)seen[u][j] / STEPS, law[j], 6.5 * sqrt(law[j] / STEPS));
    dpmf_sampler_free(s);
}

/* Blocks: each unit is in one, step t draws from block t mod B, sizes of blocks differ by one at most. */
static void test_blocks_take_turns(void **state) {
    static const char *const texts[] = {"fixed:4,23,3", "fixed-replace:4,23,3"};
    (void)state;
    for (int k = 0; k < 2; k++) {
        dpmf_sampler *s = make(texts[k], 23, 3000);
        int64_t batch[23], count = 0, block[23], sizes[3] = {0};
        memset(block, 0xff, sizeof block);
        for (int t = 0; t < 3000; t++) {
            check_ok(dpmf_sampler_next(s, batch, &count));
            assert_int_equal(count, 4);
            for (int i = 0; i < 4; i++) {
                assert_true(block[batch[i]] == -1 || block[batch[i]] == t % 3);
                block[batch[i]] = t % 3;
            }
        }
        for (int u = 0; u < 23; u++)
            sizes[block[u]]++;
        assert_true(sizes[0] >= 7 && sizes[1] >= 7 && sizes[2] >= 7);
        dpmf_sampler_free(s);
    }
}

static void test_going_back_gives_the_same_fixed_batches(void **state) {
    static const char *const texts[] = {"fixed:5,30", "fixed-replace:5,30", "fixed:5,30,2"};
    (void)state;
    for (int k = 0; k < 3; k++) {
        dpmf_sampler *s = make(texts[k], 30, 24);
        int64_t a[30], b[30], n = 0, m = 0;
        check_ok(dpmf_sampler_seek(s, 9));
        check_ok(dpmf_sampler_next(s, a, &n));
        check_ok(dpmf_sampler_next(s, b, &m));
        assert_true(memcmp(a, b, 5 * sizeof *a) != 0);
        check_ok(dpmf_sampler_seek(s, 9));
        check_ok(dpmf_sampler_next(s, b, &m));
        assert_memory_equal(a, b, (size_t)n * sizeof *a);
        dpmf_sampler_free(s);
    }
}

/* A mechanism for fixed:20,200 takes this sampler alone: not another size, number of units or way. */
static void test_only_the_same_law_is_accepted(void **state) {
    static const struct {
        const char *text;
        int64_t units;
        int accepted;
    } cases[] = {{"fixed:20,200", 200, 1},         {"fixed:19,200", 200, 0}, {"fixed:20,201", 201, 0},
                 {"fixed-replace:20,200", 200, 0}, {"poisson:0.1", 200, 0},  {"fixed:20,200,2", 200, 0}};
    dpmf_workload *workload = NULL;
    dpmf_strategy *strategy = NULL;
    dpmf_mechanism *plain = NULL, *mechanism = NULL;
    dpmf_mechanism_options o = dpmf_mechanism_options_defaults();
    uint8_t key[DPMF_KEY_SIZE];
    (void)state;
    check_ok(dpmf_key_testing(9, key));
    check_ok(dpmf_workload_parse("prefix", 12, &workload));
    check_ok(dpmf_strategy_create("identity", workload, NULL, &strategy));
    check_ok(dpmf_sampling_parse("fixed:20,200", &o.sampling));
    check_ok(dpmf_mechanism_create(workload, NULL, strategy, &o, &plain));
    check_ok(dpmf_mechanism_calibrate(plain, 2, 1e-6, NULL, NULL, NULL, &mechanism, NULL));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dpmf_sampler *s = NULL;
        check_ok(dpmf_sampler_create(cases[i].text, cases[i].units, 12, key, NULL, &s));
        assert_int_equal(dpmf_sampler_check(s, mechanism) == DPMF_OK, cases[i].accepted);
        dpmf_sampler_free(s);
    }
    dpmf_sampler *s = NULL;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_sampler_create("fixed:20,200", 199, 12, key, NULL, &s));
    check_message("199");
    dpmf_mechanism_free(mechanism);
    dpmf_mechanism_free(plain);
    dpmf_strategy_free(strategy);
    dpmf_workload_free(workload);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_sets_are_as_likely),
        cmocka_unit_test(test_draws_with_replacement_are_independent),
        cmocka_unit_test(test_blocks_take_turns),
        cmocka_unit_test(test_going_back_gives_the_same_fixed_batches),
        cmocka_unit_test(test_only_the_same_law_is_accepted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
