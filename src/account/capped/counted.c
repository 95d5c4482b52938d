/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps in which a unit, or a group of G units, counts J times, J random with known weights p_j = P[J = j]:
 *
 *     Poisson sampling, a group of G                       J ~ Bin(G, q)
 *     batches of M out of N, without replacement           J hypergeometric: how many of the M are of the G (G = 1: p_1 = M/N)
 *     batches of M draws out of N, with replacement        J ~ Bin(M, G/N)
 *
 * In the last two the group displaces others: where it counts j times, j other units would stand in its places.
 *
 * Notation: means over sigma, mu = 1/sigma, w_x the likelihood ratio of N(x) to N(0), H(k; m) the hockey stick of N(m) against
 * N(0) at k, a = e^epsilon >= 1, p_+ = 1 - p_0. R: the outcome with J = 0, which has the same law in both worlds.
 *
 * The pairs. Hold everything else fixed (joint convexity), that is the other units drawn and, where the group displaces, the units
 * that would stand in each place. Where the group has the places S, |S| = j, of the norm at most 1 that each unit adds, the means
 * of the two worlds and of R are within these distances of each other, and so are all inner products (Cauchy and Schwarz):
 *
 *                              R to P_S    Q_S to P_S                                 Q_S to P_S
 *     Poisson                  j           j  (Q_S = R)           replace             2j
 *     displaced, slot freed    2j          2j (Q_S = R)           replace             2j
 *     displaced, zero-out      2j          j, reversed: R and P_S are within j of Q_S
 *
 * Kahane's inequality. For Gaussian variables X, Y with c_i c_j (Cov Y - Cov X)_ij >= 0 for all i, j and convex F,
 * E F(sum c_i e^(X_i - Var X_i/2)) <= E F(the same of Y). So a hockey stick of one Gaussian against a mixture, or of a mixture
 * against one Gaussian, is largest where all of these distances are reached on one line.
 *
 *     mixture     sum_j p_j N(j d) against N(0), and reversed: this is the worst pair itself, where Q_S = R
 *     mirrored    sum_j p_j N(j) against sum_j p_j N(-j), Poisson, replace: the worst pair, since c_i c_j < 0 where one mean is of P
 *                 and the other of Q, and their inner products are the least here
 *     split       for two mixtures, sup_T sum_j p_j (P_j - a Q_j)(T) - (a-1) p_0 R(T)  <=  sum_j p_j F_j,
 *                 F_j = sup_T (P_j - a Q_j - s_j R)(T)       for any s_j >= 0 with sum_j p_j s_j = (a-1) p_0,
 *
 * each F_j being one Gaussian against two. The s_j that make all best T the same half-line make this an equality for the pair on
 * one line; they are taken where they are not negative, and scaled to the sum. So roundings of the half-line cannot make the
 * bound invalid. A mixture against N(0) is treated in the same way, as sum_j p_j H(k_j; j d) with sum_j p_j k_j = a, k_0 = 1, and
 * reversed as sum_j l_j H(a p_j / l_j; j d) with sum_j l_j = 1, l_0 = a p_0: sums of positive terms, so that no digits are lost.
 *
 * J above a limit counts as an infinite loss. Why this route: curves of the pairs by their densities would need a root for every
 * loss and have cancellation; here a root to a few digits is enough.
 */
#include "account/capped/counted.h"

#include "account/capped/capped.h"
#include "base/memory.h"
#include "base/special.h"
#include "base/sum.h"

#include <assert.h>
#include <float.h>
#include <math.h>

/* ---- the law of J ---- */

static const double LAW = 1e-11;         /* the relative error of a weight, from above */
static const double NEGLIGIBLE = -280.0; /* ln of the weights that need no place of their own */

/* From ln p_0 and the ratios p_{j+1}/p_j, which fall with j. */
static void fill_law(double log_none, int64_t most, double (*ratio)(const double *, double), const double *numbers,
                     counted_law *out) {
    counted_law law = {.some = -expm1(log_none)};
    double log_weight = log_none, next = 0;
    law.weight[0] = exp(log_none);
    law.log_weight[0] = log_none;
    for (int j = 0; j < COUNTED_MAX && j < most; j++) {
        const double r = ratio(numbers, j);
        log_weight += log(r);
        if (r < 0.5 && log_weight < NEGLIGIBLE) break;
        law.weight[j + 1] = exp(log_weight);
        law.log_weight[j + 1] = log_weight;
        law.count = j + 1;
    }
    if (law.count < most) { /* what is left is at most a geometric series */
        const double r = ratio(numbers, law.count);
        next = r < 1 ? law.weight[law.count] * r / (1 - r) * (1 + LAW) + 1e-305 : 1;
    }
    law.beyond[law.count + 1] = fmin(next, 1);
    for (int j = law.count; j >= 0; j--)
        law.beyond[j] = fmin(law.beyond[j + 1] + law.weight[j] * (1 + LAW), 1);
    *out = law;
}

