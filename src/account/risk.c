/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The risks that a guarantee leaves, from its curve delta(epsilon): what a test can find out that sees every output of the run.
 *
 * Notation: P and Q are the laws of the outputs with a unit and without it; a test says "with" on a set S; FPR = alpha = Q(S),
 * TPR = P(S). delta(epsilon) is the larger of the two directions, for epsilon >= 0. In (Wasserman and Zhou 2010; Dong, Roth and Su 2022,
 * Proposition 2.12)
 *
 *     P(S) <= e^epsilon Q(S) + delta            TPR <= delta + e^epsilon alpha                          (below)
 *     Q(S') <= e^epsilon P(S') + delta          TPR <= 1 - e^-epsilon (1 - delta - alpha)               (above)
 *
 * every epsilon gives a bound, and the least over all epsilon is attained by the best test. So a finite number of epsilons
 * gives an upper bound, and an upper bound of delta gives one too. The first is convex in e^epsilon and the second in e^-epsilon, so
 * the search for the best epsilon cannot be misled by a second valley; below alpha = (1 - delta(0))/2, the fixed point of the curve, the
 * first is the smaller one.
 *
 *     advantage     max over S of TPR - FPR = delta(0), the total variation
 *     Bayes error   p = prior of "with": least p (1 - TPR) + (1-p) FPR = min(p, 1-p) (1 - delta(|ln((1-p)/p)|))
 *     mu            of a Gaussian mechanism whose curve is above this one where delta >= D:
 *                   delta(epsilon) <= delta_mu(epsilon) + D for all epsilon, hence TPR <= TPR_mu(FPR) + D for all tests
 *
 * Under sampling no mu below the unsampled one dominates for all epsilon: far out a single step in which the unit took part decides.
 * Hence D. Up to epsilon_D, delta(epsilon_D) <= D, a finite number of points is enough: between two of them delta is below its
 * chord in e^epsilon, because it is convex in it; delta_mu falls with epsilon; so on [u, v] it is enough that delta_mu(v) is at
 * least the chord's value at u. Cells are split where they need the largest mu, until that is near the largest mu at a point.
 *
 * A simulated delta holds with a confidence. The number of simulations is fixed beforehand, each has its own samples and an equal
 * share of the allowed failures, so that all of them hold together with the confidence, for any order of choosing them.
 *
 * Roundings: bounds are raised by 1e-13 of their value, which is more than the arithmetic after delta can lose.
 */
#include "account/question.h"

#include "base/special.h"

#include <math.h>
#include <string.h>

enum {
    POINTS_MAX = 1024,
    SIMULATIONS = 24,            /* of one request, that of epsilon for mu among them */
    FOR_MU = 6,                  /* of these, kept for mu */
    SIMULATED_SAMPLES = 1 << 20, /* of each: some seconds at a hundred steps */
    FIRST_POINTS = 8,
    CELLS = 24,       /* of an interval between two points, for mu */
    SPLITS_MAX = 40,  /* for mu */
    LOOKS_MAX = 24,   /* for one FPR */
    RATES_MAX = 1000, /* FPRs of one request */
};
static const double UP = 1 + 1e-13, NEAR = 1e-6, MU_NEAR = 2e-3;
static const double MARGIN = 2e-6; /* of a target: searches from other points may end at another epsilon */

typedef struct curve {
    account_request r;
    double sigma;
    int left;  /* points that may still be added */
    int asked; /* questions so far */
    int count;
    double epsilon[POINTS_MAX], delta[POINTS_MAX]; /* epsilon grows; delta: upper bounds */
    double needed[POINTS_MAX];                     /* mu of the interval from this point to the next; -1: not known */
    dpmf_certainty kind;
    const char *method;
} curve;

