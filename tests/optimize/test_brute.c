/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every family against plain dense optimization at 64 steps (tests/data/brute_force.csv, made by
 * tests/python/brute_force.py from the definitions alone): the same best loss, and larger families are no worse.
 */
#include "support/check.h"

#include "dpmf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 64, SEPARATION = 16, ROWS_MAX = 100 };

/* Both sides are optimized to about 1e-6; a local minimum or a wrong sensitivity shows at once. */
static const double AGREE = 1e-4;

typedef struct row {
    char family[40], participation[24], loss[8];
    int bands, buffers;
    double value; /* of the file */
    double found; /* by the library; 0: not computed yet */
} row;

typedef struct table {
    row rows[ROWS_MAX];
    int count;
} table;

static int read_table(void **state) {
    static table read;
    const char *source = getenv("DPMF_SOURCE");
    char path[1024], line[200];
    snprintf(path, sizeof path, "%s%stests/data/brute_force.csv", source == NULL ? "" : source,
             source == NULL ? "" : "/");
    FILE *file = fopen(path, "r");
    if (file == NULL) fail_msg("%s cannot be opened (run from the top of the source tree, or set DPMF_SOURCE)", path);
    while (fgets(line, sizeof line, file) != NULL) {
        row *r = &read.rows[read.count++];
        assert_true(read.count <= ROWS_MAX);
        assert_int_equal(sscanf(line, "%39[^;];%d;%d;%23[^;];%7[^;];%lf", r->family, &r->bands, &r->buffers,
                                r->participation, r->loss, &r->value),
                         6);
    }
    fclose(file);
    assert_int_equal(read.count, 60);
    *state = &read;
    return 0;
}

/* Brute force searched fewer: positive and falling coefficients, where the library searches all signs. */
static int is_wider(const row *r) {
    return strncmp(r->participation, "cyclic", 6) == 0 &&
           (strcmp(r->family, "toeplitz") == 0 || strcmp(r->family, "blt") == 0);
}

/* Its dense C under min-separation vanishes between the steps of one unit: that is banded with as many bands. */
static int is_vanishing(const row *r) {
    return strncmp(r->participation, "minsep", 6) == 0 && strcmp(r->family, "dense") == 0;
}

static double best_loss(const row *r) {
    static const char normalized[] = "banded-toeplitz-normalized";
    dpmf_optimize_options options = dpmf_optimize_options_defaults();
    dpmf_workload *workload = NULL;
    dpmf_participation *participation = NULL;
    dpmf_strategy *strategy = NULL;
    dpmf_optimization how;
    dpmf_evaluation result;
    int within = strcmp(r->family, normalized) == 0, max_loss = strcmp(r->loss, "max") == 0;
    options.loss = max_loss ? DPMF_LOSS_MAX : DPMF_LOSS_RMS;
    options.bands = is_vanishing(r) ? SEPARATION : r->bands;
    options.buffers = r->buffers;
    options.normalize = within ? DPMF_NORMALIZE_WITHIN : DPMF_NORMALIZE_NONE;
    check_ok(dpmf_workload_create(STEPS, NULL, &workload));
    check_ok(dpmf_participation_parse(r->participation, STEPS, &participation));
    const char *family = within ? "banded-toeplitz" : is_vanishing(r) ? "banded" : r->family;
    check_ok(dpmf_optimize(family, workload, participation, &options, &strategy, &how));
    check_ok(dpmf_evaluate(workload, participation, strategy, NULL, &result, NULL));
    assert_true(result.sensitivity.kind == DPMF_EXACT || (is_wider(r) && result.sensitivity.kind == DPMF_UPPER_BOUND));
    dpmf_strategy_free(strategy);
    dpmf_participation_free(participation);
    dpmf_workload_free(workload);
    return max_loss ? result.max_loss : result.rms_loss;
}

/* Every row of the family; all differences are shown before it fails. */
static void compare(table *t, const char *family) {
    int rows = 0, wrong = 0;
    for (int i = 0; i < t->count; i++) {
        row *r = &t->rows[i];
        if (strcmp(r->family, family) != 0) continue;
        r->found = best_loss(r);
        rows++;
        if (fabs(r->found / r->value - 1) <= AGREE || (is_wider(r) && r->found < r->value)) continue;
        print_error("%s, %d bands, %d buffers, %s, %s: %.9f, brute force %.9f\n", r->family, r->bands, r->buffers,
                    r->participation, r->loss, r->found, r->value);
        wrong++;
    }
    assert_true(rows > 0);
    assert_int_equal(wrong, 0);
}

static void test_the_dense_optimum_is_as_good_as_brute_force(void **state) {
    compare(*state, "dense");
}

static void test_the_banded_optimum_is_as_good_as_brute_force(void **state) {
    compare(*state, "banded");
}

static void test_the_banded_toeplitz_optimum_is_as_good_as_brute_force(void **state) {
    compare(*state, "banded-toeplitz");
}

static void test_the_normalized_optimum_is_as_good_as_brute_force(void **state) {
    compare(*state, "banded-toeplitz-normalized");
}

static void test_the_toeplitz_optimum_is_as_good_as_brute_force(void **state) {
    compare(*state, "toeplitz");
}

static void test_the_blt_optimum_is_as_good_as_brute_force(void **state) {
    compare(*state, "blt");
}

/* The row of this family (bands 0: any number) that differs from `like` in nothing else. */
static const row *find(const table *t, const char *family, int bands, const row *like) {
    for (int i = 0; i < t->count; i++) {
        const row *r = &t->rows[i];
        if (strcmp(r->family, family) == 0 && r->bands == bands && strcmp(r->participation, like->participation) == 0 &&
            strcmp(r->loss, like->loss) == 0)
            return r;
    }
    fail_msg("no row %s, %d bands, %s, %s", family, bands, like->participation, like->loss);
    return NULL;
}

/* dense <= banded <= column-normalized banded Toeplitz <= banded Toeplitz, as each contains the next. */
static void test_a_larger_family_is_no_worse(void **state) {
    const table *t = *state;
    int compared = 0;
    for (int i = 0; i < t->count; i++) {
        const row *last = &t->rows[i];
        if (strcmp(last->family, "banded-toeplitz") != 0) continue;
        const row *chain[] = {find(t, "dense", 0, last), find(t, "banded", last->bands, last),
                              find(t, "banded-toeplitz-normalized", last->bands, last), last};
        for (int k = 0; k < 3; k++) {
            assert_true(chain[k]->found > 0); /* the tests above have run */
            if (chain[k]->found > chain[k + 1]->found * (1 + 1e-6))
                fail_msg("%s, %s: %s %.9f is worse than %s %.9f", last->participation, last->loss, chain[k]->family,
                         chain[k]->found, chain[k + 1]->family, chain[k + 1]->found);
            compared++;
        }
    }
    assert_int_equal(compared, 3 * 12);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_dense_optimum_is_as_good_as_brute_force),
                                       cmocka_unit_test(test_the_banded_optimum_is_as_good_as_brute_force),
                                       cmocka_unit_test(test_the_normalized_optimum_is_as_good_as_brute_force),
                                       cmocka_unit_test(test_the_banded_toeplitz_optimum_is_as_good_as_brute_force),
                                       cmocka_unit_test(test_the_toeplitz_optimum_is_as_good_as_brute_force),
                                       cmocka_unit_test(test_the_blt_optimum_is_as_good_as_brute_force),
                                       cmocka_unit_test(test_a_larger_family_is_no_worse)};
    return cmocka_run_group_tests(tests, read_table, NULL);
}
