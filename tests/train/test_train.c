/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices, and the clipped sum of a batch against the definition. */
#include "support/train_reference.h"

#include "train/kernels/exact/exact.h"

/* ---- products ---- */

static void test_products_have_the_same_bits_in_every_set(void **unused) {
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
            const kernels_multiply_set *kernels = kernels_multiply_find(sets[v]);
            if (kernels == NULL) continue;
            memcpy(c, start, (size_t)(m * (n + 1)) * sizeof *c);
            const kernels_product job = {m, n, k, a, m + 1, rows, skip, c, n + 1};
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
    assert_null(kernels_multiply_find("none"));
}

/* Exact products: whole numbers, the same for all instruction sets and in any pieces, against 64-bit integers. */
static void test_exact_products_have_the_same_bits_in_every_set(void **unused) {
    const char *sets[] = {"ref", "avx2", "avx512"};
    const int64_t shapes[][3] = {{1, 1, 1}, {10, 784, 130}, {7, 83, 5}, {128, 64, 37}, {3, 17, 300}, {2, 33, 0}};
    const double xi = 0x1p-50, beta = 0x1p-3;
    uint64_t seed = 4;
    (void)unused;
    for (int s = 0; s < 6; s++) {
        const int64_t m = shapes[s][0], n = shapes[s][1], k = shapes[s][2], skip = 2;
        double *a = calloc((size_t)(k * (m + 1) + 1), sizeof *a);
        float *b = calloc((size_t)(k * (n + 3) + 1), sizeof *b);
        int64_t *c = calloc((size_t)(m * (n + 1)), sizeof *c), *want = calloc((size_t)(m * (n + 1)), sizeof *want);
        const float **rows = calloc((size_t)k + 1, sizeof *rows);
        for (int64_t i = 0; i < k * (m + 1); i++)
            a[i] = floor(check_random(&seed) * 0x1p21) * (xi / beta);
        for (int64_t i = 0; i < k * (n + 3); i++)
            b[i] = (float)(floor(check_random(&seed) * 0x1p20) * beta);
        for (int64_t p = 0; p < k; p++)
            rows[p] = b + (k - 1 - p) * (n + 3);
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++)
                for (int64_t p = 0; p < k; p++)
                    want[i * (n + 1) + j] +=
                        (int64_t)(a[p * (m + 1) + i] / (xi / beta)) * (int64_t)((double)rows[p][skip + j] / beta);
        for (int v = 0; v < 3; v++) {
            const kernels_exact_set *kernels = kernels_exact_find(sets[v]);
            if (kernels == NULL) continue;
            memset(c, 0, (size_t)(m * (n + 1)) * sizeof *c);
            const kernels_exact job = {m, n, k, a, m + 1, rows, skip, 1 / xi, c, n + 1};
            kernels->multiply(&job);
            assert_memory_equal(c, want, (size_t)(m * (n + 1)) * sizeof *c);
        }
        free(a);
        free(b);
        free(c);
        free(want);
        free((void *)rows);
    }
    assert_null(kernels_exact_find("none"));
}

