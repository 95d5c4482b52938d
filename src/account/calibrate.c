/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calibration: the least sigma, the most compositions or the largest sampling probability within (epsilon, delta).
 *
 * One coordinate y, in which privacy grows, serves all three:  ln sigma,  -ln compositions,  -ln probability. ln
 * delta(epsilon; y) falls with y. Its crossing with ln delta is found for the bound with a coarse slack, then closed in
 * on with the wanted one by the slope that has been seen. The returned value has itself passed the certificate, so it
 * is never on the wrong side; its distance on the right side is the engine's slack.
 */
#include "account/question.h"

#include <math.h>

typedef enum unknown { SIGMA = 0, COMPOSITIONS, PROBABILITY } unknown;

typedef struct search {
    account_request *request; /* its question, of ln delta at epsilon, moves with y */
    account_question *question;
    unknown unknown;
    double delta, log_delta;
    double slope;      /* of ln delta at the crossing, d ln delta / dy < 0 */
    double resolution; /* of y, in the coarse search */
    double wanted;     /* how near to the crossing the answer must be, in y */
    double least;      /* y: nothing below it is accepted */
} search;

static void place(search *s, double y) {
    if (s->unknown == SIGMA) s->question->sigma = exp(y);
    if (s->unknown == COMPOSITIONS)
        s->question->compositions =
            (int64_t)fmin(fmax(1, floor(exp(-y) * (1 + 1e-12))), (double)ACCOUNT_COMPOSITIONS_MAX);
    if (s->unknown == PROBABILITY) s->question->probability = fmin(1, exp(-y));
}

/* Computes the coarse bound's excess over ln delta; <= 0: private enough. */
static dpmf_status excess_at(search *s, double y, double *out) {
    double log_delta = 0;
    place(s, y);
    TRY(base_progress(s->question->run, "calibrating", -1));
    TRY(account_search(s->question, &log_delta));
    *out = fmax(log_delta, -1e300) - s->log_delta;
    return DPMF_OK;
}

enum { SEARCH_MAX = 200 }; /* bisection alone needs 60 */

/* Tolerances of y: with slack, the accuracy of the coarse bound; where exact, enough to separate 1e12 from 1e12 + 1. */
static const double COARSE_RESOLUTION = 2e-3, EXACT_RESOLUTION = 1e-14;

/* Illinois: regula falsi that halves the value of an end which stays; between low (excess > 0) and high (<= 0). */
static dpmf_status narrow(search *s, double low, double at_low, double high, double at_high, double *out) {
    double weight_low = at_low, weight_high = at_high;
    s->slope = fmin((at_high - at_low) / (high - low), -1e-300);
    for (int i = 0; i < SEARCH_MAX && high - low > s->resolution; i++) {
        double y = (low * weight_high - high * weight_low) / (weight_high - weight_low), value = 0;
        double margin = 0.02 * (high - low);
        if (!(y > low + margin && y < high - margin) || i % 4 == 3)
            y = i % 4 == 3 ? 0.5 * (low + high) : fmin(fmax(y, low + margin), high - margin);
        TRY(excess_at(s, y, &value));
        if (value > 0) {
            s->slope = fmin((value - at_high) / (y - high), -1e-300);
            low = y;
            at_low = weight_low = value;
            weight_high *= 0.5;
        } else {
            s->slope = fmin((value - at_low) / (y - low), -1e-300);
            high = y;
            at_high = weight_high = value;
            weight_low *= 0.5;
        }
        if (at_high > -s->resolution) break; /* y is at least as near as that: ln delta moves faster than y */
    }
    *out = high;
    return DPMF_OK;
}

