/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samplers: the certain properties of every batch, and the laws that guarantees rest on.
 *
 * A count of independent events of probability p in n trials is refused if n KL(count/n, p) > ln(2 T / 1e-11), T the
 * number of counts tested in a row: by Chernoff's bound a right sampler fails a row with probability at most 1e-11, and
 * the whole file (fewer than 50 rows) with less than 1e-9. Keys are fixed: a run that passes passes always.
 */
#include "crypto/crypto.h"
#include "support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double part(double x, double y) {
    return x == 0 ? 0 : x * log(x / y);
}

static void check_rate_(int64_t hits, int64_t trials, double p, int64_t tests, int line) {
    const double rate = (double)hits / (double)trials;
    const double divergence = (double)trials * (part(rate, p) + part(1 - rate, 1 - p));
    if (!(divergence <= log(2 * (double)tests / 1e-11)))
        fail_msg("line %d: %lld of %lld, and %.6g was expected", line, (long long)hits, (long long)trials,
                 p * (double)trials);
}
#define check_rate(hits, trials, p, tests) check_rate_((hits), (trials), (p), (tests), __LINE__)

/* in[t * units + u]: does unit u take part in step t? */
static uint8_t *run(const char *text, int64_t units, int64_t steps, uint64_t seed) {
    uint8_t key[DPMF_KEY_SIZE], *in = calloc((size_t)(units * steps), 1);
    dpmf_sampler *s = NULL;
    check_ok(dpmf_key_testing(seed, key));
    check_ok(dpmf_sampler_create(text, units, steps, key, NULL, &s));
    int64_t *batch = calloc((size_t)dpmf_sampler_get(s).capacity, sizeof *batch), count = 0;
    for (int64_t t = 0; t < steps; t++) {
        check_ok(dpmf_sampler_next(s, batch, &count));
        for (int64_t i = 0; i < count; i++) {
            assert_int_equal(in[t * units + batch[i]], 0);
            in[t * units + batch[i]] = 1;
        }
    }
    free(batch);
    dpmf_sampler_free(s);
    return in;
}

static int64_t total(const uint8_t *in, int64_t count) {
    int64_t sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += in[i];
    return sum;
}

/* ---- Poisson ---- */

static void test_poisson_coins_are_independent(void **state) {
    (void)state;
    enum { UNITS = 5000, STEPS = 800 };
    const double q = 0.03;
    uint8_t *in = run("poisson:0.03", UNITS, STEPS, 1);
    int64_t both_units = 0, both_steps = 0, apart = 0;
    check_rate(total(in, UNITS * STEPS), UNITS * STEPS, q, 1);
    for (int64_t t = 0; t < STEPS; t++)
        check_rate(total(in + t * UNITS, UNITS), UNITS, q, STEPS);
    for (int64_t u = 0; u < UNITS; u++) {
        int64_t times = 0;
        for (int64_t t = 0; t < STEPS; t++)
            times += in[t * UNITS + u];
        check_rate(times, STEPS, q, UNITS);
    }
    for (int64_t t = 0; t < STEPS; t++) /* pairs that share nothing: independent of each other */
        for (int64_t u = 0; u + 1 < UNITS; u += 2)
            both_units += in[t * UNITS + u] & in[t * UNITS + u + 1];
    for (int64_t t = 0; t < STEPS; t += 2)
        for (int64_t u = 0; u < UNITS; u++) {
            both_steps += in[t * UNITS + u] & in[(t + 1) * UNITS + u];
            apart += in[t * UNITS + u] & in[(t + 1) * UNITS + (u + 1) % UNITS];
        }
    check_rate(both_units, UNITS / 2 * STEPS, q * q, 1);
    check_rate(both_steps, UNITS * STEPS / 2, q * q, 1);
    check_rate(apart, UNITS * STEPS / 2, q * q, 1);
    uint8_t *other = run("poisson:0.03", UNITS, STEPS, 2);
    int64_t shared = 0;
    for (int64_t i = 0; i < UNITS * STEPS; i++)
        shared += in[i] & other[i];
    check_rate(shared, UNITS * STEPS, q * q, 1);
    free(other);
    free(in);
}