static void compare_gradient(int64_t hidden, train_clip clip, int threads) {
    dpmf_dataset *data = case_data(5);
    train_model model;
    base_pool *pool = NULL;
    train_gradient *g = NULL;
    int64_t batch[CASE_EXAMPLES], count = 0;
    uint64_t seed = 11;
    check_ok(train_model_of(data->features, hidden, data->classes, &model));
    check_ok(base_pool_create(threads, &pool));
    check_ok(train_gradient_create(data, &model, clip, pool, &g));
    g->worth = 0;
    float *w = calloc((size_t)model.dim, sizeof *w);
    double *want = calloc((size_t)model.dim, sizeof *want), largest = 0;
    for (int64_t i = 0; i < model.dim; i++)
        w[i] = (float)check_random(&seed);
    for (int64_t u = 0; u < (clip.by_unit ? data->units : data->count); u += clip.by_unit ? 1 : 2)
        batch[count++] = u;
    int64_t cut = 0;
    for (int64_t i = 0; i < count; i++)
        cut += add_unit(data, &clip, hidden, model.dim, w, batch[i], want) + clip.gamma > clip.clip;
    check_ok(train_gradient_sum(g, w, count, batch, 0, 1));
    /* In many small blocks the bits are the same. */
    int64_t *once = malloc((size_t)model.dim * sizeof *once);
    memcpy(once, g->sums, (size_t)model.dim * sizeof *once);
    for (int64_t u = 0; clip.by_unit && u < data->units; u++)
        assert_true(g->unit_start[u + 1] - g->unit_start[u] <= 30);
    g->block.room = 30;
    g->users_room = 2;
    check_ok(train_gradient_sum(g, w, count, batch, 0, 1));
    assert_memory_equal(once, g->sums, (size_t)model.dim * sizeof *once);
    free(once);
    const double scale = norm_of(model.dim, want);
    for (int64_t i = 0; i < model.dim; i++)
        largest = fmax(largest, fabs((double)g->sums[i] * g->grid.step - want[i]));
    assert_true(largest < 1e-5 * fmax(scale, 1e-3));
    assert_int_equal(g->units, count);
    assert_int_equal(g->clipped, cut);
    if (isfinite(clip.clip)) assert_true(cut > 0 && cut <= count);
    free(w);
    free(want);
    train_gradient_free(g);
    base_pool_free(pool);
    dpmf_dataset_free(data);
}

static void test_clipped_sums_agree_with_whole_gradients(void **unused) {
    (void)unused;
    for (int64_t hidden = 0; hidden <= 19; hidden += 19)
        for (int by_unit = 0; by_unit < 2; by_unit++)
            for (int threads = 1; threads <= 3; threads += 2) {
                compare_gradient(hidden, (train_clip){INFINITY, 0, by_unit, 100, 0, 0, 0, {0}, 0, 0}, threads);
                compare_gradient(hidden, (train_clip){1.5, 0, by_unit, 100, 0, 0, 0, {0}, 0, 0}, threads);
                compare_gradient(hidden, (train_clip){0.01, 0, by_unit, 100, 0, 0, 0, {0}, 0, 0}, threads);
                compare_gradient(hidden, (train_clip){1.5, 0, by_unit, 100, 0, 0, 0, {0}, 0.2, 0}, threads);
                compare_gradient(hidden, (train_clip){1.5, by_unit ? 2.0 : 4.0, by_unit, 100, 0, 0, 0, {0}, 0, 0},
                                 threads);
            }
}

/* One unit's contribution never passes the clip norm. */
static void test_no_unit_adds_more_than_the_clip_norm(void **unused) {
    dpmf_dataset *data = case_data(6);
    train_model model;
    base_pool *pool = NULL;
    train_gradient *g = NULL;
    (void)unused;
    for (int by_unit = 0; by_unit < 2; by_unit++) {
        const double clip = 0.3;
        check_ok(train_model_of(data->features, 7, data->classes, &model));
        check_ok(base_pool_create(1, &pool));
        check_ok(train_gradient_create(data, &model, (train_clip){clip, 0, by_unit, 1, 0, 0, 0, {0}, 0, 0}, pool, &g));
        float *w = calloc((size_t)model.dim, sizeof *w);
        check_ok(train_model_start(&model, 1, w));
        for (int64_t u = 0; u < CASE_USERS; u++) {
            double sum = 0;
            check_ok(train_gradient_sum(g, w, 1, &u, 0, 1));
            for (int64_t i = 0; i < model.dim; i++)
                sum += (double)g->sums[i] * g->grid.step * (double)g->sums[i] * g->grid.step;
            assert_true(sqrt(sum) <= clip);
            if (g->clipped) assert_true(sqrt(sum) >= clip * (1 - 1e-5)); /* a margin for rounding */
        }
        free(w);
        train_gradient_free(g);
        g = NULL;
        base_pool_free(pool);
        pool = NULL;
    }
    dpmf_dataset_free(data);
}

