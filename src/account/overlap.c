/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Poisson sampling of a C whose columns overlap: any lower-triangular C >= 0, of any number of bands.
 *
 * Notation: G = C'C with its diagonal raised to d, its largest entry, in units of sigma^2; p d its largest row sum; q the sampling
 * probability; n steps; l_t Gaussian with mean -d/2 and Cov(l_t, l_u) = G_tu; w(l) = 1 - q + q e^l, which is the likelihood ratio of
 * one step of DP-SGD with noise 1/sqrt(d); R = (p-1) d; nu(l) = q e^l / w(l).
 *
 * The likelihood ratio of the run is at most, in the sense of every hockey stick, Lambda = sum_x P(x) exp(sum_t x_t l_t - 1/2
 * sum_{t /= u} x_t x_u G_tu), x in {0,1}^n (docs/accounting.md has all proofs). As G >= 0, Lambda <= prod_t w(l_t), and by Jensen
 * under independent x_t with probabilities nu(l_t), ln Lambda >= sum_t phi(l_t), phi = ln w - R nu^2/2. For Gaussian variables
 * with G <= p d I (row sums), E prod f_t(l_t) <= prod (E f_t(l_t)^p)^(1/p): Hoelder's inequality with the exponent p instead of
 * n. So for every order 1 + t, t > 0, with l of one step alone,
 *
 *     remove     E[Lambda^(1+t); all l_t <= c]  <=  (E[w^(p(1+t)); l <= c])^(n/p),
 *                P[some l_t > c]  <=  n min_s exp(-s (c + d/2) + s^2 d/2 + p ln(1 - q + q e^(s d)))
 *     add        E[Lambda^(-t)]  <=  (E[e^(-t p phi)])^(n/p),      phi replaced by its value at l_0 beyond the point l_0 up to which it rises.
 *
 * These are moments of DP-SGD's loss, which the quadrature of account/pair.c bounds, and they become delta and epsilon as all
 * Renyi divergences do. The cut c keeps orders p (1+t) in reach: without it a single step decides them.
 *
 * A second bound, for noise so correlated that p is near n: |Cx| <= f(|x|), f(s)^2 = d s min(s, p) and at most |C1|^2, and by
 * Kahane's inequality the run is dominated by the mixture of N(f(S)), S of Bin(n, q), against N(0) (account/capped/counted.c). It is
 * below the Gaussian mechanism of a unit that takes part in every step, and below P[S > s] + delta of the Gaussian mechanism with f(s)
 * for every s. Where S or f(S) is too large for that code, these two are used themselves.
 *
 * Why this route: conditional composition (Choquette-Choo, Ganesh, Steinke and Thakurta 2024) bounds what earlier outputs reveal
 * about the sampling by its worst case outside of a tail; here it enters on average.
 */
#include "account/overlap.h"

#include "account/capped/capped.h"
#include "account/capped/counted.h"
#include "base/special.h"

#include <float.h>
#include <math.h>

static const double ROUNDING = 1e-12;                                /* relative, of sums and logarithms */
static const double ORDER_LOW = -3, ORDER_START = 2, ORDER_HIGH = 9; /* ln t */
static const double GOLDEN = 0.61803398874989485;

typedef struct scheme {
    const account_question *question;
    account_pair remove, add; /* one step of DP-SGD */
    double steps, p, d;
    double order; /* ln t at which the last search ended */
    int proven;   /* 0: a search, whose moments need no bound of their errors */
} scheme;

static scheme scheme_of(const account_question *q) {
    scheme s = {.question = q,
                .remove = {ACCOUNT_REMOVE, q->sigma, q->probability, 1},
                .steps = (double)q->compositions,
                .p = q->overlap,
                .d = 1 / (q->sigma * q->sigma),
                .order = ORDER_START};
    s.add = s.remove;
    s.add.direction = ACCOUNT_ADD;
    return s;
}

/* ---- from moments to the answer ---- */

/* ln(1 - e^x), x < 0 */
static double log_rest(double x) {
    return x < 0 ? log(-expm1(x)) : -INFINITY;
}

