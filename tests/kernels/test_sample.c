/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of simulated losses give the same bits in every instruction set, and the documented values. */
#include "base/random.h"
#include "kernels/sample/sample.h"
#include "support/check.h"

#include <math.h>
#include <string.h>

enum { SIZE = 23, SIDE = KERNELS_SAMPLE_LANES, COUNT = SIZE * SIDE };

typedef struct results {
    double normals[COUNT], triangle[COUNT], exponentials[COUNT], sums[SIDE], factors[SIDE], wild[SIDE];
} results;

static void run(const kernels_sample_set *k, results *r) {
    double root[SIZE * SIZE];
    int64_t first[SIZE];
    uint64_t state = 5;
    for (int j = 0; j < SIZE; j++) {
        first[j] = j % 5 == 0 ? j / 2 : 0;
        for (int i = 0; i < SIZE; i++)
            root[j * SIZE + i] = i >= first[j] && i <= j ? base_scatter(&state) : i > j ? NAN : 0;
    }
    memset(r, 0, sizeof *r);
    k->normals(7, 9, COUNT, r->normals);
    k->triangle(SIZE, first, root, 0.7, r->normals, r->triangle);
    k->exponentials(COUNT, r->triangle, r->exponentials);
    k->add_up(SIZE, r->normals, r->exponentials, r->sums);
    k->factors(SIZE, r->normals, r->normals, 0.3, 0.1, r->factors, r->wild);
    for (int j = 0; j < SIZE; j++) { /* plain */
        double sum = 0;
        for (int64_t i = first[j]; i <= j; i++)
            sum += root[j * SIZE + i] * r->normals[i * SIDE + 3];
        check_near(r->triangle[j * SIDE + 3], 0.7 * sum, 1e-14 * SIZE);
        check_near(r->exponentials[j * SIDE + 3], exp(r->triangle[j * SIDE + 3]), 1e-13);
    }
}

static void test_samples_are_the_same_in_every_set(void **state) {
    static const char *const names[] = {"ref", "avx2", "avx512"};
    double plain[COUNT];
    results wanted, found;
    (void)state;
    run(kernels_sample_get(), &wanted);
    base_random_normals(7, 9, COUNT, plain);
    assert_memory_equal(plain, wanted.normals, sizeof plain);
    for (int i = 0; i < 3; i++) {
        const kernels_sample_set *k = kernels_sample_find(names[i]);
        if (k == NULL) continue; /* not on this machine */
        run(k, &found);
        assert_memory_equal(&found, &wanted, sizeof found);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_samples_are_the_same_in_every_set)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
