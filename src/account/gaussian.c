/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Gaussian mechanism: exactly, zero-concentrated, and composed with Poisson sampling.
 *
 * With mu = sensitivity / sigma, a = mu/2 - epsilon/mu and b = a - mu (Balle and Wang 2018, Theorem 8; Dong, Roth and Su
 * 2022, Corollary 2.13),
 *
 *     delta(epsilon) = Phi(a) - e^epsilon Phi(b).
 *
 * Far out the two terms agree in almost all of their digits and underflow. But e^epsilon phi(b) = phi(a); so with
 * x = -a, y = -b = x + mu and Mills' ratio R(x) = Phi(-x)/phi(x) = int_0^inf e^(-xt - t^2/2) dt,
 *
 *     delta = phi(x) (R(x) - R(y)) = phi(x) int_0^inf e^(-xt - t^2/2) (1 - e^(-mu t)) dt,
 *
 * all of it positive: the integral keeps its relative accuracy for any x >= -1/2 and any mu, and phi(x) is taken by its
 * logarithm. For x < -1/2 delta is of order 1, and 1 - delta = Phi(x) + phi(x) R(y) is a sum.
 *
 * The integral: t = T exp(v - e^-v), T = 1/max(1, x) the scale on which it decays, by the trapezoid rule in v, which
 * converges exponentially (Takahasi and Mori 1974; the integrand decays doubly exponentially at both ends). Where
 * mu T > 1/2 the factor 1 - e^(-mu t) turns on a scale of its own; there R(x) - R(y) does not cancel.
 *
 * Derivatives for Newton's method: d delta / d epsilon = -e^epsilon Phi(b) = -phi(x) R(y), d delta / d mu = phi(x).
 *
 * zCDP: a rho-zCDP mechanism has Renyi divergence at most rho alpha at each order alpha = 1 + b, and then (Canonne,
 * Kamath and Steinke 2020, Proposition 12)
 *
 *     ln delta = min over b > 0 of h(b) = b ((1+b) rho - epsilon) + b ln b - (1+b) ln(1+b).
 *
 * h is convex; where h' = 0 both become explicit in b:
 *
 *     epsilon = rho (1 + 2b) - ln(1 + 1/b),      ln delta = -rho b^2 - ln(1+b).
 *
 * The second falls as b grows: epsilon for a given delta is one equation in b with one root.
 *
 * With sampling, this file chooses the directions of the adjacency that count, the engine, and the bounds that replace an
 * engine that fails.
 *
 *     zero-out, add-remove   the worse of removing a unit and adding one
 *     replace-one            one pair, its own mirror image
 *
 * Neither direction is always the worse one under composition (Lebeda et al. 2024), so both are certified, each by the
 * Fourier sum (account/fourier/fourier.c) where that works, which is nearly exact at any number of steps, else by connecting
 * the dots (account/grid/grid.c): removing, usually the worse, to the wanted slack, and adding only as finely as it takes to
 * see that it is smaller.
 *
 * Without sampling (probability 1) the closed form is exact. With it, the Gaussian without sampling is always an upper
 * bound too, since mixing in the same distribution on both sides only loses information (joint convexity): the lesser
 * of the two bounds, both proven, is the answer. Renyi divergences, proven too but looser, are used only on request.
 */
#include "account/question.h"

#include "account/grid/grid.h"
#include "account/saddle.h"
#include "base/special.h"

#include <assert.h>
#include <math.h>

static const double log_sqrt_two_pi = 0.91893853320467274178;
static const double sqrt_two_pi = 2.50662827463100050242;

/* int_0^inf e^(-xt - t^2/2) (1 - e^(-mu t)) dt, x >= -1/2 (mu = INFINITY: without the last factor); error below 1e-15. */
static double decaying_integral(double x, double mu) {
    const double scale = 1 / fmax(1, x), step = 0.0625;
    double sum = 0;
    for (int k = -62; k <= 76; k++) { /* v from -3.9 (t = e^-53 T) to 4.75 (t = 115 T) */
        const double v = step * k, inner = exp(-v);
        const double t = scale * exp(v - inner);
        const double value = exp(-t * (x + 0.5 * t)) * (isinf(mu) ? 1 : -expm1(-mu * t));
        sum += value * t * (1 + inner);
    }
    return sum * step;
}