/*
 * epsilon or ln delta by E[e^(tL)] <= e^k outside of an event whose probability is at most e^missed. INFINITY, or above 0, where
 * there is none.
 */
static double convert(const account_question *q, double k, double t, double missed) {
    if (!isfinite(k)) return INFINITY;
    const double part = log1p(1 / t), rest = log1p(t), size = fabs(k) + rest;
    if (q->of_epsilon) {
        const double room = missed == -INFINITY ? q->given : q->given + log_rest(missed - q->given);
        if (!isfinite(room)) return INFINITY;
        return fmax(0, (k - room - rest) / t - part + ROUNDING * ((size + fabs(room)) / t + part));
    }
    const double bound = k - t * q->given - t * part - rest + ROUNDING * (size + t * (q->given + part));
    return missed == -INFINITY ? bound : base_log_add(bound, missed) + ROUNDING;
}

typedef double (*objective)(scheme *s, double at, double x);

/* The least value of f(x) over x in [low, high] that golden sections find; *x is where. Any x gives a bound. */
static double least(scheme *s, objective f, double at, double low, double high, double near, double *x) {
    double a = high - GOLDEN * (high - low), b = low + GOLDEN * (high - low);
    double at_a = f(s, at, a), at_b = f(s, at, b), best = fmin(at_a, at_b);
    *x = at_b < at_a ? b : a;
    while (high - low > near) {
        const int left = !(at_b < at_a); /* what has no bound lies at high orders */
        if (left) {
            high = b;
            b = a;
            at_b = at_a;
            a = high - GOLDEN * (high - low);
            at_a = f(s, at, a);
        } else {
            low = a;
            a = b;
            at_a = at_b;
            b = low + GOLDEN * (high - low);
            at_b = f(s, at, b);
        }
        const double here = left ? at_a : at_b;
        if (here < best) {
            best = here;
            *x = left ? a : b;
        }
    }
    return best;
}

/* ---- remove ---- */

/* n P[l > c] for one step, as an exponent at s: what c must be for the bound to be e^missed. */
static double cut_at(scheme *o, double missed, double log_s) {
    const double s = exp(log_s), e = s * o->d, q = o->remove.probability;
    const double grown = e < 600 ? log1p(q * expm1(e)) : base_log_add(log1p(-q), e + log(q));
    const double c = (log(o->steps) - missed + o->p * grown) / s + 0.5 * e - 0.5 * o->d;
    return c + ROUNDING * (fabs(log(o->steps)) + fabs(missed) + o->p * grown) / s + ROUNDING * (e + o->d);
}

/* ln of a moment of one step, as a bound where that is needed. */
static double moment(const scheme *s, const account_pair *pair, double cut, double t) {
    if (s->proven) return account_rdp_cumulant_below(pair, cut, t);
    const account_cumulant k = pair_cumulant(pair, cut, t, 1);
    return isfinite(k.error) ? k.value : INFINITY;
}

static double removed_at(scheme *s, double missed, double cut, double log_t) {
    const double t = exp(log_t), x = (cut + 0.5 * s->d) / s->d;
    const double k = moment(s, &s->remove, x, s->p * (1 + t) - 1);
    return convert(s->question, k * (s->steps / s->p) + ROUNDING * fabs(k) * (s->steps / s->p), t, missed);
}

static double cut_of(scheme *s, double missed) {
    const double middle = log(s->remove.sigma);
    double x = 0;
    return least(s, cut_at, missed, middle - 6, middle + 6, 2e-3, &x);
}

