/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Long evaluations call the progress function after every few million operations, for steps of any length, and stop on
 * request.
 */
#include "support/check.h"

#include "error/error.h"

#include <stdlib.h>

typedef struct count {
    int asked, stop_at;
} count;

static int ask(void *context, const char *what, double done) {
    count *c = context;
    assert_non_null(what);
    assert_true(done <= 1);
    return ++c->asked == c->stop_at;
}

/* A route that takes `operations` per step, and so must call the progress function once for every 2^24 of them. */
static void check_asks(const char *family, const char *text, int normalized, int64_t n, int64_t operations) {
    dpmf_workload *a = NULL;
    dpmf_strategy *s = NULL, *other = NULL;
    count c = {0};
    const dpmf_run run = {.progress = ask, .context = &c, .threads = 1};
    const int least = (int)(n * operations >> 24);
    double *errors = calloc((size_t)n, sizeof *errors);
    check_ok(dpmf_workload_parse(text, n, &a));
    check_ok(dpmf_strategy_create(family, a, NULL, &s));
    if (normalized) check_ok(dpmf_strategy_create_normalized(s, &other));
    check_ok(dpmf_error_compute(a, normalized ? other : s, &run, errors));
    assert_true(least >= 2);
    if (c.asked < least) fail_msg("%s, %s: asked %d times, wanted %d", family, text, c.asked, least);
    c = (count){.stop_at = least};
    errors[0] = 7;
    check_fails(DPMF_ERROR_CANCELLED, dpmf_error_compute(a, normalized ? other : s, &run, errors));
    assert_true(errors[0] == 7);
    assert_int_equal(c.asked, least);
    dpmf_strategy_free(s), dpmf_strategy_free(other);
    dpmf_workload_free(a);
    free(errors);
}

static void test_errors_ask_by_the_work_done(void **unused) {
    (void)unused;
    check_asks("fft-opt", "momentum:0.9", 0, 5000, 8 * 5000);
    check_asks("toeplitz", "momentum:0.9,cooldown:0.5:0.1", 1, 5000, 4 * 5000);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_errors_ask_by_the_work_done)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
