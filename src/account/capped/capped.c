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

#include "account/grid/grid.h"
#include "base/memory.h"
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

/* ln of what coupling with uncapped sampling adds to delta over n steps. */
static double log_coupling(const capped_scheme *s, double n, double epsilon) {
    return log(n) + log(s->missed) + (epsilon > 30 ? epsilon + 1e-12 : log1p(exp(epsilon))) + 1e-14;
}

/*
 * ---- the account ----
 *
 * By the curve of a step, composed (account/grid/grid.c), and by coupling with uncapped sampling; the smaller is the answer
 * and is named. Blocks that the units do not fill equally have two sizes; a unit is in one of them, and the larger account
 * holds for all.
 */

static const char METHOD_CURVE[] = "capped sampling, the curve of a step composed by tilted FFT";
static const char METHOD_COUPLING[] = "capped sampling, coupled with uncapped sampling";
static const char METHOD_KNOWN[] = "Gaussian mechanism without the sampling, closed form";
static const double COARSE = 0.02;

static void keep_smaller(account_answer *best, double value, const char *method, int met) {
    if (value < best->value) *best = (account_answer){value, DPMF_UPPER_BOUND, method, met};
}

dpmf_status capped_answer_part(const account_question *q, const grid_part *part, account_answer *worst) {
    const int directions = q->adjacency == DPMF_ADJACENCY_REPLACE_ONE ? 1 : 2;
    for (int i = 0; i < directions; i++) {
        /* what is below the first direction's delta needs no closer bound, and so far out there may be none */
        const double enough = i > 0 && !q->of_epsilon && isfinite(worst->value) ? fmin(worst->value, -1e-3) : 0;
        const grid_source source = {.count = 1, .reversed = i, .parts = part, .enough = enough};
        const int coarse_first = i > 0 && q->of_epsilon;
        account_question at = *q;
        account_answer found;
        if (coarse_first) at.relative = fmax(COARSE, q->relative);
        TRY(grid_answer(&source, &at, &found));
        if (coarse_first && found.value > worst->value) TRY(grid_answer(&source, q, &found));
        account_take_worse(worst, &found);
    }
    return DPMF_OK;
}

/* The least epsilon found with uncapped delta + coupling <= delta; INFINITY if the coupling alone is as large. */
static dpmf_status coupled_epsilon(const account_question *q, const capped_scheme *s, double *out, int *met) {
    const double n = (double)q->compositions, log_delta = q->given;
    account_question plain = *q;
    account_answer found;
    double epsilon = 0;
    *out = INFINITY;
    plain.cap = 0;
    for (int i = 0; i < 4; i++) { /* what the coupling takes grows with epsilon: from below, then confirmed */
        const double taken = log_coupling(s, n, epsilon * (1 + 1e-4) + 1e-6);
        if (!(taken < log_delta - 1e-3)) return DPMF_OK;
        const double left = log_delta + log1p(-exp(taken - log_delta));
        plain.given = left - 1e-14 * fabs(left);
        TRY(account_composed(&plain, &found));
        if (found.value <= epsilon * (1 + 1e-4) + 1e-6) {
            *out = found.value;
            *met = found.met;
            return DPMF_OK;
        }
        epsilon = found.value;
    }
    return DPMF_OK;
}

dpmf_status capped_answer(const account_question *q, account_answer *out) {
    account_answer best = {account_least(q), DPMF_UPPER_BOUND, METHOD_CURVE, 1};
    double coupled = account_least(q), missed = -INFINITY;
    int64_t sizes[2];
    int coupled_met = 1;
    /* The block sizes that occur and in which the cap can bind. */
    const int64_t small = q->units / q->blocks, large = small + (q->units % q->blocks != 0);
    int count = 0;
    if (large > q->cap) sizes[count++] = large;
    if (small != large && small > q->cap) sizes[count++] = small;
    for (int i = 0; i < count; i++) {
        capped_scheme s;
        double value = INFINITY;
        capped_make(q->probability, q->sigma, q->cap, sizes[i], q->adjacency, &s);
        const grid_part part = capped_part(&s, q->compositions);
        TRY(capped_answer_part(q, &part, &best));
        if (q->of_epsilon) {
            TRY(coupled_epsilon(q, &s, &value, &coupled_met));
            coupled = fmax(coupled, value);
        } else {
            missed = fmax(missed, log_coupling(&s, (double)q->compositions, q->given));
        }
    }
    if (!q->of_epsilon) {
        account_question plain = *q;
        account_answer uncapped;
        plain.cap = 0;
        TRY(account_composed(&plain, &uncapped));
        const double most = fmax(uncapped.value, missed), least = fmin(uncapped.value, missed);
        const double both = most == -INFINITY ? most : most + log1p(exp(least - most)) + 1e-14;
        coupled = fmin(both, 0);
        coupled_met = uncapped.met;
    }
    keep_smaller(&best, coupled, METHOD_COUPLING, coupled_met);
    keep_smaller(&best, account_gaussian(q, account_unsampled_mu(q)), METHOD_KNOWN, 1);
    *out = best;
    return DPMF_OK;
}

/*
 * ---- min-separation ----
 *
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

static const double SUMMED_TAIL = 1 + 1e-9; /* of binomial tails at a probability that was summed up over the steps */

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
        sum += share * base_binomial_at_least(cap + 1, units, x) * SUMMED_TAIL;
    }
    base_free(drawn);
    *missed = fmin(sum + 1e-305, 1);
    return DPMF_OK;
}