static void test_probability_one_takes_all_and_a_tiny_one_nobody(void **state) {
    (void)state;
    uint8_t *always = run("poisson:1", 300, 20, 1), *never = run("poisson:1e-25", 300, 20, 1);
    assert_int_equal(total(always, 300 * 20), 300 * 20);
    assert_int_equal(total(never, 300 * 20), 0); /* 1e-25 is below 2^-64: rounded down */
    free(always);
    free(never);
}

/* ---- block-cyclic ---- */

static void test_blocks_are_dealt_evenly_and_coins_are_independent(void **state) {
    (void)state;
    enum { UNITS = 5003, B = 7, STEPS = 700 };
    const double p = 0.05 * B;
    uint8_t *in = run("block-cyclic:0.05,7", UNITS, STEPS, 3);
    int64_t sizes[B] = {0}, both_units = 0, both_steps = 0, pairs = 0, shared = 0, of[UNITS];
    for (int64_t u = 0; u < UNITS; u++) {
        int64_t block = -1, times = 0;
        for (int64_t t = 0; t < STEPS; t++) {
            if (!in[t * UNITS + u]) continue;
            assert_true(block == -1 || block == t % B);
            block = t % B;
            times++;
        }
        assert_true(block >= 0); /* fails with probability 5000 x 0.65^100 = 1e-15 */
        sizes[block]++;
        of[u] = block;
        check_rate(times, STEPS / B, p, UNITS);
        for (int64_t t = block; t + B < STEPS; t += 2 * B, pairs++)
            both_steps += in[t * UNITS + u] & in[(t + B) * UNITS + u];
    }
    check_rate(both_steps, pairs, p * p, 1);
    for (int j = 0; j < B; j++) {
        assert_true(sizes[j] == UNITS / B || sizes[j] == UNITS / B + 1);
        for (int64_t t = j; t < STEPS; t += B)
            check_rate(total(in + t * UNITS, UNITS), sizes[j], p, STEPS);
    }
    for (int64_t u = 0; u + 1 < UNITS; u += 2) /* neighbours that share a block: independent all the same */
        for (int64_t t = of[u]; t < STEPS && of[u] == of[u + 1]; t += B, shared++)
            both_units += in[t * UNITS + u] & in[t * UNITS + u + 1];
    check_rate(both_units, shared, p * p, 1);
    free(in);
}

/* A probability of Q B = 1 takes the whole block: every unit once in a round. */
static void test_a_whole_block_takes_every_unit_once_in_a_round(void **state) {
    (void)state;
    enum { UNITS = 100, B = 4, STEPS = 40, KEYS = 4000 };
    uint8_t *in = run("block-cyclic:0.25,4", UNITS, STEPS, 4);
    for (int64_t u = 0; u < UNITS; u++)
        for (int64_t round = 0; round < STEPS / B; round++) {
            int64_t times = 0;
            for (int64_t t = round * B; t < (round + 1) * B; t++)
                times += in[t * UNITS + u];
            assert_int_equal(times, 1);
        }
    free(in);
    int64_t first[3] = {0}, together = 0; /* 12 units dealt to 3 blocks of 4, with many keys */
    for (uint64_t seed = 0; seed < KEYS; seed++) {
        in = run("block-cyclic:1,3", 12, 3, seed);
        for (int64_t t = 0; t < 3; t++) {
            assert_int_equal(total(in + 12 * t, 12), 4);
            first[t] += in[12 * t + 5];
            together += in[12 * t + 5] & in[12 * t + 6];
        }
        free(in);
    }
    for (int t = 0; t < 3; t++)
        check_rate(first[t], KEYS, 1.0 / 3, 3);
    check_rate(together, KEYS, 3.0 / 11, 1);
}

/* ---- balls in bins ---- */