static double binomial_ratio(const double *n, double j) {
    return (n[0] - j) / (j + 1) * n[1] / (1 - n[1]);
}

void counted_binomial(int64_t n, double p, counted_law *out) {
    assert(n >= 1 && p > 0 && p < 1);
    const double numbers[2] = {(double)n, p};
    fill_law((double)n * log1p(-p), n, binomial_ratio, numbers, out);
}

static double hypergeometric_ratio(const double *n, double j) {
    return (n[1] - j) * (n[2] - j) / ((j + 1) * (n[0] - n[1] - n[2] + j + 1));
}

void counted_hypergeometric(int64_t units, int64_t marked, int64_t draws, counted_law *out) {
    assert(marked >= 1 && draws >= 1 && marked <= units - draws);
    const double numbers[3] = {(double)units, (double)marked, (double)draws};
    const int64_t few = marked < draws ? marked : draws, many = marked < draws ? draws : marked;
    base_running sum = {0};
    for (int64_t i = 0; i < few; i++) /* none of the few is among the many */
        base_running_add(&sum, log1p(-(double)many / (double)(units - i)));
    fill_law(base_running_value(&sum), few, hypergeometric_ratio, numbers, out);
}

/* ---- the terms ---- */

/* H(k; m) for any k >= 0, from above. */
static double hockey(double m, double k) {
    if (k >= 1) return grid_hockey(m, k);
    if (!(k > 0)) return 1;
    return (1 - k + k * grid_hockey(m, 1 / k)) * (1 + 8 * GRID_ROUNDING);
}

/* sup over y of Phi(y) - near Phi(y - d) - far Phi(y - 2d), from above. */
static double opposed(double d, double near, double far) {
    const double log_near = log(near) - 0.5 * d * d, log_far = log(far) - 2 * d * d;
    const double shift = fmax(log_near, 0.5 * log_far);
    const double b = exp(log_near - shift), c = exp(log_far - 2 * shift);
    const double y = -(shift + log(0.5 * (b + sqrt(b * b + 4 * c)))) / d;
    const double first = base_normal_cdf(y), second = near * base_normal_cdf(y - d),
                 third = far * base_normal_cdf(y - 2 * d);
    const double error = 64 * GRID_ROUNDING * (1 + y * y + d * d) * (first + second + third);
    return fmax(first - second - third, 0) + error;
}

/* The weights that a curve needs at this mass: those beyond count as an infinite loss. */
static int needed(const counted_law *law, double mass) {
    int last = law->count;
    while (last > 1 && law->beyond[last] <= 1e-4 * mass)
        last--;
    return last;
}

/* ln of sum_{1 <= j <= last} p_j w_{j d}(z), and its derivative in z. */
static double log_mixture(const counted_law *law, int last, double d, double z, double *slope) {
    double largest = -INFINITY, sum = 0, moment = 0;
    for (int j = 1; j <= last; j++) { /* a maximum by fmax is more than gcc 12 for aarch64 can vectorize */
        const double exponent = law->log_weight[j] + j * d * (z - 0.5 * j * d);
        if (exponent > largest) largest = exponent;
    }
    for (int j = 1; j <= last; j++) {
        const double exponent = law->log_weight[j] + j * d * (z - 0.5 * j * d) - largest;
        if (exponent < -60) continue;
        const double here = exp(exponent);
        sum += here;
        moment += here * j * d;
    }
    *slope = moment / sum;
    return largest + log(sum);
}

enum { ROUNDS = 40 };
static const double NEAR = 1e-9; /* of a logarithm: a root is a choice, which any error leaves valid */

/* The z where the sum above is e^log_value. It is convex, and Newton comes down to it from above. */
static double mixture_point(const counted_law *law, int last, double d, double log_value) {
    double z = INFINITY, slope = 0;
    for (int j = 1; j <= last; j++) { /* each term alone is at most the sum */
        const double alone = (log_value - law->log_weight[j]) / (j * d) + 0.5 * j * d;
        if (alone < z) z = alone;
    }
    for (int round = 0; round < ROUNDS; round++) {
        const double excess = log_mixture(law, last, d, z, &slope) - log_value;
        z -= excess / slope;
        if (fabs(excess) < NEAR) break;
    }
    return z;
}

/* ---- the curves ---- */

/* What w_m(z) has above the floor, finite: a rare J has large values, and any value is a choice of k_j. */
static double excess_at(double z, double m, double floor_) {
    static const double largest = 1e300;
    return fmin(fmax(exp(m * (z - 0.5 * m)) - floor_, 0), largest);
}

