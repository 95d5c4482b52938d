/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exactly rounded normal numbers: known answers from arithmetic of 400 bits (tests/data/whole_vectors.csv, made by
 * tests/python/reference_whole.py), among them numbers that double arithmetic cannot decide; every set of kernels and every
 * number of digits gives the same; frequencies against differences of the normal distribution function.
 */
#include "base/special.h"
#include "crypto/crypto.h"
#include "kernels/seed/seed.h"
#include "kernels/seed/whole.h"
#include "support/check.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"ref", "avx2", "avx512"};
enum { SETS = 3, PAIRS = 32, BLOCKS = KERNELS_SEED_WHOLE_BLOCKS };

typedef struct whole_case {
    uint64_t radius, angle, stream;
    double scale, x, y;
} whole_case;

static uint64_t splitmix(uint64_t *state) {
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static void fill_more(uint64_t start, uint64_t more[BLOCKS][2]) {
    for (uint64_t i = 0; i < BLOCKS; i++) {
        uint64_t state = start + i;
        more[i][0] = splitmix(&state);
        more[i][1] = splitmix(&state);
    }
}

/* The case in every place of a group: lanes must not matter. */
static void run_case(const kernels_seed_set *set, const whole_case *c, int digits, double out[64]) {
    static uint64_t words[64], more[64][BLOCKS][2];
    for (int i = 0; i < PAIRS; i++) {
        const int at = i / 8 * 16 + i % 8;
        words[at] = c->radius;
        words[at + 8] = c->angle;
        fill_more(1000 * c->stream, more[at]);
        fill_more(1000 * c->stream + 100, more[at + 8]);
    }
    const kernels_seed_words given = {(const uint8_t *)words, (const uint8_t *)more};
    set->wholes_of(&given, c->scale, digits, out);
}

static void check_case(const whole_case *c) {
    for (int s = 0; s < SETS; s++) {
        const kernels_seed_set *set = kernels_seed_find(names[s]);
        double out[64];
        if (set == NULL) continue;
        run_case(set, c, 0, out);
        for (int i = 0; i < PAIRS; i++) {
            const int at = i / 8 * 16 + i % 8;
            assert_true(out[at] == c->x && out[at + 8] == c->y);
        }
    }
}

/* One pair by the digits alone. */
static int more_of(const void *context, int of_angle, int i, uint64_t out[2]) {
    const whole_case *c = context;
    uint64_t state = 1000 * c->stream + (of_angle ? 100 : 0) + (uint64_t)i;
    out[0] = splitmix(&state);
    out[1] = splitmix(&state);
    return 1;
}

static void check_digits(const whole_case *c, int digits) {
    const kernels_seed_bits bits = {c->radius, c->angle, more_of, c};
    double x = 0, y = 0;
    assert_int_equal(kernels_seed_whole_pair(&bits, c->scale, digits, &x, &y), 1);
    assert_true(x == c->x && y == c->y);
}

static void test_known_answers_come_from_every_set_and_any_number_of_digits(void **state) {
    const char *source = getenv("DPMF_SOURCE");
    char path[600], line[300];
    int cases = 0;
    (void)state;
    snprintf(path, sizeof path, "%s%stests/data/whole_vectors.csv", source == NULL ? "" : source, source ? "/" : "");
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        whole_case c;
        assert_int_equal(sscanf(line, "%" SCNx64 ";%" SCNx64 ";%" SCNx64 ";%la;%lf;%lf", &c.radius, &c.angle, &c.stream,
                                &c.scale, &c.x, &c.y),
                         6);
        check_case(&c);
        check_digits(&c, 2);
        if (cases % 8 == 0) check_digits(&c, 4);
        if (cases % 64 == 0) check_digits(&c, 8);
        cases++;
    }
    fclose(file);
    assert_true(cases > 3000);
}

static void test_sets_agree_on_a_stream_and_with_the_digits(void **state) {
    enum { COUNT = 64 * 40 };
    static double first[COUNT], other[COUNT];
    const uint8_t key[32] = {3, 1, 4, 1, 5};
    const double scales[] = {0x1.8p36, 0x1p45, 1};
    (void)state;
    for (int k = 0; k < 3; k++)
        for (int s = 0; s < SETS; s++) {
            const kernels_seed_set *set = kernels_seed_find(names[s]);
            crypto_seed *seed = NULL;
            if (set == NULL) continue;
            check_ok(crypto_seed_open_with(set, key, &seed));
            crypto_seed_fill_wholes(seed, scales[k], 9, 0, COUNT, s == 0 ? first : other);
            if (s > 0) assert_memory_equal(first, other, sizeof first);
            /* any part of it is the same */
            crypto_seed_fill_wholes(seed, scales[k], 9, 77, 1000, other);
            assert_memory_equal(first + 77, other, 1000 * sizeof *other);
            crypto_seed_close(seed);
        }
}

/*
 * COUNT draws at a scale of 1.3 against the probabilities Phi((k + 1/2)/1.3) - Phi((k - 1/2)/1.3), k = -4..4 and the
 * two ends: chi-squared of 10 degrees of freedom below 53 (false alarm 8e-8).
 */
static void test_a_small_grid_has_the_probabilities_of_normal_numbers(void **state) {
    enum { COUNT = 64 * 4000, ENDS = 5, CELLS = 2 * ENDS + 1 };
    const double scale = 1.3;
    static double row[COUNT];
    double seen[CELLS] = {0}, chi = 0;
    const uint8_t key[32] = {1, 6, 1, 8};
    crypto_seed *seed = NULL;
    (void)state;
    check_ok(crypto_seed_open(key, &seed));
    crypto_seed_fill_wholes(seed, scale, 4, 0, COUNT, row);
    crypto_seed_close(seed);
    for (int i = 0; i < COUNT; i++)
        seen[(int)fmax(-ENDS, fmin(ENDS, row[i])) + ENDS]++;
    for (int k = -ENDS; k <= ENDS; k++) {
        const double from = k == -ENDS ? 0 : base_normal_cdf((k - 0.5) / scale),
                     to = k == ENDS ? 1 : base_normal_cdf((k + 0.5) / scale), want = COUNT * (to - from);
        chi += (seen[k + ENDS] - want) * (seen[k + ENDS] - want) / want;
    }
    assert_true(chi < 53);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_answers_come_from_every_set_and_any_number_of_digits),
        cmocka_unit_test(test_sets_agree_on_a_stream_and_with_the_digits),
        cmocka_unit_test(test_a_small_grid_has_the_probabilities_of_normal_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
