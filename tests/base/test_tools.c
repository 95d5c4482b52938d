/* SPDX-License-Identifier: Apache-2.0 */
/* Small tools that several stages share: text made piece by piece, splitmix64, numbers in the opposite order. */
#include "base/linalg.h"
#include "base/random.h"
#include "base/status.h"
#include "support/check.h"

#include <string.h>

static void test_text_ends_where_its_memory_does_and_its_length_counts_all(void **state) {
    char out[8] = "";
    (void)state;
    memset(out + 1, 'x', sizeof out - 1);
    base_text text = {.out = out, .size = 7};
    base_text_add(&text, "%d-", 12);
    assert_string_equal(out, "12-");
    base_text_add(&text, "%s", "abc");
    assert_string_equal(out, "12-abc");
    assert_int_equal(text.length, 6);
    base_text_add(&text, "%s", "defg");
    base_text_add(&text, "h");
    assert_string_equal(out, "12-abc");
    assert_int_equal(text.length, 11);
    assert_int_equal(out[7], 'x');
    base_text none = {.out = NULL, .size = 0};
    base_text_add(&none, "%05d", 7);
    assert_int_equal(none.length, 5);
}

/* The first words from the seeds 0 and 1234567, by Python's integers. */
static void test_splitmix64_gives_its_known_words(void **state) {
    static const uint64_t seeds[2] = {0, 1234567},
                          want[2][3] = {{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f},
                                        {0x599ed017fb08fc85, 0x2c73f08458540fa5, 0x883ebce5a3f27c77}};
    (void)state;
    for (int i = 0; i < 2; i++) {
        uint64_t words = seeds[i], numbers = seeds[i];
        for (int j = 0; j < 3; j++) {
            assert_true(base_splitmix(&words) == want[i][j]);
            assert_true(base_scatter(&numbers) == (double)(want[i][j] >> 11) / 0x1p52 - 1);
        }
        assert_true(words == seeds[i] + 3 * BASE_SPLITMIX_STEP && numbers == words);
    }
}

/* Sizes below, at and above the tiles. */
static void test_reversed_matrices_have_each_entry_in_its_place(void **state) {
    static const int64_t sizes[] = {0, 1, 2, 5, 31, 32, 33, 64, 70};
    static double x[70 * 70], across[70 * 70];
    (void)state;
    for (int k = 0; k < (int)(sizeof sizes / sizeof *sizes); k++) {
        const int64_t n = sizes[k];
        for (int64_t i = 0; i < n * n; i++)
            x[i] = across[i] = (double)i;
        base_reverse(n * n, x);
        base_reverse_across(n, across);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++) {
                assert_true(x[i * n + j] == (double)((n - 1 - i) * n + n - 1 - j));
                assert_true(across[i * n + j] == (double)((n - 1 - j) * n + n - 1 - i));
            }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_ends_where_its_memory_does_and_its_length_counts_all),
        cmocka_unit_test(test_splitmix64_gives_its_known_words),
        cmocka_unit_test(test_reversed_matrices_have_each_entry_in_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
