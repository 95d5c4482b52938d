/* SPDX-License-Identifier: Apache-2.0 */
/* The certified engine on every row of tests/data/accounting.csv, and some of the rows computed once more. */
#include "support/account_rows.h"

static account_row rows[ACCOUNT_ROWS_MAX];

static void test_every_row_of_the_reference_is_certified(void **state) {
    (void)state;
    const int count = account_rows_read(rows);
    for (int i = 0; i < count; i++) {
        account_row_certified(&rows[i]);
    }
}

/* Where Python has mpmath (python-flint makes it faster). */
static void test_python_computes_the_reference_again(void **state) {
    (void)state;
    const char *source = getenv("DPMF_SOURCE");
    char command[2048];
    if (system("python3 -c 'import mpmath' 2>/dev/null") != 0) skip();
    snprintf(command, sizeof command,
             "cd '%s' && PYTHONDONTWRITEBYTECODE=1 python3 tests/python/reference_accounting.py --check 20 "
             "tests/data/accounting.csv",
             source == NULL ? "." : source);
    assert_int_equal(system(command), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_row_of_the_reference_is_certified),
                                       cmocka_unit_test(test_python_computes_the_reference_again)};
    return cmocka_run_group_tests_name("accounting against 32 digits, all rows", tests, NULL, NULL);
}
