/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The best places for separated picks: the most that at most k numbers r_t, any two at least b steps apart, can add up
 * to. With F_l(t) the most from steps 0..t with at most l picks,
 *
 *     F_l(t) = max { F_l(t-1), r_t + F_{l-1}(t-b) },  F_0 = 0
 *
 * (Pillutla et al. 2025, Algorithm 3.2), in O(nk) with two rows in memory. Of use for the squares of separated columns
 * (sensitivity/separated.c) and for bounds by rows (sensitivity/rows.c).
 */
#include "sensitivity/sensitivity.h"

#include <string.h>

double sensitivity_place(int64_t n, int64_t k, int64_t b, const double *r, double *work, double *best) {
    double *before = work, *now = work + n; /* the most from steps 0..t with one pick less, and with these */
    memset(before, 0, (size_t)n * sizeof *before);
    if (best != NULL) best[0] = 0;
    for (int64_t l = 1; l <= k; l++) {
        double top = 0;
        for (int64_t t = 0; t < n; t++) {
            double with = r[t] + (t >= b ? before[t - b] : 0);
            top = with > top ? with : top;
            now[t] = top;
        }
        double *swap = before;
        before = now;
        now = swap;
        if (best != NULL) best[l] = n > 0 ? before[n - 1] : 0;
    }
    return n > 0 ? before[n - 1] : 0;
}