static int insert(curve *c, double epsilon, double delta) {
    int at = c->count;
    while (at > 0 && c->epsilon[at - 1] > epsilon)
        at--;
    const size_t rest = (size_t)(c->count - at) * sizeof(double);
    memmove(c->epsilon + at + 1, c->epsilon + at, rest);
    memmove(c->delta + at + 1, c->delta + at, rest);
    memmove(c->needed + at + 1, c->needed + at, rest);
    c->epsilon[at] = epsilon;
    /* delta falls: the value at a smaller epsilon is a bound as well */
    c->delta[at] = at > 0 ? fmin(delta, c->delta[at - 1]) : delta;
    c->needed[at] = -1;
    if (at > 0) c->needed[at - 1] = -1;
    c->count++;
    return at;
}

/* Answers one question with its own samples and its share of the failures, where it is a simulation. */
static dpmf_status ask(curve *c, int of_epsilon, double given, dpmf_privacy *out) {
    const dpmf_account_options held = c->r.options;
    dpmf_account_options *o = &c->r.options;
    if (c->r.simulated) {
        o->confidence = 1 - (1 - held.confidence) / SIMULATIONS;
        o->seed = held.seed + 0x9e3779b97f4a7c15u * (uint64_t)(c->asked + 1);
        if (held.samples == 0) o->samples = SIMULATED_SAMPLES;
    }
    const dpmf_status status = account_request_answer(&c->r, of_epsilon, c->sigma, given, out);
    c->r.options = held;
    c->left--;
    c->asked++;
    if (status == DPMF_OK && (c->method == NULL || out->kind != DPMF_EXACT)) {
        c->method = out->method;
        c->kind = out->kind;
    }
    return status;
}

/* Adds a point. Where none may be added, *at is the last one before it, whose delta is a bound there too. */
static dpmf_status look(curve *c, double epsilon, int *at) {
    dpmf_privacy found;
    int i = c->count - 1;
    while (i > 0 && c->epsilon[i] > epsilon)
        i--;
    *at = i;
    if ((i >= 0 && c->epsilon[i] == epsilon) || c->left <= 0) return DPMF_OK;
    TRY(base_progress(&c->r.options.run, "risks", -1));
    TRY(ask(c, 0, epsilon, &found));
    *at = insert(c, epsilon, fmin(found.delta, 1));
    return DPMF_OK;
}

/* ---- the Gaussian mechanism, in closed form ---- */

/* The x with ln Phi(x) = log_p, log_p <= ln(1/2): Newton's steps on ln Phi, which is concave, so that they come from one side. */
static double quantile(double log_p) {
    double x = -sqrt(-2 * log_p); /* ln Phi(x) <= -x^2/2 for x <= 0: this x is too large or right */
    for (int i = 0; i < 100; i++) {
        const double value = base_log_normal_cdf(x);
        const double slope = exp(-0.5 * x * x - 0.91893853320467274178 - value);
        const double next = x - (value - log_p) / slope;
        if (!(fabs(next - x) > 1e-15 * fabs(x))) break;
        x = next;
    }
    return x;
}

static double normal_quantile(double p) {
    return p <= 0.5 ? quantile(log(p)) : -quantile(log(1 - p));
}

static double gaussian_rate(double mu, double fpr) {
    const double x = normal_quantile(fpr) + mu;
    return fmin(base_normal_cdf(x + 1e-14 * (fabs(x) + mu)) * UP, 1);
}

/* ---- TPR at FPR ---- */

/* The bound that a point gives. */
static double rate_at(const curve *c, int i, double fpr, int above) {
    const double e = c->epsilon[i], d = c->delta[i];
    const double rate = above ? -expm1(-e) + exp(-e) * (d + fpr) : d + (e < 700 ? exp(e) : INFINITY) * fpr;
    return rate * UP;
}

static int best_point(const curve *c, double fpr, int above) {
    int best = 0;
    for (int i = 1; i < c->count; i++)
        if (rate_at(c, i, fpr, above) < rate_at(c, best, fpr, above)) best = i;
    return best;
}

/*
 * Where the parabola through the best point and its neighbours is least; but at least a twentieth of the wider interval away from the
 * best point, so that this interval gets shorter, or the least is beyond the new point.
 */
