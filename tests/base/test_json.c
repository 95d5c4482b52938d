/* SPDX-License-Identifier: Apache-2.0 */
/* The strict scan, the tree behind it, the canonical writer. */
#include "base/json.h"
#include "base/memory.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/failing_allocator.h"
#include "support/other_locale.h"

enum { DEPTH = 8 };

/* From memory with no byte after it, so that the address sanitizer sees any read past the end. */
static dpmf_status parse_exact(const char *text, size_t length, int depth, cJSON **out) {
    char *copy = malloc(length > 0 ? length : 1);
    assert_non_null(copy);
    memcpy(copy, text, length);
    dpmf_status status = base_json_parse(copy, length, depth, "a test", out);
    free(copy);
    return status;
}

static void expect_accepted(const char *text) {
    cJSON *tree = NULL;
    if (parse_exact(text, strlen(text), DEPTH, &tree) != DPMF_OK) fail_msg("%s: %s", text, dpmf_last_error());
    cJSON_Delete(tree);
}

static void expect_refused(const char *text, size_t length, const char *reason) {
    cJSON *tree = NULL;
    const uint64_t before = dpmf_memory_in_use();
    if (parse_exact(text, length, DEPTH, &tree) != DPMF_ERROR_FORMAT) fail_msg("accepted: %s", text);
    assert_null(tree);
    if (strstr(dpmf_last_error(), reason) == NULL) fail_msg("%s: \"%s\" lacks \"%s\"", text, dpmf_last_error(), reason);
    assert_int_equal(dpmf_memory_in_use(), before);
}

