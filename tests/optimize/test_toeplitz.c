/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Toeplitz optimizers from outside: published optima, optima of an independent dense optimization
 * (tests/python/brute_force.py), local optimality, participations.
 */
#include "families/toeplitz/toeplitz.h"
#include "strategy/strategy.h"
#include "support/optimize_toeplitz_wish.h"

#include <math.h>

/* ---- known optima ---- */

/* Prefix sums, RMS, computed independently to 1e-6 (Pillutla et al. 2025, Table 2.3, prints three digits of these). */
static void test_toeplitz_optima_are_the_known_ones(void **unused) {
    static const struct {
        int64_t n;
        double plain, normalized;
    } cases[] = {{8, 1.543988, 1.511915},    {64, 2.179043, 2.134878},   {256, 2.616450, 2.566780},
                 {1024, 3.056588, 3.002684}, {2048, 3.277012, 3.221365}, {8192, 3.718111, 3.659563}};
    (void)unused;
    for (int i = 0; i < 6; i++) {
        wish w = {toeplitz_optimize, "prefix", "single", cases[i].n, {.bands = 0}};
        check_near(loss_of(&w) / cases[i].plain, 1, 6e-7); /* half a digit of the smallest */
        w.options.normalize = DPMF_NORMALIZE_AFTER;
        check_near(loss_of(&w) / cases[i].normalized, 1, 6e-7);
    }
    /* the max loss is least at the square root (Pillutla et al. 2025, Table 2.2) */
    const wish w = {toeplitz_optimize, "prefix", "single", 1024, {.loss = DPMF_LOSS_MAX}};
    check_near(loss_of(&w), 3.272554, 1e-6);
}

static void test_banded_toeplitz_optima_are_the_published_ones(void **unused) {
    /* general banded C of 16 bands, and how far above it normalized Toeplitz ones are (McKenna 2024, Figure 1a) */
    static const struct {
        int64_t n;
        double banded, ratio;
    } cases[] = {{32, 1.934325, 1.0158},  {64, 2.292618, 1.0159},   {128, 2.818767, 1.0146}, {256, 3.586968, 1.0121},
                 {512, 4.699375, 1.0092}, {1024, 6.298836, 1.0066}, {2048, 8.5867, 1.0046}};
    (void)unused;
    for (int i = 0; i < 7; i++) {
        wish w = {
            toeplitz_optimize_banded, "prefix", "single", cases[i].n, {.bands = 16, .normalize = DPMF_NORMALIZE_AFTER}};
        double after = loss_of(&w);
        check_near(after / (cases[i].banded * cases[i].ratio), 1, 1e-4);
        w.options.normalize = DPMF_NORMALIZE_WITHIN;
        double within = loss_of(&w);
        assert_true(within <= after * (1 + 1e-9) && within >= cases[i].banded);
    }
    /* McKenna 2024, Appendix I: 2^16 steps, 64 bands */
    const wish large = {toeplitz_optimize_banded, "prefix", "single", 65536, {.loss = DPMF_LOSS_MAX, .bands = 64}};
    check_near(loss_of(&large) / 32.75872, 1, 1e-6);
}