/* ---- numbers at the end of the range ---- */

/* Softmax regression at zero, or a hidden layer: the norm of the contribution of each unit of a small data set. */
static double largest_added(int64_t hidden, train_clip clip, int64_t count, int64_t features, const float *x,
                            const int32_t *label, const int64_t *unit, int64_t *clipped) {
    dpmf_dataset *data = NULL;
    train_model model;
    base_pool *pool = NULL;
    train_gradient *g = NULL;
    double largest = 0;
    check_ok(dpmf_dataset_create(count, features, 2, x, label, unit, &data));
    check_ok(train_model_of(features, hidden, 2, &model));
    check_ok(base_pool_create(1, &pool));
    check_ok(train_gradient_create(data, &model, clip, pool, &g));
    float *w = calloc((size_t)model.dim, sizeof *w);
    check_ok(train_model_start(&model, 1, w));
    *clipped = 0;
    for (int64_t u = 0; u < (clip.by_unit ? data->units : count); u++) {
        double sum = 0;
        check_ok(train_gradient_sum(g, w, 1, &u, 0, 1));
        for (int64_t i = 0; i < model.dim; i++)
            sum += (double)g->sums[i] * g->grid.step * (double)g->sums[i] * g->grid.step;
        largest = fmax(largest, sqrt(sum));
        *clipped += g->clipped;
    }
    free(w);
    train_gradient_free(g);
    base_pool_free(pool);
    dpmf_dataset_free(data);
    return largest;
}

/*
 * A user whose examples cancel: a and b of one class and a + b of the other, of size 1e30. Their sum in float consists
 * of rounding errors and changes if the terms are scaled first; the sum that is added must be the one whose norm was
 * measured.
 */
static void test_a_user_whose_examples_cancel_stays_within_the_clip(void **unused) {
    const int32_t label[6] = {0, 0, 1, 0, 1, 1};
    const int64_t unit[6] = {0, 0, 0, 1, 1, 1};
    int64_t clipped = 0;
    uint64_t seed = 17;
    (void)unused;
    const float found[12] = {1.5137717277189306e30f, 0, 1.952467333603597e30f, 0, 3.4662390613225276e30f, 0, 1, 2, 3};
    assert_true(largest_added(0, (train_clip){1, 0, 1, 6, 0, 0, 0, {0}, 0, 0}, 6, 2, found, label, unit, &clipped) <=
                1);
    for (int i = 0; i < 300; i++) {
        const float size = i % 3 == 0 ? 1e30f : i % 3 == 1 ? 1e8f : 1e-3f;
        float x[6] = {0};
        for (int u = 0; u < 6; u += 3) {
            x[u] = (float)(1.5 + 0.5 * check_random(&seed)) * size;
            x[u + 1] = (float)(1.5 + 0.5 * check_random(&seed)) * size;
            x[u + 2] = x[u] + x[u + 1];
        }
        const double clip = i % 2 ? 1 : 0.01;
        assert_true(largest_added(0, (train_clip){clip, 0, 1, 6, 0, 0, 0, {0}, 0, 0}, 6, 1, x, label, unit, &clipped) <=
                    clip);
        assert_true(largest_added(4, (train_clip){clip, 0, 1, 6, 0, 0, 0, {0}, 0, 0}, 6, 1, x, label, unit, &clipped) <=
                    clip);
    }
}

