/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The curve of a privacy loss with finitely many values.
 *
 * Notation: losses 0 = x_0 < x_1 < ... < x_m, masses p_k (p_0 is not counted: losses at or below 0 add nothing at x >= 0).
 *
 *     U_k = sum_{l > k} p_l e^(x_{k+1} - x_l),    U_{k-1} = p_k + U_k e^(x_k - x_{k+1})
 *     H(x_k) = sum_{l > k} p_l (1 - e^(x_k - x_l)),    H(x_{k-1}) = H(x_k) + U_{k-1} (1 - e^(x_{k-1} - x_k))
 *     H(x) = H(x_{k+1}) + U_k (1 - e^(x - x_{k+1}))    for x_k <= x <= x_{k+1},
 *
 * and epsilon follows from the last line by a logarithm. All terms are positive, so that a sum of m of them is within 8 m roundings
 * of its own value; the curve is raised by that. Sums of p_l and of p_l e^(-x_l) apart, as the definition has them, would lose
 * all digits where the curve is small.
 */
#include "account/generic/generic.h"
#include "base/memory.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static dpmf_status allocate(int64_t points, generic_law *out) {
    generic_law law = {.count = points};
    TRY(BASE_ARRAYS("a privacy loss", {&law.loss, points}, {&law.finite, points}, {&law.slope, points}));
    *out = law;
    return DPMF_OK;
}

dpmf_status generic_law_create(int64_t count, const double *loss, const double *mass, double infinite, double error,
                               generic_law *out) {
    generic_law law;
    TRY(allocate(count + 1, &law));
    const double up = 1 + error + GRID_ROUNDING * (64 + 8 * (double)count);
    law.infinite = infinite;
    for (int64_t k = 0; k < count; k++) {
        assert(loss[k] > law.loss[k]);
        law.loss[k + 1] = loss[k];
    }
    for (int64_t k = count; k > 0; k--) {
        const double next = k < count ? law.slope[k] * exp(law.loss[k] - law.loss[k + 1]) : 0;
        law.slope[k - 1] = mass[k - 1] + next;
        law.finite[k - 1] = law.finite[k] - law.slope[k - 1] * expm1(law.loss[k - 1] - law.loss[k]);
    }
    for (int64_t k = 0; k < count; k++) {
        law.slope[k] *= up;
        law.finite[k] *= up;
    }
    *out = law;
    return DPMF_OK;
}

dpmf_status generic_law_copy(const generic_law *from, generic_law *out) {
    generic_law law = {0};
    if (from->count > 0) {
        const size_t size = (size_t)from->count * sizeof(double);
        TRY(allocate(from->count, &law));
        memcpy(law.loss, from->loss, size);
        memcpy(law.finite, from->finite, size);
        memcpy(law.slope, from->slope, size);
        law.infinite = from->infinite;
    }
    *out = law;
    return DPMF_OK;
}

void generic_law_free(generic_law *law) {
    base_free(law->loss);
    *law = (generic_law){0};
}

double generic_law_curve(const generic_law *law, double x) {
    int64_t low = 0, high = law->count - 1; /* loss[low] <= x < loss[high] */
    if (!(x < law->loss[high])) return law->infinite;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        *(law->loss[middle] <= x ? &low : &high) = middle;
    }
    return (law->infinite + law->finite[high] - law->slope[low] * expm1(x - law->loss[high])) * (1 + 8 * GRID_ROUNDING);
}

double generic_law_epsilon(const generic_law *law, double log_delta) {
    /* delta and the difference below are rounded down. */
    const double delta = exp(log_delta) * (1 - GRID_ROUNDING * (16 + 4 * fabs(log_delta)));
    const double wanted = (delta - law->infinite) * (1 - 8 * GRID_ROUNDING) - 4 * GRID_ROUNDING * law->infinite;
    int64_t low = 0, high = law->count - 1;
    if (!(wanted >= 0) || delta < law->infinite) return INFINITY;
    if (law->finite[0] <= wanted) return 0;
    while (high - low > 1) { /* finite[low] > wanted >= finite[high] */
        const int64_t middle = low + (high - low) / 2;
        *(law->finite[middle] > wanted ? &low : &high) = middle;
    }
    const double part = (wanted - law->finite[high]) / law->slope[low];
    const double found = law->loss[high] + log1p(-fmin(part, 1));
    return fmin(fmax(found, law->loss[low]), law->loss[high]) * (1 + 8 * GRID_ROUNDING);
}
