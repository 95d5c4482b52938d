/* SPDX-License-Identifier: Apache-2.0 */
/* Keys: HKDF-SHA256 against RFC 5869, subkeys, random keys, wiping. */
#include "crypto/crypto.h"
#include "support/check.h"
#include "support/failing_allocator.h"

#include <string.h>

/* Bytes of hexadecimal text; their number. */
static size_t unhex(const char *text, uint8_t *out) {
    size_t n = strlen(text) / 2;
    for (size_t i = 0; i < n; i++) {
        unsigned byte = 0;
        for (int j = 0; j < 2; j++) {
            const char c = text[2 * i + (size_t)j];
            byte = byte * 16 + (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
        }
        out[i] = (uint8_t)byte;
    }
    return n;
}

/* RFC 5869, appendix A.1 to A.3. */
static void test_hkdf_gives_the_answers_of_rfc_5869(void **state) {
    (void)state;
    static const struct {
        const char *secret, *salt, *info, *want;
    } cases[] = {
        {"0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b", "000102030405060708090a0b0c", "f0f1f2f3f4f5f6f7f8f9",
         "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"},
        {"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f3031323334353"
         "637"
         "38393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f",
         "606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f9091929394959"
         "697"
         "98999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeaf",
         "b0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e"
         "6e7"
         "e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
         "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e09da3275600c2f0"
         "9b8"
         "367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87"},
        {"0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b", "", "",
         "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        uint8_t secret[128], salt[128], info[128], want[128], got[128];
        const size_t secret_size = unhex(cases[c].secret, secret), salt_size = unhex(cases[c].salt, salt);
        const size_t info_size = unhex(cases[c].info, info), size = unhex(cases[c].want, want);
        check_ok(crypto_hkdf(salt, salt_size, secret, secret_size, info, info_size, got, size));
        assert_memory_equal(got, want, size);
    }
    uint8_t little[1] = {9};
    check_fails(DPMF_ERROR_ARGUMENT, crypto_hkdf(little, 1, little, 1, little, 1, little, 8161));
    assert_int_equal(little[0], 9);
}

/* Master key, label and digest all matter, and where one ends and the next begins. */
static void test_key_label_and_digest_all_change_the_subkey(void **state) {
    (void)state;
    static const char *const pairs[][2] = {{"noise", "abc"}, {"noise", "abd"},  {"noisea", "bc"},
                                           {"nois", "eabc"}, {"sample", "abc"}, {"noise", ""}};
    uint8_t master[32] = {1, 2, 3}, made[7][32], again[32];
    for (int i = 0; i < 6; i++)
        check_ok(crypto_key_derive(master, pairs[i][0], pairs[i][1], made[i]));
    check_ok(crypto_key_derive(master, "noise", "abc", again));
    assert_memory_equal(again, made[0], 32);
    master[31] = 1;
    check_ok(crypto_key_derive(master, "noise", "abc", made[6]));
    for (int i = 0; i < 7; i++)
        for (int j = 0; j < i; j++)
            assert_memory_not_equal(made[i], made[j], 32);
}

/* The subkey of a known master key: a change of the derivation would change every stream. */
static void test_the_subkey_of_a_known_key_stays_the_same(void **state) {
    (void)state;
    static const char *const salt = "dpmf subkeys 1";
    static const uint8_t info[] = {'n', 'o', 'i', 's', 'e', 0, 'x', 'y'};
    uint8_t master[32], want[32], got[32], known[32];
    for (unsigned i = 0; i < 32; i++)
        master[i] = (uint8_t)i;
    check_ok(crypto_hkdf((const uint8_t *)salt, 14, master, 32, info, sizeof info, want, 32));
    check_ok(crypto_key_derive(master, "noise", "xy", got));
    assert_memory_equal(got, want, 32);
    unhex("11470b7d33ea3443527890d0a3a4ef669c4924be706ac3c348d11a491979b143", known);
    assert_memory_equal(got, known, 32);
}

static void test_two_random_keys_differ(void **state) {
    (void)state;
    uint8_t a[32] = {0}, b[32] = {0};
    check_ok(crypto_key_random(a));
    check_ok(crypto_key_random(b));
    assert_memory_not_equal(a, b, 32); /* false alarm 2^-256 */
}

static void test_a_wipe_zeroes_what_it_is_given_and_no_more(void **state) {
    (void)state;
    uint8_t bytes[40];
    memset(bytes, 5, sizeof bytes);
    crypto_wipe(bytes + 3, 30);
    for (int i = 0; i < 40; i++)
        assert_int_equal(bytes[i], i >= 3 && i < 33 ? 0 : 5);
    crypto_wipe(NULL, 0);
}

static void test_any_allocation_of_a_derivation_may_fail(void **state) {
    (void)state;
    const uint8_t master[32] = {1};
    uint8_t key[32] = {42};
    FAIL_EACH((assert_int_equal(key[0], 42), crypto_key_derive(master, "a", "b", key)));
    assert_int_not_equal(key[0] | key[1] << 8, 42);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hkdf_gives_the_answers_of_rfc_5869),
        cmocka_unit_test(test_key_label_and_digest_all_change_the_subkey),
        cmocka_unit_test(test_the_subkey_of_a_known_key_stays_the_same),
        cmocka_unit_test(test_two_random_keys_differ),
        cmocka_unit_test(test_a_wipe_zeroes_what_it_is_given_and_no_more),
        cmocka_unit_test(test_any_allocation_of_a_derivation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
