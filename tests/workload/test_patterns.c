/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns from files: what is read, what is refused and where, and the canonical form. */
#include "support/patterns_files.h"

static void assert_patterns(const char *text, int64_t steps, const char *listed) {
    dpmf_participation *p = patterns_of_text(text, steps);
    char found[512] = "";
    for (int64_t q = 0; q < p->patterns; q++)
        for (int64_t j = p->begins[q]; j < p->begins[q + 1]; j++)
            snprintf(found + strlen(found), sizeof found - strlen(found), "%lld%s", (long long)p->listed[j],
                     j + 1 < p->begins[q + 1] ? " " : ";");
    assert_string_equal(found, listed);
    assert_int_equal(dpmf_participation_get(p).kind, DPMF_PARTICIPATION_PATTERNS);
    dpmf_participation_free(p);
}

static void test_numbers_ranges_comments_and_line_ends_are_read(void **unused) {
    (void)unused;
    assert_patterns("0 5 9\n3", 10, "0 5 9;3;");
    assert_patterns("9,5 ,0\r\n# none\r\n\r\n3\t4 # two\r\n", 10, "0 5 9;3 4;");
    assert_patterns("0-3\n4-9:2\n", 10, "0 1 2 3;4 6 8;");
    assert_patterns("4-9:9\n", 10, "4;");
    assert_patterns("\xef\xbb\xbf"
                    "1\n",
                    10, "1;");
}

static void test_parts_of_others_and_repeated_patterns_are_left_out(void **unused) {
    (void)unused;
    assert_patterns("1 2\n1 2 3\n2\n3 2 1\n0 3\n3\n", 4, "0 3;1 2 3;");
}

static void test_the_text_depends_on_the_set_of_patterns_alone(void **unused) {
    dpmf_participation *a = patterns_of_text("0 2\n1 3\n", 5), *b = patterns_of_text("3 1\n1\n2,0\n", 5);
    dpmf_participation *c = patterns_of_text("0 2\n1 4\n", 5), *d = patterns_of_text("0 2\n1 3\n", 6);
    (void)unused;
    assert_string_equal(a->text, b->text);
    assert_string_not_equal(a->text, c->text);
    assert_string_not_equal(a->text, d->text);
    assert_int_equal(a->count, 2);
    assert_int_equal(a->separation, 2);
    assert_int_equal(a->covers, 0);
    for (int i = 0; i < 4; i++)
        dpmf_participation_free((dpmf_participation *[]){a, b, c, d}[i]);
}

static void test_lists_of_classes_take_the_routes_of_fixed_patterns(void **unused) {
    static const struct {
        const char *text;
        int64_t steps;
        workload_pattern pattern;
    } cases[] = {{"0\n1\n2\n", 3, WORKLOAD_FIXED},         {"0-4\n", 5, WORKLOAD_FIXED},
                 {"0 3 6\n1 4\n2 5\n", 7, WORKLOAD_FIXED}, {"0 3 6\n1 4\n2 6\n", 7, WORKLOAD_LISTED},
                 {"0 3\n1 4\n2 5\n", 7, WORKLOAD_LISTED},  {"0\n1\n", 3, WORKLOAD_LISTED}};
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        dpmf_participation *p = patterns_of_text(cases[i].text, cases[i].steps);
        assert_int_equal(p->pattern, cases[i].pattern);
        dpmf_participation_free(p);
    }
}

static void test_what_is_no_pattern_is_refused_with_its_line(void **unused) {
    static const struct {
        const char *text, *message;
    } bad[] = {{"1\n2 3 2\n", "line 2: step 2 is in it twice"},
               {"1\r\n\r\n1 10\r\n", "line 3: step 10, accepted 0 to 9"},
               {"7-4\n", "line 1: the range '7-4'"},
               {"0-4:0\n", "line 1: the range '0-4:0'"},
               {"-3\n", "line 1: '-3', accepted"},
               {"1-\n", "line 1: '1-'"},
               {"1-3:\n", "line 1: '1-3:'"},
               {"4:2\n", "line 1: '4:2'"},
               {"1e1\n", "line 1: '1e1'"},
               {"1.5\n", "line 1: '1.5'"},
               {"0-99999999999999999999\n", "line 1: '0-99999999999999999999'"},
               {"0-9007199254740992\n", "line 1: step 9007199254740992"},
               {"1\n2-5 3\n", "line 2: step 3 is in it twice"},
               {"# nothing\n\n", "it has no pattern"},
               {"", "it has no pattern"},
               {"0 \x01\n", "line 1: '?'"}};
    dpmf_participation *p = NULL;
    (void)unused;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        check_fails(DPMF_ERROR_FORMAT, patterns_read(bad[i].text, strlen(bad[i].text), 10, &p));
        check_message(bad[i].message);
        assert_null(p);
    }
    check_fails(DPMF_ERROR_FORMAT, patterns_read("1\0 2\n", 5, 10, &p)); /* a zero byte is no number */
    check_fails(DPMF_ERROR_ARGUMENT, patterns_read("1\n", 2, ((int64_t)1 << 20) + 1, &p));
    check_message("accepted 1 to 1048576");
    check_fails(DPMF_ERROR_IO, dpmf_participation_parse("file:/nowhere/at/all", 10, &p));
    check_fails(DPMF_ERROR_IO, dpmf_participation_parse("file:/tmp", 10, &p));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_participation_parse("file", 10, &p));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_participation_parse("patterns:2,00", 10, &p));
    check_message("a mechanism file holds");
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_participation_create(DPMF_PARTICIPATION_PATTERNS, 10, 2, 2, &p));
    assert_null(p);
}

