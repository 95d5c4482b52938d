/* SPDX-License-Identifier: Apache-2.0 */
/* Messages, names of statuses, the version, the progress callback. */
#include "base/status.h"
#define DPMF_EXPERIMENTAL
#include "dpmf_experimental.h"

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void test_messages_are_kept(void **state) {
    (void)state;
    assert_int_equal(base_fail(DPMF_ERROR_ARGUMENT, "bands %d: 1 to %d", 0, 7), DPMF_ERROR_ARGUMENT);
    assert_string_equal(dpmf_last_error(), "bands 0: 1 to 7");
    /* An argument may be the message itself. */
    assert_int_equal(base_fail(DPMF_ERROR_IO, "reading x: %s", dpmf_last_error()), DPMF_ERROR_IO);
    assert_string_equal(dpmf_last_error(), "reading x: bands 0: 1 to 7");
    dpmf_set_last_error(dpmf_last_error() + 11);
    assert_string_equal(dpmf_last_error(), "bands 0: 1 to 7");
}

static void test_long_messages_are_cut(void **state) {
    (void)state;
    static char text[4000];
    for (int offset = 0; offset < 2; offset++) {
        memset(text, 'a', (size_t)offset);
        for (size_t i = (size_t)offset; i + 2 < sizeof text; i += 2) {
            memcpy(text + i, "\xC3\xA9", 3); /* e with an acute accent */
        }
        for (int way = 0; way < 2; way++) {
            if (way == 0)
                dpmf_set_last_error(text);
            else
                assert_int_equal(base_fail(DPMF_ERROR_IO, "%s", text), DPMF_ERROR_IO);
            const size_t length = strlen(dpmf_last_error());
            assert_in_range(length, 512, 1023);
            assert_string_equal(dpmf_last_error() + length - 3, "...");
            assert_memory_equal(dpmf_last_error(), text, length - 3);
            assert_int_equal((length - 3 - (size_t)offset) % 2, 0); /* no half character */
        }
    }
    memset(text, 'x', 1023);
    text[1023] = '\0';
    assert_int_equal(base_fail(DPMF_ERROR_IO, "%s", text), DPMF_ERROR_IO);
    assert_string_equal(dpmf_last_error(), text);
}

static void test_messages_do_not_follow_the_locale(void **state) {
    (void)state;
    static const char *const commas[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE"};
    const char *found = NULL;
    for (size_t i = 0; i < sizeof commas / sizeof commas[0] && found == NULL; i++) {
        found = setlocale(LC_ALL, commas[i]);
    }
    if (found == NULL) skip(); /* no locale with a decimal comma is installed */
    (void)base_fail(DPMF_ERROR_ARGUMENT, "momentum %g", 1.5);
    char here[32], expected[32];
    snprintf(here, sizeof here, "%g", 1.5); /* the caller's own locale is as it was */
    const struct lconv *rules = localeconv();
    snprintf(expected, sizeof expected, "1%s5", rules->decimal_point);
    setlocale(LC_ALL, "C");
    assert_string_equal(here, expected);
    assert_string_equal(dpmf_last_error(), "momentum 1.5");
}

static void test_statuses_have_names(void **state) {
    (void)state;
    static const char *const names[] = {"ok",     "argument",  "memory",      "io",
                                        "format", "numerical", "unsupported", "cancelled"};
    for (int i = 0; i <= DPMF_ERROR_CANCELLED; i++) {
        assert_string_equal(dpmf_status_name((dpmf_status)i), names[i]);
    }
    assert_string_equal(dpmf_status_name((dpmf_status)999), "unknown");
    assert_string_equal(dpmf_version(), DPMF_VERSION);
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", DPMF_VERSION_MAJOR, DPMF_VERSION_MINOR, DPMF_VERSION_PATCH);
    assert_string_equal(dpmf_version(), version);
}

static int stop_at_half(void *context, const char *what, double done) {
    *(const char **)context = what;
    return done >= 0.5;
}

static void test_progress_may_cancel(void **state) {
    (void)state;
    const char *seen = NULL;
    dpmf_run run = dpmf_run_defaults();
    assert_int_equal(run.threads, 0);
    assert_int_equal(base_progress(NULL, "summing", 0.5), DPMF_OK);
    assert_int_equal(base_progress(&run, "summing", 0.5), DPMF_OK);
    run.progress = stop_at_half;
    run.context = &seen;
    assert_int_equal(base_progress(&run, "summing", 0.25), DPMF_OK);
    assert_string_equal(seen, "summing");
    assert_int_equal(base_progress(&run, "summing", 0.5), DPMF_ERROR_CANCELLED);
    assert_non_null(strstr(dpmf_last_error(), "summing"));
}

/* Paths and the texts of files come into messages. */
static void test_a_message_is_one_line_whatever_it_quotes(void **state) {
    (void)state;
    assert_int_equal(base_fail(DPMF_ERROR_FORMAT, "'%s' is no\tfile", "a\nb\x1b[31m\x7f\xc3\xa9"), DPMF_ERROR_FORMAT);
    assert_string_equal(dpmf_last_error(), "'a?b?[31m?\xc3\xa9' is no?file");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_are_kept),
        cmocka_unit_test(test_long_messages_are_cut),
        cmocka_unit_test(test_a_message_is_one_line_whatever_it_quotes),
        cmocka_unit_test(test_messages_do_not_follow_the_locale),
        cmocka_unit_test(test_statuses_have_names),
        cmocka_unit_test(test_progress_may_cancel),
    };
    return cmocka_run_group_tests_name("status", tests, NULL, NULL);
}
