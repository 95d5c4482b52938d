/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public calls: epsilon from sigma, delta from sigma, rho. The request is opened (account/question.c) and answered by
 * composition (account/composed.c) or by simulation (account/sampled.c).
 */
#include "account/question.h"

#include <math.h>

/* Computes epsilon at delta = `given`, or delta at epsilon = `given`, for this sigma. */
static dpmf_status answer_at(double sigma, int of_epsilon, double given, const dpmf_account_options *options,
                             dpmf_privacy *out) {
    account_request r;
    account_answer found;
    dpmf_privacy answer;
    dpmf_status status = DPMF_OK;
    TRY(account_check_sigma(sigma));
    TRY(of_epsilon ? account_check_delta(given) : account_check_epsilon(given));
    TRY(account_open(options, &r));
    if (r.simulated) {
        answer = account_privacy(&r, sigma, of_epsilon ? INFINITY : given, of_epsilon ? given : 0);
        TRY_DONE(account_sampled_answer(&r, of_epsilon, sigma, &answer));
    } else {
        r.question.of_epsilon = of_epsilon;
        r.question.given = of_epsilon ? log(given) : given;
        r.question.sigma = sigma * r.options.sigma_unit;
        TRY_DONE(account_answer_question(&r.question, &found));
        answer = account_privacy(&r, sigma, of_epsilon ? found.value : given,
                                 of_epsilon ? given : fmin(1, exp(found.value)));
        answer.kind = found.kind;
        answer.method = found.method;
        answer.slack_met = found.met;
    }
    *out = answer;
done:
    account_close(&r);
    return status;
}

dpmf_status dpmf_account_epsilon(double sigma, double delta, const dpmf_account_options *options, dpmf_privacy *out) {
    return answer_at(sigma, 1, delta, options, out);
}

dpmf_status dpmf_account_delta(double sigma, double epsilon, const dpmf_account_options *options, dpmf_privacy *out) {
    return answer_at(sigma, 0, epsilon, options, out);
}

dpmf_status account_estimate_epsilon(double sigma, double delta, const dpmf_account_options *options, double *epsilon,
                                     int *found) {
    account_request r;
    dpmf_status status = DPMF_OK;
    *found = 0;
    TRY(account_check_sigma(sigma));
    TRY(account_check_delta(delta));
    TRY(account_open(options, &r));
    r.question.of_epsilon = 1;
    r.question.given = log(delta);
    r.question.sigma = sigma * r.options.sigma_unit;
    if (!r.simulated) TRY_DONE(account_estimate(&r.question, epsilon, found));
done:
    account_close(&r);
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