static void test_bins_are_uniform_and_kept(void **state) {
    (void)state;
    enum { UNITS = 60000, B = 11, STEPS = 2 * B };
    uint8_t *in = run("balls-in-bins:11", UNITS, STEPS, 5);
    int64_t size[B] = {0}, same = 0, last = -1;
    int64_t table[B][B] = {{0}};
    for (int64_t u = 0; u < UNITS; u++) {
        int64_t bin = -1;
        for (int64_t t = 0; t < B; t++) {
            assert_int_equal(in[t * UNITS + u], in[(t + B) * UNITS + u]);
            if (!in[t * UNITS + u]) continue;
            assert_int_equal(bin, -1);
            bin = t;
        }
        assert_true(bin >= 0);
        size[bin]++;
        if (u % 2 == 1) {
            same += bin == last;
            table[last][bin]++;
        }
        last = bin;
    }
    for (int i = 0; i < B; i++) {
        check_rate(size[i], UNITS, 1.0 / B, B);
        for (int j = 0; j < B; j++)
            check_rate(table[i][j], UNITS / 2, 1.0 / (B * B), B * B);
    }
    check_rate(same, UNITS / 2, 1.0 / B, 1);
    free(in);
}

/* ---- min-sep ---- */

static void test_separated_units_wait_and_then_join_at_the_rate(void **state) {
    (void)state;
    enum { UNITS = 40000, B = 5, STEPS = 60 };
    const double p = 0.2;
    uint8_t *in = run("min-sep:0.2,5", UNITS, STEPS, 6);
    double joins[STEPS], is_free = 1;
    int64_t again[4] = {0}, first_joins = 0;
    for (int64_t t = 0; t < STEPS; t++) { /* units are independent: each step's count is binomial */
        is_free += t == 0 ? 0 : (t >= B ? joins[t - B] : 0) - joins[t - 1];
        joins[t] = p * is_free;
        check_rate(total(in + t * UNITS, UNITS), UNITS, joins[t], STEPS);
    }
    for (int64_t u = 0; u < UNITS; u++) {
        for (int64_t t = 0, last = -B; t < STEPS; t++) {
            if (!in[t * UNITS + u]) continue;
            assert_true(t - last >= B);
            last = t;
        }
        if (!in[u]) continue; /* of those who joined at step 0: the wait until the next time is B + geometric */
        first_joins++;
        for (int64_t i = 0; i < 4; i++)
            if (in[(B + i) * UNITS + u]) {
                again[i]++;
                break;
            }
    }
    for (int i = 0; i < 4; i++)
        check_rate(again[i], first_joins, p * pow(1 - p, i), 4);
    int64_t both = 0;
    for (int64_t u = 0; u + 1 < UNITS; u += 2)
        both += in[20 * UNITS + u] & in[20 * UNITS + u + 1];
    check_rate(both, UNITS / 2, joins[20] * joins[20], 1);
    free(in);
    in = run("min-sep:1,4", 50, 21, 6); /* all units at once, then every fourth step */
    for (int64_t t = 0; t < 21; t++)
        assert_int_equal(total(in + 50 * t, 50), t % 4 == 0 ? 50 : 0);
    free(in);
}

/* ---- orders ---- */

static void test_every_epoch_takes_every_unit_once_in_a_new_order(void **state) {
    (void)state;
    enum { UNITS = 23, M = 5, B = 5, EPOCHS = 6000 };
    uint8_t *in = run("shuffled:5", UNITS, B * EPOCHS, 7), *fixed = run("cyclic:5", UNITS, B * 20, 7);
    int64_t at[B] = {0}, together = 0, again = 0, last = -1, epochs = 0;
    for (int64_t e = 0; e < EPOCHS; e++) {
        const uint8_t *epoch = in + e * B * UNITS;
        int64_t place = -1;
        for (int64_t i = 0; i < B; i++)
            assert_int_equal(total(epoch + i * UNITS, UNITS), i < B - 1 ? M : UNITS - (B - 1) * M);
        for (int64_t u = 0; u < UNITS; u++) {
            int64_t times = 0;
            for (int64_t i = 0; i < B; i++)
                times += epoch[i * UNITS + u];
            assert_int_equal(times, 1);
        }
        for (int64_t i = 0; i < B; i++) {
            at[i] += epoch[i * UNITS + 3];
            together += epoch[i * UNITS + 3] & epoch[i * UNITS + 4];
            if (epoch[i * UNITS + 3]) place = i;
        }
        if (e % 2 == 1) {
            again += place == last;
            epochs++;
        }
        last = place;
    }
    for (int i = 0; i < B; i++)
        check_rate(at[i], EPOCHS, (i < B - 1 ? 5.0 : 3.0) / UNITS, B);
    check_rate(together, EPOCHS, (4 * 20.0 + 6) / (UNITS * (UNITS - 1)), 1);
    check_rate(again, epochs, (4 * 25.0 + 9) / (UNITS * UNITS), 1);
    for (int64_t t = 0; t < 20 * B; t++)
        for (int64_t u = 0; u < UNITS; u++)
            assert_int_equal(fixed[t * UNITS + u], u / M == t % B);
    free(in);
    free(fixed);
}

