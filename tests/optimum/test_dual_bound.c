/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bound is a bound: the certified optimum and phi against 50-digit values (tests/data/optimum.csv, made by
 * tests/python/reference_optimum.py), at the solution, at any v, and with too few quadrature nodes.
 */
#include "support/check.h"

#include "optimum/optimum.h"
#include "optimum/phi.h"
#include "workload/workload.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_MAX = 64 };

/* ---- the file ---- */

typedef struct reference {
    char text[96];
    int64_t n;
    int max_loss; /* optimum lines */
    double value;
    int which, step; /* phi lines */
    double v, p, column, row;
} reference;

static FILE *open_file(void) {
    const char *source = getenv("DPMF_SOURCE");
    char path[1024];
    snprintf(path, sizeof path, "%s%stests/data/optimum.csv", source == NULL ? "" : source, source == NULL ? "" : "/");
    FILE *file = fopen(path, "r");
    if (file == NULL) fail_msg("%s cannot be opened (run from the top of the source tree, or set DPMF_SOURCE)", path);
    return file;
}

/* The next line of this kind ("optimum" or "phi"), 0 at the end. */
static int next_line(FILE *file, const char *kind, reference *r) {
    char line[256], found[16], loss[8];
    long long n = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        assert_int_equal(sscanf(line, "%15[^;];%95[^;];%lld", found, r->text, &n), 3);
        if (strcmp(found, kind) != 0) continue;
        r->n = n;
        assert_in_range(n, 1, STEPS_MAX);
        if (strcmp(kind, "optimum") == 0) {
            assert_int_equal(sscanf(line, "%*[^;];%*[^;];%*d;%7[^;];%lf", loss, &r->value), 2);
            r->max_loss = strcmp(loss, "max") == 0;
        } else {
            assert_int_equal(sscanf(line, "%*[^;];%*[^;];%*d;%d;%d;%lf;%lf;%lf;%lf", &r->which, &r->step, &r->v, &r->p,
                                    &r->column, &r->row),
                             6);
        }
        return 1;
    }
    return 0;
}

/* ---- phi ---- */

typedef struct evaluator {
    base_pool *pool;
    optimum_phi *phi;
} evaluator;

static evaluator evaluator_of(const dpmf_workload *a) {
    evaluator e = {0};
    check_ok(base_pool_create(1, &e.pool));
    check_ok(optimum_phi_create(a, e.pool, &e.phi));
    return e;
}

static void evaluator_free(evaluator *e) {
    optimum_phi_free(e->phi);
    base_pool_free(e->pool);
}

/* Each entry within the error that is claimed, which is below `most`. */
static void assert_claim(const dpmf_workload *a, evaluator *e, const reference *lines, int nodes, double most) {
    int64_t n = a->steps;
    double v[STEPS_MAX] = {0}, p[STEPS_MAX] = {0}, columns[STEPS_MAX], rows[STEPS_MAX], error = -1;
    double sum = 0, want = 0;
    for (int64_t t = 0; t < n; t++)
        v[t] = lines[t].v, p[t] = lines[t].p;
    check_ok(optimum_phi_eval(e->phi, v, p, 1e-13, nodes, columns, rows, &error));
    assert_true(error > 0 && error <= most);
    double least = optimum_phi_floor(e->phi);
    assert_true(a->form == WORKLOAD_NAMED ? least == 0 : least > 0);
    for (int64_t t = 0; t < n; t++) {
        double column = fabs(columns[t] - lines[t].column), row = fabs(rows[t] - lines[t].row);
        if (!(column <= error * lines[t].column + least && row <= error * lines[t].row + least))
            fail_msg("%s (%s), n = %lld, case %d, %d nodes, step %lld: off by %.3g and %.3g, claimed %.3g",
                     lines[0].text, a->text, (long long)n, lines[0].which, nodes, (long long)t,
                     column / lines[t].column, row / lines[t].row, error);
        if (nodes == 0 && a->form == WORKLOAD_NAMED)
            assert_true(column < 1e-13 * lines[t].column && row < 1e-13 * lines[t].row);
        sum += columns[t], want += lines[t].column;
    }
    assert_true(fabs(sum / want - 1) <= error);
}

