/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers to and from text in any locale, UTF-8. */
#include "base/status.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/other_locale.h"

static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static int same_bits(double a, double b) {
    return memcmp(&a, &b, sizeof a) == 0;
}

static void test_doubles_are_read(void **state) {
    static const struct {
        const char *text;
        double value;
    } cases[] = {
        {"0", 0.0},
        {"-0", -0.0},
        {"+7", 7.0},
        {"1.5", 1.5},
        {"-1.5E3", -1500.0},
        {".5", 0.5},
        {"5.", 5.0},
        {"0.1", 0.1},
        {"00012.500", 12.5},
        {"1e-3", 0.001},
        {"0.0001e4", 1.0},
        {"1e+22", 1e22},
        {"1e23", 1e23},
        {"9007199254740993", 9007199254740992.0},            /* half way: to even */
        {"9007199254740993.0000000001", 9007199254740994.0}, /* and just above */
        {"1.7976931348623157e308", 1.7976931348623157e308},
        {"4.9406564584124654e-324", 4.9406564584124654e-324},
        {"2.2250738585072011e-308", 2.2250738585072011e-308},
        {"1e-400", 0.0},
        {"-1e-99999999999999999999999", -0.0},
        {"0e99999999999999999999999", 0.0},
        {"0.00000000000000000000000000000000000000000000000001e50", 1.0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double value = NAN;
        assert_true(base_parse_double(cases[i].text, strlen(cases[i].text), &value));
        if (!same_bits(value, cases[i].value)) fail_msg("%s was read as %.17g", cases[i].text, value);
    }
}

static const char *const not_numbers[] = {
    "",   "+",   "-",   ".",    "e5",   "1e",    "1e+", "1e-",   "0x10",  "inf", "nan", "-inf",     " 1",
    "1 ", "1,5", "--1", "1..2", "1e5.", "1.2.3", "1f",  "1_000", "1e5e5", "+-1", "1\n", "\xd9\xa1", "infinity",
};

static void test_texts_that_are_no_numbers_are_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof not_numbers / sizeof not_numbers[0]; i++) {
        double value = 42.0;
        int64_t whole = 42;
        if (base_parse_double(not_numbers[i], strlen(not_numbers[i]), &value)) fail_msg("'%s'", not_numbers[i]);
        if (base_parse_integer(not_numbers[i], strlen(not_numbers[i]), &whole)) fail_msg("'%s'", not_numbers[i]);
        assert_true(value == 42.0 && whole == 42);
    }
    double value = 42.0;
    assert_false(base_parse_double("1e309", 5, &value));
    assert_false(base_parse_double("-1.7976931348623159e308", 23, &value));
    assert_false(base_parse_double("1e99999999999999999999999", 25, &value));
    assert_false(base_parse_double("1\0", 2, &value)); /* the length decides, not a zero byte */
    assert_true(base_parse_double("12345", 2, &value));
    assert_true(value == 12.0);
}

/* Only the sign of the distance to the half-way point counts, at any digit. */
static void test_long_texts_are_rounded_correctly(void **state) {
    static const char half_way[] = "1.00000000000000011102230246251565404236316680908203125"; /* 1 + 2^-53 */
    char text[4000];
    double value = 0;
    (void)state;
    for (size_t zeros = 0; zeros < 3000; zeros += 37) {
        size_t length = strlen(half_way);
        memcpy(text, half_way, length);
        memset(text + length, '0', zeros);
        length += zeros;
        assert_true(base_parse_double(text, length, &value));
        assert_true(same_bits(value, 1.0));
        text[length++] = '1';
        assert_true(base_parse_double(text, length, &value));
        assert_true(same_bits(value, 1.0 + 0x1p-52));
    }
    memset(text, '0', sizeof text); /* 0.000...01 and 1000...0 come back into range by their exponents */
    text[0] = '1';
    memcpy(text + 3001, "e-3000", 6);
    assert_true(base_parse_double(text, 3007, &value) && value == 1.0);
    memcpy(text, "0.", 2);
    memset(text + 2, '0', 2999);
    memcpy(text + 3001, "1e3000", 6);
    assert_true(base_parse_double(text, 3007, &value) && value == 1.0);
}

/* Our digits-and-exponent route against strtod on the text as it is (the tests run in the "C" locale). */
static void test_random_texts_agree_with_strtod(void **state) {
    uint64_t random = 88172645463325252u;
    (void)state;
    for (int i = 0; i < 50000; i++) {
        char text[64];
        double value = 0;
        uint64_t a = next_random(&random), b = next_random(&random);
        snprintf(text, sizeof text, "%s%llu.%0*lluE%d", (a & 1) != 0 ? "-" : "", (unsigned long long)(a >> (b % 64)),
                 (int)(b % 20) + 1, (unsigned long long)(next_random(&random) >> (a % 64)), (int)(b >> 8) % 330);
        double expected = strtod(text, NULL);
        int read = base_parse_double(text, strlen(text), &value);
        assert_int_equal(read, isfinite(expected) ? 1 : 0);
        if (read && !same_bits(value, expected)) fail_msg("%s was read as %.17g", text, value);
    }
}

static void test_doubles_come_back(void **state) {
    static const double values[] = {0.0, -0.0, 1.0, 0.1, 1.0 / 3.0, 1e21, 1e-7, 123456789.0, 5e-324, -2.5, 1e300};
    static const char *const texts[] = {
        "0",    "-0",    "1", "0.1", "0.3333333333333333", "1e+21", "1e-07", "123456789", "4.94065645841247e-324",
        "-2.5", "1e+300"};
    uint64_t random = 1234567890123456789u;
    char text[32];
    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        base_format_double(values[i], text);
        assert_string_equal(text, texts[i]);
    }
    for (int i = 0; i < 100000; i++) {
        uint64_t bits = next_random(&random);
        double value, back = NAN;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value)) continue;
        base_format_double(value, text);
        assert_true(strlen(text) < 32);
        assert_true(base_parse_double(text, strlen(text), &back));
        assert_true(same_bits(value, back));
    }
}

