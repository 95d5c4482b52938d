/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The error of a Toeplitz C from all n steps, one after the other: the reference for the shortcuts of optimize/toeplitz
 * (a steady state, transforms).
 */
#include "oracle/oracle.h"

#include "base/memory.h"
#include "base/sum.h"
#include "kernels/toeplitz/toeplitz.h"

#include <assert.h>
#include <string.h>

enum { WINDOW = 1024, LANES = KERNELS_TOEPLITZ_LANES }; /* steps at a time: with the bands before, in a level-1 cache */

/* The first column of A, piece by piece. */
typedef struct column {
    const dpmf_workload *workload;
    double m, o;
} column;

static void next_piece(column *a, int64_t first, int64_t count, double *y) {
    if (a->workload->form != WORKLOAD_NAMED) {
        for (int64_t i = 0; i < count; i++)
            y[i] = a->workload->matrix[(first + i) * a->workload->steps];
        return;
    }
    const workload_recursion_form r = workload_recursion(a->workload, 0);
    for (int64_t i = 0; i < count; i++) {
        double input = first + i == 0;
        a->m = r.momentum * a->m + input;
        a->o = r.keep * a->o + r.rate * (r.from_m * a->m + r.from_y * input);
        y[i] = a->o;
    }
}

/* w is kept for the last `bands` steps only: memory traffic would cost as much as the arithmetic. */
dpmf_status oracle_toeplitz_error(const dpmf_workload *workload, int64_t bands, const double *c, dpmf_loss loss,
                                  double *value) {
    const kernels_toeplitz_set *kernels = kernels_toeplitz_get();
    const int64_t n = workload->steps, kept = (bands + LANES - 1) / LANES * LANES;
    const double less = loss == DPMF_LOSS_MAX ? 0 : 1 / (double)n;
    kernels_toeplitz_table table = {.bands = bands};
    column a = {.workload = workload};
    double *window = NULL;
    base_running sum = {0};
    dpmf_status status = DPMF_OK;
    assert(workload->toeplitz && bands >= 1 && bands <= n);
    TRY_DONE(base_alloc_doubles(kernels_toeplitz_table_size(bands), "a table", &table.rows));
    TRY_DONE(base_alloc_doubles(2 * (kept + WINDOW), "a window", &window));
    double *y = window + kept + WINDOW;
    kernels->fill(c, &table);
    for (int64_t first = 0; first < n; first += WINDOW) { /* window[kept + i] = w_{first+i} */
        const int64_t count = n - first < WINDOW ? n - first : WINDOW;
        if (first == 0 || !workload_is_prefix(workload)) next_piece(&a, first, count, y + kept);
        kernels->solve(&table, kept, kept + count, kept + count, y, window);
        base_running_add(&sum, kernels->squares(count, window + kept, 1 - less * (double)first, less));
        memmove(window, window + WINDOW, (size_t)kept * sizeof *window);
    }
    *value = base_running_value(&sum);
done:
    base_free(table.rows);
    base_free(window);
    return status;
}
