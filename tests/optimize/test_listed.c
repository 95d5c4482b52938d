/* SPDX-License-Identifier: Apache-2.0 */
/* Strategies optimized for patterns from a file: named kinds written out, certificates, and what cannot be optimized. */
#include "support/patterns_files.h"

#include <math.h>

typedef struct answer {
    dpmf_optimization result;
    dpmf_evaluation found;
} answer;

static answer optimized(const char *family, const dpmf_participation *p, const char *workload, int64_t bands,
                        int buffers, dpmf_loss loss, double tolerance) {
    dpmf_workload *a = workload_of(workload, p->steps);
    dpmf_optimize_options o = dpmf_optimize_options_defaults();
    dpmf_evaluate_options e = dpmf_evaluate_options_defaults();
    dpmf_strategy *s = NULL;
    answer out;
    o.bands = bands;
    o.buffers = buffers;
    o.loss = loss;
    o.tolerance = tolerance;
    e.lower_bound = DPMF_LOWER_BOUND_NONE;
    check_ok(dpmf_optimize(family, a, p, &o, &s, &out.result));
    check_ok(dpmf_evaluate(a, p, s, &e, &out.found, NULL));
    dpmf_strategy_free(s);
    dpmf_workload_free(a);
    return out;
}

static double loss_of(const answer *a, dpmf_loss loss) {
    return loss == DPMF_LOSS_MAX ? a->found.max_loss : a->found.rms_loss;
}

/* The certified optimum within 1e-5: from below always, from above where both searches have converged. */
static void test_named_kinds_written_out_have_the_same_certified_optimum(void **unused) {
    static const struct {
        const char *kind, *workload;
        int64_t n;
    } cases[] = {{"single", "prefix", 12},
                 {"full", "prefix", 10},
                 {"cyclic:3,4", "prefix", 12},
                 {"min-sep:3,4", "prefix", 16},
                 {"min-sep:2,5", "momentum:0.9", 12},
                 {"shuffled:3,4", "prefix", 12},
                 {"shuffled:2,6", "decay:0.1", 12}};
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int loss = DPMF_LOSS_RMS; loss <= DPMF_LOSS_MAX; loss++) {
            dpmf_participation *p = NULL, *listed = patterns_written_out(cases[i].kind, cases[i].n);
            check_ok(dpmf_participation_parse(cases[i].kind, cases[i].n, &p));
            const answer named = optimized("dense", p, cases[i].workload, 0, 0, (dpmf_loss)loss, 3e-6);
            const answer found = optimized("dense", listed, cases[i].workload, 0, 0, (dpmf_loss)loss, 3e-6);
            const int converged = found.result.outcome == DPMF_CONVERGED && named.result.outcome == DPMF_CONVERGED;
            assert_true(converged ||
                        loss == DPMF_LOSS_MAX); /* searches for the max loss may end early, for both alike */
            check_near(found.result.optimum_lower, named.result.optimum_lower, 1e-5);
            check_near(found.result.optimum_upper, named.result.optimum_upper, 1e-5);
            check_near(loss_of(&found, (dpmf_loss)loss), loss_of(&named, (dpmf_loss)loss), 1e-5);
            assert_true(loss_of(&found, (dpmf_loss)loss) >= found.result.optimum_lower * (1 - 1e-12));
            dpmf_participation_free(p);
            dpmf_participation_free(listed);
        }
}