/* Many steps are about mu-Gaussian with mu = q sqrt(n (e^(1/sigma^2) - 1)) (Dong, Roth and Su 2022, Section 5). */
static double guess(const search *s) {
    const account_question *c = s->question;
    double mu = account_gaussian_mu(c->given, s->log_delta), n = (double)c->compositions, q = c->probability;
    double sigma = c->adjacency == DPMF_ADJACENCY_REPLACE_ONE ? 0.5 * c->sigma : c->sigma;
    if (c->picks > 0) n *= (double)c->bins; /* Poisson sampling of the same rate */
    if (s->unknown == SIGMA) {
        double unit = c->adjacency == DPMF_ADJACENCY_REPLACE_ONE ? 2 : 1;
        return log(unit) - 0.5 * log(log1p(mu * mu / (q * q * n)));
    }
    double growth = expm1(fmin(1 / (sigma * sigma), 600));
    if (s->unknown == COMPOSITIONS) return -log(mu * mu / (q * q * growth));
    return -log(mu / sqrt(n * growth));
}

/* Finds the least y in [floor_, most] that is private enough by the coarse bound; `most` if none is. */
static dpmf_status cross(search *s, double floor_, double most, double *out) {
    double y = fmin(fmax(guess(s), floor_), most), at = 0, other = 0, step = 0.05;
    TRY(excess_at(s, y, &at));
    int enough = at <= 0;
    for (;;) {
        double next = enough ? fmax(y - step, floor_) : fmin(y + step, most);
        if (next == y) { /* the end of what is accepted */
            *out = y;
            return DPMF_OK;
        }
        TRY(excess_at(s, next, &other));
        if ((other <= 0) != enough) {
            if (enough) return narrow(s, next, other, y, at, out);
            return narrow(s, y, at, next, other, out);
        }
        y = next;
        at = other;
        step *= 2;
    }
}

enum { CERTIFY_MAX = 12 };

static int passes(const search *s, const account_answer *found) {
    return found->value <= s->log_delta;
}

/* Moves y to where the fine bound itself meets ln delta, by Newton's steps aimed a little to the safe side. */
static dpmf_status certify_crossing(search *s, double y, double most, double *out, account_answer *found, int *ok) {
    double before = 0, value_before = 0, failed = -INFINITY;
    *ok = 0;
    for (int i = 0; i < CERTIFY_MAX && y <= most; i++) {
        account_answer here;
        place(s, y);
        TRY(base_progress(s->question->run, "certifying", -1));
        TRY(account_answer_question(s->question, &here));
        double excess = fmax(here.value, -1e300) - s->log_delta;
        if (passes(s, &here) && (!*ok || y < *out)) {
            *ok = 1;
            *out = y;
            *found = here;
        }
        if (!passes(s, &here)) failed = fmax(failed, y);
        if (i > 0 && y != before && isfinite((excess - value_before) / (y - before)))
            s->slope = fmin((excess - value_before) / (y - before), 0.2 * s->slope);
        before = y;
        value_before = excess;
        if (*ok && *out <= s->least) break;
        double away = -excess / s->slope; /* to the crossing; negative: y may fall */
        if (*ok && (s->wanted == 0 || *out - fmax(failed, y + away) <= s->wanted)) break;
        if (*ok && i >= 5) break;
        double step = away + 0.3 * s->wanted;
        if (!passes(s, &here)) step = fmax(step, (0.5 + i) * fmax(s->wanted, 1e-13));
        double next = y + fmin(fmax(step, -1), 1);
        if (next <= failed) next = 0.5 * (failed + (*ok ? *out : y + s->wanted));
        if (s->unknown == COMPOSITIONS && !passes(s, &here)) { /* one less at least */
            double less = (double)s->question->compositions - 1;
            if (less < 1) break;
            next = fmax(next, -log(less) - 1e-13);
        }
        y = fmax(next, s->least);
    }
    return DPMF_OK;
}