static double next_look(const double x[3], const double y[3]) {
    const double left = x[1] - x[0], right = x[2] - x[1], away = 0.05 * fmax(left, right);
    const double a = left * (y[1] - y[2]), b = right * (y[0] - y[1]);
    const double move = 0.5 * (right * b - left * a) / (a + b); /* NaN where the three are on a line */
    if (!(left > 0) || !(move > -left + away && move < right - away)) {
        const double part = isfinite(y[2]) ? 0.38 : 0.1;
        return left > right ? x[1] - 0.38 * left : x[1] + part * right;
    }
    if (fabs(move) >= away) return x[1] + move;
    return left > right ? x[1] - away : x[1] + away;
}

/* What the least can be below the best point: the lines through it and its neighbours are below a convex function beyond it. */
static double possible_gain(const double x[3], const double y[3]) {
    const double left = x[1] - x[0], right = x[2] - x[1];
    if (!(left > 0)) return (y[2] - y[1]) + 1e-3 * y[1] * right;
    return fmax((y[0] - y[1]) * right / left, (y[2] - y[1]) * left / right);
}

/* The best epsilon of the Gaussian mechanism with the same advantage, where the search begins. */
static double first_guess(const curve *c, double fpr, int above) {
    const double mu = account_gaussian_mu(0, log(fmin(fmax(c->delta[0], 1e-300), 0.999)));
    const double x = normal_quantile(fpr);
    return fmax(above ? mu * x + 0.5 * mu * mu : -mu * x - 0.5 * mu * mu, 1e-3 * mu);
}

static dpmf_status rate_of(curve *c, double fpr, int looks, int *at, double *out) {
    static const double around_guess[] = {0.85, 1, 1.18};
    const int above = fpr > 0.5 * (1 - c->delta[0]);
    const double guess = first_guess(c, fpr, above);
    const int end = looks < c->left ? c->left - looks : 0; /* of points left */
    for (int i = 0; i < 3 && guess < 700 && c->count < POINTS_MAX && c->left > end; i++)
        TRY(look(c, around_guess[i] * guess, at));
    for (int i = 0; i < LOOKS_MAX && c->left > end && c->count < POINTS_MAX; i++) {
        const int best = best_point(c, fpr, above), last = c->count - 1;
        const double value = rate_at(c, best, fpr, above);
        double to = 0.5;
        if (best == last && last > 0) {
            if (c->epsilon[last] > 700) break;
            to = 1.3 * c->epsilon[last];
        } else if (last > 0) {
            const int low = best > 0 ? best - 1 : 0;
            const double around[3] = {c->epsilon[low], c->epsilon[best], c->epsilon[best + 1]};
            const double values[3] = {rate_at(c, low, fpr, above), value, rate_at(c, best + 1, fpr, above)};
            /* only what is missing from 1 counts where the rate is near it */
            if (possible_gain(around, values) < NEAR * fmin(value, fmax(1 - value, NEAR))) break;
            if (around[2] - around[0] < 1e-7 * (1 + around[1])) break;
            const double logs[3] = {log(values[0]), log(values[1]), log(values[2])}; /* nearer to a parabola */
            to = next_look(around, above ? values : logs);
        }
        TRY(look(c, to, at));
    }
    *at = best_point(c, fpr, above);
    *out = fmin(rate_at(c, *at, fpr, above), 1);
    return DPMF_OK;
}

/* ---- mu ---- */

/* The mu that dominates from epsilon u to v if delta is at most `delta` at u. */
static double mu_of(double v, double delta) {
    return delta > 0 ? account_gaussian_mu(v, log(fmin(delta, 1))) * (1 + 1e-12) : 0;
}

