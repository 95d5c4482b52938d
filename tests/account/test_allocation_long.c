/* SPDX-License-Identifier: Apache-2.0 */
/* Random allocation against simulation, all settings, and against its own neighbours: more noise, steps, epsilon or delta is never worse. */
#include "support/allocation_simulated.h"

static void test_fifty_allocations_agree_with_simulation(void **state) {
    (void)state;
    for (int i = 0; i < ALLOCATION_SETTINGS; i++)
        check_allocation_setting(i);
}

enum { SIGMAS = 14, STEPS = 10, EPSILONS = 100, DELTAS = 12, SETTINGS_MIN = 10000 };
static const double SIGMA[SIGMAS] = {.5, .6, .7, .8, .9, 1, 1.1, 1.2, 1.4, 1.7, 2, 2.5, 3, 5};
static const int64_t BINS[STEPS] = {2, 3, 4, 5, 7, 10, 20, 40, 100, 300};
static const double WIDTH = 0.08;
/* A bound of ln delta may be above its value by this, the slack in epsilon times the slope. */
static const double ROOM = 1e-3;
static const double FARTHEST = -300; /* ln delta: settings below it are not compared */

/* The bound does not depend on this slack: a smaller one only has the bound from below computed besides. */
static dpmf_account_options wide_slack(int64_t bins) {
    dpmf_account_options o = dpmf_account_options_defaults();
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_ALLOCATION, 0, bins, 1, 0, 0};
    o.slack = 0.03;
    return o;
}

static double log_delta_of(double sigma, int64_t bins, double epsilon) {
    const dpmf_account_options o = wide_slack(bins);
    dpmf_privacy p;
    check_ok(dpmf_account_delta(sigma, epsilon, &o, &p));
    return log(p.delta);
}

static void check_not_above(const char *than, double neighbour, double sigma, int64_t bins, double epsilon, double at) {
    if (!(at <= neighbour + ROOM))
        fail_msg("sigma %g, 1 of %lld, epsilon %g: ln delta %.9g, with %s %.9g", sigma, (long long)bins, epsilon, at,
                 than, neighbour);
}

/* Every setting counts once, however many neighbours it is compared with, and none without a smaller epsilon. */
static void test_delta_falls_with_epsilon_sigma_and_steps_in_10000_settings(void **state) {
    static double fewer[SIGMAS][EPSILONS], here[SIGMAS][EPSILONS]; /* ln delta with fewer steps and with this number */
    int compared = 0;
    (void)state;
    for (int b = 0; b < STEPS; b++) {
        for (int s = 0; s < SIGMAS; s++) {
            double before = 0;
            for (int i = 0; i < EPSILONS; i++) {
                const double epsilon = (i + 1) * WIDTH;
                const double at = before < FARTHEST ? before : log_delta_of(SIGMA[s], BINS[b], epsilon);
                if (before >= FARTHEST && at >= FARTHEST) {
                    check_not_above("a smaller epsilon", before, SIGMA[s], BINS[b], epsilon, at);
                    if (s > 0) check_not_above("a smaller sigma", here[s - 1][i], SIGMA[s], BINS[b], epsilon, at);
                    if (b > 0) check_not_above("fewer steps", fewer[s][i], SIGMA[s], BINS[b], epsilon, at);
                    compared += i > 0;
                }
                here[s][i] = before = at;
            }
        }
        memcpy(fewer, here, sizeof here);
    }
    print_message("%d settings compared\n", compared);
    assert_true(compared >= SETTINGS_MIN);
}

static void test_epsilon_falls_with_delta_sigma_and_steps(void **state) {
    static const double SOME_SIGMA[] = {.7, 1, 2, 5};
    static const int64_t SOME_BINS[] = {2, 3, 5, 10, 40, 300};
    double fewer[4][DELTAS] = {{0}}, here[4][DELTAS];
    (void)state;
    for (int b = 0; b < 6; b++) {
        for (int s = 0; s < 4; s++)
            for (int i = 0; i < DELTAS; i++) {
                const dpmf_account_options o = wide_slack(SOME_BINS[b]);
                dpmf_privacy p;
                check_ok(dpmf_account_epsilon(SOME_SIGMA[s], pow(10, -1 - i), &o, &p));
                here[s][i] = p.epsilon;
                const double least = i > 0 ? here[s][i - 1] : 0;
                const double most = fmin(s > 0 ? here[s - 1][i] : INFINITY, b > 0 ? fewer[s][i] : INFINITY);
                if (!(p.epsilon >= least * (1 - o.slack) && p.epsilon <= most * (1 + o.slack)))
                    fail_msg("sigma %g, 1 of %lld, delta 1e-%d: epsilon %.9g, neighbours allow %.9g to %.9g",
                             SOME_SIGMA[s], (long long)SOME_BINS[b], i + 1, p.epsilon, least, most);
            }
        memcpy(fewer, here, sizeof here);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fifty_allocations_agree_with_simulation),
        cmocka_unit_test(test_delta_falls_with_epsilon_sigma_and_steps_in_10000_settings),
        cmocka_unit_test(test_epsilon_falls_with_delta_sigma_and_steps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
