/* SPDX-License-Identifier: Apache-2.0 */
/* TV-BLT at large n: it stays positive, its norms stay 1, its losses stay near the optimum. */
#include "support/check.h"

#include "families/tvblt/tvblt.h"
#include "optimum/optimum.h"
#include "strategy/strategy.h"

#include <math.h>
#include <stdlib.h>

/* The optimum once, then each number of nodes; `ratio` bounds the loss over the certified lower bound. */
static void check_large(const char *text, int64_t n, int max_loss, int count, const int *nodes, const double *ratio) {
    dpmf_workload *a = NULL;
    optimum_answer o = {0};
    double *values = calloc((size_t)n, sizeof *values);
    check_ok(dpmf_workload_parse(text, n, &a));
    check_ok(optimum_solve(a, max_loss, NULL, 1e-6, NULL, &o));
    for (int i = 0; i < count; i++) {
        dpmf_strategy *c = NULL;
        double loss = 0, total = 0, largest = 0;
        check_ok(tvblt_search(a, max_loss, nodes[i], 0, &o, NULL, &c, &loss));
        check_ok(dpmf_strategy_column_norms(c, values));
        for (int64_t t = 0; t < n; t++) {
            check_near(values[t], 1, 1e-12);
            assert_true(tvblt_of(c)->diagonal[t] > 0);
        }
        check_ok(tvblt_errors(a, tvblt_of(c), 1, NULL, NULL, values));
        for (int64_t t = 0; t < n; t++) {
            total += values[t];
            largest = fmax(largest, values[t]);
        }
        check_near(loss / (max_loss ? sqrt(largest) : sqrt(total / (double)n)), 1, 1e-10);
        if (!(loss >= o.lower && loss <= ratio[i] * o.lower))
            fail_msg("%s, %lld steps, %d nodes: ratio %.8f, wanted at most %.8f", text, (long long)n, nodes[i],
                     loss / o.lower, ratio[i]);
        dpmf_strategy_free(c);
    }
    free(values);
    optimum_free(&o);
    dpmf_workload_free(a);
}

/* The ratios leave some room above what is reached: a worse search fails, another compiler's rounding does not. */
static void test_few_nodes_come_near_the_optimum_of_a_million_steps(void **unused) {
    (void)unused;
    check_large("prefix", 100000, 0, 2, (int[]){6, 8}, (double[]){1.0005, 1.000025});
    check_large("prefix", 1000000, 0, 2, (int[]){8, 12}, (double[]){1.00015, 1.000003});
}

static void test_few_nodes_come_near_the_optimum_of_the_max_loss(void **unused) {
    (void)unused;
    check_large("prefix", 131072, 1, 1, (int[]){8}, (double[]){1.0005});
}

static void test_few_nodes_come_near_the_optimum_of_momentum(void **unused) {
    (void)unused;
    check_large("momentum:0.95", 100000, 0, 2, (int[]){8, 12}, (double[]){1.0003, 1.000005});
    check_large("nesterov:0.9,cooldown:0.5:0.01", 20000, 0, 1, (int[]){8}, (double[]){1.0002});
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_few_nodes_come_near_the_optimum_of_a_million_steps),
                                       cmocka_unit_test(test_few_nodes_come_near_the_optimum_of_the_max_loss),
                                       cmocka_unit_test(test_few_nodes_come_near_the_optimum_of_momentum)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
