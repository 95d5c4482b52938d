/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Poisson sampling with a hard cap on the batch: each of N units is drawn with probability q; of more than M that were drawn, a
 * random M take part. Batches then have a fixed size; but a unit's presence now moves others out, and accounting the run as if
 * it had no cap is wrong.
 *
 * Notation: norms and shifts over sigma; d = the unit's slot is drawn; the cap binds when at least M of the other N-1
 * are drawn, with probability b = P[Bin(N-1, q) >= M], independently of the unit. a = e^epsilon >= 1.
 *
 * When it does not bind, the unit takes part exactly if it is drawn: the Poisson curve h_q. When it binds, the unit is
 * drawn and kept with probability p, and if so it takes the place of another: p b = P[drawn and kept, cap binds] =
 * (M/N) P[Bin(N, q) > M], for by symmetry M/N of the N units are among the kept ones whenever more than M were drawn.
 * Given which of the other units are kept, the two batches differ by
 *
 *     zero-out, slot kept    with prob. p: (1 in the one, nothing in the other), in both the same other unit has gone
 *     slot freed             with prob. p: (1 in the one, the other unit, -1 at worst, in the other): a shift of 2
 *     replace                with prob. p: 1 against -1
 *
 * and else not at all. "Whether the cap binds" is the same event in both worlds, so that delta is at most the mixture
 *
 *     h = (1-b) h_q + b h_bind        (joint convexity),
 *
 * and with the two mixtures (1-p) R + p P' against (1-p) R + p Q', R any distribution of norm at most 1 about the rest,
 *
 *     sup over sets of  p P'(S) - p a Q'(S) - (a-1)(1-p) R(S)  =  p H_{a~}(P' || (1-beta) R + beta Q'),
 *     a~ = 1 + (a-1)/p,  beta = a/a~.
 *
 * The worst R lies opposite to P' (sets {z < ...}, advanced joint convexity of Balle, Barthe and Gaboardi 2018):
 *
 *     zero-out remove    P' = N(0), Q' = N(1), R = N(2):   p Phi(y) - a p Phi(y - mu) - (a-1)(1-p) Phi(y - 2 mu), best y
 *     zero-out add       P' = N(0), Q' = N(1), R = N(1):   p H_{a~}(mu); R on the other side of P' would only be nearer
 *     slot freed         the Poisson curves with probability p and shift 2, both ways
 *     replace            p H_{a~}(2 mu)
 *
 * Below a = 1 a curve is given by that of the other direction, and an upper envelope of two such curves is again the curve of
 * a pair. h falls with none of b and p below 1/2, but need not rise with b in every case; both are known to 1e-12, which is added.
 *
 * Coupling, the other account. Take the process in which a unit that would be drawn and kept while the cap binds is
 * left out and displaces no other unit. There the unit takes part, exactly as under Poisson sampling, when the cap does
 * not bind, and makes no difference when it does: its delta is at most the uncapped one. The capped process differs
 * from it, in either world, with probability at most tau = p b per step (not at all in the world without the unit if
 * its slot is freed), so that over n steps
 *
 *     delta <= uncapped delta(epsilon) + (1 + e^epsilon) n tau.
 */
#include "account/capped/capped.h"

#include "account/grid/curves.h"
#include "base/special.h"
#include <assert.h>
#include <math.h>

static const double TAIL = 1 + 1e-11; /* of the binomial tails */

void capped_make(double q, double sigma, int64_t cap, int64_t units, dpmf_adjacency adjacency, capped_scheme *out) {
    assert(cap >= 1 && cap < units && q > 0 && q <= 1);
    capped_scheme s = {.q = q, .sigma = sigma, .cap = cap, .units = units, .adjacency = adjacency};
    s.binding = fmin(base_binomial_at_least(cap, units - 1, q) * TAIL + 1e-305, 1);
    s.missed = (double)cap / (double)units * base_binomial_at_least(cap + 1, units, q) * TAIL + 1e-305;
    s.share = fmin(s.missed / s.binding * TAIL, 1);
    *out = s;
}

/* sup_y p Phi(y) - a p Phi(y - mu) - (a-1)(1-p) Phi(y - 2 mu). */
static double opposed(double p, double mu, double less_one) {
    const double a = 1 + less_one;
    const double b = a * exp(-0.5 * mu * mu), c = less_one * (1 - p) / p * exp(-2 * mu * mu);
    const double y = -log(0.5 * (b + sqrt(b * b + 4 * c))) / mu;
    const double first = p * base_normal_cdf(y), second = a * p * base_normal_cdf(y - mu);
    const double third = less_one * (1 - p) * base_normal_cdf(y - 2 * mu);
    const double error = 64 * GRID_ROUNDING * (1 + y * y + mu * mu) * (first + second + third);
    return fmax(first - second - third, 0) + error;
}

static double binding_curve(const capped_scheme *s, int add, double less_one) {
    const double mu = 1 / s->sigma, p = s->share;
    if (s->adjacency == DPMF_ADJACENCY_REPLACE_ONE) return p * grid_hockey(2 * mu, 1 + less_one / p);
    if (s->adjacency == DPMF_ADJACENCY_ADD_REMOVE)
        return add ? grid_poisson_add(p, 2 * mu, less_one) : grid_poisson_remove(p, 2 * mu, less_one);
    return add ? p * grid_hockey(mu, 1 + less_one / p) : opposed(p, mu, less_one);
}

static double plain_curve(const capped_scheme *s, int add, double less_one) {
    const double mu = 1 / s->sigma;
    if (s->adjacency == DPMF_ADJACENCY_REPLACE_ONE) return grid_poisson_replace(s->q, mu, less_one);
    return add ? grid_poisson_add(s->q, mu, less_one) : grid_poisson_remove(s->q, mu, less_one);
}

double capped_curve(const capped_scheme *s, int add, double less_one) {
    const double plain = plain_curve(s, add, less_one), bound = binding_curve(s, add, less_one);
    return (1 - s->binding) * plain + s->binding * bound + 2e-11 * s->binding * (plain + bound);
}

static dpmf_status fill(const void *of, int reversed, int64_t count, double step, double mass, const dpmf_run *run,
                        double *out) {
    (void)mass;
    (void)run;
    for (int64_t i = 0; i < count; i++)
        out[i] = capped_curve(of, reversed, expm1((double)i * step));
    return DPMF_OK;
}

static double reach(const void *of, int reversed, double mass) {
    const capped_scheme *s = of;
    double low = 0, high = 1;
    while (high < 700 && capped_curve(s, reversed, expm1(high)) > mass)
        high *= 2;
    for (int i = 0; i < 30; i++) {
        const double middle = 0.5 * (low + high);
        *(capped_curve(s, reversed, expm1(middle)) > mass ? &low : &high) = middle;
    }
    return high;
}

grid_part capped_part(const capped_scheme *scheme, int64_t times) {
    return (grid_part){scheme, fill, reach, times};
}

double capped_log_coupling(const capped_scheme *s, double n, double epsilon) {
    return log(n) + log(s->missed) + (epsilon > 30 ? epsilon + 1e-12 : log1p(exp(epsilon))) + 1e-14;
}