static void test_valid_texts_are_accepted(void **state) {
    static const char *const texts[] = {
        "{}",
        " \t\r\n{ \n} \t",
        "{\"\":0}",
        "{\"a\":1,\"A\":2,\"b\":{\"a\":3},\"c\":[{\"a\":1},{\"a\":1}]}",
        "{\"x\":[0,-0,1.5,-1.5e10,1E+2,2e-3,1e-400,123456789012345678901234567890]}",
        "{\"x\":[true,false,null,\"\",[],{}]}",
        "{\"x\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uD83D\\uDE00\"}",
        "{\"\xc3\xa9\":\"\xf0\x9f\x98\x80\x7f\"}",
        "{\"a\":[[[[[[[1]]]]]]]}",
        "{\"x\":123456789012345678901234567890123456789012345678901234567890123}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        expect_accepted(texts[i]);
}

static void test_invalid_texts_are_refused(void **state) {
    static const struct {
        const char *text, *reason;
    } cases[] = {
        {"", "no object"},
        {" ", "no object"},
        {"[]", "no object"},
        {"1", "no object"},
        {"\"a\"", "no object"},
        {"\xef\xbb\xbf{}", "no object"},
        {"{", "no key"},
        {"{}x", "after the object"},
        {"{}{}", "after the object"},
        {"{},", "after the object"},
        {"{a:1}", "no key"},
        {"{1:1}", "no key"},
        {"{'a':1}", "no key"},
        {"{\"a\"}", "no colon"},
        {"{\"a\" 1}", "no colon"},
        {"{\"a\":}", "no value"},
        {"{\"a\":1,}", "no key"},
        {"{,}", "no key"},
        {"{\"a\":1 \"b\":2}", "neither a comma nor }"},
        {"{\"a\":1", "neither a comma nor }"},
        {"{\"a\":[1,]}", "no value"},
        {"{\"a\":[,1]}", "no value"},
        {"{\"a\":[1 2]}", "neither a comma nor ]"},
        {"{\"a\":[1}", "neither a comma nor ]"},
        {"{\"a\":[", "no value"},
        {"{\"a\":01}", "neither a comma"},
        {"{\"a\":+1}", "no value"},
        {"{\"a\":.5}", "no value"},
        {"{\"a\":-}", "no value"},
        {"{\"a\":1.}", "point with no digit"},
        {"{\"a\":1.e5}", "point with no digit"},
        {"{\"a\":1e}", "exponent with no digit"},
        {"{\"a\":1e+}", "exponent with no digit"},
        {"{\"a\":0x10}", "neither a comma"},
        {"{\"a\":NaN}", "no value"},
        {"{\"a\":Infinity}", "no value"},
        {"{\"a\":-Infinity}", "no value"},
        {"{\"a\":1e309}", "out of range"},
        {"{\"a\":-1e999999999}", "out of range"},
        {"{\"x\":1234567890123456789012345678901234567890123456789012345678901234}", "more than 63"},
        {"{\"a\":tru}", "no value"},
        {"{\"a\":True}", "no value"},
        {"{\"a\":nulll}", "neither a comma"},
        {"{\"a\":\"b}", "string without end"},
        {"{\"a", "string without end"},
        {"{\"a\":\"\n\"}", "control character"},
        {"{\"a\":\"\t\"}", "control character"},
        {"{\"a\":\"\\x41\"}", "unknown escape"},
        {"{\"a\":\"\\", "unknown escape"},
        {"{\"a\":\"\\u12\"}", "four hexadecimal"},
        {"{\"a\":\"\\u12g4\"}", "four hexadecimal"},
        {"{\"a\":\"\\u", "four hexadecimal"},
        {"{\"a\":\"\\u0000\"}", "zero character"},
        {"{\"\\u0000\":1}", "zero character"},
        {"{\"a\":\"\\ud800\"}", "lone surrogate"},
        {"{\"a\":\"\\udc00\"}", "lone surrogate"},
        {"{\"a\":\"\\ud800x\"}", "lone surrogate"},
        {"{\"a\":\"\\ud800\\n2345\"}", "lone surrogate"},
        {"{\"a\":\"\\ud800\\ud800\"}", "lone surrogate"},
        {"{\"a\":\"\\ud800\\u0041\"}", "lone surrogate"},
        {"{\"a\":\"\\udc00\\ud800\"}", "lone surrogate"},
        {"{\"a\":1}/* c */", "after the object"},
        {"{\"a\":\"\xc0\x80\"}", "not valid UTF-8"},
        {"{\"a\":\"\xed\xa0\x80\"}", "not valid UTF-8"},
        {"{\"a\":\"\xe0\x80\xaf\"}", "not valid UTF-8"},
        {"{\"a\":\"\xf4\x90\x80\x80\"}", "not valid UTF-8"},
        {"{\"a\":\"\xff\"}", "not valid UTF-8"},
        {"{\"a\":\"\xc3", "not valid UTF-8"},
        {"{\xc2\xa0}", "no key"},
        {"{\"a\":1}\x0c", "after the object"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_refused(cases[i].text, strlen(cases[i].text), cases[i].reason);
    expect_refused("{}\0", 3, "after the object");
    expect_refused("{\"a\0\":1}", 8, "control character");
}

static void test_every_cut_of_a_json_text_is_refused(void **state) {
    static const char text[] = "{\"a\":[1.5e3,true,null,\"x\\u00e9\\ud83d\\ude00\\n\"],\"b\":{\"c\":-0.25}}";
    (void)state;
    expect_accepted(text);
    for (size_t length = 0; length < sizeof text - 1; length++)
        expect_refused(text, length, "");
}

static void test_duplicate_keys_are_refused(void **state) {
    static const char *const texts[] = {
        "{\"a\":1,\"a\":1}",
        "{\"a\":1,\"b\":2,\"a\":3}",
        "{\"\":1,\"\":2}",
        "{\"a\":1,\"\\u0061\":2}",
        "{\"/\":1,\"\\/\":2}",
        "{\"\\n\":1,\"\\u000A\":2}",
        "{\"\xc3\xa9\":1,\"\\u00e9\":2}",
        "{\"\xf0\x9f\x98\x80\":1,\"\\ud83D\\uDe00\":2}",
        "{\"x\":{\"a\":1,\"b\":{\"c\":1,\"c\":1}}}",
        "{\"x\":[1,{\"a\":1,\"a\":1}]}",
        "{\"a\":{\"x\":1,\"y\":2},\"b\":{\"x\":1},\"a\":1}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        expect_refused(texts[i], strlen(texts[i]), "occurs twice");
}

/* One object of 300 000 keys, in rising and in falling order, with and without a duplicate far apart. */
static void test_a_duplicate_among_many_keys_is_found(void **state) {
    enum { KEYS = 300000, ROOM = 16 };
    char *text = malloc((size_t)KEYS * ROOM);
    (void)state;
    assert_non_null(text);
    for (int order = 0; order < 4; order++) {
        size_t length = 0;
        text[length++] = '{';
        for (int i = 0; i < KEYS; i++) {
            int key = order % 2 == 0 ? i : KEYS - 1 - i;
            if (order >= 2 && i == KEYS - 1) key = order % 2 == 0 ? 0 : KEYS - 1; /* the first one again */
            length += (size_t)snprintf(text + length, ROOM, "%s\"k%06d\":0", i > 0 ? "," : "", key);
        }
        text[length++] = '}';
        cJSON *tree = NULL;
        dpmf_status status = base_json_parse(text, length, 1, "a test", &tree);
        assert_int_equal(status, order < 2 ? DPMF_OK : DPMF_ERROR_FORMAT);
        if (tree != NULL) assert_int_equal(cJSON_GetArraySize(tree), KEYS);
        cJSON_Delete(tree);
    }
    free(text);
}

static size_t nest(char *text, int levels) {
    size_t length = 0;
    memcpy(text, "{\"a\":", 5);
    length = 5;
    for (int i = 1; i < levels; i++)
        text[length++] = '[';
    text[length++] = '0';
    for (int i = 1; i < levels; i++)
        text[length++] = ']';
    text[length++] = '}';
    return length;
}

static void test_depth_is_bounded(void **state) {
    static char text[2000000];
    (void)state;
    for (int allowed = 1; allowed <= 1000; allowed += 37) {
        cJSON *tree = NULL;
        assert_int_equal(base_json_parse(text, nest(text, allowed), allowed, "a test", &tree), DPMF_OK);
        cJSON_Delete(tree);
        tree = NULL;
        assert_int_equal(base_json_parse(text, nest(text, allowed + 1), allowed, "a test", &tree), DPMF_ERROR_FORMAT);
        assert_non_null(strstr(dpmf_last_error(), "too deep"));
        assert_null(tree);
    }
    cJSON *tree = NULL;
    memset(text, '[', sizeof text);
    memcpy(text, "{\"a\":", 5);
    assert_int_equal(base_json_parse(text, sizeof text, 1000, "a test", &tree), DPMF_ERROR_FORMAT);
    assert_null(tree);
}

static void test_members_have_their_type_and_range(void **state) {
    static const char text[] = "{\"t\":\"x\\u00e9\",\"d\":-0.1,\"i\":12,\"big\":9007199254740992,\"huge\":1e17,"
                               "\"half\":0.5,\"o\":{\"k\":1},\"n\":null}";
    cJSON *tree = NULL;
    const char *found = NULL;
    const cJSON *object = NULL;
    double number = 0;
    int64_t whole = 7;
    (void)state;
    assert_int_equal(parse_exact(text, sizeof text - 1, DEPTH, &tree), DPMF_OK);
    assert_int_equal(base_json_get_text(tree, "t", "it", &found), DPMF_OK);
    assert_string_equal(found, "x\xc3\xa9");
    assert_int_equal(base_json_get_double(tree, "d", "it", &number), DPMF_OK);
    assert_true(number == -0.1);
    assert_int_equal(base_json_get_integer(tree, "i", "it", 12, 12, &whole), DPMF_OK);
    assert_int_equal(whole, 12);
    assert_int_equal(base_json_get_integer(tree, "big", "it", 0, INT64_MAX, &whole), DPMF_OK);
    assert_true(whole == 9007199254740992);
    assert_int_equal(base_json_get_object(tree, "o", "it", &object), DPMF_OK);
    assert_int_equal(base_json_get_integer(object, "k", "it", 0, 5, &whole), DPMF_OK);

    whole = 7;
    assert_int_equal(base_json_get_integer(tree, "i", "it", 13, 20, &whole), DPMF_ERROR_FORMAT);
    assert_int_equal(base_json_get_integer(tree, "i", "it", 0, 11, &whole), DPMF_ERROR_FORMAT);
    assert_non_null(strstr(dpmf_last_error(), "\"i\" is 12, but a whole number from 0 to 11"));
    assert_int_equal(base_json_get_integer(tree, "huge", "it", 0, INT64_MAX, &whole), DPMF_ERROR_FORMAT);
    assert_int_equal(base_json_get_integer(tree, "half", "it", 0, 10, &whole), DPMF_ERROR_FORMAT);
    assert_int_equal(base_json_get_integer(tree, "t", "it", 0, 10, &whole), DPMF_ERROR_FORMAT);
    assert_int_equal(whole, 7);
    assert_int_equal(base_json_get_double(tree, "n", "it", &number), DPMF_ERROR_FORMAT);
    assert_int_equal(base_json_get_double(tree, "D", "it", &number), DPMF_ERROR_FORMAT);
    assert_non_null(strstr(dpmf_last_error(), "it: \"D\" is missing"));
    assert_int_equal(base_json_get_text(tree, "i", "it", &found), DPMF_ERROR_FORMAT);
    assert_int_equal(base_json_get_object(tree, "t", "it", &object), DPMF_ERROR_FORMAT);
    cJSON_Delete(tree);
}

static void write_sample(base_writer *w) {
    base_json_open(w, NULL, '{');
    base_json_text(w, "a\"b", "q\" b\\ s/ \b\f\n\r\t\x01\x1f\x7f \xc3\xa9");
    base_json_open(w, "list", '[');
    base_json_integer(w, NULL, INT64_MIN);
    base_json_double(w, NULL, 0.1);
    base_json_double(w, NULL, INFINITY);
    base_json_double(w, NULL, -INFINITY);
    base_json_double(w, NULL, NAN);
    base_json_open(w, NULL, '{');
    base_json_close(w, '}');
    base_json_open(w, NULL, '[');
    base_json_close(w, ']');
    base_json_close(w, ']');
    base_json_bool(w, "yes", 2);
    base_json_bool(w, "no", 0);
    base_json_null(w, "none");
    base_json_close(w, '}');
    base_write_raw(w, "\n");
}

static void test_the_writer_is_canonical(void **state) {
    base_writer w = {0};
    cJSON *tree = NULL;
    const char *back = NULL;
    (void)state;
    write_sample(&w);
    assert_int_equal(w.status, DPMF_OK);
    assert_string_equal(w.text, "{\"a\\\"b\":\"q\\\" b\\\\ s/ \\b\\f\\n\\r\\t\\u0001\\u001f\x7f \xc3\xa9\",\"list\":"
                                "[-9223372036854775808,0.1,\"inf\",\"-inf\",null,{},[]],\"yes\":true,\"no\":false,"
                                "\"none\":null}\n");
    assert_int_equal(w.length, strlen(w.text));
    assert_int_equal(parse_exact(w.text, w.length, DEPTH, &tree), DPMF_OK);
    assert_int_equal(base_json_get_text(tree, "a\"b", "it", &back), DPMF_OK);
    assert_string_equal(back, "q\" b\\ s/ \b\f\n\r\t\x01\x1f\x7f \xc3\xa9");
    cJSON_Delete(tree);
    base_writer_free(&w);
    assert_null(w.text);
}

static void test_the_writer_refuses_what_is_not_utf8(void **state) {
    base_writer w = {0};
    (void)state;
    base_json_open(&w, NULL, '{');
    base_json_text(&w, "k", "\xc0\x80");
    base_json_close(&w, '}');
    assert_int_equal(w.status, DPMF_ERROR_ARGUMENT);
    base_writer_free(&w);
}

static dpmf_status write_once(void) {
    base_writer w = {0};
    for (int i = 0; i < 20; i++) /* past the first sizes of the buffer */
        write_sample(&w);
    dpmf_status status = w.status;
    base_writer_free(&w);
    return status;
}

static void test_memory_that_runs_out_is_said(void **state) {
    static const char text[] = "{\"a\":[1,2,{\"b\":\"c\"}]}";
    cJSON *tree = NULL;
    (void)state;
    FAIL_EACH(write_once());
    FAIL_EACH(base_json_parse(text, sizeof text - 1, DEPTH, "a test", &tree));
    cJSON_Delete(tree);
}

static int tree_budget;

static void *counted_malloc(size_t bytes) {
    return tree_budget-- > 0 ? malloc(bytes) : NULL;
}

/* The same for the memory that cJSON takes itself. */
static void test_a_tree_that_does_not_fit_is_said(void **state) {
    static const char text[] = "{\"a\":[1,2,{\"b\":\"c\"}]}";
    cJSON_Hooks hooks = {counted_malloc, free};
    cJSON *tree = NULL;
    dpmf_status status = DPMF_ERROR_MEMORY;
    int budget = 0;
    (void)state;
    cJSON_InitHooks(&hooks);
    for (; budget < 100 && status == DPMF_ERROR_MEMORY; budget++) {
        tree_budget = budget;
        status = base_json_parse(text, sizeof text - 1, DEPTH, "a test", &tree);
    }
    cJSON_InitHooks(NULL);
    assert_int_equal(status, DPMF_OK);
    assert_true(budget > 6); /* six values */
    cJSON_Delete(tree);
}

/* A million values in two megabytes of text make a tree of some hundred: more than the limit. */
static void test_the_memory_limit_holds_for_the_tree(void **state) {
    enum { VALUES = 1000000 };
    char *text = malloc(2 * VALUES + 16);
    cJSON *tree = NULL;
    (void)state;
    assert_non_null(text);
    size_t length = 0;
    memcpy(text, "{\"a\":[0", 7);
    length = 7;
    for (int i = 0; i < VALUES; i++) {
        text[length++] = ',';
        text[length++] = '0';
    }
    memcpy(text + length, "]}", 2);
    length += 2;
    dpmf_memory_set_limit(dpmf_memory_in_use() + (32 << 20));
    assert_int_equal(base_json_parse(text, length, DEPTH, "a test", &tree), DPMF_ERROR_MEMORY);
    dpmf_memory_set_limit(0);
    assert_null(tree);
    free(text);
}

static void test_the_locale_does_not_matter_to_json(void **state) {
    cJSON *tree = NULL;
    base_writer w = {0};
    double value = 0;
    char after[32];
    (void)state;
    const int entered = enter_other_locale();
    base_json_open(&w, NULL, '{');
    base_json_double(&w, "x", 2.5);
    base_json_close(&w, '}');
    dpmf_status status = base_json_parse(w.text, w.length, DEPTH, "a test", &tree);
    snprintf(after, sizeof after, "%.1f", 2.5);
    leave_other_locale();
    if (entered) {
        assert_string_equal(after, "2,5"); /* the thread's locale was put back */
        assert_string_equal(w.text, "{\"x\":2.5}");
        assert_int_equal(status, DPMF_OK);
        assert_int_equal(base_json_get_double(tree, "x", "it", &value), DPMF_OK);
        assert_true(value == 2.5);
    }
    cJSON_Delete(tree);
    base_writer_free(&w);
    if (!entered) skip(); /* no such locale on this machine */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_valid_texts_are_accepted),
        cmocka_unit_test(test_invalid_texts_are_refused),
        cmocka_unit_test(test_every_cut_of_a_json_text_is_refused),
        cmocka_unit_test(test_duplicate_keys_are_refused),
        cmocka_unit_test(test_a_duplicate_among_many_keys_is_found),
        cmocka_unit_test(test_depth_is_bounded),
        cmocka_unit_test(test_members_have_their_type_and_range),
        cmocka_unit_test(test_the_writer_is_canonical),
        cmocka_unit_test(test_the_writer_refuses_what_is_not_utf8),
        cmocka_unit_test(test_memory_that_runs_out_is_said),
        cmocka_unit_test(test_a_tree_that_does_not_fit_is_said),
        cmocka_unit_test(test_the_memory_limit_holds_for_the_tree),
        cmocka_unit_test(test_the_locale_does_not_matter_to_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