static double mills(double x) {
    return decaying_integral(x, INFINITY);
}

/* The parts of delta: x, and for x >= -1/2 the difference R(x) - R(y). */
typedef struct parts {
    double x, y_ratio, difference, log_delta;
} parts;

static parts gaussian_parts(double mu, double epsilon) {
    parts p = {fma(-0.5 * mu, mu, epsilon) / mu, 0, NAN, NAN}; /* one rounding where epsilon is near mu^2/2 */
    p.y_ratio = mills(p.x + mu);
    if (p.x < -0.5) {
        const double rest = base_normal_cdf(p.x) + exp(-0.5 * p.x * p.x - log_sqrt_two_pi) * p.y_ratio;
        p.log_delta = log1p(-rest);
        return p;
    }
    p.difference = mu > 0.5 * fmax(1, p.x) ? mills(p.x) - p.y_ratio : decaying_integral(p.x, mu);
    p.log_delta = -0.5 * p.x * p.x - log_sqrt_two_pi + log(p.difference);
    return p;
}

static double density_over_delta(const parts *p) {
    return p->x < -0.5 ? exp(-0.5 * p->x * p->x - log_sqrt_two_pi - p->log_delta) : 1 / p->difference;
}

double account_gaussian_log_delta(double mu, double epsilon) {
    if (isnan(mu) || isnan(epsilon)) return NAN;
    assert(mu >= 0 && epsilon >= 0);
    if (mu == 0 || isinf(epsilon)) return -INFINITY;
    if (isinf(mu)) return 0;
    const parts p = gaussian_parts(mu, epsilon);
    if (!isfinite(p.x) || isinf(p.x * p.x)) return p.x > 0 ? -INFINITY : 0;
    return fmin(p.log_delta, 0);
}

/* Newton steps converge in less than ten; bisection takes over where they leave the bracket. */
enum { ROUNDS = 200 };
static const double converged = 4e-16;

double account_gaussian_epsilon(double mu, double log_delta) {
    if (isnan(mu) || isnan(log_delta)) return NAN;
    assert(mu >= 0);
    if (mu == 0 || account_gaussian_log_delta(mu, 0) <= log_delta) return 0;
    if (isinf(mu) || isinf(log_delta)) return INFINITY;
    /* delta <= Phi(-x) <= e^(-x^2/2) for x >= 0; ln delta is concave, so that Newton comes down from there. */
    double low = 0, high = mu * (sqrt(-2 * log_delta) + 0.5 * mu), epsilon = high;
    for (int round = 0; round < ROUNDS; round++) {
        const parts p = gaussian_parts(mu, epsilon);
        const double excess = p.log_delta - log_delta;
        if (excess > 0) {
            low = epsilon;
        } else {
            high = epsilon;
        }
        double next = epsilon + excess / (density_over_delta(&p) * p.y_ratio);
        if (!(next >= low && next <= high)) next = 0.5 * (low + high);
        const double change = fabs(next - epsilon);
        epsilon = next;
        if (change <= converged * epsilon || high - low <= converged * high) break;
    }
    return epsilon;
}

double account_gaussian_mu(double epsilon, double log_delta) {
    if (isnan(epsilon) || isnan(log_delta)) return NAN;
    assert(epsilon >= 0);
    if (log_delta >= 0 || isinf(epsilon)) return INFINITY;
    if (isinf(log_delta)) return 0;
    /* From below: delta <= e^(-x^2/2) as above, and delta <= mu / sqrt(2 pi) for every epsilon. */
    const double reach = sqrt(-2 * log_delta);
    double low = fmax(2 * epsilon / (reach + sqrt(reach * reach + 2 * epsilon)), sqrt_two_pi * exp(log_delta));
    if (!(low > 0)) return 0; /* epsilon = 0 and delta is no double */
    double high = 2 * low;
    while (isfinite(high) && account_gaussian_log_delta(high, epsilon) < log_delta) {
        low = high;
        high *= 2;
    }
    double mu = 0.5 * (low + high);
    for (int round = 0; round < ROUNDS; round++) {
        const parts p = gaussian_parts(mu, epsilon);
        const double excess = p.log_delta - log_delta;
        if (excess > 0) {
            high = mu;
        } else {
            low = mu;
        }
        double next = mu - excess / density_over_delta(&p);
        if (!(next >= low && next <= high)) next = 0.5 * (low + high);
        const double change = fabs(next - mu);
        mu = next;
        if (change <= converged * mu || high - low <= converged * high) break;
    }
    return mu;
}