/*
 * sum_j p_j N(j d) against N(0), as sum_j p_j H(k_j; j d). floor: no k_j may be below it, 0 or a (then Q_j = R = N(0), and the s_j
 * above are k_j - a).
 */
static double mixture_curve(const counted_law *law, int last, double d, double less_one, double floor_) {
    const double none = law->weight[0], total = less_one + law->some; /* a - p_0 */
    const double z = mixture_point(law, last, d, log(total));
    double excess = 0, sum = 0;
    for (int j = 1; j <= last; j++)
        excess += law->weight[j] * excess_at(z, j * d, floor_);
    /* 4 LAW: of the weights, on both sides */
    const double room = (floor_ > 0 ? less_one * none : total) * (1 - 4 * LAW);
    const double scale = excess > 0 && isfinite(excess) ? room / excess : 0;
    for (int j = 1; j <= last; j++) {
        const double over = scale * excess_at(z, j * d, floor_);
        sum += law->weight[j] * hockey(j * d, floor_ + (isfinite(over) ? over : 0));
    }
    return sum;
}

/* N(0) against sum_j p_j N(j d), as sum_j l_j H(a p_j / l_j; j d). What Q has beyond `last` is left out. */
static double reversed_curve(const counted_law *law, int last, double d, double less_one) {
    const double a = 1 + less_one, left = law->some * (1 + 2 * LAW * a) - less_one * law->weight[0]; /* 1 - a p_0 */
    double sum = 0, slope = 0;
    if (!(left > 0)) return 0;
    const double z = mixture_point(law, last, d, log(left / a)), whole = log_mixture(law, last, d, z, &slope);
    for (int j = 1; j <= last; j++) {
        const double share = exp(law->log_weight[j] + j * d * (z - 0.5 * j * d) - whole) * left;
        if (share > 0) sum += share * hockey(j * d, a * law->weight[j] * (1 - 2 * LAW) / share);
    }
    return sum + 8 * GRID_ROUNDING * law->some;
}

/* The z where sum_j p_j N(j up) = a sum_j p_j N(j down) + (a-1) p_0 N(0) in densities, up > down. */
static double crossing(const counted_law *law, int last, double up, double down, double less_one) {
    const double log_a = log1p(less_one), log_room = log(less_one * law->weight[0]);
    double z = mixture_point(law, last, up, log(less_one + law->some));
    for (int round = 0; round < ROUNDS; round++) {
        double rise = 0, other_rise = 0;
        const double first = log_mixture(law, last, up, z, &rise);
        const double other = log_a + log_mixture(law, last, down, z, &other_rise);
        const double both = base_log_add(other, log_room), excess = first - both;
        const double slope = rise - other_rise * exp(other - both);
        if (!(slope > 0)) break;
        z -= fmin(fmax(excess / slope, -8), 8);
        if (fabs(excess) < NEAR) break;
    }
    return z;
}

/*
 * sum_j p_j N(2 j d) against sum_j p_j N(j d), N(0) common: as sum_j p_j F_j, Q_j at the distance j d from P_j and R at 2 j d.
 */
static double split_curve(const counted_law *law, int last, double d, double less_one) {
    const double a = 1 + less_one, room = less_one * law->weight[0];
    const double z = crossing(law, last, 2 * d, d, less_one);
    double over[COUNTED_MAX + 1], share = 0, sum = 0;
    for (int j = 1; j <= last; j++) {
        over[j] = fmax(exp(2 * j * d * (z - j * d)) - a * exp(j * d * (z - 0.5 * j * d)), 0);
        share += law->weight[j] * over[j];
    }
    const double scale = share > 0 && isfinite(share) ? room * (1 - 4 * LAW) / share : 0;
    for (int j = 1; j <= last; j++)
        sum += law->weight[j] * opposed(j * d, a, isfinite(scale * over[j]) ? scale * over[j] : 0);
    return sum;
}

/* sum_j p_j N(j d) against sum_j p_j N(-j d): {x > z} is the best set, and at another z the value is less by a second order. */
static double mirrored_curve(const counted_law *law, int last, double d, double less_one) {
    const double a = 1 + less_one, z = crossing(law, last, d, -d, less_one);
    double gain = 0, loss = less_one * law->weight[0] * base_normal_cdf(-z);
    for (int j = 1; j <= last; j++) {
        gain += law->weight[j] * base_normal_cdf(j * d - z);
        loss += a * law->weight[j] * base_normal_cdf(-j * d - z);
    }
    const double farthest = fabs(z) + last * d;
    return fmax(gain - loss, 0) + (4 * LAW + 64 * GRID_ROUNDING * (1 + farthest * farthest)) * (gain + loss);
}

