/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accounting as it is asked for: epsilon from sigma, delta from sigma, rho. The question is opened (account/question.c)
 * and answered by composition (account/composed.c) or by simulation (account/sampled.c).
 */
#include "account/question.h"

#include <math.h>

static void take_answer(const account_answer *found, dpmf_privacy *p) {
    p->kind = found->kind;
    p->method = found->method;
    p->slack_met = found->met;
}

dpmf_status dpmf_account_epsilon(double sigma, double delta, const dpmf_account_options *options, dpmf_privacy *out) {
    account_question q;
    account_answer found;
    dpmf_privacy answer;
    dpmf_status status = DPMF_OK;
    TRY(account_check_sigma(sigma));
    TRY(account_check_delta(delta));
    TRY(account_question_open(options, &q));
    answer = account_question_answer(&q, sigma, INFINITY, delta);
    if (q.sampled) {
        TRY_DONE(account_sampled_epsilon(&q, sigma, delta, &answer));
    } else {
        q.composed.sigma = sigma * q.options.sigma_unit;
        TRY_DONE(account_dispatch_epsilon(&q.composed, log(delta), &found));
        answer.epsilon = found.value;
        take_answer(&found, &answer);
    }
    *out = answer;
done:
    account_question_close(&q);
    return status;
}

dpmf_status dpmf_account_delta(double sigma, double epsilon, const dpmf_account_options *options, dpmf_privacy *out) {
    account_question q;
    account_answer found;
    dpmf_privacy answer;
    dpmf_status status = DPMF_OK;
    TRY(account_check_sigma(sigma));
    TRY(account_check_epsilon(epsilon));
    TRY(account_question_open(options, &q));
    answer = account_question_answer(&q, sigma, epsilon, 0);
    if (q.sampled) {
        TRY_DONE(account_sampled_delta(&q, sigma, epsilon, &answer));
    } else {
        q.composed.sigma = sigma * q.options.sigma_unit;
        TRY_DONE(account_dispatch_log_delta(&q.composed, epsilon, &found));
        answer = account_question_answer(&q, sigma, epsilon, fmin(1, exp(found.value)));
        take_answer(&found, &answer);
    }
    *out = answer;
done:
    account_question_close(&q);
    return status;
}

dpmf_status dpmf_account_zcdp(double rho, double delta, int gaussian, int64_t compositions, dpmf_privacy *out) {
    if (!(rho > 0 && rho <= 1e9)) return base_fail(DPMF_ERROR_ARGUMENT, "rho %g, accepted: above 0, to 1e9", rho);
    if (compositions < 1 || compositions > ACCOUNT_COMPOSITIONS_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "%lld compositions, accepted 1 to %lld", (long long)compositions,
                         (long long)ACCOUNT_COMPOSITIONS_MAX);
    TRY(account_check_delta(delta));
    double total = rho * (double)compositions, mu = sqrt(2 * rho), total_mu = sqrt(2 * total);
    *out = (dpmf_privacy){
        .epsilon = gaussian ? account_gaussian_epsilon(total_mu, log(delta)) : account_zcdp_epsilon(total, log(delta)),
        .delta = delta,
        .sigma = gaussian ? 1 / mu : 0,
        .mu = gaussian ? mu : 0,
        .rho = rho,
        .total_mu = gaussian ? total_mu : 0,
        .total_rho = total,
        .kind = gaussian ? DPMF_EXACT : DPMF_UPPER_BOUND,
        .compositions = compositions,
        .probability = 1,
        .method = gaussian ? "Gaussian mechanism, closed form" : "zero-concentrated privacy at the best order",
        .slack_met = 1,
    };
    return DPMF_OK;
}