static dpmf_status read_npy(const char *type, const char *shape, size_t size, const void *items, int64_t steps,
                            dpmf_participation **out) {
    char file[512] = "\x93NUMPY\x01\x00";
    const int header =
        snprintf(file + 10, 300, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n", type, shape);
    file[8] = (char)header;
    file[9] = 0;
    memcpy(file + 10 + header, items, size);
    return patterns_read(file, (size_t)(10 + header) + size, steps, out);
}

static void test_rows_of_zeros_and_ones_are_read_from_npy(void **unused) {
    const uint8_t rows[] = {1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1, 0}, bad[] = {1, 0, 0, 1, 0, 2, 0, 0};
    dpmf_participation *p = NULL, *text = patterns_of_text("0 3\n1 2\n", 4);
    (void)unused;
    for (int i = 0; i < 2; i++) {
        check_ok(read_npy(i == 0 ? "|u1" : "|b1", "(3, 4)", 12, rows, 4, &p));
        assert_string_equal(p->text, text->text);
        dpmf_participation_free(p);
        p = NULL;
    }
    check_fails(DPMF_ERROR_FORMAT, read_npy("|u1", "(2, 4)", 8, bad, 4, &p));
    check_message("row 1: column 1 is 2, accepted 0 and 1");
    check_fails(DPMF_ERROR_FORMAT, read_npy("|u1", "(3, 4)", 12, rows, 5, &p));
    check_message("rows of 4 numbers, accepted: 5");
    dpmf_participation_free(text);
}

static void test_the_first_steps_have_the_beginnings_of_the_patterns(void **unused) {
    dpmf_participation *p = patterns_of_text("0 4 8\n1 2 9\n7 8\n", 10), *head = NULL;
    (void)unused;
    check_ok(workload_patterns_head(p, 5, &head));
    assert_int_equal(head->patterns, 2);
    assert_int_equal(head->listed[1], 4);
    dpmf_participation_free(head);
    dpmf_participation_free(p);
    p = patterns_of_text("7\n", 10);
    check_ok(workload_patterns_head(p, 5, &head)); /* none has begun */
    assert_true(head->count == 1 && head->covers && head->pattern == WORKLOAD_FIXED);
    dpmf_participation_free(head);
    dpmf_participation_free(p);
}

/* From the array of a mechanism file: numbers that this library would not write. */
static void test_arrays_that_are_no_patterns_are_refused(void **unused) {
    static const struct {
        int64_t count;
        double numbers[6];
        const char *message;
    } bad[] = {{1, {2}, "the number of steps of one is 2"},
               {3, {1.5, 0, 1}, "the number of steps of one is 1.5"},
               {2, {1, 10}, "a step is 10"},
               {2, {1, -1}, "a step is -1"},
               {2, {1, 0.5}, "a step is 0.5"},
               {3, {2, 3, 3}, "steps do not rise at 3"},
               {4, {1, 3, 1, 3}, "not in order at number 2"},
               {4, {1, 3, 1, 2}, "not in order at number 2"},
               {2, {0, 0}, "the number of steps of one is 0"},
               {3, {-1, 0, 0}, "the number of steps of one is -1"},
               {3, {1e300, 0, 0}, "the number of steps of one"}};
    dpmf_participation *p = NULL;
    base_tensors none = {0};
    (void)unused;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        base_tensors tensors = {0};
        base_tensors_add(&tensors, "participation", bad[i].count, 0, bad[i].numbers);
        check_fails(DPMF_ERROR_FORMAT, workload_participation_read("patterns:1,0", 10, &tensors, &p));
        check_message(bad[i].message);
    }
    check_fails(DPMF_ERROR_FORMAT, workload_participation_read("patterns:1,0", 10, &none, &p));
    check_message("missing");
    check_fails(DPMF_ERROR_FORMAT, workload_participation_read("file:/etc/passwd", 10, &none, &p));
    check_message("names another file");
    assert_null(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_ranges_comments_and_line_ends_are_read),
        cmocka_unit_test(test_parts_of_others_and_repeated_patterns_are_left_out),
        cmocka_unit_test(test_the_text_depends_on_the_set_of_patterns_alone),
        cmocka_unit_test(test_lists_of_classes_take_the_routes_of_fixed_patterns),
        cmocka_unit_test(test_what_is_no_pattern_is_refused_with_its_line),
        cmocka_unit_test(test_rows_of_zeros_and_ones_are_read_from_npy),
        cmocka_unit_test(test_the_first_steps_have_the_beginnings_of_the_patterns),
        cmocka_unit_test(test_arrays_that_are_no_patterns_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
