/* SPDX-License-Identifier: Apache-2.0 */
/* The simulation's generator: known answers, independence of how the work is cut, and the law of its numbers. */
#include "base/random.h"

#include "base/special.h"
#include "oracle/oracle.h"
#include "support/check.h"
#include <math.h>
#include <string.h>

/* From the known-answer file of the authors' Random123 (Salmon et al. 2011): counter, key, answer. */
static void test_philox_gives_the_authors_known_answers(void **unused) {
    static const uint32_t known[3][10] = {
        {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {~0u, ~0u, ~0u, ~0u, ~0u, ~0u, 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09, 0x94fdcceb, 0x5001e420,
         0x24126ea1}};
    (void)unused;
    for (int i = 0; i < 3; i++) {
        uint32_t out[4];
        oracle_philox(known[i], known[i] + 4, out);
        assert_memory_equal(out, known[i] + 6, sizeof out);
    }
}

/* The two words of block `index` of a stream. */
static void words(uint64_t seed, uint64_t stream, uint64_t index, uint64_t out[2]) {
    const uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)stream, (uint32_t)(stream >> 32)};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t w[4];
    oracle_philox(counter, key, w);
    out[0] = w[0] | (uint64_t)w[1] << 32;
    out[1] = w[2] | (uint64_t)w[3] << 32;
}

static double unit(uint64_t bits) {
    return ((double)(bits >> 12) + 0.5) * 0x1p-52;
}

/* Uniforms are the upper bits of the words; normals are Box and Muller's of them, with the library's functions. */
static void test_uniforms_and_normals_are_their_definition(void **unused) {
    enum { COUNT = 2000 };
    static const double pi = 3.14159265358979323846;
    const uint64_t seed = 0x123456789abcdef0u, stream = (uint64_t)77 << 41 | 5;
    double uniforms[COUNT], normals[COUNT];
    (void)unused;
    base_random_uniforms(seed, stream, COUNT, uniforms);
    base_random_normals(seed, stream, COUNT, normals);
    for (int i = 0; i < COUNT; i += 2) {
        uint64_t w[2];
        words(seed, stream, (uint64_t)i / 2, w);
        assert_true(uniforms[i] == unit(w[0]) && uniforms[i + 1] == unit(w[1]));
        const double radius = sqrt(-2 * log(unit(w[0]))), angle = pi / 2 * (unit(w[1]) - 0.5);
        const double x = radius * cos(angle), y = radius * sin(angle), sign = w[1] & 2 ? -1 : 1;
        check_near(normals[i], sign * (w[1] & 1 ? y : x), 1e-14);
        check_near(normals[i + 1], sign * (w[1] & 1 ? x : y), 1e-14);
    }
}

/* The first numbers of a stream do not depend on how many are asked for; streams and seeds differ. */
static void test_a_stream_does_not_depend_on_how_many_are_asked_for(void **unused) {
    double all[100], some[100];
    (void)unused;
    base_random_normals(9, 4, 100, all);
    for (int64_t count = 0; count <= 100; count++) {
        memset(some, 0, sizeof some);
        base_random_normals(9, 4, count, some);
        assert_memory_equal(some, all, (size_t)count * sizeof *some);
        for (int64_t i = count; i < 100; i++)
            assert_true(some[i] == 0);
    }
    base_random_normals(9, 5, 100, some);
    for (int i = 0; i < 100; i++)
        assert_true(some[i] != all[i]);
    base_random_normals((uint64_t)1 << 32 | 9, 4, 100, some);
    for (int i = 0; i < 100; i++)
        assert_true(some[i] != all[i]);
}

/*
 * The law: Phi of 2^20 normals in 1024 equal cells; x and y of the pairs in 32 x 32. Chi-square of 1023 degrees is
 * within 1023 +- 5 sqrt(2046) but for 2e-6 of seeds; the seed is fixed.
 */
static void test_normals_have_the_normal_law(void **unused) {
    enum { CELLS = 1024, SIDE = 32, COUNT = 1 << 10, STREAMS = 1 << 10 };
    static double single[CELLS], pairs[CELLS];
    double z[COUNT], moment[4] = {0};
    const double total = (double)COUNT * STREAMS;
    (void)unused;
    for (uint64_t stream = 0; stream < STREAMS; stream++) {
        base_random_normals(20261, stream, COUNT, z);
        for (int i = 0; i < COUNT; i++) {
            single[(int)(base_normal_cdf(z[i]) * CELLS)]++;
            moment[0] += z[i], moment[1] += z[i] * z[i], moment[2] += pow(z[i], 3), moment[3] += pow(z[i], 4);
        }
        for (int i = 0; i < COUNT; i += 2)
            pairs[(int)(base_normal_cdf(z[i]) * SIDE) * SIDE + (int)(base_normal_cdf(z[i + 1]) * SIDE)]++;
    }
    double square_single = 0, square_pairs = 0;
    for (int i = 0; i < CELLS; i++) {
        square_single += pow(single[i] - total / CELLS, 2) / (total / CELLS);
        square_pairs += pow(pairs[i] - total / 2 / CELLS, 2) / (total / 2 / CELLS);
    }
    check_near(square_single, CELLS - 1, 5 * sqrt(2.0 / (CELLS - 1)));
    check_near(square_pairs, CELLS - 1, 5 * sqrt(2.0 / (CELLS - 1)));
    /* means 0, 1, 0, 3 with variances 1, 2, 15, 96: five standard errors, 6e-7 each */
    assert_true(fabs(moment[0] / total) < 5 * sqrt(1 / total));
    assert_true(fabs(moment[1] / total - 1) < 5 * sqrt(2 / total));
    assert_true(fabs(moment[2] / total) < 5 * sqrt(15 / total));
    assert_true(fabs(moment[3] / total - 3) < 5 * sqrt(96 / total));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_philox_gives_the_authors_known_answers),
                                       cmocka_unit_test(test_uniforms_and_normals_are_their_definition),
                                       cmocka_unit_test(test_a_stream_does_not_depend_on_how_many_are_asked_for),
                                       cmocka_unit_test(test_normals_have_the_normal_law)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