double account_gaussian(const account_question *q, double mu) {
    return q->of_epsilon ? account_gaussian_epsilon(mu, q->given) : account_gaussian_log_delta(mu, q->given);
}

/* ---- zero-concentrated differential privacy ---- */

double account_zcdp_epsilon(double rho, double log_delta) {
    if (isnan(rho) || isnan(log_delta)) return NAN;
    assert(rho >= 0);
    if (rho == 0 || log_delta >= 0) return 0;
    if (isinf(rho) || isinf(log_delta)) return INFINITY;
    /* The b for which order 1 + b is the best, by bisection of ln b (Newton would save nothing): ln delta falls as b grows. */
    double low = -700, high = 700; /* ln b */
    for (int round = 0; round < ROUNDS && high - low > converged * fabs(high); round++) {
        const double middle = 0.5 * (low + high), b = exp(middle);
        if (middle <= low || middle >= high) break;
        if (rho * b * b + log1p(b) + log_delta < 0) {
            low = middle;
        } else {
            high = middle;
        }
    }
    const double b = exp(0.5 * (low + high));
    return fmax(0, rho * (1 + 2 * b) - log1p(1 / b));
}

/* ---- composed, with Poisson sampling ---- */

static const char METHOD_GAUSSIAN[] = "Gaussian mechanism, closed form";
static const char METHOD_NEVER[] = "no unit ever takes part";
static const char METHOD_DOTS[] = "connect-the-dots discretisation, tilted FFT";
static const char METHOD_FOURIER[] = "Fourier sum over the moment generating function, with proven errors";
static const char METHOD_RDP[] = "Renyi divergences at the best order, the proven error of quadrature added";
static const char METHOD_UNSAMPLED[] = "Gaussian mechanism without the sampling, closed form";

static const double COARSE = 0.02; /* slack that costs little, and shows in most cases which direction is the worse */

double account_unsampled_mu(const account_question *q) {
    if (q->overlap > 1) return q->whole / q->sigma; /* in every step */
    double unit = q->adjacency == DPMF_ADJACENCY_REPLACE_ONE ? 2 : 1;
    if ((q->cap > 0 || q->draws > 0) && q->adjacency == DPMF_ADJACENCY_ADD_REMOVE) unit = 2; /* it pushes another out */
    int64_t times = q->group > 1 ? q->group : 1; /* that the group counts in a step, at most */
    if (q->draws > 0 && (q->replaced || q->draws < times)) times = q->draws;
    double uses = q->picks > 0 ? (double)q->picks * (double)q->compositions : (double)q->compositions;
    return unit * (double)times * sqrt(uses) / q->sigma;
}

double account_known_mu(const account_request *r, double sigma) {
    account_question at = r->question;
    at.sigma = sigma * r->options.sigma_unit;
    return r->simulated ? r->scheme.sensed.value / (at.sigma * r->scheme.norm) : account_unsampled_mu(&at);
}

dpmf_privacy account_privacy(const account_request *r, double sigma, double epsilon, double delta) {
    dpmf_privacy p = {.epsilon = epsilon,
                      .delta = delta,
                      .sigma = sigma,
                      .kind = DPMF_UPPER_BOUND,
                      .compositions = r->question.compositions,
                      .probability = r->question.probability,
                      .slack_met = 1};
    const double total = account_known_mu(r, sigma);
    if (dpmf_sampling_is_none(&r->options.sampling)) {
        p.total_mu = total;
        p.total_rho = total * total / 2;
        p.mu = total / sqrt((double)r->question.compositions);
        p.rho = p.mu * p.mu / 2;
    } else if (delta > 0) {
        p.without_sampling = account_gaussian_epsilon(total, log(delta));
    }
    return p;
}