/* The best order for a given probability of what is cut off. */
static double removed(scheme *s, double at, double missed) {
    const double cut = cut_of(s, missed);
    double low = s->order - 0.5, high = s->order + 0.5, best = INFINITY, where = s->order;
    (void)at;
    double values[3] = {removed_at(s, missed, cut, low), removed_at(s, missed, cut, where),
                        removed_at(s, missed, cut, high)};
    double step = 0.5;
    while (!(isfinite(values[1]) && values[1] <= values[0] && values[1] <= values[2]) && where > ORDER_LOW &&
           where < ORDER_HIGH) {
        step *= 1.6; /* until the middle is the least */
        if (!(values[2] < values[1])) {
            high = where, values[2] = values[1];
            where = low, values[1] = values[0];
            low -= step, values[0] = removed_at(s, missed, cut, low);
        } else {
            low = where, values[0] = values[1];
            where = high, values[1] = values[2];
            high += step, values[2] = removed_at(s, missed, cut, high);
        }
    }
    best = values[1];
    while (high - low > 0.08) {
        const int right = high - where > where - low;
        const double next = right ? where + 0.382 * (high - where) : where - 0.382 * (where - low);
        const double value = removed_at(s, missed, cut, next);
        if (value < best) {
            *(right ? &low : &high) = where;
            where = next;
            best = value;
        } else {
            *(right ? &high : &low) = next;
        }
    }
    if (isfinite(best)) s->order = where;
    return best;
}

/* The bound with this much cut off, at the order that looks best: the search sees moments as they are, the answer has their errors. */
static double proven_at(scheme *s, double missed) {
    removed(s, 0, missed);
    s->proven = 1;
    const double found = removed_at(s, missed, cut_of(s, missed), s->order);
    s->proven = 0;
    return found;
}

/* Far out the quadrature has no proven error for some cuts: so a row of them is tried too. */
static double answer_remove(scheme *s) {
    const account_question *q = s->question;
    double where = 0, best = INFINITY, low = q->given - 10, high = q->given - 0.02;
    s->proven = 0;
    for (double part = 0.05; q->of_epsilon && part < 8; part *= 4)
        best = fmin(best, proven_at(s, q->given - part));
    for (double missed = -0.5; !q->of_epsilon && missed > -720;
         missed *= 1.5) { /* anything may be cut off: its size first */
        s->order = ORDER_START;
        const double here = proven_at(s, missed);
        if (!(here < best)) continue;
        best = here;
        low = 1.5 * missed;
        high = missed / 1.5;
    }
    if (!q->of_epsilon && !(best < 0)) return 0;
    least(s, removed, 0, low, high, 0.1, &where);
    return fmin(best, proven_at(s, where));
}

/* ---- add ---- */

enum { CELLS_PER_DEVIATION = 32 };
static const double FAR = 11; /* deviations, on both sides */

/*
 * E[e^(-T phi)] - E[w^-T], from above. w rises with l and so does nu: on a cell [a, b] the difference e^(-T ln w) (e^(T R nu^2/2) - 1)
 * is at most its first factor at a and its second at b.
 */
static double spread(const scheme *s, double T) {
    const double q = s->add.probability, R = (s->p - 1) * s->d, deviation = sqrt(s->d);
    /* phi rises while R nu (1 - nu) <= 1 */
    const double most = R > 4 ? 0.5 * (1 - sqrt(1 - 4 / R)) : 1;
    const double end =
        most < 1 ? fmin(FAR, (log(most / (1 - most)) + log1p(-q) - log(q) + 0.5 * s->d) / deviation) : FAR;
    double sum = 0, log_w = log1p(-q), below = 0, phi = log1p(-q);
    if (!(R > 0)) return 0;
    if (!(end > -FAR)) return exp(-T * phi); /* phi >= ln(1 - q) */
    for (double z = -FAR, last = -INFINITY; last < end; z += 1.0 / CELLS_PER_DEVIATION) {
        const double to = fmin(z, end), odds = exp(deviation * to - 0.5 * s->d + log(q) - log1p(-q));
        const double nu = odds / (1 + odds), g = 0.5 * T * R * nu * nu;
        const double mass = to > 0 ? base_normal_cdf(-last) - base_normal_cdf(-to) : base_normal_cdf(to) - below;
        sum += (fmax(mass, 0) + 1e-14 * base_normal_cdf(to > 0 ? -last : to)) *
               (g < 1 ? exp(-T * log_w) * expm1(g) : exp(g - T * log_w));
        log_w = log1p(-q) + log1p(odds);
        phi = log_w - 0.5 * R * nu * nu;
        below = base_normal_cdf(to);
        last = to;
    }
    sum += base_normal_cdf(-end) * exp(-T * phi);
    return sum * (1 + 1e-9);
}