double counted_curve(const counted_scheme *s, int add, double less_one, double mass) {
    const counted_law *law = &s->law;
    const int last = needed(law, mass), replace = s->adjacency == DPMF_ADJACENCY_REPLACE_ONE;
    const double a = 1 + less_one, mu = s->mu;
    double value = 0;
    if (!s->displaced && !replace)
        value = add ? reversed_curve(law, last, mu, less_one) : mixture_curve(law, last, mu, less_one, 0);
    else if (!s->displaced)
        value = mirrored_curve(law, last, mu, less_one);
    else if (replace)
        value = mixture_curve(law, last, 2 * mu, less_one, a);
    else if (s->adjacency == DPMF_ADJACENCY_ADD_REMOVE)
        value = add ? reversed_curve(law, last, 2 * mu, less_one) : mixture_curve(law, last, 2 * mu, less_one, 0);
    else
        value = add ? mixture_curve(law, last, mu, less_one, a) : split_curve(law, last, mu, less_one);
    return fmin(value * (1 + 4 * LAW) + law->beyond[last + 1], 1);
}

static double larger_curve(const counted_sizes *sizes, int add, double less_one, double mass) {
    double most = 0;
    for (int i = 0; i < sizes->count; i++)
        most = fmax(most, counted_curve(&sizes->sizes[i], add, less_one, mass));
    return most;
}

static dpmf_status fill(const void *of, int reversed, int64_t count, double step, double mass, const dpmf_run *run,
                        double *out) {
    static const int64_t report = 1 << 12;
    for (int64_t i = 0; i < count; i++) {
        out[i] = larger_curve(of, reversed, expm1((double)i * step), mass);
        if (i % report == report - 1) TRY(base_progress(run, "a privacy curve", (double)i / (double)count));
    }
    return DPMF_OK;
}

static double reach(const void *of, int reversed, double mass) {
    double low = 0, high = 1;
    while (high < 700 && larger_curve(of, reversed, expm1(high), mass) > mass)
        high *= 2;
    for (int i = 0; i < 30; i++) {
        const double middle = 0.5 * (low + high);
        *(larger_curve(of, reversed, expm1(middle), mass) > mass ? &low : &high) = middle;
    }
    return high;
}

grid_part counted_part(const counted_sizes *sizes, int64_t times) {
    return (grid_part){sizes, fill, reach, times};
}

/* ---- the account ---- */

static const char METHOD_FIXED[] = "batches of a fixed size, the curve of a step composed by tilted FFT";
static const char METHOD_GROUP[] = "a group of units, the curve of a step composed by tilted FFT";
static const char METHOD_KNOWN[] = "Gaussian mechanism without the sampling, closed form";
static const char METHOD_GAUSSIAN[] = "Gaussian mechanism, closed form";

int counted_applies(const account_question *q) {
    return q->draws > 0 || (q->group > 1 && q->probability > 0 && q->probability < 1);
}

int counted_make(const account_question *q, counted_sizes *out) {
    const int64_t group = q->group > 1 ? q->group : 1;
    counted_scheme s = {.mu = 1 / q->sigma, .displaced = q->draws > 0, .adjacency = q->adjacency};
    counted_sizes made = {0};
    if (q->draws == 0) {
        counted_binomial(group, q->probability, &s.law);
        made.sizes[made.count++] = s;
    }
    for (int64_t size = q->units / q->blocks, i = 0; q->draws > 0 && i <= (q->units % q->blocks != 0); i++, size++) {
        if (q->replaced ? group >= size : group > size - q->draws) return 0;
        if (q->replaced)
            counted_binomial(q->draws, (double)group / (double)size, &s.law);
        else
            counted_hypergeometric(size, group, q->draws, &s.law);
        made.sizes[made.count++] = s;
    }
    *out = made;
    return 1;
}

dpmf_status counted_answer(const account_question *q, account_answer *out) {
    counted_sizes sizes;
    const double unsampled = account_gaussian(q, account_unsampled_mu(q));
    account_answer worst = {account_least(q), DPMF_UPPER_BOUND, q->draws > 0 ? METHOD_FIXED : METHOD_GROUP, 1};
    if (!counted_make(
            q, &sizes)) { /* a unit may be in every batch; where each batch is all units, that is the mechanism */
        const int all = q->draws * q->blocks == q->units && !q->replaced && q->group <= 1;
        *out =
            (account_answer){unsampled, all ? DPMF_EXACT : DPMF_UPPER_BOUND, all ? METHOD_GAUSSIAN : METHOD_KNOWN, 1};
        return DPMF_OK;
    }
    const grid_part part = counted_part(&sizes, q->compositions);
    TRY(capped_answer_part(q, &part, &worst));
    if (unsampled < worst.value) worst = (account_answer){unsampled, DPMF_UPPER_BOUND, METHOD_KNOWN, worst.met};
    *out = worst;
    return DPMF_OK;
}