/* All 120 orders of five units, as often. */
static void test_all_orders_come_equally_often(void **state) {
    (void)state;
    enum { N = 5, ORDERS = 120, EPOCHS = 40000 };
    int64_t seen[3125] = {0};
    int orders = 0;
    uint8_t *in = run("shuffled:1", N, N * EPOCHS, 8);
    for (int64_t e = 0; e < EPOCHS; e++) {
        int code = 0;
        for (int64_t i = 0; i < N; i++)
            for (int u = 0; u < N; u++)
                if (in[(e * N + i) * N + u]) code = code * N + u;
        seen[code]++;
    }
    for (int code = 0; code < 3125; code++)
        if (seen[code] > 0) {
            orders++;
            check_rate(seen[code], EPOCHS, 1.0 / ORDERS, ORDERS);
        }
    assert_int_equal(orders, ORDERS);
    free(in);
}

/* ---- scheduled ---- */

static void test_scheduled_units_wait_and_take_part_equally(void **state) {
    (void)state;
    enum { UNITS = 97, M = 10, K = 4, B = 6, STEPS = 50, KEYS = 3000 };
    uint8_t *in = run("scheduled:10,4,6", UNITS, STEPS, 9);
    int64_t times[UNITS] = {0}, last[UNITS], chosen[3] = {0}, left = UNITS * K;
    for (int u = 0; u < UNITS; u++)
        last[u] = -B;
    for (int64_t t = 0; t < STEPS; t++) {
        int64_t fewest = K, most = 0;
        const int64_t size = total(in + t * UNITS, UNITS);
        assert_int_equal(size, left < M ? left : M); /* there are always enough who have waited, until all is used */
        left -= size;
        for (int64_t u = 0; u < UNITS; u++) {
            if (in[t * UNITS + u]) {
                assert_true(t - last[u] >= B);
                last[u] = t;
                times[u]++;
            }
            fewest = times[u] < fewest ? times[u] : fewest;
            most = times[u] > most ? times[u] : most;
        }
        assert_true(most <= K && most - fewest <= 1);
    }
    assert_int_equal(left, 0);
    free(in);
    for (uint64_t seed = 0; seed < KEYS; seed++) { /* the key alone decides the order */
        in = run("scheduled:4,2,2", 12, 4, seed);
        chosen[0] += in[2];
        chosen[1] += in[2] & in[3];
        chosen[2] += in[12 * 3 + 2];
        free(in);
    }
    check_rate(chosen[0], KEYS, 4.0 / 12, 1);
    check_rate(chosen[1], KEYS, 4.0 * 3 / (12 * 11), 1);
    check_rate(chosen[2], KEYS, 4.0 / 12, 1); /* 4 of the 8 that took part in steps 0 and 1 */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_poisson_coins_are_independent),
        cmocka_unit_test(test_probability_one_takes_all_and_a_tiny_one_nobody),
        cmocka_unit_test(test_blocks_are_dealt_evenly_and_coins_are_independent),
        cmocka_unit_test(test_bins_are_uniform_and_kept),
        cmocka_unit_test(test_every_epoch_takes_every_unit_once_in_a_new_order),
        cmocka_unit_test(test_a_whole_block_takes_every_unit_once_in_a_round),
        cmocka_unit_test(test_separated_units_wait_and_then_join_at_the_rate),
        cmocka_unit_test(test_scheduled_units_wait_and_take_part_equally),
        cmocka_unit_test(test_all_orders_come_equally_often),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
