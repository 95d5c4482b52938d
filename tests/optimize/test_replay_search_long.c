/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TV-BLT with replayed seeds at larger sizes: ratios to the certified lower bound of all mechanisms, as printed by
 * `dpmf optimize --family dense --participation cyclic:K,B`.
 */
#include "support/check.h"

#include "families/replay/replay.h"

#include <stdio.h>

typedef struct wish {
    int64_t n, b;
    int buffers, shared;
    double ratio, lower;
} wish;

static void check_wish(const wish *w, base_pool *pool) {
    dpmf_workload *a = NULL;
    const replay_options o = {.buffers = w->buffers, .pool = pool};
    replay_result found = {0};
    replay_shared_result shared = {0};
    double loss = 0;
    check_ok(dpmf_workload_parse("prefix", w->n, &a));
    if (w->shared > 0)
        check_ok(replay_shared_search(a, w->b, w->shared, &o, &shared));
    else
        check_ok(replay_search(a, w->b, &o, &found));
    loss = w->shared > 0 ? shared.loss : found.loss;
    if (!(loss <= w->ratio * w->lower && loss >= w->lower))
        fail_msg("n = %lld, b = %lld, %d buffers, %d shared seeds: loss %.10g, ratio %.7f, wanted %g", (long long)w->n,
                 (long long)w->b, w->buffers, w->shared, loss, loss / w->lower, w->ratio);
    replay_result_free(&found);
    replay_shared_result_free(&shared);
    dpmf_workload_free(a);
}

static void test_the_long_search_comes_near_the_bound(void **unused) {
    static const wish WISHES[] = {{1000, 100, 3, 0, 1.001, 10.5366449}, {1000, 100, 4, 0, 1.0004, 10.5366449},
                                  {2000, 100, 4, 0, 1.001, 18.071569},  {2048, 1024, 4, 0, 1.0006, 4.481515},
                                  {10000, 1000, 4, 0, 1.0018, 12.610},  {100000, 10000, 5, 0, 1.005, 14.7584014},
                                  {1000, 100, 4, 3, 1.011, 10.5366449}};
    base_pool *pool = NULL;
    (void)unused;
    check_ok(base_pool_create(0, &pool));
    for (size_t i = 0; i < sizeof WISHES / sizeof *WISHES; i++)
        check_wish(WISHES + i, pool);
    base_pool_free(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_long_search_comes_near_the_bound)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
