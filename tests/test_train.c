/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices, and the clipped sum of a batch against the definition. */
#include "train_reference.h"

/* ---- products ---- */

static void test_products(void **unused) {
    const char *sets[] = {"ref", "avx2", "avx512"};
    const int64_t shapes[][3] = {{1, 1, 1}, {10, 784, 130}, {7, 83, 5}, {128, 64, 37}, {3, 17, 300}, {2, 33, 0}};
    uint64_t seed = 3;
    (void)unused;
    for (int s = 0; s < 6; s++) {
        const int64_t m = shapes[s][0], n = shapes[s][1], k = shapes[s][2], skip = 2;
        float *a = calloc((size_t)(k * (m + 1) + 1), sizeof *a), *b = calloc((size_t)(k * (n + 3) + 1), sizeof *b);
        float *c = calloc((size_t)(m * (n + 1)), sizeof *c), *want = calloc((size_t)(m * (n + 1)), sizeof *want);
        float *start = calloc((size_t)(m * (n + 1)), sizeof *start);
        const float **rows = calloc((size_t)k + 1, sizeof *rows);
        for (int64_t i = 0; i < k * (m + 1); i++)
            a[i] = (float)check_random(&seed);
        for (int64_t i = 0; i < k * (n + 3); i++)
            b[i] = (float)check_random(&seed);
        for (int64_t i = 0; i < m * (n + 1); i++)
            want[i] = start[i] = (float)check_random(&seed);
        for (int64_t p = 0; p < k; p++)
            rows[p] = b + (k - 1 - p) * (n + 3);
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++)
                for (int64_t p = 0; p < k; p++)
                    want[i * (n + 1) + j] += a[p * (m + 1) + i] * rows[p][skip + j];
        for (int v = 0; v < 3; v++) {
            const dpmf_i_multiply_kernels *kernels = dpmf_i_multiply_kernels_find(sets[v]);
            if (kernels == NULL) continue;
            memcpy(c, start, (size_t)(m * (n + 1)) * sizeof *c);
            const dpmf_i_product job = {m, n, k, a, m + 1, rows, skip, c, n + 1};
            kernels->multiply(&job);
            assert_memory_equal(c, want, (size_t)(m * (n + 1)) * sizeof *c);
        }
        free(a);
        free(b);
        free(c);
        free(want);
        free(start);
        free((void *)rows);
    }
    assert_null(dpmf_i_multiply_kernels_find("none"));
}

static void compare_gradient(int64_t hidden, dpmf_i_clip clip, int threads) {
    dpmf_dataset *data = case_data(5);
    dpmf_i_model model;
    dpmf_i_pool *pool = NULL;
    dpmf_i_gradient *g = NULL;
    int64_t batch[CASE_EXAMPLES], count = 0;
    uint64_t seed = 11;
    check_ok(dpmf_i_model_of(data->features, hidden, data->classes, &model));
    check_ok(dpmf_i_pool_create(threads, &pool));
    check_ok(dpmf_i_gradient_create(data, &model, clip, pool, &g));
    g->worth = 0;
    float *w = calloc((size_t)model.dim, sizeof *w);
    double *want = calloc((size_t)model.dim, sizeof *want), largest = 0;
    for (int64_t i = 0; i < model.dim; i++)
        w[i] = (float)check_random(&seed);
    for (int64_t u = 0; u < (clip.by_unit ? data->units : data->count); u += clip.by_unit ? 1 : 2)
        batch[count++] = u;
    int64_t cut = 0;
    for (int64_t i = 0; i < count; i++)
        cut += add_unit(data, &clip, hidden, model.dim, w, batch[i], want) > clip.clip;
    check_ok(dpmf_i_gradient_sum(g, w, count, batch, 0, 1));
    /* In many small blocks the bits are the same. */
    float *once = malloc((size_t)model.dim * sizeof *once);
    memcpy(once, g->sums, (size_t)model.dim * sizeof *once);
    for (int64_t u = 0; clip.by_unit && u < data->units; u++)
        assert_true(g->unit_start[u + 1] - g->unit_start[u] <= 30);
    g->block.room = 30;
    check_ok(dpmf_i_gradient_sum(g, w, count, batch, 0, 1));
    assert_memory_equal(once, g->sums, (size_t)model.dim * sizeof *once);
    free(once);
    const double scale = norm_of(model.dim, want);
    for (int64_t i = 0; i < model.dim; i++)
        largest = fmax(largest, fabs((double)g->sums[i] - want[i]));
    assert_true(largest < 1e-5 * fmax(scale, 1e-3));
    assert_int_equal(g->units, count);
    assert_int_equal(g->clipped, cut);
    if (isfinite(clip.clip)) assert_true(cut > 0 && cut <= count);
    free(w);
    free(want);
    dpmf_i_gradient_free(g);
    dpmf_i_pool_free(pool);
    dpmf_dataset_free(data);
}

static void test_gradient(void **unused) {
    (void)unused;
    for (int64_t hidden = 0; hidden <= 19; hidden += 19)
        for (int by_unit = 0; by_unit < 2; by_unit++)
            for (int threads = 1; threads <= 3; threads += 2) {
                compare_gradient(hidden, (dpmf_i_clip){INFINITY, 0, by_unit}, threads);
                compare_gradient(hidden, (dpmf_i_clip){1.5, 0, by_unit}, threads);
                compare_gradient(hidden, (dpmf_i_clip){0.01, 0, by_unit}, threads);
                compare_gradient(hidden, (dpmf_i_clip){1.5, by_unit ? 2.0 : 4.0, by_unit}, threads);
            }
}

/* One unit's contribution never passes the clip norm, though it is summed in float. */
static void test_clip_norm(void **unused) {
    dpmf_dataset *data = case_data(6);
    dpmf_i_model model;
    dpmf_i_pool *pool = NULL;
    dpmf_i_gradient *g = NULL;
    (void)unused;
    for (int by_unit = 0; by_unit < 2; by_unit++) {
        const double clip = 0.3;
        check_ok(dpmf_i_model_of(data->features, 7, data->classes, &model));
        check_ok(dpmf_i_pool_create(1, &pool));
        check_ok(dpmf_i_gradient_create(data, &model, (dpmf_i_clip){clip, 0, by_unit}, pool, &g));
        float *w = calloc((size_t)model.dim, sizeof *w);
        check_ok(dpmf_i_model_start(&model, 1, w));
        for (int64_t u = 0; u < CASE_USERS; u++) {
            double sum = 0;
            check_ok(dpmf_i_gradient_sum(g, w, 1, &u, 0, 1));
            for (int64_t i = 0; i < model.dim; i++)
                sum += (double)g->sums[i] * (double)g->sums[i];
            assert_true(sqrt(sum) <= clip);
            if (g->clipped) assert_true(sqrt(sum) >= clip * (1 - 1e-6));
        }
        free(w);
        dpmf_i_gradient_free(g);
        g = NULL;
        dpmf_i_pool_free(pool);
        pool = NULL;
    }
    dpmf_dataset_free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_gradient),
        cmocka_unit_test(test_clip_norm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
