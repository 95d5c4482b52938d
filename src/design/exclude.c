/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Independent noise under random allocation, ruled out before its account, which takes seconds to minutes, is asked for
 * (design/samplings.c).
 *
 * Notation: n steps, each unit in one step of each of k epochs, standard deviation sigma at clip norm 1; P is a run with the
 * unit, Q one without it. For every event S, delta >= P[S] - e^epsilon Q[S], so that any event gives a lower bound. Two kinds:
 *
 *     the sum of all outputs is large     it is normal, and the unit moves its mean by k: the Gaussian mechanism with
 *                                         mu = k / (sigma sqrt(n))
 *     m or more outputs are above c       Q: Binomial(n, p0), P: Binomial(n - k, p0) + Binomial(k, p1),
 *                                         p0 = Phi(-c/sigma), p1 = Phi((1 - c)/sigma)
 *
 * The first is nearly the best event for a large sigma, the second for a small one. If the bound exceeds delta at the sigma with
 * which independent noise would be as good as the best candidate so far, then every certified sigma is larger, and it cannot be
 * chosen. A factor of 2 covers the rounding of the tails. No bound is claimed for users: this only saves time.
 */
#include "account/account.h"
#include "base/special.h"
#include "design/design.h"

#include <math.h>

enum { PLACES = 12, COUNTS = 24, EPOCHS_SUMMED = 64 };
static const double CERTAIN = 2; /* times delta */

/* Pr[m or more outputs are above c] with the unit, from below: participations above EPOCHS_SUMMED are left out. */
static double with_unit(int64_t m, int64_t steps, int64_t epochs, double p0, double p1) {
    double sum = 0;
    for (int64_t j = 0; j <= epochs && j <= EPOCHS_SUMMED; j++) {
        const double exactly = base_binomial_at_least(j, epochs, p1) - base_binomial_at_least(j + 1, epochs, p1);
        const double others = m <= j ? 1 : steps == epochs ? 0 : base_binomial_at_least(m - j, steps - epochs, p0);
        sum += fmax(exactly, 0) * others;
    }
    return sum;
}

static int counting_exceeds(int64_t steps, int64_t epochs, double sigma, double epsilon, double delta) {
    for (int i = 0; i < PLACES; i++) {
        const double c = 0.25 + (0.75 + 4 * sigma) * i / (PLACES - 1);
        const double p0 = base_normal_cdf(-c / sigma), p1 = base_normal_cdf((1 - c) / sigma);
        const double mean = (double)steps * p0, stride = fmax(1, sqrt(mean) / 2);
        for (int j = 0; j < COUNTS; j++) {
            const int64_t m = (int64_t)ceil(mean + stride * j);
            if (m < 1) continue;
            if (m > steps) break;
            const double without = base_binomial_at_least(m, steps, p0);
            if (with_unit(m, steps, epochs, p0, p1) - exp(epsilon) * without > CERTAIN * delta) return 1;
        }
    }
    return 0;
}

int design_allocation_exceeds(int64_t steps, int64_t epochs, double sigma, double epsilon, double delta) {
    const double mu = (double)epochs / (sigma * sqrt((double)steps));
    if (epsilon > DESIGN_EXCLUDED_EPSILON || !(sigma > 0)) return 0;
    if (account_gaussian_log_delta(mu, epsilon) > log(CERTAIN * delta)) return 1;
    return counting_exceeds(steps, epochs, sigma, epsilon, delta);
}
