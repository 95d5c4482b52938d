/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Banded C: where to start. The best column s depends on the distance to the end, slowly, and on the distance to the
 * beginning while that is a few bands; so the C of a small problem, drawn out in its middle, is near that of a large
 * one, and the steps of the large one only have to repair what the drawing out did.
 */
#include "base/memory.h"
#include "optimize/banded/banded.h"
#include "workload/workload.h"

#include <assert.h>
#include <math.h>
#include <string.h>

dpmf_status dpmf_i_optimize_banded_start_root(const dpmf_workload *workload, int64_t bands, double *rows) {
    int64_t n = workload->steps;
    double *c = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(dpmf_i_base_alloc_doubles(bands, "the square root", &c));
    TRY_DONE(dpmf_i_workload_series(workload, 0.5, bands, c));
    for (int64_t s = 0; s < n; s++) {
        int64_t count = n - s < bands ? n - s : bands;
        double square = 0;
        for (int64_t j = 0; j < count; j++)
            square += c[j] * c[j];
        for (int64_t j = 0; j < count; j++)
            rows[(s + j) * bands + j] = c[j] / sqrt(square);
    }
done:
    dpmf_i_base_free(c);
    return status;
}

/* The column of the small C that column s of n stands for. */
static double source(int64_t small, int64_t n, int64_t s) {
    double first = (double)(small / 4), last = (double)(small - small / 2); /* the middle of the small one */
    double end = last + (double)(n - small);                                /* where it ends in the large one */
    if ((double)s <= first) return (double)s;
    if ((double)s >= end) return (double)(s - (n - small));
    return first + ((double)s - first) * (last - first) / (end - first);
}

void dpmf_i_optimize_banded_start_stretch(int64_t small, int64_t n, int64_t bands, const double *from, double *rows) {
    assert(small >= 4 * bands && n > small);
    memset(rows, 0, (size_t)(n * bands) * sizeof *rows);
    for (int64_t s = 0; s < n; s++) {
        double place = source(small, n, s), part = place - floor(place);
        int64_t left = (int64_t)place;
        for (int64_t j = 0; j < bands && s + j < n; j++) {
            double value = (1 - part) * from[(left + j) * bands + j];
            if (part > 0) value += part * from[(left + 1 + j) * bands + j];
            rows[(s + j) * bands + j] = value;
        }
    }
}