/* Where f d is subnormal it could round to twice itself, and be multiplied by a large input. */
static void test_subnormal_derivatives_stay_within_the_clip(void **unused) {
    const float size[] = {3e38f, 2.9e38f, 1e38f, 3e37f, 1e33f, 1e20f, 1e-20f, 1e-42f};
    const double clips[] = {1e-6, 3e-7, 1.7e-6, 1e-5, 1e-3, 1, 1e-9, 1e-20, 1e-30};
    const int32_t label[2] = {0, 1};
    const int64_t unit[2] = {0, 1};
    int64_t clipped = 0;
    (void)unused;
    for (int s = 0; s < 8; s++)
        for (int c = 0; c < 9; c++)
            for (int kind = 0; kind < 4; kind++) {
                const float x[2] = {size[s], -0.7f * size[s]};
                const train_clip clip = {clips[c], 0, kind % 2, 2, 0, 0, 0, {0}, 0, 0};
                const double added = largest_added(kind / 2 * 3, clip, 2, 1, x, label, unit, &clipped);
                assert_true(added <= clips[c]);
                if (clips[c] < 0.3) assert_int_equal(clipped, 2);
                if (clipped > 0) assert_true(added >= clips[c] * (1 - 1e-5)); /* a margin for rounding */
            }
}

/*
 * Normalised: every unit adds nearly the clip norm and never more, for gradients of any size: features of 1e-42 (the bias has a gradient
 * too) up to 3e38; with a gamma far above all gradients it adds next to nothing.
 */
static void test_normalised_units_stay_within_the_clip(void **unused) {
    const float size[] = {3e38f, 1e38f, 1e33f, 1e20f, 1, 1e-20f, 1e-42f, 0};
    const double clips[] = {1e-30, 1e-20, 1e-6, 0.3, 1, 1e20}, gammas[] = {0x1p-100, 1e-9, 1e-4};
    const int32_t label[2] = {0, 1};
    const int64_t unit[2] = {0, 1};
    int64_t clipped = 0;
    (void)unused;
    for (int s = 0; s < 8; s++)
        for (int c = 0; c < 6; c++)
            for (int kind = 0; kind < 4; kind++) {
                const float x[2] = {size[s], -0.7f * size[s]};
                train_clip clip = {clips[c], 0, kind % 2, 2, 0, 0, 0, {0}, 0, 0};
                for (int k = 0; k < 3; k++) {
                    clip.gamma = gammas[k];
                    const double added = largest_added(kind / 2 * 3, clip, 2, 1, x, label, unit, &clipped);
                    assert_true(added <= clips[c]);
                    assert_true(added >= clips[c] * (1 - 1e-3)); /* the bias alone has a gradient of 1/2 or so */
                }
                clip.gamma = 0x1p100;
                const double added = largest_added(kind / 2 * 3, clip, 2, 1, x, label, unit, &clipped);
                assert_true(added <= clips[c] && (size[s] > 1e20f || added < 1e-9 * clips[c]));
            }
}

/* 49 (1/49) is below 1 in double; a user of 49 examples is not clipped for that. */
static void test_a_user_that_is_not_clipped_is_not_counted(void **unused) {
    float x[49] = {0};
    int32_t label[49] = {0};
    int64_t unit[49] = {0}, clipped = 0;
    (void)unused;
    label[0] = 1;
    assert_true(largest_added(0, (train_clip){INFINITY, 0, 1, 1, 0, 0, 0, {0}, 0, 0}, 49, 1, x, label, unit, &clipped) >
                0.1);
    assert_int_equal(clipped, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products_have_the_same_bits_in_every_set),
        cmocka_unit_test(test_exact_products_have_the_same_bits_in_every_set),
        cmocka_unit_test(test_clipped_sums_agree_with_whole_gradients),
        cmocka_unit_test(test_no_unit_adds_more_than_the_clip_norm),
        cmocka_unit_test(test_a_user_whose_examples_cancel_stays_within_the_clip),
        cmocka_unit_test(test_subnormal_derivatives_stay_within_the_clip),
        cmocka_unit_test(test_normalised_units_stay_within_the_clip),
        cmocka_unit_test(test_a_user_that_is_not_clipped_is_not_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
