/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Banded C: where to start. The best column depends on the number r of steps to go, slowly, and on the distance to the
 * beginning while that is a few bands; so the C of a small problem, drawn out in its middle, is near that of a large
 * one, and the steps of the large one only have to repair what the drawing out did. For r far above b^2, X has
 * near-zeros of a depth eps^2 at the frequencies 2 pi k / b, and eps balances a loss r eps against 1 / eps: eps, and with it
 * each diagonal, goes like 1 / sqrt(r). That trend is read off the small C and added wherever r has changed.
 */
#include "families/banded/banded.h"

#include "base/memory.h"
#include "workload/workload.h"

#include <assert.h>
#include <math.h>
#include <string.h>

dpmf_status banded_start_root(const dpmf_workload *workload, int64_t bands, double *rows) {
    int64_t n = workload->steps;
    double *c = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(bands, "the square root", &c));
    for (int64_t i = 0; i < bands; i++)
        c[i] = i == 0 ? 1 : c[i - 1] * ((double)i - 0.5) / (double)i;
    if (workload->form == WORKLOAD_NAMED) TRY_DONE(workload_series(workload, 0.5, bands, c));
    for (int64_t s = 0; s < n; s++) {
        int64_t count = n - s < bands ? n - s : bands;
        double square = 0;
        for (int64_t j = 0; j < count; j++)
            square += c[j] * c[j];
        for (int64_t j = 0; j < count; j++)
            rows[(s + j) * bands + j] = c[j] / sqrt(square);
    }
done:
    base_free(c);
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

/* The mean of diagonal j of the small C over the columns around the one with `left` steps to go. */
static double around(int64_t small, int64_t bands, int64_t left, int64_t j, const double *from) {
    int64_t reach = left / 8, first = small - left - reach;
    double sum = 0;
    for (int64_t s = first; s <= first + 2 * reach; s++)
        sum += from[(s + j) * bands + j];
    return sum / (double)(2 * reach + 1);
}

/* With r steps to go, diagonal j is about a number + this / sqrt(r). */
static double trend(int64_t small, int64_t bands, int64_t j, const double *from) {
    int64_t far = small / 2, near = small / 4;
    return (around(small, bands, far, j, from) - around(small, bands, near, j, from)) /
           (1 / sqrt((double)far) - 1 / sqrt((double)near));
}

void banded_start_stretch(int64_t small, int64_t n, int64_t bands, const double *from, double *rows) {
    assert(small >= 4 * bands && n > small);
    memset(rows, 0, (size_t)(n * bands) * sizeof *rows);
    for (int64_t j = 0; j < bands; j++) {
        const double slope = trend(small, bands, j, from);
        for (int64_t s = 0; s + j < n; s++) {
            double place = source(small, n, s), part = place - floor(place);
            int64_t left = (int64_t)place;
            double value = (1 - part) * from[(left + j) * bands + j];
            if (part > 0) value += part * from[(left + 1 + j) * bands + j];
            rows[(s + j) * bands + j] = value + slope * (1 / sqrt((double)(n - s)) - 1 / sqrt((double)small - place));
        }
    }
}