static search search_of(account_request *r, unknown what, double epsilon, double delta) {
    search s = {.request = r,
                .question = &r->question,
                .unknown = what,
                .least = -INFINITY,
                .delta = delta,
                .log_delta = log(delta),
                .slope = -1};
    s.question->relative = r->default_slack ? 1.6 * r->options.slack : r->options.slack; /* speed: still below 1e-3 */
    s.question->absolute = 1e-3 * s.question->relative; /* slack in sigma is relative */
    s.question->step_max = 0;
    s.question->of_epsilon = 0;
    s.question->given = epsilon;
    const int exact = r->question.probability >= 1 && r->options.engine == DPMF_ENGINE_AUTO && what == COMPOSITIONS;
    s.resolution = exact ? EXACT_RESOLUTION : COARSE_RESOLUTION;
    s.wanted = exact ? 0 : 0.1 * r->options.slack;
    return s;
}

static const double SIGMA_LEAST = 1e-3; /* the engines of sampling do not go below it: epsilon is about 1e6 there */

static void answer_with(const search *s, double sigma, const account_answer *found, dpmf_privacy *out) {
    *out = account_privacy(s->request, sigma, s->question->given, s->delta);
    out->kind = found->kind;
    out->method = found->method;
    out->slack_met = found->met;
}

static dpmf_status sigma_of(account_request *r, double epsilon, double delta, dpmf_privacy *out) {
    search s = search_of(r, SIGMA, epsilon, delta);
    account_answer found = {0};
    double y = 0;
    int ok = 0;
    if (s.question->probability <= 0)
        return base_fail(DPMF_ERROR_ARGUMENT, "sampling probability 0: no data are used, and no noise is needed");
    s.question->sigma = 1;
    double gaussian = account_unsampled_mu(s.question) / account_gaussian_mu(epsilon, s.log_delta);
    double high = log(gaussian);
    if (s.question->probability >= 1 && s.question->engine == DPMF_ENGINE_AUTO && !account_cap_binds(s.question)) {
        place(&s, high);
        found = (account_answer){s.log_delta, DPMF_EXACT, "Gaussian mechanism, closed form", 1};
        answer_with(&s, gaussian / r->options.sigma_unit, &found, out);
        return DPMF_OK;
    }
    TRY(cross(&s, log(SIGMA_LEAST), fmax(high + 1e-9, log(SIGMA_LEAST)), &y));
    TRY(certify_crossing(&s, y, high + 1e-6, &y, &found, &ok));
    if (!ok) { /* the closed form without sampling always holds */
        y = high;
        found = (account_answer){s.log_delta, DPMF_UPPER_BOUND, "Gaussian mechanism without the sampling", 0};
        if (s.question->engine == DPMF_ENGINE_RDP)
            return base_fail(DPMF_ERROR_UNSUPPORTED, "engine rdp finds no sigma for epsilon %g, delta %g", epsilon,
                             delta);
    }
    place(&s, y);
    answer_with(&s, s.question->sigma / r->options.sigma_unit, &found, out);
    return DPMF_OK;
}

static dpmf_status search_sigma(double epsilon, double delta, const dpmf_account_options *options, dpmf_privacy *out) {
    account_request r;
    dpmf_status status = DPMF_OK;
    TRY(account_open(options, &r));
    TRY_DONE(r.simulated ? account_sampled_sigma(&r, epsilon, delta, out) : sigma_of(&r, epsilon, delta, out));
done:
    account_close(&r);
    return status;
}

/*
 * The search asks for delta at epsilon. A reader of the answer asks for epsilon at delta, which is computed on another grid, with
 * other samples or with another rounding, and may be a little more than the epsilon of the search. So that question is asked
 * here too, and sigma rises until its answer is at most epsilon. More noise never needs a larger epsilon, so that what was proven
 * for less noise still holds. A test that is a part of the mechanism is not asked again: its samples are for one question.
 */