static double mu_between(const curve *c, int i) {
    const double low = c->epsilon[i], width = c->epsilon[i + 1] - low;
    double most = 0;
    for (int k = 0; k < CELLS; k++) {
        const double u = width * k / CELLS, v = low + width * (k + 1) / CELLS;
        /* the chord in e^epsilon */
        const double part = width < 600 ? expm1(u) / expm1(width) : 0;
        most = fmax(most, mu_of(v, (c->delta[i] - part * (c->delta[i] - c->delta[i + 1])) * UP));
    }
    return most;
}

static dpmf_status find_mu(curve *c, double remainder, double *out) {
    dpmf_privacy far;
    int end;
    TRY(ask(c, 1, remainder, &far));
    if (!isfinite(far.epsilon)) {
        *out = INFINITY;
        return DPMF_OK;
    }
    const double most = far.epsilon;
    if (most > 0) {
        end = insert(c, most, remainder);
        for (int i = 1; i < FIRST_POINTS && c->left > 0; i++)
            TRY(look(c, most * i / FIRST_POINTS, &end));
    }
    for (int split = 0;; split++) {
        double at_points = 0, needed = 0;
        int worst = -1;
        for (int i = 0; i < c->count && c->epsilon[i] <= most; i++) {
            at_points = fmax(at_points, mu_of(c->epsilon[i], c->delta[i]));
            if (c->epsilon[i] == most) break;
            if (c->needed[i] < 0) c->needed[i] = mu_between(c, i);
            if (c->needed[i] <= needed) continue;
            needed = c->needed[i];
            worst = i;
        }
        *out = fmax(needed, at_points);
        if (worst < 0 || needed <= at_points * (1 + MU_NEAR) || split >= SPLITS_MAX || c->left <= 0) break;
        TRY(look(c, 0.5 * (c->epsilon[worst] + c->epsilon[worst + 1]), &end));
    }
    return DPMF_OK;
}

/* ---- the calls ---- */

dpmf_risk_options dpmf_risk_options_defaults(void) {
    return (dpmf_risk_options){.prior = 0.5, .remainder = 1e-6};
}

static dpmf_status check_rate(const char *name, double rate) {
    if (rate >= 1e-100 && rate < 1) return DPMF_OK;
    return base_fail(DPMF_ERROR_ARGUMENT, "%s %g, accepted 1e-100 to below 1", name, rate);
}

static dpmf_status check_risk(const dpmf_risk_options *o, const double *tpr) {
    if (o->count < 0 || o->count > RATES_MAX || (o->count > 0 && (o->fpr == NULL || tpr == NULL)))
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "%lld false positive rates, accepted 0 to %d, with room for as many answers",
                         (long long)o->count, RATES_MAX);
    for (int64_t i = 0; i < o->count; i++)
        TRY(check_rate("a false positive rate of", o->fpr[i]));
    if (!(o->prior > 0 && o->prior < 1))
        return base_fail(DPMF_ERROR_ARGUMENT, "prior %g, accepted: above 0, below 1", o->prior);
    if (!(o->remainder >= 1e-100 && o->remainder <= 0.1))
        return base_fail(DPMF_ERROR_ARGUMENT, "remainder %g, accepted 1e-100 to 0.1", o->remainder);
    return DPMF_OK;
}

static dpmf_status open_curve(double sigma, const dpmf_account_options *options, curve *c) {
    int at;
    TRY(account_check_sigma(sigma));
    c->sigma = sigma;
    c->count = 0;
    TRY(account_open(options, &c->r));
    c->r.question.run = &c->r.options.run;
    c->asked = 0;
    c->left = c->r.simulated ? SIMULATIONS - 1 : POINTS_MAX - 2; /* one question is epsilon, for mu */
    const dpmf_status status =
        c->r.options.unconditional
            ? base_fail(DPMF_ERROR_UNSUPPORTED, "risks need delta at several epsilons; a test that is a part of the "
                                                "mechanism is for one: accepted with a confidence")
            : look(c, 0, &at);
    if (status != DPMF_OK) account_close(&c->r);
    return status;
}