int account_directions(const account_question *q, account_pair pairs[ACCOUNT_DIRECTIONS_MAX]) {
    account_pair pair = {.sigma = q->sigma, .probability = q->probability, .compositions = q->compositions};
    pairs[0] = pairs[1] = pair;
    if (q->adjacency == DPMF_ADJACENCY_REPLACE_ONE) {
        pairs[0].direction = ACCOUNT_REPLACE;
        return 1;
    }
    pairs[0].direction = ACCOUNT_REMOVE;
    pairs[1].direction = ACCOUNT_ADD;
    return 2;
}

/* Keeps the smaller of two proven bounds; NaN never counts as a bound. */
static void improve(account_answer *best, double value, const char *method) {
    if (!(value < best->value)) return;
    best->value = value;
    best->method = method;
}

/* Connects the dots; step_max belongs to the requested slack. */
static dpmf_status connect(const account_question *q, const account_pair *pair, double relative, account_answer *best) {
    account_question at = *q;
    account_answer found;
    at.relative = relative;
    if (relative > q->relative) at.step_max = 0;
    TRY(grid_answer(&(grid_source){.pair = pair}, &at, &found));
    improve(best, found.value, METHOD_DOTS);
    if (relative == q->relative) best->met = found.met;
    return DPMF_OK;
}

/* Computes one direction. The bound must be tight only above `least`, which the other direction has reached already. */
static dpmf_status answer_direction(const account_question *q, const account_pair *pair, double least,
                                    account_answer *out) {
    account_answer found = {account_worst(q), DPMF_UPPER_BOUND, METHOD_FOURIER, 0};
    /* Adding a unit loses at most -ln(1-q) per step. */
    if (!q->of_epsilon && pair->direction == ACCOUNT_ADD &&
        q->given >= -(double)pair->compositions * log1p(-pair->probability) * (1 + 1e-12)) {
        *out = (account_answer){-INFINITY, DPMF_UPPER_BOUND, METHOD_DOTS, 1};
        return DPMF_OK;
    }
    TRY(base_progress(q->run, q->of_epsilon ? "certifying epsilon" : "certifying delta", -1));
    if (q->engine != DPMF_ENGINE_CONNECT_THE_DOTS) TRY(fourier_answer(pair, q, &found));
    if (q->engine != DPMF_ENGINE_FOURIER && !found.met && least > account_least(q)) {
        TRY(connect(q, pair, fmax(COARSE, q->relative), &found));
        found.met = 0;
    }
    if (q->engine != DPMF_ENGINE_FOURIER && !found.met && found.value > least)
        TRY(connect(q, pair, q->relative, &found));
    *out = found;
    return DPMF_OK;
}

dpmf_status account_composed(const account_question *q, account_answer *out) {
    account_pair pairs[ACCOUNT_DIRECTIONS_MAX];
    account_answer worst = {account_least(q), DPMF_UPPER_BOUND, METHOD_RDP, 1};
    const int count = account_directions(q, pairs), rdp = q->engine == DPMF_ENGINE_RDP;
    assert(q->sigma > 0 && q->compositions >= 1);
    if (q->probability <= 0) {
        *out = (account_answer){account_least(q), DPMF_EXACT, METHOD_NEVER, 1};
        return DPMF_OK;
    }
    const double unsampled = account_gaussian(q, account_unsampled_mu(q));
    if (q->probability >= 1 && q->engine == DPMF_ENGINE_AUTO) {
        *out = (account_answer){unsampled, DPMF_EXACT, METHOD_GAUSSIAN, 1};
        return DPMF_OK;
    }
    for (int i = 0; i < count; i++) {
        account_answer found = worst;
        TRY(rdp ? account_rdp_answer(&pairs[i], q, &found.value) : answer_direction(q, &pairs[i], worst.value, &found));
        if (i == 0 || found.value > worst.value) worst = found;
    }
    if (!rdp) improve(&worst, unsampled, METHOD_UNSAMPLED);
    *out = worst;
    return DPMF_OK;
}

dpmf_status account_composed_search(const account_question *q, double *log_delta) {
    static const double sigma_min = 0.01; /* below, a guess takes as many points as a bound */
    account_answer found = {0};
    account_pair pairs[ACCOUNT_DIRECTIONS_MAX];
    assert(!q->of_epsilon);
    account_directions(q, pairs);
    if (!(q->probability > 0 && q->probability < 1) || q->engine == DPMF_ENGINE_RDP)
        TRY(account_composed(q, &found));
    else if (q->sigma < sigma_min)
        TRY(connect(q, &pairs[0], fmax(COARSE, q->relative), &found));
    else
        return saddle_guess(&pairs[0], q, log_delta);
    *log_delta = found.value;
    return DPMF_OK;
}

