/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The start of an ascent without shorter epochs to start from. V = X^-1 A'A X^-1 at the optimum, and A'A of prefix sums
 * has the correlations sqrt((n - u)/(n - t)) between steps t < u; X takes a part of them away. The diagonal falls along
 * the epoch.
 */
#include "base/linalg.h"
#include "base/memory.h"
#include "optimum/epochs/epochs.h"

#include <math.h>

dpmf_status epochs_climb_guess(epochs_climb *c) {
    const double kept = 0.8, slope = 0.2;
    const int64_t k = c->epochs->k, b = c->epochs->b;
    double *l = NULL;
    TRY(base_alloc_doubles(k * k, "a factor of V", &l));
    for (int64_t i = 0; i < b; i++) {
        const double share = ((double)i + 0.5) / (double)b;
        double *m = c->y + b + i * c->correlations;
        c->y[i] = -slope * log(share / (1 - share));
        for (int64_t e = 0; e < k; m += e, e++) {
            double left = 1;
            for (int64_t f = 0; f < e; f++) {
                const double wanted = kept * sqrt(((double)(k - e) - share) / ((double)(k - f) - share));
                l[e * k + f] = (wanted - base_dot(f, l + e * k, l + f * k)) / l[f * k + f];
                left -= l[e * k + f] * l[e * k + f];
            }
            l[e * k + e] = sqrt(left); /* 1 - kept at least: part of the identity is in it */
            for (int64_t f = 0; f < e; f++)
                m[f] = l[e * k + f] / l[e * k + e];
        }
    }
    base_free(l);
    return DPMF_OK;
}