/* The looks for one FPR, of `rates` that are to come. */
static int looks_for(const curve *c, int64_t rates) {
    if (!c->r.simulated) return LOOKS_MAX;
    return c->left > FOR_MU ? (int)fmax(1, (double)(c->left - FOR_MU) / (double)rates) : 0;
}

static dpmf_status fill_risk(curve *c, const dpmf_risk_options *asked, double *tpr, dpmf_risk *out) {
    const double lesser = fmin(asked->prior, 1 - asked->prior);
    dpmf_privacy closed = account_privacy(&c->r, c->sigma, 0, 0);
    const int gaussian = c->kind == DPMF_EXACT && closed.total_mu > 0;
    int at, bayes;
    dpmf_risk found = {.advantage = c->delta[0], .prior = asked->prior};
    TRY(look(c, fabs(log((1 - asked->prior) / asked->prior)) * (1 - 4e-16), &bayes)); /* delta is larger before */
    /* delta is rounded absolutely, which counts where it is near 1 */
    found.bayes_error = lesser * fmax(1 - c->delta[bayes] - 4e-16, 0) * (1 - 1e-13);
    for (int64_t i = 0; i < asked->count; i++) {
        if (gaussian)
            tpr[i] = gaussian_rate(closed.total_mu, asked->fpr[i]);
        else
            TRY(rate_of(c, asked->fpr[i], looks_for(c, asked->count - i), &at, &tpr[i]));
    }
    found.mu = account_known_mu(&c->r, c->sigma) * (gaussian ? 1 : 1 + 1e-15);
    if (!gaussian) {
        double mu;
        TRY(find_mu(c, asked->remainder, &mu));
        if (mu < found.mu) found.remainder = asked->remainder;
        found.mu = fmin(mu, found.mu);
    }
    found.kind = gaussian ? DPMF_EXACT : DPMF_UPPER_BOUND;
    found.method = c->method;
    found.confidence = c->r.simulated ? c->r.options.confidence : 0;
    *out = found;
    return DPMF_OK;
}

dpmf_status dpmf_account_risk(double sigma, const dpmf_account_options *options, const dpmf_risk_options *asked,
                              double *tpr, dpmf_risk *out) {
    const dpmf_risk_options o = asked == NULL ? dpmf_risk_options_defaults() : *asked;
    curve c = {.kind = DPMF_EXACT};
    dpmf_risk found;
    TRY(check_risk(&o, tpr));
    TRY(open_curve(sigma, options, &c));
    const dpmf_status status = fill_risk(&c, &o, tpr, &found);
    account_close(&c.r);
    if (status == DPMF_OK) *out = found;
    return status;
}

/*
 * Calibration. TPR <= T at FPR = F holds if some epsilon has delta(epsilon) <= T - e^epsilon F: a calibration for (epsilon, delta). The
 * best epsilon is that of the best test at the sigma that is found; a few rounds settle both, and every round's sigma is enough.
 */

/* The risk asked again, as a reader would, until its answer is at most the target. */
static dpmf_status confirm_rate(double tpr, double fpr, const dpmf_account_options *options, double *sigma) {
    double more = 1e-12;
    for (int i = 0; i < 60; i++, more *= 2) {
        curve c = {.kind = DPMF_EXACT};
        double rate = 1;
        int at;
        TRY(open_curve(*sigma, options, &c));
        const dpmf_status status = rate_of(&c, fpr, LOOKS_MAX, &at, &rate);
        account_close(&c.r);
        TRY(status);
        if (rate <= tpr) return DPMF_OK;
        *sigma *= 1 + more;
    }
    return base_fail(DPMF_ERROR_NUMERICAL, "a true positive rate of %g at %g: the account of each sigma finds more",
                     tpr, fpr);
}