/* n = 64, prefix sums, by dense optimization from several starts, c >= 0: whole matrices of any signs may be better under cyclic. */
static void test_toeplitz_optima_agree_with_dense_optimization(void **unused) {
    static const struct {
        int64_t bands; /* 0: whole */
        int normalize;
        dpmf_loss loss;
        double single, several; /* under one, under cyclic:4,16 and minsep:4,16 */
    } cases[] = {{0, 0, DPMF_LOSS_RMS, 2.179043433, 4.700108746},  {0, 0, DPMF_LOSS_MAX, 2.388848108, 5.735034158},
                 {16, 0, DPMF_LOSS_RMS, 2.350054373, 4.700108746}, {16, 0, DPMF_LOSS_MAX, 2.867517079, 5.735034158},
                 {8, 0, DPMF_LOSS_RMS, 2.663974834, 5.327949668},  {8, 0, DPMF_LOSS_MAX, 3.424288786, 6.848577572},
                 {16, 2, DPMF_LOSS_RMS, 2.328218261, 4.656436523}, {16, 2, DPMF_LOSS_MAX, 2.670752410, 5.341504819},
                 {8, 2, DPMF_LOSS_RMS, 2.653233876, 5.306467752},  {8, 2, DPMF_LOSS_MAX, 3.281597881, 6.563195763}};
    static const char *const participations[] = {"single", "cyclic:4,16", "minsep:4,16"};
    (void)unused;
    for (int i = 0; i < 10; i++)
        for (int p = 0; p < 3; p++) {
            const wish w = {
                cases[i].bands == 0 ? toeplitz_optimize : toeplitz_optimize_banded,
                "prefix",
                participations[p],
                64,
                {.loss = cases[i].loss, .bands = cases[i].bands, .normalize = (dpmf_normalize)cases[i].normalize}};
            double ratio = loss_of(&w) / (p == 0 ? cases[i].single : cases[i].several);
            assert_true(ratio <= 1 + 1e-5);
            if (!(i <= 1 && p == 1)) assert_true(ratio >= 1 - 1e-6);
        }
}

/* ---- no small change makes it better ---- */

static double perturbed(const made *m, int inverse, const double *c, int64_t count, dpmf_loss loss) {
    dpmf_strategy *s = NULL;
    dpmf_evaluation figures;
    const int64_t n = m->workload->steps;
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    o.lower_bound = DPMF_LOWER_BOUND_NONE;
    if (inverse)
        check_ok(dpmf_strategy_create_toeplitz(n, DPMF_TOEPLITZ_INVERSE, count, c, &s));
    else
        check_ok(dpmf_strategy_create_toeplitz(n, DPMF_TOEPLITZ_BANDED, count, c, &s));
    check_ok(dpmf_evaluate(m->workload, m->participation, s, &o, &figures, NULL));
    dpmf_strategy_free(s);
    return loss == DPMF_LOSS_MAX ? figures.max_loss : figures.rms_loss;
}

static void check_local(const wish *w) {
    made m = make(w);
    int64_t count = 0, inverse_count = 0;
    const double *c = NULL, *h = NULL;
    double moved[64];
    uint64_t seed = 9;
    const int inverse = w->family == toeplitz_optimize_inverse;
    assert_true(strategy_toeplitz(m.strategy, &count, &c, &inverse_count, &h));
    if (inverse) count = inverse_count, c = h;
    assert_int_equal(count, w->options.bands);
    for (int k = 0; k < 20; k++) {
        for (int64_t i = 0; i < count; i++)
            moved[i] = c[i] * (1 + 1e-3 * check_random(&seed));
        assert_true(perturbed(&m, inverse, moved, count, w->options.loss) >= m.loss * (1 - 1e-9));
    }
    undo(&m);
}

static void test_no_neighbour_beats_a_toeplitz_optimum(void **unused) {
    static const char *const workloads[] = {"prefix", "momentum:0.9", "nesterov:0.9,decay:0.01", "decay:0.3",
                                            "momentum:0.9,cooldown:0.3:0.1"};
    (void)unused;
    for (int w = 0; w < 5; w++)
        for (int l = 0; l < 2; l++)
            for (int64_t bands = 2; bands <= 12; bands += 5) {
                const int schedule = w == 4;
                wish k = {
                    toeplitz_optimize_banded, workloads[w], "single", 200, {.loss = (dpmf_loss)l, .bands = bands}};
                if (!(schedule && l == 1))
                    check_local(
                        &k); /* a minimax is not smooth: see test_the_optimum_of_a_schedule_beats_that_without_it */
                k.participation = "minsep:5,40";
                if (!schedule) check_local(&k);
                k.family = toeplitz_optimize_inverse;
                k.participation = "single";
                if (!schedule) check_local(&k);
            }
}