static dpmf_status look_back(double epsilon, double delta, const dpmf_account_options *options, dpmf_privacy *found) {
    enum { LOOKS_BACK = 60 };
    double least = 0x1p-52; /* of the next step, relative */
    for (int i = 0; i < LOOKS_BACK; i++, least *= 2) {
        dpmf_privacy back;
        TRY(dpmf_account_epsilon(found->sigma, delta, options, &back));
        if (back.epsilon <= epsilon) {
            const dpmf_privacy before = *found;
            *found = back;
            found->epsilon = epsilon;
            found->kind = before.kind;
            found->method = before.method;
            found->confidence = before.confidence;
            found->slack_met = before.slack_met;
            return DPMF_OK;
        }
        const double excess = epsilon > 0 ? 1.05 * log(back.epsilon / epsilon) : 0;
        found->sigma *= 1 + fmax(fmin(excess, 0.1), least);
    }
    return base_fail(DPMF_ERROR_NUMERICAL, "epsilon %g, delta %g: the account of each sigma up to %g finds more",
                     epsilon, delta, found->sigma);
}

dpmf_status dpmf_calibrate_sigma(double epsilon, double delta, const dpmf_account_options *options, dpmf_privacy *out) {
    dpmf_privacy found = {0};
    TRY(account_check_epsilon(epsilon));
    TRY(account_check_delta(delta));
    TRY(search_sigma(epsilon, delta, options, &found));
    if (options == NULL || !options->unconditional) TRY(look_back(epsilon, delta, options, &found));
    *out = found;
    return DPMF_OK;
}

static dpmf_status open_budget(double sigma, double epsilon, double delta, const dpmf_account_options *options,
                               account_request *r) {
    TRY(account_check_sigma(sigma));
    TRY(account_check_epsilon(epsilon));
    TRY(account_check_delta(delta));
    if (options != NULL && options->strategy != NULL)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "a budget of steps or probability takes no strategy: a strategy has a fixed number of steps");
    TRY(account_open(options, r));
    const int grouped = options != NULL && options->group > 1 && r->question.group == 0; /* its steps count G times */
    if (!r->simulated && r->question.picks == 0 && (!grouped || dpmf_sampling_is_none(&r->options.sampling)))
        return DPMF_OK;
    account_close(r);
    return base_fail(
        DPMF_ERROR_UNSUPPORTED,
        "balls-in-bins, min-sep and allocation sampling, and groups under block-cyclic sampling: no search over "
        "steps or probability");
}

static dpmf_status budget(account_request *r, unknown what, double sigma, double epsilon, double delta, double high,
                          double low, search *s, dpmf_privacy *out) {
    account_answer found = {0};
    double y = 0;
    int ok = 0;
    *s = search_of(r, what, epsilon, delta);
    s->question->sigma = sigma * r->options.sigma_unit;
    s->least = low;
    TRY(cross(s, low, high, &y));
    TRY(certify_crossing(s, y, high, &y, &found, &ok));
    if (!ok)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "sigma %g: epsilon %g, delta %g is exceeded %s", sigma, epsilon, delta,
                         what == COMPOSITIONS ? "by the first step" : "at any sampling probability from 1e-12 up");
    place(s, y);
    answer_with(s, sigma, &found, out);
    return DPMF_OK;
}

dpmf_status dpmf_calibrate_compositions(double sigma, double epsilon, double delta, const dpmf_account_options *options,
                                        int64_t *compositions, dpmf_privacy *out) {
    account_request r;
    search s;
    dpmf_status status = DPMF_OK;
    TRY(open_budget(sigma, epsilon, delta, options, &r));
    TRY_DONE(budget(&r, COMPOSITIONS, sigma, epsilon, delta, 0, -log((double)ACCOUNT_COMPOSITIONS_MAX), &s, out));
    *compositions = s.question->compositions * account_sampling_blocks(&r.options.sampling);
done:
    account_close(&r);
    return status;
}