dpmf_status dpmf_calibrate_risk(double tpr, double fpr, const dpmf_account_options *options, dpmf_privacy *out) {
    enum { ROUNDS = 12 };
    dpmf_privacy best = {.sigma = INFINITY};
    TRY(check_rate("a false positive rate of", fpr));
    TRY(check_rate("a true positive rate of", tpr));
    if (!(tpr > fpr * (1 + 1e-9)))
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "a true positive rate of %g at a false positive rate of %g, accepted: above it, below 1", tpr,
                         fpr);
    /* the mirror image of a test has the rates 1 - TPR and 1 - FPR, and the curve is symmetric */
    const int mirrored = fpr + tpr > 1;
    const double room = MARGIN * fmin(tpr, 1 - tpr);
    const double low = mirrored ? 1 - (tpr - 2 * room) : fpr, high = mirrored ? 1 - fpr : tpr - 2 * room;
    const double z = -normal_quantile(low), mu = z + normal_quantile(high), most = log(high / low);
    double epsilon = fmin(fmax(mu * z - 0.5 * mu * mu, 0), 0.98 * most);
    {
        account_request r;
        TRY(account_open(options, &r));
        const int simulated = r.simulated;
        account_close(&r);
        if (simulated)
            return base_fail(DPMF_ERROR_UNSUPPORTED,
                             "a target for risks needs an account that is proven: accepted without simulation");
    }
    for (int i = 0; i < ROUNDS; i++) {
        dpmf_privacy found;
        curve c = {.kind = DPMF_EXACT};
        double rate = 0;
        int at = 0;
        TRY(dpmf_calibrate_sigma(epsilon, high - exp(epsilon) * low, options, &found));
        const double gain = best.sigma / found.sigma - 1;
        if (gain > 0) best = found;
        if (gain < 1e-6) break;
        TRY(open_curve(found.sigma, options, &c));
        const dpmf_status status = rate_of(&c, low, LOOKS_MAX, &at, &rate);
        account_close(&c.r);
        TRY(status);
        epsilon = fmin(c.epsilon[at], most - 1e-6 * (most - epsilon));
    }
    TRY(confirm_rate(tpr - room, fpr, options, &best.sigma));
    *out = best;
    return DPMF_OK;
}

/* ---- in sentences ---- */

size_t dpmf_risk_statement(const dpmf_risk *risk, const dpmf_risk_options *asked, const double *tpr, const char *unit,
                           char *out, size_t size) {
    base_text t = {.out = out, .size = size};
    const char *who = unit != NULL && account_unit_check(unit) == DPMF_OK ? unit : "unit";
    if (size > 0) out[0] = 0;
    base_text_add(&t,
                  "Risk for one %s: a test sees all of these outputs, knows all other data, and decides if the "
                  "outputs come from "
                  "the data set or from its neighbour. ",
                  who);
    for (int64_t i = 0; asked != NULL && i < asked->count; i++)
        base_text_add(
            &t, "If it is wrong for at most %.4g of the neighbours, it is right for at most %.4g of the data sets. ",
            base_safe_digits(asked->fpr[i], 4, -1), base_safe_digits(tpr[i], 4, 1));
    base_text_add(&t,
                  "Its advantage, the first rate subtracted from the second, is at most %.4g at any rate. With a prior "
                  "probability of "
                  "%.4g it errs with probability %.4g at least. ",
                  base_safe_digits(risk->advantage, 4, 1), risk->prior, base_safe_digits(risk->bayes_error, 4, -1));
    base_text_add(&t, "The trade-off between both rates is that of Gaussian privacy with mu = %.4g, or better",
                  base_safe_digits(risk->mu, 4, 1));
    if (risk->remainder > 0)
        base_text_add(&t, ", apart from at most %.4g of true positives", base_safe_digits(risk->remainder, 4, 1));
    base_text_add(&t, risk->kind == DPMF_EXACT ? " (exact)" : " (upper bounds)");
    if (risk->confidence > 0)
        base_text_add(&t, ". All of these figures together hold with probability %.6g over the simulation",
                      base_safe_digits(risk->confidence, 6, -1));
    base_text_add(&t, ".\n");
    return t.length;
}