/* Random lists: no family is below the certified bound, and the dense optimum is at it. */
static void test_no_family_is_below_the_certified_optimum_of_random_lists(void **unused) {
    uint64_t seed = 3;
    (void)unused;
    for (int run = 0; run < 6; run++) {
        char text[4000] = "0 6 12 18\n";
        for (int q = 0; q < 30; q++) {
            for (int t = q % 6; t < 24; t += 3 + (int)(3 * (1 + check_random(&seed))))
                snprintf(text + strlen(text), sizeof text - strlen(text), "%d ", t);
            snprintf(text + strlen(text), sizeof text - strlen(text), "\n%d\n", q % 24); /* every step is in one */
        }
        dpmf_participation *p = patterns_of_text(text, 24);
        assert_true(p->covers && p->pattern == WORKLOAD_LISTED && p->separation >= 3);
        for (int loss = DPMF_LOSS_RMS; loss <= DPMF_LOSS_MAX; loss++) {
            const dpmf_loss l = (dpmf_loss)loss;
            const answer best = optimized("dense", p, "prefix", 0, 0, l, 1e-4);
            const answer others[] = {
                optimized("banded", p, "prefix", 3, 0, l, 1e-5), optimized("banded", p, "prefix", 1, 0, l, 1e-5),
                optimized("toeplitz", p, "prefix", 0, 0, l, 1e-6),
                optimized("banded-toeplitz", p, "prefix", 5, 0, l, 1e-6), optimized("blt", p, "prefix", 0, 2, l, 1e-6)};
            assert_int_equal(best.result.outcome, DPMF_CONVERGED);
            assert_true(loss_of(&best, l) <= best.result.optimum_lower * (1 + 1.1e-4));
            for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
                assert_true(loss_of(&others[i], l) >= best.result.optimum_lower * (1 - 1e-12));
                assert_true(loss_of(&others[i], l) <= 2 * best.result.optimum_lower);
                assert_int_equal(others[i].found.sensitivity.kind, DPMF_EXACT);
            }
            for (size_t i = 0; i < 2; i++) { /* banded: within its own class from both sides */
                assert_true(others[i].result.optimum_upper <= others[i].result.optimum_lower * (1 + 2e-4));
                check_near(loss_of(&others[i], l), others[i].result.optimum_upper, 1e-9);
            }
        }
        dpmf_participation_free(p);
    }
}

/* Min-separation has closed routes of its own: the searches over its written-out patterns end at the same losses. */
static void test_families_reach_the_losses_that_min_separation_has(void **unused) {
    static const struct {
        const char *family;
        int64_t bands;
        int buffers;
        double tolerance;
    } cases[] = {{"banded", 4, 0, 1e-5},
                 {"banded", 3, 0, 1e-5},
                 {"banded-toeplitz", 4, 0, 1e-8},
                 {"toeplitz", 0, 0, 1e-4},
                 {"blt", 0, 2, 1e-5}};
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int loss = DPMF_LOSS_RMS; loss <= DPMF_LOSS_MAX; loss++) {
            const dpmf_loss l = (dpmf_loss)loss;
            dpmf_participation *p = NULL, *listed = patterns_written_out("min-sep:3,4", 20);
            check_ok(dpmf_participation_parse("min-sep:3,4", 20, &p));
            const answer named = optimized(cases[i].family, p, "prefix", cases[i].bands, cases[i].buffers, l, 1e-6);
            const answer found =
                optimized(cases[i].family, listed, "prefix", cases[i].bands, cases[i].buffers, l, 1e-6);
            assert_true(loss_of(&found, l) <= loss_of(&named, l) * (1 + cases[i].tolerance));
            dpmf_participation_free(p);
            dpmf_participation_free(listed);
        }
}

static void test_a_step_in_no_pattern_and_too_many_bands_are_refused(void **unused) {
    dpmf_participation *p = patterns_of_text("0 4\n1 2\n", 5);
    dpmf_workload *a = workload_of("prefix", 5);
    dpmf_optimize_options o = dpmf_optimize_options_defaults();
    dpmf_optimization result;
    dpmf_strategy *s = NULL;
    (void)unused;
    check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_optimize("dense", a, p, &o, &s, &result));
    check_message("a step is in none of the patterns");
    o.bands = 1;
    check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_optimize("banded", a, p, &o, &s, &result));
    o.bands = 0;
    check_ok(dpmf_optimize("toeplitz", a, p, &o, &s, &result)); /* all columns have the same numbers */
    dpmf_strategy_free(s);
    s = NULL;
    dpmf_participation_free(p);
    p = patterns_of_text("0 4\n1 3 \n2\n", 5);
    o.bands = 3;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_optimize("banded", a, p, &o, &s, &result));
    check_message("accepted 1 to 2");
    assert_null(s);
    dpmf_participation_free(p);
    dpmf_workload_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_named_kinds_written_out_have_the_same_certified_optimum),
        cmocka_unit_test(test_no_family_is_below_the_certified_optimum_of_random_lists),
        cmocka_unit_test(test_families_reach_the_losses_that_min_separation_has),
        cmocka_unit_test(test_a_step_in_no_pattern_and_too_many_bands_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