dpmf_status dpmf_calibrate_probability(double sigma, double epsilon, double delta, const dpmf_account_options *options,
                                       double *probability, dpmf_privacy *out) {
    account_request r;
    search s;
    dpmf_status status = DPMF_OK;
    TRY(open_budget(sigma, epsilon, delta, options, &r));
    if (dpmf_sampling_is_none(&r.options.sampling) || r.question.draws > 0)
        TRY_DONE(base_fail(DPMF_ERROR_ARGUMENT, "sampling %s has no probability; use poisson or block-cyclic",
                           dpmf_sampling_describe(r.options.sampling.kind)->name));
    TRY_DONE(budget(&r, PROBABILITY, sigma, epsilon, delta, -log(1e-12), 0, &s, out));
    *probability = s.question->probability / (double)account_sampling_blocks(&r.options.sampling);
done:
    account_close(&r);
    return status;
}

/*
 * ---- the cap ----
 *
 * The least M for which sigma (1 + cost), sigma the least one without a cap, is still within (epsilon, delta) when batches
 * hold at most M units. More room never hurts, so M is bisected for, in standard deviations above the expected batch first: the search
 * evaluates delta some ten times and does not calibrate as often. The returned M has itself passed.
 */

static const double CAP_COST = 1e-3;

typedef struct cap_search {
    dpmf_account_options options;
    double sigma, epsilon, delta;
} cap_search;

static dpmf_status enough_at(cap_search *s, int64_t cap, int *enough) {
    dpmf_privacy found;
    s->options.sampling.cap = cap;
    TRY(dpmf_account_delta(s->sigma, s->epsilon, &s->options, &found));
    *enough = found.delta <= s->delta;
    return DPMF_OK;
}

static dpmf_status least_cap(cap_search *s, double mean, int64_t most, int64_t *out) {
    const double deviation = sqrt(mean) + 1;
    int64_t low = (int64_t)mean, high = most; /* low: never tried; high: no cap at all */
    int enough = 0;
    if (low < 0) low = 0;
    for (double step = 5; mean + step * deviation < (double)most; step *= 1.5) {
        const int64_t next = (int64_t)ceil(mean + step * deviation);
        TRY(enough_at(s, next, &enough));
        *(enough ? &high : &low) = next;
        if (enough) break;
    }
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        TRY(enough_at(s, middle, &enough));
        *(enough ? &high : &low) = middle;
    }
    *out = high;
    return DPMF_OK;
}

dpmf_status account_calibrate_cap(double epsilon, double delta, double cost, const dpmf_account_options *options,
                                  int64_t *cap, dpmf_privacy *out) {
    cap_search s = {
        .options = options == NULL ? dpmf_account_options_defaults() : *options, .epsilon = epsilon, .delta = delta};
    dpmf_privacy found;
    int64_t least = 0;
    const dpmf_sampling *how = &s.options.sampling;
    if (cost == 0) cost = CAP_COST;
    if (!(cost > 0 && cost <= 1))
        return base_fail(DPMF_ERROR_ARGUMENT, "a cap that costs %g of sigma, accepted: above 0, to 1", cost);
    TRY(account_sampling_check(how));
    const int64_t units = s.options.units > 0 ? s.options.units : how->units;
    if (!account_sampling_composes(how) || account_sampling_draws(how, NULL) > 0 || units < 2)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "a cap is found for poisson and block-cyclic sampling of at least 2 units");
    const int64_t blocks = account_sampling_blocks(how);
    s.options.batch_cap = s.options.sampling.cap = 0;
    s.options.units = s.options.sampling.units = 0;
    TRY(dpmf_calibrate_sigma(epsilon, delta, &s.options, &found));
    s.options.sampling.units = units;
    s.sigma = found.sigma * (1 + cost);
    TRY(least_cap(&s, (double)units * fmin(1 / (double)blocks, how->probability), (units - 1) / blocks + 1, &least));
    s.options.sampling.cap = least;
    if (out != NULL) TRY(dpmf_calibrate_sigma(epsilon, delta, &s.options, out));
    *cap = least;
    return DPMF_OK;
}