static double added_at(scheme *s, double at, double log_t) {
    const double t = exp(log_t), T = t * s->p;
    (void)at;
    const double k = moment(s, &s->add, INFINITY, T);
    if (!isfinite(k)) return INFINITY;
    const double both = k + log1p(spread(s, T) * exp(-k));
    return convert(s->question, both * (s->steps / s->p) + ROUNDING * fabs(both) * (s->steps / s->p), t, -INFINITY);
}

static double answer_add(scheme *s) {
    double where = 0;
    s->proven = 0;
    least(s, added_at, 0, ORDER_LOW, ORDER_HIGH, 0.05, &where);
    s->proven = 1;
    const double found = added_at(s, 0, where);
    return s->question->of_epsilon ? found : fmin(found, 0);
}

/* ---- the number of participations alone ---- */

/* f(s) in units of sqrt(d) */
static double norm_of(const account_question *q, double s) {
    return fmin(sqrt(s * fmin(s, q->overlap)), q->whole);
}

/* The law of f(S) on multiples of sqrt(d)/per, rounded up; 0 if that takes too many. */
static int law_of_norms(const account_question *q, counted_law *out, double *per) {
    counted_law counts, law = {0};
    double norm[COUNTED_MAX + 1];
    counted_binomial(q->compositions, q->probability, &counts);
    int last = counts.count;
    while (last > 1 && counts.beyond[last] < 1e-40)
        last--;
    for (int s = 1; s <= last; s++)
        norm[s] = norm_of(q, s);
    const double many = floor(COUNTED_MAX / (norm[last] * (1 + 1e-9)));
    if (!(many >= 1)) return 0;
    *per = fmin(many, 64);
    law.count = (int)ceil(norm[last] * *per * (1 - 1e-14));
    law.some = counts.some;
    law.weight[0] = counts.weight[0];
    for (int s = 1; s <= last; s++)
        law.weight[(int)ceil(norm[s] * *per * (1 - 1e-14))] += counts.weight[s];
    law.beyond[law.count + 1] = counts.beyond[last + 1];
    for (int j = law.count; j >= 0; j--) {
        law.log_weight[j] = log(law.weight[j]); /* most multiples are no f(s): weight 0 */
        law.beyond[j] = fmin(law.beyond[j + 1] + law.weight[j] * (1 + 1e-11), 1);
    }
    *out = law;
    return 1;
}

/* One step, whose curve is delta itself. `known`: an answer that is of no use unless this one is below it. */
static double answer_counted(const account_question *q, const counted_scheme *s, int add, double known) {
    static const double farthest = 700, least_mass = 1e-36;
    if (!q->of_epsilon && q->given > farthest) return 0;
    if (!q->of_epsilon) /* a curve below every double is not 0 */
        return log(fmax(counted_curve(s, add, expm1(q->given), least_mass), DBL_TRUE_MIN));
    const double delta = exp(q->given);
    double high = fmin(known, farthest), low = 0;
    if (!(counted_curve(s, add, expm1(high), delta) <= delta)) return INFINITY;
    if (counted_curve(s, add, 0, delta) <= delta) return 0;
    while (high - low > 0.2 * fmax(q->relative * high, q->absolute)) {
        const double middle = 0.5 * (low + high);
        *(counted_curve(s, add, expm1(middle), delta) <= delta ? &high : &low) = middle;
    }
    return high;
}

/* ln P[S > s], from above */
static double log_more(const account_question *q, int64_t s) {
    static const double tail = 1 + 1e-11;
    return s >= q->compositions ? -INFINITY
                                : log(base_binomial_at_least(s + 1, q->compositions, q->probability) * tail + 1e-305);
}