static void test_whole_numbers_are_exact(void **state) {
    static const struct {
        const char *text;
        int64_t value;
    } cases[] = {
        {"0", 0},
        {"-0", 0},
        {"0.000", 0},
        {"0e5", 0},
        {"12", 12},
        {"-12", -12},
        {"+12", 12},
        {"1e6", 1000000},
        {"1.5e3", 1500},
        {"10000000", 10000000},
        {"1500e-2", 15},
        {"15.000", 15},
        {"0.00002e5", 2},
        {"9007199254740991", 9007199254740991},
        {"9007199254740992", 9007199254740992},
        {"-9007199254740992", -9007199254740992},
        {"9.007199254740992e15", 9007199254740992},
        {"0000000000000000000000000000000000000001", 1},
        {"1000000000000000000000000000000e-30", 1},
    };
    static const char *const refused[] = {"0.5",
                                          "1e-1",
                                          "1.5",
                                          "15e-1",
                                          "9007199254740993",
                                          "-9007199254740993",
                                          "9007199254740992.0000000000000000000000001",
                                          "1e16",
                                          "1e99999999999999999999",
                                          "1e-99999999999999999999",
                                          "18446744073709551617",
                                          "0.9999999999999999999999999"};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t value = -1;
        if (!base_parse_integer(cases[i].text, strlen(cases[i].text), &value)) fail_msg("%s", cases[i].text);
        assert_true(value == cases[i].value);
    }
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        int64_t value = -1;
        if (base_parse_integer(refused[i], strlen(refused[i]), &value)) fail_msg("%s", refused[i]);
        assert_true(value == -1);
    }
}

static void test_the_locale_does_not_matter_to_numbers(void **state) {
    char text[32] = "", plain[32] = "";
    double value = 0, comma = 0;
    int64_t whole = 0;
    (void)state;
    const int entered = enter_other_locale();
    snprintf(plain, sizeof plain, "%.1f", 2.5);
    base_format_double(-1234.5678, text);
    int read = base_parse_double("2.5e1", 5, &value);
    int read_whole = base_parse_integer("1.5e3", 5, &whole);
    int read_comma = base_parse_double("2,5", 3, &comma);
    leave_other_locale();
    if (!entered) skip(); /* no such locale on this machine */
    assert_string_equal(plain, "2,5");
    assert_string_equal(text, "-1234.5678");
    assert_true(read && value == 25.0);
    assert_true(read_whole && whole == 1500);
    assert_false(read_comma);
}

static void test_utf8_is_checked(void **state) {
    static const char *const good[] = {"",
                                       "abc",
                                       "\x7f",
                                       "\xc2\x80",
                                       "\xdf\xbf",
                                       "\xe0\xa0\x80",
                                       "\xed\x9f\xbf",
                                       "\xee\x80\x80",
                                       "\xef\xbf\xbf",
                                       "\xf0\x90\x80\x80",
                                       "\xf4\x8f\xbf\xbf"};
    static const char *const bad[] = {
        "\x80",
        "\xbf",
        "\xc0\x80",
        "\xc1\xbf",
        "\xe0\x80\x80",
        "\xe0\x9f\xbf",
        "\xed\xa0\x80",
        "\xed\xbf\xbf",
        "\xf0\x80\x80\x80",
        "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80",
        "\xf8\x88\x80\x80\x80",
        "\xff",
        "\xc2",
        "\xc2\x41",
        "\xe1\x80",
        "\xe1\x80\x41",
        "\xf1\x80\x80",
        "\xf1\x80\x80\xc0",
        "a\xc3\x28",
    };
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_true(base_utf8_valid((const uint8_t *)good[i], strlen(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (base_utf8_valid((const uint8_t *)bad[i], strlen(bad[i]))) fail_msg("case %zu", i);
    }
    assert_true(base_utf8_valid((const uint8_t *)"a\0b", 3)); /* a zero is a character like others here */
}

static void test_shown_texts_are_short_and_printable(void **state) {
    char out[64], longer[200];
    (void)state;
    assert_string_equal(base_show("plain", 5, out), "plain");
    assert_string_equal(base_show("a\n\x1b[31m\xc3\xa9\0z", 11, out), "a??[31m???z");
    memset(longer, 'x', sizeof longer);
    assert_int_equal(strlen(base_show(longer, 60, out)), 60);
    assert_null(strchr(out, '.'));
    assert_int_equal(strlen(base_show(longer, 61, out)), 60);
    assert_string_equal(out + 57, "...");
    assert_int_equal(strlen(base_show(longer, sizeof longer, out)), 60);
    assert_string_equal(base_show("", 0, out), "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_doubles_are_read),
        cmocka_unit_test(test_texts_that_are_no_numbers_are_refused),
        cmocka_unit_test(test_long_texts_are_rounded_correctly),
        cmocka_unit_test(test_random_texts_agree_with_strtod),
        cmocka_unit_test(test_doubles_come_back),
        cmocka_unit_test(test_whole_numbers_are_exact),
        cmocka_unit_test(test_the_locale_does_not_matter_to_numbers),
        cmocka_unit_test(test_utf8_is_checked),
        cmocka_unit_test(test_shown_texts_are_short_and_printable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
