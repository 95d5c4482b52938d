/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hard cap under b-min-separation sampling, by coupling with the uncapped run.
 *
 * The draw does not depend on the cap: a unit that was drawn waits, kept or not. So units are drawn independently of
 * each other, each with the same probability x_t in step t, x_t = p x P[it is free] (account/montecarlo/scheme.c has
 * the recursion). Compare with the run in which a unit that would be drawn and kept while the cap binds is left out and
 * displaces no other unit. There, given what all others do, the unit contributes as in the uncapped run in some steps
 * and nothing in the rest: with entries of C that are not negative every entry of the Gram matrix of its patterns is at
 * most that of the uncapped run, and so is delta, both ways (Kahane's inequality, docs/accounting.md). The capped run
 * differs from it in step t with probability at most
 *
 *     tau_t = P[drawn, kept, cap binds] = (M/N) P[Bin(N, x_t) > M],
 *
 * so that delta is at most the uncapped one + (1 + e^epsilon) sum_t tau_t.
 */
#include "account/capped/capped.h"

#include "base/memory.h"
#include "base/special.h"
#include <math.h>

static const double TAIL = 1 + 1e-9; /* of binomial tails at a probability that was summed up over the steps */

dpmf_status capped_separated(const montecarlo_scheme *scheme, int64_t cap, int64_t units, double *missed) {
    const int64_t n = scheme->steps, b = scheme->separation < n ? scheme->separation : n;
    const double p = scheme->probability, share = (double)cap / (double)units;
    const double start = scheme->warm ? 1 / (1 + (double)(b - 1) * p) : 1;
    double *drawn = NULL, is_free = start, sum = 0;
    TRY(base_alloc_doubles(b, "the probabilities of being drawn", &drawn));
    for (int64_t i = 0; i < n; i++) {
        if (i > 0) is_free += (i >= b ? drawn[i % b] : scheme->warm ? p * start : 0) - drawn[(i - 1) % b];
        drawn[i % b] = p * is_free;
        const double x = fmin(drawn[i % b] * (1 + 1e-12) + 1e-15, 1);
        sum += share * base_binomial_at_least(cap + 1, units, x) * TAIL;
    }
    base_free(drawn);
    *missed = fmin(sum + 1e-305, 1);
    return DPMF_OK;
}