/* epsilon or ln delta by P[S > s] + the delta of the Gaussian mechanism with f(s), s >= 1. */
static double limited(const account_question *q, int64_t s) {
    const double mu = norm_of(q, (double)s) / q->sigma * (1 + ROUNDING), more = log_more(q, s);
    if (!q->of_epsilon) return base_log_add(account_gaussian_log_delta(mu, q->given), more) + ROUNDING;
    const double room = q->given + log_rest(more - q->given);
    return isfinite(room) ? account_gaussian_epsilon(mu, room - ROUNDING * (1 + fabs(room))) : INFINITY;
}

/*
 * The same at a good s. Of ln delta: where P[S > s] falls below the other part, which rises with s; so that is at most twice the least
 * delta of all s. Of epsilon: where P[S > s] falls below some parts of delta.
 */
static double answer_limited(const account_question *q) {
    double best = account_worst(q);
    for (double part = 0.05; part < 13; part *= 3) {
        int64_t low = 0, high = q->compositions;
        while (high - low > 1) {
            const int64_t s = low + (high - low) / 2;
            const double mu = norm_of(q, (double)s) / q->sigma;
            const double enough = q->of_epsilon ? q->given - part : account_gaussian_log_delta(mu, q->given);
            *(log_more(q, s) <= enough ? &high : &low) = s;
        }
        best = fmin(best, limited(q, high));
        if (!q->of_epsilon) return fmin(best, low > 0 ? limited(q, low) : best);
    }
    return best;
}

/* ---- the answer ---- */

static const char METHOD_MOMENTS[] =
    "overlapping columns: moments of DP-SGD by Hoelder's inequality for Gaussian variables";
static const char METHOD_COUNTS[] = "overlapping columns: the number of participations, one mixture of Gaussians";
static const char METHOD_LIMITED[] =
    "overlapping columns: the Gaussian mechanism of a limit to the number of participations";
static const char METHOD_KNOWN[] = "Gaussian mechanism without the sampling, closed form";
static const char METHOD_NEVER[] = "no unit ever takes part";

dpmf_status overlap_answer(const account_question *q, account_answer *out) {
    const double unsampled = account_gaussian(q, account_unsampled_mu(q));
    account_answer found[2];
    counted_scheme counted = {.adjacency = DPMF_ADJACENCY_ZERO_OUT};
    double per = 1;
    scheme s = scheme_of(q);
    if (q->probability <= 0) {
        *out = (account_answer){account_least(q), DPMF_EXACT, METHOD_NEVER, 1};
        return DPMF_OK;
    }
    if (q->probability >= 1) {
        *out = (account_answer){unsampled, DPMF_UPPER_BOUND, METHOD_KNOWN, 1}; /* |C 1| is rounded up */
        return DPMF_OK;
    }
    TRY(base_progress(q->run, q->of_epsilon ? "bounding epsilon" : "bounding delta", -1));
    found[0] = found[1] = (account_answer){account_worst(q), DPMF_UPPER_BOUND, METHOD_MOMENTS, 1};
    found[0].value = fmin(found[0].value, answer_remove(&s));
    found[1].value = fmin(found[1].value, answer_add(&s));
    const int mixed = law_of_norms(q, &counted.law, &per);
    counted.mu = 1 / (q->sigma * per);
    for (int round = 0, tried = 0; mixed && round < 2; round++) { /* only the worse direction counts */
        const int worse = found[1].value > found[0].value;
        if ((tried & 1 << worse) != 0) break;
        tried |= 1 << worse;
        const double value = answer_counted(q, &counted, worse, found[worse].value);
        if (value < found[worse].value) found[worse] = (account_answer){value, DPMF_UPPER_BOUND, METHOD_COUNTS, 1};
    }
    *out = found[found[1].value > found[0].value];
    const double limit = answer_limited(q); /* of both directions */
    if (limit < out->value) *out = (account_answer){limit, DPMF_UPPER_BOUND, METHOD_LIMITED, 1};
    if (unsampled < out->value) *out = (account_answer){unsampled, DPMF_UPPER_BOUND, METHOD_KNOWN, 1};
    return DPMF_OK;
}