/* A schedule's own optimum is better than that of the workload without it, for both losses. */
static void test_the_optimum_of_a_schedule_beats_that_without_it(void **unused) {
    (void)unused;
    for (int l = 0; l < 2; l++) {
        const wish with = {toeplitz_optimize_banded,
                           "momentum:0.9,cooldown:0.5:0.05",
                           "single",
                           128,
                           {.loss = (dpmf_loss)l, .bands = 10}};
        wish without = with;
        without.workload = "momentum:0.9";
        made a = make(&with), b = make(&without);
        dpmf_evaluation figures;
        check_ok(dpmf_evaluate(a.workload, NULL, b.strategy, NULL, &figures, NULL));
        assert_true(a.loss < (1 - 1e-4) * (l == 0 ? figures.rms_loss : figures.max_loss));
        undo(&a);
        undo(&b);
    }
}

/* ---- participations ---- */

static void test_more_bands_than_the_separation_never_hurt(void **unused) {
    (void)unused;
    /* more bands than the separation cannot hurt, and whole matrices are best */
    for (int l = 0; l < 2; l++)
        for (int p = 0; p < 2; p++) {
            wish w = {toeplitz_optimize_banded,
                      "prefix",
                      p ? "minsep:5,20" : "cyclic:5,20",
                      100,
                      {.loss = (dpmf_loss)l, .bands = 20}};
            double before = loss_of(&w);
            for (w.options.bands = 25; w.options.bands <= 100; w.options.bands += 25) {
                double now = loss_of(&w);
                assert_true(now <= before * (1 + 1e-6));
                before = now;
            }
            w.family = toeplitz_optimize;
            check_near(loss_of(&w) / before, 1, p ? 1e-6 : 1e-4); /* not convex: two ends of one search */
        }
    /* in every step: nothing is gained by correlation for the max loss, sqrt(n) sqrt(n) */
    const wish full = {toeplitz_optimize, "prefix", "full", 64, {.loss = DPMF_LOSS_MAX}};
    assert_true(loss_of(&full) <= 64 * (1 + 1e-6));
    /* a last column that is cut short counts with the rest of it */
    const wish cut = {toeplitz_optimize_banded, "prefix", "minsep:3,10", 23, {.bands = 10}};
    made m = make(&cut);
    assert_true(m.figures.sensitivity.value * m.figures.sensitivity.value < 3 * (1 - 1e-3));
    undo(&m);
}

static void test_optimized_inverse_bands_beat_those_of_the_root(void **unused) {
    static const char *const participations[] = {"single", "cyclic:4,64", "minsep:4,64"};
    (void)unused;
    for (int p = 0; p < 3; p++) {
        wish w = {toeplitz_optimize_inverse, "prefix", participations[p], 256, {.bands = 2}};
        dpmf_strategy *root = NULL;
        double before = INFINITY;
        for (; w.options.bands <= 8; w.options.bands *= 2) {
            made m = make(&w);
            dpmf_evaluation figures;
            dpmf_strategy_options o = {.bands = w.options.bands};
            check_ok(dpmf_strategy_create("bisr", m.workload, &o, &root));
            check_ok(dpmf_evaluate(m.workload, m.participation, root, NULL, &figures, NULL));
            assert_true(m.loss < figures.rms_loss && m.loss < before);
            assert_int_equal(m.figures.sensitivity.kind, DPMF_EXACT);
            assert_int_equal(strategy_inverse_bands(m.strategy), w.options.bands);
            before = m.loss;
            dpmf_strategy_free(root);
            undo(&m);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_toeplitz_optima_are_the_known_ones),
                                       cmocka_unit_test(test_banded_toeplitz_optima_are_the_published_ones),
                                       cmocka_unit_test(test_toeplitz_optima_agree_with_dense_optimization),
                                       cmocka_unit_test(test_no_neighbour_beats_a_toeplitz_optimum),
                                       cmocka_unit_test(test_the_optimum_of_a_schedule_beats_that_without_it),
                                       cmocka_unit_test(test_more_bands_than_the_separation_never_hurt),
                                       cmocka_unit_test(test_optimized_inverse_bands_beat_those_of_the_root)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
