/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The best of a random number K of runs (Papernot and Steinke 2022), as (epsilon, delta).
 *
 * With e(l) the Renyi divergence of order l of one run, the larger of both directions, that of the best of K is at most
 *
 *     truncated negative binomial (Theorem 2, for every l' >= 1)
 *         e(l) + (1 + eta) ((1 - 1/l') e(l') + ln(1/gamma)/l') + ln E[K] / (l - 1)
 *     Poisson (Theorem 6, d the delta of one run at epsilon ln(1 + 1/(l-1)))
 *         e(l) + mean d + ln mean / (l - 1)
 *
 * and epsilon at delta follows as in account/gaussian.c. Any orders give a bound, so that the searches for l and l' need no
 * care: they walk a grid of ln(l - 1) and close in on its best point. The answer is computed at the order found, with
 * the bounds of account/gaussian.c and the certified d. One run for certain (gamma = 1) is that run.
 */
#include "account/question.h"

#include "account/capped/counted.h"
#include "base/status.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char METHOD[] = "the best of a random number of runs, Renyi divergences at the best order";
static const char METHOD_QUADRATURE[] =
    "the best of a random number of runs, Renyi divergences at the best order, the proven error of quadrature added";

static dpmf_status refuse_text(const char *text) {
    char shown[64];
    return base_fail(DPMF_ERROR_ARGUMENT,
                     "tuning '%s', accepted: poisson:MEAN (above 0, to 1e9), negative-binomial:ETA,GAMMA (ETA above "
                     "-1, to 1e6, GAMMA above 0, to 1)",
                     base_show(text, strlen(text), shown));
}

static int is_valid(const dpmf_tuning *t) {
    if (t->kind == DPMF_TUNING_POISSON) return t->mean > 0 && t->mean <= 1e9;
    return t->kind == DPMF_TUNING_NEGATIVE_BINOMIAL && t->eta > -1 && t->eta <= 1e6 && t->gamma >= 1e-12 &&
           t->gamma <= 1;
}

dpmf_status dpmf_tuning_parse(const char *text, dpmf_tuning *out) {
    static const char poisson[] = "poisson:", binomial[] = "negative-binomial:";
    dpmf_tuning t = {0};
    if (text == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "the tuning's text is NULL");
    if (strncmp(text, poisson, sizeof poisson - 1) == 0) {
        const char *mean = text + sizeof poisson - 1;
        if (!base_parse_double(mean, strlen(mean), &t.mean)) return refuse_text(text);
    } else if (strncmp(text, binomial, sizeof binomial - 1) == 0) {
        const char *eta = text + sizeof binomial - 1;
        const size_t length = strcspn(eta, ",");
        t.kind = DPMF_TUNING_NEGATIVE_BINOMIAL;
        if (eta[length] != ',' || !base_parse_double(eta, length, &t.eta) ||
            !base_parse_double(eta + length + 1, strlen(eta + length + 1), &t.gamma))
            return refuse_text(text);
    } else {
        return refuse_text(text);
    }
    if (!is_valid(&t)) return refuse_text(text);
    *out = t;
    return DPMF_OK;
}

double dpmf_tuning_runs(const dpmf_tuning *t) {
    if (t->kind == DPMF_TUNING_POISSON) return t->mean;
    if (t->gamma == 1) return 1;
    const double log_gamma = log(t->gamma);
    if (t->eta == 0) return (1 / t->gamma - 1) / -log_gamma;
    return t->eta * (1 - t->gamma) / (t->gamma * -expm1(t->eta * log_gamma));
}

typedef struct best {
    account_question run;
    const dpmf_tuning *tuning;
    double runs; /* E[K] */
    double paid; /* negative binomial: (1 + eta) x the least over l' */
    double log_delta;
    int certified; /* 0: for the search */
} best;

/* Of order 1 + t; an upper bound. */
static double renyi(const account_question *c, double t) {
    const int replaced = c->adjacency == DPMF_ADJACENCY_REPLACE_ONE;
    account_pair pair = {.sigma = c->sigma, .probability = c->probability, .compositions = c->compositions};
    if (c->probability >= 1) {
        const double mu = account_unsampled_mu(c);
        return 0.5 * (1 + t) * mu * mu * (1 + 1e-15);
    }
    pair.direction = replaced ? ACCOUNT_REPLACE : ACCOUNT_REMOVE;
    double k = account_rdp_cumulant(&pair, t);
    if (!replaced) {
        pair.direction = ACCOUNT_ADD;
        k = fmax(k, account_rdp_cumulant(&pair, t));
    }
    return isnan(k) ? INFINITY : k / t;
}

/* (1 - 1/l) e(l) + ln(1/gamma)/l at l = 1 + t. */
static dpmf_status paid_at(const best *b, double t, double *out) {
    *out = (t * renyi(&b->run, t) - log(b->tuning->gamma)) / (1 + t);
    return DPMF_OK;
}

static dpmf_status epsilon_at(const best *b, double t, double *out) {
    double extra = b->paid, log_d = 0;
    if (b->tuning->kind == DPMF_TUNING_POISSON) {
        account_question at = b->run;
        account_answer found = {0};
        at.given = log1p(1 / t);
        if (b->certified) {
            TRY(account_answer_question(&at, &found));
            log_d = found.value;
        } else {
            TRY(account_search(&at, &log_d));
        }
        extra = b->tuning->mean * exp(fmin(0, log_d));
    }
    const double divergence = renyi(&b->run, t) + extra + log(b->runs) / t;
    const double bound = divergence - (b->log_delta + log1p(t)) / t - log1p(1 / t);
    *out = fmax(0, bound + 1e-13 * (fabs(divergence) + fabs(b->log_delta) / t + 1));
    return DPMF_OK;
}

typedef dpmf_status (*objective)(const best *b, double t, double *out);

/* The t with the least value that a walk over ln t finds. */
static dpmf_status find_order(const best *b, objective of, double *out) {
    static const double LOW = -8, HIGH = 14, STEP = 0.5, GOLDEN = 0.6180339887498949;
    double at = LOW, least = INFINITY;
    for (double x = LOW; x <= HIGH; x += STEP) {
        double value = INFINITY;
        TRY(base_progress(b->run.run, "orders", (x - LOW) / (HIGH - LOW)));
        TRY(of(b, exp(x), &value));
        if (!(value < least)) continue;
        least = value;
        at = x;
    }
    double low = at - STEP, high = at + STEP;
    for (int i = 0; i < 24; i++) {
        const double left = high - GOLDEN * (high - low), right = low + GOLDEN * (high - low);
        double value_left = INFINITY, value_right = INFINITY;
        TRY(of(b, exp(left), &value_left));
        TRY(of(b, exp(right), &value_right));
        if (value_left < value_right)
            high = right;
        else
            low = left;
        if (fmin(value_left, value_right) < least) {
            least = fmin(value_left, value_right);
            at = value_left < value_right ? left : right;
        }
    }
    *out = exp(at);
    return DPMF_OK;
}

static dpmf_status check_question(const account_request *r) {
    if (!r->simulated && r->question.picks == 0 && !account_cap_binds(&r->question) && !counted_applies(&r->question) &&
        !(r->question.overlap > 1) && (r->options.engine == DPMF_ENGINE_AUTO || r->options.engine == DPMF_ENGINE_RDP))
        return DPMF_OK;
    return base_fail(DPMF_ERROR_UNSUPPORTED,
                     "tuning needs the Renyi divergences of a run: sampling none, poisson and block-cyclic without a "
                     "cap, engine auto or rdp");
}

dpmf_status dpmf_account_tuning(double sigma, double delta, const dpmf_account_options *options,
                                const dpmf_tuning *tuning, dpmf_privacy *out) {
    account_request r;
    dpmf_privacy answer;
    double epsilon = INFINITY;
    dpmf_status status = DPMF_OK;
    if (tuning == NULL || !is_valid(tuning)) return refuse_text(tuning == NULL ? "NULL" : "numbers out of range");
    if (tuning->kind == DPMF_TUNING_NEGATIVE_BINOMIAL && tuning->gamma == 1)
        return dpmf_account_epsilon(sigma, delta, options, out);
    TRY(account_check_sigma(sigma));
    TRY(account_check_delta(delta));
    TRY(account_open(options, &r));
    TRY_DONE(check_question(&r));
    r.question.sigma = sigma * r.options.sigma_unit;
    best b = {.run = r.question, .tuning = tuning, .runs = dpmf_tuning_runs(tuning), .log_delta = log(delta)};
    if (r.question.probability > 0) {
        double t = 1;
        if (b.tuning->kind == DPMF_TUNING_NEGATIVE_BINOMIAL) {
            TRY_DONE(find_order(&b, paid_at, &t));
            TRY_DONE(paid_at(&b, t, &b.paid));
            b.paid *= 1 + b.tuning->eta;
        }
        TRY_DONE(find_order(&b, epsilon_at, &t));
        b.certified = 1;
        TRY_DONE(epsilon_at(&b, t, &epsilon));
    } else
        epsilon = 0;
    answer = account_privacy(&r, sigma, epsilon, delta);
    answer.mu = answer.rho = answer.total_mu = answer.total_rho = 0; /* those of one run, which is not the question */
    answer.kind = DPMF_UPPER_BOUND;
    answer.method = r.question.probability < 1 ? METHOD_QUADRATURE : METHOD;
    *out = answer;
done:
    account_close(&r);
    return status;
}
