/* SPDX-License-Identifier: Apache-2.0 */
/* TV-BLT with replayed seeds: the gradient of the loss against differences. */
#include "families/replay/replay.h"
#include "support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const WORKLOADS[] = {"prefix", "momentum:0.9", "nesterov:0.8,decay:0.02", "cooldown:0.5:0.1"};

static double at(replay_work *w, const double *x) {
    double loss = 0;
    check_ok(replay_loss(w, x, &loss, NULL));
    assert_true(isfinite(loss));
    return loss;
}

/* Fourth-order differences, entry by entry; each as accurate as rounding lets it be. */
static void check_gradient(replay_work *w, double *x, int64_t count) {
    double *gradient = calloc((size_t)count, sizeof *gradient), loss = 0, size = 1e-4, largest = 0;
    check_ok(replay_loss(w, x, &loss, gradient));
    for (int64_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(gradient[i]));
    for (int64_t i = 0; i < count; i++) {
        const double here = x[i];
        double f[4];
        for (int j = 0; j < 4; j++) {
            x[i] = here + (j < 2 ? j - 2 : j - 1) * size;
            f[j] = at(w, x);
        }
        x[i] = here;
        check_near(gradient[i] / largest, (8 * (f[2] - f[1]) - (f[3] - f[0])) / (12 * size) / largest, 1e-7);
    }
    free(gradient);
}

static void test_the_gradient_is_that_of_differences(void **unused) {
    uint64_t seed = 5;
    (void)unused;
    for (int i = 0; i < 16; i++) {
        const int64_t b = 2 + 3 * (i % 4), n = b * (2 + i % 3) - i % 2;
        replay_shape s = {0};
        replay_work w = {0};
        dpmf_workload *a = NULL;
        check_ok(dpmf_workload_parse(WORKLOADS[i % 4], n, &a));
        check_ok(replay_shape_create(n, b, 1 + i % 3, 1, &s));
        check_ok(replay_work_create(a, &s, NULL, &w));
        const int64_t count = replay_count(&s);
        double *x = calloc((size_t)count, sizeof *x);
        replay_view v = replay_look(&s, x);
        for (int64_t j = 0; j < count; j++)
            x[j] = (x + j < v.kappa ? -0.25 : x + j < v.logit ? 0.25 : 0) + 0.1 * check_random(&seed);
        for (int j = 0; j < s.buffers; j++)
            v.logit[j] += j;
        w.norm = i % 5 == 4 ? 7 : 1;
        check_gradient(&w, x, count);
        free(x);
        replay_work_free(&w);
        replay_shape_free(&s);
        dpmf_workload_free(a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_gradient_is_that_of_differences)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