/*
 * ---- upper bounds from Renyi divergences ----
 *
 * Of order a = 1 + t the divergence of one step is ln M(t) / t, M(t) = E_P[e^(tL)]; composition adds. With K the upper
 * bound of n ln M(t), for every t > 0 (Canonne, Kamath and Steinke 2020, Proposition 12)
 *
 *     ln delta <= K(t) - t epsilon + t ln t - (1+t) ln(1+t),
 *
 * in the other direction epsilon = r + ln(1 - 1/a) - ln(delta a)/(a - 1) with r = K/t. The right-hand side is convex in
 * t; at its least, epsilon = K'(t) + ln(t/(1+t)) and ln delta = K - t K' - ln(1+t): one equation in t for either
 * question, solved by bisection of ln t. Any t gives a bound, so t needs no care; K does.
 *
 * The bound K: n times the quadrature of account/pair.c, plus its roundings, plus a proven bound on its error (account/pair.c),
 * plus 1e-13 of it for the arithmetic after it. The step is halved while what is added counts.
 */

static const double ADDED = 1e-12; /* part of ln M */

double account_rdp_cumulant_below(const account_pair *pair, double cut, double t) {
    enum { FINEST = 8 };
    const double n = (double)pair->compositions;
    double value = 0, added = INFINITY, off = INFINITY;
    for (int fineness = 1; fineness <= FINEST && !(off <= ADDED * fabs(value)); fineness *= 2) {
        const account_cumulant k = pair_cumulant(pair, cut, t, fineness);
        if (!isfinite(k.error)) break;
        /* M <= m e^error + off, so ln M <= ln m + error + off / m */
        const double enough = k.value + log(0.1 * ADDED * fabs(k.value));
        off = exp(pair_log_error(pair, cut, t, 0, fineness, enough) - k.value) * (1 + 1e-9);
        if (!(k.error + off < added)) continue;
        added = k.error + off;
        value = k.value + added;
    }
    if (!isfinite(added)) return INFINITY;
    return n * value * (1 + (value > 0 ? 1e-13 : -1e-13));
}

double account_rdp_cumulant(const account_pair *pair, double t) {
    return account_rdp_cumulant_below(pair, INFINITY, t);
}

/* The t at which the best epsilon (grows with t) or ln delta (falls) is the one given; orders where K fails are too large. */
static double best_order(const account_pair *pair, const account_question *q) {
    double low = -30, high = 60; /* ln t */
    for (int round = 0; round < 60 && high - low > 1e-7; round++) {
        const double middle = round == 0 ? 1 : 0.5 * (low + high);
        const double t = exp(middle), n = (double)pair->compositions;
        const account_cumulant k = pair_cumulant(pair, INFINITY, t, 1);
        /* epsilon and ln delta where order 1 + t is the best */
        const double epsilon = n * k.first - log1p(1 / t), log_delta = n * (k.value - t * k.first) - log1p(t);
        if (isfinite(k.error) && (q->of_epsilon ? log_delta > q->given : epsilon < q->given)) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return exp(low);
}

dpmf_status account_rdp_answer(const account_pair *pair, const account_question *q, double *out) {
    TRY(pair_check(pair));
    TRY(account_check_given(q));
    const double given = q->given, t = best_order(pair, q), k = account_rdp_cumulant(pair, t);
    if (q->of_epsilon) {
        /* t ln t - (1+t) ln(1+t) = -t ln(1 + 1/t) - ln(1+t), without cancellation */
        const double bound = (k - given - log1p(t)) / t - log1p(1 / t);
        *out = fmax(0, bound + 1e-14 * ((fabs(k) + fabs(given)) / t + log1p(1 / t)));
    } else {
        const double bound = k - t * given - t * log1p(1 / t) - log1p(t);
        *out = fmin(0, bound + 1e-14 * (fabs(k) + t * given + 1));
    }
    if (isnan(*out)) *out = account_worst(q);
    return DPMF_OK;
}