static void test_phi_is_within_its_claimed_error(void **unused) {
    FILE *file = open_file();
    reference lines[STEPS_MAX], r = {.max_loss = 0};
    int count = 0;
    (void)unused;
    while (next_line(file, "phi", &r)) {
        lines[r.step] = r;
        if (r.step + 1 < r.n) continue;
        dpmf_workload *a = workload_of(r.text, r.n), *dense = NULL;
        double *matrix = check_workload_matrix(a);
        check_ok(dpmf_workload_create_dense(r.n, matrix, &dense));
        free(matrix);
        evaluator named = evaluator_of(a), other = evaluator_of(dense);
        assert_claim(a, &named, lines, 0, 2e-11);
        for (int nodes = 1; nodes <= 16; nodes++)
            assert_claim(a, &named, lines, nodes, INFINITY);
        assert_claim(dense, &other, lines, 0, 1e-12);
        evaluator_free(&named);
        evaluator_free(&other);
        dpmf_workload_free(a);
        dpmf_workload_free(dense);
        count++;
    }
    fclose(file);
    assert_true(count >= 90);
}

/* ---- the optimum ---- */

static void test_reference_optima_lie_between_the_bounds(void **unused) {
    FILE *file = open_file();
    reference r = {.n = 0};
    int count[2] = {0};
    (void)unused;
    while (next_line(file, "optimum", &r)) {
        dpmf_workload *a = workload_of(r.text, r.n);
        optimum_answer o = {0};
        check_ok(optimum_solve(a, r.max_loss, NULL, 1e-9, NULL, &o));
        if (!(o.converged && o.lower <= r.value && r.value <= o.upper && o.upper <= o.lower * (1 + 1e-9)))
            fail_msg("%s, n = %lld, max %d: %.17g to %.17g, not %.17g", r.text, (long long)r.n, r.max_loss, o.lower,
                     o.upper, r.value);
        optimum_free(&o);
        dpmf_workload_free(a);
        count[r.max_loss]++;
    }
    fclose(file);
    assert_true(count[0] >= 60 && count[1] >= 40);
}

/* Random weights over six decades: sqrt of the bounds by sum phi and by the largest ratio enclose the optimum. */
static void assert_random_bounds(const reference *r, evaluator *e, int trials, uint64_t *seed) {
    static const int nodes[] = {0, 8, 4};
    int64_t n = r->n;
    for (int trial = 0; trial < trials; trial++) {
        double v[STEPS_MAX] = {0}, p[STEPS_MAX] = {0}, columns[STEPS_MAX], rows[STEPS_MAX];
        double error = 0, total = 0, other = 0;
        for (int64_t t = 0; t < n; t++) {
            total += v[t] = pow(10, 3 * check_random(seed));
            other += p[t] = pow(10, 3 * check_random(seed));
        }
        for (int k = 0; k < 3; k++) {
            double sum = 0, most = 0, most_rows = 0, lower, upper;
            check_ok(optimum_phi_eval(e->phi, v, r->max_loss ? p : NULL, 1e-12, nodes[k], columns,
                                      r->max_loss ? rows : NULL, &error));
            for (int64_t t = 0; t < n; t++) {
                sum += columns[t];
                most = fmax(most, columns[t] / v[t]);
                if (r->max_loss) most_rows = fmax(most_rows, rows[t] / p[t]);
            }
            assert_true(k > 0 || error < 2e-11);
            lower = sum * (1 - error) / sqrt(total * (r->max_loss ? other : (double)n));
            upper = (1 + error) * sqrt(r->max_loss ? most * most_rows : sum * most / (double)n);
            if (!(lower <= r->value) || !(upper >= r->value))
                fail_msg("%s, n = %lld, max %d, %d nodes, trial %d: %.17g to %.17g, not around %.17g", r->text,
                         (long long)n, r->max_loss, nodes[k], trial, lower, upper, r->value);
        }
    }
}

static void test_any_weights_give_a_bound(void **unused) {
    FILE *file = open_file();
    reference r = {.n = 0};
    uint64_t seed = 2026;
    (void)unused;
    while (next_line(file, "optimum", &r)) {
        dpmf_workload *a = workload_of(r.text, r.n);
        evaluator e = evaluator_of(a);
        assert_random_bounds(&r, &e, 200, &seed);
        evaluator_free(&e);
        dpmf_workload_free(a);
    }
    fclose(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_phi_is_within_its_claimed_error),
                                       cmocka_unit_test(test_reference_optima_lie_between_the_bounds),
                                       cmocka_unit_test(test_any_weights_give_a_bound)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
